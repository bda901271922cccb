#!/usr/bin/env bash
# usage: demo-text.sh [FOLDER]        (make demo-text TEXT_DATA=FOLDER)
# Starts splits and trains a small encoder through it from random weights on CoLA. FOLDER, or $SPLIT_TEXT_DATA, has CoLA
# (glue/CoLA or CoLA) and roberta_tokenizer/; neither comes with this project. Prints the Matthews correlation, bytes
# per token and tokens per second. Fails if the training loss is not below 0.607: a network that only learned which
# answer is more frequent reaches that. All daemons end with this script. DEMO_RUN: the folder of logs and weights
# (default runs/demo-text). BUILD: the folder of the binaries. EPOCHS: another number of epochs.
set -eu
cd "$(dirname "$0")/.."
. scripts/demo-pair.sh
find_texts "${1:-}"
start_splits
echo "splits serves on $endpoint; splitc trains configs/client-demo-text.yaml"
# No token cache: it would lie beside the data, which may be read-only.
$child "$build/splitc" train configs/client-demo-text.yaml --fresh --set server="$endpoint" --set log.dir="$run" \
	--set control="$socket/splitc.sock" --set data.dir="$glue" --set data.tokenizer="$data/roberta_tokenizer" \
	--set data.token_cache=false ${EPOCHS:+--set train.epochs="$EPOCHS"} >"$run/summary.txt" &
client=$!
status=0
wait $client || status=$?
client_ended $status
# A token has 128 features of 4 bytes at the first cut, so raw bytes / 512 is the number of tokens.
jq -rs '(.[] | select(.type == "summary")) as $s | [.[] | select(.type == "epoch")] as $e |
	($s.direction.head_act.raw_bytes / 512) as $all | ($s.direction.head_grad.raw_bytes / 512) as $trained |
	[$s.test_metrics.matthews, ($s.wire_tx_bytes + $s.wire_rx_bytes) / $all, $trained / ([$e[].t_train_s] | add), $e[-1].train_loss] | @tsv' \
	"$run/log.jsonl" | awk '{
	good = $4 < 0.6
	printf "demo-text: %s: Matthews %.4f, %.0f bytes per token, %.0f tokens/s; training loss %.4f, below 0.6 wanted\n", good ? "passed" : "FAILED", $1, $2, $3, $4
	exit !good
}'
