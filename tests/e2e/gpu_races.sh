#!/usr/bin/env bash
# Searches for races between the threads of GPU kernels, on a CPU (tests/support/cuda_sim/race): first that the checker
# finds planted races, then in codecs, then in ops. SPLIT_LONG=1: every test of both, in all precisions.
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
[ -f "$race/module/libsplit_cuda.so" ] || { echo "no C++ compiler: codecs alone"; exit 77; }
