#!/usr/bin/env bash
# usage: demo-generate.sh [FOLDER]        (make demo-generate TEXT_DATA=FOLDER)
# Starts splits, trains a small decoder on CoLA's sentences from random weights with splitc through it, and lets it write text behind
# a few words. FOLDER, or $SPLIT_TEXT_DATA, has CoLA (glue/CoLA or CoLA) and roberta_tokenizer/; neither comes with this project.
# Fails where the network has learned little: a perplexity of 300 or more, of 50,265 at first; and where the text over the link is
# not that of this process alone. Everything it starts ends with it. DEMO_RUN names the folder of logs and weights (default
# runs/demo-generate); BUILD, that of the binaries; EPOCHS, another number of them.
set -eu -o pipefail
cd "$(dirname "$0")/.."
. scripts/demo-pair.sh
find_texts "${1:-}"
start_splits
echo "splits serves on $endpoint; splitc trains configs/client-decoder.yaml"
# the tokens are not kept: the data may be read-only
set=(--set server="$endpoint" --set log.dir="$run" --set control="$socket/splitc.sock" --set data.dir="$glue"
	--set data.tokenizer="$data/roberta_tokenizer" --set data.token_cache=false --set train.epochs="${EPOCHS:-2}")
$child "$build/splitc" train configs/client-decoder.yaml --fresh "${set[@]}" >"$run/summary.txt" &
client=$!
status=0
wait $client || status=$?
client_ended $status

# A word that the sentences begin with often, in each line. Drawn, as a small network's likeliest words are always the same.
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
