#!/usr/bin/env bash
# Several labels or numbers per text, from columns of TSV, CSV and JSON Lines: a run with a server equals --local, also
# over a kill of the client. They are learned, and predicted after the texts were removed. Invalid labels are refused
# with file and line.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/made" "$tmp/plain" "$tmp/own"
"$TOOLS/make_text" "$tmp/made"
jq -c 'del(."<s>", ."</s>", ."<pad>", ."<mask>")' "$tmp/made/vocab.json" >"$tmp/plain/vocab.json" # a row's first token is of its first word
cp "$tmp/made/merges.txt" "$tmp/plain"
# rows FROM TO: text, warm, fresh, length, price; the first word determines them.
rows() {
	awk -v from="$1" -v to="$2" 'BEGIN {
		split("red green fish water", word, " ")
		for (i = from; i < to; i++) {
			k = i * 7 % 4
			printf "%s the boxes %d.\t%d\t%d\t%.2f\t%.2f\n", word[k + 1], i, (k % 2 == 0), (k > 1), k / 2 - 0.5, 1 - k * k / 4
		}
	}'
}
header=$'text\twarm\tfresh\tlength\tprice'
{ echo "$header" && rows 0 160; } >"$tmp/own/train.tsv"
{ echo "$header" && rows 160 240; } | tr '\t' , >"$tmp/own/more.csv"
{ echo "$header" && rows 240 320; } >"$tmp/own/dev.tsv"
rows 240 320 | jq -cR 'split("\t") | {text: .[0], warm: (.[1] | tonumber), fresh: .[2], length: .[3], price: (.[4] | tonumber)}' >"$tmp/own/dev.jsonl"
start_server one
config() {
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
config labels '[warm, fresh]' dev.jsonl 'class_weights: balanced'
config numbers '[length, price]' dev.tsv 'loss: l1'
"$SPLITC" data "$tmp/labels.yaml" --json | jq -c '[.classes[] | [.name, .train, .test]]' >"$tmp/out"
[ "$(cat "$tmp/out")" = '[["warm",120,40],["fresh",120,40]]' ] || fail "data: $(cat "$tmp/out")"
"$SPLITC" data "$tmp/numbers.yaml" >"$tmp/out" || fail "data: exit status $?"
for task in labels numbers; do
	as_local $task-linked $task-local 45 "$tmp/$task.yaml" --json
	killed_client 20 $task-linked "$tmp/$task.yaml"
	"$SPLITC" predict "$tmp/$task.yaml" --local --json --set log.dir="$tmp/$task-linked" >"$tmp/$task.known" 2>"$tmp/predict.log" || fail "predict $task"
	rows 240 320 | cut -f1 | "$SPLITC" predict "$tmp/$task.yaml" --local --json --set log.dir="$tmp/$task-linked" --set data.dir="$tmp/gone" - >"$tmp/$task.new" \
		2>"$tmp/predict.log" || fail "predict $task without the texts: $(cat "$tmp/predict.log")"
	cmp <(jq -c '[.said, .probabilities, .predicted]' "$tmp/$task.known") <(jq -c '[.said, .probabilities, .predicted]' "$tmp/$task.new") ||
		fail "$task: others without the texts"
done
is() { tail -n 1 "$tmp/$1.log" | jq -e "$2" >"$tmp/out" || fail "$1: $2: $(tail -n 1 "$tmp/$1.log" | jq -c '{test_metrics, targets}')"; }
is labels-local '.test_metrics.auc > 0.99 and (.targets | map(.name)) == ["warm", "fresh"]'
is numbers-local '.test_metrics.r2 > 0.9 and (.targets | map(.name)) == ["length", "price"]'
jq -se 'all(.[]; .labels == .said)' "$tmp/labels.known" >"$tmp/out" || fail 'labels that were not learned are said'
[ "$(jq -c .labels "$tmp/labels.known" | sort | uniq -c | awk '{print $1}' | tr '\n' ' ')" = '20 20 20 20 ' ] || fail 'other labels'

config=$tmp/labels.yaml refused 65 'train.tsv:3: column "price": "-1.25" is no label: 1, the row has it, or 0' --set data.label=warm,price
config=$tmp/numbers.yaml refused 65 'column "text": label "red the boxes 0." is not a number' --set data.label=length,text
config=$tmp/numbers.yaml refused 65 'no column "weight"; the header names text, warm' --set data.label=length,weight
config=$tmp/numbers.yaml refused 78 'data.sampling: balanced needs classes' --set data.sampling=balanced
config=$tmp/labels.yaml refused 78 'data.label names 2 columns, and the network has 3 outputs' --set model.classes=3
config=$tmp/labels.yaml refused 78 'several columns are several numbers or labels' --set model.task=classes
client 'labels-linked killed' "$tmp/labels.yaml" --set train.epochs=4 --resume --set data.label=fresh,warm && fail 'resumed with other labels'
grep -q 'are not those that the run' "$tmp/labels-linked killed.log" || fail "other labels: $(tail -n 1 "$tmp/labels-linked killed.log")"
echo 'several labels and numbers of texts are learned and predicted'
