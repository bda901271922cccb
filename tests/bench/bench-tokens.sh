#!/usr/bin/env bash
# usage: tests/bench/bench-tokens.sh TOKENIZER FILE
# Prints tokens per second of one thread on the lines of FILE: of Split, and of Hugging Face's packages for JavaScript
# and Rust, which npm installs in a scratch folder. They take turns, two rounds. TOKENIZER is a folder with
# tokenizer.json.
set -eu
here=$(realpath "$(dirname "$0")")
[ $# = 2 ] || { echo "usage: ${0##*/} TOKENIZER FILE" >&2; exit 64; }
tokenizer=$(realpath "$1") file=$(realpath "$2")
cd "$here/../.."
make -s build/release/tests/bench/bench_tokens >&2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$here/tokens.mjs" "$scratch"
npm install --silent --no-audit --no-fund --prefix "$scratch" @huggingface/tokenizers@0.2.0 tokenizers@0.23.2 >/dev/null
for _ in 1 2; do
	echo "ours: $(build/release/tests/bench/bench_tokens "$tokenizer" "$file")"
	(cd "$scratch" && RAYON_NUM_THREADS=1 node tokens.mjs "$tokenizer/tokenizer.json" "$file")
done
