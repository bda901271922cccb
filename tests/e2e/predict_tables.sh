#!/usr/bin/env bash
# From a table to predictions on rows without labels: train and predict, after the training data were removed. Means,
# deviations and the codes of texts come with the model. Predictions equal those of the same rows with labels, to the
# last bit. PyTorch computes the same from the export alone, as docs/howto-predict.md says.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/table" "$tmp/new"
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
rows 0 300 >"$tmp/table/train.csv"
rows 300 340 >"$tmp/table/test.csv"
start_server one
cat >"$tmp/fruit.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 5, classes: 3}
	data: {kind: csv, dir: $tmp/table, label: kind, ignore: [id]}
	train: {batch: 32, chunks: 2, epochs: 2, seed: 1, optimizer: {kind: adam, lr: 0.01}}
	threads: 1
	log: {dir: $tmp/run}
YAML
"$SPLITC" train "$tmp/fruit.yaml" --set control="$tmp/run.sock" >"$tmp/train.log" 2>&1 || fail 'train'
predict() {
	local out=$1
	shift
	timeout -k 5 $patience "$SPLITC" predict "$tmp/fruit.yaml" "$@" >"$tmp/$out" 2>"$tmp/predict.log" || fail "predict $*: exit status $?"
}
predict labelled --json
jq -se 'map(.class_name) | unique | . - ["large", "ripe", "small"] == []' "$tmp/labelled" >"$tmp/out" || fail "no names: $(head -n 1 "$tmp/labelled")"
"$SPLITC" export "$tmp/fruit.yaml" "$tmp/model.safetensors" >"$tmp/export.log" 2>&1 || fail 'export'
# without the label and an ignored column, and with the others in another order
awk -F, -v OFS=, 'NR == 1 {print "noise,colour,extra,\"size, cm\""; next} {print $4, $3, "", $2}' "$tmp/table/test.csv" >"$tmp/new/patients.csv"
rm -r "$tmp/table"
same='{class, class_name, probabilities}'
equals() { diff <(jq -c "$same" "$tmp/labelled") <(jq -c "$same" "$tmp/$1") >"$tmp/out" || fail "$1 differs: $(head -n 3 "$tmp/out")"; }
predict linked --json "$tmp/new/patients.csv"
equals linked
jq -se --arg file "$tmp/new/patients.csv" '.[0].name == $file + ":2" and .[39].name == $file + ":41"' "$tmp/linked" >"$tmp/out" ||
	fail "names: $(head -n 1 "$tmp/linked")"
predict exported --json --local --weights "$tmp/model.safetensors" "$tmp/new/patients.csv"
equals exported
predict piped --json --local - <"$tmp/new/patients.csv"
equals piped

# refused SENTENCE: predicting the rows of $tmp/new/bad.csv fails with SENTENCE.
refused() {
	local status=0
	"$SPLITC" predict "$tmp/fruit.yaml" --local "$tmp/new/bad.csv" >"$tmp/out" 2>&1 || status=$?
	[ $status = 65 ] && grep -qF -- "$1" "$tmp/out" || fail "$1: exit status $status, $(cat "$tmp/out")"
}
cut -d, -f 1,2 "$tmp/new/patients.csv" >"$tmp/new/bad.csv"
refused 'no column "size, cm" (training has it); the header names noise, colour'
sed '3s/,[a-z]*,/,pink,/' "$tmp/new/patients.csv" >"$tmp/new/bad.csv"
refused 'bad.csv:3: column "colour": "pink" does not occur in training'
sed '4s/,[0-9.]*$/,/' "$tmp/new/patients.csv" >"$tmp/new/bad.csv"
refused 'bad.csv:4: the cell of column "size, cm" is empty'

# Missing cells: a number becomes its column's training mean, and a text no category. The model's file says that cells
# may be missing.
mkdir "$tmp/table"
rows 0 300 | sed -E '5~7s/^([^,]*),[^,]*,/\1,,/; 6~9s/,(red|green|blue),/,NA,/' >"$tmp/table/train.csv"
rows 300 340 >"$tmp/table/test.csv"
sed "s#^log: .*#log: {dir: $tmp/run-holes}#; s/ignore: \[id\]/ignore: [id], missing: mean/" "$tmp/fruit.yaml" >"$tmp/holes.yaml"
"$SPLITC" train "$tmp/holes.yaml" --local >"$tmp/train.log" 2>&1 || fail "train with holes: $(tail -n 2 "$tmp/train.log")"
rm -r "$tmp/table"
mean=$(jq '.columns[] | select(.name == "size, cm").mean' "$tmp/run-holes/about.json")
awk -v mean="$mean" 'BEGIN {exit !(mean > 4 && mean < 6)}' || fail "the mean of the cells that are there is $mean"
printf 'colour,noise,"size, cm"\nred,3,\n,3,2\npink,3,2\nblue,null,?\n' >"$tmp/new/holes.csv"
printf 'colour,noise,"size, cm"\nred,3,%s\nNaN,3,2\n,3,2\nblue,%s,%s\n' "$mean" "$(jq '.columns[] | select(.name == "noise").mean' "$tmp/run-holes/about.json")" "$mean" >"$tmp/new/filled.csv"
for file in holes filled; do
	"$SPLITC" predict "$tmp/holes.yaml" --local --json --set data.missing=refuse "$tmp/new/$file.csv" >"$tmp/$file" 2>"$tmp/$file.log" || fail "predict $file: $(cat "$tmp/$file.log")"
done
diff <(jq -c "$same" "$tmp/holes") <(jq -c "$same" "$tmp/filled") || fail 'a missing cell is not the mean'
[ "$(jq -c .probabilities "$tmp/holes" | sort -u | wc -l)" = 3 ] || fail "rows that differ are predicted alike: $(cat "$tmp/holes")"
grep -q 'WARN unknown-texts: .*holes.csv:4: column "colour": "pink" does not occur in training' "$tmp/holes.log" || fail "pink: $(cat "$tmp/holes.log")"

# another program, with the snippet of the page
python=/usr/bin/python3
if [ -n "${SPLIT_QUICK:-}" ]; then # PyTorch takes seconds to begin
	echo 'rows without labels are predicted as those with labels, where the training data are gone'
	exit 0
fi
if ! "$python" -c 'import torch' 2>"$tmp/torch.log"; then
	echo 'predicted as with labels; no PyTorch here for the snippet'
	exit 77
fi
sed -n '/^```python$/,/^```$/p' docs/howto-predict.md | sed '/^```/d' >"$tmp/snippet.py"
[ "$(wc -l <"$tmp/snippet.py")" -ge 15 ] || fail 'docs/howto-predict.md has no snippet'
(cd "$tmp" && cp new/patients.csv patients.csv && "$python" snippet.py >"$tmp/torch.out" 2>"$tmp/torch.log") || fail 'the snippet ends with an error'
diff <(jq -r .class_name "$tmp/labelled") <(cut -d ' ' -f 1 "$tmp/torch.out") >"$tmp/out" || fail "PyTorch says $(head -n 3 "$tmp/out")"
paste <(jq '.probabilities | max' "$tmp/labelled") <(cut -d ' ' -f 2 "$tmp/torch.out") |
	awk '{d = $1 - $2; if (d > 1e-5 || d < -1e-5) {print "row " NR ": " $0; bad = 1}} END {exit bad}' >"$tmp/out" || fail "PyTorch: $(cat "$tmp/out")"
echo 'rows without labels are predicted as those with labels, where the training data are gone, also by PyTorch'
