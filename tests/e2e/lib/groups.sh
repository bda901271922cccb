# Sourced behind daemons.sh by scripts that compare a group over links with the same group in one process. $endpoint is a server's.

# begin_groups LR: 84 images to train on, a server, and two configs of small batches: $tmp/sgd.yaml with that learning rate, $tmp/adamw.yaml
begin_groups() {
	make_data 84 24
	start_server one threads=2
	write_config "$tmp/sgd.yaml"
	sed -i "s/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: $1/" "$tmp/sgd.yaml"
	cp "$tmp/sgd.yaml" "$tmp/adamw.yaml"
	use_adamw "$tmp/adamw.yaml"
}

# group NAME CONFIG CLIENTS [key=value]…: in one process, then over links: every loss of every member, and all weights, byte for byte
group() {
	local name=$1 config=$2 n=$3 set=() pair k pids=()
	shift 3
	for pair in "$@"; do set+=(--set "$pair"); done
	client "$name" "$config" --local --clients "$n" ${set[@]+"${set[@]}"} || fail "$name in one process: exit status $?"
	for ((k = 0; k < n; k++)); do
		start_client "$name-$k" "$config" --set server="$endpoint" --set share.group="$name" --set share.clients="$n" \
			--set share.member=$k ${set[@]+"${set[@]}"}
		pids+=("$client_pid")
	done
	for ((k = 0; k < n; k++)); do ends_with "${pids[k]}" 0 $patience "$name, member $k"; done
	for ((k = 0; k < n; k++)); do same_run "$name-$k" "$name/member-$k" "$(steps_of "$name/member-$k")"; done
}

# killed NAME CONFIG STEPS [key=value]…: member 1 of 3 is killed once, then the server; both come back, and all learn what the same
# group learns in one process, byte for byte
killed() {
	local name=$1 config=$2 steps=$3 set=() pair k pids=() one=$server_pid at=$endpoint fp
	shift 3
	for pair in "$@"; do set+=(--set "$pair"); done
	set+=(--set train.epochs=1000 --set train.max_steps="$steps" --set share.group="$name" --set share.clients=3 --set share.straggler_s=0
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
	for k in 0 1 2; do same_run "$name-$k" "$name/member-$k" "$(steps_of "$name/member-$k")"; done
	signal TERM "$server_pid"
	server_pid=$one endpoint=$at
}
