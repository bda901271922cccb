#!/usr/bin/env bash
# From a folder of pictures to predictions on unlabelled ones: init, train, predict, after the training data were
# removed. Predictions equal those of the same pictures with labels, to the last bit: from files, a folder and a tar;
# with a server and without; from log.dir, and from an export.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 60 30
start_server one
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/photos" 0
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/photos/train" 60
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/photos/val" 30
find "$tmp/photos" -depth -type d -name '*7' -execdir mv {} 'grün, "7"' \; # names that CSV, JSON and shells have to quote
find "$tmp/photos" -depth -type d -name '*6' -execdir mv {} $'m\xfcde' \; # and one that is no UTF-8
find "$tmp/photos" -depth -type d -name '*5' -execdir mv {} $'e\e[31m' \; # and one with a control character
"$SPLITC" init "$tmp/photos.yaml" --server "$endpoint" --data "images:$tmp/photos" >"$tmp/out" || fail 'init'
settings=(--set log.dir="$tmp/run" --set control="$tmp/run.sock" --set train.batch=16 --set model.width=0.25 --set model.image=32 --set threads=1)
"$SPLITC" train "$tmp/photos.yaml" "${settings[@]}" --epochs 1 >"$tmp/train.log" 2>&1 || fail 'train'
# predict OUT [argument]…
predict() {
	local out=$1
	shift
	timeout -k 5 $patience "$SPLITC" predict "$tmp/photos.yaml" "$@" "${settings[@]}" >"$tmp/$out" 2>"$tmp/predict.log" ||
		fail "predict $*: exit status $?"
}
predict labelled --json
jq -se 'all(.class_name and (.name | test("/val/")) and .label >= 0)' "$tmp/labelled" >"$tmp/out" || fail "no names: $(head -n 1 "$tmp/labelled")"
"$SPLITC" eval "$tmp/photos.yaml" "${settings[@]}" --json >"$tmp/eval" 2>"$tmp/eval.log" || fail 'eval'
# As a table their columns are straight, and no name controls the terminal.
for show in eval data; do
	"$SPLITC" $show "$tmp/photos.yaml" "${settings[@]}" >"$tmp/$show.txt" 2>"$tmp/show.log" || fail "$show: $(cat "$tmp/show.log")"
	grep -qF 'e?[31m' "$tmp/$show.txt" && grep -qF 'm?de' "$tmp/$show.txt" && ! grep -q "$(printf '[\001-\010\013-\037]')" "$tmp/$show.txt" || fail "$show: names as they are"
done
! sed -n '/^class/,/^all/p' "$tmp/data.txt" | LC_ALL=C.UTF-8 grep -vE '^.{54}$' || fail 'the columns are not straight'
jq -e '(.confusion | length == 10) and (.classes | length == 10) and (.classes | index("m?de"))' "$tmp/eval" >"$tmp/out" || fail "classes: $(jq -c .classes "$tmp/eval")"
"$SPLITC" export "$tmp/photos.yaml" "$tmp/model.safetensors" "${settings[@]}" >"$tmp/export.log" 2>&1 || fail 'export'

# Only the pictures, in another folder; the training data are removed.
mkdir "$tmp/new"
find "$tmp/photos/val" -type f | while read -r file; do cp "$file" "$tmp/new/$(basename "$(dirname "$file")")-${file##*/}"; done
rm -r "$tmp/photos" "$tmp/data"
# compares by the file's name in the new folder: class and probabilities
same='{name: (.name | sub(".*/val/"; "") | sub("/"; "-") | sub(".*/"; "")), class, class_name, probabilities}'
jq -c "$same" "$tmp/labelled" | sort >"$tmp/want"
equals() { jq -c "$same" "$tmp/$1" | sort | diff -q "$tmp/want" - >"$tmp/out" || fail "$1 differs: $(head -n 1 "$tmp/$1")"; }
predict folder --json "$tmp/new"
equals folder
jq -se 'all(has("label") | not) and length == 30' "$tmp/folder" >"$tmp/out" || fail "labels of pictures without: $(head -n 1 "$tmp/folder")"
predict files --json --local "$tmp/new"/*
equals files
(cd "$tmp/new" && tar -cf "$tmp/new.tar" ./*)
predict tar --json --local --weights "$tmp/model.safetensors" --set log.dir= "$tmp/new.tar"
jq -c '.name |= sub(".*: ./"; "")' "$tmp/tar" >"$tmp/tar.json"
equals tar.json
grep -q "INFO predicted: 30 samples$" "$tmp/predict.log" || fail "$(cat "$tmp/predict.log")"
! grep WARN "$tmp/predict.log" || fail 'a tar of pictures alone'
# A file in a tar that is no picture is named, as one in a folder is.
(cd "$tmp" && cp new.tar more.tar && touch one.gif one.cls && tar -rf more.tar one.gif one.cls)
predict more --json --local "$tmp/more.tar"
[ "$(wc -l <"$tmp/more")" = 30 ] && grep -q '^WARN passed-over: files in a format that splitc does not read: 1, such as one.gif$' "$tmp/predict.log" ||
	fail "a tar with a GIF: $(cat "$tmp/predict.log")"

# other formats: CSV fields, the most probable classes, and an output file that is replaced as a whole
one=$(find "$tmp/new" -name 'gr*' | sort | head -n 1)
predict csv --csv --top 2 --local "$one"
[ "$(head -n 1 "$tmp/csv")" = 'sample,class,class_1,class_name_1,probability_1,class_2,class_name_2,probability_2,class_name,name' ] ||
	fail "$(head -n 1 "$tmp/csv")"
grep -qF "$(printf '"%s"' "${one//\"/\"\"}")" "$tmp/csv" || fail "$(cat "$tmp/csv")"
predict top --json --top 2 --local "$one"
jq -e '(.top | length == 2) and .top[0].class == .class and .top[0].probability >= .top[1].probability and (has("probabilities") | not)' \
	"$tmp/top" >"$tmp/out" || fail "$(cat "$tmp/top")"
(cd "$tmp/new" && predict text --local "${one##*/}")
fits "$tmp/text"
predict nothing --json --out "$tmp/said.jsonl" "$tmp/new"
[ ! -s "$tmp/nothing" ] && cmp "$tmp/said.jsonl" "$tmp/folder" || fail '--out has something else'

# refused STATUS SENTENCE argument…
refused() {
	local status=0 want=$1 says=$2
	shift 2
	"$SPLITC" predict "$tmp/photos.yaml" "${settings[@]}" "$@" >"$tmp/out" 2>&1 || status=$?
	[ "$status" = "$want" ] && grep -qF -- "$says" "$tmp/out" || fail "$*: exit status $status, $(cat "$tmp/out")"
}
for name in said.csv lines.jsonl lines.json; do
	refused 64 "predict: $tmp/$name: by its name this is CSV or JSON: give --csv or --json" --local --out "$tmp/$name" "$one"
	[ ! -e "$tmp/$name" ] || fail "$name was written"
done
refused 73 'said.jsonl exists already: give --force' --out "$tmp/said.jsonl" "$tmp/new"
refused 73 "predict: $tmp/nowhere/said: No such file or directory" --out "$tmp/nowhere/said" "$tmp/new" # before anything is predicted
refused 73 'is a folder: name a file' --out "$tmp/new" --force "$tmp/new"
# A file is renamed into its place, so as root it would replace /dev/stdout, which is such a link, or a device.
ln -s /proc/self/fd/1 "$tmp/output"
mkfifo "$tmp/pipe"
for name in output pipe; do
	refused 73 "predict: $tmp/$name is no regular file" --local --force --out "$tmp/$name" "$one"
	status=0
	"$SPLITC" export "$tmp/photos.yaml" "$tmp/$name" "${settings[@]}" >"$tmp/out" 2>&1 || status=$?
	[ $status = 73 ] && grep -q "export: $tmp/$name is no regular file" "$tmp/out" || fail "export to $name: exit status $status, $(cat "$tmp/out")"
done
[ -L "$tmp/output" ] && [ -p "$tmp/pipe" ] || fail 'a link or a pipe was replaced'
predict forced --csv --out "$tmp/said.jsonl" --force --local "$one"
[ "$(wc -l <"$tmp/said.jsonl")" = 2 ] || fail '--force did not replace it'
refused 66 "$tmp/none.jpg: No such file" --local "$tmp/none.jpg"
mkdir "$tmp/empty"
refused 65 "$tmp/empty: no picture in it" --local "$tmp/empty"
refused 64 'not both at once' --local "$tmp/new.tar" "$one"
refused 64 '--top takes a number of classes from 1, got "0"' --top 0 "$one"
# --check-config reports what the command would.
for check in '' --check-config; do
	refused 78 'no metric "r2"' $check --local --set train.best_metric=r2 "$one"
	refused 78 'which computes in fp32' $check --local --set train.precision=bf16 "$one"
done
printf 'not a picture' >"$tmp/broken.jpg"
refused 65 "$tmp/broken.jpg: this is not a picture" --local --out "$tmp/partly" "$one" "$tmp/broken.jpg"
[ ! -e "$tmp/partly" ] || fail 'a file of some of the lines'
predict skipped --csv --local "$tmp/broken.jpg" "$one" --set data.on_bad_sample=skip
[ "$(wc -l <"$tmp/skipped")" = 2 ] && grep -q '^1,' "$tmp/skipped" || fail "a picture that cannot be read has a line: $(cat "$tmp/skipped")"
grep -q 'WARN not-predicted: 1 of 2 samples cannot be read: no line$' "$tmp/predict.log" || fail "$(cat "$tmp/predict.log")"
echo 'pictures without labels are predicted as those with labels, where the training data are gone'
