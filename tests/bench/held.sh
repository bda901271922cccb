#!/usr/bin/env bash
# usage: tests/bench/held.sh FOLDER
# Measures the memory of a client and a server that train LoRA of rank 16 on a network with Llama-3.2-1B's shapes in
# bfloat16; head and tail have a block each. FOLDER is the network's folder. If it holds no weights, the script writes
# random ones there for BLOCKS (16) blocks: 2.5 GB. It trains STEPS (2) steps of ROWS (1) rows of TOKENS (64) tokens in
# CHUNKS (1) chunks, with RECOMPUTE (auto) on both sides. It prints the memory that `splitc flops` predicts, and for each
# process the most of its own memory (RssAnon), of mapped files (RssFile), which the system may drop, and of both
# together (VmHWM). SPLITC, SPLITS, TOOLS: the programs and the folder of the tests' tools, those of build/release.
set -eu
folder=$1 blocks=${BLOCKS:-16} rows=${ROWS:-1} tokens=${TOKENS:-64} steps=${STEPS:-2} recompute=${RECOMPUTE:-auto}
SPLITC=${SPLITC:-build/release/splitc} SPLITS=${SPLITS:-build/release/splits}
tools=${TOOLS:-build/release/tests/e2e/tools}
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
mkdir -p "$folder" "$work/made" "$work/text"
[ -f "$folder/model.safetensors" ] || python3 tests/bench/llama_of.py "$folder" "$blocks" 2048 128256
"$tools/make_text" "$work/made"
awk -v lines=$((rows * steps)) -v words="$tokens" 'BEGIN {
	n = split("green red the a boxes of un fish water said", word, " ")
	for (i = 0; i < lines; i++) for (k = 1; k <= words; k++) printf "%s%s", word[(i + k) % n + 1], k < words ? " " : "\n"
}' >"$work/text/train.txt"
head -n 1 "$work/text/train.txt" >"$work/text/dev.txt"
cat >"$work/client.yaml" <<-YAML
	model: {huggingface: $folder, head: causal_lm, tokens: $tokens}
	partition: "2:-3"
	lora: {rank: 16, alpha: 32}
	data: {kind: text, dir: $work/text, tokenizer: $work/made}
	recompute: $recompute
	train: {batch: $rows, chunks: ${CHUNKS:-1}, epochs: 1, eval_every: 0, optimizer: {kind: adamw, lr: 0.0001}}
	log: {dir: $work/run}
YAML
: >"$work/server.yaml"
"$SPLITC" flops "$work/client.yaml" | sed -n "/^memory/,/^mapped/p"
"$SPLITS" serve "$work/server.yaml" --set listen=tcp://127.0.0.1:0 --set store="$work/store" --set device=cpu --set control="$work/server.sock" --set recompute="$recompute" 2>"$work/server.log" &
server=$!
until grep -q ' serving: ' "$work/server.log"; do sleep 0.1; done
"$SPLITC" train "$work/client.yaml" --set control="$work/client.sock" --set server="$(sed -n 's/^INFO serving: .* on \(tcp:[^ ,]*\),.*/\1/p' "$work/server.log")" >"$work/client.log" 2>&1 &
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
grep weights "$work/client.log" | head -n 3
