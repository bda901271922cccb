#!/usr/bin/env bash
# On a simulated device (make cuda-sim). A persistent device error ends the server with status 75, so that a service manager
# restarts it; a client that waits then continues, and learns what the undisturbed run does. If a GPU has no room for a
# session, the handshake refuses it and names the needed and the available memory. If another program holds that memory, a
# client that waits is served later. `status` reports the memory on the device and on the host.
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
signal TERM "$server_pid"
wait "$server_pid" || true

SPLIT_SIM_REFUSES=20 start_server refusing device=cuda:0 "listen=$endpoint"
client past_it "$tmp/client.yaml" "${small[@]}" || fail "the run in which one call failed: status $?"
grep -q '^ERROR cuda-error: ' "$tmp/refusing.log" || fail 'no call failed'
kill -0 "$server_pid" || fail 'one call that failed ended the server'
! grep -q device-failed "$tmp/refusing.log" || fail 'one call that failed is taken for a device that has'
same_run undisturbed past_it "$(steps_of undisturbed)"
signal TERM "$server_pid"
wait "$server_pid" || true

# ---- memory, with a short middle, which the slow simulated device can compute
small=(--set model.width=0.1 --set model.form=cifar --set head_end=features.0.1 --set tail_begin=features.7 --set train.batch=16
	--set train.chunks=4 --set train.epochs=1000 --set train.schedule.warmup_epochs=0 --set train.optimizer.lr=0.0001
	--set codec='topk:0.2,ef=true|quant:8')

workspace=$((32 << 20)) own=$((33 << 20)) # what the module takes for itself, all of it within a MiB more
SPLIT_SIM_MEMORY=$((workspace + 100000)) start_server short device=cuda:0
status=0
client refused "$tmp/client.yaml" "${small[@]}" --set server="$endpoint" || status=$?
[ $status = 76 ] || fail "a device that is too small: status $status"
grep -qE 'the session needs [0-9]+ bytes, [0-9]+ of them on cuda:0 \(.*\); the device has 100000 \(100.0 kB\): ' "$tmp/refused.log" ||
	fail "a device that is too small: $(tail -n 1 "$tmp/refused.log")"
kill -0 "$server_pid" || fail 'the server did not survive its refusal'
needs=$(sed -nE 's/.* ([0-9]+) of them on cuda:0.*/\1/p' "$tmp/refused.log" | head -n 1)
signal TERM "$server_pid"
wait "$server_pid" || true

echo 1100000 >"$tmp/others"
SPLIT_SIM_MEMORY=$((own + needs)) SPLIT_SIM_OTHERS=$tmp/others start_server enough device=cuda:0
status=0
client busy "$tmp/client.yaml" "${small[@]}" --set server="$endpoint" || status=$?
[ $status = 75 ] || fail "a device that another program uses: status $status"
grep -qE "the device has [0-9]+ free of [0-9]+ \([0-9.]+ [kMG]?B of [0-9.]+ [kMG]?B\): come back when others have ended" "$tmp/busy.log" ||
	fail "a device that another program uses: $(tail -n 1 "$tmp/busy.log")"
start_client fits "$tmp/client.yaml" "${small[@]}" --set server="$endpoint" --set link.on_server_lost=wait --set link.retry_ms=100
waits() { grep -q 'server-lost.*; waiting for it' "$tmp/fits.log"; }
wait_for 'a client that waits for memory' waits
echo 0 >"$tmp/others"
shows_memory() {
	"$SPLITS" status --control "$tmp/enough.sock" --json >"$tmp/status.json" &&
		jq -e --argjson needs "$needs" '.sessions[0] | .memory_device_bytes == $needs and .memory_bytes > $needs and
			.memory_bytes == .weights_bytes + .activations_bytes + .codecs_bytes + .payloads_bytes' "$tmp/status.json" >/dev/null
}
wait_for 'the memory of a session' shows_memory
wait_for 'no steps' has_steps fits 2
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'a session that fits'
echo "refused for good with 100000 bytes, served with $needs once another program had ended"
