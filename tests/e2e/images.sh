#!/usr/bin/env bash
# Folders of pictures: a run with a server equals --local, for any number of loader threads. Killed and resumed it
# equals the undisturbed run, also with skipped pictures. A broken picture ends the run or is skipped. --check-config
# reports faults of folders. Grey pictures of 16 bits are learned from as they are.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 60 30
. tests/e2e/lib/compare.sh
write_config "$tmp/cifar.yaml"
sed "s|^data: .*|data: {kind: images, dir: $tmp/pictures}|" "$tmp/cifar.yaml" >"$tmp/client.yaml"
sed 's/^threads: 1/threads: 2/' "$tmp/client.yaml" >"$tmp/images.yaml"
pictures() { # from the beginning
	rm -rf "$tmp/pictures"
	"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures" 0
	"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures/train" 60
	"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/pictures/val" 30
}
pictures

# ---- pictures of the evaluation that are those of training, under other names and in other classes' folders
copied() { # NAME WORDS
	"$SPLITC" train "$tmp/images.yaml" --check-config --set data.dir="$tmp/copied" >"$tmp/copied.log" 2>&1 || fail "$1: $(cat "$tmp/copied.log")"
	grep -q "$2" "$tmp/copied.log" || fail "$1: $(cat "$tmp/copied.log")"
}
"$SPLITC" train "$tmp/images.yaml" --check-config >"$tmp/copied.log" 2>&1 && ! grep 'same-' "$tmp/copied.log" || fail "other pictures: $(cat "$tmp/copied.log")"
mkdir "$tmp/copied"
cp -r "$tmp/pictures/train" "$tmp/pictures/val" "$tmp/copied"
n=0
for file in $(ls "$tmp/copied/train/"*/* | head -n 7); do
	n=$((n + 1))
	cp "$file" "$tmp/copied/val/class-$n/other-$n.${file##*.}"
done
copied 'some pictures' '^WARN same-rows: 7 of 37 pictures of the evaluation that were compared are pictures of training'
for class in "$tmp/copied/val"/*; do rm "$class"/*; done
for file in "$tmp/copied/train/"*/*; do
	n=$((n + 1))
	class=${file%/*}
	cp "$file" "$tmp/copied/val/${class##*/}/copy-$n.${file##*.}"
done
copied 'all pictures' '^WARN same-data: 60 of 60 pictures of the evaluation'
# Equal names and sizes alone are no sign of it.
for file in "$tmp/copied/train/"*/*; do rm -f "$file"; done
for class in "$tmp/copied/train"/*; do
	name=${class##*/}
	rm "$tmp/copied/val/$name"/*
	for k in 1 2 3; do
		{ printf 'P6 8 8 255\n' && head -c 192 /dev/urandom; } >"$class/$k.ppm"
		{ printf 'P6 8 8 255\n' && head -c 192 /dev/urandom; } >"$tmp/copied/val/$name/$k.ppm"
	done
done
copied 'equal names' 'ok'
! grep same- "$tmp/copied.log" || fail "equal names: $(cat "$tmp/copied.log")"

# ---- splitc data
"$SPLITC" data "$tmp/images.yaml" --json --sheet "$tmp/sheet.png" >"$tmp/json" || fail "data: exit status $?"
[ "$(jq -c '[.kind, (.classes | length), .classes[3].name, .train.samples, .test.samples, .width.min, .width.max, .height.max, .threads]' "$tmp/json")" = \
	'["images",10,"class-3",60,30,32,96,64,2]' ] || fail "--json: $(cat "$tmp/json")"
for class in 0 9; do
	[ "$(jq ".classes[$class].train" "$tmp/json")" = "$(find "$tmp/pictures/train/class-$class" -type f | wc -l)" ] || fail "class $class: $(cat "$tmp/json")"
done
# The pictures have the pixels of CIFAR but for JPEG losses and a resize, so the means must agree.
"$SPLITC" data "$tmp/cifar.yaml" --json >"$tmp/cifar" || fail "data of CIFAR: exit status $?"
jq -se '[.[0].mean, .[1].mean] | transpose | map(.[0] - .[1] | fabs) | max < 0.01' "$tmp/json" "$tmp/cifar" >"$tmp/out" ||
	fail "means: $(jq -c .mean "$tmp/json" "$tmp/cifar")"
cp "$tmp/images.yaml" "$tmp/kept.yaml"
"$SPLITC" data "$tmp/images.yaml" --sheet "$tmp/kept.yaml" >"$tmp/out" 2>"$tmp/err" && fail 'a sheet in place of a config' || status=$?
[ $status = 64 ] && cmp "$tmp/images.yaml" "$tmp/kept.yaml" || fail "a sheet in place of a config: status $status, $(cat "$tmp/err")"
# The sheet has 16 samples, 8 in a row; each is 112 pixels wide and high, with gaps of 6 pixels and 7 for the label.
[ "$(od -An -t x1 -j 1 -N 3 "$tmp/sheet.png" | tr -d ' ')" = 504e47 ] || fail 'the sheet is no PNG'
[ "$(od -An -t u1 -j 16 -N 8 "$tmp/sheet.png" | awk '{print $3 * 256 + $4, $7 * 256 + $8}')" = '950 262' ] || fail 'the sheet has another size'

# Of a set that is divided by data.partition, the member's part: of two members in order of labels, the second one.
"$SPLITC" data "$tmp/images.yaml" --json --set share.group=g --set share.clients=2 --set share.member=1 --set data.partition=by_label >"$tmp/json" 2>"$tmp/err" ||
	fail "a member's part: exit status $?"
jq -e '[.classes[].train] | add == 30 and .[0] == 0 and .[9] > 0' "$tmp/json" >"$tmp/out" || fail "a member's part: $(cat "$tmp/json")"
grep -q 'data-part: member 1 of 2 has 30 of 60 training samples' "$tmp/err" || fail "a member's part: $(cat "$tmp/err")"

# two unreadable pictures, one in each split
jpeg=$(ls "$tmp/pictures/train/"*/*.jpg | sed -n 3p)
png=$(ls "$tmp/pictures/val/"*/*.png | sed -n 5p)
truncate -s 300 "$jpeg"
: >"$png"
for threads in 1 3; do
	status=0
	"$SPLITC" data "$tmp/images.yaml" --set data.threads=$threads >"$tmp/table" 2>"$tmp/err" || status=$?
	[ $status = 65 ] || fail "broken pictures: exit status $status"
	[ "$(grep -v '^WARN thin-part' "$tmp/err")" = "splitc: $jpeg: JPEG: Premature end of JPEG file
splitc: $png: the file is empty" ] || fail "broken pictures: $(cat "$tmp/err")"
	grep -v throughput "$tmp/table" >"$tmp/table.$threads"
done
cmp "$tmp/table.1" "$tmp/table.3" || fail 'the number of threads changes figures'
grep -qx 'unreadable  1 of 60 samples of training' "$tmp/table" && grep -qE '^all +59 +29$' "$tmp/table" || fail "$(cat "$tmp/table")"
# Files that are not pictures are counted; hidden files are not.
: >"${jpeg%/*}/a.gif"
: >"${jpeg%/*}/notes.txt"
: >"${jpeg%/*}/.DS_Store"
: >"${jpeg%/*}/._a.jpg"
mkdir "$tmp/pictures/train/.ipynb_checkpoints"
"$SPLITC" data "$tmp/images.yaml" >"$tmp/table" 2>"$tmp/err" || true
grep -qx 'passed over 2 files of training, not pictures: 1 .gif, 1 .txt' "$tmp/table" || fail "passed over: $(cat "$tmp/table")"
grep -q "^WARN passed-over: $tmp/pictures/train: 2 files in class folders are no picture that is read (.*), beside 60: 1 .gif, 1 .txt$" "$tmp/err" || fail "passed over: $(cat "$tmp/err")"
cp "$(ls "${jpeg%/*}"/*.jp*g | head -n 1)" "$tmp/pictures/train/stray.jpg"
"$SPLITC" data "$tmp/images.yaml" >"$tmp/table" 2>"$tmp/err" || true
rm "$tmp/pictures/train/stray.jpg"
grep -qx "WARN passed-over: $tmp/pictures/train: beside the class folders, and so of no class: 1 picture, such as stray.jpg" "$tmp/err" || fail "a picture beside the classes: $(cat "$tmp/err")"
"$SPLITC" data "$tmp/images.yaml" --json 2>"$tmp/err" | jq -e '.train.passed_over == 2 and .test.passed_over == 0' >"$tmp/table" || fail 'passed over: --json'
# DICOM is known by its first bytes, as a PACS exports it: without an ending, here by a program without its module.
# DICOMDIR lists files, and is no picture.
mkdir -p "$tmp/pacs/train/dark" "$tmp/pacs/train/light" "$tmp/alone"
cp "$SPLITC" "$tmp/alone/splitc"
for i in 1 2 3; do
	cp tests/golden/dicom/ct_window.dcm "$tmp/pacs/train/dark/IM00000$i"
	cp tests/golden/dicom/xray_inverted.dcm "$tmp/pacs/train/light/1.2.840.$i"
done
cp tests/golden/dicom/ct_window.dcm "$tmp/pacs/train/dark/DICOMDIR"
cp -r "$tmp/pacs/train" "$tmp/pacs/val"
for verb in data train; do
	status=0
	"$tmp/alone/splitc" $verb "$tmp/images.yaml" $([ $verb = data ] || echo --local) --set data.dir="$tmp/pacs" --set model.classes=2 --set data.threads=1 >"$tmp/out" 2>"$tmp/err" || status=$?
	[ $status = 69 ] && grep -q "^splitc: $tmp/pacs/train/[a-z]*/[^ ]*: this is DICOM, and splitc's module for it is missing" "$tmp/err" || fail "$verb of DICOM without endings: $status, $(cat "$tmp/err")"
	grep -q "passed-over: $tmp/pacs/train: 1 file in class folders is no picture that is read (.*), beside 6: 1 without an ending$" "$tmp/err" || fail "$verb: DICOMDIR: $(cat "$tmp/err")"
done
"$tmp/alone/splitc" init "$tmp/pacs.yaml" --data "$tmp/pacs" >"$tmp/out" 2>&1 </dev/null && grep -qx 'The data are pictures in class folders (images).' "$tmp/out" || fail "init: DICOM without endings: $(cat "$tmp/out")"
"$SPLITC" data "$tmp/images.yaml" --set data.dir="$tmp/none" 2>"$tmp/err" && fail 'no folder' || status=$?
[ $status = 66 ] || fail "no folder: exit status $status"
pictures

# ---- runs
steps=4
"$SPLITC" train "$tmp/client.yaml" --check-config >"$tmp/out" || fail "--check-config: $(cat "$tmp/out")"
grep -q 'ok, 4 steps on 60 samples, 30 samples to evaluate with' "$tmp/out" || fail "--check-config: $(cat "$tmp/out")"

client local "$tmp/client.yaml" --local || fail "--local: exit status $?"
client remote "$tmp/client.yaml" --set data.threads=3 --set data.prefetch=2 || fail "with a server: exit status $?"
same_run remote local $steps
client plain "$tmp/client.yaml" --local --set 'data.transforms=Resize((32, 32))' || fail "own transforms: exit status $?"
[ "$(learned plain)" != "$(learned local)" ] || fail "data.transforms made no difference"

# MixUp and label smoothing
mixed='--set train.mixup=0.4 --set train.label_smoothing=0.1'
client mixed "$tmp/client.yaml" --local $mixed || fail "train.mixup --local: exit status $?"
client mixed-remote "$tmp/client.yaml" --set data.threads=3 $mixed || fail "train.mixup with a server: exit status $?"
same_run mixed-remote mixed $steps
client smooth "$tmp/client.yaml" --local --set train.label_smoothing=0.1 || fail "label smoothing: exit status $?"
[ "$(learned mixed)" != "$(learned smooth)" ] || fail "train.mixup made no difference"

# Only one list of transforms is given: the default steps of the other one must treat colours the same way.
client own "$tmp/client.yaml" --local --set 'data.transforms=Resize((32, 32)),Grayscale(3),Normalize(0.25, 0.5)' || fail "one list of transforms: $(tail -n 2 "$tmp/own.log")"
grep -qaF '[\"Resize((32, 32))\",\"Grayscale(3)\",\"Normalize((0.25, 0.25, 0.25), (0.5, 0.5, 0.5))\"]' "$tmp/own/model.safetensors" || fail 'an evaluation sees other colours'
"$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/plain" --set data.jpeg=exact >"$tmp/out" 2>&1 || fail "eval: $(cat "$tmp/out")"
grep -q '^WARN other-data: the model was trained with jpeg "fast", and this config has "exact"$' "$tmp/out" || fail "another data.jpeg: $(cat "$tmp/out")"
# The export names the normalization used in training, whatever the config says now.
for export in cifar10 none; do
	"$SPLITC" export "$tmp/client.yaml" "$tmp/$export.safetensors" --set log.dir="$tmp/plain" --set data.normalize=$export >"$tmp/out" 2>&1 || fail "export: $(cat "$tmp/out")"
done
grep -qa '"normalize": *"cifar10"' "$tmp/cifar10.safetensors" && grep -qa '"normalize": *"Normalize((0.49' "$tmp/none.safetensors" || fail 'an export says another Normalize than its training'

# broken pictures of two formats: the first one ends the run
jpeg=$(ls "$tmp/pictures/train/"*/*.jpg | sed -n 3p)
png=$(ls "$tmp/pictures/train/"*/*.png | sed -n 5p)
truncate -s 300 "$jpeg"
printf 'not a picture' >"$png"
status=0
client stops "$tmp/client.yaml" --local || status=$?
[ $status = 65 ] || fail "a broken picture: exit status $status, not 65"
grep -qE "^splitc: ($jpeg: JPEG: |$png: this is not a picture)" "$tmp/stops.log" || fail "a broken picture: $(cat "$tmp/stops.log")"
grep -q '; data.on_bad_sample: skip goes on without it$' "$tmp/stops.log" || fail "no way on: $(cat "$tmp/stops.log")"
skip='--set data.on_bad_sample=skip --set train.checkpoint_every=1'
client skips "$tmp/client.yaml" --local $skip || fail "on_bad_sample: skip: exit status $?"
[ "$(grep -c "WARN bad-sample: .*the next sample takes its place" "$tmp/skips.log")" = 2 ] ||
	fail "on_bad_sample: skip: $(grep WARN "$tmp/skips.log")"
grep -q "bad-sample: $jpeg: " "$tmp/skips.log" && grep -q "bad-sample: $png: " "$tmp/skips.log" || fail "no names: $(grep WARN "$tmp/skips.log")"
grep -q 'counts it twice' "$tmp/skips.log" && fail 'a picture of training counts twice in no evaluation'
good=$(ls "$tmp/pictures/val/"*/* | sed -n 2p)
cp "$good" "$tmp/good"
printf 'not a picture' >"$good"
"$SPLITC" eval "$tmp/client.yaml" --local $skip --set log.dir="$tmp/skips" >"$tmp/out" 2>&1 || fail "eval of a broken picture: $(cat "$tmp/out")"
grep -qF 'takes its place, and an evaluation counts it twice (bad samples so far: 1)' "$tmp/out" || fail "eval of a broken picture: $(cat "$tmp/out")"
cp "$tmp/good" "$good"

# killed in its third step, and resumed
killed_client 2 skips "$tmp/client.yaml" $skip

refused 66 "--set data.dir: $tmp/none: No such file" --set data.dir="$tmp/none"
refused 78 'the model only 9' --set model.classes=9
refused 78 'data.transforms: step 1, RandomCorp(32): there is no step of this name' --set 'data.transforms=RandomCorp(32),Resize(32)'
refused 78 'data.test_transforms: step 2, Cutout(4): an evaluation leaves nothing to chance' --set 'data.test_transforms=Resize((32, 32)),Cutout(4)'
own='data.transforms=Resize((32, 32)),Grayscale(3),Normalize(0.25, 0.5)'
refused 78 'data.test_transforms: has no Normalize, and data.transforms has Normalize(0.25, 0.5), so' --set "$own" --set 'data.test_transforms=Resize((32, 32)),Grayscale(3)'
refused 78 'data.transforms: has no Grayscale, and data.test_transforms has Grayscale(3), so' --set 'data.transforms=Resize((32, 32))' --set 'data.test_transforms=Resize((32, 32)),Grayscale(3)'
refused 78 'data.test_transforms: has Normalize(0.5, 0.5), and data.transforms has Normalize(0.25, 0.5), so' --set "$own" --set 'data.test_transforms=Resize((32, 32)),Grayscale(3),Normalize(0.5, 0.5)'
refused 78 'data.flip: belongs to data.kind: cifar10 and cifar100 without data.transforms; list such steps in data.transforms' --set data.flip=false
mkdir "$tmp/pictures/val/class-x"
refused 65 "$tmp/pictures/val/class-x: train/ has no class of this name"

# ---- grey pictures of 16 bits in a network of one channel: data, training with augmentation, split equal to local,
# predict, leak
# Classes differ only below the upper eight bits: 3 classes with values 1,000, 1,060 and 1,120, and a little noise.
for split in train val; do
	for class in 0 1 2; do
		mkdir -p "$tmp/xrays/$split/class$class"
		for i in 0 1 2 3 4 5 6 7; do
			LC_ALL=C awk -v class=$class -v i=$i 'BEGIN {
				printf "P5 8 8 65535\n"
				for (k = 0; k < 64; k++) {
					v = 1000 + 60 * class + (k * 7 + i * 13) % 11
					printf "%c%c", int(v / 256), v % 256 ? v % 256 : 1
				}
			}' >"$tmp/xrays/$split/class$class/$i.pgm"
		done
	done
done
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {network: $PWD/tests/golden/onnx_grey.safetensors}
	data:
	  kind: images
	  dir: $tmp/xrays
	  bits: 16
	  transforms: ["RandomAffine(10, translate=(0.1, 0.1), fill=4)", "Resize((16, 16))", "Normalize(0.0162, 0.0008)"]
	  test_transforms: ["Resize((16, 16))", "Normalize(0.0162, 0.0008)"]
	train: {batch: 6, chunks: 2, epochs: 12, seed: 3, optimizer: {kind: adamw, lr: 0.02}}
	threads: 1
YAML
steps=48
compare 'grey'

"$SPLITC" data "$config" --json >"$tmp/data.json" || fail 'data'
jq -e '(.mean | length == 1) and (.mean[0] - 0.01625 | fabs < 0.0003)' "$tmp/data.json" >"$tmp/out" || fail "the mean: $(jq -c .mean "$tmp/data.json")"
"$SPLITC" data "$config" --sheet "$tmp/sheet.png" >"$tmp/out" || fail 'a sheet'
grep -q '^mean  *0.01[0-9]*$' "$tmp/out" || fail "$(cat "$tmp/out")"
"$SPLITC" predict "$config" --local --csv --set log.dir="$tmp/local grey" "$tmp/xrays/val" >"$tmp/predicted.csv" 2>"$tmp/err" || fail "predict: $(cat "$tmp/err")"
right=$(awk -F, 'NR > 1 && index($NF, $(NF - 1) "/") {n++} END {print n + 0}' "$tmp/predicted.csv")
[ "$right" -ge 20 ] || fail "$right of 24 pictures are right: $(cat "$tmp/predicted.csv")"
grep -qF '\"channels\":1,\"bits\":16' "$tmp/local grey/model.safetensors" || fail 'the model does not say that it takes grey of 16 bits'

mkdir "$tmp/many"
cp -r "$tmp/xrays/train" "$tmp/many/val"
for class in 0 1 2; do
	for i in 0 1 2 3 4 5 6 7; do cp "$tmp/xrays/val/class$class/$i.pgm" "$tmp/many/val/class$class/more$i.pgm"; done
done
"$SPLITC" leak "$config" --steps 20 --out "$tmp/leak" --set data.dir="$tmp/many" --set log.dir="$tmp/none" >"$tmp/out" 2>"$tmp/err" || fail "leak: $(cat "$tmp/err")"
jq -e '.pictures > 8 and .informed.steps == 20 and .informed.psnr_db.chance > 50' "$tmp/leak/leak.json" >"$tmp/out" || fail "leak: $(cat "$tmp/leak/leak.json")"
[ -s "$tmp/leak/sheet.png" ] || fail 'leak makes no sheet'

client weighted "$config" --local --set train.epochs=1 --set train.class_weights=1,2,3 || fail "weights of the file's three classes: $(cat "$tmp/weighted.log")"
refused 78 'train.class_weights: needs a number for each of the 3 classes or labels, got 2' --set train.class_weights=1,2
refused 78 'data.channels: the network takes image [16,16,1]; images has image [H,W,3]: data with 1 channel would fit' --set data.channels=3
refused 78 'step 1, RandAugment(): is of 8 bits: take data.bits: 8' --set 'data.transforms=RandAugment(),Resize((16, 16))'
refused 78 'data.bits: must be 8 or 16, got "12"' --set data.bits=12
echo 'pictures train as they should, with a server and without; broken ones are named; grey ones of 16 bits too'
