#!/usr/bin/env bash
# data.split.folds with splitc sweep: each row runs once per fold; mean and deviation are those of the runs' own
# summaries. No patient is in two validation sets, and no test patient in any. Also together with a list of rows. Then
# --lr-range: one run whose learning rate grows by a constant factor, with a server as in one process; its curve, and a
# suggestion by the rule on the page. Invalid ranges are refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/table"
awk 'BEGIN {
	print "patient,size,noise,kind"
	for (i = 0; i < 400; i++) { size = i * 37 % 101; print "p" i * 7 % 80 "," size "," i * 13 % 17 "," (size > 50 ? "large" : "small") }
}' >"$tmp/table/train.csv"
start_server one
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 2, classes: 2}
	data: {kind: csv, dir: $tmp/table, label: kind, split: {folds: 4, test: 0.2, by: patient}}
	train: {batch: 16, chunks: 1, seed: 1, epochs: 2, metrics: [auc], optimizer: {kind: adam, lr: 0.01}}
	threads: 1
YAML
sweep() { "$SPLITC" sweep "$tmp/client.yaml" --out "$tmp/$1" --set control="$tmp/sweep.sock" "${@:2}" >"$tmp/$1.log" 2>&1; }
sweep remote || fail "with a server: status $?"
sweep local --local || fail "--local: status $?"
! grep -i warning "$tmp/local.log" || fail "gnuplot warns of rates that are equal"
cmp "$tmp/remote/folds.csv" "$tmp/local/folds.csv" || fail 'a server makes other folds'
[ "$(ls -d "$tmp"/remote/row-* | wc -l)" = 4 ] || fail 'not four runs'
/usr/bin/python3 - "$tmp/remote" <<-'PY' || fail "$(cat "$tmp/remote/folds.csv")"
	import csv, glob, json, statistics, sys
	last = [json.loads(open(f).readlines()[-1]) for f in sorted(glob.glob(sys.argv[1] + "/row-*/log.jsonl"))]
	said = {r["metric"]: r for r in csv.DictReader(open(sys.argv[1] + "/folds.csv"))}
	of = {"accuracy": lambda s: s["test_acc"], "loss": lambda s: s["test_loss"], "auc": lambda s: s["test_metrics"]["auc"]}
	for name, value in of.items():
	    x = [value(s) for s in last]
	    assert said[name]["folds"] == "4" and len(set(x)) > 1 - (name != "loss"), (name, x)
	    assert abs(float(said[name]["mean"]) - statistics.mean(x)) < 1e-7, name
	    assert abs(float(said[name]["deviation"]) - statistics.stdev(x)) < 1e-7, name
	# what validates in one fold trains in the others
	split = [[int(l.split()[2]) for l in open(f) if l.startswith("INFO data-split")] for f in sorted(glob.glob(sys.argv[1] + "/row-*/stderr.log"))]
	assert len({sum(s) for s in split}) == 1 and sum(s[1] for s in split) == sum(split[0]), split
PY
grep -q '^folds: mean and deviation of 4 of 4 folds$' "$tmp/remote.log" && grep -q '^    accuracy  *[0-9.]* ± [0-9.]*$' "$tmp/remote.log" || fail 'the table'
printf -- '- {name: slow, set: [train.optimizer.lr=0.001]}\n- {name: fast}\n' >"$tmp/rows.yaml"
sweep rows --local --codecs "$tmp/rows.yaml" --set data.split.folds=2 || fail "two rows: status $?"
[ "$(grep -c ,accuracy,2, "$tmp/rows/folds.csv")" = 2 ] && [ "$(ls -d "$tmp"/rows/row-* | wc -l)" = 4 ] || fail "two rows: $(cat "$tmp/rows/folds.csv")"
grep -q '^slow,.*train.optimizer.lr=0.001 data.split.fold=1,' "$tmp/rows/sweep.csv" || fail "two rows: $(cat "$tmp/rows/sweep.csv")"
# Rows of one name differ in their chunks: in folds.csv, in the table and in the pictures, which have the means of the
# folds. --force leaves no table or picture of the earlier sweep.
printf -- '- {name: x}\n- {name: x, chunks: 2}\n' >"$tmp/rows.yaml"
: >"$tmp/rows/peak_bandwidth.png"
sweep rows --local --codecs "$tmp/rows.yaml" --set data.split.folds=2 --force || fail "chunks: status $?"
[ "$(grep -cE '^x,accuracy,2,[0-9.]*,[0-9.e-]*,[12]$' "$tmp/rows/folds.csv")" = 2 ] && grep -q '^x, chunks 2: mean and deviation of 2 of 2 folds$' "$tmp/rows.log" || fail "chunks: $(cat "$tmp/rows/folds.csv")"
[ ! -e "$tmp/rows/peak_bandwidth.png" ] || fail 'a picture of the earlier sweep'
/usr/bin/python3 - "$tmp/rows" <<-'PY' || fail "the time of folds: $(cat "$tmp/rows/time_per_batch.gp")"
	import csv, sys
	t = {c: [float(r["t_per_batch_s"]) for r in csv.DictReader(open(sys.argv[1] + "/sweep.csv")) if r["chunks"] == c] for c in "12"}
	drawn = [l.split() for l in open(sys.argv[1] + "/time_per_batch.gp") if l[:2] in ("1 ", "2 ")]
	assert [p[0] for p in drawn] == ["1", "2"] and all(len(t[c]) == 2 and abs(float(y) / (sum(t[c]) / 2) - 1) < 1e-4 for c, y in drawn), (t, drawn)
PY
sweep rows --local --codecs "$tmp/rows.yaml" --set data.split.folds=0 --set data.split.train=0.8 --set data.split.val=0.2 --set data.split.test=0 --force || fail "no folds: status $?"
grep -q '^WARN earlier-rows: .*row-03 and later ones are an earlier' "$tmp/rows.log" || fail "rows of the earlier sweep: $(cat "$tmp/rows.log")"
[ ! -e "$tmp/rows/folds.csv" ] || fail 'folds of the earlier sweep'
# A fold of one class has no area below a curve: it is not in that mean, and the table says so.
mkdir "$tmp/one"
awk -F, 'NR > 1 {$4 = $1 == "p7" || $1 == "p8" ? "small" : "large"} {print $1 "," $2 "," $3 "," $4}' "$tmp/table/train.csv" >"$tmp/one/train.csv"
sweep one_class --local --set data.dir="$tmp/one" --set data.split.test=0 --set data.split.folds=3 || fail "one class: status $?"
grep -q '^folds,auc,2,' "$tmp/one_class/folds.csv" && grep -q '^    auc .*(2 of 3 folds)$' "$tmp/one_class.log" && grep -q '^    loss .*[0-9]$' "$tmp/one_class.log" || fail "a fold without an area: $(cat "$tmp/one_class.log")"
# A signal during the last fold: its partial result is not part of the mean.
"$SPLITC" sweep "$tmp/client.yaml" --local --out "$tmp/stopped" --set data.split.folds=2 --set train.epochs=1500 >"$tmp/stopped.log" 2>&1 &
sweep=$!
started+=("$sweep")
wait_for 'no last fold begins' grep -qs '"type":"epoch"' "$tmp/stopped/row-02/log.jsonl"
signal TERM "$sweep"
ends_with "$sweep" 75 $patience 'a sweep that was told to end'
grep -q '1 of 2 folds$' "$tmp/stopped.log" && grep -qE '^folds,accuracy,1,[0-9.]+,,1$' "$tmp/stopped/folds.csv" || fail "a fold that was stopped: $(cat "$tmp/stopped.log" "$tmp/stopped/folds.csv")"

# ---- --lr-range
awk -F, -v OFS=, 'NR < 202 {print $2, $3, $4}' "$tmp/table/train.csv" | tee "$tmp/one/train.csv" >"$tmp/one/val.csv"
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 2, classes: 2}
	data: {kind: csv, dir: $tmp/one, label: kind}
	train: {batch: 16, chunks: 1, seed: 1, keep_best: true, stop: {patience: 3, metric: loss}, schedule: {kind: cosine, warmup_epochs: 0.5}}
	threads: 1
	log: {dir: $tmp/runs}
YAML
# A sweep whose folder is moved writes nothing into the one that has its name now.
"$SPLITC" sweep "$tmp/client.yaml" --local --out "$tmp/moved" --set data.split.folds=4 --set train.stop.patience=0 --set train.epochs=2000 >"$tmp/moved.log" 2>&1 &
sweeping=$!
wait_for 'the second fold of a sweep' test -e "$tmp/moved/row-02/log.jsonl"
mv "$tmp/moved" "$tmp/first"
mkdir "$tmp/moved"
touch "$tmp/moved/sweep.csv"
ends_with $sweeping 73 $patience 'a sweep whose folder was moved'
grep -q '^splitc: .*moved is not the folder any more in which this process writes' "$tmp/moved.log" && [ "$(ls "$tmp/moved")" = sweep.csv ] && [ ! -s "$tmp/moved/sweep.csv" ] ||
	fail "a sweep whose folder was moved: $(cat "$tmp/moved.log"), $(ls -R "$tmp/moved")"
test_range() { "$SPLITC" sweep "$tmp/client.yaml" --out "$tmp/$1" --set control="$tmp/$1.sock" --lr-range "${@:2}" >"$tmp/$1.log" 2>&1; }
"$SPLITC" sweep "$tmp/client.yaml" --out "$tmp/cut" --lr-range 1e-5:1e-4 --local --set train.max_steps=99999 >"$tmp/cut.log" 2>&1 &
sweep=$!
started+=("$sweep")
wait_for 'no step is done' grep -qs '"step":' "$tmp/cut/log.jsonl"
signal TERM "$sweep"
ends_with "$sweep" 75 $patience 'a test of rates that was told to end'
grep -q '"outcome":"interrupted"' "$tmp/cut/log.jsonl" || fail 'the process of a test of rates goes on alone'
test_range near 1e-4:100 --local || fail "--local: status $?"
test_range far 1e-4:100 --set train.max_steps=100 || fail "with a server: status $?"
cmp "$tmp/near/lr.json" "$tmp/far/lr.json" || fail "a server makes another curve"
# The rule: a running mean of the losses with decay 0.9, up to four times its minimum; suggested is a tenth of the rate
# at the minimum.
jq -es '[.[] | select(.type == "step" and .loss != null)]' "$tmp/far/log.jsonl" >"$tmp/steps" || fail "log.jsonl of the run"
/usr/bin/python3 - "$tmp/steps" "$tmp/far/lr.json" <<-'PY' || fail "another suggestion than the rule's"
	import json, sys
	steps, said = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
	mean, low, points = 0, None, []
	for k, s in enumerate(steps):
	    assert abs(s["lr"] / (1e-4 * 1e6 ** ((s["step"] - 1) / 99)) - 1) < 1e-6, s # the last one has TO
	    mean = 0.9 * mean + 0.1 * s["loss"]
	    value = mean / (1 - 0.9 ** (k + 1))
	    if low is None or value < low[1]:
	        low = (s["lr"], value)
	    if value > 4 * low[1]:
	        break
	    points.append(value)
	assert len(points) == len(said["points"]) and abs(said["suggestion"] / (low[0] / 10) - 1) < 1e-4, (low, said["suggestion"])
	assert all(abs(p["smoothed"] / v - 1) < 1e-6 for p, v in zip(said["points"], points))
PY
test_range several 1e-4:1e-2 --local --set train.accumulate=8 || fail "with train.accumulate: status $?"
jq -se '[.[] | select(.type == "step").lr] | (.[0] / 1e-4 - 1 | fabs) < 1e-6 and (max / 1e-2 - 1 | fabs) < 1e-6 and (unique | length) == 13' "$tmp/several/log.jsonl" >"$tmp/out" || fail 'with train.accumulate the last step has not TO'
grep -q '^suggestion: .*, a tenth of that (--set train.optimizer.lr=' "$tmp/far.log" || fail "$(cat "$tmp/far.log")"
command -v gnuplot >/dev/null && { [ -s "$tmp/far/lr.png" ] || fail 'no picture'; }
refused() {
	local status=0 want=$1 says=$2
	shift 2
	test_range "$@" || status=$?
	[ "$status" = "$want" ] && grep -qF -- "$says" "$tmp/$1.log" || fail "$says: exit status $status, $(cat "$tmp/$1.log")"
}
refused 64 'must be FROM:TO' none 1:2 --local
refused 64 'must be FROM:TO' none 1e-4 --local
refused 69 'exit status 66: splitc: --set data.dir' none 1e-4:1 --local --set data.dir="$tmp"
refused 69 'begin with a smaller learning rate than 3' none 3:300 --local --set train.optimizer.kind=adam --set train.optimizer.lr=1
refused 64 'must be FROM:TO' none 1:2 --local --check-config
refused 64 'give --codecs or --lr-range, not both' none 1e-4:1 --local --codecs configs/sweep.yaml
refused 64 'with --local all members of share.group are trained' none 1e-4:1 --local --set share.group=lab --set share.clients=2 --set train.stop.patience=0
# A suggestion that the range decides, and not the loss, comes with a warning.
! grep -q '^WARN range' "$tmp/near.log" || fail "a warning of a good range: $(cat "$tmp/near.log")"
test_range flat 1e-9:1e-7 --local && grep -q '^WARN range-begin: .*below the range' "$tmp/flat.log" || fail "flat: $(cat "$tmp/flat.log")"
test_range falls 1e-4:1e-3 --local --set train.optimizer.kind=adam --set train.optimizer.lr=1 && grep -q '^WARN range-end: .*still falling at TO' "$tmp/falls.log" || fail "falls: $(cat "$tmp/falls.log")"
# A run with phases is tested like any other.
test_range phases 1e-4:100 --local --set train.stop.patience=0 --set 'train.phases=[epochs=1 batch=8, epochs=1]' || fail "phases: $(cat "$tmp/phases.log")"
cmp "$tmp/near/lr.json" "$tmp/phases/lr.json" || fail 'phases make another curve'
# If a test fails, no earlier curve is left as its own; a run's folder is not used for a test.
refused 69 'only 0 steps with a loss' near 1e-4:1 --local --set data.dir="$tmp"
[ ! -e "$tmp/near/lr.json" ] && [ ! -e "$tmp/near/lr.png" ] || fail 'the results of the earlier test are left'
test_range near 1e-4:100 --local && cmp "$tmp/near/lr.json" "$tmp/far/lr.json" || fail 'a test behind one that failed'
"$SPLITC" train "$tmp/client.yaml" --local --set log.dir="$tmp/run" >"$tmp/run.log" 2>&1 || fail "a run: $(cat "$tmp/run.log")"
refused 73 'holds a run, which the test would remove' run 1e-4:1 --local
[ -s "$tmp/run/model.safetensors" ] || fail 'the model of a run is gone'
echo passed
