#!/usr/bin/env bash
# usage: selftest.sh [NAME]      plants each fault of tests/sim/planted, or those whose name has NAME, and runs seeds until it is found
# Run it by `make sim-selftest`, which sets COMPILE and LINK, the commands for one changed file in front of all others.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
dir=$BUILD/sim-planted
mkdir -p "$dir"
bad=0 found=0

# planted_unit NAME FILE TEST - EDIT: the same for one that a program of tests/unit finds.
planted_unit() {
	local c=$dir/planted.c out rc=0

	sed "$5" "$2" >"$c"
	! cmp -s "$2" "$c" || { echo "$1: its text is no longer in $2"; return 1; }
	${COMPILE/-DSL_FAILPOINTS/} -c -o "$dir/planted.o" "$c" 2>"$dir/log" || { cat "$dir/log"; echo "$1: it cannot be compiled"; return 1; }
	$UNIT_LINK "$dir/planted.o" "$BUILD/tests/unit/$3.o" $SUPPORT $LIBS -lcmocka 2>"$dir/log" || { cat "$dir/log"; echo "$1: it cannot be linked"; return 1; }
	out=$(timeout 120 "$dir/unit" 2>&1) || rc=$?
	[ $rc != 0 ] || { echo "$1: not found by $3"; return 1; }
	printf '%-30s %s: %s\n' "$1" "$3" "$(sed -n 's/^\[  FAILED  \] \([a-z_0-9]*\)$/\1/p' <<<"$out" | head -n 1)"
}

# planted NAME FILE ROW SEEDS EDIT: fails, with a sentence, where the fault is not found.
planted() {
	local c=$dir/planted.c out rc=0 args

	[[ $3 == test_* ]] && { planted_unit "$@"; return; }
	read -r -a args <<<"--first-bad --seeds $4"
	[ "${3%:*}" = - ] || args+=(--row "${3%:*}")
	[ "${3%:*}" = "$3" ] || args+=(--kinds "${3#*:}")
	sed "$5" "$2" >"$c"
	! cmp -s "$2" "$c" || { echo "$1: its text is no longer in $2"; return 1; }
	$COMPILE -c -o "$dir/planted.o" "$c" 2>"$dir/log" || { cat "$dir/log"; echo "$1: it cannot be compiled"; return 1; }
	$LINK "$dir/planted.o" $OBJECTS $LIBS 2>"$dir/log" || { cat "$dir/log"; echo "$1: it cannot be linked"; return 1; }
	out=$("$dir/sim" "${args[@]}") || rc=$?
	[ $rc = 1 ] || { echo "$1: not found in $4 seeds (status $rc)"; return 1; }
	printf '%-30s %4d seeds: %s\n' "$1" "$(sed -n 's/^\([0-9]*\) seeds,.*/\1/p' <<<"$out")" "$(sed -n 's/^seed \(.*\)/\1/p' <<<"$out" | head -n 1)"
}

while IFS='|' read -r name file row seeds edit; do
	name=${name% } file=${file# } row=${row# }
	case $name in '#'* | '') continue ;; *"${1:-}"*) ;; *) continue ;; esac
	if planted "$name" "${file% }" "${row% }" "$seeds" "${edit# }"; then found=$((found + 1)); else bad=$((bad + 1)); fi
done <tests/sim/planted
while IFS='|' read -r seeds name _; do
	name=${name% } name=${name# }
	case $seeds in '#'*) continue ;; esac
	[ "$name" = - ] || grep -q -e "^$name |" tests/sim/planted || grep -q -e "X($name," tests/suite/trunk_faults.h ||
		{ echo "tests/sim/causes: ${seeds}has a fault that is nowhere: $name"; bad=$((bad + 1)); }
done <tests/sim/causes
echo "$found faults found, $bad not"
[ $bad = 0 ] && [ $found -gt 0 ]
