#!/usr/bin/env bash
# scripts/cuda-resources.sh finds one fault in each of several kernels, and none in the CUDA module, if that was built.
set -eu
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*"; cat "$tmp/said"; exit 1; }

usage() { # REGISTERS SHARED LOCAL STORES LOADS
	cat >"$tmp/kernels.usage" <<-END
		ptxas info    : 0 bytes gmem
		ptxas info    : Compiling entry function '_Z4workPf' for 'sm_90'
		ptxas info    : Function properties for _Z4workPf
		    $3 bytes stack frame, $4 bytes spill stores, $5 bytes spill loads
		ptxas info    : Used $1 registers, used 1 barriers, $2 bytes smem, 400 bytes cmem[0]
		ptxas info    : Compiling entry function '_Z5otherPf' for 'sm_120a'
		ptxas info    : Function properties for _Z5otherPf
		    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
		ptxas info    : Used 18 registers, used 0 barriers
	END
}
kernel() { # DECLARED
	cat >"$tmp/kernels.cu" <<-END
		static __global__ void $1 work(float *x)
		static __global__ void other(float *x)
		return CU_LAUNCH(work, cu_blocks(n),
		                 CU_PLACE_THREADS, s, x);
		return CU_LAUNCH(other, (n + 3) / 4, CU_THREADS, s, x);
	END
}
ptx() { printf '.visible .entry work(\n%s\n' "$1" >"$tmp/kernels.ptx"; }
check() { # WANTED_STATUS SAID
	local rc=0
	scripts/cuda-resources.sh "$tmp" "$tmp/kernels.usage" "$tmp/kernels.ptx" >"$tmp/said" 2>&1 || rc=$?
	[ $rc = "$1" ] || fail "$2: exit status $rc"
	grep -qE "$2" "$tmp/said" || fail "not said: $2"
}

usage 40 49152 64 32 32
kernel PLACE_THREADS
ptx 'mul.rn.f32 %f1, %f2, %f3; div.rn.f64 %d1, %d2, %d3; fma_of_mine'
check 0 '^kernels work +1 +40 +1632 +49152 +64 +64$'
check 0 '^2 machine codes, 2 architectures$'
usage 40 0 0 36 32
check 1 '^FAULT kernels work, sm 90: 0 bytes of local memory, 68 spilled$'
usage 40 0 128 0 0
check 1 '^FAULT kernels work, sm 90: 128 bytes of local memory'
usage 40 49153 0 0 0
check 1 '^FAULT kernels work, sm 90: 49153 bytes of shared memory$'
usage 40 0 0 0 0
kernel ''
check 1 '^FAULT work is launched with CU_PLACE_THREADS'
kernel '__launch_bounds__(1024)'
check 0 '^PTX that rounds as the host does: 1 files$'
for line in 'fma.rn.f32 %f1, %f2, %f3, %f4;' 'mul.f32 %f1, %f2, %f3;' 'add.f64 %d1, %d2, %d3;' 'sqrt.approx.f32 %f1, %f2;' 'mul.rn.ftz.f32 %f1, %f2, %f3;'; do
	ptx "$line"
	check 1 '^FAULT .*kernels.ptx: '
done
ptx ''
: >"$tmp/kernels.usage"
check 1 '^no kernels in what ptxas said$'

! command -v shellcheck >/dev/null || shellcheck scripts/cuda-resources.sh || fail shellcheck
module=$BUILD/cuda-module
if ls "$module"/kernels/cuda/codec_*.ptx >/dev/null 2>&1; then
	scripts/cuda-resources.sh kernels/cuda "$module"/kernels/cuda/*.usage "$module"/kernels/cuda/codec_*.ptx >"$tmp/said" 2>&1 || fail 'the module that was built here'
fi
