#!/usr/bin/env bash
# privacy.…: what a sample sends is clipped and gets noise, and its releases are counted. The run over a link equals that
# of one process, also over kills; epsilon is that of the formula, counts no release twice and forgets none; the budget
# ends the run in the right step with status 81; what cannot be counted is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
train_images=0
start_server host
"$SPLITC" keygen --out "$tmp/noise.key" >"$tmp/pub" 2>"$tmp/keygen.log" || { grep -q 'has no CURVE' "$tmp/keygen.log" && exit 77; }
mkdir "$tmp/data"
python3 - "$tmp/data" <<'PY'
import random, sys
r = random.Random(3)
for part, rows in (("train", 80), ("test", 40)):
    with open(f"{sys.argv[1]}/{part}.csv", "w") as f:
        print("a,b,c,d,kind", file=f)
        for _ in range(rows):
            x = [r.gauss(0, 1) for _ in range(4)]
            print(*(f"{v:.4f}" for v in x), ("red", "green")[x[0] > 0], sep=",", file=f)
PY
cat >"$tmp/run.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 4, classes: 2}
	partition: "1:-1"
	data: {kind: csv, dir: $tmp/data, label: kind}
	train: {batch: 8, chunks: 2, epochs: 6, checkpoint_every: 4, optimizer: {kind: adam, lr: 0.01}}
	privacy: {clip: 3, clip_grad: 2, noise: 5, delta: 1.0e-4, key: $tmp/noise.key}
	threads: 1
YAML
# epsilon NOISE RELEASES DELTA: the least over orders of 2 n a / s² + log(1 - 1 / a) - log(delta a) / (a - 1)
epsilon() { python3 -c '
import math, sys
s, n, d = map(float, sys.argv[1:])
print(min(2 * n * a / s ** 2 + math.log1p(-1 / a) - math.log(d * a) / (a - 1) for a in (1 + 10 ** (i / 3000) for i in range(-9000, 12000))))' "$@"; }
near() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(abs(a - b) > 1e-3 * b)' "$1" "$2" || fail "$3: $1, not $2"; }
last() { jq -s "map(select(.type == \"$2\"))[-1].$3" "$tmp/$1/log.jsonl"; }

# ---- each epoch's epsilon; local = link
client run "$tmp/run.yaml" || fail "training: exit status $?"
client local "$tmp/run.yaml" --local || fail "--local: exit status $?"
same_run run local 60
for e in 1 2 3 4 5 6; do
	near "$(jq -s "map(select(.type == \"epoch\"))[$((e - 1))].epsilon" "$tmp/run/log.jsonl")" "$(epsilon 5 $((2 * e)) 1e-4)" "epoch $e"
done
near "$(last run summary privacy.epsilon)" "$(epsilon 5 12 1e-4)" 'the summary'
grep -qE '^privacy: epsilon [0-9.]+ at delta 0.0001, by 12 releases of each training sample' "$tmp/run.log" || fail 'the summary says nothing'
grep -qE '^clipped in this process: [0-9.]+ % of head_act, [0-9.]+ % of mid_grad' "$tmp/run.log" || fail 'no share that was clipped'
[ "$(last run summary 'privacy | .head_act_clipped >= 0 and .head_act_clipped <= 1')" = true ] || fail "shares: $(last run summary privacy)"
grep -q '^WARN privacy-learns: ' "$tmp/run.log" || fail 'no word on what learns'
client frozen "$tmp/run.yaml" --local --set 'train.freeze=["layer1.*", "classifier.*"]' || fail "frozen: $?"
! grep -q '^WARN privacy-learns: ' "$tmp/frozen.log" || fail "nothing of head and tail learns: $(grep privacy-learns "$tmp/frozen.log")"
# other noise, other clips, no privacy: other models
for other in privacy.noise=4 privacy.clip=1 privacy.clip_grad=0.5 'privacy.clip=0 privacy.clip_grad=0 privacy.noise=0 privacy.key='; do
	set=(); for pair in $other; do set+=(--set "$pair"); done
	client other "$tmp/run.yaml" --local --fresh "${set[@]}" || fail "$other: $?"
	! cmp -s "$tmp/other/model.safetensors" "$tmp/local/model.safetensors" || fail "$other changes nothing"
done

# ---- the status of a run, as JSON, a table and metrics
start_slow_client 25 200 slow "$tmp/run.yaml"
wait_for 'no steps' has_steps slow 25
ask "$SPLITC" "$tmp/slow.sock" "$tmp/status.json"
near "$(jq '.sessions[0].epsilon' "$tmp/status.json")" "$(epsilon 5 6 1e-4)" 'status --json in epoch 3'
wait_for 'no table' sh -c "'$SPLITC' status --control '$tmp/slow.sock' | grep -q 'epsilon of a training sample so far: [0-9]'"
wait_for 'no metrics' sh -c "'$SPLITC' status --control '$tmp/slow.sock' --prometheus | grep -q '^split_session_epsilon{.*} [0-9]'"
signal KILL "$client_pid"

# ---- kills of both sides: the same run, the same epsilon
for at in 7 31; do
	killed_client $at run "$tmp/run.yaml"
	[ "$(last 'run killed' summary privacy.epsilon)" = "$(last run summary privacy.epsilon)" ] || fail "killed at $at: $(last 'run killed' summary privacy)"
done
killed_server server.apply=kill@23 run "$tmp/run.yaml"
[ "$(last 'run server.apply@23' summary privacy.epsilon)" = "$(last run summary privacy.epsilon)" ] || fail "the server killed: $(last 'run server.apply@23' summary privacy)"

# ---- killed in epoch 3, and ended in epoch 2: the third epoch's rows had crossed
client_dies client.apply@22 short "$tmp/run.yaml"
client short "$tmp/run.yaml" --resume --set train.max_steps=20 --set train.epochs=6 && fail 'a changed run goes on'
grep -q 'privacy: rows have crossed behind step 20 ' "$tmp/short.log" || fail "a changed run: $(tail -n 1 "$tmp/short.log")"
client short "$tmp/run.yaml" --resume || fail "--resume: exit status $?"
same_run short run 60

# ---- the budget
allowed=$(epsilon 5 8 1e-4) # four epochs
rc=0; client budget "$tmp/run.yaml" --set privacy.budget="$(python3 -c "print($allowed + 0.01)")" || rc=$?
[ $rc = 81 ] && [ "$(last budget summary steps)" = 40 ] && [ "$(last budget summary privacy.spent)" = true ] || fail "the budget: $rc, $(last budget summary steps) steps"
grep -q 'privacy.budget: the run ended after 4 of 6 epochs' "$tmp/budget.log" || fail "the budget: $(tail -n 1 "$tmp/budget.log")"
[ -f "$tmp/budget/model.safetensors" ] || fail 'no model'
rc=0; client budget "$tmp/run.yaml" --set privacy.budget="$(python3 -c "print($allowed + 0.01)")" --auto-resume || rc=$?
[ $rc = 81 ] || fail "--auto-resume of a spent run: $rc"
client budget "$tmp/run.yaml" --resume --set privacy.budget=100 || fail "a larger budget: $?"
same_run budget run 60
rc=0; client_dies client.apply@32 budget-killed "$tmp/run.yaml" --set privacy.budget="$allowed"
client budget-killed "$tmp/run.yaml" --resume --set privacy.budget="$(python3 -c "print($allowed + 0.01)")" || rc=$?
[ $rc = 81 ] && [ "$(last budget-killed summary steps)" = 40 ] || fail "the budget over a kill: $rc"
rc=0; client none "$tmp/run.yaml" --set privacy.budget=0.1 || rc=$?
[ $rc = 78 ] && grep -q 'one epoch has an epsilon of' "$tmp/none.log" || fail "a budget below one epoch: $rc"

rc=0; client alone "$tmp/run.yaml" --local --set privacy.budget="$(python3 -c "print($allowed + 0.01)")" || rc=$?
[ $rc = 81 ] && grep -q 'privacy.budget: the run ended after 4 of 6 epochs' "$tmp/alone.log" || fail "the budget of --local: $rc: $(tail -n 1 "$tmp/alone.log")"

# ---- a run that is done goes on with the noise that it had alone
for other in privacy.noise=9 privacy.clip=2 privacy.clip_grad=1 'privacy.clip=0 privacy.clip_grad=0 privacy.noise=0 privacy.key='; do
	set=(); for pair in $other; do set+=(--set "$pair"); done
	rc=0; client run "$tmp/run.yaml" --resume --set train.epochs=8 "${set[@]}" || rc=$?
	[ $rc = 78 ] && grep -q 'rows have crossed with other noise' "$tmp/run.log" || fail "$other on --resume: $rc: $(tail -n 1 "$tmp/run.log")"
done
client before "$tmp/run.yaml" --set privacy.clip=0 --set privacy.clip_grad=0 --set privacy.noise=0 --set privacy.key= || fail "without privacy: $?"
rc=0; client before "$tmp/run.yaml" --resume --set train.epochs=8 || rc=$?
[ $rc = 78 ] && grep -q 'rows have crossed with other noise' "$tmp/before.log" || fail "a run that began without privacy: $rc"

# ---- a run that begins anew in the same folder says what an earlier one has sent; the budget counts evaluated samples, too
client before "$tmp/run.yaml" --fresh --set train.epochs=1 || fail "--fresh: $?"
client before "$tmp/run.yaml" --fresh --set train.epochs=2 --set train.seed=9 || fail "--fresh twice: $?"
grep -q '^WARN privacy-earlier: an earlier run in .* has sent its samples in 1 epochs' "$tmp/before.log" || fail 'no word on the earlier run'
[ "$(last before summary privacy.releases)" = 4 ] && [ "$(last before summary privacy.evaluated_releases)" = 2 ] || fail "releases: $(last before summary privacy)"
client_dies client.apply@22 torn "$tmp/run.yaml"
"$SPLITC" report "$tmp/torn" >"$tmp/torn.md"
grep -q 'epsilon [0-9.]* at the end of the last epoch in the log' "$tmp/torn.md" || fail "the report of a killed run: $(cat "$tmp/torn.md")"

# ---- a server that answers otherwise behind a kill of the client gets no second release of the same samples
dishonest() { # POINT@N NAME KILLED_AT PHRASE: the client dies there, and comes back to a server with that failpoint
	local server_pid endpoint=tcp://127.0.0.1:$(free_port) rc=0
	start_server "$2-honest" listen="$endpoint" store="$tmp/$2-store"
	start_failing_client "client.apply=hold@$3" "$2" "$tmp/run.yaml" --set server="$endpoint" "${@:5}"
	at_point "$2" client.apply
	[ "$3" -lt 4 ] || wait_for "$2 has no checkpoint" has_checkpoint "$2"
	end_client
	signal TERM "$server_pid"; ends_with "$server_pid" 0 $patience "the server of $2"
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=$1 start_server "$2-cheats" listen="$endpoint" store="$tmp/$2-store"
	client "$2" "$tmp/run.yaml" --auto-resume --set server="$endpoint" "${@:5}" || rc=$?
	[ $rc = 79 ] && grep -qE -- "$4" "$tmp/$2.log" || fail "$2: $rc: $(tail -n 3 "$tmp/$2.log")"
	rc=0; client "$2" "$tmp/run.yaml" --auto-resume --set server="$endpoint" "${@:5}" || rc=$? # and it gets none by another try
	[ $rc = 79 ] || [ $rc = 0 ] || fail "$2 again: $rc: $(tail -n 3 "$tmp/$2.log")"
	end_process "$server_pid"
}
dishonest server.cheat_act=EIO@1 lie 23 'privacy: step [0-9]* is repeated, and mid_grad would be another one'
dishonest server.hijack=EIO@1 hijack 23 'privacy: step [0-9]* is repeated, and head_act would be another one'
dishonest server.cheat_act=EIO@1 early 3 'privacy: step 1 is repeated, and mid_grad would be another one' # before a checkpoint
dishonest server.hijack=EIO@1 evaluated 31 'privacy: the evaluation behind step 30 is repeated, and head_act would be another one' --set train.checkpoint_every=29
client_dies client.apply@22 forgetful "$tmp/run.yaml"
rm "$tmp/forgetful/releases"
rc=0; client forgetful "$tmp/run.yaml" --resume || rc=$?
[ $rc = 78 ] && grep -q 'log.dir lacks releases, so nobody knows what has crossed' "$tmp/forgetful.log" || fail "without releases: $rc: $(tail -n 1 "$tmp/forgetful.log")"
client_dies client.apply@22 restored "$tmp/run.yaml"
cp "$tmp/restored/releases" "$tmp/releases"
truncate -s 192 "$tmp/restored/releases" # of a backup
rc=0; client restored "$tmp/run.yaml" --resume || rc=$?
[ $rc = 78 ] && grep -q 'log.dir has an older releases than its checkpoint (steps [12] and 20)' "$tmp/restored.log" || fail "older releases: $rc: $(tail -n 1 "$tmp/restored.log")"
cp "$tmp/releases" "$tmp/restored/releases"
printf x | dd of="$tmp/restored/releases" bs=1 seek=200 conv=notrunc status=none
rc=0; client restored "$tmp/run.yaml" --resume || rc=$?
[ $rc = 65 ] && grep -q 'releases is damaged, and no longer says what has crossed: put back what it was' "$tmp/restored.log" || fail "damaged releases: $rc: $(tail -n 1 "$tmp/restored.log")"
rc=0; client restored "$tmp/run.yaml" --fresh --set train.epochs=1 || rc=$?
[ $rc = 0 ] && grep -q '^WARN privacy-earlier: .*and nobody can read how often' "$tmp/restored.log" || fail "--fresh beside damaged releases: $rc: $(tail -n 1 "$tmp/restored.log")"
client_dies client.apply@22 rekeyed "$tmp/run.yaml"
"$SPLITC" keygen --out "$tmp/other.key" >/dev/null 2>&1
rc=0; client rekeyed "$tmp/run.yaml" --resume --set privacy.key="$tmp/other.key" || rc=$?
[ $rc = 79 ] && grep -q 'head_act would be another one than before, or have other noise' "$tmp/rekeyed.log" || fail "another key: $rc: $(tail -n 1 "$tmp/rekeyed.log")"
# a disk that is full: the run ends before a tensor crosses that is not noted
(trap '' XFSZ; ulimit -f 1; "$SPLITC" train "$tmp/run.yaml" --set log.dir="$tmp/full" --set privacy.budget=100 2>&1 || echo "status $?") | cat >"$tmp/full.log"
grep -q 'releases cannot note what crosses (File too large), and nothing crosses uncounted' "$tmp/full.log" && grep -qx 'status 74' "$tmp/full.log" || fail "a full disk: $(tail -n 3 "$tmp/full.log")"
client full "$tmp/run.yaml" --auto-resume --set privacy.budget=100 || fail "with room again: $?"
[ "$(last full summary privacy.releases)" = 12 ] || fail "with room again: $(last full summary privacy)"

# ---- what cannot be counted
refused() { # PHRASE SETTING…
	local set=() pair rc=0
	for pair in "${@:2}"; do set+=(--set "$pair"); done
	client refused "$tmp/run.yaml" "${set[@]}" || rc=$?
	[ $rc = 78 ] && grep -q -- "$1" "$tmp/refused.log" || fail "${*:2}: $rc: $(tail -n 1 "$tmp/refused.log")"
}
refused 'privacy needs noise above 0' privacy.noise=0
refused 'privacy needs it: the largest norm of the gradient' privacy.clip_grad=0
refused 'privacy needs clip' privacy.clip=0
refused 'privacy needs a key file' privacy.key=
refused 'privacy needs delta' privacy.delta=0
refused 'with 80 samples it must be below 0.0125' privacy.delta=0.0125
refused 'leave noise.… out' noise.head_act=1 noise.key="$tmp/noise.key"
refused 'a mixed row tells of two samples' train.mixup=0.2
refused 'the norms of gradients cross' train.clip_norm=1
refused 'shuffled alone is counted' data.sampling=balanced
refused 'a batch divides by the weights of its labels' train.class_weights=balanced
rc=0; "$SPLITC" train "$tmp/run.yaml" --check-config --set log.dir="$tmp/c" --connect >"$tmp/out" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'would send samples, and epsilon would not count them' "$tmp/out" || fail "--connect: $rc: $(cat "$tmp/out")"
refused 'in a group it is not known yet' share.group=g share.clients=2 share.member=0
refused 'is the key of auth' auth.secret_key="$tmp/noise.key" auth.server_key="$(cat "$tmp/pub")"
make_data 48 24
write_config "$tmp/bn.yaml"
echo "privacy: {clip: 3, clip_grad: 2, noise: 5, key: $tmp/noise.key}" >>"$tmp/bn.yaml"
rc=0; "$SPLITC" train "$tmp/bn.yaml" --check-config --set log.dir="$tmp/c" >"$tmp/out" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'batch norm .* makes what a row sends depend on the batch' "$tmp/out" || fail "--check-config: $rc: $(cat "$tmp/out")"
rc=0; "$SPLITC" train "$tmp/run.yaml" --check-config --set log.dir="$tmp/c" --set privacy.budget=0.1 >"$tmp/out" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'one epoch has an epsilon of' "$tmp/out" || fail "--check-config of a small budget: $rc: $(cat "$tmp/out")"
rc=0; client bn "$tmp/bn.yaml" || rc=$?
[ $rc = 78 ] && grep -q 'batch norm .* makes what a row sends depend on the batch' "$tmp/bn.log" || fail "batch norm: $rc: $(tail -n 1 "$tmp/bn.log")"

# ---- the report
"$SPLITC" report "$tmp/budget" --format json >"$tmp/report.json"
jq -e '[.sections[] | select(.title == "Privacy as a number") | .facts[][1]] | join(" ") | test("epsilon") and test("releases")' "$tmp/report.json" >/dev/null || fail 'no section on privacy'
echo passed
