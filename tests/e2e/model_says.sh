#!/usr/bin/env bash
# A model's file says of its data: classes, tokenizer, columns, scale, codec, run. Whatever reads the model compares that
# with the data and config at hand: a further run, eval, predict, leak, export. What would be mistaken is said, and the
# same data bring no word. A file that lost what it said has its scale measured.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
run() { # NAME COMMAND CONFIG [argument]…: into $tmp/NAME.log; the exit status must be $status, 0 by default
	local rc=0
	timeout -k 5 $patience "$SPLITC" "$2" "$tmp/$3.yaml" --set control="$tmp/run.sock" "${@:4}" >"$tmp/$1.log" 2>&1 || rc=$?
	[ $rc = "${status:-0}" ] || fail "$1: exit status $rc: $(cat "$tmp/$1.log")"
}
says() { grep -qE -- "$2" "$tmp/$1.log" || fail "$1 does not say '$2': $(grep WARN "$tmp/$1.log")"; }
silent() { ! grep -E 'WARN (other-|codec-)' "$tmp/$1.log" || fail "$1: a word of nothing"; }
# strip FROM TO: the tensors without what the file says of them
strip() {
	python3 - "$1" "$2" <<-'PY'
		import json, struct, sys
		data = open(sys.argv[1], "rb").read()
		end = 8 + struct.unpack("<Q", data[:8])[0]
		header = json.loads(data[8:end])
		header.pop("__metadata__")
		said = json.dumps(header).encode()
		open(sys.argv[2], "wb").write(struct.pack("<Q", len(said)) + said + data[end:])
	PY
}
further=(--local --set train.max_steps=1)

# Texts: classes in another order, another tokenizer.
mkdir "$tmp/made" "$tmp/own" "$tmp/turned" "$tmp/other"
"$TOOLS/make_text" "$tmp/made"
for i in $(seq 60); do echo "{\"text\": \"$([ $((i % 2)) = 0 ] && echo red boxes || echo green fish) $((i * 7 % 90))\", \"label\": \"$([ $((i % 2)) = 0 ] && echo bad || echo good)\"}"; done |
	tee "$tmp/own/train.jsonl" >"$tmp/own/dev.jsonl"
for part in train dev; do sed 's/"bad"/"worse"/' "$tmp/own/$part.jsonl" >"$tmp/turned/$part.jsonl"; done
cp -r "$tmp/made/." "$tmp/other"
sed -i '$d' "$tmp/other/merges.txt"
cat >"$tmp/texts.yaml" <<-YAML
	model: {name: token_mlp, classes: 2, vocab: 700, tokens: 40, width: 0.25}
	head_end: embedding
	tail_begin: dense
	data: {kind: text, dir: $tmp/own, tokenizer: $tmp/made}
	train: {batch: 8, chunks: 1, epochs: 2, seed: 3, optimizer: {kind: adam, lr: 0.01}}
	threads: 1
	log: {dir: $tmp/texts}
YAML
run texts train texts --local
from=(--set log.dir="$tmp/x" --fresh --set model.weights="$tmp/texts/model.safetensors")
run same train texts "${further[@]}" "${from[@]}"
silent same
run turned train texts "${further[@]}" "${from[@]}" --set data.dir="$tmp/turned"
says turned '^WARN other-data: class 0 of the data is good, and model.weights learned bad as that'
run words train texts "${further[@]}" "${from[@]}" --set data.tokenizer="$tmp/other"
says words '^WARN other-data: model.weights was trained with tokenizer'
leak=(--steps 2 --out "$tmp/leak")
run leak leak texts "${leak[@]}"
silent leak
run leak-other leak texts "${leak[@]}" --set data.tokenizer="$tmp/other"
says leak-other '^WARN other-data: the model was trained with tokenizer'
status=78 run leak-turned leak texts "${leak[@]}" --set data.dir="$tmp/turned"
says leak-turned 'class 0 of the data is good, and was bad when the model was trained'

# An adapter says it, too, and so does a folder with exported weights.
mkdir "$tmp/toy"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 700, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
	 "num_attention_heads": 4, "max_position_embeddings": 42, "type_vocab_size": 1, "layer_norm_eps": 1e-05}
JSON
sed -e "s#^model:.*#model: {huggingface: $tmp/toy, classes: 2, tokens: 40}\npartition: \"1:-1\"\nlora: {rank: 2, alpha: 4}#; /^head_end/d; /^tail_begin/d" \
	-e "s#{dir: $tmp/texts}#{dir: $tmp/lora}#" "$tmp/texts.yaml" >"$tmp/lora.yaml"
base_for "$tmp/lora.yaml" "$tmp/toy"
run lora train lora "${further[@]}"
silent lora
run folder train lora "${further[@]}" --fresh --set log.dir="$tmp/x" --set data.dir="$tmp/turned"
says folder '^WARN other-data: class 0 of the data is good, and model.huggingface learned bad as that'
run adapter export lora "$tmp/adapter" --adapter
mkdir "$tmp/plain"
cp "$tmp/toy/config.json" "$tmp/plain"
strip "$tmp/toy/model.safetensors" "$tmp/plain/model.safetensors"
run adapter train lora "${further[@]}" --fresh --set log.dir="$tmp/x" --set model.huggingface="$tmp/plain" --set lora.adapter="$tmp/adapter"
silent adapter
run adapter train lora "${further[@]}" --fresh --set log.dir="$tmp/x" --set model.huggingface="$tmp/plain" --set lora.adapter="$tmp/adapter" --set data.dir="$tmp/turned"
says adapter '^WARN other-data: class 0 of the data is good, and lora.adapter learned bad as that'

# A table of numbers: its scale, its codec, other columns by model.network.
table() { # FOLDER SHIFT ORDER: columns a and b, kind and y
	mkdir -p "$tmp/$1"
	awk -v shift="$2" -v a="$3" 'BEGIN {
		print (a ? "b,a" : "a,b") ",kind,y"
		for (i = 0; i < 120; i++) {
			x = i * 37 % 101; z = i * 53 % 89
			print (a ? z "," x + shift : x + shift "," z) "," (x > 50 ? "large" : "small") "," 200 + 3 * x
		}
	}' >"$tmp/$1/all.csv"
	sed -n '1p; 2,91p' "$tmp/$1/all.csv" >"$tmp/$1/train.csv"
	sed -n '1p; 92,$p' "$tmp/$1/all.csv" >"$tmp/$1/val.csv"
}
table rows 0 ''
table moved 60 ''
table swapped 0 1
cat >"$tmp/numbers.yaml" <<-YAML
	model: {name: mlp, features: 2, classes: 1, task: numbers}
	data: {kind: csv, dir: $tmp/rows, label: y, scale_label: true, ignore: [kind]}
	train: {batch: 15, epochs: 4, seed: 3, optimizer: {kind: adam, lr: 0.02}}
	threads: 1
	log: {dir: $tmp/numbers}
YAML
run numbers train numbers --local --set codec=topk:0.5
strip "$tmp/numbers/model.safetensors" "$tmp/bare.safetensors"
predicted() { grep -E '^ +[0-9]+ ' "$tmp/$1.log"; }
run own predict numbers --local --set codec=topk:0.5 "$tmp/rows/val.csv"
silent own
run bare predict numbers --local --set codec=topk:0.5 "$tmp/rows/val.csv" --weights "$tmp/bare.safetensors"
diff <(predicted own) <(predicted bare) >"$tmp/differ" && [ -n "$(predicted own)" ] || fail "numbers of a file that lost its scale: $(head -n 4 "$tmp/differ")"
says bare '^WARN columns-measured: .*/bare.safetensors does not say which columns, means and deviations it learned'
run bare predict numbers --local --set codec=topk:0.5 "$tmp/rows/val.csv" --weights "$tmp/bare.safetensors" --set data.like="$tmp/numbers/about.json"
! grep columns-measured "$tmp/bare.log" || fail 'data.like says the columns'
run bare train numbers "${further[@]}" --set log.dir="$tmp/x" --fresh --set model.weights="$tmp/bare.safetensors"
says bare '^WARN columns-measured'
run bare export numbers "$tmp/bare.onnx" --weights "$tmp/bare.safetensors"
says bare '^WARN scaled-outputs'
# What holds NaN is not handed on: predict and train end with 65, and export does.
python3 - "$tmp/bare.safetensors" "$tmp/nan.safetensors" <<-'PY'
	import struct, sys
	data = bytearray(open(sys.argv[1], "rb").read())
	data[-4:] = struct.pack("<f", float("nan"))
	open(sys.argv[2], "wb").write(data)
PY
for out in nan.onnx nan-out.safetensors; do
	status=65 run nan export numbers "$tmp/$out" --weights "$tmp/nan.safetensors"
	says nan '^splitc: "[a-z0-9.]+" of these weights holds NaN or Inf'
	[ ! -e "$tmp/$out" ] || fail "export: $out has NaN"
done
# A run's own model is no place for another one.
cp "$tmp/texts/model.safetensors" "$tmp/kept.safetensors"
status=73 run over export numbers "$tmp/texts/model.safetensors"
says over "^splitc: export: .*/texts/model.safetensors is a run's own: name another file"
cmp "$tmp/texts/model.safetensors" "$tmp/kept.safetensors" || fail "another run's model is lost"
mkdir "$tmp/none"
cp "$tmp/rows/val.csv" "$tmp/none"
status=66 run bare eval numbers --local --weights "$tmp/bare.safetensors" --set data.dir="$tmp/none"
run codec eval numbers --local
says codec '^WARN other-data: the model was trained with codec \["topk:0.5","topk:0.5"\], and this config has \["none","none"\]'
run codec export numbers "$tmp/network.safetensors"
says codec '^WARN codec-left-out: the network learned behind the codecs topk:0.5 and topk:0.5'
sed "s#^model:.*#model: {network: $tmp/network.safetensors, task: numbers}#; s#dir: $tmp/numbers#dir: $tmp/y#" "$tmp/numbers.yaml" >"$tmp/network.yaml"
run network train network "${further[@]}"
silent network
run network train network "${further[@]}" --fresh --set data.dir="$tmp/swapped"
says network '^WARN other-columns: model.network was trained with other columns'
sed -i '2,$s/[0-9]*$/1&/' "$tmp/swapped/train.csv"
run network train network "${further[@]}" --fresh --set data.dir="$tmp/swapped"
says network '^WARN other-scale: model.network predicts a number as output'
sed 's/classes: 1, task: numbers/classes: 2/; s/label: y, scale_label: true, ignore: \[kind\]/label: kind, ignore: [y]/; s/numbers/kinds/g' "$tmp/numbers.yaml" >"$tmp/kinds.yaml"
run kinds train kinds --local
from=(--set log.dir="$tmp/x" --fresh --set model.weights="$tmp/kinds/model.safetensors")
run kinds train kinds "${further[@]}" "${from[@]}"
silent kinds
run kinds train kinds "${further[@]}" "${from[@]}" --set data.dir="$tmp/moved"
says kinds '^WARN other-columns: model.weights was trained with other columns, texts, means or deviations than these, .* from column 1 on'

# Samples that have trained: the whole set of data.split, and rows of data.also that moved.
run split train kinds --local --fresh --set data.dir="$tmp/rows/all.csv" --set data.split.train=0.7 --set data.split.test=0.3
cp "$tmp/rows/all.csv" "$tmp/none/val.csv"
cp "$tmp/rows/all.csv" "$tmp/none/train.csv"
run whole eval kinds --local --set data.dir="$tmp/none"
says whole '^WARN same-data: '
make_data 40 20
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/folders" 40
mkdir "$tmp/scans"
(echo id,kind && for f in "$tmp"/folders/*/*; do n=$((${n:-0} + 1)) && cp "$f" "$tmp/scans/s$n.${f##*.}" && echo "s$n,k$((n % 2))"; done) >"$tmp/labels.csv"
cat >"$tmp/also.yaml" <<-YAML
	model: {name: resnet9, classes: 2, width: 0.1, image: 32}
	data: {kind: csv, dir: $tmp/labels.csv, id: id, label: kind, inputs: [], split: {train: 0.6, test: 0.4},
	  also: {kind: images, dir: $tmp/scans, id: stem, inputs: [image], normalize: none, transforms: ["Resize((32,32))"], test_transforms: ["Resize((32,32))"]}}
	train: {batch: 8, chunks: 1, epochs: 1, seed: 3}
	threads: 1
	log: {dir: $tmp/also}
YAML
run also train also --local
run same eval also --local
silent same
# A network of that run keeps its pictures' transforms, for a config that has pictures alone.
run exported export also "$tmp/pictures.safetensors"
printf 'model: {network: %s}\ndata: {kind: images, dir: %s, normalize: imagenet, test_transforms: ["Resize((32,32))"]}\nlog: {dir: ""}\n' "$tmp/pictures.safetensors" "$tmp/folders" >"$tmp/alone.yaml"
run alone predict alone --local "$tmp/scans"
says alone '^WARN other-data: the model was trained with transforms '
sed -i '1a s0,k1' "$tmp/labels.csv"
cp "$tmp"/scans/s1.* "$tmp/scans/s0.$(basename "$tmp"/scans/s1.* | sed 's/.*\.//')"
run rows eval also --local
says rows '^WARN other-rows: '

# Weights that are not those of a run's end: all that reads them says so, by step and steps; also of copies.
timeout -k 5 $patience "$SPLITC" train "$tmp/kinds.yaml" --local --set control="$tmp/run.sock" --set log.dir="$tmp/stopped" --set train.epochs=1000000 --set train.keep_best=true \
	--set train.max_steps=4000000 >"$tmp/stopped.log" 2>&1 &
stopped=$!
wait_for 'a run that is to be stopped' test -s "$tmp/stopped/best.safetensors"
signal TERM $stopped # timeout hands it on
ends_with $stopped 75 $patience 'a run that is stopped'
at='^WARN unfinished: .* has the weights of step [0-9]* of 4000000: they are not those of the run.s end$'
of_stopped=(--local --set log.dir="$tmp/stopped")
"$SPLITC" eval "$tmp/kinds.yaml" "${of_stopped[@]}" --json >"$tmp/out" 2>"$tmp/stopped-eval.log" || fail 'eval of weights of a stopped run'
says stopped-eval "$at"
jq -e '[.warnings[].id] == ["unfinished"]' "$tmp/out" >/dev/null || fail "eval --json: $(cat "$tmp/out")"
"$SPLITC" predict "$tmp/kinds.yaml" "${of_stopped[@]}" --json "$tmp/rows/val.csv" >"$tmp/out" 2>"$tmp/stopped-predict.log" || fail 'predict by weights of a stopped run'
says stopped-predict "$at"
jq -se 'length == 30 and all(.warnings == ["unfinished"])' "$tmp/out" >/dev/null || fail "predict --json: $(cat "$tmp/out")"
echo '{"a": 1, "b": 2}' >"$tmp/line"
run stopped-stream predict kinds "${of_stopped[@]}" --stream <"$tmp/line"
says stopped-stream '"warnings":\["unfinished"\]'
run stopped-export export kinds "$tmp/stopped.safetensors" --set log.dir="$tmp/stopped"
says stopped-export "$at"
run stopped-leak leak kinds --steps 2 --out "$tmp/leak-stopped" --set data.dir="$tmp/none" --weights "$tmp/stopped/model.safetensors"
says stopped-leak "$at"
run stopped-best eval kinds "${of_stopped[@]}" --weights best
says stopped-best '^WARN unfinished: .*/best.safetensors is of a run that has not come to its end: a later evaluation'
for key in model.weights model.network; do
	begin=(--set "$key=$tmp/stopped.safetensors" --set log.dir="$tmp/begun" --fresh)
	sed "$([ $key = model.weights ] || echo '/^model:/d')" "$tmp/kinds.yaml" >"$tmp/begun.yaml"
	run stopped-begun train begun "${further[@]}" "${begin[@]}"
	says stopped-begun "$at"
done
run whole eval kinds --local
! grep -E 'unfinished|untrained' "$tmp/whole.log" || fail 'a run that is done counts as unfinished'

# A run whose every batch was skipped is done, and has trained nothing.
sed '2,$s/,[0-9]*$/,3e38/' "$tmp/rows/train.csv" >"$tmp/none/train.csv"
sed 's/scale_label: true, //; s#numbers$#none#' "$tmp/numbers.yaml" >"$tmp/skips.yaml"
run skips train skips --local --json --fresh --set data.dir="$tmp/none" --set train.max_steps=6 --set train.on_nan=skip --set log.dir="$tmp/skips"
says skips '^WARN untrained: none of 6 steps has changed the weights'
run skipped eval skips --local --set log.dir="$tmp/skips"
says skipped '^WARN untrained: the run that wrote .* has trained no step of its own'

# A vertical group's models of two runs, whose middle is frozen: nothing in the tensors says that they are two.
"$SPLITC" keygen --out "$tmp/pair.key" >"$tmp/out" 2>&1 || fail "keygen: $(cat "$tmp/out")"
start_server one
mkdir "$tmp/site-A" "$tmp/site-B"
for part in train val; do
	awk -F, -v OFS=, '{print NR, $1, $2}' "$tmp/rows/$part.csv" | sed '1s/^1/id/' >"$tmp/site-A/$part.csv"
	awk -F, -v OFS=, '{print NR, $3}' "$tmp/rows/$part.csv" | sed '1s/^1/id/' >"$tmp/site-B/$part.csv"
done
for site in A:0:features: B:1:labels:kind; do
	IFS=: read -r name member role label <<<"$site"
	cat >"$tmp/$name.yaml" <<-YAML
		server: $endpoint
		model: {name: mlp, features: 2, classes: 2, weights: $tmp/kinds/model.safetensors}
		data: {kind: csv, dir: $tmp/site-$name, id: id${label:+, label: $label}}
		share: {mode: vertical, group: g, clients: 2, member: $member, role: $role, secret: $tmp/pair.key}
		train: {batch: 15, epochs: 1, freeze: ["layer2.*"], optimizer: {kind: adam, lr: 0.02}}
		threads: 1
	YAML
done
both() {
	"$SPLITC" train "$tmp/A.yaml" --set control="$tmp/A.sock" --set log.dir="$tmp/A-$1" >"$tmp/A-$1.log" 2>&1 &
	local first=$!
	"$SPLITC" train "$tmp/B.yaml" --set control="$tmp/B.sock" --set log.dir="$tmp/B-$1" >"$tmp/B-$1.log" 2>&1 || fail "B, run $1"
	wait $first || fail "A, run $1"
}
both 1
both 2
! grep -E 'WARN other-' "$tmp"/[AB]-1.log || fail 'a member is warned of what the other one has'
join() { run join export A "$tmp/joined.safetensors" --set log.dir="$tmp/A-2" --join "$tmp/B-$1/model.safetensors"; }
join 2
! grep join-unsure "$tmp/join.log" || fail 'models of one run'
status=78 join 1
says join 'are of several runs or steps: take both models of one run'
# The member without labels needs no names of them.
run members train A --check-config --set model.task=labels --set model.classes=3 --set model.weights=
echo 'what a model says of its data is compared by all that read it'
