#!/usr/bin/env bash
# data.split divides one table, folder or file of texts into training, validation and test; all samples of a patient are
# in the same part. With a server it is as in one process; eval and predict use the test part; --resume with another
# split is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/table" "$tmp/texts" "$tmp/made"
awk 'BEGIN {
	print "patient,size,noise,kind"
	for (i = 0; i < 600; i++) { size = i * 37 % 101; printf "p%d,%d,%d,%s\n", i * 7 % 120, size, i * 13 % 17, (size > 50 ? "large" : "small") }
}' >"$tmp/table/train.csv"
mkdir "$tmp/whole"
cp "$tmp/table/train.csv" "$tmp/whole/train.csv"
cp "$tmp/table/train.csv" "$tmp/whole/val.csv"
start_server one
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 2, classes: 2}
	data: {kind: csv, dir: $tmp/table, label: kind, split: {train: 0.7, val: 0.1, test: 0.2, by: patient}}
	train: {batch: 16, chunks: 2, epochs: 3, seed: 1, checkpoint_every: 4, optimizer: {kind: adam, lr: 0.01}}
	threads: 1
YAML
as_local remote local '' "$tmp/client.yaml" --json
samples() { sed -n "s/^INFO data-split: \([0-9]*\) samples are for $1, divided by class and patient: large [0-9]* of [0-9]* groups, small .*/\1/p" "$tmp/remote.log"; }
train=$(samples training) val=$(samples validation)
[ "$train" -gt 350 ] && [ "$val" -gt 20 ] && [ $((train + val)) -lt 540 ] || fail "$train samples train, $val validate"
# The part that was evaluated has one name, in each line and file.
grep -q '"evaluated_part":"validation"' "$tmp/local.log" || fail "train --json: $(cat "$tmp/local.log")"
grep -qE '^INFO epoch: 3 of 3: training loss .*; validation loss ' "$tmp/remote.log" || fail "$(cat "$tmp/remote.log")"
[ "$(jq -r 'select(.type != "step") | .evaluated_part' "$tmp/remote/log.jsonl" | sort | uniq -c | tr -s ' ')" = ' 4 validation' ] || fail "log.jsonl: $(grep -v '"step",' "$tmp/remote/log.jsonl")"
jq -e '.evaluated_part == "validation"' "$tmp/remote/about.json" >/dev/null || fail "about.json: $(cat "$tmp/remote/about.json")"
"$SPLITC" plot "$tmp/remote" --out "$tmp/plot.gp" | grep -q '^remote .*  validation$' || fail 'plot names no part'
grep -q "^set title 'Accuracy, validation'" "$tmp/plot.gp" || fail "plot: $(grep title "$tmp/plot.gp")"
# All parts are counted.
"$SPLITC" data "$tmp/client.yaml" >"$tmp/parts" 2>&1 && grep -qE '^class +training +validation +test$' "$tmp/parts" || fail "data: $(cat "$tmp/parts")"
[ "$("$SPLITC" data "$tmp/client.yaml" --json | jq -c '[.evaluated_part, .train.samples, .validation.samples, .test.samples, ([.classes[] | .train + .validation + .test] | add)]')" = \
	"[\"validation\",$train,$val,$((600 - train - val)),600]" ] || fail "data --json: $("$SPLITC" data "$tmp/client.yaml" --json)"
# The test rows, by their lines: none of them was used in training or validation.
"$SPLITC" predict "$tmp/client.yaml" --local --set log.dir="$tmp/remote" --json >"$tmp/rows" 2>"$tmp/predict.log" || fail "predict: $(cat "$tmp/predict.log")"
[ "$(wc -l <"$tmp/rows")" = $((600 - train - val)) ] || fail "test has $(wc -l <"$tmp/rows") rows"
"$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/remote" >"$tmp/eval.log" 2>&1 || fail "eval: $(cat "$tmp/eval.log")"
grep -q "^test accuracy .* of $((600 - train - val)) samples" "$tmp/eval.log" && ! grep -q other-data "$tmp/eval.log" || fail "eval: $(cat "$tmp/eval.log")"
"$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/remote" --set data.split.seed=1 >"$tmp/eval.log" 2>&1 || fail "eval: $(cat "$tmp/eval.log")"
grep -q '^WARN other-data: the model was trained with split .*"seed":0.*: samples of its training may be among these$' "$tmp/eval.log" || fail "eval with another split: $(cat "$tmp/eval.log")"

! grep same-data "$tmp/remote.log" "$tmp/eval.log" || fail 'parts of one set count as the same samples'
sed "s#$tmp/table#$tmp/whole#; s/split: {[^}]*}/ignore: [patient]/" "$tmp/client.yaml" >"$tmp/whole.yaml"
client undivided "$tmp/whole.yaml" --local --set train.max_steps=1 || fail "undivided: $(cat "$tmp/undivided.log")"
grep -q '^WARN same-data: the samples of the evaluation are those of training' "$tmp/undivided.log" || fail "val.csv is train.csv: $(cat "$tmp/undivided.log")"
grep -q '^[1-9] warnings*: .*same-data' "$tmp/undivided.log" || fail "the summary has no warnings: $(cat "$tmp/undivided.log")"
tail -n1 "$tmp/undivided/log.jsonl" | jq -e '.warned >= 1 and any(.warnings[]; .id == "same-data" and (.text | startswith("the samples of the evaluation")))' >/dev/null ||
	fail "log.jsonl has no warnings: $(tail -n1 "$tmp/undivided/log.jsonl")"
"$SPLITC" train "$tmp/whole.yaml" --check-config >"$tmp/check.log" 2>&1 && grep -q '^WARN same-data: ' "$tmp/check.log" || fail "--check-config: $(cat "$tmp/check.log")"
# Rows that training has, too, where the evaluation has others beside them. Rows that repeat everywhere are no such sign.
cp -r "$tmp/whole" "$tmp/shared"
(cd "$tmp/shared" && { head -n 41 train.csv && awk -F, -v OFS=, 'NR > 1 && NR < 101 { $2 += 1000; print }' train.csv; } >val.csv)
for way in '--check-config' '--local --fresh --set train.max_steps=1'; do # (words)
	"$SPLITC" train "$tmp/whole.yaml" $way --set data.dir="$tmp/shared" --set log.dir="$tmp/shared-run" >"$tmp/shared.log" 2>&1 || fail "$way: $(cat "$tmp/shared.log")"
	grep -q '^WARN same-rows: 40 of 139 samples of the evaluation are samples of training' "$tmp/shared.log" || fail "$way: $(cat "$tmp/shared.log")"
done
(cd "$tmp/shared" && for f in train val; do awk -F, -v OFS=, 'NR > 1 { $2 = NR % 3; $3 = 1 } { print }' $f.csv >$f && mv $f $f.csv; done)
"$SPLITC" train "$tmp/whole.yaml" --check-config --set data.dir="$tmp/shared" >"$tmp/shared.log" 2>&1 && ! grep same-rows "$tmp/shared.log" || fail "few values: $(cat "$tmp/shared.log")"
"$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/undivided" >"$tmp/eval.log" 2>&1 || fail "eval of another training's model: $(cat "$tmp/eval.log")"
grep -q '^WARN other-data: the model was trained with split null, .*: samples of its training may be among these$' "$tmp/eval.log" || fail "eval with a split that the training had not: $(cat "$tmp/eval.log")"
"$SPLITC" predict "$tmp/client.yaml" --local --set log.dir="$tmp/undivided" "$tmp/table/train.csv" >"$tmp/rows" 2>"$tmp/eval.log" && ! grep -q other-data "$tmp/eval.log" ||
	fail "a split says nothing of files that are given: $(cat "$tmp/eval.log")"

# A separate evaluation set is accepted beside the divided one.
for how in --check-config '--local --set train.max_steps=1'; do
	cp "$tmp/table/train.csv" "$tmp/table/val.csv"
	# shellcheck disable=SC2086
	"$SPLITC" train "$tmp/client.yaml" --set log.dir="$tmp/beside" $how >"$tmp/beside.log" 2>&1 || fail "val.csv beside train.csv: $(cat "$tmp/beside.log")"
	rm "$tmp/table/val.csv"
	[ "$(grep -cF "WARN not-read: $tmp/table/val.csv is not read: data.split divides $tmp/table/train.csv alone" "$tmp/beside.log")" = 1 ] ||
		fail "val.csv beside train.csv: $(cat "$tmp/beside.log")"
done

# What an older version began has the split of that version: its model is evaluated by it, and its run is not resumed.
older() { # FILE: takes the mark of this version's split out of a file's metadata
	python3 - "$1" <<-'PY'
		import json, struct, sys
		raw = open(sys.argv[1], "rb").read()
		n = struct.unpack("<Q", raw[:8])[0]
		head = json.loads(raw[8:8 + n])
		meta = head["__metadata__"]
		assert ',"by_class":true' in meta["data"]
		meta["data"] = meta["data"].replace(',"by_class":true', "")
		text = json.dumps(head, separators=(",", ":")).encode()
		assert len(text) <= n
		open(sys.argv[1], "wb").write(raw[:8] + text.ljust(n) + raw[8 + n:])
	PY
}
older_run() {
	cp -r "$tmp/remote killed" "$tmp/older"
	for f in "$tmp/older"/*-*.safetensors; do older "$f"; done
	sed -i 's/,"by_class":true//' "$tmp/older/about.json"
	refusing='--resume' refused 78 "an older version began the run in '$tmp/older': its data.split did not divide each class" --set log.dir="$tmp/older"
}
# --resume with another split is refused: the new test samples could have been trained on.
other_split() { refusing='--resume' refused 78 'data.split is not that of the run' --set data.split.seed=1 --set log.dir="$tmp/remote killed" && older_run; }
between=other_split killed_client 6 remote "$tmp/client.yaml"

cp "$tmp/remote/model.safetensors" "$tmp/older.safetensors"
older "$tmp/older.safetensors"
"$SPLITC" eval "$tmp/client.yaml" --local --weights "$tmp/older.safetensors" >"$tmp/eval.log" 2>&1 || fail "an older model: $(cat "$tmp/eval.log")"
grep -qE '^INFO data-split: [0-9]+ samples are for test, divided by patient: large ' "$tmp/eval.log" && ! grep other-data "$tmp/eval.log" || fail "an older model: $(cat "$tmp/eval.log")"
# A class that a part lacks is named; training with one class alone is refused.
mkdir "$tmp/rare"
awk 'BEGIN { print "size,noise,kind"; for (i = 0; i < 60; i++) printf "%d,%d,%s\n", i * 37 % 101, i * 13 % 17, i == 59 ? "c" : i % 2 ? "b" : "a" }' >"$tmp/rare/train.csv"
shares() { [ "$1" -lt 3 ] && echo 0.6 0.4 || echo 0.4 0.6; } # SEED: the only row of a class is in the larger part
rare() { # SEED OPTION…
	local train val
	read -r train val < <(shares "$1")
	"$SPLITC" train "$tmp/client.yaml" --local --fresh --set data.dir="$tmp/rare" --set model.classes=3 --set data.split.by= --set data.split.seed="$1" \
		--set data.split.train="$train" --set data.split.val="$val" --set data.split.test=0 --set train.max_steps=1 --set log.dir="$tmp/rare-run" "${@:2}" >"$tmp/rare.log" 2>&1
}
learned=0
for seed in 0 1 2 3 4 5; do
	rare $seed || fail "a rare class: $(cat "$tmp/rare.log")"
	read -r train val < <(shares $seed)
	lacking=$("$SPLITC" data "$tmp/client.yaml" --json --set data.dir="$tmp/rare" --set model.classes=3 --set data.split.by= --set data.split.seed=$seed \
		--set data.split.train="$train" --set data.split.val="$val" --set data.split.test=0 | jq -r '.classes[2] | if .train == 0 then "training" else "the evaluation" end')
	[ "$(grep -c "^WARN class-missing: class \"c\": no sample of $lacking has it" "$tmp/rare.log")" = 1 ] || fail "seed $seed lacks c in $lacking: $(cat "$tmp/rare.log")"
	rare $seed --check-config && [ "$(grep -c "^WARN class-missing: .* $lacking has it" "$tmp/rare.log")" = 1 ] || fail "--check-config: $(cat "$tmp/rare.log")"
	rare $seed --json --set log.level=error && ! grep -q WARN "$tmp/rare.log" || fail "log.level: $(cat "$tmp/rare.log")"
	grep '^{' "$tmp/rare.log" | jq -e --arg part "$lacking" 'any(.warnings[]; .id == "class-missing" and (.text | contains($part)))' >/dev/null || fail "$(cat "$tmp/rare.log")"
	[ "$lacking" = training ] || learned=$((learned + 1))
done
[ $learned -gt 0 ] && [ $learned -lt 6 ] || fail "in $learned of 6 seeds the class is in training"
# A sweep names what its rows warn of: a mean over the folds would hide it.
sed 's/split: {[^}]*}/split: {folds: 3}/' "$tmp/client.yaml" >"$tmp/folds.yaml"
"$SPLITC" sweep "$tmp/folds.yaml" --local --out "$tmp/folds" --set data.dir="$tmp/rare" --set model.classes=3 --set train.max_steps=1 >"$tmp/sweep.log" 2>&1 ||
	fail "folds: $(cat "$tmp/sweep.log")"
[ "$(grep -c "^WARN row-warned: row-0[123]/stderr.log has warnings: .*class-missing" "$tmp/sweep.log")" = 3 ] || fail "folds without class c: $(cat "$tmp/sweep.log")"
sed -i 's/,b$/,a/' "$tmp/rare/train.csv"
refusals=0
for seed in 0 1 2 3 4 5; do
	rc=0
	rare $seed --set model.classes=2 || rc=$?
	[ $rc = 0 ] && continue
	[ $rc = 65 ] && grep -q 'data.split.seed: all samples of training have the same class' "$tmp/rare.log" || fail "one class: $rc, $(cat "$tmp/rare.log")"
	refusals=$((refusals + 1))
done
[ $refusals = $((6 - learned)) ] || fail "$refusals of 6 seeds are refused, where $((6 - learned)) have one class"

# 28 of 30 rows have one class: accuracy says little, and the baseline, the interval and the warnings say so.
mkdir "$tmp/unequal"
awk 'BEGIN { print "patient,size,noise,kind"; for (i = 0; i < 600; i++) printf "p%d,%d,%d,%s\n", i % 60, i * 37 % 101, i * 13 % 17, i % 60 % 15 == 3 ? "ill" : "well" }' >"$tmp/unequal/train.csv"
unequal() { "$SPLITC" "$1" "$tmp/client.yaml" --local --set data.dir="$tmp/unequal" --set log.dir="$tmp/unequal-run" "${@:2}"; }
unequal train --fresh --set train.optimizer.lr=1e-9 --set 'train.metrics=[balanced_accuracy,auc]' >"$tmp/unequal.log" 2>&1 || fail "$(cat "$tmp/unequal.log")"
grep -q '^WARN unequal-classes: of [0-9]* training samples [0-9]* are of class "ill", and [0-9]* of "well", so .*data.sampling: balanced or train.class_weights: balanced .*train.metrics' "$tmp/unequal.log" &&
	grep -qE '^INFO epoch: .*; validation loss [0-9.]+, accuracy [0-9.]+ % \(majority [0-9.]+ %\)' "$tmp/unequal.log" &&
	grep -qE '^95 % interval [0-9.]+ to [0-9.]+ %, by [0-9]+ groups; always "well" would be [0-9.]+ %$' "$tmp/unequal.log" || fail "unequal classes: $(cat "$tmp/unequal.log")"
# Each part has patients of both classes, and their numbers are said; few of them are warned of.
grep -qE '^INFO data-split: [0-9]+ samples are for validation, divided by class and patient: ill 10 of 1 group, well [0-9]+ of [56] groups$' "$tmp/unequal.log" &&
	grep -q '^WARN thin-part: the validation part has 10 samples of class "ill", of 1 group: ' "$tmp/unequal.log" || fail "thin parts: $(cat "$tmp/unequal.log")"
"$SPLITC" data "$tmp/client.yaml" --set data.dir="$tmp/unequal" --json 2>/dev/null | jq -e '.classes[0] == {name: "ill", train: 20, validation: 10, test: 10} and .train.groups + .validation.groups + .test.groups == 60' >/dev/null ||
	fail "parts are uneven: $("$SPLITC" data "$tmp/client.yaml" --set data.dir="$tmp/unequal" --json)"
# A run that is stopped says of its last whole evaluation what a finished one says; but not that it learned nothing
# where its ranking is better than chance.
"$SPLITC" train "$tmp/client.yaml" --local --fresh --set data.dir="$tmp/unequal" --set log.dir="$tmp/stopped-run" --set train.epochs=100000 --set train.metrics=auc >"$tmp/stopped.log" 2>&1 &
stopped=$!
started+=("$stopped")
is_in_third_epoch() { [ "$(grep -c '"type":"epoch"' "$tmp/stopped-run/log.jsonl" 2>/dev/null)" -ge 2 ]; }
wait_for 'no second epoch' is_in_third_epoch
signal INT "$stopped"
ends_with "$stopped" 75 $patience 'the run that is stopped'
grep -qE '^95 % interval [0-9.]+ to [0-9.]+ %, by [0-9]+ groups; always "well" would be ' "$tmp/stopped.log" || fail "a stopped run: $(tail -n 12 "$tmp/stopped.log")"
tail -n 1 "$tmp/stopped-run/log.jsonl" | jq -e '(.test_acc > .test_baseline.acc or .test_intervals.auc[0] > 0.5) != ($said > 0)' --argjson said "$(grep -c 'no-better-than-majority' "$tmp/stopped.log")" >"$tmp/out" ||
	fail "no-better-than-majority: $(tail -n 1 "$tmp/stopped-run/log.jsonl")"
for way in data.sampling=balanced train.class_weights=balanced; do
	unequal train --fresh --set $way --set train.max_steps=1 >"$tmp/mended.log" 2>&1 && ! grep unequal-classes "$tmp/mended.log" || fail "$way: $(cat "$tmp/mended.log")"
done
unequal eval --json >"$tmp/unequal.json" 2>"$tmp/eval.log" && jq -e '.test_acc as $acc | .evaluated_part == "test" and .test_baseline.class == "well" and .test_baseline.acc > 0.8 and
	.test_intervals.level == 0.95 and .test_intervals.groups * 10 == .test_intervals.samples and .test_intervals.acc[0] < $acc and $acc <= .test_intervals.acc[1]' "$tmp/unequal.json" >/dev/null || fail "$(cat "$tmp/unequal.json")"
jq -e '.test_acc <= .test_baseline.acc' "$tmp/unequal.json" >/dev/null && { jq -e 'any(.warnings[]; .id == "no-better-than-majority")' "$tmp/unequal.json" >/dev/null || fail 'no better than the majority'; }
tail -n 1 "$tmp/unequal-run/log.jsonl" | jq -e '.test_baseline.class == "well" and (.test_intervals.acc | length) == 2' >/dev/null || fail "$(tail -n 1 "$tmp/unequal-run/log.jsonl")"
"$SPLITC" init "$tmp/init.yaml" --data "$tmp/unequal" --set data.label=kind >"$tmp/out" 2>&1 && grep -q 'One class has less than a fifth' "$tmp/out" &&
	grep -A 2 'metrics:' "$tmp/init.yaml" | tr -d ' "\n' | grep -q 'balanced_accuracy.*auc' || fail "init: $(cat "$tmp/out" "$tmp/init.yaml")"

# A patient that is written in two ways would be in two parts.
sed '9s/,/ ,/' "$tmp/whole/train.csv" >"$tmp/table/train.csv"
refused 65 'the values of data.split.by "p49" and "p49 " are written in two ways: write them the same'
cp "$tmp/whole/train.csv" "$tmp/table/train.csv"

# Pictures in class folders without train/: a regular expression assigns them to patients.
make_data 60 20
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/all" 60
n=0
find "$tmp/all" -type f | sort | while read -r f; do mv "$f" "${f%/*}/p$((n % 9))_$n.${f##*.}"; n=$((n + 1)); done
cat >"$tmp/pictures.yaml" <<-YAML
	server: $endpoint
	model: {name: mobilenet_v2, classes: 10, image: 32, width: 0.25}
	data: {kind: images, dir: $tmp/all, split: {train: 0.5, val: 0.25, test: 0.25, by: "/p([0-9]+)_"}}
	train: {batch: 10, chunks: 2, seed: 1, optimizer: {lr: 0.01}}
	threads: 1
YAML
client pictures "$tmp/pictures.yaml" --local || fail "pictures: status $?"
"$SPLITC" predict "$tmp/pictures.yaml" --local --set log.dir="$tmp/pictures" --json 2>"$tmp/predict.log" | jq -r .name >"$tmp/rows" || fail "predict: $(cat "$tmp/predict.log")"
patients=$(grep -o '/p[0-9]*_' "$tmp/rows" | sort -u)
[ -n "$patients" ] && [ "$(find "$tmp/all" -type f | grep -cF "$patients")" = "$(wc -l <"$tmp/rows")" ] || fail "a patient's pictures are in two parts: $(cat "$tmp/rows")"

# Rows of one customer or patient that would be in two parts are warned of, whatever the column is called; ages, kinds,
# and numbers that all differ are not.
# repeating HOW: 60 customers of 8 rows each. Their names are texts, numbers in any order, or numbers whose rows follow
# each other with any label.
repeating() {
	mkdir -p "$tmp/$1"
	awk -v how="$1" 'BEGIN {
		srand(3)
		for (who = 0; who < 60; who++) drawn[who] = rand() < 0.5
		print "age,size,stage,number,Fallnummer,kind"
		for (i = 0; i < 480; i++) {
			who = how == "follow" ? int(i / 8) : i * 7 % 60
			ill = how == "follow" ? rand() < 0.5 : drawn[who]
			printf "%d,%.1f,%d,%d,%s,%s\n", 20 + rand() * 60, who + rand(), i % 4, i, how == "words" ? "c" who : 1000 + who * 37 % 61, ill ? "ill" : "well"
		}
	}' >"$tmp/$1/train.csv"
	sed -n '/^server/p' "$tmp/client.yaml" >"$tmp/$1.yaml"
	cat >>"$tmp/$1.yaml" <<-YAML
		model: {name: mlp, classes: 2, features: $([ "$1" = words ] && echo 64 || echo 5)}
		data: {kind: csv, dir: $tmp/$1, label: kind, split: {train: 0.8, val: 0.2}}
		train: {batch: 16, max_steps: 1}
	YAML
}
# warned WHAT COMMAND…: it warns once, as WHAT says
warned() {
	"${@:2}" >"$tmp/warned.log" 2>&1 || fail "$*: $(cat "$tmp/warned.log")"
	[ "$(grep -c '^WARN rows-repeat: ' "$tmp/warned.log")" = 1 ] && grep -qF "$1" "$tmp/warned.log" || fail "$*: $(cat "$tmp/warned.log")"
}
silent() {
	"$@" >"$tmp/silent.log" 2>&1 && ! grep rows-repeat "$tmp/silent.log" || fail "$*: $(cat "$tmp/silent.log")"
}
for how in words shuffled follow; do
	repeating $how
	said="WARN rows-repeat: $tmp/$how/train.csv: column \"Fallnummer\" has 60 different values in 480 rows, and data.split divides the rows one by one"
	warned "$said" "$SPLITC" train "$tmp/$how.yaml" --check-config
	warned 'set data.split.by: "Fallnummer"' "$SPLITC" train "$tmp/$how.yaml" --check-config --set data.ignore=Fallnummer --set model.features=4
	warned "$said" "$SPLITC" train "$tmp/$how.yaml" --local --fresh --set log.dir="$tmp/repeating"
	tail -n 1 "$tmp/repeating/log.jsonl" | jq -e 'any(.warnings[]; .id == "rows-repeat")' >/dev/null || fail "the summary of $how: $(tail -n 1 "$tmp/repeating/log.jsonl")"
	warned "$said" "$SPLITC" init "$tmp/init.yaml" --force --data "$tmp/$how" --set data.label=kind
	silent "$SPLITC" train "$tmp/$how.yaml" --check-config --set data.split.by=Fallnummer --set model.features=4
	# without that column nothing repeats
	cut -d, -f 1-4,6 "$tmp/$how/train.csv" >"$tmp/cut.csv"
	mv "$tmp/cut.csv" "$tmp/$how/train.csv"
	silent "$SPLITC" train "$tmp/$how.yaml" --check-config --set model.features=4
done
repeating words
"$SPLITC" data "$tmp/words.yaml" 2>&1 | grep '^WARN column-of-texts: .*data.split.by' >"$tmp/out" || fail 'column-of-texts without data.split.by'
# Pictures: the names tell. Their number comes last, and the key that is advised matches all of them.
n=0
mkdir -p "$tmp/series/a" "$tmp/series/b"
find "$tmp/all" -type f | sort | while read -r f; do cp "$f" "$tmp/series/$([ $((n % 2)) = 0 ] && echo a || echo b)/p0$((n % 20))_$((n / 20)).${f##*.}"; n=$((n + 1)); done
sed "s#dir: $tmp/all, split: {[^}]*}#dir: $tmp/series, split: {train: 0.8, val: 0.2}#; s/classes: 10/classes: 2/" "$tmp/pictures.yaml" >"$tmp/series.yaml"
warned 'the names of 60 pictures begin in 20 ways before their last number, such as "p0' "$SPLITC" train "$tmp/series.yaml" --check-config
by=$(sed -n "s/^WARN rows-repeat: .* set data.split.by: '\(.*\)': else figures.*/\1/p" "$tmp/warned.log")
silent "$SPLITC" train "$tmp/series.yaml" --check-config --set data.split.by="$by"
"$SPLITC" data "$tmp/series.yaml" --set data.split.by="$by" --json 2>/dev/null | jq -e '.train.groups + .test.groups == 20' >/dev/null || fail "data.split.by $by"
warned 'begin in 20 ways' "$SPLITC" init "$tmp/init.yaml" --force --data "$tmp/series"
# So they do of a patient in both parts, without data.split.
mkdir -p "$tmp/both/val/a" "$tmp/both/val/b"
cp -r "$tmp/series" "$tmp/both/train"
for class in a b; do mv "$tmp/both/train/$class"/p*_2.* "$tmp/both/val/$class"; done
sed "s#dir: $tmp/series, split: {[^}]*}#dir: $tmp/both#" "$tmp/series.yaml" >"$tmp/both.yaml"
warned 'the names of 20 of 20 pictures of the evaluation begin, before their last number, as names of training do, such as' "$SPLITC" train "$tmp/both.yaml" --check-config
# Beginnings that are classes are no patients.
for f in "$tmp"/series/[ab]/*; do
	kind=$(basename "${f%_*}")
	mkdir -p "$tmp/kinds/$kind"
	cp "$f" "$tmp/kinds/$kind"
done
silent "$SPLITC" train "$tmp/series.yaml" --check-config --set data.dir="$tmp/kinds" --set model.classes=20

# texts, divided by a field
"$TOOLS/make_text" "$tmp/made"
for i in $(seq 80); do echo "{\"text\": \"red boxes $((i * 7 % 90)) of fish\", \"label\": $((i % 2)), \"patient\": \"p$((i % 20))\"}"; done >"$tmp/texts/train.jsonl"
cat >"$tmp/texts.yaml" <<-YAML
	server: $endpoint
	model: {name: token_mlp, classes: 2, vocab: 700, tokens: 40, width: 0.25}
	head_end: embedding
	tail_begin: dense
	data: {kind: text, dir: $tmp/texts, tokenizer: $tmp/made, split: {folds: 4, fold: 1, by: patient}}
	train: {batch: 10, seed: 3}
	threads: 1
YAML
client texts "$tmp/texts.yaml" --local || fail "texts: status $?"
val=$(sed -n 's/^INFO data-split: \([0-9]*\) samples are for validation, divided by class and patient: .*/\1/p' "$tmp/texts.log")
sed -i.kept '7s/"patient": "\(p[0-9]*\)"/"patient": "\1 "/' "$tmp/texts/train.jsonl"
config=$tmp/texts.yaml refused 65 'the values of data.split.by "p7" and "p7 " are written in two ways'
mv "$tmp/texts/train.jsonl.kept" "$tmp/texts/train.jsonl"
[ $((val % 4)) = 0 ] && [ "$val" -gt 0 ] || fail "patients have four texts each, and $val validate"

sed 's/split: {[^}]*}/split: {train: 0.5, val: 0.25, test: 0.25, by: patient}/' "$tmp/texts.yaml" >"$tmp/three.yaml"
[ "$("$SPLITC" data "$tmp/three.yaml" --json | jq -c '[.evaluated_part, .train.samples + .validation.samples + .test.samples]')" = '["validation",80]' ] || fail 'data of texts has not all parts'

# The assignment of texts to parts does not depend on the maximal length or on the tokenizer.
sed 's/split: {[^}]*}/split: {train: 0.5, test: 0.5}/' "$tmp/texts.yaml" >"$tmp/halves.yaml"
mkdir "$tmp/plain"
jq -c 'del(."<s>", ."</s>", ."<pad>", ."<mask>")' "$tmp/made/vocab.json" >"$tmp/plain/vocab.json"
cp "$tmp/made/merges.txt" "$tmp/plain"
tests() { "$SPLITC" predict "$tmp/halves.yaml" --local --weights "$tmp/texts/model.safetensors" --json "$@" 2>"$tmp/predict.log" | jq -r .name; }
[ -n "$(tests)" ] && [ "$(tests)" = "$(tests --set data.max_length=3)" ] || fail "rows that are cut are in another part: $(cat "$tmp/predict.log")"
[ "$(tests)" = "$(tests --set data.tokenizer="$tmp/plain")" ] || fail "of another tokenizer texts are in another part: $(cat "$tmp/predict.log")"

refused 78 'train, val and test must add up to 1, and are 0.7, 0.2 and 0.2' --set data.split.val=0.2
refused 78 'data.split.val: leaves nothing to train with' --set data.split.train=0 --set data.split.val=0.8
refused 65 'no column "doctor" (data.split.by)' --set data.split.by=doctor
config=$tmp/pictures.yaml refused 78 'is no regular expression' --set 'data.split.by=p('
config=$tmp/pictures.yaml refused 65 'its name does not match "z9"' --set data.split.by=z9
config=$tmp/texts.yaml refused 78 'must be below data.split.folds (4), got 4' --set data.split.fold=4
config=$tmp/texts.yaml refused 78 'data.split.folds say which samples train' --set data.split.train=0.5
refused 78 'needs data.split.folds' --set data.split.fold=1

# Masks of one class, or without one of the classes.
masks() { # CLASSES of the pixels
	rm -rf "$tmp/scans"
	python3 - "$tmp" "$@" <<-'PY'
		import os, sys
		sys.path.insert(0, "tests/mixed")
		import draw
		draw.write_network(sys.argv[1] + "/pixels.safetensors", 3)
		classes = [int(x) for x in sys.argv[2:]]
		for part in ("train", "val"):
		    for folder in (f"{sys.argv[1]}/scans/{part}", f"{sys.argv[1]}/scans/masks/{part}"):
		        os.makedirs(folder)
		    for i in range(6):
		        draw.write_png(f"{sys.argv[1]}/scans/{part}/{i}.png", 8, [(i * 31 + k * 7) % 256 for k in range(192)], 3)
		        draw.write_png(f"{sys.argv[1]}/scans/masks/{part}/{i}.png", 8, [classes[k % len(classes)] for k in range(64)], 1)
	PY
	"$SPLITC" train "$tmp/masks.yaml" --local --fresh >"$tmp/masks.log" 2>&1 || fail "masks of $*: $(cat "$tmp/masks.log")"
}
cat >"$tmp/masks.yaml" <<-YAML
	model: {network: $tmp/pixels.safetensors, task: pixels}
	head_end: act0
	tail_begin: conv4
	data: {kind: images, dir: $tmp/scans, label: [back, disc, square], transforms: ["Resize((8, 8))"], test_transforms: ["Resize((8, 8))"]}
	train: {batch: 3, chunks: 1, epochs: 1}
	threads: 1
	log: {dir: $tmp/masks}
YAML
masks 0
[ "$(grep -cE '^WARN one-class-masks: 6 masks of (training|the evaluation) were looked at: all pixels are 0, so' "$tmp/masks.log")" = 2 ] || fail "masks of one class: $(cat "$tmp/masks.log")"
masks 0 2
[ "$(grep -c '^WARN class-missing: class "disc": none of 6 masks' "$tmp/masks.log")" = 2 ] || fail "masks without a class: $(cat "$tmp/masks.log")"
masks 0 1 2
! grep WARN.*mask "$tmp/masks.log" || fail 'good masks are warned of'
echo passed
