#!/usr/bin/env bash
# Cuts that more than one value passes: skips that stay at the client. Segmentation networks, written from their papers,
# take three steps as in PyTorch, and a run with a server equals --local. A U-Net learns the same bits at any such cut,
# in one chunk and in four, under codecs with state, and over a kill of the client and of the server.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, torchvision, PIL' 2>/dev/null || { echo 'SKIP no PyTorch' && exit 77; }
"$python" -W ignore tests/golden/cuts_live.py make "$tmp/photos" >"$tmp/made" 2>&1 || fail "make: $(tail -n 3 "$tmp/made")"
start_server one
config=$tmp/run.yaml
cat >"$config" <<-YAML
	server: $endpoint
	model: {onnx: $tmp/photos/unet.onnx, task: pixels}
	data:
	  {kind: images, dir: $tmp/photos, label: [back, disc, square], transforms: ["Resize((40, 40))", "RandomHorizontalFlip(1.0)", "RandomRotation((30, 30))", "CenterCrop(32)", "Normalize((0.5,), (0.25,))"],
	  test_transforms: ["Resize((32, 32))", "Normalize((0.5,), (0.25,))"]}
	train: {epochs: 3, seed: 1, batch: 8, chunks: 1, optimizer: {kind: sgd, lr: 0.1, momentum: 0, weight_decay: 0}}
	threads: 1
YAML
steps=3
pairs=()
# cut NETWORK HEAD TAIL HOMES: as PyTorch, and with the server as without; HOMES values stay at home
cut() {
	local name="$1 $2 $3" at=(--set model.onnx="$tmp/photos/$1.onnx" --set head_end="$2" --set tail_begin="$3")
	client "local $name" "$config" --local "${at[@]}" || fail "local $name: exit status $?"
	pairs+=("$tmp/local $name/log.jsonl" "$tmp/photos/$1.json")
	client "$name" "$config" "${at[@]}" || fail "$name: exit status $?"
	same_run "$name" "local $name" $steps
	"$SPLITC" graph "$config" tail "${at[@]}" --json >"$tmp/graph" || fail "$name: no graph"
	[ "$(jq '[.tail.inputs[] | select(.name | startswith("home."))] | length' "$tmp/graph")" = "$4" ] ||
		fail "$name: $(jq -c '[.tail.inputs[].name]' "$tmp/graph"), not $4 home values"
}
# The same bits with fewer bytes: the first step's are 1 in LESS of those of the cut through the skip.
bytes_of() { jq -s 'map(select(.type == "step"))[0] | .wire_tx_bytes + .wire_rx_bytes' "$tmp/$1/log.jsonl"; }
cut unet e0.5 d0 0
for at in 'p0 u0 1 4' 'p0 Concat_1 1 2.4' 'e1 u1 2 4' 'p1 u1 2 8'; do
	read -r head tail homes less <<<"$at"
	cut unet "$head" "$tail" "$homes"
	jq -en --argjson all "$(bytes_of 'unet e0.5 d0')" --argjson few "$(bytes_of "unet $head $tail")" --argjson less "$less" \
		'$all / $few / $less - 1 | fabs < 0.02' >"$tmp/out" || fail "unet $head $tail: $(bytes_of "unet $head $tail") bytes"
	[ "$(learned "unet $head $tail")" = "$(learned 'unet e0.5 d0')" ] || fail "unet $head $tail: other weights than those of today's cut"
done
cut deep p3 u3 4
cut late p1 u1 3
cut attention p0 u0 1
cut resunet p1 u1 2
cut unetpp x00 x02 0
cut linknet e1 d1 2
cut fpn e0 out 0
cut pspnet e1 join 0
cut deeplab e1 join 0
cut multires p1 u1 2
cut segnet p0 u0 0
"$python" -W ignore tests/golden/pixels_live.py same "${pairs[@]}" >"$tmp/live" 2>&1 || fail "$(tail -n 3 "$tmp/live")"

# chunks and codecs with state
base=(--set train.epochs=8 --set train.chunks=4 --set train.optimizer.kind=adamw --set train.optimizer.lr=0.01 --set train.checkpoint_every=2)
home=("${base[@]}" --set head_end=p1 --set tail_begin=u1)
steps=8
client 'chunks' "$config" --local "${base[@]}" --set head_end=e0.5 --set tail_begin=d0 || fail "chunks: exit status $?"
as_local 'chunks home' 'chunks home local' $steps "$config" "${home[@]}" --set recompute=on
[ "$(learned 'chunks home')" = "$(learned chunks)" ] || fail 'four chunks: other weights'
coded=("${home[@]}" --set codec='topk:0.3,ef=true')
as_local coded 'coded local' $steps "$config" "${coded[@]}"
killed_client 4 coded "$config" "${coded[@]}"
killed_server server.apply=kill@5 coded "$config" "${coded[@]}"

# What does not go with it is refused.
refused 78 '2 values cross the cut at p0 (e0.5 and p0), where one must; valid near it: e0.5' --set head_end=p0 --set tail_begin=d0
refused 78 '2 values cross the cut at Concat (e1.5 and u1), where one must' --set head_end=p0 --set tail_begin=Concat
echo 'skips stay at home'
