#!/usr/bin/env bash
# Learned inserts over the link: losses and weights equal those of `--local`, byte for byte, for every kind of insert
# and with a codec after it; fewer bytes cross. Weight files without inserts load, and those with inserts load
# completely.
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
echo "$cases runs equal their local twin"
