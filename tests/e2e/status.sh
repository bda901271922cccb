#!/usr/bin/env bash
# `splitc status` and `splits status` during a run, as a table and as --json; codecs, flops and eval as --json; and the
# summary at the end of a run, on the terminal's side and in log.jsonl.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 480 24
start_server host threads=2
write_config "$tmp/client.yaml"
start_client run "$tmp/client.yaml" --set link.timeout_ms=600000 --set train.epochs=100000 --set train.optimizer.lr=0.002 --set codec='topk:0.2|quant:8' --set partition=2:-2
wait_for 'no steps' has_steps run 5
# Rates are means over the last seconds, so they are known only after some time.
known() { "$1" status --control "$2" --json | jq -e '.sessions[0] | .tx_mb_s > 0.01 and .rx_mb_s > 0.01' >"$tmp/jq.out"; }
wait_for 'splitc has no rates' known "$SPLITC" "$tmp/run.sock"
wait_for 'splits has no rates' known "$SPLITS" "$tmp/host.sock"

# holds FILE JQ-CONDITION
holds() { jq -e "$2" "$1" >"$tmp/jq.out" || { cat "$1"; fail "${1##*/}: not so: $2"; }; }

ask "$SPLITC" "$tmp/run.sock" "$tmp/client.json"
ask "$SPLITS" "$tmp/host.sock" "$tmp/server.json"
for f in client server; do
	holds "$tmp/$f.json" '.schema == 2 and (.sessions | length) == 1 and .uptime_s >= 0'
	holds "$tmp/$f.json" '.sessions[0] | .model != "" and .step >= 5 and .tx_bytes > 0 and .rx_bytes > 0 and .age_s > 0'
	holds "$tmp/$f.json" '.sessions[0].codec | .head_act == "topk:0.2|quant:8" and .head_grad == .head_act'
done
holds "$tmp/client.json" '.sessions[0] | .model == "mobilenet_v2" and (.partition | test("^head_end=features.1.* tail_begin=features.18"))'
# The server knows the middle's layers, but not the network's name.
holds "$tmp/server.json" '.sessions[0] | (.model | test("^[0-9]+ layers, [0-9]+ parameters$")) and (.partition | test("^features.2.conv.0.0 to features.17"))'
holds "$tmp/client.json" ".role == \"client\" and .threads == 1 and .pid == $client_pid"
holds "$tmp/client.json" '.sessions[0] | .loss > 0 and .acc >= 0 and .samples_per_s > 0 and .tx_mb_s > 0 and .phase != ""'
holds "$tmp/server.json" ".role == \"server\" and .threads == 2 and .pid == $server_pid and .address == \"$endpoint\""
holds "$tmp/server.json" '.sessions[0] | .loss == null and .samples_per_s > 0' # labels and loss stay with the client
holds "$tmp/client.json" '.sessions[0] | .epochs == 100000 and .steps == 3000000 and .left_s > 0'
holds "$tmp/server.json" '.sessions[0] | .epoch == 0 and .steps == 0 and .left_s == null' # nor does it know the plan
[ "$(jq .sessions[0].link_epoch "$tmp/client.json")" = "$(jq .sessions[0].link_epoch "$tmp/server.json")" ] || fail 'two epochs of one link'
holds "$tmp/server.json" '.malformed == 0 and .turned_away == 0'
[ "$(jq -r '.sessions[0].id' "$tmp/client.json")" = "$(jq -r '.sessions[0].id' "$tmp/server.json")" ] || fail 'two ids of one session'

step=$(jq '.sessions[0].step' "$tmp/client.json")
wait_for 'no more steps' has_steps run $((step + 5))
ask "$SPLITC" "$tmp/run.sock" "$tmp/later.json"
[ "$(jq '.sessions[0].step' "$tmp/later.json")" -gt "$step" ] || fail 'the status stands still'

wait_for 'splitc has no table' "$SPLITC" status --control "$tmp/run.sock" >"$tmp/client.txt"
wait_for 'splitc has no table of the run that --set names' \
	"$SPLITC" status "$tmp/client.yaml" --set control="$tmp/run.sock" >"$tmp/client-set.txt"
wait_for 'splits has no table' "$SPLITS" status --control "$tmp/host.sock" >"$tmp/server.txt"
for f in client server; do
	grep -q "^split${f:0:1} 0.*pid .* 1 session$" "$tmp/$f.txt" || fail "$f: no first line: $(cat "$tmp/$f.txt")"
	grep -qE '^SESSION .*PHASE .*STEP' "$tmp/$f.txt" || fail "$f: no titles: $(cat "$tmp/$f.txt")"
	grep -qE '^[0-9a-f]{8} ' "$tmp/$f.txt" || fail "$f: no session: $(cat "$tmp/$f.txt")"
	grep -qE '^  (mobilenet_v2, head_end=features.1|[0-9]+ layers, [0-9]+ parameters, features.2)' "$tmp/$f.txt" || fail "$f: no model: $(cat "$tmp/$f.txt")"
	grep -qxF '  codec topk:0.2|quant:8' "$tmp/$f.txt" || fail "$f: no codec: $(cat "$tmp/$f.txt")"
done

# A control socket that answers is not taken over; requests other than `status` get no answer.
rc=0
client second "$tmp/client.yaml" --set control="$tmp/run.sock" || rc=$?
[ $rc = 69 ] && grep -q 'give this one a `control` of its own$' "$tmp/second.log" || fail "a second client on the same control socket: exit status $rc, not 69"

# --watch repeats, with the losses as bars, until the run has ended (below); as JSON, one line each time.
"$SPLITC" status --control "$tmp/run.sock" --watch --json | head -n 2 >"$tmp/watched.json"
jq -se 'length == 2 and .[0].sessions[0].step >= 5' "$tmp/watched.json" >"$tmp/out" || fail "--watch --json: $(cat "$tmp/watched.json")"
LC_ALL=C.UTF-8 "$SPLITC" status --control "$tmp/run.sock" --watch >"$tmp/watched.txt" 2>"$tmp/watched.err" &
watch_pid=$!
started+=("$watch_pid")
wait_for 'no bars' grep -q '^loss, every 1 s  [▁▂▃▄▅▆▇█]* ' "$tmp/watched.txt"
signal TERM "$watch_pid"

# A stopped client moves no data: after ten seconds, while the runs below continue, its rates are those of heartbeats.
signal STOP "$client_pid"
id=$(jq -r '.sessions[0].id' "$tmp/client.json")
grep -q "^INFO session-open: .*, session ${id:0:8}: [0-9]* layers, .*, codec " "$tmp/host.log" || fail "the server's log names no session $id"

# The summary adds up: the bytes of the four tensors, plus those of headers and control messages.
client end "$tmp/client.yaml" --json || fail "a run with --json: exit status $?"
tail -n 1 "$tmp/end.log" >"$tmp/summary.json"
holds "$tmp/summary.json" '.schema == 2 and .outcome == "finished" and .steps == 30 and (.directions | length) == 4'
holds "$tmp/summary.json" '([.directions[] | select(.tensor == "head_act" or .tensor == "mid_grad") | .wire_bytes] | add) as $tensors
	| (.wire_tx_bytes - .weights_tx_bytes - .framing_tx_bytes) | . >= $tensors and . < $tensors * 1.01 + 32768'
holds "$tmp/summary.json" '.directions[] | select(.tensor == "head_act")
	| .payload_bytes >= .raw_bytes and .payload_bytes < .raw_bytes * 1.01 and .wire_bytes > .payload_bytes and .wire_bytes < .payload_bytes * 1.02'
tail -n 1 "$tmp/end/log.jsonl" >"$tmp/last.json"
holds "$tmp/last.json" '.type == "summary" and .outcome == "finished" and .steps == 30'
[ "$(jq .test_acc "$tmp/last.json")" = "$(jq .test_acc "$tmp/summary.json")" ] || fail 'log and summary differ'
head -n 1 "$tmp/end/log.jsonl" >"$tmp/first.json"
holds "$tmp/first.json" '["step", "loss", "acc", "lr", "wire_tx_bytes", "wire_rx_bytes", "t_step_s", "t_compute_s", "t_wait_s", "t_data_s"] - keys == []'

# the weights give the run's last accuracy again, over the link and without
for where in --local --json; do
	timeout -k 5 $patience "$SPLITC" eval "$tmp/client.yaml" --weights "$tmp/end/model.safetensors" --json $where \
		--set control="$tmp/eval.sock" 2>"$tmp/eval.log" >"$tmp/eval.json" || fail "eval $where"
	[ "$(jq '[.test_loss, .test_acc]' "$tmp/eval.json")" = "$(jq '[.test_loss, .test_acc]' "$tmp/summary.json")" ] ||
		fail "eval $where: $(cat "$tmp/eval.json")"
done
# Without --weights they are log.dir's. If an unfinished run, without weights yet, is beside them, eval says so.
! grep unfinished "$tmp/eval.log" || fail 'an unfinished run, where there is none'
: >"$tmp/end/checkpoint-000000000007.safetensors"
"$SPLITC" eval "$tmp/client.yaml" --set log.dir="$tmp/end" --local --json >"$tmp/older.json" 2>"$tmp/older.log" || fail "eval beside an unfinished run"
grep -q '^WARN unfinished: .*model.safetensors is of step 30: it lacks what the unfinished run there has learned up to step 7$' "$tmp/older.log" ||
	fail "eval beside an unfinished run: $(cat "$tmp/older.log")"
# As a table: the number of images in the last evaluation, however many evaluations there were, and no undefined figure.
client table "$tmp/client.yaml" --set train.epochs=2 --set train.eval_every=1 || fail "a run that ends with a table: $?"
grep -qE '^finished: [0-9]+ steps in [0-9.]+ s in all; [0-9.]+ samples/s in training$' "$tmp/table.log" || fail "table: $(cat "$tmp/table.log")"
"$SPLITC" eval "$tmp/client.yaml" --weights "$tmp/end/model.safetensors" --set control="$tmp/eval.sock" >"$tmp/eval.txt" 2>"$tmp/eval.log" ||
	fail "eval as a table: $?"
grep '^all ' "$tmp/table.log" | sed -E 's/[0-9]+\.[0-9]+/123456.78/g' >"$tmp/all.txt" # 100 GB each way
fits "$tmp/all.txt"
for table in table.log eval.txt; do
	grep -qE '^test accuracy [0-9.]+ % of 24 samples, loss [0-9.]+(; the best of the run was [0-9.]+ %)?$' "$tmp/$table" || fail "$table: $(cat "$tmp/$table")"
done
! grep 'average -\|best of' "$tmp/eval.txt" || fail "eval has figures of a training run"

"$SPLITC" codecs --json >"$tmp/codecs.json"
holds "$tmp/codecs.json" 'map(.name) | contains(["none", "f16", "quant", "topk"])'
"$SPLITC" codecs | grep -qE '^ +[0-9]+ +quant ' || fail 'splitc codecs'
"$SPLITC" flops "$tmp/client.yaml" --json >"$tmp/flops.json"
holds "$tmp/flops.json" 'type == "object"'
# The memory that the config needs is what the server counted, except for the plan's lists, which the server parses from
# text.
"$SPLITC" flops "$tmp/client.yaml" --json --set codec='topk:0.2|quant:8' --set partition=2:-2 --set threads=2 >"$tmp/needs.json"
jq -e --slurpfile server "$tmp/server.json" '.memory.server as $n | ($server[0].sessions[0] | .activations_bytes == $n.activations and
	.codecs_bytes == $n.codecs and .payloads_bytes == $n.buffers and
	.weights_bytes - ($n.weights + $n.gradients + $n.optimizer) < 16384 and .memory_bytes - $n.sum < 16384) and
	([.memory | .client, .server | .sum == .weights + .gradients + .optimizer + .activations + .codecs + .buffers] | all)' "$tmp/needs.json" >"$tmp/jq.out" ||
	fail "the server counts $(jq -c .sessions[0] "$tmp/server.json"), splitc flops $(jq -c .memory "$tmp/needs.json")"
stands() {
	"$SPLITS" status --control "$tmp/host.sock" --json |
		jq -e ".sessions[] | select(.id == \"$id\") | .tx_bytes > 100000 and .tx_mb_s < 0.001 and .rx_mb_s < 0.001" >"$tmp/jq.out"
}
wait_for 'the rates of a client that stands still are not those of heartbeats' stands
signal CONT "$client_pid"
"$SPLITC" status --control "$tmp/run.sock" --watch --json >"$tmp/until-end.json" 2>"$tmp/watched.err" &
watch_pid=$!
started+=("$watch_pid")
wait_for 'nothing is watched' test -s "$tmp/until-end.json" # no file of before: that would not say that this one has begun
signal STOP "$client_pid"
wait_for 'a run that does not answer in time is not asked again' grep -q 'no answer at .*run.sock in time; asking again' "$tmp/watched.err"
signal CONT "$client_pid"
signal INT "$client_pid"
ends_with "$watch_pid" 0 60 'watching a run that ends'
grep -q 'it has ended' "$tmp/watched.err" || fail 'no word of the end'
ends_with "$client_pid" 75 $patience 'client'
wait_for 'the session is still there' sh -c "'$SPLITS' status --control '$tmp/host.sock' --json | jq -e '.sessions == []' >'$tmp/jq.out'"
echo passed
