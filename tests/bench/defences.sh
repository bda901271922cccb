#!/usr/bin/env bash
# usage: tests/bench/defences.sh CIFAR_DIR BREAST_CANCER.csv
# Measures what defences gain and cost, in a vertical pair: site A has the data, site B the labels. A row for each, with
# the accuracy of a short run and the figures of splitc leak after it: first pictures, CIFAR-10's binary files, then a
# table of 569 tumours, sklearn/datasets/data/breast_cancer.csv of scikit-learn, the mean of SEEDS (1 2 3 4 5). Takes some
# minutes on one core. The key of the noise is new each time. STEPS (60): the attacker's steps; of tables 500.
set -eu
cd "$(dirname "$0")/../.."
cifar=${1:?a folder of CIFAR-10} table=${2:?breast_cancer.csv of scikit-learn}
splitc=${SPLITC:-build/release/splitc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$splitc" keygen --out "$tmp/key" >/dev/null 2>&1

# pair MODEL CUT DATA TRAIN: writes $tmp/a.yaml and b.yaml.
pair() {
	local member=0 site
	for site in a:features b:labels; do
		cat >"$tmp/${site%:*}.yaml" <<-YAML
			server: tcp://127.0.0.1:9
			model: {$1}
			$2
			data: {$3}
			train: {$4}
			share: {mode: vertical, group: g, clients: 2, member: $member, role: ${site#*:}}
			log: {dir: $tmp/run}
			threads: 1
		YAML
		member=1
	done
}
# measure KEY=VALUE…: adds the run's figures to $tmp/figures, a line of JSON.
measure() {
	local site accuracy
	for site in a b; do
		"$splitc" train "$tmp/$site.yaml" --print-config "${@/#/--set=}" >"$tmp/$site.now.yaml"
	done
	rm -rf "$tmp/run"
	"$splitc" train "$tmp/a.now.yaml" --local --party "$tmp/b.now.yaml" >"$tmp/log" 2>&1 || { tail -n 3 "$tmp/log"; exit 1; }
	accuracy=$(sed -n 's/^test accuracy \([0-9.]*\) %.*/\1/p' "$tmp/log")
	"$splitc" leak "$tmp/a.now.yaml" --party "$tmp/b.now.yaml" --out "$tmp/out" --json --steps "$steps" 2>"$tmp/log" >"$tmp/json" ||
		{ cat "$tmp/log"; exit 1; }
	jq -c --arg accuracy "$accuracy" '
		def labels(at): [at.value, at.chance] | map(if . then 100 * . else null end);
		{accuracy: [$accuracy | tonumber]}
		+ (if .informed.psnr_db then {psnr: [.informed.psnr_db.value], ssim: [.informed.ssim.value]} else {r2: [.informed.r2.value]} end)
		+ {again: labels(.informed.found_again)[:1], dcor: [.dcor_squared.value], one: labels(.labels.mid_grad_one_example)[:1],
		   clusters: labels(.labels | [.mid_grad_clusters, .mid_act_clusters, .mid_both_clusters] | map(values) | max_by(.value)), head_act: labels(.labels.head_act_neighbours)[:1],
		   mid_act: labels(.labels.mid_act_neighbours)[:1], a_one: labels(.site_a.head_grad_one_example)[:1],
		   a_clusters: labels(.site_a.head_grad_clusters), a_near: labels(.site_a.head_grad_neighbours)[:1],
		   b_data: [.site_b.psnr_db.value // .site_b.r2.value], b_again: labels(.site_b.found_again)[:1]}' "$tmp/json" >>"$tmp/figures"
}
row() { # WORDS KEY=VALUE…
	local seed words=$1
	shift
	: >"$tmp/figures"
	for seed in $seeds; do measure train.seed="$seed" "$@"; done
	jq -r -s --arg words "$words" 'def text(n): if . == null then "–" else . * pow(10; n) | round / pow(10; n) | tostring end;
		def mean(at): map(at) | if all(. != null) then add / length else null end;
		. as $all | "| \($words) | " + ([.[0] | keys_unsorted[] as $k | $all
			| mean(.[$k][0]) as $value | ($value | text(if ($k | IN("ssim", "dcor", "r2")) or ($k == "b_data" and $all[0].r2) then 2 else 1 end))
			+ if ($all[0][$k] | length) > 1 and $value != null then " (\(mean(.[$k][1]) | text(1)))" else "" end] | join(" | ")) + " |"' "$tmp/figures"
}
defences() { # what both kinds of data have in common
	row none
	row "\`noise.mid_grad\` of 1" noise.key="$tmp/key" noise.mid_grad=1
	row "\`noise.mid_grad\` of 4" noise.key="$tmp/key" noise.mid_grad=4
	row "\`noise.mid_grad\` of 16" noise.key="$tmp/key" noise.mid_grad=16
}
heads='accuracy, %'
labels='found again, % | dCor² | labels: mid_grad, one example, % | none: clusters of mid_grad, mid_act or both (shuffled), % | head_act, % | mid_act, % | A: head_grad, one example, % | none (shuffled), % | neighbours, %'

pair 'name: alexnet, classes: 10, image: 32, width: 0.25' 'partition: "1:-1"' \
	"kind: cifar10, dir: $cifar, train_files: [data_batch_1.bin], train_limit: 5000, test_limit: 2000" \
	'batch: 64, epochs: 4, optimizer: {kind: sgd, lr: 0.05, momentum: 0.9}'
seeds=3 steps=${STEPS:-60}
echo "| defence | $heads | PSNR, dB | SSIM | $labels | B: PSNR, dB | found again, % |"
echo '|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|'
defences
row 'a tail of two units' partition=1:-2
row 'a tail of four units' partition=1:-4
row 'a head of two units' partition=2:-1
row 'a frozen head' 'train.freeze=features.0.*,features.1.*'
row "\`noise.head_act\` of 1" noise.key="$tmp/key" noise.head_act=1
row "\`noise.head_act\` of 16" noise.key="$tmp/key" noise.head_act=16

awk -F, -v OFS=, -v dir="$tmp" 'NR > 1 { print >(dir (NR % 2 ? "/test.csv" : "/train.csv")) }
	NR == 1 { for (i = 1; i <= 30; i++) printf "c%d,", i >(dir "/test.csv"); print "kind" >(dir "/test.csv")
		for (i = 1; i <= 30; i++) printf "c%d,", i >(dir "/train.csv"); print "kind" >(dir "/train.csv") }' "$table"
pair 'name: mlp, features: 30, classes: 2' $'head_end: layer1.relu\ntail_begin: classifier' "kind: csv, dir: $tmp, label: kind" 'batch: 16, epochs: 20, optimizer: {kind: adamw, lr: 0.002}'
seeds=${SEEDS:-1 2 3 4 5} steps=500
echo
echo "| defence | $heads | R² | $labels | B: R² | found again, % |"
echo '|---|---|---|---|---|---|---|---|---|---|---|---|---|---|'
defences
row 'a frozen head' 'train.freeze=layer1.*'
