#!/usr/bin/env bash
# Searches for races between the threads of GPU kernels, on a CPU (tests/support/cuda_sim/race): first that the checker
# finds planted races, then in codecs, then in ops. SPLIT_LONG=1: every test of both, in all precisions. And the count of
# the bytes that codecs read and write (make cuda-sim-traffic): right for a codec of known traffic, and not above fixed
# bounds for codecs that search a tensor.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
race=$PWD/$BUILD/cuda-sim-race
[ -x "$race/test_gpu_codecs" ] || { echo "no check for races in a build with sanitizers"; exit 77; }

run() { # PROGRAM PATTERN: for two_at_a_time
	"$1" "$2" >"$out" 2>&1 ||
		fail "${1##*/} '$2': $(grep -vE '^\[|^WARN' "$out" | head -n 5)"
	grep -q '^\[  PASSED  \] [1-9]' "$out" || fail "${1##*/} '$2': no such test"
}
runs=("$race/test_gpu_codec_state|*CPU*" "$race/test_cuda_sim|*")
if [ -n "${SPLIT_LONG:-}" ]; then
	runs+=("$race/test_gpu_codecs|*CPU*")
else
	for t in were hostile factors; do runs+=("$race/test_gpu_codecs|*$t*CPU*"); done
fi
if [ -f "$race/module/libsplit_cuda.so" ]; then
	export LD_LIBRARY_PATH=$race/module SPLIT_TEST_BACKEND=cuda
	runs=("$BUILD/tests/suite/test_ops|$([ -n "${SPLIT_LONG:-}" ] && echo 'cuda*' || echo 'cuda, two chunks*')" "${runs[@]}")
fi
two_at_a_time run "${runs[@]}"

# ---- bytes
tool=$race/gpu_traffic
count() { "$tool" --json --samples 2 "$1" | jq -r "select(.way == \"$2\") | $3" || fail "$1: no count"; }
# 802816 elements: 3.2113 MB in fp32, 1.6056 MB in 16 bits; every warp accesses whole sectors.
[ "$(count f16 encode '"\(.launches) \(.read_mb) \(.written_mb) \(.asked * 100 | round)"')" = '1 3.2113 1.6057 100' ] ||
	fail "f16 encodes by $(count f16 encode .)"
[ "$(count f16 decode '"\(.launches) \(.read_mb) \(.written_mb) \(.asked * 100 | round)"')" = '1 1.6056 3.2113 100' ] ||
	fail "f16 decodes by $(count f16 decode .)"
# Traffic in multiples of the tensor's size: the samples of topk and sortquant weigh little on large tensors.
at_most() { [ "$(count "$1" "$2" ".traffic <= $3")" = true ] || fail "$1, $2: $(count "$1" "$2" .traffic) copies, at most $3"; }
at_most quant:8 encode 1.13
at_most topk:0.1 encode 1.3
at_most topk:0.1 decode 0.65
at_most sortquant:6+2 encode 1.3
[ -f "$race/module/libsplit_cuda.so" ] || { echo "no C++ compiler: codecs alone"; exit 77; }
