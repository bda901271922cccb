#!/usr/bin/env bash
# usage: test-long.sh [STAGE]…
# Runs all tests at length, stage by stage: all stages, or those named. Continues after a failure, and ends with a
# table.
#   long    every test, scripts in their long form: 1,000 kills, every failpoint with every codec, links with 10 s of delay,
#           rogues, an hour of soak
#   fuzz    every fuzz target, 60 s each
#   asan    every test with AddressSanitizer and UBSan
#   tsan    every test with ThreadSanitizer
#   lib     libsplit, its example and its tests in C and Python with each sanitizer and valgrind; 10 minutes of its fuzz targets
# It first prints how long that takes: about 4 h on two idle cores, longer on busy ones. Smaller numbers in the
# environment make it shorter: SPLIT_KILLS (1000), SPLIT_SOAK_S (3600), FUZZ_SECONDS (60). JOBS (2): jobs of make.
set -u
cd "$(dirname "$0")/.."
export FUZZ_SECONDS=${FUZZ_SECONDS:-60}
jobs=${JOBS:-2}
began=$SECONDS failed=0 table=()

clock() { printf '%d:%02d:%02d' $(($1 / 3600)) $(($1 / 60 % 60)) $(($1 % 60)); }

# stage NAME WHAT COMMAND…: runs COMMAND as a stage, and notes its result and time.
stage() {
	local name=$1 what=$2 from=$SECONDS said=passed
	shift 2
	echo "==== $name: $what (after $(clock $((SECONDS - began))))"
	"$@" || { said=FAILED failed=1; }
	table+=("$(printf '%-6s %-8s %s' "$name" $said "$(clock $((SECONDS - from)))")")
}
checked() { # SAN
	make -j"$jobs" SAN="$1" all build-tests && make SAN="$1" check
}
hardened() {
	local san tests='test_split_api test_session_free script'
	for san in address,undefined thread ''; do
		make -j"$jobs" SAN="$san" all lib && make SAN="$san" T="$tests" check || return 1
	done
	make RUN='valgrind -q --error-exitcode=99 --leak-check=full' T='test_split_api test_session_free' check &&
		FUZZ_SECONDS=600 make -j"$jobs" T='fuzz_split_conf fuzz_session' fuzz
}

# minutes NAME: the time that a stage takes on an otherwise idle machine.
minutes() {
	case $1 in
	long) echo $((90 + ${SPLIT_KILLS:-1000} / 40 + ${SPLIT_SOAK_S:-3600} / 60)) ;;
	fuzz) echo $((2 + FUZZ_SECONDS * $(ls tests/fuzz/fuzz_*.c | wc -l) / 60)) ;;
	asan) echo 30 ;;
	tsan) echo 40 ;;
	lib) echo 40 ;;
	*) echo "test-long: no stage '$1': long, fuzz, asan, tsan, lib" >&2 && exit 64 ;;
	esac
}

[ $# -gt 0 ] || set -- long fuzz asan tsan lib
all=0 plan=
for s in "$@"; do
	m=$(minutes "$s") || exit
	all=$((all + m)) plan="$plan, $s $m min"
done
echo "==== ${plan#, }: until $(date -d "+$all min" +%H:%M) where nothing else runs"
for s in "$@"; do
	case $s in
	long) SPLIT_LONG=1 stage long 'every test in its long form' checked '' ;;
	fuzz) stage fuzz "$FUZZ_SECONDS s for each target" make -j"$jobs" fuzz ;;
	asan) stage asan 'every test with AddressSanitizer and UBSan' checked address,undefined ;;
	tsan) stage tsan 'every test with ThreadSanitizer' checked thread ;;
	lib) stage lib 'libsplit with sanitizers, valgrind and fuzzers' hardened ;;
	esac
done
echo "==== $(clock $((SECONDS - began)))"
printf '%s\n' "${table[@]}"
exit $failed
