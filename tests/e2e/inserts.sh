#!/usr/bin/env bash
# Learned inserts over the link: losses and weights equal those of `--local`, byte for byte, for every kind of insert
# and with a codec after it; fewer bytes cross. Weight files without inserts load, and those with inserts load
# completely. Pretrained inserts: train.loss restore_head and restore_tail change only the insert's tensors, lower the
# loss, and equal --local. A fine-tune loads backbone and inserts from separate files, and says what does not fit.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 56 24 # batches of 16, 16, 16 and 8
steps=4
start_server server threads=2
write_config "$tmp/client.yaml"
cases=0

# compare NAME key=value…: a run with the server equals the local one
compare() {
	local name=$1 set=() pair
	shift
	for pair in "$@"; do set+=(--set "$pair"); done
	as_local "$name" "$name, local" $steps "$tmp/client.yaml" --set server="$endpoint" "${set[@]}"
	cases=$((cases + 1))
}

# sent NAME: the bytes that the client sent in the run's steps
sent() { jq -s 'map(select(.type == "step") | .wire_tx_bytes) | add' "$tmp/$1/log.jsonl"; }

conv=(insert.head=conv:3,k=3,s=3 insert.tail=conv:160)
compare none
compare conv "${conv[@]}"
compare linear insert.head=linear:4 insert.tail=linear:640
compare two insert.head=conv:6,k=4,s=3,p=1+conv:3 insert.tail=conv:320+linear:100
compare 'one side' insert.tail=conv:320 train.chunks=1 threads=2
compare 'inside a unit' head_end=features.0.1 "${conv[@]}"
compare 'a codec behind' "${conv[@]}" codec=quant:8
[ "$(learned conv)" != "$(learned none)" ] || fail 'the insert made no difference'
[ "$(sent conv)" -lt "$(($(sent none) / 3))" ] || fail "conv sends $(sent conv) bytes, none $(sent none)"
[ "$(sent 'a codec behind')" -lt "$(($(sent conv) / 2))" ] || fail "a codec behind sends $(sent 'a codec behind') bytes"

# The same tensors with another stride are another network.
evaluate() { timeout -k 5 $patience "$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/conv" "$@" >"$tmp/eval.log" 2>&1 || fail "eval $*"; }
evaluate --set "${conv[0]}" --set "${conv[1]}" --set train.chunks=1
! grep -q other-data "$tmp/eval.log" || fail "the same inserts: $(cat "$tmp/eval.log")"
evaluate --set insert.head=conv:3,k=3,s=2 --set "${conv[1]}"
grep -q '^WARN other-data: the model was trained with network' "$tmp/eval.log" || fail "another stride: $(cat "$tmp/eval.log")"

# Weights without inserts: the inserts start from the seed. Weights with inserts: all are loaded.
compare 'from weights without' "${conv[@]}" model.weights="$tmp/none/model.safetensors"
compare 'from weights with' "${conv[@]}" model.weights="$tmp/conv/model.safetensors"
if client 'stray' "$tmp/client.yaml" --local --set model.weights="$tmp/conv/model.safetensors"; then
	fail 'inserts in the file and none in the model were taken'
fi
grep -q '"insert\.' "$tmp/stray.log" || fail 'the error does not name what is too much'
for command in eval predict export; do
	status=0
	"$SPLITC" $command "$tmp/client.yaml" $([ $command != export ] || echo "$tmp/out.safetensors") --set log.dir="$tmp/none" \
		--set "${conv[0]}" --set "${conv[1]}" >"$tmp/out" 2>&1 || status=$?
	[ $status = 65 ] && grep -q 'tensor "insert[^ ]*" is missing' "$tmp/out" || fail "$command, no weights of inserts: $status, $(cat "$tmp/out")"
done

# ---- pretrained inserts
conv=(--set insert.head=conv:8,k=2,s=2 --set insert.tail=conv:320)
adam=(--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0 --set train.optimizer.kind=adam --set train.optimizer.lr=0.01 --set train.epochs=4)

from=(--set model.weights="$tmp/none/model.safetensors") # the backbone
names() { tail -c +9 "$1" | head -c "$(od -An -t u8 -N 8 "$1" | tr -d ' ')" | jq -r 'keys[]' | grep -v __metadata__; }
pair=insert.head=conv:8,k=2,s=2+conv:8 # has no principal components: it begins at random, as insert.tail does
for run in pair tail; do
	side=${run/pair/head}
	as_local $run $run-local 16 "$tmp/client.yaml" "${conv[@]}" --set $pair "${from[@]}" "${adam[@]}" --set train.loss=restore_$side
	file=$tmp/$run/model.safetensors
	names "$file" | grep -q "^insert\.$side\.restore\.0\.weight" || fail "restore_$side writes no insert.$side"
	# The backbone's tensors do not change. Running statistics may: they are not compared.
	for name in features.0.0.weight features.3.conv.1.0.weight classifier.1.weight; do
		[ "$(tensor "$file" $name)" = "$(tensor "$tmp/none/model.safetensors" $name)" ] || fail "restore_$side: $name has learned"
	done
	jq -se '[.[] | select(.type == "epoch")] | .[-1].train_loss < 0.6 * .[0].train_loss and .[-1].test_acc == null' \
		"$tmp/$run/log.jsonl" >/dev/null || fail "restore_$side: $(grep epoch "$tmp/$run/log.jsonl")"
	grep -q '^test loss' "$tmp/$run.log" || fail "restore_$side: the summary has no loss: $(cat "$tmp/$run.log")"
done

# A single layer starts from principal components, with a server as without, and is better than the two layers ever are.
as_local head head-local 4 "$tmp/client.yaml" "${conv[@]}" "${from[@]}" --set train.loss=restore_head --set train.optimizer.lr=1e-6
grep -q 'insert-principal: insert.head begins from 8 principal components, which leave out' "$tmp/head.log" || fail "$(cat "$tmp/head.log")"
losses() { jq -s "[.[] | select(.type == \"step\") | .loss] | $1" "$tmp/$2/log.jsonl"; }
awk "BEGIN {exit !($(losses max head) < 0.9 * $(losses min pair))}" || fail "principal components: $(losses max head), two layers: $(losses min pair)"

# What restores an activation has no labels: other numbers in their column change no loss.
for n in 1 1000; do
	mkdir "$tmp/times-$n"
	awk -v n=$n 'BEGIN { print "a,b,label"; for (i = 0; i < 24; i++) printf "%d,%d,%d\n", i % 5, i % 7, n * i }' >"$tmp/times-$n/train.csv"
	cp "$tmp/times-$n/train.csv" "$tmp/times-$n/test.csv"
	printf '%s\n' 'model: {name: mlp, task: numbers, features: 2, classes: 1}' "data: {kind: csv, dir: $tmp/times-$n}" 'insert: {tail: "linear:6"}' \
		'train: {batch: 8, chunks: 2, epochs: 2, loss: restore_tail}' >"$tmp/numbers.yaml"
	client "times-$n" "$tmp/numbers.yaml" --local || fail "restore_tail beside numbers: exit status $?"
done
same_run times-1 times-1000 6 other

# A fine-tune from three files, with a server as without; the inserts are those of the files.
files=$tmp/head/model.safetensors,$tmp/tail/model.safetensors
as_local fine fine-local 4 "$tmp/client.yaml" "${conv[@]}" "${from[@]}" --set model.insert_weights="$files"
client still "$tmp/client.yaml" --local "${conv[@]}" "${from[@]}" --set model.insert_weights="$files" --set 'train.freeze=insert.*' ||
	fail "a run with frozen inserts: exit status $?"
for side in head tail; do
	name=insert.$side.0.weight
	[ "$(tensor "$tmp/still/model.safetensors" $name)" = "$(tensor "$tmp/$side/model.safetensors" $name)" ] || fail "$name is not the file's"
done
# Without a backbone file the other weights start from the seed.
client inserts-only "$tmp/client.yaml" "${conv[@]}" --set model.insert_weights="$files" || fail "inserts alone: exit status $?"

# refused STATUS TEXT key=value…
refused() {
	local status=$1 text=$2 rc=0 set=() one
	shift 2
	for one in "$@"; do set+=(--set "$one"); done
	client refused "$tmp/client.yaml" --local "${conv[@]}" "${set[@]}" || rc=$?
	[ $rc = "$status" ] && grep -q -e "$text" "$tmp/refused.log" || fail "$*: exit status $rc, $(cat "$tmp/refused.log")"
}
refused 65 'none of the files has the tensor "insert.tail.0.weight"' model.insert_weights="$tmp/head/model.safetensors"
refused 65 'tensor "insert.head.[a-z.0]*" is in another of the files, too' model.insert_weights="$files,$tmp/head/model.safetensors"
refused 65 'tensor "insert.head.0.weight" is \[8,32\|tensor "insert.head.*in the file and' model.insert_weights="$files" insert.head=conv:4,k=2,s=2
refused 65 'is of no layer that the config has' model.insert_weights="$files" insert.head=none
refused 65 'no tensor is called insert' model.insert_weights="$tmp/none/model.safetensors"
refused 66 'absent.safetensors' model.insert_weights="$tmp/absent.safetensors"
refused 78 'train.loss.*there is no insert.head' train.loss=restore_head insert.head=none
refused 78 'train.keep_best: belongs to train.loss: labels' train.loss=restore_head train.keep_best=true
rc=0
"$SPLITC" predict "$tmp/client.yaml" --local "${conv[@]}" --set train.loss=restore_head --weights "$tmp/head/model.safetensors" >"$tmp/predict.log" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'predict needs' "$tmp/predict.log" || fail "predict: exit status $rc, $(cat "$tmp/predict.log")"
echo "$cases runs equal their local twin"
