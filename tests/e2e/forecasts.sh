#!/usr/bin/env bash
# A pattern in data.label names many columns of a table, such as the 96 steps of a forecast: a run with a server equals
# --local; the figures, the model's file and predictions have every column; a file with other columns or another order
# of them is read by name; what does not fit is refused with a sentence.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
# rows FROM TO N: six numbers of the past, and N of the future
rows() {
	awk -v from="$1" -v to="$2" -v n="$3" 'BEGIN {
		printf "id"; for (k = 0; k < 6; k++) printf ",x_%d", k; for (k = 0; k < n; k++) printf ",y_%d", k; print ""
		for (t = from; t < to; t++) {
			printf "row-%d", t
			for (k = 0; k < 6 + n; k++) printf ",%.4f", sin((t + k) / 5)
			print ""
		}
	}'
}
for n in 96 1025; do
	mkdir "$tmp/$n"
	rows 0 200 $n >"$tmp/$n/train.csv"
	rows 200 260 $n >"$tmp/$n/val.csv"
done
start_server one
cat >"$tmp/plan.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, task: numbers, features: 6, classes: 96}
	data: {kind: csv, dir: $tmp/96, label: 'y_*', ignore: [id]}
	train: {batch: 20, chunks: 2, epochs: 6, seed: 1, checkpoint_every: 10, keep_best: true, optimizer: {kind: adam, lr: 0.01}}
	threads: 1
YAML
as_local linked local 60 "$tmp/plan.yaml" --json
killed_client 25 linked "$tmp/plan.yaml"
tail -n 1 "$tmp/local.log" | jq -e '.test_metrics.r2 > 0.9 and (.targets | map(.name)) == [range(96) | "y_\(.)"]' >"$tmp/out" || fail "figures: $(tail -n 1 "$tmp/local.log")"
jq -e '(.classes | length) == 96 and all(.columns[].name; startswith("x_"))' "$tmp/local/about.json" >"$tmp/out" || fail 'about.json lacks columns'

# People see ten lines, and how many more there are.
on() { "$SPLITC" "$1" "$tmp/plan.yaml" --local --set log.dir="$tmp/linked" "${@:2}" 2>"$tmp/err"; }
on eval >"$tmp/eval" || fail "eval: $(cat "$tmp/err")"
grep -q ' and 86 more, of which --json has the metrics$' "$tmp/eval" && [ "$(grep -cE ' y_[0-9]+$' "$tmp/eval")" = 10 ] || fail "eval: $(cat "$tmp/eval")"
on predict >"$tmp/text" || fail "predict: $(cat "$tmp/err")"
head -n 1 "$tmp/text" | grep -q 'y_9 .*(86 more: --csv, --json)  name$' && ! head -n 1 "$tmp/text" | grep -q y_10 || fail "predict: $(head -n 2 "$tmp/text")"
[ "$(on predict --csv | head -n 1 | tr , '\n' | grep -c '^predicted_y_')" = 96 ] || fail 'CSV lacks columns'
on predict --json >"$tmp/known" || fail "predict: $(cat "$tmp/err")"
jq -se 'all(.[]; (.numbers | length) == 96 and (.predicted | length) == 96)' "$tmp/known" >"$tmp/out" || fail 'JSON lacks columns'

# The model knows its columns: another file may have them in another order, with others beside them.
mkdir "$tmp/other"
awk -F, '{ printf "%s,%s", (NR > 1 ? 7 : "y_late"), $1; for (k = NF; k > 1; k--) printf ",%s", $k; print "" }' "$tmp/96/val.csv" >"$tmp/other/val.csv"
cp "$tmp/other/val.csv" "$tmp/other/train.csv"
on predict --json --set data.dir="$tmp/other" | jq -c '[.numbers, .predicted]' | cmp - <(jq -c '[.numbers, .predicted]' "$tmp/known") || fail "other places of the columns: $(cat "$tmp/err")"
cut -d, -f2-7 "$tmp/96/val.csv" >"$tmp/new.csv"
"$SPLITC" export "$tmp/plan.yaml" "$tmp/plan.safetensors" --set log.dir="$tmp/linked" >"$tmp/export.log" 2>&1 || fail "export: $(cat "$tmp/export.log")"
on predict --json --weights "$tmp/plan.safetensors" --set data.dir="$tmp/nowhere" --set log.dir= "$tmp/new.csv" | jq -c .predicted | cmp - <(jq -c .predicted "$tmp/known") ||
	fail "without the table: $(cat "$tmp/err")"

# init counts them.
"$SPLITC" init "$tmp/made.yaml" --data "csv:$tmp/96" --set data.label='y_*' --set model.task=numbers >"$tmp/out" 2>"$tmp/err" || fail "init: $(cat "$tmp/err")"
grep -q 'The labels are 96 columns; the other columns make 6 features' "$tmp/out" && grep -q 'classes: 96' "$tmp/made.yaml" || fail "init: $(cat "$tmp/out" "$tmp/made.yaml")"

config=$tmp/plan.yaml refused 78 'names 96 columns, and the network has 97 outputs: they must be as many, as with model.classes: 96' --set model.classes=97
config=$tmp/plan.yaml refused 65 'no column "z_*" (data.label)' --set data.label='z_*'
config=$tmp/plan.yaml refused 65 'data.label: names more than 1024 columns of ' --set data.dir="$tmp/1025" --set model.classes=1025
config=$tmp/plan.yaml refused 65 'no column "y_*" (data.label)' --set model.task=classes
echo 'a pattern names the columns of a forecast'
