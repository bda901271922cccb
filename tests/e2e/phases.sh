#!/usr/bin/env bash
# train.phases: image size, batch and learning rate change between phases, while weights and moments continue. A run
# with a server equals --local. Killed in each phase, and on either side of a border, it ends as the undisturbed run.
# Invalid phases are refused.
set -eu
cd "$(dirname "$0")/../.."
# On tmpfs fsync takes no time. On a slow disk a checkpoint would be skipped while the previous one is still being
# written.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. tests/e2e/lib/daemons.sh
make_data 60 30
start_server one
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures" 0
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures/train" 60
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/pictures/val" 30
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {name: mobilenet_v2, classes: 10, image: 32, width: 0.25}
	partition: "1:-1"
	data: {kind: images, dir: $tmp/pictures}
	train:
	  batch: 16
	  chunks: 4
	  seed: 3
	  optimizer: {kind: sgd, momentum: 0.9, nesterov: true}
	  schedule: {kind: points, points: [0:0, 1:0.05, 4:0]}
	  checkpoint_every: 3
	  keep_best: true
	  phases:
	    - {epochs: 1, image: 16, batch: 20}
	    - {epochs: 2, image: 24x32, lr: 0.5}
	    - epochs=1 image=32 batch=10 chunks=2
	link: {on_server_lost: wait, retry_ms: 50}
	threads: 1
YAML
steps=17 # 3, 8 and 6

"$SPLITC" train "$tmp/client.yaml" --check-config >"$tmp/out" 2>&1 || fail "--check-config: $(cat "$tmp/out")"
grep -q 'ok, 17 steps on 60 samples' "$tmp/out" || fail "--check-config: $(cat "$tmp/out")"
as_local whole local $steps "$tmp/client.yaml"
[ "$(grep -c '"type":"epoch"' "$tmp/whole/log.jsonl")" = 4 ] || fail "epochs: $(grep '"epoch"' "$tmp/whole/log.jsonl")"
[ "$(grep -c '"type":"summary"' "$tmp/whole/log.jsonl")" = 1 ] || fail "the log has more than one end"
grep -qc '^finished: 17 steps' "$tmp/whole.log" && [ "$(grep -c '^finished' "$tmp/whole.log")" = 1 ] || fail "its end is not said once"
# A step of several batches may begin in one phase and end in the next; the last batch of all is left.
client summed "$tmp/client.yaml" --local --set train.accumulate=4 && [ "$(grep -c ' do not fill a step' "$tmp/summed.log")" = 1 ] &&
	grep -q "the run's last 1 of 17 batches do not fill a step" "$tmp/summed.log" || fail "accumulate: $(cat "$tmp/summed.log")"
# The schedule counts epochs over all phases: it rises in the first, and falls in the second (lr: 0.5) and the third.
rates=$(grep '"type":"step"' "$tmp/whole/log.jsonl" | grep -o '"lr":[^,]*' | cut -d: -f2 | awk '{printf "%s%.6g", n++ ? " " : "", $1}')
want=$(awk 'BEGIN {
	for (i = 0; i < 3; i++) printf "%s%.6g", i ? " " : "", 0.05 * i / 3
	for (i = 0; i < 8; i++) printf " %.6g", 0.5 * 0.05 * (3 - i / 4) / 3
	for (i = 0; i < 6; i++) printf " %.6g", 0.05 * (1 - i / 6) / 3
}')
[ "$rates" = "$want" ] || fail "learning rates: $rates, not $want"
! cmp -s "$tmp/whole/best.safetensors" /dev/null || fail "no best weights"

# Phases of equal settings are a run without phases, to the last bit: moments and the order of samples continue over a
# border.
one_size=(--set train.batch=20 --set data.threads=2)
client flat "$tmp/client.yaml" --local "${one_size[@]}" --set train.phases= --set train.epochs=2 || fail "without phases: status $?"
for where in '' --local; do
	client halves$where "$tmp/client.yaml" "${one_size[@]}" --set train.phases=epochs=1,epochs=1 $where || fail "two of one size: status $?"
	same_run flat halves$where 6
done
# A warm-up may be longer than a phase.
"$SPLITC" train "$tmp/client.yaml" --check-config --set train.schedule.kind=cosine --set train.schedule.warmup_epochs=2 >"$tmp/out" 2>&1 ||
	fail "a warm-up over a border: $(cat "$tmp/out")"

# killed POINT: kills the run there and resumes it, or begins anew if it has no checkpoint.
plain=$SPLITC
killed() {
	local name=killed-${1%%=*}-${1##*@} rc=0
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.codecs=delay:30@1+,$1 client "$name" "$tmp/client.yaml" || rc=$?
	[ $rc = 137 ] || [[ $1 = *term* && $rc = 75 ]] || fail "$1: status $rc"
	[ "$(steps_of "$name")" -lt $steps ] || [[ $1 = client.[sl]* ]] || fail "$1: the run was over"
	[ "$(cd "$tmp/$name" && compgen -G '*-0*.safetensors')" = "" ] || set -- "$1" --resume
	client "$name" "$tmp/client.yaml" "${@:2}" || fail "$1: --resume: status $?"
	same_run whole "$name" $steps
	[ "$(grep -c '"type":"epoch"' "$tmp/$name/log.jsonl")" = 4 ] || fail "$1: the log has other epochs"
	cmp "$tmp/whole/best.safetensors" "$tmp/$name/best.safetensors" || fail "$1: other best weights"
	rm -r "${tmp:?}/$name"
}
points=(client.apply=kill@2 client.fetched=kill@1 client.saved=kill@1 ckpt.rename=kill@3 client.leave=kill@1 client.welcomed=kill@2
	client.given=kill@2 client.begin=kill@4 client.begin=term@3 client.begin=term@4 client.apply=kill@8 client.saved=kill@2
	client.leave=kill@2 client.given=kill@3 client.begin=kill@12 client.apply=kill@16 client.saved=kill@3
	ckpt.sync=delay:1500@1,model.done=kill@2) # the last: behind the first phase's model, whose only checkpoint takes long
two_at_a_time killed "${points[@]}"

# The model of a run that was killed in a phase is its checkpoint's, as of a run that is paused there.
start_failing_client client.codecs=delay:30@1+,client.apply=hold@8 pair "$tmp/client.yaml"
wait_for 'pair has no checkpoint of step 6' test -e "$tmp/pair/checkpoint-000000000006.safetensors"
end_client
rc=0
SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.begin=term@6 client paused "$tmp/client.yaml" || rc=$?
[ "$rc" = 75 ] || fail "paused: status $rc"
for name in pair paused; do
	"$SPLITC" export "$tmp/client.yaml" "$tmp/$name.safetensors" --set log.dir="$tmp/$name" >"$tmp/$name.log" 2>&1 || fail "export of $name: status $?"
	grep -q ', after step 6$' "$tmp/$name.log" || fail "export of $name: $(cat "$tmp/$name.log")"
done
cmp "$tmp/pair.safetensors" "$tmp/paused.safetensors" || fail "the model of a run that was killed in a phase"
client pair "$tmp/client.yaml" --resume || fail "--resume behind an export: status $?"
same_run whole pair $steps

# A server is killed at the border, and restarted.
for point in server.left=kill@1 server.chosen=kill@2 server.apply=kill@5; do killed_server $point whole "$tmp/client.yaml"; done

# A finished run is not resumed; another phase makes it longer.
rc=0
client whole "$tmp/client.yaml" --resume || rc=$?
[ $rc = 66 ] && grep -q 'is done. To train it further, add a phase to train.phases' "$tmp/whole.log" || fail "--resume of a run that is done: status $rc"
sed 's/^link/    - {epochs: 1, image: 40, batch: 30, chunks: 1}\n&/; s/4:0\]/4:0, 5:0.01]/' "$tmp/client.yaml" >"$tmp/longer.yaml"
sed -i 's/^    - {epochs: 1, image: 40/    - {epochs: 1, image: 40/' "$tmp/longer.yaml"
client whole "$tmp/longer.yaml" --resume || fail "a phase more: status $?"
client longer "$tmp/longer.yaml" --local || fail "a phase more, --local: status $?"
same_run whole longer $((steps + 2))

# Phases may all have another size than model.image.
"$SPLITC" train "$tmp/client.yaml" --check-config --set 'train.phases=epochs=1 image=48' --set 'data.test_transforms=Resize((48, 48))' \
	--set 'data.transforms=Resize((48, 48))' >"$tmp/check" 2>&1 || fail "phases of another size than model.image: $(cat "$tmp/check")"
refused 78 'train.phases: must be {epochs: N' --set 'train.phases=image=32'
refused 78 'train.epochs: train.phases say how many epochs' --set train.epochs=3
refused 78 'train.max_steps: belongs to a run without train.phases' --set train.max_steps=3
refused 78 'train.checkpoint_every: train.phases need checkpoints' --set train.checkpoint_every=0
refused 78 'train.phases: needs a folder in log.dir' --set log.dir=
refused 78 'train.phases: phase 3 has more chunks' --set 'train.phases=epochs=1,epochs=1,epochs=1 batch=3'
refused 78 'is not possible in a group' --set share.group=some
refused 78 'keeps something from step to step' --set codec=topk:0.1,ef=true
refused 78 'inserts that decay' --set insert.head=decaylinear:rate=0.9,every=3,times=2
refused 78 'has other parameters than in the first phase' --set model.name=vgg16 --set 'train.phases=epochs=1 image=32,epochs=1 image=64'
refused 78 'phase 1 of train.phases: epochs=1 image=16' --set 'data.test_transforms=Resize((32, 32))'
status=0
client nowhere "$tmp/client.yaml" --set log.dir= || status=$?
[ $status = 78 ] && grep -q 'needs a folder in log.dir' "$tmp/nowhere.log" || fail "without log.dir: status $status"
# A server without a store is detected at the first checkpoint.
start_server bare store=
status=0
client storeless "$tmp/client.yaml" --set server="$endpoint" || status=$?
[ $status = 74 ] || [ $status = 69 ] || fail "a server without a store: status $status"
grep -q 'folder in `store`' "$tmp/storeless.log" || fail "a server without a store: it does not say what is missing"
echo passed
