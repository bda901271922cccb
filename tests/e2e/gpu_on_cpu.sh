#!/usr/bin/env bash
# The CUDA module on a simulated device (make cuda-sim): its kernels, in every precision, against the reference, and the
# middle that they make up.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
module=$PWD/$BUILD/cuda-sim-module/libsplit_cuda.so
[ -f "$module" ] || { echo "no simulated device here: no C++ compiler, or a build with the thread sanitizer"; exit 77; }

run_suite() { # PROGRAM PATTERN [PATTERN of those left out]
	LD_LIBRARY_PATH=${module%/*} SPLIT_TEST_BACKEND=cuda "$BUILD/tests/suite/$1" "${@:2}" >"$tmp/suite.log" 2>&1 ||
		fail "$1 '$2': $(grep -vE '^\[|^WARN' "$tmp/suite.log" | head -n 5)"
	grep -q '^\[  PASSED  \] [1-9]' "$tmp/suite.log" || fail "$1 '$2': no such test"
}
if [ -n "${SPLIT_LONG:-}" ]; then
	run_suite test_ops 'cuda*'
	run_suite test_gpu '*'
	run_suite test_gpu_middle '*' '*graphs*' # it records none
else
	for mode in 'two chunks*' tf32 bf16 fp16; do run_suite test_ops "cuda, $mode"; done
	run_suite test_gpu_middle '*first_blocks*'
	run_suite test_gpu_middle '*overflow*'
fi
