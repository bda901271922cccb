#!/usr/bin/env bash
# usage: cut-table.sh
# Prints the table of docs/howto-choose.md: for networks and cuts, how much the head computes per image and how many
# bytes cross the link per image in training, in fp32. Needs no data.
set -eu
cd "$(dirname "$0")/.."
splitc=${SPLITC:-build/release/splitc}
config=$(mktemp)
trap 'rm -f "$config"' EXIT
printf '| network | image | `partition` | last layer of the head | part of all MACs | MB an image, each way |\n|---|---|---|---|---|---|\n'
row() { # NAME IMAGE FORM PARTITION…
	local name=$1 image=$2 form=$3 cut
	shift 3
	for cut in "$@"; do
		printf 'model: {name: %s, classes: 10, image: %s%s}\npartition: "%s"\ndata: {dir: unused}\ntrain: {batch: 100, chunks: 1}\n' \
			"$name" "$image" "${form:+, form: $form}" "$cut" >"$config"
		"$splitc" flops "$config" --json | jq -r --arg image "$image" --arg cut "$cut" '
			def mb: . * 4 / 100 / 1e4 | round / 100;
			(.head.macs + .middle.macs + .tail.macs) as $all | ((.head_act_elements + .mid_act_elements) | mb) as $each |
			"| \(.model) | \($image) | `\($cut)` | `\(.cut | sub("head_end="; "") | sub(" .*"; ""))` | \(1000 * .head.macs / $all | round / 10) % | \($each) |"'
	done
}
row mobilenet_v2 224 imagenet 1:-1 2:-1 4:-1 7:-1
row resnet18 224 imagenet 1:-1 4:-1 6:-1
row resnet50 224 imagenet 1:-1 5:-1
row mobilenet_v2 32 cifar 1:-1 4:-1
row resnet9 32 '' 1:-1 2:-1 3:-1
