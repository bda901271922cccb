#!/usr/bin/env bash
# What must end within a bound: a task that hangs (watchdog_s: status 75, on either side); SIGTERM in the middle of a
# step (drain_s: status 0, and --resume gives the undisturbed run); SIGTERM while a task hangs; a second signal (at
# once). The store drops what is unused for store_ttl_s or exceeds store_bytes, but nothing that a live session needs.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
make_data 320 16
port=$(free_port)
endpoint=tcp://127.0.0.1:$port
write_config "$tmp/client.yaml"
sets=(--set train.checkpoint_every=5 --set codec=quant:8 --set link.retry_ms=20 --set link.heartbeat_ms=100
	--set link.timeout_ms=20000 --set link.on_server_lost=wait --set train.epochs=2)
steps=40

# serve FAILPOINTS [key=value]…
serve() {
	export SPLIT_FAILPOINTS=$1
	start_server server "listen=$endpoint" "${@:2}"
	unset SPLIT_FAILPOINTS
}
# go FAILPOINTS NAME [argument]…: starts a client; sets $client_pid.
go() {
	export SPLIT_FAILPOINTS=$1
	start_client "$2" "$tmp/client.yaml" "${sets[@]}" "${@:3}"
	unset SPLIT_FAILPOINTS
}
# ended PID STATUS MS WHAT: the process ended with STATUS within MS ms since clock_starts.
ended() {
	ends_with "$1" "$2" $patience "$4"
	[ -n "${SAN:-}" ] || clock_within "$3" "$4"
}
stop_server() { signal TERM "$server_pid"; ends_with "$server_pid" 0 $patience "the server"; }
says() { grep -q "$2" "$tmp/$1.log" || fail "$1 does not say '$2'"; }

# ---- the watchdog. An exit handler would wait for ever here, as OpenBLAS's does for a thread that hangs: it opens a pipe
# that nobody reads.
mkfifo "$tmp/never"
SPLIT_FAILPOINTS_COUNT=$tmp/never serve server.apply=delay:20000@4 watchdog_s=1
go '' hung
at_point server server.apply
clock_starts
ended "$server_pid" 75 8000 "the server whose task hangs"
says server 'a task on cpu.* has run for [0-9]* s (watchdog_s is 1)'
kill -0 "$client_pid" || fail "the client did not wait for its server"
serve ''
ends_with "$client_pid" 0 $patience "the client whose server hung"
SPLIT_FAILPOINTS_COUNT=$tmp/never go client.apply=delay:20000@4 hung2 --set watchdog_s=1
at_point hung2 client.apply
clock_starts
ended "$client_pid" 75 8000 "the client whose task hangs"
says hung2 'a task has run for .* s (watchdog_s is 1)'
same_run hung hung $steps
go client.apply=delay:20000@4 hung4 --set watchdog_s=3 --set link.timeout_ms=1000
at_point hung4 client.apply
clock_starts
end_process "$server_pid"
ended "$client_pid" 75 8000 "the client whose task hangs when its server is lost"
says hung4 'a task has run for .* s (watchdog_s is 3)'
serve ''
for epochs in 2 20000; do # its run is over by then; is not
	go ckpt.sync=delay:20000 "disk$epochs" --set watchdog_s=1 --set "train.epochs=$epochs"
	at_point "disk$epochs" ckpt.sync
	clock_starts
	ended "$client_pid" 75 8000 "the client whose disk hangs"
done

# ---- a device that fails while it applies a step: its state then belongs to no step and must not be kept
stop_server
serve server.codecs=EIO@8
go '' torn
ends_with "$client_pid" 0 $patience "the client whose server failed in a commit"
says server 'session-failed: .* DEVICE'
same_run hung torn $steps
go client.codecs=EIO@8 torn2
ends_with "$client_pid" 0 $patience "the client that failed in a commit"
says torn2 '^WARN server-lost: COMMIT of .*: device error'
same_run hung torn2 $steps

# ---- SIGTERM to each side in the middle of a step
go client.begin=term@7,client.apply=delay:400@7 term
at_point term client.begin
clock_starts
ended "$client_pid" 75 4000 "the client that is stopped in a step"
! grep 'pause-unsure' "$tmp/term.log" || fail "the server has kept its side, the client does not know"
[ "$(steps_of term)" = 7 ] || fail "$(steps_of term) steps, not 7, are in the log"
stop_server
serve server.commit=term@3,server.apply=delay:400@3
go '' term --resume
at_point server server.commit
clock_starts
ended "$server_pid" 0 4000 "the server that is stopped in a step"
serve ''
ends_with "$client_pid" 0 $patience "the resumed client"
same_run hung term $steps

# ---- SIGTERM after the goodbye: the run is finished, and remains so
SPLIT_FAILPOINTS_COUNT=$tmp/count go client.leave=term done
ends_with "$client_pid" 0 $patience "the client that is stopped when it is done"
kept=$(awk '$1 == "client.keep" {print $2}' "$tmp/count")
[ "$kept" = $((steps / 5)) ] || fail "$kept checkpoints in $steps steps, not $((steps / 5)): evaluations have none"
grep -q ' failpoint: client.leave, ' "$tmp/done.log" || fail "it was not stopped"
grep -q '"outcome":"finished"' "$tmp/done/log.jsonl" || fail "a run that was done is not"
! ls "$tmp"/done/checkpoint-* >/dev/null 2>&1 || fail "a run that was done left checkpoints"
same_run hung done $steps

# ---- the step does not end within drain_s: the run is paused before that step
stop_server
serve port.whole=delay:20000@30
go '' late --set drain_s=1
at_point server port.whole
clock_starts
signal TERM "$client_pid"
ended "$client_pid" 75 4000 "the client whose server is slow"
says late '^WARN pause-unsure: '
end_process "$server_pid"
serve ''
go '' late --resume
ends_with "$client_pid" 0 $patience "the client that was paused before a step"
says late '^WARN steps-lost: .* step 3, the server from step 0: ' # it died before it heard of the pause
same_run hung late $steps

# ---- an evaluation does not end within drain_s: none of it is kept, and the run cannot be resumed
stop_server
serve port.whole=delay:20000@3
"$SPLITC" eval "$tmp/client.yaml" "${sets[@]}" --set log.dir="$tmp/late" --set drain_s=1 --set control="$tmp/eval.sock" >"$tmp/eval.log" 2>&1 &
client_pid=$!
started+=("$client_pid")
at_point server port.whole
clock_starts
signal TERM "$client_pid"
ended "$client_pid" 75 4000 "the evaluation whose server is slow"
! grep -E 'resume|pause|step' "$tmp/eval.log" || fail "an evaluation has no steps to go on from"
end_process "$server_pid"

# ---- drain_s expires while the client applies a step: the state it keeps includes that step
serve server.apply=delay:1500@6
go client.asked=term@6,client.applied=delay:2500@6 applied --set drain_s=3
at_point applied client.asked
clock_starts
ended "$client_pid" 75 7000 "the client that was applying a step"
[ "$(steps_of applied)" = 6 ] || fail "$(steps_of applied) steps, not 6, are in the log"
says applied '^WARN pause-unsure: '
go '' applied --resume
ends_with "$client_pid" 0 $patience "the client that was paused while it applied a step"
grep -q 'session-open: .*, from step 6$' "$tmp/applied.log" || fail "it did not go on from step 6"
same_run hung applied $steps

# ---- drain_s expires while the server applies a step: the client cannot know whether that step is done, so it keeps nothing of it
stop_server
serve server.apply=hold@6
go '' unsure --set drain_s=2
at_point server server.apply
clock_starts
signal TERM "$client_pid"
ended "$client_pid" 69 5000 "the client whose step is in doubt"
says unsure 'not stopped within 2 s (drain_s); --resume goes on from the last checkpoint'
[ "$(steps_of unsure)" = 5 ] || fail "$(steps_of unsure) steps, not 5, are in the log"
let_go server
go '' unsure --resume
ends_with "$client_pid" 0 $patience "the client whose step was in doubt"
grep -q 'session-open: .*, from step 5$' "$tmp/unsure.log" || fail "it did not go on from step 5"
same_run hung unsure $steps

# ---- the link is lost while the client applies a step: that step is done, and the next one has its own batch
go client.applied=hold@6 lost
at_point lost client.applied
stop_server
serve ''
let_go lost
ends_with "$client_pid" 0 $patience "the client that lost its link while it applied a step"
! grep 'steps-lost' "$tmp/lost.log" || fail "what both sides had applied was lost"
same_run hung lost $steps

# ---- drain_s of a client whose task hangs, and of such a server
go client.apply=delay:20000@4 stuck --set drain_s=1
at_point stuck client.apply
clock_starts
signal TERM "$client_pid"
ended "$client_pid" 75 4000 "the client that hangs"
# The task hangs only after the signal, so the loop must keep checking for it.
stop_server
serve server.apply=delay:1500@6
go client.asked=term@6,client.apply=delay:30000@6 stuck2 --set drain_s=3
at_point stuck2 client.apply
clock_starts
ended "$client_pid" 75 8000 "the client that hangs behind a signal"
says stuck2 'a task did not end within 3 s (drain_s)'
stop_server
serve server.chosen=delay:20000 drain_s=1
go '' unopened
at_point server server.chosen
clock_starts
signal TERM "$server_pid"
ended "$server_pid" 75 4000 "the server that opens a session, and hangs"
end_client
serve ''

# ---- drain_s of a server whose task hangs, and a second signal
stop_server
for second in '' yes; do
	SPLIT_FAILPOINTS_COUNT=$tmp/never serve server.apply=delay:20000@3 drain_s=$([ -n "$second" ] && echo 60 || echo 1)
	go '' "drain$second"
	at_point server server.apply
	clock_starts
	signal TERM "$server_pid"
	[ -z "$second" ] || { wait_for "no word of the first signal" grep -q shutdown: "$tmp/server.log"; signal TERM "$server_pid"; }
	ended "$server_pid" "$([ -n "$second" ] && echo 69 || echo 75)" 4000 "the server that hangs${second:+, signalled twice}"
	end_client
done

# ---- a server accepts the connection but delays the first step: the client says so, not that the server is missing
serve server.chosen=hold
go '' slow
wait_for "not a word of a server that prepares" grep -q '^INFO preparing: .* has answered, and prepares this run$' "$tmp/slow.log"
let_go server
ends_with "$client_pid" 0 $patience "the client of a server that takes its time"
end_process "$server_pid"

# ---- the store
ls "$tmp/store" | grep -q session- || fail "no session's files in the store"
serve '' store_ttl_s=2
touch "$tmp/store/notes.txt" "$tmp/store/0123.f32"
touch -d '1 hour ago' "$tmp/store/notes.txt" "$tmp/store/0123.f32"
go '' live --set train.epochs=40000 --set train.optimizer.lr=0.002
wait_for "ten steps" has_steps live 10
ask "$SPLITS" "$tmp/server.sock" "$tmp/status.json"
id=$(jq -r '.sessions[0].id' "$tmp/status.json")
wait_for "old sessions are still there" sh -c "! ls '$tmp/store' | grep session- | grep -v '$id'"
signal STOP "$client_pid"
sleep 3
ls "$tmp/store" | grep -q "session-$id" || fail "the files of a live session are gone"
[ -e "$tmp/store/notes.txt" ] && [ -e "$tmp/store/0123.f32" ] || fail "somebody else's file is gone"
ask "$SPLITS" "$tmp/server.sock" "$tmp/status.json"
jq -e '.store_files >= 1 and .store_bytes > 0 and .store_oldest_s >= 0' "$tmp/status.json" >/dev/null || fail "status: $(cat "$tmp/status.json")"
in_table() { "$SPLITS" status --control "$tmp/server.sock" | grep -qE '^store: [0-9]+ files, '; }
wait_for "status does not speak of the store" in_table
end_process "$client_pid" "$server_pid"
serve '' store_ttl_s=2
wait_for "a dead session's files stay" sh -c "! ls '$tmp/store' | grep -q session-"
echo passed
