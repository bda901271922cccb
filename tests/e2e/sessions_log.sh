#!/usr/bin/env bash
# STORE/sessions.jsonl says whom a server had: which client, by which key, from where, in which group, how many bytes, and
# how each session ended, also over kills of either side. `splits report` makes tables of it, and --verify names the
# first line that was changed, removed, swapped or added.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
for name in server A B stranger; do
	"$SPLITC" keygen --out "$tmp/$name.key" >"$tmp/$name.pub" 2>"$tmp/keygen.log" || { grep -q 'has no CURVE' "$tmp/keygen.log" && exit 77; }
done
for name in A B; do echo "$(cat "$tmp/$name.pub") site-$name group=clinics"; done >"$tmp/clients"
make_data 96 24
serve() { start_server "$1" store="$tmp/store" auth.secret_key="$tmp/server.key" auth.clients="$tmp/clients" "${@:2}"; }
serve one
write_config "$tmp/client.yaml"
sed -i 's/epochs: 1/epochs: 2\n  checkpoint_every: 2/' "$tmp/client.yaml"
as() { echo "--set auth.secret_key=$tmp/$1.key --set auth.server_key=$tmp/server.pub --set server=$endpoint"; }
log=$tmp/store/sessions.jsonl
is() { jq -se "$1" "$log" >/dev/null || fail "$2: $(cat "$log")"; }
report() { "$SPLITS" report "$tmp/empty.yaml" --set store="$tmp/store" "$@"; }

# ---- a run (the Hello that was answered with a challenge belongs to no session), a stranger, a client that is killed, a group
client run "$tmp/client.yaml" $(as A) || fail "training: exit status $?"
wait_for 'the session has no end' grep -q '"end"' "$log"
is 'map(.type) == ["start", "begin", "end"] and .[2].client == "site-A" and .[2].address == "127.0.0.1" and .[2].outcome == "goodbye" and .[2].steps == 12
	and .[1].session == .[2].session and (.[2].key | length) > 10' 'a run'
sent=$(jq -s 'map(select(.type == "summary"))[0] | .wire_tx_bytes - .framing_tx_bytes - .curve_tx_bytes' "$tmp/run/log.jsonl") received=$(jq -s '.[2].received_bytes' "$log")
((sent >= received && sent < received + 500)) || fail "the client has sent $sent bytes, and the server's log says $received"
client stranger "$tmp/client.yaml" $(as stranger) --set link.connect_timeout_ms=2000 && fail 'a stranger has trained'
wait_for 'no line for a stranger' grep -q '"refused"' "$log"
is 'map(select(.type == "refused"))[0] | .client == null and .address == "127.0.0.1" and .handshakes >= 1' 'a stranger'
client_stands 5 killed "$tmp/client.yaml" $(as A)
end_client
wait_for 'the killed client has no end' sh -c "[ \$(grep -c '\"end\"' '$log') = 2 ]"
is '.[-1] | .type == "end" and (.outcome | startswith("PEER_LOST: "))' 'a killed client'
group=(--set share.group=clinics --set share.clients=2)
start_client m0 "$tmp/client.yaml" $(as A) "${group[@]}" --set share.member=0
m0=$client_pid
client m1 "$tmp/client.yaml" $(as B) "${group[@]}" --set share.member=1 || fail "member 1: exit status $?"
ends_with "$m0" 0 $patience 'member 0'
wait_for 'a member has no end' sh -c "[ \$(grep -c '\"end\"' '$log') = 4 ]"
is 'map(select(.type == "end" and .group == "clinics") | [.client, .member]) | sort == [["site-A", 0], ["site-B", 1]]' 'a group'

# ---- the server is killed while a client trains, and comes again
client_stands 5 waits "$tmp/client.yaml" $(as A)
end_process "$server_pid"
printf '{"type":"end","ti' >>"$log" # it was killed while it wrote
cp -r "$tmp/store" "$tmp/killed-store"
serve two listen="$endpoint"
let_go waits
ends_with "$client_pid" 0 $patience 'the client behind the kill of its server'
for _ in 1 2 3; do # connections that shake no hands
	(exec 3<>"/dev/tcp/127.0.0.1/${endpoint##*:}"; printf 'GET / HTTP/1.0\r\n\r\n' >&3; cat <&3 >/dev/null) 2>/dev/null || true
done
signal TERM "$server_pid"; ends_with "$server_pid" 0 $patience "the server"
report --verify >"$tmp/verify" || fail "a log over a kill: $(cat "$tmp/verify")"
head=$(sed -n 's/^log head //p' "$tmp/verify")
grep -q "session-log: the head of sessions.jsonl is $head\$" "$tmp/two.log" || fail "the server logs another head than $head"
is 'map(.type) | .[0] == "start" and .[-1] == "stop" and (map(select(. == "start")) | length) == 2' 'two processes'

is '.[-1] | .admitted >= 1 and .connections >= .admitted + 3' 'connections that were not admitted'

# ---- the report
report --out "$tmp/report.html" || fail "report: exit status $?"
python3 -c 'import sys, xml.dom.minidom as x; x.parseString(open(sys.argv[1]).read().split("\n", 1)[1])' "$tmp/report.html" || fail 'the page is not well-formed'
report >"$tmp/report.md"
grep -qE '^\| 2[^|]*\| - \| site-A \|.*\| the server was killed, or failed \|$' "$tmp/report.md" || fail "no session of the kill: $(cat "$tmp/report.md")"
grep -qE '^\| site-A \| [^|]+ \| 4 \|' "$tmp/report.md" || fail "site-A's row: $(cat "$tmp/report.md")"
grep -qE 'refused: no key of the list' "$tmp/report.md" || fail "no stranger: $(cat "$tmp/report.md")"
grep -qE '^\| 2[^|]* \| killed or failed \|' "$tmp/report.md" && ! grep -q 'or it still runs' "$tmp/report.md" || fail "the processes: $(cat "$tmp/report.md")"
grep -q '^## What is not known' "$tmp/report.md" || fail 'nothing is unknown'
report clinics --format json >"$tmp/report.json"
jq -e '.group == "clinics" and (.sessions | map(select(.type == "end")) | length) == 2' "$tmp/report.json" >/dev/null || fail "the group's report: $(cat "$tmp/report.json")"
rc=0; "$SPLITS" report "$tmp/empty.yaml" --set store= >"$tmp/out" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'store: this config has none' "$tmp/out" || fail "without a store: $rc: $(cat "$tmp/out")"

# ---- tampering
named=0
for kind in change remove swap add bare; do
	for seed in 1 2 3 4; do
		rm -rf "$tmp/t"; cp -r "$tmp/store" "$tmp/t"
		at=$(python3 tests/e2e/lib/tamper.py "$tmp/t/sessions.jsonl" $kind $seed)
		rc=0; "$SPLITS" report "$tmp/empty.yaml" --verify --set store="$tmp/t" >"$tmp/verify" 2>&1 || rc=$?
		line=$(grep -oE 'line [0-9]+' "$tmp/verify" | head -n 1 | tr -dc 0-9)
		[ $rc = 65 ] && [ "$line" -ge "$at" ] && [ "$line" -le $((at + 2)) ] || fail "$kind at line $at: $rc: $(cat "$tmp/verify")"
		named=$((named + 1))
	done
done
[ $named = 20 ] || fail "$named of 20 were tried"
# the report of such a log is written, and says so; a server that begins with it says so, too
rc=0; "$SPLITS" report "$tmp/empty.yaml" --set store="$tmp/t" --out "$tmp/unfit.md" >"$tmp/out" 2>&1 || rc=$?
[ $rc = 65 ] && grep -q 'ITS LINES DO NOT FIT: sessions.jsonl: line' "$tmp/unfit.md" && grep -q 'site-A' "$tmp/unfit.md" || fail "the report of a log that does not fit: $rc: $(cat "$tmp/unfit.md" "$tmp/out")"
start_server unfit store="$tmp/t" auth.secret_key="$tmp/server.key" auth.clients="$tmp/clients"
grep -q '^WARN session-log: sessions.jsonl: line .*splits report --verify will say so' "$tmp/unfit.log" || fail "a server over such a log: $(cat "$tmp/unfit.log")"
end_process "$server_pid"
# without a store nothing is written, and nothing fails
start_server bare store= auth.secret_key="$tmp/server.key" auth.clients="$tmp/clients"
client bare-run "$tmp/client.yaml" $(as A) || fail "without a store: exit status $?"
echo passed
