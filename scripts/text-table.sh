#!/usr/bin/env bash
# usage: text-table.sh FOLDER [CODEC…]
# Measures the bytes that cross the link per batch of 32 rows of CoLA and of RTE, packed and padded, at the usual four
# cuts of an encoder. Prints lines of a Markdown table, in kB. FOLDER has glue/CoLA, glue/RTE and roberta_tokenizer/.
# All is measured in one process, with RoBERTa's 768 features and thin layers of random weights; payloads are counted as
# if they crossed. Packed rows are 320 samples, spread over the set, in 10 batches. Cuts 1 and 2 send four tensors of tokens. Cuts
# 3 and 4 send two, and two with one vector per row. `lowrank` takes only tensors of tokens, so those vectors cross
# uncompressed. The padded form has 128 tokens for every row in all four tensors (data.pad: max), as other programs send
# it. Its rate is against fp32, beside the nominal rate that those programs report; its words are of 32 bits, one per
# token. BUILD: folder of the binaries.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
data=${1:?usage: text-table.sh FOLDER [CODEC…]}
shift
[ $# -gt 0 ] || set -- none quant:8 quant:6 sortquant:12+4 sortquant:9+3 sortquant:6+2 sortquant:4+2 sortquant:3+1 topk:0.2 'topk:0.2|quant:8' \
	lowrank:128 lowrank:32 lowrank:16 lowrank:12
work=$(mktemp -d "${TMPDIR:-/tmp}/split-table.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/encoder"
cat >"$work/encoder/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 50265, "hidden_size": 768, "intermediate_size": 8, "num_hidden_layers": 1,
	 "num_attention_heads": 12, "max_position_embeddings": 130, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
	 "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "hidden_act": "gelu", "initializer_range": 0.02, "pad_token_id": 1}
JSON
cat >"$work/client.yaml" <<-YAML
	model: {huggingface: $work/encoder, classes: 2, tokens: 128}
	head_end: encoder.layer.0.attention.output
	tail_begin: first_token
	data: {kind: cola, dir: $data/glue, tokenizer: $data/roberta_tokenizer, train_limit: 320, test_limit: 32, token_cache: false}
	train:
	  batch: 32
	  chunks: 4
	  epochs: 1
	  checkpoint_every: 0
	  freeze: ["*.word_embeddings.*", "*.attention.self.*", "*.attention.output.dense.*"]
	  optimizer: {kind: adamw, lr: 1e-5}
YAML
# bytes [--set KEY=VALUE]…: prints the mean of a batch, both directions together.
bytes() {
	"$build/splitc" train "$work/client.yaml" --local --fresh --set log.dir="$work/run" "$@" >"$work/log" 2>&1 || { tail -n 1 "$work/log" >&2; exit 1; }
	jq -rs 'map(select(.type == "step") | .wire_tx_bytes + .wire_rx_bytes) | add / length' "$work/run/log.jsonl"
}
rate() { # of the padded form, as published tables have it
	case $1 in
	none) echo 1 ;; quant:8 | sortquant:6+2) echo 0.25 ;; quant:6 | sortquant:4+2) echo 0.1875 ;; sortquant:12+4) echo 0.5 ;;
	sortquant:9+3) echo 0.375 ;; sortquant:3+1) echo 0.125 ;; topk:0.2) echo 0.2 ;; 'topk:0.2|quant:8') echo 0.05 ;;
	lowrank:128) echo 1.17 ;; lowrank:32) echo 0.291 ;; lowrank:16) echo 0.146 ;; lowrank:12) echo 0.109 ;; *) echo – ;;
	esac
}
echo '| codec | CoLA, cuts 1, 2 | CoLA, cuts 3, 4 | RTE, cuts 1, 2 | RTE, cuts 3, 4 | padded | rate | nominal | words |'
echo '|---|---|---|---|---|---|---|---|---|'
for codec in "$@"; do
	rows=(--set codec="$codec") cells=()
	[[ $codec != lowrank* ]] || rows+=(--set codec.mid_act=none --set codec.mid_grad=none)
	for task in cola rte; do
		tokens=$(bytes --set data.kind=$task --set codec="$codec")
		vectors=$(bytes --set data.kind=$task "${rows[@]}" --set tail_begin=classifier)
		cells+=("$tokens" "$vectors")
	done
	padded=$(bytes --set codec="$codec" --set data.pad=max --set data.train_limit=32)
	awk -v codec="${codec//|/\\\\|}" -v rate="$(rate "$codec")" -v list="${cells[*]} $padded" 'BEGIN {
		split(list, x, " ")
		printf "| `%s` ", codec
		for (i = 1; i <= 5; i++) printf "| %.1f ", x[i] / 1e3
		printf "| %.4f | %s | %.0f |\n", x[5] / (4 * 32 * 128 * 768 * 4), rate, x[5] / (4 * 32 * 128 * 4)
	}'
done
