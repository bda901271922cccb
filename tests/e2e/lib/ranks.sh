# Sourced after daemons.sh: servers that are the ranks of an MPI job. Exits with 77 if there is no MPI here.
[ -f "$BUILD/libsplit_mpi.so" ] && command -v mpirun >/dev/null || { echo "no MPI here: scripts/install-deps.sh --mpi"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=/bin/false
timeout 60 mpirun --oversubscribe -n 2 true >"$tmp/mpirun.txt" 2>&1 || { echo "mpirun does not run here: $(tail -n 1 "$tmp/mpirun.txt")"; exit 77; }
: >"$tmp/empty.yaml"

# start_job: starts $ranks ranks with the options ${rank_set[@]}. $job is the id of mpirun; rank R listens at $port + R.
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
# Succeeds once all ranks serve, or the job has ended.
job_serves() { job_ended || [ "$(cat "$tmp"/rank.* 2>/dev/null | grep -c '^INFO serving: ')" = "$ranks" ]; }
# begin_job RANKS: starts a job on free ports, with an empty store, and waits until it serves.
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
# If a rank dies while MPI initializes in it, mpirun sometimes hangs and ignores SIGTERM. mpirun is taken to hang once
# it has had no rank for this many seconds.
hang_s=20
# job_hangs: mpirun is alive, and has had no rank for $hang_s seconds.
job_hangs() {
	if ps --ppid "$job" -o stat= | grep -qv '^Z'; then bare_since=$SECONDS; fi
	[ $((SECONDS - bare_since)) -ge $hang_s ]
}
# mend_job: restarts a job that has ended, as a service manager does, and kills one that hangs.
mend_job() {
	! job_hangs || kill -9 "$job" 2>/dev/null || true
	job_ended || return 0
	wait "$job" 2>/dev/null || true
	start_job
	jobs=$((${jobs:-1} + 1))
}
# kill_ranks [N]: kills N of the job's ranks, or all.
kill_ranks() { pgrep -P "$job" -f "control=$tmp/job.sock" | shuf -n "${1:-$ranks}" | xargs -r kill -9; }
# server_of MEMBER MEMBERS: prints the endpoint of the rank that serves this member.
server_of() {
	local rank=0
	while [ $rank -lt $((ranks - 1)) ] && [ $(((rank + 1) * $2 / ranks)) -le "$1" ]; do rank=$((rank + 1)); done
	echo "tcp://127.0.0.1:$((port + rank))"
}
