#!/usr/bin/env bash
# splitc predict: a line for each image of the test set, from a model file alone and with the server, as text, CSV and
# JSON. Its accuracy equals that of eval, to the last digit.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 70 # batches of 16: the last is a short one, of chunks that are not equal
start_server host
write_config "$tmp/client.yaml"
client run "$tmp/client.yaml" || fail "no model to predict with"

# predict NAME [argument]…: writes $tmp/NAME.out.
predict() {
	local rc=0
	timeout -k 5 $patience "$SPLITC" predict "$tmp/client.yaml" --set log.dir="$tmp/run" --set control="$tmp/c.sock" "${@:2}" \
		>"$tmp/$1.out" 2>"$tmp/$1.log" || rc=$?
	[ $rc = "${status:-0}" ] || fail "predict ${*:2}: exit status $rc, not ${status:-0}"
}

"$SPLITC" eval "$tmp/client.yaml" --set log.dir="$tmp/run" --set control="$tmp/c.sock" --json >"$tmp/eval.json" 2>"$tmp/eval.log" || fail 'eval'
predict split --json
predict local --json --local
sed 's/,"servers_word":\["middle"\]}$/}/' "$tmp/split.out" | cmp - "$tmp/local.out" || fail 'the server makes a difference'
jq -se 'all(.servers_word == ["middle"])' "$tmp/split.out" >/dev/null && jq -se 'all(has("servers_word") | not)' "$tmp/local.out" >/dev/null || fail "whose word the middle is"
[ "$(grep -c '^INFO servers-word: ' "$tmp/split.log")" = 1 ] && ! grep servers-word "$tmp/local.log" || fail "whose word the middle is: $(cat "$tmp/split.log")"
jq -e '.servers_word == ["evaluations", "times"]' "$tmp/eval.json" >/dev/null || fail "eval: $(cat "$tmp/eval.json")"
[ "$(wc -l <"$tmp/split.out")" = 70 ] || fail "$(wc -l <"$tmp/split.out") lines for 70 images"
jq -se 'to_entries | all(.value.sample == .key and (.value.probabilities | length == 10 and (add - 1 | . < 1e-6 and . > -1e-6)) and
	.value.probabilities[.value.class] == (.value.probabilities | max))' "$tmp/split.out" >/dev/null || fail "$(head -n 2 "$tmp/split.out")"
jq -s 'map(select(.class == .label)) | length / 70' "$tmp/split.out" >"$tmp/accuracy"
most=auc,average_precision,calibration_error,accuracy,top5,matthews,f1,precision,recall,specificity,balanced_accuracy
client all "$tmp/client.yaml" --local --fresh --set train.metrics=$most || fail "all metrics: exit status $?"
grep -q 'epoch: .*, balanced_accuracy 0\.' "$tmp/all.log" && jq -se '[.[] | select(.test_metrics)][-1].test_metrics | length == 11' \
	"$tmp/all/log.jsonl" >/dev/null || fail 'all metrics: some are missing'
"$SPLITC" eval "$tmp/client.yaml" --set log.dir="$tmp/all" --local >"$tmp/all.txt" 2>/dev/null || fail 'eval by class'
[ "$(awk '/^samples/ {table = 1; next} table && /%/ {n += $1} END {print n}' "$tmp/all.txt")" = 70 ] || fail "$(tail -n 12 "$tmp/all.txt")"
jq -e --argjson acc "$(cat "$tmp/accuracy")" '.test_acc == $acc' "$tmp/eval.json" >/dev/null ||
	fail "predict's accuracy is $(cat "$tmp/accuracy"), eval's $(jq .test_acc "$tmp/eval.json")"
grep -q "predicted: 70 test samples, accuracy $(jq -r '.test_acc * 10000 | round / 100' "$tmp/eval.json")" "$tmp/split.log" || fail "$(cat "$tmp/split.log")"

# The metrics of the whole set, with the server and alone, equal those computed from these lines.
jq -s 'map(. as $x | [range(10) | select($x.probabilities[.] > $x.probabilities[$x.label] or
	($x.probabilities[.] == $x.probabilities[$x.label] and . < $x.label))] | select(length < 5)) | length / 70' "$tmp/split.out" >"$tmp/top5"
for local in '' --local; do
	"$SPLITC" eval "$tmp/client.yaml" --set log.dir="$tmp/run" --set control="$tmp/c.sock" --set train.metrics=f1,matthews --json $local \
		>"$tmp/metrics.json" 2>"$tmp/eval.log" || fail "eval with metrics $local"
	jq -e --argjson top5 "$(cat "$tmp/top5")" '.test_metrics | .top5 == $top5 and (keys == ["f1", "matthews", "top5"]) and .f1 >= 0 and .matthews >= -1' \
		"$tmp/metrics.json" >/dev/null || fail "top-5 is $(cat "$tmp/top5"), eval $local says $(jq -c .test_metrics "$tmp/metrics.json")"
	jq -c .test_metrics "$tmp/metrics.json" >>"$tmp/both"
	jq -e --slurpfile line "$tmp/split.out" '. as $e | [range(10) as $l | [range(10) as $c |
		[$line[] | select(.label == $l and .class == $c)] | length]] == $e.confusion and (.classes | length == 10)' "$tmp/metrics.json" >/dev/null ||
		fail "eval $local counts $(jq -c .confusion "$tmp/metrics.json")"
done
[ "$(sort -u "$tmp/both" | wc -l)" = 1 ] || fail "the server makes a difference to metrics: $(cat "$tmp/both")"

# The loss, too, equals the one computed from these logits.
predict logits --json --logits --local
jq -s --slurpfile eval "$tmp/eval.json" 'map(.logits[.label] as $x | (.logits | max) as $top | ([.logits[] | . - $top | exp] | add | log) - ($x - $top)) |
	add / 70 - $eval[0].test_loss | . < 1e-6 and . > -1e-6' "$tmp/logits.out" | grep -q true || fail 'the logits have another loss'

# the same in the other formats
predict csv --csv
[ "$(head -n 1 "$tmp/csv.out")" = "sample,label,class,probability_airplane,$(printf 'probability_%s,' automobile bird cat deer dog frog horse ship truck)class_name" ] || fail "$(head -n 1 "$tmp/csv.out")"
jq -r '[.sample, .label, .class] + .probabilities | map(tostring) | .[0:3] | join(",")' "$tmp/split.out" | diff - <(tail -n +2 "$tmp/csv.out" | cut -d , -f 1-3) ||
	fail 'CSV and JSON differ'
predict text
fits "$tmp/text.out"
tail -n +2 "$tmp/text.out" | awk '{print $1 "," $2 "," $3}' | diff - <(tail -n +2 "$tmp/csv.out" | cut -d , -f 1-3) || fail 'text and CSV differ'
# an exported model alone
"$SPLITC" export "$tmp/client.yaml" "$tmp/model.safetensors" --set log.dir="$tmp/run" >"$tmp/export.log" 2>&1 || fail 'export'
predict exported --csv --local --weights "$tmp/model.safetensors" --set log.dir=
cmp "$tmp/csv.out" "$tmp/exported.out" || fail 'an exported model says something else'
# Another network with the same tensors is warned of; the same one with another cut or without dropout is not.
other='^WARN other-data: the model was trained with network "[0-9a-f]*", and this config has "[0-9a-f]*": it computes otherwise'
predict form --csv --local --set model.form=cifar
grep -q "$other" "$tmp/form.log" || fail "another form: $(cat "$tmp/form.log")"
"$SPLITC" export "$tmp/client.yaml" "$tmp/form.onnx" --set log.dir="$tmp/run" --set model.form=cifar >"$tmp/export.log" 2>&1 || fail 'export of another form'
grep -q "$other" "$tmp/export.log" || fail "export of another form: $(cat "$tmp/export.log")"
predict cut --csv --local --set partition=5:-2 --set model.dropout=0 --set train.batch=7 --set train.chunks=1
! grep -q other-data "$tmp/cut.log" "$tmp/exported.log" "$tmp/split.log" || fail 'the same network counts as another'
# A lossy codec changes the result, so the values are those that crossed the link.
predict coarse --csv --set codec=quant:2
! cmp -s "$tmp/csv.out" "$tmp/coarse.out" || fail 'two bits made no difference'

# ---- errors
status=64 predict both --csv --json
grep -q 'predict: give --csv or --json, not both' "$tmp/both.log" || fail "$(cat "$tmp/both.log")"
status=66 predict none --local --set log.dir="$tmp/nowhere"
grep -q 'model.safetensors cannot be read: `splitc train` writes it; or name another file with --weights' "$tmp/none.log" || fail "$(cat "$tmp/none.log")"
predict checked --check-config
grep -q ': ok, 70 samples to evaluate with' "$tmp/checked.out" || fail "$(cat "$tmp/checked.out")"
signal TERM "$server_pid"
ends_with "$server_pid" 0 60 splits
status=69 predict alone --json --set link.connect_timeout_ms=1000
[ ! -s "$tmp/alone.out" ] || fail 'predictions without a server'
# Predictions for only some images are not a success.
SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=server.eval=hold@3 start_server slow
"$SPLITC" predict "$tmp/client.yaml" --csv --set server="$endpoint" --set log.dir="$tmp/run" --set control="$tmp/c.sock" >"$tmp/cut.out" 2>"$tmp/cut.log" &
started+=($!)
at_point slow server.eval
signal INT $!
ends_with $! 75 60 'predict that is interrupted'
grep -qE 'interrupted: [0-9]+ of 70 samples were predicted' "$tmp/cut.log" || fail "$(cat "$tmp/cut.log")"
# Of two evaluations, the second one does not begin where the first was told to stop.
for how in INT HUP; do
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=server.eval=hold@3 start_server "parity $how" store="$tmp/store $how"
	"$SPLITC" eval "$tmp/client.yaml" --parity --set server="$endpoint" --set log.dir="$tmp/run" --set control="$tmp/c.sock" >"$tmp/cut.out" 2>&1 &
	started+=($!)
	at_point "parity $how" server.eval
	signal $how $!
	let_go "parity $how"
	ends_with $! 75 60 "eval --parity that gets SIG$how"
	[ "$(grep -c 'session-open' "$tmp/parity $how.log")" = 1 ] || fail 'the second evaluation began'
done
"$SPLITC" predict "$tmp/client.yaml" --stream --local --set log.dir="$tmp/run" --set control="$tmp/c.sock" < <(sleep 60 && echo) >"$tmp/cut.out" 2>"$tmp/lines.log" &
started+=($!)
wait_for 'it does not serve' grep -q serving "$tmp/lines.log"
signal TERM $!
ends_with $! 75 60 'predict --stream that is interrupted'
echo "70 images, by the server and alone, in four forms; accuracy $(cat "$tmp/accuracy")"
