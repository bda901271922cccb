#!/usr/bin/env bash
# Networks of Conv3d layers, whose volumes are tall pictures: a run with a server equals --local, and one thread two. So it
# does with skips at home, in one chunk and in four, under codecs with state, and over a kill of the client and of the
# server. An exported file has every node as the network's file has it. Inserts work in all three directions. What would
# mix rows of two slices is refused: codecs, transforms and leak ask the network whether it has volumes.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/volumes.sh
live() { live_by volumes_live.py "$@"; }
live make "$tmp/volumes"
start_server one threads=2
for name in net seg; do
	[ $name = net ] && data=cls task='' || { data=seg task=', task: pixels, classes: 2'; }
	cat >"$tmp/$name.yaml" <<-YAML
		server: $endpoint
		model: {network: $tmp/volumes/$name.safetensors$task}
		data:
		  {kind: images, dir: $tmp/volumes/$data, transforms: ["Resize((96, 12))", "Normalize(0.5, 0.25)"], test_transforms: ["Resize((96, 12))", "Normalize(0.5, 0.25)"]}
		train: {batch: 8, chunks: 2, epochs: 4, checkpoint_every: 3, optimizer: {kind: adamw, lr: 0.003}}
		threads: 2
	YAML
done

cut() { # NETWORK HEAD TAIL CODEC
	local name="$1 $2 $3 $4" at=("$tmp/$1.yaml" --set head_end="$2" --set tail_begin="$3" --set codec="$4")
	as_local "$name" "$name local" 16 "${at[@]}"
	client "$name one" "${at[@]}" --local --set threads=1 --set data.threads=1 || fail "$name, one thread: exit status $?"
	same_run "$name one" "$name local" 16
}
cut net bn pool none
cut net body.0 fc quant:8
cut seg e0 u0 none
cut seg e1 u0 'topk:0.3,ef=true'

# Skips stay at home; chunks, and what is computed again, change no bit of a codec without state per chunk.
home=("$tmp/seg.yaml" --set head_end=e0 --set tail_begin=u0)
for chunks in 1 4; do
	client "chunks $chunks" "${home[@]}" --local --set train.chunks=$chunks || fail "chunks $chunks: exit status $?"
	as_local "again $chunks" "again local $chunks" 16 "${home[@]}" --set train.chunks=$chunks --set recompute=on
	[ "$(learned "chunks $chunks")" = "$(learned "again $chunks")" ] || fail "$chunks chunks, computed again: other weights"
done

coded=("${home[@]}" --set codec='topk:0.3,ef=true')
as_local coded 'coded local' 16 "${coded[@]}"
killed_client 7 coded "${coded[@]}"
killed_server server.apply=kill@8 coded "${coded[@]}"

# Inserts of 2 × 2 × 2 at both cuts, and one that keeps the size, whose windows are read in place.
as_local cubes 'cubes local' 16 "${home[@]}" --set insert.head=conv:8,k=2,s=2 --set insert.tail=conv:4,k=3,p=1 --set codec=quant:4
"$SPLITC" graph "${home[@]}" head --set insert.head=conv:8,k=2,s=2 >"$tmp/graph" 2>&1 || fail "graph: $(cat "$tmp/graph")"
grep -qE '^e0\.0 +conv2d .* \[8×12×12,8\] ' "$tmp/graph" && grep -qE '^head_act +output +\[4×6×6,8\]$' "$tmp/graph" || fail "graph: $(cat "$tmp/graph")"
"$SPLITC" graph "${home[@]}" tail --json | jq -e '.tail.inputs[0].shape == [4, 6, 6, 16]' >"$tmp/out" || fail 'graph --json'
"$SPLITC" export "${home[@]}" "$tmp/cubes.safetensors" --set insert.head=conv:8,k=2,s=2 --set insert.tail=conv:4,k=3,p=1 --weights "$tmp/cubes/model.safetensors" \
	>"$tmp/export.log" 2>&1 || fail "export: $(cat "$tmp/export.log")"

# A convolution in three directions begins from principal components, and is better than two random layers.
first() { jq -s 'map(select(.type == "step").loss) | .[0]' "$tmp/$1/log.jsonl"; }
restore=("$tmp/net.yaml" --local --set head_end=bn --set tail_begin=pool --set train.loss=restore_head --set train.epochs=1)
client principal "${restore[@]}" --set insert.head=conv:8,k=2,s=2 || fail 'principal components'
client random "${restore[@]}" --set insert.head=conv:8,k=2,s=2+conv:8 || fail 'two layers'
grep -q 'insert-principal: insert.head begins from 8 principal components' "$tmp/principal.log" || fail 'no principal components'
jq -ne "$(first principal) < 0.5 * $(first random)" >"$tmp/out" || fail "principal components: $(first principal), two layers: $(first random)"

# The places where a row below the border is another slice's.
refusing=--check-config config=$tmp/seg.yaml
cutting=(--set head_end=e0 --set tail_begin=u0)
refused 78 'codec.head_act: downsample would mix neighbouring slices' "${cutting[@]}" --set codec=downsample:2
refused 78 'codec.head_act: cells:5 would reach over the border of two slices, which have 12 rows here' "${cutting[@]}" --set codec=cells:5
refused 78 'codec.mid_act: cells:4 would reach over the border of two slices, which have 6 rows here' "${cutting[@]}" --set codec='cells:4|topk:0.2'
refused 0 'seg.yaml: ok' "${cutting[@]}" --set codec.head_act=cells:4 --set codec.mid_act=cells:3
refused 78 'insert.head: insert.head.0.window' "${cutting[@]}" --set insert.head=conv:8,k=9
config=$tmp/net.yaml refused 78 'k and s above 1 need the number of slices at the cut' --set head_end=bn --set tail_begin=pool --set insert.tail=conv:8,k=2
for step in 'RandomCrop((96, 12), padding=1)' 'RandomResizedCrop((96, 12))' 'RandomVerticalFlip()' 'RandomRotation(3)' 'RandomAffine(3)' 'RandAugment()'; do
	refused 78 "$step would mix or turn the slices of volumes" "${cutting[@]}" --set data.transforms="$step, Normalize(0.5, 0.25)"
done
refused 78 'would mix or turn the slices of volumes' "${cutting[@]}" --set data.transforms= # the default crops
for step in 'Resize(32)' 'Resize((96, 24))' 'Resize((100, 12))' 'CenterCrop((96, 12))'; do
	for key in data.transforms data.test_transforms; do
		refused 78 "$key: $step would mix or turn the slices of volumes" "${cutting[@]}" --set $key="$step, CenterCrop((96, 12))"
	done
done
cp -r "$tmp/volumes/cls" "$tmp/high"
files=("$tmp"/high/train/alike/*)
printf 'P5 12 104 255\n%1248s' '' >"${files[0]%.png}.pgm"
client high "$tmp/net.yaml" --local --set data.dir="$tmp/high" --set train.max_steps=5 || fail "high: exit status $?"
grep -q 'WARN slices-mixed: a picture has 104 rows, and the network.s slices have 96 together' "$tmp/high.log" || fail 'a picture of 104 rows'
! grep slices-mixed "$tmp/coded.log" || fail 'pictures of 96 rows'

for name in net seg; do
	"$SPLITC" export "$tmp/$name.yaml" "$tmp/$name.out.safetensors" --weights "$tmp/volumes/$name.safetensors" >"$tmp/export.log" 2>&1 || fail "export: $(cat "$tmp/export.log")"
	live same "$tmp/volumes/$name.safetensors" "$tmp/$name.out.safetensors"
done
refusing='' config=$tmp/net.yaml command=export
refused 78 'has no form in ONNX files' "$tmp/net.onnx" --weights "$tmp/volumes/net.safetensors"
echo 'volumes: two networks of Conv3d layers'
