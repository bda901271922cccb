#!/usr/bin/env bash
# Each field that a server sends, another value in each message that has it (tools/lies.h), beside train.audit.every: 1.
# The run ends with status 79 or 76, or as the table below says; or it learns what it learns without the lie, and writes
# the same model. A field of proto/split.proto without a lie is a failure, too. `make test` takes the first message of
# each kind, the last one, and a few between.
set -eu
cd "$(dirname "$0")/../.."
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. tests/e2e/lib/daemons.sh
make_data 32 16
start_server host
write_config "$tmp/client.yaml"
sed -i 's/epochs: 1/epochs: 2\n  checkpoint_every: 1/; s/chunks: 4/chunks: 2/' "$tmp/client.yaml"
base=(--fresh --set train.audit.every=1 --set train.clip_norm=0.05 --set link.stall_s=20)

# what a lie may do besides: status by field
declare -A ends=(
	[Welcome.version]=78 # the protocol's version, compared
	[Welcome.plan_hash]=78 # compared
	[Welcome.device]=78 # the kernels, compared, since audits compare bits
	[Refuse.code]=78 [Refuse.text]=78 [Refuse.key]=78 # the server's word: it can end a run, and its code is the status
)

# ---- the list is whole
sent='Welcome Refuse Part Credit Norm Committed Fetch Heartbeat Abandon Challenge'
for message in $sent; do
	sed -n "/^message $message {/,/^}/p" proto/split.proto | sed -n "s/^  [a-z]* [a-z0-9]* \([a-z_0-9]*\) = .*/$message.\1/p"
done | sort >"$tmp/schema"
"$TOOLS/faulty_link" fields | grep -v '^payload\.\|^Frame\.\|^huge\.' | sort >"$tmp/lies"
cmp -s "$tmp/schema" "$tmp/lies" || fail "lies.h and proto/split.proto: $(diff "$tmp/schema" "$tmp/lies")"

model() { sha256sum <"$tmp/$1/model.safetensors"; }
client honest "$tmp/client.yaml" "${base[@]}" --set server="$endpoint" || fail 'an honest server'
honest=$(learned honest; model honest)

# relays DIR FIELD N: starts a relay that lies; sets $relay and $far.
relays() {
	rm -f "$tmp/relay.out"
	"$TOOLS/faulty_link" "${endpoint##*:}" lie "$@" >"$tmp/relay.out" &
	relay=$!
	started+=("$relay")
	wait_for 'the relay' test -s "$tmp/relay.out"
	far=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")
}

# tells FIELD N [argument]…: a run in which the Nth message with FIELD lies. Sets $rc, and $hit to whether there was such
# a message.
tells() {
	relays down "$1" "$2"
	rc=0
	client lied "$tmp/client.yaml" "${base[@]}" --set server="$far" "${@:3}" || rc=$?
	signal TERM "$relay"
	wait "$relay" || true
	hit=$(tail -n 1 "$tmp/relay.out" | jq .done)
}

# ---- without audits a norm that stops all training is not silent, and the summary says whose word counts
tells huge.squares 1+ --set train.audit.every=0 --json
[ $rc = 0 ] || fail "a huge norm without audits: status $rc"
grep -q '^WARN norm-still: step 1: ' "$tmp/lied.log" || fail "no warning of a huge norm: $(cat "$tmp/lied.log")"
grep '^{' "$tmp/lied.log" | jq -e '.still_steps == 4 and .audited == null and .servers_word[:2] == ["steps", "evaluations"]' >/dev/null || fail "$(grep '^{' "$tmp/lied.log")"
client honest-json "$tmp/client.yaml" "${base[@]}" --set server="$endpoint" --json || fail 'an honest server, --json'
grep '^{' "$tmp/honest-json.log" | jq -e '.still_steps == 0 and .audited.steps == 4 and .audited.of_steps == 4 and .audited.eval_batches == 2 and
	.audited.of_eval_batches == 2 and .servers_word == ["times", "checkpoints"]' >/dev/null || fail "$(grep '^{' "$tmp/honest-json.log")"

# ---- a member of a vertical group that says a huge sum of squares stops the other one: not in silence
. tests/e2e/lib/vertical.sh
write_parties
for party in A B; do config_of $party liar train.clip_norm=0.5; done
relays up huge.squares 1+
begin_party A liar --set server="$far"
pid_A=$client_pid
begin_party B liar
ends_with "$client_pid" 0 $patience 'B beside a huge sum'
ends_with "$pid_A" 0 $patience 'A, whose sum is huge'
grep -q '^WARN norm-still: ' "$tmp/liar-B.log" || fail "B does not warn: $(cat "$tmp/liar-B.log")"
grep -q "^the server's word, unaudited: steps, evaluations, members, times, checkpoints$" "$tmp/liar-B.log" || fail "$(cat "$tmp/liar-B.log")"
grep -q ' steps were nearly without effect here: ' "$tmp/liar-B.log" || fail "$(cat "$tmp/liar-B.log")"
signal TERM "$relay"
wait "$relay" || true

runs=0 nothing=()
for field in ${LIES:-$("$TOOLS/faulty_link" fields)}; do
	step=1 statuses=()
	for ((n = 1;; n += step)); do
		tells "$field" $n
		[ "$hit" = true ] || { [ $rc = 0 ] || fail "$field $n: status $rc without a lie"; break; }
		runs=$((runs + 1))
		case $rc in
		79 | 76) ;;
		0) [ "$(learned lied; model lied)" = "$honest" ] || fail "$field in message $n: status 0, and another run" ;;
		*) [ "${ends[$field]:-}" = $rc ] || fail "$field in message $n: status $rc: $(tail -n 2 "$tmp/lied.log")" ;;
		esac
		statuses+=($rc)
		[ -z "${SPLIT_QUICK:-}" ] || step=9
	done
	echo "$field: $(printf '%s\n' "${statuses[@]:-none}" | sort | uniq -c | tr -s ' \n' ' ')"
	[[ " ${statuses[*]:-} " != *' 0 '* ]] || nothing+=("$field")
done
echo "$runs lies; without effect: ${nothing[*]}"
