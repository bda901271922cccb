#!/usr/bin/env bash
# usage: modules.sh [NAME…]: the modules of modules.py that are read, or those named, by both ways against PyTorch: loss, gradients, weights
# after ten steps of SGD and the logits of an evaluation. Then what `splitc export` writes of each as ONNX, and the table of
# docs/howto-networks.md. A part of make test-torch.
set -eu
python=${PYTHON:-/usr/bin/python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
make --no-print-directory "$BUILD/tests/suite/test_golden" "$BUILD/splitc" "$BUILD/libsplit.so.0" "$BUILD/tests/e2e/tools/make_cifar"
export SPLIT_LIBRARY=$PWD/$BUILD/libsplit.so.0 PYTHONPATH=$PWD/python
mkdir "$dir/cifar" "$dir/runs"
"$BUILD/tests/e2e/tools/make_cifar" "$dir/cifar" 16 8
"$python" -W ignore tests/golden/modules.py run "$dir/runs" "$BUILD/splitc" "$@" >"$dir/runs.log" || { tail "$dir/runs.log" && exit 1; }
bad=0 n=0
for run in "$dir"/runs/*_run.safetensors; do
	n=$((n + 1)) name=$(basename "${run%_run.safetensors}") floor=
	# The gradient of a bias in front of x - mean is 0: rounding alone is left of it, more on some processors.
	case $name in x_minus_mean_*) floor=1e-2 ;; esac
	env ${floor:+SPLIT_GOLDEN_FLOOR=$floor} SPLIT_GOLDEN_HEAD_END=stem SPLIT_GOLDEN_PREFIX=${run%_run.safetensors} "$BUILD/tests/suite/test_golden" live >"$dir/log" 2>&1 ||
		{ bad=$((bad + 1)) && echo "$name: $(grep -v '^\[' "$dir/log" | head -3)"; }
done
if [ $# = 0 ]; then
	rm "$dir"/runs/*
	"$python" -W ignore tests/golden/onnx_texts.py "$dir/runs"
	for run in "$dir"/runs/*_run.safetensors; do
		n=$((n + 1)) name=$(basename "${run%_run.safetensors}")
		SPLIT_GOLDEN_HEAD_END='' SPLIT_GOLDEN_PREFIX=${run%_run.safetensors} "$BUILD/tests/suite/test_golden" live >"$dir/log" 2>&1 ||
			{ bad=$((bad + 1)) && echo "texts, $name: $(grep -v '^\[' "$dir/log" | head -3)"; }
	done
fi
echo "$n modules are compared with PyTorch, $bad differ"
[ $((bad == 0 && n > 0)) = 1 ]
[ $# != 0 ] || "$python" -W ignore tests/golden/modules.py page "$BUILD/splitc" docs/howto-networks.md
"$python" -W ignore tests/golden/modules.py export "$BUILD/splitc" "$dir/cifar" "$@"
