#!/usr/bin/env bash
# Adapters (lora) on either side of the cut: only they and the classifier learn, over the link as in one process, byte
# for byte, also after a kill. A head without adapters gets no gradient. PEFT files and merged weights can be exported
# and imported.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
steps=3 # batches of 16, 16 and 8
mkdir "$tmp/toy" "$tmp/base"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
	 "num_attention_heads": 4, "max_position_embeddings": 26, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
	 "initializer_range": 0.3}
JSON
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/toy, classes: 2, tokens: 24}
	lora: {rank: 4, alpha: 8, target: [query, value], dropout: 0.1}
	partition: "2:-1"
	data: {kind: made_tokens, dir: ., train_limit: 40, test_limit: 24}
	train:
	  batch: 16
	  chunks: 4
	  epochs: 1
	  seed: 3
	  optimizer: {kind: adamw, lr: 0.05, weight_decay: 0.1}
	threads: 1
YAML
. tests/e2e/lib/compare.sh
base_for "$config" "$tmp/toy"

two_at_a_time compare_both 'plain' 'cut 3|head_end=encoder.layer.0.attention.output' 'cut 1|partition=2:-2|train.chunks=8|codec=quant:8' \
	'frozen head|partition=1:-1|train.chunks=1' 'all|lora.target=query,key,value,dense|lora.dropout=0|codec=topk:0.3'
figure() { jq -r "select(.type == \"summary\") | .direction.$2 // 0" "$tmp/$1/log.jsonl"; }
[ "$(figure 'one frozen head' head_grad.payload_bytes)" = 0 ] || fail 'a head without adapters gets a gradient'
[ "$(figure 'one plain' head_grad.payload_bytes)" != 0 ] || fail 'a head with adapters gets no gradient'

# A run that is killed between two steps reaches the same end. Its checkpoints hold only trained parameters and their
# moments.
killed_client 2 'local plain' "$config" --set server="$two" --set train.checkpoint_every=1

# Frozen tensors are unchanged; the number of trained parameters is right for roberta-base.
"$SPLITC" export "$config" "$tmp/base/model.safetensors" --set log.dir="$tmp/local plain" >"$tmp/export.log" 2>&1 || fail 'export'
cp "$tmp/toy/config.json" "$tmp/base"
jq '.vocab_size = 50265 | .hidden_size = 768 | .intermediate_size = 3072 | .num_hidden_layers = 12 | .num_attention_heads = 12 |
	.max_position_embeddings = 514' "$tmp/toy/config.json" >"$tmp/config.json"
mkdir "$tmp/full"
mv "$tmp/config.json" "$tmp/full"
trained=$("$SPLITC" graph "$config" --json --set model.huggingface="$tmp/full" --set lora.rank=8 --set lora.alpha=16 | jq '[.head, .middle, .tail | .nodes[].parameters] | add')
[ "$trained" = $((294912 + 592130)) ] || fail "roberta-base has $trained trained parameters"

# Merged weights compute what base and adapters do, in a network with zero adapters and in one without adapters.
logits() { # NAME [argument]…
	local name=$1
	shift
	"$SPLITC" predict "$config" --local --logits --csv --set log.dir="$tmp/local plain" "$@" 2>"$tmp/predict.log" >"$tmp/$name.csv" || fail "predict $name"
}
near() { # A B: the same logits, to 1e-5
	paste -d, "$tmp/$1.csv" "$tmp/$2.csv" | awk -F, 'NR > 1 {for (i = 4; i <= 5; i++) {d = $i - $(i + 5); n++; if (d * d > 1e-10) bad = 1}} END {exit bad || n < 40}' ||
		fail "logits of $1 and $2 differ"
}
logits unmerged
logits merged --weights "$tmp/base/model.safetensors"
logits without --weights "$tmp/base/model.safetensors" --set lora.rank=0
[ "$(grep -c other-data "$tmp/predict.log")" = 0 ] || fail "weights without adapters count as another network's: $(cat "$tmp/predict.log")"
near unmerged merged
near unmerged without

jq '.num_attention_heads = 3' "$tmp/toy/config.json" >"$tmp/config.json"
mkdir "$tmp/heads"
mv "$tmp/config.json" "$tmp/heads"
logits other --set lora.alpha=64 --set model.huggingface="$tmp/heads"
grep -q '^WARN other-data: the model was trained with lora_alpha 8.0, and this config has 64.0' "$tmp/predict.log" &&
	grep -q '^WARN other-data: the model was trained with network' "$tmp/predict.log" || fail "another alpha and other heads: $(cat "$tmp/predict.log")"

# PEFT files loaded into a run with a tiny learning rate
"$SPLITC" export "$config" "$tmp/peft" --adapter --set log.dir="$tmp/local plain" >"$tmp/export.log" 2>&1 || fail 'export --adapter'
[ "$(jq -c '[.peft_type, .r, .lora_alpha, .target_modules, .modules_to_save]' "$tmp/peft/adapter_config.json")" = '["LORA",4,8,["query","value"],["classifier"]]' ] ||
	fail 'adapter_config.json says something else'
# A folder without weights and the adapter do not make the network: export says so.
mkdir "$tmp/bare"
cp "$tmp/toy/config.json" "$tmp/bare"
"$SPLITC" export "$config" "$tmp/on bare" --adapter --set log.dir="$tmp/local plain" --set model.huggingface="$tmp/bare" >"$tmp/export.log" 2>&1 || fail 'export --adapter'
grep -q "^WARN adapter-base: 53 of the network's tensors, roberta.embeddings.word_embeddings.weight first, are neither in the adapter nor with these values in $tmp/bare: " "$tmp/export.log" ||
	fail "export --adapter without a base: $(cat "$tmp/export.log")"
grep -aq 'base_model.model.roberta.encoder.layer.2.attention.self.value.lora_B.weight' "$tmp/peft/adapter_model.safetensors" || fail 'no such tensor'
client adapted "$config" --local --set lora.adapter="$tmp/peft" --set train.optimizer.lr=1e-12 || fail "adapted: exit status $?"
"$SPLITC" predict "$config" --local --logits --csv --set log.dir="$tmp/adapted" 2>"$tmp/predict.log" >"$tmp/adapted.csv" || fail 'predict adapted'
near unmerged adapted
cp -r "$tmp/toy" "$tmp/both"
cp "$tmp/peft/adapter_config.json" "$tmp/both"
client beside "$config" --local --set model.huggingface="$tmp/both" --set train.max_steps=1 || fail "beside: exit status $?"
grep -q "^WARN adapter-unread: $tmp/both/adapter_config.json is not read; lora.adapter=$tmp/both starts" "$tmp/beside.log" ||
	fail 'adapters beside the weights are passed over without a word'
# With a folder of weights they do, unless the network has tensors that neither of them has.
for name in whole insert; do
	also=(--set log.dir="$tmp/$name" --set model.huggingface="$tmp/base")
	[ $name = whole ] || also+=(--set insert.tail=linear:8)
	client $name "$config" --local "${also[@]}" || fail "$name: exit status $?"
	"$SPLITC" export "$config" "$tmp/peft $name" --adapter "${also[@]}" >"$tmp/export-$name.log" 2>&1 || fail "export --adapter $name"
done
! grep WARN "$tmp/export-whole.log" || fail 'folder and adapter make the whole network'
grep -q "^WARN adapter-base: 2 of the network's tensors, insert.tail.0.weight first, " "$tmp/export-insert.log" || fail "export --adapter of inserts: $(cat "$tmp/export-insert.log")"

refused 78 'lora.target: no linear layer before the output is called "queri"' --set lora.target=queri
refused 78 'r is not 2, which lora.rank is' --set lora.adapter="$tmp/peft" --set lora.rank=2
refused 78 'lora_alpha is not 9, which lora.alpha is' --set lora.adapter="$tmp/peft" --set lora.alpha=9
refused 65 'tensor "roberta.encoder.layer.0.attention.self.key.lora_A.weight" is missing' --set lora.adapter="$tmp/peft" --set lora.target=query,key,value
refused 65 'of its 16 tensors belong to no layer that lora.target names' --set lora.adapter="$tmp/peft" --set lora.target=query
refused 66 'adapter_config.json: ' --set lora.adapter="$tmp/toy"
refused 78 'lora.rank: adapters belong to networks of model.huggingface' --set model.huggingface= --set model.name=token_mlp
rc=0
"$SPLITC" export "$config" "$tmp/none" --adapter --set lora.rank=0 >"$tmp/refused.log" 2>&1 || rc=$?
[ $rc = 64 ] || fail "export --adapter without lora: exit status $rc"
