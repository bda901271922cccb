#!/usr/bin/env bash
# What `splitc export` writes as ONNX predicts in ONNX Runtime as in `splitc predict`, to 1e-5 of the largest logit: built-in networks,
# networks of files, and with PyTorch those of tests/golden/onnx_families.py. --training writes another network, which must differ.
# The package onnxruntime-node is taken from $ONNXRUNTIME (a folder outside the tree), or installed there.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
tool=$PWD/tests/e2e/tools/onnx_runtime.cjs
package=${ONNXRUNTIME:-${XDG_CACHE_HOME:-$HOME/.cache}/split-onnxruntime}
command -v node >/dev/null && command -v npm >/dev/null || { echo 'SKIP no node and npm: scripts/install-deps.sh --onnx' && exit 77; }
if [ ! -d "$package/node_modules/onnxruntime-node" ]; then
	mkdir -p "$package"
	timeout 300 npm install --prefix "$package" --ignore-scripts --no-audit --no-fund onnxruntime-node@1 >"$tmp/npm.log" 2>&1 ||
		{ echo "SKIP onnxruntime-node cannot be installed: $(tail -n 1 "$tmp/npm.log")" && exit 77; }
fi
export NODE_PATH=$package/node_modules

# network NAME CONFIG-LINE SIDE [CHANNELS CLASSES]: trains two steps, exports, and compares 24 pictures; SIDE rows: a table
network() {
	local name=$1 side=$3 channels=${4:-3} classes=${5:-10} rows=()
	local data="kind: images, dir: $tmp/pictures-$side-$channels, normalize: none, transforms: ['Resize(($side, $side))'], test_transforms: ['Resize(($side, $side))']"
	if [ "$side" = rows ]; then
		data="kind: csv, dir: $tmp/table, label: label" rows=("$tmp/table/test.csv")
	fi
	printf '%s\n' "model: {$2}" "data: {$data}" "train: {batch: 8, max_steps: 2, seed: 3, optimizer: {kind: sgd, lr: 0.01}}" \
		'threads: 1' "log: {dir: $tmp/run-$name}" >"$tmp/$name.yaml"
	"$SPLITC" train "$tmp/$name.yaml" --local >"$tmp/$name.log" 2>&1 &&
		"$SPLITC" predict "$tmp/$name.yaml" --local --logits --csv >"$tmp/$name.csv" 2>>"$tmp/$name.log" &&
		"$SPLITC" export "$tmp/$name.yaml" "$tmp/$name.out.onnx" >>"$tmp/$name.log" 2>&1 &&
		"$SPLITC" export "$tmp/$name.yaml" "$tmp/$name.training.onnx" --training >>"$tmp/$name.log" 2>&1 || fail "$name: $(tail -n 2 "$tmp/$name.log")"
	node "$tool" compare "$tmp/$name.out.onnx" "$tmp/$name.csv" "${rows[@]}" >"$tmp/$name.differs" 2>&1 || fail "$name: $(cat "$tmp/$name.differs")"
	echo "$name: $(cat "$tmp/$name.differs")"
	# batch norms and dropout in training compute something else: this comparison can fail
	! grep -q 'training_mode' "$tmp/$name.out.onnx" || ! node "$tool" compare "$tmp/$name.training.onnx" "$tmp/$name.csv" "${rows[@]}" >/dev/null 2>&1 ||
		fail "$name: --training predicts the same"
	rm -rf "$tmp/run-$name" "$tmp/$name".*onnx
	echo "$name" >>"$tmp/compared"
}

node "$tool" rows "$tmp/table" 5 3
for shape in '8 3 10' '16 3 10' '32 3 10' '64 3 10' '16 1 3'; do
	set -- $shape
	node "$tool" make "$tmp/pictures-$1-$2" "$1" "$2" "$3"
done
words=()
for name in mobilenet_v2 mobilenet_v2_pool4 mobilenet_v2_relu resnet9 resnet18 resnet34 resnet50 resnext50_32x4d alexnet alexnet1 vgg16; do
	width=0.1
	[ $name != resnext50_32x4d ] || width=1
	words+=("$name|name: $name, classes: 10, image: 32, width: $width|32")
done
words+=('mlp|name: mlp, classes: 3, features: 5, dropout: 0.3|rows' "grey|network: $PWD/tests/golden/onnx_grey.safetensors|16|1|3")
for name in small wide many steps; do words+=("$name|network: $PWD/tests/golden/onnx_$name.safetensors|16"); done
least=17 python=${PYTHON:-/usr/bin/python3}
if "$python" -c 'import torch, torchvision, onnx' 2>/dev/null; then
	least=32
	"$python" -W ignore tests/golden/onnx_families.py export "$tmp" >"$tmp/families"
	SPLIT_LIBRARY=${SPLITC%/*}/libsplit.so.0 PYTHONPATH=$PWD/python "$python" -W ignore tests/golden/modules.py write "$tmp" \
		'transposed linear' 'LayerNorm plain' 'AvgPool2d pad not counted' 'expanded tokens' >>"$tmp/families"
	while read -r name side; do words+=("$name|network: $tmp/$name.safetensors|$side"); done <"$tmp/families"
fi
two_at_a_time network "${words[@]}"
[ "$(sort -u "$tmp/compared" | wc -l)" = $least ] || fail "$(wc -l <"$tmp/compared") networks compared, not $least"
echo passed
