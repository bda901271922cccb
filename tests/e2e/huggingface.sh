#!/usr/bin/env bash
# A Hugging Face folder trains over the link as in one process, byte for byte: the four usual cuts of an encoder,
# chunks, threads, codecs, inserts, and over a kill. Only real tokens cross, and after the last layer one vector per
# row. A folder's weights are exported as they were imported. What does not fit is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
steps=3 # batches of 16, 16 and 8
features=24
mkdir "$tmp/toy"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": 96, "hidden_size": $features,
	 "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 26,
	 "type_vocab_size": 1, "layer_norm_eps": 1e-05, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
	 "hidden_act": "gelu", "initializer_range": 0.1, "pad_token_id": 1}
JSON
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/toy, classes: 2, tokens: 24}
	head_end: encoder.layer.0.attention.output
	tail_begin: classifier
	data: {kind: made_tokens, dir: ., train_limit: 40, test_limit: 24}
	train:
	  batch: 16
	  chunks: 4
	  epochs: 1
	  seed: 3
	  optimizer: {kind: adamw, lr: 0.01, weight_decay: 0.1}
	  groups: [{match: ["*.bias", "*LayerNorm*"], weight_decay: 0}]
	threads: 1
YAML
. tests/e2e/lib/compare.sh

one_to_four=('partition=2:-2|head_end=|tail_begin=' 'head_end=encoder.layer.0.attention.output.add|tail_begin=encoder.layer.2'
	'head_end=encoder.layer.0.attention.output|tail_begin=classifier' 'partition=2:-1|head_end=|tail_begin=')
cases=()
for chunks in 1 4 8; do
	for cut in 0 1 2 3; do cases+=("cut $((cut + 1)) $chunks|train.chunks=$chunks|${one_to_four[cut]}"); done
done
for codec in quant:8 topk:0.2^quant:8 sortquant:6+2 lowrank:3,warm=true quant:4,per=sample quant:4,ef=true; do
	cases+=("$codec|codec.head_act=$codec|codec.head_grad=$codec|tail_begin=encoder.layer.2|codec.mid_act=$codec|codec.mid_grad=$codec")
done
cases+=('quant at the first token|codec=quant:8' 'insert|insert.head=linear:8|insert.tail=linear:6' 'frozen|train.freeze=roberta.embeddings.*,roberta.encoder.layer.0.*')
# Padded rows: attention stops where a row's padding begins, on the server as on the client.
for cut in 0 1 2 3; do cases+=("padded $((cut + 1))|data.pad=longest|${one_to_four[cut]}"); done
for codec in quant:8 sortquant:6+2 lowrank:3 topk:0.2; do cases+=("max $codec|data.pad=max|codec=$codec|tail_begin=encoder.layer.2"); done
# Both pairs of inserts (features and tokens), at both cuts where tokens cross; both get narrower after every step.
pairs='decaylinear:rate=0.8,every=1,times=2,l1=0.01,rate2=0.7'
for codec in none quant:8 lowrank:2; do
	cases+=("pairs $codec|data.pad=max|insert.head=$pairs|insert.tail=$pairs|codec=$codec|tail_begin=encoder.layer.2")
done
cases+=("fixed pairs|data.pad=max|insert.head=linear:12,tokens=9|tail_begin=encoder.layer.2|codec=sortquant:6+2")
two_at_a_time compare_both "${cases[@]}"
[ "$(learned 'local cut 3 4')" != "$(learned 'local quant at the first token')" ] || fail 'the codec made no difference'

# ModernBERT: rows longer than the window of its local layers, which read the mean of a row's tokens or its first one;
# also with adapters.
mkdir "$tmp/modern"
cat >"$tmp/modern/config.json" <<-JSON
	{"model_type": "modernbert", "vocab_size": 96, "hidden_size": $features, "intermediate_size": 40, "num_hidden_layers": 3,
	 "num_attention_heads": 4, "max_position_embeddings": 40, "local_attention": 8, "classifier_pooling": "mean",
	 "mlp_dropout": 0.1, "attention_dropout": 0.1, "initializer_range": 0.1}
JSON
jq 'del(.classifier_pooling) | .layer_types = ["sliding_attention", "full_attention", "full_attention"]' "$tmp/modern/config.json" >"$tmp/config.json"
cp -r "$tmp/modern" "$tmp/first"
mv "$tmp/config.json" "$tmp/first"
modern='head_end=layers.0|train.groups='
two_at_a_time compare_both "modern|model.huggingface=$tmp/modern|$modern|tail_begin=final_norm" \
	"modern first|model.huggingface=$tmp/first|$modern|tail_begin=head"
cp "$tmp/local modern/model.safetensors" "$tmp/modern"
compare_both 'modern adapters' model.huggingface="$tmp/modern" head_end=layers.0 train.groups= tail_begin=layers.2 lora.rank=2
"$SPLITC" export "$config" "$tmp/merged.safetensors" --set model.huggingface="$tmp/modern" --set train.groups= --set head_end=layers.0 \
	--set tail_begin=layers.2 --set lora.rank=2 --set log.dir="$tmp/local modern adapters" >"$tmp/out" 2>&1 || fail "export of a merged ModernBERT: $(cat "$tmp/out")"

# Cuts 3 and 4 send one vector per row to the tail; cuts 1 and 2 send one per token.
figure() { jq -r "select(.type == \"summary\") | .direction.$2" "$tmp/$1/log.jsonl"; }
for cut in 3 4; do
	[ "$(figure "one cut $cut 4" mid_act.raw_bytes)" = $(((40 + 24) * features * 4)) ] || fail "cut $cut: mid_act has $(figure "one cut $cut 4" mid_act.raw_bytes) bytes"
	[ "$(figure "one cut $cut 4" mid_grad.raw_bytes)" = $((40 * features * 4)) ] || fail "cut $cut: mid_grad has another size"
done
for cut in 1 2; do
	[ "$(figure "one cut $cut 4" mid_act.raw_bytes)" = "$(figure "one cut $cut 4" head_act.raw_bytes)" ] || fail "cut $cut: mid_act is not of all tokens"
done

# Padded rows cross with their padding, 24 tokens each. After it they compute what packed rows do: the losses agree
# except for the random numbers of dropout in attention.
bytes_of() { figure "$1" "$2.raw_bytes"; }
[ "$(bytes_of 'one max quant:8' head_act)" = $(((40 + 24) * 24 * features * 4)) ] || fail "padded to 24 tokens head_act has $(bytes_of 'one max quant:8' head_act) bytes"
[ "$(bytes_of 'one max quant:8' mid_grad)" = $((40 * 24 * features * 4)) ] || fail "padded to 24 tokens mid_grad has $(bytes_of 'one max quant:8' mid_grad) bytes"
[ "$(bytes_of 'one padded 1' head_act)" -lt $(((40 + 24) * 24 * features * 4)) ] || fail 'rows are not padded to the longest of their batch'
[ "$(bytes_of 'one padded 1' head_act)" -gt "$(bytes_of 'one cut 1 4' head_act)" ] || fail 'rows are not padded'
jq '.hidden_dropout_prob = 0.1 | .attention_probs_dropout_prob = 0' "$tmp/toy/config.json" >"$tmp/config.json"
mkdir "$tmp/dry"
mv "$tmp/config.json" "$tmp/dry"
for pad in none longest max; do
	client "dry $pad" "$config" --local --set model.huggingface="$tmp/dry" --set model.tokens=20 --set data.pad=$pad || fail "dry $pad: exit status $?"
done
losses() { jq -r 'select(.type == "step") | .loss' "$tmp/$1/log.jsonl"; }
for pad in longest max; do
	paste <(losses "dry $pad") <(losses 'dry none') | awk '{d = $1 - $2} d * d > 1e-9 {bad = 1} END {exit bad || NR != 3}' ||
		fail "padded ($pad) $(losses "dry $pad" | tail -n 1), packed $(losses 'dry none' | tail -n 1)"
done

# With both pairs, [features, tokens] of each row cross: 24x24, 19x16 and 15x11 in the three steps, plus 16 bytes per
# chunk (10).
[ "$(figure 'one pairs none' head_grad.payload_bytes)" = $((4 * (16 * 24 * 24 + 16 * 19 * 16 + 8 * 15 * 11) + 10 * 16)) ] ||
	fail "pairs: head_grad has $(figure 'one pairs none' head_grad.payload_bytes) bytes"
[ "$(bytes_of 'one pairs none' head_grad)" = $((40 * 24 * features * 4)) ] || fail 'pairs: not all of the tensor counts as fp32'

# A device must also stop at the padding; the longest row of a chunk has none.
if simulated_device; then
	start_server device "store=$tmp/three" device=cuda:0
	for form in 'data.pad=longest' "data.pad=max insert.head=$pairs"; do
		pad=${form%% *}
		gpu=(--set head_end=encoder.layer.1 --set train.batch=8 --set train.chunks=2 --set data.train_limit=16 --set data.test_limit=8)
		for item in $form; do gpu+=(--set "$item"); done
		client "gpu $pad" "$config" --set server="$endpoint" "${gpu[@]}" || fail "gpu $pad: exit status $?"
		client "gpu local $pad" "$config" --local "${gpu[@]}" || fail "gpu local $pad: exit status $?"
		paste <(losses "gpu $pad") <(losses "gpu local $pad") | awk '{d = $1 - $2} d * d > 1e-9 {bad = 1} END {exit bad || NR != 2}' ||
			fail "$pad: on a device $(losses "gpu $pad" | tail -n 1), on a CPU $(losses "gpu local $pad" | tail -n 1)"
	done
fi

# A run that is killed between two steps reaches the same end.
falls=(--set codec.head_act='quant:4,ef=true' --set data.pad=max --set insert.head="$pairs")
set=(--set server="$two" --set train.checkpoint_every=1 "${falls[@]}")
client undisturbed "$config" --local "${falls[@]}" || fail "undisturbed: exit status $?"
killed_client 2 undisturbed "$config" "${set[@]}"

# The trained weights load as the weights of a folder: strictly, and in place of the initial values from the seed.
cp -r "$tmp/toy" "$tmp/tuned"
cp "$tmp/local cut 3 4/model.safetensors" "$tmp/tuned"
client again "$config" --local --set model.huggingface="$tmp/tuned" || fail "again: exit status $?"
client after "$config" --local --set model.weights="$tmp/tuned/model.safetensors" || fail "after: exit status $?"
same_run again after $steps
[ "$(learned again)" != "$(learned 'local cut 3 4')" ] || fail "the folder's weights made no difference"
grep -q '^WARN weights-none: .*/toy has no weights: all start from seed' "$tmp/local cut 3 4.log" || fail 'nothing says that weights are random'

broken() { # JQ
	rm -rf "$tmp/broken"
	mkdir "$tmp/broken"
	jq "$1" "$tmp/toy/config.json" >"$tmp/broken/config.json"
}
refused 78 'insert.head: rate2 needs rows that all have the same number of tokens: set data.pad to max' --set insert.head="$pairs"
refused 78 'set data.pad to max' --set insert.head="$pairs" --set data.pad=longest
refused 78 'insert.tail: rate2 lowers the number of a row' --set insert.tail="$pairs" --set data.pad=max
refused 78 'model.tokens: rows have up to 25 tokens' --set model.tokens=25
refused 66 'model.huggingface: ' --set model.huggingface="$tmp/nowhere"
broken 'del(.hidden_size)'
refused 65 'config.json: hidden_size is missing' --set model.huggingface="$tmp/broken"
broken '.model_type = "mamba"'
refused 78 'config.json: model_type is mamba; known: roberta, bert' --set model.huggingface="$tmp/broken"
broken '.model_type = "modernbert" | .classifier_pooling = "max"'
refused 78 'config.json: classifier_pooling; known: cls, mean' --set model.huggingface="$tmp/broken"
broken '.model_type = "modernbert" | .norm_bias = true'
refused 78 'norm_bias is true: such a network is not built here' --set model.huggingface="$tmp/broken"
broken '.model_type = "modernbert" | .attention_bias = true'
refused 78 'attention_bias is set, which is not built here' --set model.huggingface="$tmp/broken"
broken '.vocab_size = 50'
refused 78 'made_tokens has tokens below 96, the model only below 50' --set model.huggingface="$tmp/broken"
broken '.vocab_size = 97'
cp "$tmp/tuned/model.safetensors" "$tmp/broken"
refused 65 'word_embeddings.weight" is [96,24] in the file and [97,24] in the model' --set model.huggingface="$tmp/broken"
broken .
head -c 5000 "$tmp/tuned/model.safetensors" >"$tmp/broken/model.safetensors"
refused 65 'model.safetensors: ' --set model.huggingface="$tmp/broken"
rm "$tmp/broken/model.safetensors"
echo '{"weight_map": {"lm_head.bias": "../tuned/model.safetensors"}}' >"$tmp/broken/model.safetensors.index.json"
refused 65 'lies in no file of this folder' --set model.huggingface="$tmp/broken"
# Weights that are there and not read, and adapters beside none.
unread() { # FILE SENTENCE
	broken .
	mkdir -p "$(dirname "$tmp/broken/$1")"
	cp "$tmp/tuned/model.safetensors" "$tmp/broken/$1"
	refused 66 "broken/$1 is there and not read: $2" --set model.huggingface="$tmp/broken"
}
unread model-00001-of-00002.safetensors 'the names that are read are model.safetensors'
unread model.fp16.safetensors 'the names that are read are model.safetensors'
unread model.safetensors.incomplete 'the download did not end'
unread .cache/huggingface/download/a.1f.incomplete 'the download did not end'
unread adapter_model.safetensors 'it has adapters alone: give this folder in lora.adapter'
unread pytorch_model-00001-of-00002.bin 'weights of torch.save'
unread tf_model.h5 'write model.safetensors'
# Names that a wrapper made say so; the file of a run says its format, without which transformers does not read it.
grep -aq '"format":"pt"' "$tmp/tuned/model.safetensors" || fail 'model.safetensors has no format'
renamed() { # PREFIX
	broken .
	python3 -c 'import json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = {(k if k == "__metadata__" else sys.argv[3] + k): v for k, v in json.loads(data[8:8 + n]).items()}
text = json.dumps(head).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])' "$tmp/tuned/model.safetensors" "$tmp/broken/model.safetensors" "$1"
}
for prefix in _orig_mod. base_model.model. module.; do
	renamed $prefix
	refused 65 "; its names begin with $prefix, of " --set model.huggingface="$tmp/broken"
done
broken .
ln -s gone "$tmp/broken/model.safetensors"
refused 66 'model.safetensors: No such file' --set model.huggingface="$tmp/broken"
refused 66 'toy has no weights, and adapters (lora.rank) would train beside random ones' --set lora.rank=2
refused 78 'stands instead of model.name' --set model.name=token_mlp
sed 's/huggingface: [^,]*,/name: huggingface,/' "$config" >"$tmp/nameless.yaml"
config=$tmp/nameless.yaml refused 78 'model.name: needs the folder in model.huggingface'
echo "$(ls -d "$tmp"/*/log.jsonl | wc -l) runs"
