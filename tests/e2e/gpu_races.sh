#!/usr/bin/env bash
# Races between the threads of the GPU's kernels, looked for on a CPU (tests/support/cuda_sim/race): that the check
# finds those it should, then codecs, then ops. SPLIT_LONG=1: every test of either, in all precisions.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
race=$PWD/$BUILD/cuda-sim-race
[ -x "$race/test_gpu_codecs" ] || { echo "no check for races in a build with sanitizers"; exit 77; }

run() { # PROGRAM PATTERN
	"$1" "$2" >"$tmp/races.log" 2>&1 ||
		fail "${1##*/} '$2': $(grep -vE '^\[|^WARN' "$tmp/races.log" | head -n 5)"
	grep -q '^\[  PASSED  \] [1-9]' "$tmp/races.log" || fail "${1##*/} '$2': no such test"
}
run "$race/test_cuda_sim" '*'
if [ -n "${SPLIT_LONG:-}" ]; then
	run "$race/test_gpu_codecs" '*CPU*'
	run "$race/test_gpu_codec_state" '*CPU*'
else
	for t in were hostile factors; do run "$race/test_gpu_codecs" "*$t*CPU*"; done
	run "$race/test_gpu_codec_state" '*CPU*'
fi
[ -f "$race/module/libsplit_cuda.so" ] || { echo "no C++ compiler: codecs alone"; exit 77; }
export LD_LIBRARY_PATH=$race/module SPLIT_TEST_BACKEND=cuda
if [ -n "${SPLIT_LONG:-}" ]; then run "$BUILD/tests/suite/test_ops" 'cuda*'; else run "$BUILD/tests/suite/test_ops" 'cuda, two chunks*'; fi
