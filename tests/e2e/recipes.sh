#!/usr/bin/env bash
# Every config that comes with the programs passes --check-config and trains: two steps of a narrow network on a few
# made images. That of a network of Python's trains if PyTorch is installed.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 16 8
for i in 2 3 4 5; do ln -s data_batch_1.bin "$tmp/data/data_batch_$i.bin"; done
for name in train test; do # CIFAR-100: two labels, then the image
	for label in 07 21 63 00 12 44 55 70; do
		printf '\001'
		printf '%b' "\\0$label"
		head -c 3072 /dev/zero | tr '\0' "${label:1}"
	done >"$tmp/data/$name.bin"
done

# for texts: a toy encoder, a toy decoder, a tokenizer, two tasks
mkdir "$tmp/toy" "$tmp/toy-decoder" "$tmp/data/CoLA" "$tmp/data/RTE"
"$TOOLS/make_text" "$tmp/toy"
echo '{"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "vocab_size": 700, "hidden_size": 16, "intermediate_size": 24,
	"num_hidden_layers": 3, "num_attention_heads": 2, "max_position_embeddings": 130, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
	"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "initializer_range": 0.02, "pad_token_id": 1}' >"$tmp/toy/config.json"
jq '.vocab_size = 700' configs/decoder-small/config.json >"$tmp/toy-decoder/config.json"
for split in train dev; do
	for i in 1 2 3 4 5 6 7 8; do printf 'made\t%d\t\tthe boxes of %d\n' $((i % 2)) "$i"; done >"$tmp/data/CoLA/$split.tsv"
	printf 'index\tsentence1\tsentence2\tlabel\n' >"$tmp/data/RTE/$split.tsv"
	for i in 1 2 3 4 5 6 7 8; do printf '%d\tthe fish\twater %d\t%s\n' "$i" "$i" "$([ $((i % 2)) = 0 ] && echo entailment || echo not_entailment)"; done >>"$tmp/data/RTE/$split.tsv"
done

# for pictures in folders
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures" 0
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/data/train" 16
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/data/val" 8

# train_phases: a config with phases, made smaller
train_phases() {
	"$SPLITC" train "$config" "${there[@]}" --local --set model.width=0.1 --set train.batch=4 --set train.chunks=2 --set data.train_limit=8 \
		--set data.test_limit=4 --set 'train.phases=epochs=1 image=32,epochs=1 image=64 batch=2 lr=0.5' >"$tmp/$name.log" 2>&1 ||
		fail "$config: exit status $?"
	jq -se '[.[] | select(.type == "step")] | length == 6 and all(.loss > 0)' "$tmp/$name/log.jsonl" >/dev/null || fail "$config: no six steps"
}

# two_steps: $config trains them
two_steps() {
	"$SPLITC" train "$config" "${there[@]}" "${few[@]}" "$@" >"$tmp/$name.log" 2>&1 || fail "$config: exit status $?: $(cat "$tmp/$name.log")"
	jq -se '[.[] | select(.type == "step")] | length == 2 and all(.loss > 0)' "$tmp/$name/log.jsonl" >/dev/null || fail "$config: no two steps"
}

few=(--local --fresh --set train.batch=4 --set train.chunks=2 --set train.max_steps=2 --set data.train_limit=8 --set data.test_limit=4)
for config in configs/client-*.yaml; do
	name=$(basename "$config" .yaml)
	grep -q "^# " "$config" || fail "$config does not say what it is for"
	there=(--set data.dir="$tmp/data" --set log.dir="$tmp/$name")
	text=$(grep -c huggingface: "$config" || true)
	if [ "$text" = 0 ]; then
		there+=(--set model.weights= --set model.partial=false)
	else
		toy=toy
		! grep -q 'head: causal_lm' "$config" || toy=toy-decoder
		there+=(--set model.huggingface="$tmp/$toy" --set data.tokenizer="$tmp/toy")
	fi
	"$SPLITC" train "$config" "${there[@]}" --check-config >"$tmp/$name.log" 2>&1 && grep -q 'ok, ' "$tmp/$name.log" ||
		fail "$config: --check-config: $(cat "$tmp/$name.log")"
	if grep -q phases: "$config"; then
		train_phases
		continue
	fi
	more=()
	[ "$text" != 0 ] || more+=(--set model.width=0.1)
	grep -q 'kind: points' "$config" || more+=(--set train.schedule.warmup_epochs=0)
	two_steps "${more[@]}"
done

/usr/bin/python3 -c 'import torch' 2>/dev/null || exit 0
[ -f "$BUILD/libsplit.so.0" ] || fail 'libsplit is not built: make lib'
name=moderate-cnn config=configs/moderate-cnn/client.yaml
SPLIT_LIBRARY=$PWD/$BUILD/libsplit.so.0 PYTHONPATH=python /usr/bin/python3 configs/moderate-cnn/moderate_cnn.py "$tmp/$name.safetensors"
there=(--set data.dir="$tmp/data" --set log.dir="$tmp/$name" --set model.network="$tmp/$name.safetensors")
two_steps
