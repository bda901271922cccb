#!/usr/bin/env bash
# usage: skip-bytes.sh
# Prints the table of docs/results/skips.md: what a connection carries for a batch of a U-Net, by where it is cut. Needs
# PyTorch.
set -eu
cd "$(dirname "$0")/.."
. tests/e2e/lib/daemons.sh
/usr/bin/python3 -W ignore tests/golden/cuts_live.py large "$tmp/photos" >"$tmp/made" 2>&1 || fail "$(tail -n 3 "$tmp/made")"
start_server one
cat >"$tmp/run.yaml" <<-YAML
	server: $endpoint
	model: {network: $tmp/photos/large.safetensors, task: pixels}
	data: {kind: images, dir: $tmp/photos, label: [back, disc, square], transforms: ["Resize((128, 128))"], test_transforms: ["Resize((128, 128))"]}
	train: {epochs: 1, batch: 128, chunks: 8, optimizer: {kind: sgd, lr: 0.01}}
YAML
first=
printf '| `head_end` | `tail_begin` | stay at home | MB a batch | less | part of all MACs: head, middle, tail |\n|---|---|---|---|---|---|\n'
while read -r head tail; do
	at=(--set head_end="$head" --set tail_begin="$tail")
	client run "$tmp/run.yaml" "${at[@]}" --fresh || fail "$head $tail: $(tail -n 2 "$tmp/run.log")"
	bytes=$(jq -s 'map(select(.type == "step"))[0] | .wire_tx_bytes + .wire_rx_bytes' "$tmp/run/log.jsonl")
	first=${first:-$bytes}
	homes=$("$SPLITC" graph "$tmp/run.yaml" tail "${at[@]}" --json | jq '[.tail.inputs[] | select(.name | startswith("home."))] | length')
	"$SPLITC" flops "$tmp/run.yaml" "${at[@]}" --json | jq -r --arg at "| \`$head\` | \`$tail\` | $homes" --argjson b "$bytes" --argjson first "$first" '
		(.head.macs + .middle.macs + .tail.macs) as $all | def part: 100 * . / $all | round;
		"\($at) | \($b / 1e5 | round / 10) | \($first / $b * 10 | round / 10) × | \(.head.macs | part), \(.middle.macs | part), \(.tail.macs | part) % |"'
done <<-CUTS
	e0.5 d0
	p0 Concat_3
	p0 u0
	p1 u1
CUTS
