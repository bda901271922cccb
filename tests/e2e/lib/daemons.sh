# Sourced by tests/e2e/*.sh, from the repository's root. Gives each script a scratch folder $tmp with synthetic data and
# configs, and functions that run splits and splitc under a time limit. Everything that a script starts is killed when
# the script ends.
BUILD=${BUILD:-build/release}
SPLITC=${SPLITC:-$PWD/$BUILD/splitc}
SPLITS=${SPLITS:-$PWD/$BUILD/splits}
TOOLS=$PWD/$BUILD/tests/e2e/tools
unset JOURNAL_STREAM NOTIFY_SOCKET XDG_RUNTIME_DIR
unset OPENBLAS_CORETYPE
# Time limit of one command in seconds. It is generous, for a machine that runs twenty other things; a passing test
# never waits for it.
patience=240
[ -z "${SAN:-}" ] || patience=900
export LC_ALL=C.UTF-8 # numbers with a point, sorted by bytes
# $tmp holds the control sockets. The path of a Unix socket has at most 107 bytes, so a long TMPDIR is not used.
tmp=${TMPDIR:-/tmp}
[ ${#tmp} -le 50 ] || tmp=/tmp
tmp=$(mktemp -d "$tmp/e2e.XXXXXX")
started=()

end_all() {
	local pid
	exec 2>/dev/null # where bash says of each that it was killed
	for pid in ${started[@]+"${started[@]}"}; do
		# Process ids are reused: kill only those that are still children of this shell.
		if grep -qsE "^PPid:[[:space:]]($$|$BASHPID)\$" "/proc/$pid/status"; then kill -9 "$pid" 2>/dev/null || true; fi
	done
	wait 2>/dev/null || true
	rm -rf "$tmp"
}
trap end_all EXIT
trap 'exit 130' INT TERM

fail() {
	echo "FAILED: $*"
	local f
	# Only the latest logs: a script may have made dozens.
	ls -t "$tmp"/*.log 2>/dev/null | head -n 4 | while read -r f; do
		if [ -s "$f" ]; then echo "---- ${f##*/}"; tail -n 20 "$f"; fi
	done
	exit 1
}

# make_data TRAIN TEST: writes TRAIN training and TEST test images to $tmp/data.
make_data() {
	train_images=$1 test_images=$2
	mkdir -p "$tmp/data"
	"$TOOLS/make_cifar" "$tmp/data" "$1" "$2"
}

# further COMMAND…: runs it, but not in `make test`: its case is much like others of the script.
further() { [ -n "${SPLIT_QUICK:-}" ] || "$@"; }

# two_at_a_time FUNCTION WORDS…: calls FUNCTION once per WORDS, whose arguments | separates, each time in a process of
# its own that may write to $out. Two run at a time. After a failure no more are started, and the script exits with 1.
two_at_a_time() {
	local function=$1 words pid pids=() bad=0 n=0
	shift
	for words in "$@"; do
		if [ ${#pids[@]} = 2 ]; then
			wait "${pids[0]}" || bad=1
			pids=("${pids[1]}")
		fi
		[ $bad = 0 ] || break
		n=$((n + 1))
		(
			out=$tmp/turn-$n.log
			IFS='|' read -r -a words <<<"$words"
			"$function" "${words[@]}"
		) &
		pids+=($!)
		started+=($!)
	done
	for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" || bad=1; done
	[ $bad = 0 ] || exit 1
}

# free_port: prints a port on which nobody listens. It is below the ephemeral ports, so that a restarted server can bind
# it again.
free_port() {
	local port
	while port=$(shuf -i 15000-31999 -n 1); do
		(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

# simulated_device: from here on $SPLITS has the CUDA module for a CPU beside it. Returns 1 if this build has no such
# module.
simulated_device() {
	local module=$PWD/$BUILD/cuda-sim-module/libsplit_cuda.so
	[ -z "${SAN:-}" ] && [ -f "$module" ] || return 1
	mkdir "$tmp/bin"
	cp "$SPLITS" "$module" "$tmp/bin/"
	SPLITS=$tmp/bin/splits
}
needs_simulated_device() { simulated_device || { echo "no simulated device here: no C++ compiler, or a build with sanitizers"; exit 77; }; }

serves_or_ended() { grep -q ' serving: ' "$tmp/$1.log" || ! kill -0 "$server_pid"; }

# start_server NAME [key=value]…: sets $server_pid and $endpoint. The log is $tmp/NAME.log, the control socket
# $tmp/NAME.sock.
start_server() {
	local name=$1 set=() pair
	shift
	for pair in "listen=tcp://127.0.0.1:0" "store=$tmp/store" threads=1 device=cpu "control=$tmp/$name.sock" "$@"; do
		set+=(--set "$pair")
	done
	: >"$tmp/empty.yaml"
	rm -f "$tmp/$name.log" "$tmp/$name.go" # an earlier server's of that name says `serving` too
	SPLIT_FAILPOINTS_GO=$tmp/$name.go "$SPLITS" serve "$tmp/empty.yaml" "${set[@]}" 2>"$tmp/$name.log" &
	server_pid=$!
	started+=("$server_pid")
	wait_for "splits does not serve" serves_or_ended "$name"
	endpoint=$(sed -n 's/^INFO serving: .* on \(tcp:[^ ,]*\),.*/\1/p' "$tmp/$name.log")
	[ -n "$endpoint" ] || fail "splits does not serve: $(tail -n 1 "$tmp/$name.log")"
}

# wait_for WHAT COMMAND…: repeats COMMAND until it succeeds; fails with WHAT after $patience seconds.
wait_for() {
	local what=$1 until=$((SECONDS + patience))
	shift
	while ! "$@" 2>/dev/null; do
		[ $SECONDS -lt $until ] || fail "$what within $patience s"
		sleep 0.05
	done
}

# ask PROGRAM SOCKET FILE: writes the daemon's status as JSON to FILE. Retries, as a daemon on a busy machine may take
# more than 2 s.
ask() { wait_for "${1##*/} does not answer at $2" "$1" status --control "$2" --json >"$3"; }

# write_config FILE: writes a small client config.
write_config() {
	local file=$1
	cat >"$file" <<-YAML
		server: ${endpoint:-tcp://127.0.0.1:9}
		model: {name: mobilenet_v2, classes: 10, image: 32, form: imagenet, width: 0.25, dropout: 0.2}
		partition: "1:-1"
		data: {kind: cifar10, dir: $tmp/data, train_files: [data_batch_1.bin], train_limit: $train_images, test_limit: $test_images}
		train:
		  batch: 16
		  chunks: 4
		  epochs: 1
		  seed: 3
		  optimizer: {kind: sgd, lr: 0.05, momentum: 0.9, weight_decay: 0.0001, nesterov: true}
		  schedule: {kind: cosine, warmup_epochs: 0.5}
		threads: 1
	YAML
}

# use_adamw FILE: replaces the optimizer of a config by AdamW, which has other keys than SGD.
use_adamw() {
	sed -i 's/optimizer: {.*}/optimizer: {kind: adamw, lr: 0.002, beta2: 0.99, weight_decay: 0.05}/' "$1"
	grep -q 'kind: adamw' "$1" || fail "$1 has no optimizer"
}

# client NAME CONFIG [argument]…: runs splitc train in the foreground, with log.dir $tmp/NAME and its output in
# $tmp/NAME.log.
# Returns splitc's exit status.
client() {
	local name=$1 config=$2
	shift 2
	timeout -k 5 $patience "$SPLITC" train "$config" --set log.dir="$tmp/$name" --set control="$tmp/$name.sock" "$@" \
		>"$tmp/$name.log" 2>&1
}

# start_client NAME CONFIG [argument]…: the same in the background; sets $client_pid.
start_client() {
	local name=$1 config=$2
	shift 2
	rm -f "$tmp/$name.log" "$tmp/$name.go" # an earlier client's of that name says that it got to a failpoint
	SPLIT_FAILPOINTS_GO=$tmp/$name.go "$SPLITC" train "$config" --set log.dir="$tmp/$name" --set control="$tmp/$name.sock" "$@" >"$tmp/$name.log" 2>&1 &
	client_pid=$!
	started+=("$client_pid")
}

# start_slow_client STEP MS NAME CONFIG [argument]…: start_client, with MS ms of delay in each step from STEP on. A step
# takes 3 ms, and a busy machine may hold up a script for seconds: the delay keeps the client alive until the script
# interrupts or kills it.
start_slow_client() { start_failing_client "client.apply=delay:$2@$1+" "${@:3}"; }
start_failing_client() { # FAILPOINTS NAME CONFIG [argument]…
	local plain=$SPLITC
	SPLITC=$PWD/$BUILD/fail/splitc
	export SPLIT_FAILPOINTS=$1
	start_client "${@:2}"
	unset SPLIT_FAILPOINTS
	SPLITC=$plain
}

# client_stands STEPS NAME CONFIG [argument]…: starts a client that does STEPS steps and then holds at a failpoint in
# the next one, until let_go or a kill. A failpoint counts only its own process's passages, so steps before a resume do
# not count.
client_stands() {
	start_failing_client client.apply=hold@$(($1 + 1)) "${@:2}"
	stands_at "$2" client.apply "$client_pid"
}
# stands_at NAME POINT PID: waits until the process PID, which logs to NAME.log, holds at a failpoint.
stands_at() {
	wait_for "$1 does not get to $2" has_passed_or_ended "$@"
	has_passed "$@" || fail "$1 ended before it got to $2"
}
has_passed() { grep -q " failpoint: $2, " "$tmp/$1.log"; }
has_passed_or_ended() { has_passed "$@" || ! kill -0 "$3"; }
# dies_at NAME POINT PID: kills a client that holds there, once it has a checkpoint: its files take longer than a step.
dies_at() {
	stands_at "$@"
	wait_for "$1 has no checkpoint" has_checkpoint "$1"
	end_process "$3"
}
# let_go NAME: releases a client or server that holds at a failpoint.
let_go() {
	: >"$tmp/$1.go"
	wait_for "$1 does not go on" test ! -e "$tmp/$1.go"
}
# client_dies POINT@N NAME CONFIG [argument]…: starts a client that dies at that passage of a failpoint.
client_dies() {
	start_failing_client "${1/@/=hold@}" "${@:2}"
	dies_at "$2" "${1%@*}" "$client_pid"
}
# killed_client STEP TWIN CONFIG [argument]…: kills the run `TWIN killed` after step STEP, once it has a checkpoint, and
# resumes it with --resume. It must end as the run TWIN did. $between: a command to run before the resume.
killed_client() {
	local name="$2 killed"
	client_dies "client.apply@$(($1 + 1))" "$name" "${@:3}" --fresh
	${between:-true}
	client "$name" "${@:3}" --resume || fail "$name behind step $1: exit status $?"
	same_run "$name" "$2" "$(steps_of "$2")"
}
# killed_server FAILPOINT TWIN CONFIG [argument]…: a server of this run dies at FAILPOINT and is restarted while the
# client waits.
# The run, `TWIN FAILPOINT` without `=kill`, must end as TWIN did. $between: a command to run before the server
# restarts.
killed_server() {
	local name="$2 ${1/=kill/}" server_pid endpoint=tcp://127.0.0.1:$(free_port)
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=$1 start_server "$name dies" listen="$endpoint" store="$tmp/$name store"
	start_client "$name" "${@:3}" --set server="$endpoint" --set link.on_server_lost=wait --set link.retry_ms=20 \
		--set link.heartbeat_ms=100 --set link.timeout_ms=2000
	ends_with "$server_pid" 137 $patience "the server of $name"
	${between:-true}
	start_server "$name lives" listen="$endpoint" store="$tmp/$name store"
	ends_with "$client_pid" 0 $patience "$name"
	same_run "$name" "$2" "$(steps_of "$2")"
	end_process "$server_pid"
}
# stops NAME [SIGNAL]: sends SIGNAL (INT) to the client that holds at a failpoint; it must finish its step and stop.
stops() {
	signal "${2:-INT}" "$client_pid"
	wait_for "$1 does not say that it stops" grep -q '^INFO stopping: ' "$tmp/$1.log"
	let_go "$1"
	ends_with "$client_pid" 75 $patience "$1, which is told to stop"
}

# signal NAME PID…: sends a signal to processes; fails if one of them has ended already.
signal() {
	local pid
	for pid in "${@:2}"; do
		! grep -qs '^State:[[:space:]]*Z' "/proc/$pid/status" && kill -s "$1" "$pid" 2>/dev/null ||
			fail "line ${BASH_LINENO[-2]}: the process was over before SIG$1 came"
	done
}

# end_process PID…, end_client: SIGKILL to children. Fails if one had ended before: its status would be its own, not
# 137.
end_client() { end_process "$client_pid"; }
end_process() {
	local pid rc
	kill -9 "$@" 2>/dev/null || true
	for pid in "$@"; do
		rc=0
		{ wait "$pid" || rc=$?; } 2>/dev/null
		[ $rc = 137 ] || fail "line ${BASH_LINENO[-2]}: the process was over before it was killed, with status $rc"
	done
}

# ends_with PID STATUS SECONDS WHAT: fails unless the process ends within SECONDS, with exit status STATUS.
ends_with() {
	local rc=0 until=$((SECONDS + $3))
	[ -z "${SAN:-}" ] || until=$((until + 30))
	while kill -0 "$1" 2>/dev/null; do
		[ $SECONDS -le $until ] || fail "$4: still running after $3 s"
		sleep 0.05
	done
	wait "$1" || rc=$?
	[ $rc = "$2" ] || fail "$4: exit status $rc, not $2"
}

# clock_starts; clock_within MS WHAT: fails if more than MS ms passed since clock_starts, plus the time for which a busy
# machine kept processes waiting: the sum of how late sleeps of 50 ms ended. Sets $took, in ms.
clock_starts() {
	[ -n "${clock_pid:-}" ] || { clock_listens & clock_pid=$!; started+=("$clock_pid"); }
	: >"$tmp/clock.late"
	began=${EPOCHREALTIME/./}
}
clock_listens() {
	local from
	while :; do
		from=${EPOCHREALTIME/./}
		sleep 0.05
		echo $(((${EPOCHREALTIME/./} - from) / 1000 - 50)) >>"$tmp/clock.late"
	done
}
clock_late() { awk '{n += $1} END {print n + 0}' "$tmp/clock.late"; }
clock_within() {
	local late
	took=$(((${EPOCHREALTIME/./} - began) / 1000))
	late=$(clock_late)
	[ $took -le $(($1 + late)) ] || fail "$2: took $took ms, not $1; a process was kept waiting for $late ms"
}

# at_point NAME POINT: waits until the process that logs to NAME.log has reached that failpoint.
at_point() { wait_for "$1 does not get to $2" has_passed "$@"; }

# fits FILE: fails if a line is wider than 80 columns.
fits() { [ "$(wc -L <"$1")" -le 80 ] || fail "${1##*/} is wider than 80 columns: $(awk 'length > 80' "$1" | head -n 3)"; }

# steps_of NAME: prints the number of steps in the run's log.jsonl.
steps_of() { grep -c '^{"type":"step"' "$tmp/$1/log.jsonl" 2>/dev/null || true; }
has_steps() { [ "$(steps_of "$1")" -ge "$2" ]; }
has_checkpoint() { compgen -G "$tmp/$1/checkpoint-*.safetensors" >/dev/null; }

# Prints the fields that must not depend on where the middle runs: losses, accuracies, learning rates and norms, as
# written in the log. What audits found is no part of it.
learned() { sed -E '/"type":"audit"/d; s/"test_(baseline|intervals)":\{[^}]*\}//g' "$tmp/$1/log.jsonl" | grep -oE '"(type|step|skipped|epoch|loss|acc|lr|grad_norm|train_loss|train_acc|test_loss|test_acc)":[^,}]*'; }

dcor_of() { grep -o '"dcor_squared":[^,}]*' "$tmp/$1/log.jsonl"; }

# refused STATUS SENTENCE [argument]…: `train` of $config (or client.yaml) must end with STATUS and say SENTENCE. It
# runs with --check-config, or with $refusing where that is set; $command replaces `train`.
refused() {
	local rc=0
	"$SPLITC" "${command:-train}" "${config:-$tmp/client.yaml}" ${refusing---check-config} "${@:3}" >"$tmp/refused.log" 2>&1 || rc=$?
	[ $rc = "$1" ] && grep -qF -- "$2" "$tmp/refused.log" || fail "$2: exit status $rc, not $1: $(cat "$tmp/refused.log")"
}

# base_for CONFIG FOLDER [argument]…: trains weights for a model folder in one step, beside which adapters may then train.
base_for() {
	"$SPLITC" train "$1" --local --fresh --set model.huggingface="$2" --set lora.rank=0 --set train.max_steps=1 --set log.dir="$2.run" "${@:3}" >"$2.log" 2>&1 ||
		fail "weights for $2: $(cat "$2.log")"
	cp "$2.run/model.safetensors" "$2"
	rm -r "$2.run"
}

# weights_of FILE: prints a model without the metadata that describes its data, and without the hash that covers them.
weights_of() {
	local header
	header=$(od -An -tu8 -N8 "$1")
	tail -c +9 "$1" | head -c "$header" | jq -c 'del(.__metadata__.data, .__metadata__["split.hash"])'
	tail -c +$((9 + header)) "$1"
}

# tensor FILE NAME: prints a digest of the tensor's bytes.
tensor() {
	local length range
	length=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
	range=$(tail -c +9 "$1" | head -c "$length" | jq -r --arg n "$2" '.[$n].data_offsets | "\(.[0]) \(.[1])"')
	tail -c +$((9 + length + ${range% *})) "$1" | head -c $((${range#* } - ${range% *})) | sha256sum
}

# same_run A B STEPS [other]: both runs have the same losses (STEPS steps) and the same weights, byte for byte. With
# `other` their data have different names, and the model's metadata about data is not compared.
same_run() {
	[ "$(steps_of "$1")" = "$3" ] || fail "$1 has $(steps_of "$1") steps, not $3"
	local differ
	differ=$(diff <(learned "$1") <(learned "$2") || true)
	[ -z "$differ" ] || { head -n 6 <<<"$differ"; fail "$1 and $2 learned differently"; }
	cmp <(dcor_of "$1") <(dcor_of "$2") || fail "$1 and $2 have other distance correlations"
	if [ -n "${4:-}" ]; then
		cmp <(weights_of "$tmp/$1/model.safetensors") <(weights_of "$tmp/$2/model.safetensors") || fail "$1 and $2 ended with different weights"
		return
	fi
	cmp "$tmp/$1/model.safetensors" "$tmp/$2/model.safetensors" || fail "$1 and $2 ended with different weights"
}

# good: arguments of a run that trains until it is told to stop. Its rate is low: on random labels and chunks of four
# images weights would otherwise diverge to NaN. Nothing of it depends on max_steps, as a cosine would.
good=("$tmp/client.yaml" --set train.epochs=100000 --set train.eval_every=0 --set train.optimizer.lr=0.002
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
# good_as_alone: the client `good`, which has ended, learned beside others what it learns alone.
good_as_alone() {
	client alone "${good[@]}" --local --set train.max_steps="$(steps_of good)" || fail "alone: exit status $?"
	for name in good alone; do learned $name | grep -A 3 '"type":"step"' >"$tmp/$name.steps"; done
	cmp "$tmp/good.steps" "$tmp/alone.steps" || fail 'the good client learned something else'
	cmp <(weights_of "$tmp/good/model.safetensors") <(weights_of "$tmp/alone/model.safetensors") || fail 'the good client ended with other weights'
}

# as_local FAR LOCAL STEPS CONFIG [argument]…: a run with a server must equal the same run in one process. An empty
# STEPS means as many as in one process.
as_local() {
	client "$2" "${@:4}" --local || fail "$2, in one process: exit status $?"
	client "$1" "${@:4}" || fail "$1, with a server: exit status $?"
	same_run "$1" "$2" "${3:-$(steps_of "$2")}"
}
