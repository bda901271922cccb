#!/usr/bin/env bash
# usage: demo-generate.sh [FOLDER]        (make demo-generate TEXT_DATA=FOLDER)
# Starts splits, trains a small decoder through it from random weights on CoLA's sentences, and lets it continue a few
# words. FOLDER, or $SPLIT_TEXT_DATA, has CoLA (glue/CoLA or CoLA) and roberta_tokenizer/; neither comes with this
# project. Fails if the network learned little (a perplexity of 300 or more; it begins at 50,265), or if the text that
# it writes over the link differs from the text that one process writes. All daemons end with this script. DEMO_RUN: the
# folder of logs and weights (default runs/demo-generate). BUILD: the folder of the binaries. EPOCHS: another number of
# epochs.
set -eu -o pipefail
cd "$(dirname "$0")/.."
. scripts/demo-pair.sh
find_texts "${1:-}"
start_splits
echo "splits serves on $endpoint; splitc trains configs/client-decoder.yaml"
# No token cache: it would lie beside the data, which may be read-only.
set=(--set server="$endpoint" --set log.dir="$run" --set control="$socket/splitc.sock" --set data.dir="$glue"
	--set data.tokenizer="$data/roberta_tokenizer" --set data.token_cache=false --set train.epochs="${EPOCHS:-2}")
$child "$build/splitc" train configs/client-decoder.yaml --fresh "${set[@]}" >"$run/summary.txt" &
client=$!
status=0
wait $client || status=$?
client_ended $status

# Words with which CoLA's sentences often begin. Tokens are sampled: the most likely words of a small network are always
# the same.
printf '%s\n' 'John' 'The' 'Mary believed that' 'I think' >"$run/prompts.txt"
writes() {
	"$build/splitc" generate configs/client-decoder.yaml "${set[@]}" --prompts "$run/prompts.txt" --set generate.max_tokens=24 \
		--set generate.temperature=0.7 --set generate.top_k=40 --set generate.seed=3 --set link.on_server_lost=wait "$@" 2>>"$run/generate.log"
}
echo
writes | tee "$run/text.txt" || { tail -n 3 "$run/generate.log"; exit 1; }
same=1
writes --local | cmp -s - "$run/text.txt" || same=0
jq -rs '[.[] | select(.type == "epoch")][-1].test_metrics.perplexity' "$run/log.jsonl" | awk -v same=$same '{
	good = $1 < 300 && same
	printf "\ndemo-generate: %s: perplexity %.1f, below 300 wanted; the text over the link %s that of --local\n", good ? "passed" : "FAILED", $1, same ? "is" : "is not"
	exit !good
}'
