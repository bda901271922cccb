#!/usr/bin/env bash
# Manual pages and completions match the programs: every command, option, key and exit status is there. If man is
# installed, it finds no fault in the pages. Output for a terminal fits 80 columns.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh

# has PAGE TEXT: the page has TEXT, in troff's spelling.
has() { grep -qF -- "${2//-/\\-}" "$1" || fail "${1##*/} lacks $2"; }

reads() { # PAGE: man finds nothing wrong with it, where man is
	command -v man >/dev/null || return 0
	man --warnings -l "$1" >"$tmp/page" 2>"$tmp/log" || fail "man cannot read ${1##*/}"
	[ ! -s "$tmp/log" ] || fail "${1##*/} has faults: $(cat "$tmp/log")"
}

for program in "$SPLITC" "$SPLITS"; do
	name=${program##*/} page=$tmp/${program##*/}.1
	scripts/man.sh "$name" "$program" >"$page" || fail "man.sh $name"
	commands=$("$program" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
	[ -n "$commands" ] || fail "$name has no commands"
	"$program" --help >"$tmp/$name help"
	fits "$tmp/$name help"
	for command in $commands; do
		"$program" "$command" --help >"$tmp/$name $command"
		fits "$tmp/$name $command"
		has "$page" ".B $(sed -n '/^usage: /,/^$/p' "$tmp/$name $command" | sed 's/^usage: //' | xargs echo)"
		has "$page" ".SS \"$name $command\""
		for option in $("$program" "$command" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do has "$page" ".B \"$option"; done
	done
	for key in threads drain_s link.window_bytes auth.secret_key log.level control metrics; do has "$page" ".B \"$key\""; done
	for status in 0 64 65 66 69 70 71 73 74 75 76 77 78; do has "$page" ".B $status"; done
	reads "$page"
done
for key in momentum beta1; do has "$tmp/splitc.1" ".B \"train.optimizer.$key\""; done # one of them is the default optimizer's
has "$tmp/splits.1" '.B "limits.memory_bytes"'

page=$tmp/split.3
scripts/man-api.py >"$page" || fail man-api.py
for text in $(grep -oE '\bsplit_[a-z_]+\(' lib/split.h) $(grep -oE '\bSPLIT_[A-Z_]+\b' lib/split.h | grep -vx SPLIT_H) keep_every; do has "$page" "$text"; done
reads "$page"

. deploy/completions/split.bash
# completes EXPECTED WORD…: the last word is completed to EXPECTED.
completes() {
	local expected=$1
	shift
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
	_split "$1" "${COMP_WORDS[COMP_CWORD]}"
	[ "${COMPREPLY[*]}" = "$expected" ] || fail "${*:2}: '${COMPREPLY[*]}', not '$expected'"
}
completes train "$SPLITC" tr
completes serve "$SPLITS" se
completes '--resume' "$SPLITC" train --res
completes '--check-config' "$SPLITS" serve x --ch
completes Makefile "$SPLITC" train Makefi
completes 'train.optimizer.kind=' "$SPLITC" train configs/client-demo.yaml --set train.optimizer.k
completes 'limits.sessions= limits.sessions_per_key=' "$SPLITS" serve configs/server.yaml --json --set limits.s
echo passed
