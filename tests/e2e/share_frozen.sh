#!/usr/bin/env bash
# A member of a group is stopped by a signal for several times share.straggler_s: the others wait for it once, and go on. It comes back,
# and what was learned equals the group in one process that is told who was absent when. So in all modes.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.01 96 16
config=$tmp/sgd.yaml

# frozen MODE [key=value]…
frozen() {
	local mode=$1 set=() pair k pid=() absent
	set=(--set share.mode="$mode" --set train.epochs=1000 --set train.max_steps=48 --set train.eval_every=0 --set data.partition=iid
		--set share.straggler_s=1 --set share.ends=private --set train.checkpoint_every=0 --set train.schedule.warmup_epochs=0
		--set link.timeout_ms=60000 --set link.heartbeat_ms=20000)
	for pair in "${@:2}"; do set+=(--set "$pair"); done
	# steps take a while, so that the one that comes back finds some left to do
	points=(client.apply=delay:250@1+ '' client.apply=delay:250@1+)
	while_they_train=stand_still members "$mode" "$config" 3 "${set[@]}"
	for k in 0 2; do # a busy machine may make another one late: then the server says so, and the oracle leaves it out, too
		! grep -q '"skipped":true' "$tmp/$mode-$k/log.jsonl" || grep -q "group-late: group $mode: .* without member $k" "$tmp/one.log" ||
			fail "$mode: member $k was left out of a step, and the server does not say so"
	done
	waits=$(grep -c "group-late: group $mode: .* without member 1, .*straggler_s" "$tmp/one.log" || true)
	# once; a busy machine may make it late once more
	[ "$waits" -ge 1 ] && [ "$waits" -le 2 ] || fail "$mode: the others waited $waits times for the member that stood still"
	[[ $absent = *1:* ]] || fail "$mode: the member that stood still was in every step"
	as_told "$mode" "$config" 3 "$absent" "${set[@]}"
}
# stand_still: member 1, until the others have left it out and member 0 has done some more steps
stand_still() {
	wait_for "$mode: member 1 does not train" has_steps "$mode-1" 2
	signal STOP "${pid[1]}"
	wait_for "$mode: nobody is left out" grep -q "group-late: group $mode: .* without member 1" "$tmp/one.log"
	wait_for "$mode: the others do not go on" has_steps "$mode-0" $(($(steps_of "$mode-0") + ${turns:-6}))
	signal CONT "${pid[1]}"
}
frozen sync
turns=2 frozen serial train.max_steps=60
frozen rounds share.round=4
echo "share_frozen: ok"
