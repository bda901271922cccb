#!/usr/bin/env bash
# Members with files of their own, of unequal sizes, those of evaluations too, in each mode: over links they end as the group in one process, over
# a kill of a member and of the server. Invalid settings are refused, with a sentence that says what would be right.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
for k in 0 1 2; do # 6, 4 and 2 batches of 8
	make_data 48 16
	mv "$tmp/data" "$tmp/site-$k"
	truncate -s $(((48 - 20 * k + 4 * (k / 2)) * 3073)) "$tmp/site-$k/data_batch_1.bin"
	truncate -s $(((4 + 6 * k) * 3073)) "$tmp/site-$k/test_batch.bin" # 1, 2 and 2 batches
done
train_images=0
port=$(free_port)
serve() { start_server "$1" threads=2 listen=tcp://127.0.0.1:"$port"; }
serve one
write_config "$tmp/client.yaml"
sed -i 's/, test_limit: [0-9]*/, test_limit: 16/' "$tmp/client.yaml"
sed -i "s/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s|$tmp/data|$tmp/site-%m|" "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
set=(--set share.clients=3 --set share.straggler_s=0 --set share.ends=private --set train.epochs=3 --set train.checkpoint_every=2 --set train.schedule.warmup_epochs=0
	--set codec='topk:0.5,ef=true' --set link.retry_ms=50 --set link.on_server_lost=wait)
begin() { # GROUP MEMBER [argument]…
	start_client "$1-$2" "$tmp/client.yaml" "${set[@]}" \
		--set server="$endpoint" --set share.group="$1" --set share.member="$2" "${@:3}"
	pid[$2]=$client_pid
}
# trains MODE STEPS KEPT [key=value]…: member 1 waits for its first checkpoint, after step KEPT, and dies. The server
# dies while the group waits for that member, and its next process dies at its seventh step.
trains() {
	local mode=$1 steps=$2 kept=$3 more=() pair
	for pair in "share.mode=$1" "${@:4}"; do more+=(--set "$pair"); done
	client "$mode" "$tmp/client.yaml" --local "${set[@]}" "${more[@]}" --set share.group="$mode" || fail "$mode in one process: exit status $?"
	for k in 0 2; do begin "$mode" $k "${more[@]}"; done
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.kept=kill,client.apply=delay:600000@$((kept + 1)) begin "$mode" 1 "${more[@]}"
	ends_with "${pid[1]}" 137 $patience "$mode: the member that is killed"
	end_process "$server_pid"
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=server.applied=kill@7 serve "$mode-dies"
	begin "$mode" 1 "${more[@]}" --resume
	ends_with "$server_pid" 137 $patience "$mode: the server that is killed"
	serve "$mode-again"
	for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "$mode, member $k"; done
	for k in 0 1 2; do same_run "$mode-$k" "$mode/member-$k" "$(steps_of "$mode/member-$k")"; done
	[ "$(steps_of "$mode-0")" = "$steps" ] || fail "$mode: member 0 has $(steps_of "$mode-0") steps, not $steps"
}
trains sync 18 2 share.epoch_steps=6
trains rounds 18 6 share.epoch_steps=6
trains serial 18 2 share.batches=6,4,2
[ "$(steps_of serial-1)" = 12 ] && [ "$(steps_of serial-2)" = 6 ] || fail 'serial: members do not have their own steps'

# refused NAME PHRASE MEMBERS [key=value]…: each of the members ends with that sentence.
refused() {
	local name=$1 phrase=$2 k more=()
	for pair in "${@:4}"; do more+=(--set "$pair"); done
	for k in $3; do begin "$name" $k "${more[@]}" --set link.on_server_lost=exit; done
	for k in $3; do
		wait_for "$name: member $k goes on" eval "! kill -0 ${pid[k]}"
	done
	cat "$tmp/$name"-[0-2].log >"$tmp/$name.log"
	grep -q "$phrase" "$tmp/$name.log" || fail "$name: nobody says $phrase"
}
begin other 0 --set share.wait_s=3
wait_for 'member 0 does not wait' grep -q 'group other: member 0 is here' "$tmp/serial-again.log"
refused other 'an epoch of group other has 6 steps, one of this client has 4: where members have unequal data, all need the same share.epoch_steps' 1 share.wait_s=3
# A member whose group cannot become complete ends in time, and says why.
ends_with "${pid[0]}" 78 $patience 'other, member 0'
grep -q 'group other was not complete within 3 s: missing are members 1 (refused: share.epoch_steps: an epoch of group other.*), 2$' \
	"$tmp/other-0.log" || fail "the member that waits does not say for whom: $(cat "$tmp/other-0.log")"
begin alone 0 --set share.wait_s=1 --set link.on_server_lost=exit
ends_with "${pid[0]}" 69 $patience 'alone, member 0'
grep -q 'group alone was not complete within 1 s: missing are members 1, 2$' "$tmp/alone-0.log" ||
	fail "the member that is alone says something else: $(cat "$tmp/alone-0.log")"
begin net 0 --set share.wait_s=3 --set share.epoch_steps=6
wait_for 'member 0 does not wait' grep -q 'group net: member 0 is here' "$tmp/serial-again.log"
refused net 'group net trains another middle' 1 share.wait_s=3 share.epoch_steps=6 model.width=0.5 model.weights=
ends_with "${pid[0]}" 78 $patience 'net, member 0'
grep -q 'missing are members 1 (refused: group net trains another middle.*), 2$' "$tmp/net-0.log" ||
	fail "the member that waits does not say who was refused: $(cat "$tmp/net-0.log")"
begin every 0 --set share.wait_s=3 --set share.epoch_steps=6
wait_for 'member 0 does not wait' grep -q 'group every: member 0 is here' "$tmp/serial-again.log"
refused every "^splitc: .*set train.checkpoint_every: .*the group every has" 1 share.wait_s=3 share.epoch_steps=6 train.checkpoint_every=7
ends_with "${pid[0]}" 78 $patience 'every, member 0'
begin listed 0 --set share.mode=serial --set share.batches=6,4,2
wait_for 'member 0 does not wait' grep -q 'group listed: member 0 is here' "$tmp/serial-again.log"
refused listed "share.batches: .*this client's list is another than that of group listed" 1 share.mode=serial share.batches=5,4,3
refused listed 'this client is member 2, and its data make 2 batches of train.batch, not 3' 2 share.mode=serial share.batches=6,4,3
end_process "${pid[0]}"
sed -i 's|site-%m|site-0|' "$tmp/client.yaml"
# Members that divide one set in different ways would have samples of each other.
begin dealt 0 --set data.partition=iid
wait_for 'member 0 does not wait' grep -q 'group dealt: member 0 is here' "$tmp/serial-again.log"
refused dealt 'division of the data is not that of group dealt.*the same data.partition, data.split' 1 data.partition=by_label
refused dealt 'division of the data is not that of group dealt' 1 data.partition=iid data.train_limit=47
end_process "${pid[0]}"
wrong() {
	local rc=0
	client wrong "$tmp/client.yaml" --local "${set[@]}" --set share.group=wrong "${@:2}" || rc=$?
	[ $rc -ge 64 ] && grep -q "$1" "$tmp/wrong.log" || fail "$*: status $rc"
}
wrong 'share.batches: needs a number for each of the 3 members' --set share.mode=serial --set share.batches=6,4
wrong 'share.batches: belongs to share.mode: serial' --set share.batches=6,4,2
wrong 'share.batches: .*must be whole numbers from 1 on' --set share.mode=serial --set share.batches=6,4,x
wrong 'share.epoch_steps: belongs to share.mode: sync and rounds' --set share.mode=serial --set share.epoch_steps=6
wrong 'share.epoch_steps: belongs to data.partition: files' --set share.epoch_steps=6 --set data.partition=iid
echo "share_unequal: ok"
