#!/usr/bin/env bash
# The memory of a client and a server with Llama-3.2-1B's shapes in bfloat16: LoRA of rank 16, head and tail with a block each.
#   BLOCKS=16 SPLITC=build/release/splitc SPLITS=build/release/splits tests/bench/held.sh FOLDER
# makes FOLDER (2.5 GB with 16 blocks, random weights) unless it is there, trains two steps of one row of 64 tokens, and prints the most
# that each process had in memory: of its own (anon), and of mapped files (file), which the system may drop.
set -eu
folder=$1 blocks=${BLOCKS:-16}
SPLITC=${SPLITC:-build/release/splitc} SPLITS=${SPLITS:-build/release/splits}
tools=${TOOLS:-build/release/tests/e2e/tools}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
mkdir -p "$folder" "$work/made" "$work/text"
[ -f "$folder/model.safetensors" ] || python3 - "$folder" "$blocks" <<'PYTHON'
import json, os, struct, sys
folder, blocks = sys.argv[1], int(sys.argv[2])
hidden, wide, heads, kv, words = 2048, 8192, 32, 8, 128256
json.dump({"model_type": "llama", "vocab_size": words, "hidden_size": hidden, "intermediate_size": wide, "num_hidden_layers": blocks,
           "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": 64, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
           "rope_theta": 500000.0, "tie_word_embeddings": True, "eos_token_id": 2}, open(folder + "/config.json", "w"))
shapes = {"model.embed_tokens.weight": [words, hidden], "model.norm.weight": [hidden]}
for i in range(blocks):
    shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in {
        "input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [hidden, hidden], "self_attn.o_proj": [hidden, hidden],
        "self_attn.k_proj": [kv * 64, hidden], "self_attn.v_proj": [kv * 64, hidden], "mlp.gate_proj": [wide, hidden], "mlp.up_proj": [wide, hidden],
        "mlp.down_proj": [hidden, wide]}.items()}
header, at = {}, 0
for name in sorted(shapes):
    size = 2
    for n in shapes[name]: size *= n
    header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": [at, at + size]}
    at += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
block = bytearray(os.urandom(1 << 24))
for i in range(1, len(block), 2):
    block[i] = 0x3c | (block[i] & 0x80) # about 0.01 to 0.03, of either sign
with open(folder + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    while at > 0:
        f.write(block[:min(at, len(block))])
        at -= len(block)
PYTHON
"$tools/make_text" "$work/made"
for i in 1 2 3 4; do echo "green red the a boxes of un fish water said green red the a boxes of un fish"; done >"$work/text/train.txt"
head -n 1 "$work/text/train.txt" >"$work/text/dev.txt"
cat >"$work/client.yaml" <<-YAML
	model: {huggingface: $folder, head: causal_lm, tokens: 64}
	partition: "2:-3"
	lora: {rank: 16, alpha: 32}
	data: {kind: text, dir: $work/text, tokenizer: $work/made}
	train: {batch: 2, chunks: 1, epochs: 1, eval_every: 0, optimizer: {kind: adamw, lr: 0.0001}}
	log: {dir: $work/run}
YAML
: >"$work/server.yaml"
"$SPLITS" serve "$work/server.yaml" --set listen=tcp://127.0.0.1:0 --set store="$work/store" --set device=cpu 2>"$work/server.log" &
server=$!
until grep -q ' serving: ' "$work/server.log"; do sleep 0.1; done
"$SPLITC" train "$work/client.yaml" --set server="$(sed -n 's/^INFO serving: .* on \(tcp:[^ ,]*\),.*/\1/p' "$work/server.log")" >"$work/client.log" 2>&1 &
client=$!
declare -A most=()
look() { # NAME PID
	while read -r key value _; do
		key="$1 ${key%:}"
		[ "${most[$key]:-0}" -ge "$value" ] || most[$key]=$value
	done < <(grep -E '^(RssAnon|RssFile|VmHWM):' "/proc/$2/status" 2>/dev/null)
}
while kill -0 "$client" 2>/dev/null; do
	look client "$client"
	look server "$server"
	sleep 0.1
done
wait "$client" || { tail -n 5 "$work/client.log"; exit 1; }
for who in client server; do
	for key in RssAnon RssFile VmHWM; do printf '%s %s %d MiB\n' $who $key $((most["$who $key"] / 1024)); done
done
sed -n 's/^.*weights.*$/&/p' "$work/client.log" | head -n 3
