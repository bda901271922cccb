#!/usr/bin/env bash
# A network that was converted from an ONNX file is byte for byte the same with a server as in one process, cut at several
# places. It starts from the file's weights. Export, eval and predict work; keys that contradict the file are refused. With
# PyTorch: what `splitc export` writes as ONNX is converted again, and ONNX files of all kinds are read or refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 40 20
cp tests/golden/onnx_small.safetensors "$tmp/my_net.safetensors"
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {network: $tmp/my_net.safetensors}
	data: {kind: cifar10, dir: $tmp/data, train_files: [data_batch_1.bin], train_limit: 40, test_limit: 20,
	  transforms: ["Resize((16, 16))"], test_transforms: ["Resize((16, 16))"]}
	train: {batch: 16, chunks: 4, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
	threads: 1
YAML
steps=3
. tests/e2e/lib/compare.sh

two_at_a_time compare 'plain' 'codecs|head_end=stem.0|codec=quant:8|train.chunks=2|insert.tail=linear:20' \
	"many|model.network=$PWD/tests/golden/onnx_many.safetensors|head_end=stem.0|tail_begin=head.2" "other kinds|model.network=$PWD/tests/golden/onnx_wide.safetensors|head_end=excite1|tail_begin=fc"
further two_at_a_time compare 'by units|partition=2:-2' 'by name|head_end=down.1|tail_begin=classifier' 'sgd|train.optimizer.kind=sgd|train.chunks=1' \
	"many 1|model.network=$PWD/tests/golden/onnx_many.safetensors|head_end=patch|tail_begin=head.0|train.chunks=1"

"$SPLITC" graph "$config" --json >"$tmp/graph.json"
[ "$(jq '[.head, .middle, .tail | .nodes[] | select(.parameters > 0) | .name] | length' "$tmp/graph.json")" = 11 ] || fail "graph: $(cat "$tmp/graph.json")"

# Weights: a run with a tiny learning rate exports the file's values, in PyTorch's names and layouts.
client still "$config" --local --set train.optimizer.lr=1e-12 --set train.optimizer.weight_decay=0 || fail "still: exit status $?"
"$SPLITC" export "$config" "$tmp/out.safetensors" --set log.dir="$tmp/still" >"$tmp/export.log" 2>&1 || fail "export: $(cat "$tmp/export.log")"
grep -q '/out.safetensors: my_net.safetensors, 30 tensors, after step 3' "$tmp/export.log" || fail "export: $(cat "$tmp/export.log")"
grep -q WARN "$tmp/export.log" && fail "export: $(cat "$tmp/export.log")"
tensor() { # FILE NAME: its bytes
	local size range
	size=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
	range=$(tail -c +9 "$1" | head -c "$size" | jq -r --arg name "$2" '.[$name].data_offsets | "\(.[0] + 1) \(.[1] - .[0])"')
	tail -c +$((size + 8 + ${range% *})) "$1" | head -c "${range#* }"
}
for name in stem.0.weight block.conv1.weight down.0.weight classifier.2.weight classifier.4.bias; do
	cmp -s <(tensor "$tmp/out.safetensors" $name) <(tensor tests/golden/onnx_small_init.safetensors $name) || fail "$name came back changed"
done

python=${PYTHON:-/usr/bin/python3}
export PYTHONPATH=$PWD/python
convert() { "$python" -W ignore -m split.onnx "$@" >"$tmp/converted" 2>&1 || fail "$1: $(cat "$tmp/converted")"; }
torch=y
"$python" -c 'import torch, onnx' 2>/dev/null || { torch='' && echo 'no PyTorch and onnx here: no ONNX file is read'; }

# The network exported to ONNX and imported again has the same layers, and the same logits to the bit.
# again NAME [key=value…]: NAME's config exports $tmp/NAME.onnx, which stands in for the network
again() {
	local name=$1 set=() pair weights
	shift
	for pair in "$@"; do set+=(--set "$pair"); done
	weights=$tmp/$name/model.safetensors
	"$SPLITC" train "$tmp/again.yaml" --local --fresh --set log.dir="$tmp/$name" "${set[@]}" >"$tmp/$name.log" 2>&1 &&
		"$SPLITC" export "$tmp/again.yaml" "$tmp/$name.onnx" --set log.dir="$tmp/$name" "${set[@]}" >>"$tmp/$name.log" 2>&1 ||
		fail "$name: $(cat "$tmp/$name.log")"
	convert "$tmp/$name.onnx" "$tmp/$name.net"
	"$SPLITC" predict "$tmp/again.yaml" --local --logits --csv --weights "$weights" "${set[@]}" >"$tmp/$name.a" || fail "$name: predict"
	"$SPLITC" predict "$tmp/back.yaml" --local --logits --csv --weights "$weights" --set model.network="$tmp/$name.net" >"$tmp/$name.b" || fail "$name: predict again"
	cmp -s "$tmp/$name.a" "$tmp/$name.b" && [ "$(wc -l <"$tmp/$name.a")" = 21 ] || fail "$name: other logits"
}
sed 's/epochs: 1/epochs: 1, max_steps: 1/' "$config" >"$tmp/back.yaml"
sed 's/model: .*/model: {classes: 10, image: 16}/; s/Resize((16, 16))/Resize((32, 32))/g; s/image: 16/image: 32/' "$tmp/back.yaml" >"$tmp/again.yaml"
sed -i 's/Resize((16, 16))/Resize((32, 32))/g' "$tmp/back.yaml"
[ -z "$torch" ] || two_at_a_time again 'mobilenet_v2|model.name=mobilenet_v2|model.width=0.1' 'resnet18|model.name=resnet18|model.width=0.1|model.form=cifar'
[ -z "$torch" ] || further two_at_a_time again 'mobilenet_v2_relu|model.name=mobilenet_v2_relu|model.width=0.1' \
	'resnet9|model.name=resnet9|model.width=0.1' 'alexnet1|model.name=alexnet1|model.width=0.1' \
	'vgg16|model.name=vgg16|model.width=0.1'

# Rows of a table: the network is exported and imported again, and learns with a server as without one.
mkdir "$tmp/table"
for part in train test; do
	awk 'BEGIN { print "a,b,c,label"; for (i = 0; i < 40; i++) printf "%d,%d,%d,%d\n", i * 7 % 11, i * 5 % 13, i % 4, i % 3 }' >"$tmp/table/$part.csv"
done
cat >"$tmp/rows.yaml" <<-YAML
	model: {name: mlp, classes: 3, features: 3, width: 0.2}
	data: {kind: csv, dir: $tmp/table}
	train: {batch: 10, chunks: 2, epochs: 1, seed: 3}
YAML
sed "s|model: .*|model: {network: $tmp/rows.net}|" "$tmp/rows.yaml" >"$tmp/rows2.yaml"
client rows "$tmp/rows.yaml" --local && "$SPLITC" export "$tmp/rows.yaml" "$tmp/rows.onnx" --set log.dir="$tmp/rows" >"$tmp/out" 2>&1 || fail "rows: $(cat "$tmp/out")"
if [ -n "$torch" ]; then convert "$tmp/rows.onnx" "$tmp/rows.net"; else "$SPLITC" export "$tmp/rows.yaml" "$tmp/rows.safetensors" --set log.dir="$tmp/rows" >"$tmp/out"; mv "$tmp/rows.safetensors" "$tmp/rows.net"; fi
client rows2 "$tmp/rows2.yaml" --local && client rows3 "$tmp/rows2.yaml" --set server="$two" || fail "rows: $(tail -n 1 "$tmp"/rows[23].log)"
same_run rows3 rows2 4
for name in rows rows2; do
	"$SPLITC" predict "$tmp/$name.yaml" --local --logits --csv --weights "$tmp/rows/model.safetensors" >"$tmp/$name.csv" || fail "$name: predict"
done
# One flipped bit of the model is named by all that read it.
cp "$tmp/rows/model.safetensors" "$tmp/kept"
printf '\x41' | dd of="$tmp/rows/model.safetensors" bs=1 seek=$(($(stat -c %s "$tmp/kept") - 3)) conv=notrunc status=none
for line in "eval rows.yaml --local --set log.dir=rows" "predict rows.yaml --local --csv --set log.dir=rows" "export rows.yaml damaged.safetensors --set log.dir=rows" \
	"train rows.yaml --local --set model.weights=$tmp/rows/model.safetensors --set log.dir=again"; do
	(cd "$tmp" && "$SPLITC" $line) >"$tmp/out" 2>&1 &&
		grep -q 'WARN weights-changed: .*rows/model.safetensors has changed since splitc wrote it' "$tmp/out" || fail "${command%% *}: $(cat "$tmp/out")"
done
cp "$tmp/kept" "$tmp/rows/model.safetensors"
"$SPLITC" init "$tmp/asked.yaml" --model network:"$tmp/rows.net" --data csv:"$tmp/table" >/dev/null && "$SPLITC" train "$tmp/asked.yaml" --check-config >/dev/null ||
	fail "rows: init"
cmp -s "$tmp/rows.csv" "$tmp/rows2.csv" && [ "$(wc -l <"$tmp/rows.csv")" = 41 ] || fail "rows: other logits, out and in again"

# Texts: token ids and a padding mask, which packed rows do not need.
mkdir "$tmp/texts" "$tmp/words"
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' red green fish boxes water the said un of a >"$tmp/words/vocab.txt"
for part in train dev; do
	awk 'BEGIN { n = split("fish boxes water the said un of a", word, " "); print "text\tlabel"
		for (i = 0; i < 40; i++) {
			text = i % 3 ? "red" : "green"
			for (k = i * i % 9; k > 0; k--) text = text " " word[(i * 31 + k * k) % n + 1]
			print text "\t" (i % 3 > 0)
		} }' >"$tmp/texts/$part.tsv"
done
cat >"$tmp/texts.yaml" <<-YAML
	model: {network: $PWD/tests/golden/onnx_text.safetensors}
	data: {kind: text, dir: $tmp/texts, tokenizer: $tmp/words, columns: [text], label: label}
	train: {batch: 16, chunks: 4, epochs: 4, seed: 3, optimizer: {kind: adamw, lr: 0.02}}
	threads: 1
YAML
client text1 "$tmp/texts.yaml" --local && client text2 "$tmp/texts.yaml" --set server="$two" --set head_end=layers.0.self_attn ||
	fail "texts: $(tail -n 1 "$tmp"/text[12].log)"
same_run text2 text1 12
[ "$(jq 'select(.type == "summary") | .test_acc > 0.95' "$tmp/text1/log.jsonl")" = true ] || fail "texts: $(tail -n 1 "$tmp/text1/log.jsonl")"

# a network that mixes the tokens of a row: rows of one length, over a link and over a kill of the client
whole=(--set model.network="$PWD/tests/golden/onnx_rows.safetensors" --set codec=quant:8 --set train.epochs=10 --set train.optimizer.lr=0.05)
config=$tmp/texts.yaml refused 78 'so all rows need 12: give data.pad: max' "${whole[@]}"
whole+=(--set data.pad=max)
config=$tmp/texts.yaml refused 78 'so all rows need 12: give data.pad: max' "${whole[@]}" --set data.max_length=11
client whole1 "$tmp/texts.yaml" --local "${whole[@]}" || fail "texts of one length: $(tail -n 1 "$tmp/whole1.log")"
killed_client 5 whole1 "$tmp/texts.yaml" --set server="$two" --set train.checkpoint_every=1 "${whole[@]}"
[ "$(jq 'select(.type == "summary") | .test_acc > 0.95' "$tmp/whole1/log.jsonl")" = true ] || fail "texts of one length: $(tail -n 1 "$tmp/whole1/log.jsonl")"
# ... that its middle mixes, for a group: each member's rows are padded alike
. tests/e2e/lib/groups.sh
python3 - >"$tmp/mixes.safetensors" <<'END'
import json, math, struct, sys

text = """graph 1
in tokens i32 T[] most=12
in label i32 R[]
param emb.weight [29,8] zero
param mix.weight [8,8] zero
param turn.weight [12,12] zero
param fc.weight [3,8] zero
node emb embedding %0 &0
node mix linear %2 &1
node turn.rows transpose %3 tokens=12
node turn linear %4 &2
node turn.back transpose %5 most=12
node pick select %6
node fc linear %7 &3
node loss xent %8 %1
out loss %9
"""
at, head = 0, {"__metadata__": {"format": "pt", "split.graph": text, "split.network": '{"layout": {}, "constants": []}'}}
for _, name, shape, _ in (line.split() for line in text.splitlines() if line.startswith("param")):
    end = at + 4 * math.prod(json.loads(shape))
    head[name] = {"dtype": "F32", "shape": json.loads(shape), "data_offsets": [at, end]}
    at = end
head = json.dumps(head).encode()
values = [(i * 37 % 101 - 50) / 150 for i in range(at // 4)]
sys.stdout.buffer.write(struct.pack("<Q", len(head)) + head + struct.pack(f"<{len(values)}f", *values))
END
endpoint=$two group mixes "$tmp/texts.yaml" 2 model.network="$tmp/mixes.safetensors" head_end=emb tail_begin=fc data.pad=max data.partition=iid

# an evaluation of the trained weights, with a server and without one
"$SPLITC" eval "$config" --local --set log.dir="$tmp/local plain" --json >"$tmp/a.json" || fail "eval --local"
"$SPLITC" eval "$config" --set server="$two" --set log.dir="$tmp/local plain" --json >"$tmp/b.json" || fail "eval"
[ "$(jq .loss "$tmp/a.json")" = "$(jq .loss "$tmp/b.json")" ] && [ "$(jq .samples "$tmp/a.json")" = 20 ] || fail "eval: $(cat "$tmp/a.json" "$tmp/b.json")"
"$SPLITC" predict "$config" --local --logits --csv --set log.dir="$tmp/local plain" 2>"$tmp/predict.log" >"$tmp/predict.csv" || fail "predict"
[ "$(wc -l <"$tmp/predict.csv")" = 21 ] || fail "predict: $(cat "$tmp/predict.csv")"

# A printed config contains what the file implies, and can be read again.
"$SPLITC" train "$config" --print-config >"$tmp/printed.yaml" && grep -q 'image: 16' "$tmp/printed.yaml" || fail "--print-config: $(cat "$tmp/printed.yaml")"
"$SPLITC" train "$tmp/printed.yaml" --check-config >"$tmp/out" 2>&1 || fail "--print-config, again: $(cat "$tmp/out")"

# no_onnx: networks that ONNX cannot express are refused.
no_onnx() {
	local status=0 says=$1
	shift
	"$SPLITC" export "$tmp/back.yaml" "$tmp/no.onnx" --weights "$tmp/local codecs/model.safetensors" "$@" >"$tmp/out" 2>&1 || status=$?
	[ "$status" = 78 ] && grep -qF -- "$says" "$tmp/out" && [ ! -e "$tmp/no.onnx" ] || fail "$*: exit status $status, $(cat "$tmp/out")"
}
no_onnx 'has inserts, which is not written as ONNX: name a file that ends with .safetensors' --set insert.tail=linear:20 --set data.transforms='Resize((16, 16))' --set data.test_transforms='Resize((16, 16))'
refused 78 'model.classes: my_net.safetensors has 10 outputs, not 7; leave this key out' --set model.classes=7
refused 78 'model.image: my_net.safetensors takes images of 16x16, not 32x32' --set model.image=32
config=$tmp/rows2.yaml refused 78 'its input is images, and data.kind csv has rows of numbers' --set model.network="$tmp/my_net.safetensors"
refused 78 'model.width: network has none' --set model.width=0.5
refused 78 'onnx_text.safetensors: its input is token ids: give data.kind: text, and data.tokenizer' --set model.network="$PWD/tests/golden/onnx_text.safetensors"
refused 78 'model.network: stands instead of model.name' --set model.name=resnet18
refused 78 'my_net.safetensors has no "nosuch"; units are stem … classifier.4' --set head_end=nosuch
refused 78 'model.onnx: convert the file once, by `python3 -m split.onnx my_net.onnx net.safetensors` (docs/howto-onnx.md)' --set model.onnx=my_net.onnx
if [ -n "$torch" ]; then
	rc=0
	"$python" -m split.onnx "$config" "$tmp/bad.net" >"$tmp/out" 2>&1 || rc=$?
	[ $rc = 65 ] && grep -q 'client.yaml: it is no ONNX file, or a truncated one' "$tmp/out" || fail "a config as an ONNX file: $rc: $(cat "$tmp/out")"
	SPLITC=$SPLITC "$python" -W ignore tests/e2e/script/onnx_files.py "$(mktemp -d "$tmp/files.XXXX")" >"$tmp/out" 2>&1 || fail "ONNX files: $(tail -n 5 "$tmp/out")"
fi
