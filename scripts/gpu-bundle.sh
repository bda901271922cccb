#!/usr/bin/env bash
# usage: gpu-bundle.sh FOLDER
# Copies the CUDA module, the GPU's tests and benchmark, and the shared libraries of theirs that a GPU host may lack into
# FOLDER, for scripts/gpu-check.sh there. Not the driver, CUDA, cuDNN or the C library. `make gpu-bundle` builds first.
set -eu
cd "$(dirname "$0")/.."
out=$1
build=${BUILD:-build/release}
rm -rf "$out"
mkdir -p "$out/lib"
programs=("$build"/tests/suite/test_{ops,gpu,gpu_middle,gpu_codecs,gpu_codec_state} "$build"/tests/unit/test_module
	"$build"/tests/bench/bench_{gpu,gpu_codecs})
cp "$build/libsplit_cuda.so" "${programs[@]}" "$out"
cp -r tests/golden/codec "$out/golden"
cp tests/bench/bench_gpu_peer.py scripts/gpu-check.sh "$out"
for program in "${programs[@]}"; do
	ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'
done | sort -u | grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so' | xargs -r cp -Lt "$out/lib"
strip --strip-debug "$out"/*.so "$out"/test_* "$out"/bench_gpu "$out"/bench_gpu_codecs
du -sh "$out"
