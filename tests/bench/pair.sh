#!/usr/bin/env bash
# usage: pair.sh STEPS [--set key=value]…
# Runs splits and splitc on loopback with bench.yaml, for a warm-up step and then STEPS steps. Prints the milliseconds of
# each of these, a line each. THREADS (1): threads of each side. BUILD: the folder of the programs (build/release). DATA:
# CIFAR-10's binary files; by default random ones are made. Other scripts source this file for its functions.

# made_up_data DIR: writes two files of CIFAR-10's form there. All bytes are 0 to 9, so that the first byte of every record
# is a label.
made_up_data() {
	mkdir -p "$1"
	for f in data_batch_1.bin test_batch.bin; do
		[ -s "$1/$f" ] || head -c 30730000 /dev/urandom | LC_ALL=C tr '\000-\377' \
			"$(for _ in $(seq 26); do printf '\\000\\001\\002\\003\\004\\005\\006\\007\\010\\011'; done)" >"$1/$f"
	done
}

# server_start WORK ADDRESS THREADS [PREFIX…]: starts splits with its files in WORK; sets server_pid and endpoint.
# PREFIX: a command to run it with, such as `taskset -c 1`. SERVER_DEVICE (cpu): its device. SERVER_YAML: more lines of its
# config.
server_start() {
	local work=$1 address=$2 threads=$3
	shift 3
	cat >"$work/server.yaml" <<YAML
listen: tcp://$address:0
store: ""
device: ${SERVER_DEVICE:-cpu}
threads: $threads
limits: {memory_bytes: 12 GiB, sessions: 16}
${SERVER_YAML:-}
control: $work/splits.sock
YAML
	: >"$work/server.log"
	"$@" "$BUILD/splits" serve "$work/server.yaml" 2>"$work/server.log" &
	server_pid=$!
	endpoint=
	for _ in $(seq 300); do
		endpoint=$(sed -n 's/.*serving: .* on \(tcp:[^,]*\), .*/\1/p' "$work/server.log")
		[ -z "$endpoint" ] || return 0
		kill -0 "$server_pid" 2>/dev/null || break
		sleep 0.1
	done
	cat "$work/server.log" >&2
	return 1
}

server_stop() {
	[ -z "${server_pid:-}" ] || { kill "$server_pid" 2>/dev/null || true; wait "$server_pid" 2>/dev/null || true; }
	server_pid=
}

# client_run WORK THREADS STEPS [PREFIX…] -- [--set key=value]…: trains a warm-up step and STEPS steps. Writes
# WORK/log.jsonl and WORK/summary.json.
client_run() {
	local work=$1 threads=$2 steps=$3 prefix=()
	shift 3
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	rm -f "$work/log.jsonl"
	"${prefix[@]}" "$BUILD/splitc" train "$here/tests/bench/bench.yaml" --fresh --json --set "server=$endpoint" \
		--set "data.dir=$data" --set "threads=$threads" --set "train.max_steps=$((steps + 1))" --set "log.dir=$work" \
		--set "control=$work/splitc.sock" "$@" >"$work/summary.json" 2>"$work/client.log" ||
		{ tail -n 5 "$work/client.log" "$work/server.log" >&2; return 1; }
}

# step_ms WORK: prints the milliseconds of each step of WORK/log.jsonl but the first.
step_ms() {
	sed -n 's/.*"type":"step".*"t_step_s":\([0-9.e+-]*\).*/\1/p' "$1/log.jsonl" | awk 'NR > 1 { printf "%.3f\n", $1 * 1e3 }'
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=${BUILD:-build/release}
case $BUILD in /*) ;; *) BUILD=$here/$BUILD ;; esac
unset OPENBLAS_CORETYPE
[ "${BASH_SOURCE[0]}" = "$0" ] || return 0

set -eu
steps=${1:?usage: pair.sh STEPS [--set key=value]…}
shift
work=$(mktemp -d)
trap 'server_stop; rm -rf "$work"' EXIT
data=${DATA:-$work/data}
[ -n "${DATA:-}" ] || made_up_data "$data"
server_start "$work" 127.0.0.1 "${THREADS:-1}"
client_run "$work" "${THREADS:-1}" "$steps" -- "$@"
step_ms "$work"
