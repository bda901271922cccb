#!/usr/bin/env bash
# Every config that comes with the programs passes --check-config, and trains: two steps of a narrow network on a few made images.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 16 8
for i in 2 3 4 5; do ln -s data_batch_1.bin "$tmp/data/data_batch_$i.bin"; done
for name in train test; do # CIFAR-100: two labels, then the image
	for label in 07 21 63 00 12 44 55 70; do
		printf '\001'
		printf '%b' "\\0$label"
		head -c 3072 /dev/zero | tr '\0' "${label:1}"
	done >"$tmp/data/$name.bin"
done

few=(--local --fresh --set train.batch=4 --set train.chunks=2 --set train.max_steps=2 --set data.train_limit=8 --set data.test_limit=4)
for config in configs/client-*.yaml; do
	name=$(basename "$config" .yaml)
	grep -q "^# " "$config" || fail "$config does not say what it is for"
	there=(--set model.weights= --set model.partial=false --set data.dir="$tmp/data" --set log.dir="$tmp/$name")
	"$SPLITC" train "$config" "${there[@]}" --check-config >"$tmp/$name.log" 2>&1 && grep -q 'ok, ' "$tmp/$name.log" ||
		fail "$config: --check-config: $(cat "$tmp/$name.log")"
	more=(--set model.width=0.1)
	grep -q 'kind: points' "$config" || more+=(--set train.schedule.warmup_epochs=0)
	"$SPLITC" train "$config" "${there[@]}" "${few[@]}" "${more[@]}" >"$tmp/$name.log" 2>&1 || fail "$config: exit status $?"
	jq -se '[.[] | select(.type == "step")] | length == 2 and all(.loss > 0)' "$tmp/$name/log.jsonl" >/dev/null || fail "$config: no two steps"
done
