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

# Through the command, from torch's weights after its steps: torch must take the file, strictly, and compute the same.
cat >"$dir/export.yaml" <<'YAML'
server: tcp://127.0.0.1:5570
model: {name: mobilenet_v2, classes: 1000, image: 224, form: imagenet}
data: {kind: cifar10, dir: unused}
train: {batch: 8, epochs: 1}
YAML
"$BUILD/splitc" export "$dir/export.yaml" "$dir/export.safetensors" --weights "$dir/mobilenet_v2_full_after.safetensors"
"$python" tests/golden/check_export.py "$dir/export.safetensors" "$dir/mobilenet_v2_full_run.safetensors"
