#!/usr/bin/env bash
# usage: tests/bench/audit.sh, after `make` and `make T=audit build-tests`
# Measures what an audit costs: seconds of a step without audits and with one in each step, and MB that a step's fetches
# take. Runs for a minute on one core. The table goes to docs/results/audit.md.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 320 16
start_server host
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 64/; s/width: 0.25/width: 1/; s/form: imagenet/form: cifar/' "$tmp/client.yaml"
step() { tail -n 1 "$tmp/$1.log" | jq .t_per_batch_s; }
echo '| optimizer | s/step | s/step, each audited | MB/step of fetches |'
echo '|---|---|---|---|'
for optimizer in sgd adamw; do
	[ $optimizer = sgd ] || use_adamw "$tmp/client.yaml"
	client "$optimizer-plain" "$tmp/client.yaml" --json || fail "$optimizer, no audits: exit status $?"
	client "$optimizer-audited" "$tmp/client.yaml" --json --set train.audit.every=1 || fail "$optimizer, each step audited: exit status $?"
	took=$(sed -n 's/.*audits: \(.*\) steps in .* what was agreed: \(.*\) s, \(.*\) MB$/\1 \2 \3/p' "$tmp/$optimizer-audited.log")
	read -r steps seconds mb <<<"$took"
	printf '| %s | %.2f | %.2f | %.1f |\n' $optimizer "$(step $optimizer-plain)" \
		"$(jq -n "$(sed -n '/^{.schema/p' "$tmp/$optimizer-audited.log" | jq .t_total_s) / $steps")" "$(jq -n "$mb / $steps")"
done
