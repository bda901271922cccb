#!/usr/bin/env bash
# A masked language model trains over the link as in one process, byte for byte: its decoder is tied to the embedding
# table, so that head and tail share a parameter, or has a table of its own; chunks, cuts, codecs, padding, clipping, a
# frozen table, and over a kill. Its loss falls. Its file has the table once, and loads again. Unsupported settings are
# refused. SPLIT_TEXT_DATA: a folder with glue/CoLA and roberta_tokenizer/, for a run on real sentences.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/toy" "$tmp/made" "$tmp/text"
"$TOOLS/make_text" "$tmp/made"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": 700, "hidden_size": 24,
	 "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 42,
	 "type_vocab_size": 1, "layer_norm_eps": 1e-05, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
	 "hidden_act": "gelu", "initializer_range": 0.1, "pad_token_id": 1}
JSON
. tests/e2e/lib/lines.sh
lines 0 96 >"$tmp/text/train.txt"
lines 100 124 >"$tmp/text/dev.txt"
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/toy, head: masked_lm, tokens: 40}
	head_end: encoder.layer.0.attention.output
	tail_begin: lm_head
	data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made, mask_rate: 0.2}
	train:
	  batch: 32
	  chunks: 4
	  epochs: 1
	  seed: 3
	  optimizer: {kind: adamw, lr: 0.01, weight_decay: 0.1}
	  groups: [{match: ["*.bias", "*LayerNorm*"], weight_decay: 0}]
	threads: 1
YAML
steps=3
. tests/e2e/lib/compare.sh
base_for "$config" "$tmp/toy"
mkdir "$tmp/untied"
jq '.tie_word_embeddings = false' "$tmp/toy/config.json" >"$tmp/untied/config.json"
layer=tail_begin=encoder.layer.2
cases=('1 chunk|train.chunks=1' '4 chunks|train.chunks=4' "8 chunks|train.chunks=8|$layer" 'quant|codec=quant:8'
	"top-k|$layer|codec=topk:0.2,ef=true^quant:8" "untied|model.huggingface=$tmp/untied" 'clipped|train.clip_norm=0.1'
	'frozen table|train.freeze=*.word_embeddings.weight' "padded|data.pad=max|$layer" 'sum|train.chunk_loss=sum'
	'by length|data.group_by_length=true' 'adapters|lora.rank=2')
two_at_a_time compare "${cases[@]}"
"$SPLITC" export "$config" "$tmp/peft" --adapter --set lora.rank=2 --set log.dir="$tmp/local adapters" >"$tmp/export.log" 2>&1 || fail 'export --adapter'
[ "$(jq -c '[.task_type, .modules_to_save]' "$tmp/peft/adapter_config.json")" = '[null,["lm_head"]]' ] || fail "adapters: $(cat "$tmp/peft/adapter_config.json")"

# Members of a group have unequal numbers of masked tokens: over links the group equals one process.
. tests/e2e/lib/groups.sh
endpoint=$two
group masked "$config" 3 train.batch=8 data.partition=iid
[ "$(learned masked/member-0)" != "$(learned masked/member-1)" ] || fail 'members have the same tokens'
[ "$(learned 'local 4 chunks')" != "$(learned 'local untied')" ] || fail 'a weight of its own makes no difference'

# Chunks change only the rounding of sums. Without dropout the loss is the mean over all masked tokens.
losses() { jq -r 'select(.type == "step") | .loss' "$tmp/$1/log.jsonl"; }
mkdir "$tmp/dry"
jq '.hidden_dropout_prob = 0 | .attention_probs_dropout_prob = 0' "$tmp/toy/config.json" >"$tmp/dry/config.json"
for chunks in 1 3; do
	client "dry $chunks" "$config" --local --set model.huggingface="$tmp/dry" --set train.chunks=$chunks || fail "dry $chunks: exit status $?"
done
paste <(losses 'dry 1') <(losses 'dry 3') | awk '{d = $1 - $2} d * d > 1e-9 {bad = 1} END {exit bad || NR != 3}' ||
	fail "with 3 chunks $(losses 'dry 3' | tail -n 1), with one $(losses 'dry 1' | tail -n 1)"

# It learns: a word is determined by its neighbours. Every evaluation masks the same tokens.
learn=(--set train.epochs=40 --set train.chunks=2)
client learns "$config" --local --set model.huggingface="$tmp/dry" "${learn[@]}" || fail "learns: exit status $?"
jq -s -e '[.[] | select(.type == "epoch")] | (.[0].test_loss > 4) and (.[-1].test_loss < 2) and (.[-1].test_acc > 0.4) and
	((.[-1].test_metrics.perplexity | log) - .[-1].test_loss | fabs < 1e-9)' "$tmp/learns/log.jsonl" >"$tmp/out" ||
	fail "the loss does not fall: $(grep '"epoch"' "$tmp/learns/log.jsonl" | tail -n 1)"
grep -q '^validation accuracy .* of the masked tokens of 24 samples' "$tmp/learns.log" || fail 'the summary does not say what was guessed'

# A run that is killed between two steps of an epoch reaches the same end.
set=(--set server="$two" --set train.checkpoint_every=1 --set codec.head_act='quant:4,ef=true')
client undisturbed "$config" --local --set codec.head_act='quant:4,ef=true' || fail "undisturbed: exit status $?"
killed_client 2 undisturbed "$config" "${set[@]}"
jq -s -e '(.[0] | map(select(.type == "epoch")) | last | [.train_loss, .train_acc]) == (.[1] | map(select(.type == "epoch")) | last | [.train_loss, .train_acc])' \
	<(jq -s . "$tmp/undisturbed killed/log.jsonl") <(jq -s . "$tmp/undisturbed/log.jsonl") >"$tmp/out" || fail 'the epoch has other means after a kill'

# The file has the table once and loads as a folder's weights; it evaluates to the run's final loss.
names() { head -c 20000 "$1" | tail -c +9 | tr ',{' '\n\n' | sed -n 's/^"\([a-z][^"]*\)":.*/\1/p'; }
model=$tmp/learns/model.safetensors
names "$model" | grep -q '^roberta.embeddings.word_embeddings.weight$' || fail 'the table is not in the file'
names "$model" | grep -q '^lm_head.bias$' || fail "the decoder's bias is not in the file"
! names "$model" | grep -q '^lm_head.decoder' || fail 'the table is in the file twice'
names "$tmp/local untied/model.safetensors" | grep -q '^lm_head.decoder.weight$' || fail 'an untied decoder is not in the file'
cp "$model" "$tmp/dry/model.safetensors"
"$SPLITC" eval "$config" --local --json --set log.dir= --set train.chunks=2 --weights "$model" >"$tmp/eval" || fail "eval: exit status $?"
jq -s -e '.[0].test_loss == (.[1] | .[-1].test_loss)' "$tmp/eval" <(jq -s . "$tmp/learns/log.jsonl") >"$tmp/out" ||
	fail "the file evaluates to $(cat "$tmp/eval")"
client again "$config" --local --set model.huggingface="$tmp/dry" || fail "again: exit status $?"
client after "$config" --local --set model.weights="$model" --set model.huggingface="$tmp/dry" || fail "after: exit status $?"
same_run again after $steps
# A classifier can start from it: it takes all weights but those of the masked decoder.
client tuned "$config" --local --set model.head=classifier --set model.classes=2 --set tail_begin=classifier --set model.huggingface="$tmp/dry" \
	--set data.kind=made_tokens --set data.dir=. --set data.train_limit=64 --set data.test_limit=16 || fail "tuned: exit status $?"

# So can one of BERT, whose file lacks the pooler that the classifier reads.
mkdir "$tmp/bert"
jq '.model_type = "bert" | .architectures = ["BertForMaskedLM"]' "$tmp/toy/config.json" >"$tmp/bert/config.json"
client masks "$config" --local --set model.huggingface="$tmp/bert" --set tail_begin=cls.predictions || fail "masks: exit status $?"
cp "$tmp/masks/model.safetensors" "$tmp/bert"
client pooled "$config" --local --set model.head=classifier --set model.classes=2 --set tail_begin=pooler --set model.huggingface="$tmp/bert" \
	--set data.kind=made_tokens --set data.dir=. --set data.train_limit=64 --set data.test_limit=16 || fail "pooled: exit status $?"
grep -q '^INFO weights-partial: .* tensors; the others, bert.pooler.dense.weight first, start from seed 3' "$tmp/pooled.log" || fail "pooled: $(cat "$tmp/pooled.log")"

# The table counts once, as a parameter of the head. The decoder's products count in the tail, for a row's masked
# tokens.
"$SPLITC" flops "$config" --json >"$tmp/flops" || fail "flops: exit status $?"
jq -e '.head.parameters > 700 * 24 and .tail.parameters == 24 * 24 + 24 + 2 * 24 + 700 and .tail.macs == 32 * 8 * (24 * 24 + 2 * 24 + 700 * 24)' \
	"$tmp/flops" >"$tmp/out" || fail "flops: $(cat "$tmp/flops")"
"$SPLITC" data "$config" >"$tmp/table" || fail "data: exit status $?"
grep -q '^tokens of a row' "$tmp/table" || fail "data: $(cat "$tmp/table")"

refused 78 'tokens are chosen in the middle' --set tail_begin=lm_head.decoder
refused 78 'tokens are chosen in the middle' --set tail_begin=lm_head.gelu --set model.huggingface="$tmp/untied"
refused 78 'train.metrics: belongs to classifiers' --set train.metrics=f1
refused 78 'data.mask_rate: belongs to model.head: masked_lm' --set model.head=classifier --set data.mask_rate=0.3 --set tail_begin=classifier
refused 78 'train.chunk_sums: is not exact where head and tail train the same word table' --set train.chunk_sums=true
mkdir "$tmp/unmasked"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' a >"$tmp/unmasked/vocab.txt"
refused 78 'data.tokenizer: a masked language model needs a tokenizer with <mask>' --set data.tokenizer="$tmp/unmasked"

if [ -n "${SPLIT_TEXT_DATA:-}" ]; then
	client cola configs/client-masked-lm.yaml --local --set data.dir="$SPLIT_TEXT_DATA/glue" --set data.tokenizer="$SPLIT_TEXT_DATA/roberta_tokenizer" \
		--set data.token_cache=false --set train.max_steps=60 || fail "cola: exit status $?"
	losses cola | awk 'NR == 1 {first = $1} {last = $1} END {exit !(last < first - 3)}' || fail "on CoLA the loss falls from $(losses cola | head -n 1) to $(losses cola | tail -n 1)"
fi
