#!/usr/bin/env bash
# docs/OUTPUT.md names every field of log.jsonl, --json, sweep.csv and the metrics, and no others.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
sed -i 's/optimizer: {.*}/optimizer: {lr: 0.002}/' "$tmp/client.yaml"
mkdir "$tmp/members"
: >"$tmp/lists"

# named PAGE HEADING [TABLE]: the words in `…` below the heading: all, or only those in first cells of the table whose
# header begins with TABLE (-: an empty cell).
named() {
	awk -v heading="## $2" -v table="${3:-}" '
		/^## / { on = $0 == heading; next }
		!on { next }
		/^\|/ { if (!row++) in_table = index($0, table == "-" ? "| | |" : "| " table " |") == 1 }
		!/^\|/ { row = 0; in_table = 0 }
		table != "" && in_table && row > 2 { split($0, cell, "|"); print cell[2] }
		table == "" { print }' "$1" | grep -oE '`[a-z_][a-z0-9_]*`' | tr -d '`' | sort -u
}

# compare WHAT HEADING TABLE <members: the page and the input have the same names.
compare() { sort -u >"$tmp/members/$(list same "$@")"; }
# has WHAT HEADING <members: each name occurs somewhere below the heading.
has() { sort -u >"$tmp/members/$(list some "$@" '')"; }
# list HOW WHAT HEADING TABLE: prints the list's number. Pipelines add lists one after another.
list() {
	printf '%s\t%s\t%s\t%s\n' "$@" >>"$tmp/lists"
	wc -l <"$tmp/lists"
}

# judge PAGE: prints the lists that differ from the page.
judge() {
	local n=0 how what heading table
	while IFS=$'\t' read -r how what heading table; do
		n=$((n + 1))
		named "$1" "$heading" "$table" | { [ "$heading" != Metrics ] && cat || grep '^split_'; } >"$tmp/named"
		case $how in
		same) diff "$tmp/named" "$tmp/members/$n" >"$tmp/diff" || { echo "$what: < only in the page, > only in what is written"; cat "$tmp/diff"; } ;;
		some) comm -13 "$tmp/named" "$tmp/members/$n" | sed "s/^/$what: the page lacks /" ;;
		esac
		[ -s "$tmp/members/$n" ] || echo "$what: nothing was written"
	done <"$tmp/lists"
}

start_slow_client 4 200 run "$tmp/client.yaml" --set train.epochs=1000 --set train.checkpoint_every=2 --set train.keep_best=true
wait_for 'no steps' has_steps run 8 # an evaluation is behind step 6, and its weights are kept before step 7
ask "$PWD/$BUILD/fail/splitc" "$tmp/run.sock" "$tmp/client.json"
ask "$SPLITS" "$tmp/host.sock" "$tmp/server.json"
for f in client server; do
	jq -r 'keys[]' "$tmp/$f.json" | compare "status of the $f" 'status --json' -
	jq -r '.sessions[] | keys[]' "$tmp/$f.json" | compare "sessions of the $f" 'status --json' 'of `sessions`'
done
for f in "$SPLITC $tmp/run.sock" "$SPLITS $tmp/host.sock"; do
	wait_for 'no metrics' "${f%% *}" status --control "${f#* }" --prometheus >>"$tmp/metrics"
done
echo '# TYPE split_session_epsilon' >>"$tmp/metrics" # of privacy.…: privacy.sh
sed -nE 's/^(# TYPE )?(split_[a-z_]*).*/\2/p' "$tmp/metrics" | compare metrics Metrics ''
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'client'

client end "$tmp/client.yaml" --set train.clip_norm=1 --json || fail "a run with --json: exit status $?"
tail -n 1 "$tmp/end.log" >"$tmp/summary.json"
# `loss` is that of the last batch, on the progress lines and in the log.
shown=$(sed -n 's|^train 1/1  6/6  loss \([0-9.]*\)  acc \([0-9.]*\)%.*|\1 \2|p' "$tmp/end.log")
logged=$(jq -r 'select(.type == "step" and .step == 6) | "\(.loss) \(.acc * 100)"' "$tmp/end/log.jsonl" | xargs printf '%.4f %.1f')
[ "$shown" = "$logged" ] || fail "loss and accuracy are '$shown' on the progress line, '$logged' in the log"
jq -r 'keys[]' "$tmp/summary.json" | compare 'train --json' 'splitc train --json, eval --json' -
jq -r '.directions[] | keys[]' "$tmp/summary.json" | compare 'directions' 'splitc train --json, eval --json' 'of `directions`'
for type in step epoch summary; do
	jq -r "select(.type == \"$type\") | keys[]" "$tmp/end/log.jsonl" >"$tmp/keys"
	[ $type != step ] || echo skipped >>"$tmp/keys"  # of steps with NaN
	[ $type != epoch ] || echo epsilon >>"$tmp/keys" # of privacy.…: privacy.sh
	compare "log.jsonl, $type" log.jsonl "\`$type\`" <"$tmp/keys"
done
"$SPLITC" report "$tmp/end" --format json | jq -r 'keys[]' | compare 'report --format json' 'A report of a run' '`report --format json`'
for type in start link end; do jq -r "select(.type == \"$type\") | keys[]" "$tmp/end/sessions.jsonl"; done | sort -u | has sessions.jsonl sessions.jsonl
"$SPLITC" eval "$tmp/client.yaml" --local --parity --json --weights "$tmp/end/model.safetensors" 2>"$tmp/eval.log" |
	jq -r 'paths | map(strings)[]' | has 'eval --parity --json' 'splitc train --json, eval --json'
"$SPLITC" flops "$tmp/client.yaml" --json | jq -r 'keys[]' | compare 'flops --json' 'splitc flops --json, graph --json, codecs --json' '`flops`'
"$SPLITC" graph "$tmp/client.yaml" --json | jq -r 'keys[]' | compare 'graph --json' 'splitc flops --json, graph --json, codecs --json' '`graph`'
{
	"$SPLITC" flops "$tmp/client.yaml" --json
	"$SPLITC" graph "$tmp/client.yaml" --json
	"$SPLITC" codecs --json
	"$SPLITC" codecs --measure --shape 8,8 none --json
} | jq -r 'paths | map(strings)[]' | has 'flops and codecs' 'splitc flops --json, graph --json, codecs --json'
# The text of a part is complete, from the first line to the last.
"$SPLITC" graph "$tmp/client.yaml" tail --text >"$tmp/tail"
[ "$(head -n 1 "$tmp/tail")" = 'graph 1' ] && grep -q '^in mid_act f32 ' "$tmp/tail" || fail 'graph tail --text'
"$SPLITC" graph "$tmp/client.yaml" --text | tail -n 1 | grep -q '^out mid_act ' || fail 'graph --text'
if "$SPLITC" graph "$tmp/client.yaml" --text --json 2>"$tmp/both"; then fail 'graph --text --json'; fi
grep -q 'give --json or --text' "$tmp/both" || fail 'graph: which form?'
"$SPLITC" data "$tmp/client.yaml" --json | jq -r 'paths | map(strings)[]' | has data 'splitc data --json'
"$TOOLS/make_text" "$tmp"
{
	printf 'a b c\td\n' | "$SPLITC" tokens "$tmp/vocab.txt" --pair --text --max-length 6 --json
	mkdir "$tmp/CoLA"
	printf 'x\t1\t\ta\n' >"$tmp/CoLA/dev.tsv"
	"$SPLITC" tokens "$tmp/vocab.txt" --task cola --split dev --json "$tmp"
	"$SPLITC" tokens "$tmp/vocab.txt" --stats --json </dev/null
} | jq -r 'paths | map(strings)[]' | has tokens 'splitc tokens --json'
echo '- {name: x}' >"$tmp/list.yaml"
"$SPLITC" sweep "$tmp/client.yaml" --codecs "$tmp/list.yaml" --out "$tmp/sweep" --local --set train.schedule.warmup_epochs=0 >"$tmp/sweep.log" 2>&1 || fail sweep
head -n 1 "$tmp/sweep/sweep.csv" | tr , '\n' | has sweep.csv sweep.csv
judge docs/OUTPUT.md >"$tmp/wrong"
[ ! -s "$tmp/wrong" ] || { cat "$tmp/wrong"; fail 'docs/OUTPUT.md is not what is written'; }

# A page with a missing or a surplus name is detected.
for fault in 's/`t_wait_s`/`t_waited_s`/' 's/`idle_s`, //' 's/`split_heap_bytes`, //' 's/`rejected`, `stale`/`rejected`, `rejects`, `stale`/'; do
	sed "$fault" docs/OUTPUT.md >"$tmp/wrong.md"
	[ -n "$(judge "$tmp/wrong.md")" ] || fail "not found: $fault"
done
echo "$(wc -l <"$tmp/lists") lists of members are as docs/OUTPUT.md says"
