#!/usr/bin/env bash
# One link fault at a chosen frame (tools/faulty_link.c): lost, half open, slow, duplicated. The run equals the undisturbed
# one byte for byte, both sides count exactly what happened, and a silent link is noticed within three heartbeats.
# SPLIT_LONG=1: every kind of frame, late and corrupt ones, and delays of 10 s. The simulator has all of them, in any order.
# Then links of a client whose clock goes back.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 320 16
beat=600
[ -z "${SAN:-}" ] || beat=3000
steps=20
# All messages but weights have one part; error feedback, so that a codec has a state that could be lost.
base=(--set link.on_server_lost=wait --set link.retry_ms=20 --set 'codec.head_act=topk:0.2,ef=true' --set train.checkpoint_every=5)
# times BEAT: sets the link's heartbeat in ms; no link but the one with the fault may be lost.
times() {
	sets=("${base[@]}" --set link.heartbeat_ms="$1" --set link.timeout_ms=$((3 * $1)) --set link.connect_timeout_ms=$((3 * $1)))
}
times $beat
start_server host
write_config "$tmp/client.yaml"
client good "$tmp/client.yaml" "${sets[@]}" || fail "over the good link: status $?"
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience 'the server'

count() { jq "$1" "$tmp/$2.json"; }

# must NAME WHAT EXPRESSION: the jq expression holds for the file NAME.json.
must() { [ "$(count "$3" "$1")" = true ] || fail "$name: $2: $(jq -c 'del(.sessions)' "$tmp/$1.json")"; }

# listen, starved: measure by how much sleeps of 50 ms were late. If that reaches a heartbeat, the machine keeps
# processes waiting and links are lost without a fault, so the counts mean nothing. The case is then repeated, a few
# times.
listen() {
	local from late most=0
	echo 0 >"$tmp/late"
	while :; do
		from=${EPOCHREALTIME/./}
		sleep 0.05
		late=$(((${EPOCHREALTIME/./} - from) / 1000 - 50))
		[ $late -le $most ] || { most=$late && echo $late >"$tmp/late"; }
	done
}
starved() {
	signal TERM "$listener"
	wait "$listener" 2>/dev/null || true
	[ "$(cat "$tmp/late")" -ge $beat ] || return 1
	echo "$name: the machine kept a process waiting for $(cat "$tmp/late") ms"
}

# faulty LOST REJECTED FAULT DIR KIND NTH [MS] [key=value]…: a run with that fault. The client must lose LOST links, and
# both sides together must reject REJECTED frames. Leaves $tmp/relay.json, host.json, run.json.
runs=0
faulty() {
	local try
	runs=$((runs + 1))
	for try in 1 2 3 4 5 6; do
		listen &
		listener=$!
		started+=("$listener")
		play "$@"
		starved && [ $try -lt 6 ] || break
	done
	judge "$1" "$2"
}
play() {
	local fault=(${@:3:4}) ms=0 sets pair
	shift 6
	# A process that waits for a busy CPU is silent, too, so heartbeats are short only where silence is tested.
	case ${fault[0]} in vanish | late | slow) times $beat ;; *) times 5000 ;; esac
	case ${1:-} in [0-9]*) ms=$1; shift ;; esac
	for pair in "$@"; do sets+=(--set "$pair"); done
	name="${fault[*]} $ms"
	start_server host
	rm -f "$tmp/relay.out"
	"$TOOLS/faulty_link" "${endpoint##*:}" "${fault[@]}" "$ms" >"$tmp/relay.out" &
	relay=$!
	started+=("$relay")
	wait_for 'the relay' test -s "$tmp/relay.out"
	timeout -k 5 $patience "$SPLITC" train "$tmp/client.yaml" --fresh "${sets[@]}" --set log.dir="$tmp/run" --set control="$tmp/run.sock" \
		--set "server=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")" --json >"$tmp/run.json" 2>"$tmp/run.log" || fail "$name: status $?"
	# Wait until the delayed frame has arrived.
	[ "${fault[0]}" != late ] || sleep "$(awk -v ms="$ms" 'BEGIN {print ms / 1000 + 0.1}')"
	settled
	signal TERM "$relay"
	wait "$relay" || true
	tail -n 1 "$tmp/relay.out" >"$tmp/relay.json"
	signal TERM "$server_pid"
	wait "$server_pid" || fail "$name: the end of the server"
}
judge() {
	local lost=$1 rejected=$2
	same_run good run $steps
	must relay 'no such frame passed' .done
	must run "not $lost links lost" ".lost == $lost and .links == $lost + 1"
	# Every delivered frame and byte is counted.
	must host 'frames' ".frames + .malformed == $(count .up relay) and .bytes == $(count .up_bytes relay)"
	must host 'malformed' '.malformed == 0'
	[ $(($(count .rejected run) + $(count .rejected host))) = "$rejected" ] ||
		fail "$name: $(count .rejected run) and $(count .rejected host) frames rejected, not $rejected"
	printf '%-28s %d lost, %d rejected, %d stale, %d turned away; noticed after %d ms\n' "$name" "$lost" "$rejected" \
		"$(count .stale host)" "$(count .turned_away host)" "$(count .noticed_ms relay)"
}

# settled: the session is over, and all its frames are counted; a delayed one may arrive after the client has gone.
settled() {
	local before=-1 until=$((SECONDS + patience))
	while ask "$SPLITS" "$tmp/host.sock" "$tmp/host.json" && { [ "$(count '.sessions | length' host)" != 0 ] || [ "$(count .frames host)" != $before ]; }; do
		before=$(count .frames host)
		[ $SECONDS -lt $until ] || fail "$name: a session stays"
		sleep 0.1
	done
}

# noticed: the client gave up the silent link after three heartbeats, plus or minus one timer tick.
noticed() {
	local ms
	ms=$(sed -n 's/.*server-lost: nothing heard from the server for \([0-9]*\) ms.*/\1/p' "$tmp/run.log")
	[ -n "$ms" ] && [ "$ms" -le $((3 * beat + beat / 2)) ] || fail "$name: noticed after '$ms' ms; heartbeats are $beat ms"
	[ "$(count .noticed_ms relay)" -ge $((2 * beat)) ] || fail "$name: noticed before there was anything to notice"
}

faulty 1 0 drop up part 30
faulty 1 0 vanish up part 30
noticed
# A message that takes longer than the patience loses no link: its bytes are a sign of life.
faulty 0 0 slow down part 30 $((5 * beat))
faulty 1 1 duplicate up part 30

# A client disappears behind a half-open link: the server notices within the same time, and keeps what it applied.
name='a vanished client'
times $beat
for try in 1 2 3 4 5 6; do
	listen &
	listener=$!
	started+=("$listener")
	start_server host
	rm -rf "$tmp/relay.out" "$tmp/gone"
	"$TOOLS/faulty_link" "${endpoint##*:}" vanish up part 30 >"$tmp/relay.out" &
	relay=$!
	started+=("$relay")
	wait_for 'the relay' test -s "$tmp/relay.out"
	rc=0
	client gone "$tmp/client.yaml" "${sets[@]}" --set link.on_server_lost=exit --set "server=tcp://127.0.0.1:$(cat "$tmp/relay.out")" || rc=$?
	[ $rc = 69 ] || fail "the client of a vanished server: status $rc"
	wait_for 'the server did not notice' grep -q ' session-failed: ' "$tmp/host.log"
	signal TERM "$relay" "$server_pid"
	ends_with "$server_pid" 0 $patience 'the server'
	starved && [ $try -lt 6 ] || break
done
ms=$(sed -n 's/.*session-failed: .*nothing heard from the client for \([0-9]*\) ms.*/\1/p' "$tmp/host.log")
[ -n "$ms" ] && [ "$ms" -le $((3 * beat + beat / 2)) ] || fail "the server noticed after '$ms' ms"
echo "the server noticed a vanished client after $ms ms"

if [ -n "${SPLIT_LONG:-}" ]; then
	# A Hello that was lost with its connection is said again on the next one, long before link.connect_timeout_ms.
	faulty 0 0 drop up hello 1 link.on_server_lost=exit link.connect_timeout_ms=600000
	# A link does not count before its Hello has arrived, so none is lost. The delayed Hello arrives after that of the
	# next epoch, in a long step.
	for nth in 1 2; do
		SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.apply=delay:$((2 * beat))@5 faulty 0 0 late up hello $nth $((4 * beat))
		must host 'the late Hello' '.links == 1'
	done
	# The second Hello carries a proof. The server still knows its nonce, and answers that its epoch is too low.
	[ -n "${SAN:-}" ] || must host 'the late Hello' '.turned_away >= 1'
	faulty 1 0 late up part 30 $((4 * beat))
	noticed
	faulty 0 0 late up part 30 $((beat / 2))
	faulty 0 0 slow up part 30 $((5 * beat))
	faulty 1 1 duplicate down committed 7
	faulty 1 1 header up commit 7
	faulty 1 1 payload down part 30
	for kind in hello part commit fetch bye; do
		# A link counts once Welcome has arrived; a client needs no answer to its Bye.
		lost=1
		case $kind in hello | bye) lost=0 ;; esac
		faulty $lost 0 drop up $kind 1
		faulty $lost 0 vanish up $kind 1
	done
	for kind in welcome part committed; do
		lost=1
		[ $kind != welcome ] || lost=0
		faulty $lost 0 drop down $kind 1
		faulty $lost 0 vanish down $kind 1
		faulty $lost 1 header down $kind 1
	done
	faulty 0 1 duplicate up hello 1
	faulty 1 1 duplicate up commit 7
	faulty 1 1 duplicate up fetch 1
	faulty 0 0 duplicate up bye 1
	faulty 1 1 duplicate down welcome 1
	faulty 1 1 duplicate down part 30
	faulty 0 0 header up hello 1 # who has no session yet is turned away
	must host 'the broken Hello' '.turned_away == 1'
	faulty 1 1 header up part 30
	faulty 1 1 header up fetch 1
	faulty 1 1 payload up part 30
	faulty 1 0 late up part 30 10000
	faulty 1 0 late down part 30 10000
	faulty 0 0 late up hello 1 10000
	faulty 0 0 late up part 30 10000 link.timeout_ms=15000
	faulty 0 0 late down committed 7 10000 link.timeout_ms=15000
fi

# ---- a client's clock goes back: the run is resumed twice, in processes whose clock is a day earlier, while the server still
# holds the previous link. The newest link must win all the same.
clock=$PWD/$BUILD/tests/support/preload/clock_back.so
[ -z "${SAN:-}" ] && [ -f "$clock" ] || { echo "$runs runs; nothing is put before libc in this build"; exit 0; }
still=("${base[@]}" --set link.timeout_ms=300000 --set link.heartbeat_ms=60000)
start_server host store="$tmp/clock-store"
write_config "$tmp/client.yaml"
# goes_dark NAME STEP [argument]…: a client that does five steps and stops after the checkpoint of STEP, with its link
# open.
goes_dark() {
	client_stands 5 "$1" "$tmp/client.yaml" "${still[@]}" "${@:3}"
	wait_for "$1: no checkpoint" test -f "$tmp/$1/checkpoint-$(printf %012d "$2").safetensors"
	signal STOP "$client_pid"
}
goes_dark first 5
cp -r "$tmp/first" "$tmp/second"
export LD_PRELOAD=$clock SPLIT_CLOCK_BACK_S=86400
goes_dark second 10 --resume
cp -r "$tmp/second" "$tmp/third"
rm "$tmp/third/link-epoch" # what it remembered is lost, too: the server says from where to count
export SPLIT_CLOCK_BACK_S=172800
client third "$tmp/client.yaml" "${still[@]}" --resume || fail "a process for which it is earlier: status $?"
unset LD_PRELOAD
same_run good third 20
[ "$(grep -c 'replaced by a newer link' "$tmp/host.log")" = 2 ] || fail 'the server did not end both older links'
echo "$runs runs"
