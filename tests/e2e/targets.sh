#!/usr/bin/env bash
# Several numbers or labels per row of a table: a run with a server equals --local, also over a kill of the client. The
# model predicts rows of another folder after the training data were removed. What does not fit is refused with a
# sentence. The same for texts, from columns of TSV, CSV and JSON Lines.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/table" "$tmp/new"
rows() {
	echo 'id,a,b,colour,height,"weight, kg",cough,fever,rare,kind'
	awk -v from="$1" -v to="$2" 'BEGIN {
		split("red green", colour, " ")
		for (i = from; i < to; i++) {
			a = (i * 37 % 101 - 50) / 30; b = (i * 53 % 89) / 15; c = i * 7 % 2 + 1
			printf "row-%d,%.3f,%.3f,%s,%.3f,%.3f,%d,%d,%d,k%d\n", i, a, b, colour[c], 2 * a + b, b - a * a + c, (a > 0.3), (b > 3.5), (a + b > 5), (a > 1) + 2 * (b > 4)
		}
	}'
}
rows 0 300 >"$tmp/table/train.csv"
rows 300 400 >"$tmp/table/val.csv"
start_server one
config() {
	cat >"$tmp/$1.yaml" <<-YAML
		server: $endpoint
		model: {name: mlp, task: $1, features: 4, $2dropout: 0.1}
		data: {kind: csv, dir: $tmp/table, label: $3, ignore: $4}
		train: {batch: 32, chunks: 3, epochs: 6, seed: 1, checkpoint_every: 10, keep_best: true, optimizer: {kind: adam, lr: 0.02}, $5}
		threads: 1
	YAML
}
config numbers '' '[height, "weight, kg"]' '[id, cough, fever, rare, kind]' 'loss: huber, metrics: [pearson]'
config labels 'classes: 3, ' '[cough, fever, rare]' '[id, height, "weight, kg", kind]' 'metrics: [f1_micro, average_precision]'
config classes 'classes: 4, ' kind '[id]' 'class_weights: balanced, label_smoothing: 0.1'
sed -i 's/features: 4/features: 9/' "$tmp/classes.yaml"

"$SPLITC" data "$tmp/labels.yaml" --json >"$tmp/out" || fail "data: exit status $?"
for label in cough:7 fever:8 rare:9; do
	have=$(tail -n +2 "$tmp/table/train.csv" | cut -d, -f${label#*:} | grep -c 1)
	jq -e --argjson n "$have" --arg of ${label%:*} '.classes[] | select(.name == $of) | .train == $n' "$tmp/out" >"$tmp/said" || fail "data: $(cat "$tmp/out")"
done

# twin TASK: with a server, local, and killed after step 25 of 60.
twin() {
	as_local "$1-linked" "$1-local" 60 "$tmp/$1.yaml" --json
	killed_client 25 "$1-linked" "$tmp/$1.yaml"
}
twin numbers
twin labels
twin classes
is() { tail -n 1 "$tmp/$1.log" | jq -e "$2" >"$tmp/out" || fail "$1: $2: $(tail -n 1 "$tmp/$1.log" | jq -c '{test_metrics, targets}')"; }
is numbers-local '.test_metrics.r2 > 0.8 and .test_acc == null and (.targets | map(.name)) == ["height", "weight, kg"]'
is numbers-local '([.targets[].rmse] | add / 2) - .test_metrics.rmse | fabs < 1e-12'
is numbers-local '.test_baseline.rmse > .test_metrics.rmse and .test_intervals == null'
is labels-local '.test_metrics.auc > 0.9 and .test_metrics.f1 > 0.7 and (.targets | map(.name)) == ["cough", "fever", "rare"]'
is labels-local '([.targets[].auc] | add / 3) - .test_metrics.auc | fabs < 1e-12'

# Numbers far from 1: unscaled they are learned badly, or end in NaN, and a warning says what to write. Scaled they are
# learned, and what is predicted and measured is in their own units.
awk -F, -v OFS=, 'NR > 1 { $5 = $5 * 900 + 20000; $6 = $6 / 500 - 3 } 1' "$tmp/table/train.csv" >"$tmp/far.csv"
mkdir "$tmp/far"
sed '1s/.*/id,a,b,colour,height,weight,cough,fever,rare,kind/' "$tmp/far.csv" >"$tmp/far/train.csv"
sed -e "s|dir: [^,]*|dir: $tmp/far, split: {train: 0.8, val: 0.2}|; s/\"weight, kg\"/weight/" "$tmp/numbers.yaml" >"$tmp/far.yaml"
client far-plain "$tmp/far.yaml" --local --json || true
grep -q '^WARN label-size: the numbers in height have mean 2.*Write data.scale_label: true' "$tmp/far-plain.log" || fail "no word of the size of numbers"
sed -i 's/data: {/data: {scale_label: true, /' "$tmp/far.yaml"
as_local far-linked far-local "$(steps_of far-plain)" "$tmp/far.yaml" --json
! grep -q label-size "$tmp/far-local.log" || fail 'a warning of numbers that are scaled'
is far-local '.test_metrics.r2 > 0.8 and (.targets | map(.rmse) | .[0] > 50 and .[1] < 0.01)'
"$SPLITC" export "$tmp/far.yaml" "$tmp/far.safetensors" --set log.dir="$tmp/far-linked" 2>"$tmp/export.log" || fail 'export of scaled numbers'
grep -q '^WARN scaled-outputs: ' "$tmp/export.log" || fail 'no word of scaled outputs'
for with in "--set log.dir=$tmp/far-linked" "--weights $tmp/far.safetensors --set log.dir= --set data.scale_label=false"; do
	"$SPLITC" predict "$tmp/far.yaml" --local --json $with 2>"$tmp/predict.log" >"$tmp/far.known" || fail "predict: $(cat "$tmp/predict.log")"
	jq -se --argjson rmse "$(tail -n 1 "$tmp/far-local.log" | jq '.targets[0].rmse')" \
		'(map((.numbers[0] - .predicted[0]) | . * .) | add / length | sqrt) / $rmse - 1 | fabs < 1e-3' "$tmp/far.known" >"$tmp/out" || fail "$with: $(head -n 2 "$tmp/far.known")"
done
rc=0
client far-local "$tmp/far.yaml" --set data.scale_label=false --set server="$endpoint" --set log.dir="$tmp/far-linked" --resume || rc=$?
[ $rc != 0 ] && grep -q 'data.scale_label, or the mean' "$tmp/far-local.log" || fail "--resume with another scale: $rc"
config=$tmp/far.yaml refused 78 'members that share a tail would scale their numbers differently' --set share.group=g

# Training on from a model: data.like takes its scale, too. Without it the run learns by another one, and says so.
awk -F, -v OFS=, 'NR > 1 { $5 += 9000 } 1' "$tmp/far/train.csv" >"$tmp/far.csv"
mkdir "$tmp/on"
mv "$tmp/far.csv" "$tmp/on/train.csv"
scale_of() { jq -c .label_scale "$tmp/$1/about.json"; }
on=(--local --set data.dir="$tmp/on" --set model.weights="$tmp/far-linked/model.safetensors")
client on-new "$tmp/far.yaml" "${on[@]}" || fail 'training on'
grep -q '^WARN other-scale: model.weights predicts a number as output \* ' "$tmp/on-new.log" && [ "$(scale_of on-new)" != "$(scale_of far-linked)" ] || fail 'no word of another scale'
client on-like "$tmp/far.yaml" "${on[@]}" --set data.like="$tmp/far-linked/about.json" || fail 'training on by data.like'
! grep -q other-scale "$tmp/on-like.log" && [ "$(scale_of on-like)" = "$(scale_of far-linked)" ] || fail "data.like: $(scale_of on-like)"
rc=0
client on-bad "$tmp/far.yaml" "${on[@]}" --set data.like="$tmp/far-linked/about.json" --set data.label=weight,height || rc=$?
[ $rc = 65 ] && grep -q 'data.like: its number 1 is height' "$tmp/on-bad.log" || fail "data.like of other numbers: $rc"

# Equal numbers have no deviation: rounding is none.
mkdir "$tmp/equal"
awk -v OFS=, 'BEGIN { print "a", "y"; for (i = 0; i < 6; i++) print i, 0.1 }' >"$tmp/equal/train.csv"
awk -v OFS=, 'BEGIN { print "a", "y"; print 3, 1.1 }' >"$tmp/equal/val.csv"
sed -e "s|dir: [^,]*|dir: $tmp/equal|; s/label: \[[^]]*\]/label: y/; s/ignore: \[[^]]*\]/ignore: []/; s/features: 4/features: 1/; s/loss: huber, //; s/pearson/rmse/" "$tmp/far.yaml" >"$tmp/equal.yaml"
sed -i 's/, split: {[^}]*}//' "$tmp/equal.yaml"
client equal "$tmp/equal.yaml" --local --json || fail 'equal numbers'
is equal '.test_loss < 10' && jq -e '.label_scale[0][1] == 1' "$tmp/equal/about.json" >"$tmp/out" || fail "equal numbers: $(scale_of equal)"

# Numbers whose differences floats do not hold are not learned in silence, nor evaluated or predicted.
sed -i 's/,0.1$/&0000/; s/^\([0-9]\),0.10000$/\1,170000000\1/' "$tmp/equal/train.csv"
sed -i '2s/.*/3,1700000003/' "$tmp/equal/val.csv"
client rounded "$tmp/equal.yaml" --local --json --set data.scale_label=false || fail 'numbers that are rounded'
rounded() { grep -q '^WARN label-rounded: floats of 32 bits hold the numbers in y in steps of 2e+02: .* Train anew with data.scale_label: true' "$1" || fail "no word of rounding: $(grep WARN "$1")"; }
rounded "$tmp/rounded.log"
is rounded '.label_rounding | length == 1 and .[0] > 100'
for reader in 'eval --json' 'predict --json' "predict --json $tmp/equal/val.csv"; do
	set -- $reader
	"$SPLITC" "$1" "$tmp/equal.yaml" --local "${@:2}" --set data.scale_label=false --set log.dir="$tmp/rounded" 2>"$tmp/predict.log" >"$tmp/read.log" || fail "$reader"
	rounded "$tmp/predict.log"
	[ "$1" = predict ] || is read '.label_rounding[0] > 100'
done
echo 3 | sed '1i a' | "$SPLITC" predict "$tmp/equal.yaml" --local --stream --set data.scale_label=false --set log.dir="$tmp/rounded" 2>"$tmp/predict.log" >"$tmp/out"
rounded "$tmp/predict.log"

# Scaled, such numbers keep their differences: a centre is taken off in double, and added again in each answer.
mkdir "$tmp/when"
awk -v OFS=, 'BEGIN { print "a", "b", "when", "y"; for (i = 0; i < 200; i++) { a = i * 37 % 101 / 101; b = i * 53 % 89 / 89; printf "%.4f,%.4f,%.3f,%.4f\n", a, b, 1700000000 + 30 * a + 29 * b, a - b } }' >"$tmp/when/train.csv"
{ sed -n 1p "$tmp/when/train.csv" && sed -n 101,140p "$tmp/when/train.csv"; } >"$tmp/when/val.csv"
sed -i 101,140d "$tmp/when/train.csv"
sed -e "s|dir: [^,]*|dir: $tmp/when|; s/, split: {[^}]*}//; s/label: \[[^]]*\]/label: [when, y]/; s/ignore: \[[^]]*\]/ignore: []/; s/features: 4/features: 2/; s/epochs: 6/epochs: 30/; s/pearson/rmse/" "$tmp/far.yaml" >"$tmp/times.yaml"
sed -i 's/dropout: 0.1/dropout: 0/' "$tmp/times.yaml"
client times "$tmp/times.yaml" --local --json || fail 'numbers above 2^24'
! grep -q label-rounded "$tmp/times.log" || fail 'a warning of numbers that are kept'
is times '.targets[0] | .rmse > 0 and .rmse < 6 and .r2 > 0.7'
jq -e '.label_scale | (.[0] | length == 3 and .[0] > 1700000020 and .[2] >= 1700000000 and .[1] < 30) and (.[1] | length == 2)' "$tmp/times/about.json" >"$tmp/out" || fail "$(scale_of times)"
on_times() { "$SPLITC" "$1" "$tmp/times.yaml" --local --set log.dir="$tmp/times" "${@:2}" 2>"$tmp/predict.log"; }
on_times eval --json >"$tmp/times-eval.log" || fail 'eval of times'
cmp <(tail -n 1 "$tmp/times.log" | jq -c .targets) <(jq -c .targets "$tmp/times-eval.log") || fail 'eval has other figures than the run'
on_times predict --csv >"$tmp/times.csv" || fail 'predict times'
cmp <(cut -d, -f2 "$tmp/times.csv" | sed 1d) <(cut -d, -f3 "$tmp/when/val.csv" | sed '1d; s/0*$//; s/\.$//') || fail 'other numbers than the table has'
awk -F, -v rmse="$(jq '.targets[0].rmse' "$tmp/times-eval.log")" 'NR > 1 { s += ($2 - $4) ^ 2; n++ } END { d = sqrt(s / n) / rmse - 1; exit !(n == 40 && d < 1e-3 && d > -1e-3) }' "$tmp/times.csv" || fail 'predictions do not have the rmse'
on_times predict >"$tmp/out" && awk 'NR == 2 && $2 > 1700000000 && $3 > 1700000000 && $2 != $3 { found = 1 } END { exit !found }' "$tmp/out" || fail "text: $(head -n 2 "$tmp/out")"
on_times predict --json >"$tmp/times.known"
cut -d, -f1,2 "$tmp/when/val.csv" >"$tmp/new/times.csv"
on_times predict --json "$tmp/new/times.csv" | jq -c .predicted >"$tmp/out"
cmp "$tmp/out" <(jq -c .predicted "$tmp/times.known") || fail 'other predictions of given rows'
on_times predict --stream <"$tmp/new/times.csv" | jq -c .predicted >"$tmp/out"
cmp "$tmp/out" <(jq -c .predicted "$tmp/times.known") || fail 'other predictions of a stream'
"$SPLITC" export "$tmp/times.yaml" "$tmp/times.safetensors" --set log.dir="$tmp/times" 2>"$tmp/export.log" || fail 'export of times'
"$SPLITC" predict "$tmp/times.yaml" --local --json --weights "$tmp/times.safetensors" --set log.dir= 2>"$tmp/predict.log" | jq -c .predicted | cmp - <(jq -c .predicted "$tmp/times.known") || fail 'other predictions of an export'
# Of a further run, and of a run that is resumed.
awk -F, -v OFS=, 'NR > 1 { $3 += 1000 } 1' OFMT=%.3f CONVFMT=%.3f "$tmp/when/train.csv" >"$tmp/on/train.csv"
cp "$tmp/when/val.csv" "$tmp/on/val.csv"
client times-on "$tmp/times.yaml" --local --json --set data.dir="$tmp/on" --set model.weights="$tmp/times.safetensors" --set data.like="$tmp/times.safetensors" --set train.epochs=1 || fail 'a further run of times'
[ "$(scale_of times-on)" = "$(scale_of times)" ] && ! grep -q other-scale "$tmp/times-on.log" || fail "a further run: $(scale_of times-on)"
client times-linked "$tmp/times.yaml" --json --set train.epochs=29 || fail 'times with a server'
client times-linked "$tmp/times.yaml" --json --resume || fail "--resume: $(tail -n 1 "$tmp/times-linked.log")"
cmp <(jq -c .targets "$tmp/times-eval.log") <(tail -n 1 "$tmp/times-linked.log" | jq -c .targets) || fail 'a resumed run has other figures'

# Numbers have no accuracy.
"$SPLITC" eval "$tmp/numbers.yaml" --local --parity --set codec=quant:8 --set log.dir="$tmp/numbers-linked" >"$tmp/out" 2>"$tmp/err" || fail "parity: $(cat "$tmp/err")"
grep -qE '^quant:8 +quant:8 +- +[0-9.]+$' "$tmp/out" && ! grep -q nan "$tmp/out" || fail "parity: $(cat "$tmp/out")"

# from the model file alone
for task in numbers labels; do
	"$SPLITC" export "$tmp/$task.yaml" "$tmp/$task.safetensors" --set log.dir="$tmp/$task-linked" >"$tmp/export.log" 2>&1 || fail "export of $task"
	"$SPLITC" predict "$tmp/$task.yaml" --local --json --set log.dir="$tmp/$task-linked" >"$tmp/$task.known" 2>"$tmp/predict.log" || fail "predict $task"
done
cut -d, -f2-4 "$tmp/table/val.csv" >"$tmp/new/patients.csv"
rm -r "$tmp/table"
predict() {
	"$SPLITC" predict "$tmp/$1.yaml" --local --weights "$tmp/$1.safetensors" --set log.dir= "${@:2}" "$tmp/new/patients.csv" 2>"$tmp/predict.log" ||
		fail "predict $1 on another host: exit status $?"
}
predict numbers --json | jq -c .predicted | cmp - <(jq -c .predicted "$tmp/numbers.known") || fail 'other numbers without the table'
predict labels --json | jq -c '[.said, .probabilities]' | cmp - <(jq -c '[.said, .probabilities]' "$tmp/labels.known") || fail 'other labels without the table'
[ "$(predict numbers --csv | head -n 1)" = 'sample,predicted_height,"predicted_weight, kg",name' ] || fail "$(predict numbers --csv | head -n 1)"
[ "$(predict labels --csv | head -n 1)" = sample,said_cough,said_fever,said_rare,probability_cough,probability_fever,probability_rare,name ] ||
	fail "$(predict labels --csv | head -n 1)"
predict labels >"$tmp/text"
grep -qE '^ +[0-9]+  (cough|fever) 0\.[0-9]{4}(, rare 0\.[0-9]+)?  ' "$tmp/text" || fail "no labels: $(head -n 3 "$tmp/text")"
# A label is printed if its probability reaches the threshold that is stored in the model.
tail -c +9 "$tmp/labels.safetensors" | head -c 20000 | grep -ao '\\"thresholds\\":\[[^]]*\]' | grep -o '\[.*' >"$tmp/thresholds" || fail 'no thresholds'
jq -se --slurpfile t "$tmp/thresholds" 'all(.[]; . as $row | [range(3) | if $row.probabilities[.] >= $t[0][.] - 1e-8 then 1 else 0 end] == $row.said)' \
	"$tmp/labels.known" >"$tmp/out" || fail "thresholds $(cat "$tmp/thresholds")"

# pictures that a table names
make_data 120 60
mkdir "$tmp/photos"
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/photos/train" 120
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/photos/val" 60
table_of() {
	echo file,number,even,large
	(cd "$tmp/photos" && find "$1" -type f | sort) | awk -F/ '{n = substr($2, length($2)); printf "%s,%s,%d,%d\n", $0, n / 5, n % 2 == 0, (n > 4)}'
}
for part in train val; do table_of $part >"$tmp/photos/$part.csv"; done
pictures() {
	cat >"$tmp/$1.yaml" <<-YAML
		server: $endpoint
		model: {name: mobilenet_v2, width: 0.25, form: imagenet, task: $2, classes: $3, image: 32}
		data: {kind: images, dir: $tmp/photos, label: $4, normalize: cifar10}
		train: {batch: 30, chunks: 2, epochs: 2, seed: 1, checkpoint_every: 3, optimizer: {kind: adam, lr: 0.002}}
		threads: 1
	YAML
}
pictures ages numbers 1 number
pictures signs labels 2 '[even, large]'
for name in ages signs; do
	client "$name-linked" "$tmp/$name.yaml" || fail "$name with a server: exit status $?"
	killed_client 5 "$name-linked" "$tmp/$name.yaml"
done
client signs-local "$tmp/signs.yaml" --local --json || fail "signs, --local: exit status $?"
same_run signs-linked signs-local 8
is signs-local '(.targets | map(.name)) == ["even", "large"]'
"$SPLITC" data "$tmp/signs.yaml" --sheet "$tmp/sheet.png" >"$tmp/out" && grep -q '^width' "$tmp/out" || fail "data: $(cat "$tmp/out")"
"$SPLITC" predict "$tmp/signs.yaml" --local --json --set log.dir="$tmp/signs-linked" >"$tmp/signs.known" 2>"$tmp/predict.log" || fail 'predict signs'
mv "$tmp/photos/val" "$tmp/new/val"
"$SPLITC" predict "$tmp/signs.yaml" --local --json --set log.dir="$tmp/signs-linked" --set data.dir="$tmp/nowhere" "$tmp/new/val" >"$tmp/signs.new" 2>"$tmp/predict.log" ||
	fail "predict signs elsewhere: exit status $?"
diff <(jq -c '[(.name | sub(".*/val/"; "")), .said, .probabilities]' "$tmp/signs.known" | sort) \
	<(jq -c '[(.name | sub(".*/val/"; "")), .said, .probabilities]' "$tmp/signs.new" | sort) >"$tmp/out" || fail "other labels elsewhere: $(head -n 2 "$tmp/out")"

# the table of pictures has numbers above 2^24
mv "$tmp/new/val" "$tmp/photos/val"
for part in train val; do
	mv "$tmp/photos/$part.csv" "$tmp/$part.plain"
	awk -F, -v OFS=, -v CONVFMT=%.3f 'NR > 1 { $2 = sprintf("%.1f", $2 + 1700000000) } 1' "$tmp/$part.plain" >"$tmp/photos/$part.csv"
done
client ages-large "$tmp/ages.yaml" --local --json --set data.scale_label=true --set train.epochs=1 || fail "pictures: $(tail -n 1 "$tmp/ages-large.log")"
is ages-large '.targets == null and .test_loss > 0.01 and .test_loss < 100'
"$SPLITC" predict "$tmp/ages.yaml" --local --json --set log.dir="$tmp/ages-large" 2>"$tmp/predict.log" | jq .number | cmp - <(sed 1d "$tmp/photos/val.csv" | cut -d, -f2 | sed 's/\.0$//') || fail 'other numbers of pictures'
for part in train val; do mv "$tmp/$part.plain" "$tmp/photos/$part.csv"; done

mkdir "$tmp/table"
rows 0 30 >"$tmp/table/train.csv"
rows 0 30 >"$tmp/table/val.csv"
echo '- {name: plain, codec: none}' >"$tmp/rows.yaml"
"$SPLITC" sweep "$tmp/numbers.yaml" --codecs "$tmp/rows.yaml" --local --out "$tmp/sweep" --set train.epochs=1 >"$tmp/sweep.log" 2>&1 || fail "a sweep of numbers: exit status $?"
grep -q '^    loss [0-9.]*, rate ' "$tmp/sweep.log" || fail "a sweep of numbers says $(grep -m 1 rate "$tmp/sweep.log")"
config=$tmp/numbers.yaml refused 78 'data.label names 2 columns, and the network has 5 outputs' --set model.classes=5
config=$tmp/labels.yaml refused 78 'mse, l1 and huber are losses of numbers' --set train.loss=l1
config=$tmp/labels.yaml refused 78 'several columns are several numbers or labels' --set model.task=classes
config=$tmp/numbers.yaml refused 65 'train.csv:2: column "colour": "red" is no number' --set data.label=height,colour
config=$tmp/labels.yaml refused 65 'is no label: 1, the row has it, or 0' --set data.label=cough,fever,a
config=$tmp/labels.yaml refused 78 'no metric "mae" of several labels; there are' --set train.metrics=mae
config=$tmp/numbers.yaml refused 78 'belongs to classes and several labels' --set train.class_weights=balanced
config=$tmp/labels.yaml refused 78 'needs a number for each of the 3 classes or labels, got 2' --set train.class_weights=1,2
config=$tmp/labels.yaml refused 78 'balanced stands alone, and not in a list' --set train.class_weights=balanced,2,3
config=$tmp/labels.yaml refused 78 'must be none, balanced, or a number above 0' --set train.class_weights=heavy
config=$tmp/classes.yaml refused 78 'give all of them the same list' --set share.group=g
config=$tmp/labels.yaml refused 78 'only classes can be mixed or smoothed' --set train.mixup=0.2
config=$tmp/numbers.yaml refused 78 'only classes can be mixed or smoothed' --set train.label_smoothing=0.1
sed -i '3s/,[01],/,2,/' "$tmp/table/val.csv"
config=$tmp/labels.yaml refused 65 'val.csv:3: column "cough": "2" is no label: 1, the row has it, or 0'
config=$tmp/ages.yaml refused 65 'train.csv: no column "weight" (data.label)' --set data.label=weight
cp "$tmp/photos/train.csv" "$tmp/out.csv"
sed -n 3p "$tmp/out.csv" | sed 's/[01]$/2/;s/2$/0/' >>"$tmp/photos/train.csv"
config=$tmp/signs.yaml refused 65 'is in two rows: a picture has one, with all its numbers or labels'
rm "$tmp/photos/train.csv"
config=$tmp/signs.yaml refused 66 'train.csv is missing: it names pictures'
sed '1s/file/path/' "$tmp/out.csv" >"$tmp/photos/train.csv"
config=$tmp/signs.yaml refused 65 'train.csv: no column "file" (it names the pictures); the header names path, number'
config=$tmp/signs.yaml refused 78 'several labels are of data.kind: csv, images and text' --set data.kind=webdataset

# ---- texts
mkdir "$tmp/made" "$tmp/plain" "$tmp/own"
"$TOOLS/make_text" "$tmp/made"
jq -c 'del(."<s>", ."</s>", ."<pad>", ."<mask>")' "$tmp/made/vocab.json" >"$tmp/plain/vocab.json" # a row's first token is of its first word
cp "$tmp/made/merges.txt" "$tmp/plain"
# texts FROM TO: text, warm, fresh, length, price; the first word determines them.
texts() {
	awk -v from="$1" -v to="$2" 'BEGIN {
		split("red green fish water", word, " ")
		for (i = from; i < to; i++) {
			k = i * 7 % 4
			printf "%s the boxes %d.\t%d\t%d\t%.2f\t%.2f\n", word[k + 1], i, (k % 2 == 0), (k > 1), k / 2 - 0.5, 1 - k * k / 4
		}
	}'
}
header=$'text\twarm\tfresh\tlength\tprice'
{ echo "$header" && texts 0 160; } >"$tmp/own/train.tsv"
{ echo "$header" && texts 160 240; } | tr '\t' , >"$tmp/own/more.csv"
{ echo "$header" && texts 240 320; } >"$tmp/own/dev.tsv"
texts 240 320 | jq -cR 'split("\t") | {text: .[0], warm: (.[1] | tonumber), fresh: .[2], length: .[3], price: (.[4] | tonumber)}' >"$tmp/own/dev.jsonl"
text_config() {
	cat >"$tmp/$1.yaml" <<-YAML
		server: $endpoint
		model: {name: token_mlp, task: $1, vocab: 700, tokens: 40, width: 0.25}
		head_end: embedding
		tail_begin: dense
		data: {kind: text, dir: $tmp/own, tokenizer: $tmp/plain, label: $2, train_files: [train.tsv, more.csv], test_files: [$3]}
		train: {batch: 16, chunks: 4, epochs: 3, seed: 3, checkpoint_every: 5, optimizer: {kind: adamw, lr: 0.02}, $4}
		threads: 1
	YAML
}
text_config labels '[warm, fresh]' dev.jsonl 'class_weights: balanced'
text_config numbers '[length, price]' dev.tsv 'loss: l1'
"$SPLITC" data "$tmp/labels.yaml" --json | jq -c '[.classes[] | [.name, .train, .test]]' >"$tmp/out"
[ "$(cat "$tmp/out")" = '[["warm",120,40],["fresh",120,40]]' ] || fail "data: $(cat "$tmp/out")"
"$SPLITC" data "$tmp/numbers.yaml" >"$tmp/out" || fail "data: exit status $?"
for task in labels numbers; do
	as_local text-$task text-$task-local 45 "$tmp/$task.yaml" --json
	killed_client 20 text-$task "$tmp/$task.yaml"
	"$SPLITC" predict "$tmp/$task.yaml" --local --json --set log.dir="$tmp/text-$task" >"$tmp/$task.known" 2>"$tmp/predict.log" || fail "predict $task"
	texts 240 320 | cut -f1 | "$SPLITC" predict "$tmp/$task.yaml" --local --json --set log.dir="$tmp/text-$task" --set data.dir="$tmp/gone" - >"$tmp/$task.new" \
		2>"$tmp/predict.log" || fail "predict $task without the texts: $(cat "$tmp/predict.log")"
	cmp <(jq -c '[.said, .probabilities, .predicted]' "$tmp/$task.known") <(jq -c '[.said, .probabilities, .predicted]' "$tmp/$task.new") ||
		fail "$task: others without the texts"
done
is text-labels-local '.test_metrics.auc > 0.99 and (.targets | map(.name)) == ["warm", "fresh"]'
is text-numbers-local '.test_metrics.r2 > 0.9 and (.targets | map(.name)) == ["length", "price"]'
jq -se 'all(.[]; .labels == .said)' "$tmp/labels.known" >"$tmp/out" || fail 'labels that were not learned are said'
[ "$(jq -c .labels "$tmp/labels.known" | sort | uniq -c | awk '{print $1}' | tr '\n' ' ')" = '20 20 20 20 ' ] || fail 'other labels'

# numbers above 2^24 of texts: one, from a cache at the second time, and two
mkdir "$tmp/large"
for file in train.tsv more.csv dev.tsv; do
	sep=$'\t'
	[ $file != more.csv ] || sep=,
	awk -F"$sep" -v OFS="$sep" 'NR > 1 { $4 = sprintf("%.1f", $4 + 1700000000.5) } 1' "$tmp/own/$file" >"$tmp/large/$file"
done
sed -n '2,$p' "$tmp/large/dev.tsv" | cut -f4 | sed 's/\.0$//' >"$tmp/large.known"
for label in length length 'length,price'; do
	client texts-large "$tmp/numbers.yaml" --local --json --fresh --set data.dir="$tmp/large" --set data.label="$label" --set data.scale_label=true || fail "$label: $(tail -n 1 "$tmp/texts-large.log")"
	is texts-large '.test_loss > 0 and .test_loss < 1'
	"$SPLITC" predict "$tmp/numbers.yaml" --local --json --set data.dir="$tmp/large" --set data.label="$label" --set data.scale_label=true --set log.dir="$tmp/texts-large" 2>"$tmp/predict.log" |
		jq '.number // .numbers[0]' | cmp - "$tmp/large.known" || fail "other $label of texts"
done

config=$tmp/labels.yaml refused 65 'train.tsv:3: column "price": "-1.25" is no label: 1, the row has it, or 0' --set data.label=warm,price
config=$tmp/numbers.yaml refused 65 'column "text": label "red the boxes 0." is not a number' --set data.label=length,text
config=$tmp/numbers.yaml refused 65 'no column "weight"; the header names text, warm' --set data.label=length,weight
config=$tmp/numbers.yaml refused 78 'data.sampling: balanced needs classes' --set data.sampling=balanced
config=$tmp/labels.yaml refused 78 'data.label names 2 columns, and the network has 3 outputs' --set model.classes=3
config=$tmp/labels.yaml refused 78 'several columns are several numbers or labels' --set model.task=classes
client 'text-labels killed' "$tmp/labels.yaml" --set train.epochs=4 --resume --set data.label=fresh,warm && fail 'resumed with other labels'
grep -q 'are not those that the run' "$tmp/text-labels killed.log" || fail "other labels: $(tail -n 1 "$tmp/text-labels killed.log")"
echo 'several numbers and labels are learned, evaluated and predicted'
