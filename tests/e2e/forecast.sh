#!/usr/bin/env bash
# A forecast of 96 numbers at once: data.label takes up to 1,024 columns. With PyTorch, a linear network from a file gives
# what PyTorch's own steps in float64 give, for each number of each row.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
root=$PWD
mkdir "$tmp/table"
# series BEGIN END AHEAD: rows of a series with two periods, of which one drifts: 24 numbers that are known, AHEAD that follow
series() {
	awk -v from="$1" -v to="$2" -v ahead="$3" 'function at(t) { return sin(t * 0.26) + 0.5 * cos(t * 0.91 + t * t / 9000) + t / 400 }
	BEGIN {
		for (k = 0; k < 24 + ahead; k++) printf "%s%s%d", k ? "," : "", k < 24 ? "was_" : "next_", k < 24 ? k : k - 24
		print ""
		for (i = from; i < to; i++)
			for (k = 0; k < 24 + ahead; k++) printf "%.5f%s", at(i + k), k == 23 + ahead ? "\n" : ","
	}'
}
# config AHEAD MODEL
config() {
	printf '%s\n' "server: $endpoint" "model: {task: numbers, $2}" "data: {kind: csv, dir: $tmp/table, label: [$(seq -s , -f 'next_%g' 0 $(($1 - 1)))]}" \
		'train: {batch: 64, epochs: 12, seed: 1, optimizer: {kind: sgd, lr: 0.2, momentum: 0.9}}' 'threads: 1'
}
start_server one
series 0 64 96 >"$tmp/table/train.csv"
series 64 84 96 >"$tmp/table/test.csv"
config 96 'name: mlp, features: 24' >"$tmp/mlp.yaml"
client mlp "$tmp/mlp.yaml" || fail "mlp: $(tail -n 2 "$tmp/mlp.log")"
client mlp-local "$tmp/mlp.yaml" --local --json || fail "mlp, --local: $(tail -n 2 "$tmp/mlp-local.log")"
same_run mlp mlp-local 12

# A page of numbers is no summary: the worst few, and the mean of all. JSON has each one.
sed -n '/^ *rmse  *mae  *r2  of$/,$p' "$tmp/mlp.log" >"$tmp/each"
[ "$(sed 1d "$tmp/each" | grep -c '  next_[0-9]*$')" = 5 ] && grep -q '  mean of 96$' "$tmp/each" || fail "each number: $(cat "$tmp/each")"
tail -n 1 "$tmp/mlp-local.log" | jq -re '.targets | length == 96, (sort_by(-.rmse)[:5][].name)' >"$tmp/worst" || fail 'no targets in JSON'
printf 'true\n' | cat - <(sed -n 's/.*  \(next_[0-9]*\)$/\1/p' "$tmp/each") | cmp -s - "$tmp/worst" || fail "the worst are $(cat "$tmp/worst"), and $(cat "$tmp/each")"

# 1,024 columns are the most.
series 0 40 1024 >"$tmp/table/train.csv"
series 40 44 1024 >"$tmp/table/test.csv"
config 1024 'name: mlp, features: 24' >"$tmp/most.yaml"
client most "$tmp/most.yaml" --local --set data.scale_label=true --set train.epochs=2 || fail "1,024 columns: $(tail -n 2 "$tmp/most.log")"
"$SPLITC" predict "$tmp/most.yaml" --local --set log.dir="$tmp/most" --csv >"$tmp/most.csv" 2>"$tmp/err" || fail "predict: $(cat "$tmp/err")"
head -n 1 "$tmp/most.csv" | tr , '\n' | grep -c 'next_1023$' | grep -qx 2 || fail "names: $(head -c 300 "$tmp/most.csv")"
config 1025 'name: mlp, features: 24' >"$tmp/more.yaml"
rc=0
"$SPLITC" train "$tmp/more.yaml" --check-config >"$tmp/err" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'data.label must have at most 1024 items' "$tmp/err" || fail "1,025 columns: $rc, $(cat "$tmp/err")"

python=/usr/bin/python3
if [ -n "${SPLIT_QUICK:-}" ] || ! "$python" -c 'import torch' 2>"$tmp/torch.log"; then
	echo 'forecasts of 96 and of 1,024 numbers'
	exit 0
fi
series 0 64 96 >"$tmp/table/train.csv"
series 64 84 96 >"$tmp/table/test.csv"
cat >"$tmp/forecast.py" <<'PYTHON'
"""write: a linear network of three layers. learn: what it forecasts for test.csv after 12 steps in PyTorch, in float64."""
import csv
import sys

import torch
import split

what, folder = sys.argv[1:]
torch.manual_seed(5)
net = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.Linear(32, 32), torch.nn.Linear(32, 96))
if what == "write":
    split.write_network(net, torch.zeros(1, 24), folder + "/linear.safetensors")
    sys.exit()
train, test = (torch.tensor([[float(x) for x in r] for r in list(csv.reader(open(f"{folder}/table/{part}.csv")))[1:]]).double() for part in ("train", "test"))
mean, deviation = train[:, :24].mean(0), train[:, :24].std(0, unbiased=False)
net.double()
opt = torch.optim.SGD(net.parameters(), 0.2, momentum=0.9)
for _ in range(12):
    opt.zero_grad()
    torch.nn.functional.mse_loss(net((train[:, :24] - mean) / deviation), train[:, 24:]).backward()
    opt.step()
for row in net((test[:, :24] - mean) / deviation):
    print(*(f"{x:.9g}" for x in row.tolist()), sep=",")
PYTHON
export PYTHONPATH=$root/python SPLIT_LIBRARY=$root/$BUILD/libsplit.so.0
"$python" "$tmp/forecast.py" write "$tmp" >"$tmp/py.log" 2>&1 && "$python" "$tmp/forecast.py" learn "$tmp" >"$tmp/right" 2>"$tmp/py.log" || fail "PyTorch: $(tail -n 3 "$tmp/py.log")"
config 96 "network: $tmp/linear.safetensors" >"$tmp/linear.yaml"
client linear "$tmp/linear.yaml" || fail "linear: $(tail -n 2 "$tmp/linear.log")"
"$SPLITC" predict "$tmp/linear.yaml" --local --set log.dir="$tmp/linear" --json >"$tmp/said" 2>"$tmp/err" || fail "predict: $(cat "$tmp/err")"
jq -r '.predicted | map(tostring) | join(",")' "$tmp/said" >"$tmp/ours"
paste -d ';' "$tmp/ours" "$tmp/right" | awk -F ';' '{ n = split($1, a, ","); m = split($2, b, ",")
	for (k = 1; k <= 96; k++) { d = a[k] - b[k]; if (n != 96 || m != 96 || d > 1e-5 || d < -1e-5) { print "row " NR ", number " k ": " a[k] ", and PyTorch " b[k]; exit 1 } }
	rows++ } END { exit rows != 20 }' >"$tmp/out" || fail "$(cat "$tmp/out")"
echo 'forecasts of 96 and of 1,024 numbers, of which those of a linear network are as in PyTorch'
