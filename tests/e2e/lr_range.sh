#!/usr/bin/env bash
# splitc sweep --lr-range: one run whose learning rate grows by a constant factor, with a server as in one process; its
# curve, and a suggestion by the rule on the page. Invalid ranges are refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/table"
awk 'BEGIN { print "size,noise,kind"; for (i = 0; i < 200; i++) { size = i * 37 % 101; print size "," i * 13 % 17 "," (size > 50 ? "large" : "small") } }' |
	tee "$tmp/table/train.csv" >"$tmp/table/val.csv"
start_server one
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 2, classes: 2}
	data: {kind: csv, dir: $tmp/table, label: kind}
	train: {batch: 16, chunks: 1, seed: 1, keep_best: true, stop: {patience: 3, metric: loss}, schedule: {kind: cosine, warmup_epochs: 0.5}}
	threads: 1
	log: {dir: $tmp/runs}
YAML
test_range() { "$SPLITC" sweep "$tmp/client.yaml" --out "$tmp/$1" --set control="$tmp/$1.sock" --lr-range "${@:2}" >"$tmp/$1.log" 2>&1; }
test_range local 1e-4:100 --local || fail "--local: status $?"
test_range remote 1e-4:100 --set train.max_steps=100 || fail "with a server: status $?"
cmp "$tmp/local/lr.json" "$tmp/remote/lr.json" || fail "a server makes another curve"
# The rule: a running mean of the losses with decay 0.9, up to four times its minimum; suggested is a tenth of the rate
# at the minimum.
jq -es '[.[] | select(.type == "step" and .loss != null)]' "$tmp/remote/log.jsonl" >"$tmp/steps" || fail "log.jsonl of the run"
/usr/bin/python3 - "$tmp/steps" "$tmp/remote/lr.json" <<-'PY' || fail "another suggestion than the rule's"
	import json, sys
	steps, said = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
	mean, low, points = 0, None, []
	for k, s in enumerate(steps):
	    assert abs(s["lr"] / (1e-4 * 1e6 ** ((s["step"] - 1) / 100)) - 1) < 1e-6, s
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
grep -q '^suggestion: .*, a tenth of that (--set train.optimizer.lr=' "$tmp/remote.log" || fail "$(cat "$tmp/remote.log")"
command -v gnuplot >/dev/null && { [ -s "$tmp/remote/lr.png" ] || fail 'no picture'; }
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
! grep -q '^WARN range' "$tmp/local.log" || fail "a warning of a good range: $(cat "$tmp/local.log")"
test_range flat 1e-9:1e-7 --local && grep -q '^WARN range-begin: .*below the range' "$tmp/flat.log" || fail "flat: $(cat "$tmp/flat.log")"
test_range falls 1e-4:1e-3 --local --set train.optimizer.kind=adam --set train.optimizer.lr=1 && grep -q '^WARN range-end: .*still falling at TO' "$tmp/falls.log" || fail "falls: $(cat "$tmp/falls.log")"
# A run with phases is tested like any other.
test_range phases 1e-4:100 --local --set train.stop.patience=0 --set 'train.phases=[epochs=1 batch=8, epochs=1]' || fail "phases: $(cat "$tmp/phases.log")"
cmp "$tmp/local/lr.json" "$tmp/phases/lr.json" || fail 'phases make another curve'
# If a test fails, no earlier curve is left as its own; a run's folder is not used for a test.
refused 69 'only 0 steps have a loss' local 1e-4:1 --local --set data.dir="$tmp"
[ ! -e "$tmp/local/lr.json" ] && [ ! -e "$tmp/local/lr.png" ] || fail 'the results of the earlier test are left'
test_range local 1e-4:100 --local && cmp "$tmp/local/lr.json" "$tmp/remote/lr.json" || fail 'a test behind one that failed'
"$SPLITC" train "$tmp/client.yaml" --local --set log.dir="$tmp/run" >"$tmp/run.log" 2>&1 || fail "a run: $(cat "$tmp/run.log")"
refused 73 'holds a run, which the test would remove' run 1e-4:1 --local
[ -s "$tmp/run/model.safetensors" ] || fail 'the model of a run is gone'
echo passed
