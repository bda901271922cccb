# Sourced in place of daemons.sh, which it sources: one small run for the tests with failpoints, repeated with daemons
# that die and restart.
# On tmpfs fsync takes no time. On a slow disk a checkpoint would be skipped while the previous one is still being
# written.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. tests/e2e/lib/daemons.sh
release=$PWD/$BUILD
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
steps=12 run=$tmp/run store=$tmp/store
port=$(free_port)
codecs=(none quant:8 topk:0.1,ef=true lowrank:3,warm=true) # the tail takes topk in place of lowrank

settings() { # CODEC; with lowrank the optimizer is another one, too
	local pair
	config=$shared/client.yaml
	[ "${1#lowrank}" = "$1" ] || config=$shared/adamw.yaml
	sets=()
	for pair in train.epochs=3 train.schedule.warmup_epochs=0 train.checkpoint_every=3 link.on_server_lost=wait link.retry_ms=10 \
		link.heartbeat_ms=50 link.timeout_ms=1000 link.connect_timeout_ms=2000 log.level=warn \
		train.on_nan=skip log.tensorboard=true "codec=${1/lowrank*/topk:0.1,ef=true}" "codec.head_act=$1" "codec.head_grad=$1" \
		"model.weights=$shared/first.safetensors" data.prefetch=1; do
		sets+=(--set "$pair")
	done
}

# serve FAILPOINTS: starts a server on $port; sets $server_pid. It appends to its log.
serve() {
	: >"$tmp/empty.yaml"
	SPLIT_FAILPOINTS=$1 SPLIT_FAILPOINTS_COUNT=${count:+$count.s} "$SPLITS" serve "$tmp/empty.yaml" --set store="$store" \
		--set listen="tcp://127.0.0.1:$port" --set control="$tmp/server.sock" --set threads=1 --set device=cpu --set log.level=warn 2>>"$tmp/server.log" &
	server_pid=$!
	started+=("$server_pid")
}

# go_on FAILPOINTS: starts a client that resumes from the run's checkpoint, or begins anew if there is none; sets
# $client_pid.
go_on() {
	local resume=()
	! ls "$run"/checkpoint-*.safetensors >/dev/null 2>&1 || resume=(--resume)
	SPLIT_FAILPOINTS=$1 SPLIT_FAILPOINTS_COUNT=${count:+$count.c} run_with "$SPLITC" ${resume[@]+"${resume[@]}"}
}

# run_with SPLITC [argument]…: starts that client on the run's folder; sets $client_pid. It appends to its log.
run_with() {
	"$1" train "$config" --set server="tcp://127.0.0.1:$port" --set log.dir="$run" \
		--set control="$tmp/client.sock" "${sets[@]}" "${@:2}" >>"$tmp/client.log" 2>&1 &
	client_pid=$!
	started+=("$client_pid")
}

# two_workers: runs this script twice, as --worker $tmp 0 and 1. Each worker takes its half of the cases.
two_workers() {
	local worker workers=() bad=0
	for worker in 0 1; do
		"$0" --worker "$tmp" $worker >"$tmp/worker.$worker" 2>&1 &
		started+=($!)
		workers[worker]=$!
	done
	for worker in 0 1; do
		wait "${workers[worker]}" || bad=1
		cat "$tmp/worker.$worker"
	done
	[ $bad = 0 ] || exit 1
}

# first_weights: fills $shared with the data, the configs and the initial weights that every run uploads.
first_weights() {
	shared=$tmp
	make_data 64 16
	write_config "$tmp/client.yaml"
	write_config "$tmp/adamw.yaml"
	use_adamw "$tmp/adamw.yaml"
	client first "$tmp/client.yaml" --local --set train.schedule.warmup_epochs=0 || fail "cannot make the initial weights"
	mv "$tmp/first/model.safetensors" "$tmp/first.safetensors"
}

# undisturbed CODEC-NUMBER: plays the run with no kill and keeps it in $tmp/undisturbed-N.
undisturbed() {
	what="undisturbed, ${codecs[$1]}" client_lives=() server_lives=()
	settings "${codecs[$1]}"
	play 1
	mv "$run" "$tmp/undisturbed-$1"
}

# over: the run has finished and no checkpoint is left to resume from.
over() { finished && [ -f "$run/model.safetensors" ] && ! compgen -G "$run/checkpoint-*.safetensors" >/dev/null; }
finished() { tail -n 1 "$run/log.jsonl" 2>/dev/null | grep -q '"outcome":"finished"'; }

# The client has ended: the run is done, or the client is started once more. Adds to $killed.
client_ended() { # STATUS
	case $1 in
	0) ! finished || { done=1; return 0; } ;;
	137)
		killed=$((killed + 1))
		! over || { done=1; return 0; }
		;;
	*) fail "$what: the client ended with status $1" ;;
	esac
	client_life=$((client_life + 1))
	go_on "${client_lives[client_life]:-}"
}

server_ended() { # STATUS
	case $1 in
	0) ;;
	137) killed=$((killed + 1)) ;;
	*) fail "$what: the server ended with status $1" ;;
	esac
	server_life=$((server_life + 1))
	serve "${server_lives[server_life]:-}"
}

# play KILLS: one run to its end. Sides that die are restarted with their next failpoints; $killed counts the kills. The
# run is repeated if a checkpoint was skipped, because on a busy machine the previous one was still being written.
play() {
	local try
	for try in 1 2 3 4 5; do
		play_once "$1"
		grep -q ' checkpoint-skipped: ' "$tmp/client.log" || break
	done
}

# first_to_end PID…: sets $ended to the one that ended first, and $rc to its status. `wait -n` does not do: in bash 5.2
# it hangs if bash noticed the end during another command, and here there always is another command.
mkfifo "$tmp/never"
exec {never}<>"$tmp/never"
first_to_end() {
	local pid until=$((SECONDS + patience))
	rc=0
	while [ $SECONDS -lt $until ]; do
		for pid in "$@"; do
			kill -0 "$pid" && continue
			ended=$pid
			wait "$pid" || rc=$?
			return 0
		done
		read -r -t 0.005 -u "$never" || true # a sleep without a process
	done
	ended=''
}

# server_is_through: succeeds if the server is dead or has no session any more.
server_is_through() {
	kill -0 "$server_pid" || return 0
	"$SPLITS" status --control "$tmp/server.sock" --json | jq -e '.sessions == []' >/dev/null
}

play_once() {
	local rc ended done=''
	rm -rf "$run" "$store" "$tmp"/*.log
	client_life=0 server_life=0 killed=0
	serve "${server_lives[0]:-}"
	go_on "${client_lives[0]:-}"
	while [ -z "$done" ]; do
		first_to_end "$client_pid" "$server_pid" 2>/dev/null # bash reports killed jobs there
		[ -n "$ended" ] || fail "$what: neither client nor server ended within $patience s"
		if [ "$ended" = "$client_pid" ]; then client_ended $rc; else server_ended $rc; fi
	done
	# The server may pass the failpoint only after the client's goodbye.
	if [ "$killed" -lt "$1" ]; then
		wait_for "$what: the server does not see the client go" server_is_through
		kill -TERM "$server_pid" 2>/dev/null || true
		rc=0
		{ wait "$server_pid" || rc=$?; } 2>/dev/null
		[ $rc != 137 ] || killed=$((killed + 1))
	else
		kill -9 "$server_pid" 2>/dev/null || true
		{ wait "$server_pid" || true; } 2>/dev/null
	fi
}
