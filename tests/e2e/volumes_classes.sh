#!/usr/bin/env bash
# Volumes with a class each: whole cases, cropped or padded to data.size, whose classes are folders or in a table. A run with
# a server equals --local, also behind a kill; three members equal one process; a table teaches what folders do.
# Metrics, predictions and parts are those of classes. What does not fit is
# refused with a sentence.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
. tests/e2e/lib/volumes.sh
live classes "$tmp"
start_server one threads=2
class_config "batch: 12, chunks: 2, epochs: 30, checkpoint_every: 20, schedule: {kind: cosine}" \
	'transforms: ["RandomAffine3d(10)", "RandomFlip()", "RandomIntensity(0.1, 0.1)"]'
table=(--set data.dir="$tmp/mixed" --set data.labels="$tmp/labels.csv" --set data.label_id=id --set data.label=kind)

! "$SPLITC" init --data "$tmp/sorted" "$tmp/made.yaml" >"$tmp/out" 2>&1 && grep -q 'Volumes with a class each need data.size' "$tmp/out" || fail "init: $(cat "$tmp/out")"
"$SPLITC" train "$config" --check-config --set log.dir="$tmp/check" >"$tmp/out" 2>&1 || fail "check: $(cat "$tmp/out")"
grep -qF 'ok, 150 steps on 60 samples, 24 samples to evaluate with' "$tmp/out" || fail "check: $(cat "$tmp/out")"
[ ! -e "$tmp/cache" ] || fail '--check-config has prepared volumes'
as_local linked local 150 "$config"
grep -qF 'test accuracy' "$tmp/local.log" && ! grep -q 'patches side by side' "$tmp/local.log" || fail "figures: $(tail -n 5 "$tmp/local.log")"
jq -s -e 'map(.test_acc // empty) | last > 0.9' "$tmp/local/log.jsonl" >"$tmp/out" || fail 'it does not learn'
killed_client 30 linked "$config"
client thread "$config" --local --set threads=1 --set data.threads=3 || fail "one thread: exit status $?"
same_run thread local 150
client table "$config" --local "${table[@]}" || fail "table: exit status $?"
same_run table local 150 other
"$SPLITC" report "$tmp/table" >"$tmp/out" 2>&1 || fail "report: $(cat "$tmp/out")"
! grep -q patches "$tmp/out" && grep -q "Size of a case" "$tmp/out" || fail "report: $(cat "$tmp/out")"
! grep -E 'WARN (rows-|pictures-|passed-)' "$tmp/table.log" || fail 'a warning without a fault'


# ---- figures and predictions
"$SPLITC" eval "$config" --local --set log.dir="$tmp/local" --json >"$tmp/eval.json" 2>"$tmp/eval.log" || fail "eval: $(cat "$tmp/eval.log")"
jq -e --slurpfile log "$tmp/local/log.jsonl" '.test_acc == ($log | map(.test_acc // empty) | last)' "$tmp/eval.json" >"$tmp/out" || fail "eval: $(cat "$tmp/eval.json")"
predict() { "$SPLITC" predict "$config" --set log.dir="$tmp/local" "$@" 2>"$tmp/err" || fail "predict $*: $(cat "$tmp/err")"; }
predict --local --csv >"$tmp/set.csv"
[ "$(head -n 1 "$tmp/set.csv")" = sample,label,class,probability_ball,probability_shell,probability_tube,class_name,name ] || fail "predict: $(head -n 2 "$tmp/set.csv")"
predict --csv >"$tmp/linked.csv"
cmp "$tmp/set.csv" "$tmp/linked.csv"
mkdir -p "$tmp/given"
cp "$tmp/sorted/test/tube"/* "$tmp/given"
predict --local --csv "$tmp/given" >"$tmp/given.csv" # without a label, as of no cache
cmp <(awk -F, '/tube\/c/ {print $3 "," $4 "," $5 "," $6}' "$tmp/set.csv") <(sed 1d "$tmp/given.csv" | cut -d, -f2-5)
"$SPLITC" data "$config" --json >"$tmp/data.json" 2>"$tmp/err" || fail "data: $(cat "$tmp/err")"
jq -e '[.classes[] | [.name, .train, .test]] == [["ball", 20, 8], ["shell", 20, 8], ["tube", 20, 8]]' "$tmp/data.json" >"$tmp/out" || fail "data: $(cat "$tmp/data.json")"
"$SPLITC" data "$config" >"$tmp/out" 2>&1 && grep -qE '^cases +60 +24$' "$tmp/out" && grep -qE '^shell +20 +8$' "$tmp/out" || fail "data: $(cat "$tmp/out")"
"$SPLITC" leak "$config" --out "$tmp/leak" --steps 30 --set log.dir="$tmp/none" --set data.dir="$tmp/same" --set data.cache="$tmp/same-cache" >"$tmp/leak.log" 2>&1 || fail "leak: $(cat "$tmp/leak.log")"
jq -e '.slices == 3 and .labels.mid_grad_one_example.value > 0.9' "$tmp/leak/leak.json" >"$tmp/out" || fail "leak: $(cat "$tmp/leak/leak.json")"

# ---- parts have equal shares of each class; with a column of patients these stay together
split=(--set data.split.train=0.7 --set data.split.val=0.3)
parts() { # ARGUMENT…: prints training's and validation's cases of each class
	"$SPLITC" data "$config" --json "${split[@]}" "$@" 2>"$tmp/err" | jq -c '[.classes[] | .train, .test]' || fail "data.split: $(cat "$tmp/err")"
}
[ "$(parts)" = '[14,6,14,6,14,6]' ] || fail "data.split: $(parts)"
[ "$(parts "${table[@]}" --set data.split.by=patient)" = '[14,6,14,6,14,6]' ] && grep -q 'divided by class and patient: ball 14 of 7 groups' "$tmp/err" || fail "data.split.by: $(cat "$tmp/err")"
"$SPLITC" train "$config" --check-config "${split[@]}" >"$tmp/out" 2>&1 && grep -qF 'on 42 samples, 18 samples to evaluate with' "$tmp/out" || fail "check with data.split: $(cat "$tmp/out")"
client folds "$config" --local --set data.split.folds=3 --set train.epochs=1 || fail "folds: exit status $?"
client balanced "$config" --local --set data.sampling=balanced --set train.epochs=1 --set train.mixup=0.2 || fail "balanced: exit status $?"

# ---- three members, each with its own cases; one of them lacks a class
for k in 0 1 2; do
	for class in ball shell tube; do
		mkdir -p "$tmp/site$k/train/$class" "$tmp/site$k/test"
		cp "$tmp/sorted/train/$class"/c?[$((3 * k))-$((3 * k + 2))].nii.gz "$tmp/site$k/train/$class"
	done
	cp -r "$tmp/sorted/test" "$tmp/site$k"
done
rm "$tmp/site2/train/tube"/*
three() { group "$1" "$config" 3 "share.mode=$1" data.dir="$tmp/site%m" data.cache= train.epochs=2 train.batch=4 "${@:2}"; }
three sync share.epoch_steps=3
three serial share.batches=5,5,3
three rounds share.epoch_steps=3

# ---- what does not fit
refused 78 'give one of them' --set data.patch=18,20,20
refused 78 'or, with a class for each case, data.size' --set data.size=
refused 78 'data.size: volumes need three whole numbers' --set data.size=18,20
refused 78 'the network takes volumes of [18, 20, 20]' --set data.size=20,20,20
refused 78 'give data.size, and folders of classes or data.labels' --set data.size= --set data.patch=18,20,20
refused 78 'give data.patch, and masks' --set model.task=pixels --set model.network="$tmp/unet.safetensors" --set head_end=e0 --set tail_begin=out
refused 78 'a volume has one class: give classes' --set model.task=numbers
refused 78 'belongs to data.kind: volumes with data.patch' --set data.patches=3
refused 78 'belongs to data.kind: volumes;' --set data.kind=images --set data.intensity= --set data.spacing= --set data.cache= --set data.transforms= --set data.size=18,20,20
refused 78 'pictures and volumes with data.labels' --set data.label=kind
refused 78 'and to volumes with data.size' --set data.labels="$tmp/labels.csv" --set data.size= --set data.patch=18,20,20
mkdir -p "$tmp/bad/train/ball" "$tmp/bad/train/masks"
case=$tmp/sorted/train/ball/c00.nii.gz
cp "$case" "$tmp/bad/train/ball"
cp -r "$tmp/sorted/test" "$tmp/bad"
bad() { refused "$1" "$2" --set data.dir="$tmp/bad"; }
bad 65 'masks is among the folders of classes'
mv "$tmp/bad/train/masks" "$tmp/bad/train/tube"
bad 65 'train/tube: the class has no case'
cp "$case" "$tmp/bad/train/tube"
bad 65 'test/shell: train/ has no class of this name'
mkdir "$tmp/bad/train/box" "$tmp/bad/train/shell"
cp "$case" "$tmp/bad/train/box"
cp "$case" "$tmp/bad/train/shell"
bad 78 'has 4 classes, the model only 3'
cp "$case" "$tmp/bad/train"
bad 65 'lies beside the folders of classes'
rm -r "$tmp/bad/train"/*/
bad 65 'a classifier needs two classes or more, a folder for each'
labels() { "$SPLITC" train "$config" --check-config "${table[@]}" --set data.labels="$tmp/other.csv" >"$tmp/out" 2>&1 || true; }
{ cat "$tmp/labels.csv" && echo missing,p0,ball; } >"$tmp/other.csv"
labels && grep -q 'WARN rows-without-picture: .*other.csv: rows without a case: 1, such as "missing": they are left out' "$tmp/out" || fail "a row without a case: $(cat "$tmp/out")"
sed 3d "$tmp/labels.csv" >"$tmp/other.csv"
labels && grep -q 'pictures-without-row: .*: cases without a row: 1, such as "train/site/trainball1.nii.gz": they are left out' "$tmp/out" || fail "a case without a row: $(cat "$tmp/out")"
sed '3s/.*/trainball0,p0,ball/' "$tmp/labels.csv" >"$tmp/other.csv"
labels && grep -q 'cases in more than one row: 1, such as "trainball0": a case has one row' "$tmp/out" || fail "two rows of a case: $(cat "$tmp/out")"
sed '3s/ball$/shell/' "$tmp/labels.csv" >"$tmp/other.csv"
client other "$config" "${table[@]}" --set train.max_steps=20 || fail "before another label: exit status $?"
refusing=--resume refused 78 'or other contents' "${table[@]}" --set data.labels="$tmp/other.csv" --set log.dir="$tmp/other" --set train.max_steps=25
refusing=--local command=predict refused 78 'volumes are no lines' --set log.dir="$tmp/local" --stream
head -c 5000 "$case" >"$tmp/broken.nii.gz"
refusing=--local command=predict refused 65 'the file ends before its last voxel' --set log.dir="$tmp/local" "$tmp/broken.nii.gz"
echo "volumes_classes: accuracy $(jq .test_acc "$tmp/eval.json")"
