#!/usr/bin/env bash
# `splitc init --party` writes both configs of a vertical pair from the members' tables: without a change in either they
# train over links, align rows that differ, and the joined model is evaluated on the test part.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh

# 300 patients: A has sizes, ages and colours, B whether they are ill, and a number, in other columns and files.
python3 - "$tmp" <<'PY'
import random, sys
draw = random.Random(3)
people = []
for i in range(300):
    size, age, colour = draw.random() * 10, draw.randrange(50), draw.choice(("red", "green", "blue"))
    people.append((f"p-{i}", f"{size:.2f},{age},{colour}", 3 * size + age / 2 + 5 * (colour == "red")))
rare = sorted(score for _, _, score in people)[-30]
def write(name, header, rows):
    with open(f"{sys.argv[1]}/{name}.csv", "w") as file:
        print(header, *rows, sep="\n", file=file)
write("a", "patient,size,age,colour", (f"{name},{columns}" for name, columns, _ in people))
write("b", "sick,patient", (f"{'ill' if score > 30 else 'well'},{name}" for name, _, score in people))
write("rare", "sick,patient", (f"{'ill' if score >= rare else 'well'},{name}" for name, _, score in people))
write("cost", "cost,patient", (f"{score:.2f},{name}" for name, _, score in people))
draw.shuffle(people)
write("some", "sick,patient", (f"{'ill' if score > 30 else 'well'},{name}" for name, _, score in people[:240]))
PY

# here WORD…: the command in $tmp, as a user who has made these files there; sets $rc, writes $tmp/out and $tmp/err.
here() {
	rc=0
	(cd "$tmp" && timeout -k 5 $patience "$@") >"$tmp/out" 2>"$tmp/err" </dev/null || rc=$?
}
does() { here "$@"; [ $rc = 0 ] || fail "$*: $rc: $(cat "$tmp/err")"; }
says() { grep -qF -e "$1" "$tmp/out" || fail "not said: $1: $(cat "$tmp/out")"; }
# refuses STATUS WORDS WORD…: init of never.yaml says so, and writes nothing.
refuses() {
	here "$SPLITC" init never.yaml "${@:3}"
	[ $rc = "$1" ] && grep -qF -e "$2" "$tmp/err" && [ ! -e "$tmp/never.yaml" ] || fail "init ${*:3}: $rc: $(cat "$tmp/err")"
}
parts=(--set data.split.train=0.6 --set data.split.val=0.2 --set data.split.test=0.2)
# init_pair B.csv WORD…: writes A.yaml and B.yaml. What A's init prints says how B's is written.
init_pair() {
	rm -rf "$tmp"/[AB].yaml "$tmp/runs"
	does "$SPLITC" init A.yaml --party features --data a.csv --server "$endpoint" "${@:2}"
	local features
	features=$(sed -n 's/^The other member.s config: splitc init B.yaml --party labels --set \(model.features=[0-9]*\) .*/\1/p' "$tmp/out")
	does "$SPLITC" init B.yaml --party labels --set "${features:?}" --data "$1" --server "$endpoint" "${@:2}"
}
# both COMMAND: the command at both members at the same time, with their configs as init has written them.
both() {
	local party pids=()
	for party in A B; do
		(cd "$tmp" && exec "$SPLITC" "$1" $party.yaml) >"$tmp/$1-$party.log" 2>&1 &
		pids+=("$!")
		started+=("$!")
	done
	for party in 0 1; do ends_with "${pids[party]}" 0 $patience "$1: $(tail -n 2 "$tmp/$1-A.log" "$tmp/$1-B.log")"; done
}
# joined_test: the model of both on the test part, as JSON in $tmp/out.
joined_test() {
	rm -f "$tmp/joined.safetensors"
	does "$SPLITC" export B.yaml joined.safetensors --join runs/A/model.safetensors
	does "$SPLITC" eval A.yaml --local --party B.yaml --weights joined.safetensors --json
	[ "$(tail -n 1 "$tmp/out" | jq -r .evaluated_part)" = test ] || fail "not the test part: $(cat "$tmp/out")"
}
test_is() { tail -n 1 "$tmp/out" | jq -e "$1" >"$tmp/said" || fail "not $1: $(tail -n 1 "$tmp/out")"; }

start_server plain
does "$SPLITC" keygen --out pair.key
init_pair b.csv "${parts[@]}"
says 'The classes are ill, well.'
says 'has the labels; the column "patient" names the rows, at both members.'
for party in A B; do
	does "$SPLITC" train $party.yaml --check-config
	grep -q '^# .*share.group, network, cut, seed' "$tmp/$party.yaml" && grep -q '^# .*data.aligned=FILE, then `splitc align`' "$tmp/$party.yaml" || fail "$party: no comments"
	! grep -q '^  ignore:' "$tmp/$party.yaml" || fail "$party leaves out what names the rows"
done
both train
joined_test
test_is '.test_acc > 0.85'
# It is what one process learns with the data of both.
does "$SPLITC" train A.yaml --local --party B.yaml --set log.dir=runs/one
[ "$(tail -n 1 "$tmp/runs/B/log.jsonl" | jq .test_acc)" = "$(tail -n 1 "$tmp/runs/one/log.jsonl" | jq .test_acc)" ] || fail 'one process learned otherwise'
# With both tables in one config the joined model predicts what one process learned.
cat >"$tmp/sources.yaml" <<'YAML'
model: {name: mlp, classes: 2, features: 5}
partition: "1:-1"
data: {kind: csv, dir: b.csv, label: sick, id: patient, inputs: [], split: {train: 0.6, val: 0.2, test: 0.2}, also: {kind: csv, dir: a.csv, id: patient, inputs: [row]}}
YAML
for model in joined runs/one/model; do
	does "$SPLITC" predict sources.yaml --local --weights $model.safetensors --csv
	cp "$tmp/out" "$tmp/of-${model##*/}"
	does "$SPLITC" eval sources.yaml --local --weights $model.safetensors
	! grep 'WARN other-' "$tmp/err" || fail "eval of both tables with $model"
done
cmp "$tmp/of-joined" "$tmp/of-model" || fail 'the joined model predicts otherwise'

# predicts: to predict with it, A takes what B's init says of the labels; the columns are in $tmp/out.
predicts() {
	local outputs
	does "$SPLITC" init B.yaml --force
	outputs=$(sed -n 's/^The other member.s config: splitc init A.yaml --party features \(--set .*\) --data TABLE,.*/\1/p' "$tmp/out")
	does "$SPLITC" init A.yaml --force ${outputs:?}
	does "$SPLITC" predict A.yaml a.csv --weights joined.safetensors --local --csv
	[ "$(wc -l <"$tmp/out")" = 301 ] || fail "predict at A: $(head -n 3 "$tmp/out")"
}
predicts
grep -q 'probability_ill' "$tmp/out" || fail "predict at A: $(head -n 3 "$tmp/out")"
grep -q '^    test: 0.2 ' "$tmp/A.yaml" && grep -q '^  classes: 2' "$tmp/A.yaml" && grep -q '^  features: 5 ' "$tmp/A.yaml" || fail "--force loses keys: $(cat "$tmp/A.yaml")"

# Labels that are numbers, and classes of which one is rare, are B's alone to know.
init_pair cost.csv "${parts[@]}" --set share.group=costs
grep -q '^  task: numbers' "$tmp/B.yaml" || fail 'B predicts no numbers'
both train
joined_test
test_is '.test_metrics.r2 > 0.8'
predicts
init_pair rare.csv "${parts[@]}" --set share.group=rare
grep -q '^  metrics: \["\?balanced_accuracy' "$tmp/B.yaml" || fail 'the rare class is not noticed'
both train

# Rows that differ: the same with an alignment, over the configs that are there.
for name in server a b; do "$SPLITC" keygen --out "$tmp/$name.key" >"$tmp/$name.pub" 2>"$tmp/err" || fail "keygen: $(cat "$tmp/err")"; done
for name in a b; do echo "$(cat "$tmp/$name.pub") $name group=study"; done >"$tmp/clients"
end_process "$server_pid"
start_server keys "auth.secret_key=$tmp/server.key" "auth.clients=$tmp/clients"
init_pair some.csv "${parts[@]}"
init=("$SPLITC" init --force --server "$endpoint" --set share.group=study --set data.aligned=study.rows)
cp "$tmp/B.yaml" "$tmp/before.yaml"
does "${init[@]}" A.yaml --party features
does "${init[@]}" B.yaml --party labels --set data.aligned=b.rows
says 'at the same time: splitc align B.yaml'
! grep -q '^  secret:' "$tmp/A.yaml" "$tmp/B.yaml" || fail 'share.secret beside an alignment'
both align
grep -q '^240 of 300 rows are at both' "$tmp/align-A.log" || fail "align: $(cat "$tmp/align-A.log")"
both train
joined_test
test_is '.test_acc > 0.8'
# Again without data.aligned: the alignment stays.
does "$SPLITC" init --force B.yaml --party labels --server "$endpoint" --set share.group=study
grep -q '^  aligned: "b.rows"' "$tmp/B.yaml" || fail "the alignment is gone: $(cat "$tmp/B.yaml")"

# What init cannot know it asks for, and nothing is written.
refuses 78 'give --set model.features=N' --party labels --data b.csv
sed '1s/$/,name/; 2,$s/^p-\([0-9]*\),.*/&,person \1/' "$tmp/a.csv" >"$tmp/two.csv"
refuses 78 'Give --set data.id=NAME with one of: patient, size, age, colour, name' --party features --data two.csv
does "$SPLITC" init two.yaml --party features --data two.csv --set data.id=patient
grep -q '^  ignore: \["name"\]' "$tmp/two.yaml" && says ' --set model.features=5 ' || fail "a name beside data.id: $(cat "$tmp/two.yaml")"
here "$SPLITC" init lacks.yaml --party features --data a.csv --set data.id=name
[ $rc = 65 ] && says 'The features could not be counted (a.csv: no column "name" (data.id);' && says 'init lacks.yaml --force --set data.id=NAME' || fail "a wrong data.id: $rc: $(cat "$tmp/out")"
refuses 78 'for pictures copy those in docs/howto-vertical.md' --party features --data cifar10
refuses 66 'no table can be read there' --party features --data csv:nowhere
refuses 78 'share.role' --party both --data a.csv
echo passed
