#!/usr/bin/env bash
# train.freeze: with --local the tensors that it names are the same after one step and after three, others are not; patterns
# that match nothing, or everything, are refused, and so is a run with a server.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 40 16
write_config "$tmp/client.yaml"

# tensor RUN NAME: its bytes, as a digest
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

# refused STATUS SENTENCE OPTION…
refused() {
	local status=0 says=$2 want=$1
	shift 2
	"$SPLITC" train "$tmp/client.yaml" "$@" >"$tmp/out" 2>&1 || status=$?
	[ "$status" = "$want" ] && grep -qF "$says" "$tmp/out" || fail "$*: exit status $status, $(cat "$tmp/out")"
}
refused 78 'train.freeze: no parameter is called "feature.*"' --local --set 'train.freeze=feature.*'
refused 78 'train.freeze: no parameter is left that learns' --local --set 'train.freeze=*'
refused 78 'train.freeze: works with --local only' --set 'train.freeze=features.*'
echo 'what train.freeze names stays, and the rest learns'
