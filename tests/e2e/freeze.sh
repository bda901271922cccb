#!/usr/bin/env bash
# train.freeze: the named tensors are unchanged after one step and after three, and the others change. A run with a
# server equals --local byte for byte, wherever the frozen part lies, and continues after a pause. Patterns that match
# nothing, or everything, are refused, and so are checkpoints of a run with other frozen tensors.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 40 16
write_config "$tmp/client.yaml"

# tensor RUN NAME: prints a digest of the tensor's bytes.
tensor() {
	local file=$tmp/$1/model.safetensors length range
	length=$(od -An -t u8 -N 8 "$file" | tr -d ' ')
	range=$(tail -c +9 "$file" | head -c "$length" | jq -r --arg n "$2" '.[$n].data_offsets | "\(.[0]) \(.[1])"')
	tail -c +$((9 + length + ${range% *})) "$file" | head -c $((${range#* } - ${range% *})) | sha256sum
}
for steps in 1 3; do
	client "run-$steps" "$tmp/client.yaml" --local --set train.schedule.warmup_epochs=0 --set train.max_steps=$steps --set 'train.freeze=features.0.*,features.1.*' ||
		fail "a run with train.freeze: exit status $?"
done
for name in features.0.0.weight features.0.1.bias features.1.conv.1.weight; do
	[ "$(tensor run-1 $name)" = "$(tensor run-3 $name)" ] || fail "$name has learned"
done
for name in features.0.1.running_mean features.2.conv.0.0.weight classifier.1.weight; do
	[ "$(tensor run-1 $name)" != "$(tensor run-3 $name)" ] || fail "$name has not changed"
done


# With a server, frozen: part of the head, all of it, part of the middle, all but the classifier, the classifier alone.
start_server host
write_config "$tmp/client.yaml" # of that server
constant=(--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
n=0
crossed() { jq -r 'select(.type == "summary") | .direction | keys_unsorted | join(" ")' "$tmp/$1/log.jsonl"; }
acts='head_act mid_act'
for case in "features.0.*,features.1.*|3:-1|sgd|$acts mid_grad head_grad" "features.0.*|1:-1|adamw|$acts mid_grad" \
	"features.[2-5].*|1:-1|adamw|$acts mid_grad head_grad" "features.*|1:-1|sgd|$acts" "classifier.*|2:-1|adamw|$acts mid_grad head_grad"; do
	IFS='|' read -r freeze cut optimizer crosses <<<"$case"
	n=$((n + 1))
	write_config "$tmp/$optimizer.yaml"
	[ "$optimizer" = sgd ] || use_adamw "$tmp/$optimizer.yaml"
	sets=(--set "train.freeze=$freeze" --set "partition=$cut" --set codec=quant:8)
	as_local "far-$n" "local-$n" 3 "$tmp/$optimizer.yaml" "${sets[@]}"
	# Gradients cross only where trained parameters lie below the cut.
	[ "$(crossed "far-$n")" = "$crosses" ] && [ "$(crossed "local-$n")" = "$crosses" ] ||
		fail "$case: $(crossed "far-$n") crossed, and locally $(crossed "local-$n")"
done

# Weights from a file are uploaded whole, once.
from=(--set "model.weights=$tmp/run-3/model.safetensors" --set 'train.freeze=features.*' --set model.classes=10)
client local-file "$tmp/client.yaml" --local "${from[@]}" || fail "weights from a file, local: exit status $?"
for i in 1 2; do
	client "file-$i" "$tmp/client.yaml" "${from[@]}" || fail "weights from a file: exit status $?"
	same_run "file-$i" local-file 3
done
[ "$(ls "$tmp/store"/*.f32 | wc -l)" = 1 ] || fail 'the weights were not stored once'

# A resumed run equals one run of that length; another train.freeze is another run.
freeze=(--set 'train.freeze=features.[0-9].*')
client whole "$tmp/client.yaml" "${constant[@]}" "${freeze[@]}" --set train.epochs=2 --local || fail "two epochs: exit status $?"
client run "$tmp/client.yaml" "${constant[@]}" "${freeze[@]}" || fail "one epoch: exit status $?"
rc=0
client run "$tmp/client.yaml" "${constant[@]}" --set 'train.freeze=features.0.*' --set train.epochs=2 --resume || rc=$?
[ $rc = 78 ] && grep -q 'its frozen is [0-9]* parameters, this run.s is 3 parameters; since then .*train.freeze was .*, is \["features.0.\*"\]' "$tmp/run.log" ||
	fail "--resume with another train.freeze: exit status $rc"
rc=0
client run "$tmp/client.yaml" "${constant[@]}" "${freeze[@]}" --set train.epochs=2 --set train.label_smoothing=0.1 --resume || rc=$?
[ $rc = 78 ] && grep -q 'its plan is .*; since then .*train.label_smoothing was 0, is 0.1$' "$tmp/run.log" ||
	fail "--resume with another train.label_smoothing: exit status $rc"
client run "$tmp/client.yaml" "${constant[@]}" "${freeze[@]}" --set train.epochs=2 --resume || fail "the second epoch: exit status $?"
same_run run whole 6

refused 78 'train.freeze: no parameter is called "feature.*"' --local --set 'train.freeze=feature.*'
refused 78 'train.freeze: no parameter is left that learns' --local --set 'train.freeze=*'
echo 'what train.freeze names stays, and the rest learns'
