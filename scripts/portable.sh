#!/usr/bin/env bash
# usage: portable.sh FOLDER       (make portable)
# Writes FOLDER/split-VERSION-MACHINE.tar.gz: both programs with all libraries that they need beside them, for hosts
# without packages, with this host's glibc or a later one. DICOM's and CUDA's modules are in it if they were built;
# the driver, CUDA and cuDNN are not. The programs look for libraries in ../lib of their own folder.
set -eu -o pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
version=$(sed -n 's/.*SL_VERSION "\(.*\)"/\1/p' common/base/version.h)
name=split-$version-$(uname -m)
tree=$out/$name
rm -rf "$tree" "$tree.tar.gz"
mkdir -p "$tree/bin" "$tree/lib" "$tree/configs"
cp "$build/portable/splitc" "$build/portable/splits" "$tree/bin"
for module in cuda dicom; do
	[ ! -e "$build/libsplit_$module.so" ] || cp "$build/libsplit_$module.so" "$tree/bin"
done
cp -r configs/*.yaml configs/*-small configs/moderate-cnn "$tree/configs"
cp README.md CHANGELOG.md LICENSE* "$tree" 2>/dev/null || cp README.md CHANGELOG.md "$tree"
for program in "$tree"/bin/*; do
	ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'
done | sort -u | grep -vE '/(ld-linux[^/]*|lib(c|m|mvec|dl|rt|pthread|resolv|anl|util|cuda|cudart|cudnn|cublas|cublasLt))\.so' | xargs cp -Lt "$tree/lib"
strip --strip-debug "$tree"/bin/*
"$tree/bin/splitc" --version
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$tree.tar.gz"
rm -r "$tree"
du -h "$tree.tar.gz"
