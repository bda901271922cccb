#!/usr/bin/env bash
# Cuts that more than one value passes: skips that stay at the client, and several values up and down. Segmentation networks, written from their papers,
# take three steps as in PyTorch, and a run with a server equals --local. A U-Net learns the same bits at any such cut,
# in one chunk and in four, under codecs with state, and over a kill of the client and of the server.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch, torchvision, onnx, PIL' 2>/dev/null || { echo 'SKIP no PyTorch' && exit 77; }
"$python" -W ignore tests/golden/cuts_live.py make "$tmp/photos" >"$tmp/made" 2>&1 || fail "make: $(tail -n 3 "$tmp/made")"
start_server one
config=$tmp/run.yaml
cat >"$config" <<-YAML
	server: $endpoint
	model: {network: $tmp/photos/unet.safetensors, task: pixels}
	data:
	  {kind: images, dir: $tmp/photos, label: [back, disc, square], transforms: ["Resize((40, 40))", "RandomHorizontalFlip(1.0)", "RandomRotation((30, 30))", "CenterCrop(32)", "Normalize((0.5,), (0.25,))"],
	  test_transforms: ["Resize((32, 32))", "Normalize((0.5,), (0.25,))"]}
	train: {epochs: 3, seed: 1, batch: 8, chunks: 1, optimizer: {kind: sgd, lr: 0.1, momentum: 0, weight_decay: 0}}
	threads: 1
YAML
steps=3
pairs=()
# cut NETWORK HEAD TAIL HOMES [UP DOWN]: as PyTorch, and with the server as without. HOMES values stay at home, UP and
# DOWN cross
cut() {
	local name="$1 $2 $3" up=${5:-1} down=${6:-1}
	local at=(--set model.network="$tmp/photos/$1.safetensors" --set head_end="$2" --set tail_begin="$3" --set cut_values=$((up > down ? up : down)))
	client "local $name" "$config" --local "${at[@]}" || fail "local $name: exit status $?"
	pairs+=("$tmp/local $name/log.jsonl" "$tmp/photos/$1.json")
	client "$name" "$config" "${at[@]}" || fail "$name: exit status $?"
	same_run "$name" "local $name" $steps
	"$SPLITC" graph "$config" tail "${at[@]}" --json >"$tmp/graph" || fail "$name: no graph"
	[ "$(jq '[.tail.inputs[] | select(.name | startswith("home."))] | length' "$tmp/graph")" = "$4" ] ||
		fail "$name: $(jq -c '[.tail.inputs[].name]' "$tmp/graph"), not $4 home values"
	"$SPLITC" graph "$config" middle "${at[@]}" --json >"$tmp/graph" || fail "$name: no graph"
	jq -e --argjson up "$up" --argjson down "$down" '(.middle.inputs | length == $up) and (.middle.outputs | length == $down)' "$tmp/graph" >"$tmp/out" ||
		fail "$name: $(jq -c '.middle | [.inputs, .outputs]' "$tmp/graph")"
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
for at in 'p0 d0 0 2 1' 'p0 Concat 1 1 2' 'e0.4 Concat_1 0 1 2' 'p1 d1 1 2 1' 'p1 d0 0 3 1'; do
	read -r head tail homes up down <<<"$at"
	cut unet "$head" "$tail" "$homes" "$up" "$down"
	[ "$head" = e0.4 ] || [ "$(learned "unet $head $tail")" = "$(learned 'unet e0.5 d0')" ] || fail "unet $head $tail: other weights than those of one value"
done
cut deep p2 d0 0 4 1
cut deep p0 Concat 1 1 4
cut deep p2 u2 3 1 1
cut attention p0 u0 1
cut unetpp pool0 u02 1 2 2
cut resunet p1 u1 2
cut unetpp x00 x02 0
cut linknet e1 d1 2
cut fpn e0 out 0
cut pspnet e1 join 0
cut deeplab e1 join 0
cut multires p1 u1 2
cut segnet p0 u0 0
"$python" -W ignore tests/golden/pixels_live.py same "${pairs[@]}" >"$tmp/live" 2>&1 || fail "$(tail -n 3 "$tmp/live")"

# A poor cut is said.
grep -q 'INFO cut-skips: head_end=p0 tail_begin=Concat_1 would send 42 % of these bytes, because skips stay' "$tmp/unet e0.5 d0.log" ||
	fail "no advice: $(cat "$tmp/unet e0.5 d0.log")"
grep -q 'cut-' "$tmp/unet p1 u1.log" && fail "advice for a good cut: $(grep cut- "$tmp/unet p1 u1.log")"
client heavy "$config" --local --set head_end=d0.2 --set tail_begin=out || fail "heavy: exit status $?"
grep -qE 'WARN cut-heavy: the head has [5-9][0-9] % of all multiplications' "$tmp/heavy.log" || fail "no warning: $(cat "$tmp/heavy.log")"

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

# two values up, and codecs that draw numbers
several=("${base[@]}" --set head_end=p0 --set tail_begin=d0 --set cut_values=2)
as_local several 'several local' $steps "$config" "${several[@]}" --set train.audit.every=3
[ "$(learned several)" = "$(learned chunks)" ] || fail 'two values in four chunks: other weights'
for codec in 'topk:0.3,ef=true' 'randomk:0.5|quant:8'; do
	as_local "several $codec" "several local $codec" $steps "$config" "${several[@]}" --set codec="$codec"
done
killed_client 4 'several topk:0.3,ef=true' "$config" "${several[@]}" --set codec='topk:0.3,ef=true'
killed_server server.apply=kill@5 'several topk:0.3,ef=true' "$config" "${several[@]}" --set codec='topk:0.3,ef=true'

# noise on each value, and how all of them depend on the inputs
"$SPLITC" keygen --out "$tmp/noise.key" >/dev/null 2>&1
as_local noisy 'noisy local' $steps "$config" "${several[@]}" --set noise.head_act=0.1 --set noise.mid_grad=0.2 --set noise.key="$tmp/noise.key"
[ "$(learned noisy)" != "$(learned several)" ] || fail 'noise changes nothing'

# other cuts
"$SPLITC" graph "$config" --cuts "${base[@]}" --set head_end=e0.5 --set tail_begin=d0 --json >"$tmp/cuts"
jq -e '(.cuts[0].cut | startswith("head_end=e0.5 tail_begin=d0")) and .cuts[0].home == 0 and
	([.cuts[1:][] | .bytes] | . == (sort | reverse)) and .cuts[-1].bytes < .cuts[0].bytes / 2 and .cuts[-1].home > 0' "$tmp/cuts" >/dev/null ||
	fail "graph --cuts: $(cat "$tmp/cuts")"
jq -r '.cuts[].cut' "$tmp/cuts" | while read -r ends; do
	"$SPLITC" graph "$config" --set "${ends/ tail_begin=*/}" --set "tail_begin=${ends#* tail_begin=}" --text >/dev/null || fail "no such cut: $ends"
done

# What does not go with it is refused.
refused 78 '2 values cross the cut at p0 (e0.5, p0), where cut_values allows 1: set cut_values: 2, or cut at e0.5' --set head_end=p0 --set tail_begin=d0
refused 78 '2 values cross the cut at Concat (e1.5, u1), where cut_values allows 1' --set head_end=p0 --set tail_begin=Concat
two=(--set head_end=p0 --set tail_begin=d0 --set cut_values=2)
refused 78 'inserts go with one value at each end; 2 go up here and 1 down' "${two[@]}" --set insert.tail=conv:4
refused 78 'train.precision: 16-bit precision, kept samples and cached tokens need cut_values: 1; this cut sends 2 values to the server and 1 back' "${two[@]}" --set train.precision=bf16
echo 'skips stay at home, and several values cross'
