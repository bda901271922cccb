#!/usr/bin/env bash
# One of three members goes for good. The others wait for it once they owe it a step. The operator takes its line out of
# the list of clients and sends SIGHUP: they go on to the end, with status 0, and are what one process is with that
# member absent to the end. Table, JSON and the server's log say that it was taken off. A server that is started again
# afterwards knows it, too. A member whose link stands is ended, and nobody waits for it.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 60 16
write_config "$tmp/client.yaml"
sed -i "s/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/train_limit: [0-9]*/train_limit: 0/" "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
for who in server a b c d; do "$SPLITS" keygen --out "$tmp/$who.key" >"$tmp/$who.pub" 2>"$tmp/$who.keygen" || { grep -q 'has no CURVE' "$tmp/$who.keygen" && exit 77; fail "keygen $who"; }; done
site=(a b c d)
steps=60
set=(--set train.epochs=1000 --set train.max_steps=$steps --set train.eval_every=0 --set train.checkpoint_every=10 --set train.schedule.kind=constant
	--set train.schedule.warmup_epochs=0 --set share.clients=3 --set share.patience_s=1 --set data.partition=iid --set share.epoch_steps=0
	--set link.retry_ms=20 --set link.heartbeat_ms=200 --set link.timeout_ms=3000)

allow() { # SITE…: the list has these, each with both groups
	local who
	for who in "$@"; do echo "$(cat "$tmp/$who.pub") site-$who group=gone,linked"; done >"$tmp/clients.new"
	mv "$tmp/clients.new" "$tmp/clients"
}
serve() {
	start_server "$1" "listen=tcp://127.0.0.1:$port" "store=$tmp/store" "auth.secret_key=$tmp/server.key" "auth.clients=$tmp/clients"
	serving=$1
}
member() { # K [argument]…
	start_slow_client 1 15 "$name-$1" "$tmp/client.yaml" "${set[@]}" --set share.group="$name" --set server="tcp://127.0.0.1:$port" --set share.member="$1" \
		--set auth.secret_key="$tmp/${site[$1]}.key" --set auth.server_key="$tmp/server.pub" "${@:2}"
	pid[$1]=$client_pid
}
says() { wait_for "$name: the server does not say $1" grep -q "$1" "$tmp/$serving.log"; }
begin() {
	local k
	name=$1
	allow a b c
	serve "$name-server"
	for k in 0 1 2; do member $k $([ $k != 1 ] || echo --json); done
	wait_for "$name: member 2 does not train" has_steps "$name-2" 12
}
ends() {
	local k absent
	for k in 0 1; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	absent=$(jq -r 'select(.type == "summary").group.absent' "$tmp/$name-0/log.jsonl")
	client "$name" "$tmp/client.yaml" --local "${set[@]}" --set share.group="$name" --absent "$absent" || fail "$name in one process, --absent $absent: exit status $?"
	for k in 0 1; do
		cmp "$tmp/$name-$k/model.safetensors" "$tmp/$name/member-$k/model.safetensors" || fail "$name, --absent $absent: member $k has other weights"
	done
	grep -qE "^2 .*away in steps [0-9]+-$steps, taken off the server's list" "$tmp/$name-0.log" || fail "$name: the table does not say it: $(grep '^2 ' "$tmp/$name-0.log")"
	grep '^{' "$tmp/$name-1.log" | jq -e '.group.members[2].off and (.group.members[0].off | not)' >/dev/null || fail "$name: JSON does not say it"
	says 'group-parts: .*member 2 .*(taken off the list)'
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "$name: the server"
}

port=$(free_port)
begin gone
end_process "${pid[2]}"
says 'group-owes: group gone waits behind step [0-9]* for member 2, which is away.*: it has missed [0-9]* steps, and may miss [0-9]* of all [0-9]* (share.least is '
allow a b
signal HUP "$server_pid"
says 'group-off: group gone goes on without member 2'
# Another key gets no seat that is closed: it hears so, and does not ask again.
allow a b d
signal HUP "$server_pid"
rc=0
client stranger "$tmp/client.yaml" "${set[@]}" --set share.group=gone --set server="tcp://127.0.0.1:$port" --set share.member=2 --set auth.secret_key="$tmp/d.key" \
	--set auth.server_key="$tmp/server.pub" || rc=$?
[ $rc = 78 ] && grep -q 'member 2 of group gone was taken off the list of clients, and its seat is closed to others: this client needs another number' "$tmp/stranger.log" ||
	fail "gone: another key on a closed seat: status $rc: $(tail -n 2 "$tmp/stranger.log")"
wait_for 'the others do not go on' has_steps gone-0 30
end_process "$server_pid"
serve gone-again
ends

begin linked
allow a b
signal HUP "$server_pid"
ends_with "${pid[2]}" 77 $patience 'linked: the member that was taken off'
says 'group-off: group linked goes on without member 2'
! grep -q group-owes "$tmp/$serving.log" || fail 'linked: the group waits for it'
ends
echo "share_off: ok"
