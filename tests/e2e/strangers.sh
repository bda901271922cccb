#!/usr/bin/env bash
# While one client trains, strangers do what would crash plain ZeroMQ (tools/strangers.c): they announce as Identity the
# numbers that it would assign, send endless messages, and open endless connections. The server survives, its memory
# stays within the bound of docs/SECURITY.md, no step of the good client takes longer than 2 s, and it learns what it
# learns alone. Other peers log in and then send more than their credit (tools/squatters.c): they are refused with a
# sentence. SPLIT_FLOOD_S: the length of the flood in seconds.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
seconds=${SPLIT_FLOOD_S:-3}
[ -z "${SPLIT_LONG:-}" ] || seconds=${SPLIT_FLOOD_S:-600}
make_data 480 16
# 1152 strangers with 64 KiB and 34 KiB each, and what ZeroMQ's thread reads between two checks of them
# (docs/SECURITY.md)
strangers_kib=$((1152 * 98 + 65536))
write_config "$tmp/client.yaml"
window=4194304 floods=2
start_server host link.window_bytes=$window
port=${endpoint##*:}
sed -i "s|^server:.*|server: $endpoint|" "$tmp/client.yaml"
# A limited number of steps per second (build/…/fail/splitc), which are repeated alone afterwards.
pause_ms=25
[ "$seconds" -lt 60 ] || pause_ms=300
start_slow_client 5 $pause_ms good "${good[@]}"
wait_for 'no steps' has_steps good 10
rss() { awk '/^VmHWM/ {print $2}' "/proc/$server_pid/status"; }
before=$(rss) began_at=$(steps_of good)
clock_starts
"$TOOLS/strangers" ids "$port" >"$tmp/ids.out" || fail 'strangers with ids failed'
kill -0 "$server_pid" || fail 'the server died of three connections'
"$TOOLS/strangers" endless "$port" 3 >"$tmp/endless.out" || fail 'endless messages failed'
kill -0 "$server_pid" || fail 'the server died of endless messages'
# Earlier connections may have used up the budget of connections; it refills while the kernel drops new attempts.
flooded() {
	"$TOOLS/strangers" flood "$port" "$seconds" >"$tmp/flood.out" || fail 'the flood failed'
	read -r opened greeted <"$tmp/flood.out" && [ "$greeted" -gt 100 ]
}
wait_for 'nobody of the flood got in' flooded
kill -0 "$server_pid" || fail 'the server died of the flood'
grew=$(($(rss) - before))
"$TOOLS/squatters" "$port" 0 0 $floods >"$tmp/squatters.out" &
squatters=$!
started+=("$squatters")
told() { [ "$(grep -c 'session-failed: .*the peer sent more than its credit allows' "$tmp/host.log")" -ge 4 ]; }
wait_for 'those who send more than their credit are not refused' told
signal TERM "$squatters"
wait "$squatters" || fail 'the squatters failed'
overdrew=$(($(rss) - before))
wait_for 'the good client stands still' has_steps good $(($(steps_of good) + 5))
late=$(awk '{n = $1 > n ? $1 : n} END {print n + 0}' "$tmp/clock.late")
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'good client among strangers'
steps=$(steps_of good)

longest=$(sed -n 's/^{"type":"step".*"t_step_s":\([0-9.e-]*\).*/\1/p' "$tmp/good/log.jsonl" | tail -n +$((began_at + 1)) | sort -g | tail -n 1 |
	awk '{printf("%d", 1000 * $1)}')
[ "$longest" -le $((2000 + 5 * late)) ] || fail "a step took $longest ms; a process was kept waiting for $late ms"
[ -n "${SAN:-}" ] || [ $grew -le $strangers_kib ] || fail "the server grew by $grew KiB, not $strangers_kib"
# For each flood: a window, a megabyte, what is read between two checks, and its plan.
[ -n "${SAN:-}" ] || [ $overdrew -le $((strangers_kib + 4 * floods * (window / 1024 + 1024) + 65536)) ] || fail "the server grew by $overdrew KiB"
read -r bytes cuts <"$tmp/endless.out"
[ "$opened" -gt 100 ] || fail "the flood opened $opened connections"
# The budget: 512, and 64 per second; as many again may arrive before the kernel is told to drop them.
[ "$greeted" -le $((2 * 512 + 64 * (seconds + 5))) ] || fail "$greeted connections got in within $seconds s"
[ "$cuts" -gt 10 ] && [ "$bytes" -gt 1000000 ] || fail "only $cuts endless messages were cut, $bytes bytes sent"
good_as_alone
# A peer that is cut for this may lose its connection before its session is told why.
credit='the peer sent more than its credit allows|PEER_LOST: the connection is gone'
! grep ' session-failed: ' "$tmp/host.log" | grep -qvE "$credit" || fail 'a session failed'
flooded=$(sed -n 's/.* \([0-9]*\) that sent more than their credit.*/\1/p' "$tmp/host.log" | awk '{n += $1} END {print n + 0}')
[ "$(grep -c ' session-failed: ' "$tmp/host.log")" -le "$flooded" ] || fail "more sessions failed than the $flooded that were cut"
echo "$steps steps, the longest $longest ms; $opened connections in $seconds s, $greeted got in; $cuts endless messages cut, $((bytes / 1000000)) MB;" \
	"the server grew by $grew KiB, with peers beyond their credit by $overdrew KiB"
