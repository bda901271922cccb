#!/usr/bin/env bash
# usage: test-arm64.sh        (make test-arm64; as root)
# Tests Split on arm64, emulated by qemu in a clean Debian 12 of that architecture (build/arm64, made at the first run).
# The packages install there; unit tests, operators, the codecs' golden payloads and the wire's golden frames pass. Then
# a client of one architecture trains with a server of the other, both ways round. Of the operators' cases a quarter of
# each kind is tested, as in `make test`. An emulated core is 10 to 30 times slower, so the tests take half an hour on
# two cores. SPLIT_QUICK=1: without that Debian, with qemu's emulation of single programs; it tests neither the packages
# nor most of the tests. T: only these unit tests and suites. TEST_TIMEOUT: seconds for one test. JOBS: tests at a time.
# MADE=1: does not build first.
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'test-arm64: needs root' >&2; exit 77; }
cross=aarch64-linux-gnu
arm=build/$cross-release amd=build/release
root=$PWD/build/arm64/root

# Tests that fail in emulation, and why
left_out='
test_conns      qemu does not say how many bytes a connection received (TCP_INFO)
test_door       the same
test_memory     qemu does not keep limits of memory (RLIMIT_DATA)
test_cost       compares predicted times with measured ones
'
suites='test_codec_payloads test_codec_loops test_golden test_ops_golden test_cpu_rounding test_cpu_fuse test_ops'

say() { printf 'test-arm64: %s\n' "$*"; }
units() {
	(cd tests/unit && ls test_*.c) | sed 's/\.c$//' | grep -vxF "$(awk 'NF {print $1}' <<<"$left_out")"
}

version_is_neon() { # PROGRAM
	local version
	version=$("$1" --version)
	say "$version"
	grep -q ', neon, OpenBLAS ' <<<"$version" || { say "${1##*/} does not choose NEON"; exit 1; }
}

if [ -n "${SPLIT_QUICK:-}" ]; then
	T=${T:-test_codec_payloads test_golden test_wire test_graph test_safetensors}
	[ -n "${SPLIT_NO_DEPS:-}" ] || scripts/install-deps.sh --arm64
	make -s -j2 CROSS=$cross all build-tests T="$T"
	make -s -j2 all build-tests T=split_equals_local # for its tools
	bin=$(mktemp -d)
	trap 'rm -rf "$bin"' EXIT
	for p in splitc splits; do
		printf '#!/bin/sh\nexec qemu-aarch64-static "%s" "$@"\n' "$PWD/$arm/$p" >"$bin/$p"
		chmod 755 "$bin/$p"
		version_is_neon "$bin/$p"
	done
	programs=()
	for t in $T; do programs+=("$arm"/tests/*/"$t"); done
	BUILD=$arm RUN=qemu-aarch64-static JOBS=${JOBS:-2} scripts/run-tests.sh "${programs[@]}"
	BUILD=$amd ARM_SPLITC=$bin/splitc ARM_SPLITS=$bin/splits scripts/two-architectures.sh
	say 'passed, in the short form'
	exit
fi

# Writes a script FILE that runs a program in the other Debian, in the same folder.
in_root() { # FILE PROGRAM
	printf '#!/bin/sh\nexec chroot "%s" /usr/bin/env -C "$PWD" %s "$@"\n' "$root" "$2" >"$1"
	chmod 755 "$1"
}

if [ "${1:-}" != --inside ]; then
	[ -n "${SPLIT_NO_DEPS:-}" ] || scripts/install-deps.sh --arm64 --packages
	[ -n "${MADE:-}" ] || {
		make -s -j2 CROSS=$cross SPLIT_NO_DEPS=1 deb
		make -s -j2 CROSS=$cross all build-tests T="$(units | tr '\n' ' ') $suites"
		make -s -j2 all build-tests T=split_equals_local # for its tools
	}
	debs=(build/deb/split-client_*_arm64.deb build/deb/split-server_*_arm64.deb)
	depends=$(for deb in "${debs[@]}"; do dpkg-deb -f "$deb" Depends; done | tr ',' '\n' | sed 's/[(|].*//; s/ //g' | sort -u | paste -sd,)
	base=$PWD/build/arm64/debian12-$(cksum <<<"$depends" | cut -d ' ' -f 1).tar # another, when they need other libraries
	ARCH=arm64 scripts/debian-root.sh "$base" "$depends,libcmocka0"
	# A mount namespace of its own: mounts are visible to this test's processes alone, and end with them.
	rm -rf "$root"
	mkdir -p "$root"
	tar -C "$root" -xf "$base"
	trap 'rm -rf --one-file-system "$root"' EXIT
	trap 'exit 130' INT TERM HUP
	OUTSIDE=$(readlink /proc/self/ns/mnt) scripts/emulated.sh "$PWD/scripts/test-arm64.sh" --inside
	exit
fi

# ---- with the emulator. The root is removed later, so a mount in it must not outlive this process.
[ "$(readlink /proc/self/ns/mnt)" != "$OUTSIDE" ] || { say 'mounts would not be private'; exit 70; }
mkdir -p "$root$PWD" "$root/debs"
# --rbind, because in a user namespace Linux refuses to bind a folder without the mounts below it
mount --rbind "$PWD" "$root$PWD"
mount --rbind /tmp "$root/tmp"
mount --rbind /proc "$root/proc"
cp build/deb/split-client_*_arm64.deb build/deb/split-server_*_arm64.deb "$root/debs/"
chroot "$root" sh -c 'dpkg -i /debs/*.deb' >"$root/debs/log" 2>&1 || { cat "$root/debs/log"; say 'the packages do not install'; exit 1; }
bin=$root/bin-here
mkdir "$bin"
in_root "$bin/splitc" /usr/bin/splitc
in_root "$bin/splits" /usr/bin/splits
in_root "$bin/run" ''
for p in splitc splits; do version_is_neon "$bin/$p"; done

bad=0
programs=()
for t in $suites $(units); do
	[[ -z ${T:-} || " $T " == *" $t "* ]] || continue
	for room in suite unit; do [ ! -e "$arm/tests/$room/$t" ] || programs+=("$arm/tests/$room/$t"); done
done
BUILD=$arm RUN=$bin/run SPLIT_QUICK=1 JOBS=${JOBS:-2} TEST_TIMEOUT=${TEST_TIMEOUT:-3600} scripts/run-tests.sh "${programs[@]}" || bad=1
awk 'NF {name = $1; $1 = ""; print "SKIP " name ":" $0}' <<<"$left_out"
say "$(awk 'NF' <<<"$left_out" | wc -l) programs left out under emulation"

BUILD=$amd ARM_SPLITC=$bin/splitc ARM_SPLITS=$bin/splits scripts/two-architectures.sh || bad=1
[ $bad = 0 ] || { say 'FAILED'; exit 1; }
say 'passed'
