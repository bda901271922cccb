#!/usr/bin/env bash
# make test-torch: pictures and transforms against Pillow and torchvision; roberta-base, ResNets, and MobileNetV2 at full width and 224²
# against PyTorch, live: one run in float64 (some minutes), then ours; and an export of ours in torchvision. Keeps nothing.
# SPLIT_QUICK=1: the small ones of these, and one network through ONNX.
set -eu
python=${PYTHON:-/usr/bin/python3}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset OPENBLAS_CORETYPE
make --no-print-directory "$BUILD/tests/e2e/tools/pictures"
mkdir "$dir/pictures"
"$python" tests/golden/torchvision_live.py "$BUILD/tests/e2e/tools/pictures" "$dir/pictures"
make --no-print-directory "$BUILD/tests/suite/test_golden"
networks=resnet18 onnx=squeezenet1_1
if [ -z "${SPLIT_QUICK:-}" ]; then
	networks='resnet18 resnet50 resnext50_32x4d' onnx=
	"$python" tests/golden/torch_live.py "$dir"
	SPLIT_GOLDEN_PREFIX=$dir/mobilenet_v2_full "$BUILD/tests/suite/test_golden"

	# roberta-base
	"$python" tests/golden/make_encoder.py "$dir" --full
	SPLIT_GOLDEN_HEAD_END=encoder.layer.0.attention.output SPLIT_GOLDEN_PREFIX=$dir/roberta_base "$BUILD/tests/suite/test_golden"
	rm "$dir"/roberta_base_*
fi

# A pretrained decoder, where SPLIT_DECODER names the folder of a small Llama.
if [ -n "${SPLIT_DECODER:-}" ]; then
	"$python" tests/golden/make_decoder.py "$dir" --of "$SPLIT_DECODER"
	SPLIT_GOLDEN_HEAD_END=layers.0 SPLIT_GOLDEN_TAIL_BEGIN=norm SPLIT_GOLDEN_PREFIX=$dir/pretrained "$BUILD/tests/suite/test_golden"
	scripts/tokenizer-json.py "$SPLIT_DECODER/tokenizer.model" "$dir/tokenizer.json"
	cat >"$dir/decoder.yaml" <<-YAML
		model: {huggingface: $SPLIT_DECODER, head: causal_lm, tokens: 160}
		partition: "2:-2"
		data: {kind: text, dir: unused, tokenizer: $dir/tokenizer.json}
	YAML
	"$BUILD/splitc" generate "$dir/decoder.yaml" --local --weights "$SPLIT_DECODER/model.safetensors" --ids --set generate.max_tokens=159 |
		cmp - "$dir/greedy.txt"
fi

# torchvision's ResNets, and their state_dicts through an export
"$python" tests/golden/networks_live.py "$dir" $networks
cat >"$dir/resnet.yaml" <<'YAML'
model: {name: resnet18, classes: 10, image: 64, form: imagenet}
data: {dir: unused}
YAML
for name in $networks; do
	SPLIT_GOLDEN_HEAD_END=maxpool SPLIT_GOLDEN_PREFIX=$dir/$name "$BUILD/tests/suite/test_golden"
	"$BUILD/splitc" export "$dir/resnet.yaml" "$dir/$name.safetensors" --set model.name=$name --weights "$dir/${name}_after.safetensors"
	"$python" tests/golden/networks_live.py "$dir" --same "$name"
done

# torchvision's networks through ONNX files
tests/golden/onnx-live.sh $onnx
quick=(ReLU Conv1d GroupNorm MultiheadAttention GRU Softmax2d 'transposed linear' 'LayerNorm plain' 'attention pool by einsum')
tests/golden/modules.sh ${SPLIT_QUICK:+"${quick[@]}"}

# Losses of numbers and of several labels, of tables
mkdir "$dir/tasks"
"$python" tests/golden/tasks_live.py "$BUILD/splitc" "$dir/tasks"

# Groups of clients: synchronous training, and both versions of SplitFed
make --no-print-directory "$BUILD/tests/bench/bench_batches" "$BUILD/tests/e2e/tools/make_cifar"
mkdir "$dir/groups"
"$python" tests/golden/groups_live.py "$dir/groups"

# Through the command, from torch's weights after its steps: torch must take the file, strictly, and compute the same.
cat >"$dir/export.yaml" <<'YAML'
server: tcp://127.0.0.1:5570
model: {name: mobilenet_v2, classes: 1000, image: 224, form: imagenet}
data: {kind: cifar10, dir: unused}
train: {batch: 8, epochs: 1}
YAML
if [ -z "${SPLIT_QUICK:-}" ]; then
	"$BUILD/splitc" export "$dir/export.yaml" "$dir/export.safetensors" --weights "$dir/mobilenet_v2_full_after.safetensors"
	"$python" tests/golden/check_export.py "$dir/export.safetensors" "$dir/mobilenet_v2_full_run.safetensors"
fi

# The CIFAR form by the Python of docs/howto-pytorch.md: golden weights, whose logits torch computed in that form.
sed 's/classes: 1000, image: 224, form: imagenet/classes: 10, image: 32, form: cifar, width: 0.1/' "$dir/export.yaml" >"$dir/cifar.yaml"
"$BUILD/splitc" export "$dir/cifar.yaml" "$dir/cifar.safetensors" --weights tests/golden/mobilenet_v2_cifar_after.safetensors
"$python" tests/golden/check_export.py "$dir/cifar.safetensors" tests/golden/mobilenet_v2_cifar_run.safetensors --width 0.1 --readme docs/howto-pytorch.md
