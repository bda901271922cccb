#!/usr/bin/env bash
# train.precision: bf16_factors. On any CPU by the plain loops, which have the bits of AVX512-BF16's instruction: a run
# over a link learns what one process learns, whichever side is killed, and nearly what fp32 learns. Without the test's
# permission a CPU without the instruction refuses it. AMX's sums, by plain loops: another order, and nearly the same.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh

make_data 128 32
write_config "$tmp/client.yaml"
steps=8
set=(--set model.width=0.25 --set model.form=cifar --set train.batch=16 --set train.chunks=2 --set train.max_steps=$steps --set train.eval_every=0
	--set train.checkpoint_every=2)
factors=(--set train.precision=bf16_factors --set train.ends_precision=bf16_factors)
export SL_CPU_SIMD=avx2
rc=0
client refused "$tmp/client.yaml" --local "${set[@]}" "${factors[@]}" || rc=$?
[ $rc = 78 ] || fail "refused: exit status $rc"
grep -q 'train.ends_precision: the .* runs on cpu, which computes in fp32: take that, or for bf16_factors a CPU that has it' "$tmp/refused.log" ||
	fail "$(tail -n 1 "$tmp/refused.log")"

export SL_CPU_PAIRS=1
start_server pairs
for precision in fp32 bf16_factors; do
	client "$precision" "$tmp/client.yaml" --local "${set[@]}" --set train.precision=$precision --set train.ends_precision=$precision ||
		fail "$precision: $(tail -n 1 "$tmp/$precision.log")"
done
client link "$tmp/client.yaml" --set server="$endpoint" "${set[@]}" "${factors[@]}" || fail "link: $(tail -n 1 "$tmp/link.log")"
same_run link bf16_factors $steps
killed_client 5 link "$tmp/client.yaml" --set server="$endpoint" "${set[@]}" "${factors[@]}"
loss() { jq -s 'map(select(.type == "step"))[0].loss' "$tmp/$1/log.jsonl"; }
near=$(jq -n "($(loss fp32) - $(loss bf16_factors)) | fabs | . > 0 and . < 0.05")
[ "$near" = true ] || fail "the first losses are $(loss fp32) in fp32 and $(loss bf16_factors)"

SL_CPU_PAIRS=amx client amx "$tmp/client.yaml" --local "${set[@]}" "${factors[@]}" || fail "amx: $(tail -n 1 "$tmp/amx.log")"
near=$(jq -n "($(loss amx) - $(loss bf16_factors)) | fabs | . > 0 and . < 0.05")
[ "$near" = true ] || fail "the first losses are $(loss bf16_factors), and $(loss amx) in AMX's order"
SL_CPU_PAIRS=amx "$SPLITC" --version | grep -q 'avx2 amx, OpenBLAS' || fail "--version: $(SL_CPU_PAIRS=amx "$SPLITC" --version)"
