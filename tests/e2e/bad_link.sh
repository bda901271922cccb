#!/usr/bin/env bash
# The link drops connections, falls silent, flips bits and stalls. A run that waits for its server still learns exactly
# what it learns over a good link.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 320 64
start_server server
write_config "$tmp/client.yaml"
sets=()
for pair in train.epochs=4 train.checkpoint_every=10 link.on_server_lost=wait link.retry_ms=20 link.heartbeat_ms=100 \
	link.timeout_ms=1000 link.connect_timeout_ms=2000 'codec.head_act=topk:0.2,ef=true'; do
	sets+=(--set "$pair")
done
client good "$tmp/client.yaml" "${sets[@]}" || fail "over the good link: status $?"
"$TOOLS/bad_link" "${endpoint##*:}" 5 4000000 >"$tmp/relay.out" &
relay=$!
started+=("$relay")
wait_for "the relay" test -s "$tmp/relay.out"
start_client bad "$tmp/client.yaml" "${sets[@]}" --set "server=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")"
ends_with "$client_pid" 0 $patience "the client on the bad link"
signal TERM "$relay"
wait "$relay" || true
tail -n 1 "$tmp/relay.out"
same_run good bad 80
[ "$(grep -c ' server-lost: ' "$tmp/bad.log")" -ge 3 ] || fail "the link was not bad: $(tail -n 1 "$tmp/relay.out")"
