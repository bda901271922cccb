#!/usr/bin/env bash
# usage: demo-text.sh [FOLDER]        (make demo-text TEXT_DATA=FOLDER)
# Starts splits and trains a small encoder on CoLA from random weights with splitc through it. FOLDER, or $SPLIT_TEXT_DATA, has CoLA
# (glue/CoLA or CoLA) and roberta_tokenizer/; neither comes with this project. Prints the Matthews correlation, bytes per token and
# tokens per second. Fails where the network has learned less than which answer is more frequent: a training loss of 0.607.
# Everything it starts ends with it. DEMO_RUN names the folder of logs and weights (default runs/demo-text); BUILD, that of the
# binaries; EPOCHS, another number of them.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
run=${DEMO_RUN:-runs/demo-text}
data=${1:-${SPLIT_TEXT_DATA:-}}
[ -n "$data" ] || { echo 'demo-text: name the folder that has glue/CoLA and roberta_tokenizer/: make demo-text TEXT_DATA=FOLDER'; exit 64; }
glue=$data
[ ! -d "$data/glue" ] || glue=$data/glue
for needed in "$glue/CoLA/train.tsv" "$data/roberta_tokenizer"; do
	[ -e "$needed" ] || { echo "demo-text: $needed is not there"; exit 66; }
done
unset OPENBLAS_CORETYPE
mkdir -p "$run"
socket=$(mktemp -d "${TMPDIR:-/tmp}/split-demo.XXXXXX")
server='' client=''
end_all() {
	trap - EXIT
	local pid
	for pid in $client $server; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$socket"
}
trap end_all EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT

: >"$run/splits.log"
setpriv --pdeathsig TERM "$build/splits" serve configs/server.yaml --set listen=tcp://127.0.0.1:0 --set store="$run/store" \
	--set control="$socket/splits.sock" 2>"$run/splits.log" &
server=$!
for _ in $(seq 200); do
	endpoint=$(sed -n 's/^INFO serving: .* on \(tcp:[^ ,]*\),.*/\1/p' "$run/splits.log")
	[ -z "$endpoint" ] || break
	kill -0 $server 2>/dev/null || break
	sleep 0.1
done
[ -n "$endpoint" ] || { echo 'splits did not start:'; cat "$run/splits.log"; exit 1; }
echo "splits serves on $endpoint; splitc trains configs/client-demo-text.yaml"
# the tokens are not kept: the data may be read-only
setpriv --pdeathsig TERM "$build/splitc" train configs/client-demo-text.yaml --fresh --set server="$endpoint" --set log.dir="$run" \
	--set control="$socket/splitc.sock" --set data.dir="$glue" --set data.tokenizer="$data/roberta_tokenizer" \
	--set data.token_cache=false ${EPOCHS:+--set train.epochs="$EPOCHS"} >"$run/summary.txt" &
client=$!
status=0
wait $client || status=$?
client=''
[ $status = 0 ] || { echo "splitc ended with exit status $status; the server's log:"; tail -n 5 "$run/splits.log"; exit 1; }
cat "$run/summary.txt"
# what crosses in front of the middle has 128 numbers for each token
jq -rs '(.[] | select(.type == "summary")) as $s | [.[] | select(.type == "epoch")] as $e |
	($s.direction.head_act.raw_bytes / 512) as $all | ($s.direction.head_grad.raw_bytes / 512) as $trained |
	[$s.test_metrics.matthews, ($s.wire_tx_bytes + $s.wire_rx_bytes) / $all, $trained / ([$e[].t_train_s] | add), $e[-1].train_loss] | @tsv' \
	"$run/log.jsonl" | awk '{
	good = $4 < 0.6
	printf "demo-text: %s: Matthews %.4f, %.0f bytes per token, %.0f tokens/s; training loss %.4f, below 0.6 wanted\n", good ? "passed" : "FAILED", $1, $2, $3, $4
	exit !good
}'
