#!/usr/bin/env bash
# usage: script.sh [--quick]        (root: network namespaces and tc; PyTorch)
# Measures a step of a PyTorch script whose middle runs on a server: with split.RemoteModule, torch.distributed's
# RemoteModule and pickle over TCP, by turns (bench_script.py), over a link of RATE (100) MB/s. Each side has one core and
# one thread. STEPS (9): steps of each, of which the median counts. CHUNKS (8): chunks of pipelined steps. --quick: small
# pictures and two steps, to check that the script works. Build first: make all lib.
set -eu
[ "$(id -u)" = 0 ] || { echo "${0##*/}: needs root, for network namespaces and tc: nothing was run" >&2; exit 77; }
. "$(dirname "$0")/pair.sh"
. "$here/tests/bench/namespaces.sh"
cd "$here"
rate=${RATE:-100} steps=${STEPS:-9} image=224
[ "${1:-}" != --quick ] || { image=64 steps=2; }
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch' 2>/dev/null || { echo "${0##*/}: $python has no PyTorch: nothing was run" >&2; exit 77; }
ns=split$$ work=$(mktemp -d) server_pid='' peers=()
cleanup() {
	local pid
	for pid in ${peers[@]+"${peers[@]}"}; do kill "$pid" 2>/dev/null || true; done
	server_stop
	wait
	namespaces_remove
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
namespaces_make
shape "$rate"
export IMAGE=$image SPLIT_LIBRARY=$(realpath "$BUILD")/libsplit.so.0 PYTHONPATH=$here/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
there=(ip netns exec "${ns}s" taskset -c $(($(nproc) > 1 ? 1 : 0)))
server_start "$work" 127.1.0.2 1 "${there[@]}"
TP_SOCKET_IFNAME=split-s GLOO_SOCKET_IFNAME=split-s "${there[@]}" "$python" tests/bench/bench_script.py rpc 127.1.0.1 7100 >"$work/rpc.log" 2>&1 &
peers+=($!)
"${there[@]}" "$python" tests/bench/bench_script.py pickle 127.1.0.2 7200 >"$work/pickle.log" 2>&1 &
peers+=($!)
for _ in $(seq 300); do
	[ -z "$("${there[@]}" ss -ltnH 'sport = :7200')" ] || break
	sleep 0.1
done
TP_SOCKET_IFNAME=split-c GLOO_SOCKET_IFNAME=split-c ip netns exec "${ns}c" taskset -c 0 "$python" tests/bench/bench_script.py client \
	"$endpoint" 127.1.0.2:7200 127.1.0.1:7100 "$steps" "$rate" || { tail -n 5 "$work"/*.log >&2; exit 1; }
