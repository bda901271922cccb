#!/usr/bin/env bash
# train.stop: a run ends with status 0 after evaluations without an improvement, at the same step with a server, in one
# process and after a kill, and says why. More patience makes it longer. Settings that contradict it are refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
# No loss improves by 100, so the first evaluation is the best, and two more end the run after 3 of 9 epochs.
sets=(--set train.epochs=9 --set train.stop.metric=loss --set train.stop.min_delta=100 --set train.stop.patience=2)
steps=18

client local "$tmp/client.yaml" "${sets[@]}" --local --json || fail "--local: status $?"
client remote "$tmp/client.yaml" "${sets[@]}" || fail "with a server: status $?"
same_run remote local $steps
jq -e '.outcome == "finished" and .stopped_by == "loss" and .steps == 18' < <(tail -n 1 "$tmp/local.log") >"$tmp/out" || fail "summary: $(tail -n 1 "$tmp/local.log")"
grep -q '^INFO early-stop: the run ends at step 18 of 54 (train.stop): loss was .* after step 6; evaluations since then, none of them better: 2$' "$tmp/remote.log" ||
	fail 'the log does not say why it ended'
grep -q '^it ended early (train.stop): loss was .* after step 6; evaluations since then, none of them better: 2$' "$tmp/remote.log" || fail 'nor does the summary'

# killed in its last epoch, and resumed
killed_client 15 remote "$tmp/client.yaml" "${sets[@]}" --set train.checkpoint_every=4
killed='remote killed'
# Resuming the finished run changes nothing; with more patience it continues, as a run that had that patience from the
# start.
client "$killed" "$tmp/client.yaml" "${sets[@]}" --resume || fail "--resume of a run that stopped: status $?"
same_run "$killed" remote $steps
client "$killed" "$tmp/client.yaml" "${sets[@]}" --set train.stop.patience=3 --resume || fail "more patience: status $?"
client patient "$tmp/client.yaml" "${sets[@]}" --set train.stop.patience=3 --local || fail "more patience, --local: status $?"
same_run "$killed" patient 24

refused 78 'train.stop.metric: needs train.stop.patience' --set train.stop.metric=loss
refused 78 'train.eval_every must be 1 or more' "${sets[@]}" --set train.eval_every=0
refused 78 'is not possible in a group' "${sets[@]}" --set share.group=g
refused 78 'train.stop.metric: must be loss, accuracy' "${sets[@]}" --set train.stop.metric=speed
refused 78 'train.stop.metric: no metric "mae" of classes' "${sets[@]}" --set train.stop.metric=mae
echo passed
