#!/usr/bin/env bash
# Noise on what the client sends: a run over the link has the bits of one in one process, also if killed and resumed,
# audited, and with codecs. Another key, or none, gives another run. A missing key, or one that others can read, is
# refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/toy"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
	 "num_attention_heads": 4, "max_position_embeddings": 26, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
	 "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0, "hidden_act": "gelu", "initializer_range": 0.1,
	 "pad_token_id": 1}
JSON
for key in key other open; do "$SPLITC" keygen --out "$tmp/$key" >/dev/null 2>&1; done
chmod 644 "$tmp/open"
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/toy, classes: 2, tokens: 24}
	head_end: encoder.layer.0
	tail_begin: encoder.layer.2
	data: {kind: made_tokens, dir: ., train_limit: 48, test_limit: 24}
	train: {batch: 16, chunks: 4, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
	noise: {head_act: 0.5, mid_grad: 1, key: $tmp/key}
	threads: 1
YAML
steps=3
. tests/e2e/lib/compare.sh
compare plain
compare codecs codec=quant:8,ef=true
compare padded data.pad=max
first_loss() { jq 'select(.type == "step" and .step == 1).loss' "$tmp/local $1/log.jsonl"; }
[ "$(first_loss padded)" = "$(first_loss plain)" ] || fail "padding changes the noise: $(first_loss padded), $(first_loss plain)"
compare audited train.audit.every=1
compare 'behind the first token' tail_begin=classifier
make_data 48 24
write_config "$tmp/pictures.yaml"
sed -i "/^server/d; s/form: imagenet/form: cifar/; \$a noise: {head_act: 0.5, mid_grad: 1, key: $tmp/key}" "$tmp/pictures.yaml"
tokens=$config config=$tmp/pictures.yaml
steps=$("$SPLITC" train "$config" --local --check-config 2>&1 | sed -n 's/.* \([0-9]*\) steps.*/\1/p')
compare pictures
config=$tokens steps=3
same_run 'local plain' 'local audited' 3
differs() { # NAME OPTION…
	client "local $1" "$config" --local "${@:2}" || fail "$1: exit status $?"
	! cmp -s "$tmp/local $1/model.safetensors" "$tmp/local plain/model.safetensors" || fail "$1: the same run"
}
differs 'other key' --set noise.key="$tmp/other"
differs 'no noise' --set noise.head_act=0 --set noise.mid_grad=0 --set noise.key=
differs 'gradients alone' --set noise.head_act=0

set=(--set server="$two" --set train.checkpoint_every=1)
killed_client 2 'local plain' "$config" "${set[@]}"

refused 78 'noise.key: noise needs a key file' --set noise.key=
refused 78 'noise needs a key file' --set noise.head_act=0 --set noise.mid_grad=0
refused 66 'noise.key' --set noise.key="$tmp/none"
refused 78 'noise.key' --set noise.key="$tmp/open"
echo 'noise is the same over the link, behind codecs, padded, audited, and after a kill'
