#!/usr/bin/env bash
# A group trains a decoder: the loss of a step is the mean over all members' tokens with a loss, however many each
# member has. Two and three members that divide a batch learn what one client with the whole batch learns, to the bit:
# with adapters in the middle, and as a whole. Over links a group equals the group in one process, byte for byte, in
# each mode, also if a member and the server are killed. A masked language model is counted in the same way.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
. tests/e2e/lib/lines.sh
mkdir "$tmp/toy" "$tmp/tied" "$tmp/made" "$tmp/text" "$tmp/pairs"
"$TOOLS/make_text" "$tmp/made"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "llama", "vocab_size": 700, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
	 "num_key_value_heads": 2, "max_position_embeddings": 40, "rms_norm_eps": 1e-05, "initializer_range": 0.1,
	 "tie_word_embeddings": false, "eos_token_id": 2}
JSON
jq '.tie_word_embeddings = true' "$tmp/toy/config.json" >"$tmp/tied/config.json"
lines 0 96 >"$tmp/text/train.txt"
lines 100 116 >"$tmp/text/dev.txt"
pairs() { lines "$1" "$2" | jq -R -c '{prompt: "\(.[0:9])", completion: .[9:]}'; }
pairs 0 96 >"$tmp/pairs/train.jsonl"
pairs 100 116 >"$tmp/pairs/dev.jsonl"
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/toy, head: causal_lm, tokens: 40}
	partition: "2:-2"
	data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made, token_cache: false}
	train: {batch: 8, chunks: 2, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01, weight_decay: 0.1}}
	threads: 1
YAML
base_for "$config" "$tmp/toy"
adapters='lora.rank=2 lora.target=q_proj,v_proj,down_proj'
middle="$adapters head_end=embed_tokens" # nothing of head and tail learns
prompts="data.dir=$tmp/pairs data.columns=prompt,completion"

# run NAME [argument]… -- [key=value]…
run() {
	local name=$1 args=() set=() pair
	shift
	while [ "$1" != -- ]; do args+=("$1"); shift; done
	for pair in "${@:2}"; do set+=(--set "$pair"); done
	client "$name" "$config" --local --fresh ${args[@]+"${args[@]}"} "${set[@]}" || fail "$name: exit status $?"
}
tensors() { tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1" | sha256sum; }
# as_one K ENDS [key=value]…: succeeds if K members learn what one client learns in K chunks.
as_one() {
	local k=$1 ends=$2
	shift 2
	run one -- train.batch=24 train.chunks="$k" train.chunk_sums=true train.drop_last=true "$@"
	run parts --clients "$k" -- train.batch=$((24 / k)) train.chunks=1 train.drop_last=true data.partition=batch share.ends="$ends" "$@" train.chunk_sums=false
	[ "$(steps_of one)" -ge 3 ] && [ "$(steps_of parts/member-0)" = "$(steps_of one)" ] || fail "$k members take other steps than one client"
	for ((i = 0; i < k; i++)); do
		[ "$(tensors "$tmp/one/model.safetensors")" = "$(tensors "$tmp/parts/member-$i/model.safetensors")" ] || return 1
	done
}
for k in 2 3; do
	for case in "private $middle" "private $middle $prompts tail_tokens=loss" "step $adapters train.clip_norm=0.5" step; do
		read -r -a set <<<"$case"
		as_one $k "${set[@]}" || fail "$k members do not learn as one client does: $case"
	done
done
! as_one 2 step train.chunk_sums=false || fail 'sums that go from chunk to chunk make no difference'
# One client with one chunk learns the same up to rounding, so the mean is over tokens.
run plain -- train.batch=24 train.chunks=1 train.drop_last=true
loss_of() { jq -s '[.[] | select(.type == "epoch")][-1].test_loss' "$tmp/$1/log.jsonl"; }
as_one 3 step || fail '3 members do not learn as one client does'
awk -v a="$(loss_of plain)" -v b="$(loss_of parts/member-0)" 'BEGIN {d = a > b ? a - b : b - a; exit !(d < 1e-4 * a)}' ||
	fail "members end with the loss $(loss_of parts/member-0), one client with $(loss_of plain)"

start_server one threads=2
read -r -a set <<<"$middle"
group two "$config" 2 data.partition=iid share.ends=private "${set[@]}"
group three "$config" 3 data.partition=iid model.huggingface="$tmp/tied" train.clip_norm=0.5 codec='topk:0.3,ef=true|quant:8'
read -r -a set <<<"$prompts tail_tokens=loss $adapters"
group clipped "$config" 3 data.partition=iid share.ends=private train.clip_norm=0.5 "${set[@]}"
group serial "$config" 2 data.partition=iid share.mode=serial "${set[@]}"
group rounds "$config" 3 data.partition=iid share.mode=rounds "${set[@]}"
read -r -a set <<<"$adapters"
killed kills "$config" 24 train.checkpoint_every=3 "${set[@]}"
grep -q '"skipped":true' "$tmp"/*/log.jsonl && fail 'a step was skipped'

refused 78 'train.chunk_sums: is not exact where head and tail train the same word table' --set model.huggingface="$tmp/tied" --set train.chunk_sums=true
refused 78 'data.partition: the set has no labels: take iid' --local --clients 2 --set data.partition=by_label
echo "share_causal_lm: ok"
