#!/usr/bin/env bash
# Third-party networks (tests/golden/onnx_families.py), as torch.onnx.export and split.onnx write them: ten steps of SGD as in
# PyTorch, cut at two places. A run with a server equals one in one process byte for byte, at both cuts, in 1 chunk and
# in 4, and over a kill of the client. The weights load strictly again, and the network is exported as ONNX.
# FAMILIES="NAME …" chooses some.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, torchvision, onnx' 2>/dev/null || { echo 'SKIP no PyTorch' && exit 77; }
make_data 48 16
steps=3
cat >"$tmp/plain.yaml" <<-YAML
	model: {network: unset}
	data: {kind: cifar10, dir: $tmp/data, train_files: [data_batch_1.bin], train_limit: 48, test_limit: 16, transforms: [], test_transforms: []}
	train: {batch: 16, chunks: 4, epochs: 1, seed: 3, checkpoint_every: 1, optimizer: {kind: sgd, lr: 0.001, momentum: 0.9}}
	threads: 1
YAML
config=$tmp/plain.yaml
. tests/e2e/lib/compare.sh

# split NAME SIZE HEAD_END TAIL_BEGIN: this cut equals one process; with 4 chunks the client is killed once.
split() {
	local chunks set
	for chunks in 1 4; do
		set=(--set "head_end=$3" --set "tail_begin=$4" --set train.chunks=$chunks)
		as_local "two $1 $chunks" "local $1 $chunks" "$steps" "$tmp/$1.yaml" --fresh --set server="$two" "${set[@]}"
	done
	killed_client 1 "local $1 4" "$tmp/$1.yaml" --set server="$two" "${set[@]}"
}

# family NAME SIZE CUT CUT
family() {
	local name=$1 size=$2 cut
	shift 2
	"$python" -W ignore tests/golden/onnx_families.py make "$tmp" "$name" >"$tmp/$name.made" || fail "$name: $(tail -n 3 "$tmp/$name.made")"
	sed "s|unset|$tmp/$name.safetensors|; s/transforms: \[\]/transforms: ['Resize(($size, $size))']/g" "$config" >"$tmp/$name.yaml"
	for cut in "$@"; do
		SPLIT_GOLDEN_FLOOR=1e-2 SPLIT_GOLDEN_HEAD_END=${cut%:*} SPLIT_GOLDEN_PREFIX=$tmp/$name "$BUILD/tests/suite/test_golden" live >"$tmp/golden" 2>&1 || fail "$name, $cut: $(cat "$tmp/golden")"
		split "$name" "$size" "${cut%:*}" "${cut#*:}"
	done
	"$SPLITC" export "$tmp/$name.yaml" "$tmp/${name}_back.safetensors" --weights "$tmp/${name}_after.safetensors" >/dev/null || fail "$name: export"
	"$python" -W ignore tests/golden/onnx_families.py same "$tmp" "$name"
	"$SPLITC" export "$tmp/$name.yaml" "$tmp/$name.out.onnx" --weights "$tmp/${name}_after.safetensors" >/dev/null || fail "$name: export as ONNX"
	PYTHONPATH=$PWD/python "$python" -W ignore -m split.onnx "$tmp/$name.out.onnx" "$tmp/$name.out.safetensors" || fail "$name: out and in again"
	for model in "$name" "$name.out"; do
		"$SPLITC" predict "$tmp/$name.yaml" --local --logits --csv --weights "$tmp/${name}_after.safetensors" --set model.network="$tmp/$model.safetensors" >"$tmp/$model.csv" || fail "$model: predict"
	done
	cmp -s "$tmp/$name.csv" "$tmp/$name.out.csv" && [ "$(wc -l <"$tmp/$name.csv")" = 17 ] || fail "$name: other logits, out and in again"
	rm -rf "$tmp/"*"$name"*
	echo "$name: as PyTorch, split as local"
}

"$python" -W ignore tests/golden/onnx_families.py --list >"$tmp/list"
while read -r name more; do
	case " ${FAMILIES:-$name} " in *" $name "*) family "$name" $more ;; esac
done <"$tmp/list"
echo passed
