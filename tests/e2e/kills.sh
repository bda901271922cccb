#!/usr/bin/env bash
# Kills after which a run of 12 steps goes back by more than one step, or by another path. Each case ends as the
# undisturbed run, or as one that took the same path without kills: two kills between two checkpoints; a server that
# lost its store while a commit was in doubt; steps that the run undid and reached again with another learning rate; a
# link that is lost twice while the loader still prepares a batch.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 192 16
port=$(free_port)
endpoint=tcp://127.0.0.1:$port
write_config "$tmp/client.yaml"
client undisturbed "$tmp/client.yaml" --local || fail "the undisturbed run: status $?"
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
exits=(--set train.checkpoint_every=6 --set link.on_server_lost=exit --set link.heartbeat_ms=50 --set link.timeout_ms=3000)
waits=(--set train.checkpoint_every=3 --set link.on_server_lost=wait --set link.retry_ms=20 --set link.heartbeat_ms=50
	--set link.timeout_ms=1000 --set link.connect_timeout_ms=1000)
six=000000000006.safetensors

# serve NAME RUN [key=value]…: each run has a store of its own.
serve() { start_server "$1" listen="$endpoint" store="$tmp/store-$2" "${@:3}"; }
# life RUN SERVER CLIENT SERVER_STATUS CLIENT_STATUS [argument]…: runs both with these failpoints until both have ended.
# Without CLIENT_STATUS the client keeps running. In step 7, its first step after a resume, the client waits until both
# sides have checkpoint 6.
life() {
	local run=$1 at=7
	! has_checkpoint "$run" || at=1
	SPLIT_FAILPOINTS=$2 serve dies "$run"
	start_failing_client "client.apply=hold@$at${3:+,$3}" "$run" "$tmp/client.yaml" "${@:6}"
	case $3 in *hold@4) # or a checkpoint at step 6 is left out, where that at step 3 is still being written
		wait_for "$run has no first checkpoint" test -e "$tmp/$run/checkpoint-000000000003.safetensors"
		let_go "$run"
		;;
	esac
	at_point "$run" client.apply
	wait_for "$run has no checkpoint" test -e "$tmp/$run/checkpoint-$six"
	wait_for "the server has no checkpoint of $run" compgen -G "$tmp/store-$run/session-*-$six" >"$tmp/out"
	let_go "$run"
	ends_with "$server_pid" "$4" $patience "$run: the server"
	[ -z "$5" ] || ends_with "$client_pid" "$5" $patience "$run: the client"
}
# goes_on RUN TWIN [argument]…: resumes from step 6 to the end; the run must equal TWIN.
goes_on() {
	serve lives "$1"
	client "$1" "$tmp/client.yaml" "${@:3}" || fail "$1: status $?"
	grep -q 'from step 6$' "$tmp/$1.log" || fail "$1 goes on from another step: $(grep 'from step' "$tmp/$1.log")"
	same_run "$2" "$1" 12
	end_process "$server_pid"
}
cut_9=port.whole=kill@70 # in the ninth step: eight tensors come in each

# ---- the server's store is lost: the client holds the step, the one before and two checkpoints; the next server has none of them
life lost server.apply=kill@8 client.codecs=hold@4 137 '' "${waits[@]}"
rm -r "$tmp/store-lost"
serve empty lost
ends_with "$client_pid" 0 $patience "the client whose server lost everything"
grep -q '^WARN steps-lost: .* step 7, the server from step 0: ' "$tmp/lost.log" || fail "steps were lost without a word"
same_run undisturbed lost 12
end_process "$server_pid"
[ -z "${SPLIT_QUICK:-}" ] || exit 0

# ---- killed twice: each time the run ends with its link, and the client keeps its state of a step that the server lacks
kept() { grep -o 'state after step [0-9]*' "$tmp/twice.log" | grep -o '[0-9]*$' || fail "it keeps nothing of its last step"; }
life twice $cut_9 '' 137 69 "${exits[@]}"
first=$(kept)
life twice port.whole=kill@37 '' 137 69 "${exits[@]}" --resume
grep -q 'from step 6$' "$tmp/twice.log" || fail "not from the step that both have"
second=$(kept)
[ "$first" -gt 6 ] && [ "$second" -gt "$first" ] && [ "$second" -lt 12 ] || fail "killed at other steps than meant: $first, $second"
[ ! -f "$tmp/twice/checkpoint-$(printf %012d "$first").safetensors" ] || fail "what the run went back behind is still there"
goes_on twice undisturbed "${exits[@]}" --resume

# ---- another path: the server has step 8, is told to stop after it, and the client dies there; or the client has step 8, and the
# server is killed in the next step. Then, with another learning rate, the other side reaches step 8 again
other=("${exits[@]}" --set train.optimizer.lr=0.01 --resume)
# past STALE FIRST THEN AGAIN: lives of SERVER CLIENT SERVER_STATUS CLIENT_STATUS, separated by |, and the state after
# the second.
past() {
	local first again
	IFS='|' read -r -a first <<<"$2"
	IFS='|' read -r -a again <<<"$3"
	life "$1" "${first[@]}" "${exits[@]}"
	cp -r "$tmp/$1" "$tmp/$1-straight"
	cp -r "$tmp/store-$1" "$tmp/store-$1-straight"
	goes_on "$1-straight" "$1-straight" "${other[@]}"
	life "$1" "${again[@]}" "${other[@]}"
	compgen -G "$4" >"$tmp/out" || fail "$1: the other side has not come by step 8 again"
	goes_on "$1" "$1-straight" "${other[@]}"
}
past server 'server.answered=term@8|client.answer=kill@8|0|137' 'port.whole=kill@20||137|69' "$tmp/server/checkpoint-000000000008.safetensors"
past client "$cut_9||137|69" 'server.answered=term@2|client.answer=kill@2|0|137' "$tmp/store-client/session-*-000000000008.safetensors"

# ---- the run goes back while the loader still prepares a batch, and the next link is lost, too, before that batch arrives
times() { [ "$(grep -c "$2" "$tmp/owed.log")" -ge "$1" ]; }
serve one owed store=
start_failing_client client.load=hold@6 owed "$tmp/client.yaml" "${waits[@]}" --set train.checkpoint_every=0 --set data.prefetch=1 --set data.threads=1
at_point owed client.load
wait_for 'the steps before it' has_steps owed 4
end_process "$server_pid"
wait_for 'the first loss' times 1 ' server-lost: '
serve two owed store=
wait_for 'the link at step 0' times 2 ' session-open: .*, from step 0$'
end_process "$server_pid"
wait_for 'the second loss' times 2 ' server-lost: '
[ "$(steps_of owed)" = 0 ] || fail "the run has not gone back"
let_go owed # the batch comes, and no link stands
serve three owed store=
ends_with "$client_pid" 0 $patience "the run"
same_run undisturbed owed 12
echo passed
