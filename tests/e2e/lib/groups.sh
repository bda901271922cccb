# Sourced after daemons.sh by scripts that compare a group over links with the same group in one process. $endpoint: the
# server.

# begin_groups LR [TRAIN TEST]: makes 84 training images (or TRAIN), starts a server, and writes two configs of small
# batches: $tmp/sgd.yaml with learning rate LR, and $tmp/adamw.yaml.
begin_groups() {
	make_data "${2:-84}" "${3:-24}"
	start_server one threads=2
	write_config "$tmp/sgd.yaml"
	sed -i "s/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: $1/" "$tmp/sgd.yaml"
	cp "$tmp/sgd.yaml" "$tmp/adamw.yaml"
	use_adamw "$tmp/adamw.yaml"
}

# group NAME CONFIG CLIENTS [key=value]…: in one process and over links, every member has the same losses and weights,
# byte for byte.
group() {
	local name=$1 config=$2 n=$3 set=() pair points=() pid=() absent
	for pair in "${@:4}"; do set+=(--set "$pair"); done
	client "$name" "$config" --local --clients "$n" ${set[@]+"${set[@]}"} || fail "$name in one process: exit status $?"
	members "$name" "$config" "$n" ${set[@]+"${set[@]}"}
	same_members "$name" "$n"
}

# members NAME CONFIG CLIENTS [argument]…: runs all members over links to their end, member K with the failpoints
# ${points[K]}, and the command $while_they_train meanwhile. Sets $absent: which member missed which step, in the form
# that --absent takes.
members() {
	local k start
	for ((k = 0; k < $3; k++)); do
		if [ -n "${points[k]:-}" ]; then start=start_failing_client; else start=start_client; fi
		$start ${points[k]:+"${points[k]}"} "$1-$k" "$2" "${@:4}" --set server="$endpoint" --set share.group="$1" --set share.clients="$3" --set share.member=$k
		pid[k]=$client_pid
	done
	${while_they_train:-true}
	for ((k = 0; k < $3; k++)); do ends_with "${pid[k]}" 0 $patience "$1, member $k"; done
	absent=$(left_out "$1" "$3")
}
left_out() { # NAME CLIENTS
	for ((k = 0; k < $2; k++)); do sed -nE "/\"skipped\":true/s/.*\"step\":([0-9]+),.*/$k:\1/p" "$tmp/$1-$k/log.jsonl"; done | paste -sd,
}
same_members() { # NAME CLIENTS
	for ((k = 0; k < $2; k++)); do same_run "$1-$k" "$1/member-$k" "$(steps_of "$1/member-$k")"; done
}
# as_told NAME CONFIG CLIENTS ABSENT [argument]…: members learned what the group in one process learns with the same
# --absent list.
as_told() {
	client "$1" "$2" --local "${@:5}" --set share.group="$1" --set share.clients="$3" --absent "$4" || fail "$1, --absent $4: exit status $?"
	same_members "$1" "$3"
}
# one_model NAME CLIENTS: all members wrote the same weights.
one_model() {
	for ((k = 1; k < $2; k++)); do
		cmp "$tmp/$1-0/model.safetensors" "$tmp/$1-$k/model.safetensors" || fail "$1: members 0 and $k differ"
	done
}
# refused_beside CLIENTS KEY PHRASE [key=value]…: a client with these keys cannot join group g; its error names KEY and
# PHRASE.
refused_beside() {
	local set=() pair rc=0
	for pair in "share.clients=$1" "${@:4}"; do set+=(--set "$pair"); done
	client refused "$tmp/sgd.yaml" --set server="$endpoint" --set share.group=g --set link.on_server_lost=exit "${set[@]}" || rc=$?
	[ $rc -ge 64 ] && grep -q -e "$2" "$tmp/refused.log" && grep -q -e "$3" "$tmp/refused.log" || fail "${*:4}: status $rc, and not a word on $2: $3"
}

# killed NAME CONFIG STEPS [key=value]…: member 1 of 3 is killed once, then the server. Both are restarted, and all
# members learn what the same group learns in one process, byte for byte.
killed() {
	local name=$1 config=$2 steps=$3 set=() pair k pids=() one=$server_pid at=$endpoint fp
	shift 3
	for pair in "$@"; do set+=(--set "$pair"); done
	set+=(--set train.epochs=1000 --set train.max_steps="$steps" --set share.group="$name" --set share.clients=3 --set share.least=1
		--set data.partition=iid --set link.on_server_lost=wait --set link.retry_ms=20 --set train.schedule.warmup_epochs=0
		--set train.schedule.kind=constant)
	client "$name" "$config" --local "${set[@]}" || fail "$name in one process: exit status $?"
	endpoint=tcp://127.0.0.1:$(free_port)
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=server.applied=kill@$((steps / 2 + 6)) start_server "$name-server" "listen=$endpoint" "store=$tmp/store-$name"
	for k in 0 1 2; do
		fp=
		[ $k != 1 ] || fp=client.applied=delay:600000@$((steps / 4))
		SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=$fp start_client "$name-$k" "$config" "${set[@]}" --set server="$endpoint" --set share.member=$k
		pids[k]=$client_pid
	done
	at_point "$name-1" client.applied
	wait_for "$name: the member that is killed has no checkpoint" has_checkpoint "$name-1"
	end_process "${pids[1]}"
	start_client "$name-1" "$config" "${set[@]}" --set server="$endpoint" --set share.member=1 --resume
	pids[1]=$client_pid
	ends_with "$server_pid" 137 $patience "$name: the server that is killed"
	start_server "$name-again" "listen=$endpoint" "store=$tmp/store-$name"
	for k in 0 1 2; do ends_with "${pids[k]}" 0 $patience "$name, member $k"; done
	same_members "$name" 3
	signal TERM "$server_pid"
	server_pid=$one endpoint=$at
}
