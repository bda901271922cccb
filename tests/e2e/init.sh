#!/usr/bin/env bash
# Useful defaults: `splitc init` writes a config that passes --check-config, from flags, from answers in a terminal, or
# from nothing, and overwrites no file. `splitc train` without a config trains the demo's run, or says which three lines
# suffice.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 640 64
demo=$PWD/configs/client-demo.yaml
export HOME=$tmp/home
unset XDG_DATA_HOME
mkdir -p "$tmp/empty" "$tmp/with/data" "$tmp/home"
mv "$tmp/data" "$tmp/with/data/cifar-10-batches-bin"
for i in 2 3 4 5; do ln -s data_batch_1.bin "$tmp/with/data/cifar-10-batches-bin/data_batch_$i.bin"; done

# in_folder FOLDER WORD…: runs a command there; sets $rc, writes $tmp/out and $tmp/err.
in_folder() {
	rc=0
	(cd "$1" && shift && timeout -k 5 $patience "$@") >"$tmp/out" 2>"$tmp/err" </dev/null || rc=$?
}
effective() { (cd "$tmp/with" && "$SPLITC" train ${1:+"$1"} --print-config "${@:2}") || fail "--print-config ${1:-}"; }

# ---- without CONFIG: the demo's run
effective '' >"$tmp/default"
effective "$demo" >"$tmp/demo"
diff "$tmp/demo" "$tmp/default" || fail "train without CONFIG is not configs/client-demo.yaml"
in_folder "$tmp/with" "$SPLITC" train --check-config
[ $rc = 0 ] && grep -q "^the demo's run: ok, " "$tmp/out" || fail "train --check-config without CONFIG: $rc: $(cat "$tmp/err")"
start_server host
in_folder "$tmp/with" "$SPLITC" train --set server="$endpoint" --set data.train_limit=64 --set data.test_limit=32 --set train.batch=16 \
	--set train.schedule.warmup_epochs=0 --set train.epochs=1
[ $rc = 0 ] && [ -f "$tmp/with/runs/demo/model.safetensors" ] || fail "train without CONFIG: $rc: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" eval --local --set data.test_limit=32
[ $rc = 0 ] && grep -q '^test accuracy ' "$tmp/out" || fail "eval without CONFIG: $rc: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" train --set server="$endpoint"
[ $rc = 73 ] || fail "the demo's run is done, and would be overwritten: $rc"
mkdir -p "$HOME/.local/share"
ln -s "$tmp/with/data" "$HOME/.local/share/split"
in_folder "$tmp/empty" "$SPLITC" train --check-config
[ $rc = 0 ] || fail "data in the other usual place: $rc: $(cat "$tmp/err")"
rm "$HOME/.local/share/split"
# No data: the error says what would do.
for more in '' --check-config --local; do
	in_folder "$tmp/empty" "$SPLITC" train $more
	[ $rc = 66 ] && [ "$(wc -l <"$tmp/err")" = 4 ] && grep -q '^splitc: train: no CONFIG, and no CIFAR-10 in data/cifar-10-batches-bin or .*/.local/share/split/cifar-10-batches-bin\. ' "$tmp/err" ||
		fail "train $more without CONFIG and data: $rc: $(cat "$tmp/err")"
done
sed -n '2,4s/^  //p' "$tmp/err" | sed "s#DIR#$tmp/with/data/cifar-10-batches-bin#" >"$tmp/three.yaml"
in_folder "$tmp/empty" "$SPLITC" train "$tmp/three.yaml" --check-config
[ $rc = 0 ] || fail "those three lines are not enough: $(cat "$tmp/err")"
[ -z "$(ls -A "$tmp/empty")" ] || fail "left behind: $(ls -A "$tmp/empty")"

# ---- init
in_folder "$tmp/with" "$SPLITC" init
[ $rc = 0 ] && grep -q '^splitc.yaml is written' "$tmp/out" || fail "init: $rc: $(cat "$tmp/err")"
effective splitc.yaml --set log.dir=runs/demo >"$tmp/written"
diff "$tmp/demo" "$tmp/written" || fail "init without answers is not the demo"
[ "$(grep -c '#' "$tmp/with/splitc.yaml")" -ge 8 ] || fail "what init writes has no comments"
grep -qx '  dir: "\?runs/splitc"\?   # .*' "$tmp/with/splitc.yaml" || fail "log.dir is not the config's own"
in_folder "$tmp/with" "$SPLITC" train splitc.yaml --check-config
[ $rc = 0 ] || fail "what init writes does not pass: $(cat "$tmp/err")"
# overwrites a file only with --force
echo mine >"$tmp/with/mine.yaml"
in_folder "$tmp/with" "$SPLITC" init mine.yaml
[ $rc = 73 ] && grep -q 'mine.yaml exists already: give --force' "$tmp/err" && [ "$(cat "$tmp/with/mine.yaml")" = mine ] || fail "init over a file: $rc"
in_folder "$tmp/with" "$SPLITC" init mine.yaml --force
[ $rc = 0 ] && grep -q '^server: ' "$tmp/with/mine.yaml" || fail "init --force: $rc: $(cat "$tmp/err")"
# flags with odd characters
odd="$tmp/with/odd: #'\"name"
ln -s "$tmp/with/data/cifar-10-batches-bin" "$odd"
in_folder "$tmp/with" "$SPLITC" init odd.yaml --server tcp://host.example:7000 --data "cifar10:$odd" --cut features.0.1,classifier --model mobilenet_v2
[ $rc = 0 ] || fail "init with flags: $rc: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" train odd.yaml --check-config
[ $rc = 0 ] || fail "what init writes from flags does not pass: $(cat "$tmp/err")"
effective odd.yaml >"$tmp/written"
for line in 'server: "\?tcp://host.example:7000' '^head_end: "\?features.0.1' '^tail_begin: "\?classifier'; do grep -q "$line" "$tmp/written" || fail "no $line"; done
in_folder "$tmp/with" "$SPLITC" init hundred.yaml --data cifar100
[ $rc = 0 ] && effective hundred.yaml >"$tmp/written" && grep -q 'classes: 100' "$tmp/written" && grep -q 'normalize: "\?cifar100' "$tmp/written" || fail 'cifar100'
mkdir -p "$tmp/with/photos/train/"{a,b,c}
for class in a b c; do printf 'P6 1 1 255 abc' >"$tmp/with/photos/train/$class/1.ppm"; done
cp -r "$tmp/with/photos/train" "$tmp/with/photos/val"
# The kind of data is guessed from the folder.
in_folder "$tmp/with" "$SPLITC" init guessed.yaml --data photos
[ $rc = 0 ] && effective guessed.yaml >"$tmp/written" && grep -q 'kind: "\?images' "$tmp/written" && grep -q 'classes: 3' "$tmp/written" || fail "a folder of photos: $(cat "$tmp/err")"
grep -qx 'The classes are a, b, c.' "$tmp/out" || fail "the classes are not said: $(cat "$tmp/out")"
in_folder "$tmp/with" "$SPLITC" init pictures.yaml --data images:photos
[ $rc = 0 ] && effective pictures.yaml >"$tmp/written" && grep -q 'classes: 3' "$tmp/written" && grep -q '  kind: images' "$tmp/written" || fail "images: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" train pictures.yaml --set train.batch=2 --set train.chunks=1 --set train.schedule.warmup_epochs=0 --check-config
[ $rc = 0 ] || fail "what init writes for pictures does not pass: $(cat "$tmp/err")"
# a network for texts: its folder also has the tokenizer
mkdir -p "$tmp/with/toy" "$tmp/with/CoLA" "$tmp/made"
"$TOOLS/make_text" "$tmp/made"
cp "$tmp/made/vocab.json" "$tmp/made/merges.txt" "$tmp/with/toy"
jq -n --argjson size "$(jq length "$tmp/made/vocab.json")" '{model_type: "roberta", vocab_size: $size, hidden_size: 8, intermediate_size: 8,
	num_hidden_layers: 3, num_attention_heads: 2, max_position_embeddings: 130, type_vocab_size: 1}' >"$tmp/with/toy/config.json"
for split in train dev; do for i in $(seq 40); do printf 'made\t%d\t\tred boxes of fish %d\n' $((i % 2)) "$i"; done >"$tmp/with/CoLA/$split.tsv"; done
in_folder "$tmp/with" "$SPLITC" init texts.yaml --model huggingface:toy --data cola:.
[ $rc = 0 ] && effective texts.yaml >"$tmp/written" || fail "init for texts: $rc: $(cat "$tmp/err")"
for line in 'huggingface: "\?toy' '  kind: cola' '  tokenizer: "\?toy' '^partition: "\?2:-1' '  classes: 2' '  tokens: 128'; do grep -q "$line" "$tmp/written" || fail "texts: no $line"; done
! grep -q 'sgd and adam' "$tmp/with/texts.yaml" || fail 'a comment on other optimizers than adamw'
grep -q ' lr: 0.001 ' "$tmp/with/texts.yaml" || fail "the rate of random weights: $(grep ' lr:' "$tmp/with/texts.yaml")"
in_folder "$tmp/with" "$SPLITC" train texts.yaml --check-config
[ $rc = 0 ] || fail "what init writes for texts does not pass: $(cat "$tmp/err")"
# Random weights learn with the rate that init writes; weights that have learned get a lower one.
mkdir "$tmp/with/clear"
jq -n --argjson size "$(jq length "$tmp/made/vocab.json")" '{model_type: "roberta", vocab_size: $size, hidden_size: 32, intermediate_size: 64,
	num_hidden_layers: 3, num_attention_heads: 2, max_position_embeddings: 130, type_vocab_size: 1}' >"$tmp/with/clear/config.json"
cp "$tmp/made/vocab.json" "$tmp/made/merges.txt" "$tmp/with/clear"
mkdir "$tmp/with/said"
for split in train dev; do for i in $(seq 800); do echo "{\"text\": \"boxes $((i % 7)) of $([ $((i % 2)) = 0 ] && echo fish || echo red) $((i % 5))\", \"label\": $((i % 2))}"; done >"$tmp/with/said/$split.jsonl"; done
in_folder "$tmp/with" "$SPLITC" init clear.yaml --model huggingface:clear --data text:said
[ $rc = 0 ] || fail "init clear: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" train clear.yaml --local --json
[ $rc = 0 ] && tail -n 1 "$tmp/out" | jq -e '.test_acc > 0.9' >"$tmp/said" || fail "random weights do not learn: $(tail -n 1 "$tmp/out" | jq .test_acc)"
cp "$tmp/with/runs/clear/model.safetensors" "$tmp/with/clear"
in_folder "$tmp/with" "$SPLITC" init learned.yaml --model huggingface:clear --data text:said
[ $rc = 0 ] && grep -q ' lr: 2e-05 ' "$tmp/with/learned.yaml" || fail "the rate of weights that have learned: $(grep ' lr:' "$tmp/with/learned.yaml")"
# A network with few positions gets rows of at most that length.
mkdir "$tmp/with/short"
cp "$tmp/made/vocab.json" "$tmp/made/merges.txt" "$tmp/with/short"
jq '.max_position_embeddings = 42' "$tmp/with/toy/config.json" >"$tmp/with/short/config.json"
in_folder "$tmp/with" "$SPLITC" init short.yaml --model huggingface:short --data cola:.
[ $rc = 0 ] && grep -q '^  tokens: 40 ' "$tmp/with/short.yaml" || fail "init for few positions: $rc: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" train short.yaml --check-config
[ $rc = 0 ] || fail "what init writes for few positions does not pass: $(cat "$tmp/err")"
# A table, own texts and tar files: their classes are counted, and the proposed network fits them.
mkdir "$tmp/with/table" "$tmp/with/own" "$tmp/with/shards"
for split in train val; do printf 'age,colour,sick\n40,red,yes\n50,blue,no\n60,red,maybe\n' >"$tmp/with/table/$split.csv"; done
in_folder "$tmp/with" "$SPLITC" init table.yaml --data csv:table
[ $rc = 78 ] && grep -qF 'table: which column is the label? Give --set data.label=NAME with one of: age, colour, sick' "$tmp/err" && [ ! -e "$tmp/with/table.yaml" ] || fail "a table whose label is not clear: $rc: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" init table.yaml --data csv:table --set data.label=sick
[ $rc = 0 ] && effective table.yaml >"$tmp/written" || fail "init for a table: $rc: $(cat "$tmp/err")"
for line in '  name: "\?mlp' '  features: 3' '  classes: 3' '  label: "\?sick'; do grep -q "$line" "$tmp/written" || fail "table: no $line"; done
in_folder "$tmp/with" "$SPLITC" train table.yaml --set train.batch=2 --set train.chunks=1 --check-config
[ $rc = 0 ] || fail "what init writes for a table does not pass: $(cat "$tmp/err")"
# Labels with fractions are numbers, not classes.
mkdir "$tmp/with/prices"
for split in train val; do printf 'rooms,place,price\n4,north,1.25\n5,south,2\n6,north,0.5\n' >"$tmp/with/prices/$split.csv"; done
in_folder "$tmp/with" "$SPLITC" init prices.yaml --data csv:prices --set data.label=price
[ $rc = 0 ] && effective prices.yaml >"$tmp/written" && grep -q '  task: "\?numbers' "$tmp/written" && grep -q '  features: 3' "$tmp/written" || fail "a table of prices: $rc: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" train prices.yaml --local --set train.batch=2 --set train.chunks=1 --set train.epochs=1
[ $rc = 0 ] || fail "what init writes for numbers does not train: $(cat "$tmp/err")"
# Data that cannot be read: the error says why the classes could not be counted.
mkdir "$tmp/with/photos/train/none"
for row in 'images:photos photos/train/none: the class has no picture' 'csv:nowhere nowhere/train.csv: No such file' 'images:photos'; do
	[ "$row" != images:photos ] || rmdir "$tmp/with/photos/train/none"
	in_folder "$tmp/with" "$SPLITC" init uncounted.yaml --force --data "${row%% *}"
	case $row in *'no picture') [ $rc = 65 ] ;; *) [ $rc = 0 ] ;; esac || fail "init, ${row}: exit status $rc"
	case $row in images:photos) ! grep 'could not be counted' "$tmp/out" ;; *) grep -qF "could not be counted (${row#* }" "$tmp/out" ;; esac || fail "init, $row: $(cat "$tmp/out")"
done
# A validation file that does not fit is an error; the training set is not divided instead.
printf 'age,colour,sick\n40,green,yes\n' >"$tmp/with/table/val.csv"
in_folder "$tmp/with" "$SPLITC" init table.yaml --force
[ $rc = 0 ] && ! grep split: "$tmp/with/table.yaml" || fail "val.csv is passed over: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" train table.yaml --set train.batch=2 --set train.chunks=1 --check-config
[ $rc = 65 ] && grep -qF 'val.csv:2: column "colour": "green" does not occur in training' "$tmp/err" || fail "a val.csv that does not fit: $rc: $(cat "$tmp/err")"
# Other usual names of the parts are recognized, and nothing is divided.
mkdir "$tmp/with/named"
mv "$tmp/with/table/val.csv" "$tmp/with/table/Valid.csv"
cp -r "$tmp/with/photos/train" "$tmp/with/named/Training"
cp -r "$tmp/with/photos/val" "$tmp/with/named/Testing"
for row in 'csv:table 3' 'images:named 3' 'named 3'; do
	rm -f "$tmp/with/named.yaml"
	label=
	[ "${row% *}" != csv:table ] || label='--set data.label=sick'
	in_folder "$tmp/with" "$SPLITC" init named.yaml --data "${row% *}" $label
	[ $rc = 0 ] && grep -q "^  classes: ${row#* }" "$tmp/with/named.yaml" && ! grep split: "$tmp/with/named.yaml" || fail "other names, ${row}: $(cat "$tmp/err")"
done
# A single set (class folders, a table) is divided. A column that identifies rows is ignored.
{ echo ',id,patientId,paid,out'; for i in $(seq 40); do echo "$((i - 1)),p-$i,$((100 - i)),$i,$((i % 2))"; done; } >"$tmp/with/one.csv"
sed -E '3s/[0-9]+,(.)$/,\1/; s/^[^,]*,/,/; 1s/^/none/' "$tmp/with/one.csv" >"$tmp/with/holes.csv"
for class in a b c; do
	mkdir -p "$tmp/with/sorted/$class"
	for i in $(seq 10); do cp "$tmp/with/photos/train/a/1.ppm" "$tmp/with/sorted/$class/$i.ppm"; done
done
# columns of measurements are kept, in whatever notation
for row in '; ,' '; , %' ', , mg/l' ', .'; do
	read -r separator mark unit <<<"$row"
	{ echo "age${separator}creatinine${separator}sick"; for i in $(seq 40); do echo "$((20 + i))$separator\"$((i % 3))${mark}6$((10 + i))$unit\"$separator$((i % 2))"; done; } >"$tmp/with/measured.csv"
	in_folder "$tmp/with" "$SPLITC" init measured.yaml --force --data csv:measured.csv --set data.label=sick
	[ $rc = 0 ] && grep -q 'features: 2 ' "$tmp/with/measured.yaml" && ! grep -q '^  ignore:' "$tmp/with/measured.yaml" || fail "$row: $(cat "$tmp/with/measured.yaml")"
	case $row in '; ,'*) grep -q '^  separator: "\?semicolon' "$tmp/with/measured.yaml" ;; esac || fail "$row: no data.separator"
	case $row in *' ,'*) grep -q '^  decimal: "\?comma' "$tmp/with/measured.yaml" ;; esac || fail "$row: no data.decimal"
done
for row in 'csv:holes.csv ignore:.\["none",."id",."patientId"\]' 'csv:holes.csv missing:.mean' 'csv:one.csv features:.1' 'csv:one.csv ignore:.\["Unnamed:.0",."id",."patientId"\]' 'images:sorted classes:.3' 'csv:one.csv ..train:.0.8' 'csv:one.csv ..val:.0.2'; do
	case $row in csv*) label='--set data.label=out' ;; *) label= ;; esac
	rm -f "$tmp/with/single.yaml"
	in_folder "$tmp/with" "$SPLITC" init single.yaml --data "${row% *}" $label
	[ $rc = 0 ] && grep -q "^  ${row#* }" "$tmp/with/single.yaml" || fail "one set, ${row}: $(cat "$tmp/err")"
	in_folder "$tmp/with" "$SPLITC" train single.yaml --set train.batch=2 --set train.chunks=1 --set train.schedule.warmup_epochs=0 --set data.split.seed=5 --check-config
	[ $rc = 0 ] || fail "what init writes for one set, ${row% *}, does not pass: $(cat "$tmp/err")"
done
in_folder "$tmp/with" "$SPLITC" train single.yaml --set data.split.train=0 --set data.split.val=0 --check-config
[ $rc = 66 ] && grep -qF 'one.csv: there is no val.csv or test.csv; data.split shares out a single set' "$tmp/err" || fail "one table, and no split: $rc"
for split in train dev; do for i in $(seq 40); do echo "{\"text\": \"red boxes of fish\", \"label\": $((i % 3))}"; done >"$tmp/with/own/$split.jsonl"; done
in_folder "$tmp/with" "$SPLITC" init own.yaml --model huggingface:toy --data text:own
[ $rc = 0 ] && in_folder "$tmp/with" "$SPLITC" train own.yaml --check-config && [ $rc = 0 ] || fail "own texts: $(cat "$tmp/err")"
grep -q '^  classes: 3' "$tmp/with/own.yaml" || fail 'classes of own texts'
for split in train val; do
	for i in 0 1; do cp "$tmp/with/photos/train/a/1.ppm" "$tmp/$i.ppm"; echo $i >"$tmp/$i.cls"; done
	tar -C "$tmp" -cf "$tmp/with/shards/$split.tar" 0.ppm 0.cls 1.ppm 1.cls
done
in_folder "$tmp/with" "$SPLITC" init shards.yaml --data webdataset:shards --model resnet18
[ $rc = 0 ] && effective shards.yaml >"$tmp/written" || fail "init for tar files: $rc: $(cat "$tmp/err")"
for line in '  kind: webdataset' '  classes: 2' '  image: 224' '  width: 1$' '  form: imagenet'; do grep -q "$line" "$tmp/written" || fail "tar files: no $line"; done
in_folder "$tmp/with" "$SPLITC" train shards.yaml --set train.batch=2 --set train.chunks=1 --set train.schedule.warmup_epochs=0 --check-config
[ $rc = 0 ] || fail "what init writes for tar files does not pass: $(cat "$tmp/err")"
cp tests/golden/onnx_small.safetensors "$tmp/with/net.safetensors"
in_folder "$tmp/with" "$SPLITC" init net.yaml --model net.safetensors
[ $rc = 0 ] && grep -q '^  network: "\?net.safetensors' "$tmp/with/net.yaml" || fail "a network of one's own: $rc: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" train net.yaml --check-config
[ $rc = 0 ] || fail "what init writes for a network of one's own does not pass: $(cat "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" init never.yaml --model network:nowhere
[ $rc = 66 ] && grep -q 'model.network: nowhere: No such file' "$tmp/err" || fail "init with a network's file that is not there: $rc: $(cat "$tmp/err")"
# A config that is there: what the user has changed in it stays, what init chose is chosen anew, and --set adds keys.
sed -i -E 's/^  epochs: 20/  epochs: 7/; s/^threads: 1/threads: 2/' "$tmp/with/table.yaml"
in_folder "$tmp/with" "$SPLITC" init table.yaml --force --set data.label=colour --set data.split.train=0.5 --set data.split.val=0.5 --set data.split.by=sick --set link.retry_ms=300 --set train.optimizer.lr=0.5 --set train.schedule.kind=cosine
[ $rc = 0 ] || fail "init of a config that is there: $(cat "$tmp/err")"
for line in '  epochs: 7$' 'threads: 2$' '  label: "colour"' '  classes: 2$' '  features: 1$' '  retry_ms: 300$' '    kind: adam$' '    lr: 0.5$' '    kind: cosine$' '    train: 0.5$' '    by: "sick"$'; do
	sed 's/   #.*//' "$tmp/with/table.yaml" | grep -q "^$line" || fail "a config that is there: no $line: $(cat "$tmp/with/table.yaml")"
done
in_folder "$tmp/with" "$SPLITC" init table.yaml --force --data photos --set train.batch=4
[ $rc = 0 ] && grep -q '^  epochs: 7' "$tmp/with/table.yaml" && grep -q '^  classes: 3' "$tmp/with/table.yaml" && grep -q '^  name: "mobilenet_v2"' "$tmp/with/table.yaml" && ! grep -q 'label\|features' "$tmp/with/table.yaml" ||
	fail "other data: $rc: $(cat "$tmp/err" "$tmp/with/table.yaml")"
in_folder "$tmp/with" "$SPLITC" init 'my own.yaml' --data photos
[ $rc = 0 ] && grep -qx "  splitc train 'my own.yaml'" "$tmp/out" || fail "a name with a blank: $(cat "$tmp/out" "$tmp/err")"
in_folder "$tmp/with" "$SPLITC" init never.yaml --set data.dir=photos
[ $rc = 64 ] && grep -qF 'init: --set data.dir: give it with --data' "$tmp/err" || fail "--set of an answer: $rc: $(cat "$tmp/err")"
# Invalid answers are refused with a sentence, and nothing is written.
while IFS='|' read -r flag value says; do
	in_folder "$tmp/with" "$SPLITC" init never.yaml "$flag" "$value"
	[ $rc = 78 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -qF -- "$says" "$tmp/err" && [ ! -e "$tmp/with/never.yaml" ] || fail "init $flag $value: $rc: $(cat "$tmp/err")"
done <<-'CASES'
	--server|example|server: must be tcp://host:port
	--cut|1:1|splitc: partition: "1:1" is not A:-B
	--cut|12:-12|leaves no middle
	--cut|a,|the cut must be A:-B
	--cut|features.99,classifier|has no "features.99"
	--model|resnet9000|resnet9000
	--model|my.onnx|--model: convert the file once, by `python3 -m split.onnx my.onnx net.safetensors`
	--model|onnx:its/my.onnx|by `python3 -m split.onnx its/my.onnx net.safetensors` (docs/howto-onnx.md), and name net.safetensors as model.network
	--data||dir
	--data|zip:photos|there is no kind "zip"; known: cifar10, cifar100, images, webdataset, volumes, csv, cola
	--data|cola:glue|texts need a network: --model huggingface:FOLDER
CASES
in_folder "$tmp/with" "$SPLITC" init never.yaml --model huggingface:nowhere
[ $rc = 66 ] && grep -q 'nowhere/config.json: No such file' "$tmp/err" || fail "init with a folder that is not there: $rc"
in_folder "$tmp/with" "$SPLITC" init never.yaml --model net.safetensors --data text:texts
[ $rc = 78 ] && grep -q "texts for a network's file also need a tokenizer: docs/howto-onnx.md" "$tmp/err" || fail "init of texts for a network's file: $rc"
in_folder "$tmp/with" "$SPLITC" init never.yaml --model huggingface:toy --data cifar10:x
[ $rc = 78 ] && grep -q 'this network needs data of texts: text:FOLDER, or TASK:FOLDER with a task of GLUE; got "cifar10:x"' "$tmp/err" || fail "init for texts with pictures: $rc"
in_folder "$tmp/with" "$SPLITC" init nowhere/x.yaml
[ $rc = 73 ] || fail "init into no folder: $rc"

# ---- in a terminal: init asks, says what is wrong with an answer, and asks again
command -v script >/dev/null || { echo 'no script: the questions of init are not tried'; echo passed; exit 0; }
if ! script -qec true /dev/null </dev/null >"$tmp/out" 2>&1; then echo 'no terminal can be opened here: the questions of init are not tried'; echo passed; exit 0; fi
# asked LOG ANSWERS WORD…: the questions of `splitc init WORD…`, with these answers.
asked() { printf "$2" | (cd "$tmp/with" && script -qec "$SPLITC init ${*:3}" /dev/null) >"$tmp/$1.log" 2>&1 || fail "init in a terminal: $(cat "$tmp/$1.log")"; }
asked asked '\n?\n\n40:-1\n2:-1\nnonsense\ntcp://10.0.0.2:5570\n' asked.yaml
grep -q 'must be tcp://host:port' "$tmp/asked.log" && grep -q 'leaves no middle' "$tmp/asked.log" || fail 'wrong answers are taken'
grep -q 'Pictures: one of mobilenet_v2, .*huggingface:FOLDER' "$tmp/asked.log" || fail "? does not explain the network: $(cat "$tmp/asked.log")"
grep -q '^server: "\?tcp://10.0.0.2:5570' "$tmp/with/asked.yaml" && grep -q '^partition: "2:-1"' "$tmp/with/asked.yaml" || fail "not what was answered: $(cat "$tmp/with/asked.yaml")"
asked some '\n\n' some.yaml --server tcp://a:1 --cut 1:-2
[ "$(grep -c ']: ' "$tmp/some.log")" -le 2 ] && ! grep -q 'Server' "$tmp/some.log" || fail 'it asks for what a flag has said'
# The data come first, and propose the network. `<` goes back: to other data, whose label is asked for.
asked back 'photos\n<\ntable\n\ncolour\n<\n<\n\nsick\n\n\n' back.yaml
grep -q 'Found: pictures in class folders' "$tmp/back.log" && grep -q 'Network \[mobilenet_v2\]' "$tmp/back.log" && grep -q 'Network \[mlp\]' "$tmp/back.log" &&
	grep -q 'predicted (age, colour, sick) \[sick\]' "$tmp/back.log" || fail "the dialog: $(cat "$tmp/back.log")"
grep -q '^  kind: csv' "$tmp/with/back.yaml" && grep -q '^  label: "sick"' "$tmp/with/back.yaml" || fail "back: $(cat "$tmp/with/back.yaml")"
echo passed
