#!/usr/bin/env bash
# The Makefile without a compiler, and with one for an unsupported architecture: targets that compile nothing work, so
# that `make deps` can install a compiler; targets that compile are refused with a sentence. And install-deps.sh on other
# systems.
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

deps() { # ID ARGUMENT…: install-deps.sh on a system of this ID; $status
	echo "ID=$1" >"$tmp/os-release"
	status=0
	OS_RELEASE=$tmp/os-release scripts/install-deps.sh "${@:2}" >"$tmp/out" 2>&1 || status=$?
}
# Names of packages that hold on all three systems: none is of one release, or of Debian alone.
deps ubuntu --dev --dicom --print
[ $status = 0 ] && ! grep -oE 'lib(clang-rt-[0-9]+|jpeg62-turbo)-dev' "$tmp/out" || { echo 'packages that Ubuntu 24.04 lacks'; exit 1; }
# Elsewhere nothing is installed. What is missing or too old is named; if nothing is, make goes on.
deps fedora
[ $status = 0 ] && [ ! -s "$tmp/out" ] || { echo "on Fedora with everything: status $status, $(cat "$tmp/out")"; exit 1; }
printf '#!/bin/sh\n[ "$1" = --exists ] && [ "$2" != "libuv >= 1.44.2" ]\n' >"$tmp/pkg-config"
chmod +x "$tmp/pkg-config"
PATH=$tmp:$PATH deps fedora --peer
[ $status = 69 ] && [ "$(grep -vc '^install-deps: ' "$tmp/out")" = 1 ] && grep -qx 'library libuv, 1.44.2 or later' "$tmp/out" &&
	grep -q -- '--peer needs what they call python3-torch' "$tmp/out" || { echo "on Fedora without libuv: status $status, $(cat "$tmp/out")"; exit 1; }
