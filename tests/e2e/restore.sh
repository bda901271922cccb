#!/usr/bin/env bash
# Pretrained inserts: train.loss restore_head and restore_tail change only the insert's tensors, lower the loss, and
# equal --local byte for byte. A fine-tune loads backbone and inserts from separate files, and says what does not fit.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 64 32
start_server server threads=2
write_config "$tmp/client.yaml"
conv=(--set insert.head=conv:8,k=2,s=2 --set insert.tail=conv:320)
adam=(--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0 --set train.optimizer.kind=adam --set train.optimizer.lr=0.01 --set train.epochs=4)

client backbone "$tmp/client.yaml" --local || fail "a run for the backbone: exit status $?"
from=(--set model.weights="$tmp/backbone/model.safetensors")
names() { tail -c +9 "$1" | head -c "$(od -An -t u8 -N 8 "$1" | tr -d ' ')" | jq -r 'keys[]' | grep -v __metadata__; }
tensor() {
	local file=$1 length range
	length=$(od -An -t u8 -N 8 "$file" | tr -d ' ')
	range=$(tail -c +9 "$file" | head -c "$length" | jq -r --arg n "$2" '.[$n].data_offsets | "\(.[0]) \(.[1])"')
	tail -c +$((9 + length + ${range% *})) "$file" | head -c $((${range#* } - ${range% *})) | sha256sum
}
two=insert.head=conv:8,k=2,s=2+conv:8 # has no principal components: it begins at random, as insert.tail does
for run in two tail; do
	side=${run/two/head}
	as_local $run $run-local 16 "$tmp/client.yaml" "${conv[@]}" --set $two "${from[@]}" "${adam[@]}" --set train.loss=restore_$side
	file=$tmp/$run/model.safetensors
	names "$file" | grep -q "^insert\.$side\.restore\.0\.weight" || fail "restore_$side writes no insert.$side"
	# The backbone's tensors do not change. Running statistics may: they are not compared.
	for name in features.0.0.weight features.3.conv.1.0.weight classifier.1.weight; do
		[ "$(tensor "$file" $name)" = "$(tensor "$tmp/backbone/model.safetensors" $name)" ] || fail "restore_$side: $name has learned"
	done
	jq -se '[.[] | select(.type == "epoch")] | .[-1].train_loss < 0.6 * .[0].train_loss and .[-1].test_acc == null' \
		"$tmp/$run/log.jsonl" >/dev/null || fail "restore_$side: $(grep epoch "$tmp/$run/log.jsonl")"
	grep -q '^test loss' "$tmp/$run.log" || fail "restore_$side: the summary has no loss: $(cat "$tmp/$run.log")"
done

# A single layer starts from principal components, with a server as without, and is better than the two layers ever are.
as_local head head-local 4 "$tmp/client.yaml" "${conv[@]}" "${from[@]}" --set train.loss=restore_head --set train.optimizer.lr=1e-6
grep -q 'insert-principal: insert.head begins from 8 principal components, which leave out' "$tmp/head.log" || fail "$(cat "$tmp/head.log")"
losses() { jq -s "[.[] | select(.type == \"step\") | .loss] | $1" "$tmp/$2/log.jsonl"; }
awk "BEGIN {exit !($(losses max head) < 0.9 * $(losses min two))}" || fail "principal components: $(losses max head), two layers: $(losses min two)"

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
	local status=$1 text=$2 rc=0 set=() pair
	shift 2
	for pair in "$@"; do set+=(--set "$pair"); done
	client refused "$tmp/client.yaml" --local "${conv[@]}" "${set[@]}" || rc=$?
	[ $rc = "$status" ] && grep -q -e "$text" "$tmp/refused.log" || fail "$*: exit status $rc, $(cat "$tmp/refused.log")"
}
refused 65 'none of the files has the tensor "insert.tail.0.weight"' model.insert_weights="$tmp/head/model.safetensors"
refused 65 'tensor "insert.head.[a-z.0]*" is in another of the files, too' model.insert_weights="$files,$tmp/head/model.safetensors"
refused 65 'tensor "insert.head.0.weight" is \[8,32\|tensor "insert.head.*in the file and' model.insert_weights="$files" insert.head=conv:4,k=2,s=2
refused 65 'is of no layer that the config has' model.insert_weights="$files" insert.head=none
refused 65 'no tensor is called insert' model.insert_weights="$tmp/backbone/model.safetensors"
refused 66 'absent.safetensors' model.insert_weights="$tmp/absent.safetensors"
refused 78 'train.loss.*there is no insert.head' train.loss=restore_head insert.head=none
refused 78 'train.keep_best: belongs to train.loss: labels' train.loss=restore_head train.keep_best=true
rc=0
"$SPLITC" predict "$tmp/client.yaml" --local "${conv[@]}" --set train.loss=restore_head --weights "$tmp/head/model.safetensors" >"$tmp/predict.log" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'predict needs' "$tmp/predict.log" || fail "predict: exit status $rc, $(cat "$tmp/predict.log")"
echo 'inserts restore, and are taken from files'
