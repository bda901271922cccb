#!/usr/bin/env bash
# A file system (a small tmpfs, which only root can mount) is filled while both sides write checkpoints to it. Training
# continues, and `status` reports the fault. After a kill, and with room again, the run resumes from the last good
# checkpoint and ends as the undisturbed one did.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/small"
mount -t tmpfs -o size=16m split-test "$tmp/small" 2>/dev/null || { echo "no tmpfs can be mounted here"; exit 77; }
# A lazy unmount, because processes that end_all kills next may still have files open there.
trap 'umount -l "$tmp/small"; end_all' EXIT
steps=600
make_data 320 16
start_server server store="$tmp/small/store"
write_config "$tmp/client.yaml"
for pair in train.epochs=30 train.eval_every=0 train.checkpoint_every=20 log.tensorboard=true link.on_server_lost=wait codec=quant:8; do
	sets+=(--set "$pair")
done
client undisturbed "$tmp/client.yaml" "${sets[@]}" || fail "the undisturbed run: status $?"
sets+=(--set log.dir="$tmp/small/run")
start_slow_client 60 40 run "$tmp/client.yaml" "${sets[@]}"
kept() { ls "$tmp"/small/run/checkpoint-*.safetensors >/dev/null; }
step_is() { [ "$("$SPLITC" status --control "$tmp/run.sock" --json | jq '.sessions[0].step')" -ge "$1" ]; }
missing() { "$1" status --control "$2" | grep -q 'checkpoint: failed at step .*: No space left on device; last good [0-9]*[1-9]'; }

wait_for "no checkpoint" kept
dd if=/dev/zero of="$tmp/small/filler" bs=64k status=none 2>/dev/null || true
wait_for "the server does not say that its disk is full" missing "$SPLITS" "$tmp/server.sock"
said() {
	ask "$SPLITC" "$tmp/run.sock" "$tmp/status.json"
	jq -e '.sessions[0] | .checkpoint_missed > .checkpoint_step' "$tmp/status.json" >/dev/null
}
wait_for "the client does not say so" said
wait_for "the run does not go on" step_is $(($(jq '.sessions[0].step' "$tmp/status.json") + 30))
end_client
mv "$tmp/run.log" "$tmp/first.log"
grep -q 'log-write: log.jsonl: .*; lines are lost' "$tmp/first.log" || fail "nothing was said of the log"
grep -q 'log-write: events for TensorBoard: .*; they are lost' "$tmp/first.log" || fail "nothing was said of the events"
rm "$tmp/small/filler"
no_tmp() { [ -z "$(find "$tmp/small" -name '*.tmp')" ]; } # the server may be writing its last words
wait_for "a .tmp is left" no_tmp
start_client run "$tmp/client.yaml" "${sets[@]}" --resume
ends_with "$client_pid" 0 $patience "the resumed run"
grep -q 'session-open: .*, from step [1-9]' "$tmp/run.log" || fail "the old checkpoint was not loaded"
same_run undisturbed small/run $steps
"$TOOLS/events" "$tmp"/small/run/events.out.tfevents.* >"$tmp/events" || fail "damaged events"
! grep -q 'cut off' "$tmp/events" || fail "a torn event is left"
[ "$(awk '$3 == "train/loss" && $1 == 2' "$tmp/events" | tail -n 1 | cut -d' ' -f2)" = $steps ] || fail "events end before the run"
