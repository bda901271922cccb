#!/usr/bin/env bash
# `splitc data`: classes and counts, sizes, mean and deviation, names of unreadable pictures, and the contact sheet.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 60 30
write_config "$tmp/client.yaml"
sed "s|^data: .*|data: {kind: images, dir: $tmp/pictures}|; s|^threads: 1|threads: 2|" "$tmp/client.yaml" >"$tmp/images.yaml"
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures" 0
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures/train" 60
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/pictures/val" 30

"$SPLITC" data "$tmp/images.yaml" --json --sheet "$tmp/sheet.png" >"$tmp/json" || fail "data: exit status $?"
[ "$(jq -c '[.kind, (.classes | length), .classes[3].name, .train.samples, .test.samples, .width.min, .width.max, .height.max, .threads]' "$tmp/json")" = \
	'["images",10,"class-3",60,30,32,96,64,2]' ] || fail "--json: $(cat "$tmp/json")"
for class in 0 9; do
	[ "$(jq ".classes[$class].train" "$tmp/json")" = "$(find "$tmp/pictures/train/class-$class" -type f | wc -l)" ] || fail "class $class: $(cat "$tmp/json")"
done
# The pictures have the pixels of CIFAR but for JPEG losses and a resize, so the means must agree.
"$SPLITC" data "$tmp/client.yaml" --json >"$tmp/cifar" || fail "data of CIFAR: exit status $?"
jq -se '[.[0].mean, .[1].mean] | transpose | map(.[0] - .[1] | fabs) | max < 0.01' "$tmp/json" "$tmp/cifar" >"$tmp/out" ||
	fail "means: $(jq -c .mean "$tmp/json" "$tmp/cifar")"
# The sheet has 16 samples, 8 in a row; each is 112 pixels wide and high, with gaps of 6 pixels and 7 for the label.
[ "$(od -An -t x1 -j 1 -N 3 "$tmp/sheet.png" | tr -d ' ')" = 504e47 ] || fail 'the sheet is no PNG'
[ "$(od -An -t u1 -j 16 -N 8 "$tmp/sheet.png" | awk '{print $3 * 256 + $4, $7 * 256 + $8}')" = '950 262' ] || fail 'the sheet has another size'

# Of a set that is divided by data.partition, the member's part: of two members in order of labels, the second one.
"$SPLITC" data "$tmp/images.yaml" --json --set share.group=g --set share.clients=2 --set share.member=1 --set data.partition=by_label >"$tmp/json" 2>"$tmp/err" ||
	fail "a member's part: exit status $?"
jq -e '[.classes[].train] | add == 30 and .[0] == 0 and .[9] > 0' "$tmp/json" >"$tmp/out" || fail "a member's part: $(cat "$tmp/json")"
grep -q 'data-part: member 1 of 2 has 30 of 60 training samples' "$tmp/err" || fail "a member's part: $(cat "$tmp/err")"

# two unreadable pictures, one in each split
jpeg=$(ls "$tmp/pictures/train/"*/*.jpg | sed -n 3p)
png=$(ls "$tmp/pictures/val/"*/*.png | sed -n 5p)
truncate -s 300 "$jpeg"
: >"$png"
for threads in 1 3; do
	status=0
	"$SPLITC" data "$tmp/images.yaml" --set data.threads=$threads >"$tmp/table" 2>"$tmp/err" || status=$?
	[ $status = 65 ] || fail "broken pictures: exit status $status"
	[ "$(cat "$tmp/err")" = "splitc: $jpeg: JPEG: Premature end of JPEG file
splitc: $png: the file is empty" ] || fail "broken pictures: $(cat "$tmp/err")"
	grep -v throughput "$tmp/table" >"$tmp/table.$threads"
done
cmp "$tmp/table.1" "$tmp/table.3" || fail 'the number of threads changes figures'
grep -qx 'unreadable  1 of 60 samples of train' "$tmp/table" && grep -qE '^all +59 +29$' "$tmp/table" || fail "$(cat "$tmp/table")"
# Files that are not pictures are counted; hidden files are not.
: >"${jpeg%/*}/a.gif"
: >"${jpeg%/*}/notes.txt"
: >"${jpeg%/*}/.DS_Store"
: >"${jpeg%/*}/._a.jpg"
mkdir "$tmp/pictures/train/.ipynb_checkpoints"
"$SPLITC" data "$tmp/images.yaml" >"$tmp/table" 2>"$tmp/err" || true
grep -qx 'passed over 2 files of train, not pictures: 1 .gif, 1 .txt' "$tmp/table" || fail "passed over: $(cat "$tmp/table")"
grep -q "^WARN passed-over: $tmp/pictures/train: 2 files in class folders are no picture that is read (.*), beside 60: 1 .gif, 1 .txt$" "$tmp/err" || fail "passed over: $(cat "$tmp/err")"
"$SPLITC" data "$tmp/images.yaml" --json 2>"$tmp/err" | jq -e '.train.passed_over == 2 and .test.passed_over == 0' >"$tmp/table" || fail 'passed over: --json'
"$SPLITC" data "$tmp/images.yaml" --set data.dir="$tmp/none" 2>"$tmp/err" && fail 'no folder' || status=$?
[ $status = 66 ] || fail "no folder: exit status $status"
echo 'data sets are described as they are'
