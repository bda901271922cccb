#!/usr/bin/env bash
# usage: tests/bench/defences.sh CIFAR_DIR (CIFAR-10's binary files)
# Measures what defences gain and cost: a row for each, with the accuracy of a short run and the figures of splitc leak
# after it. Takes a minute or two on one core. The key of the noise is new each time. STEPS (60): the attacker's steps.
set -eu
cd "$(dirname "$0")/../.."
cifar=${1:?a folder of CIFAR-10}
splitc=${SPLITC:-build/release/splitc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$splitc" keygen --out "$tmp/key" >/dev/null 2>&1
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:9
	model: {name: alexnet, classes: 10, image: 32, width: 0.25}
	partition: "1:-1"
	data: {kind: cifar10, dir: $cifar, train_files: [data_batch_1.bin], train_limit: 5000, test_limit: 2000}
	train:
	  batch: 64
	  epochs: 4
	  seed: 3
	  optimizer: {kind: sgd, lr: 0.05, momentum: 0.9}
	log: {dir: $tmp/run}
	threads: 1
YAML
row() { # WORDS KEY=VALUE…
	local words=$1 accuracy
	shift
	rm -rf "$tmp/run"
	"$splitc" train "$tmp/client.yaml" --local "${@/#/--set=}" >"$tmp/log" 2>&1 || { tail -n 3 "$tmp/log"; exit 1; }
	accuracy=$(sed -n 's/^test accuracy \([0-9.]*\) %.*/\1/p' "$tmp/log")
	"$splitc" leak "$tmp/client.yaml" --out "$tmp/out" --json --steps "${STEPS:-60}" "${@/#/--set=}" 2>"$tmp/log" >"$tmp/json" || { cat "$tmp/log"; exit 1; }
	jq -r --arg words "$words" --arg accuracy "$accuracy" 'def f(n): . * pow(10; n) | round / pow(10; n);
		"| \($words) | \($accuracy) | \(.informed.psnr_db.value | f(1)) | \(.informed.ssim.value | f(2)) | \(.informed.found_again.value * 100 | f(1)) | \(.dcor_squared.value | f(2)) | \(.labels.mid_grad_one_example.value * 100 | f(1)) | \(.labels.mid_grad_clusters.value * 100 | f(1)) (\(.labels.mid_grad_clusters.chance * 100 | f(1))) | \(.labels.head_act_neighbours.value * 100 | f(1)) | \(.labels.mid_act_neighbours.value * 100 | f(1)) |"' "$tmp/json"
}
echo '| defence | accuracy, % | PSNR, dB | SSIM | found again, % | dCor² | labels: gradients, one example, % | gradients, none (shuffled), % | head_act, % | mid_act, % |'
echo '|---|---|---|---|---|---|---|---|---|---|'
row none
row 'a tail of two units' partition=1:-2
row "\`noise.head_act\` of 1" noise.key="$tmp/key" noise.head_act=1
row "\`noise.head_act\` of 16" noise.key="$tmp/key" noise.head_act=16
row "\`noise.mid_grad\` of 4" noise.key="$tmp/key" noise.mid_grad=4
row "\`noise.mid_grad\` of 16" noise.key="$tmp/key" noise.mid_grad=16
