#!/usr/bin/env bash
# A group whose members several servers have, the ranks of an MPI job: losses and weights are those of the same group in one process,
# byte for byte, with codecs that keep state, batch norm, AdamW and unequal shares. Then members and ranks are killed: the job ends, is
# started again, and the group ends with the same bytes. SPLIT_KILLS says how many (2). And who connects to the wrong rank is told so.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
[ -f "$BUILD/libsplit_mpi.so" ] && command -v mpirun >/dev/null || { echo "no MPI here: scripts/install-deps.sh --mpi"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=/bin/false
timeout 60 mpirun --oversubscribe -n 2 true >"$tmp/mpirun.txt" 2>&1 || { echo "mpirun does not run here: $(tail -n 1 "$tmp/mpirun.txt")"; exit 77; }
make_data 96 16
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/epochs: 1/epochs: 100000/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
sed -i 's/lr: 0.002/lr: 0.0005/' "$tmp/client.yaml"

# start_job RANKS: $job is mpirun; rank R listens at $port + R
start_job() {
	rm -f "$tmp"/rank.*
	mpirun --oversubscribe --bind-to none -n "$1" bash -c 'exec "$0" "$@" 2>"'"$tmp"'/rank.$OMPI_COMM_WORLD_RANK"' "$SPLITS" serve "$tmp/empty.yaml" \
		--set listen=tcp://127.0.0.1:"$port" --set store="$tmp/store" --set threads=1 --set device=cpu --set control="$tmp/job.sock" \
		>"$tmp/job.txt" 2>&1 &
	job=$!
	started+=("$job")
}
# 0 once all ranks serve, or the job has ended
job_serves() { ! kill -0 "$job" 2>/dev/null || [ "$(cat "$tmp"/rank.* 2>/dev/null | grep -c '^INFO serving: ')" = "$ranks" ]; }
: >"$tmp/empty.yaml"
# begin RANKS: a job at ports that are free
begin() {
	ranks=$1
	rm -rf "$tmp/store"
	for _ in 1 2 3 4 5; do
		port=$(free_port)
		start_job "$ranks"
		wait_for 'the job does not serve' job_serves
		! kill -0 "$job" 2>/dev/null || return 0
	done
	fail "the job does not serve: $(cat "$tmp"/rank.*)"
}
end_job() {
	kill "$job" 2>/dev/null || true
	wait "$job" 2>/dev/null || true
}
# member NAME K CLIENTS RANKS [argument]…: member K, at its rank
member() {
	local name=$1 k=$2 rank=0
	while [ $rank -lt $(($4 - 1)) ] && [ $(((rank + 1) * $3 / $4)) -le "$k" ]; do rank=$((rank + 1)); done
	start_client "$name-$k" "$tmp/client.yaml" --set server=tcp://127.0.0.1:$((port + rank)) --set share.group="$name" --set share.clients="$3" \
		--set share.member="$k" "${@:5}"
	pid[k]=$client_pid
}
# group NAME CLIENTS RANKS [key=value]…
group() {
	local name=$1 n=$2 k pair set=(--set train.max_steps=14 --set train.eval_every=0)
	for pair in "${@:4}"; do set+=(--set "$pair"); done
	client "$name" "$tmp/client.yaml" --local --clients "$n" "${set[@]}" || fail "$name in one process: exit status $?"
	begin "$3"
	for ((k = 0; k < n; k++)); do member "$name" $k "$n" "$3" "${set[@]}"; done
	for ((k = 0; k < n; k++)); do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	for ((k = 0; k < n; k++)); do same_run "$name-$k" "$name/member-$k" 14; done
}

group two 5 2 data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8'
# whoever connects to the wrong rank, or asks for what ranks do not have
refused() {
	local name=$1 phrase=$2 rc=0
	client "$name" "$tmp/client.yaml" --set server=tcp://127.0.0.1:"$port" --set share.group=two "${@:3}" || rc=$?
	[ $rc -ge 64 ] && grep -q -e "$phrase" "$tmp/$name.log" || fail "$name: status $rc, and not a word of: $phrase"
}
refused wrong_rank 'this server is rank 0 of 2 and has members 0 to 1; member 3 connects to rank 1' --set share.clients=5 --set share.member=3
refused too_few 'it has 2 members at least, not 1' --set share.clients=1
refused serial 'has the mode sync' --set share.clients=2 --set share.mode=serial --set data.partition=iid
end_job

kills=${SPLIT_KILLS:-2}
steps=$((40 + kills * 20))
set=(--set train.max_steps=$steps --set train.eval_every=0 --set train.checkpoint_every=5 --set data.partition=iid --set share.straggler_s=0
	--set codec='topk:0.3,ef=true|quant:8' --set link.on_server_lost=wait --set link.retry_ms=20 --set link.timeout_ms=4000
	--set link.heartbeat_ms=500 --set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
client oracle "$tmp/client.yaml" --local --clients 3 "${set[@]}" || fail "the oracle: exit status $?"
begin 3
RANDOM=${SPLIT_SEED:-$$}
echo "share_ranks: seed ${SPLIT_SEED:-$$}, $kills kills, $steps steps"
for k in 0 1 2; do member kills $k 3 3 "${set[@]}"; done
alive() { kill -0 "$1" 2>/dev/null; }
# a member whose newest checkpoint is the step that the others wait with goes on, and the job with it
job_decided() { ! alive "$job" || { [ -n "$back" ] && grep -q '^INFO session-open: ' "$tmp/kills-$victim.log"; }; }
has_checkpoint() { compgen -G "$tmp/kills-$1/checkpoint-*.safetensors" >/dev/null; }
for ((n = 1; n <= kills; n++)); do
	for k in 0 1 2; do wait_for "member $k has no checkpoint" has_checkpoint $k; done
	sleep "0.$((RANDOM % 10))"
	victim=$((RANDOM % 3))
	alive "${pid[victim]}" || continue # it is done
	back=
	if [ $((n % 2)) = 1 ]; then
		pkill -9 -P "$job" -f "control=$tmp/job.sock" || true
	else
		back=yes
		kill -9 "${pid[victim]}"
		wait "${pid[victim]}" 2>/dev/null || true
		member kills $victim 3 3 --resume "${set[@]}"
	fi
	wait_for 'the job neither ends nor goes on' job_decided
	! alive "$job" || continue
	wait "$job" 2>/dev/null || true
	for _ in 1 2 3; do
		start_job 3
		wait_for 'the job does not serve' job_serves
		! alive "$job" || break # else a port is not free again yet
	done
done
for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "member $k"; done
for k in 0 1 2; do same_run "kills-$k" "oracle/member-$k" $steps; done
end_job
echo "share_ranks: ok"
