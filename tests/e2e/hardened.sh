#!/usr/bin/env bash
# What `make` builds is hardened (scripts/check-hardening.sh). A program that lacks one of the flags is found, and the
# user's CFLAGS come beside the flags that the build needs. A release contains no failpoints.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
[ -z "${SAN:-}" ] || { echo 'sanitizers have checks of their own'; exit 77; }
command -v readelf >/dev/null || { echo 'readelf is missing'; exit 77; }
built=$(find "$BUILD" -maxdepth 1 -name '*.so' -o -maxdepth 1 -name 'splitc' -o -maxdepth 1 -name 'splits')
scripts/check-hardening.sh $built >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"

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
echo 'hardened.sh: passed'
