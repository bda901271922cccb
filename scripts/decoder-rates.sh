#!/usr/bin/env bash
# usage: decoder-rates.sh FOLDER DECODER [RATE…]
# Fine-tunes a pretrained decoder on CoLA's sentences at several learning rates of AdamW, with adapters and as a whole,
# in one process. Prints lines of a Markdown table with the loss on CoLA's development sentences. FOLDER has glue/CoLA.
# DECODER has config.json, model.safetensors and tokenizer.model or tokenizer.json. EPOCHS: 2; BUILD: folder of the
# binaries.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
data=${1:?usage: decoder-rates.sh FOLDER DECODER [RATE…]}
from=${2:?usage: decoder-rates.sh FOLDER DECODER [RATE…]}
shift 2
[ $# -gt 0 ] || set -- 1e-5 1e-4 1e-3 1e-2
work=$(mktemp -d "${TMPDIR:-/tmp}/split-rates.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/decoder"
cp "$from/config.json" "$from/model.safetensors" "$work/decoder"
if [ -f "$from/tokenizer.json" ]; then
	cp "$from/tokenizer.json" "$work/decoder"
else
	scripts/tokenizer-json.py "$from/tokenizer.model" "$work/decoder/tokenizer.json" 2>"$work/log"
fi
cat >"$work/client.yaml" <<-YAML
	model: {huggingface: $work/decoder, head: causal_lm, tokens: 128}
	partition: "2:-3"
	data: {kind: cola, dir: $data/glue, tokenizer: $work/decoder, token_cache: false}
	train:
	  batch: 32
	  epochs: ${EPOCHS:-2}
	  seed: 1
	  checkpoint_every: 0
	  optimizer: {kind: adamw, lr: 1e-4}
	  schedule: {kind: cosine, warmup_epochs: 0.1}
YAML
# loss COMMAND [argument]…: prints the loss of the last evaluation.
loss() {
	"$build/splitc" "$1" "$work/client.yaml" --local "${@:2}" >"$work/log" 2>&1 || { tail -n 1 "$work/log" >&2; exit 1; }
}
loss eval --json --set log.dir= --weights "$work/decoder/model.safetensors"
printf 'before: %s\n\n| rate | adapters, rank 16 | the whole decoder |\n|---|---|---|\n' "$(sed -n 's/.*"test_loss": *\([0-9.]*\).*/\1/p' "$work/log")"
for rate in "$@"; do
	line="| $rate |"
	for how in lora.rank=16 lora.rank=0; do
		loss train --fresh --set log.dir="$work/run" --set train.optimizer.lr="$rate" --set "$how"
		line="$line $(jq -s '[.[] | select(.type == "epoch")][-1].test_loss * 1000 | round / 1000' "$work/run/log.jsonl") |"
	done
	echo "$line"
done
