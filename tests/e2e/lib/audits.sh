# Sourced by tests/e2e/audit_*.sh after daemons.sh: a server, a config of 12 steps, and links with a fault.
make_data 96 32
start_server host
honest=$endpoint
write_config "$tmp/client.yaml"
sed -i 's/epochs: 1/epochs: 2\n  checkpoint_every: 1/' "$tmp/client.yaml"
wait_set=(--set link.on_server_lost=wait --set link.retry_ms=20)

# relay FAULT DIR KIND NTH: between the client and the server at $endpoint; sets $far.
relay() {
	rm -f "$tmp/relay.out"
	"$TOOLS/faulty_link" "${endpoint##*:}" "$@" >"$tmp/relay.out" &
	relay_pid=$!
	started+=("$relay_pid")
	wait_for 'the relay' test -s "$tmp/relay.out"
	far=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")
}
