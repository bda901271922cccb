#!/usr/bin/env bash
# usage: run-tests.sh PROGRAM|SCRIPT.sh …
# Runs cmocka programs and end-to-end scripts, two more at a time than there are cores. Each has a time limit and a
# temporary directory of its own. One line is printed when a test ends; its output follows only if something failed. A
# script is one case: exit status 0 is passed, 77 skipped, anything else failed. Tests that tests/tiers marks `early`
# start first, so that no core is idle at the end; those marked `alone` run last, one after another. With SPLIT_LONG=1
# scripts run their long forms, one at a time, within TEST_TIMEOUT (here 6 h). Each is listed with the time at which it
# began and its last line. The first line names the folder in which tests of an hour report their progress. The last
# line is `N passed, N failed, N skipped`; exit status 1 if anything failed, or if nothing ran at all. Environment:
# BUILD (folder of the binaries), RUN (a program that runs each of them), SAN, SPLIT_QUICK (set in `make test`: tests
# with many similar cases run fewer), JOBS (tests at a time), TEST_BEGAN (when the build began, in seconds of the
# epoch), TEST_TIMEOUT (seconds; 1800 for each, × 5 with SAN; generous, for a busy machine: a test that ends costs no
# more).
set -u
cd "$(dirname "$0")/.."
export BUILD="${BUILD:-build/release}" SAN="${SAN:-}"
export SPLITC="$PWD/$BUILD/splitc" SPLITS="$PWD/$BUILD/splits"
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1 suppressions=$PWD/tests/tsan.supp}"
export LC_ALL=C.UTF-8
# In the everyday tests: else OpenBLAS's threads, which Split never uses, spin for 26 ms in each new process. The others run as users do.
[ -z "${SPLIT_QUICK:-}" ] || export OPENBLAS_NUM_THREADS=1
unset CMOCKA_MESSAGE_OUTPUT CMOCKA_XML_FILE CMOCKA_TEST_ABORT

scratch=$(mktemp -d "${TMPDIR:-/tmp}/split-test.XXXXXX")
export scratch total=$#
began=$SECONDS
trap 'rm -rf "$scratch"' EXIT

count() { grep -c -- "$1" "$2" || true; }

# marked WORD OUTPUT: counts the cases that cmocka marks with WORD, each once.
marked() { awk -v word="$1" '$0 ~ word && !/] ([0-9]+ test|---)/ && !/ [0-9]+ test\(s\), listed below:$/ {seen[$0] = 1} END {n = 0; for (k in seen) n++; print n}' "$2"; }

# run PROGRAM: writes its output to $out; sets $rc to its exit status. Passes signals on to it.
run() {
	local child limit=1800
	[ -z "${SPLIT_LONG:-}" ] || limit=21600
	limit=${TEST_TIMEOUT:-$((limit * (${#SAN} > 0 ? 5 : 1)))}
	mkdir -p "$scratch/$name"
	TMPDIR="$scratch/$name" timeout -k 5 "$limit" ${RUN:-} "$1" >"$out" 2>&1 </dev/null &
	child=$!
	trap 'kill -TERM $child; wait $child; exit 130' INT TERM
	{ wait $child; } 2>/dev/null # bash reports a crash on its own stderr; the output says it better
	rc=$?
	times >"$scratch/$name.times"
	cpu_s=$(awk 'NR == 2 {gsub("[ms]", " "); print $1 * 60 + $2 + $3 * 60 + $4}' "$scratch/$name.times") # of the children
	trap - INT TERM
	[ $rc != 124 ] && [ $rc != 137 ] || echo "timed out after $limit s" >>"$out"
}

# judge PROGRAM: sets $ok, $bad and $skip to the numbers of cases that passed, failed and were skipped.
judge() {
	ok=0 bad=0 skip=0
	case $1 in
	*.sh)
		case $rc in 0) ok=1 ;; 77) skip=1 ;; *) bad=1 ;; esac
		[ $skip = 0 ] || echo "SKIP $name: $(tail -n 1 "$out")" >>"$scratch/skips"
		return
		;;
	esac
	ok=$(count '^\[       OK \] ' "$out")
	bad=$(marked '^\\[  (FAILED |ERROR  ?) ?\\] ' "$out")
	skip=$(marked '^\\[  SKIPPED \\] ' "$out")
	sed -n 's/^\[  SKIPPED \] //p' "$out" | grep -vE '^([^ ]+ )?[0-9]+ test' | sort -u | sed "s/^/SKIP $name: /" >>"$scratch/skips"
	# A crash, a leak report or a program without cases is a failure that no case of its own reports.
	if [ $rc -ne 0 ] && [ "$bad" = 0 ]; then bad=1; fi
	if [ $rc -eq 0 ] && [ $((ok + bad + skip)) = 0 ]; then bad=1; echo 'no test case ran' >>"$out"; fi
}

report() {
	local ran
	echo "$ok $bad $skip" >>"$scratch/tally"
	ran=$(wc -l <"$scratch/tally")
	printf '[%*d/%d] ' "${#total}" "$ran" "$total"
	printf '%-26s %4d passed %3d failed %3d skipped %7.1f s %7.1f CPU s\n' "$name" "$ok" "$bad" "$skip" "$((took / 1000000))e-3" "$cpu_s"
	case $1 in *.sh) [ -z "${SPLIT_LONG:-}" ] || [ $ok = 0 ] || tail -n 1 "$out" | sed 's/^/    /' ;; esac
	[ "$bad" = 0 ] && return
	echo "---- $name: exit status $rc"
	tail -n 200 "$out" | sed 's/^/    /'
	echo "----"
	# Repeated after all other output, for readers who see only the end: the failure itself may be far above.
	{
		echo "FAILED $name: exit status $rc"
		{ grep -E '^(FAILED: |\[ +(ERROR|LINE) +\] )' "$out" | head -n 8; tail -n 12 "$out"; } | cut -c 1-200 | sed 's/^/    /'
	} >>"$scratch/failures"
}

run_one() {
	local name out rc cpu_s ok bad skip start took
	name=$(basename "$1") out="$scratch/$(basename "$1").out"
	[ -z "${SPLIT_LONG:-}" ] || printf '%(%H:%M:%S)T %s …\n' -1 "$name"
	start=$(date +%s%N)
	run "$1"
	took=$(($(date +%s%N) - start))
	exec 3>"$scratch/lock"
	flock 3 # one report at a time
	judge "$1"
	report "$1"
	exec 3>&-
	rm -rf "${scratch:?}/$name"
}
export -f count marked run judge report run_one

# some JOBS PROGRAM…: runs these programs, JOBS at a time.
some() {
	local jobs=$1 workers
	shift
	[ $# -gt 0 ] || return 0
	printf '%s\0' "$@" >"$scratch/list"
	setsid xargs -0 -a "$scratch/list" -P "$jobs" -n 1 bash -c 'run_one "$1"' - & # a group of their own, to be ended by one kill
	workers=$!
	trap 'kill -TERM -- -$workers; wait $workers; exit 130' INT TERM
	wait $workers
	trap - INT TERM
}

[ -z "${SPLIT_LONG:-}" ] || echo "what they say as they run: $scratch/*.out"
: >"$scratch/tally"
: >"$scratch/skips"
: >"$scratch/failures"
# marked_as MARK: prints the names of the tests with this mark, between spaces.
marked_as() { echo " $(awk -v mark="$1" '$2 ~ mark {print $1}' tests/tiers 2>/dev/null | tr '\n' ' ') "; }
lonely=$(marked_as alone) long=$(marked_as early)
early=() together=() alone=()
for prog in "$@"; do
	name=$(basename "$prog" .sh)
	case $lonely in *" $name "*) alone+=("$prog") && continue ;; esac
	case $long in *" $name "*) early+=("$prog") ;; *) together+=("$prog") ;; esac
done
jobs=${JOBS:-$([ -n "${SPLIT_LONG:-}" ] && echo 1 || echo $(($(nproc) + 2)))} # many wait for something
some "$jobs" ${early[@]+"${early[@]}"} ${together[@]+"${together[@]}"}
some 1 ${alone[@]+"${alone[@]}"}

sort "$scratch/skips"
cat "$scratch/failures"
read -r ran passed failed skipped < <(awk '{p += $1; f += $2; s += $3} END {print NR, p + 0, f + 0, s + 0}' "$scratch/tally")
[ "$ran" -gt 0 ] || { echo 'no test to run'; failed=1; }
[ "$ran" = "$total" ] || { echo "$((total - ran)) tests did not end"; failed=$((failed + total - ran)); }
tests_s=$((SECONDS - began)) all_s=$(($(date +%s) - ${TEST_BEGAN:-$(date +%s)}))
echo "$ran programs and scripts in $tests_s s, $jobs at a time${TEST_BEGAN:+; with the build $((all_s / 60)) min $((all_s % 60)) s}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
