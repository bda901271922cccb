#!/usr/bin/env bash
# The activations of a frozen head are kept between epochs if the config asks for it: the run has the same bits, over
# the link and in one process, and reports what they occupy. It is refused if an activation differs from epoch to epoch.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/toy" "$tmp/wet"
cat >"$tmp/wet/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
	 "num_attention_heads": 4, "max_position_embeddings": 26, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
	 "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0, "hidden_act": "gelu", "initializer_range": 0.1,
	 "pad_token_id": 1}
JSON
jq '.hidden_dropout_prob = 0' "$tmp/wet/config.json" >"$tmp/toy/config.json"
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/toy, classes: 2, tokens: 24}
	head_end: encoder.layer.0
	tail_begin: classifier
	data: {kind: made_tokens, dir: ., train_limit: 40, test_limit: 24}
	train:
	  batch: 16
	  chunks: 4
	  epochs: 3
	  seed: 3
	  optimizer: {kind: adamw, lr: 0.01}
	  freeze: ["roberta.embeddings.*", "roberta.encoder.layer.0.*"]
	  keep_head_bytes: 1000000
	threads: 1
YAML
steps=9
. tests/e2e/lib/compare.sh
off=(--set train.keep_head_bytes=0)
for case in 'plain|' 'by length|data.group_by_length=true' 'quant|codec=quant:8,ef=true' 'one chunk|train.chunks=1'; do
	IFS='|' read -r name key <<<"$case"
	compare "$name" ${key:+"$key"}
	client "without $name" "$config" --local "${off[@]}" ${key:+--set "$key"} || fail "without $name: exit status $?"
	same_run "local $name" "without $name" $steps
	for run in local two; do
		# The first epoch computes 40 samples. Later epochs reuse only chunks whose samples were all seen
		# before.
		grep -q 'head-kept: the head computed 40 samples, and 80 were kept' "$tmp/$run $name.log" || fail "$run $name: $(grep head-kept "$tmp/$run $name.log")"
	done
done
bytes=$(jq -r 'select(.type == "summary") | .direction.head_act.raw_bytes' "$tmp/local plain/log.jsonl")
test=$("$SPLITC" data "$config" --json | jq '.test.tokens * 24 * 4')
said=$(sed -n 's/.*head-kept: activations of the head are kept: \([0-9]*\) bytes for 40 samples/\1/p' "$tmp/local plain.log")
[ "$((said + test))" = "$((bytes / 3))" ] || fail "$said bytes are kept, where $bytes cross in 3 epochs with $test of the test set in each"

# A run that is killed in its second epoch recomputes what it had kept, and reaches the same end.
set=(--set server="$two" --set train.checkpoint_every=2 --set codec=quant:8,ef=true)
killed_client 5 'local quant' "$config" "${set[@]}"

refused 78 'train.keep_head_bytes: needs a head in which nothing learns' --set train.freeze=roberta.embeddings.*
refused 78 'train.keep_head_bytes: needs a head without dropout: roberta.embeddings.dropout' --set model.huggingface="$tmp/wet"
refused 78 'train.keep_head_bytes: needs rows without padding' --set data.pad=longest
refused 78 'train.keep_head_bytes: cannot be where tokens are masked' --set model.head=masked_lm --set tail_begin=lm_head
refused 76 'train.keep_head_bytes: the activations of 40 samples take' --set train.keep_head_bytes=9999
