#!/usr/bin/env bash
# Recomputing activations before backward changes no bit of a run: with batch norms whose statistics move once a step,
# dropout, chunks of several lengths, adapters; in one process, with a server that keeps less than its client asks, and
# with a server that recomputes because the session would not fit otherwise. It takes less memory.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 40 24 # batches of 16, 16 and 8
mkdir "$tmp/made" "$tmp/text"
"$TOOLS/make_text" "$tmp/made"
. tests/e2e/lib/lines.sh
lines 0 40 >"$tmp/text/train.txt"
lines 100 116 >"$tmp/text/dev.txt"
start_server again recompute=on threads=2
again=$endpoint
write_config "$tmp/mobilenet.yaml"
sed 's/model: {.*}/model: {name: resnet9, classes: 10, width: 0.25}/' "$tmp/mobilenet.yaml" >"$tmp/resnet9.yaml"
use_adamw "$tmp/resnet9.yaml"
sed -e "s|model: {.*}|model: {huggingface: configs/encoder-small, classes: 2, tokens: 24}|" -e 's/data: {.*}/data: {kind: made_tokens, dir: ., train_limit: 40, test_limit: 16}/' \
	"$tmp/resnet9.yaml" >"$tmp/encoder.yaml"
cat >"$tmp/llama.json" <<-JSON
	{"model_type": "llama", "vocab_size": 700, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 5, "num_attention_heads": 4,
	 "num_key_value_heads": 2, "max_position_embeddings": 40, "initializer_range": 0.1, "eos_token_id": 2}
JSON
mkdir "$tmp/llama"; mv "$tmp/llama.json" "$tmp/llama/config.json"
sed -e 's|partition: .*|partition: "2:-3"|' -e "s|model: {.*}|model: {huggingface: $tmp/llama, head: causal_lm, tokens: 40}\nlora: {rank: 2, dropout: 0.1}|" \
	-e "s|data: {.*}|data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made}|" "$tmp/resnet9.yaml" >"$tmp/decoder.yaml"

base_for "$tmp/decoder.yaml" "$tmp/llama" --set train.schedule.warmup_epochs=0

# activations CONFIG KEY: prints the server's bytes for activations.
activations() { "$SPLITC" flops "$1" --json --set train.batch=128 --set recompute="$2" | jq .memory.server.activations; }

compare() { # NAME
	local config=$tmp/$1.yaml kept less
	client "$1 off" "$config" --local --set recompute=off || fail "$1 off: exit status $?"
	client "$1 on" "$config" --local --set recompute=on || fail "$1 on: exit status $?"
	client "$1 far" "$config" --set server="$again" --set recompute=off --set threads=2 || fail "$1 far: exit status $?"
	same_run "$1 on" "$1 off" 3
	same_run "$1 far" "$1 off" 3
	kept=$(activations "$config" off) less=$(activations "$config" on)
	[ $((less * 2)) -le "$kept" ] || fail "$1: $less bytes with recompute, $kept without"
	echo "$1: $kept bytes of activations, $less with recompute"
}
two_at_a_time compare mobilenet resnet9 encoder decoder

# A server whose limit lies between the two recomputes by itself, or refuses if it may not.
config=$tmp/mobilenet.yaml
need() { "$SPLITC" flops "$config" --json --set recompute="$1" --set threads=2 | jq .memory.server.sum; }
limit=$((($(need on) + $(need off)) / 2))
start_server small "store=$tmp/small store" threads=2 limits.memory_bytes=$limit
client fits "$config" --set server="$endpoint" --set threads=2 || fail "a server of $limit bytes: exit status $?"
same_run fits 'mobilenet off' 3
start_server never "store=$tmp/never store" threads=2 limits.memory_bytes=$limit recompute=off
rc=0
client refused "$config" --set server="$endpoint" --set threads=2 || rc=$?
[ $rc = 76 ] && grep -q 'the session needs' "$tmp/refused.log" || fail "a server of $limit bytes that may not compute again: exit status $rc"
echo passed
