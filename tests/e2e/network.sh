#!/usr/bin/env bash
# A network and its weights in one file. What `splitc export` writes of built-in networks, files of networks and Hugging Face
# folders is read by model.network, without other keys of the model: it predicts the same, and learns the same bits with a
# server as the network that it was. With PyTorch, split.write_network's file learns as the ONNX file of the same module,
# and as the middle of a script the bits of that module.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
root=$PWD
make_data 40 20
start_server one
mkdir "$tmp/words"
"$TOOLS/make_text" "$tmp/words"
for part in train dev; do
	awk 'BEGIN { n = split("green red the a boxes of un fish", word, " "); print "text\tlabel"
		for (i = 0; i < 40; i++) {
			text = i % 3 ? "red" : "green"
			for (k = i * i % 9; k > 0; k--) text = text " " word[(i * 31 + k * k) % n + 1]
			print text "\t" (i % 3 > 0)
		} }' >"$tmp/words/$part.tsv"
	awk 'BEGIN { print "a,b,c,label"; for (i = 0; i < 40; i++) printf "%d,%d,%d,%d\n", i * 7 % 11, i * 5 % 13, i % 4, i % 3 }' >"$tmp/words/$part.csv"
done
mv "$tmp/words/dev.csv" "$tmp/words/test.csv"
train='train: {batch: 16, chunks: 2, epochs: 1, max_steps: 2, seed: 3, optimizer: {kind: adamw, lr: 0.01}}'
pictures="data: {kind: cifar10, dir: $tmp/data, train_files: [data_batch_1.bin], train_limit: 40, test_limit: 20"
texts="data: {kind: text, dir: $tmp/words, tokenizer: $tmp/words, columns: [text], label: label"
row="data: {kind: csv, dir: $tmp/words}"
small='transforms: ["Resize((16, 16))"], test_transforms: ["Resize((16, 16))"]'

# outputs CONFIG OUT [argument]…: what the network gives for the test set
outputs() {
	"$SPLITC" predict "$1" --local --logits --csv "${@:3}" >"$2" 2>"$tmp/predict.log" && [ "$(wc -l <"$2")" -gt 20 ] ||
		fail "predict $1: $(cat "$tmp/predict.log")"
}
# again NAME MODEL DATA [key=value]…: a run with MODEL writes a file; runs go on from it as from that run's weights.
again() {
	local name=$1 model=$2 data=$3 set=() pair to=local
	shift 3
	for pair in "$@"; do set+=(--set "$pair"); done
	printf '%s\n' "model: $model" "$data" "$train" >"$tmp/$name.yaml"
	printf '%s\n' "model: {network: $tmp/$name.safetensors}" "$data" "$train" >"$tmp/$name.file.yaml"
	client "$name" "$tmp/$name.yaml" --local "${set[@]}" || fail "$name: $(tail -n 1 "$tmp/$name.log")"
	"$SPLITC" export "$tmp/$name.yaml" "$tmp/$name.safetensors" --set log.dir="$tmp/$name" "${set[@]}" >"$tmp/$name.export" 2>&1 ||
		fail "$name: $(cat "$tmp/$name.export")"
	client "$name as it was" "$tmp/$name.yaml" --local --set model.weights="$tmp/$name/model.safetensors" "${set[@]}" &&
		client "$name with a server" "$tmp/$name.file.yaml" --set server="$endpoint" "${set[@]}" || fail "$name: $(tail -n 2 "$tmp/$name "*.log)"
	same_run "$name with a server" "$name as it was" 2
	[ "$name" != decoder ] || return 0
	outputs "$tmp/$name.yaml" "$tmp/$name.a" --set log.dir="$tmp/$name"
	outputs "$tmp/$name.file.yaml" "$tmp/$name.b" --set log.dir=
	cmp -s "$tmp/$name.a" "$tmp/$name.b" || fail "$name: other logits"
}
for name in encoder decoder; do
	mkdir "$tmp/$name.hf"
done
vocab=$(jq length "$tmp/words/vocab.json")
jq -n --argjson v "$vocab" '{model_type: "roberta", vocab_size: $v, num_hidden_layers: 3, hidden_size: 8, intermediate_size: 8, num_attention_heads: 2,
	max_position_embeddings: 130, type_vocab_size: 1}' >"$tmp/encoder.hf/config.json"
jq -n --argjson v "$vocab" '{model_type: "llama", vocab_size: $v, num_hidden_layers: 3, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4,
	num_key_value_heads: 2, max_position_embeddings: 40, initializer_range: 0.1, eos_token_id: 2}' >"$tmp/decoder.hf/config.json"
while IFS='|' read -r words; do
	IFS='|' read -ra word <<<"$words"
	again "${word[@]}"
done <<-NETWORKS
	mobilenet|{name: mobilenet_v2, width: 0.1, classes: 10, image: 32}|$pictures}
	onnx|{network: $root/tests/golden/onnx_many.safetensors}|$pictures, $small}|head_end=stem.0|tail_begin=head.2
	mlp|{name: mlp, classes: 3, features: 3, width: 0.2}|$row
	encoder|{huggingface: $tmp/encoder.hf, tokens: 20, classes: 2}|$texts}|partition=2:-1
	decoder|{huggingface: $tmp/decoder.hf, tokens: 20, head: causal_lm}|data: {kind: text, dir: $tmp/words, tokenizer: $tmp/words, columns: [text]}|partition=2:-3
NETWORKS
cd "$tmp"
for config in decoder decoder.file; do
	"$SPLITC" generate "$config.yaml" --local --prompt 'the red' --ids --weights decoder.safetensors --set partition=2:-3 >"$config.text" 2>"$config.log" || fail "generate $config: $(cat "$config.log")"
done
cmp -s decoder.text decoder.file.text && [ -s decoder.text ] || fail "generate: $(cat decoder.text decoder.file.text)"
"$SPLITC" eval mlp.file.yaml --local --set log.dir= >eval.log 2>&1 || fail "eval: $(cat eval.log)"
mkdir table
cp words/train.csv words/test.csv table
"$SPLITC" init asked.yaml --model mlp.safetensors --data csv:table >asked.log 2>&1 && "$SPLITC" train asked.yaml --check-config >>asked.log 2>&1 &&
	grep -q '^  network: "\?mlp.safetensors' asked.yaml || fail "init: $(cat asked.log)"

# ---- what does not fit
refused() { # STATUS SENTENCE CONFIG [argument]…
	local rc=0
	"$SPLITC" train "$3" --check-config "${@:4}" >refused.log 2>&1 || rc=$?
	[ $rc = "$1" ] && grep -qF -- "$2" refused.log || fail "${*:3}: exit status $rc: $(cat refused.log)"
}
refused 66 'model.network: none.safetensors' mlp.file.yaml --set model.network=none.safetensors
refused 65 'model.safetensors: it has weights and no network' mlp.file.yaml --set model.network=mlp/model.safetensors
refused 78 'its input is images, and data.kind csv has rows of numbers' mlp.file.yaml --set model.network=mobilenet.safetensors
refused 78 'model.classes: mlp.safetensors has 3 outputs, not 7; leave this key out' mlp.file.yaml --set model.classes=7
refused 78 'model.network: stands instead of model.name: give one of them' mlp.file.yaml --set model.name=mlp
refused 78 'model.onnx: convert the file once, by `python3 -m split.onnx x.onnx net.safetensors`' mlp.file.yaml --set model.onnx=x.onnx
sed 's/ linear %/ linoar %/' mlp.safetensors >bad.safetensors
refused 65 "bad.safetensors: its graph: " mlp.file.yaml --set model.network=bad.safetensors

# ---- from Python
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, torchvision, onnx' 2>/dev/null || { echo "no PyTorch, torchvision and onnx here: files of splitc alone were tried"; exit 77; }
export SPLIT_LIBRARY=$root/$BUILD/libsplit.so.0 PYTHONPATH=$root/python OMP_NUM_THREADS=1
"$python" -W ignore "$root/tests/e2e/script/networks.py" "$tmp" "$endpoint" >python.log 2>&1 || fail "write_network: $(tail -n 5 python.log)"
# twice NAME DATA [key=value]…: NAME.safetensors learns with a server what the converted NAME.onnx learns in one process
twice() {
	local name=$1 data=$2 set=() pair
	shift 2
	for pair in "$@"; do set+=(--set "$pair"); done
	printf '%s\n' "$data" "$train" >"$name.yaml"
	client "$name by ONNX" "$name.yaml" --local --set model.network="$name.onnx.safetensors" "${set[@]}" &&
		client "$name by network" "$name.yaml" --set server="$endpoint" --set model.network="$name.safetensors" "${set[@]}" || fail "$name: $(tail -n 2 "$name by "*.log)"
	same_losses "$name by network" "$name by ONNX"
}
same_losses() { # but for rounding
	paste <(jq 'select(.type == "step") | .loss' "$1/log.jsonl") <(jq 'select(.type == "step") | .loss' "$2/log.jsonl") >losses
	awk '{ d = $1 / $2 - 1; bad += !(d < 1e-6 && d > -1e-6) } END { exit bad || NR != 2 }' losses || fail "$1: $(cat losses)"
}
twice resnet "$pictures}" partition=2:-1
twice text "$texts}" model.tokens=12
twice order "$texts, pad: max}"
twice table "$row"

# DeepFM of a table whose three columns of texts are features of 0 and 1: its towers meet late, so its cut is named.
PYTHONPATH=$PYTHONPATH:$root/tests/e2e/script "$python" -W ignore - >python.log 2>&1 <<-'PYTHON' || fail "DeepFM: $(tail -n 5 python.log)"
	import sys
	sys.argv.append("")
	import split, torch
	from papers_tables import DeepFMOfOnes
	split.write_network(DeepFMOfOnes(), torch.zeros(1, 18), "deepfm.safetensors")
PYTHON
mkdir bought
awk 'BEGIN { print "user,item,place,a,b,c,label"; for (i = 0; i < 60; i++) printf "u%d,i%d,p%d,%d,%d,%d,%s\n", i % 5, int(i / 3) % 5, int(i / 7) % 5, i % 11,
	i * 7 % 13, i * i % 17, (i % 5 + int(i / 3)) % 2 ? "no" : "yes" }' | tee bought/train.csv >bought/test.csv
printf '%s\n' 'model: {network: deepfm.safetensors}' 'data: {kind: csv, dir: bought}' "$train" >deepfm.yaml
refused 78 'head_end behind all layers that read the input, and tail_begin' deepfm.yaml --local
cut=(--set head_end=cat --set tail_begin=mlp.2)
client deepfm-local deepfm.yaml --local "${cut[@]}" && client deepfm deepfm.yaml --set server="$endpoint" "${cut[@]}" || fail "DeepFM: $(tail -n 2 deepfm*.log)"
same_run deepfm deepfm-local 2

# A transposed convolution of signals has a kernel of one dimension in ONNX, as others have.
"$python" -W ignore - >python.log 2>&1 <<-'PYTHON' || fail "signals: $(tail -n 5 python.log)"
	import split, torch
	from torch import nn
	split.write_network(nn.Sequential(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.ConvTranspose1d(4, 4, 2, stride=2), nn.ReLU(), nn.Conv1d(4, 4, 3), nn.Flatten(), nn.Linear(8, 2)),
	                    torch.zeros(1, 2, 4), "longer.safetensors")
PYTHON
mkdir signals
awk 'BEGIN { print "a,b,c,d,e,f,g,h,label"; for (i = 0; i < 20; i++) printf "%d,%d,%d,%d,%d,%d,%d,%d,%d\n", i % 3, i % 5, i % 7, i % 2, i * 3 % 5, i % 4, i % 6, i % 8, i % 2 }' |
	tee signals/train.csv >signals/test.csv
printf '%s\n' 'model: {network: longer.safetensors}' 'data: {kind: csv, dir: signals}' "$train" >longer.yaml
client longer longer.yaml --local && "$SPLITC" export longer.yaml longer.onnx --set log.dir=longer >export.log 2>&1 || fail "signals: $(tail -n 2 longer.log export.log)"
"$python" - >python.log 2>&1 <<-'PYTHON' || fail "signals: $(tail -n 5 python.log)"
	import onnx
	graph = onnx.load("longer.onnx").graph
	dims = {t.name: len(t.dims) for t in graph.initializer}
	windows = [(n.op_type, dims[n.input[1]] - len(a.ints)) for n in graph.node for a in n.attribute if a.name == "kernel_shape"]
	assert windows == [("Conv", 2), ("ConvTranspose", 2), ("Conv", 2)], windows
PYTHON

# Two inputs: the loss of a network that has hardly learned is PyTorch's.
i=0
for input in width depth; do
	printf '%s\n' 'model: {network: towers.safetensors}' 'head_end: a' 'tail_begin: d' 'cut_values: 2' "data: {kind: csv, dir: $input, label: kind}" \
		"share: {mode: vertical, group: g, clients: 2, member: $i, role: $([ $i = 0 ] && echo features || echo labels), inputs: [$input]}" \
		'train: {epochs: 1, max_steps: 1, batch: 40, optimizer: {kind: sgd, lr: 1.0e-9}}' 'server: tcp://127.0.0.1:9' >"$input.yaml"
	i=$((i + 1))
done
client towers width.yaml --local --party depth.yaml || fail "two inputs: $(tail -n 2 towers.log)"
paste towers.loss <(jq 'select(.type == "epoch") | .test_loss' towers/log.jsonl) | awk '{ d = $1 / $2 - 1; exit !(NF == 2 && d < 1e-5 && d > -1e-5) }' ||
	fail "two inputs: $(cat towers.loss), $(tail -n 2 towers/log.jsonl)"
