#!/usr/bin/env bash
# train.accumulate and train.ema: a run with a server equals one in one process, to the bit, also if it is stopped
# in an evaluation. The simulator kills either side (row accumulate). A step of N batches learns what one batch of N
# times the size does. The model is the average that was evaluated.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
sets=(--set train.epochs=3 --set train.checkpoint_every=1 --set train.accumulate=4 --set train.ema=0.8 --set train.clip_norm=1)
steps=18 # batches, of which 4 steps of the optimizer are made

for codec in none 'topk:0.2,ef=true|f16'; do
	as_local remote local $steps "$tmp/client.yaml" "${sets[@]}" --set "codec=$codec" --fresh
done

# Stopped in an evaluation, which uses the averaged weights: the run must continue from the weights that train.
export SPLIT_FAILPOINTS=server.eval=hold
plain=$SPLITS SPLITS=$PWD/$BUILD/fail/splits
start_server slow store="$tmp/slow"
SPLITS=$plain
unset SPLIT_FAILPOINTS
start_client paused "$tmp/client.yaml" "${sets[@]}" --set "codec=$codec" --set server="$endpoint"
at_point slow server.eval
signal TERM "$client_pid"
wait_for 'it does not say that it stops' grep -q '^INFO stopping: ' "$tmp/paused.log"
let_go slow
wait "$client_pid" || fail "paused: status $?"
client paused "$tmp/client.yaml" "${sets[@]}" --set "codec=$codec" --set server="$endpoint" --resume || fail "--resume after a pause: status $?"
same_run paused local $steps

# The model's file has the weights that were evaluated.
said() { sed -n 's/^test accuracy .* loss \([0-9.]*\).*/\1/p' "$1" | head -n 1; }
"$SPLITC" eval "$tmp/client.yaml" --local --set "codec=$codec" --set log.dir="$tmp/local" >"$tmp/eval.log" 2>&1 || fail "eval: $(cat "$tmp/eval.log")"
[ "$(said "$tmp/local.log")" = "$(said "$tmp/eval.log")" ] || fail "the run says $(said "$tmp/local.log"), and its model $(said "$tmp/eval.log")"
client plain "$tmp/client.yaml" "${sets[@]}" --set train.ema=0 --set "codec=$codec" --local || fail "without an average: status $?"
[ "$(said "$tmp/local.log")" != "$(said "$tmp/plain.log")" ] || fail "an average changes nothing"
[ "$(grep -c '"type":"step"' "$tmp/plain/log.jsonl")" = $steps ] || fail "steps of the run without an average"
cmp <(learned plain | grep -E '"(step|loss|lr)"') <(learned local | grep -E '"(step|loss|lr)"') || fail "an average changes what is learned"

refused 78 'train.ema: is not possible in a group' --set train.ema=0.9 --set share.group=g
refused 78 'train.accumulate: is not possible in a group' --set train.accumulate=2 --set share.group=g
refused 78 'train.accumulate: is not possible in fp16' --set train.accumulate=2 --set train.precision=fp16 --set train.on_nan=skip
echo passed
