#!/usr/bin/env bash
# A server is killed twice between two checkpoints, and each time the run ends with its link and keeps its side of the step that it had
# done. The server has none of these steps: what counts is the checkpoint that both have, and it stays.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
make_data 192 16
sets=(--set train.checkpoint_every=6 --set link.on_server_lost=exit --set link.heartbeat_ms=50 --set link.timeout_ms=3000)

# life TENSORS [ARGUMENT]…: a server that is killed when so many tensors have come (eight a step), and its client
life() {
	local tensors=$1
	shift
	SPLIT_FAILPOINTS=port.whole=kill@$tensors start_server dies
	write_config "$tmp/client.yaml"
	SPLIT_FAILPOINTS=client.begin=delay:100@1+ start_client twice "$tmp/client.yaml" "${sets[@]}" "$@" # time for its files
	ends_with "$server_pid" 137 $patience "the server that is killed"
	ends_with "$client_pid" 69 $patience "the client whose server is killed"
	grep -o 'state after step [0-9]*' "$tmp/twice.log" | grep -o '[0-9]*$' >"$tmp/kept" || fail "it keeps nothing of its last step"
}
life 70
first=$(cat "$tmp/kept")
life 37 --resume
grep -q "from step 6\$" "$tmp/twice.log" || fail "not from the step that both have"
second=$(cat "$tmp/kept")
[ "$first" -gt 6 ] && [ "$second" -gt "$first" ] && [ "$second" -lt 12 ] || fail "killed at other steps than meant: $first, $second"
[ ! -f "$tmp/twice/checkpoint-$(printf %012d "$first").safetensors" ] || fail "what the run went back behind is still there"

start_server lives
write_config "$tmp/client.yaml"
client twice "$tmp/client.yaml" "${sets[@]}" --resume || fail "the run whose server was killed twice: status $?"
grep -q "from step 6\$" "$tmp/twice.log" || fail "the checkpoint that both had is lost: $(grep 'from step' "$tmp/twice.log")"
client undisturbed "$tmp/client.yaml" "${sets[@]}" || fail "the undisturbed run: status $?"
same_run undisturbed twice 12
echo passed
