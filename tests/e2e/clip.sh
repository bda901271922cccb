#!/usr/bin/env bash
# train.clip_norm uses the norm of the whole model's gradient, so the server takes part. A run with a server equals
# --local byte for byte, whatever is frozen, also if the server dies between the Norm message and the optimizer's step.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 40 16
start_server host
write_config "$tmp/sgd.yaml"
write_config "$tmp/adamw.yaml"
use_adamw "$tmp/adamw.yaml"
steps=3
n=0
for case in 'sgd|0.5|' 'sgd|0.5|features.0.*' 'sgd|0.5|features.*' 'adamw|0.01|' 'sgd|100000|' 'sgd|0|'; do
	IFS='|' read -r optimizer clip freeze <<<"$case"
	n=$((n + 1))
	sets=(--set train.clip_norm="$clip" --set train.freeze="$freeze" --set codec=quant:8)
	as_local "far-$n" "local-$n" $steps "$tmp/$optimizer.yaml" "${sets[@]}"
done
[ "$(learned local-1)" != "$(learned local-6)" ] || fail 'clipping made no difference'
[ "$(learned local-1 | grep -c grad_norm)" = $steps ] || fail 'not every step says its norm'
# A gradient below the limit is not changed.
cmp <(learned local-5 | grep -v grad_norm) <(learned local-6) || fail 'a norm that no gradient reaches made a difference'
cmp "$tmp/local-5/model.safetensors" "$tmp/local-6/model.safetensors" || fail 'a norm that no gradient reaches changed weights'

# A server that dies is restarted, and the run equals the undisturbed one.
sets=(--set codec=quant:8 --set train.checkpoint_every=1)
killed_server server.apply=kill@2 local-1 "$tmp/sgd.yaml" "${sets[@]}" --set train.clip_norm=0.5
killed_server server.commit=kill@2 local-2 "$tmp/sgd.yaml" "${sets[@]}" --set train.clip_norm=0.5 --set 'train.freeze=features.0.*'
client early "$tmp/sgd.yaml" --local --set 'train.freeze=features.0.*' --set codec=quant:8 || fail "the twin: exit status $?"
killed_server server.commit=kill@3 early "$tmp/sgd.yaml" "${sets[@]}" --set 'train.freeze=features.0.*' # COMMIT came before the last gradients

rc=0
client wrong "$tmp/sgd.yaml" --set train.clip_norm=-1 || rc=$?
[ $rc = 78 ] && grep -q 'train.clip_norm: must be a number from 0 to 1e+06 (0: off), got "-1"' "$tmp/wrong.log" ||
	fail "a negative norm: exit status $rc, $(tail -n 1 "$tmp/wrong.log")"
echo "$n runs clip as their local twins"
