#!/usr/bin/env bash
# The link is lost while the server computes: the server must save what the session has applied before the next link
# looks for it, although the session's share of worker time is spent. There are no checkpoints, so nothing else keeps
# the state.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 320 16
sets=()
for pair in train.checkpoint_every=0 link.on_server_lost=wait link.retry_ms=20 link.heartbeat_ms=100 link.timeout_ms=5000 \
	'codec.head_act=topk:0.2,ef=true'; do
	sets+=(--set "$pair")
done
start_server plain
write_config "$tmp/client.yaml"
client good "$tmp/client.yaml" "${sets[@]}" || fail "over the good link: status $?"

SPLITS=$PWD/$BUILD/fail/splits
# The step from which the next link continued. Heartbeats detect the loss of the first link: on a busy machine a later
# step than the second may have begun by then, and it is repeated.
went_on() { sed -n 's/^INFO session-open: training with .*, from step \([0-9]*\)$/\1/p' "$tmp/run.log" | tail -n 1; }
for try in 1 2 3 4 5 6; do
	export SPLIT_FAILPOINTS=server.apply=delay:4000@2
	start_server slow "store=$tmp/slow"
	unset SPLIT_FAILPOINTS
	"$TOOLS/faulty_link" "${endpoint##*:}" drop down heartbeat 15 >"$tmp/relay.out" &
	relay=$!
	started+=("$relay")
	wait_for 'the relay' test -s "$tmp/relay.out"
	rm -rf "$tmp/run"
	client run "$tmp/client.yaml" "${sets[@]}" --set "server=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")" ||
		fail "over the link that is lost: status $?: $(tail -n 3 "$tmp/run.log")"
	[ "$(went_on)" -gt 2 ] || break
	end_process "$relay" "$server_pid"
	rm -f "$tmp/relay.out"
done
same_run good run 20
[ "$(grep -c ' server-lost: ' "$tmp/run.log")" = 1 ] || fail "the link was not lost once"
case $(went_on) in 1 | 2) ;; *) fail "not from the second step on: $(grep session-open "$tmp/run.log")" ;; esac
! grep 'steps-lost' "$tmp/run.log" || fail "the next link came before the last words"
