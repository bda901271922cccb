#!/usr/bin/env bash
# Fails where clang-format would change a source, and names file and line.
set -eu -o pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo 'clang-format is missing: run scripts/install-deps.sh --dev' >&2; exit 1; }
mapfile -d '' -t files < <(git ls-files -z --cached --others --exclude-standard '*.c' '*.h' '*.cu' '*.cuh')
there=()
for f in "${files[@]}"; do [ ! -f "$f" ] || there+=("$f"); done
[ ${#there[@]} -gt 0 ] || { echo 'no sources found: is this a git checkout?' >&2; exit 1; }
if ! clang-format --dry-run --Werror "${there[@]}" 2>&1 | { grep -E '^[^ ]+:[0-9]+:[0-9]+:' || true; } |
	sed 's/ \[-Wclang-format-violations\]//' >&2; then
	echo 'wrong format: run make format' >&2
	exit 1
fi
echo "format: ${#there[@]} files are in order"
