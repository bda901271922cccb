#!/usr/bin/env bash
# usage: bench-peer.sh [option of bench_peer.py]…
# Runs bench_peer.py with a malloc that suits PyTorch: blocks are never given back to the kernel, and lie on huge pages.
# PEER_PRELOAD: a malloc library for PyTorch instead, such as libjemalloc.so.2. BUILD: where Split's programs are
# (build/release). SPLIT_TEXT_DATA: the data of cola and lora, see bench_peer.py.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"
unset OPENBLAS_CORETYPE OMP_NUM_THREADS
[ -n "${SPLIT_LIBRARIES:-}" ] || . scripts/blas-core.sh "${BUILD:-build/release}/splitc"
if [ -n "${PEER_PRELOAD:-}" ]; then
	export LD_PRELOAD=$PEER_PRELOAD PEER_MALLOC=$PEER_PRELOAD
else
	export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1099511627776 MALLOC_TOP_PAD_=268435456 MALLOC_ARENA_MAX=1
	export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
	export PEER_MALLOC="glibc, MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=2^40 MALLOC_TOP_PAD_=2^28 hugetlb=1"
fi
# torch.compile's vector code calls SLEEF, with which Debian's PyTorch does not link it
case " $* " in *" --compile "*) export LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}libsleef.so.3 ;; esac
BUILD=${BUILD:-build/release} exec /usr/bin/python3 tests/bench/bench_peer.py "$@"
