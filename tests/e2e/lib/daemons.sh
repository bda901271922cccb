# Sourced by tests/e2e/*.sh, from the repository's root. Gives each script a scratch folder $tmp with synthetic data, configs,
# and splits and splitc under a time limit; whatever was started is killed when the script ends.
BUILD=${BUILD:-build/release}
SPLITC=${SPLITC:-$PWD/$BUILD/splitc}
SPLITS=${SPLITS:-$PWD/$BUILD/splits}
TOOLS=$PWD/$BUILD/tests/e2e/tools
unset JOURNAL_STREAM NOTIFY_SOCKET OPENBLAS_CORETYPE XDG_RUNTIME_DIR
# seconds for one command, on a machine that does twenty other things: who waits for less waits no longer where all is well
patience=240
[ -z "${SAN:-}" ] || patience=900
export LC_ALL=C.UTF-8 # numbers with a point, sorted by bytes
# Control sockets lie in it, whose paths have room for 107 bytes
tmp=${TMPDIR:-/tmp}
[ ${#tmp} -le 50 ] || tmp=/tmp
tmp=$(mktemp -d "$tmp/e2e.XXXXXX")
started=()

end_all() {
	local pid
	exec 2>/dev/null # where bash says of each that it was killed
	for pid in ${started[@]+"${started[@]}"}; do
		# ids are used again: one that has ended may be somebody else's by now
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
	# the latest ones: a script may have made dozens
	ls -t "$tmp"/*.log 2>/dev/null | head -n 4 | while read -r f; do
		if [ -s "$f" ]; then echo "---- ${f##*/}"; tail -n 20 "$f"; fi
	done
	exit 1
}

# make_data TRAIN TEST: that many images in $tmp/data
make_data() {
	train_images=$1 test_images=$2
	mkdir -p "$tmp/data"
	"$TOOLS/make_cifar" "$tmp/data" "$1" "$2"
}

# two_at_a_time FUNCTION WORDS…: FUNCTION with each of WORDS, split at bars, as a process of its own that may write to $out. The
# others end before the script does, where one fails.
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

# free_port: one that nobody listens at, below the ephemeral ones, for servers that come back to the same address
free_port() {
	local port
	while port=$(shuf -i 15000-31999 -n 1); do
		(: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

# simulated_device: from here on the CUDA module for a CPU lies beside $SPLITS. 1: there is none
simulated_device() {
	local module=$PWD/$BUILD/cuda-sim-module/libsplit_cuda.so
	[ -z "${SAN:-}" ] && [ -f "$module" ] || return 1
	mkdir "$tmp/bin"
	cp "$SPLITS" "$module" "$tmp/bin/"
	SPLITS=$tmp/bin/splits
}
needs_simulated_device() { simulated_device || { echo "no simulated device here: no C++ compiler, or a build with sanitizers"; exit 77; }; }

serves_or_ended() { grep -q ' serving: ' "$tmp/$1.log" || ! kill -0 "$server_pid"; }

# start_server NAME [key=value]…: $server_pid, $endpoint. Its log is $tmp/NAME.log, its control socket $tmp/NAME.sock
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

# wait_for WHAT COMMAND…: until the command succeeds
wait_for() {
	local what=$1 until=$((SECONDS + patience))
	shift
	while ! "$@" 2>/dev/null; do
		[ $SECONDS -lt $until ] || fail "$what within $patience s"
		sleep 0.05
	done
}

# ask PROGRAM SOCKET FILE: its status as JSON. A process that a busy machine keeps waiting does not answer within 2 s.
ask() { wait_for "${1##*/} does not answer at $2" "$1" status --control "$2" --json >"$3"; }

# write_config FILE: a small client config
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

# use_adamw FILE: … with another optimizer, whose keys are others
use_adamw() {
	sed -i 's/optimizer: {.*}/optimizer: {kind: adamw, lr: 0.002, beta2: 0.99, weight_decay: 0.05}/' "$1"
	grep -q 'kind: adamw' "$1" || fail "$1 has no optimizer"
}

# client NAME CONFIG [argument]…: splitc train in the foreground, its run in $tmp/NAME, its output in $tmp/NAME.log;
# the exit status is splitc's
client() {
	local name=$1 config=$2
	shift 2
	timeout -k 5 $patience "$SPLITC" train "$config" --set log.dir="$tmp/$name" --set control="$tmp/$name.sock" "$@" \
		>"$tmp/$name.log" 2>&1
}

# start_client NAME CONFIG [argument]…: the same in the background: $client_pid
start_client() {
	local name=$1 config=$2
	shift 2
	rm -f "$tmp/$name.go"
	SPLIT_FAILPOINTS_GO=$tmp/$name.go "$SPLITC" train "$config" --set log.dir="$tmp/$name" --set control="$tmp/$name.sock" "$@" >"$tmp/$name.log" 2>&1 &
	client_pid=$!
	started+=("$client_pid")
}

# start_slow_client STEP MS NAME CONFIG [argument]…: … whose steps take so long from that one on, so that it is still there to be
# interrupted or killed when the script gets to it: steps take 3 ms, and a busy machine may keep a script waiting for seconds.
start_slow_client() { start_failing_client "client.apply=delay:$2@$1+" "${@:3}"; }
start_failing_client() { # FAILPOINTS NAME CONFIG [argument]…
	local plain=$SPLITC
	SPLITC=$PWD/$BUILD/fail/splitc
	export SPLIT_FAILPOINTS=$1
	start_client "${@:2}"
	unset SPLIT_FAILPOINTS
	SPLITC=$plain
}

# client_stands STEPS NAME CONFIG [argument]…: … that does so many steps, and stands in the next one until let_go, or until it is
# killed. A failpoint counts passages of its own process: steps of an earlier life do not count.
client_stands() {
	start_failing_client client.apply=hold@$(($1 + 1)) "${@:2}"
	wait_for "$2 does not get behind its step $1" at_apply_or_ended "$2"
	at_apply "$2" || fail "$2 ended before it had done $1 steps and begun another"
}
at_apply() { grep -q ' failpoint: client.apply, ' "$tmp/$1.log"; }
at_apply_or_ended() { at_apply "$1" || ! kill -0 "$client_pid"; }
# let_go NAME: a client or server that holds at a failpoint goes on
let_go() {
	: >"$tmp/$1.go"
	wait_for "$1 does not go on" test ! -e "$tmp/$1.go"
}
# killed_client STEP TWIN CONFIG [argument]…: a run that is killed behind that step, once it has a checkpoint, goes on by --resume, and
# ends as the run TWIN did. It is `TWIN killed`. $between: a command that runs before --resume
killed_client() {
	local name="$2 killed"
	client_stands "$1" "$name" "${@:3}" --fresh
	wait_for "$name has no checkpoint" has_checkpoint "$name"
	end_client
	${between:-true}
	client "$name" "${@:3}" --resume || fail "$name behind step $1: exit status $?"
	same_run "$name" "$2" "$(steps_of "$2")"
}
# killed_server FAILPOINT TWIN CONFIG [argument]…: a server of its own dies there and comes back, while the run waits for it, and the
# run ends as TWIN did. It is `TWIN FAILPOINT`, without `=kill`. $between: a command that runs before the server comes back
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
# stops NAME [SIGNAL]: the client that stands is told to stop, and stops behind its step
stops() {
	signal "${2:-INT}" "$client_pid"
	wait_for "$1 does not say that it stops" grep -q '^INFO stopping: ' "$tmp/$1.log"
	let_go "$1"
	ends_with "$client_pid" 0 $patience "$1, which is told to stop"
}

# signal NAME PID…: to processes that must still be there
signal() {
	local pid
	for pid in "${@:2}"; do
		! grep -qs '^State:[[:space:]]*Z' "/proc/$pid/status" && kill -s "$1" "$pid" 2>/dev/null ||
			fail "line ${BASH_LINENO[-2]}: the process was over before SIG$1 came"
	done
}

# end_process PID…, end_client: SIGKILL for children that must still be there. One that was over has a status of its own.
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

# ends_with PID STATUS SECONDS WHAT: the process ends within SECONDS, with STATUS
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

# clock_starts; clock_within MS WHAT: no more than MS since then, and as long as a busy machine has kept a process waiting meanwhile
# (how late sleeps of 50 ms were, added up). $took
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

# at_point NAME POINT: a process whose log is NAME's stands at that failpoint, or has passed it
at_point() { wait_for "$1 does not get to $2" grep -q " failpoint: $2, " "$tmp/$1.log"; }

# fits FILE: no line of it is wider than a terminal
fits() { [ "$(wc -L <"$1")" -le 80 ] || fail "${1##*/} is wider than 80 columns: $(awk 'length > 80' "$1" | head -n 3)"; }

# steps_of NAME: how many steps log.jsonl holds
steps_of() { grep -c '^{"type":"step"' "$tmp/$1/log.jsonl" 2>/dev/null || true; }
has_steps() { [ "$(steps_of "$1")" -ge "$2" ]; }
has_checkpoint() { compgen -G "$tmp/$1/checkpoint-*.safetensors" >/dev/null; }

# What must not depend on where the middle runs: losses, accuracies and learning rates, as they are written
learned() { grep -oE '"(type|step|skipped|epoch|loss|acc|lr|grad_norm|train_loss|train_acc|test_loss|test_acc)":[^,}]*' "$tmp/$1/log.jsonl"; }

dcor_of() { grep -o '"dcor_squared":[^,}]*' "$tmp/$1/log.jsonl"; }

# refused STATUS SENTENCE [argument]…: what `train` says of $config (or client.yaml), with $refusing in place of --check-config
refused() {
	local rc=0
	"$SPLITC" "${command:-train}" "${config:-$tmp/client.yaml}" ${refusing---check-config} "${@:3}" >"$tmp/refused.log" 2>&1 || rc=$?
	[ $rc = "$1" ] && grep -qF -- "$2" "$tmp/refused.log" || fail "$2: exit status $rc, not $1: $(cat "$tmp/refused.log")"
}

# weights_of FILE: a model without what it says of its data
weights_of() {
	local header
	header=$(od -An -tu8 -N8 "$1")
	tail -c +9 "$1" | head -c "$header" | jq -c 'del(.__metadata__.data)'
	tail -c +$((9 + header)) "$1"
}

# same_run A B STEPS [other]: same losses (STEPS of them) and same weights, byte for byte; other: of data that have other names
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

# as_local FAR LOCAL STEPS CONFIG [argument]…: a run with a server, and the same in one process; STEPS may be empty
as_local() {
	client "$2" "${@:4}" --local || fail "$2, in one process: exit status $?"
	client "$1" "${@:4}" || fail "$1, with a server: exit status $?"
	same_run "$1" "$2" "${3:-$(steps_of "$2")}"
}
