#!/usr/bin/env bash
# usage: [RUN=EMULATOR] scripts/man.sh splitc|splits PROGRAM >splitc.1       (make man)
# Prints a manual page made from the program's own output: its --help, every sub-command's --help, every key of the
# config as --print-config explains it, and the exit statuses of common/base/err.h. So the page cannot fall behind the
# program.
set -eu
cd "$(dirname "$0")/.."
name=$1 program=$2 RUN=${RUN:-}
export LC_ALL=C.UTF-8
case $name in
splitc) about='split learning client: trains where the data are' ;;
splits) about='split learning server: computes the middle of networks' ;;
*) echo "usage: scripts/man.sh splitc|splits PROGRAM" >&2; exit 64 ;;
esac
version=$($RUN "$program" --version | awk '{print $2}')

# Escapes plain text for troff: backslashes, hyphens, and a dot or quote at the beginning of a line.
escape() { sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"; }

# command_page COMMAND: the --help of a sub-command as synopsis, paragraphs and options
command_page() {
	$RUN "$program" "$1" --help | escape | awk -v name="$name" '
		/^usage: / { sub(/^usage: /, ""); print ".SS \"" name " " cmd "\""; synopsis = $0; next }
		synopsis && !/^$/ { sub(/^ +/, ""); synopsis = synopsis " " $0; next }
		synopsis { print ".B " synopsis; synopsis = "" }
		/^options:$/ { options = 1; next }
		!options && /^$/ { print ".PP"; next }
		options && /^  \\-/ {
			print ".TP"
			split($0, part, /  +/)
			print ".B \"" part[2] "\""
			if (part[3] != "") { sub(/^  [^ ].*[^ ]  +/, ""); print part[3] }
			next
		}
		{ sub(/^ +/, ""); print (/^[.]/ ? "\\&" : "") $0 }' cmd="$1"
}

# config_keys: prints the keys, indented by section, each after the comments that explain it
config_keys() {
	local minimal
	minimal=$(mktemp)
	[ "$name" = splits ] || printf 'model: {name: mobilenet_v2}\ndata: {dir: .}\n' >"$minimal"
	XDG_RUNTIME_DIR=/run/user/UID $RUN "$program" "$([ "$name" = splits ] && echo serve || echo train)" "$minimal" --print-config
	rm -f "$minimal"
}

cat <<EOF
.TH ${name^^} 1 "" "Split $version" "Split"
.SH NAME
$name \\- $about
.SH SYNOPSIS
.B $name
.I COMMAND
\\&...
.SH COMMANDS
EOF
$RUN "$program" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | while read -r command; do command_page "$command"; done
cat <<'EOF'
.SH CONFIG
One file of YAML. An unknown key, a value of the wrong type or out of bounds is an error with file, line and column.
.B \-\-set
.I KEY=VALUE
names a key with its sections:
.BR train.batch=64 .
The keys, with their defaults:
EOF
# --print-config comments out a key that does not apply to the minimal config; the page lists it all the same.
config_keys | sed 's/^\( *\)#\([^ ]\)/\1\2/' | escape | awk '
	/^ *#/ { sub(/^ *# /, ""); help = help (help == "" ? "" : " ") $0; next }
	{
		depth = match($0, /[^ ]/) - 1
		key = $1; sub(/:$/, "", key)
		value = $0; sub(/^ *[^:]*: ?/, "", value)
		section[depth / 2] = key
		path = ""
		for (i = 0; i <= depth / 2; i++)
			path = path (i ? "." : "") section[i]
		if (help == "")
			next # a section
		# The values of these keys come from this machine or from the minimal config; they are not defaults.
		if (path ~ /^(control|model\.name|data\.dir)$/)
			value = ""
		print ".TP"
		print ".B \"" path "\""
		print help (value == "" || value == "\"\"" ? "" : ". Default: " value)
		help = ""
	}'
printf '.SH EXIT STATUS\nAn error prints one line on stderr. Its status is that of sysexits.h, or one of this list.\n'
# Several errors may share a status: they become one entry that lists all their texts.
sed -n 's/^\tX([A-Z_]*, \([0-9]*\), "\([^"]*\)").*/\1\t\2/p' common/base/err.h | awk -F'\t' '
	!($1 in text) { order[++n] = $1 }
	{ text[$1] = text[$1] (text[$1] == "" ? "" : "; ") $2 }
	END { for (i = 1; i <= n; i++) print ".TP\n.B " order[i] "\n" text[order[i]] }' | sed 's/-/\\-/g'
printf '.SH SEE ALSO\n.BR %s (1)\n' "$([ "$name" = splitc ] && echo splits || echo splitc)"
