# Sourced behind daemons.sh: servers that are the ranks of an MPI job. 77: there is no MPI here.
[ -f "$BUILD/libsplit_mpi.so" ] && command -v mpirun >/dev/null || { echo "no MPI here: scripts/install-deps.sh --mpi"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=/bin/false
timeout 60 mpirun --oversubscribe -n 2 true >"$tmp/mpirun.txt" 2>&1 || { echo "mpirun does not run here: $(tail -n 1 "$tmp/mpirun.txt")"; exit 77; }
: >"$tmp/empty.yaml"

# start_job: $ranks ranks, with what stands in rank_set; $job is mpirun, and rank R listens at $port + R
start_job() {
	rm -f "$tmp"/rank.*
	mpirun --oversubscribe --bind-to none -n "$ranks" bash -c 'exec "$0" "$@" 2>"'"$tmp"'/rank.$OMPI_COMM_WORLD_RANK"' "$SPLITS" serve \
		"$tmp/empty.yaml" --set listen=tcp://127.0.0.1:"$port" --set store="$tmp/store" --set threads=1 --set device=cpu \
		--set control="$tmp/job.sock" ${rank_set[@]+"${rank_set[@]}"} >"$tmp/job.txt" 2>&1 &
	job=$!
	bare_since=$SECONDS
	started+=("$job")
}
job_ended() { ! kill -0 "$job" 2>/dev/null; }
# 0 once all ranks serve, or the job has ended
job_serves() { job_ended || [ "$(cat "$tmp"/rank.* 2>/dev/null | grep -c '^INFO serving: ')" = "$ranks" ]; }
# begin_job RANKS: a job at ports that are free, with an empty store
begin_job() {
	ranks=$1
	rm -rf "$tmp/store"
	for _ in 1 2 3 4 5; do
		port=$(free_port)
		start_job
		wait_for 'the job does not serve' job_serves
		job_ended || return 0
	done
	fail "the job does not serve: $(cat "$tmp"/rank.*)"
}
end_job() {
	kill "$job" 2>/dev/null || true
	bare_since=$SECONDS
	while ! job_ended && [ $((SECONDS - bare_since)) -lt $hang_s ]; do sleep 0.1; done
	kill -9 "$job" 2>/dev/null || true
	wait "$job" 2>/dev/null || true
}
# mpirun hangs now and then where a rank dies while MPI begins in it, and does not end on SIGTERM then. Whoever has had no process for
# so long is taken for hanging.
hang_s=20
# job_hangs: mpirun is there, and none of its ranks
job_hangs() {
	if ps --ppid "$job" -o stat= | grep -qv '^Z'; then bare_since=$SECONDS; fi
	[ $((SECONDS - bare_since)) -ge $hang_s ]
}
# mend_job: as a service manager does, it starts a job again that has ended
mend_job() {
	! job_hangs || kill -9 "$job" 2>/dev/null || true
	job_ended || return 0
	wait "$job" 2>/dev/null || true
	start_job
	jobs=$((${jobs:-1} + 1))
}
# kill_ranks [N]: N of the job's ranks die, or all
kill_ranks() { pgrep -P "$job" -f "control=$tmp/job.sock" | shuf -n "${1:-$ranks}" | xargs -r kill -9; }
# server_of MEMBER MEMBERS: where its rank listens
server_of() {
	local rank=0
	while [ $rank -lt $((ranks - 1)) ] && [ $(((rank + 1) * $2 / ranks)) -le "$1" ]; do rank=$((rank + 1)); done
	echo "tcp://127.0.0.1:$((port + rank))"
}
