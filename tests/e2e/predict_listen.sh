#!/usr/bin/env bash
# splitc predict --listen: many clients of one socket, in one session. Each gets the bits that `predict` prints of its
# lines, in its order: while others vanish or read nothing, and while the server or splitc is killed. Over a link of
# 20 ms 64 clients wait for three round trips and a batch at most; memory does not grow. SPLIT_LONG: for an hour.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/answered.sh
start_server one
port=${endpoint##*:}
for ms in 0 10; do
	"$python" tests/e2e/serve/clients.py relay "$port" $ms >"$tmp/relay-$ms.port" &
	started+=($!)
	wait_for 'the relay' test -s "$tmp/relay-$ms.port"
done
answered "$endpoint" "batch: 64, epochs: 2, optimizer: {kind: adam, lr: 0.01}"

# serve NAME [argument]…: sets $serving. It and load use the socket $sock.
sock=s
serve() {
	"$SPLITC" predict "$tmp/client.yaml" --listen "unix:$tmp/$sock.sock" "${@:2}" 2>"$tmp/$1.log" &
	serving=$!
	started+=($serving)
	wait_for "$1 does not serve" serving_or_ended "$1"
	kill -0 $serving || fail "$1 does not serve: $(tail -n 1 "$tmp/$1.log")"
}
serving_or_ended() { grep -q '^INFO serving: ' "$tmp/$1.log" || ! kill -0 $serving; }
clients() { timeout -k 5 $patience "$python" tests/e2e/serve/clients.py "$1" "$tmp/$sock.sock" "$tmp/lines" "${@:2}"; }
load() { clients load "$tmp/want" "${@:2}" >"$tmp/$1.json" 2>"$tmp/$1.log" || fail "$1: $(tail -n 1 "$tmp/$1.log")"; }
kib() { awk '$1 == "VmRSS:" {print $2}' "/proc/$serving/status"; }
stuck_or_ended() { [ -s "$tmp/greedy" ] || ! kill -0 $greedy; }
sessions() { grep -c '^INFO session-open: ' "$tmp/one.log"; }

serve plain
before=$(sessions)
load ordered 16 50 8
jq -e '.right == 800 and .away == 0' "$tmp/ordered.json" >/dev/null || fail "$(cat "$tmp/ordered.json")"
load full 64 30

# clients that vanish with lines under way, and one that reads nothing
clients vanish 500 || fail vanish
first=$(kib)
mkfifo "$tmp/go"
clients greedy 50000 <"$tmp/go" >"$tmp/greedy" 2>"$tmp/greedy.log" &
greedy=$!
started+=($greedy)
exec 8>"$tmp/go"
wait_for 'the greedy client is served' stuck_or_ended
[ -s "$tmp/greedy" ] || fail "the greedy client: $(tail -n 1 "$tmp/greedy.log")"
load beside 16 50 8
echo >&8
wait $greedy || fail "the greedy client: $(tail -n 1 "$tmp/greedy.log")"
until=$((SECONDS + ${SPLIT_LONG:+360}0))
load many 32 100 4
while [ $SECONDS -lt $until ]; do load many 32 100 4; done
[ $(($(kib) - first)) -le 2048 ] || fail "memory grew from $first KiB to $(kib)"
[ "$(sessions)" = "$before" ] || fail "$(($(sessions) - before)) sessions more: the weights were sent again"

# the program of the page
sed -n '/^```python$/,/^```$/p' docs/howto-serve.md | sed '/^```/d' | sed "s#/run/user/1000/reviews.sock#$tmp/s.sock#; s#{\"text\": \"fresh fish\"}#$(head -n 1 "$tmp/lines")#" >"$tmp/page.py"
[ "$("$python" "$tmp/page.py" | tr \' \" | jq -c .probabilities)" = "$(head -n 1 "$tmp/want" | jq -c .probabilities)" ] || fail 'the program of docs/howto-serve.md'

# one socket: it is not taken while it is in use, and is after a kill
status=0
"$SPLITC" predict "$tmp/client.yaml" --listen "unix:$tmp/s.sock" >"$tmp/second.log" 2>&1 || status=$?
[ $status = 69 ] && grep -q -- "--listen $tmp/s.sock: another process answers there" "$tmp/second.log" || fail "a second one: $status, $(cat "$tmp/second.log")"
end_process $serving
serve again --set link.timeout_ms=5000
load taken 4 10

# the server is killed: errors or right answers, and these once it is back
clients load "$tmp/want" 8 400 4 >"$tmp/killed.json" 2>"$tmp/killed.log" &
loading=$!
started+=($loading)
end_process "$server_pid"
wait_for 'no error' grep -q '^WARN server-lost: ' "$tmp/again.log"
start_server one listen="$endpoint"
wait $loading || fail "a killed server: $(tail -n 1 "$tmp/killed.log")"
jq -e '.right + .away == 3200 and .away > 0' "$tmp/killed.json" >/dev/null || fail "$(cat "$tmp/killed.json")"
wait_for 'splitc does not find the server again' test "$(grep -c '^INFO serving: ' "$tmp/again.log")" = 2
load back 4 10
jq -e '.away == 0' "$tmp/back.json" >/dev/null || fail "$(cat "$tmp/back.json")"
signal TERM $serving
ends_with $serving 0 60 'splitc, after SIGTERM'
[ ! -e "$tmp/s.sock" ] || fail 'the socket is left'

# 20 ms there and back, beside a relay that holds nothing: a busy machine delays both
over() { serve "$1" --set "server=tcp://127.0.0.1:$(cat "$tmp/relay-$2.port")" --set control="$tmp/$1.control"; }
over near 0
sock=f over far 10
in_time() {
	load near 64 30 &
	sock=f load far 64 30
	wait $! && jq -es '.[1].p99_ms <= 60 + .[0].p99_ms' "$tmp/near.json" "$tmp/far.json" >/dev/null
}
in_time || in_time || in_time || in_time || fail "near: $(cat "$tmp/near.json"), far: $(cat "$tmp/far.json")"
echo "64 clients, p50 and p99 in ms: $(jq -sc 'map([.p50_ms, .p99_ms] | map(round))' "$tmp/near.json" "$tmp/far.json") near and over 20 ms; $(cat "$tmp/killed.json")"

# ---- kill -9 at ten places of either side. Clients of a socket get right answers or errors, and right ones alone once the
# server is back. What a killed splitc has answered is right, and its next process answers all lines.
endpoint=tcp://127.0.0.1:$(free_port)
to=(--set server="$endpoint" --set train.batch=16)
# loads NAME: four clients with 200 lines each, of which four are under way at a time
loads() { "$python" tests/e2e/serve/clients.py load "$tmp/k.sock" "$tmp/lines" "$tmp/want" 4 200 4 >"$tmp/$1.load" 2>"$tmp/$1.load.log"; }

"$SPLITC" predict "$tmp/client.yaml" --listen "unix:$tmp/k.sock" "${to[@]}" --set control="$tmp/k.control" 2>"$tmp/kills.log" &
started+=($!)
wait_for 'nobody listens' test -S "$tmp/k.sock"
n=0 under=()
# A pass between the places of a store ends splitc's back-off.
for place in store.read link.receive@40 store.open port.whole@9 store.write port.post@9 store.rename link.send@40 store.done port.whole@30; do
	# A store without the weights, so they are sent; one that has them has them from the server before it.
	case $place in store.*) store=$tmp/store$((n += 1)) ;; esac
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS="${place%@*}=kill${place#"${place%@*}"}" start_server "at $place" listen="$endpoint" store="$store"
	loads "$place" &
	under+=($!)
	started+=($!)
	ends_with "$server_pid" 137 $patience "the server at $place"
done
start_server last listen="$endpoint" store="$store"
for load in "${under[@]}"; do wait "$load" || fail "killed servers: $(tail -qn 1 "$tmp"/*.load.log)"; done
loads last || fail "the last server: $(tail -n 1 "$tmp/last.load.log")"
jq -es '.[0].right == 800 and all(.right + .away == 800) and (map(.away) | add > 0)' "$tmp/last.load" "$tmp"/*@*.load "$tmp"/store.*.load >"$tmp/out" ||
	fail "$(cat "$tmp"/*.load)"

for place in link.connect link.send@9 link.receive@9 port.post@1 port.post@9 port.whole@1 port.whole@9 client.load@4 client.done@1 client.done@4; do
	rc=0
	SPLIT_FAILPOINTS="${place%@*}=kill${place#"${place%@*}"}" "$BUILD/fail/splitc" predict "$tmp/client.yaml" "${to[@]}" --stream <"$tmp/lines" >"$tmp/killed" 2>"$tmp/killed.log" || rc=$?
	[ $rc = 137 ] || fail "splitc at $place: exit status $rc"
	"$SPLITC" predict "$tmp/client.yaml" "${to[@]}" --stream <"$tmp/lines" >"$tmp/again" 2>"$tmp/again.log" || fail "after a kill at $place: $(tail -n 1 "$tmp/again.log")"
	cmp <(jq -c 'del(.name, .label, .servers_word)' "$tmp/again") <(jq -c 'del(.name, .label, .servers_word)' "$tmp/want") || fail "after a kill at $place: other answers"
	cmp -n "$(stat -c %s "$tmp/killed")" "$tmp/killed" "$tmp/again" || fail "killed at $place: other answers before"
done
echo "ten places of either side: $(grep -c '^WARN server-lost: ' "$tmp/kills.log") links lost, $(jq -s 'map(.away) | add' "$tmp"/*.load) of $(jq -s 'map(.away + .right) | add' "$tmp"/*.load) answers were errors"
