#!/usr/bin/env bash
# A member crashes again and again and is restarted each time, as systemd does. The others go back for it only a few
# times, then continue and end in time, with the same model. The crashing member ends, too, once it is left alone.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: 0.01/' "$tmp/client.yaml"
start_server host "store=$tmp/store" threads=2
steps=60
set=(--set train.epochs=1000 --set train.max_steps=$steps --set train.eval_every=0 --set data.partition=iid --set share.clients=3
	--set share.group=loop --set share.straggler_s=1 --set train.checkpoint_every=4 --set train.schedule.warmup_epochs=0
	--set link.on_server_lost=wait --set link.retry_ms=20 --set server="$endpoint")
# member K [argument]…: steps take a while, so that the others do not finish before the crashes.
member() {
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.apply=delay:100@1+${crash:+,$crash} \
		start_client "loop-$1" "$tmp/client.yaml" "${set[@]}" --set share.member="$1" "${@:2}"
	pid[$1]=$client_pid
}
for k in 0 2; do member $k; done
crash=client.begin=hold@8 member 1
dies_at loop-1 client.begin "${pid[1]}"
crashes=1
while kill -0 "${pid[0]}" 2>/dev/null && [ $crashes -lt 12 ]; do
	crash=client.begin=kill@2 member 1 --resume # before it has another checkpoint
	wait "${pid[1]}" || [ $? = 137 ] || fail "crash $crashes: $(tail -n 3 "$tmp/loop-1.log")"
	crashes=$((crashes + 1))
done
[ $crashes -ge 7 ] || fail "the others were done after $crashes crashes"
crash= member 1 --resume
for k in 0 2 1; do ends_with "${pid[k]}" 0 $patience "member $k, behind $crashes crashes"; done
cmp "$tmp/loop-0/model.safetensors" "$tmp/loop-2/model.safetensors" || fail 'the members that stood have two models'
backs=$(grep -c 'group-open: group loop: .* go on from step' "$tmp/host.log") # the first is the beginning
[ "$backs" -le 7 ] || fail "the group began $backs times for $crashes crashes: $(grep group-open "$tmp/host.log")"
echo "share_crash_loop: ok, $crashes crashes, the group went back $((backs - 1)) times"
