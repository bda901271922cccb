#!/usr/bin/env bash
# A persistent device error ends the server with status 75, so that a service manager restarts it. A client that waits
# for its server then continues, and learns what the undisturbed run does. On a simulated device (make cuda-sim).
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
needs_simulated_device

make_data 64 16
endpoint=tcp://127.0.0.1:$(free_port)
write_config "$tmp/client.yaml"
small=(--set model.width=0.1 --set model.form=cifar --set head_end=features.0.1 --set tail_begin=features.2 --set train.batch=16
	--set train.chunks=2 --set train.schedule.warmup_epochs=0 --set train.checkpoint_every=2 --set train.epochs=3
	--set codec=quant:8 --set link.on_server_lost=wait --set link.retry_ms=50)

start_server whole device=cuda:0 "listen=$endpoint"
client undisturbed "$tmp/client.yaml" "${small[@]}" || fail 'the undisturbed run'
signal TERM "$server_pid"
wait "$server_pid" || true

SPLIT_SIM_FAILS=130 start_server failing device=cuda:0 "listen=$endpoint" watchdog_s=0
start_client comes_back "$tmp/client.yaml" "${small[@]}"
ends_with "$server_pid" 75 $patience 'the server whose device fails'
grep -q '^ERROR device-failed: cuda:0: ' "$tmp/failing.log" || fail "the server does not say why it ends"
kill -0 "$client_pid" || fail 'the client did not wait for its server'
[ "$(steps_of comes_back)" -gt 2 ] || fail "the device failed behind $(steps_of comes_back) steps, too soon for this test"
start_server again device=cuda:0 "listen=$endpoint"
ends_with "$client_pid" 0 $patience 'the client whose server came back'
same_run undisturbed comes_back "$(steps_of undisturbed)"
echo "failed behind a step, went on, $(steps_of comes_back) steps"
signal TERM "$server_pid"
wait "$server_pid" || true

SPLIT_SIM_REFUSES=20 start_server refusing device=cuda:0 "listen=$endpoint"
client past_it "$tmp/client.yaml" "${small[@]}" || fail "the run in which one call failed: status $?"
grep -q '^ERROR cuda-error: ' "$tmp/refusing.log" || fail 'no call failed'
kill -0 "$server_pid" || fail 'one call that failed ended the server'
! grep -q device-failed "$tmp/refusing.log" || fail 'one call that failed is taken for a device that has'
same_run undisturbed past_it "$(steps_of undisturbed)"
