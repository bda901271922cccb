#!/usr/bin/env bash
# Rows of tokens with different lengths: training over the link gives the losses and final weights of `--local`, byte
# for byte, with every codec, at cuts before and after `select`, for several chunks and threads. Only real tokens cross,
# no padding. A run that is killed reaches the same end. Dropout is on.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
steps=4 # batches of 16, 16, 16 and 8
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {name: token_mlp, classes: 2, vocab: 96, tokens: 24, width: 0.25, dropout: 0.2}
	head_end: up
	tail_begin: dense
	data: {kind: made_tokens, dir: ., train_limit: 56, test_limit: 24}
	train:
	  batch: 16
	  chunks: 4
	  epochs: 1
	  seed: 3
	  optimizer: {kind: adamw, lr: 0.01}
	  schedule: {kind: cosine, warmup_epochs: 0.5}
	threads: 1
YAML
. tests/e2e/lib/compare.sh

cases=()
for chunks in 1 4 8; do
	for cut in head_end=embedding head_end=up.linear 'head_end=up|tail_begin=first' head_end=up.gelu 'head_end=first|tail_begin=classifier'; do
		cases+=("$chunks $cut|$cut|train.chunks=$chunks")
	done
done
two_at_a_time compare_both "${cases[@]}"
cases=()
for codec in none f16 bf16 quant:8 quant:4,per=sample quant:8,per=channel quant:8,block=64,round=stochastic sortquant:6+2 terngrad \
	qsgd:255 topk:0.1 randomk:0.2 threshold:0.01 topk:0.2^quant:8 topk:0.1,ef=true quant:4,ef=true randomk:0.2^qsgd:255 threshold:0.01^zstd; do
	cases+=("$codec|codec=$codec|tail_begin=first" "$codec, 1 chunk|codec=$codec|tail_begin=first|train.chunks=1")
done
for codec in lowrank:3 lowrank:3,warm=true,iters=2 downsample:2 cells:2 lowrank:3^quant:8,per=sample cells:2^topk:0.2^quant:6 \
	downsample:2^f16^zstd; do
	for chunks in 1 4 8; do
		cases+=("$codec $chunks|codec=$codec|tail_begin=first|train.chunks=$chunks")
	done
done
cases+=('padded|data.pad=longest|codec=quant:8' 'padded to 24|data.pad=max|codec=topk:0.1,ef=true|tail_begin=first' 'no dropout|model.dropout=0' 'insert|insert.head=linear:40|insert.tail=linear:8'
	'decaying|insert.head=decaylinear:rate=0.8,every=1,times=2' 'frozen|train.freeze=embedding.*,up.*')
two_at_a_time compare "${cases[@]}"
[ "$(learned 'local no dropout')" != "$(learned 'local 4 head_end=up.gelu')" ] || fail 'dropout made no difference'
[ "$(learned 'local quant:8')" != "$(learned 'local f16')" ] || fail 'the codec made no difference'

# What crosses for 56 samples and 24: with `none`, four bytes for each of 16 features of each real token, and 32 bytes
# per chunk (20) for lengths and the codec's header. Padded to the longest row it would be three times as much.
figure() { jq -r "select(.type == \"summary\") | .direction.$2" "$tmp/$1/log.jsonl"; }
for run in 'local 4 head_end=embedding' 'two 4 head_end=embedding'; do
	payload=$(figure "$run" head_act.payload_bytes) raw=$(figure "$run" head_act.raw_bytes)
	[ "$payload" = $((raw + 20 * 32)) ] || fail "$run: head_act took $payload bytes, where $raw are its tokens"
	[ $((raw * 2)) -lt $(((56 + 24) * 24 * 16 * 4)) ] || fail "$run: head_act has $raw bytes, as if rows were padded"
	[ "$(figure "$run" head_grad.raw_bytes)" -lt "$raw" ] || fail "$run: evaluations have gradients"
done
[ "$(figure 'two quant:8' head_act.payload_bytes)" -lt $(($(figure 'two quant:8' head_act.raw_bytes) / 3)) ] || fail 'quant:8 does not make tokens smaller'

# A run that is killed between two steps, and whose server is gone, too, resumes from its checkpoint.
set=(--set server="$two" --set codec='quant:4,ef=true' --set tail_begin=first --set train.checkpoint_every=1)
client undisturbed "$config" --local --set codec='quant:4,ef=true' --set tail_begin=first || fail "undisturbed: exit status $?"
killed_client 2 undisturbed "$config" "${set[@]}"

# The middle on a simulated device, with dropout: equal up to rounding.
losses() { jq -r 'select(.type == "step") | .loss' "$tmp/$1/log.jsonl"; }
if simulated_device; then
	start_server gpu "store=$tmp/three" device=cuda:0
	for codec in none quant:8,per=sample topk:0.2 f16; do
		set=(--set codec="$codec" --set head_end=up.linear --set tail_begin=first)
		[ "$codec" != topk:0.2 ] || set+=(--set data.pad=longest)
		[ "$codec" != f16 ] || set+=(--set train.accumulate=2) # the last two batches have 16 and 8 rows
		client "gpu $codec" "$config" --set server="$endpoint" "${set[@]}" || fail "gpu $codec: exit status $?"
		client "cpu $codec" "$config" --local "${set[@]}" || fail "cpu $codec: exit status $?"
		paste <(losses "gpu $codec") <(losses "cpu $codec") | awk '{d = $1 - $2} d * d > 1e-10 {bad = 1} END {exit bad || NR != 4}' ||
			fail "$codec: on a device $(losses "gpu $codec" | tail -n 1), on a CPU $(losses "cpu $codec" | tail -n 1)"
	done
fi

# What does not fit is refused, and the error names the key.
refused() {
	local why=$1
	shift
	! client refused "$config" --local --fresh "$@" || fail "not refused: $*"
	grep -q -- "$why" "$tmp/refused.log" || fail "$* is refused with '$(tail -n 1 "$tmp/refused.log")'"
}
refused 'the middle has no parameters' --set head_end=down
refused 'model.vocab: made_tokens has tokens below 96, the model only below 50' --set model.vocab=50
refused 'data.kind: the network takes tokens, and cifar10 has none' --set data.kind=cifar10 --set data.dir="$tmp"
refused 'model.image: token_mlp has none' --set model.image=32
refused 'codec.head_act: .*position' --set 'codec.head_act=lowrank:100'
echo "$(ls -d "$tmp"/*/log.jsonl | wc -l) runs"
