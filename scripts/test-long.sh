#!/usr/bin/env bash
# usage: test-long.sh [STAGE]…
# Everything at length, stage by stage; all of them, or those named. Goes on after a failure, and ends with a table.
#   long    every test, scripts in their long form: 1,000 kills, every failpoint with every codec, links with 10 s of delay,
#           rogues, an hour of soak
#   fuzz    every fuzz target, 60 s each
#   asan    every test with AddressSanitizer and UBSan
#   tsan    every test with ThreadSanitizer
# First it says how long that is: about 4 h on two idle cores, and longer on busy ones. Less, if need be, with smaller
# numbers in the environment: SPLIT_KILLS (1000), SPLIT_SOAK_S (3600), FUZZ_SECONDS (60), JOBS (2), what make takes.
set -u
cd "$(dirname "$0")/.."
export FUZZ_SECONDS=${FUZZ_SECONDS:-60}
jobs=${JOBS:-2}
began=$SECONDS failed=0 table=()

clock() { printf '%d:%02d:%02d' $(($1 / 3600)) $(($1 / 60 % 60)) $(($1 % 60)); }

# stage NAME WHAT COMMAND…
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

# minutes NAME: what a stage takes where nothing else runs
minutes() {
	case $1 in
	long) echo $((30 + ${SPLIT_KILLS:-1000} / 40 + ${SPLIT_SOAK_S:-3600} / 60)) ;;
	fuzz) echo $((2 + FUZZ_SECONDS * $(ls tests/fuzz/fuzz_*.c | wc -l) / 60)) ;;
	asan) echo 30 ;;
	tsan) echo 40 ;;
	*) echo "test-long: no stage '$1': long, fuzz, asan, tsan" >&2 && exit 64 ;;
	esac
}

[ $# -gt 0 ] || set -- long fuzz asan tsan
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
	esac
done
echo "==== $(clock $((SECONDS - began)))"
printf '%s\n' "${table[@]}"
exit $failed
