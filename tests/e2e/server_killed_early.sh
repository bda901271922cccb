#!/usr/bin/env bash
# A server is killed before it has a checkpoint of the step that the client resumes from. --resume finds a step that
# both sides hold, or begins anew if there is none, and the weights equal those of an undisturbed run.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
mkdir "$tmp/table"
for part in train test; do
	awk 'BEGIN { print "a,b,c,label"; for (i = 0; i < 64; i++) printf "%d,%d,%d,%d\n", i * 7 % 11, i * 5 % 13, i % 4, i % 3 }' >"$tmp/table/$part.csv"
done
port=$(free_port)
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:$port
	model: {name: mlp, classes: 3, features: 3, width: 0.1}
	data: {kind: csv, dir: $tmp/table}
	train: {batch: 8, chunks: 1, epochs: 2, seed: 3, checkpoint_every: 100, optimizer: {lr: 0.02}}
	link: {retry_ms: 20, heartbeat_ms: 200, timeout_ms: 4000}
	threads: 1
YAML
serve() { SPLIT_FAILPOINTS=$1 start_server "host$2" listen="tcp://127.0.0.1:$port" store="$tmp/store-$3"; }

# life WANT FAILPOINTS NAME [argument]…
life() {
	local want=$1 points=$2 rc=0
	shift 2
	SPLIT_FAILPOINTS=$points client "$1" "$tmp/client.yaml" "${@:2}" || rc=$?
	[ $rc = "$want" ] || fail "$*: status $rc: $(tail -n 2 "$tmp/$1.log")"
}

# lost NAME POINT [argument]…: the server is killed at POINT, and the client ends; then a new server is started.
lost() {
	serve "$2" 1 "$1"
	life 69 '' "$1" "${@:3}"
	ends_with "$server_pid" 137 $patience "the server of $1"
	serve '' 2 "$1"
}
ended() { end_process "$server_pid"; }

# Only the client has that checkpoint, and a later life reaches the same step before it is killed.
lost early port.whole=kill@7
[ -e "$tmp/early/checkpoint-000000000003.safetensors" ] || fail 'no checkpoint of step 3'
life 137 client.logged=kill@3 early --resume
life 0 '' early --resume
life 0 '' local --local
same_run early local 16
ended

# A run that is made longer does not begin anew.
longer=(--resume --set train.epochs=4 --set train.optimizer.lr=0.01)
serve '' 0 longer
life 0 '' longer
life 0 '' whole
life 0 '' whole "${longer[@]}"
ended
lost longer port.whole=kill@5 "${longer[@]}"
life 0 '' longer "${longer[@]}"
grep -q 'session-open: .*, from step 16$' "$tmp/longer.log" || fail "it did not go on from where it was done: $(grep open "$tmp/longer.log")"
same_run longer whole 32
ended

# The server has a step of an earlier link on its disk, and dies while the client's next step is in doubt.
doubt=(--set train.checkpoint_every=3 --set link.on_server_lost=wait)
serve server.apply=kill@8 1 doubt
client_dies client.answer@7 doubt "$tmp/client.yaml" "${doubt[@]}"
start_client doubt "$tmp/client.yaml" "${doubt[@]}" --resume
ends_with "$server_pid" 137 $patience 'the server of a step in doubt'
serve '' 2 doubt
ends_with "$client_pid" 0 $patience 'the client of a step in doubt'
same_run doubt local 16
ended

# The second phase begins where the first one ended.
make_data 24 12
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:$port
	model: {name: mobilenet_v2, image: 16, width: 0.1}
	data: {kind: cifar10, dir: $tmp/data, train_files: [data_batch_1.bin], train_limit: 24, test_limit: 12}
	train: {batch: 8, chunks: 1, checkpoint_every: 100, phases: [{epochs: 1}, {epochs: 1, lr: 0.5}], optimizer: {lr: 0.02}}
	link: {retry_ms: 20, heartbeat_ms: 200, timeout_ms: 4000}
	threads: 1
YAML
life 0 '' phases --local
lost phase port.whole=kill@11
[ -e "$tmp/phase/finished-000000000003.safetensors" ] && [ -e "$tmp/phase/checkpoint-000000000004.safetensors" ] || fail "not in the second phase: $(ls "$tmp/phase")"
life 0 '' phase --resume
same_run phase phases 6
ended
echo passed
