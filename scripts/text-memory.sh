#!/usr/bin/env bash
# usage: text-memory.sh FOLDER [KEY=VALUE]…
# Measures peak memory and CPU time of both daemons that train RoBERTa-base from random weights on CoLA: batch 32 in 4
# chunks, AdamW, 3 steps. The client has the embedding, the first attention and the classifier. FOLDER has glue/CoLA and
# roberta_tokenizer/. Prints a line of a Markdown table: the largest resident size (VmHWM) of client and server in MB
# (10^6 bytes), then the CPU seconds (user and system) that each uses per step, without the first step. KEY=VALUE: a key
# of the client's config. BUILD: folder of the binaries. MEMBERS: this many clients share the middle, and the line is
# that of the first one. STEPS: steps of each client.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
data=${1:?usage: text-memory.sh FOLDER [KEY=VALUE]…}
shift
members=${MEMBERS:-1} steps=${STEPS:-3}
work=$(mktemp -d "${TMPDIR:-/tmp}/split-memory.XXXXXX")
server='' clients=()
trap 'kill $server "${clients[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
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
	data: {kind: cola, dir: $data/glue, tokenizer: $data/roberta_tokenizer, train_limit: $((steps * 32 * members)), test_limit: 32, token_cache: false}
	train: {batch: 32, chunks: 4, seed: 1, epochs: 1, checkpoint_every: 0, optimizer: {kind: adamw, lr: 1e-5}}
	log: {dir: $work/run}
YAML
peak() { awk '/^VmHWM/ {print $2 * 1024 / 1e6}' "/proc/$1/status"; }
cpu() { awk -v hz="$(getconf CLK_TCK)" '{print ($14 + $15) / hz}' "/proc/$1/stat"; } # no name of these has a space
sets=()
for pair in "$@"; do sets+=(--set "$pair"); done
touch "$work/server.yaml" "$work/server.log"
"$build/splits" serve "$work/server.yaml" --set listen=tcp://127.0.0.1:0 --set store="$work/store" --set device=cpu --set control="$work/control" \
	>"$work/server.log" 2>&1 &
server=$!
until grep -q ' serving: ' "$work/server.log" || ! kill -0 $server; do sleep 0.1; done
address=$(grep -o 'tcp://[0-9.:]*' "$work/server.log" | head -n 1)
for ((i = 0; i < members; i++)); do
	share=(--set share.group=members --set share.ends=private --set share.clients="$members" --set share.member="$i")
	[ "$members" -gt 1 ] || share=()
	"$build/splitc" train "$work/client.yaml" --set server="$address" --set log.dir="$work/run-$i" "${share[@]}" "${sets[@]}" >"$work/client-$i.log" 2>&1 &
	clients+=($!)
done
first=${clients[0]} most=0 of_server=0 seen=0 begun='' spent=''
while kill -0 "$first" 2>/dev/null; do # the peak only grows; what the last look misses is the end of the run
	now=$(peak "$first" 2>/dev/null || true)
	most=${now:-$most}
	now=$(peak $server)
	of_server=${now:-$of_server}
	done=$(grep -c '"type":"step"' "$work/run-0/log.jsonl" 2>/dev/null || true)
	if [ "${done:-0}" -gt $seen ]; then
		seen=$done
		spent="$seen $(cpu "$first") $(cpu $server)"
		begun=${begun:-$spent}
	fi
	sleep 0.1
done
for client in "${clients[@]}"; do wait "$client" || { tail -n 3 "$work"/*.log >&2; exit 1; }; done
echo "$begun $spent" | awk -v what="${*:-packed}" -v c="$most" -v s="$of_server" \
	'{n = $4 - $1; printf "| %s | %.0f | %.0f | %.2f | %.2f |\n", what, c, s, ($5 - $2) / n, ($6 - $3) / n}'
