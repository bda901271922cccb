#!/usr/bin/env bash
# usage: end-compression.sh CIFAR_DIR OUT [METHOD]…
# Measures compressed gradients between workers: ResNet9 on CIFAR-10 (CIFAR_DIR: its binary files), with four members of
# a group that share head and tail, in one process. The middle is the last linear layer, and the head has all other
# parameters: 99.7 %. Each METHOD (default: all) compresses the gradients on their way up and the mean on its way down,
# once parameter by parameter (each) and once as one vector (all). OUT gets a folder per run and end-compression.md:
# test accuracy, bytes of a member's step, and whether each is no worse. Runs that are in OUT are not repeated. A METHOD
# is "NAME END_GRAD END_MEAN", where the latter two are codecs. Environment: TRAIN (1000) and TEST (1000) images, EPOCHS
# (6, at least 2), WIDTH of the network (0.25; 1 is the published one), BATCH of a member (32), LR (0.1), SEEDS ("1"),
# THREADS (1), BUILD (folder of splitc). Everything takes about 6 minutes of one core's time.
set -eu -o pipefail
[ $# -ge 2 ] || { sed -n 2p "$0"; exit 64; }
data=$(realpath "$1") out=$(realpath -m "$2")
shift 2
cd "$(dirname "$0")/.."
splitc=${BUILD:-build/release}/splitc
unset OPENBLAS_CORETYPE
mkdir -p "$out"
epochs=${EPOCHS:-6} lr=${LR:-0.1}
[ $# -gt 0 ] || set -- \
	'none none none' \
	'topk topk:0.1 topk:0.1' \
	'topk,ef topk:0.1,ef=true topk:0.1,ef=true' \
	'randomk randomk:0.1 none' \
	'threshold threshold:0.001 threshold:0.001' \
	'adaptive adaptive:0.5 adaptive:0.5' \
	'adaptive,ef adaptive:0.5,ef=true adaptive:0.5,ef=true' \
	'terngrad terngrad terngrad' \
	'qsgd qsgd:255 qsgd:255'

cat >"$out/config.yaml" <<YAML
model: {name: resnet9, classes: 10, image: 32, width: ${WIDTH:-0.25}}
head_end: pool
tail_begin: classifier
data:
  kind: cifar10
  dir: "$data"
  train_files: [data_batch_1.bin]
  train_limit: ${TRAIN:-1000}
  test_limit: ${TEST:-1000}
  partition: batch
  transforms:
    - RandomCrop(32, padding=4, padding_mode='reflect')
    - RandomHorizontalFlip()
    - Normalize((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616))
  test_transforms:
    - CenterCrop(32)
    - Normalize((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616))
train:
  batch: ${BATCH:-32}
  chunks: 1
  epochs: $epochs
  eval_every: 0
  optimizer: {kind: sgd, momentum: 0.9, weight_decay: 0.0005, nesterov: true}
  schedule: {kind: points, points: ["0:0", "$((epochs / 4 + 1)):$lr", "$epochs:0"]}
share: {group: workers, clients: 4, ends: step}
threads: ${THREADS:-1}
YAML

# summary FOLDER KEY: prints a field of member 0's summary.
summary() { sed -n '$p' "$1/member-0/log.jsonl" | python3 -c 'import json, sys; print(json.loads(sys.stdin.read())[sys.argv[1]])' "$2"; }

for method; do
	read -r name grad mean <<<"$method"
	for layers in each all; do
		[ "$name" != none ] || [ $layers = each ] || continue
		for seed in ${SEEDS:-1}; do
			run=$out/$name-$layers-$seed
			[ ! -s "$run/member-3/model.safetensors" ] || continue
			rm -rf "$run"
			"$splitc" train "$out/config.yaml" --local --fresh --set log.dir="$run" --set control="$out/run.sock" --set train.seed="$seed" \
				--set share.layers=$layers --set codec.end_grad="$grad" --set codec.end_mean="$mean" >"$run.log" 2>&1 ||
				{ tail -n 5 "$run.log"; exit 1; }
			echo "$name $layers, seed $seed: test accuracy $(summary "$run" test_acc)"
		done
	done
done

python3 - "$out" "${SEEDS:-1}" "$@" <<'PY' | tee "$out/end-compression.md"
import json, sys
out, seeds = sys.argv[1], sys.argv[2].split()
def runs(name, layers):
    """The lines of log.jsonl of each seed's run."""
    logs = ["%s/%s-%s-%s/member-0/log.jsonl" % (out, name, layers, s) for s in seeds]
    return [[json.loads(line) for line in open(log)] for log in logs]
def means(name, layers):
    """Means over the seeds: accuracy in percent, kB that a member sends and receives in a step."""
    accuracy = up = down = 0
    for log in runs(name, layers):
        steps = [l for l in log if l["type"] == "step"]
        accuracy += 100 * log[-1]["test_acc"] / len(seeds)
        up += sum(l["wire_tx_bytes"] for l in steps) / len(steps) / len(seeds)
        down += sum(l["wire_rx_bytes"] for l in steps) / len(steps) / len(seeds)
    return accuracy, up / 1e3, down / 1e3
methods = [m.split() for m in sys.argv[3:]]
print("| method | end_grad, end_mean | each: accuracy % | kB up, down | all: accuracy % | kB up, down | each is no worse |")
print("|---|---|---|---|---|---|---|")
worse = compared = 0
for name, grad, mean in methods:
    each = means(name, "each")
    cells = ["%.1f" % each[0], "%.0f, %.0f" % each[1:]]
    if name == "none":
        cells += ["", "", ""]
    else:
        whole = means(name, "all")
        compared += 1
        worse += each[0] < whole[0]
        cells += ["%.1f" % whole[0], "%.0f, %.0f" % whole[1:], "no" if each[0] < whole[0] else "yes"]
    print("| %s | `%s`, `%s` | %s |" % (name, grad.replace("|", "\\|"), mean.replace("|", "\\|"), " | ".join(cells)))
print("\nLayer by layer is no worse than the entire model in %d of %d methods." % (compared - worse, compared))
PY
