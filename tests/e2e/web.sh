#!/usr/bin/env bash
# web: true: the port of /metrics serves a page of the run, with its curves, bytes, members and warnings. It is read
# only, asks nothing from outside, is guarded as /metrics is, and shows what the run says as text alone. A headless
# Chromium looks at it, where there is one.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
command -v curl >/dev/null || { echo 'no curl'; exit 77; }
start_server host
# a class whose name is HTML, and which the evaluation lacks: a warning names it
mkdir "$tmp/table"
evil='<img src=x onerror=alert(1)>&quot;'
for part in train test; do
	awk -v part=$part -v evil="$evil" 'BEGIN {print "a,b,kind"; for (i = 0; i < 240; i++)
		printf "%d,%d,%s\n", i % 7, i % 5, (i % 7 > 3 ? "x" : part == "train" && i % 7 == 1 ? evil : "y")}' >"$tmp/table/$part.csv"
done
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {name: mlp, features: 2, classes: 3}
	data: {kind: csv, dir: $tmp/table, label: kind}
	train: {chunks: 1, batch: 24, epochs: 30, metrics: [f1, balanced_accuracy], optimizer: {lr: 0.01}}
	codec: quant:8
	threads: 1
	metrics: 127.0.0.1:0
	web: true
YAML
url_of() { sed -n 's,^INFO metrics: on \(http:.*\)/metrics$,\1,p' "$tmp/$1.log"; }
get() { curl -s -m 20 "$url$1" "${@:2}"; }

# ---- what is served, for whom
client_stands 105 run "$tmp/client.yaml"
url=$(url_of run)
get / -D "$tmp/head" >"$tmp/page.html"
cmp "$tmp/page.html" common/telemetry/web.html || fail "the page is not that of the source tree"
grep -qi "^content-type: text/html" "$tmp/head" && grep -qi "^content-security-policy: default-src 'none'; connect-src 'self';" "$tmp/head" || fail "its head: $(cat "$tmp/head")"
! grep -E '(src|href|url|fetch)[=(] *.?(http|//)' "$tmp/page.html" || fail "the page asks something from outside"
! grep -nE 'innerHTML|outerHTML|insertAdjacent|document\.write|eval\(' "$tmp/page.html" || fail "the page may take text for HTML"
get /run.json >"$tmp/run.json"
jq -e --arg evil "$evil" '.role == "client" and .sessions[0].step == 105 and (.tensors | length == 4 and all(.bytes > 0 and .codec == "quant:8"))
	and .group == null and any(.warnings[]; .text | contains($evil))' "$tmp/run.json" >"$tmp/out" || fail "run.json: $(cat "$tmp/run.json")"
cmp <(get /log.jsonl) "$tmp/run/log.jsonl" || fail "log.jsonl is another one"
get /metrics | grep -q '^split_session_step{' || fail "/metrics is gone"
for path in / /run.json /log.jsonl; do
	for host in evil.example metrics.example; do
		[ "$(get $path -o "$tmp/out" -w '%{http_code}' -H "Host: $host")" = 421 ] || fail "$path for $host"
	done
	[ "$(get $path -o "$tmp/out" -w '%{http_code}' -X POST)" = 405 ] || fail "$path takes POST"
done
for path in /status /run.json/ /log /../etc/passwd /web.html; do
	[ "$(get $path --path-as-is -o "$tmp/out" -w '%{http_code}')" = 404 ] || fail "$path is served"
done

# ---- what a browser makes of it
looked='no Chromium: the page was not looked at'
for browser in chromium chromium-browser google-chrome; do
	command -v $browser >/dev/null || continue
	HOME=$tmp timeout -k 5 120 $browser --headless --no-sandbox --disable-gpu --virtual-time-budget=4000 --user-data-dir="$tmp/browser" --dump-dom "$url/" >"$tmp/dom" 2>"$tmp/browser.log" ||
		fail "$browser: status $?: $(tail -n 3 "$tmp/browser.log")"
	[ "$(grep -o '<polyline' "$tmp/dom" | wc -l)" = 5 ] || fail "not five curves: $(tail -c 3000 "$tmp/dom")"
	for text in '<title>35 % mlp</title>' '<b>105 of 300</b>' '<b>11 of 30</b>' 'Training loss<' 'f1, ' 'balanced_accuracy, ' '<td>head_grad</td><td>quant:8</td><td>down</td>' '&lt;img src=x onerror=alert(1)&gt;&amp;quot;'; do
		grep -qF -- "$text" "$tmp/dom" || fail "the page lacks $text: $(tail -c 3000 "$tmp/dom")"
	done
	! grep -qi '<img' "$tmp/dom" || fail "the run's text became HTML"
	looked='with a browser'
	break
done
let_go run
ends_with "$client_pid" 0 $patience run

# ---- a group's members; a long log, whose end is served; and without `web`
sed -i 's/^web: .*//' "$tmp/client.yaml"
client_stands 2 plain "$tmp/client.yaml"
url=$(url_of plain)
[ "$(get / -o "$tmp/out" -w '%{http_code}')" = 200 ] && grep -q '<a href="/metrics">.*<code>web: true</code>' "$tmp/out" || fail "/ without web: $(cat "$tmp/out")"
[ "$(get /run.json -o "$tmp/out" -w '%{http_code}')" = 404 ] || fail "the run is shown without web"
end_client
rc=0
client none "$tmp/client.yaml" --set web=true --set metrics= || rc=$?
[ $rc = 78 ] && grep -q 'web: needs an address in metrics, such as 127.0.0.1:9570' "$tmp/none.log" || fail "web without metrics: status $rc"
for member in 0 1; do
	start_slow_client 1 100 member-$member "$tmp/client.yaml" --set web=true --set share.group=g --set share.clients=2 --set share.member=$member --set share.least=0.5 --set data.partition=iid
	pids[member]=$client_pid
done
wait_for "a member's page" has_steps member-1 3
url=$(url_of member-1)
has_members() { get /run.json >"$tmp/run.json" && jq -e '.group.name == "g" and .group.member == 1 and (.group.record.members | length == 2)' "$tmp/run.json"; }
wait_for "no members: $(get /run.json | jq -c .group)" has_members >"$tmp/out"
end_process "${pids[@]}"
echo "$looked"
