#!/usr/bin/env bash
# `splitc codecs --measure`: payloads have the computed size, on made-up values and on tensors of a file.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
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
