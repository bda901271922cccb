#!/usr/bin/env bash
# Tables: a run with a server equals --local and learns the rows' rule; numbers, texts, ignored columns; errors for
# missing cells, texts that training lacks, and missing columns.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/table"
# rows BEGIN END: the class depends on a number and a colour; the column id is random.
rows() {
	echo 'id,"size, cm",colour,noise,kind'
	awk -v from="$1" -v to="$2" 'BEGIN {
		split("red green blue", colour, " ")
		for (i = from; i < to; i++) {
			size = (i * 37 % 101) / 10; c = i * 7 % 3 + 1; kind = size > 5 ? (c == 1 ? "ripe" : "large") : "small"
			printf "row-%d,%.1f,%s,%d,%s\n", i, size, colour[c], i * 13 % 17, kind
		}
	}'
}
rows 0 600 >"$tmp/table/train.csv"
rows 600 700 >"$tmp/table/test.csv"
start_server one
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 5, classes: 3, dropout: 0.1}
	data: {kind: csv, dir: $tmp/table, label: kind, ignore: [id]}
	train: {batch: 32, chunks: 2, epochs: 6, seed: 1, optimizer: {kind: adam, lr: 0.01}}
	threads: 1
YAML
# `splitc data` shows the contents even if the config's numbers are wrong.
"$SPLITC" data "$tmp/client.yaml" --set model.features=1 --set model.classes=2 --json >"$tmp/out" || fail "data: exit status $?"
jq -e '.features == 5 and .train.samples == 600 and .test.samples == 100 and [.classes[].name] == ["large", "ripe", "small"] and
	([.classes[].train] | add) == 600 and ([.classes[].test] | add) == 100' "$tmp/out" >"$tmp/said" || fail "data: $(cat "$tmp/out")"
[ "$(jq '.classes[1].train' "$tmp/out")" = "$(grep -c ,ripe "$tmp/table/train.csv")" ] || fail "data: $(cat "$tmp/out")"
"$SPLITC" data "$tmp/client.yaml" | grep -q '^features    5 numbers in each row' || fail 'data: no features'
client local "$tmp/client.yaml" --local --json || fail "--local: exit status $?"
tail -n 1 "$tmp/local.log" | jq -e '.test_acc > 0.9' >"$tmp/out" || fail "not learned: $(tail -n 1 "$tmp/local.log" | jq .test_acc)"
client remote "$tmp/client.yaml" || fail "with a server: exit status $?"
same_run remote local 114
# The bar of an evaluation shows the metric of the set so far, and only rates that are known are shown.
said=$(sed -n 's/^test accuracy \([0-9.]*\) % .*/\1/p' "$tmp/remote.log")
tr '\r' '\n' <"$tmp/remote.log" | grep -q "^eval 6/6 *4/4 .* acc $(printf %.1f "$said")%" || fail "accuracy is $said %: $(grep ^eval "$tmp/remote.log")"
! grep 'MB/s (.* -' "$tmp/remote.log" || fail 'a rate that is not known'
# torchvision has no network for tables.
"$SPLITC" export "$tmp/client.yaml" "$tmp/out.safetensors" --weights "$tmp/remote/model.safetensors" 2>"$tmp/err" || fail "export: $(cat "$tmp/err")"
[ ! -s "$tmp/err" ] || fail "an export of a table's network says $(cat "$tmp/err")"
! grep -qaE '"(image|normalize)":' "$tmp/out.safetensors" || fail "an export of a table's network speaks of images"
grep -aq '"form":"only"' "$tmp/out.safetensors" || fail "form of a table's network"
cp "$tmp/client.yaml" "$tmp/kept.yaml"
status=0
"$SPLITC" export "$tmp/client.yaml" "$tmp/client.yaml" --weights "$tmp/remote/model.safetensors" 2>"$tmp/err" || status=$?
[ $status = 73 ] && grep -q 'by its name it is no model' "$tmp/err" && cmp "$tmp/client.yaml" "$tmp/kept.yaml" || fail "export over a config: $status, $(cat "$tmp/err")"

# A model knows its columns and classes, whatever train.csv has now; members of a group need the same ones.
evaluated() { "$SPLITC" eval "$tmp/client.yaml" --local --weights "$tmp/remote/model.safetensors" "$@" >"$tmp/out" 2>"$tmp/err" && grep '^test accuracy' "$tmp/out"; }
right=$(evaluated) || fail "eval: $(cat "$tmp/err")"
mkdir "$tmp/moved"
cp "$tmp/table/test.csv" "$tmp/moved"
[ "$(evaluated --set data.dir="$tmp/moved")" = "$right" ] || fail "eval without train.csv: $(cat "$tmp/out" "$tmp/err")"
sed '2,$s/,[0-9.]*,/,99,/; s/,red,/,scarlet,/' "$tmp/table/train.csv" >"$tmp/moved/train.csv"
[ "$(evaluated --set data.dir="$tmp/moved")" = "$right" ] || fail "eval beside another train.csv: $(cat "$tmp/out" "$tmp/err")"
sed -i 's/,ripe$/,soft/' "$tmp/moved/test.csv"
if evaluated --set data.dir="$tmp/moved" >"$tmp/said"; then fail 'a class that the model has not'; fi
grep -q 'column "kind": "soft" does not occur in training' "$tmp/err" || fail "$(cat "$tmp/err")"
for part in train test; do grep -v ',ripe$' "$tmp/table/$part.csv" >"$tmp/moved/$part.csv"; done
member() { # NUMBER DIR OPTION…; in a process of its own, which a signal ends
	exec "$SPLITC" train "$tmp/client.yaml" --fresh --set share.group="$group" --set share.clients=2 --set share.epoch_steps=3 --set train.epochs=1 \
		--set share.member="$1" --set data.dir="$2" --set log.dir="$tmp/$group-$1" "${@:3}" >"$tmp/$group-$1.log" 2>&1
}
pair() { # OPTION…: of the second member, whose table lacks a class. The status of whichever ends first; then the other one ends
	member 0 "$tmp/table" &
	members=$!
	member 1 "$tmp/moved" "$@" &
	members="$members $!"
	started+=($members)
	ended=0
	wait -n $members || ended=$?
	[ $ended = 0 ] || kill $members 2>/dev/null || true
	wait $members || [ $ended != 0 ] || fail "a member: $(tail -n 2 "$tmp/$group"-?.log)"
}
group=unlike pair
[ $ended = 78 ] && grep -q "other classes, columns or scales than those of group unlike" "$tmp"/unlike-?.log || fail "a member with other classes: $ended, $(tail -n 2 "$tmp"/unlike-?.log)"
ln -s "$tmp/table" "$tmp/part0"
ln -s "$tmp/moved" "$tmp/part1"
config=$tmp/client.yaml refusing=--fresh refused 78 "other classes, columns or scales than those of group local" --local --clients 2 \
	--set share.epoch_steps=3 --set data.dir="$tmp/part%m" --set log.dir="$tmp/both"
# The same classes and columns, but other means: each member would scale its numbers by its own, under one head.
mkdir "$tmp/far0" "$tmp/far1"
cp "$tmp"/table/t*.csv "$tmp/far0"
for part in train test; do awk -F, -v OFS=, 'NR > 1 {$2 += 100} 1' "$tmp/table/$part.csv" >"$tmp/far1/$part.csv"; done
far() { # OPTION…
	config=$tmp/client.yaml refusing=--fresh refused 78 "data.like takes columns, means and deviations from one member" \
		--local --clients 2 --set data.dir="$tmp/far%m" --set log.dir="$tmp/far" "$@"
}
far
"$SPLITC" train "$tmp/client.yaml" --fresh --local --clients 2 --set data.dir="$tmp/far%m" --set log.dir="$tmp/far" --set train.epochs=1 \
	--set data.like="$tmp/remote/model.safetensors" --set data.ignore=nothing* >"$tmp/out" 2>&1 || fail "data.like for both: $(cat "$tmp/out")"
"$SPLITC" train "$tmp/client.yaml" --fresh --local --clients 2 --set data.dir="$tmp/far%m" --set log.dir="$tmp/far" --set train.epochs=1 \
	--set share.ends=private >"$tmp/out" 2>&1 || fail "private heads: $(cat "$tmp/out")"
group=like pair --set data.like="$tmp/remote/model.safetensors" --set data.ignore=nothing*
[ $ended = 0 ] || fail "data.like: $(tail -n 2 "$tmp"/like-?.log)"
# Weights for other columns give a warning, unless their columns are taken over (data.like).
mkdir "$tmp/turned"
for part in train test; do awk -F, -v OFS=, 'NR == 1 {print "id,noise,colour,\"size, cm\",kind"; next} {print $1, $4, $3, $2, $5}' "$tmp/table/$part.csv" >"$tmp/turned/$part.csv"; done
sed "s#$tmp/table#$tmp/turned#; s/epochs: 6/epochs: 1/" "$tmp/client.yaml" >"$tmp/turned.yaml"
client turned "$tmp/turned.yaml" --local --set model.weights="$tmp/remote/model.safetensors" || fail "turned: exit status $?"
grep -q "^WARN other-columns: model.weights was trained with .* from column 1 on, .* data.like: $tmp/remote/model.safetensors takes" "$tmp/turned.log" || fail "turned: $(cat "$tmp/turned.log")"
client taken "$tmp/turned.yaml" --local --set model.weights="$tmp/remote/model.safetensors" --set data.like="$tmp/remote/model.safetensors" || fail "data.like: exit status $?"
! grep -q WARN "$tmp/taken.log" || fail "columns that are taken over: $(cat "$tmp/taken.log")"
for other in train.schedule.warmup_epochs=0.5 train.label_smoothing=0.1; do
	group=rates-${#other} pair --set data.like="$tmp/remote/model.safetensors" --set data.ignore=nothing* --set $other
	[ $ended = 78 ] && grep -q "learning rate, schedule, loss or division of the data is not that of group rates" "$tmp"/rates-${#other}-?.log || fail "a member with $other: $ended, $(tail -n 2 "$tmp"/rates-${#other}-?.log)"
done
refused 78 'one output has no classes: for a yes/no label' --set model.classes=1
refused 65 'has no columns: give about.json' --set data.like="$tmp/client.yaml"
like() { refused 78 "$1" --set data.like="$tmp/remote/model.safetensors" "${@:2}"; }
like 'data.ignore: the model'"'"'s file has the column "colour", which data.ignore leaves out' --set data.ignore=id,colour
like 'data.split.by: the model'"'"'s file has the column "colour", which data.split.by leaves out' --set data.ignore=id --set data.split.train=0.8 --set data.split.test=0.2 --set data.split.by=colour
like 'data.label: the model'"'"'s file has the column "noise" as a feature' --set data.label=noise --set model.classes=17 --set data.ignore=id

# A column that is called n* is left out by its name, so noise stays; an evaluation sees it so, too.
mkdir "$tmp/starred"
for part in train test; do sed '1s/^id,/n*,/' "$tmp/table/$part.csv" >"$tmp/starred/$part.csv"; done
star=(--set data.dir="$tmp/starred" --set data.ignore=n*)
client star "$tmp/client.yaml" --local --set train.epochs=1 "${star[@]}" || fail "a column n*: exit status $?"
"$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/star" "${star[@]}" >"$tmp/out" 2>&1 || fail "eval, a column n*: $(cat "$tmp/out")"

refused 78 'model.features: csv has rows of 5 numbers, the model takes 7' --set model.features=7
refused 78 'model.classes: csv has 3 classes, the model only 2' --set model.classes=2
client more "$tmp/client.yaml" --local --set model.classes=4 --set train.epochs=1 || fail "more classes than there are: exit status $?"
grep -q '^WARN classes: model.classes is 4, and the training data have 3 classes: write model.classes: 3, ' "$tmp/more.log" || fail "$(grep WARN "$tmp/more.log")"
refused 65 "train.csv: no column \"label\" (data.label); the header names id, size, cm, colour, noise, kind" --set data.label=label
refused 65 'no column "x" (data.ignore)' --set data.ignore=x
refused 66 'train.csv: No such file' --set data.dir="$tmp"
refused 78 'the network takes pictures' --set model.name=mobilenet_v2 --set model.image=32
cp "$tmp/table/train.csv" "$tmp/whole"
sed -i -E '5s/,(green|red|blue),/,,/; 9s/,(green|red|blue),/,,/' "$tmp/table/train.csv"
refused 65 'train.csv:5: the cell of column "colour" is empty, and 1 below it; fill such cells, name the column in data.ignore, or set data.missing: mean'
# The error's advice works: an ignored column may have gaps, and with data.missing any column may except the label's.
refused 78 'model.features: csv has rows of 2 numbers, the model takes 5' --set data.ignore=id,colour
"$SPLITC" data "$tmp/client.yaml" --set data.missing=mean --json >"$tmp/out" 2>"$tmp/err" || fail "data with holes: $(cat "$tmp/err")"
jq -e '.features == 5' "$tmp/out" >"$tmp/said" && grep -q "INFO missing-cells: $tmp/table/train.csv: missing cells: 2; " "$tmp/err" || fail "holes: $(cat "$tmp/out" "$tmp/err")"
sed '9s/,[a-z]*$/,/' "$tmp/whole" >"$tmp/table/train.csv"
refused 65 'train.csv:9: the cell of column "kind" is empty; fill such cells, or leave the rows out' --set data.missing=mean
sed -E 's/,(green|red|blue),[0-9]*,/,\1,,/' "$tmp/whole" >"$tmp/table/train.csv"
refused 65 'train.csv: column "noise" has no number in the rows that train: name it in data.ignore' --set data.missing=mean
sed '9s/,[a-z]*$//' "$tmp/whole" >"$tmp/table/train.csv"
refused 65 'train.csv:9: 4 cells, where the header has 5'
tr , ';' <"$tmp/whole" | tr -d '"' >"$tmp/table/train.csv"
refused 65 'is one cell: set data.separator: semicolon'
sed '9s/^\([^,]*\),[^,]*/\1,NA/' "$tmp/table/test.csv" >"$tmp/table/val.csv"
cp "$tmp/whole" "$tmp/table/train.csv"
refused 65 "val.csv:9: column \"size, cm\": \"NA\" is no number, as all of training's are; data.missing: mean takes it for a missing cell"
rm "$tmp/table/val.csv"
# inputs that would be read differently from what their writer means
while IFS='|' read -r edit said; do
	LC_ALL=C sed "$edit" "$tmp/whole" >"$tmp/table/train.csv"
	refused 65 "$said"
done <<-'ROWS'
	1s/noise/colour/|train.csv:1: columns 3 and 4 are both called "colour": give one of them another name
	9s/,[a-z]*$/,NA/|train.csv:9: the cell of column "kind" is missing: NA; leave such rows out; if it is a class, give it another name
	9s/$/ /;10s/$/ /;11s/$/ /|are written in two ways: write them the same
	9s/,\([a-z]*\)$/,	\1/|are written in two ways: write them the same
	2,300s/,[a-z]*$/,0/;301,$s/,[a-z]*$/,1/;9s/0$/00/|the labels "0" and "00" are written in two ways: write them the same
	2,300s/,[a-z]*$/,0/;301,$s/,[a-z]*$/,1/;400s/1$/1e0/|the labels "1" and "1e0" are written in two ways: write them the same
	9s/,[a-z]*$/,<NA>/|train.csv:9: the cell of column "kind" is missing: <NA>; leave such rows out
	9s/,[0-9.]*,/,1e300,/|train.csv: column "size, cm" has numbers too large to compute its mean or deviation
	9s/red/\xe9/;9s/green/\xe9/;9s/blue/\xe9/|train.csv:9: the text is not UTF-8; of Latin-1, for instance, iconv -f latin1 -t utf-8 makes it
ROWS
sed '2,$s/,\([0-9]*\),\([a-z]*\)$/,0.1,\2/' "$tmp/whole" >"$tmp/table/train.csv"
sed '2,$s/,\([0-9]*\),\([a-z]*\)$/,0.2,\2/' "$tmp/table/test.csv" >"$tmp/table/val.csv"
client same "$tmp/client.yaml" --local || fail "a column of equal numbers: exit status $?"
sed -n 's/^test accuracy .* loss \([0-9.]*\).*/\1/p' "$tmp/same.log" | awk '{exit !($1 < 1)}' || fail "of equal numbers, rounding is no deviation: $(grep ^test "$tmp/same.log")"
rm "$tmp/table/val.csv"
sed '2,$s/,\([0-9.]*\),\([a-z]*\),/, \1 ,\2,/' "$tmp/whole" >"$tmp/table/train.csv"
"$SPLITC" data "$tmp/client.yaml" --set 'data.ignore=[i?]' --json >"$tmp/out" 2>"$tmp/err" || fail "blanks around numbers: $(cat "$tmp/err")"
jq -e '.features == 5' "$tmp/out" >"$tmp/said" || fail "blanks around numbers: $(cat "$tmp/out")"
# as many columns as there are genes
mkdir "$tmp/wide"
awk 'BEGIN {for (r = 0; r < 3; r++) {for (i = 0; i < 20000; i++) printf r ? "%.0s%d," : "gene %d,", i, i % 7 + r; print r ? r : "kind"}}' | tee "$tmp/wide/val.csv" >"$tmp/wide/train.csv"
"$SPLITC" data "$tmp/client.yaml" --set data.dir="$tmp/wide" --set 'data.ignore=gene 1*' --json >"$tmp/out" 2>"$tmp/err" || fail "many columns: $(cat "$tmp/err")"
jq -e '.features == 20000 - 11111' "$tmp/out" >"$tmp/said" || fail "many columns: $(cat "$tmp/out")"
cp "$tmp/whole" "$tmp/table/train.csv"
refused 78 'model.features: csv has rows of 603 numbers, the model takes 5' --set 'data.ignore="size, cm",noise'
# Texts that look the same are two, with a warning: of labels and of features. So are dates, each of which is a feature.
alike() { # SED SENTENCE
	sed "$1" "$tmp/whole" >"$tmp/table/train.csv"
	"$SPLITC" data "$tmp/client.yaml" >"$tmp/out" 2>"$tmp/err" || true
	grep -q "^WARN $2" "$tmp/err" || fail "$1: no $2 in $(cat "$tmp/err")"
}
alike '2,9s/,ripe$/,Ripe/;2,9s/,large$/,Large/;2,9s/,small$/,Small/' 'alike-texts: .*train.csv: labels: "[A-Z][a-z]*" and "[a-z]*" count as two'
alike '2,20s/,red,/,\xc2\xa0red,/' 'alike-texts: .*train.csv: colour: "red" and ".*red" count as two'
alike '2,20s/,red,/, red,/;2,20s/,blue,/,\xef\xbd\x82lue,/' 'alike-texts: .*train.csv: colour: .* (2 such pairs)'
awk -F, -v OFS=, 'NR > 1 {$3 = "2024-" int(NR / 3) "-x"} 1' "$tmp/whole" >"$tmp/dates"
cp "$tmp/dates" "$tmp/table/train.csv"
"$SPLITC" data "$tmp/client.yaml" >"$tmp/out" 2>"$tmp/err" || true
grep -q '^WARN column-of-texts: .*column "colour": 201 different texts, such as "2024-.*, are in 600 rows.* whom rows are of in data.split.by, .*, or name the column in data.ignore$' "$tmp/err" || fail "dates: $(cat "$tmp/err")"
# One text beside many numbers is taken as a mark for missing values.
sed '2,450s/,[0-9]*,\([a-z]*\)$/,#N\/A,\1/' "$tmp/whole" >"$tmp/table/train.csv"
"$SPLITC" data "$tmp/client.yaml" >"$tmp/out" 2>"$tmp/err" || fail "a column with #N/A: $?"
grep -q 'WARN column-of-words: .*column "noise": "#N/A" is no number, .*; data.missing: mean leaves such cells out' "$tmp/err" || fail "#N/A: $(cat "$tmp/err")"
"$SPLITC" data "$tmp/client.yaml" --set data.missing=mean --json 2>"$tmp/err" | jq -e '.features == 5' >"$tmp/out" || fail "#N/A is a missing cell: $(cat "$tmp/err")"
sed -i 's/#N.A/none here/' "$tmp/table/train.csv"
"$SPLITC" data "$tmp/client.yaml" >"$tmp/out" 2>"$tmp/err" || fail "a column with a mark: $?"
grep -q '"none here" is no number, .*; give a number here; if it stands for a missing one, leave the cell empty and set data.missing: mean' "$tmp/err" || fail "a mark: $(cat "$tmp/err")"
# One cell that is no number makes the column a text column.
sed '9s/^\([^,]*\),[^,]*/\1,NA/' "$tmp/whole" >"$tmp/table/train.csv"
"$SPLITC" data "$tmp/client.yaml" >"$tmp/out" 2>"$tmp/err" || fail "a column with NA: $?"
grep -q 'WARN column-of-words: .*train.csv:9: column "size, cm": "NA" is no number, but 599 of 600 cells are: .*; data.missing: mean leaves such cells out' "$tmp/err" || fail "NA: $(cat "$tmp/err")"
"$SPLITC" data "$tmp/client.yaml" --set data.missing=mean >"$tmp/out" 2>"$tmp/err" && ! grep 'column-of-words' "$tmp/err" || fail 'NA is a missing cell'
# With data.decimal: point a number with a comma is a word; with comma it is the number.
sed -i 's/ripe/2E1/' "$tmp/table/test.csv"
sed 's/ripe/2E1/; 2,$s/,\([0-9]*\)\.\([0-9]\),/,"\1,\2",/' "$tmp/whole" >"$tmp/table/train.csv"
"$SPLITC" data "$tmp/client.yaml" --set data.missing=mean >"$tmp/out" 2>"$tmp/err" || fail "decimal commas: $(cat "$tmp/err")"
grep -q 'WARN column-of-measures: .*column "size, cm": "[0-9]*,[0-9]" is no number, .* set data.decimal: comma; else write 1500' "$tmp/err" ||
	fail "decimal commas: $(cat "$tmp/err")"
sed -i '2,$s/,\([0-9]*\)\.\([0-9]\),/,"\1,\2",/' "$tmp/table/test.csv"
"$SPLITC" data "$tmp/client.yaml" --set data.decimal=comma --json 2>&1 | jq -e '.features == 5 and .classes[0].name == "2E1"' >"$tmp/out" || fail "data.decimal: comma: $(cat "$tmp/out")"
rows 600 700 >"$tmp/table/test.csv"
cp "$tmp/whole" "$tmp/table/train.csv"
"$SPLITC" data "$tmp/client.yaml" >"$tmp/out" 2>"$tmp/err" && ! grep 'column-of-words' "$tmp/err" || fail 'a warning without a reason'
sed -i '3s/green\|red\|blue/pink/' "$tmp/table/test.csv"
refused 65 'test.csv:3: column "colour": "pink" does not occur in training; data.missing: mean takes it for a missing cell'
"$SPLITC" data "$tmp/client.yaml" --set data.missing=mean >"$tmp/out" 2>"$tmp/err" || fail "an unknown text: $(cat "$tmp/err")"
grep -qx 'WARN unknown-texts: .*test.csv:3: column "colour": "pink" does not occur in training, and counts as a missing cell' "$tmp/err" || fail "unknown: $(cat "$tmp/err")"
rows 600 700 | sed '4s/^\([^,]*\),[0-9.]*/\1,big/' >"$tmp/table/test.csv"
refused 65 'test.csv:4: column "size, cm": "big" is no number, as all of training'
rows 600 700 | sed '1s/noise/other/' >"$tmp/table/test.csv"
refused 65 'test.csv:1: column 4 is "other", where train.csv has "noise"'
echo 'tables train, with a server and without; what is wrong with one is named by line and column'
