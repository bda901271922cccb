#!/usr/bin/env bash
# usage: text-bytes.sh FOLDER [CODEC…]
# Measures the bytes that cross the link per batch of CoLA: the mean over one epoch at batch 32 with RoBERTa's 768
# features per token. The client has the embedding, the first attention and the classifier's layers. FOLDER has CoLA
# (glue/CoLA or CoLA) and roberta_tokenizer/. Prints lines of a Markdown table: up (head_act, mid_grad) and down
# (mid_act, head_grad) in kB, and how many times fewer they are than in the padded form. The padded form has fp32 and
# 128 tokens in every row, also behind the last layer. Bytes depend on lengths and codecs alone, so the encoder has one
# thin layer of random weights and runs in one process; payloads are counted as if they crossed. BUILD: folder of the
# binaries.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
data=${1:?usage: text-bytes.sh FOLDER [CODEC…]}
shift
[ $# -gt 0 ] || set -- none f16 quant:8 quant:6 sortquant:6+2 quant:4 'topk:0.1' 'topk:0.1|quant:8' lowrank:12 lowrank:16 'quant:8|zstd'
glue=$data
[ ! -d "$data/glue" ] || glue=$data/glue
work=$(mktemp -d "${TMPDIR:-/tmp}/split-bytes.XXXXXX")
trap 'rm -rf "$work"' EXIT
features=768 longest=128 batch=32
mkdir "$work/encoder"
cat >"$work/encoder/config.json" <<-JSON
	{"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": 50265, "hidden_size": $features,
	 "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 12, "max_position_embeddings": $((longest + 2)),
	 "type_vocab_size": 1, "layer_norm_eps": 1e-05, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0,
	 "hidden_act": "gelu", "initializer_range": 0.02, "pad_token_id": 1}
JSON
cat >"$work/client.yaml" <<-YAML
	model: {huggingface: $work/encoder, classes: 2, tokens: $longest}
	head_end: encoder.layer.0.attention.output
	tail_begin: classifier
	data: {kind: cola, dir: $glue, tokenizer: $data/roberta_tokenizer, test_limit: 32, token_cache: false}
	train:
	  batch: $batch
	  chunks: 4
	  seed: 1
	  checkpoint_every: 0
	  freeze: ["*.word_embeddings.*", "*.attention.self.*", "*.attention.output.dense.*"]
	  optimizer: {kind: adamw, lr: 1e-5}
YAML
padded=$((batch * longest * features * 4))
echo '| codec | up, kB | down, kB | together | fewer than padded |'
echo '|---|---|---|---|---|'
for codec in "$@"; do
	"$build/splitc" train "$work/client.yaml" --local --fresh --set codec="$codec" --set log.dir="$work/run" >"$work/log" 2>&1 ||
		{ tail -n 1 "$work/log"; exit 1; }
	jq -rs --arg codec "$codec" --argjson padded $padded 'map(select(.type == "step")) | (map(.wire_tx_bytes) | add / length) as $up |
		(map(.wire_rx_bytes) | add / length) as $down | "| `\($codec | gsub("\\|"; "\\|"))` | \($up / 1e3 * 10 | round / 10) | " +
		"\($down / 1e3 * 10 | round / 10) | \(($up + $down) / 1e3 * 10 | round / 10) | \(4 * $padded / ($up + $down) * 10 | round / 10) × |"' \
		"$work/run/log.jsonl"
done
