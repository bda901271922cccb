#!/usr/bin/env bash
# Keys of train that change what a step learns, or how many there are: schedules, train.stop, train.clip_norm,
# train.accumulate, train.ema and train.freeze. A run with a server equals one in one process, byte for byte, and goes on after a pause;
# the simulator kills either side. What contradicts a key is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
write_config "$tmp/adamw.yaml"
use_adamw "$tmp/adamw.yaml"

# ---- schedules: each step has the rate computed here
base=(--set train.epochs=2 --set train.chunks=2 --set train.checkpoint_every=4)
# rates RUN: prints the learning rates of its log, in awk's format.
rates() { jq -r 'select(.type == "step").lr' "$tmp/$1/log.jsonl" | awk '{ printf "%s%.6g", (NR > 1 ? " " : ""), $1 } END { print "" }'; }
check() { # NAME, the 12 learning rates, settings …
	local name=$1 want=$2 sets=("${base[@]}") pair
	shift 2
	for pair in "$@"; do sets+=(--set "$pair"); done
	as_local "$name" "$name-local" 12 "$tmp/client.yaml" "${sets[@]}"
	[ "$(rates "$name")" = "$want" ] || fail "$name: $(rates "$name"), not $want"
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

# ---- train.stop. No loss improves by 100, so the first evaluation is the best, and two more end the run after 3 of 9 epochs.
sets=(--set train.epochs=9 --set train.stop.metric=loss --set train.stop.min_delta=100 --set train.stop.patience=2)
client stop-local "$tmp/client.yaml" "${sets[@]}" --local --json || fail "--local: status $?"
client stop "$tmp/client.yaml" "${sets[@]}" || fail "with a server: status $?"
same_run stop stop-local 18
jq -e '.outcome == "finished" and .stopped_by == "loss" and .steps == 18' < <(tail -n 1 "$tmp/stop-local.log") >"$tmp/out" || fail "summary: $(tail -n 1 "$tmp/stop-local.log")"
grep -q '^INFO early-stop: the run ends at step 18 of 54 (train.stop): loss was .* after step 6; evaluations since then, none of them better: 2$' "$tmp/stop.log" ||
	fail 'the log does not say why it ended'
grep -q '^it ended early (train.stop): loss was .* after step 6; evaluations since then, none of them better: 2$' "$tmp/stop.log" || fail 'nor does the summary'
# Resuming the finished run changes nothing; with more patience it continues, as a run that had that patience from the
# start.
client stop "$tmp/client.yaml" "${sets[@]}" --resume || fail "--resume of a run that stopped: status $?"
same_run stop stop-local 18
client stop "$tmp/client.yaml" "${sets[@]}" --set train.stop.patience=3 --resume || fail "more patience: status $?"
client patient "$tmp/client.yaml" "${sets[@]}" --set train.stop.patience=3 --local || fail "more patience, --local: status $?"
same_run stop patient 24
refused 78 'train.stop.metric: needs train.stop.patience' --set train.stop.metric=loss
refused 78 'train.eval_every must be 1 or more' "${sets[@]}" --set train.eval_every=0
refused 78 'is not possible in a group' "${sets[@]}" --set share.group=g
refused 78 'train.stop.metric: must be loss, accuracy' "${sets[@]}" --set train.stop.metric=speed
refused 78 'train.stop.metric: no metric "mae" of classes' "${sets[@]}" --set train.stop.metric=mae

# ---- train.clip_norm uses the norm of the whole model's gradient, so the server takes part, whatever is frozen
n=0
for case in 'client|0.5|' 'client|0.5|features.0.*' 'client|0.5|features.*' 'adamw|0.01|' 'client|100000|' 'client|0|'; do
	IFS='|' read -r optimizer clip freeze <<<"$case"
	n=$((n + 1))
	as_local "clip-$n" "clip-local-$n" 6 "$tmp/$optimizer.yaml" --set train.clip_norm="$clip" --set train.freeze="$freeze" --set codec=quant:8
done
[ "$(learned clip-local-1)" != "$(learned clip-local-6)" ] || fail 'clipping made no difference'
[ "$(learned clip-local-1 | grep -c grad_norm)" = 6 ] || fail 'not every step says its norm'
# A gradient below the limit is not changed.
cmp <(learned clip-local-5 | grep -v grad_norm) <(learned clip-local-6) || fail 'a norm that no gradient reaches made a difference'
cmp "$tmp/clip-local-5/model.safetensors" "$tmp/clip-local-6/model.safetensors" || fail 'a norm that no gradient reaches changed weights'
refused 78 'train.clip_norm: must be a number from 0 to 1e+06 (0: off), got "-1"' --set train.clip_norm=-1

# ---- train.accumulate and train.ema: the model is the average that was evaluated
sets=(--set train.epochs=3 --set train.checkpoint_every=1 --set train.accumulate=4 --set train.ema=0.8 --set train.clip_norm=1)
steps=18 # batches, of which 4 steps of the optimizer are made
for codec in none 'topk:0.2,ef=true|f16'; do
	as_local sums sums-local $steps "$tmp/adamw.yaml" "${sets[@]}" --set "codec=$codec" --fresh
done
# Stopped in an evaluation, which uses the averaged weights: the run must continue from the weights that train.
SPLIT_FAILPOINTS=server.eval=hold SPLITS=$PWD/$BUILD/fail/splits start_server slow store="$tmp/slow"
start_client paused "$tmp/adamw.yaml" "${sets[@]}" --set "codec=$codec" --set server="$endpoint"
at_point slow server.eval
signal TERM "$client_pid"
wait_for 'it does not say that it stops' grep -q '^INFO stopping: ' "$tmp/paused.log"
let_go slow
ends_with "$client_pid" 75 $patience paused
client paused "$tmp/adamw.yaml" "${sets[@]}" --set "codec=$codec" --set server="$endpoint" --resume || fail "--resume after a pause: status $?"
same_run paused sums-local $steps
# The model's file has the weights that were evaluated.
said() { sed -n 's/^test accuracy .* loss \([0-9.]*\).*/\1/p' "$1" | head -n 1; }
"$SPLITC" eval "$tmp/adamw.yaml" --local --set "codec=$codec" --set log.dir="$tmp/sums-local" >"$tmp/eval.log" 2>&1 || fail "eval: $(cat "$tmp/eval.log")"
[ "$(said "$tmp/sums-local.log")" = "$(said "$tmp/eval.log")" ] || fail "the run says $(said "$tmp/sums-local.log"), and its model $(said "$tmp/eval.log")"
client plain "$tmp/adamw.yaml" "${sets[@]}" --set train.ema=0 --set "codec=$codec" --local || fail "without an average: status $?"
[ "$(said "$tmp/sums-local.log")" != "$(said "$tmp/plain.log")" ] || fail "an average changes nothing"
[ "$(grep -c '"type":"step"' "$tmp/plain/log.jsonl")" = $steps ] || fail "steps of the run without an average"
cmp <(learned plain | grep -E '"(step|loss|lr)"') <(learned sums-local | grep -E '"(step|loss|lr)"') || fail "an average changes what is learned"
refused 78 'train.ema: is not possible in a group' --set train.ema=0.9 --set share.group=g
refused 78 'train.accumulate: is not possible in a group' --set train.accumulate=2 --set share.group=g
refused 78 'train.accumulate: is not possible in fp16' --set train.accumulate=2 --set train.precision=fp16 --set train.on_nan=skip

# ---- train.freeze: the named tensors are unchanged after one step and after three, and the others change, wherever the
# frozen part lies. Patterns that match nothing, or everything, are refused, and so are checkpoints of a run with other
# frozen tensors.
make_data 40 16
start_server frozen store="$tmp/frozen-store"
write_config "$tmp/client.yaml"
for steps in 1 3; do
	client "run-$steps" "$tmp/client.yaml" --local --set train.schedule.warmup_epochs=0 --set train.max_steps=$steps --set 'train.freeze=features.0.*,features.1.*' ||
		fail "a run with train.freeze: exit status $?"
done
for name in features.0.0.weight features.0.1.bias features.1.conv.1.weight; do
	[ "$(tensor "$tmp/run-1/model.safetensors" $name)" = "$(tensor "$tmp/run-3/model.safetensors" $name)" ] || fail "$name has learned"
done
for name in features.0.1.running_mean features.2.conv.0.0.weight classifier.1.weight; do
	[ "$(tensor "$tmp/run-1/model.safetensors" $name)" != "$(tensor "$tmp/run-3/model.safetensors" $name)" ] || fail "$name has not changed"
done

# With a server, frozen: part of the head, all of it, part of the middle, all but the classifier, the classifier alone.
constant=(--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
n=0
crossed() { jq -r 'select(.type == "summary") | .direction | keys_unsorted | join(" ")' "$tmp/$1/log.jsonl"; }
acts='head_act mid_act'
for case in "features.0.*,features.1.*|3:-1|sgd|$acts mid_grad head_grad" "features.0.*|1:-1|adamw|$acts mid_grad" \
	"features.[2-5].*|1:-1|adamw|$acts mid_grad head_grad" "features.*|1:-1|sgd|$acts" "classifier.*|2:-1|adamw|$acts mid_grad head_grad"; do
	IFS='|' read -r freeze cut optimizer crosses <<<"$case"
	n=$((n + 1))
	write_config "$tmp/$optimizer.yaml"
	[ "$optimizer" = sgd ] || use_adamw "$tmp/$optimizer.yaml"
	sets=(--set "train.freeze=$freeze" --set "partition=$cut" --set codec=quant:8)
	as_local "frozen-$n" "frozen-local-$n" 3 "$tmp/$optimizer.yaml" "${sets[@]}"
	# Gradients cross only where trained parameters lie below the cut.
	[ "$(crossed "frozen-$n")" = "$crosses" ] && [ "$(crossed "frozen-local-$n")" = "$crosses" ] ||
		fail "$case: $(crossed "frozen-$n") crossed, and locally $(crossed "frozen-local-$n")"
done

# Weights from a file are uploaded whole, once.
from=(--set "model.weights=$tmp/run-3/model.safetensors" --set 'train.freeze=features.*' --set model.classes=10)
client local-file "$tmp/client.yaml" --local "${from[@]}" || fail "weights from a file, local: exit status $?"
for i in 1 2; do
	client "file-$i" "$tmp/client.yaml" "${from[@]}" || fail "weights from a file: exit status $?"
	same_run "file-$i" local-file 3
done
[ "$(ls "$tmp/frozen-store"/*.f32 | wc -l)" = 1 ] || fail 'the weights were not stored once'

# A resumed run equals one run of that length; another train.freeze is another run.
freeze=(--set 'train.freeze=features.[0-9].*')
client whole "$tmp/client.yaml" "${constant[@]}" "${freeze[@]}" --set train.epochs=2 --local || fail "two epochs: exit status $?"
client run "$tmp/client.yaml" "${constant[@]}" "${freeze[@]}" || fail "one epoch: exit status $?"
rc=0
client run "$tmp/client.yaml" "${constant[@]}" --set 'train.freeze=features.0.*' --set train.epochs=2 --resume || rc=$?
[ $rc = 78 ] && grep -q 'its frozen is [0-9]* parameters, this run.s is 3 parameters; since then .*train.freeze was .*, is \["features.0.\*"\]' "$tmp/run.log" ||
	fail "--resume with another train.freeze: exit status $rc"
rc=0
client run "$tmp/client.yaml" "${constant[@]}" "${freeze[@]}" --set train.epochs=2 --set train.label_smoothing=0.1 --resume || rc=$?
[ $rc = 78 ] && grep -q 'its plan is .*; since then .*train.label_smoothing was 0, is 0.1$' "$tmp/run.log" ||
	fail "--resume with another train.label_smoothing: exit status $rc"
client run "$tmp/client.yaml" "${constant[@]}" "${freeze[@]}" --set train.epochs=2 --resume || fail "the second epoch: exit status $?"
same_run run whole 6

refused 78 'train.freeze: no parameter is called "feature.*"' --local --set 'train.freeze=feature.*'
refused 78 'train.freeze: no parameter is left that learns' --local --set 'train.freeze=*'
echo "schedules, $n runs that clip, sums and averages are as in one process"
