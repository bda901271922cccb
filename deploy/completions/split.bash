# Completion of splitc and splits in bash: commands and options from the programs' own --help, else files. `make install` puts
# it where bash-completion looks for both names; or: source deploy/completions/split.bash
_split() {
	local program=$1 word=$2 words
	if [ "$COMP_CWORD" = 1 ]; then
		words=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p')
	elif [ "${word#-}" != "$word" ]; then
		words=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p')
	fi
	if [ -n "${words:-}" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -o filenames -F _split splitc splits
