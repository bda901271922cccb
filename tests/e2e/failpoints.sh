#!/usr/bin/env bash
# Runs both daemons with failpoints (common/base/failpoint.h). Each case kills one side by SIGKILL at one failpoint and
# restarts it. The run must then equal the undisturbed one in every loss and weight. There is a case for every failpoint
# and every side that passes it. A failpoint that is never passed fails the test. The cases take turns at the codecs.
# With SPLIT_LONG=1 every failpoint is tried with each codec, at its first, a middle and its last passage. Arguments:
# only these failpoints.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/failpoints.sh
# case_of POINT SIDE BEFORE BESIDE CODEC-NUMBER PASSAGE
case_of() {
	local lives=() kills=1
	what="$1 on ${2/c/the client}, passage $6, ${codecs[$5]}"
	what=${what/on s,/on the server,}
	[ "$3" = - ] || { lives+=("$3"); kills=2; }
	lives+=("$1=kill@$6$([ "$4" = - ] || echo ",$4")")
	client_lives=() server_lives=()
	if [ "$2" = c ]; then client_lives=("${lives[@]}"); else server_lives=("${lives[@]}"); fi
	settings "${codecs[$5]}"
	local left try
	# Repeated, since on a busy machine the first process may be killed before it has written its checkpoint. Then the
	# second has no checkpoint to read, and does not pass this failpoint.
	for try in 1 2 3; do
		play $kills
		[ $killed -lt $kills ] || break
	done
	[ $killed -ge $kills ] || fail "$what: never passed"
	left=$(find "$run" "$store" -name '*.tmp' | head -n 1)
	[ -z "$left" ] || fail "$what: $left is left"
	same_run "../${shared##*/}/undisturbed-$5" run $steps || fail "$what"
}

if [ "${1:-}" = --worker ]; then
	shared=$2 worker=$3
	while IFS=$'\t' read -r point side before beside codec passage; do
		case_of "$point" "$side" "$before" "$beside" "$codec" "$passage"
		echo "$what" >>"$shared/passed.$worker"
	done <"$shared/cases.$worker"
	exit 0
fi

# ---- a release contains no failpoints
for program in splitc splits; do
	! nm "$release/$program" | grep -qi failpoint || fail "$program has symbols of failpoints"
	! grep -q SPLIT_FAILPOINTS "$release/$program" || fail "$program reads SPLIT_FAILPOINTS"
	for bad in nonsense=kill ckpt.open=explode ckpt.open=kill@0 ckpt.open ckpt.open=delay:x; do
		rc=0
		SPLIT_FAILPOINTS=$bad "$BUILD/fail/$program" --version >/dev/null 2>&1 || rc=$?
		[ $rc = 64 ] || fail "SPLIT_FAILPOINTS=$bad: status $rc, not 64"
	done
done
"$SPLITC" --failpoints >"$tmp/list"
"$SPLITS" --failpoints | cmp - "$tmp/list" || fail "splitc and splits list different failpoints"
sed -n '/^```failpoints$/,/^```$/{/^```/!p}' docs/RELIABILITY.md | tr ' ' '\n' | diff - <(cut -f 1 "$tmp/list") ||
	fail "docs/RELIABILITY.md does not list the failpoints of splitc --failpoints"

# ---- the undisturbed run: by the release's daemons, and then by those with failpoints, which count their passages
first_weights
for i in "${!codecs[@]}"; do
	SPLITC=$release/splitc SPLITS=$release/splits
	undisturbed "$i"
	mv "$tmp/undisturbed-$i" "$tmp/by-release"
	SPLITC=$release/fail/splitc SPLITS=$release/fail/splits count=$tmp/count-$i
	undisturbed "$i"
	unset count
	same_run by-release "undisturbed-$i" $steps
	rm -r "$tmp/by-release"
done

# passages POINT SIDE CODEC-NUMBER: a number of passages that is certain to occur. The counts of messages, blocks and
# prefetched batches depend on timing, and on the length of numbers in text.
passages() { awk -v point="$1" '$1 == point {print $1 ~ /^link\.|\.write$|^client\.load$/ ? int(($2 * 3 + 3) / 4) : $2}' "$tmp/count-$3.$2"; }

# ---- the cases, lines of POINT SIDE BEFORE BESIDE CODEC PASSAGE, for two workers by turns
cases=0
: >"$tmp/cases.0"
: >"$tmp/cases.1"
deal() {
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$tmp/cases.$((cases % 2))"
	cases=$((cases + 1))
}
while IFS=$'\t' read -r point sides before beside _; do
	[ $# = 0 ] || [[ " $* " = *" $point "* ]] || continue
	[ "$sides" != g ] || continue # tests/e2e/share_left.sh and share_join.sh kill there
	case $sides in b) sides="c s" ;; esac
	for side in $sides; do
		if [ -n "${SPLIT_LONG:-}" ]; then
			for i in "${!codecs[@]}"; do
				n=$(passages "$point" $side "$i")
				[ "$before$beside" = -- ] && [ "$n" -gt 0 ] || n=1
				for passage in $(printf '%d\n' 1 $(((n + 1) / 2)) "$n" | sort -nu); do
					deal "$point" "$side" "$before" "$beside" "$i" "$passage"
				done
			done
		else
			n=$(passages "$point" $side $((cases % 4)))
			[ "$before$beside" = -- ] && [ "$n" -gt 0 ] || n=1
			deal "$point" "$side" "$before" "$beside" $((cases % 4)) $((1 + cases * 7 % n))
		fi
	done
done <"$tmp/list"
[ $cases -gt 0 ] || fail "no such failpoint: $*"
two_workers
echo "$cases kills at $(cut -f 1 "$tmp"/cases.? | sort -u | wc -l) failpoints"
