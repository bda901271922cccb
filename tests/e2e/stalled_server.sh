#!/usr/bin/env bash
# A server that sends heartbeats and does nothing else does not hold a client for longer than link.stall_s.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
SPLITS=$PWD/$BUILD/fail/splits
make_data 96 16
export SPLIT_FAILPOINTS=server.apply=delay:6000@3
start_server host
unset SPLIT_FAILPOINTS
write_config "$tmp/client.yaml"
rc=0
client held "$tmp/client.yaml" --set link.stall_s=2 --set link.heartbeat_ms=100 || rc=$?
[ $rc = 69 ] || fail "exit status $rc, not 69"
grep -q '^splitc: .* has sent nothing but heartbeats for 2 s (link.stall_s): .* set a longer link.stall_s' "$tmp/held.log" || fail 'no sentence'
[ "$(steps_of held)" = 2 ] || fail "$(steps_of held) steps"
# A server that is only slow is waited for.
client waits "$tmp/client.yaml" --set link.stall_s=60 || fail "a slow server: status $?"
