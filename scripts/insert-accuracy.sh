#!/usr/bin/env bash
# usage: insert-accuracy.sh CIFAR_DIR WEIGHTS OUT
# What convolutions as inserts cost in accuracy, untrained and trained before: MobileNetV2 at IMAGE² (96) from an ImageNet backbone
# (WEIGHTS: safetensors with torchvision's names), cut behind the first batch norm and before the classifier. The inserts (HEAD,
# TAIL) are trained on the first half of CIFAR-10 (CIFAR_DIR: its binary files) to restore the activations at their cuts. Then
# SAMPLES (2000) images of the other half are a fine-tune for 3 epochs: without inserts, with untrained ones, and with trained ones that
# go on learning or are frozen.
# PRETRAIN: images for the training of each insert (4000), 2 epochs. OUT gets a folder per run and insert-accuracy.md.
set -eu -o pipefail
[ $# = 3 ] || { sed -n 2p "$0"; exit 64; }
data=$(realpath "$1") weights=$(realpath "$2") out=$(realpath -m "$3")
cd "$(dirname "$0")/.."
splitc=${BUILD:-build/release}/splitc
head=${HEAD:-conv:20,k=3,s=3} tail=${TAIL:-conv:320}
unset OPENBLAS_CORETYPE
mkdir -p "$out/data"

# half of the 50,000 records of 3,073 bytes in either file
cat "$data"/data_batch_{1,2,3,4,5}.bin >"$out/data/all.bin"
head -c $((25000 * 3073)) "$out/data/all.bin" >"$out/data/first.bin"
tail -c $((25000 * 3073)) "$out/data/all.bin" >"$out/data/second.bin"
rm "$out/data/all.bin"
ln -sf "$data/test_batch.bin" "$out/data/test_batch.bin"
cat >"$out/config.yaml" <<YAML
model: {name: mobilenet_v2, classes: 10, image: ${IMAGE:-96}, form: imagenet, weights: "$weights", partial: true}
head_end: features.0.1
tail_begin: classifier
data: {kind: cifar10, dir: "$out/data", train_files: [second.bin], train_limit: ${SAMPLES:-2000}, test_limit: 2000, crop_padding: 2, normalize: imagenet}
train:
  batch: 100
  chunks: 2
  epochs: 3
  eval_every: 0
  optimizer: {kind: sgd, lr: 0.01, momentum: 0.9, weight_decay: 0.0005}
  schedule: {kind: cosine, warmup_epochs: 1}
threads: ${THREADS:-0}
YAML

# run NAME key=value…
run() {
	local name=$1 set=() pair
	shift
	for pair in "$@"; do set+=(--set "$pair"); done
	"$splitc" train "$out/config.yaml" --local --fresh --set log.dir="$out/$name" --set control="$out/$name.sock" "${set[@]}" >"$out/$name.log" 2>&1 ||
		{ tail -n 3 "$out/$name.log" >&2; exit 1; }
}
inserts=(insert.head="$head" insert.tail="$tail")
adam=(train.optimizer.kind=adam train.optimizer.weight_decay=0 train.chunks=1 train.epochs=2 train.schedule.warmup_epochs=0.1
	data.train_files=first.bin data.train_limit="${PRETRAIN:-4000}" data.test_limit=200)
run restore_head "${inserts[@]}" "${adam[@]}" train.loss=restore_head train.batch=4 train.optimizer.lr=0.01
run restore_tail "${inserts[@]}" "${adam[@]}" train.loss=restore_tail train.batch=16 train.optimizer.lr=0.003
run none
run untrained "${inserts[@]}"
trained=("${inserts[@]}" model.insert_weights="$out/restore_head/model.safetensors,$out/restore_tail/model.safetensors")
run trained "${trained[@]}"
run frozen "${trained[@]}" 'train.freeze=insert.*'

last() { jq -r "select(.type == \"summary\") | .$2" "$out/$1/log.jsonl" | tail -n 1; }
{
	echo '| run | accuracy % | loss |'
	echo '|---|---|---|'
	for name in none untrained trained frozen; do
		printf '| %s | %.2f | %.4f |\n' "$name" "$(jq -n "100 * $(last $name test_acc)")" "$(last $name test_loss)"
	done
	printf '\nMean squared error of what comes back: head %.2g, tail %.2g\n' "$(last restore_head test_loss)" "$(last restore_tail test_loss)"
} | tee "$out/insert-accuracy.md"
