#!/usr/bin/env bash
# usage: bundle.sh FOLDER       (make bundle)
# Makes a relocatable copy of both daemons for hosts without packages, with glibc 2.36 or later: FOLDER/bin, lib,
# configs. It has the CUDA module if that was built, and the shared libraries that a host may lack, but not the driver,
# CUDA, cuDNN or the C library. The programs look for their libraries beside themselves.
set -eu
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib" "$out/configs"
cp "$build/bundle/splitc" "$build/bundle/splits" "$out/bin"
[ ! -e "$build/libsplit_cuda.so" ] || cp "$build/libsplit_cuda.so" "$out/bin"
cp -r configs/*.yaml configs/*-small configs/moderate-cnn "$out/configs"
for program in "$out"/bin/split?; do
	ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'
done | sort -u | grep -vE '/(ld-linux[^/]*|lib(c|m|mvec|dl|rt|pthread|resolv|anl|util|gcc_s|stdc\+\+))\.so' | xargs -r cp -Lt "$out/lib"
strip --strip-debug "$out"/bin/*
# The rpath of a program does not apply to its libraries' own dependencies; LD_LIBRARY_PATH does.
LD_LIBRARY_PATH=$out/lib "$out/bin/splitc" --version
du -sh "$out"
