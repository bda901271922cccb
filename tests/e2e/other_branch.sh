#!/usr/bin/env bash
# What either side kept of steps behind which the run then went back is of another past, and here of another learning rate: no later
# life goes on from it, though it comes by the same step again, and dies where one side has it from that past and the other from this.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
make_data 192 16
sets=(--set train.checkpoint_every=6 --set link.on_server_lost=exit --set link.heartbeat_ms=50 --set link.timeout_ms=3000)
other=(--set train.optimizer.lr=0.01 --resume)

# life RUN SERVER CLIENT SERVER_STATUS CLIENT_STATUS [ARGUMENT]…: both with failpoints, until both have ended. Each run has a store of its own
life() {
	local run=$1 server=$2 client=$3 server_status=$4 client_status=$5
	shift 5
	SPLIT_FAILPOINTS=$server start_server dies store="$tmp/store-$run"
	write_config "$tmp/client.yaml"
	SPLIT_FAILPOINTS=client.begin=delay:100@1+$client start_client $run "$tmp/client.yaml" "${sets[@]}" "$@" # time for its files
	ends_with "$server_pid" $server_status $patience "the server"
	ends_with "$client_pid" $client_status $patience "the client"
}
# goes_on RUN: from step 6, to its end
goes_on() {
	start_server lives store="$tmp/store-$1"
	write_config "$tmp/client.yaml"
	client $1 "$tmp/client.yaml" "${sets[@]}" "${other[@]}" || fail "$1: status $?"
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "the server of $1"
	grep -q 'from step 6$' "$tmp/$1.log" || fail "$1 goes on from another past: $(grep 'from step' "$tmp/$1.log")"
}
# The server has step 8 where it is told to stop behind it and the client dies there; the client, where the server is killed in the
# midst of the next step, by the tensors that have come.
for stale in client server; do
	case $stale in
	server)
		first=("server.answered=term@8" ",client.answer=kill@8" 0 137) then=("port.whole=kill@20" "" 137 69)
		again=$tmp/$stale/checkpoint-000000000008.safetensors
		;;
	client)
		first=("port.whole=kill@70" "" 137 69) then=("server.answered=term@2" ",client.answer=kill@2" 0 137)
		again=$tmp/store-$stale/session-*-000000000008.safetensors
		;;
	esac
	life $stale "${first[@]}"
	cp -r "$tmp/$stale" "$tmp/$stale-straight"
	cp -r "$tmp/store-$stale" "$tmp/store-$stale-straight"
	goes_on $stale-straight
	life $stale "${then[@]}" "${other[@]}"
	compgen -G "$again" >/dev/null || fail "$stale: the other side has not come by step 8 again"
	goes_on $stale
	same_run $stale-straight $stale 12
done
echo passed
