#!/usr/bin/env bash
# usage: precisions.sh DATA [STEPS] [PRECISION…]
# Trains a MobileNetV2 of a tenth of the width on CIFAR-10 over the link, ReLU6 of the stem to features.6 on the simulated
# device (make cuda-sim), with the same seed in every precision: a table of losses, accuracies and steps left out. The
# simulated device's products are summed in double, and its times mean nothing. DATA: CIFAR-10's binary files, a whole path.
set -eu
cd "$(dirname "$0")/../.."
data=${1:?DATA} steps=${2:-120} BUILD=${BUILD:-build/release}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- fp32 tf32 bf16 fp16
unset OPENBLAS_CORETYPE
work=$(mktemp -d) server_pid=''
end_all() {
	[ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$work"
}
trap end_all EXIT

# the module is looked for beside the executable
mkdir "$work/bin"
cp "$BUILD/splitc" "$BUILD/splits" "$BUILD/cuda-sim-module/libsplit_cuda.so" "$work/bin/"
cat >"$work/client.yaml" <<YAML
server: tcp://127.0.0.1:5570
model: {name: mobilenet_v2, classes: 10, image: 32, form: imagenet, width: 0.1, dropout: 0}
head_end: features.0.1
tail_begin: features.7
data: {kind: cifar10, dir: $data, train_limit: $((steps * 32)), test_limit: 512, crop_padding: 0, flip: true}
train:
  batch: 32
  chunks: 2
  epochs: 1
  seed: 1
  on_nan: skip
  checkpoint_every: 0
  optimizer: {kind: sgd, lr: 0.05, momentum: 0.9, weight_decay: 0.0001}
  schedule: {kind: cosine, warmup_epochs: 0.05}
codec: none
threads: 1
link: {timeout_ms: 60000}
YAML

start_server() {
	printf '%s\n' 'listen: tcp://127.0.0.1:0' 'store: ""' 'device: cuda:0' 'threads: 1' "control: $work/splits.sock" >"$work/server.yaml"
	"$work/bin/splits" serve "$work/server.yaml" 2>"$work/server.log" &
	server_pid=$!
	for _ in $(seq 200); do
		endpoint=$(sed -n 's/.*serving: .* on \(tcp:[^ ,]*\),.*/\1/p' "$work/server.log")
		[ -z "$endpoint" ] || return 0
		sleep 0.1
	done
	cat "$work/server.log" >&2
	exit 1
}

# mean LOG FROM TO: of the losses of these steps
mean() { jq -s --argjson from "$2" --argjson to "$3" 'map(select(.type == "step" and .loss != null and .step >= $from and .step <= $to) | .loss) | add / length * 1000 | round / 1000' "$1"; }

start_server
echo "| precision | loss of the first step | mean of the last 40 | steps left out | accuracy on 512 test images, % |"
echo "|---|---|---|---|---|"
for precision in "$@"; do
	log=$work/$precision
	"$work/bin/splitc" train "$work/client.yaml" --fresh --set server="$endpoint" --set train.precision="$precision" --set log.dir="$log" \
		--set control="$work/splitc.sock" >"$work/summary.txt" 2>"$work/client.log" || { tail -n 5 "$work/client.log" >&2; exit 1; }
	[ -z "${KEEP:-}" ] || cp "$log/log.jsonl" "$KEEP/$precision.jsonl"
	first=$(jq -s 'map(select(.type == "step" and .loss != null))[0].loss * 10000 | round / 10000' "$log/log.jsonl")
	accuracy=$(jq -s 'map(select(.type == "epoch"))[-1] | .test_acc * 10000 | round / 100' "$log/log.jsonl")
	echo "| \`$precision\` | $first | $(mean "$log/log.jsonl" $((steps - 39)) "$steps") | $(grep -c '"skipped":true' "$log/log.jsonl" || true) | $accuracy |"
done
