#!/usr/bin/env bash
# Sessions share the device by time, not by how much they ask for. Clients of equal work do as many steps as each other:
# two, then four on one server. A light session (one chunk of 4 images) beside heavy ones (eight chunks, slow codecs)
# waits for one task of each of them, not for their whole steps. On the CPU, and on a simulated device with tasks queued
# ahead. Prints what it measured; SPLIT_LONG measures longer.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh

make_data 512 4
write_config "$tmp/client.yaml"
steps=${SPLIT_LONG:+60}
steps=${steps:-12}
endless=(--set train.epochs=1000 --set train.checkpoint_every=0 --set train.optimizer.lr=0.0001
	--set train.schedule.kind=constant --set model.form=cifar)
light=("${endless[@]}" --set train.batch=4 --set train.chunks=1)
heavy=("${endless[@]}" --set train.batch=32 --set train.chunks=8 --set codec='topk:0.2|quant:8|zstd:12')

begin() { # NAME [argument]…: a client in the background
	start_client "$1" "$tmp/client.yaml" --set server="$endpoint" "${@:2}"
	pids+=("$client_pid")
}
end_clients() {
	for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
	pids=()
}
pids=()

# equal N NAME: prints the least and most steps that N clients of equal work do in the same time.
equal() {
	local n=$1 name=$2 i first=() least= most= done_
	for i in $(seq "$n"); do begin "$name-$i" "${endless[@]}"; done
	for i in $(seq "$n"); do wait_for "client $i" has_steps "$name-$i" 2; done
	for i in $(seq "$n"); do first[i]=$(steps_of "$name-$i"); done
	for i in $(seq "$n"); do wait_for "client $i" has_steps "$name-$i" $((first[i] + steps)); done
	for i in $(seq "$n"); do
		done_=$(($(steps_of "$name-$i") - first[i]))
		[ -n "$least" ] && [ "$least" -le $done_ ] || least=$done_
		[ -n "$most" ] && [ "$most" -ge $done_ ] || most=$done_
	done
	end_clients
	echo "$name: $n equal clients: $least to $most steps"
	# At least half as many: the clients, too, wait for a busy machine's processors.
	[ $((2 * least)) -ge "$most" ]
}

# fair HOW ARGUMENT…: tries again on a failure: an unfair server fails again, a busy machine may not.
fair() {
	local try
	for try in 1 2 3; do
		! "$@" || return 0
		for old in "$tmp"/*/log.jsonl; do rm -rf "${old%/*}"; done
	done
	fail "$*: not fair in 3 tries"
}

# Seconds of the steps in the last half of a run: median and most
step_s() { grep '^{"type":"step"' "$tmp/$1/log.jsonl" | grep -oE '"t_step_s":[0-9.e-]+' | cut -d: -f2 | tail -n "$steps" | sort -g |
	awk '{a[NR] = $1} END {printf "%.3f %.3f", a[int((NR + 1) / 2)], a[NR]}'; }

beside() { # NAME
	local name=$1 before after
	begin "$name-alone" "${light[@]}"
	wait_for "alone" has_steps "$name-alone" $((steps + 2))
	end_clients
	begin "$name-heavy1" "${heavy[@]}"
	begin "$name-heavy2" "${heavy[@]}"
	for i in 1 2; do wait_for "heavy" has_steps "$name-heavy$i" 1; done
	begin "$name-light" "${light[@]}"
	wait_for "light" has_steps "$name-light" 2
	before=$(($(steps_of "$name-heavy1") + $(steps_of "$name-heavy2")))
	wait_for "light" has_steps "$name-light" $((steps + 2))
	after=$(($(steps_of "$name-heavy1") + $(steps_of "$name-heavy2")))
	end_clients
	echo "$name: light step, median and longest of $steps: alone $(step_s "$name-alone") s, beside two heavy sessions $(step_s "$name-light") s," \
		"which did $((after - before)) steps; theirs: $(step_s "$name-heavy1") s"
	# A heavy step has 17 tasks, a light one 3.
	[ $((after - before)) -le $((steps)) ]
}

start_server cpu
fair equal 2 cpu-two
fair equal 4 cpu-four
fair beside cpu
if simulated_device; then
	start_server ahead "store=$tmp/ahead" device=cuda:0
	steps=$((steps / 3)) # a simulation
	for what in endless light heavy; do declare -n args=$what; args+=(--set model.width=0.1 --set head_end=features.0.1 --set tail_begin=features.2); done
	fair equal 2 ahead-two
	fair beside ahead
fi
