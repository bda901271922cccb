#!/usr/bin/env bash
# Schedules of the learning rate: each step has the rate computed here. Split equals local; a run that is killed and
# resumed continues the schedule; and one resumed with other points says which.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
base=(--set train.epochs=2 --set train.chunks=2 --set train.checkpoint_every=4)

# rates RUN: prints the learning rates of its log, in awk's format.
rates() { jq -r 'select(.type == "step").lr' "$tmp/$1/log.jsonl" | awk '{ printf "%s%.6g", (NR > 1 ? " " : ""), $1 } END { print "" }'; }

check() { # NAME, the 12 learning rates, settings …
	local name=$1 want=$2 sets=("${base[@]}") pair
	shift 2
	for pair in "$@"; do sets+=(--set "$pair"); done
	client "$name" "$tmp/client.yaml" "${sets[@]}" || fail "$name: status $?"
	[ "$(rates "$name")" = "$want" ] || fail "$name: $(rates "$name"), not $want"
	client "$name-local" "$tmp/client.yaml" "${sets[@]}" --local || fail "$name --local: status $?"
	same_run "$name" "$name-local" 12
	killed_client 6 "$name" "$tmp/client.yaml" "${sets[@]}"
	! grep resume-changed "$tmp/$name killed.log" || fail "$name: its settings are the same"
}

check points '0 0.01 0.02 0.03 0.04 0.05 0.06 0.05 0.04 0.03 0.02 0.01' \
	train.schedule.kind=points train.schedule.points=0:0,1:0.06,2:0
check milestones '0.08 0.08 0.08 0.04 0.04 0.04 0.04 0.04 0.04 0.02 0.02 0.02' train.optimizer.lr=0.08 \
	train.schedule.kind=step train.schedule.milestones=0.5,1.5 train.schedule.gamma=0.5 train.schedule.warmup_epochs=0
check from_zero '0 0.01 0.02 0.03 0.04 0.05 0.06 0.05 0.04 0.03 0.02 0.01' train.optimizer.lr=0.06 train.schedule.kind=polynomial \
	train.schedule.warmup_epochs=1 train.schedule.warmup=from_zero
check by_epoch '0.06 0.06 0.06 0.06 0.06 0.06 0.03 0.03 0.03 0.03 0.03 0.03' train.optimizer.lr=0.06 train.schedule.kind=cosine \
	train.schedule.warmup_epochs=0 train.schedule.by=epoch

# Other points than before are reported, and the next steps use them.
sets=("${base[@]}" --set train.schedule.kind=points)
client_stands 6 changed "$tmp/client.yaml" "${sets[@]}" --set train.schedule.points=0:0,1:0.06,2:0
wait_for "no checkpoint" test -e "$tmp/changed/checkpoint-000000000004.safetensors"
end_client
client changed "$tmp/client.yaml" "${sets[@]}" --set train.schedule.points=0:0.02,2:0.02 --resume || fail "other points: status $?"
grep -q '^WARN resume-changed: .* train.schedule.points was \["0:0", "1:0.06", "2:0"\], is \["0:0.02", "2:0.02"\]$' "$tmp/changed.log" ||
	fail "other points, and not a word: $(grep WARN "$tmp/changed.log")"
[[ "$(rates changed)" = *'0.02 0.02 0.02 0.02 0.02' ]] || fail "other points: $(rates changed)"
