#!/usr/bin/env bash
# usage: tests/golden/tokens/make.sh DATA
# Writes digests.txt: what independent tokenizers make of the data, of made strings and of hard.jsonl. DATA holds
# roberta_tokenizer/, bert_uncased_vocab.txt and glue/{CoLA,RTE}/{train,dev,test}.tsv; what is missing is left out, and
# so are its lines. Needs npm, which installs two packages of Hugging Face into a scratch folder: `@huggingface/tokenizers`
# in JavaScript, and `tokenizers`, the one in Rust that Python's uses too.
set -eu
here=$(realpath "$(dirname "$0")")
cd "$here/../../.."
[ $# = 1 ] || { echo "usage: ${0##*/} DATA" >&2; exit 64; }
data=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make -s build/release/tests/e2e/tools/make_text
build/release/tests/e2e/tools/make_text "$scratch"
cp "$here/make.mjs" "$scratch"
cd "$scratch"
npm install --silent --no-audit --no-fund --prefix "$scratch" @huggingface/tokenizers@0.2.0 tokenizers@0.23.2 >/dev/null
node make.mjs "$data" "$here/hard.jsonl" >"$scratch/digests.txt"
cp "$scratch/digests.txt" "$here/digests.txt"
