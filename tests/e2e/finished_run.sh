#!/usr/bin/env bash
# A new run does not overwrite a finished one without --fresh. --resume with more epochs trains it further, and it then
# equals one run of that length, byte for byte. If the server has lost its state, the client's result is still whole.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
sed -i 's/schedule: {.*}/schedule: {kind: constant}/' "$tmp/client.yaml"
sets=(--set train.chunks=2 --set codec=topk:0.1,ef=true)
has_states() { [ "$(ls "$tmp/store" | grep -c '^session-')" = "$1" ]; }

client long "$tmp/client.yaml" "${sets[@]}" --set train.epochs=2 || fail "two epochs at once: status $?"
find "$tmp/store" -type f ! -name lock -delete
client run "$tmp/client.yaml" "${sets[@]}" || fail "one epoch: status $?"
wait_for "the server keeps more than the last state" has_states 1
! compgen -G "$tmp/run/checkpoint-*" >/dev/null || fail "a run that is done has checkpoints"
sleep_files() { (cd "$tmp/run" && sha256sum log.jsonl model.safetensors finished-* session-key about.json); }
sleep_files >"$tmp/before"
as_it_was() { sleep_files | cmp -s - "$tmp/before" || fail "$1: what the run came to is not there any more"; }

# A second run is refused; --check-config only notes it, because the config itself is right.
for more in '' --check-config --local; do
	rc=0
	client run "$tmp/client.yaml" "${sets[@]}" $more || rc=$?
	case $more in --check-config) want=0 says=note ;; *) want=73 says=splitc ;; esac
	[ $rc = $want ] || fail "a run over a finished one ${more:-as it is}: status $rc"
	grep -q "^$says: log.dir '$tmp/run' holds a trained model, of 6 steps: --resume --set train.epochs=N trains it further, --fresh removes it" "$tmp/run.log" ||
		fail "it does not say what can be done"
	as_it_was "a run that was refused ${more:-as it is}"
done
# --resume of a finished run says so, and does not suggest it again.
rc=0
client run "$tmp/client.yaml" "${sets[@]}" --resume || rc=$?
[ $rc = 66 ] || fail "--resume of a finished run: status $rc"
grep -q 'the run of 6 steps is done. To train it further: --resume --set train.epochs=N$' "$tmp/run.log" || fail "--resume does not say that it is done"
as_it_was "--resume of a finished run"

# --auto-resume has nothing to do; it says what the config asks for that the run did not have.
client run "$tmp/client.yaml" "${sets[@]}" --auto-resume || fail "--auto-resume of a finished run: status $?"
grep -q '^INFO run-done' "$tmp/run.log" && ! grep WARN "$tmp/run.log" || fail "--auto-resume of a finished run: $(cat "$tmp/run.log")"
client run "$tmp/client.yaml" "${sets[@]}" --auto-resume --set train.epochs=2 || fail "--auto-resume with more epochs: status $?"
grep -q '^WARN done-otherwise: the run in .* ended with other settings: train.epochs was 1, is 2$' "$tmp/run.log" || fail "--auto-resume with more epochs: $(cat "$tmp/run.log")"
as_it_was '--auto-resume of a finished run'

# The server has lost its state.
mkdir "$tmp/kept"
find "$tmp/store" -type f ! -name lock -exec mv {} "$tmp/kept" ';'
rc=0
client run "$tmp/client.yaml" "${sets[@]}" --resume --set train.epochs=2 || rc=$?
[ $rc = 78 ] && grep -q 'the server refused: no common step to go on from: .* A run that is done is made longer here.*model.weights$' "$tmp/run.log" ||
	fail "a server that has forgotten the run: status $rc"
as_it_was "a server that has forgotten the run"
[ "$(ls "$tmp/store")" = lock ] || fail "a run that was refused has left something: $(ls "$tmp/store")"
mv "$tmp/kept/"* "$tmp/store"

# --fresh that cannot reach its server or fill its group has not begun, so it must not remove the old run.
rc=0
client run "$tmp/client.yaml" "${sets[@]}" --fresh --set server=tcp://127.0.0.1:1 --set link.connect_timeout_ms=500 || rc=$?
[ $rc = 69 ] || fail "--fresh without a server: status $rc"
as_it_was "--fresh without a server"
rc=0
client run "$tmp/client.yaml" "${sets[@]}" --fresh --set share.group=g --set share.clients=2 --set share.member=0 --set share.wait_s=1 || rc=$?
[ $rc = 69 ] || fail "--fresh in a group that is not complete: status $rc"
as_it_was "--fresh in a group that is not complete"

# trained longer, killed before its first checkpoint, and again
client_stands 2 run "$tmp/client.yaml" "${sets[@]}" --resume --set train.epochs=2
has_steps run 8 || fail "no step of the second epoch"
end_client
"$SPLITC" train "$tmp/client.yaml" "${sets[@]}" --resume --set train.epochs=2 --set log.dir="$tmp/run" --check-config >"$tmp/check.log" 2>&1 ||
	fail "--check-config of a longer run"
client run "$tmp/client.yaml" "${sets[@]}" --resume --set train.epochs=2 || fail "a longer run: status $?"
grep -q 'session-open: .*, from step 6$' "$tmp/run.log" || fail "it did not go on from where it was done"
same_run long run 12
[ "$(grep -c '"type":"summary"' "$tmp/run/log.jsonl")" = 1 ] || fail "the log has two ends"
[ "$(cd "$tmp/run" && echo finished-*)" = finished-000000000012.safetensors ] || fail "its last state: $(ls "$tmp/run")"
wait_for "the server keeps more than the last state of the longer run" has_states 1

# anew
client run "$tmp/client.yaml" "${sets[@]}" --fresh || fail "--fresh: status $?"
cmp <(sed 's/ .*//' "$tmp/before" | sed -n 2p) <(sha256sum "$tmp/run/model.safetensors" | sed 's/ .*//') || fail "--fresh is not the first run again"

# without checkpoints, or a link, there is nothing to go on with; it is not overwritten either
client none "$tmp/client.yaml" "${sets[@]}" --set train.checkpoint_every=0 || fail "without checkpoints: status $?"
client local "$tmp/client.yaml" "${sets[@]}" --local || fail "local: status $?"
for run in none local; do
	! compgen -G "$tmp/$run/finished-*" >/dev/null || fail "$run: a last state"
	rc=0
	client $run "$tmp/client.yaml" "${sets[@]}" || rc=$?
	[ $rc = 73 ] && grep -q "holds a trained model, of 6 steps: --fresh removes it" "$tmp/$run.log" || fail "over a $run one: status $rc"
	rc=0
	client $run "$tmp/client.yaml" "${sets[@]}" --resume --set train.epochs=2 || rc=$?
	[ $rc = 66 ] && grep -q "its optimizer's state was not kept" "$tmp/$run.log" || fail "--resume of a $run one: status $rc"
done
wait_for "states of runs that asked for none" has_states 2 # of the run that was begun anew, and of the one before it
# on a server without a store, too
start_server bare store=
client storeless "$tmp/client.yaml" "${sets[@]}" --set server="$endpoint" || fail "without a store: status $?"
! compgen -G "$tmp/storeless/finished-*" >/dev/null || fail "a last state that the server does not have"
! grep -q checkpoint-missed "$tmp/storeless.log" || fail "nothing was missed"
# rows of a sweep are never gone on with, and are run again
printf -- '- {name: one}\n' >"$tmp/rows.yaml"
for turn in 1 2; do
	timeout -k 5 $patience "$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/rows.yaml" --out "$tmp/sweep" --force --set control="$tmp/sweep.sock" >"$tmp/sweep.log" 2>&1 ||
		fail "sweep, turn $turn: status $?"
	! compgen -G "$tmp/sweep/row-01/finished-*" >/dev/null || fail "a row of a sweep has a last state"
done
# a run that is not done, and a server with another store: its good checkpoints stay, and it goes on with its own server
client_stands 8 half "$tmp/client.yaml" "${sets[@]}" --set train.epochs=2 --set train.checkpoint_every=3
wait_for "the run has no checkpoint" test -e "$tmp/half/checkpoint-000000000003.safetensors"
end_client
half_files() { (cd "$tmp/half" && sha256sum log.jsonl checkpoint-*); }
half_files >"$tmp/before"
start_server other store="$tmp/elsewhere"
rc=0
client half "$tmp/client.yaml" "${sets[@]}" --set train.epochs=2 --set server="$endpoint" --resume || rc=$?
[ $rc = 78 ] && grep -q 'no common step to go on from: .*3, .* is its store another one? --fresh begins anew$' "$tmp/half.log" ||
	fail "a server with another store: status $rc"
half_files | cmp -s - "$tmp/before" || fail "a server with another store cost the run its checkpoints"
client half "$tmp/client.yaml" "${sets[@]}" --set train.epochs=2 --resume || fail "with its own server again: status $?"
same_run long half 12

# a client with another key than the one that began the run
if "$SPLITC" keygen --out "$tmp/first.key" >"$tmp/first.pub" 2>"$tmp/keygen.log"; then
	"$SPLITC" keygen --out "$tmp/second.key" >"$tmp/second.pub" 2>"$tmp/keygen.log"
	"$SPLITS" keygen --out "$tmp/server.key" >"$tmp/server.pub" 2>"$tmp/keygen.log"
	for name in first second; do echo "$(cat "$tmp/$name.pub") $name"; done >"$tmp/clients"
	start_server keyed store="$tmp/keyed" auth.secret_key="$tmp/server.key" auth.clients="$tmp/clients"
	keyed=("${sets[@]}" --set train.epochs=2 --set train.checkpoint_every=3 --set server="$endpoint" --set auth.server_key="$tmp/server.pub")
	client_stands 8 keyed-run "$tmp/client.yaml" "${keyed[@]}" --set auth.secret_key="$tmp/first.key"
	wait_for "the run has no checkpoint" test -e "$tmp/keyed-run/checkpoint-000000000003.safetensors"
	end_client
	end_process "$server_pid" # it knows who began the session
	start_server keyed store="$tmp/keyed" auth.secret_key="$tmp/server.key" auth.clients="$tmp/clients" listen="$endpoint"
	rc=0
	client keyed-run "$tmp/client.yaml" "${keyed[@]}" --set auth.secret_key="$tmp/second.key" --resume || rc=$?
	[ $rc = 78 ] && grep -q 'no common step to go on from: .* another key began this session (auth.secret_key): give that one again, or --fresh begins anew$' "$tmp/keyed-run.log" ||
		fail "another key: status $rc"
	client keyed-run "$tmp/client.yaml" "${keyed[@]}" --set auth.secret_key="$tmp/first.key" --resume || fail "the first key again: status $?"
	same_run long keyed-run 12
fi
echo passed
