#!/usr/bin/env bash
# A message of a member is lost on a link that stays up, in either direction. The group, which waits for ever for members
# (share.straggler_s: 0), goes on behind link.stall_s, also with on_server_lost: exit, and ends as in one process.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 32 16
start_server one
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/' "$tmp/client.yaml"
set=(--set share.clients=2 --set share.straggler_s=0 --set data.partition=iid --set link.stall_s=2 --set link.heartbeat_ms=200
	--set link.timeout_ms=60000 --set link.retry_ms=20 --set codec=topk:0.5,ef=true)
client local "$tmp/client.yaml" "${set[@]}" --set share.group=local --local || fail "in one process: exit status $?"
# loses DIR KIND NTH: that message of member 1, and all later ones of that link, are lost; heartbeats and credit are not.
loses() {
	local name=$1-$2 k pid=()
	"$TOOLS/faulty_link" "${endpoint##*:}" mute "$@" >"$tmp/$name.relay" &
	started+=($!)
	wait_for 'the relay' test -s "$tmp/$name.relay"
	for k in 0 1; do
		start_client "$name-$k" "$tmp/client.yaml" "${set[@]}" --set share.group="$name" --set share.member=$k \
			--set server="$([ $k = 0 ] && echo "$endpoint" || echo "tcp://127.0.0.1:$(cat "$tmp/$name.relay")")"
		pid[k]=$client_pid
	done
	for k in 0 1; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	for k in 0 1; do same_run "$name-$k" "local/member-$k" "$(steps_of "local/member-$k")"; done
	grep -q 'server-lost: .*nothing but heartbeats for 2 s (link.stall_s' "$tmp/$name-1.log" || fail "$name: member 1 has not noticed"
}
loses up mid_grad 3
loses down mid_act 3
loses up commit 2
loses down committed 2
loses up fetch 1
echo "share_stall: ok"
