#!/usr/bin/env bash
# /metrics of both daemons during a run equals `status --prometheus`, for curl and, if installed, promtool. Other
# requests, garbage and silent connections; off by default; ports in use and addresses beyond loopback. Then
# deploy/prometheus/alerts.yaml: promtool accepts it, the daemons have every metric in it, each alert fires when it must,
# and none fires for a run that goes well, is done, or ended.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
command -v curl >/dev/null || { echo 'no curl'; exit 77; }
make_data 480 24
start_server host metrics=127.0.0.1:0
write_config "$tmp/client.yaml"
endless=("$tmp/client.yaml" --set link.timeout_ms=60000 --set train.epochs=100000 --set train.optimizer.lr=0.002 --set train.metrics=auc,f1)
steps_or_end() { has_steps run 5 || ! kill -0 "$client_pid"; }
start_client run "${endless[@]}" --set metrics='[::1]:0'
wait_for 'no steps, and no end' steps_or_end
if ! kill -0 "$client_pid" 2>/dev/null; then # a host without IPv6
	start_client run "${endless[@]}" --set metrics=localhost:0
fi
wait_for 'no steps' has_steps run 5
url_of() { sed -n 's/^INFO metrics: on \(http:[^ ]*\)$/\1/p' "$tmp/$1.log"; }
client_url=$(url_of run) server_url=$(url_of host)
[ -n "$client_url" ] && [ -n "$server_url" ] || fail 'no line says where /metrics is'

# names: names and labels without the values, which change
names() { sed 's/^\([^#].*\) [^ ]*$/\1/'; }
# same PROGRAM NAME URL: the page has the names that the command prints.
same() {
	curl -sS -D "$tmp/head" -o "$tmp/page" "$3" || return 1
	"$1" status --control "$tmp/$2.sock" --prometheus >"$tmp/printed" || return 1
	cmp -s <(names <"$tmp/page") <(names <"$tmp/printed") && grep -q '^split_session_step{' "$tmp/page"
}
for program in "$SPLITC run $client_url" "$SPLITS host $server_url"; do
	wait_for "not what the command prints: $program" same $program
	[ "$(tr -d '\r' <"$tmp/head")" = "HTTP/1.1 200 OK
Content-Type: text/plain; version=0.0.4; charset=utf-8
Content-Length: $(wc -c <"$tmp/page")
Connection: close" ] || fail "another head: $(cat "$tmp/head")"
	if command -v promtool >/dev/null; then
		promtool check metrics <"$tmp/page" >"$tmp/promtool" 2>&1 || { cat "$tmp/promtool"; fail 'promtool'; }
	fi
done
value() { curl -sS "$1" | sed -n "s/^$2[{ ].*[} ]\([^ ]*\)$/\1/p"; }
step=$(value "$client_url" split_session_step)
more() { [ "$(value "$1" split_session_step)" -gt "$step" ]; }
wait_for "splitc's page stands still" more "$client_url"
wait_for "splits' page stands still" more "$server_url"
[ -n "$(value "$client_url" split_session_loss)" ] || fail 'no loss'
[ -z "$(value "$server_url" split_session_loss)" ] || fail "the server's page has a loss"
tested() { [ "$(value "$client_url" split_session_evaluated_step)" -gt 0 ] && [ -n "$(value "$client_url" split_session_test_loss)" ] && [ -n "$(value "$client_url" split_session_test_accuracy_ratio)" ]; }
wait_for 'no figures of an evaluation' tested
for metric in auc f1 top5; do
	curl -sS "$client_url" | grep -qE "^split_session_test_metric\{session=.*,metric=\"$metric\"\} (0\.[0-9]+|[01])$" || fail "no $metric on the page"
	"$SPLITC" status --control "$tmp/run.sock" --json | jq -e ".sessions[0].test_metrics.$metric | type == \"number\"" >"$tmp/out" || fail "no $metric in status"
done
[ -z "$(value "$server_url" split_session_test_loss)" ] || fail "the server's page has an evaluation"

code() { curl -s -o "$tmp/body" -w '%{http_code}' "$@"; }
[ "$(code "$server_url?x=1")" = 200 ] || fail 'with a query'
[ "$(code "${server_url%metrics}")" = 200 ] && grep -q '<a href="/metrics">/metrics</a>' "$tmp/body" || fail "/: $(cat "$tmp/body")"
for path in /run.json /log.jsonl /metrics/ /status /../metrics%00 /metric; do
	[ "$(code --path-as-is "${server_url%/metrics}$path")" = 404 ] || fail "$path: not 404"
done
for method in POST PUT DELETE OPTIONS; do
	[ "$(code -X "$method" "$server_url")" = 405 ] || fail "$method: not 405"
done
[ "$(code -I "$server_url")" = 405 ] || fail 'HEAD: not 405'
[ "$(code -H "X: $(head -c 9000 /dev/zero | tr '\0' x)" "$server_url")" = 431 ] || fail 'a long head: not 431'
[ "$(code --http2-prior-knowledge "$server_url")" != 200 ] || fail 'HTTP/2'
[ "$(code -H 'Host: rebound.example' "$server_url")" = 421 ] || fail 'the name of a web page: not 421'
trap '' PIPE
# garbage, and more silent connections than there are places
port=${server_url#http://*:} port=${port%/metrics}
for i in $(seq 20); do
	exec {silent}<>"/dev/tcp/127.0.0.1/$port"
	head -c 20000 /dev/urandom 2>/dev/null >"/dev/tcp/127.0.0.1/$port" || true
	{ printf 'GET /metrics HTTP/1.1\r\nHost: \0\r\n\r\n' >&"$silent"; } 2>/dev/null || true
	exec {silent}<>"/dev/tcp/127.0.0.1/$port" # this one is left open
	[ "$(code "$server_url")" = 200 ] || fail "not answered, with $i silent ones"
done
# A port in use is reported with its place in the config and the exit status of `listen`.
printf 'control: %s\nmetrics: 127.0.0.1:%s\n' "$tmp/other.sock" "$port" >"$tmp/other.yaml"
rc=0
timeout -k 5 $patience "$SPLITS" serve "$tmp/other.yaml" --set listen=tcp://127.0.0.1:0 2>"$tmp/other.log" || rc=$?
[ $rc = 69 ] || fail "a port in use: status $rc, not 69"
grep -qxF "splits: $tmp/other.yaml:2:10: metrics: cannot listen on 127.0.0.1:$port: address already in use" "$tmp/other.log" || fail 'a port in use: not said'
rc=0
client second "$tmp/client.yaml" --set metrics="127.0.0.1:$port" || rc=$?
[ $rc = 69 ] || fail "a port in use, client: status $rc, not 69"
grep -qF -- "--set metrics: cannot listen on 127.0.0.1:$port: address already in use" "$tmp/second.log" || fail 'a port in use, client: not said'

step=$(value "$client_url" split_session_step)
wait_for 'the run stands still' more "$client_url"
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'client'
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience 'server'

# No metrics by default; an address beyond loopback gives a warning.
start_server plain "store=$tmp/plain"
start_server open "store=$tmp/open" metrics=0.0.0.0:0
! grep -q ' metrics: ' "$tmp/plain.log" || fail 'metrics that nobody asked for'
grep -qE '^WARN metrics: on http://0\.0\.0\.0:[0-9]+/metrics, for everybody who can reach it$' "$tmp/open.log" || fail 'no warning'

# ---- alerts
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
