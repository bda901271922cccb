#!/usr/bin/env bash
# The bytes that a run reports for its connections equal those that a relay between the sides counted, to 0.5 %: with
# and without encryption, with small messages, over a connection that breaks, a paused run, and a killed one.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
steps=6
secure=()
if "$SPLITC" keygen --out "$tmp/client.key" >"$tmp/client.pub" 2>/dev/null && "$SPLITS" keygen --out "$tmp/server.key" >"$tmp/server.pub" 2>/dev/null; then
	echo "$(cat "$tmp/client.pub") client" >"$tmp/clients"
	secure=("auth.secret_key=$tmp/client.key" "auth.server_key=$(cat "$tmp/server.pub")")
	start_server guarded "auth.secret_key=$tmp/server.key" "auth.clients=$tmp/clients"
	secure_port=${endpoint##*:}
fi
start_server open store="$tmp/plain-store"
plain_port=${endpoint##*:}
write_config "$tmp/client.yaml"
sed -i '/optimizer/s/lr: 0.05/lr: 0.002/' "$tmp/client.yaml"

# relay plain|secure [FAULT DIR KIND NTH]: starts a relay; later runs go through it.
relay() {
	local port=${1}_port
	shift
	[ $# -gt 0 ] || set -- none up any 1
	rm -f "$tmp/relay.out"
	"$TOOLS/faulty_link" "${!port}" "$@" >"$tmp/relay.out" &
	relay=$!
	started+=("$relay")
	wait_for 'the relay' test -s "$tmp/relay.out"
	through=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")
}

# run NAME [key=value]…: returns the exit status of the run, which $runs starts in place of client; its output is in $tmp/NAME.log.
run() {
	local name=$1 set=() pair
	shift
	for pair in "$@"; do
		case $pair in --*) set+=("$pair") ;; *) set+=(--set "$pair") ;; esac
	done
	${runs:-client} "$name" "$tmp/client.yaml" --json --set server="$through" --set train.checkpoint_every=2 "${set[@]}"
}

# near NAME: both directions agree.
near() {
	local name=$1
	signal TERM "$relay"
	wait "$relay" || true
	tail -n 1 "$tmp/relay.out" >"$tmp/relay.json"
	tail -n 1 "$tmp/$name.log" >"$tmp/$name.json"
	tail -n 1 "$tmp/$name/log.jsonl" >"$tmp/last.json"
	[ "$(steps_of "$name")" = $steps ] || fail "$name: $(steps_of "$name") steps"
	jq -se '.[0] as $r | .[1:] | all(
		(.wire_tx_bytes / $r.wire_up - 1 | fabs) <= 0.005 and (.wire_rx_bytes / $r.wire_down - 1 | fabs) <= 0.005)' \
		"$tmp/relay.json" "$tmp/$name.json" "$tmp/last.json" >/dev/null ||
		fail "$name: $(jq -c '[.wire_up, .wire_down]' "$tmp/relay.json") bytes passed the relay, but the run says $(cat "$tmp/$name.json")"
	printf '%-10s %s\n' "$name" "$(jq -sc '{up: .[0].wire_up, said: .[1].wire_tx_bytes, weights: .[1].weights_tx_bytes,
		framing: .[1].framing_tx_bytes, curve: .[1].curve_tx_bytes, down: .[0].wire_down, heard: .[1].wire_rx_bytes}' \
		"$tmp/relay.json" "$tmp/$name.json")"
}

# adds_up NAME: the tensors and parts make up all bytes but those of the client's graph and of control messages.
adds_up() {
	local rest
	for rest in $(jq '([.directions[] | {(.tensor): .wire_bytes}] | add) as $d | ($d.head_act + $d.mid_grad) as $up | ($d.mid_act + $d.head_grad) as $down |
		.wire_tx_bytes - $up - .weights_tx_bytes - .framing_tx_bytes - .curve_tx_bytes,
		.wire_rx_bytes - $down - .weights_rx_bytes - .framing_rx_bytes - .curve_rx_bytes' "$tmp/$1.json"); do
		[ "$rest" -ge 0 ] && [ "$rest" -le 32768 ] || fail "$1: $rest bytes are in no part"
	done
}

relay plain
run plain || fail "plain: status $?"
near plain
adds_up plain
[ "$(jq '[.curve_tx_bytes, .curve_rx_bytes]' -c "$tmp/plain.json")" = '[0,0]' ] || fail 'encryption on a plain link'
[ "$(jq '.weights_rx_bytes > 50000' "$tmp/plain.json")" = true ] || fail 'the weights that were fetched'

relay plain drop up part 30
run broken link.on_server_lost=wait link.retry_ms=20 || fail "broken: status $?"
near broken
[ "$(jq .lost "$tmp/broken.json")" = 1 ] || fail 'no link was lost'
same_run plain broken $steps

relay plain
rc=0
SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.begin=term@4 run paused || rc=$?
[ "$rc" = 75 ] || fail "paused: status $rc"
[ "$(steps_of paused)" -lt $steps ] || fail 'it was not paused'
run paused --resume || fail "paused, resumed: status $?"
near paused
same_run plain paused $steps

relay plain
runs='client_dies client.begin@6' run killed
run killed --resume || fail "killed, resumed: status $?"
near killed
same_run plain killed $steps

if [ ${#secure[@]} -gt 0 ]; then
	relay secure
	run secure "${secure[@]}" || fail "secure: status $?"
	near secure
	relay secure
	run small "${secure[@]}" train.chunks=8 codec=topk:0.01 model.weights="$tmp/plain/model.safetensors" || fail "small: status $?"
	near small
	adds_up small
	[ "$(jq '.weights_tx_bytes > 50000' "$tmp/small.json")" = true ] || fail 'the weights that were sent'
	[ "$(jq '.curve_tx_bytes * 10 > .wire_tx_bytes - .weights_tx_bytes' "$tmp/small.json")" = true ] || fail 'encryption of small messages'
fi
