#!/usr/bin/env bash
# usage: codec-accuracy.sh CIFAR_DIR WEIGHTS OUT [SEED]…
# Measures what each codec costs in accuracy: MobileNetV2 in its cifar form is fine-tuned at 32² on the first 2,000
# images of CIFAR-10 (CIFAR_DIR: its binary files) from an ImageNet backbone (WEIGHTS: safetensors with torchvision's
# names), once per codec and seed (1 2 3), by `splitc sweep --local`, and tested on the first 5,000 test images. OUT
# gets a folder per seed, codec-accuracy.csv with all rows, and codec-accuracy.md with the means. Two seeds run at once,
# with one thread each; the results are the same for any number of threads. BUILD: folder of splitc. EPOCHS: 3. ROWS: a
# regular expression that selects rows by name (default: all).
set -eu -o pipefail
[ $# -ge 3 ] || { sed -n 2p "$0"; exit 64; }
data=$(realpath "$1") weights=$(realpath "$2") out=$(realpath -m "$3")
shift 3
[ $# -gt 0 ] || set -- 1 2 3
cd "$(dirname "$0")/.."
splitc=${BUILD:-build/release}/splitc
unset OPENBLAS_CORETYPE
mkdir -p "$out"

cat >"$out/config.yaml" <<YAML
model: {name: mobilenet_v2, classes: 10, image: 32, form: cifar, dropout: 0.2, weights: "$weights", partial: true}
partition: "1:-1"
data:
  kind: cifar10
  dir: "$data"
  train_files: [data_batch_1.bin]
  train_limit: 2000
  test_limit: 5000
  crop_padding: 2
  flip: true
  normalize: imagenet
train:
  batch: 100
  chunks: 2
  epochs: ${EPOCHS:-3}
  eval_every: 0
  optimizer: {kind: sgd, lr: 0.01, momentum: 0.9, weight_decay: 0.0005}
  schedule: {kind: cosine, warmup_epochs: 1}
threads: 1
YAML
# Methods that work on planes apply to the head's tensor alone: the tail's planes have only 4×4 positions.
grep -E "^- \\{name: \"?(${ROWS:-.*})\"?, (codec|insert)" >"$out/list.yaml" <<'YAML'
- {name: none, codec: none}
- {name: f16, codec: f16}
- {name: bf16, codec: bf16}
- {name: "quant:8", codec: "quant:8"}
- {name: "sortquant:6+2", codec: "sortquant:6+2"}
- {name: "topk:0.2|quant:8", codec: "topk:0.2|quant:8"}
- {name: "cells:8|topk:0.2|quant:8 (head) topk:0.2|quant:8 (tail)", codec: {head_act: "cells:8|topk:0.2|quant:8", head_grad: "cells:8|topk:0.2|quant:8", mid_act: "topk:0.2|quant:8", mid_grad: "topk:0.2|quant:8"}}
- {name: "topk:0.5|quant:8 (head) topk:0.2|quant:8 (tail)", codec: {head_act: "topk:0.5|quant:8", head_grad: "topk:0.5|quant:8", mid_act: "topk:0.2|quant:8", mid_grad: "topk:0.2|quant:8"}}
- {name: "topk:0.2|quant:8 (tail)", codec: {mid_act: "topk:0.2|quant:8", mid_grad: "topk:0.2|quant:8"}}
- {name: "randomk:0.5", codec: "randomk:0.5"}
- {name: "threshold:0.001", codec: "threshold:0.001"}
- {name: "qsgd:255 bucket 512", codec: "qsgd:255,bucket=512"}
- {name: "terngrad bucket 512 (gradients)", codec: {mid_grad: "terngrad,bucket=512", head_grad: "terngrad,bucket=512"}}
- {name: "lowrank:3 (head)", codec: {head_act: "lowrank:3", head_grad: "lowrank:3"}}
- {name: "downsample:2 (head)", codec: {head_act: "downsample:2", head_grad: "downsample:2"}}
- {name: conv insert, insert: {head: "conv:20,k=3,s=3", tail: "conv:320"}}
- {name: linear insert, insert: {head: "linear:16", tail: "linear:640"}}
- {name: decaying linear insert, insert: {head: "decaylinear:rate=0.8,every=15,times=3", tail: "decaylinear:rate=0.8,every=15,times=3"}}
YAML

sweep() {
	"$splitc" sweep "$out/config.yaml" --codecs "$out/list.yaml" --local --out "$out/seed-$1" --set train.seed="$1" \
		--set control="$out/seed-$1.sock" | sed -u "s/^/seed $1: /"
}
running=0 bad=0
for seed; do
	[ $running -lt 2 ] || { wait -n || bad=1; running=$((running - 1)); }
	sweep "$seed" &
	running=$((running + 1))
done
for (( ; running > 0; running--)); do wait -n || bad=1; done
for seed; do
	[ -s "$out/codec-accuracy.csv.part" ] || head -n 1 "$out/seed-$seed/sweep.csv" | sed 's/^/seed,/' >"$out/codec-accuracy.csv.part"
	sed "1d; s/^/$seed,/" "$out/seed-$seed/sweep.csv" >>"$out/codec-accuracy.csv.part"
done
mv "$out/codec-accuracy.csv.part" "$out/codec-accuracy.csv"

# Columns are counted from the right, because a text further left may contain commas.
awk -F, '
	NR > 1 && $(NF - 13) == "done" {
		name = $2; acc = 100 * $(NF - 10)
		if (!(name in n)) order[++names] = name
		n[name]++; sum[name] += acc; real[name] += $(NF - 11)
		if (!(name in low) || acc < low[name]) low[name] = acc
		if (acc > high[name]) high[name] = acc
	}
	END {
		print "| codec | rate, real | accuracy % (mean) | lowest to highest | minus none |"
		print "|---|---|---|---|---|"
		for (i = 1; i <= names; i++) {
			k = order[i]; text = k; gsub(/\|/, "\\|", text)
			printf "| %s | %.4f | %.2f | %.2f to %.2f | %+.2f |\n", text, real[k] / n[k], sum[k] / n[k], low[k], high[k],
				sum[k] / n[k] - sum[order[1]] / n[order[1]]
		}
	}' "$out/codec-accuracy.csv" >"$out/codec-accuracy.md"
cat "$out/codec-accuracy.md"
[ $bad = 0 ] || echo "codec-accuracy: some rows failed, see $out/seed-*" >&2
exit $bad
