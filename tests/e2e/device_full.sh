#!/usr/bin/env bash
# If a GPU has no room for a session, the handshake refuses it and names the needed and the available memory. If another
# program holds that memory, a client that waits for its server keeps trying and is served later. `status` reports the
# memory on the device and on the host. On a simulated device (make cuda-sim).
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
needs_simulated_device

make_data 32 16
write_config "$tmp/client.yaml"
# a short middle, which the slow simulated device can compute
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
ends_with "$client_pid" 0 $patience 'a session that fits'
echo "refused for good with 100000 bytes, served with $needs once another program had ended"
