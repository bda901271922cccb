#!/usr/bin/env bash
# `splitc sweep`: a line of CSV per row, with a failing row between successful ones; rates and bytes that agree with
# each other; pictures if gnuplot is installed. `splitc eval --parity` says what each of its two evaluations says alone.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 48 32
start_server server
write_config "$tmp/client.yaml"
cat >"$tmp/list.yaml" <<'YAML'
- {name: none}
- {name: quant 8, codec: quant:8}
- {name: quant 8, codec: quant:8, chunks: 2}
- {name: no such, codec: quant:99}
- {name: insert, insert: {head: "linear:2", tail: "conv:160"}, codec: {head_act: f16}}
- {name: decays, insert: {head: "none", tail: "conv:80+decaylinear:rate=0.5,every=1,times=2"}}
YAML

cat >"$tmp/none.yaml" <<'YAML'
- {name: none, insert: none}
- {name: no head, insert: {head: none}}
- {name: as it is}
YAML

# sweep DIR STATUS [argument]…
sweep() {
	local dir=$1 want=$2 rc=0
	shift 2
	timeout -k 5 $patience "$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/list.yaml" --out "$tmp/$dir" \
		--set control="$tmp/sweep.sock" "$@" >"$tmp/$dir.log" 2>&1 || rc=$?
	[ $rc = "$want" ] || fail "sweep $dir: exit status $rc, not $want"
}

# cell DIR LINE COLUMN: prints a cell; cells that have a comma are replaced first.
cell() {
	awk -F, -v line="$2" -v name="$3" '{gsub(/"[^"]*"/, "quoted")} NR == 1 {for (i = 1; i <= NF; i++) if ($i == name) at = i} NR == line {print $at}' "$tmp/$1/sweep.csv"
}
# holds EXPRESSION WHAT
holds() { awk "BEGIN {exit !($1)}" || fail "$2: not $1"; }

sweep local 69 --local
sweep remote 69 --set server="$endpoint"
for run in local remote; do
	[ "$(wc -l <"$tmp/$run/sweep.csv")" = 7 ] || fail "$run: $(wc -l <"$tmp/$run/sweep.csv") lines"
	for line in 2 3 4 6 7; do
		[ "$(cell $run $line outcome)" = done ] || fail "$run: row $((line - 1)) is not done"
		holds "$(cell $run $line test_acc) >= 0 && $(cell $run $line steps) == 3" "$run: row $((line - 1))"
	done
	grep -q '^no such,.*quant:99.*,,,$' "$tmp/$run/sweep.csv" || fail "$run: the row that fails does not say why"
	holds "$(cell $run 2 rate_nominal) == 1 && $(cell $run 2 rate_real) >= 1 && $(cell $run 2 rate_real) < 1.02" "$run: rate of none"
	holds "$(cell $run 3 rate_nominal) == 0.25 && $(cell $run 3 rate_real) > 0.25 && $(cell $run 3 rate_real) < 0.27" "$run: rate of quant:8"
	# 2·16² and 160 of 8·16² and 1280 elements; 48 images trained, 32 evaluated; f16 halves one of the four tensors: 65536 / 425984
	holds "$(cell $run 6 rate_nominal) > 0.15384 && $(cell $run 6 rate_nominal) < 0.15385" "$run: rate of the insert"
	# 3 steps at 80, 40 and 20 features and an evaluation of 2 batches at 20, of 1280; 8·16² of the head as they are
	holds "$(cell $run 7 rate_nominal) > 0.6273 && $(cell $run 7 rate_nominal) < 0.6275" "$run: rate of what decays"
	[ "$(cell $run 4 chunks)" = 2 ] && [ "$(cell $run 3 chunks)" = 4 ] || fail "$run: chunks"
	[ -s "$tmp/$run/rate_accuracy.gp" ] && [ -s "$tmp/$run/time_per_batch.gp" ] || fail "$run: a script is missing"
	if command -v gnuplot >/dev/null; then
		file -b "$tmp/$run/time_per_batch.png" 2>/dev/null | grep -q PNG || [ -s "$tmp/$run/time_per_batch.png" ] ||
			fail "$run: no picture"
	fi
done
# If no row is done, nothing is drawn.
echo '- {name: no such, codec: quant:99}' >"$tmp/none.list"
! "$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/none.list" --out "$tmp/drawn" --local >"$tmp/drawn.log" 2>&1 || fail 'a sweep without a row'
[ "$(tail -n 1 "$tmp/drawn.log")" = "sweep.csv is in $tmp/drawn" ] || fail "pictures of nothing: $(tail -n 1 "$tmp/drawn.log")"
# Rows that switch off inserts of the config equal rows of a config without inserts.
timeout -k 5 $patience "$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/none.yaml" --out "$tmp/off" --local \
	--set insert.head=linear:2 --set insert.tail=conv:160 >"$tmp/off.log" 2>&1 || fail "a sweep over inserts: $?"
cp "$tmp/off/sweep.csv" "$tmp/kept.csv"
rc=0
"$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/none.yaml" --out "$tmp/off" --local >"$tmp/again.log" 2>&1 || rc=$?
[ $rc = 73 ] && grep -q 'off holds a sweep already: give --force' "$tmp/again.log" && cmp -s "$tmp/kept.csv" "$tmp/off/sweep.csv" ||
	fail "a second sweep in the same folder: exit status $rc"
rc=0
"$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/none.list" --out "$tmp/drawn" --local --force >"$tmp/drawn.log" 2>&1 || rc=$?
[ $rc = 69 ] || fail "--force: exit status $rc"
pictures='pictures and their scripts'
command -v gnuplot >/dev/null || pictures='scripts for pictures'
[ "$(tail -n 1 "$tmp/off.log")" = "sweep.csv, $pictures are in $tmp/off" ] || fail "where the table is"
sed -i '$d' "$tmp/off.log" # the folder is as long as it is
fits "$tmp/off.log"
# All rows have the same number of chunks: no plot with a range of one point, of which gnuplot would warn; each row
# names its log.
! grep -v 'row-warned' "$tmp/off.log" | grep -i 'warning' || fail 'gnuplot warns'
[ "$(grep -c '^INFO row: [123] of 3, .*; its messages are in row-0[123]/stderr.log$' "$tmp/off.log")" = 3 ] || fail "rows: $(cat "$tmp/off.log")"
[ "$(cell off 2 rate_nominal)" = 1 ] && [ "$(cell off 2 test_loss)" = "$(cell local 2 test_loss)" ] || fail 'insert: none leaves an insert'
holds "$(cell off 3 rate_nominal) < 1 && $(cell off 3 rate_nominal) > 0.6" 'insert: {tail: none} leaves the head alone'
holds "$(cell off 4 rate_nominal) < 0.21" "an empty row has the config's"
# Rows with other optimizers learn what a run with these keys learns.
sed 's/optimizer: {.*}/optimizer: {lr: 0.05}/' "$tmp/client.yaml" >"$tmp/any.yaml"
adamw=(train.optimizer.kind=adamw train.optimizer.lr=0.002 train.optimizer.beta2=0.99)
cat >"$tmp/optimizers.yaml" <<YAML
- {name: sgd, set: [train.optimizer.momentum=0.9]}
- {name: adamw, set: [$(IFS=,; echo "${adamw[*]}")], chunks: 2, codec: quant:8}
- {name: two chunks, set: [train.chunks=2, codec=f16]}
YAML
timeout -k 5 $patience "$SPLITC" sweep "$tmp/any.yaml" --codecs "$tmp/optimizers.yaml" --out "$tmp/optimizers" --local \
	>"$tmp/optimizers.log" 2>&1 || fail "a sweep over optimizers: $?"
client adamw "$tmp/any.yaml" --local "${adamw[@]/#/--set=}" --set train.chunks=2 --set codec=quant:8 --json || fail "adamw: $?"
holds "$(cell optimizers 3 test_loss) - $(tail -n 1 "$tmp/adamw.log" | jq .test_loss) < 1e-6 &&
	$(tail -n 1 "$tmp/adamw.log" | jq .test_loss) - $(cell optimizers 3 test_loss) < 1e-6" 'a row learns what the same run learns'
[ "$(cell optimizers 2 test_loss)" != "$(cell optimizers 3 test_loss)" ] || fail 'the optimizer made no difference'
[ "$(cell optimizers 3 set)" = "${adamw[*]}" ] && [ -z "$(cell local 2 set)" ] || fail "set: $(cell optimizers 3 set)"
[ "$(cell optimizers 4 chunks)" = 2 ] && [ "$(cell optimizers 4 codec_mid_act)" = f16 ] || fail 'chunks and codec by set'
# A row with phases, which go on from checkpoints
echo '- {name: phases, set: ["train.phases=[epochs=1 batch=8, epochs=1]"]}' >"$tmp/phases.yaml"
timeout -k 5 $patience "$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/phases.yaml" --out "$tmp/phases" --local >"$tmp/phases.log" 2>&1 || fail "a sweep with phases: $?"
[ "$(cell phases 2 outcome)" = done ] && [ "$(cell phases 2 steps)" = 9 ] || fail "phases: $(tail -n 1 "$tmp/phases/sweep.csv")"
# The same runs, wherever the middle is computed
for line in 2 3 4 6 7; do
	[ "$(cell local $line test_loss)" = "$(cell remote $line test_loss)" ] || fail "row $((line - 1)) learned differently"
done
holds "$(cell remote 3 peak_client_mb_s) > 0 && $(cell remote 3 avg_mb_s) > 0" 'bandwidths'
[ -z "$(cell local 3 peak_client_mb_s)" ] || fail 'a local run has no link'
[ ! -e "$tmp/local/peak_bandwidth.gp" ] || fail 'a picture of nothing'

for bad in 'name: x' '- {codec: none}' '- {name: x, codecs: none}' '- {name: "a,b"}' '- x' '- {name: x, chunks: -1}' '[]'; do
	echo "$bad" >"$tmp/bad.yaml"
	rc=0
	"$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/bad.yaml" --out "$tmp/never" 2>"$tmp/bad.log" || rc=$?
	[ $rc = 78 ] && grep -q "bad.yaml:1:" "$tmp/bad.log" || fail "list '$bad': exit status $rc, $(cat "$tmp/bad.log")"
done
for bad in 'train.optimzer.lr=1:train.optimzer.lr: unknown key' 'train.optimizer.beta1=0.9:train.optimizer.beta1' 'lr:must be KEY=VALUE'; do
	printf -- '- {name: good}\n- {name: x, set: [%s]}\n' "${bad%%:*}" >"$tmp/bad.yaml"
	rc=0
	"$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/bad.yaml" --out "$tmp/never" 2>"$tmp/bad.log" || rc=$?
	[ $rc = 78 ] && grep -q 'bad.yaml' "$tmp/bad.log" && grep -qF "${bad#*:}" "$tmp/bad.log" || fail "a row's set: $bad: exit status $rc, $(cat "$tmp/bad.log")"
done
# A key that the sweep or the row's other keys would overwrite is refused, and so is a second row of the same name and
# chunks: pictures would leave it out.
overwritten() {
	local rc=0
	echo "- {name: x, $1}" >"$tmp/bad.yaml"
	"$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/bad.yaml" --out "$tmp/never" "${@:3}" 2>"$tmp/bad.log" || rc=$?
	[ $rc = 78 ] && grep -qF -- "$2" "$tmp/bad.log" || fail "a row with $1: exit status $rc, $(cat "$tmp/bad.log")"
}
overwritten 'set: [log.dir=x]' 'row "x": log.dir is also set by the sweep or by another key of the row'
overwritten 'set: [train.checkpoint_every=5]' 'train.checkpoint_every is also set' --check-config
overwritten 'set: [train.chunks=2], chunks: 4' 'train.chunks is also set'
overwritten 'set: [codec=f16], codec: {head_grad: bf16}' 'codec is also set'
overwritten 'set: [train.seed=1, threads=1, train.seed=2]' 'train.seed is also set'
overwritten 'set: [data.split.folds=4]' 'data.split.folds belongs to the config or --set'
overwritten 'set: [data.split.fold=1]' 'data.split.fold is also set' --set data.split.folds=3
printf -- '- {name: x}\n- {name: y}\n- {name: x, chunks: 4, codec: f16}\n' >"$tmp/bad.yaml"
rc=0
"$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/bad.yaml" --out "$tmp/never" --check-config 2>"$tmp/bad.log" || rc=$?
[ $rc = 78 ] && grep -q 'rows 1 and 3 are both named "x", with chunks 4' "$tmp/bad.log" || fail "two rows of one name: exit status $rc, $(cat "$tmp/bad.log")"
[ ! -e "$tmp/never" ] || fail 'a sweep began with a list that is wrong'
# --check-config also reads the rows, and finds the invalid one.
check() { "$SPLITC" sweep "$tmp/client.yaml" --codecs "$1" --check-config >"$tmp/check.log" 2>&1; }
check "$tmp/optimizers.yaml" && grep -q "optimizers.yaml: ok, 3 rows$" "$tmp/check.log" || fail "a list that is right: $(cat "$tmp/check.log")"
rc=0
check "$tmp/list.yaml" || rc=$?
[ $rc = 78 ] && grep -q 'list.yaml, row "no such": .*quant:b with' "$tmp/check.log" || fail "a row that cannot be: status $rc, $(cat "$tmp/check.log")"

client trained "$tmp/client.yaml" --local || fail 'no weights to evaluate'
jq -se 'map(select(.type == "step")) | all(.t_compute_s <= .t_step_s)' "$tmp/trained/log.jsonl" >"$tmp/out" || fail 'a step takes longer than what is computed in it'
for where in --local "--set server=$endpoint"; do
	evaluate=("$SPLITC" eval "$tmp/client.yaml" $where --set log.dir="$tmp/trained" --set control="$tmp/eval.sock" --json)
	"${evaluate[@]}" --parity --set codec=quant:2 >"$tmp/parity.json" 2>"$tmp/parity.log" || fail "parity $where"
	"${evaluate[@]/#--json/--parity}" --set codec='topk:0.2,ef=true|quant:8' >"$tmp/parity.txt" 2>"$tmp/parity.log" || fail "parity as a table $where"
	fits "$tmp/parity.txt"
	"${evaluate[@]/#--json/--parity}" --set codec.head_act='topk:0.125|quant:8|zstd' --set codec.mid_act=quant:8 >"$tmp/parity.txt" 2>"$tmp/parity.log" || fail "parity of a long codec $where"
	! grep -F '|zstdquant' "$tmp/parity.txt" || fail "parity: $(cat "$tmp/parity.txt")"
	rc=0
	"${evaluate[@]}" --parity --weights nowhere >"$tmp/parity.txt" 2>"$tmp/parity.log" || rc=$?
	[ $rc = 66 ] && [ "$(wc -l <"$tmp/parity.log")" = 1 ] || fail "parity without weights: status $rc, $(cat "$tmp/parity.log")"
	with=$(sed -n 's/.*"with":{"test_acc":\([^,]*\),"test_loss":\([^}]*\)}.*/\1 \2/p' "$tmp/parity.json")
	without=$(sed -n 's/.*"without":{"test_acc":\([^,]*\),"test_loss":\([^}]*\)}.*/\1 \2/p' "$tmp/parity.json")
	for codec in quant:2 none; do
		"${evaluate[@]}" --set codec=$codec >"$tmp/$codec.json" 2>"$tmp/eval.log" || fail "eval $codec $where"
	done
	alone() { sed -n 's/.*"test_loss":\([^,]*\),"test_acc":\([^,]*\),.*/\2 \1/p' "$tmp/$1.json"; }
	[ "$with" = "$(alone quant:2)" ] || fail "parity with the codec: $with, alone $(alone quant:2)"
	[ "$without" = "$(alone none)" ] || fail "parity without: $without, alone $(alone none)"
	[ "$with" != "$without" ] || fail 'two bits made no difference'
done

# SIGTERM to the sweep alone reaches its current row, and no further row begins.
"$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/none.yaml" --out "$tmp/stopped" --local --set train.epochs=99999 >"$tmp/stopped.log" 2>&1 &
sweep=$!
started+=("$sweep")
wait_for 'no row begins' grep -qs '"step":' "$tmp/stopped/row-01/log.jsonl"
signal TERM "$sweep"
ends_with "$sweep" 75 $patience 'a sweep that was told to end'
grep -q '"outcome":"interrupted"' "$tmp/stopped/row-01/log.jsonl" && [ ! -e "$tmp/stopped/row-02" ] || fail "the sweep went on: $(tail -n 3 "$tmp/stopped.log")"

# Weights with NaN: an undefined loss is not printed as 0, and NaN is not class 0.
model=$tmp/trained/model.safetensors
head_bytes=$(od -An -tu8 -N 8 "$model" | tr -d ' ')
at=$(tail -c +9 "$model" | head -c "$head_bytes" | jq '."classifier.1.bias".data_offsets[0]')
printf '\0\0\300\177' | dd of="$model" bs=1 seek=$((8 + head_bytes + at)) conv=notrunc status=none
evaluate=("$SPLITC" eval "$tmp/client.yaml" --local --set log.dir="$tmp/trained" --set control="$tmp/eval.sock" --parity)
"${evaluate[@]}" --json >"$tmp/parity.json" 2>"$tmp/parity.log" || fail "parity with NaN: status $?"
jq -e '.with.test_loss == null and .without.test_loss == null and .with.test_acc == null and .without.test_acc == null' "$tmp/parity.json" >/dev/null || fail "a loss that is NaN: $(cat "$tmp/parity.json")"
"${evaluate[@]}" >"$tmp/parity.txt" 2>"$tmp/parity.log" || fail "parity with NaN as a table: status $?"
[ "$(awk '$NF != "undefined" && NR > 1' "$tmp/parity.txt" | wc -l)" = 0 ] || fail "a loss that is NaN: $(cat "$tmp/parity.txt")"
