#!/usr/bin/env bash
# The server's disk is full behind the first checkpoint, so it cannot store the group's last step. A member dies before its
# model is written: the others wait for it, and repeat those steps with it. In another run they wait for share.straggler_s
# alone: the member that comes back later is told that it comes too late, and does not train by itself.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 48 24
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
set=(--set share.group=full --set share.clients=3 --set data.partition=iid --set train.epochs=3 --set train.checkpoint_every=2
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0 --set link.on_server_lost=wait --set link.retry_ms=20)
client local "$tmp/client.yaml" "${set[@]}" --local || fail "in one process: exit status $?"
steps=$(steps_of local/member-0)
# begin RUN K [argument]…: starts member K, which dies with $fp.
begin() {
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=${fp:-} start_client "$1-$2" "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member="$2" "${@:3}"
	pid[$2]=$client_pid
}
# dies RUN STRAGGLER_S: the run up to the death of member 1.
dies() {
	set+=(--set share.straggler_s="$2")
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
dies waits 0
wait_for 'the others do not write their models' test -s "$tmp/waits-2/model.safetensors" -a -s "$tmp/waits-0/model.safetensors"
begin waits 1 --resume
for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "waits, member $k"; done
for k in 0 1 2; do same_run waits-$k local/member-$k "$steps"; done

set+=(--set share.wait_s=3)
dies leaves 1
for k in 0 2; do ends_with "${pid[k]}" 0 $patience "leaves, member $k"; done
begin leaves 1 --resume
ends_with "${pid[1]}" 78 $patience 'leaves: the member that comes back'
grep -q "the other members of group full have finished behind step $steps, which member 1 does not hold" "$tmp/leaves-1.log" ||
	fail "it is not told why: $(tail -n 1 "$tmp/leaves-1.log")"
echo "share_full: ok"
