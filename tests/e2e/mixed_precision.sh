#!/usr/bin/env bash
# train.precision. A precision that the CPU lacks is refused with its place in the config. On a simulated device (make
# cuda-sim), both sides skip fp16 steps whose gradients overflow, and a run resumes from checkpoints, with the loss
# scale and AdamW's step count, as if it had not been stopped.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh

# ---- a CPU has only fp32
make_data 64 16
write_config "$tmp/client.yaml"
sed -i 's/^train:$/train:\n  precision: bf16/' "$tmp/client.yaml"
at=$(grep -n precision "$tmp/client.yaml" | cut -d: -f1)
says='which computes in fp32(, bf16_factors)?: take that, or for bf16 a server with a GPU that has it'
start_server cpu device=cpu
for where in local remote; do
	rc=0
	local_run=()
	[ $where = remote ] || local_run=(--local)
	client "refused-$where" "$tmp/client.yaml" --set server="$endpoint" ${local_run[@]+"${local_run[@]}"} || rc=$?
	[ $rc = 78 ] || fail "bf16 on a CPU, $where: exit status $rc"
	grep -qE "client.yaml:$at:14: train.precision: (the server refused: )?the middle runs on cpu, $says" "$tmp/refused-$where.log" ||
		fail "bf16 on a CPU, $where: $(tail -n 1 "$tmp/refused-$where.log")"
done
needs_simulated_device

# ---- a server, which looks for the module beside its executable
sed -i 's/precision: bf16/precision: fp16\n  on_nan: skip/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml" # whose count of steps is without those that are left out
small=(--set model.width=0.1 --set model.form=cifar --set head_end=features.0.1 --set tail_begin=features.2 --set train.batch=8
	--set train.chunks=2 --set train.schedule.warmup_epochs=0 --set train.schedule.kind=constant --set train.optimizer.lr=0.005
	--set train.checkpoint_every=2 --set train.eval_every=0 --set train.max_steps=18 --set train.epochs=3)
run() { client "$1" "$tmp/client.yaml" "${small[@]}" --set server="$endpoint" "${@:2}" || fail "$1: $(tail -n 1 "$tmp/$1.log")"; }
serve() {
	[ -z "${server_pid:-}" ] || end_process "$server_pid"
	start_server gpu device=cuda:0
}
# newest: the step of the newest checkpoint in the store, with its loss scale and the steps since that changed
newest() {
	local file header_bytes begin
	file=$(ls "$tmp"/store/session-*.safetensors | sort | tail -n 1)
	header_bytes=$(od -An -t u8 -N 8 "$file" | tr -d ' ')
	begin=$(tail -c +9 "$file" | head -c "$header_bytes" | jq '.loss_scale.data_offsets[0]')
	file=${file##*-}
	echo "$((10#${file%.safetensors})) $(tail -c +$((9 + header_bytes + begin)) "$tmp"/store/session-*-"$file" | head -c 8 | od -An -t f4 | xargs)"
}
# stands NAME STEP: the same values, computed from the steps in log.jsonl.
stands() {
	jq -r 'select(.type == "step") | .skipped // false' "$tmp/$1/log.jsonl" | head -n "$2" |
		awk '{n++} $1 == "true" {out++; n = 0} END {print NR, 65536 / 2 ^ out, n}'
}

serve
client_stands 9 whole "$tmp/client.yaml" "${small[@]}" --set server="$endpoint"
wait_for 'no checkpoint to go on from' has_checkpoint whole
end_process "$client_pid" "$server_pid"
server_pid=
read -r step scale good < <(newest)
[ "$step $scale $good" = "$(stands whole "$step")" ] ||
	fail "the loss scale stands at $scale since $good steps, behind step $step; by the log: $(stands whole "$step")"
[ "${scale%.*}" -lt 65536 ] || fail "no step was left out"
serve
run whole --resume
serve
run twin
same_run whole twin 18
grep -q '"skipped":true' "$tmp/twin/log.jsonl" && grep '"type":"step"' "$tmp/twin/log.jsonl" | tail -n 1 | grep -q '"loss":[0-9]' ||
	fail "fp16 left out no step, or the last"
for precision in fp32 tf32 bf16; do
	run "$precision" --set train.precision=$precision --set train.max_steps=2
	[ "$(steps_of $precision)" = 2 ] || fail "$precision: $(steps_of $precision) steps"
done
loss() { jq -r 'select(.type == "step" and .step == 1) | .loss' "$tmp/$1/log.jsonl"; }
for precision in tf32 bf16; do
	awk -v a="$(loss fp32)" -v b="$(loss $precision)" 'BEGIN {exit !(b > 0 && (a - b) ^ 2 < (0.02 * a) ^ 2)}' ||
		fail "$precision: a loss of $(loss $precision), fp32 has $(loss fp32)"
done
echo "fp16: behind step $step the loss scale stands at $scale"
