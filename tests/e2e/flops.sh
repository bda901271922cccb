#!/usr/bin/env bash
# `splitc flops` gives the rows of published tables, types 1 to 3, and the rates 0.097, 0.070 and 0.038
# (docs/results/inserts.md lists the inserts). For a decaying insert it gives the rates at the beginning and at the end.
# `splitc codecs --measure`: payloads have the computed size, on made-up values and on tensors of a file.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
train_images=1 test_images=1
write_config "$tmp/client.yaml"
rows=0

# flops HEAD TAIL: writes the table to $tmp/flops.
flops() {
	"$SPLITC" flops "$tmp/client.yaml" --set insert.head="$1" --set insert.tail="$2" --set model.width=1 --set model.image=224 \
		--set model.classes=1000 --set train.batch=64 --set head_end=features.0.1 --set tail_begin=classifier >"$tmp/flops" ||
		fail "flops $1 $2: exit status $?"
}
# is NAME WANTED: the number behind NAME in the table is WANTED, to half a unit of its last digit.
is() {
	local got
	got=$(sed -n "s/^$1  *\\([0-9.e+-]*\\).*/\\1/p" "$tmp/flops")
	awk -v got="$got" -v want="$2" 'BEGIN {d = got / want - 1; exit !(got != "" && (d < 0 ? -d : d) < 0.0051)}' ||
		fail "$1 is $got, not $2: $(cat "$tmp/flops")"
	rows=$((rows + 1))
}
# row HEAD TAIL RATE PART1 PART2 PART3
row() {
	flops "$1" "$2"
	is 'compress rate' "$3"
	is head "$4"
	is middle "$5"
	is tail "$6"
}

row none none 1 7.45e8 1.93e10 8.19e7                                            # type 1
row conv:20,k=3,s=3 conv:360 0.0970 1.25e9 2.53e10 1.53e9                        # type 2's MACs: those of the rate 0.097
row conv:32,k=4,s=4+conv:20 conv:380+conv:40 0.0380 1.60e9 3.40e10 1.65e9        # type 3
flops conv:20,k=4,s=4 conv:320
grep -qx 'head_act, head_grad  \[64,28,28,20\]  4.01 MB in fp32' "$tmp/flops" || fail "sizes: $(cat "$tmp/flops")"
is 'compress rate' 0.0676 # "0.070": by the published averages too

flops decaylinear:rate=0.9,every=300,times=9 decaylinear:rate=0.9,every=300,times=9
is 'compress rate' 1
is 'falls to' 0.2954
grep -qx 'insert.head  features that cross, every 300 steps: 32 28 25 22 19 17 15 13 11 9' "$tmp/flops" || fail "$(cat "$tmp/flops")"
grep -A 1 '^insert.tail' "$tmp/flops" | xargs | grep -qx 'insert.tail features that cross, every 300 steps: 1280 1152 1036 932 838 754 678 610 549 494' ||
	fail "$(cat "$tmp/flops")"
fits "$tmp/flops"

# roberta-base: 12 · (4 · 768² + 2 · 768 · 3072) products and 25 norms per token, 12 · 2 · 768 per pair of tokens, and
# its head per row.
mkdir "$tmp/base"
cat >"$tmp/base/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 50265, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
	 "num_attention_heads": 12, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-05}
JSON
printf 'model: {huggingface: %s, classes: 2, tokens: 128}\ndata: {kind: made_tokens, dir: .}\ntrain: {batch: 32}\n' "$tmp/base" >"$tmp/base.yaml"
"$SPLITC" flops "$tmp/base.yaml" >"$tmp/flops" || fail 'flops of roberta-base'
is 'a token' 84973056
fits "$tmp/flops"
# Published rows with two pairs of inserts: nominal rates such as 0.9^9 · 0.95^9, where each reduction rounds down. The
# classifier's vector of each row (1/129 of what crosses) counts too.
two_pairs() { # EVERY RATE2 TIMES RATE
	"$SPLITC" flops "$tmp/base.yaml" --set head_end=encoder.layer.0.attention.output --set tail_begin=classifier --set data.pad=max \
		--set insert.head="decaylinear:rate=0.9,every=$1,times=$3,l1=1e-4,rate2=$2" >"$tmp/flops" || fail "flops of two pairs, $*"
	is 'falls to' "$4"
}
two_pairs 300 0.95 9 0.2333
grep -A 2 '^insert.head' "$tmp/flops" | xargs | grep -qx 'insert.head features × tokens of a row that cross, every 300 steps: 768×128 691×121 621×114 558×108 502×102 451×96 405×91 364×86 327×81 294×76' ||
	fail "$(cat "$tmp/flops")"
two_pairs 500 0.96 9 0.2600
two_pairs 500 0.96 8 0.3015
figures=$("$SPLITC" flops "$tmp/base.yaml" --json | jq -c '[.tokens.macs, .tokens.macs_per_pair, .tokens.row_macs, .tokens.row_tokens,
	.tokens.padded_row_macs * 32 == .head.macs + .middle.macs + .tail.macs]')
[ "$figures" = '[84973056,18432,591360,128,true]' ] || fail "tokens: $figures"

# ---- codecs --measure
"$SPLITC" codecs --measure --shape 4,7,7,16 quant:8 none f16 'topk:0.1|quant:8' --json >"$tmp/made.json" 2>"$tmp/made.log" || fail "status $?"
n=3136
jq -e --argjson n $n '.shape == "[4,7,7,16]" and (.codecs | length == 4)' "$tmp/made.json" >/dev/null || fail "what was measured"
jq -e --argjson n $n '[.codecs[] | .bytes] | .[0] >= $n and .[0] < $n + 64 and .[1] >= 4 * $n and .[1] < 4 * $n + 64
	and .[2] >= 2 * $n and .[2] < 2 * $n + 64' "$tmp/made.json" >/dev/null || fail "bytes: $(cat "$tmp/made.json")"
jq -e '.codecs | .[1].relative_error == 0 and .[0].relative_error > 0.001 and .[0].relative_error < 0.05 and
	all(.encode_gb_s > 0 and .decode_gb_s > 0)' "$tmp/made.json" >/dev/null || fail "errors and rates: $(cat "$tmp/made.json")"
"$SPLITC" codecs --measure --shape=4,7,7,16 --threads=2 --json quant:8 none f16 'topk:0.1|quant:8' >"$tmp/joined.json" 2>"$tmp/made.log" || fail "options with =: status $?"
[ "$(jq -c '[.shape, .codecs[].bytes]' "$tmp/joined.json")" = "$(jq -c '[.shape, .codecs[].bytes]' "$tmp/made.json")" ] || fail "options with = measure something else"
"$SPLITC" codecs --measure tests/golden/mobilenet_v2_run.safetensors none >"$tmp/file.out" 2>"$tmp/file.log" || fail "status $?"
grep -q '^input \[4,64,64,3\]' "$tmp/file.out" || fail "the tensors of a file"
"$SPLITC" codecs --measure --shape 4,7,7,16 none 'topk:0.2,ef=true|quant:8|zstd:12' >"$tmp/table.out" 2>"$tmp/made.log" || fail "status $?"
grep -qE '^ {24} +[0-9]+ ' "$tmp/table.out" || fail "a codec too long for its column: $(cat "$tmp/table.out")"
"$SPLITC" codecs >"$tmp/list.out"
mapfile -t named < <(sed '1,/^name /d' "$tmp/list.out" | awk '{ print $NF }')
[ ${#named[@]} = 27 ] || fail "${#named[@]} codecs by name"
"$SPLITC" codecs --measure --shape 4,7,7,64 "${named[@]}" >"$tmp/named.out" 2>"$tmp/named.log" || fail "a codec by name is none: $(cat "$tmp/named.log")"
for table in file table list; do fits "$tmp/$table.out"; done
rc=0
"$SPLITC" codecs --measure --shape 0,4 2>"$tmp/bad.log" || rc=$?
[ $rc = 64 ] || fail "a shape that is none: status $rc"
rc=0
"$SPLITC" codecs --measure "$tmp/nothing.safetensors" 2>"$tmp/bad.log" || rc=$?
[ $rc = 66 ] || fail "a file that is not there: status $rc"
rc=0
"$SPLITC" codecs none >"$tmp/bad.out" 2>"$tmp/bad.log" || rc=$?
[ $rc = 64 ] && [ ! -s "$tmp/bad.out" ] && grep -q -- "missing argument '--measure'" "$tmp/bad.log" || fail "a codec without --measure: status $rc: $(cat "$tmp/bad.log")"

# A tensor with NaN: codecs that can carry NaN say so, and none claims to return the tensor exactly.
header='{"nan":{"dtype":"F32","shape":[2,2,2,4],"data_offsets":[0,128]}}'
{ printf "\\x$(printf %x ${#header})\0\0\0\0\0\0\0%s" "$header"; printf '\0\0\300\177'; head -c 124 /dev/zero; } >"$tmp/nan.safetensors"
"$SPLITC" codecs --measure "$tmp/nan.safetensors" none quant:8 --json >"$tmp/nan.json" 2>"$tmp/nan.log" || fail "a tensor with NaN: status $?"
jq -e '.codecs | length == 1 and .[0].codec == "none" and .[0].relative_error == null' "$tmp/nan.json" >/dev/null || fail "a tensor with NaN: $(cat "$tmp/nan.json")"
grep -q '^splitc: quant:8: NaN or Inf' "$tmp/nan.log" || fail "quant:8 of NaN: $(cat "$tmp/nan.log")"
"$SPLITC" codecs --measure "$tmp/nan.safetensors" none >"$tmp/nan.out" 2>&1 || fail "a tensor with NaN as a table: status $?"
[ "$(awk '$1 == "none" {print $5}' "$tmp/nan.out")" = - ] || fail "a tensor with NaN as a table: $(cat "$tmp/nan.out")"
# Invalid codecs and numbers are refused before anything is measured.
for bad in '78:nonsense:no method is called' '78:quant:99:with b = 1' '64:--threads=2x:--threads takes'; do
	rc=0
	word=${bad#*:}
	"$SPLITC" codecs --measure --shape 4,7,7,16 none "${word%:*}" >"$tmp/bad.out" 2>"$tmp/bad.log" || rc=$?
	[ $rc = "${bad%%:*}" ] && [ ! -s "$tmp/bad.out" ] && grep -q -- "${bad##*:}" "$tmp/bad.log" || fail "$bad: status $rc: $(cat "$tmp/bad.log")"
done
echo "$rows figures"
