#!/usr/bin/env bash
# The server of a group is killed when some members are done and others are not. Those that are done do not come back, and the others
# finish without them, with the weights that they would have had: wherever the kill falls. In a first run of each mode the server dies
# as it hears the first goodbye, before anything of it is on the disk; in a second one when two members have ended.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 48 24
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
epochs=(--set train.epochs=2 --set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
# last_step NAME: the number of the last step of all members
last_step() { grep -ho '^{"type":"step","step":[0-9]*' "$tmp/$1"/member-*/log.jsonl | grep -o '[0-9]*$' | sort -n | tail -n 1; }
# last_alone MODE [failpoint]: member $slow stands still behind the last step, until the server was killed and is back
last_alone() {
	local mode=$1 point=${2:-} name=$1${2:+-unheard} k
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=$point start_server "$name-server" "listen=$endpoint" "store=$tmp/store-$name"
	for k in 0 1 2; do
		SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=$([ $k != "$slow" ] || echo "client.logged=delay:1500@$last") \
			start_client "$name-$k" "$tmp/client.yaml" "${set[@]}" "${epochs[@]}" --set server="$endpoint" --set share.member=$k
		pid[k]=$client_pid
	done
	at_point "$name-$slow" client.logged
	kill -STOP "${pid[slow]}"
	if [ -n "$point" ]; then
		ends_with "$server_pid" 137 $patience "$name: the server that dies of the first goodbye"
	else
		for k in "${others[@]}"; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
		kill -9 "$server_pid"
		wait "$server_pid" 2>/dev/null || true
	fi
	! grep -q '"type":"summary"' "$tmp/$name-$slow/log.jsonl" || fail "$name: member $slow was done before the server was killed"
	start_server "$name-again" "listen=$endpoint" "store=$tmp/store-$name"
	kill -CONT "${pid[slow]}"
	ends_with "${pid[slow]}" 0 $patience "$name: the member that was not done"
	[ -z "$point" ] || for k in "${others[@]}"; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	for k in 0 1 2; do same_run "$name-$k" "$mode/member-$k" "$(steps_of "$mode/member-$k")"; done
	kill "$server_pid"
	ends_with "$server_pid" 0 $patience "$name: the server"
}
for mode in sync serial rounds; do
	set=(--set share.mode=$mode --set share.group=$mode --set share.clients=3 --set share.straggler_s=0 --set data.partition=iid
		--set train.checkpoint_every=2 --set link.on_server_lost=wait --set link.retry_ms=20 --set codec='topk:0.3,ef=true|quant:8')
	client $mode "$tmp/client.yaml" "${set[@]}" "${epochs[@]}" --local || fail "$mode in one process: exit status $?"
	# the one whose step is the last of all: in mode serial another member's may be
	for slow in 1 0 2; do ! grep -q "^{\"type\":\"step\",\"step\":$(last_step $mode)," "$tmp/$mode/member-$slow/log.jsonl" || break; done
	others=($(printf '%s\n' 0 1 2 | grep -v "$slow"))
	last=$(steps_of $mode/member-$slow)
	endpoint=tcp://127.0.0.1:$(free_port)
	last_alone $mode
	last_alone $mode server.left=kill
done
echo "share_left: ok"
