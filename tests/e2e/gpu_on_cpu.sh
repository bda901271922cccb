#!/usr/bin/env bash
# The CUDA module on a simulated device (make cuda-sim): its kernels, in every precision, and a middle made of them
# equal the reference.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
module=$PWD/$BUILD/cuda-sim-module/libsplit_cuda.so
[ -f "$module" ] || { echo "no simulated device here: no C++ compiler, or a build with the thread sanitizer"; exit 77; }

export SPLIT_SIM_DEVICES=2 # the second one is for test_two_devices
run_suite() { # PROGRAM PATTERN [PATTERN of those left out]: for two_at_a_time
	LD_LIBRARY_PATH=${module%/*} SPLIT_TEST_BACKEND=cuda "$BUILD/tests/suite/$1" "${@:2}" >"$out" 2>&1 ||
		fail "$1 '$2': $(grep -vE '^\[|^WARN' "$out" | head -n 5)"
	grep -q '^\[  PASSED  \] [1-9]' "$out" || fail "$1 '$2': no such test"
}
if [ -n "${SPLIT_LONG:-}" ]; then
	two_at_a_time run_suite 'test_ops|cuda*' 'test_gpu_middle|*' 'test_gpu|*'
else
	two_at_a_time run_suite 'test_ops|cuda, two chunks*' 'test_ops|cuda, frozen*' 'test_ops|cuda, tf32' 'test_ops|cuda, bf16' 'test_ops|cuda, fp16' \
		'test_gpu_middle|*first_blocks*' 'test_gpu_middle|*overflow*' 'test_gpu_middle|*summed*' 'test_gpu|*two_devices*'
fi
