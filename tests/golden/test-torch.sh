#!/usr/bin/env bash
# make test-torch: MobileNetV2 at full width and 224² against PyTorch, live: one run in float64 (some minutes), then ours;
# and an export of ours in torchvision. Keeps nothing.
set -eu
python=${PYTHON:-/usr/bin/python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset OPENBLAS_CORETYPE
"$python" tests/golden/torch_live.py "$dir"
make --no-print-directory "$BUILD/tests/suite/test_golden"
SPLIT_GOLDEN_PREFIX=$dir/mobilenet_v2_full "$BUILD/tests/suite/test_golden"
