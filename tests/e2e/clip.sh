#!/usr/bin/env bash
# train.clip_norm: the norm is that of the whole model's gradient, so the server takes part. A run with a server equals --local
# byte for byte, whatever is frozen, also where the server dies between Norm and the optimizer.
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
	client "local-$n" "$tmp/$optimizer.yaml" --local "${sets[@]}" || fail "$case, local: exit status $?"
	client "far-$n" "$tmp/$optimizer.yaml" "${sets[@]}" || fail "$case: exit status $?"
	same_run "far-$n" "local-$n" $steps
done
[ "$(learned local-1)" != "$(learned local-6)" ] || fail 'clipping made no difference'
[ "$(learned local-1 | grep -c grad_norm)" = $steps ] || fail 'not every step says its norm'
# a gradient below the norm is not touched
cmp <(learned local-5 | grep -v grad_norm) <(learned local-6) || fail 'a norm that no gradient reaches made a difference'
cmp "$tmp/local-5/model.safetensors" "$tmp/local-6/model.safetensors" || fail 'a norm that no gradient reaches changed weights'

# died POINT LOCAL [key=value]…: a server that dies there comes back, and the run goes on as if nothing had been
port=$(free_port)
died() {
	local plain=$SPLITS point=$1 twin=$2 set=() pair name=died-$1
	shift 2
	for pair in "server=tcp://127.0.0.1:$port" link.on_server_lost=wait link.retry_ms=20 link.heartbeat_ms=100 \
		link.timeout_ms=2000 train.checkpoint_every=1 codec=quant:8 "$@"; do
		set+=(--set "$pair")
	done
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=$point
	export SPLIT_FAILPOINTS
	start_server "$name-1" "listen=tcp://127.0.0.1:$port" "store=$tmp/store-$name"
	unset SPLIT_FAILPOINTS
	SPLITS=$plain
	start_client "$name" "$tmp/sgd.yaml" "${set[@]}"
	wait "$server_pid" 2>/dev/null || true
	start_server "$name-2" "listen=tcp://127.0.0.1:$port" "store=$tmp/store-$name"
	ends_with "$client_pid" 0 $patience "the client of a server that died at $point"
	same_run "$name" "$twin" $steps
	end_process "$server_pid"
}
died server.apply=kill@2 local-1 train.clip_norm=0.5
died server.commit=kill@2 local-2 train.clip_norm=0.5 'train.freeze=features.0.*'
client local-early "$tmp/sgd.yaml" --local --set 'train.freeze=features.0.*' --set codec=quant:8 || fail "the twin: exit status $?"
died server.commit=kill@3 local-early 'train.freeze=features.0.*' # COMMIT came before the last gradients

rc=0
client wrong "$tmp/sgd.yaml" --set train.clip_norm=-1 || rc=$?
[ $rc = 78 ] && grep -q 'train.clip_norm: must be a number from 0 to 1e+06 (0: off), got "-1"' "$tmp/wrong.log" ||
	fail "a negative norm: exit status $rc, $(tail -n 1 "$tmp/wrong.log")"
echo "$n runs clip as their local twins"
