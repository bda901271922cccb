#!/usr/bin/env bash
# usage: tests/bench/volume-bytes.sh, after `make` and `make lib`
# A U-Net of 16 to 256 channels whose level 0 is at home, on the synthetic cases of tests/golden/volumes_cases.py. It trains
# with a server on this host, for each pair of insert and codec, and prints MB a patch, as the connection counted them with
# all headers, the Dice of the last evaluation, and the seconds that the client computes for a patch.
# SIDE (48): of the patch; 96 is that of the table in docs/howto-volumes.md. EPOCHS (25), of 12 patches each. THREADS (1): of
# each side. STEPS: only so many, to count bytes; Dice then says nothing. RUNS: the pairs, INSERT|CODEC.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
patience=7200
python=${PYTHON:-/usr/bin/python3} side=${SIDE:-48} epochs=${EPOCHS:-25} threads=${THREADS:-1}
runs=${RUNS:-none|none conv:8|none conv:8|quant:4 conv:8|hadamard+quant:4 conv:8|quant:4,block=$((side * side * 2)) conv:8,k=2,s=2|none conv:8,k=2,s=2|quant:4}
SPLIT_LIBRARY=$PWD/$BUILD/libsplit.so.0 PYTHONPATH=$PWD/python "$python" -W ignore tests/golden/volumes_cases.py unet "$tmp" "$side"
start_server one threads="$threads"
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {network: $tmp/unet.safetensors, task: pixels}
	head_end: down1
	tail_begin: u0
	data:
	  {kind: volumes, dir: $tmp/ct, label: [back, ball, shell, tube], patch: [$side, $side, $side], patches: 2, intensity: "ct:-100,250",
	  spacing: [$(for _ in 1 2 3; do echo "$((4800 / side))e-2"; done | paste -sd,)], transforms: ["RandomFlip()"], cache: $tmp/cache}
	train: {batch: 2, chunks: 1, epochs: $epochs, eval_every: $epochs, loss: dice_ce, optimizer: {kind: adamw, lr: 0.003}}
	threads: $threads
YAML
printf '| insert | codec | MB a patch | Dice | client s a patch |\n|---|---|---|---|---|\n'
for run in $runs; do
	codec=${run#*|}
	codec=${codec/hadamard+/hadamard|}
	client run "$tmp/client.yaml" --fresh --json ${STEPS:+--set train.max_steps="$STEPS" --set data.test_limit=1} --set insert.head="${run%|*}" --set insert.tail="${run%|*}" --set codec="$codec" || fail "$run: exit status $?"
	sed -n '/^{/p' "$tmp/run.log" >"$tmp/summary.json"
	# the median step: the first one also moves weights
	bytes=$(jq -s '[.[] | select(.type == "step") | .wire_tx_bytes + .wire_rx_bytes] | sort | .[length / 2 | floor] / 2' "$tmp/run/log.jsonl")
	jq -r --arg insert "${run%|*}" --arg codec "${codec/|/\\|}" --argjson bytes "$bytes" \
		'"| \($insert) | \($codec) | \($bytes / 1e4 | round / 100) | \(.test_metrics.dice * 1000 | round / 1000) | \(.t_compute_client_per_batch_s * 50 | round / 100) |"' "$tmp/summary.json"
done
