#!/usr/bin/env bash
# NaN in a step. If a too large learning rate causes it, the run stops with status 65 and one sentence, as in one
# process, or skips ten steps and then stops. If it occurs in a single step (a failpoint) on either side, the step is
# skipped: the run then equals one in one process byte for byte, also if the client is killed afterwards. Or the run
# stops, and --resume gives the run without the NaN.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
SPLITC=$PWD/$BUILD/fail/splitc SPLITS=$PWD/$BUILD/fail/splits
make_data 320 16
write_config "$tmp/client.yaml"
steps=20

# expect STATUS NAME ARGUMENT…; FAILPOINTS apply to the client
expect() {
	local want=$1 rc=0
	shift
	SPLIT_FAILPOINTS=${FAILPOINTS:-} client "$1" "$tmp/client.yaml" "${sets[@]}" --set "server=$endpoint" "${@:2}" || rc=$?
	[ $rc = "$want" ] || fail "$1: exit status $rc, not $want"
}
# server_with FAILPOINTS: replaces the last server.
server_with() {
	[ -z "${server_pid:-}" ] || end_process "$server_pid"
	export SPLIT_FAILPOINTS=$1
	start_server server
	unset SPLIT_FAILPOINTS
}
skipped() { grep -n '"skipped":true' "$tmp/$1/log.jsonl" | cut -d: -f1 | tr '\n' ' '; }
summary() { tail -n 1 "$tmp/$1/log.jsonl" | jq -r "$2"; }

# ---- a persistent NaN
server_with ''
sets=(--set train.optimizer.lr=1000 --set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
for codec in none quant:8; do
	expect 65 "stop-$codec" --set codec=$codec
	expect 65 "local-$codec" --set codec=$codec --local
	for run in "stop-$codec" "local-$codec"; do
		grep -qE '^splitc: step [0-9]+: .*NaN or Inf.*; nothing of it was applied. Try a smaller train.optimizer.lr' "$tmp/$run.log" ||
			fail "$run does not say what happened"
		[ "$(summary "$run" .outcome)" = nonfinite ] || fail "$run: outcome $(summary "$run" .outcome)"
	done
	n=$(steps_of "stop-$codec")
	[ "$n" -ge 1 ] && [ "$n" -lt $steps ] || fail "NaN after $n steps"
	same_run "local-$codec" "stop-$codec" "$n"
done
n=$(steps_of stop-none)
expect 65 stop-none --resume
[ "$(steps_of stop-none)" = "$n" ] || fail "a resumed run got past the step that holds NaN"
expect 65 skip --set train.on_nan=skip
expect 65 skip-local --set train.on_nan=skip --local
[ "$(skipped skip | wc -w)" = 10 ] || fail "skipped: $(skipped skip)"
grep -q 'after 10 skipped steps in a row' "$tmp/skip.log" || fail "no word of the skipped steps"
[ "$(summary skip .skipped)" = 10 ] || fail "the summary has $(summary skip .skipped) skipped steps"
same_run skip-local skip "$((n + 10))"

# ---- the server sends NaN in its last weights: no model is written, and the run can be finished with another server
sets=(--set train.checkpoint_every=3)
expect 0 honest
"$TOOLS/faulty_link" "${endpoint##*:}" nan down weights 1 >"$tmp/relay.out" &
relay=$!
started+=("$relay")
wait_for 'the relay' test -s "$tmp/relay.out"
honest=$endpoint endpoint=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")
expect 65 poisoned
grep -q '^splitc: the weights that tcp:.* sent for its part of the network hold NaN or Inf' "$tmp/poisoned.log" || fail 'no word of bad weights'
[ ! -e "$tmp/poisoned/model.safetensors" ] && ls "$tmp"/poisoned/checkpoint-*.safetensors >"$tmp/kept" || fail 'a model, or no checkpoint'
endpoint=$honest
expect 0 poisoned --resume
same_run honest poisoned $steps

# ---- a NaN in one step
sets=(--set codec.head_act=topk:0.2,ef=true --set codec.mid_act=quant:8 --set codec.head_grad=lowrank:3,warm=true
	--set train.checkpoint_every=3 --set train.on_nan=skip)
expect 0 undisturbed --set train.on_nan=stop
FAILPOINTS=client.check=EIO@5 expect 0 once-local --local
[ "$(skipped once-local)" = '5 ' ] && [ "$(summary once-local .skipped)" = 1 ] || fail "skipped: $(skipped once-local)"
for side in client server; do
	client_fp='' server_fp=''
	declare "${side}_fp=$side.check=EIO@5"
	server_with "$server_fp"
	FAILPOINTS=$client_fp expect 0 "once-$side"
	same_run once-local "once-$side" $steps
	server_with "$server_fp"
	FAILPOINTS=$client_fp expect 65 "halt-$side" --set train.on_nan=stop
	[ "$(steps_of "halt-$side")" = 4 ] || fail "halt-$side: $(steps_of "halt-$side") steps"
	expect 0 "halt-$side" --resume --set train.on_nan=stop
	same_run undisturbed "halt-$side" $steps
done
FAILPOINTS=client.check=EIO@5,client.kept=kill@2,client.apply=delay:150@4+ expect 137 killed # behind step 6 or later
expect 0 killed --resume
same_run once-local killed $steps
# the first batch of a step of two is skipped, and the client is killed behind it
sets=(--set train.accumulate=2 --set train.checkpoint_every=5 --set train.on_nan=skip)
FAILPOINTS=client.check=EIO@5 expect 0 half-local --local
FAILPOINTS=client.check=EIO@5,client.kept=kill@1,client.apply=delay:150@4+ expect 137 half
expect 0 half --resume
same_run half-local half $steps
echo passed
