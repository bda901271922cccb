#!/usr/bin/env bash
# While one client trains, other peers send garbage, break frames, sessions and runs, and connect endlessly. Each gets
# the right error (table in tools/hostile.c), all are counted, and the good client learns what it learns alone.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 480 24
start_server host limits.sessions=16
write_config "$tmp/client.yaml"
rounds=2
start_client good "${good[@]}"
wait_for 'no steps' has_steps good 5
timeout -k 5 $patience "$TOOLS/hostile" "$endpoint" $rounds >"$tmp/hostile.log" 2>&1 || fail 'a peer that misbehaves got the wrong answer'
ask "$SPLITS" "$tmp/host.sock" "$tmp/status.json"
failed=$(grep -c ' session-failed: ' "$tmp/host.log")
# bytes that are not ZeroMQ
for _ in 1 2 3 4 5; do
	head -c 3000 /dev/urandom >"/dev/tcp/127.0.0.1/${endpoint##*:}" 2>/dev/null || true
done
wait_for 'the good client stands still' has_steps good $(($(steps_of good) + 5))
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'good client among bad ones'
good_as_alone
kill -0 "$server_pid" || fail 'the server is dead'

count() { jq "$1" "$tmp/status.json"; }
# Each round sends 4 malformed messages outside a session (one is twice the size limit of ZeroMQ), and 1 within.
[ "$(count .malformed)" = $((rounds * 4)) ] || fail "$(count .malformed) malformed messages counted"
[ "$(count .turned_away)" = $((rounds * 13)) ] || fail "$(count .turned_away) peers counted as turned away"
[ "$(count '.sessions | map(select(.step > 0)) | length')" = 1 ] || fail 'the good session is not in the status'
# The log takes 64 of them at once and one more per second; the rest is counted.
left_out=$(count .log_left_out)
[ $((failed + left_out)) = $((rounds * 34)) ] || fail "$failed failed sessions in the log, $left_out left out"
echo "$((rounds * 47)) peers misbehaved"
