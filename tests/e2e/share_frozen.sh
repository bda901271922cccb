#!/usr/bin/env bash
# A member is stopped by SIGSTOP for several times share.straggler_s: the others wait for it once, and then continue. It
# returns, and the result equals the group in one process with the same list of absences. In all modes.
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
	# Steps take a while, so that the returning member finds some left to do.
	points=(client.apply=delay:250@1+ '' client.apply=delay:250@1+)
	while_they_train=stand_still members "$mode" "$config" 3 "${set[@]}"
	said_late "$mode" 0 2
	waits=$(grep -c "group-late: group $mode: .* without member 1, .*straggler_s" "$tmp/one.log" || true)
	# Once; a busy machine may make it late one more time.
	[ "$waits" -ge 1 ] && [ "$waits" -le 2 ] || fail "$mode: the others waited $waits times for the member that stood still"
	[[ $absent = *1:* ]] || fail "$mode: the member that stood still was in every step"
	as_told "$mode" "$config" 3 "$absent" "${set[@]}"
}
# step_of NAME: prints the number of its last step in log.jsonl.
step_of() { sed -nE '/^\{"type":"step"/s/.*"step":([0-9]+),.*/\1/p' "$tmp/$1/log.jsonl" | tail -n 1; }
is_at() { [ "$(step_of "$1")" -ge "$2" ]; }
late_at() { sed -nE "s/.*group-late: group $mode: step ([0-9]+) was done without member 1,.*/\1/p" "$tmp/one.log" | head -n 1; }
# stand_still: stops member 1 until the others have left it out and are 6 steps ahead. In serial mode a step is one
# member's turn. With this seed member 1 waits at most 4 steps for its next turn, so it misses one of its own, too.
stand_still() {
	wait_for "$mode: member 1 does not train" has_steps "$mode-1" 2
	signal STOP "${pid[1]}"
	wait_for "$mode: nobody is left out" grep -q "group-late: group $mode: .* without member 1" "$tmp/one.log"
	wait_for "$mode: the others do not go on" is_at "$mode-0" $(($(late_at) + 6))
	signal CONT "${pid[1]}"
}
frozen sync
frozen serial train.max_steps=60
frozen rounds share.round=4
echo "share_frozen: ok"
