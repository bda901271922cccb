#!/usr/bin/env bash
# usage: decoder-bytes.sh [FOLDER]
# Measures the bytes that cross the link per token of a decoder. The data are 16 prompts with completions of E2E's mean
# lengths: 59 tokens, of which 28 have a loss, in batches of 8 and two chunks. The width is GPT-2 medium's 1024, with
# adapters on q_proj and v_proj. Prints a table in Markdown, one line per form of the rows: bytes in both directions of
# all tensors, with message headers, and how many times fewer they are than in the padded form. The bytes of an epoch
# are those of a run of two epochs less those of a run of one. Bytes depend on lengths, width and codecs alone, so
# layers are thin and weights random. FOLDER (a small pretrained Llama with tokenizer.model, and glue/CoLA as in
# SPLIT_TEXT_DATA) adds what the codecs cost in loss: 300 steps of LoRA on CoLA's sentences. BUILD: folder of the
# binaries.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
work=$(mktemp -d "${TMPDIR:-/tmp}/split-bytes.XXXXXX")
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
width=1024 longest=512
mkdir "$work/model" "$work/data"
cat >"$work/model/config.json" <<-JSON
	{"model_type": "llama", "vocab_size": 700, "hidden_size": $width, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 16,
	 "num_key_value_heads": 1, "max_position_embeddings": $longest, "rms_norm_eps": 1e-05, "hidden_act": "silu", "tie_word_embeddings": true,
	 "eos_token_id": 2}
JSON
"$build/tests/e2e/tools/make_text" "$work/model" >"$work/out"
printf 'listen: tcp://127.0.0.1:0\ndevice: cpu\n' >"$work/server.yaml"
"$build/splits" serve "$work/server.yaml" --set store="$work/store" 2>"$work/server.log" &
server=$!
until endpoint=$(grep -m 1 -o 'tcp://127.0.0.1:[1-9][0-9]*' "$work/server.log"); do
	kill -0 $server || { cat "$work/server.log" >&2; exit 1; }
	sleep 0.1
done
# One token per character; with a start token and an end token the rows have 59 on average.
python3 - "$work/data" <<-'PYTHON'
	import json
	import sys

	for name in "train", "dev":
	    with open(f"{sys.argv[1]}/{name}.jsonl", "w") as f:
	        for i in range(16 if name == "train" else 1):
	            print(json.dumps({"prompt": "!" * (30 + (i % 8 * 2 - 7) * 3), "completion": "?" * (27 + (i // 2 * 2 - 7) * 2)}), file=f)
PYTHON
cat >"$work/client.yaml" <<-YAML
	server: $endpoint
	model: {huggingface: $work/model, head: causal_lm, tokens: $longest}
	partition: "2:-2"
	lora: {rank: 4, target: [q_proj, v_proj]}
	data: {kind: text, dir: $work/data, tokenizer: $work/model, columns: [prompt, completion], max_length: $longest, token_cache: false}
	train: {batch: 8, chunks: 2, seed: 1, eval_every: 0, checkpoint_every: 0, optimizer: {kind: adamw, lr: 0.001}}
	log: {dir: $work/run}
YAML
train() { "$build/splitc" train "$work/client.yaml" --json --fresh "$@" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }; }
sent() { train "$@" | jq '[.directions[].wire_bytes] | add'; }
tokens=$("$build/splitc" data "$work/client.yaml" --json | jq .train.tokens)
full=
row() { # NAME CODECS [argument]…
	local bytes first
	first=$(sent --set train.epochs=1 "${@:3}")
	bytes=$(sent --set train.epochs=2 "${@:3}")
	bytes=$((bytes - first))
	full=${full:-$bytes}
	awk -v name="$1" -v codec="$2" -v bytes="$bytes" -v tokens="$tokens" -v full="$full" \
		'BEGIN { printf "| %s | %s | %.0f | %.1f |\n", name, codec, bytes / tokens, full / bytes }'
}
loss=(--set tail_tokens=loss) frozen=(--set tail_tokens=loss --set partition=1:-2)
keep=(--set train.keep_sent_bytes=100000000)
four=(--set 'codec=hadamard|normal:4')
two=("${four[@]}" --set 'codec.mid_grad=hadamard|normal:2' --set 'codec.head_grad=hadamard|normal:2')
[ "$tokens" = $((16 * 59)) ] || { echo "the 16 rows have $tokens tokens" >&2; exit 1; }
printf '| form | codec | bytes a token | times fewer |\n|---|---|---|---|\n' "$tokens"
row "padded to $longest" none --set data.pad=max
row 'padded to the longest of a batch' none --set data.pad=longest
row packed none
row 'packed, loss tokens' none "${loss[@]}"
row 'packed, loss tokens, frozen head' none "${frozen[@]}"
row 'the same, from epoch 2 on' none "${frozen[@]}" "${keep[@]}"
row 'packed, loss tokens' '4 bits' "${loss[@]}" "${four[@]}"
row 'packed, loss tokens' '4 and 2 bits' "${loss[@]}" "${two[@]}"
row 'packed, loss tokens, frozen head' '4 bits' "${frozen[@]}" "${four[@]}"
row 'packed, loss tokens, frozen head' '4 and 2 bits' "${frozen[@]}" "${two[@]}"
row 'the same, from epoch 2 on' '4 and 2 bits' "${frozen[@]}" "${two[@]}" "${keep[@]}"
[ $# -gt 0 ] || exit 0

cp "$1/config.json" "$1/model.safetensors" "$work/model"
scripts/tokenizer-json.py "$1/tokenizer.model" "$work/model/tokenizer.json" 2>"$work/out"
learn=(--local --set data.kind=cola --set data.dir="${SPLIT_TEXT_DATA:?a folder with glue/CoLA}/glue" --set model.tokens=128 --set data.max_length=128
	--set lora.rank=8 --set train.batch=32 --set train.chunks=4 --set train.max_steps=300 --set train.optimizer.lr=0.003 --set tail_tokens=loss)
printf '\n| codec | test loss with it | without |\n|---|---|---|\n'
quality() { # NAME [argument]…
	local with without
	with=$(train "${learn[@]}" "${@:2}" | jq .test_loss)
	without=$("$build/splitc" eval "$work/client.yaml" --json --weights "$work/run/model.safetensors" "${learn[@]}" --set train.max_steps=0 | jq .test_loss)
	printf '| %s | %.4f | %.4f |\n' "$1" "$with" "$without"
}
quality none
quality '`quant:4`' --set codec=quant:4
quality '`quant:4,block=64`' --set codec=quant:4,block=64
quality '4 bits' "${four[@]}"
quality '4 and 2 bits' "${two[@]}"
