#!/usr/bin/env bash
# The end of a run where each step needs all members (share.least: 1), in each mode. A member is killed before the
# checkpoint of its last step is on its disk: the
# others, which have finished, wait for it and repeat those steps with it; in two modes the server is killed meanwhile,
# too. Then the server is killed when it has noted that all may leave, before anybody was told. Then a member is killed
# while it waits for the server: the others end without it, and later it ends without them. All have the weights of the
# group in one process. In one mode a member is killed while its first checkpoint is being written, and another one soon
# after all have begun anew. Then the server's disk is full behind the first checkpoint, so it cannot store the group's
# last step. A member dies before its model is written. The others write theirs and wait, and repeat those steps with it
# once another server has room.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 48 24
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
epochs=(--set train.epochs=2 --set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
# last_step NAME: prints the number of the last step of all members.
last_step() { grep -ho '^{"type":"step","step":[0-9]*' "$tmp/$1"/member-*/log.jsonl | grep -o '[0-9]*$' | sort -n | tail -n 1; }
serve() { SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=${2:-} start_server "$1" "listen=$endpoint" "store=$tmp/store-$name"; }
# member K [argument]…: starts or resumes member K.
member() {
	local k=$1
	shift
	start_client "$name-$k" "$tmp/client.yaml" "${set[@]}" "${epochs[@]}" --set server="$endpoint" --set share.member="$k" "$@"
	pid[k]=$client_pid
}
begin() { # FAILPOINTS of member $slow, and of another one
	local k fp
	for k in 0 1 2; do
		fp=
		[ $k != "$slow" ] || fp=$1
		[ $k != "${others[0]}" ] || fp=${2:-}
		SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=$fp member $k
	done
}
end() { # MEMBER…
	for k in "$@"; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
}
alike() {
	for k in 0 1 2; do same_run "$name-$k" "$mode/member-$k" "$(steps_of "$mode/member-$k")"; done
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "$name: the server"
}
# dies_at_end [kill-server]: member $slow has no checkpoint of its last step, but one of an earlier step, without which
# it could not resume. Its disk is slower than the steps: the others wait for it, so all have a step in common.
dies_at_end() {
	name=$mode-dies
	serve "$name-server"
	begin "client.logged=delay:600000@$last,ckpt.sync=delay:400@1+"
	dies_at "$name-$slow" client.logged "${pid[slow]}"
	wait_for "$name: the others are not done" grep -q "group-done.* 2 of 3" "$tmp/$name-server.log"
	for k in "${others[@]}"; do kill -0 "${pid[k]}" || fail "$name: member $k has left, which is needed once more"; done
	if [ $# = 1 ]; then
		end_process "$server_pid"
		serve "$name-again"
	fi
	member "$slow" --resume
	end 0 1 2
	alike
}
# unheard: the server dies after all may leave, before anybody was told.
unheard() {
	name=$mode-unheard
	serve "$name-server" server.let_go=kill
	begin ''
	ends_with "$server_pid" 137 $patience "$name: the server that dies"
	end_process "${pid[slow]}"
	serve "$name-again"
	end "${others[@]}"
	member "$slow" --resume
	end "$slow"
	alike
}
# anew: a member that was killed before its first checkpoint begins anew, and so all do. The others' checkpoints then
# belong to an abandoned run: a member that is killed before it wrote a new one begins anew as well.
anew() {
	name=$mode-anew
	serve "$name-server"
	begin client.keep=kill client.begin=kill@5 # three steps begin at most before the first one is back
	ends_with "${pid[slow]}" 137 $patience "$name: the member whose checkpoint is not written"
	member "$slow" --fresh
	ends_with "${pid[others[0]]}" 137 $patience "$name: the member that is killed behind the beginning"
	! compgen -G "$tmp/$name-${others[0]}/checkpoint-*" >/dev/null || fail "$name: there is a checkpoint of another past"
	member "${others[0]}" --fresh
	end 0 1 2
	alike
}
for mode in sync serial rounds; do
	set=(--set share.mode=$mode --set share.group=$mode --set share.ends=private --set share.clients=3 --set share.least=1 --set data.partition=iid
		--set train.checkpoint_every=2 --set link.on_server_lost=wait --set link.retry_ms=20 --set codec='topk:0.3,ef=true|quant:8')
	client $mode "$tmp/client.yaml" "${set[@]}" "${epochs[@]}" --local || fail "$mode in one process: exit status $?"
	# $slow is the member with the last step of all; in mode serial that may be any member.
	for slow in 1 0 2; do ! grep -q "^{\"type\":\"step\",\"step\":$(last_step $mode)," "$tmp/$mode/member-$slow/log.jsonl" || break; done
	others=($(printf '%s\n' 0 1 2 | grep -v "$slow"))
	last=$(steps_of $mode/member-$slow)
	endpoint=tcp://127.0.0.1:$(free_port)
	if [ $mode = sync ]; then dies_at_end; else dies_at_end kill-server; fi
	unheard
	[ $mode != sync ] || anew
done

# ---- a full disk of the server
set=(--set share.group=full --set share.clients=3 --set share.least=1 --set data.partition=iid --set train.epochs=3 --set train.checkpoint_every=2
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0 --set link.on_server_lost=wait --set link.retry_ms=20)
client local "$tmp/client.yaml" "${set[@]}" --local || fail "in one process: exit status $?"
steps=$(steps_of local/member-0)
# begin RUN K [argument]…: starts member K, which dies with $fp.
begin() {
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=${fp:-} start_client "$1-$2" "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member="$2" "${@:3}"
	pid[$2]=$client_pid
}
# dies RUN: the run up to the death of member 1.
dies() {
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=ckpt.open=ENOSPC@2+ start_server "$1-server" "store=$tmp/store-$1"
	for k in 0 1 2; do
		fp=
		[ $k != 1 ] || fp=model.open=kill
		begin "$1" $k
	done
	fp=
	ends_with "${pid[1]}" 137 $patience "$1: the member that dies"
	[ "$(steps_of "$1-1")" = "$steps" ] || fail "$1: it died behind $(steps_of "$1-1") steps, not $steps"
	grep -q 'No space left' "$tmp/$1-server.log" || fail "$1: the server's disk was not full"
}
dies waits
wait_for 'the others do not write their models' test -s "$tmp/waits-2/model.safetensors" -a -s "$tmp/waits-0/model.safetensors"
! grep -q group-leaves "$tmp/waits-server.log" || fail 'waits: a member leaves, and the last state is not stored'
end_process "$server_pid" # the next one has room
start_server waits-again "listen=$endpoint" "store=$tmp/store-waits"
begin waits 1 --resume
for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "waits, member $k"; done
for k in 0 1 2; do same_run waits-$k local/member-$k "$steps"; done

echo "share_left: ok"
