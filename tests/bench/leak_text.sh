#!/usr/bin/env bash
# usage: tests/bench/leak_text.sh GLUE TOKENIZER [DECODER]
# Measures which share of a text's tokens a server could find behind each cut and codec: a row of splitc leak's figures
# for each. GLUE: a folder with CoLA. TOKENIZER: a folder with a byte-level BPE tokenizer. DECODER: a folder with a
# pretrained decoder and its tokenizer.json. The encoder has four layers and random weights, and is measured before and
# after it has learnt CoLA for EPOCHS (2) epochs. CUTS (1 2 3 4) and CODECS choose others.
set -eu
cd "$(dirname "$0")/../.."
glue=${1:?a folder with CoLA} tokenizer=${2:?a tokenizer} decoder=${3-}
splitc=${SPLITC:-build/release/splitc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/network"
jq '.num_hidden_layers = 4' configs/encoder-small/config.json >"$tmp/network/config.json"
config() { # NAME MODEL TOKENIZER
	cat >"$tmp/$1.yaml" <<-YAML
		server: tcp://127.0.0.1:9
		model: {$2, tokens: 64}
		data: {kind: cola, dir: $glue, tokenizer: $3}
		train:
		  batch: 32
		  epochs: ${EPOCHS:-2}
		  seed: 3
		  optimizer: {kind: adamw, lr: 0.001, beta2: 0.98, weight_decay: 0.01}
		log: {dir: $tmp/$1}
		threads: 1
	YAML
}
rows() { # NAME WORDS TAIL OPTION…
	for cut in ${CUTS:-1 2 3 4}; do
		for codec in ${CODECS:-none quant:4}; do
			"$splitc" leak "$tmp/$1.yaml" --out "$tmp/out" --json --set partition="$cut:$3" --set codec="$codec" "${@:4}" 2>"$tmp/log" >"$tmp/json" ||
				{ cat "$tmp/log"; exit 1; }
			jq -r --arg of "$2" --arg cut "$cut" --arg codec "$codec" 'def f(n): . * pow(10; n) | round / pow(10; n);
				"| \($of) | \($cut) | `\($codec)` | \(.informed.tokens_by_probe.value * 100 | f(1)) | \(.tokens_by_nearest_row.value * 100 | f(1)) | \(.informed.tokens_by_probe.chance * 100 | f(1)) | \(.dcor_squared.value | f(2)) |"' "$tmp/json"
		done
	done
}
echo '| network | cut | codec | linear probe, % | nearest row of the table, % | the most frequent token, % | dCor² |'
echo '|---|---|---|---|---|---|---|'
config encoder "huggingface: $tmp/network, classes: 2" "$tokenizer"
rows encoder 'encoder, untrained' -1
"$splitc" train "$tmp/encoder.yaml" --local --set partition=1:-1 >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
cp "$tmp/encoder"/model*.safetensors "$tmp/model.safetensors"
rows encoder 'encoder, trained' -1 --weights "$tmp/model.safetensors"
[ -z "$decoder" ] && exit
config decoder "huggingface: $decoder, head: causal_lm" "$decoder"
rows decoder 'decoder, pretrained' -2
