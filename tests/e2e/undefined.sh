#!/usr/bin/env bash
# A figure is a number, or undefined and said so: one cell of a test set is a raster's mark for "no data", and the network
# predicts NaN of it. Losses and metrics of an evaluation do not depend on its batches and chunks. Which weights an
# evaluation takes after train.keep_best. A sweep's columns.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh

# table FOLDER CELL: 60 rows to train, 20 to evaluate; the first feature of the fifth of these is CELL.
table() {
	mkdir -p "$tmp/$1"
	for part in train:0:60 val:60:80; do
		awk -F: -v cell="$2" -v part="$part" 'BEGIN {
			split(part, of, ":")
			print "a,b,c,y,z,few,many"
			for (i = of[2]; i < of[3]; i++) {
				a = (i * 37 % 101 - 50) / 15; b = (i * 53 % 89) / 20; c = i * 7 % 13
				printf "%s,%.3f,%d,%.4f,%.4f,%d,k%d\n", i == 64 ? cell : sprintf("%.3f", a), b, c, a + b / 2, b - a, (a > 1), (a > 1) + 2 * (b > 3)
			}
		}' >"$tmp/$1/${part%%:*}.csv"
	done
}
table holed -3.4028235e38
table sound 1.5
# config NAME TASK LABEL IGNORE KEYS
config() {
	cat >"$tmp/$1.yaml" <<-YAML
		model: {name: mlp, task: $2, features: 3, dropout: 0}
		data: {kind: csv, dir: $tmp/sound, label: $3, ignore: $4}
		train: {batch: 16, chunks: 2, epochs: 3, seed: 1, keep_best: true, optimizer: {kind: adam, lr: 0.03}, $5}
		threads: 1
		log: {dir: $tmp/$1}
	YAML
}
config numbers numbers '[y, z]' '[few, many]' 'best_metric: r2, metrics: [rmse, mae, r2, pearson, spearman]'
config classes classes many '[y, z, few]' 'best_metric: matthews, metrics: [matthews, f1, auc, average_precision, calibration_error]'
sed -i 's/features: 3/features: 3, classes: 4/' "$tmp/classes.yaml"
config labels labels '[few]' '[y, z, many]' 'metrics: [f1_micro, auc]'

run() { "$SPLITC" "$1" "$tmp/$2.yaml" --local "${@:3}" >"$tmp/out" 2>"$tmp/err"; }
says() { jq -e "$1" "$tmp/out" >"$tmp/said" || fail "$2: not $1: $(jq -c 'del(.directions)' "$tmp/out")"; }

# ---- undefined
holed=(--set data.dir="$tmp/holed")
why='NaN or Inf in the predictions of 1 of 20 samples'
for name in numbers classes; do
	run train $name "${holed[@]}" --json || fail "$name: exit status $?: $(cat "$tmp/err")"
	says '.test_loss == null and .test_acc == null and (.test_metrics | length >= 5 and all(.[]; . == null))' $name
	says ".test_undefined == \"$why\" and .best_step == null and (.best_metric | length > 0)" $name
	[ ! -e "$tmp/$name/best.safetensors" ] || fail "$name: weights are kept for a figure that is undefined"
	grep -q '^WARN best-undefined: best.safetensors was not written: ' "$tmp/err" || fail "$name: no word of best: $(cat "$tmp/err")"
	grep -qF "($why)" "$tmp/err" || fail "$name: an epoch does not say why: $(cat "$tmp/err")"
	jq -se 'map(select(.type == "epoch")) | length == 3 and all(.[]; .test_loss == null and all(.test_metrics[]; . == null))' \
		"$tmp/$name/log.jsonl" >"$tmp/said" || fail "$name: log.jsonl has figures"
	run eval $name "${holed[@]}" || fail "eval of $name: exit status $?"
	grep -qxF "undefined: $why" "$tmp/out" && grep -qE '^validation .*undefined' "$tmp/out" && ! grep -qiE '[^a-z]-?(nan|inf)[^a-z]' <(grep -v '^undefined' "$tmp/out") ||
		fail "eval of $name: $(cat "$tmp/out")"
	rc=0
	run predict $name "${holed[@]}" --csv || rc=$?
	[ $rc = 65 ] && [ "$(wc -l <"$tmp/out")" = 5 ] || fail "predict of $name: exit status $rc, $(wc -l <"$tmp/out") lines"
	grep -qE "^splitc: sample 4 \(.*val\.csv:6\): the network's outputs hold NaN or Inf" "$tmp/err" || fail "predict of $name: $(cat "$tmp/err")"
done
grep -q 'val.csv:6: column "a": "-3.4028235e38" is far from ' "$tmp/err" || fail "no word of the cell: $(cat "$tmp/err")"

# ---- any batch, any chunks
for of in numbers:mse numbers:l1 numbers:huber classes:labels labels:labels; do
	name=${of%:*}
	run train $name --fresh --json --set train.loss=${of#*:} || fail "$of: exit status $?: $(cat "$tmp/err")"
	says '.test_loss != null and .test_undefined == null and .best_step != null' $of
	jq -S '{test_loss, test_acc, test_metrics}' "$tmp/out" >"$tmp/first"
	for how in 1:1 3:3 7:2 64:1; do
		run eval $name --json --set train.loss=${of#*:} --set train.batch=${how%:*} --set train.chunks=${how#*:} || fail "$of, $how: $(cat "$tmp/err")"
		jq -e --slurpfile was "$tmp/first" 'def figures: [.test_loss, (.test_acc // 0), .test_metrics[]]; figures as $a | ($was[0] | figures) as $b
			| ($a | length) == ($b | length) and all(range($a | length); ($a[.] - $b[.]) | fabs < 1e-5)' \
			<(jq -S '{test_loss, test_acc, test_metrics}' "$tmp/out") >"$tmp/said" || fail "$of: batch:chunks $how: $(jq -c '{test_loss, test_acc, test_metrics}' "$tmp/out"), not $(jq -c . "$tmp/first")"
	done
done

# ---- the last weights, or the best
run train numbers --fresh --json --set train.optimizer.lr=0.3 --set train.epochs=12 || fail "numbers: exit status $?"
grep -qE '"lr":0\.3,' "$tmp/numbers/log.jsonl" || fail "more digits than the rate has: $(head -n 1 "$tmp/numbers/log.jsonl")"
best=$(jq .best_step "$tmp/out")
[ "$best" -lt "$(jq .steps "$tmp/out")" ] || fail 'the last weights are the best: the test needs others'
kept=$(jq -s --argjson step "$best" '.[] | select(.type == "epoch" and .steps == $step) | .test_metrics.r2' "$tmp/numbers/log.jsonl")
run eval numbers --json || fail 'eval'
says ".weights == {file: \"$tmp/numbers/model.safetensors\", step: 48} and .test_metrics.r2 < $kept" 'the last weights'
grep -qF "best.safetensors holds those after step $best, with r2 " "$tmp/err" || fail "eval does not tell of the best weights: $(cat "$tmp/err")"
run eval numbers --json --weights best || fail 'eval --weights best'
says ".weights == {file: \"$tmp/numbers/best.safetensors\", step: $best} and .test_metrics.r2 == $kept" 'the best weights'
! grep -q 'last-weights' "$tmp/err" || fail 'the best weights are called the last'
for command in predict export; do
	out=()
	[ $command = predict ] || out=("$tmp/$command.safetensors")
	"$SPLITC" $command "$tmp/numbers.yaml" "${out[@]}" $([ $command = export ] || echo --local) >"$tmp/out" 2>"$tmp/err" || fail "$command: $(cat "$tmp/err")"
	grep -qF -- '--weights best takes them' "$tmp/err" || fail "$command does not tell of the best weights: $(cat "$tmp/err")"
done
rc=0
run eval numbers --weights best --set log.dir="$tmp/nowhere" || rc=$?
[ $rc = 66 ] && grep -qF 'best.safetensors cannot be read: a run with train.keep_best writes it' "$tmp/err" || fail "no best weights: $rc: $(cat "$tmp/err")"

# ---- a sweep has the metrics
printf -- '- {name: plain}\n- {name: short, set: [train.epochs=1]}\n' >"$tmp/rows.yaml"
"$SPLITC" sweep "$tmp/classes.yaml" --codecs "$tmp/rows.yaml" --local --out "$tmp/sweep" >"$tmp/out" 2>"$tmp/err" || fail "sweep: $(cat "$tmp/err")"
head -n 1 "$tmp/sweep/sweep.csv" | grep -qF 'wire_rx_bytes,test_matthews,test_f1,test_auc,' || fail "columns: $(head -n 1 "$tmp/sweep/sweep.csv")"
f1=$(jq -s '.[-1].test_metrics.f1' "$tmp/sweep/row-02/log.jsonl")
[ "$(tail -n 1 "$tmp/sweep/sweep.csv" | awk -F, -v column="$(head -n 1 "$tmp/sweep/sweep.csv" | tr , '\n' | grep -nx test_f1 | cut -d: -f1)" '{print $column}')" = "$f1" ] ||
	fail "f1 is $f1: $(cat "$tmp/sweep/sweep.csv")"
grep -qE '^    matthews [-0-9.]+, f1 [0-9.]+, auc ' "$tmp/out" || fail "a row without its metrics: $(cat "$tmp/out")"
echo 'figures are numbers, or undefined with a reason'
