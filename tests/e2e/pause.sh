#!/usr/bin/env bash
# A run that is interrupted (client: SIGINT; server: SIGTERM, while the client waits) and resumed equals the undisturbed
# run.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 320 64
port=$(free_port)
serve() { start_server server "listen=tcp://127.0.0.1:$port"; }
# serve_failing FAILPOINTS: replaces the server by one with failpoints.
serve_failing() {
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "the server"
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=$1 serve
}
serve
write_config "$tmp/client.yaml"
sets=()
for pair in train.epochs=6 link.on_server_lost=wait link.retry_ms=20 link.heartbeat_ms=100 link.timeout_ms=2000 \
	train.checkpoint_every=0 codec=quant:8; do
	sets+=(--set "$pair")
done
client undisturbed "$tmp/client.yaml" "${sets[@]}" || fail "the undisturbed run: status $?"

# ---- log.dir is moved while a run writes, and a second run takes the name: each keeps what is its own
client_stands 5 moved "$tmp/client.yaml" "${sets[@]}" --set train.checkpoint_every=2
wait_for 'no checkpoint' has_checkpoint moved
mv "$tmp/moved" "$tmp/first"
first_pid=$client_pid
client second "$tmp/client.yaml" "${sets[@]}" --set train.seed=9 --set log.dir="$tmp/moved" || fail "the second run: status $?"
find "$tmp/moved" -type f -exec sha256sum {} + | sort >"$tmp/before"
let_go moved
ends_with "$first_pid" 73 $patience 'the run whose folder was moved'
grep -q '^splitc: .*moved is not the folder any more in which this process writes' "$tmp/moved.log" || fail 'no sentence'
find "$tmp/moved" -type f -exec sha256sum {} + | sort | cmp -s - "$tmp/before" || fail "it has changed the other run's folder"
mv "$tmp/moved" "$tmp/other"
mv "$tmp/first" "$tmp/moved"
client moved "$tmp/client.yaml" "${sets[@]}" --set train.checkpoint_every=2 --resume || fail "with its name again: status $?"
same_run undisturbed moved 120

# ---- the same with a server's store: another server takes its name, and the first one touches nothing of it. It says that
# it keeps no checkpoint any more, and does so again once the folder has its name back.
client_stands 10 awaits "$tmp/client.yaml" "${sets[@]}"
stops awaits TERM
start_slow_client 1 20 stored "$tmp/client.yaml" "${sets[@]}" --set train.checkpoint_every=2 --set train.epochs=1000
wait_for 'no checkpoint' has_checkpoint stored
mv "$tmp/store" "$tmp/first store"
mkdir -m 700 "$tmp/store"
find "$tmp/first store" -name '*.f32' -exec cp -p {} "$tmp/store" ';'
: >"$tmp/store/lock"
find "$tmp/store" -printf '%p %T@ %s\n' | sort >"$tmp/before"
wait_for 'the server does not say that its store was moved' grep -q 'WARN checkpoint-write: .*store is not the folder any more in which this process writes' "$tmp/server.log"
wait_for 'the client does not hear of it' grep -q 'WARN checkpoint-missed' "$tmp/stored.log"
client newcomer "$tmp/client.yaml" "${sets[@]}" --set train.epochs=1 --set train.seed=5 || fail "a run beside it: status $?"
find "$tmp/store" -printf '%p %T@ %s\n' | sort | cmp -s - "$tmp/before" || fail "it has changed the other server's store: $(ls -la "$tmp/store")"
rc=0
"$SPLITC" train "$tmp/client.yaml" "${sets[@]}" --set log.dir="$tmp/awaits" --resume --set control="$tmp/awaits.sock" >"$tmp/awaits.log" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q '^splitc: .*no common step .*: is its store another one?' "$tmp/awaits.log" ||
	fail "a run whose state is in the folder that was moved: status $rc, $(cat "$tmp/awaits.log")"
find "$tmp/first store" -name 'session-*' -printf '%f\n' | sort >"$tmp/then"
mv "$tmp/store" "$tmp/other store"
mv "$tmp/first store" "$tmp/store"
newer() { find "$tmp/store" -name 'session-*' -printf '%f\n' | sort | comm -13 "$tmp/then" - | grep -q .; }
wait_for 'no checkpoint in the folder that has its name back' newer
end_client

# The server must have its state on disk before the client reports the pause. Here the server dies when it hears of the
# pause.
serve_failing server.last=kill
client_stands 10 died "$tmp/client.yaml" "${sets[@]}"
stops died
grep -q '^INFO paused: ' "$tmp/died.log" || fail "it does not say that it paused"
! grep 'pause-unsure' "$tmp/died.log" || fail "the server has kept its side, the client does not know"
ends_with "$server_pid" 137 $patience "the server that hears of the pause"
serve
client died "$tmp/client.yaml" "${sets[@]}" --resume || fail "the run whose server died at its pause: status $?"
same_run undisturbed died 120
! grep -q 'steps-lost' "$tmp/died.log" || fail "what was paused was lost: $(grep steps-lost "$tmp/died.log")"

client_stands 10 paused "$tmp/client.yaml" "${sets[@]}"
stops paused
ls "$tmp"/paused/checkpoint-*.safetensors >/dev/null || fail "no checkpoint after SIGINT"
wait_for "the server says nothing of the pause" grep -q '^INFO session-paused: ' "$tmp/server.log"
! grep 'session-failed' "$tmp/server.log" || fail "the server takes a pause for a failure"
gone() { "$SPLITS" status --control "$tmp/server.sock" --json >"$tmp/status.json" && jq -e '.sessions == []' "$tmp/status.json" >/dev/null; }
wait_for "the paused session is still there" gone
jq -e '.links == 2 and .lost == 0' "$tmp/status.json" >/dev/null || fail "a pause is counted as a lost link: $(jq -c '[.links, .lost]' "$tmp/status.json")"
[ "$(steps_of paused)" -lt 120 ] || fail "it was over before it was interrupted"
ls "$tmp/paused" >"$tmp/before"
for again in '' --local; do
	rc=0
	"$SPLITC" train "$tmp/client.yaml" $again "${sets[@]}" --set log.dir="$tmp/paused" 2>"$tmp/again.log" || rc=$?
	[ $rc = 73 ] && grep -q "holds an unfinished run, at step [0-9]*: --resume goes on" "$tmp/again.log" ||
		fail "a run begins anew over an unfinished one: status $rc"
done
ls "$tmp/paused" | cmp -s - "$tmp/before" || fail "a run that was not begun has changed the folder"
serve_failing server.commit=term@25
start_client paused "$tmp/client.yaml" "${sets[@]}" --resume
ends_with "$server_pid" 0 $patience "the server"
serve
ends_with "$client_pid" 0 $patience "the resumed client"
same_run undisturbed paused 120
! ls "$tmp"/paused/checkpoint-*.safetensors >/dev/null 2>&1 || fail "checkpoints are left behind a finished run"
! grep -q 'steps-lost' "$tmp/paused.log" || fail "nothing was lost: $(grep steps-lost "$tmp/paused.log")"
! grep 'resume-changed' "$tmp/paused.log" || fail "its settings are the same"

# Stopped while the loader still prepares a batch, which arrives later: no step may begin with it. One batch before is
# the test set's.
start_failing_client client.load=hold@4 owed "$tmp/client.yaml" "${sets[@]}" --set drain_s=600 --set data.threads=1 --set data.prefetch=1
wait_for "two steps" has_steps owed 2
stops owed TERM
[ "$(steps_of owed)" = 2 ] || fail "$(steps_of owed) steps, not 2: one was begun behind the signal"

# The server shuts down, or the client is silent for longer than the link's timeout: the run ends with its link. It is
# resumed from the last completed step, unless COMMIT was in flight. A killed server has nothing of the run. A client that
# waits for the server that shut down, and is interrupted then, has kept as much.
kept=0
for how in told waits stood stood-again killed; do
	lost=exit
	[ $how != waits ] || lost=wait
	client_stands 10 $how "$tmp/client.yaml" "${sets[@]}" --set link.on_server_lost=$lost
	case $how in
	told | waits)
		signal TERM "$server_pid"
		wait_for "the server does not say that it ends" grep -q ' shutdown: ' "$tmp/server.log"
		;;
	killed)
		end_process "$server_pid"
		;;
	stood*)
		signal STOP "$client_pid"
		noticed=$(grep -c '^WARN session-failed: .*nothing heard' "$tmp/server.log" || true)
		has_noticed() { [ "$(grep -c '^WARN session-failed: .*nothing heard' "$tmp/server.log")" -gt "$noticed" ]; }
		wait_for "the server does not notice" has_noticed
		signal CONT "$client_pid"
		;;
	esac
	let_go $how
	if [ $how = waits ]; then
		wait_for 'it does not wait for the server' grep -q '^WARN server-lost: ' "$tmp/waits.log"
		signal INT "$client_pid"
	fi
	ends_with "$client_pid" 69 $patience "the client whose server is lost ($how)"
	case $how in told | waits) ends_with "$server_pid" 0 $patience "the server" ;; esac
	case $how in
	stood*) ! grep -q 'nothing heard from the server' "$tmp/$how.log" || fail "$how: a suspended client blames the server: $(tail -2 "$tmp/$how.log")" ;;
	*) serve ;;
	esac
	at=$(sed -n 's/^INFO kept: .* state after step \([0-9]*\): .*/\1/p' "$tmp/$how.log")
	[ $how != waits ] || [ -n "$at" ] || fail "a client that waited has kept nothing: $(cat "$tmp/waits.log")"
	[ -z "$at" ] || kept=$((kept + 1))
	rc=0
	client $how "$tmp/client.yaml" "${sets[@]}" ${at:+--resume} || rc=$?
	[ $rc = 0 ] || fail "the run that lost its server ($how): status $rc"
	[ -z "$at" ] || [ $how = killed ] || grep -q "from step $at\$" "$tmp/$how.log" || fail "$how: not from step $at: $(cat "$tmp/$how.log")"
	same_run undisturbed $how 120
done
[ $kept -ge 1 ] || fail "nothing was kept at any of these ends: $(cat "$tmp/told.log" "$tmp/stood.log")"

# A run that is resumed with other settings is not the same run, and is told so.
client_stands 10 changed "$tmp/client.yaml" "${sets[@]}"
stops changed
client changed "$tmp/client.yaml" "${sets[@]}" --set train.epochs=5 --set data.flip=false --resume || fail "other settings: status $?"
grep -q '^WARN resume-changed: from step [0-9]* on this run differs from the one before: train.epochs was 6, is 5; data.flip was true, is false$' \
	"$tmp/changed.log" || fail "other settings, and not a word: $(cat "$tmp/changed.log")"
[ "$(steps_of changed)" = 100 ] || fail "five epochs have $(steps_of changed) steps"

# With a server that keeps no state, the run begins anew and says so.
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience "the server that keeps states"
start_server server "listen=tcp://127.0.0.1:$port" store=
client_stands 10 forgotten "$tmp/client.yaml" "${sets[@]}" --set train.checkpoint_every=2
[ "$(grep -c 'so this session cannot be resumed: name a folder in `store`' "$tmp/server.log")" = 1 ] ||
	fail "what a server without a store says: $(cat "$tmp/server.log")"
stops forgotten
grep -q '^WARN pause-unsure: the server has not confirmed that its state is on its disk: .* no `store`' "$tmp/forgotten.log" || fail "an unsure pause is not said to be one"
cp -r "$tmp/forgotten" "$tmp/fresh"
client forgotten "$tmp/client.yaml" "${sets[@]}" --resume || fail "the run that begins anew: status $?"
grep -qE "^WARN steps-lost: .* step [0-9]+, the server from step 0: .*\`store\`" "$tmp/forgotten.log" || fail "steps were lost without a word"
same_run undisturbed forgotten 120

# --fresh overwrites a run; a folder is used by one run at a time; a hangup of the terminal pauses the run.
rm "$tmp/fresh/log.jsonl"
start_client fresh "$tmp/client.yaml" "${sets[@]}" --set train.epochs=100000 --fresh
wait_for "ten steps" has_steps fresh 10
grep -q 'from step 0$' "$tmp/fresh.log" || fail "--fresh did not begin anew: $(cat "$tmp/fresh.log")"
rc=0
"$SPLITC" train "$tmp/client.yaml" "${sets[@]}" --fresh --set log.dir="$tmp/fresh" --set control="$tmp/second.sock" 2>"$tmp/second.log" || rc=$?
[ $rc = 75 ] && grep -q 'another run is writing it' "$tmp/second.log" || fail "two runs in one folder: status $rc"
signal HUP "$client_pid"
ends_with "$client_pid" 75 $patience "the client whose terminal is closed"
ls "$tmp"/fresh/checkpoint-*.safetensors >/dev/null || fail "no checkpoint after SIGHUP"
