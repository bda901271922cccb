#!/usr/bin/env bash
# An honest server is never accused by audits, whatever links and servers do: seeded runs with a fault each, as many as
# SEEDS says (12; SPLIT_LONG=1: 500). Each learns what it learns without the fault.
set -eu
cd "$(dirname "$0")/../.."
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/audits.sh
codecs=(none quant:8 topk:0.2,ef=true)
for k in 0 1 2; do client "good-$k" "$tmp/client.yaml" --set codec="${codecs[k]}" || fail "good-$k"; done
kinds=('up fetch' 'down weights' 'up commit' 'down committed' 'up head_act' 'down mid_act' 'up mid_grad' 'down head_grad' 'up credit')
lost=0
for seed in $(seq 1 "${SEEDS:-$([ -n "${SPLIT_LONG:-}" ] && echo 500 || echo 12)}"); do
	RANDOM=$seed
	k=$((RANDOM % 3)) every=$((1 + RANDOM % 3)) nth=$((1 + RANDOM % 16)) kind=${kinds[RANDOM % ${#kinds[@]}]}
	sets=(--set codec="${codecs[k]}" --set train.audit.every=$every --set train.checkpoint_every=5)
	name=honest-$seed
	if [ $((seed % 4)) = 0 ]; then
		killed_server server.apply=kill@$((2 + nth % 10)) "good-$k" "$tmp/client.yaml" "${sets[@]}"
		mv "$tmp/good-$k server.apply@$((2 + nth % 10))" "$tmp/$name"
	else
		endpoint=$honest
		relay drop $kind $nth
		client $name "$tmp/client.yaml" "${sets[@]}" --set server="$far" "${wait_set[@]}" || fail "$name: drop $kind $nth, every $every: status $?"
		same_run $name "good-$k" 12
		end_process "$relay_pid"
	fi
	[ "$(grep -a '"type":"summary"' "$tmp/$name/log.jsonl" | jq '.audits_ended >= 1')" = true ] || fail "$name: no audit was ended"
	lost=$((lost + $(grep -a '"type":"summary"' "$tmp/$name/log.jsonl" | jq '.audits_begun - .audits_ended')))
	rm -rf "${tmp:?}/$name"
done
echo "$seed runs of honest servers with a fault each: none is accused, and $lost audits were not ended"
