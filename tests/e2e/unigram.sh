#!/usr/bin/env bash
# SentencePiece's unigram tokenizers of tokenizer.json, in the forms of XLM-R and CamemBERT: the ids of 1,518 texts of
# many scripts are those of an independent tokenizer. Folders of XLM-R and CamemBERT learn as RoBERTa's does. What is
# not read is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
python3 tests/e2e/tools/unigram.py "$tmp"
for form in old new bare; do
	"$SPLITC" tokens "$tmp/$form" "$tmp/texts" >"$tmp/$form.ours" || fail "$form: exit status $?"
	cmp "$tmp/$form.ours" "$tmp/$form.ids" || fail "$form: $(diff "$tmp/$form.ids" "$tmp/$form.ours" | grep -c '^<') texts have other ids"
done
pair=$(printf 'Où\test\n' | "$SPLITC" tokens "$tmp/old" --json --pair -)
[[ $pair =~ ^'{"ids":[0,'[0-9]+',2,2,'[0-9]+',2]}'$ ]] || fail "a pair: $pair"
[ "$("$SPLITC" tokens "$tmp/new" "$tmp/texts" --stats --json | jq -r .tokenizer)" = unigram ] || fail 'its name is not unigram'

wrong=0
refuses() { # STATUS WHAT FILTER: the tokenizer of the filter
	local status=0
	wrong=$((wrong + 1))
	mkdir -p "$tmp/wrong"
	jq "$3" "$tmp/new/tokenizer.json" >"$tmp/wrong/tokenizer.json"
	"$SPLITC" tokens "$tmp/wrong" "$tmp/texts" >"$tmp/out" 2>"$tmp/err" || status=$?
	[ "$status" = "$1" ] || fail "$3: exit status $status, not $1: $(cat "$tmp/err")"
	[ "$(wc -l <"$tmp/err")" = 1 ] || fail "$3: $(cat "$tmp/err")"
	grep -qF -- "$2" "$tmp/err" || fail "$3: '$(cat "$tmp/err")' lacks '$2'"
}
refuses 78 'a Unigram model with "byte_fallback" is not supported' '.model.byte_fallback = true'
refuses 78 'normalizer "Lowercase" is not supported' '.normalizer.normalizers[1] = {type: "Lowercase"}'
refuses 78 'normalizer "Strip" is not supported' '.normalizer.normalizers[1].strip_left = true'
refuses 78 'normalizer "Precompiled" is not supported' '.normalizer.normalizers |= reverse'
refuses 78 'pre_tokenizer "Metaspace" is not supported' '.pre_tokenizer.split = false'
refuses 65 'model.unk_id is no place in model.vocab' '.model.unk_id = 1e6'
refuses 65 'model.unk_id is no place in model.vocab' '.model.unk_id = null'
refuses 65 'model.vocab, entry 5: it is no [token, number]' '.model.vocab[5][1] = "x"'
refuses 65 'model.vocab is no list' '.model.vocab = []'
refuses 65 'has two ids, 9 and 10' '.model.vocab[10] = .model.vocab[9]'
refuses 65 'a piece of more than 1024 bytes' '.model.vocab[9][0] = ("ab" * 600)'
for table in '"QUJD"' '"////"' null '(.[0:400])' '"!"'; do
	refuses 65 'precompiled_charsmap is no table of SentencePiece' ".normalizer.normalizers[0].precompiled_charsmap |= $table"
done
[ "$wrong" = 16 ] || fail "$wrong refusals"
# Any double array is read without a step outside it.
for shift in 4 8 12 16 20; do
	jq --argjson n "$shift" '.normalizer.normalizers[0].precompiled_charsmap |= .[0:40] + .[40 + $n:] + .[40:40 + $n]' "$tmp/new/tokenizer.json" >"$tmp/wrong/tokenizer.json"
	"$SPLITC" tokens "$tmp/wrong" "$tmp/texts" >"$tmp/out" 2>"$tmp/err" || grep -q 'is no table' "$tmp/err" || fail "a shifted table: $(cat "$tmp/err")"
done

# The families differ from RoBERTa by name alone.
mkdir "$tmp/own"
awk 'NR <= 60 && !/\t/ {print (NR % 2) "\t" $0}' "$tmp/texts" >"$tmp/rows"
{ printf 'label\ttext\n' && head -n 40 "$tmp/rows"; } >"$tmp/own/train.tsv"
{ printf 'label\ttext\n' && tail -n 10 "$tmp/rows"; } >"$tmp/own/dev.tsv"
learned() { # MODEL_TYPE
	mkdir "$tmp/$1"
	cp "$tmp/old/tokenizer.json" "$tmp/$1"
	jq -n --arg type "$1" '{model_type: $type, architectures: ["XLMRobertaForMaskedLM"], vocab_size: 1600, hidden_size: 24, intermediate_size: 40,
		num_hidden_layers: 2, num_attention_heads: 4, max_position_embeddings: 66, type_vocab_size: 1, layer_norm_eps: 1e-05,
		pad_token_id: 1, bos_token_id: 0, eos_token_id: 2, output_past: true, hidden_act: "gelu"}' >"$tmp/$1/config.json"
	cat >"$tmp/$1.yaml" <<-YAML
		model: {huggingface: $tmp/$1, classes: 2, tokens: 64}
		partition: "2:-1"
		data: {kind: text, dir: $tmp/own, columns: [text], label: label, train_files: [train.tsv], test_files: [dev.tsv], tokenizer: $tmp/$1}
		train: {batch: 8, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
		threads: 1
	YAML
	client "$1" "$tmp/$1.yaml" --local || fail "$1: $(tail -n 3 "$tmp/$1.log")"
	jq -r 'select(.type == "step") | .loss' "$tmp/$1/log.jsonl"
}
want=$(learned roberta) || fail "$want"
[ "$(wc -l <<<"$want")" -ge 4 ] || fail "steps of RoBERTa: $want"
for type in xlm-roberta camembert; do
	got=$(learned "$type") || fail "$got"
	[ "$got" = "$want" ] || fail "$type learns otherwise: $got"
done
