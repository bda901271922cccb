#!/usr/bin/env bash
# usage: slow-targets.sh [--minutes N] [--record] [NAME…]        (as root)
# Runs the targets of docs/results/slow-targets.md: what README and docs promise, but `make test-all` does not try.
# Without a NAME they take turns: as many as fit into N minutes (default 6), and each commit begins with the next line of
# the page. In its turn a target gets twice its minutes, plus 2; more than that is a failure. Status 1: a target failed
# that was named, or that has passed before. If one that never passed fails in its turn, it is only reported.
#   --record  writes commit, time and minutes of each passed target into the page; for a developer, who commits the page
set -eu
cd "$(dirname "$0")/.."
page=docs/results/slow-targets.md
minutes=6 record= turn= names=()
while [ $# -gt 0 ]; do
	case $1 in
	--minutes) minutes=$2; shift ;;
	--record) record=yes ;;
	-*) echo "usage: ${0##*/} [--minutes N] [--record] [NAME…]" >&2; exit 64 ;;
	*) names+=("$1") ;;
	esac
	shift
done
say() { printf 'slow-targets: %s\n' "$*"; }

# rows: prints each line of the page's table (name, command, minutes, commit, when), with tabs between the columns.
rows() { sed -n 's/^| \([a-z0-9-]*\) | `\(.*\)` | \([0-9]*\) | \(.*\) | \(.*\) |$/\1\t\2\t\3\t\4\t\5/p' $page; }
known=$(rows | cut -f 1)
[ "$(grep -c '^| [a-z0-9-]* | `' $page)" = "$(wc -w <<<"$known")" ] || { say "$page: a line has not five columns"; exit 1; }
for name in "${names[@]}"; do
	grep -qx -e "$name" <<<"$known" || { say "no target $name in $page; there are:" $known; exit 64; }
done
[ ${#names[@]} -gt 0 ] || turn=yes
[ -z "$turn" ] ||
	mapfile -t names < <(rows | awk -F '\t' -v room="$minutes" -v first="$(git rev-list --count HEAD)" '
		{name[NR - 1] = $1; takes[NR - 1] = $3}
		END {
			for (i = 0; i < NR; i++) {
				k = (first + i) % NR
				if (takes[k] <= room) {
					room -= takes[k]
					print name[k]
				}
			}
		}')
[ ${#names[@]} -gt 0 ] || say "no target fits into $minutes minutes"

write_down() { # NAME MINUTES
	git diff --quiet "$commit" -- . ":!$page" || { say "the tree is not that of commit $commit: not recorded"; return; }
	sed -i "s/^\(| $1 | \`.*\` \)| [0-9]* | .* | .* |$/\1| $2 | $commit | $(date -u '+%F %H:%M') |/" $page
}
bad=0 commit=$(git rev-parse --short=9 HEAD)
mkdir -p build/slow
for name in "${names[@]}"; do
	IFS=$'\t' read -r _ command takes passed _ < <(rows | awk -F '\t' -v name="$name" '$1 == name')
	from=$SECONDS log=build/slow/$name.log status=0
	timeout "$([ -z "$turn" ] && echo $((3 * takes + 10)) || echo $((2 * takes + 2)))m" bash -c "$command" >$log 2>&1 </dev/null || status=$? # a machine may be busy
	took=$((SECONDS - from))
	if [ $status = 0 ]; then
		say "$command: passed, $took s"
		[ -z "$record" ] || write_down "$name" $((took / 60 + 1))
	else
		tail -n 40 $log
		say "FAILED: $command, status $status after $took s; all that it said is in $log"
		if [ -n "$turn" ] && [ "$passed" = - ]; then
			say "$name has no commit at which it passed, so this breaks nothing that is known to work"
		else
			bad=1
		fi
	fi
done
exit $bad
