#!/usr/bin/env bash
# Texts as data: a folder in CoLA's format, and own files, train over the link as with --local, byte for byte, also
# after a kill. The task's metric is computed over the whole set. Tokens are cached beside the text. Errors in texts
# name file and line. SPLIT_TEXT_DATA: a folder with glue/CoLA and roberta_tokenizer/, for a run on real data.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/made" "$tmp/plain" "$tmp/CoLA" "$tmp/own"
"$TOOLS/make_text" "$tmp/made"
# Without special tokens a row's first token belongs to its first word, the only one that token_mlp reads.
jq -c 'del(."<s>", ."</s>", ."<pad>", ."<mask>")' "$tmp/made/vocab.json" >"$tmp/plain/vocab.json"
cp "$tmp/made/merges.txt" "$tmp/plain"
# rows FROM TO: label and text, where the first word determines the label.
rows() {
	awk -v from="$1" -v to="$2" 'BEGIN {
		n = split("green red the a boxes of un fish water said", word, " ")
		for (i = from; i < to; i++) {
			text = i * 7 % 3 ? "red" : "green"
			for (k = i * i % 11; k > 0; k--) text = text " " word[(i * 31 + k * k) % n + 1]
			printf "%d\t%s.\n", (i * 7 % 3 > 0), text
		}
	}'
}
cola() { rows "$1" "$2" | awk -F '\t' '{print "made\t" $1 "\t\t" $2}'; }
cola 0 300 >"$tmp/CoLA/train.tsv"
cola 300 380 >"$tmp/CoLA/dev.tsv"
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {name: token_mlp, classes: 2, vocab: 700, tokens: 40, width: 0.25, dropout: 0.1}
	head_end: embedding
	tail_begin: dense
	data: {kind: cola, dir: $tmp, tokenizer: $tmp/plain}
	train: {batch: 16, chunks: 4, epochs: 2, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
	threads: 1
YAML
start_server one threads=1
one=$endpoint
start_server two "store=$tmp/two" threads=2
two=$endpoint
score() { jq -r "select(.type == \"summary\") | .test_metrics.$2" "$tmp/$1/log.jsonl"; }
learns() { # NAME METRIC
	score "$1" "$2" | awk '{exit !($1 > 0.95)}' || fail "$1: $2 is $(score "$1" "$2")"
}

client local "$config" --local || fail "--local: exit status $?"
learns local matthews
[ -s "$tmp/CoLA/train.tsv.tokens" ] && [ -s "$tmp/CoLA/dev.tsv.tokens" ] || fail 'no tokens lie beside the text'
client linked "$config" --set server="$one" || fail "with a server: exit status $?"
same_run linked local 38
# The rarer class has one text, the longest: it occurs in a batch again and again.
mkdir -p "$tmp/rare/CoLA"
{ rows 0 200 | awk -F '\t' '$1 == 0 && n++ < 31 {print "made\t0\t\t" $2}'; printf 'made\t1\t\tred'; printf ' fish%.0s' $(seq 12); echo; } >"$tmp/rare/CoLA/train.tsv"
cp "$tmp/CoLA/dev.tsv" "$tmp/rare/CoLA"
rare=(--set data.dir="$tmp/rare" --set data.sampling=balanced --set train.batch=32 --set train.chunks=2)
client rare "$config" --local "${rare[@]}" || fail "balanced texts: $(tail -n 3 "$tmp/rare.log")"
client rare2 "$config" --set server="$one" "${rare[@]}" || fail "balanced texts, with a server: $(tail -n 3 "$tmp/rare2.log")"
same_run rare2 rare 2
# The token cache belongs to another run, is damaged, or is switched off.
printf x | dd of="$tmp/CoLA/train.tsv.tokens" bs=1 seek=300 conv=notrunc status=none
client spoilt "$config" --set server="$two" --set threads=2 --set codec=none || fail "with another server: exit status $?"
same_run spoilt local 38
rm "$tmp/CoLA/train.tsv.tokens" "$tmp/CoLA/dev.tsv.tokens"
client 'no cache' "$config" --local --set data.token_cache=false || fail "without a cache: exit status $?"
same_run 'no cache' local 38
[ ! -e "$tmp/CoLA/train.tsv.tokens" ] || fail 'tokens were kept against the config'
client short "$config" --local --set data.max_length=1 || fail "rows of one token: exit status $?"
[ "$(learned short)" = "$(learned local)" ] && fail 'data.max_length cuts nothing'
figure() { jq -r "select(.type == \"summary\") | .direction.$2" "$tmp/$1/log.jsonl"; }
[ "$(figure short head_act.raw_bytes)" = $(((2 * 300 + 2 * 80) * 16 * 4)) ] || fail "rows of one token have $(figure short head_act.raw_bytes) bytes"

# A run that is killed between two steps, and whose server is gone, too, resumes from its checkpoint, with batches of
# rows of similar length.
set=(--set server="$two" --set codec='quant:4,ef=true' --set train.checkpoint_every=1 --set data.group_by_length=true)
client undisturbed "$config" --local --set codec='quant:4,ef=true' --set data.group_by_length=true || fail "undisturbed: exit status $?"
killed_client 20 undisturbed "$config" "${set[@]}"

# `splitc data` counts all rows, has the tokens of `splitc tokens`, and shows the padded forms of a batch.
"$SPLITC" data "$config" --json >"$tmp/json" || fail "data: exit status $?"
"$SPLITC" tokens "$tmp/plain" --task cola --stats --json --max-length 40 "$tmp" >"$tmp/stats" || fail "tokens: exit status $?"
[ "$(jq -c '[.kind, .train.samples, .test.samples, (.classes | map(.train) | add), .train.tokens, .train.length]' "$tmp/json")" = \
	"$(jq -c '["cola", 300, 80, 300, .tokens, .length]' "$tmp/stats")" ] || fail "data: $(cat "$tmp/json")"
jq -e '(.batch.tokens * 19 - .train.tokens | fabs) < 0.001 and (.batch.padded_max - 300 * 40 / 19 | fabs) < 0.001 and .batch.tokens < .batch.padded_longest and
	.batch.padded_longest < .batch.padded_max and .head_act_features == 16 and .tokens_s > 0 and (.text | length) == 5' "$tmp/json" >"$tmp/out" || fail "data: $(cat "$tmp/json")"
"$SPLITC" data "$config" --sheet "$tmp/sheet.png" >"$tmp/table" 2>"$tmp/err" && fail 'a sheet of texts' || status=$?
[ $status = 64 ] && grep -q 'texts have no pictures to draw' "$tmp/err" || fail "a sheet of texts: status $status, $(cat "$tmp/err")"
"$SPLITC" data "$config" >"$tmp/table" || fail "data: exit status $?"
grep -q '^samples ' "$tmp/table" || fail "data: $(cat "$tmp/table")"
grep -q '^head_act  *[0-9.]* kB a batch as fp32; padded' "$tmp/table" || fail "data: $(cat "$tmp/table")"

# Own files: pairs, labels by name; training data in two files.
own=(--set data.kind=text --set data.dir="$tmp/own" --set data.columns=first,second --set data.label=verdict)
{ echo 'verdict,first,second'; rows 0 150 | awk -F '\t' '{print ($1 ? "yes" : "\"no, sir\"") ",\"" $2 "\",b"}'; } >"$tmp/own/a.csv"
rows 150 300 | jq -cR 'split("\t") | {first: .[1], second: "b", verdict: (if .[0] == "1" then "yes" else "no, sir" end), n: 1}' >"$tmp/own/b.jsonl"
{ printf 'n\tsecond\tverdict\tfirst\n'; rows 300 380 | awk -F '\t' '{print "7\tb\t" ($1 ? "yes" : "no, sir") "\t" $2}'; } >"$tmp/own/dev.tsv"
client own "$config" --local "${own[@]}" --set data.train_files=a.csv,b.jsonl --set train.metrics=f1 || fail "own texts: exit status $?"
learns own f1
# A file that is sorted by class: data.test_limit takes samples of both.
{ head -n 1 "$tmp/own/dev.tsv"; tail -n +2 "$tmp/own/dev.tsv" | sort -k 3; } >"$tmp/own/sorted.tsv"
"$SPLITC" eval "$config" --local --set log.dir="$tmp/own" "${own[@]}" --set data.train_files=a.csv,b.jsonl --set data.test_files=sorted.tsv --set data.test_limit=10 >"$tmp/out" 2>&1 ||
	fail "sorted texts: $(cat "$tmp/out")"
[ "$(grep -cE '^ +[1-9] .*  (yes|no, sir)' "$tmp/out")" = 2 ] || fail "sorted texts: $(cat "$tmp/out")"
client 'own one' "$config" --set server="$one" "${own[@]}" --set data.train_files=a.csv,b.jsonl --set train.metrics=f1 || fail "own texts with a server: exit status $?"
same_run 'own one' own 38

# Regression in STS-B's format: no accuracy, but the correlations; the weights of the best epoch.
mkdir "$tmp/STS-B"
sts() { printf 'index\tsentence1\tsentence2\tscore\n'; rows "$1" "$2" | awk -F '\t' '{print NR "\t" $2 "\tb\t" ($1 ? 4.25 : 0.5) + length($2) % 3 / 10}'; }
sts 0 300 >"$tmp/STS-B/train.tsv"
sts 300 380 >"$tmp/STS-B/dev.tsv"
numbers=(--set data.kind=stsb --set model.classes=1 --set train.keep_best=true)
client 'numbers' "$config" --local "${numbers[@]}" || fail "numbers: exit status $?"
learns numbers pearson
[ "$(jq -c 'select(.type == "summary") | [.test_acc, .best_test_acc, (.test_metrics | keys)]' "$tmp/numbers/log.jsonl")" = '[null,null,["pearson","spearman"]]' ] ||
	fail "numbers: $(tail -n 1 "$tmp/numbers/log.jsonl")"
grep -q '^validation loss .* of 80 samples$' "$tmp/numbers.log" || fail 'numbers: the loss is not said'
grep -q '^best.safetensors holds the weights after step [0-9]*, with pearson 0.9' "$tmp/numbers.log" || fail 'numbers: nothing is kept'
grep -q accuracy "$tmp/numbers.log" && fail 'numbers: there is an accuracy'
as_local 'numbers one' 'numbers 8' 38 "$config" --set server="$one" "${numbers[@]}" --set train.chunks=8
cmp "$tmp/numbers one/best.safetensors" "$tmp/numbers 8/best.safetensors" || fail 'the best weights of numbers differ'
"$SPLITC" predict "$config" --local --csv --set log.dir="$tmp/numbers" "${numbers[@]}" >"$tmp/csv" 2>"$tmp/err" || fail "predict: $(cat "$tmp/err")"
[ "$(head -n 1 "$tmp/csv")" = sample,number,predicted,name ] && [ "$(wc -l <"$tmp/csv")" = 81 ] || fail "predict: $(head -n 2 "$tmp/csv")"
awk -F , 'NR > 1 {d = $2 - $3; s += d * d} END {exit !(s / (NR - 1) < 0.5)}' "$tmp/csv" || fail 'predict: the numbers are far off'
# The best weights are chosen by the task's metric, or by another.
client 'best' "$config" --local --set train.keep_best=true || fail "best: exit status $?"
grep -q 'best.safetensors .* with matthews 1.0000' "$tmp/best.log" || fail 'matthews does not choose the weights that are kept'
client 'best f1' "$config" --local --set train.keep_best=true --set train.best_metric=f1 || fail "best by f1: exit status $?"
grep -q 'best.safetensors .* with f1 1.0000' "$tmp/best f1.log" || fail 'f1 does not choose the weights that are kept'

# refused STATUS SENTENCE OPTION…: one line, from train and from its check.
refused() {
	local status command says=$2 want=$1
	shift 2
	for command in --check-config '--local --fresh'; do
		status=0
		# shellcheck disable=SC2086 # two options
		"$SPLITC" train "$config" $command --set log.dir="$tmp/refused" "$@" >"$tmp/out" 2>&1 || status=$?
		[ "$status" = "$want" ] && [ "$(wc -l <"$tmp/out")" = 1 ] && grep -qF -- "$says" "$tmp/out" ||
			fail "$says: $command: exit status $status, $(cat "$tmp/out")"
	done
}
refused 78 'data.tokenizer: texts need a tokenizer' --set data.tokenizer=
refused 66 "--set data.tokenizer: $tmp/none: No such file or directory" --set data.tokenizer="$tmp/none"
size=$("$SPLITC" tokens "$tmp/plain" --stats --json </dev/null | jq .vocabulary)
refused 78 "--set model.vocab: cola has tokens below $size, the model only below $((size - 1))" --set model.vocab=$((size - 1))
refused 78 'data.max_length: the network takes rows of 40 tokens at most' --set data.max_length=41
refused 66 'neither train.tsv nor RTE/train.tsv exists' --set data.kind=rte
refused 78 'the network takes pictures' --set model.name=mobilenet_v2 --set model.image=32 --set head_end= --set tail_begin=
refused 78 'data.columns: belongs to data.kind: text' --set data.columns=text
refused 78 'data.tokenizer: belongs to texts' --set data.kind=made_tokens --set data.tokenizer=x
refused 78 'data.columns: one column of text, or two of pairs' "${own[@]}" --set data.columns=a,b,c
refused 65 'a.csv:1: no column "third"; the header names verdict, first, second' "${own[@]}" --set data.train_files=a.csv --set data.columns=third
refused 65 'a.csv:1: no column "label"; the header names' "${own[@]}" --set data.train_files=a.csv --set data.label=label
refused 66 'there is no train with the end .tsv, .csv or .jsonl' "${own[@]}"
refused 78 'its name must end in .tsv, .csv or .jsonl' "${own[@]}" --set data.train_files=client.txt
refused 78 'model.classes: stsb has numbers to be predicted: give 1 instead of classes' --set data.kind=stsb
refused 78 'train.best_metric: no metric "pearson" of classes; there are accuracy' --set train.keep_best=true --set train.best_metric=pearson
refused 78 'train.metrics: no metric "spearman" of classes' --set train.metrics=f1,spearman
refused 78 'model.task (default): cola has classes, and no numbers' --set model.classes=1
# spoil SED STATUS SENTENCE: refused after one line of the training file is changed.
spoil() {
	cola 0 300 | sed "$1" >"$tmp/CoLA/train.tsv"
	refused "$2" "$3"
}
spoil '5s/[^\t]*$//' 65 'train.tsv:5: an empty text'
spoil '6s/red\|green/\xff/' 65 'train.tsv:6: '
spoil '7s/\t[^\t]*$//' 65 'train.tsv:7: 3 columns, where at least 4 are needed'
spoil '8s/\t[01]\t/\t2\t/' 65 'train.tsv:8: label "2": one of 0, 1'
# BERT derives token types from the position of [SEP], so a text must not spell it.
mkdir "$tmp/bert"
jq -n --argjson size "$(wc -l <"$tmp/made/vocab.txt")" '{model_type: "bert", vocab_size: $size, hidden_size: 8, intermediate_size: 8,
	num_hidden_layers: 2, num_attention_heads: 2, max_position_embeddings: 40, type_vocab_size: 2, sep_token_id: 3}' >"$tmp/bert/config.json"
sed "s|model: .*|model: {huggingface: $tmp/bert, classes: 2, tokens: 40}|; s|head_end: .*|head_end: embeddings|; s|tail_begin: .*|tail_begin: pooler|
	s|tokenizer: [^}]*|tokenizer: $tmp/made/vocab.txt|; s|epochs: 2|epochs: 1|" "$config" >"$tmp/bert.yaml"
cola 0 300 >"$tmp/CoLA/train.tsv"
client bert "$tmp/bert.yaml" --local || fail "BERT: exit status $?"
cola 0 300 | sed '9s/.$/ [SEP] said./' >"$tmp/CoLA/train.tsv"
config=$tmp/bert.yaml refused 65 'train.tsv: text 9 spells the special token that ends a text'
sed -i '9s/SEP/MASK/' "$tmp/CoLA/train.tsv"
client 'bert masked' "$tmp/bert.yaml" --local || fail "BERT with a mask: exit status $?"
# The data give classes their numbers. A folder that gives the same classes other numbers is refused.
named() { # NAME LABEL2ID
	jq ".label2id = $2" "$tmp/bert/config.json" >"$tmp/named.json"
	mv "$tmp/named.json" "$tmp/bert/config.json"
	client "$1" "$tmp/bert.yaml" --local "${own[@]}" --set data.train_files=a.csv
}
named same '{"No, sir": 0, yes: 1}' && named plain '{LABEL_0: 0, LABEL_1: 1}' && named half '{yes: 0}' || fail "names of classes: exit status $?"
for order in '{YES: 0, "no, sir": 1}' '{LABEL_0: 0, LABEL_1: 1} | .id2label = {"0": "yes", "1": "No, sir"}'; do
	status=0
	named turned "$order" || status=$?
	[ "$status" = 78 ] && grep -qF 'label2id of its config.json does not give "no, sir" the number 0' "$tmp/turned.log" ||
		fail "names in another order: exit status $status"
done
cola 0 300 >"$tmp/CoLA/train.tsv"
sed -i '3s/yes\|no, sir/maybe/' "$tmp/own/dev.tsv"
refused 65 'dev.tsv:3: label "maybe": one of no, sir, yes' "${own[@]}" --set data.train_files=a.csv
while IFS='|' read -r label said; do
	sed "3s/^yes\|^\"no, sir\"/$label/" "$tmp/own/a.csv" >"$tmp/own/odd.csv"
	refused 65 "odd.csv$said" "${own[@]}" --set data.train_files=odd.csv
done <<-'ROWS'
	nan|:3: the label is missing: nan; leave such rows out, or rename the class
	yes |: the labels "yes" and "yes " are written in two ways: write them the same
	 yes|: the labels " yes" and "yes" are written in two ways: write them the same
ROWS
printf 'yes,red, red,b\n' >>"$tmp/own/a.csv"
refused 65 "a.csv:$(wc -l <"$tmp/own/a.csv"): 4 cells, where the header names 3 columns: put a text" "${own[@]}" --set data.train_files=a.csv
sed -i '$d' "$tmp/own/a.csv"
printf 'na\xefve,red,b\n' >>"$tmp/own/a.csv"
refused 65 "a.csv:$(wc -l <"$tmp/own/a.csv"): the text is not UTF-8; of Latin-1" "${own[@]}" --set data.train_files=a.csv
turns='made texts'

if [ -n "${SPLIT_TEXT_DATA:-}" ]; then
	cp -r "$SPLIT_TEXT_DATA/glue" "$tmp/glue"
	chmod -R u+w "$tmp/glue"
	real=(--set data.dir="$tmp/glue" --set data.tokenizer="$SPLIT_TEXT_DATA/roberta_tokenizer" --set model.vocab=50265
		--set train.epochs=1 --set data.train_limit=640 --set codec=quant:8)
	as_local 'real one' 'real local' 40 "$config" --set server="$one" "${real[@]}"
	turns='made texts and CoLA'
fi
echo "$turns train with a server as without"
