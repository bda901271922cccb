#!/usr/bin/env bash
# usage: tests/bench/leak.sh CIFAR_DIR WEIGHTS
# Measures what a server could learn of pictures behind each cut and codec: a row of splitc leak's figures for each.
# CIFAR_DIR: CIFAR-10's binary files; with "" the pictures are 520 pieces of the two photographs that come with
# scikit-learn. WEIGHTS: an ImageNet backbone of MobileNetV2 with torchvision's names. CUTS (1 2 3 5), CODECS and STEPS
# (500, of the attacker) choose others.
set -eu
cd "$(dirname "$0")/../.."
cifar=${1-} weights=${2:?an ImageNet backbone of MobileNetV2}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ -z "$cifar" ]; then
	cifar=$tmp
	python3 - "$tmp" <<-'PYTHON'
		import sys
		import numpy as np
		from sklearn.datasets import load_sample_images

		side = 32
		piece = np.concatenate([im[y:y + side, x:x + side][None] for im in load_sample_images().images
		                        for y in range(0, im.shape[0] - side + 1, side) for x in range(0, im.shape[1] - side + 1, side)])
		piece = piece[np.random.default_rng(1).permutation(len(piece))]
		label = np.argsort(np.argsort(piece.mean((1, 2, 3)))) * 10 // len(piece)  # by brightness
		for name in "data_batch_1.bin", "test_batch.bin":
		    with open(f"{sys.argv[1]}/{name}", "wb") as f:
		        f.write(b"".join(bytes([c]) + p.transpose(2, 0, 1).tobytes() for c, p in zip(label, piece)))
		        f.truncate(10000 * 3073)
	PYTHON
	limit=520
fi
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:9
	model: {name: mobilenet_v2, classes: 10, image: 32, form: cifar, weights: $weights, partial: true}
	partition: "1:-1"
	data: {kind: cifar10, dir: $cifar, train_files: [data_batch_1.bin], train_limit: ${limit:-0}, test_limit: ${limit:-0}}
	train: {batch: 32, chunks: 1, seed: 3}
	log: {dir: $tmp/run}
	threads: 1
YAML
echo '| cut | codec | PSNR, dB | SSIM | found again, % | dCor² | labels: gradients, one example, % | gradients, none (shuffled), % | gradients and mid_act, none, % | head_act, % | mid_act, % |'
echo '|---|---|---|---|---|---|---|---|---|---|---|'
for cut in ${CUTS:-1 2 3 5}; do
	for codec in ${CODECS:-none quant:8 quant:4 topk:0.2}; do
		"${SPLITC:-build/release/splitc}" leak "$tmp/client.yaml" --out "$tmp/out" --json --steps "${STEPS:-500}" --set partition="$cut:-1" \
			--set codec="$codec" 2>"$tmp/log" >"$tmp/json" || { cat "$tmp/log"; exit 1; }
		jq -r --arg cut "$cut" --arg codec "$codec" 'def f(n): . * pow(10; n) | round / pow(10; n);
			"| \($cut) | `\($codec)` | \(.informed.psnr_db.value | f(1)) | \(.informed.ssim.value | f(2)) | \(.informed.found_again.value * 100 | f(1)) | \(.dcor_squared.value | f(2)) | \(.labels.mid_grad_one_example.value * 100 | f(1)) | \(.labels.mid_grad_clusters.value * 100 | f(1)) (\(.labels.mid_grad_clusters.chance * 100 | f(1))) | \(.labels.mid_both_clusters.value * 100 | f(1)) | \(.labels.head_act_neighbours.value * 100 | f(1)) | \(.labels.mid_act_neighbours.value * 100 | f(1)) |"' \
			"$tmp/json"
	done
done
jq -r '"| – | the mean picture | \(.informed.psnr_db.chance * 10 | round / 10) | \(.informed.ssim.chance * 100 | round / 100) | \(.informed.found_again.chance * 1000 | round / 10) | 0 | \(.labels.mid_grad_one_example.chance * 1000 | round / 10) | | | | |"' "$tmp/json"
