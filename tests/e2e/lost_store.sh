#!/usr/bin/env bash
# A server that dies with a commit in doubt, and its store with it: the client holds the step, the one before and two
# checkpoints, the next server none of them. The run begins anew, and says so.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
make_data 192 16
port=$(free_port)
sets=(--set train.checkpoint_every=3 --set link.on_server_lost=wait --set link.retry_ms=20 --set link.heartbeat_ms=50
	--set link.timeout_ms=1000 --set link.connect_timeout_ms=1000)

export SPLIT_FAILPOINTS=server.apply=kill@8
start_server dies "listen=tcp://127.0.0.1:$port"
unset SPLIT_FAILPOINTS
write_config "$tmp/client.yaml"
SPLIT_FAILPOINTS=client.begin=delay:100@1+ start_client anew "$tmp/client.yaml" "${sets[@]}" # time for its files
ends_with "$server_pid" 137 $patience "the server that is killed in a commit"
rm -r "$tmp/store"
start_server empty "listen=tcp://127.0.0.1:$port"
ends_with "$client_pid" 0 $patience "the client whose server lost everything"
grep -q '^WARN steps-lost: .* step 7, the server from step 0: ' "$tmp/anew.log" || fail "steps were lost without a word"
client undisturbed "$tmp/client.yaml" "${sets[@]}" || fail "the undisturbed run: status $?"
same_run undisturbed anew 12
echo passed
