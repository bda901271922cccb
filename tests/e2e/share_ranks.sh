#!/usr/bin/env bash
# A group whose members several servers have, the ranks of an MPI job: losses and weights are those of the same group in one process,
# byte for byte, with codecs that keep state, batch norm, AdamW and unequal shares. Who connects to the wrong rank is told so. Then
# members and ranks are killed (share_kills.sh).
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/ranks.sh
make_data 96 16
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/epochs: 1/epochs: 100000/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
sed -i 's/lr: 0.002/lr: 0.0005/' "$tmp/client.yaml"

# member NAME K CLIENTS [argument]…: member K, at its rank
member() {
	local name=$1 k=$2
	start_client "$name-$k" "$tmp/client.yaml" --set server="$(server_of "$k" "$3")" --set share.group="$name" --set share.clients="$3" \
		--set share.member="$k" "${@:4}"
	pid[k]=$client_pid
}
# group NAME CLIENTS RANKS [key=value]…
group() {
	local name=$1 n=$2 k pair set=(--set train.max_steps=14 --set train.eval_every=0)
	for pair in "${@:4}"; do set+=(--set "$pair"); done
	client "$name" "$tmp/client.yaml" --local --clients "$n" "${set[@]}" || fail "$name in one process: exit status $?"
	begin_job "$3"
	for ((k = 0; k < n; k++)); do member "$name" $k "$n" "${set[@]}"; done
	for ((k = 0; k < n; k++)); do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	for ((k = 0; k < n; k++)); do same_run "$name-$k" "$name/member-$k" "$(steps_of "$name/member-$k")"; done
}

group rounds 4 3 share.mode=rounds share.round=7 share.moments=average data.partition=iid codec='topk:0.3,ef=true|quant:8'
end_job
group serial 5 3 share.mode=serial data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8'
end_job
group ends 3 3 share.ends=step codec.end_grad=topk:0.1,ef=true codec.end_mean=quant:8 data.partition=iid
end_job
group moments 3 2 share.mode=rounds share.round=7 share.ends=round codec.end_mean=quant:8 data.partition=iid codec=quant:8
end_job
group two 5 2 data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8'
# whoever connects to the wrong rank, or asks for what ranks do not have
refused() {
	local name=$1 phrase=$2 rc=0
	client "$name" "$tmp/client.yaml" --set server=tcp://127.0.0.1:"$port" --set share.group=two "${@:3}" || rc=$?
	[ $rc -ge 64 ] && grep -q -e "$phrase" "$tmp/$name.log" || fail "$name: status $rc, and not a word of: $phrase"
}
refused wrong_rank 'this server is rank 0 of 2 and has members 0 to 1; member 3 connects to rank 1' --set share.clients=5 --set share.member=3
refused too_few 'it has 2 members at least, not 1' --set share.clients=1
end_job

SPLIT_RANKS=3 SPLIT_KILLS=${SPLIT_KILLS:-3} tests/e2e/share_kills.sh || fail "kills over ranks: exit status $?"
echo "share_ranks: ok"
