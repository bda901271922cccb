#!/usr/bin/env bash
# A server that cheats and tries to escape its audits is found, with status 79: it ends each link where an audit begins
# (lost, refused, stalled; the client waits or exits), gives up a step that has no NaN, or alters the last Fetch. The
# same holds for splitc audit.
set -eu
cd "$(dirname "$0")/../.."
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. tests/e2e/lib/daemons.sh
make_data 96 32
start_server host
honest=$endpoint
write_config "$tmp/client.yaml"
sed -i 's/epochs: 1/epochs: 2\n  checkpoint_every: 1/' "$tmp/client.yaml"
wait_set=(--set link.on_server_lost=wait --set link.retry_ms=20)

# relay FAULT DIR KIND NTH: between the client and the server at $endpoint; sets $far.
relay() {
	rm -f "$tmp/relay.out"
	"$TOOLS/faulty_link" "${endpoint##*:}" "$@" >"$tmp/relay.out" &
	relay_pid=$!
	started+=("$relay_pid")
	wait_for 'the relay' test -s "$tmp/relay.out"
	far=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")
}
found() { grep -a '"type":"audit"' "$tmp/$1/log.jsonl" | tail -n 1 | jq -r .found; }

# caught NAME TEXT STATUSES… -- [argument]…: the run ends with these statuses, the first process' first. TEXT is what
# the last one says.
caught() {
	local name=$1 text=$2 statuses=() status rc resume=()
	shift 2
	while [ "$1" != -- ]; do statuses+=("$1"); shift; done
	shift
	for status in "${statuses[@]}"; do
		rc=0
		client "$name" "$tmp/client.yaml" "$@" "${resume[@]}" || rc=$?
		[ "$rc" = "$status" ] || fail "$name: exit status $rc, not $status"
		resume=(--resume)
	done
	grep -q "$text" "$tmp/$name.log" || fail "$name: $(tail -n 2 "$tmp/$name.log")"
	[ "$(found "$name")" != 'as agreed' ] || fail "$name: log.jsonl does not say what the audit found"
	[ ! -f "$tmp/$name/model.safetensors" ] || fail "$name: the run has a model"
}

# ---- escapes
SPLITS=$PWD/$BUILD/fail/splits
SPLIT_FAILPOINTS=server.hijack=EIO@1+ start_server hijacks store="$tmp/store-hijacks"
relay drop up fetch 1+
caught cut '3 links were lost in an audit in a row' 79 -- --set train.audit.every=2 --set server="$far" "${wait_set[@]}"
end_process "$relay_pid"
endpoint=$honest
relay drop up fetch 2+
caught exits '3 audits were begun and not ended in a row' 69 69 79 -- --set train.audit.every=1 --set server="$far"
end_process "$relay_pid"
relay header up fetch 2+
caught refuses '3 links were lost in an audit in a row' 79 -- --set train.audit.every=1 --set server="$far" "${wait_set[@]}"
end_process "$relay_pid"
relay mute down weights 2+
caught stalls '3 links were lost in an audit in a row' 79 -- --set train.audit.every=1 --set server="$far" "${wait_set[@]}" --set link.stall_s=1
end_process "$relay_pid"
SPLIT_FAILPOINTS=server.check=EIO@4+ start_server abandoning store="$tmp/store-abandons"
caught abandons 'audit: step 4 was abandoned (.*), and this host finds neither NaN nor Inf in it' 79 -- --set train.audit.every=1 \
	--set train.on_nan=skip --set server="$endpoint"
for run in 1 2 3; do
	SPLIT_FAILPOINTS=server.cheat_weight=EIO@12 start_server "altering-$run" store="$tmp/store-last"
	caught "last-$run" 'audit: \(step 12: .* differ)\|evaluation after step 12: mid_act of chunk [0-3]\) is not what the agreed' 79 -- --set train.audit.every=6 --set server="$endpoint"
	end_process "$server_pid"
done

# ---- the command
endpoint=$honest
client_stands 6 stopped "$tmp/client.yaml" --set server="$honest"
wait_for 'no checkpoint' has_checkpoint stopped
end_client
relay drop up fetch 1+
for status in 69 69 79; do
	rc=0
	timeout -k 5 $patience "$SPLITC" audit "$tmp/client.yaml" --set log.dir="$tmp/stopped" --set server="$far" >"$tmp/command.log" 2>&1 || rc=$?
	[ $rc = $status ] || fail "splitc audit: exit status $rc, not $status"
done
end_process "$relay_pid"
"$SPLITC" audit "$tmp/client.yaml" --set log.dir="$tmp/stopped" --set server="$honest" >"$tmp/command.log" 2>&1 || fail 'splitc audit of an honest server'
client stopped "$tmp/client.yaml" --set server="$honest" --set train.audit.every=2 --resume --json || fail "resumed: status $?"
[ "$(grep '^{' "$tmp/stopped.log" | jq '.audits_begun - .audits_ended')" = 3 ] || fail "$(grep '^{' "$tmp/stopped.log")"
echo "8 escapes from audits are found"
