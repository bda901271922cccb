#!/usr/bin/env bash
# 300 configs whose keys are drawn from seeds: link and one process, kill and resume, eval and the run, predict and eval agree.
# `make mixed SEED=1000 COUNT=3000` checks others. This runs $BUILD/fail/splitc, too.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
TMPDIR=$tmp KEEP=1 python3 tests/mixed/mixed.py "$BUILD" 1 300 >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
cat "$tmp/out"
