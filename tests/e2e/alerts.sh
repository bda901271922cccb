#!/usr/bin/env bash
# deploy/prometheus/alerts.yaml: promtool accepts it, the daemons have every metric in it, each alert fires when it
# must, and none fires for a run that goes well, is done, or ended. Needs promtool (Debian's package prometheus).
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
command -v promtool >/dev/null || { echo 'no promtool (Debian: apt-get install prometheus): the alert rules are not checked'; exit 77; }
rules=$PWD/deploy/prometheus/alerts.yaml
promtool check rules "$rules" >"$tmp/check.log" 2>&1 || { cat "$tmp/check.log"; fail "promtool does not take the rules"; }
grep -oE '\bsplit_[a-z_]+' "$rules" | sort -u >"$tmp/used"
grep -oE '`split_[a-z_]+`' docs/OUTPUT.md | tr -d '`' | sort -u >"$tmp/there" # output.sh compares it with what is written
[ -z "$(comm -23 "$tmp/used" "$tmp/there")" ] || fail "no daemon has $(comm -23 "$tmp/used" "$tmp/there" | xargs)"
sed -n 's/.*- alert: //p' "$rules" | sort >"$tmp/alerts"
[ "$(wc -l <"$tmp/alerts")" -ge 8 ] || fail "$(wc -l <"$tmp/alerts") alerts"

# series NAME{LABELS} VALUES
series() { printf '      - {series: %s, values: "%s"}\n' "'$1'" "$2" >>"$tmp/test.yaml"; }
# expects MINUTE ALERT INSTANCE…: the alert fires for these instances and no others.
expects() {
	local minute=$1 alert=$2 instance severity
	severity=$(grep -A12 "alert: $alert$" "$rules" | sed -n 's/.*severity: \([a-z]*\).*/\1/p' | head -n 1)
	echo "      - {expr: 'sum by (alertname, instance, severity) (ALERTS{alertname=\"$alert\", alertstate=\"firing\"})', eval_time: ${minute}m, exp_samples: [" >>"$tmp/test.yaml"
	for instance in "${@:3}"; do # '': it fires, and names none
		echo "          {labels: '{alertname=\"$alert\",${instance:+ instance=\"$instance\",} severity=\"$severity\"}', value: 1}," >>"$tmp/test.yaml"
	done
	echo '        ]}' >>"$tmp/test.yaml"
}
# calm INSTANCE: series of a daemon without faults; the instances that test a rule have other values.
calm() {
	series "up{job=\"splits\", instance=\"$1\"}" '1x90'
	series "split_session_idle_seconds{job=\"splits\", instance=\"$1\", peer=\"edge\", session=\"a\"}" '1x90'
	series "split_task_seconds{job=\"splits\", instance=\"$1\"}" '0.1x90'
	series "split_peers_turned_away_total{job=\"splits\", instance=\"$1\"}" '0x40 1x50'
	series "split_messages_malformed_total{job=\"splits\", instance=\"$1\"}" '3x90'
	series "split_frames_rejected_total{job=\"splits\", instance=\"$1\"}" '0x40 1x50'
	series "split_links_lost_total{job=\"splits\", instance=\"$1\"}" '0x40 1x20 2x30'
	series "split_disk_free_bytes{job=\"splits\", instance=\"$1\"}" '50x90'
	series "split_disk_bytes{job=\"splits\", instance=\"$1\"}" '100x90'
	series "split_session_checkpoint_missed_step{job=\"splits\", instance=\"$1\", peer=\"edge\", session=\"a\"}" '0x90'
	series "split_start_time_seconds{job=\"splits\", instance=\"$1\"}" '1000x40 2000x50'
	series "split_ready{job=\"splits\", instance=\"$1\"}" '1x90'
	series "split_sessions{job=\"splits\", instance=\"$1\"}" '3x90'
	series "split_sessions_limit{job=\"splits\", instance=\"$1\"}" '8x90'
}
begin() { printf 'rule_files: [%s]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n' "$rules" >"$tmp/test.yaml"; }
run() { promtool test rules "$tmp/test.yaml" >"$tmp/test.log" 2>&1; }

begin
calm well
# A client without a link or a log does not report disk or sessions, and nothing expects it to run for ever.
series 'up{job="splitc", instance="edge:9570"}' '1x40 0x50'
series 'split_session_idle_seconds{job="splitc", instance="edge:9570", peer="host"}' '2x40'
series 'split_disk_free_bytes{job="splitc", instance="edge:9570"}' '0x40'
series 'split_disk_bytes{job="splitc", instance="edge:9570"}' '0x40'
series 'split_start_time_seconds{job="splitc", instance="edge:9570"}' '1x9 2x9 3x9 4x9 5x9 6x9'
series 'split_ready{job="splitc", instance="edge:9570"}' '0x40'
series 'split_sessions{job="splitc", instance="edge:9570"}' '1x40'
series 'split_sessions_limit{job="splitc", instance="edge:9570"}' '0x40'
# one fault per instance
series 'up{job="splits", instance="down"}' '1x40 0x50'
series 'split_session_idle_seconds{job="splitc", instance="idle", peer="host", session="b"}' '0x40 0+60x50'
series 'split_task_seconds{job="splits", instance="hangs"}' '0x40 0+60x50'
series 'split_peers_turned_away_total{job="splits", instance="refused"}' '0x40 0+3x50'
series 'split_messages_malformed_total{job="splits", instance="garbage"}' '0x40 0+2x50'
series 'split_frames_rejected_total{job="splits", instance="garbage"}' '0x90'
series 'split_links_lost_total{job="splits", instance="lossy"}' '0x40 0+1x50'
series 'split_disk_free_bytes{job="splits", instance="full"}' '50x40 9x50'
series 'split_disk_bytes{job="splits", instance="full"}' '100x90'
series 'split_session_checkpoint_missed_step{job="splits", instance="missed", peer="edge", session="a"}' '0x40 40x50'
series 'split_start_time_seconds{job="splits", instance="restarts"}' '1000x40 2000x5 3000x5 4000x40'
series 'split_ready{job="splits", instance="crowded"}' '1x40 0x50'
series 'split_sessions{job="splits", instance="crowded"}' '7x40 8x50'
series 'split_sessions_limit{job="splits", instance="crowded"}' '8x90'
echo '    promql_expr_test:' >>"$tmp/test.yaml"
while read -r alert; do expects 39 "$alert"; done <"$tmp/alerts" # all is well until then
grep -v SplitServerFull "$tmp/alerts" | while read -r alert; do
	case $alert in
	SplitServerDown) on=down ;; SplitNoStep) on=idle ;; SplitTaskHangs) on=hangs ;; SplitPeersRefused) on=refused ;;
	SplitMalformedMessages) on=garbage ;; SplitLinksLost) on=lossy ;; SplitDiskNearlyFull) on=full ;;
	SplitCheckpointMissed) on=missed ;; SplitRestarts) on=restarts ;; *) fail "nothing sets off $alert" ;;
	esac
	expects 60 "$alert" "$on"
done
expects 60 SplitServerFull
expects 80 SplitServerFull crowded
run || { cat "$tmp/test.log"; fail 'promtool test rules'; }
cp "$tmp/test.yaml" "$tmp/faults.yaml"

# The only server is down, and its DNS name disappears with it.
begin
series 'up{job="splits", instance="server"}' '1x40 stale'
series 'up{job="splitc", instance="client"}' '1x90'
echo '    promql_expr_test:' >>"$tmp/test.yaml"
expects 39 SplitServerDown
expects 60 SplitServerDown ''
run || { cat "$tmp/test.log"; fail 'a server that has no name any more is not missed'; }

# The test notices a wrong rule.
sed 's/idle_seconds) > 600/idle_seconds) > 60000/' "$rules" >"$tmp/alerts.yaml"
sed "s#^rule_files: .*#rule_files: [$tmp/alerts.yaml]#" "$tmp/faults.yaml" >"$tmp/test.yaml"
! run || fail 'a rule that never fires is not found out'
echo passed
