#!/usr/bin/env bash
# usage: gpu-bundle.sh FOLDER [DATA WEIGHTS]
# Copies the CUDA module, the GPU's tests and benchmarks, both daemons, and the shared libraries that a GPU host may
# lack into FOLDER, for scripts/gpu-check.sh there. The driver, CUDA, cuDNN and the C library are not copied. `make
# gpu-bundle` builds first. DATA (CIFAR-10's binary files) and WEIGHTS (an ImageNet backbone in safetensors) are for the
# step `pair` of gpu-check.sh. It reads only the first images; the others are written as zeros, which compress to
# nothing in FOLDER.tar.gz.
set -eu
out=$(realpath -m "$1") data=${2:+$(realpath "$2")} weights=${3:+$(realpath "$3")}
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
rm -rf "$out"
mkdir -p "$out/lib"
programs=("$build"/tests/suite/test_{ops,gpu,gpu_middle,gpu_codecs,gpu_codec_state,gpu_codec_ahead} "$build"/tests/unit/test_module
	"$build"/tests/bench/bench_{gpu,gpu_codecs,encoder,segments} "$build"/split{c,s})
cp "$build"/libsplit{_cuda.so,.so.0} "${programs[@]}" "$out"
cp -r tests/golden/codec "$out/golden"
cp tests/bench/{bench_gpu_peer,bench_gpu_layers,bench_peer_encoder,pair_table}.py scripts/gpu-check.sh "$out"
mkdir "$out/scripts" "$out/configs"
cp scripts/gpu-pair.sh "$out/scripts"
mkdir -p "$out/tests/bench" # where tests/bench/bench_peer.py with BUILD=$out looks
ln -s ../../bench_encoder ../../bench_segments "$out/tests/bench"
cp tests/bench/namespaces.sh "$out/tests/bench"
cp configs/client-finetune224.yaml "$out/configs"
if [ -n "$data" ]; then
	mkdir "$out/pair"
	cp "$weights" "$out/pair/weights.safetensors"
	first() { { head -c $((3073 * $2)) "$data/$1"; head -c $((3073 * (10000 - $2))) /dev/zero; } | gzip >"$out/pair/$1.gz"; }
	first data_batch_1.bin 2000
	first test_batch.bin 64
fi
for program in "${programs[@]}"; do
	ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'
done | sort -u | grep -vE '/(ld-linux[^/]*|lib(c|m|mvec|dl|rt|pthread|resolv|anl|util|gcc_s|stdc\+\+))\.so' | xargs -r cp -Lt "$out/lib"
strip --strip-debug "$out"/*.so "$out"/test_* "$out"/bench_{gpu,gpu_codecs,encoder,segments} "$out"/split[cs]
tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")"
du -sh "$out" "$out.tar.gz"
