#!/usr/bin/env bash
# Decaying inserts. Over the link they learn what `--local` learns, byte for byte: at both cuts, with several numbers of
# chunks and several codecs. What crosses gets narrower at the steps of the schedule, by the computed number of bytes. A
# run that is interrupted, or killed and resumed from a checkpoint with wider tensors, ends as the undisturbed run. An
# evaluation sends as many features as the weights have.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 320 64
port=$(free_port)
serve() { start_server server "listen=tcp://127.0.0.1:$port"; }
serve
write_config "$tmp/client.yaml" # batches of 16 in 4 chunks; tensors of 16×16×8 and 1×1×160 cross
falls=rate=0.8,every=3,times=3
cases=0

# compare NAME key=value…: a run of 11 steps over the link must equal the local one
compare() {
	local name=$1 set=() pair
	shift
	for pair in train.optimizer.lr=0.002 train.max_steps=11 train.eval_every=0 data.test_limit=16 "$@"; do set+=(--set "$pair"); done
	as_local "$name" "$name, local" 11 "$tmp/client.yaml" "${set[@]}"
	cases=$((cases + 1))
}

both=("insert.head=decaylinear:$falls,l1=0.01" "insert.tail=conv:160+decaylinear:$falls,l1=0.01")
compare both "${both[@]}"
compare plain insert.head="decaylinear:$falls" insert.tail="conv:160+decaylinear:$falls"
compare 'one chunk, 8 bits' "${both[@]}" codec=quant:8 train.chunks=1 threads=2
compare 'places and residuals' "${both[@]}" codec.head_act=topk:0.2,ef=true codec.head_grad='topk:0.2|quant:8' \
	codec.mid_act=quant:6,per=channel codec.mid_grad=topk:0.3,ef=true train.chunks=3 train.optimizer.lr=0.0005
compare 'factors behind convolutions' insert.head="conv:6,k=3,s=3+decaylinear:$falls" codec.head_act=lowrank:2,warm=true \
	codec.head_grad=lowrank:2,warm=true,ef=true
compare features insert.tail="linear:100+decaylinear:$falls,l1=0.01" tail_begin=classifier.0 train.chunks=3 \
	'codec.mid_act=topk:0.5|zstd'
[ "$(learned both)" != "$(learned plain)" ] || fail 'the run with l1 equals that without it'

# A step of 16 rows in 4 chunks sends 8 payloads, each with 16 bytes of header. A row has 256 floats for each feature of the
# head's insert, and one for each of the tail's. The features: 8 6 4 3, and 160 128 102 81.
sent=($(sed -n 's/.*"type":"step".*"wire_tx_bytes":\([0-9]*\).*/\1/p' "$tmp/both, local/log.jsonl"))
crossed=($(sed -n 's/.*"type":"step".*"wire_tx_bytes":\([0-9]*\).*/\1/p' "$tmp/both/log.jsonl"))
i=0
for width in 8,160 8,160 8,160 6,128 6,128 6,128 4,102 4,102 4,102 3,81 3,81; do
	want=$((8 * 16 + 4 * 16 * (256 * ${width%,*} + ${width#*,})))
	[ "${sent[$i]}" = $want ] || fail "step $((i + 1)) sends ${sent[$i]} bytes of payload, not $want"
	extra=$((${crossed[$i]} - want)) # headers
	[ $extra -gt 0 ] && [ $extra -lt 2000 ] || fail "step $((i + 1)) sends ${crossed[$i]} bytes for $want of payload"
	i=$((i + 1))
done
grep -q 'insert-narrowed: insert.head: from step 4 on 6 features cross, not 8' "$tmp/both.log" || fail 'the log does not say that the insert narrows'

# A step that is skipped for NaN counts as done: the insert narrows after it, on both sides.
skip=(--set train.on_nan=skip --set train.max_steps=11 --set train.eval_every=0 --set train.optimizer.lr=0.002)
for pair in "${both[@]/every=3/every=5}" codec.head_act=topk:0.2,ef=true; do skip+=(--set "$pair"); done
plain_splitc=$SPLITC SPLITC=$PWD/$BUILD/fail/splitc
for where in local remote; do
	SPLIT_FAILPOINTS=client.check=EIO@5 client "skip $where" "$tmp/client.yaml" $([ $where = remote ] || echo --local) "${skip[@]}" ||
		fail "skip $where: exit status $?"
done
SPLITC=$plain_splitc
same_run 'skip remote' 'skip local' 11
[ "$(grep -n '"skipped":true' "$tmp/skip remote/log.jsonl" | cut -d: -f1)" = 5 ] || fail 'step 5 was not skipped'
grep -q 'insert.head: from step 6 on 6 features cross, not 8' "$tmp/skip remote.log" || fail 'the insert did not narrow after a skipped step'

# A codec must also fit the width at the end.
rc=0
"$SPLITC" train "$tmp/client.yaml" --check-config --set insert.head=decaylinear:rate=0.9,every=9,times=8 \
	--set codec.head_grad=lowrank:2 >"$tmp/unfit.log" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'codec.head_grad.*to which the decaying insert narrows' "$tmp/unfit.log" || fail "lowrank:2 on 1 channel: exit status $rc, $(cat "$tmp/unfit.log")"

refused 78 'insert.head: inserts that decay cannot be shared by a group' --local --clients 2 --set insert.head=decaylinear:rate=0.9,every=2,times=2

# An evaluation after the run has the width after its 11 steps, as the run's own evaluation had, locally and over the link.
test_of() { sed -n "s/.*\"type\":\"$2\".*\"test_loss\":\\([^,]*\\),\"test_acc\":\\([^,}]*\\).*/\\1 \\2/p" "$1" | tail -n 1; }
for where in --local "--set server=$endpoint"; do
	"$SPLITC" eval "$tmp/client.yaml" $where --set log.dir="$tmp/both" --set data.test_limit=16 --set control="$tmp/eval.sock" \
		--set "${both[0]}" --set "${both[1]}" --json >"$tmp/eval.json" 2>"$tmp/eval.log" || fail "eval $where"
	now=$(sed -n 's/.*"test_loss":\([^,]*\),"test_acc":\([^,]*\),.*/\1 \2/p' "$tmp/eval.json")
	[ "$now" = "$(test_of "$tmp/both/log.jsonl" epoch)" ] || fail "eval $where says $now, the run $(test_of "$tmp/both/log.jsonl" epoch)"
	raw=$(jq -s 'map(select(.wire_tx_bytes)) | last | .wire_tx_bytes - .weights_tx_bytes - .framing_tx_bytes' "$tmp/eval.json")
	# It includes Hello with the graph's text. At the run's first width the activations alone would be 131072 bytes.
	[ "$raw" -lt $((4 * 16 + 4 * 16 * 256 * 3 + 32768)) ] || fail "eval $where sends $raw bytes"
done

# A run is interrupted between two falls and resumed. Then its server is killed after a fall, and later both sides are, after
# another. The checkpoints from which they resume are from before these falls, and have wider tensors.
sets=()
for pair in train.optimizer.lr=0.002 train.epochs=6 train.eval_every=0 link.on_server_lost=wait link.retry_ms=20 link.heartbeat_ms=100 \
	link.timeout_ms=2000 link.connect_timeout_ms=2000 train.checkpoint_every=7 \
	'insert.head=decaylinear:rate=0.9,every=13,times=6,l1=0.001' \
	'insert.tail=conv:100+decaylinear:rate=0.9,every=17,times=3,l1=0.001' \
	codec.head_act=topk:0.3,ef=true codec.mid_act=quant:8 codec.mid_grad=quant:8,ef=true codec.head_grad=lowrank:2,warm=true; do
	sets+=(--set "$pair")
done
client undisturbed "$tmp/client.yaml" "${sets[@]}" || fail "the undisturbed run: status $?"
client_stands 16 disturbed "$tmp/client.yaml" "${sets[@]}"
stops disturbed
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience 'the server of the interrupted client'
SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=server.answered=kill@24 serve
start_failing_client client.apply=hold@52 disturbed "$tmp/client.yaml" "${sets[@]}" --resume
ends_with "$server_pid" 137 $patience 'the server that is killed at the fortieth step or soon after'
serve
at_point disturbed client.apply # in step 69, or a little before, since steps may have been repeated
has_steps disturbed 60 || fail "the client holds after step $(steps_of disturbed), not after 60 or more"
end_process "$server_pid" "$client_pid"
serve
client disturbed "$tmp/client.yaml" "${sets[@]}" --resume || fail "the resumed run: status $?"
same_run undisturbed disturbed 120
echo "$cases runs equal their local twin"
