# Completion of splitc and splits in bash: commands and options from the programs' own --help, keys of --set from --print-config
# with the command's config, else files. `make install` puts it where bash-completion looks for both names; or: source
# deploy/completions/split.bash
_split_keys() { # PROGRAM COMMAND CONFIG: key.path= of each key
	"$1" "$2" "$3" --print-config 2>/dev/null | awk '
		/^ *[a-z_0-9]+:/ {
			depth = (match($0, /[^ ]/) - 1) / 2
			name[depth] = $1; sub(/:.*/, "", name[depth])
			path = name[0]
			for (i = 1; i <= depth; i++) path = path "." name[i]
			if ($0 !~ /: *$/) print path "="
		}'
}

_split() {
	local program=$1 word=$2 words
	if [ "$COMP_CWORD" = 1 ]; then
		words=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p')
	elif [ "${COMP_WORDS[COMP_CWORD - 1]}" = --set ]; then
		words=$(_split_keys "$program" "${COMP_WORDS[1]}" "${COMP_WORDS[2]}")
		compopt +o filenames -o nospace 2>/dev/null || true # no file's name; a value follows
	elif [ "${word#-}" != "$word" ]; then
		words=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | sed -n '/^options:/,$s/^  \(--[a-z-]*\).*/\1/p')
	fi
	if [ -n "${words:-}" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -o filenames -F _split splitc splits
