#!/usr/bin/env bash
# A class for each pixel, by a U-Net: ten losses as in PyTorch, with and without class weights, with
# Dice alone and with both, in one chunk and in four; and by a network that resizes its logits to the picture. A run with
# a server equals --local, also over a kill of the client. Metrics equal sklearn's. Masks are predicted after the data
# were removed. What does not fit is refused with a sentence.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, torchvision, onnx, sklearn, PIL' 2>/dev/null || { echo 'SKIP no PyTorch' && exit 77; }
live() { "$python" -W ignore tests/golden/pixels_live.py "$@" >"$tmp/live" 2>&1 || fail "$1: $(tail -n 3 "$tmp/live")"; }
live make "$tmp/photos"
start_server one
config() {
	cat >"$tmp/$1.yaml" <<-YAML
		server: $endpoint
		model: {network: $tmp/photos/unet.safetensors, task: pixels}
		head_end: norm1
		tail_begin: join
		data:
		  {kind: images, dir: $tmp/photos, label: [back, disc, square], transforms: [$2, "Normalize((0.5,), (0.25,))"],
		  test_transforms: ["Resize((32, 32))", "Normalize((0.5,), (0.25,))"]}
		train: {epochs: 10, seed: 1, checkpoint_every: 3, $3, optimizer: {kind: sgd, lr: 0.1, momentum: 0, weight_decay: 0}}
		threads: 1
	YAML
}
fixed='"Resize((40, 40))", "RandomHorizontalFlip(1.0)", "RandomRotation((30, 30))", "CenterCrop(32)"'
config torch "$fixed" 'batch: 8, chunks: 1'
client torch "$tmp/torch.yaml" --local || fail "torch: $(tail -n 2 "$tmp/torch.log")"
live same "$tmp/torch/log.jsonl" "$tmp/photos/losses.json"
client weighted "$tmp/torch.yaml" --local --set train.class_weights=0.5,1,2 || fail "weighted: $(tail -n 2 "$tmp/weighted.log")"
live same "$tmp/weighted/log.jsonl" "$tmp/photos/weighted.json"
client resized "$tmp/torch.yaml" --local --set model.network="$tmp/photos/resized.safetensors" --set head_end=down1 --set tail_begin=Resize ||
	fail "resized: $(tail -n 2 "$tmp/resized.log")"
live same "$tmp/resized/log.jsonl" "$tmp/photos/resized.json"
for loss in dice dice_ce foreground_dice foreground_dice_ce; do
	for chunks in 1 4; do
		lr=1 weights=none
		[ "${loss%dice}" != "$loss" ] || lr=0.1 weights=0.5,1,2
		client $loss-$chunks "$tmp/torch.yaml" --local --set model.network="$tmp/photos/plain.safetensors" --set train.loss=$loss \
			--set train.chunks=$chunks --set train.class_weights=$weights --set head_end=down1 \
			--set train.optimizer.lr=$lr || fail "$loss: $(tail -n 2 "$tmp/$loss-$chunks.log")"
		live same "$tmp/$loss-$chunks/log.jsonl" "$tmp/photos/$loss.json"
		cat "$tmp/live"
	done
done

config run '"RandomResizedCrop((32, 32))", "RandomHorizontalFlip()", "ColorJitter(0.3)"' 'batch: 4, chunks: 2, loss: dice_ce, keep_best: true, best_metric: mean_iou'
as_local linked local 20 "$tmp/run.yaml" --json
killed_client 8 linked "$tmp/run.yaml"

on() { "$SPLITC" "$1" "$tmp/run.yaml" --local --set log.dir="$tmp/linked" "${@:2}" 2>"$tmp/$1.log" || fail "$1: $(tail -n 2 "$tmp/$1.log")"; }
on eval --json >"$tmp/eval.json"
on eval >"$tmp/eval.txt"
grep -qE 'mean_iou +dice  of' "$tmp/eval.txt" && grep -qE '  square$' "$tmp/eval.txt" || fail "eval: $(cat "$tmp/eval.txt")"
for batch in 1 5; do # a picture's Dice loss counts once, however many of its pixels count
	on eval --json --set train.batch=$batch --set train.chunks=1 >"$tmp/batch.json"
	jq -e --slurpfile was "$tmp/eval.json" '.test_loss - $was[0].test_loss | fabs < 1e-5' "$tmp/batch.json" >"$tmp/out" ||
		fail "batches of $batch: the loss is $(jq .test_loss "$tmp/batch.json"), not $(jq .test_loss "$tmp/eval.json")"
done
on predict --out "$tmp/masks" >"$tmp/lines"
[ "$(wc -l <"$tmp/lines")" = 6 ] && grep -qF "$tmp/masks/b/photo-3.png" "$tmp/lines" || fail "predict: $(cat "$tmp/lines")"
live scores "$tmp/photos" "$tmp/masks" "$tmp/eval.json"
cat "$tmp/live"
"$SPLITC" data "$tmp/run.yaml" --sheet "$tmp/sheet.png" >"$tmp/out" 2>&1 || fail "data: $(cat "$tmp/out")"
"$python" -c 'import sys, numpy as np; from PIL import Image; x = np.array(Image.open(sys.argv[1])).astype(int); sys.exit(not (abs(x[..., 0] - x[..., 1]) > 40).any())' "$tmp/sheet.png" ||
	fail 'a sheet without masks'
mkdir "$tmp/new"
cp "$tmp"/photos/val/*/*.png "$tmp/new"
on predict --out "$tmp/elsewhere" --set data.dir="$tmp/nowhere" "$tmp/new" >"$tmp/lines"
for mask in "$tmp"/masks/*/*; do cmp "$mask" "$tmp/elsewhere/${mask##*/}" || fail "another mask of ${mask##*/} without the data"; done
# No mask is overwritten, neither by another mask, nor a sample by its own mask.
not_written() { # SENTENCE ARGUMENT…
	local status=0
	"$SPLITC" predict "$tmp/run.yaml" --local --set log.dir="$tmp/linked" --force "${@:2}" >"$tmp/out" 2>&1 || status=$?
	[ $status = 73 ] && grep -qF -- "$1" "$tmp/out" || fail "$1: exit status $status, $(cat "$tmp/out")"
}
cp -r "$tmp/new" "$tmp/before"
not_written "is one of the samples: name another folder" --out "$tmp/new" "$tmp/new"
diff -r "$tmp/new" "$tmp/before" || fail 'a sample was written over'
cp "$tmp/new/photo-0.png" "$tmp/new/photo-0.PNG"
not_written "two samples would have the mask $tmp/twice/photo-0.png" --out "$tmp/twice" "$tmp/new"
rm "$tmp/new/photo-0.PNG"

# refused STATUS SENTENCE OPTION…
refused() {
	local status=0 fresh=--fresh
	[ -z "${command:-}" ] || fresh=
	"$SPLITC" "${command:-train}" "$tmp/${of:-run}.yaml" --local $fresh --set log.dir="$tmp/refused" "${@:3}" >"$tmp/out" 2>&1 || status=$?
	[ $status = "$1" ] && grep -qF -- "$2" "$tmp/out" || fail "$2: exit status $status, $(cat "$tmp/out")"
}
refused 78 'pixels are of data.kind: images' --set data.kind=webdataset
refused 78 'members of a sync step do not know how many pixels of the others count: give serial or rounds' --set share.group=g
refused 78 'of pixels they are a list with a number for each class' --set train.class_weights=balanced
refused 78 'they count in cross-entropy: give train.loss: dice_ce or labels' --set train.loss=dice --set train.class_weights=1,2,3
refused 78 'the loss of its masks alone: labels, dice or dice_ce' --set train.loss=huber
refused 78 'no metric "f1" of pixels; there are accuracy, balanced_accuracy, mean_iou, dice' --set train.metrics=f1
refused 78 'a mask has no such note' --set data.exif=true
refused 78 'moves pixels, which no mask follows' --set 'data.transforms=Resize((32, 32)),RandAugment()'
refused 78 'names 2 classes, and the network has 3' --set data.label=back,disc
sed 's/label: .*\], transforms/transforms/' "$tmp/run.yaml" >"$tmp/unnamed.yaml"
of=unnamed refused 78 'give model.task: pixels' --set model.task=classes --set train.best_metric=accuracy --set train.loss=labels
of=unnamed refused 78 'dice and dice_ce are losses of pixels' --set model.task=classes --set train.best_metric=accuracy
command=predict refused 64 'give --out FOLDER'
command=predict refused 64 'leave out --csv' --csv --out "$tmp/csv"
# In masks of 0 and 255 only, 255 is ignored, so every answer would be right: a warning, but not for good masks.
"$SPLITC" data "$tmp/run.yaml" 2>&1 | grep 'were looked at' && fail 'good masks are warned of'
cp -r "$tmp/photos" "$tmp/binary"
"$python" -c 'import sys; from PIL import Image; [Image.open(p).point(lambda x: 255 if x else 0, "L").save(p) for p in sys.argv[1:]]' "$tmp"/binary/masks/train/*/*.png
client binary "$tmp/run.yaml" --local --set data.dir="$tmp/binary" --set train.epochs=1 || fail "binary: $(tail -n 2 "$tmp/binary.log")"
[ "$(grep -cE 'WARN.* masks of training were looked at: all pixels are 0 or 255, and 255 is not counted' "$tmp/binary.log")" = 1 ] || fail "binary: $(cat "$tmp/binary.log")"
grep 'masks of the evaluation' "$tmp/binary.log" && fail 'the evaluation has good masks'
bad() {
	"$python" -c "import sys, numpy as np; from PIL import Image; $1.save(sys.argv[1])" "$tmp/photos/masks/train/a/photo-0.png"
	refused 65 "photo-0.png: $2"
	if "$SPLITC" data "$tmp/run.yaml" >"$tmp/out" 2>&1 || ! grep -q "photo-0.png: $2" "$tmp/out"; then fail "data: $(cat "$tmp/out")"; fi
}
bad 'Image.new("L", (40, 48), 7)' 'pixel (0, 0) is 7: the network has the classes 0 to 2, and 255 is not counted'
bad 'Image.new("RGB", (40, 48))' 'a mask has one number of at most 8 bits for each pixel'
bad 'Image.new("I;16", (40, 48))' 'a mask has one number of at most 8 bits for each pixel'
bad 'Image.new("L", (48, 40))' 'the mask is of 48 x 40, and its picture of 40 x 48'
rm "$tmp/photos/masks/train/a/photo-0.png"
refused 66 'masks/train/a/photo-0.png: No such file'
echo 'a class for each pixel is learned, evaluated and predicted'
