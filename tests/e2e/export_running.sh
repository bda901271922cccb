#!/usr/bin/env bash
# splitc export while a run trains, is paused, was killed, or has lost its server; also train.keep_best, over --resume.
# The export is the model after the step that it names: that of a run which ended there. It does not change the run.
set -eu
cd "$(dirname "$0")/../.."
# On tmpfs fsync takes no time. On a slow disk a checkpoint would be skipped while the previous one is still being
# written.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. tests/e2e/lib/daemons.sh
port=$(free_port)
make_data 64 40
start_server host listen="tcp://127.0.0.1:$port"
write_config "$tmp/client.yaml"
# a learning rate that does not depend on where the run ends
sed -i 's/schedule: {.*}/schedule: {kind: constant}\n  checkpoint_every: 3\n  eval_every: 1/; s/epochs: 1/epochs: 4/' "$tmp/client.yaml"

# export_model NAME RUN [argument]…: writes $tmp/NAME.safetensors; sets $at, the step that the export names.
export_model() {
	local rc=0
	rm -f "$tmp/$1.safetensors"
	timeout -k 5 $patience "$SPLITC" export "$tmp/client.yaml" "$tmp/$1.safetensors" --set log.dir="$tmp/$2" --set control="$tmp/$2.sock" \
		"${@:3}" >"$tmp/$1.log" 2>&1 || rc=$?
	[ $rc = "${status:-0}" ] || fail "export $1: exit status $rc, not ${status:-0}"
	at=$(at_of "$1")
}
at_of() { sed -n 's/.* tensors, after step \([0-9]*\)$/\1/p' "$tmp/$1.log"; }
# is_of NAME STEP: the file equals, byte for byte, the export of a run that ended at STEP.
is_of() {
	[ "$at" = "$2" ] || fail "$1 is behind step $at, not $2: $(cat "$tmp/$1.log")"
	if [ ! -f "$tmp/until-$2.safetensors" ]; then
		client "until-$2" "$tmp/client.yaml" --local --set train.max_steps="$2" || fail "a run of $2 steps"
		local at
		export_model "until-$2" "until-$2"
	fi
	local file
	for file in "$1" "until-$2"; do
		python3 - "$tmp/$file.safetensors" >"$tmp/$file.whole" <<-'PY' || fail "$file cannot be read"
			import json, struct, sys
			data = open(sys.argv[1], "rb").read()
			end = 8 + struct.unpack("<Q", data[:8])[0]
			header = json.loads(data[8:end])
			about = json.loads(header["__metadata__"].pop("data"))
			header["__metadata__"].pop("split.hash")
			about.pop("unfinished", None)
			print(header, about)
			sys.stdout.flush()
			sys.stdout.buffer.write(data[end:])
		PY
	done
	cmp "$tmp/$1.whole" "$tmp/until-$2.whole" || fail "$1 is not what $2 steps train"
}

client whole "$tmp/client.yaml" || fail 'the undisturbed run'

# ---- while it trains: two exports at once; eval and predict accept the file
start_failing_client client.apply=hold@8+ busy "$tmp/client.yaml" --set train.keep_best=true
at_point busy client.apply
exports=()
for name in first second; do
	export_model $name busy &
	exports+=($!)
	started+=($!)
done
while kill -0 "${exports[0]}" 2>/dev/null || kill -0 "${exports[1]}" 2>/dev/null; do # the run does a step, and holds in the next one
	sleep 0.3
	let_go busy
done
wait "${exports[0]}" && wait "${exports[1]}" || fail 'two exports at once'
at=$(at_of second)
is_of second "$at"
[ "$at" -ge 7 ] && [ "$at" -lt 16 ] || fail "step $at of a run that goes on"
while kill -0 "$client_pid" 2>/dev/null; do : >"$tmp/busy.go"; sleep 0.05; done
"$SPLITC" eval "$tmp/client.yaml" --local --weights "$tmp/second.safetensors" --json >"$tmp/eval.json" 2>"$tmp/eval.log" || fail 'eval'
"$SPLITC" predict "$tmp/client.yaml" --local --weights "$tmp/second.safetensors" --json >"$tmp/predict.json" 2>"$tmp/predict.log" || fail 'predict'
jq -s 'map(select(.class == .label)) | length / 40' "$tmp/predict.json" | jq -e --slurpfile e "$tmp/eval.json" '. == $e[0].test_acc' >/dev/null ||
	fail 'the accuracies differ'
ends_with "$client_pid" 0 $patience 'a run that was asked'
same_run whole busy 16
[ ! -e "$tmp/busy/asked.safetensors" ] || fail 'asked.safetensors is left'
export_model done busy
is_of done 16
# the tensors are those of the model in log.dir, num_batches_tracked among them
data_of() { tail -c "+$(($(od -An -tu8 -N8 "$1") + 9))" "$1"; }
data_of "$tmp/done.safetensors" >"$tmp/exported"
data_of "$tmp/busy/model.safetensors" | cmp - "$tmp/exported" || fail 'an export has other tensors than the model'

# ---- a different run at its control socket is ignored
client_stands 4 other "$tmp/client.yaml"
wait_for 'no checkpoint' test -e "$tmp/other/checkpoint-000000000003.safetensors"
export_model done busy --set control="$tmp/other.sock"
is_of done 16
# the run itself, at a control socket that the export is not told of
status=75 export_model hidden other --set control="$tmp/nobody.sock"
grep -q "but does not answer at $tmp/nobody.sock: name its control socket" "$tmp/hidden.log" || fail "$(cat "$tmp/hidden.log")"

# ---- paused: exports the model that the run left; the server is not asked
stops other
export_model paused other --set server=tcp://127.0.0.1:9
is_of paused "$(steps_of other)"
client other "$tmp/client.yaml" --resume || fail '--resume behind an export'
same_run whole other 16

# ---- killed: the newest pair of checkpoints, twice; then through another server with that store; and the run continues
client_stands 7 killed "$tmp/client.yaml"
wait_for 'no checkpoint' test -e "$tmp/killed/checkpoint-000000000003.safetensors"
end_client
cp "$tmp/killed/log.jsonl" "$tmp/log.before"
newest=$(ls "$tmp/killed" | sed -n 's/^checkpoint-0*\([0-9]*\)\.safetensors$/\1/p' | tail -n 1)
export_model pair killed
is_of pair "$newest"
signal TERM "$server_pid"
ends_with "$server_pid" 0 60 splits
status=69 export_model away killed --set link.connect_timeout_ms=1000
grep -q "was not ended. The server has the middle of its checkpoint at step $newest: no answer from" "$tmp/away.log" || fail "$(cat "$tmp/away.log")"
[ ! -e "$tmp/away.safetensors" ] || fail 'half a model'
# A run that waits for its server cannot be exported.
start_server host listen="tcp://127.0.0.1:$port"
client_stands 2 waits "$tmp/client.yaml" --set link.on_server_lost=wait --set link.timeout_ms=2000
end_process "$server_pid"
let_go waits
wait_for 'the loss is not noticed' grep -q 'server-lost' "$tmp/waits.log"
status=69 export_model lost waits
grep -q 'goes on, but cannot give its model now: the link to the server was lost' "$tmp/lost.log" || fail "$(cat "$tmp/lost.log")"
start_server host listen="tcp://127.0.0.1:$port"
export_model again killed
is_of again "$newest"
cmp "$tmp/killed/log.jsonl" "$tmp/log.before" || fail 'the log is another one'
client killed "$tmp/client.yaml" --resume || fail '--resume behind a pair'
same_run whole killed 16
ends_with "$client_pid" 0 $patience 'the run that waited'
same_run whole waits 16

# ---- the best weights: of the first evaluation with the best metric, kept over a kill and --resume, and reported
best=$(jq -s 'map(select(.type == "epoch")) | max_by([.test_acc, -.epoch]) | .steps' "$tmp/whole/log.jsonl")
summary() { grep '^{"type":"summary"' "$tmp/$1/log.jsonl"; }
is_best() { # RUN
	summary "$1" | jq -e --argjson best "$best" '.best_step == $best' >/dev/null || fail "$1: $(summary "$1")"
	export_model "best-$1" "$1" --weights "$tmp/$1/best.safetensors"
	is_of "best-$1" "$best"
}
is_best busy
grep -q "^best.safetensors holds the weights after step $best, with " "$tmp/busy.log" || fail "$(tail -n 3 "$tmp/busy.log")"
summary whole | jq -e '.best_step == null' >/dev/null || fail 'best weights that nobody asked for'
client best "$tmp/client.yaml" --set train.keep_best=true --local || fail 'keep_best, --local'
is_best best
for at_step in 6 13; do
	killed_client $((at_step - 1)) whole "$tmp/client.yaml" --set train.keep_best=true
	is_best 'whole killed'
done
echo "models behind the steps that they say, of runs that go on, are paused, or were killed; the best is behind step $best"
