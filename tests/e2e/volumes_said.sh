#!/usr/bin/env bash
# Volumes: what is wrong is said, or done right. Cases that change under --resume are refused, also of a group's member. Cases
# of the evaluation that training has, and several of a patient, are named; so are classes that the network or all masks
# lack, wrong names in lists, turned masks and files without an affine. The report names cut and cases, and init a layout.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
. tests/e2e/lib/volumes.sh
live make "$tmp"
start_server one threads=2
cat >"$tmp/ct.yaml" <<-YAML
	server: $endpoint
	model: {network: $tmp/ct.safetensors, task: pixels}
	head_end: e0
	tail_begin: u0
	data:
	  {kind: volumes, dir: $tmp/ct, label: [back, ball, shell, tube], patch: [16, 16, 16], spacing: [1.5, 1.5, 1.5], intensity: "ct:-100,250", patches: 1}
	train: {batch: 3, chunks: 1, epochs: 2, loss: dice_ce, checkpoint_every: 2, optimizer: {kind: adamw, lr: 0.01}}
	threads: 2
YAML
config=$tmp/ct.yaml

# A run goes on with the cases that it began with: whatever their times, and with a cache that is made anew.
client run "$config" || fail "run: $(cat "$tmp/run.log")"
goes_on() { client run "$config" --resume --set train.epochs=4 "$@"; }
changes() { # KEY ARGUMENT…: the run does not go on, and the sentence names what is other
	local rc=0
	goes_on "${@:2}" || rc=$?
	[ $rc = 78 ] && grep -qE "$1" "$tmp/run.log" || fail "$*: exit status $rc, $(cat "$tmp/run.log")"
}
cp -rp "$tmp/ct" "$tmp/kept"
data='the training data of .* are not those that the run'
live change brighter "$tmp"/ct/train/case*.nii*
changes "$data"
cp -p "$tmp"/kept/train/* "$tmp/ct/train"
live change moved "$tmp/ct/masks/train/case3.nii.gz"
changes "$data"
cp -p "$tmp"/kept/masks/train/* "$tmp/ct/masks/train"
live change brighter "$tmp/ct/test/case1.nii.gz"
changes 'the test data of .* are not those that the run'
cp -p "$tmp"/kept/test/* "$tmp/ct/test"
changes 'data.intensity is not that of the run' --set data.intensity=ct:-100,251
changes 'data.intensity is not that of the run' --set data.intensity=mri
changes 'data.spacing is not that of the run' --set data.spacing=1.5,1.5,1.6
changes 'data.axes is not that of the run' --set data.axes=xyz
touch "$tmp"/ct/*/case*.nii*
gzip "$tmp/ct/train/case0.nii"
rm -r "$tmp/run/volumes"
goes_on --set data.foreground=0.5 || fail "with the same cases: $(cat "$tmp/run.log")"
grep -q 'WARN resume-changed: .*data.foreground was 0.33.*, is 0.5' "$tmp/run.log" || fail "another data.foreground: $(cat "$tmp/run.log")"
member=(--set share.group=g --set share.clients=2 --set share.mode=rounds --set share.member=0)
members g "$config" 2 --set share.mode=rounds
live change brighter "$tmp/ct/train/case1.nii.gz"
rc=0
client g-0 "$config" "${member[@]}" --set train.epochs=4 --resume || rc=$?
[ $rc = 78 ] && grep -qE "$data" "$tmp/g-0.log" || fail "a member with other cases: exit status $rc, $(cat "$tmp/g-0.log")"
cp -p "$tmp"/kept/train/case1* "$tmp/ct/train"

# Cases of the evaluation that training has, whatever their names; equal names alone are no sign of it.
one=(--set train.epochs=1 --set train.max_steps=1 --set data.cache="$tmp/cache" --local)
says() { # ID WORDS ARGUMENT…
	client said "$config" "${one[@]}" --fresh "${@:3}" || fail "$*: $(cat "$tmp/said.log")"
	[ "$(grep -c "^WARN $1: .*$2" "$tmp/said.log")" = 1 ] || fail "$*: $(cat "$tmp/said.log")"
}
silent() { # PATTERN ARGUMENT…
	client said "$config" "${one[@]}" --fresh "${@:2}" && ! grep "$1" "$tmp/said.log" || fail "$*: $(cat "$tmp/said.log")"
}
silent same-
mkdir -p "$tmp/twice/masks"
cp -r "$tmp/kept/train" "$tmp/kept/test" "$tmp/twice"
cp -r "$tmp/kept/masks/train" "$tmp/kept/masks/test" "$tmp/twice/masks"
gunzip -c "$tmp/twice/train/case1.nii.gz" >"$tmp/twice/test/other.nii"
cp "$tmp/twice/masks/train/case1.nii.gz" "$tmp/twice/masks/test/other.nii.gz"
says same-rows '1 of 4 cases of the evaluation' --set data.dir="$tmp/twice"
for part in test masks/test; do
	rm -r "$tmp/twice/$part"
	cp -r "$tmp/twice/${part/test/train}" "$tmp/twice/$part"
done
says same-data 'are those of training' --set data.dir="$tmp/twice"
split=(--set data.split.train=0.5 --set data.split.val=0.5)
silent same- "${split[@]}"
for k in 0 1 2 3 4; do
	for part in train masks/train; do cp "$tmp/twice/$part/case3.nii.gz" "$tmp/twice/$part/copy$k.nii.gz"; done
done
says same-rows 'cases of the evaluation have the images of cases of training' --set data.dir="$tmp/twice" "${split[@]}"
says same-images '5 of 11 cases have the images of another case, such as ' --set data.dir="$tmp/twice" --set data.test_limit=1
live change moved "$tmp/twice/masks/train/copy3.nii.gz"

# Several cases of a patient.
silent rows-repeat "${split[@]}" --set data.dir="$tmp/twice"
mkdir -p "$tmp/patients/masks/train" "$tmp/patients/train"
for k in 0 1 2 3 4 5; do
	cp "$tmp"/kept/train/case$k.nii* "$tmp/patients/train"
	cp "$tmp/kept/masks/train/case$k.nii.gz" "$tmp/patients/masks/train"
	(cd "$tmp/patients" && for file in train/case$k.nii* masks/train/case$k.nii*; do mv "$file" "${file/case$k/p$((k / 2))_$((k % 2))}"; done)
done
repeated=('6 cases begin in 3 ways .*data.split.by' "${split[@]}" --set data.dir="$tmp/patients")
says rows-repeat "${repeated[@]}"
cp "$tmp/kept/train/case1.nii.gz" "$tmp/patients/train/nobody.nii.gz" # one name without a number changes nothing
cp "$tmp/kept/masks/train/case1.nii.gz" "$tmp/patients/masks/train/nobody.nii.gz"
says rows-repeat "${repeated[@]}"
rm "$tmp"/patients/train/nobody* "$tmp"/patients/masks/train/nobody*
silent rows-repeat "${split[@]}" --set data.dir="$tmp/patients" --set data.split.by='(.*)_[0-9]+$' --set data.split.seed=4
"$SPLITC" train "$config" --check-config "${split[@]}" --set data.dir="$tmp/patients" --set log.dir="$tmp/none" >"$tmp/out" 2>&1 || true
[ "$(grep -c rows-repeat "$tmp/out")" = 1 ] || fail "--check-config: $(cat "$tmp/out")"

# A class that the network lacks is found before the first step, also by data and, once prepared, by --check-config; so is
# one that no case has.
cp -r "$tmp/kept" "$tmp/seventh"
live change class "$tmp/seventh/masks/train/case3.nii.gz"
seven=(--set data.dir="$tmp/seventh" --set data.cache="$tmp/seventh/cache")
says7='masks/train/case3.nii.gz: has class 7: the network has the classes 0 to 3, and 255 is not counted. It has 1 voxel of class 7'
refused 0 ok "${seven[@]}"
refusing=--local refused 65 "$says7" "${seven[@]}" --set log.dir="$tmp/seven"
! grep -q '"type":"step"' "$tmp/seven/log.jsonl" 2>/dev/null || fail 'a step before the class was found'
refused 65 "$says7" "${seven[@]}"
command=data refusing='' refused 65 "$says7" "${seven[@]}"
command=data refusing='' refused 65 "$says7" "${seven[@]}" --set data.label=label
rm "$tmp"/seventh/masks/t*/*
for part in train test; do cp "$tmp"/ct/masks/$part/* "$tmp/seventh/masks/$part"; done
live change onlyball "$tmp"/seventh/masks/train/*
says class-missing 'class "tube": no mask in .*/masks/train has it' "${seven[@]}"
refused 0 'WARN class-missing: class "tube"' "${seven[@]}"

# Lists of cases: what a name is taken for is said, and a wrong one gets its own reason.
command=data refusing='' refused 0 'sequences of a case                         1' --set data.cache="$tmp/cache"
grep -qE '^cases +6 +3$' "$tmp/refused.log" || fail "data: $(cat "$tmp/refused.log")"
command=data refusing=--json refused 0 '"cases": 6' --set data.cache="$tmp/cache"
grep -q '6 cases of 1 sequence$' "$tmp/run.log" || fail "prepare: $(cat "$tmp/run.log")"
listed() { # WORDS NAME…: a folder whose training cases are these files
	rm -rf "$tmp/list"
	mkdir -p "$tmp/list/masks"
	cp -r "$tmp/kept/test" "$tmp/list"
	mkdir "$tmp/list/train" "$tmp/list/masks/train"
	cp -r "$tmp/kept/masks/test" "$tmp/list/masks"
	for file in "${@:2}"; do
		[ "${file##*.}" = nii ] && cp "$tmp/kept/train/case0.nii" "$tmp/list/train/$file" || cp "$tmp/kept/train/case1.nii.gz" "$tmp/list/train/$file"
		name=${file%.nii*}
		case=$([ "${file##*.}" = nii ] && echo 0 || echo 1)
		cp "$tmp/kept/masks/train/case$case.nii.gz" "$tmp/list/masks/train/${name%_[0-9][0-9][0-9][0-9]}.nii.gz"
	done
	refused "${code:-65}" "$1" --set data.dir="$tmp/list"
}
code=78 listed '3 files were read as one case of 3 sequences: rename files of several patients' p_0000.nii.gz p_0001.nii.gz p_0002.nii.gz
grep -q 'data with 1 channel would fit' "$tmp/refused.log" && grep -q 'INFO cases: 3 files are 1 case of 3 sequences, such as p of p_0000' "$tmp/refused.log" || fail "channels: $(cat "$tmp/refused.log")"
listed 'a.nii.gz: the same case is there as a.nii, too: remove one of them' a.nii a.nii.gz b.nii.gz
listed 'a_0000.nii.gz: a.nii.gz is there, too: case a is either one file or sequences a_0000' a.nii.gz a_0000.nii.gz
listed 'p1_0000.nii.gz: p1.nii.gz is there, too' p1.nii.gz p10.nii.gz p1_0000.nii.gz
listed 'scan_2019.nii.gz: by its name it is sequence 2019 of case scan, whose sequence scan_0000 is not there: rename it' scan_2019.nii.gz b.nii.gz
listed 'c_0002.nii.gz: sequence c_0001 is missing' c_0000.nii.gz c_0002.nii.gz
listed 'case d has 2 sequences, and a has 1' a.nii.gz b.nii.gz d_0000.nii.gz d_0001.nii.gz

# The report of a run names the cut, the cases, and what Dice is a mean over.
report() { # RUN WORDS…
	"$SPLITC" report "$tmp/$1" >"$tmp/report" 2>&1 || fail "report of $1: $(cat "$tmp/report")"
	for says in "${@:2}"; do grep -qF "$says" "$tmp/report" || fail "report of $1: no $says: $(cat "$tmp/report")"; done
}
report run '/ct.safetensors"' '**Cut**: the head ends with e0, the tail begins with u0' '**Cases**: 6 to train on, 3 to evaluate on' '**Spacing**: 1.5, 1.5, 1.5 mm' \
	'**Intensity**: ct: cut off at -100 and 250, less -100, divided by 350' '**What the figures are of**: all voxels of the 24 evaluated patches together, which lie side by side: none is a mean over cases' \
	'**Patch**: 16 × 16 × 16 voxels, axes zyx'

# A mask whose axes are stored otherwise; files without an affine; sizes before preparation; few patches for leak.
live change flipped "$tmp/ct/masks/train/case1.nii.gz"
refused 65 'masks/train/case1.nii.gz: its voxels lie where those of' --set log.dir="$tmp/none"
grep -q 'stored in another order or direction' "$tmp/refused.log" || fail "flipped: $(cat "$tmp/refused.log")"
cp -p "$tmp/kept/masks/train/case1.nii.gz" "$tmp/ct/masks/train"
refused 0 'INFO unprepared: ' --set log.dir="$tmp/none"
refused 0 '24 samples to evaluate with' --set data.cache="$tmp/cache" && ! grep unprepared "$tmp/refused.log" || fail "prepared: $(cat "$tmp/refused.log")"
! grep unplaced "$tmp/run.log" || fail 'files with an affine'
live change unplaced "$tmp/ct/train/case2.nii.gz"
refused 0 'WARN unplaced: '"$tmp/ct/train/case2.nii.gz"': has neither sform nor qform' --set log.dir="$tmp/none"
cp "$tmp"/kept/train/case2* "$tmp/ct/train"
command=leak refusing='' refused 78 'the test part has 24 patches of its cases, and leak needs 40 or more' --out "$tmp/leak" --set data.cache="$tmp/cache" --set log.dir= --set train.checkpoint_every=0 --set insert.head=conv:8
grep -q 'INFO untrained: there is no trained model in log.dir, which is empty' "$tmp/refused.log" || fail "leak: $(cat "$tmp/refused.log")"

# init says which layout works, and the one that it proposes for nnU-Net's does.
init() { # FOLDER STATUS WORDS
	local rc=0
	(cd "$tmp" && "$SPLITC" init new.yaml --force --data "$1" --model "$tmp/ct.safetensors" --cut e0,u0) >"$tmp/out" 2>&1 || rc=$?
	[ $rc = "$2" ] && grep -qF "$3" "$tmp/out" || fail "init of $1: exit status $rc, $(cat "$tmp/out")"
}
mkdir "$tmp/nnunet"
cp -r "$tmp/kept/train" "$tmp/nnunet/imagesTr"
cp -r "$tmp/kept/masks/train" "$tmp/nnunet/labelsTr"
init "$tmp/kept/train" 65 'Volumes lie in train/ and test/, and their masks, with the same names, in masks/train/ and masks/test/'
init "$tmp/nnunet" 65 "These are nnU-Net's folders"
links=$(sed -n 's/.* are read: \(ln .*masks.train\)\. Without.*/\1/p' "$tmp/out")
(cd "$tmp/nnunet" && eval "$links")
init "$tmp/nnunet" 0 'The data are volumes with masks'
client nnunet "$tmp/new.yaml" --local --set train.max_steps=1 || fail "nnU-Net's folders: $(cat "$tmp/nnunet.log")"

# What sorts samples by one label has none to sort masks by.
for how in by_label dirichlet:0.5; do
	refused 78 'data.partition: a mask has several classes' --set share.group=g --set share.clients=2 --set share.mode=rounds --set data.partition=$how
done
refused 0 ok --set data.cache="$tmp/cache" --set share.group=g --set share.clients=2 --set share.mode=rounds --set data.partition=iid
echo 'volumes_said: ok'
