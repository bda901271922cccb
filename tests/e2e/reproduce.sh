#!/usr/bin/env bash
# scripts/reproduce.sh with tables of tiny rows: client, server and the script itself are killed, and the row still
# reaches the figures of an undisturbed run. Also: a row that starts from another row's model; a group; the page, the
# list, and invalid rows.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 480 24
write_config "$tmp/client.yaml"
cat >"$tmp/rows" <<YAML
# tiny
table tiny $tmp/client.yaml train.epochs=2 train.checkpoint_every=4
none 11.5 codec=none
frozen - model.weights=@tiny/none train.freeze=features.*
table groups $tmp/client.yaml train.optimizer.nesterov=false
two - share.group=two share.clients=2 share.ends=step data.partition=batch train.batch=8 train.chunks=1 codec.end_grad=topk:0.1
table curve $tmp/client.yaml seeds=1,20 train.epochs=1 train.max_steps=12 train.schedule.warmup_epochs=0
all - codec=none
less - codec=quant:8
table bad $tmp/client.yaml
codec - codec=quant:99
orphan - model.weights=@tiny/nobody
YAML
mkdir "$tmp/slow"
ln -s "$PWD/$BUILD/fail/splitc" "$PWD/$BUILD/splits" "$tmp/slow"
reproduce() { DATA=$tmp/data OUT=$tmp/out RESULTS=$tmp/page ROWS=$tmp/rows THREADS=1 DEVICE=cpu BUILD=${from:-$BUILD} scripts/reproduce.sh "$@"; }
start_reproduce() {
	DATA=$tmp/data OUT=$tmp/out RESULTS=$tmp/page ROWS=$tmp/rows THREADS=1 DEVICE=cpu BUILD=$tmp/slow \
		SPLIT_FAILPOINTS=client.apply=hold@10+ SPLIT_FAILPOINTS_GO=$tmp/go scripts/reproduce.sh "$@" >"$tmp/script.log" 2>&1 &
	script=$!
	started+=("$script")
}
row=$tmp/out/tiny/none
step() { grep -c '"type":"step"' "$row/run/log.jsonl"; }
beyond() { [ "$(step)" -gt "$1" ]; }
goes_beyond() { : >"$tmp/go" && beyond "$1"; } # a step more, where the client holds
daemon() { pgrep -P "$script" -x "$1"; } # splitc or splits, a child of the script
no_daemons() { ! pgrep -f "$row/store" >/dev/null && ! pgrep -f "log.dir=$row/run" >/dev/null && flock -n "$row/lock" true; }
cell() { jq -r "select(.row == \"$1\") | $2" "$tmp/page.jsonl"; } # ROW FILTER

start_reproduce tiny/none
wait_for 'the client does not stand in its tenth step' grep -q ' failpoint: client.apply, ' "$row/client-0.log"
wait_for 'no checkpoint' compgen -G "$row/run/checkpoint-*" >"$tmp/files" # at step 4 or 8: nine steps from there are further than now
n=$(step)
signal KILL "$(daemon splitc)"
wait_for 'the killed client does not go on' beyond "$n"
n=$(step)
signal KILL "$(daemon splits)"
wait_for 'no step with the new server' goes_beyond $((n + 8))
end_process "$script"
wait_for 'daemons of a killed script live' no_daemons
n=$(step)
[ "$n" -lt 60 ] || fail "the run was over before the script was killed"

# between the kills: the list, and the page with an unfinished row
reproduce --list tiny >"$tmp/list"
grep -qE "^tiny/none +11.5 step $n of 60 " "$tmp/list" || fail "the list: $(cat "$tmp/list")"
grep -qE '^tiny/frozen +- not begun ' "$tmp/list" || fail "the list: $(cat "$tmp/list")"
reproduce --write
[ "$(cell tiny/none .outcome)" = unfinished ] && [ "$(cell tiny/none .steps)" = "$n" ] || fail "a row that is not done: $(cat "$tmp/page.jsonl")"

reproduce tiny/none groups >"$tmp/script.log" 2>&1 || fail "the rows were not done: $?"
client undisturbed "$tmp/client.yaml" --local --set train.epochs=2 --set train.checkpoint_every=4 || fail "the undisturbed run: $?"
for key in test_acc test_loss; do
	want=$(jq "select(.type == \"summary\") | .$key" "$tmp/undisturbed/log.jsonl")
	[ "$(jq "select(.type == \"summary\") | .$key" "$row/run/log.jsonl")" = "$want" ] || fail "$key is not that of the undisturbed run"
done
acc=$(jq 'select(.type == "summary") | .test_acc' "$tmp/undisturbed/log.jsonl")
[ "$(cell tiny/none '[.outcome, .steps, .starts, .test_acc, (.curve | length)] | join(" ")')" = "finished 60 4 $acc 2" ] ||
	fail "the row's figures: $(cell tiny/none .)"
[ "$(cell groups/two '[.outcome, .steps, .starts] | join(" ")')" = 'finished 30 1' ] || fail "the group's figures: $(cell groups/two .)"
[ "$(cat "$tmp/out/groups/two/steps")" = 30 ] || fail "--check-config counted $(cat "$tmp/out/groups/two/steps") steps of a group"
[ "$(cell tiny/none '.cpu_s > 0 and .cpu_s < 100 and .wall_s > 0')" = true ] || fail 'no cost of the row'
percent=$(awk "BEGIN {printf \"%g\", int(10000 * $acc + 0.5) / 100}")
grep -qF "| none | 11.5 | $percent | " "$tmp/page.md" || fail "the page: $(cat "$tmp/page.md")"
if command -v gnuplot >/dev/null; then
	grep -q 'page-tiny.svg' "$tmp/page.md" || fail 'the page has no picture'
	grep -q 'none (published 11.5)' "$tmp/page-tiny.svg" || fail 'the picture does not name the published figure'
fi

# A finished row is not trained again, even if its folder is gone: the page keeps its line.
reproduce tiny/none >"$tmp/script.log" 2>&1
grep -q '^tiny/none is done$' "$tmp/script.log" || fail 'a row that is done'
reproduce tiny/frozen >"$tmp/script.log" 2>&1 || fail "a row with another's model: $(cat "$tmp/script.log")"
before=$(cell tiny/none .)
rm -r "$row"
reproduce --write
[ "$(cell tiny/none .)" = "$before" ] || fail 'a line of the page was lost with its folder'
reproduce --list tiny >"$tmp/list" # a row that is not here takes as long as the page says
grep -qE '^tiny/none +11.5 not begun +0.00 +0.00 +0\.[0-9]+$' "$tmp/list" || fail "the list: $(cat "$tmp/list")"

# a table with seeds: each point is the mean of its runs
reproduce curve >"$tmp/script.log" 2>&1 || fail "a table with seeds: $(cat "$tmp/script.log")"
[ "$(cell curve/less.20 '.set | join(" ") | test("train.seed=20 ")')" = true ] || fail "a row without its seed: $(cell curve/less.20 .set)"
mean=$(jq -rs 'map(select(.row | startswith("curve/less.")).test_acc * 100) | (add / 2 * 100 | round / 100 | tostring) + " ± " + ((.[0] - .[1]) / (2 | sqrt) | fabs * 100 | round / 100 | tostring)' "$tmp/page.jsonl")
grep -qE "^\| less \| [0-9.]+ \| [1-4]\.[0-9] \| $mean \| 2 \|\$" "$tmp/page.md" || fail "the point of two seeds, $mean: $(grep less "$tmp/page.md")"
! command -v gnuplot >/dev/null || grep -q '>less<' "$tmp/page-curve.svg" || fail 'the picture of the points'

# invalid rows
refused() { # WORDS ROW
	! reproduce "$2" >"$tmp/script.log" 2>&1 || fail "$2 was not refused"
	grep -qF -- "$1" "$tmp/script.log" || fail "$2: no word on '$1': $(cat "$tmp/script.log")"
}
refused "no row or table 'tiny/nobody'" tiny/nobody
refused 'bad/codec: splitc: --set codec.head_act' bad/codec
refused 'tiny/nobody/run/model.safetensors' bad/orphan
