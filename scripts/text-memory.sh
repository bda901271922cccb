#!/usr/bin/env bash
# usage: text-memory.sh FOLDER [KEY=VALUE]…
# Peak memory of both daemons that train RoBERTa-base from random weights on CoLA: batch 32 in 4 chunks, AdamW, 3 steps. The embedding
# and the first attention are on the client, the classifier too. FOLDER has glue/CoLA and roberta_tokenizer/. Prints a line of a table
# in Markdown, in MB (10^6 bytes): the largest resident size (VmHWM) of each process. KEY=VALUE goes to the client. BUILD: folder of
# the binaries.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
data=${1:?usage: text-memory.sh FOLDER [KEY=VALUE]…}
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/split-memory.XXXXXX")
server=''
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/roberta"
cat >"$work/roberta/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 50265, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
	 "num_attention_heads": 12, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
	 "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "pad_token_id": 1}
JSON
cat >"$work/client.yaml" <<-YAML
	server: tcp://127.0.0.1:1
	model: {huggingface: $work/roberta, classes: 2, tokens: 128}
	head_end: encoder.layer.0.attention.output
	tail_begin: classifier
	data: {kind: cola, dir: $data/glue, tokenizer: $data/roberta_tokenizer, train_limit: 96, test_limit: 32, token_cache: false}
	train: {batch: 32, chunks: 4, seed: 1, epochs: 1, checkpoint_every: 0, optimizer: {kind: adamw, lr: 1e-5}}
	log: {dir: $work/run}
YAML
peak() { awk '/^VmHWM/ {print $2 * 1024 / 1e6}' "/proc/$1/status"; }
sets=()
for pair in "$@"; do sets+=(--set "$pair"); done
: >"$work/server.yaml"
"$build/splits" serve "$work/server.yaml" --set listen=tcp://127.0.0.1:0 --set store="$work/store" --set device=cpu --set control="$work/control" \
	>"$work/server.log" 2>&1 &
server=$!
until grep -q ' serving: ' "$work/server.log" || ! kill -0 $server; do sleep 0.1; done
address=$(grep -o 'tcp://[0-9.:]*' "$work/server.log" | head -n 1)
"$build/splitc" train "$work/client.yaml" --set server="$address" "${sets[@]}" >"$work/client.log" 2>&1 &
client=$!
most=0 of_server=0
while kill -0 $client 2>/dev/null; do # the peak only grows; what the last look misses is the end of the run
	now=$(peak $client 2>/dev/null || true)
	most=${now:-$most}
	now=$(peak $server)
	of_server=${now:-$of_server}
	sleep 0.2
done
wait $client || { tail -n 3 "$work/client.log" "$work/server.log" >&2; exit 1; }
awk -v what="${*:-packed}" -v c="$most" -v s="$of_server" 'BEGIN {printf "| %s | %.0f | %.0f |\n", what, c, s}'
