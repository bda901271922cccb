#!/usr/bin/env bash
# usage: privacy-cost.sh CIFAR_DIR      what privacy.… costs in accuracy: rows of docs/results/leak.md
#
# Two sets, five values of privacy.noise each and a run without: 455 rows of scikit-learn's breast cancer (mlp, ten epochs)
# and 2,000 pictures of CIFAR-10 (alexnet1, which has no batch norm, three epochs). Training is in one process, which gives
# the bits of the link. Each row is the median of three keys, with the least and the most. EPOCHS: of the pictures (3).
set -eu -o pipefail
cd "$(dirname "$0")/.."
SPLITC=$PWD/build/release/splitc
[ $# = 1 ] || { sed -n '2,3p' "$0" >&2; exit 64; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for key in 1 2 3; do "$SPLITC" keygen --out "$tmp/key$key" >/dev/null 2>&1; done
python3=python3
"$python3" -c 'import sklearn' 2>/dev/null || python3=/usr/bin/python3
"$python3" - "$tmp" <<'PY'
import sys
import numpy as np
from sklearn.datasets import load_breast_cancer
data = load_breast_cancer()
rows = np.random.RandomState(0).permutation(len(data.target))
x = (data.data - data.data.mean(0)) / data.data.std(0)
for part, of in (("train", rows[:455]), ("test", rows[455:])):
    with open(f"{sys.argv[1]}/{part}.csv", "w") as f:
        print(*(f"f{k}" for k in range(30)), "kind", sep=",", file=f)
        for k in of:
            print(*(f"{v:.5f}" for v in x[k]), ("malignant", "benign")[data.target[k]], sep=",", file=f)
PY
cat >"$tmp/table.yaml" <<YAML
model: {name: mlp, features: 30, classes: 2}
partition: "1:-1"
data: {kind: csv, dir: $tmp, label: kind}
train: {batch: 32, epochs: 10, eval_every: 0, checkpoint_every: 0, optimizer: {kind: adam, lr: 0.003}}
YAML
cat >"$tmp/pictures.yaml" <<YAML
model: {name: alexnet1, classes: 10, image: 32}
partition: "1:-1"
data: {kind: cifar10, dir: $1, train_limit: 2000, test_limit: 2000}
train: {batch: 64, epochs: ${EPOCHS:-3}, eval_every: 0, checkpoint_every: 0, optimizer: {kind: adam, lr: 0.001}}
YAML
# row NAME WHAT CLIP CLIP_GRAD NOISE: without noise other seeds take the place of other keys
row() {
	local sets key
	for key in 1 2 3; do
		sets=(--set train.seed=$key)
		[ "$5" = 0 ] || sets=(--set privacy.clip="$3" --set privacy.clip_grad="$4" --set privacy.noise="$5" --set privacy.delta=1e-5 --set privacy.key="$tmp/key$key")
		"$SPLITC" train "$tmp/$1.yaml" --local --fresh --json --set log.dir="$tmp/run" "${sets[@]}" 2>"$tmp/log" | tail -n 1 || { cat "$tmp/log" >&2; exit 1; }
	done | jq -rs --arg what "$2" --arg noise "$5" 'def tenths: . * 10 | round / 10; . as $in | map(.test_acc * 100) | sort as $acc | $in[0].privacy as $p |
		"| \($what) | \(if $p then $noise else "none" end) | \($p.epsilon // "∞" | if type == "number" then tenths else . end) | \($acc[1] | tenths) (\($acc[0] | tenths) to \($acc[2] | tenths)) |"'
}
echo '| data | noise | epsilon at 1e-5 | accuracy, % |'
echo '|---|---|---|---|'
for noise in 0 0.05 0.1 0.3 1 4; do row table 'breast cancer' 3 0.5 $noise; done
for noise in 0 0.05 0.1 0.3 1 4; do row pictures CIFAR-10 40 0.9 $noise; done
