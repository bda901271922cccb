#!/usr/bin/env bash
# The Makefile without a compiler, and with one for an unsupported architecture: targets that compile nothing work, so
# that `make deps` can install a compiler; targets that compile are refused with a sentence.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
printf '#!/bin/sh\necho m68k-linux-gnu\n' >"$tmp/m68k-gcc"
chmod +x "$tmp/m68k-gcc"

dry() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -nB CC="$compiler" "$@" >"$tmp/out" 2>&1; }
for compiler in "$tmp/no-gcc" "$tmp/m68k-gcc"; do
	for target in help deps test demo clean; do
		dry $target MAKE=true || { echo "make $target with ${compiler##*/}: $(cat "$tmp/out")"; exit 1; }
		! grep -iE 'gcc|stop' "$tmp/out" || { echo "make $target speaks of ${compiler##*/}"; exit 1; }
	done
	! dry all || { echo "make all with ${compiler##*/} is not refused"; exit 1; }
	case $compiler in
	*/no-gcc) say="$compiler is missing: run scripts/install-deps.sh" ;;
	*) say="Split is built for x86-64 and arm64; $compiler makes code for \"m68k\"" ;;
	esac
	grep -qF "$say" "$tmp/out" || { echo "make all does not say: $say"; tail -n 3 "$tmp/out"; exit 1; }
done
