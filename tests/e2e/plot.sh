#!/usr/bin/env bash
# `splitc plot`: the curves of a real run, of an unfinished one, and of a long one, whose steps are averaged in groups;
# and errors for files that are not logs.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 56 24
write_config "$tmp/client.yaml"
client run "$tmp/client.yaml" --local --set train.epochs=3 || fail "training: exit status $?"

# plot STATUS OUT [argument]…: runs splitc plot in $tmp; its output goes to $tmp/plot.log.
plot() {
	local status=$1 out=$2 rc=0
	shift 2
	(cd "$tmp" && "$SPLITC" plot --out "$out" "$@") >"$tmp/plot.log" 2>&1 || rc=$?
	[ $rc = "$status" ] || fail "plot $*: exit status $rc, not $status"
}
says() { grep -q -- "$1" "$tmp/plot.log" || fail "no word on '$1'"; }
# points NAME FILE: the number of points in a data block of the script
points() { awk -v at="\$$1" '$1 == at {on = 1} $1 == "EOD" {on = 0} on' "$tmp/$2" | grep -cE '^([0-9.e+-]+ ){4}[0-9.e+-]+$'; }

plot 0 run.gp first=run run/log.jsonl
[ "$(points training run.gp)" = 24 ] || fail "$(points training run.gp) steps of two runs, not 24"
[ "$(points accuracy run.gp)" = 6 ] && [ "$(points bytes run.gp)" = 6 ] || fail 'not six epochs'
grep -q '^set label "first" at first ' "$tmp/run.gp" && grep -q '^set label "run" at first ' "$tmp/run.gp" || fail 'the runs have no names'
says '^first  *3  *12 '
acc=$(jq -s '[.[] | select(.type == "epoch")][-1].test_acc' "$tmp/run/log.jsonl")
bytes=$(jq -s '[.[] | select(.type == "epoch") | .wire_tx_bytes + .wire_rx_bytes] | add' "$tmp/run/log.jsonl")
plot 0 run.gp run --json
jq -e --argjson acc "$acc" --argjson bytes "$bytes" '.schema == 1 and .out == "run.gp" and (.runs | length) == 1 and
	.runs[0].test_acc == $acc and .runs[0].wire_bytes == $bytes and .runs[0].steps == 12' "$tmp/plot.log" >"$tmp/jq.log" ||
	fail 'the JSON is not what the log says'

# Runs of the same name cannot be told apart.
mkdir "$tmp/other"; cp -r "$tmp/run" "$tmp/other/"
plot 64 x.gp run other/run
says "two runs are named 'run' in the picture: give them names, such as first=run"
plot 64 x.gp run run=other/run
# Runs of one given name are one curve, their mean, with a band from the least to the largest; the curve is smoothed.
for seed in 1 2 3; do
	mkdir "$tmp/seed-$seed"
	for step in 1 2 3 4; do
		echo "{\"type\":\"step\",\"step\":$step,\"loss\":$((seed * step * step))}"
		[ $step = 2 ] || echo "{\"type\":\"epoch\",\"epoch\":$step,\"steps\":$step,\"test_loss\":$((seed + step)),\"test_acc\":null,\"test_metrics\":{\"rmse\":0.$seed$step,\"odd'name\":1}}"
	done >"$tmp/seed-$seed/log.jsonl"
done
plot 0 band.gp s=seed-1 s=seed-2 s=seed-3 other=seed-1
block() { awk -v at="\$$1" '$1 == at {on = 1} $1 == "EOD" {on = 0} on && /^[0-9]/' "$tmp/band.gp" | tr '\n' ' '; }
[ "$(block loss)" = '1 3 2 4 3 3 5 4 6 5 4 6 5 7 6 1 2 2 2 2 3 4 4 4 4 4 5 5 5 5 ' ] || fail "the band: $(block loss)"
[ "$(block rmse)" = '1 0.21 0.11 0.31 0.21 3 0.23 0.13 0.33 0.23 4 0.24 0.14 0.34 0.24 1 0.11 0.11 0.11 0.11 3 0.13 0.13 0.13 0.13 4 0.14 0.14 0.14 0.14 ' ] || fail "a metric: $(block rmse)"
[ "$(block training | cut -d ' ' -f 1-10 )" = '1 2 1 3 2 2 8 2.57894737 7.73684211 5.15789474' ] || fail "the smoothed loss: $(block training)"
[ "$(grep -c ' with filledcurves ' "$tmp/band.gp")" = 3 ] || fail 'no band'
# all: what has values, and each metric; none has an accuracy, or bytes
[ "$(sed -n "s/^set title '\(.*\)'$/\1/p" "$tmp/band.gp" | tr '\n' ';')" = 'Training loss;Loss, evaluation;rmse, evaluation;' ] || fail "the figures: $(grep 'set title' "$tmp/band.gp")"
plot 0 one.gp s=seed-1 --figure rmse
! grep -q filledcurves "$tmp/one.gp" || fail 'a band of one run'
plot 64 x.gp s=seed-1 --figure top5
says "none of: all, training, loss, accuracy, bytes, rmse$"
# A member that joined late has no first epochs; with train.eval_every not each epoch has an evaluation.
mkdir "$tmp/late"
for epoch in 3 4 5; do
	echo "{\"type\":\"step\",\"step\":$((4 * epoch)),\"loss\":1}"
	echo "{\"type\":\"epoch\",\"epoch\":$epoch,\"steps\":$((4 * epoch)),\"test_acc\":$([ $epoch = 5 ] && echo null || echo 0.$epoch)}"
done >"$tmp/late/log.jsonl"
plot 0 late.gp late --figure accuracy
[ "$(awk '/^\$accuracy/ {on = 1} /^EOD/ {on = 0} on && /^[0-9]/ {print $1, $2}' "$tmp/late.gp" | tr '\n' ' ')" = '3 30 4 40 ' ] || fail "epochs of a late member: $(cat "$tmp/late.gp")"
says '^late  *3  *20  *40.00  *40.00 '

# 3,000 steps of loss 1, then 3,000 of loss 3: the plot has few points, which are the means.
mkdir "$tmp/long"
awk 'BEGIN {for (i = 1; i <= 6000; i++) printf "{\"type\":\"step\",\"step\":%d,\"loss\":%d}\n", i, i <= 3000 ? 1 : 3}' >"$tmp/long/log.jsonl"
printf '{"type":"step","step":60' >>"$tmp/long/log.jsonl" # a line that is being written
plot 0 long.gp long --figure training
n=$(points training long.gp)
[ "$n" -ge 200 ] && [ "$n" -le 400 ] || fail "$n points of 6,000 steps"
awk '/^\$training/ {on = 1} on && NF == 5 && $1 + 0 > 0 {sum += $2; n++; if ($2 < 1 || $2 > 3) bad = 1}
	END {exit bad || sum / n < 1.95 || sum / n > 2.05}' "$tmp/long.gp" || fail 'the means are not those of the steps'

# A name may have any letters; the picture's name may be no UTF-8, and JSON is JSON all the same.
plot 0 run.gp "größe \"1\"=run" --figure training
grep -q '^set label "größe _1_" at first .* tc lt 1 noenhanced$' "$tmp/run.gp" || fail 'a name has lost its letters'
plot 0 $'\377.gp' run --json
jq -e '.out == "?.gp"' "$tmp/plot.log" >"$tmp/jq.log" || fail "no JSON: $(cat "$tmp/plot.log")"
# Of many runs the names beside the curves are apart.
plot 0 run.gp {a,b,c,d,e,f,g,h,i}=run --figure loss
sed -n 's/^set label .* graph \([0-9.]*\) offset.*/\1/p' "$tmp/run.gp" | awk 'NR > 1 && $1 - last < 0.059 {exit 1} {last = $1} END {exit NR != 9 || last > 1}' ||
	fail "the names of nine runs: $(grep 'set label' "$tmp/run.gp")"

# Losses that are large, and equal or nearly so: a range of its own, which gnuplot neither warns of nor refuses.
made() { # FOLDER LOSS…: a run of one step, with an evaluation for each loss
	local n=0 loss
	mkdir "$tmp/$1"
	echo "{\"type\":\"step\",\"step\":1,\"loss\":$2}" >"$tmp/$1/log.jsonl"
	for loss in "${@:2}"; do
		n=$((n + 1))
		echo "{\"type\":\"epoch\",\"epoch\":$n,\"steps\":1,\"test_loss\":$loss,\"test_acc\":0.5,\"wire_tx_bytes\":9}" >>"$tmp/$1/log.jsonl"
	done
}
made large 5.9231255266e12
made near 1.00000000001 1
plot 0 run.gp large
grep -qF 'set yrange [5.33081297e+12:6.51543808e+12]' "$tmp/run.gp" || fail "the range of a large loss: $(grep yrange "$tmp/run.gp")"

# pictures
pictures='no gnuplot here'
if command -v gnuplot >/dev/null; then
	for run in large near; do
		plot 0 run.png $run
		! grep -i warning "$tmp/plot.log" || fail "gnuplot warns of $run"
	done
	# a full disk, of which gnuplot says nothing
	echo before >"$tmp/full.png"
	rc=0
	(cd "$tmp" && ulimit -f 4 && exec "$SPLITC" plot --out full.png large --figure loss) >"$tmp/plot.log" 2>&1 || rc=$?
	[ $rc = 74 ] && [ "$(cat "$tmp/full.png")" = before ] || fail "a picture that is not whole: status $rc"
	says 'full.png.part: gnuplot has not written it completely'
	for out in all.png all.svg; do
		plot 0 $out run long
		[ -s "$tmp/$out" ] || fail "$out is empty"
	done
	[ "$(head -c 4 "$tmp/all.png" | tail -c 3)" = PNG ] || fail 'all.png is no PNG'
	grep -q '<svg' "$tmp/all.svg" || fail 'all.svg is no SVG'
	! grep -i warning "$tmp/plot.log" || fail 'gnuplot warns'
	cp "$tmp/all.png" "$tmp/before.png"
	mkdir "$tmp/all.png.part"
	plot 74 all.png run
	cmp "$tmp/all.png" "$tmp/before.png" || fail 'a failure has changed the picture'
	pictures='with pictures'
fi

# The figures of an evaluation: the area below the ROC points is the reported AUC.
"$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/run" --json >"$tmp/eval.json" 2>"$tmp/eval.log" || fail "eval: $(cat "$tmp/eval.log")"
jq -e '(.calibration | length == 15 and (map(.samples) | add) == 24) and (.roc | length == 10) and
	all(.roc[] | select(.points != []); .points[0] == [0, 0] and .points[-1] == [1, 1] and
	(. as $c | [range(1; .points | length) as $i | ($c.points[$i][0] - $c.points[$i - 1][0]) *
	($c.points[$i][1] + $c.points[$i - 1][1]) / 2] | add - $c.auc | fabs < 1e-12))' "$tmp/eval.json" >"$tmp/jq.log" ||
	fail "the figures of an evaluation: $(cat "$tmp/eval.json")"
# a class without samples has no curve
"$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/run" --set data.test_limit=5 --json 2>"$tmp/eval.log" |
	jq -e '[.roc[] | select(.points == [])] | length >= 5 and all(.[]; .auc == null)' >"$tmp/jq.log" || fail 'an area of a class without samples'
plot 0 eval.gp eval.json
[ "$(grep -cE '^set title .(Confusion matrix of 24 samples|ROC curves|Calibration of 24 samples)' "$tmp/eval.gp")" = 3 ] || fail 'not three figures'
grep -q "'airplane' 0, 'automobile' 1" "$tmp/eval.gp" || fail 'classes have no names'
if command -v gnuplot >/dev/null; then
	plot 0 eval.png eval.json --figure roc --json
	jq -e '.out == "eval.png" and .runs == []' "$tmp/plot.log" >"$tmp/jq.log" && [ -s "$tmp/eval.png" ] || fail 'no picture of an evaluation'
fi
jq 'del(.roc)' "$tmp/eval.json" >"$tmp/no_roc.json"
plot 65 x.gp no_roc.json
says 'no_roc.json: it has no ROC curves: it must be of at most 20 classes; --figure confusion and'
jq 'del(.classes, .confusion, .roc, .calibration)' "$tmp/eval.json" >"$tmp/wide.json"
plot 65 x.gp wide.json
says 'it has no confusion matrix: it must be of at most 200 classes'
# Names of 100 classes have room for every third; long ones that begin alike can be told apart.
jq -n '[range(100)] | {classes: map("an equal beginning, and \(.)"), confusion: map([range(100)])}' >"$tmp/many.json"
plot 0 many.gp many.json --figure confusion
grep -q "^set xtics .* font ',8' ('0 an equal beginning…' 0, '3 an equal beginning…' 3, .*'99 an equal beginning…' 99)$" "$tmp/many.gp" ||
	fail "the names of many classes: $(grep xtics "$tmp/many.gp")"
jq '.confusion[3] |= map(-.)' "$tmp/eval.json" >"$tmp/bad.json"
plot 65 x.gp bad.json --figure confusion
says 'this is no evaluation of classes; `splitc eval CONFIG --json` writes one'
plot 64 x.gp eval.json run
says 'one evaluation at a time'
plot 64 x.gp run --figure roc
says '--figure roc is of an evaluation'
plot 64 x.gp eval.json --figure loss
says 'none of: all, confusion, roc, calibration'

# inputs that cannot be drawn
plot 66 x.gp nowhere
says "a run's log.dir, or its log.jsonl"
echo 'epoch,loss' >"$tmp/x.csv"
plot 65 x.gp x.csv
says 'x.csv:1: not a line'
: >"$tmp/empty"
plot 65 x.gp empty
says 'has no steps yet'
plot 64 x.pdf run
says 'must end in .png, .svg or .gp'
plot 64 x.gp run --figure pie
says 'none of: all, training'
plot 64 x.gp
says 'missing argument'
[ ! -e "$tmp/x.gp" ] || fail 'a script was written all the same'
echo "curves of runs, long ones too, $pictures"
