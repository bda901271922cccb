#!/usr/bin/env bash
# kill -9 at ten places of either side while lines are predicted. Clients of a socket get right answers or errors, and right
# ones alone once the server is back. What a killed splitc has answered is right, and its next process answers all lines.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/answered.sh
endpoint=tcp://127.0.0.1:$(free_port)
answered "$endpoint" "batch: 16, epochs: 1"
# load NAME: four clients with 200 lines each, of which four are under way at a time
load() { "$python" tests/e2e/serve/clients.py load "$tmp/s.sock" "$tmp/lines" "$tmp/want" 4 200 4 >"$tmp/$1.load" 2>"$tmp/$1.load.log"; }

"$SPLITC" predict "$tmp/client.yaml" --listen "unix:$tmp/s.sock" 2>"$tmp/listen.log" &
started+=($!)
wait_for 'nobody listens' test -S "$tmp/s.sock"
n=0 loads=()
# A pass between the places of a store ends splitc's back-off.
for place in store.read link.receive@40 store.open port.whole@9 store.write port.post@9 store.rename link.send@40 store.done port.whole@30; do
	# A store without the weights, so they are sent; one that has them has them from the server before it.
	case $place in store.*) store=$tmp/store$((n += 1)) ;; esac
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS="${place%@*}=kill${place#"${place%@*}"}" start_server "at $place" listen="$endpoint" store="$store"
	load "$place" &
	loads+=($!)
	started+=($!)
	ends_with "$server_pid" 137 $patience "the server at $place"
done
start_server last listen="$endpoint" store="$store"
for load in "${loads[@]}"; do wait "$load" || fail "killed servers: $(tail -qn 1 "$tmp"/*.load.log)"; done
load last || fail "the last server: $(tail -n 1 "$tmp/last.load.log")"
jq -es '.[0].right == 800 and all(.right + .away == 800) and (map(.away) | add > 0)' "$tmp/last.load" "$tmp"/*@*.load "$tmp"/store.*.load >"$tmp/out" ||
	fail "$(cat "$tmp"/*.load)"

for place in link.connect link.send@9 link.receive@9 port.post@1 port.post@9 port.whole@1 port.whole@9 client.load@4 client.done@1 client.done@4; do
	rc=0
	SPLIT_FAILPOINTS="${place%@*}=kill${place#"${place%@*}"}" "$BUILD/fail/splitc" predict "$tmp/client.yaml" --stream <"$tmp/lines" >"$tmp/killed" 2>"$tmp/killed.log" || rc=$?
	[ $rc = 137 ] || fail "splitc at $place: exit status $rc"
	"$SPLITC" predict "$tmp/client.yaml" --stream <"$tmp/lines" >"$tmp/again" 2>"$tmp/again.log" || fail "after a kill at $place: $(tail -n 1 "$tmp/again.log")"
	cmp <(jq -c 'del(.name, .label)' "$tmp/again") <(jq -c 'del(.name, .label)' "$tmp/want") || fail "after a kill at $place: other answers"
	cmp -n "$(stat -c %s "$tmp/killed")" "$tmp/killed" "$tmp/again" || fail "killed at $place: other answers before"
done
echo "ten places of either side: $(grep -c '^WARN server-lost: ' "$tmp/listen.log") links lost, $(jq -s 'map(.away) | add' "$tmp"/*.load) of $(jq -s 'map(.away + .right) | add' "$tmp"/*.load) answers were errors"
