#!/usr/bin/env bash
# splitc predict --stream: a line in, a line out. Each answer has the bits that `predict` prints of the same rows in a
# file: of pictures, a table and texts; with a server and without. A line that cannot be predicted gets an error, in its
# place.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/table" "$tmp/texts" "$tmp/photos" "$tmp/made"
rows() {
	awk -v from="$1" -v to="$2" 'BEGIN {
		print "size,colour,noise,kind"
		split("red green blue", colour, " ")
		for (i = from; i < to; i++) {
			size = (i * 37 % 101) / 10; c = i * 7 % 3 + 1; kind = size > 5 ? (c == 1 ? "ripe" : "large") : "small"
			printf "%.1f,%s,%d,%s\n", size, colour[c], i * 13 % 17, kind
		}
	}'
}
rows 0 300 >"$tmp/table/train.csv"
rows 300 340 >"$tmp/table/test.csv"
start_server one
cat >"$tmp/table.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 5, classes: 3}
	data: {kind: csv, dir: $tmp/table, label: kind}
	train: {batch: 16, chunks: 2, epochs: 2, seed: 1, optimizer: {kind: adam, lr: 0.01}}
	threads: 1
	log: {dir: $tmp/table-run}
YAML
make_data 60 30
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/photos/train" 60
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/photos/val" 30
cat >"$tmp/pictures.yaml" <<-YAML
	server: $endpoint
	model: {name: mobilenet_v2, classes: 10, image: 32, width: 0.25}
	data: {kind: images, dir: $tmp/photos}
	train: {batch: 16, chunks: 2, epochs: 1, seed: 1}
	threads: 1
	log: {dir: $tmp/pictures-run}
YAML
"$TOOLS/make_text" "$tmp/made"
jq -c 'del(."<s>", ."</s>", ."<pad>", ."<mask>")' "$tmp/made/vocab.json" >"$tmp/texts/vocab.json"
cp "$tmp/made/merges.txt" "$tmp/texts"
awk 'BEGIN {
	n = split("green red the a boxes of un fish water said", word, " ")
	for (i = 0; i < 240; i++) {
		text = i * 7 % 3 ? "red" : "green"
		for (k = i * i % 11; k > 0; k--) text = text " " word[(i * 31 + k * k) % n + 1]
		printf "%s\t%s.\n", i * 7 % 3 ? "good" : "bad", text
	}
}' | jq -Rc 'split("\t") | {mood: .[0], text: .[1]}' >"$tmp/all"
head -n 200 "$tmp/all" >"$tmp/texts/train.jsonl"
tail -n 40 "$tmp/all" >"$tmp/texts/dev.jsonl"
cat >"$tmp/texts.yaml" <<-YAML
	server: $endpoint
	model: {name: token_mlp, classes: 2, vocab: 700, tokens: 40, width: 0.25}
	head_end: embedding
	tail_begin: dense
	data: {kind: text, dir: $tmp/texts, tokenizer: $tmp/texts, label: mood}
	train: {batch: 16, chunks: 4, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
	threads: 1
	log: {dir: $tmp/texts-run}
YAML
# predict DATA OUT [argument]…
predict() {
	local data=$1 out=$2 rc=0
	shift 2
	timeout -k 5 $patience "$SPLITC" predict "$tmp/$data.yaml" --set control="$tmp/c.sock" "$@" >"$tmp/$out" 2>"$tmp/$out.log" || rc=$?
	[ $rc = "${status:-0}" ] || fail "predict $data $*: exit status $rc"
}
for data in table pictures texts; do
	"$SPLITC" train "$tmp/$data.yaml" --set control="$tmp/c.sock" --local >"$tmp/train.log" 2>&1 || fail "train $data"
done
same='del(.name, .label, .servers_word)'
equals() { cmp <(jq -c "$same" "$tmp/$1") <(jq -c "$same" "$tmp/$2") >"$tmp/out" || fail "$2 differs from $1: $(diff <(jq -c "$same" "$tmp/$1") <(jq -c "$same" "$tmp/$2") | head -n 4)"; }

# the lines of each kind of data, in each of their forms
cut -d, -f 1-3 "$tmp/table/test.csv" >"$tmp/table.csv"
jq -Rc 'split(",") | {noise: (.[2] | tonumber), extra: null, colour: .[1], size: (.[0] | tonumber)}' <(tail -n +2 "$tmp/table.csv") >"$tmp/table.jsonl"
jq -r .text "$tmp/texts/dev.jsonl" >"$tmp/texts.txt"
jq -c '{text}' "$tmp/texts/dev.jsonl" >"$tmp/texts.jsonl"
find "$tmp/photos/val" -type f | sort >"$tmp/pictures.txt"
jq -Rc '{file: .}' "$tmp/pictures.txt" >"$tmp/pictures.jsonl"
predict table table.want --json "$tmp/table.csv"
predict texts texts.want --json "$tmp/texts.txt"
mapfile -t files <"$tmp/pictures.txt"
predict pictures pictures.want --json --set train.batch=7 --set train.chunks=1 "${files[@]}"
for form in table.csv table.jsonl texts.txt texts.jsonl pictures.txt pictures.jsonl; do
	for local in '' --local; do
		predict "${form%.*}" "$form.got$local" --stream $local <"$tmp/$form"
		equals "${form%.*}.want" "$form.got$local"
	done
	# A sample's name is its line or, of a picture, its file.
	cmp <(jq -r .name "$tmp/$form.got") <(
		case $form in
		pictures*) jq -r .name "$tmp/pictures.want" ;;
		table.csv) seq -f 'stream:%.0f' 2 41 ;;
		*) seq -f 'stream:%.0f' 40 ;;
		esac
	) >"$tmp/out" || fail "names of $form: $(jq -r .name "$tmp/$form.got" | head -n 3)"
done

# Each bad line gets one line, in its place: answered KIND NUMBER ERROR SENTENCE.
answered() {
	jq -se --argjson n "$2" --arg error "$3" --arg says "$4" '.[$n] | .sample == $n and .error == $error and (.message | contains($says))' \
		"$tmp/$1.bad" >"$tmp/out" || fail "line $2 of $1: $(sed -n "$(($2 + 1))p" "$tmp/$1.bad"), and not $3, $4"
}
good() { jq -se --argjson n "$2" --slurpfile want "$tmp/$1.want" '(.[$n] | del(.name, .sample, .servers_word)) == ($want[0] | del(.name, .sample, .servers_word))' "$tmp/$1.bad" >"$tmp/out" ||
	fail "line $2 of $1: $(sed -n "$(($2 + 1))p" "$tmp/$1.bad")"; }
first() { head -n 1 "$tmp/$1.jsonl"; }
{
	first table
	echo 'no JSON'
	echo '{"size": 1, "colour": "red"}'
	printf '{"size": 1, "noise": 2, "colour": "m\xfcde"}\n'
	echo '{"size": 1, "noise": 2, "colour": "pink"}'
	echo '{"size": null, "noise": 2, "colour": "red"}'
	echo '{"size": [1], "noise": 2, "colour": "red"}'
	echo '{"size": "wide", "noise": 2, "colour": "red"}'
	echo '{"size": 1, "size": 2, "noise": 2, "colour": "red"}'
	echo
	echo '{}'
	echo '[1]'
	printf '{"size": 1, "noise": 2, "colour": "%01048576d"}\n' 0
	printf '{"size": 1, "noise": 2, "colour": "%09999999d"}\n' 0
	first table
	printf '{"size": 1, "noise": '
} >"$tmp/bad"
status=65 predict table table.bad --stream <"$tmp/bad"
[ "$(wc -l <"$tmp/table.bad")" = 16 ] || fail "$(wc -l <"$tmp/table.bad") answers to 16 lines"
good table 0
answered table 1 DATA "stream:2:2: '[' or '{' expected near 'no'"
answered table 2 DATA 'stream: no column "noise" (training has it); the JSON object names size, colour'
answered table 3 DATA 'stream:4'
answered table 4 DATA 'stream:5: column "colour": "pink" does not occur in training'
answered table 5 DATA 'stream:6: the cell of column "size" is empty'
answered table 6 DATA 'stream:7: the object has no text or number "size"'
answered table 7 DATA 'stream:8: column "size": "wide"'
answered table 8 DATA 'stream:9'
answered table 9 DATA 'stream:10: the line is empty: a JSON object is needed'
answered table 10 DATA 'stream:11'
answered table 11 DATA 'stream:12: no JSON object'
answered table 12 DATA 'stream:13: the line is too long'
answered table 13 DATA 'stream:14: the line is too long'
good table 14
answered table 15 DATA 'stream:16'
grep -q '^splitc: 14 of 16 lines have an error; the first: stream:2:2' "$tmp/table.bad.log" || fail "$(tail -n 1 "$tmp/table.bad.log")"

# The first data of a stream decide the form of all its lines, behind a byte order mark, blanks and empty lines.
begins() { # STATUS TEXT
	{ printf "$2"; first table; first table; } >"$tmp/begin"
	status=$1 predict table table.bad --stream <"$tmp/begin"
	[ "$(wc -l <"$tmp/table.bad")" = "$(wc -l <"$tmp/begin")" ] || fail "'$2', then JSON: $(cat "$tmp/table.bad")"
}
for text in '\xef\xbb\xbf' ' \t' '\xef\xbb\xbf '; do
	begins 0 "$text"
	good table 0
done
begins 65 '\n \n'
answered table 0 DATA 'stream:1: the line is empty'
answered table 1 DATA 'stream:2: '
good table 2
begins 65 "[$(first table)]\n"
answered table 0 DATA 'stream:1: no JSON object'
good table 1
{ printf '\xef\xbb\xbf'; cat "$tmp/table.csv"; } | predict table table.got --stream
equals table.want table.got

# Which form it has taken is said once. One that is neither is refused at its first line: nothing is predicted by a guess.
form() { # KIND STATUS WORDS
	local rc=0
	"$SPLITC" predict "$tmp/$1.yaml" --local --stream >"$tmp/form.out" 2>"$tmp/form.log" || rc=$?
	[ $rc = "$2" ] && [ "$(grep -cE "$3" "$tmp/form.log")" = 1 ] || fail "the form of $1: status $rc, $(cat "$tmp/form.log" "$tmp/form.out")"
}
form table 0 '^INFO form: standard input: rows of CSV behind' <"$tmp/table.csv"
form table 0 '^INFO form: standard input: a JSON object on each line' <"$tmp/table.jsonl"
form texts 0 '^INFO form: standard input: a text or path on each line' <"$tmp/texts.txt"
tail -n +2 "$tmp/table.csv" | form table 65 "^splitc: .*names none of the model.s columns: rows of CSV need such a line in front"
[ "$(wc -l <"$tmp/form.out")" = 1 ] || fail "rows without a header: $(cat "$tmp/form.out")"
printf '\n"label",text\nred boxes,1\n' | form texts 65 "^splitc: .*names the model's columns, and rows of CSV are not read here"
# So it is where no stream is asked for.
texts() { "$SPLITC" predict "$tmp/texts.yaml" --local "$1" >"$tmp/form.out" 2>"$tmp/form.log"; }
texts - <"$tmp/texts.txt" && [ "$(grep -c '^INFO form: standard input: a text on each line$' "$tmp/form.log")" = 1 ] || fail "texts from standard input: $(cat "$tmp/form.log")"
for first in '{"text": "red"}' 'text,label' '"label";"text"'; do
	printf '%s\nred boxes\n' "$first" >"$tmp/form.txt"
	for file in - "$tmp/form.txt"; do
		rc=0
		texts "$file" <"$tmp/form.txt" || rc=$?
		[ $rc = 65 ] && grep -qE ':1: (a JSON object|the names of columns), where each line is a text' "$tmp/form.log" || fail "$first as a text: status $rc, $(cat "$tmp/form.log")"
	done
done

{
	first pictures
	echo '{"file": "/nowhere/a.png"}'
	echo "{\"file\": \"$tmp/photos/val\"}"
	echo "{\"file\": \"$tmp/texts.txt\"}"
	echo '{"path": "a.png"}'
	echo '{"file": "a\u0000b"}'
	echo '{"file": ""}'
	printf '{"file": "%05000d"}\n' 0
	first pictures | sed 's/}$/, "more": 1}/'
} >"$tmp/bad"
status=66 predict pictures pictures.bad --stream <"$tmp/bad"
good pictures 0
answered pictures 1 NOINPUT '/nowhere/a.png: No such file'
answered pictures 2 DATA 'stream:3: a line is one sample'
answered pictures 3 DATA 'texts.txt: this is not a picture'
answered pictures 4 DATA 'stream:5: the object has no text or number "file"'
answered pictures 5 DATA 'stream:6: a path of 1 to 4095 bytes is needed'
answered pictures 6 DATA 'stream:7: a path of 1 to 4095 bytes is needed'
answered pictures 7 DATA 'stream:8: a path of 1 to 4095 bytes is needed'
good pictures 8
{
	head -n 1 "$tmp/texts.txt"
	echo
	printf 'm\xfcde\n'
	printf 'red\0fish\n'
	echo '{ is a text here'
	printf '%01048577d\n' 0
	printf '%s\r\n' "$(head -n 1 "$tmp/texts.txt")"
} >"$tmp/bad"
status=65 predict texts texts.bad --stream <"$tmp/bad"
good texts 0
answered texts 1 DATA 'stream:2: an empty text'
answered texts 2 DATA 'stream:3: '
answered texts 5 DATA 'stream:6: the line is too long'
good texts 6
[ "$(wc -l <"$tmp/texts.bad")" = 7 ] || fail "$(wc -l <"$tmp/texts.bad") answers to 7 texts"

# refused STATUS SENTENCE [argument]…
refused() {
	local rc=0
	"$SPLITC" predict "$tmp/table.yaml" "${@:3}" </dev/null >"$tmp/out" 2>&1 || rc=$?
	[ $rc = "$1" ] && grep -qF -- "$2" "$tmp/out" || fail "${*:3}: exit status $rc, $(cat "$tmp/out")"
}
refused 64 'leave out FILE, --csv and --out' --stream "$tmp/table.csv"
refused 64 'leave out FILE, --csv and --out' --listen unix:/tmp/x --csv
refused 64 '--listen takes unix:PATH' --listen /tmp/x
refused 64 '--listen takes unix:PATH' --listen unix:/tmp/x --stream
refused 73 'there is a file that is not a socket' --local --listen "unix:$tmp/table.csv"
refused 73 'No such file' --local --listen "unix:$tmp/nowhere/s"
refused 78 'a path of 1 to 107 bytes is needed' --local --listen unix:
# The server is not there: each line says so.
status=69 predict table away --stream --set server=tcp://127.0.0.1:9 --set link.connect_timeout_ms=300 < <(head -n 2 "$tmp/table.jsonl")
jq -se 'length == 2 and all(.error == "TIMEOUT" and (.message | contains("is splits running there")))' "$tmp/away" >"$tmp/out" || fail "$(cat "$tmp/away")"

# answers that nobody takes are lost, and a folder is no standard input
lost() { # STATUS WHAT, of the command that ran last
	[ "$1" = "$2" ] || fail "$3: status $1, $(tail -1 "$tmp/lost.log")"
}
status=0
"$SPLITC" predict "$tmp/table.yaml" --stream --local <"$tmp/table/test.csv" >/dev/full 2>"$tmp/lost.log" || status=$?
lost $status 74 'a full disk'
status=0
"$SPLITC" predict "$tmp/table.yaml" --stream --local <"$tmp" >"$tmp/lost.out" 2>"$tmp/lost.log" || status=$?
lost $status 66 'a folder as standard input'
echo 'lines are predicted with the bits of files, and bad ones are answered in their place'
