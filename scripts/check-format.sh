#!/usr/bin/env bash
# Fails where clang-format would change a source, or where pyflakes finds a fault in a Python script, such as a name that
# nothing defines. Names file and line.
set -eu -o pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null && /usr/bin/python3 -m pyflakes --version >/dev/null 2>&1 ||
	{ echo 'clang-format or pyflakes is missing: run scripts/install-deps.sh --dev' >&2; exit 1; }
sources() { git ls-files -z --cached --others --exclude-standard "$@" | while IFS= read -r -d '' f; do [ ! -f "$f" ] || printf '%s\0' "$f"; done; }
mapfile -d '' -t c < <(sources '*.c' '*.h' '*.cu' '*.cuh')
mapfile -d '' -t python < <(sources '*.py')
[ ${#c[@]} -gt 0 ] || { echo 'no sources found: is this a git checkout?' >&2; exit 1; }
if ! clang-format --dry-run --Werror "${c[@]}" 2>&1 | { grep -E '^[^ ]+:[0-9]+:[0-9]+:' || true; } |
	sed 's/ \[-Wclang-format-violations\]//' >&2; then
	echo 'wrong format: run make format' >&2
	exit 1
fi
# A package's __init__.py imports names for those who import them from it.
faults=$({ [ ${#python[@]} = 0 ] || /usr/bin/python3 -m pyflakes "${python[@]}" || true; } 2>&1 | { grep -v '/__init__\.py:.* imported but unused$' || true; })
[ -z "$faults" ] || { printf '%s\n' "$faults" >&2; exit 1; }
echo "format: $((${#c[@]} + ${#python[@]})) files are in order"
