#!/usr/bin/env bash
# The group in one process is the reference whatever shape its members' data have: training and evaluation sets of unequal
# sizes, of one batch, with a last batch that is not full. In each mode and for each train.eval_every,
# members over links learn the same, byte for byte. With SPLIT_QUICK each shape once, otherwise all 54 pairs.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
start_server one threads=2
cat >"$tmp/client.yaml" <<YAML
server: $endpoint
model: {name: mlp, features: 2, classes: 2, dropout: 0.1}
data: {kind: csv, dir: $tmp/SHAPE-%m, label: y}
share: {clients: 2, least: 1}
train: {batch: 8, epochs: 4, checkpoint_every: 0, optimizer: {kind: adamw, lr: 0.01}}
threads: 1
YAML
# table FILE ROWS: writes a table of so many rows.
table() { awk -v n="$2" -v seed="$2${1//[^0-9]/}" 'BEGIN {srand(seed); print "a,b,y"; for (i = 0; i < n; i++) printf "%.3f,%.3f,%d\n", 2 * rand() - 1, 2 * rand() - 1, i % 2}' >"$1"; }
# All members scale their columns as this table's.
mkdir "$tmp/SHAPE-%m"
table "$tmp/SHAPE-%m/train.csv" 32
table "$tmp/SHAPE-%m/val.csv" 16
sed '/^share/d' "$tmp/client.yaml" >"$tmp/alone.yaml"
client alone "$tmp/alone.yaml" --local --set train.epochs=1 || fail "the table of all: exit status $?"
sed -i "s#label: y#label: y, like: $tmp/alone/about.json#" "$tmp/client.yaml"
batches() { echo $((($1 + 7) / 8)); }
# pair SHAPE MODE EVAL_EVERY: `rows` has the rows of training and evaluation of both members.
pair() {
	local name=$1-$2-$3 a b k pid=() more
	a=$(batches "${rows[0]}") b=$(batches "${rows[1]}")
	case $2 in serial) more=(--set "share.batches=$a,$b") ;; *) more=(--set "share.epoch_steps=$((a > b ? a : b))") ;; esac
	sed "s/SHAPE/$1/" "$tmp/client.yaml" >"$tmp/$name.yaml"
	more+=(--set share.group="$name" --set share.mode="$2" --set train.eval_every="$3")
	client "$name" "$tmp/$name.yaml" "${more[@]}" --local || fail "$name in one process: exit status $?"
	for k in 0 1; do
		start_client "$name-$k" "$tmp/$name.yaml" "${more[@]}" --set share.member=$k
		pid[k]=$client_pid
	done
	for k in 0 1; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	for k in 0 1; do same_run "$name-$k" "$name/member-$k" "$(steps_of "$name/member-$k")"; done
	grep -q '"test_loss":[0-9]' "$tmp/$name-0/log.jsonl" || fail "$name: member 0 has no evaluation"
	pairs=$((pairs + 1))
}
pairs=0 modes=(sync rounds serial) every=(0 1 3) turn=0
while read -r shape rows; do
	read -ra rows <<<"$rows"
	for k in 0 1; do
		mkdir "$tmp/$shape-$k"
		table "$tmp/$shape-$k/train.csv" "${rows[k]}"
		[ "${rows[k + 2]}" = 0 ] || table "$tmp/$shape-$k/val.csv" "${rows[k + 2]}"
	done
	for mode in 0 1 2; do
		for at in 0 1 2; do
			[ -z "${SPLIT_QUICK:-}" ] || [ $((mode * 3 + at)) = $((turn * 2 % 9)) ] || continue
			pair "$shape" "${modes[mode]}" "${every[at]}"
		done
	done
	turn=$((turn + 1))
done <<TABLE
equal 32 32 16 16
training 40 16 16 16
evaluation 32 32 40 16
single 8 40 16 24
one-batch 32 24 8 40
not-full 35 29 13 21
TABLE
echo "share_shapes: ok, $pairs pairs"
