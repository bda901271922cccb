#!/usr/bin/env bash
# Events for TensorBoard: none by default; those of a run agree with its log. A run that is killed repeatedly and
# resumed leaves one value per step, as TensorBoard reads its files; one that begins anew removes the old ones. With a
# full disk the run continues. MLflow gets the same values by examples/mlflow.py.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 160 32
start_server host
write_config "$tmp/client.yaml"

# show NAME: prints the contents of its files, in the order in which TensorBoard reads them.
show() { "$TOOLS/events" "$tmp/$1"/events.out.tfevents.* >"$tmp/$1.events" || fail "$1: a damaged file"; }
# seen NAME: prints STEP TAG VALUE as TensorBoard counts them. A START, except the first, removes what is at its step or
# later.
seen() {
	awk '
		$2 == "start" { if (started++) for (key in value) { split(key, part, " "); if (part[1] + 0 >= $3) delete value[key] }; next }
		NF == 4 { value[$2 " " $3] = $4 }
		END { for (key in value) print key, value[key] }' "$tmp/$1.events" | sort -k2,2 -k1,1n
}
# logged NAME: prints the same from log.jsonl, without times and bytes.
logged() {
	jq -r '(if .type == "step" then [.step, {"train/loss": .loss, "train/acc": .acc, lr: .lr}]
		elif .type == "epoch" then [.steps, {"epoch/train_loss": .train_loss, "epoch/train_acc": .train_acc, "eval/loss": .test_loss, "eval/acc": .test_acc} + (.test_metrics | with_entries(.key |= "eval/" + .))]
		else empty end) as [$s, $v] | $v | to_entries[] | "\($s) \(.key) \(.value)"' "$tmp/$1/log.jsonl" | sort -k2,2 -k1,1n
}
# agree NAME: events and log agree, to the precision of a float.
agree() {
	show "$1"
	logged "$1" >"$tmp/$1.logged"
	seen "$1" | grep -vE ' (wire|time)/| epoch/([rt]x_bytes|(train|eval|samples_per)_s) ' >"$tmp/$1.seen" || true
	[ -s "$tmp/$1.logged" ] || fail "$1: an empty log"
	paste -d' ' "$tmp/$1.logged" "$tmp/$1.seen" | awk '
		{ d = $3 - $6; if (d < 0) d = -d; m = $3 < 0 ? -$3 : $3 }
		NF != 6 || $1 != $4 || $2 != $5 || d > m * 1e-6 { print; bad = 1 }
		END { exit bad }' >"$tmp/differ" || { head -n 5 "$tmp/differ"; fail "$1: events and log differ"; }
}

client none "$tmp/client.yaml" --set train.max_steps=2 --set train.schedule.warmup_epochs=0 || fail "none: exit status $?"
! compgen -G "$tmp/none/*tfevents*" >/dev/null || fail 'events that nobody asked for'

client whole "$tmp/client.yaml" --set train.epochs=3 --set log.tensorboard=true --set train.metrics=f1,matthews || fail "whole: exit status $?"
agree whole
[ "$(awk '$3 == "wire/tx_bytes" && $4 > 1000' "$tmp/whole.events" | wc -l)" = 30 ] || fail 'no bytes'
[ "$(awk 'NF == 4 {print $3}' "$tmp/whole.events" | sort -u | wc -l)" = 20 ] || fail "other tags: $(awk '{print $3}' "$tmp/whole.events" | sort -u)"
client whole "$tmp/client.yaml" --local --fresh --set train.epochs=2 --set log.tensorboard=true || fail "anew: exit status $?"
agree whole
[ "$(ls "$tmp/whole" | grep -c tfevents)" = 1 ] || fail 'events of an earlier run are left'

# Killed three times: after an epoch's end, so that its evaluation is repeated, and elsewhere. Also, the last record of
# a step without a checkpoint is torn; records up to a checkpoint are synced before it.
set -- "$tmp/client.yaml" --set train.epochs=8 --set train.checkpoint_every=5 --set log.tensorboard=true
life=0 resume=
for passage in 11 17 20; do
	life=$((life + 1))
	client_dies client.apply@$passage killed "$@" $resume
	newest=$(ls "$tmp/killed"/events.out.tfevents.* | tail -n 1)
	[ $life != 2 ] || truncate -s -3 "$newest"
	resume=--resume
done
start_client killed "$@" --resume
ends_with "$client_pid" 0 $patience 'the last life'
agree killed
[ "$(ls "$tmp/killed" | grep -c tfevents)" = 4 ] || fail 'not a file of each life'
grep -q ' cut off$' "$tmp/killed.events" || fail 'no record was torn'
[ "$(grep -c ' start ' "$tmp/killed.events")" = 4 ] || fail 'not a START of each life'

# examples/mlflow.py sends the same log to a tracking server: each step's and epoch's values, twice into one experiment.
port=$(free_port)
python3 tests/e2e/serve/tracker.py "$port" "$tmp/tracked" &
started+=("$!")
wait_for 'no tracking server' eval "(: >/dev/tcp/127.0.0.1/$port) 2>/dev/null"
for time in 1 2; do
	python3 examples/mlflow.py "$tmp/killed" "http://127.0.0.1:$port" trial >"$tmp/mlflow.log" 2>&1 || fail "mlflow.py: $(tail -n 3 "$tmp/mlflow.log")"
done
grep -q ' values of 80 steps: run r1, FINISHED$' "$tmp/mlflow.log" || fail "mlflow.py: $(cat "$tmp/mlflow.log")"
jq -r 'select(.[0] == "runs/log-batch") | .[1].metrics[] | select(.key == "step_loss") | "\(.step) \(.value)"' "$tmp/tracked" | sort -u -k1,1n >"$tmp/tracked.losses"
jq -r 'select(.type == "step") | "\(.step) \(.loss)"' "$tmp/killed/log.jsonl" | sort -k1,1n | diff "$tmp/tracked.losses" - || fail 'mlflow.py sends other losses'

# log.tensorboard needs log.dir.
rc=0
client nowhere "$tmp/client.yaml" --set log.tensorboard=true --set log.dir= || rc=$?
[ $rc = 78 ] && grep -q -- '--set log.tensorboard: needs a folder in log.dir' "$tmp/nowhere.log" || fail "no log.dir: status $rc"
echo passed
