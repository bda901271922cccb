#!/usr/bin/env bash
# A member of a group is stopped by a signal for several times share.straggler_s: the others wait for it once, and go on. It comes back,
# and what was learned equals the group in one process that is told who was absent when. So in all modes.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
start_server one threads=2
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: 0.01/' "$tmp/client.yaml"
steps=48 freeze_s=5

# frozen MODE [key=value]…
frozen() {
	local mode=$1 set=() pair k pid=() absent
	shift
	set=(--set share.mode="$mode" --set train.epochs=1000 --set train.max_steps=$steps --set train.eval_every=0 --set data.partition=iid
		--set share.clients=3 --set share.straggler_s=1 --set share.ends=private --set train.checkpoint_every=0 --set train.schedule.warmup_epochs=0
		--set link.timeout_ms=60000 --set link.heartbeat_ms=20000 --set share.group="$mode")
	for pair in "$@"; do set+=(--set "$pair"); done
	for k in 0 1 2; do # steps take a while, so that the one that comes back finds some left to do
		SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=$([ $k = 1 ] || echo client.apply=delay:250@1+) \
			start_client "$mode-$k" "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member=$k
		pid[k]=$client_pid
	done
	wait_for "$mode: member 1 does not train" has_steps "$mode-1" 2
	signal STOP "${pid[1]}"
	sleep $freeze_s
	signal CONT "${pid[1]}"
	for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "$mode, member $k"; done
	# a busy machine may make another one late: then the server says so, and the oracle leaves it out, too
	absent=$(for k in 0 1 2; do sed -nE "/\"skipped\":true/s/.*\"step\":([0-9]+),.*/$k:\1/p" "$tmp/$mode-$k/log.jsonl"; done | paste -sd,)
	for k in 0 2; do
		! grep -q '"skipped":true' "$tmp/$mode-$k/log.jsonl" || grep -q "group-late: group $mode: .* without member $k" "$tmp/one.log" ||
			fail "$mode: member $k was left out of a step, and the server does not say so"
	done
	waits=$(grep -c "group-late: group $mode: .* without member 1, .*straggler_s" "$tmp/one.log" || true)
	# five times share.straggler_s; a busy machine may make it late once more
	[ "$waits" -ge 1 ] && [ "$waits" -le 2 ] || fail "$mode: the others waited $waits times for the member that stood still"
	[[ $absent = *1:* ]] || fail "$mode: the member that stood still was in every step"
	client "$mode" "$tmp/client.yaml" --local "${set[@]}" --absent "$absent" || fail "$mode, the oracle: exit status $?"
	for k in 0 1 2; do same_run "$mode-$k" "$mode/member-$k" "$(steps_of "$mode/member-$k")"; done
}
frozen sync
frozen serial
frozen rounds share.round=4
echo "share_frozen: ok"
