#!/usr/bin/env bash
# What `make` builds is hardened (scripts/check-hardening.sh). A program that lacks one of the flags is found, and the
# user's CFLAGS come beside the flags that the build needs. A release contains no failpoints, and splits no names of networks. Everything that `make install`
# installs is in one of the Debian packages; otherwise debhelper refuses to build them. The modules for GPUs, MPI and DICOM,
# which only some machines build, are omitted. Without a compiler, or with one for an unsupported architecture, targets
# that compile nothing work, so that `make deps` can install one; the others are refused with a sentence. And
# install-deps.sh on other systems.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
[ -z "${SAN:-}" ] || { echo 'sanitizers have checks of their own'; exit 77; }
command -v readelf >/dev/null || { echo 'readelf is missing'; exit 77; }
built=$(find "$BUILD" -maxdepth 1 -name '*.so' -o -maxdepth 1 -name 'splitc' -o -maxdepth 1 -name 'splits')
scripts/check-hardening.sh $built >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"

# The server has no list of networks: what a client sends describes its middle.
networks=$(sed -nE 's/^\tX\((\w+), .*SL_NETWORK_.*/^\1$/p' common/conf/networks.h)
strings "$BUILD/splitc" | grep -qE "$networks" && ! strings "$BUILD/splits" | grep -E "$networks" || fail 'splits contains the names of networks'

cat >"$tmp/one.c" <<'C'
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
	char word[16];

	(void)argc;
	strcpy(word, argv[0] + strlen(argv[0]) / 2);
	return puts(word) < 0;
}
C
all='-O2 -fPIE -pie -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wl,-z,relro -Wl,-z,now'
lacks() { # SENTENCE FLAG…: with these flags behind the others, the sentence is the only one
	gcc -w $all "${@:2}" -o "$tmp/one" "$tmp/one.c"
	! scripts/check-hardening.sh "$tmp/one" >"$tmp/out" 2>&1 || fail "found nothing with ${*:2}"
	[ "$(wc -l <"$tmp/out")" = 1 ] && grep -qF "$1" "$tmp/out" || fail "${*:2}: $(cat "$tmp/out")"
}
gcc -w $all -o "$tmp/one" "$tmp/one.c" && scripts/check-hardening.sh "$tmp/one" || fail 'a hardened program was refused'
lacks 'not position-independent' -fno-pie -no-pie
lacks 'bound late' -Wl,-z,lazy
lacks 'stay writable' -Wl,-z,norelro
lacks 'stack is executable' -Wl,-z,execstack
lacks 'no stack protector' -fno-stack-protector
lacks 'no checked libc calls' -U_FORTIFY_SOURCE

# `make CFLAGS=…` still defines what single files need, and the user's flag comes last.
made=$(make -n SPLIT_NO_DEPS=1 B="$tmp/b" CFLAGS=-O0 "$tmp/b/client/main.o" 2>/dev/null)
grep -q 'SL_BUILD_VERSION.* -O0' <<<"$made" || fail "make CFLAGS=-O0: $made"
# ---- a release contains no failpoints
for program in splitc splits; do
	! nm "$BUILD/$program" | grep -qi failpoint || fail "$program has symbols of failpoints"
	! grep -q SPLIT_FAILPOINTS "$BUILD/$program" || fail "$program reads SPLIT_FAILPOINTS"
	for bad in nonsense=kill ckpt.open=explode ckpt.open=kill@0 ckpt.open ckpt.open=delay:x; do
		rc=0
		SPLIT_FAILPOINTS=$bad "$BUILD/fail/$program" --version >/dev/null 2>&1 || rc=$?
		[ $rc = 64 ] || fail "SPLIT_FAILPOINTS=$bad: status $rc, not 64"
	done
done
"$BUILD/fail/splitc" --failpoints >"$tmp/list"
"$BUILD/fail/splits" --failpoints | cmp - "$tmp/list" || fail "splitc and splits list different failpoints"
[ "$(wc -l <"$tmp/list")" -gt 50 ] || fail "splitc --failpoints lists $(wc -l <"$tmp/list") failpoints"

# ---- packages hold all that is installed
# -o: other tests are using these programs, so make must not rebuild them.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -o all -o "$BUILD/splitc" -o "$BUILD/splits" install DESTDIR="$tmp/root" PREFIX=/usr MPI= DICOM= >"$tmp/out" 2>&1 ||
	fail "$(cat "$tmp/out")"
# Only names count, so empty files replace what `make lib` builds.
mkdir "$tmp/b"
touch "$tmp/b"/{libsplit.so.0,libsplit_local.so,split.pc}
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -o lib B="$tmp/b" install-lib DESTDIR="$tmp/root" PREFIX=/usr LIBDIR=/usr/lib/any MODULEDIR=/usr/lib/any/split \
	>"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
# Below /usr/local (no PREFIX) the Python package must be where Python looks for it.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -o lib B="$tmp/b" install-lib DESTDIR="$tmp/local" >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
found=$(find "$tmp/local" -path '*/split/__init__.py' | sed "s|^$tmp/local||; s|/split/__init__.py$||")
/usr/bin/python3 -c 'import site, sys; sys.exit(sys.argv[1] not in site.getsitepackages())' "$found" || fail "Python does not look in $found"

mapfile -t held < <(awk '/^(usr|lib)\// {print $1}' deploy/debian/*.install | sed 's|^lib/|usr/lib/|')
bad=0 n=0
while read -r f; do
	n=$((n + 1))
	for pattern in "${held[@]}"; do
		case $f in $pattern | $pattern/* | */libsplit_cuda.so) continue 2 ;; esac
	done
	echo "$f is in no package: add it to a file deploy/debian/*.install"
	bad=1
done < <(cd "$tmp/root" && find . -type f -o -type l | sed 's|^\./||')
[ $n -ge 20 ] || fail "only $n files installed"
[ $bad = 0 ] || fail "files that no package holds"

# ---- without a compiler
printf '#!/bin/sh\necho m68k-linux-gnu\n' >"$tmp/m68k-gcc"
chmod +x "$tmp/m68k-gcc"

dry() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -nB CC="$compiler" "$@" >"$tmp/out" 2>&1; }
for compiler in "$tmp/no-gcc" "$tmp/m68k-gcc"; do
	for target in help deps test demo clean; do
		dry $target MAKE=true || fail "make $target with ${compiler##*/}: $(cat "$tmp/out")"
		! grep -iE 'gcc|stop' "$tmp/out" || fail "make $target speaks of ${compiler##*/}"
	done
	! dry all || fail "make all with ${compiler##*/} is not refused"
	case $compiler in
	*/no-gcc) say="$compiler is missing: run scripts/install-deps.sh" ;;
	*) say="Split is built for x86-64 and arm64; $compiler makes code for \"m68k\"" ;;
	esac
	grep -qF "$say" "$tmp/out" || fail "make all does not say: $say: $(tail -n 3 "$tmp/out")"
done

deps() { # ID ARGUMENT…: install-deps.sh on a system of this ID; $status
	echo "ID=$1" >"$tmp/os-release"
	status=0
	OS_RELEASE=$tmp/os-release scripts/install-deps.sh "${@:2}" >"$tmp/out" 2>&1 || status=$?
}
# Names of packages that hold on all three systems: none is of one release, or of Debian alone.
deps ubuntu --dev --dicom --print
[ $status = 0 ] && ! grep -oE 'lib(clang-rt-[0-9]+|jpeg62-turbo)-dev' "$tmp/out" || fail 'packages that Ubuntu 24.04 lacks'
# Elsewhere nothing is installed. What is missing or too old is named; if nothing is, make goes on.
deps fedora
[ $status = 0 ] && [ ! -s "$tmp/out" ] || fail "on Fedora with everything: status $status, $(cat "$tmp/out")"
printf '#!/bin/sh\n[ "$1" = --exists ] && [ "$2" != "libuv >= 1.44.2" ]\n' >"$tmp/pkg-config"
chmod +x "$tmp/pkg-config"
PATH=$tmp:$PATH deps fedora --peer
[ $status = 69 ] && [ "$(grep -vc '^install-deps: ' "$tmp/out")" = 1 ] && grep -qx 'library libuv, 1.44.2 or later' "$tmp/out" &&
	grep -q -- '--peer needs what they call python3-torch' "$tmp/out" || fail "on Fedora without libuv: status $status, $(cat "$tmp/out")"
echo passed
