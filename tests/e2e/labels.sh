#!/usr/bin/env bash
# Labels of pictures in a table (data.labels). A run learns what it learns from folders of classes, and of several labels
# what it learns from a table for each part. A column keeps a patient's pictures in one part. Each kind of fault between
# table and pictures is said, with how many there are and the first names.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 60 30
start_server labels
write_config "$tmp/cifar.yaml"
mkdir -p "$tmp/sorted"
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/sorted/train" 60
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/sorted/val" 30

# the same pictures without folders of classes, and their table in the order of those: names by path and by file, with and
# without endings
echo 'picture;patient;kind;odd;low' >"$tmp/labels.csv"
echo 'file,odd,low' | tee "$tmp/train.csv" >"$tmp/val.csv"
n=0
for part in train val; do
	mkdir -p "$tmp/scans/$part/site 1"
	for file in "$tmp/sorted/$part"/*/*; do
		class=${file%/*} class=${class##*-} name=$part${file##*/}
		cp "$file" "$tmp/scans/$part/site 1/$name"
		case $((n % 4)) in
			0) id="$part/site 1/$name" ;;
			1) id="$part/site 1/${name%.*}" ;;
			2) id=$name ;;
			3) id=${name%.*} ;;
		esac
		echo "$id;p$((n / 3));class-$class;$((class % 2));$((class < 5))" >>"$tmp/labels.csv"
		echo "$part/site 1/$name,$((class % 2)),$((class < 5))" >>"$tmp/$part.csv"
		n=$((n + 1))
	done
done
[ $n = 90 ] || fail "$n pictures"
sed "s|^data: .*|data: {kind: images, dir: $tmp/sorted}|" "$tmp/cifar.yaml" >"$tmp/sorted.yaml"
sed "s|^data: .*|data: {kind: images, dir: $tmp/scans, labels: $tmp/labels.csv, label_id: picture, label: kind, separator: semicolon}|" "$tmp/cifar.yaml" >"$tmp/client.yaml"

# ---- runs
client sorted "$tmp/sorted.yaml" --local || fail "folders: exit status $?"
client table "$tmp/client.yaml" --local || fail "table: exit status $?"
client linked "$tmp/client.yaml" || fail "with a server: exit status $?"
same_run table sorted 4 other
same_run linked table 4
! grep -E 'WARN (rows-|pictures-|passed-)' "$tmp/table.log" || fail 'a warning without a fault'
"$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/table" --json >"$tmp/eval" 2>"$tmp/err" || fail "eval: $(cat "$tmp/err")"
"$SPLITC" eval "$tmp/sorted.yaml" --local --set log.dir="$tmp/sorted" --json >"$tmp/eval.sorted" 2>"$tmp/err" || fail "eval: $(cat "$tmp/err")"
[ "$(jq -c '[.test_acc, .test_loss]' "$tmp/eval")" = "$(jq -c '[.test_acc, .test_loss]' "$tmp/eval.sorted")" ] || fail "eval: $(cat "$tmp/eval")"
"$SPLITC" predict "$tmp/client.yaml" --local --set log.dir="$tmp/table" --csv "$tmp/scans/val" 2>"$tmp/err" | sed 1d >"$tmp/predicted" || fail "predict: $(cat "$tmp/err")"
[ "$(grep -c ',class-[0-9],.*/val/site 1/' "$tmp/predicted")" = 30 ] || fail "predict: $(head -n 3 "$tmp/predicted")"
# other labels are other data
sed '4s/class-[0-9]/class-9/' "$tmp/labels.csv" >"$tmp/other.csv"
status=0
client linked "$tmp/client.yaml" --resume --set train.epochs=2 --set data.labels="$tmp/other.csv" || status=$?
[ $status = 78 ] || fail "--resume with another label: $status"

# several labels: one table, or one for each part in data.dir
sed 's/label: kind/label: [odd, low]/; s/^model: {/model: {task: labels, /; s/classes: 10/classes: 2/' "$tmp/client.yaml" >"$tmp/several.yaml"
client several "$tmp/several.yaml" --local || fail "several labels: exit status $?"
cp "$tmp/train.csv" "$tmp/val.csv" "$tmp/scans"
sed "s/labels: [^ ]*, label_id: picture, //; s/, separator: semicolon//" "$tmp/several.yaml" >"$tmp/two.yaml"
client two "$tmp/two.yaml" --local || fail "two tables: exit status $?"
same_run several two 4 other
rm "$tmp/scans"/*.csv

# ---- data.split, by a column
split=(--set data.dir="$tmp/scans" --set data.split.train=0.6 --set data.split.val=0.2 --set data.split.test=0.2)
mv "$tmp/scans/val" "$tmp/scans/more" # now one set
sed 's|^val/|more/|' "$tmp/labels.csv" >"$tmp/one.csv"
"$SPLITC" data "$tmp/client.yaml" "${split[@]}" --set data.labels="$tmp/one.csv" --set data.split.by=patient --json >"$tmp/json" 2>"$tmp/err" && fail 'train/ alone was divided' || status=$?
mv "$tmp/scans/train" "$tmp/scans/begun"
sed -i 's|^train/|begun/|' "$tmp/one.csv"
"$SPLITC" data "$tmp/client.yaml" "${split[@]}" --set data.labels="$tmp/one.csv" --set data.split.by=patient --json >"$tmp/json" 2>"$tmp/err" || fail "split by patient: $(cat "$tmp/err")"
jq -e '[.train, .validation, .test] | (map(.samples) | add == 90) and (map(.groups) | add == 30 and min > 2)' "$tmp/json" >"$tmp/out" || fail "split by patient: $(cat "$tmp/json")"
status=0
"$SPLITC" data "$tmp/client.yaml" "${split[@]}" --set data.labels="$tmp/one.csv" --set data.split.by=patiant >"$tmp/out" 2>&1 || status=$?
[ $status = 65 ] && grep -q 'no column "patiant" (data.split.by)' "$tmp/out" || fail "a wrong column: $status, $(cat "$tmp/out")"
# Without the key its rows are divided, with a warning; so they are under a name that says nothing, and as numbers.
sed '1s/patient/pid/' "$tmp/one.csv" >"$tmp/pid.csv"
"$SPLITC" data "$tmp/client.yaml" "${split[@]}" --set data.labels="$tmp/pid.csv" >"$tmp/out" 2>&1 || fail "a table of pids: $(cat "$tmp/out")"
[ "$(grep -c "^WARN rows-repeat: $tmp/pid.csv: column \"pid\" has 30 different values in 90 rows, .*set data.split.by: \"pid\": " "$tmp/out")" = 1 ] || fail "rows-repeat: $(cat "$tmp/out")"
sed -i 's/;p\([0-9]*;\)/;\1/' "$tmp/pid.csv"
"$SPLITC" data "$tmp/client.yaml" "${split[@]}" --set data.labels="$tmp/pid.csv" >"$tmp/out" 2>&1 && grep -q '^WARN rows-repeat: .*"pid" has 30 ' "$tmp/out" || fail "rows-repeat of numbers: $(cat "$tmp/out")"
"$SPLITC" data "$tmp/client.yaml" "${split[@]}" --set data.labels="$tmp/pid.csv" --set data.split.by=pid >"$tmp/out" 2>&1 && ! grep rows-repeat "$tmp/out" || fail "by pid: $(cat "$tmp/out")"
mv "$tmp/scans/begun" "$tmp/scans/train"
mv "$tmp/scans/more" "$tmp/scans/val"

# ---- splitc init
mv "$tmp/scans/train" "$tmp/scans/begun"
mv "$tmp/scans/val" "$tmp/scans/more"
# begun DATA: what init finds there trains as it is
begun() {
	rm -f "$tmp/init.yaml"
	"$SPLITC" init "$tmp/init.yaml" --data "$1" --set data.label=kind --set log.level=warn >"$tmp/init.out" 2>&1 </dev/null || fail "init $1: $(cat "$tmp/init.out")"
	grep -qx 'The data are pictures, with a table of their labels (images).' "$tmp/init.out" && grep -qx 'The classes are class-0, class-1, class-2, class-3, class-4 and 5 more.' "$tmp/init.out" || fail "init $1: $(cat "$tmp/init.out")"
	"$SPLITC" train "$tmp/init.yaml" --print-config | awk '$1 == "labels:" || $1 == "label_id:" || $1 == "by:" && $2 != "step" {print $1, $2}' | sort >"$tmp/keys"
	printf '%s\n' 'by: "patient"' 'label_id: "picture"' "labels: \"$2\"" | cmp - "$tmp/keys" || fail "init $1 chose $(cat "$tmp/keys")"
}
mv "$tmp/one.csv" "$tmp/scans"
begun "$tmp/scans" "$tmp/scans/one.csv"
client begun "$tmp/init.yaml" --local --set train.max_steps=3 || fail "init: exit status $?"
"$SPLITC" init "$tmp/init.yaml" --force --model resnet18 >"$tmp/out" 2>&1 </dev/null && grep -q 'label_id: "picture"' "$tmp/init.yaml" || fail "init --force: $(cat "$tmp/out")"
# A fault of the table's labels is said as such, and the config divides the pictures all the same.
cp "$tmp/scans/one.csv" "$tmp/whole.csv"
for fault in 's/class-[0-9]//|rows without a label in "kind": 1, such as ' 's/class-\([0-9]\)/ class-\1/|are written in two ways'; do
	sed "2${fault%%|*}" "$tmp/whole.csv" >"$tmp/scans/one.csv"
	rc=0
	rm "$tmp/init.yaml"
	"$SPLITC" init "$tmp/init.yaml" --data "$tmp/scans" --set data.label=kind >"$tmp/out" 2>&1 </dev/null || rc=$?
	[ $rc = 65 ] && grep -qF -- "${fault#*|}" "$tmp/out" && grep -q '^  split:' "$tmp/init.yaml" || fail "init, ${fault%%|*}: $rc: $(cat "$tmp/out")"
	rc=0
	"$SPLITC" train "$tmp/init.yaml" --check-config >"$tmp/out" 2>&1 || rc=$?
	[ $rc = 65 ] && grep -qF -- "${fault#*|}" "$tmp/out" || fail "train, ${fault%%|*}: $rc: $(cat "$tmp/out")"
done
rm "$tmp/scans/one.csv"
mv "$tmp/scans/begun" "$tmp/scans/train"
mv "$tmp/scans/more" "$tmp/scans/val"

# ---- faults
# faulty STATUS SENTENCE SED-SCRIPT
faulty() {
	local status=0
	sed "$3" "$tmp/labels.csv" >"$tmp/faulty.csv"
	"$SPLITC" train "$tmp/client.yaml" --check-config --set data.labels="$tmp/faulty.csv" >"$tmp/out" 2>&1 || status=$?
	[ $status = "$1" ] && grep -qE -- "$2" "$tmp/out" || fail "$3: status $status, $(cat "$tmp/out")"
}
faulty 0 '^WARN rows-without-picture: .*faulty.csv: rows without a picture: 4, such as "gone-1", "gone-2", "gone-3": they are left out$' \
	'$a gone-1;p;class-1;0;0\ngone-2;p;class-1;0;0\ngone-3;p;class-1;0;0\ngone-4;p;class-1;0;0'
faulty 0 '^WARN pictures-without-row: .*: pictures without a row: 2, such as "train/site 1/train[^"]*", "train/site 1/train[^"]*": they are left out$' '7d;9d'
[ "$(grep -c 'pictures-without-row' "$tmp/out")" = 1 ] || fail "said more than once: $(cat "$tmp/out")"
first=$(sed -n 2p "$tmp/labels.csv" | cut -d';' -f1) file=${first##*/}
faulty 65 "pictures in more than one row: 1, such as \"$file\": a picture has one row" "\$a $file;p;class-1;0;0"
faulty 65 'rows without a label in "kind": 1, such as ' '5s/class-[0-9]*//'
faulty 65 'no column "picture" \(data.label_id: it names the pictures\)' '1s/picture/name/'
faulty 65 'data.labels: .*no row names a picture below data.dir: rows have "x[^"]*", "x[^"]*", "x[^"]*", and pictures "train/site 1/' '2,$s/^/x/'
mkdir "$tmp/scans/train/site 2"
cp "$tmp/scans/$first" "$tmp/scans/train/site 2"
faulty 65 "names that several pictures have: 1, such as \"$file\": write their paths below data.dir" "s|^$first;|$file;|"
faulty 0 'pictures-without-row: .*: 1, such as "train/site 2/' ''
rm -r "$tmp/scans/train/site 2"
# keys
for change in 's/kind: images/kind: csv/;s/mobilenet_v2.*/mlp}/' 's/labels: [^ ]*, //; s/label: kind, //'; do
	status=0
	sed "$change" "$tmp/client.yaml" >"$tmp/faulty.yaml"
	"$SPLITC" train "$tmp/faulty.yaml" --check-config >"$tmp/out" 2>&1 || status=$?
	[ $status = 78 ] && grep -qE 'data.label(s: belongs to data.kind: images|_id: needs data.labels)' "$tmp/out" || fail "$change: $status, $(cat "$tmp/out")"
done
echo "$n pictures by class, by two labels and by patient"
