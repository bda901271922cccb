#!/usr/bin/env bash
# A member of a group that needs all its members (share.least: 1) cannot write its second checkpoint, since its disk is
# full. It loses the server while it tries once more, which fails, too, as it takes its state out of the broken link. It
# ends with 74, and not as one that is done. Once there is room it goes on; all have the weights of a group in one process.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 48 16
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/' "$tmp/client.yaml"
endpoint=tcp://127.0.0.1:$(free_port)
group=(--set train.epochs=8 --set train.eval_every=0 --set train.checkpoint_every=4 --set link.timeout_ms=1000 --set link.heartbeat_ms=200 --set data.partition=iid
	--set share.group=full --set share.clients=2 --set share.least=1 --set server="$endpoint")
start_server first "listen=$endpoint" "store=$tmp/store"
first=$server_pid
for k in 0 1; do
	fail=ckpt.open=ENOSPC@2+
	[ $k = 0 ] || fail=
	start_failing_client "client.apply=delay:20@1+${fail:+,$fail}" "member-$k" "$tmp/client.yaml" "${group[@]}" --set share.member=$k
	pid[k]=$client_pid
done
wait_for 'member 0 misses no checkpoint' grep -q '^WARN checkpoint-missed' "$tmp/member-0.log"
end_process "$first"
ends_with "${pid[0]}" 74 $patience 'the member whose disk is full'
grep -q '^splitc: no checkpoint in two tries' "$tmp/member-0.log" || fail "it does not say why: $(tail -n 3 "$tmp/member-0.log")"
! grep -q '^finished' "$tmp/member-0.log" || fail 'it says that it is done'
start_server second "listen=$endpoint" "store=$tmp/store"
start_client again "$tmp/client.yaml" "${group[@]}" --set share.member=0 --set log.dir="$tmp/member-0" --resume
ends_with "$client_pid" 0 $patience 'the member once its disk has room'
ends_with "${pid[1]}" 0 $patience 'the other member'
client local "$tmp/client.yaml" --local "${group[@]}" || fail "in one process: status $?"
for k in 0 1; do same_run "member-$k" "local/member-$k" "$(steps_of "local/member-$k")"; done
echo "share_full_member: ok"
