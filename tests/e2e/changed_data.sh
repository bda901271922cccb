#!/usr/bin/env bash
# A paused run may be resumed only with the data that it began with. If a table's cell or a text is changed, or a
# picture added, --resume refuses, also if about.json is lost, and leaves the run untouched. With the data restored, the run continues and equals the
# undisturbed one.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 40 20
mkdir "$tmp/of-table" "$tmp/of-texts" "$tmp/made" "$tmp/keep"
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/of-photos" 0
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/of-photos/train" 40
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/of-photos/val" 20
"$TOOLS/make_text" "$tmp/made"
# Names rise over all classes, so a picture that moves to the class before leaves the list of names as it was.
cp -r "$tmp/of-photos" "$tmp/of-moved"
for f in "$tmp"/of-moved/train/*/*; do mv "$f" "${f%/*}/$((name = ${name:-100} + 1)).${f##*.}"; done
(echo age,sick && for i in $(seq 40); do echo "$((i * 7 % 90)),$((i % 2))"; done) | tee "$tmp/of-table/train.csv" >"$tmp/of-table/val.csv"
for i in $(seq 40); do echo "{\"text\": \"red boxes $((i * 7 % 90)) of fish\", \"label\": $((i % 2))}"; done | tee "$tmp/of-texts/train.jsonl" >"$tmp/of-texts/dev.jsonl"
start_server one
common="train: {batch: 10, epochs: 3, seed: 3, checkpoint_every: 1}
threads: 1
server: $endpoint"
echo "$common
model: {name: mlp, features: 1, classes: 2}
data: {kind: csv, dir: $tmp/of-table, label: sick}" >"$tmp/table.yaml"
echo "$common
model: {name: token_mlp, classes: 2, vocab: 700, tokens: 40, width: 0.25}
head_end: embedding
tail_begin: dense
data: {kind: text, dir: $tmp/of-texts, tokenizer: $tmp/made}" >"$tmp/texts.yaml"
echo "$common
model: {name: mobilenet_v2, classes: 10, image: 32, width: 0.25}
data: {kind: images, dir: $tmp/of-photos}" >"$tmp/photos.yaml"
sed 's/of-photos/of-moved/' "$tmp/photos.yaml" >"$tmp/moved.yaml"

# changed NAME SENTENCE: pauses a run, expects a refusal with the data that `spoil` makes, and resumes with the original
# data.
changed() {
	data=$1 says=$2
	client "$data" "$tmp/$data.yaml" || fail "$data: exit status $?"
	between=resume_spoilt killed_client 3 "$data" "$tmp/$data.yaml"
}
resume_spoilt() {
	local status about="$tmp/$data killed/about.json"
	cp -a "$tmp/of-$data" "$tmp/keep/$data"
	cp "$about" "$tmp/keep/about.json"
	spoil_"$data"
	for is in whole 'cut off' lost; do
		[ "$is" != 'cut off' ] || echo '{' >"$about"
		[ "$is" != lost ] || rm "$about"
		status=0
		client "$data killed" "$tmp/$data.yaml" --resume || status=$?
		[ $status = 78 ] && grep -qF -- "$says" "$tmp/$data killed.log" || fail "$data, about.json is $is: exit status $status, $(cat "$tmp/$data killed.log")"
	done
	mv "$tmp/keep/about.json" "$about"
	rm -r "$tmp/of-$data"
	mv "$tmp/keep/$data" "$tmp/of-$data"
}
spoil_table() { sed -i '5s/^[0-9]*/99/' "$tmp/of-table/train.csv"; }
spoil_texts() { sed -i '7s/fish/water/' "$tmp/of-texts/train.jsonl"; }
spoil_photos() { cp "$(find "$tmp/of-photos/val" -name '*.png' | head -n 1)" "$tmp/of-photos/val/class-1/more.png"; }
spoil_moved() { mv "$(find "$tmp/of-moved/train/class-1" -type f | sort | head -n 1)" "$tmp/of-moved/train/class-0"; }
changed table 'began with: 40 samples then, 40 now, or other contents'
changed texts 'began with: 40 samples then, 40 now, or other contents'
changed photos 'began with: 20 samples then, 21 now, or other contents'
changed moved 'began with: 40 samples then, 40 now, or other contents'
# Other tokens of the same texts: the key is named, and the data are not accused.
sed 's/epochs: 3/epochs: 4/' "$tmp/texts.yaml" >"$tmp/longer.yaml"
client texts "$tmp/longer.yaml" --resume || fail "exit status $?: $(cat "$tmp/texts.log")"
rc=0
client texts "$tmp/texts.yaml" --set train.epochs=5 --set data.max_length=5 --resume || rc=$?
[ $rc = 78 ] && grep -q "data.max_length is not that of the run in .*: put it back" "$tmp/texts.log" || fail "$rc: $(cat "$tmp/texts.log")"
echo 'changed data are refused where a run goes on'
