#!/usr/bin/env bash
# Fails where clang-format would change a source, and names file and line.
set -eu
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo 'clang-format is missing: run scripts/install-deps.sh --dev' >&2; exit 1; }
git ls-files -z --cached --others --exclude-standard '*.c' '*.h' '*.cu' |
	xargs -0 -r clang-format --dry-run --Werror 2>&1 | grep -E '^[^ ]+:[0-9]+:[0-9]+:' |
	sed 's/ \[-Wclang-format-violations\]//' | tee /dev/stderr | (! grep -q .)
