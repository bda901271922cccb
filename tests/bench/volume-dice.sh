#!/usr/bin/env bash
# usage: tests/bench/volume-dice.sh, after `make`, `make lib` and `make build-bench`
# Dice of a U-Net with level 0 at home, beside PyTorch's: for each seed it trains with a server on this host, on the
# synthetic cases of tests/golden/volumes_cases.py. PyTorch then begins with the same weights, and takes the same patches in
# the same order, the same rates and the same optimizer. Both are evaluated with the same patches of the test cases.
# Then three members of a group train rounds with two of the six cases each, and member 0 alone with its two: in three times
# as many epochs, and so in as many steps.
# SEEDS (1 2 3), SIDE (32) of the patch, WIDTHS (8 16 32 64), EPOCHS (40) of 12 patches, THREADS (1) of each side.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
patience=7200
python=${PYTHON:-/usr/bin/python3} side=${SIDE:-32} epochs=${EPOCHS:-40} threads=${THREADS:-1}
read -ra seeds <<<"${SEEDS:-1 2 3}"
read -ra widths <<<"${WIDTHS:-8 16 32 64}"
peer() { SPLIT_LIBRARY=$PWD/$BUILD/libsplit.so.0 PYTHONPATH=$PWD/python "$python" -W ignore tests/bench/volume_dice.py "$@"; }
start_server one threads="$threads"
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {task: pixels}
	head_end: down1
	tail_begin: u0
	codec: none
	data:
	  {kind: volumes, dir: $tmp/ct, label: [back, ball, shell, tube], patch: [$side, $side, $side], patches: 2, intensity: "ct:-100,250",
	  spacing: [$(for _ in 1 2 3; do echo "$((4800 / side))e-2"; done | paste -sd,)], transforms: ["RandomFlip()"], cache: $tmp/cache}
	train:
	  {batch: 2, chunks: 1, epochs: $epochs, eval_every: $epochs, loss: dice_ce,
	  optimizer: {kind: adamw, lr: 0.003, weight_decay: 0}, schedule: {kind: cosine}}
	threads: $threads
YAML
for seed in "${seeds[@]}"; do
	peer make "$tmp" "$side" "$seed" "${widths[@]}"
	of=(model.network="$tmp/net-$seed.safetensors" train.seed="$seed")
	client run "$tmp/client.yaml" --fresh --set "${of[0]}" --set "${of[1]}" || fail "seed $seed: exit status $?"
	"$BUILD/tests/bench/bench_patches" "$tmp/client.yaml" "$tmp" "$epochs" "${of[@]}" log.dir="$tmp/patches" >"$tmp/patches.log" 2>&1 || fail "seed $seed: bench_patches"
	peer peer "$tmp" "$tmp/run" "$seed" "$side" 2 "${widths[@]}" | tee -a "$tmp/rows"
done
jq -sr '"| seed | splitc | PyTorch | points |\n|---|---|---|---|",
	(.[] | "| \(.seed) | \(.split * 1e4 | round / 1e4) | \(.peer * 1e4 | round / 1e4) | \(.points * 100 | round / 100) |"),
	(map(.points) | "points apart: mean \(add / length * 100 | round / 100), from \(min * 100 | round / 100) to \(max * 100 | round / 100)")' "$tmp/rows"

for k in 0 1 2; do
	mkdir -p "$tmp/site$k/masks"
	cp -r "$tmp/ct/train" "$tmp/ct/test" "$tmp/site$k"
	cp -r "$tmp/ct/masks/train" "$tmp/ct/masks/test" "$tmp/site$k/masks"
	for other in 0 1 2; do [ $other = $k ] || rm "$tmp/site$k/train/case$other".* "$tmp/site$k/train/case$((other + 3))".*; done
done
of=(--set model.network="$tmp/net-${seeds[0]}.safetensors" --set data.cache= --set train.epochs=$((3 * epochs)) --set train.eval_every=$((3 * epochs)))
dice() { jq -s 'map(.test_metrics.dice // empty) | last * 1e4 | round / 1e4' "$tmp/$1/log.jsonl"; }
client alone "$tmp/client.yaml" "${of[@]}" --set data.dir="$tmp/site0" || fail "alone: exit status $?"
members rounds "$tmp/client.yaml" 3 "${of[@]}" --set data.dir="$tmp/site%m" --set share.mode=rounds --set share.round=2
echo "three members with two cases each, in rounds of 2 steps: Dice $(for k in 0 1 2; do dice rounds-$k; done | paste -sd' '); member 0 alone: $(dice alone)"
