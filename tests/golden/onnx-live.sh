#!/usr/bin/env bash
# usage: onnx-live.sh [NAME…]: networks of torchvision through ONNX files, against PyTorch: loss, gradients and weights after some
# steps of SGD and of AdamW, and the state_dict that `splitc export` writes. All that onnx_live.py knows, or those named. A
# part of make test-torch.
set -eu
python=${PYTHON:-/usr/bin/python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
make --no-print-directory "$BUILD/tests/suite/test_golden" "$BUILD/splitc"
"$python" tests/golden/onnx_live.py --list >"$dir/list"
while read -r name head_end; do
	case " $* " in *" $name "* | '  ') ;; *) continue ;; esac
	"$python" tests/golden/onnx_live.py "$dir" "$name"
	for run in $name ${name}_adamw; do
		SPLIT_GOLDEN_HEAD_END=$head_end SPLIT_GOLDEN_PREFIX=$dir/$run "$BUILD/tests/suite/test_golden" live
	done
	printf 'model: {network: %s}\ndata: {dir: unused}\n' "$dir/$name.safetensors" >"$dir/client.yaml"
	"$BUILD/splitc" export "$dir/client.yaml" "$dir/${name}_back.safetensors" --weights "$dir/${name}_after.safetensors"
	"$python" tests/golden/onnx_live.py "$dir" --same "$name"
	rm "$dir/$name"*
done <"$dir/list"
