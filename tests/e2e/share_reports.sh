#!/usr/bin/env bash
# Members with share.report tell the server the figures of each evaluation. `splits reports` prints the last ones of each
# member, as its own log has them, and those of all: what one evaluation of all samples gives. A member without the key
# tells nothing. One with few samples is told that they are too few, and trains on. Without the store there are none.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 48 64
start_server host limits.report_samples=24
write_config "$tmp/client.yaml"
sed -i "s/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/test_limit: [0-9]*/test_limit: 0/; s|$tmp/data|$tmp/site-%m|" "$tmp/client.yaml"
for k in 0 1 2 3; do cp -r "$tmp/data" "$tmp/site-$k"; done
tests=(24 40 64 16)
for k in 0 1 2 3; do truncate -s $((tests[k] * 3073)) "$tmp/site-$k/test_batch.bin"; done
for k in 0 1 2 3; do
	report=true
	[ $k != 2 ] || report=false
	start_client "member-$k" "$tmp/client.yaml" --set server="$endpoint" --set share.group=clinics --set share.clients=4 --set share.member=$k \
		--set train.epochs=2 --set share.report=$report --set train.metrics=f1
	pid[$k]=$client_pid
done
for k in 0 1 2 3; do ends_with "${pid[k]}" 0 $patience "member $k"; done
: >"$tmp/splits.yaml"
reports() { "$SPLITS" reports "$tmp/splits.yaml" "$@" --set store="$tmp/store"; }
reports clinics >"$tmp/table" || fail 'splits reports'
cat "$tmp/table"
reports clinics --json >"$tmp/json" || fail 'splits reports --json'
[ "$(jq -c '[.members[] | [.member, .step != null]]' "$tmp/json")" = '[[0,true],[1,true],[2,false],[3,false]]' ] || fail "not all members, or reports of others than 0 and 1: $(cat "$tmp/json")"
grep -qE '^2 +- +- +- +- +no report$' "$tmp/table" && grep -qE '^3 +- +- +- +- +no report$' "$tmp/table" || fail 'the table leaves out members without a report'
! grep -q 'earlier run' "$tmp/table" && jq -e '.earlier_runs == 0' "$tmp/json" >/dev/null || fail 'an earlier run, of which there is none'
[ "$(wc -l <"$tmp/store/clinics.reports.jsonl")" = 4 ] || fail 'not a report after each evaluation'
for k in 0 1; do
	jq -ce --slurpfile log "$tmp/member-$k/log.jsonl" --argjson k $k '($log | map(select(.type == "epoch")) | last) as $e | .members[$k] |
		.loss == $e.test_loss and (.correct / .samples - $e.test_acc | fabs) < 1e-9 and .step == 12 and .scores.f1 == $e.test_metrics.f1 and .scores.f1 != null' "$tmp/json" >/dev/null ||
		fail "member $k: $(jq -c ".members[$k]" "$tmp/json"), and its log: $(grep '"epoch"' "$tmp/member-$k/log.jsonl" | tail -n 1)"
done
jq -e '.all.samples == 64 and .all.correct == .members[0].correct + .members[1].correct and
	(.all.loss - (24 * .members[0].loss + 40 * .members[1].loss) / 64 | fabs) < 1e-9' "$tmp/json" >/dev/null || fail "all: $(jq -c .all "$tmp/json")"
grep -qE '^0 +12 +24 +[0-9.]+ +[0-9.]+ % .*f1 [0-9.]+' "$tmp/table" && grep -qE '^all +- +64 +[0-9.]+ +[0-9.]+ %' "$tmp/table" || fail 'the table'
for key in $(jq -r '., .members[0], .all | keys[]' "$tmp/json" | sort -u); do
	sed -n '/^## splits reports --json/,/^## audit/p' docs/OUTPUT.md | grep -q "\`$key\`" || fail "docs/OUTPUT.md does not name $key"
done
grep -q "^WARN report-refused: .*an evaluation of 16 samples, and limits.report_samples is 24" "$tmp/member-3.log" || fail 'member 3 does not hear that its samples are too few'
! grep -q report-refused "$tmp"/member-[012].log || fail 'a report was refused'
[ "$(stat -c %a "$tmp/store/clinics.reports.jsonl")" = 600 ] || fail 'others can read the reports'
# Another run of this name, in which fewer members report: those of the run before are not mixed in, also behind a restart
# of the server in the middle of it.
again() { # K [argument]…
	start_slow_client 1 20 "member-$1" "$tmp/client.yaml" --set server="$endpoint" --set share.group=clinics --set share.clients=4 --set share.member="$1" \
		--set train.epochs=3 --set train.checkpoint_every=3 --set link.retry_ms=50 --set share.report="$([ "$1" = 1 ] && echo true || echo false)" "${@:2}"
	pid[$1]=$client_pid
}
for k in 0 1 2 3; do again $k --fresh; done
wait_for 'no report of the second run' eval '[ "$(wc -l <"$tmp/store/clinics.reports.jsonl")" = 5 ]'
wait_for 'the second run has no checkpoint of step 9' has_steps member-1 10
end_process "$server_pid"
start_server host-again listen="$endpoint" limits.report_samples=24
for k in 0 1 2 3; do ends_with "${pid[k]}" 0 $patience "member $k, second run"; done
reports clinics >"$tmp/table" && reports clinics --json >"$tmp/json" || fail 'splits reports of the second run'
cat "$tmp/table"
[ "$(jq -c '[.members[].step]' "$tmp/json")" = '[null,18,null,null]' ] && jq -e '.earlier_runs == 1 and .all.samples == 40' "$tmp/json" >/dev/null ||
	fail "the runs are mixed: $(cat "$tmp/json")"
grep -q '^this is the newest run; the file has 1 earlier run of this group$' "$tmp/table" || fail 'the table does not name the earlier run'
rc=0
reports others >"$tmp/none.log" 2>&1 || rc=$?
[ $rc = 66 ] || fail "a group without reports: status $rc"
rc=0
"$SPLITS" reports "$tmp/splits.yaml" clinics >"$tmp/none.log" 2>&1 || rc=$?
[ $rc = 78 ] && grep -q 'store: ' "$tmp/none.log" || fail "no store: status $rc"
rc=0
reports ../clinics >"$tmp/none.log" 2>&1 || rc=$?
[ $rc = 64 ] || fail "no name of a group: status $rc"
echo "share_reports: ok"
