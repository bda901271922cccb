#!/usr/bin/env bash
# usage: run-tests.sh PROGRAM|SCRIPT.sh …
# Runs cmocka programs and end-to-end scripts one after another, each with a time limit and a temporary directory of its
# own. Which one runs, of how many, is shown while it does, its output only where something failed. A script is one case:
# exit 0 passed, 77 skipped, anything else failed.
# With SPLIT_LONG=1 scripts run their long forms, within TEST_TIMEOUT (here 6 h), each is shown with the time it began and
# the last line that it said, and the first line names the folder in which those that take an hour say how far they are.
# The last line is `N passed, N failed, N skipped`; exit status 1 where anything failed, or nothing ran at all.
# Environment: BUILD (folder of the binaries), SAN, TEST_TIMEOUT (seconds; 300 a program, 900 a script, × 5 with SAN: a
# machine may be busy, and a test that ends is not waited for).
set -u
cd "$(dirname "$0")/.."
export BUILD="${BUILD:-build/release}"
export SPLITC="$PWD/$BUILD/splitc" SPLITS="$PWD/$BUILD/splits"
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1 suppressions=$PWD/tests/tsan.supp}"
export LC_ALL=C.UTF-8
unset CMOCKA_MESSAGE_OUTPUT CMOCKA_XML_FILE CMOCKA_TEST_ABORT

scratch=$(mktemp -d "${TMPDIR:-/tmp}/split-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0 ran=0
skips=()

count() { grep -c -- "$1" "$2" || true; }

run_one() {
	local prog=$1 name limit start end rc ok=0 bad=0 skip=0 out
	name=$(basename "$prog")
	out="$scratch/$name.out"
	case $prog in *.sh) limit=900 ;; *) limit=300 ;; esac
	[ -z "${SPLIT_LONG:-}" ] || limit=21600
	limit=${TEST_TIMEOUT:-$((limit * (${#SAN} > 0 ? 5 : 1)))}
	mkdir -p "$scratch/$name"
	printf '[%*d/%d] ' "${#total}" $((ran + 1)) "$total"
	[ -z "${SPLIT_LONG:-}" ] || printf '%(%H:%M:%S)T ' -1
	printf '%-26s ' "$name"
	start=$(date +%s%N)
	# the group: bash reports a crash on its own stderr, and the output below does it better
	{ TMPDIR="$scratch/$name" timeout -k 5 "$limit" "$prog" >"$out" 2>&1 </dev/null; } 2>/dev/null
	rc=$?
	end=$(date +%s%N)
	case $prog in
	*.sh)
		case $rc in 0) ok=1 ;; 77) skip=1 ;; *) bad=1 ;; esac
		[ $skip = 0 ] || skips+=("$name: $(tail -n 1 "$out")")
		;;
	*)
		ok=$(count '^\[       OK \] ' "$out")
		bad=$(awk '/^\[  (FAILED |ERROR  ?) ?\] / && !/] ([0-9]+ test|---)/ {seen[$0] = 1} END {n = 0; for (k in seen) n++; print n}' "$out")
		skip=$(awk '/^\[  SKIPPED \] / && !/] ([0-9]+ test|---)/ {seen[$0] = 1} END {n = 0; for (k in seen) n++; print n}' "$out")
		while read -r line; do skips+=("$name: $line"); done < <(sed -n 's/^\[  SKIPPED \] //p' "$out" | grep -v '^[0-9]* test' | sort -u)
		# a crash, a leak report, a program without cases: a failure that no case of its own reports
		if [ $rc -ne 0 ] && [ "$bad" = 0 ]; then bad=1; fi
		if [ $rc -eq 0 ] && [ $((ok + bad + skip)) = 0 ]; then bad=1; echo 'no test case ran' >>"$out"; fi
		;;
	esac
	printf '%4d passed %3d failed %3d skipped %7.1f s\n' "$ok" "$bad" "$skip" "$(((end - start) / 1000000))e-3"
	case $prog in *.sh) [ -z "${SPLIT_LONG:-}" ] || [ $ok = 0 ] || tail -n 1 "$out" | sed 's/^/    /' ;; esac
	if [ "$bad" != 0 ]; then
		[ $rc = 124 ] || [ $rc = 137 ] && echo "timed out after $limit s" >>"$out"
		echo "---- $name: exit status $rc"
		tail -n 200 "$out" | sed 's/^/    /'
		echo "----"
	fi
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip)) ran=$((ran + 1))
	rm -rf "${scratch:?}/$name"
}

SAN=${SAN:-} total=$#
[ -z "${SPLIT_LONG:-}" ] || echo "what they say as they run: $scratch/*.out"
for prog in "$@"; do run_one "$prog"; done
for s in ${skips[@]+"${skips[@]}"}; do echo "SKIP $s"; done
[ $ran -gt 0 ] || { echo 'no test to run'; failed=1; }
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
