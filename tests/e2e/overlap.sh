#!/usr/bin/env bash
# The simulated device (make cuda-sim) delays its streams and reorders what may be reordered. A run with tasks queued ahead,
# payloads on copy streams, and recorded passes learns what a plain run does (SPLIT_CUDA_PLAIN), byte for byte:
# codecs of every kind, dropout, a ragged batch, overflowing gradients, two sessions at once, a server that is killed.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
needs_simulated_device

make_data 72 20
write_config "$tmp/client.yaml"
export SPLIT_SIM_LOCKED=1
small=(--set model.width=0.1 --set model.form=cifar --set head_end=features.0.1 --set tail_begin=features.2 --set train.batch=16
	--set train.chunks=4 --set train.schedule.warmup_epochs=0 --set train.schedule.kind=constant --set train.optimizer.lr=0.02
	--set train.checkpoint_every=2 --set train.epochs=2)
run() { client "$1" "$tmp/client.yaml" "${small[@]}" --set server="$endpoint" "${@:2}" || fail "$1: $(tail -n 1 "$tmp/$1.log")"; }
serve() { # NAME [PLAIN]
	[ -z "${server_pid:-}" ] || end_process "$server_pid"
	SPLIT_CUDA_PLAIN=${2:-} start_server "$1" device=cuda:0
}
codecs=(none f16 quant:8 'quant:4,per=channel' 'qsgd:100' 'topk:0.3|quant:8' 'topk:0.2,ef=true|quant:4'
	'lowrank:2,warm=true,ef=true|quant:8' 'threshold:0.5' sortquant:6+2 'topk:0.2|quant:4|zstd:1')
mixed=(--set codec.head_act=quant:8 --set codec.mid_act=none --set codec.mid_grad='topk:0.2|f16' --set codec.head_grad=qsgd:20,bucket=256)
[ -n "${SPLIT_LONG:-}" ] || codecs=(none 'topk:0.2,ef=true|quant:8|zstd:1')
nan=(--set train.on_nan=skip --set train.precision=fp16 --set train.batch=4 --set train.chunks=2 --set train.optimizer.lr=0.005)

serve plain 1
for codec in "${codecs[@]}"; do run "plain-${codec//[^a-z0-9]/-}" --set codec="$codec"; done
run plain-mixed "${mixed[@]}"
run plain-nan "${nan[@]}"
grep -q '"skipped":true' "$tmp/plain-nan/log.jsonl" || fail "no step was left out for NaN or Inf"

for seed in ${SPLIT_LONG:+3 5 7 9 11} 1; do
	export SPLIT_SIM_SEED=$seed
	serve ahead
	for codec in "${codecs[@]}"; do
		name=${codec//[^a-z0-9]/-}
		rm -rf "$tmp/ahead-$name"
		run "ahead-$name" --set codec="$codec"
		same_run "plain-$name" "ahead-$name" "$(steps_of "plain-$name")"
	done
	rm -rf "$tmp/ahead-mixed" "$tmp/ahead-nan" "$tmp/ahead-beside"
	start_client ahead-beside "$tmp/client.yaml" "${small[@]}" --set server="$endpoint" "${mixed[@]}"
	run ahead-mixed "${mixed[@]}"
	ends_with "$client_pid" 0 $patience "the session beside"
	for name in mixed beside; do same_run plain-mixed "ahead-$name" "$(steps_of plain-mixed)"; done
	run ahead-nan "${nan[@]}"
	same_run plain-nan ahead-nan "$(steps_of plain-nan)"
done

# ---- codecs alone, with calls of three slots in flight
for seed in ${SPLIT_LONG:+3 5 7 9 11} 1; do
	for tests in 'calls*GPU*' '*refused*GPU*'; do
		SPLIT_TEST_SHORT=1 SPLIT_SIM_SEED=$seed LD_LIBRARY_PATH=$tmp/bin "$BUILD/tests/suite/test_gpu_codec_ahead" \
			"${SPLIT_LONG:+*}$tests" >"$tmp/ahead.log" 2>&1 || fail "seed $seed: $(grep -v '^\[' "$tmp/ahead.log" | head -n 3)"
		grep -q '^\[  PASSED  \] [1-9]' "$tmp/ahead.log" || fail "no such test"
	done
done

# ---- killed between two steps, and resumed from what both sides keep
client_stands 4 ahead-killed "$tmp/client.yaml" "${small[@]}" --set server="$endpoint" "${mixed[@]}"
wait_for 'no checkpoint to go on from' has_checkpoint ahead-killed
end_process "$client_pid" "$server_pid"
server_pid=
serve ahead
run ahead-killed --resume "${mixed[@]}"
same_run plain-mixed ahead-killed "$(steps_of plain-mixed)"
echo "$((${#codecs[@]} + 3)) runs equal their plain twins"
