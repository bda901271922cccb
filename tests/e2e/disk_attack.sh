#!/usr/bin/env bash
# Peers try to fill the server's disk. A flood of broken messages and failing sessions gives a log of bounded length,
# which says how many lines it left out. A client that opens session after session fills only its own share of the
# store, and displaces no paused state of others. Good clients beside both learn what they learn alone, and no step of
# theirs takes 2 s longer than the time for which the busy machine kept processes waiting.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 480 24
slowest_step() { sed -n 's/.*"t_step_s":\([0-9.e-]*\).*/\1/p' "$tmp/$1/log.jsonl" | sort -g | tail -n 1; }
# no_late_step NAME: since clock_starts; allows for the time for which the machine kept processes waiting
no_late_step() {
	local late
	late=$(awk '{n += $1} END {print n / 1000}' "$tmp/clock.late")
	[ -n "${SAN:-}" ] || awk -v s="$(slowest_step "$1")" -v late="$late" 'BEGIN { exit !(s > 0 && s < 2 + late) }' ||
		fail "$1: a step took $(slowest_step "$1") s, and a process was kept waiting for $late s"
}

# ---- the log
start_server host limits.sessions=16 limits.connections_per_s=100000 # what the log bears is asked here
write_config "$tmp/client.yaml"
clock_starts
start_client good "${good[@]}"
wait_for 'no steps' has_steps good 5
timeout -k 5 $patience "$TOOLS/hostile" "$endpoint" flood 3 >"$tmp/flood.out" || fail "the flood: status $?"
before=$(steps_of good)
wait_for 'the good client stands still' has_steps good $((before + 5))
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'the good client beside a flood'
ask "$SPLITS" "$tmp/host.sock" "$tmp/status.json"
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience 'the server behind a flood'
read -r messages _ sessions _ <"$tmp/flood.out"
[ "$messages" -gt 400 ] && [ "$sessions" -gt 0 ] || fail "no flood: $(cat "$tmp/flood.out")"
left_out=$(jq .log_left_out "$tmp/status.json")
written=$(stat -c %s "$tmp/host.log")
[ "$left_out" -gt 100 ] || fail "$left_out lines left out of $messages"
# Each of four kinds may write 64 lines at once and one per second, and a line that counts what was left out.
[ "$written" -lt 65536 ] || fail "$written bytes of log"
grep -q 'WARN log-limit: [0-9]* more lines of "malformed" were left out in the last [0-9]* s' "$tmp/host.log" || fail 'not said how many'
good_as_alone
no_late_step good

# ---- the store
for name in server good greedy; do "$SPLITS" keygen --out "$tmp/$name.key" >"$tmp/$name.pub" 2>/dev/null; done
for name in good greedy; do echo "$(cat "$tmp/$name.pub") $name"; done >"$tmp/clients"
keys=("auth.secret_key=$tmp/server.key" "auth.clients=$tmp/clients")
with_key() { echo --set "auth.secret_key=$tmp/$1.key" --set "auth.server_key=$tmp/server.pub"; }
short=("$tmp/client.yaml" --set train.checkpoint_every=2)
# pauses NAME KEY STEPS: a run that is paused after STEPS steps.
pauses() {
	# shellcheck disable=SC2046
	client_stands "$3" "$1" "${short[@]}" $(with_key "$2")
	stops "$1"
}
rm -r "$tmp/store"
start_server first "${keys[@]}"
write_config "$tmp/client.yaml"
pauses paused good 6
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience 'the first server'
state=$(find "$tmp/store" -name 'session-*' -printf '%s\n' | sort -n | tail -n 1)
most=$((8 * state))
start_server second "${keys[@]}" store_bytes=$most store_bytes_per_key=$((5 * state))
write_config "$tmp/client.yaml"
clock_starts
# shellcheck disable=SC2046
start_client beside "${short[@]}" $(with_key good) --set train.epochs=1000 --set train.checkpoint_every=0
beside_pid=$client_pid
wait_for 'no steps of the run beside' has_steps beside 3
for i in 1 2 3 4 5 6; do
	pauses "greedy-$i" greedy 4
	held=$(find "$tmp/store" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
	[ "$held" -le $most ] || fail "the store holds $held bytes, and may hold $most"
done
grep -q 'INFO store-retention: session-' "$tmp/second.log" || fail 'the greedy client has not filled its share'
signal INT "$beside_pid"
ends_with "$beside_pid" 75 $patience 'the run beside the greedy client'
no_late_step beside
# shellcheck disable=SC2046
client paused "${short[@]}" $(with_key good) --resume || fail "the paused state is gone: status $?"
if grep -q steps-lost "$tmp/paused.log"; then fail 'the paused run has lost steps'; fi
# shellcheck disable=SC2046
client undisturbed "${short[@]}" $(with_key good) || fail "the undisturbed run: status $?"
same_run undisturbed paused 30
echo "$left_out lines left out, $written bytes of log; slowest steps $(slowest_step good) and $(slowest_step beside) s"
