#!/usr/bin/env bash
# Several clients on one host, each found by its config; probes (status --live, --ready); and the pace that a client
# reports while its server is away.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 480 24
export XDG_RUNTIME_DIR=$tmp/runtime
mkdir "$XDG_RUNTIME_DIR"
port=$(free_port)
start_server host limits.sessions=2 "listen=tcp://127.0.0.1:$port"

# probe STATUS FRAGMENT PROGRAM ARGUMENT…: `PROGRAM status ARGUMENT…` ends with STATUS and one line with FRAGMENT ("":
# no line).
probe() {
	local status=$1 fragment=$2 rc=0
	shift 2
	"$1" status "${@:2}" >"$tmp/probe.out" 2>&1 || rc=$?
	[ $rc = "$status" ] || fail "${*/$tmp/}: status $rc, not $status: $(cat "$tmp/probe.out")"
	if [ -z "$fragment" ]; then
		[ ! -s "$tmp/probe.out" ] || fail "${*/$tmp/}: says $(cat "$tmp/probe.out")"
	else
		[ "$(wc -l <"$tmp/probe.out")" = 1 ] && grep -q -- "$fragment" "$tmp/probe.out" || fail "${*/$tmp/}: no line with '$fragment': $(cat "$tmp/probe.out")"
	fi
}
becomes() { (fail() { exit 1; }; probe "$@"); }

# ---- two runs and an evaluation, without explicit control sockets
for run in one two; do
	write_config "$tmp/$run.yaml"
	cat >>"$tmp/$run.yaml" <<-YAML
		log: {dir: $tmp/$run}
		link: {on_server_lost: wait, retry_ms: 20, heartbeat_ms: 100, timeout_ms: 15000, connect_timeout_ms: 60000}
	YAML
	sed -i 's/epochs: 1/epochs: 100000/; s/lr: 0.05/lr: 0.002/' "$tmp/$run.yaml"
	"$SPLITC" train "$tmp/$run.yaml" >"$tmp/$run.log" 2>&1 &
	eval "$run=$!"
	started+=($!)
	wait_for "no steps of $run" has_steps $run 3
done
says_pid() { [ "$("$SPLITC" status ${1:+"$1"} --json | jq .pid)" = "$2" ]; }
wait_for "status does not find run one by its config" says_pid "$tmp/one.yaml" "$one"
wait_for "status does not find run two by its config" says_pid "$tmp/two.yaml" "$two"
wait_for "of two runs status takes one" becomes 64 '2 clients run here: name one by its CONFIG' "$SPLITC"
wait_for 'a server with no place left is ready' becomes 69 'not ready: all places are taken (2 of 2, limits.sessions)' "$SPLITS" --control "$tmp/host.sock" --ready
signal INT "$two"
ends_with "$two" 75 $patience 'the second run'
cp "$tmp/two/model.safetensors" "$tmp/one/model.safetensors"
wait_for 'the place is not free again' becomes 0 '^ready: splits 0.*pid.*, 1 of 2 sessions$' "$SPLITS" --control "$tmp/host.sock" --ready
timeout -k 5 $patience "$SPLITC" eval "$tmp/one.yaml" >"$tmp/eval.out" 2>"$tmp/eval.log" || fail "an evaluation beside its run: status $?"
wait_for "status does not find the only run" says_pid '' "$one"

# ---- probes
wait_for 'the server is not live' becomes 0 '^live: splits ' "$SPLITS" --control "$tmp/host.sock" --live
wait_for 'the client is not live' becomes 0 '^live: splitc 0.*train, step [0-9]* of 3000000$' "$SPLITC" "$tmp/one.yaml" --live
wait_for 'the client is not ready' becomes 0 '^ready: splitc ' "$SPLITC" "$tmp/one.yaml" --ready
wait_for 'a quiet probe' becomes 0 '' "$SPLITC" "$tmp/one.yaml" --ready --quiet
"$SPLITC" status "$tmp/one.yaml" --json >"$tmp/status.json"
jq -e '.ready == 1 and .disk_bytes > 0 and .disk_free_bytes > 0 and .sessions_limit == 0' "$tmp/status.json" >"$tmp/jq.out" || fail "$(cat "$tmp/status.json")"
age=$(($(date +%s) - $(jq .started_s "$tmp/status.json")))
[ $age -ge 0 ] && [ $age -le $((patience * 4)) ] || fail "it began $age s ago"
signal STOP "$server_pid"
probe 69 'no answer at' "$SPLITS" --control "$tmp/host.sock" --live

# ---- the server stalls, in training or in an evaluation, then is gone: the client must not report an invented pace
slower() { "$SPLITC" status "$tmp/one.yaml" --json | jq -e '.sessions[0] | .phase != "connect" and .idle_s > 1 and .samples_per_s < 16' >"$tmp/jq.out"; }
wait_for "a client whose server stands still goes on at its pace" slower
end_process "$server_pid"
away() { "$SPLITC" status "$tmp/one.yaml" --json | jq -e '.ready == 0 and (.sessions[0] | .phase == "connect" and .step >= 3
	and .samples_per_s == null and .left_s == null and .tx_mb_s == null)' >"$tmp/jq.out"; }
wait_for "the client does not notice" grep -q '^WARN link-lost: ' "$tmp/one.log" # long before its link.timeout_ms
away || fail "a client that knows that its connection broke is ready: $("$SPLITC" status "$tmp/one.yaml" --json)"
probe 69 "^splitc: not ready: no link to tcp://127.0.0.1:$port; the last batch was done [0-9a-z]* ago$" "$SPLITC" "$tmp/one.yaml" --ready
probe 0 '^live: ' "$SPLITC" "$tmp/one.yaml" --live
start_server host "listen=tcp://127.0.0.1:$port"
wait_for "the client is not ready again" becomes 0 '^ready: ' "$SPLITC" "$tmp/one.yaml" --ready
signal INT "$one"
ends_with "$one" 75 $patience 'the run'
probe 69 'nobody answers' "$SPLITC" "$tmp/one.yaml" --ready # it is paused, with a model

# ---- finished
"$SPLITC" train "$tmp/one.yaml" --fresh --set train.epochs=1 >"$tmp/done.log" 2>&1 || fail "a short run: status $?"
probe 0 "^ready: the run in $tmp/one is done$" "$SPLITC" "$tmp/one.yaml" --ready
probe 0 '' "$SPLITC" "$tmp/one.yaml" --ready --quiet
probe 69 'nobody answers' "$SPLITC" "$tmp/one.yaml" --live
probe 69 'nobody answers' "$SPLITC" --ready
# ---- a client that never reached its server
"$SPLITC" train "$tmp/one.yaml" --fresh --set server=tcp://127.0.0.1:1 >"$tmp/never.log" 2>&1 &
started+=($!)
wait_for "a client without a server has done a batch" becomes 69 '^splitc: not ready: no link to tcp://127.0.0.1:1; no batch yet$' "$SPLITC" "$tmp/one.yaml" --ready
signal INT $!
ends_with $! 69 $patience 'the client without a server'
# A local run that is stopped leaves a model and no checkpoint, as a finished one does.
stopped=("$tmp/one.yaml" --set log.dir="$tmp/stopped")
"$SPLITC" train "${stopped[@]}" --local >"$tmp/stopped.log" 2>&1 &
started+=($!)
wait_for "no steps of the local run" has_steps stopped 3
signal INT $!
ends_with $! 75 $patience 'the local run'
probe 69 'nobody answers' "$SPLITC" "${stopped[@]}" --ready
rc=0
"$SPLITC" train "${stopped[@]}" --resume >"$tmp/stopped.log" 2>&1 || rc=$?
[ $rc = 66 ] && grep -q 'the run there was stopped before its end' "$tmp/stopped.log" || fail "--resume of a local run that was stopped: status $rc"
[ -z "$(ls "$XDG_RUNTIME_DIR")" ] || fail "sockets are left: $(ls "$XDG_RUNTIME_DIR")"
echo passed
