#!/usr/bin/env bash
# Volumes from NIfTI files with masks: cases on slanted grids of two spacings, and others of four sequences. Prepared cases
# are what numpy and torch make of the files. A run with a server equals --local, one thread two, a run from the cache one
# that fills it, and a killed one the whole. Only what changed is prepared again. What does not fit is refused with a sentence.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
. tests/e2e/lib/volumes.sh
live make "$tmp"
start_server one threads=2
config() { # NAME INTENSITY
	cat >"$tmp/$1.yaml" <<-YAML
		server: $endpoint
		model: {network: $tmp/$1.safetensors, task: pixels}
		head_end: e0
		tail_begin: u0
		data:
		  {kind: volumes, dir: $tmp/$1, label: [back, ball, shell, tube], patch: [16, 16, 16], spacing: [1.5, 1.5, 1.5], intensity: "$2",
		  transforms: ["RandomAffine3d()", "RandomFlip()", "RandomGamma()", "RandomNoise(0.1)", "RandomIntensity(0.1, 0.1)"], cache: $tmp/cache-$1}
		train: {batch: 4, chunks: 2, epochs: 6, loss: dice_ce, checkpoint_every: 3, optimizer: {kind: adamw, lr: 0.01}}
		threads: 2
	YAML
}
config ct ct:-100,250
config mri mri

"$SPLITC" train "$tmp/ct.yaml" --check-config --set log.dir="$tmp/check" >"$tmp/out" 2>&1 || fail "check: $(cat "$tmp/out")"
grep -qF 'ok, 36 steps on 24 samples, 24 samples to evaluate with' "$tmp/out" || fail "check: $(cat "$tmp/out")"
[ ! -e "$tmp/cache-ct" ] || fail '--check-config has prepared volumes'
grep -qE '^patch +[0-9.]+ m?s of this host' "$tmp/out" && grep -qE '^ +[0-9.]+ kB cross in all four directions; [0-9.]+ .B for a case and epoch$' "$tmp/out" || fail "check: $(cat "$tmp/out")"
"$SPLITC" train "$tmp/ct.yaml" --check-config --json --set log.dir="$tmp/check" >"$tmp/out" 2>"$tmp/json.log" || fail "check: $(cat "$tmp/json.log")"
jq -e '.patch | (2 * 4 * (8 * 16 * 16 * 16 + 16 * 8 * 8 * 8)) as $payload | .bytes > $payload and .bytes < 1.001 * $payload and .case_bytes == 4 * .bytes and .seconds > 0 and .gflop_s > 0' "$tmp/out" >"$tmp/jq" || fail "check: $(cat "$tmp/out")"
"$SPLITC" train "$tmp/ct.yaml" --check-config --set log.dir="$tmp/check" --set data.split.train=0.5 --set data.split.val=0.5 >"$tmp/out" 2>&1 || fail "check: $(cat "$tmp/out")"
[ ! -e "$tmp/cache-ct" ] || fail '--check-config with data.split has prepared volumes'
as_local linked local 36 "$tmp/ct.yaml"
[ "$(grep -c 'INFO prepare: ' "$tmp/local.log")" = 2 ] && ! grep -q prepare "$tmp/linked.log" || fail "prepared: $(grep prepare "$tmp/local.log" "$tmp/linked.log")"
live prepared "$tmp/ct" "$tmp/cache-ct" -100 250 1.5 1.5 1.5
client thread "$tmp/ct.yaml" --local --set threads=1 --set data.threads=2 || fail "one thread: exit status $?"
same_run thread local 36
killed_client 8 linked "$tmp/ct.yaml"
client fresh "$tmp/ct.yaml" --local --set data.cache= || fail "its own cache: exit status $?"
same_run fresh local 36
grep -qF "prepared into $tmp/fresh/volumes (data.cache)" "$tmp/fresh.log" || fail 'the default of data.cache'
dice() { jq -s 'map(.test_metrics.dice // empty) | last' "$tmp/$1/log.jsonl"; }
jq -ne --argjson dice "$(dice local)" '$dice > 0.45' >"$tmp/out" || fail "it does not learn: dice $(dice local)"
for log in linked local; do grep -qF 'of the pixels of 24 samples, which are patches side by side: no figure is a mean over cases' "$tmp/$log.log" || fail "$log does not say what its figures are"; done

# What changed is prepared again, and nothing else; other steps make all anew.
touch "$tmp/ct/train/case3.nii.gz"
stat -c '%n %Y %Z' "$tmp"/cache-ct/*.vol >"$tmp/before"
cp -p "$tmp/cache-ct/train-case1.vol" "$tmp/whole.vol"
truncate -s 500 "$tmp/cache-ct/train-case1.vol"
client again "$tmp/ct.yaml" --local || fail "again: exit status $?"
same_run again local 36
cmp "$tmp/cache-ct/train-case1.vol" "$tmp/whole.vol"
stat -c '%n %Y %Z' "$tmp"/cache-ct/*.vol | diff "$tmp/before" - | grep -c '^>' >"$tmp/changed" || true
[ "$(cat "$tmp/changed")" = 2 ] || fail "$(cat "$tmp/changed") cases were prepared again"
cp -a "$tmp/ct" "$tmp/elsewhere" # files of equal sizes and times in another folder are others
client moved "$tmp/ct.yaml" --local --set data.dir="$tmp/elsewhere" --set train.epochs=1 || fail "moved: exit status $?"
[ "$(grep -c 'INFO prepare: ' "$tmp/moved.log")" = 2 ] || fail 'cases of another folder were taken from the cache'
client wide "$tmp/ct.yaml" --local --set data.spacing=2.5,1.1,0.9 --set data.axes=zyx --set train.epochs=1 || fail "another spacing: exit status $?"
live prepared "$tmp/ct" "$tmp/cache-ct" -100 250 2.5 1.1 0.9

as_local 'mri linked' 'mri local' 24 "$tmp/mri.yaml" --set data.axes=xyz
jq -ne --argjson dice "$(dice 'mri local')" '$dice > 0.6' >"$tmp/out" || fail "four sequences: dice $(dice 'mri local')"
client folds "$tmp/mri.yaml" --local --set data.split.folds=2 --set train.epochs=1 || fail "folds: exit status $?"
# Cases of one patient stay together.
by() { config=$tmp/mri.yaml refused "$2" "$3" --local --set data.split.train=0.5 --set data.split.val=0.5 --set data.split.by="$1"; }
by '(p)' 78 'data.split'
by 'patient([0-9])' 65 'its name does not match'
"$SPLITC" eval "$tmp/ct.yaml" --local --set log.dir="$tmp/local" --json >"$tmp/eval.json" 2>"$tmp/eval.log" || fail "eval: $(cat "$tmp/eval.log")"
jq -e --argjson dice "$(dice local)" '(.test_metrics.dice - $dice | fabs) < 1e-9' "$tmp/eval.json" >"$tmp/out" || fail "eval: $(cat "$tmp/eval.json")"
"$SPLITC" eval "$tmp/ct.yaml" --local --set log.dir="$tmp/local" --set data.cache="$tmp/other" --set data.intensity=ct:0,9 >"$tmp/eval.log" 2>&1 || fail "eval: $(cat "$tmp/eval.log")"
grep -q 'data.patch, data.spacing, data.axes, data.intensity' "$tmp/eval.log" || fail "another intensity: $(cat "$tmp/eval.log")"
"$SPLITC" data "$tmp/ct.yaml" >"$tmp/out" 2>&1 || fail "data: $(cat "$tmp/out")"
grep -qE '^patches of an epoch +24 +24$' "$tmp/out" || fail "data: $(cat "$tmp/out")"

config=$tmp/ct.yaml
refused 66 'each case needs its mask there' --set data.masks=without
refused 78 'the network takes volumes of [16, 16, 16]' --set data.patch=32,8,16
refused 78 'three whole numbers from 1 to 1024' --set data.patch=16,16
refused 78 'three numbers of mm' --set data.spacing=1
refused 78 'volumes need one: ct:LOW,HIGH' --set data.intensity=
refused 78 'must be ct:LOW,HIGH' --set data.intensity=ct:auto
refused 78 'is of pictures; volumes have RandomFlip' --set 'data.transforms=RandomCrop(8)'
refused 78 'axes must be of 0, 1 and 2' --set 'data.transforms=RandomFlip(axes=3)'
refused 78 'an evaluation takes each voxel once' --set 'data.test_transforms=RandomFlip()'
refused 78 'is of volumes: data.kind: volumes' --set data.kind=images --set 'data.transforms=RandomFlip()' --set data.test_transforms=
refused 78 'data with 4 channels would fit' --set model.network="$tmp/mri.safetensors"
refused 78 'volumes have masks, and this network gives one class for all voxels' --set model.network="$tmp/one.safetensors" --set model.task=classes \
	--set head_end= --set tail_begin= --set train.loss=labels --set data.label=label
refused 78 'members of a sync step do not know how many pixels' --set share.group=g
refused 78 'without log.dir' --set data.cache= --set log.dir= --set train.checkpoint_every=0
refused 78 'belongs to data.kind: volumes' --set data.kind=images --set data.transforms= --set data.spacing=1,1,1
mkdir -p "$tmp/scans/train"
touch "$tmp/scans/train/1.dcm"
refused 65 'dcm2niix' --set data.dir="$tmp/scans"
# Two members, each with its own cases, take turns or train rounds.
for k in 0 1; do
	mkdir -p "$tmp/site$k/masks"
	cp -r "$tmp/ct/train" "$tmp/ct/test" "$tmp/site$k"
	cp -r "$tmp/ct/masks/train" "$tmp/ct/masks/test" "$tmp/site$k/masks"
	rm "$tmp/site$k"/train/case$((1 - k)).* "$tmp/site$k"/train/case$((3 - k)).* "$tmp/site$k"/train/case$((5 - k)).*
done
for mode in serial rounds; do
	group $mode "$tmp/ct.yaml" 2 share.mode=$mode data.dir="$tmp/site%m" data.cache=
	jq -ne "$(dice $mode/member-0) > 0.3" >"$tmp/out" || fail "$mode: dice $(dice $mode/member-0)"
done

# What leaks is measured on slices: of files of one sequence and of four.
leak() { # NAME ARGUMENT…
	"$SPLITC" leak "$tmp/$1.yaml" --out "$tmp/leak-$1" --set log.dir="$tmp/none" --set data.test_limit=0 "${@:2}" >"$tmp/leak.log" 2>&1 || fail "leak $1: $(cat "$tmp/leak.log")"
	jq -e '.slices == 3 and .pictures >= 8 and .informed.psnr_db.value > .informed.psnr_db.chance and .informed.ssim.value > .informed.ssim.chance' "$tmp/leak-$1/leak.json" >"$tmp/out" ||
		fail "leak $1: $(cat "$tmp/leak-$1/leak.json")"
	grep -q 'reconstructed 3 of 16 slices' "$tmp/leak-$1/leak.html" && grep -q 'a face identifies a person' "$tmp/leak-$1/leak.html" || fail "the page of leak $1"
	/usr/bin/python3 tests/golden/leak_page.py "$tmp/leak-$1" 'Middle slices of a volume lie side by side' || fail "the page of leak $1"
}
leak ct --steps 150 --set data.spacing=0.75,0.75,0.75 --set data.cache="$tmp/fine"
leak mri --steps 150 --set data.spacing=0.75,0.75,0.75 --set data.cache="$tmp/fine" --set head_end=e1

# A config from the folder: its patch, spacing and intensity.
(cd "$tmp" && "$SPLITC" init new.yaml --data "$tmp/ct" --model "$tmp/ct.safetensors" --cut e0,u0 --server "$endpoint") >"$tmp/out" 2>&1 || fail "init: $(cat "$tmp/out")"
grep -q 'The data are volumes with masks (volumes).' "$tmp/out" && grep -q 'a guess from one of them' "$tmp/out" || fail "init: $(cat "$tmp/out")"
"$SPLITC" train "$tmp/new.yaml" --print-config >"$tmp/out" 2>"$tmp/print.log" || fail "init: $(cat "$tmp/print.log")"
for says in 'patch: \["16", "16", "16"\]' 'intensity: "ct:-200,300"' 'task: pixels' 'loss: dice_ce' 'spacing: \["2.5", "1.5", "1.5"\]'; do grep -qE "$says" "$tmp/out" || fail "init: no $says: $(cat "$tmp/new.yaml")"; done
client new "$tmp/new.yaml" --local --set train.epochs=1 || fail "the config of init: exit status $?"
command=init config=$tmp/other.yaml refusing='' refused 78 'takes no volumes' --data "$tmp/ct" --model "$tmp/flat.safetensors"
command=init config=$tmp/other.yaml refusing='' refused 78 'masks need a network that gives a class for each pixel or voxel' --data "$tmp/ct"
mkdir -p "$tmp/bare/train"
cp "$tmp/ct/train/case1.nii.gz" "$tmp/bare/train"
command=init config=$tmp/other.yaml refusing='' refused 65 'Volumes need their masks in masks/train' --data "$tmp/bare" --model "$tmp/ct.safetensors"
echo "volumes_data: dice $(dice local) on CT, $(dice 'mri local') on MRI"
