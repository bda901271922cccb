#!/usr/bin/env bash
# split.trainer and split.tinker: loops that call as the Trainers of Hugging Face and Lightning do, with and without kills
# of either side; a decoder under Tinker's calls, and what crosses the link; the example of docs/howto-trainer.md.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
root=$PWD python=/usr/bin/python3
"$python" -c 'import torch' 2>/dev/null || { echo 'no PyTorch here'; exit 77; }
[ -z "${SAN:-}" ] || { echo 'tests/e2e/script.sh has the library under sanitizers'; exit 77; }
export SPLIT_LIBRARY=$root/$BUILD/libsplit.so.0 PYTHONPATH=$root/python:$root/tests/e2e/script PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
[ -f "$SPLIT_LIBRARY" ] || fail "$SPLIT_LIBRARY is not built: make lib"
cd "$tmp"
run() { timeout "$patience" "$python" "$@" >python.log 2>&1 || fail "$*: $(grep -v link-lost python.log | tail -n 15)"; }
for check in equal kills refused lightning; do run "$root/tests/e2e/script/fronts.py" "$root/$BUILD/splits" "$tmp" check_$check; done
run "$root/tests/e2e/script/tinkers.py" "$root/$BUILD/splits" "$tmp"
timeout "$patience" "$root/examples/run" pairs.py local: >python.log 2>&1 || fail "pairs.py: $(tail -n 15 python.log)"
grep -q 'sums to 7$' python.log || fail "pairs.py: $(cat python.log)"
