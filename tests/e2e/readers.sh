#!/usr/bin/env bash
# All that reads a model has the run's own figures and units, for each task: eval, predict in its forms, an exported model, a
# run that goes on from it, the other party of a vertical group. Codecs that draw draw the same. tests/mixed has the checks.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
# This runs $BUILD/fail/splitc, too.
TMPDIR=$tmp KEEP=1 python3 tests/mixed/mixed.py "$BUILD" readers >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
cat "$tmp/out"
