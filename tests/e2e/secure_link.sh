#!/usr/bin/env bash
# Two daemons over an encrypted link: who is admitted, which errors others get and how soon, keys that are added and
# removed while the server runs, and a hundred rogue connections that must not disturb a client.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
prompt=4000 # milliseconds, of which a handshake that was cut takes three tries
[ -z "${SAN:-}" ] || prompt=40000

if ! "$SPLITC" keygen --out "$tmp/probe.key" >/dev/null 2>"$tmp/probe.log"; then
	grep -q 'has no CURVE' "$tmp/probe.log" || fail 'keygen'
	echo 'this libzmq has no CURVE'
	exit 77
fi

# key NAME PROGRAM: makes a pair of keys: NAME.key, its public half NAME.pub, its fingerprint NAME.print.
key() {
	"$2" keygen --out "$tmp/$1.key" >"$tmp/$1.pub" 2>"$tmp/$1.keygen" || fail "keygen $1"
	sed -n 's/.*fingerprint //p' "$tmp/$1.keygen" >"$tmp/$1.print"
	[ "$(stat -c %a "$tmp/$1.key")" = 600 ] || fail "$1.key has mode $(stat -c %a "$tmp/$1.key")"
	[ "$(wc -c <"$tmp/$1.pub")" = 41 ] || fail 'not one key of 40 characters'
	[ "$(wc -c <"$tmp/$1.print")" = 20 ] || fail 'no fingerprint'
}
for name in server other; do key $name "$SPLITS"; done
for name in edge-1 edge-2 stranger; do key $name "$SPLITC"; done
print_of() { cat "$tmp/$1.print"; }
# keygen never overwrites a key.
cp "$tmp/edge-1.key" "$tmp/before"
rc=0
"$SPLITC" keygen --out "$tmp/edge-1.key" >"$tmp/again.out" 2>"$tmp/again.log" || rc=$?
[ $rc = 73 ] && [ ! -s "$tmp/again.out" ] || fail "keygen over a key: exit status $rc"
grep -q 'never overwritten' "$tmp/again.log" || fail 'no word on it'
cmp "$tmp/before" "$tmp/edge-1.key"

# allow NAME…: the server's list has exactly these clients.
allow() {
	local name
	for name in "$@"; do echo "$(cat "$tmp/$name.pub") $name # made by a test"; done >"$tmp/clients.new"
	mv "$tmp/clients.new" "$tmp/clients"
}

# refuses_to_serve STATUS WORDS [key=value]…
refuses_to_serve() {
	local status=$1 words=$2 rc=0 set=() pair
	shift 2
	for pair in "control=$tmp/no.sock" device=cpu "$@"; do set+=(--set "$pair"); done
	timeout -k 5 $patience "$SPLITS" serve "$tmp/none.yaml" "${set[@]}" >"$tmp/no.log" 2>&1 || rc=$?
	[ $rc = "$status" ] || fail "serve with $*: exit status $rc, not $status"
	grep -qF -- "$words" "$tmp/no.log" || fail "serve with $*: no word on '$words'"
}
: >"$tmp/none.yaml"
allow edge-1
refuses_to_serve 78 'must be on loopback' listen=tcp://0.0.0.0:0
refuses_to_serve 78 'must be on loopback' 'listen=tcp://*:5570'
refuses_to_serve 78 'needs both' listen=tcp://0.0.0.0:0 "auth.secret_key=$tmp/server.key"
refuses_to_serve 66 'no-such-file' "auth.secret_key=$tmp/no-such-file" "auth.clients=$tmp/clients"
refuses_to_serve 65 'clients: ' "auth.secret_key=$tmp/server.key" "auth.clients=$tmp/server.key"
chmod 644 "$tmp/other.key"
refuses_to_serve 78 'chmod 600' "auth.secret_key=$tmp/other.key" "auth.clients=$tmp/clients"
chmod 600 "$tmp/other.key"

# with auth, on all interfaces
start_server secure listen=tcp://0.0.0.0:0 limits.sessions=8 "auth.secret_key=$tmp/server.key" "auth.clients=$tmp/clients"
secure_pid=$server_pid
endpoint=tcp://127.0.0.1:${endpoint##*:}
grep -q "this server's key is $(print_of server); 1 client may" "$tmp/secure.log" || fail 'the server does not say its key'
write_config "$tmp/client.yaml"
client alone "$tmp/client.yaml" --local || fail "alone: exit status $?"

as() { echo --set "auth.secret_key=$tmp/$1.key" --set "auth.server_key=$tmp/server.pub"; }

# refused NAME WORDS FINGERPRINT [argument]…: splitc soon ends with 77 and one line that has both.
refused() {
	local name=$1 words=$2 print=$3 rc=0 most=$prompt
	shift 3
	# A client without a key must first read the server's greeting, and its connection may be cut a few times before
	# that.
	[ "$name" != 'no key' ] || most=$((patience * 1000))
	clock_starts
	client "$name" "$tmp/client.yaml" "$@" || rc=$?
	[ $rc = 77 ] || fail "$name: exit status $rc, not 77"
	tail -n 1 "$tmp/$name.log" | grep -qF -- "$words" || fail "$name: no word on '$words'"
	tail -n 1 "$tmp/$name.log" | grep -qF -- "$print" || fail "$name: the fingerprint $print is not named"
	[ $took -le $prompt ] || fail "$name: only after $took ms"
	echo "$name: exit status 77 after $took ms"
}

# shellcheck disable=SC2046 # options are words
{
	from=$EPOCHREALTIME
	client good "$tmp/client.yaml" $(as edge-1) || fail "good: exit status $?"
	took=$(((${EPOCHREALTIME/./} - ${from/./}) / 1000))
	# The time limit is relative to the time of a run on this machine.
	[ $((5 * took)) -le $prompt ] || prompt=$((5 * took))
	same_run good alone 6
	# The key itself instead of a file, as it may stand in a config.
	client quoted "$tmp/client.yaml" --set "auth.secret_key=$tmp/edge-1.key" --set "auth.server_key=$(cat "$tmp/server.pub")" ||
		fail "quoted: exit status $?"
	refused 'no group' 'may not train with group g' 'group=g' $(as edge-1) --set share.group=g --set share.clients=1
	refused 'unknown key' 'does not know' "$(print_of stranger)" $(as stranger)
	refused 'key to come' 'does not know' "$(print_of edge-2)" $(as edge-2)
	refused 'wrong server' 'cuts the handshake' "$(print_of other)" \
		--set "auth.secret_key=$tmp/edge-1.key" --set "auth.server_key=$tmp/other.pub"
	refused 'no key' 'accepts only clients with keys' 'auth section'
	secure=$endpoint
	start_server plain store=
	refused 'plain server' 'does not authenticate' "$(print_of edge-1)" $(as edge-1) --set "server=$endpoint"
	endpoint=$secure

	# An unreadable list changes nothing. A list with another key admits that client and disconnects the owner of
	# the removed key.
	start_client revoked "$tmp/client.yaml" --set train.epochs=5000 --set train.eval_every=0 --set train.optimizer.lr=0.002 $(as edge-1)
	revoked_pid=$client_pid
	wait_for 'no steps' has_steps revoked 5
	"$SPLITS" status --control "$tmp/secure.sock" --json >"$tmp/status.json"
	[ "$(jq -r '.sessions[0].peer' "$tmp/status.json")" = "edge-1 $(print_of edge-1)" ] || fail 'the status does not say whose session it is'
	echo nonsense >"$tmp/clients"
	signal HUP $secure_pid
	wait_for 'no word on the broken list' grep -q 'reload: .*clients:1: .*the server keeps the old list' "$tmp/secure.log"
	steps=$(steps_of revoked)
	wait_for 'the session ended' has_steps revoked $((steps + 5))
	allow edge-2
	clock_starts
	signal HUP $secure_pid
	ends_with $revoked_pid 77 $patience 'revoked client'
	clock_within "$prompt" 'revoked client'
	tail -n 1 "$tmp/revoked.log" | grep -qF "$(print_of edge-1)" || fail 'revoked: the fingerprint is not named'
	refused 'revoked key' 'does not know' "$(print_of edge-1)" $(as edge-1)
	client added "$tmp/client.yaml" $(as edge-2) || fail "added: exit status $?"
	same_run added alone 6
}
wait_for 'no word on refused keys' grep -q "auth-refused: key $(print_of stranger) from .*127.0.0.1" "$tmp/secure.log"
turned_away() { [ "$("$SPLITS" status --control "$tmp/secure.sock" --json | jq .turned_away)" -ge 1 ]; }
wait_for 'status does not count refused keys' turned_away

# a hundred connections that are not clients (tools/rogues.c), and clients with unlisted keys among them
rss() { awk '/^VmRSS/ {print $2}' /proc/$secure_pid/status; }
before=$(rss)
"$TOOLS/rogues" "${endpoint##*:}" 100 >"$tmp/rogues.out" &
rogues_pid=$!
started+=($rogues_pid)
for i in 1 2 3; do
	# shellcheck disable=SC2046
	start_client "stranger $i" "$tmp/client.yaml" $(as stranger)
done
wait_for 'the rogues do not stand' grep -q standing "$tmp/rogues.out"
clock_starts
# shellcheck disable=SC2046
client among "$tmp/client.yaml" $(as edge-2) || fail "among rogues: exit status $?"
clock_within "$prompt" 'a client among rogues'
same_run among alone 6
wait_for 'nobody is cut' grep -q cut "$tmp/rogues.out" # those that say nothing: after 8 s
grown=$(($(rss) - before))
signal TERM $rogues_pid
wait $rogues_pid || fail 'the rogues failed'
read -r standing cuts _ < <(tail -n 1 "$tmp/rogues.out")
[ "$standing" = 100 ] && [ "$cuts" -ge 66 ] || fail "$standing rogues stood, and were cut $cuts times"
# A connection may hold a frame in its queues before the handshake; with sanitizers, freed memory counts too.
[ -n "${SAN:-}" ] || [ $grown -le 32768 ] || fail "the server grew by $grown KiB"
kill -0 $secure_pid || fail 'the server is dead'
echo "among $standing rogues, cut $cuts times: 6 steps in $took ms, the server grew by $grown KiB"

# No log, status or printed config contains a secret.
"$SPLITS" serve "$tmp/none.yaml" --set "auth.secret_key=$tmp/server.key" --set "auth.clients=$tmp/clients" --print-config >"$tmp/printed.log"
for name in server other edge-1 edge-2 stranger; do
	! grep -lF "$(sed -n 's/^secret //p' "$tmp/$name.key")" "$tmp"/*.log "$tmp"/*.json "$tmp"/*.keygen "$tmp"/*.pub ||
		fail "the secret key of $name is in the files above"
done
