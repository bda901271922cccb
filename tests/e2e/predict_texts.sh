#!/usr/bin/env bash
# From texts to predictions on texts without labels: train and predict, after the training data were removed.
# Predictions equal those of the same texts with labels, to the last bit: from JSON Lines, CSV, plain lines and standard
# input; of pairs and of numbers.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/made" "$tmp/tokenizer" "$tmp/own" "$tmp/new" "$tmp/pairs"
"$TOOLS/make_text" "$tmp/made"
jq -c 'del(."<s>", ."</s>", ."<pad>", ."<mask>")' "$tmp/made/vocab.json" >"$tmp/tokenizer/vocab.json"
cp "$tmp/made/merges.txt" "$tmp/tokenizer"
# rows FROM TO: label, score, text
rows() {
	awk -v from="$1" -v to="$2" 'BEGIN {
		n = split("green red the a boxes of un fish water said", word, " ")
		for (i = from; i < to; i++) {
			text = i * 7 % 3 ? "red" : "green"
			for (k = i * i % 11; k > 0; k--) text = text " " word[(i * 31 + k * k) % n + 1]
			printf "%s\t%.1f\t%s.\n", i * 7 % 3 ? "good" : "bad", (i * 7 % 3) / 2, text
		}
	}'
}
jsonl() { jq -Rc 'split("\t") | {mood: .[0], score: (.[1] | tonumber), text: .[2]}'; }
rows 0 200 | jsonl >"$tmp/own/train.jsonl"
rows 200 240 | jsonl >"$tmp/own/dev.jsonl"
start_server one
cat >"$tmp/texts.yaml" <<-YAML
	server: $endpoint
	model: {name: token_mlp, classes: 2, vocab: 700, tokens: 40, width: 0.25}
	head_end: embedding
	tail_begin: dense
	data: {kind: text, dir: $tmp/own, tokenizer: $tmp/tokenizer, label: mood}
	train: {batch: 16, chunks: 4, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
	threads: 1
	log: {dir: $tmp/run}
YAML
numbers="--set model.task=numbers --set model.classes=1 --set train.loss=huber --set data.label=score --set log.dir=$tmp/numbers"
train() { timeout -k 5 $patience "$SPLITC" train "$tmp/texts.yaml" --set control="$tmp/run.sock" "$@" >"$tmp/train.log" 2>&1 || fail "train $*"; }
predict() {
	local out=$1
	shift
	timeout -k 5 $patience "$SPLITC" predict "$tmp/texts.yaml" --json "$@" >"$tmp/$out" 2>"$tmp/predict.log" || fail "predict $*: exit status $?"
}
train
train --local $numbers
predict labelled
grep other-data "$tmp/predict.log" && fail 'the tokenizer is that of the training'
cp -r "$tmp/tokenizer" "$tmp/other"
sed -i '$d' "$tmp/other/merges.txt"
predict otherwise --local --set data.tokenizer="$tmp/other" --set data.max_length=39
grep -q '^WARN other-data: the model was trained with tokenizer "[0-9a-f]*", and this config has "[0-9a-f]*"$' "$tmp/predict.log" &&
	grep -q '^WARN other-data: the model was trained with max_length 40, and this config has 39$' "$tmp/predict.log" || fail "another tokenizer: $(cat "$tmp/predict.log")"
predict labelled-numbers --local $numbers
jq -se 'map(.class_name) | unique - ["bad", "good"] == []' "$tmp/labelled" >"$tmp/out" || fail "no names: $(head -n 1 "$tmp/labelled")"

jq -c '{text}' "$tmp/own/dev.jsonl" >"$tmp/new/reviews.jsonl"
jq -r .text "$tmp/own/dev.jsonl" >"$tmp/new/reviews.txt"
(echo 'id,text' && jq -r '["x", .text] | @csv' "$tmp/own/dev.jsonl") >"$tmp/new/reviews.csv"
rm -r "$tmp/own"
equals() { diff <(jq -c "$1" "$tmp/$2") <(jq -c "$1" "$tmp/$3") >"$tmp/out" || fail "$3 differs: $(head -n 3 "$tmp/out")"; }
for form in jsonl csv txt; do
	predict "$form" "$tmp/new/reviews.$form"
	equals '{class, class_name, probabilities}' labelled "$form"
done
jq -se --arg file "$tmp/new/reviews.txt" '.[0].name == $file + ":1" and .[39].name == $file + ":40" and (.[0] | has("label") | not)' \
	"$tmp/txt" >"$tmp/out" || fail "names: $(head -n 1 "$tmp/txt")"
[ ! -e "$tmp/new/reviews.txt.tokens" ] || fail 'tokens were left beside a text that is only predicted'
predict piped --local - <"$tmp/new/reviews.txt"
equals '{class, class_name, probabilities}' labelled piped
predict plain --local $numbers "$tmp/new/reviews.jsonl"
equals '{predicted}' labelled-numbers plain
jq -se 'all(has("number") | not)' "$tmp/plain" >"$tmp/out" || fail "$(head -n 1 "$tmp/plain")"

# pairs: two columns, or a tab between two texts
printf 'red fish\tthe water\ngreen\tred\n' >"$tmp/pairs/lines"
jq -Rc 'split("\t") | {a: .[0], b: .[1]}' "$tmp/pairs/lines" >"$tmp/pairs/objects.jsonl"
predict tabs --local --set 'data.columns=a,b' "$tmp/pairs/lines"
predict objects --local --set 'data.columns=a,b' "$tmp/pairs/objects.jsonl"
[ "$(grep other-data "$tmp/predict.log")" = 'WARN other-data: the model was trained with text_columns ["text"], and this config has ["a","b"] (data.columns)' ] || fail "other columns: $(cat "$tmp/predict.log")"
equals '{class, probabilities}' tabs objects
status=0
printf 'one\n\nthree\n' | "$SPLITC" predict "$tmp/texts.yaml" --local - >"$tmp/out" 2>&1 || status=$?
[ $status = 65 ] && grep -qF 'splitc: -:2: an empty text' "$tmp/out" || fail "an empty line: exit status $status, $(cat "$tmp/out")"
# File extensions are matched in any case; a JSON file that is not JSON Lines is not read as one text per line.
cp "$tmp/new/reviews.csv" "$tmp/new/REVIEWS.CSV"
predict upper --local "$tmp/new/REVIEWS.CSV"
equals '{class, class_name, probabilities}' labelled upper
for end in json NDJSON; do
	status=0
	cp "$tmp/new/reviews.jsonl" "$tmp/new/reviews.$end"
	"$SPLITC" predict "$tmp/texts.yaml" --local "$tmp/new/reviews.$end" >"$tmp/out" 2>&1 || status=$?
	[ $status = 65 ] && grep -qF "reviews.$end: if it has an object in each line, name it .jsonl" "$tmp/out" || fail "$end: exit status $status, $(cat "$tmp/out")"
done
echo 'texts without labels are predicted as those with labels, where the training data are gone'
