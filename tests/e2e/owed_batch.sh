#!/usr/bin/env bash
# A run that goes back while the loader owes it a batch, and loses the next link, too, before that batch has come: it goes on
# with the batches of the step that it stands at.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 192 16
port=$(free_port)
sets=()
for pair in train.checkpoint_every=0 link.on_server_lost=wait link.retry_ms=20 link.heartbeat_ms=50 link.timeout_ms=1000 \
	link.connect_timeout_ms=1000 data.prefetch=1; do
	sets+=(--set "$pair")
done
forgetful() { start_server "$1" store= "listen=tcp://127.0.0.1:$port"; }
lost() { [ "$(grep -c ' server-lost: ' "$tmp/run.log")" -ge "$1" ]; }
opened() { [ "$(grep -c ' session-open: .*, from step 0$' "$tmp/run.log")" -ge "$1" ]; }

forgetful server
write_config "$tmp/client.yaml"
client good "$tmp/client.yaml" "${sets[@]}" || fail "over the good link: status $?"

start_failing_client client.load=hold@6 run "$tmp/client.yaml" "${sets[@]}" --set data.threads=1
at_point run client.load
wait_for "the steps before it" has_steps run 4
for link in 1 2; do
	end_process "$server_pid"
	wait_for "loss $link" lost $link
	[ $link = 2 ] || forgetful again
	[ $link = 2 ] || wait_for 'the link at step 0' opened 2
done
[ "$(steps_of run)" = 0 ] || fail "the run has not gone back"
let_go run # the batch comes, and no link stands
forgetful last
ends_with "$client_pid" 0 $patience "the run"
same_run good run 12
