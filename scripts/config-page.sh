#!/usr/bin/env bash
# usage: scripts/config-page.sh >docs/config.md       (make config-page)
# Prints the reference page of both configs (key, default, meaning), made from what the programs print with
# --print-config. tests/e2e/docs.sh fails if docs/config.md differs from this output.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
export LC_ALL=C.UTF-8
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# tables PROGRAM COMMAND [KEY…]: a table for each section of its config; each KEY is required. In the input comments
# precede their key; a section has no value.
tables() {
	XDG_RUNTIME_DIR=/run/user/UID "$1" "$2" "$tmp/config.yaml" --print-config | awk -v required=" ${*:3} " '
		function escape(s) { gsub(/\|/, "\\|", s); sub(/-[0-9a-f]+\.sock/, "-RUN.sock", s); return s }
		function bounds(s) { sub(/a whole number from /, "", s); sub(/, such as 1048576 or 1 MiB$/, "", s); return s }
		function head(title) { printf "\n%s\n\n| key | default | meaning |\n|---|---|---|\n", title }
		/^ *#[a-z_0-9]+:/ { sub(/#/, "") } # a key that means nothing beside the defaults of the others
		/^ *#/ { sub(/^ *# ?/, ""); note = note (note == "" ? "" : " ") $0; next }
		/^ *[a-z_0-9]+:/ {
			depth = (match($0, /[^ ]/) - 1) / 2
			key = $1; sub(/:.*/, "", key); name[depth] = key
			value = $0; sub(/^ *[a-z_0-9]+: ?/, "", value)
			if (value == "") {
				if (depth == 0) head("### `" key "`")
				note = ""; inside = 1; next
			}
			if (depth == 0 && (inside || !begun)) { head(begun ? "### More keys" : "### Keys of the first level"); inside = 0 }
			begun = 1
			path = name[0]
			for (i = 1; i <= depth; i++) path = path "." name[i]
			value = index(required, " " path " ") ? "required" : "`" escape(value) "`"
			printf "| `%s` | %s | %s |\n", path, value, escape(bounds(note))
			note = ""
		}'
}

cat <<'EOF'
# Every key of both configs

Each program reads one YAML file. `splitc train CONFIG --print-config` and `splits serve CONFIG --print-config` print this reference with the values of your config. `--set KEY=VALUE` changes a key for one run.

An unknown key, a wrong type or a value out of bounds is an error with file, line and column. Bounds without a word are those of whole numbers. Sizes are bytes and may have a unit, as in `64 MiB`. Paths are relative to the folder in which the program starts.

This page is made by `make config-page`.

## The client: splitc
EOF
printf 'model: {name: mobilenet_v2}\ndata: {dir: .}\n' >"$tmp/config.yaml"
tables "$build/splitc" train model.name data.dir
printf '\n## The server: splits\n'
: >"$tmp/config.yaml"
tables "$build/splits" serve
