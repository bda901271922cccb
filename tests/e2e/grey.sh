#!/usr/bin/env bash
# Grey pictures of 16 bits in a network of one channel: data, training with augmentation, split equal to local, predict, leak.
# What does not fit is refused with a sentence.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
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
. tests/e2e/lib/compare.sh
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
echo 'grey pictures of 16 bits are learned from as they are'
