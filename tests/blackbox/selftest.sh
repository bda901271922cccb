#!/usr/bin/env bash
# usage: selftest.sh [NAME]      plants each fault of tests/blackbox/planted, or those whose name has NAME, in a copy of HEAD, and
# runs the black box for two minutes at most, until it finds it. `make blackbox-selftest PLANT=NAME`
set -eu -o pipefail
cd "$(dirname "$0")/../.."
copy=$(mktemp -d)
trap 'git worktree remove --force "$copy/tree"; rm -rf "$copy"' EXIT
git worktree add --detach "$copy/tree" HEAD >/dev/null 2>&1
bad=0 found=0

# planted NAME FILE EDIT: fails, with a sentence, where the fault is not found.
planted() {
	local at=$copy/tree/$2 rc=0
	cp "$2" "$at"
	sed -i "$3" "$at"
	! cmp -s "$2" "$at" || { echo "$1: its text is no longer in $2"; return 1; }
	make -C "$copy/tree" -s -j"$(nproc)" SPLIT_NO_DEPS=1 ${CC:+CC="$CC"} all >"$copy/log" 2>&1 || { tail "$copy/log"; echo "$1: it cannot be compiled"; return 1; }
	TMPDIR=$copy python3 tests/blackbox/blackbox.py "$copy/tree/build/release" --seconds 120 --first-bad >"$copy/log" 2>&1 || rc=$?
	cp "$2" "$at"
	[ $rc = 1 ] || { tail -n 3 "$copy/log"; echo "$1: not found (status $rc)"; return 1; }
	printf '%-45s %3d seeds: %s\n' "$1" "$(grep -c '^seed' "$copy/log")" "$(sed -n 's/^  BROKEN: //p' "$copy/log" | head -n 1)"
}

while read -r line; do
	rest=${line#* | }
	case $line in '#'* | '') continue ;; *"${1:-}"*' | '*' | '*) ;; *) continue ;; esac
	if planted "${line%% | *}" "${rest%% | *}" "${rest#* | }"; then found=$((found + 1)); else bad=$((bad + 1)); fi
done <tests/blackbox/planted
echo "$found faults found, $bad not"
[ $bad = 0 ] && [ $found -gt 0 ]
