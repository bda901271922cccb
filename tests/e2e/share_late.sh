#!/usr/bin/env bash
# A member pauses: the others wait share.straggler_s for it, once, and continue without it. It returns, is told which
# steps it missed, and trains on. The result equals the group in one process with the same list of absences.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.01 96 16
config=$tmp/sgd.yaml
steps=40
set=(--set train.epochs=1000 --set train.max_steps=$steps --set train.eval_every=0 --set data.partition=iid --set share.ends=private
	--set share.straggler_s=2 --set train.checkpoint_every=0 --set train.schedule.warmup_epochs=0 --set link.timeout_ms=60000
	--set link.heartbeat_ms=20000 --set codec='topk:0.5,ef=true')

# Steps take a while, so that member 1, which pauses as it begins its 4th step, finds some left to do when it returns.
points=(client.apply=delay:250@1+ client.begin=delay:5000@4 client.apply=delay:250@1+)
members late "$config" 3 "${set[@]}"
said_late late 0 2
[[ $absent = *1:* ]] || fail 'the member that stood still was never late'
[[ $absent != *1:$steps* ]] || fail 'the member that stood still never came back'
grep -q 'group-late: group late: step [0-9]* was done without member 1' "$tmp/one.log" || fail 'the server does not say who was late'
grep -q 'WARN late: step' "$tmp/late-1.log" || fail 'the member does not say that it was late'

as_told late "$config" 3 "$absent" "${set[@]}"

# A member whose gradient has NaN is left out of that step; the others are not.
points=('' client.check=EIO@3 '')
nan=("${set[@]}" --set train.on_nan=skip --set train.max_steps=6 --set share.straggler_s=0)
members nan "$config" 3 "${nan[@]}"
[ "$absent" = 1:3 ] || fail "absent were $absent, not 1:3"
as_told nan "$config" 3 1:3 "${set[@]}" --set train.max_steps=6

# A member is killed, and the others continue. It returns with the head and tail of its checkpoint, and nobody goes
# back.
set+=(--set share.clients=3 --set train.checkpoint_every=6 --set share.straggler_s=1 --set train.max_steps=40)
begin() { # MEMBER [argument]…: $point: one more failpoint
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.apply=delay:250@1+${point:+,$point} start_client "$group-$1" "$config" "${@:2}" \
		"${set[@]}" --set server="$endpoint" --set share.group=$group --set share.member=$1
	pid[$1]=$client_pid
}
goes_away() { # NEWER: member 2 dies at its checkpoint, and the others do so many steps more
	for k in 0 1; do begin $k; done
	point=client.codecs=hold@16 begin 2
	wait_for 'member 2 writes no checkpoints' two_files
	wait_for 'member 2 stands at its checkpoint' has_steps $group-2 15
	end_process "${pid[2]}"
	wait_for 'the others do not go on' gone_on "$1"
}
kept() { "$SPLITS" status --control "$tmp/one.sock" --json | jq -e 'any(.sessions[]; .group == "gone" and .checkpoint_step > 0)' >/dev/null; }
two_files() { [ "$(ls "$tmp/$group-2"/checkpoint-*.safetensors | wc -l)" -ge 2 ]; }
gone_on() { [ "$(grep -c "group-late: group $group: .* member 2" "$tmp/one.log")" -ge 1 ] && has_steps $group-0 $(($(steps_of $group-2) + $1)); }
group=gone
goes_away 4
wait_for 'the status of a member has no checkpoint' kept
begin 2 --resume
for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "member $k of a group that one was gone from"; done
grep -q 'ends-behind' "$tmp/gone-2.log" || fail 'the member that was gone does not say that its head and tail are behind'
! grep -q 'group-back: group gone' "$tmp/one.log" || fail 'the group went back'
[ "$(steps_of gone-2)" = 40 ] || fail "the member that was gone has $(steps_of gone-2) steps, not 40"

# The server ends, too: the others' progress is kept. The member continues behind them, unless heads and tails are
# shared.
for ends in private step; do
	group=apart-$ends
	set+=(--set share.ends=$ends)
	goes_away 10
	end_process "$server_pid"
	for k in 0 1; do end_process "${pid[k]}"; done
	start_server one threads=2 listen="$endpoint"
	for k in 0 1 2; do begin $k --resume; done
	for k in 0 1; do ends_with "${pid[k]}" 0 $patience "member $k of a group that went on apart, ends $ends"; done
	if [ $ends = private ]; then
		ends_with "${pid[2]}" 0 $patience 'the member that was away'
		grep -q 'ends-behind' "$tmp/$group-2.log" || fail 'it does not say that its head and tail are behind'
	else
		ends_with "${pid[2]}" 78 $patience 'the member that was away'
		grep -q 'too far behind' "$tmp/$group-2.log" || fail "$(tail -n 2 "$tmp/$group-2.log")"
	fi
	grep -q "group-open: group $group: 3 members go on from step" "$tmp/one.log" || fail 'the group did not begin again'
	! grep -q "group-open: group $group: 3 members go on from step 0" "$tmp/one.log" || fail 'the group began anew'
done
echo "share_late: ok"
