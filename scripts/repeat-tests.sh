#!/usr/bin/env bash
# usage: repeat-tests.sh N [TARGET…]
# Runs `make TARGET` N times, in N rounds; without a TARGET, test and test-rest. It continues after a failed test, and
# ends with a table: how many rounds passed, and how often each test failed. The output of a round is in
# build/repeat/TARGET-ROUND.log. Run it beside other work (stress-ng --cpu 2, or a build) as well as on an idle machine.
# Status 1: something failed.
set -u
cd "$(dirname "$0")/.."
[[ ${1:-} =~ ^[1-9][0-9]*$ ]] || { echo "usage: ${0##*/} N [TARGET…]" >&2; exit 64; }
rounds=$1
shift
[ $# -gt 0 ] || set -- test test-rest
logs=build/repeat passed=0
rm -rf $logs
mkdir -p $logs
for ((round = 1; round <= rounds; round++)); do
	for target in "$@"; do
		log=$logs/$target-$round.log
		if make "$target" >"$log" 2>&1 </dev/null; then passed=$((passed + 1)); else grep -h '^FAILED ' "$log" >>$logs/failed || echo "make $target" >>$logs/failed; fi
		printf '%(%H:%M)T round %d, %s: %s\n' -1 $round "$target" "$(tail -n 1 "$log")"
	done
done
echo "$passed of $((rounds * $#)) runs passed: $rounds rounds of $*"
[ -s $logs/failed ] || exit 0
sed 's/^FAILED \(.*\): exit status .*/\1/' $logs/failed | sort | uniq -c | sort -rn
exit 1
