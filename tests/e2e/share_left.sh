#!/usr/bin/env bash
# The server of a group is killed when some members are done and have said goodbye, and others are not: these finish without them, with
# the weights that they would have had.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 48 24
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
for mode in sync rounds; do
	set=(--set share.mode=$mode --set share.group=$mode --set share.clients=3 --set share.straggler_s=0 --set data.partition=iid
		--set train.checkpoint_every=2 --set link.on_server_lost=wait --set link.retry_ms=20 --set codec='topk:0.3,ef=true|quant:8')
	epochs=(--set train.epochs=2 --set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
	client $mode "$tmp/client.yaml" "${set[@]}" "${epochs[@]}" --local || fail "$mode in one process: exit status $?"
	steps=$(steps_of $mode/member-0)
	endpoint=tcp://127.0.0.1:$(free_port)
	start_server $mode-server "listen=$endpoint" "store=$tmp/store-$mode"
	for k in 0 1 2; do # one of them takes its time before it evaluates
		SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=$([ $k != 1 ] || echo client.logged=delay:8000@$steps) \
			start_client $mode-$k "$tmp/client.yaml" "${set[@]}" "${epochs[@]}" --set server="$endpoint" --set share.member=$k
		pid[k]=$client_pid
	done
	for k in 0 2; do ends_with "${pid[k]}" 0 $patience "$mode, member $k"; done
	wait_for "$mode: the checkpoint does not say who has left" grep -qa '"left": *"101"' "$tmp/store-$mode"/*
	kill -9 "$server_pid"
	wait "$server_pid" 2>/dev/null || true
	! grep -q '"type":"summary"' "$tmp/$mode-1/log.jsonl" || fail "$mode: member 1 was done before the server was killed"
	start_server $mode-again "listen=$endpoint" "store=$tmp/store-$mode"
	ends_with "${pid[1]}" 0 $patience "$mode: the member that was not done"
	for k in 0 1 2; do same_run $mode-$k $mode/member-$k "$(steps_of $mode/member-$k)"; done
	kill "$server_pid"
	ends_with "$server_pid" 0 $patience "$mode: the server"
done
echo "share_left: ok"
