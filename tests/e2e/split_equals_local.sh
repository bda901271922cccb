#!/usr/bin/env bash
# The central test: training over the link gives the losses of all steps and the final weights of `--local`, byte for
# byte, for every cut, number of chunks, number of threads, codec, and origin of the weights. The last batch is ragged,
# dropout is on.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 56 24 # batches of 16, 16, 16 and 8
steps=4
start_server one threads=1
one=$endpoint
start_server two "store=$tmp/two" threads=2
two=$endpoint
write_config "$tmp/client.yaml"
cases=0

config=$tmp/client.yaml

# compare NAME LOCAL ENDPOINT [key=value]…: a run with the server equals the local run LOCAL
compare() {
	local name=$1 reference=$2 server=$3 set=() pair
	shift 3
	for pair in "$@"; do set+=(--set "$pair"); done
	client "$name" "$config" --set server="$server" "${set[@]}" || fail "$name: exit status $?"
	same_run "$name" "$reference" $steps
	cases=$((cases + 1))
}

# local_run NAME [key=value]…
local_run() {
	local name=$1 set=() pair
	shift
	for pair in "$@"; do set+=(--set "$pair"); done
	client "$name" "$config" --local "${set[@]}" || fail "$name: exit status $?"
}

# `make test` omits the largest number of chunks.
for chunks in 1 4 $([ -n "${SPLIT_QUICK:-}" ] || echo 8); do
	for cut in partition=1:-1 partition=2:-2 partition=2:-1 partition=1:-2 head_end=features.0.1; do
		local_run "local $chunks $cut" "$cut" train.chunks=$chunks
		compare "one $chunks $cut" "local $chunks $cut" "$one" "$cut" train.chunks=$chunks threads=1
		compare "two $chunks $cut" "local $chunks $cut" "$two" "$cut" train.chunks=$chunks threads=2
	done
done
[ "$(learned 'local 1 partition=1:-1')" != "$(learned 'local 4 partition=1:-1')" ] ||
	fail 'chunks made no difference, though batch statistics are theirs'
! compgen -G "$tmp/store/*.f32" >/dev/null || fail 'weights from a seed were stored'

# the usual CIFAR form, another width, and the same with a loss that is summed over chunks
local_run 'local cifar' model.form=cifar model.width=0.35 train.chunk_loss=sum
compare 'remote cifar' 'local cifar' "$two" model.form=cifar model.width=0.35 train.chunk_loss=sum threads=2

# smoothed labels
local_run 'local smooth' train.label_smoothing=0.1
compare 'remote smooth' 'local smooth' "$two" train.label_smoothing=0.1 threads=2
[ "$(learned 'local smooth')" != "$(learned 'local 4 partition=1:-1')" ] || fail 'smoothed labels made no difference'

# an image that is not square
local_run 'local 40x56' model.image=40x56
compare 'remote 40x56' 'local 40x56' "$two" model.image=40x56 threads=2
[ "$(learned 'local 40x56')" != "$(learned 'local 4 partition=1:-1')" ] || fail 'the size of the image made no difference'

# another network: by unit, by layer, and under codecs
for cut in partition=1:-1 partition=3:-2 head_end=layer1_conv; do
	for chunks in 1 4; do
		other=(model.name=resnet9 model.width=0.125 "$cut" train.chunks=$chunks)
		local_run "local resnet9 $chunks $cut" "${other[@]}"
		compare "two resnet9 $chunks $cut" "local resnet9 $chunks $cut" "$two" "${other[@]}" threads=2
	done
done
other=(model.name=resnet9 model.width=0.125 tail_begin=classifier codec='topk:0.2|quant:8')
local_run 'local resnet9 codec' "${other[@]}"
compare 'one resnet9 codec' 'local resnet9 codec' "$one" "${other[@]}"
[ "$(learned 'local resnet9 1 partition=1:-1')" != "$(learned 'local resnet9 4 partition=1:-1')" ] || fail 'chunks made no difference'

for other in 'resnet18 partition=3:-2' 'resnet50 head_end=layer1.1.relu' 'resnext50_32x4d head_end=layer2.0.relu' 'alexnet1 tail_begin=classifier.1' 'vgg16 partition=2:-1'; do
	read -r name cut <<<"$other"
	local_run "local $name" model.name=$name model.width=0.05 "$cut"
	compare "two $name" "local $name" "$two" model.name=$name model.width=0.05 "$cut" threads=2
done

# Weights from a file: uploaded at first, then found in the store, also by another server on the same store.
weights="$tmp/local 4 partition=1:-1/model.safetensors"
from=(model.weights="$weights")
local_run 'local file' "${from[@]}"
compare uploaded 'local file' "$one" "${from[@]}"
[ "$(ls "$tmp/store"/*.f32 | wc -l)" = 1 ] || fail "$(ls "$tmp/store"/*.f32 | wc -l) files of weights in the store, not 1"
before=$(stat -c %i "$tmp/store"/*.f32)
compare 'found in the store' 'local file' "$one" "${from[@]}"
compare 'found by another server' 'local file' "$two" "${from[@]}"
[ "$(stat -c %i "$tmp/store"/*.f32)" = "$before" ] || fail 'the weights were uploaded again'
printf damaged | dd of="$(ls "$tmp/store"/*.f32)" conv=notrunc bs=1 seek=4096 status=none
compare 'damaged in the store' 'local file' "$one" "${from[@]}"
grep -q ' store-damaged: ' "$tmp/one.log" || fail 'damage in the store was not logged'

# Codecs: both sides see the same values as one process does.
for codec in quant:8 topk:0.1 f16 'topk:0.2|quant:8'; do
	local_run "local $codec" codec="$codec"
	compare "one $codec" "local $codec" "$one" codec="$codec"
	compare "two $codec" "local $codec" "$two" codec="$codec" threads=2
done
mixed=(codec.head_act=quant:6 codec.mid_act=f16 codec.mid_grad='topk:0.3' codec.head_grad=none)
local_run 'local mixed' "${mixed[@]}" train.chunks=3
compare 'two mixed' 'local mixed' "$two" "${mixed[@]}" train.chunks=3
[ "$(learned 'local quant:8')" != "$(learned 'local f16')" ] || fail 'the codec made no difference'

# learned inserts, alone and under a codec
for codec in none quant:8; do
	insert=(insert.head='conv:4,k=3,s=2' insert.tail=conv:320 codec=$codec)
	local_run "local insert $codec" "${insert[@]}"
	compare "two insert $codec" "local insert $codec" "$two" "${insert[@]}" threads=2
done

# the other methods, among them stochastic ones
for codec in 'quant:8,round=stochastic' sortquant:6+2 'randomk:0.2|qsgd:255' 'lowrank:3,warm=true' 'threshold:0.01|zstd'; do
	both=(codec.head_act="$codec" codec.head_grad="$codec" partition=2:-2)
	local_run "local $codec" "${both[@]}"
	compare "two $codec" "local $codec" "$two" "${both[@]}"
done

# An optimizer with two moments and a step count; evaluations between steps do not count as steps.
config=$tmp/adamw.yaml
write_config "$config"
use_adamw "$config"
for chunks in 1 4; do
	local_run "local adamw $chunks" train.chunks=$chunks
	compare "one adamw $chunks" "local adamw $chunks" "$one" train.chunks=$chunks
	compare "two adamw $chunks" "local adamw $chunks" "$two" train.chunks=$chunks threads=2
done
local_run 'local adam' train.optimizer.kind=adam codec=quant:8
compare 'two adam' 'local adam' "$two" train.optimizer.kind=adam codec=quant:8
[ "$(learned 'local adamw 4')" != "$(learned 'local 4 partition=1:-1')" ] || fail 'the optimizer made no difference'
[ "$(learned 'local adamw 4')" != "$(learned 'local adamw 1')" ] || fail 'chunks made no difference'
config=$tmp/client.yaml

# parts smaller than a tensor, and a window of two of them
compare 'small parts' 'local 4 partition=1:-1' "$one" link.part_bytes=4096 link.window_bytes=8192
# Parts that leave 8, 12 or 0 bytes over, less than the codec's header with which a plain tensor's first part begins.
for part in 4097 4098; do
	compare "parts of $part" 'local 4 partition=1:-1' "$one" link.part_bytes=$part link.window_bytes=8200
done
echo "$cases runs equal their local twin"
