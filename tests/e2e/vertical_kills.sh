#!/usr/bin/env bash
# A party of a vertical group, the other one or the server is killed at a failpoint and started again: both parties learn,
# byte for byte, what one process learns. A party that stays away: the other one ends, and names it. With SPLIT_LONG
# both parties at each failpoint, else one of them.
set -eu
cd "$(dirname "$0")/../.."
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/vertical.sh
make_data 84 24
write_parties
keys=(train.epochs=2 train.checkpoint_every=3 train.optimizer.kind=adamw train.optimizer.lr=0.002 'codec=topk:0.3,ef=true|quant:8' data.prefetch=1
	link.on_server_lost=wait link.retry_ms=10 link.heartbeat_ms=50 link.timeout_ms=1000 link.connect_timeout_ms=2000)
sed -i 's/optimizer: {.*}/optimizer: {kind: adamw, lr: 0.002}/' "$tmp/A.yaml" "$tmp/B.yaml"
endpoint=tcp://127.0.0.1:$(free_port)
config_of A oracle "${keys[@]}"
config_of B oracle "${keys[@]}"
client oracle "$tmp/oracle-A.yaml" --local --party "$tmp/oracle-B.yaml" || fail "in one process: exit status $?"

over() { grep -q '"outcome":"finished"' "$tmp/$1/log.jsonl" 2>/dev/null && [ -f "$tmp/$1/model.safetensors" ] && ! has_checkpoint "$1"; }

# started_again PARTY NAME: it was killed, and goes on; or it was done.
started_again() {
	local how=--fresh
	over "$2-$1" && return
	! has_checkpoint "$2-$1" || how=--resume
	mv "$tmp/$2-$1.log" "$tmp/$2-$1.first"
	begin_party "$1" "$2" $how
	pid[$1]=$client_pid
}

# kills NAME WHO POINT: WHO (A, B or S, the server) dies at POINT, and is started again.
kills() {
	local name=$1 who=$2 points_A= points_B= points_S= server_pid rc until=$((SECONDS + patience)) died=0 k
	local -A pid=()
	declare "points_$who=$3"
	config_of A "$name" "${keys[@]}"
	config_of B "$name" "${keys[@]}"
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=$points_S start_server "$name-S" "listen=$endpoint" "store=$tmp/store-$name"
	for k in A B; do
		begin_party $k "$name"
		pid[$k]=$client_pid
	done
	points_A= points_B=
	while [ ${#pid[@]} -gt 0 ]; do
		[ $SECONDS -lt $until ] || fail "$name: still running after $patience s"
		if ! kill -0 "$server_pid" 2>/dev/null; then
			rc=0
			{ wait "$server_pid" || rc=$?; } 2>/dev/null
			[ $rc = 137 ] || fail "$name: the server ended with status $rc"
			died=$((died + 1))
			start_server "$name-again" "listen=$endpoint" "store=$tmp/store-$name"
		fi
		for k in "${!pid[@]}"; do
			kill -0 "${pid[$k]}" 2>/dev/null && continue
			rc=0
			{ wait "${pid[$k]}" || rc=$?; } 2>/dev/null
			unset "pid[$k]"
			[ $rc = 0 ] || [ $rc = 137 ] || fail "$name: $k ended with status $rc: $(tail -n 2 "$tmp/$name-$k.log")"
			[ $rc = 0 ] || died=$((died + 1))
			[ $rc = 0 ] || started_again $k "$name"
		done
		read -r -t 0.01 -u "$never" || true
	done
	signal TERM "$server_pid"
	rc=0
	{ wait "$server_pid" || rc=$?; } 2>/dev/null
	[ $rc != 137 ] || died=$((died + 1))
	[ $died = 1 ] || fail "$name: $died kills, not 1"
	as_one "$name" oracle
	rm -rf "$tmp/store-$name" "$tmp/$name"-[AB]
}
mkfifo "$tmp/never"
exec {never}<>"$tmp/never"

# stays_away WHO OTHER NUMBER: WHO is killed, and does not come back: OTHER ends with 69, and names it.
stays_away() {
	local name=away-$1 points_A= points_B= other
	config_of A "$name" "${keys[@]}" share.wait_s=1 link.on_server_lost=exit
	config_of B "$name" "${keys[@]}" share.wait_s=1 link.on_server_lost=exit
	start_server "$name-S" "listen=$endpoint" "store=$tmp/store-$name"
	begin_party "$2" "$name"
	other=$client_pid
	declare "points_$1=client.begin=kill@5"
	begin_party "$1" "$name"
	ends_with "$client_pid" 137 $patience "$name: $1"
	ends_with "$other" 69 $patience "$name: $2"
	grep -q "^splitc: .*missing are members $3" "$tmp/$name-$2.log" || fail "$name: $2 does not name it: $(tail -n 1 "$tmp/$name-$2.log")"
	signal TERM "$server_pid"
	{ wait "$server_pid" || true; } 2>/dev/null
}
stays_away A B 0
stays_away B A 1

of_client=(client.given=kill client.begin=kill@5 port.post=kill@20 client.commit=kill@4 client.asked=kill@9 client.answer=kill@4 client.apply=kill@6
	client.applied=kill@9 client.logged=kill@7 client.kept=kill@2 client.fetched=kill client.saved=kill client.leave=kill link.receive=kill@40)
of_server=(server.chosen=kill server.eval=kill@4 server.commit=kill@7 server.apply=kill@5 server.applied=kill@9 server.kept=kill@2
	server.answered=kill@11 server.gather=kill link.receive=kill@80)
n=0
for point in "${of_client[@]}"; do
	n=$((n + 1))
	for who in A B; do
		# one party at each point, unless SPLIT_LONG asks for both
		[ -n "${SPLIT_LONG:-}" ] || { [ $who = A ] && [ $((n % 2)) = 0 ]; } || { [ $who = B ] && [ $((n % 2)) = 1 ]; } || continue
		kills "$who-$n" $who "$point"
	done
done
for point in "${of_server[@]}"; do
	n=$((n + 1))
	kills "S-$n" S "$point"
done
