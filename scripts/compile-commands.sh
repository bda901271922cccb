#!/usr/bin/env bash
# usage: compile-commands.sh        (jq)
# Writes compile_commands.json, from which clangd and other tools know the flags of each source of the daemons, the
# library and the tests. DEBUG=1: those of build/debug. Nothing is compiled; run `make` once for the generated headers.
set -eu
cd "$(dirname "$0")/.."
make -Bn V=1 SPLIT_NO_DEPS=1 CC=gcc DEBUG="${DEBUG:-}" all build-tests 2>/dev/null |
	sed -n 's/^\(gcc .* -c -o [^ ]*\.o \([^ ]*\.c\)\)$/\2\t\1/p' |
	jq -Rn --arg folder "$PWD" '[inputs | split("\t") | {directory: $folder, file: .[0], command: .[1]}] | unique_by(.file)' >compile_commands.tmp
jq -e 'length > 400' compile_commands.tmp >/dev/null || { echo 'compile-commands: make named hardly any source' >&2; exit 1; }
mv compile_commands.tmp compile_commands.json
echo "compile_commands.json: $(jq length compile_commands.json) sources"
