#!/usr/bin/env bash
# usage: precisions.sh DATA [STEPS] [PRECISION…]
# Trains a MobileNetV2 of a tenth of the width over the link until it knows 64 images of CIFAR-10 by heart, once in every
# PRECISION, with the same seed. The middle, from the stem's ReLU6 to features.6, runs on the simulated device (make
# cuda-sim). To show how far runs differ anyway, five seeds also train in fp32 on the CPU. Prints a table of losses,
# accuracies and skipped steps. The simulated device sums products in double, and its times mean nothing. DATA: the
# absolute path of CIFAR-10's binary files. STEPS: 120.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/pair.sh
data=${1:?usage: precisions.sh DATA [STEPS] [PRECISION…]} steps=${2:-120}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- fp32 tf32 bf16 fp16
work=$(mktemp -d)
trap 'server_stop; rm -rf "$work"' EXIT

# the programs look for the module in their own folder
mkdir "$work/bin"
cp "$BUILD/splitc" "$BUILD/splits" "$BUILD/cuda-sim-module/libsplit_cuda.so" "$work/bin/"
BUILD=$work/bin SERVER_DEVICE=cuda:0
cat >"$work/client.yaml" <<YAML
server: tcp://127.0.0.1:5570
model: {name: mobilenet_v2, classes: 10, image: 32, form: imagenet, width: 0.1, dropout: 0}
head_end: features.0.1
tail_begin: features.7
data: {kind: cifar10, dir: $data, train_limit: 64, test_limit: 64, crop_padding: 0, flip: false}
train:
  batch: 32
  chunks: 1
  epochs: $((steps / 2))
  seed: 1
  on_nan: skip
  checkpoint_every: 0
  optimizer: {kind: adamw, lr: 0.01, weight_decay: 0.01}
  schedule: {kind: cosine, warmup_epochs: 2}
codec: none
threads: 1
link: {timeout_ms: 60000}
YAML

# mean LOG FIELD: prints the mean of FIELD over the last 40 steps that were not skipped
mean() { jq -s --arg field "$2" 'map(select(.type == "step" and .loss != null))[-40:] | map(.[$field]) | add / length * 1000 | round / 1000' "$1"; }

# row NAME [argument of splitc train]…: trains, and prints a row of the table
row() {
	local name=$1 log=$work/log
	rm -rf "$log"
	"$work/bin/splitc" train "$work/client.yaml" --fresh --set log.dir="$log" --set control="$work/splitc.sock" "${@:2}" \
		>"$work/summary.txt" 2>"$work/client.log" || { tail -n 5 "$work/client.log" >&2; exit 1; }
	first=$(jq -s 'map(select(.type == "step" and .loss != null))[0].loss * 1000 | round / 1000' "$log/log.jsonl")
	echo "| $name | $first | $(mean "$log/log.jsonl" loss) | $(mean "$log/log.jsonl" acc) | $(grep -c '"skipped":true' "$log/log.jsonl" || true) |"
}

echo "| | loss of the first step | mean of the last 40 | accuracy in them | steps left out |"
echo "|---|---|---|---|---|"
for seed in 1 2 3 4 5; do row "CPU, \`fp32\`, seed $seed" --local --set train.seed=$seed; done
server_start "$work" 127.0.0.1 1
for precision in "$@"; do row "\`$precision\`" --set server="$endpoint" --set train.precision="$precision"; done
