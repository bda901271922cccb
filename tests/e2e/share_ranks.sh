#!/usr/bin/env bash
# A group whose members are on several servers, the ranks of an MPI job: losses and weights equal those of the group in
# one process, byte for byte, with codecs that keep state, batch norm, AdamW and unequal shares. A client that connects
# to the wrong rank, or has another learning rate, is told so. Then members and ranks are killed (lib/share_kills.sh).
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/ranks.sh
make_data 96 16
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/epochs: 1/epochs: 100000/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
sed -i 's/lr: 0.002/lr: 0.0005/' "$tmp/client.yaml"

# member NAME K CLIENTS [argument]…: starts member K at its rank.
member() {
	local name=$1 k=$2
	start_client "$name-$k" "$tmp/client.yaml" --set server="$(server_of "$k" "$3")" --set share.group="$name" --set share.clients="$3" \
		--set share.member="$k" "${@:4}"
	pid[k]=$client_pid
}
# group NAME CLIENTS RANKS [key=value]…
# RANKS 0: in the job that runs.
group() {
	local name=$1 n=$2 k pair set=(--set share.least=1 --set train.max_steps=14 --set train.eval_every=0)
	for pair in "${@:4}"; do set+=(--set "$pair"); done
	client "$name" "$tmp/client.yaml" --local --clients "$n" "${set[@]}" || fail "$name in one process: exit status $?"
	[ "$3" = 0 ] || begin_job "$3"
	for ((k = 0; k < n; k++)); do member "$name" $k "$n" "${set[@]}"; done
	for ((k = 0; k < n; k++)); do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	for ((k = 0; k < n; k++)); do same_run "$name-$k" "$name/member-$k" "$(steps_of "$name/member-$k")"; done
}

group rounds 4 3 share.ends=private share.mode=rounds share.round=7 share.moments=average data.partition=iid codec='topk:0.3,ef=true|quant:8'
end_job
group serial 5 3 share.ends=private share.mode=serial data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8'
end_job
group ends 3 3 share.ends=step codec.end_grad=topk:0.1,ef=true codec.end_mean=quant:8 data.partition=iid
# The rank of a member with another learning rate than most refuses it, and so no rank does the step.
for k in 0 1 2; do
	member rates $k 3 --set share.least=1 --set share.ends=private --set data.partition=iid --set train.optimizer.lr=$([ $k = 1 ] && echo 0.001 || echo 0.0005)
done
ends_with "${pid[1]}" 78 $patience 'rates, member 1'
grep -q 'server refused: the learning rate of step 0 is ' "$tmp/rates-1.log" || fail 'member 1 is not told of its learning rate'
for k in 0 2; do end_process "${pid[k]}"; done
end_job
group moments 3 2 share.mode=rounds share.round=7 share.ends=round codec.end_mean=quant:8 data.partition=iid codec=quant:8
end_job
group two 5 2 share.ends=private data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8'
# clients that connect to the wrong rank, or ask for what ranks do not support
refused() {
	local name=$1 phrase=$2 rc=0
	client "$name" "$tmp/client.yaml" --set server=tcp://127.0.0.1:"$port" --set share.group=two --set share.least=1 "${@:3}" || rc=$?
	[ $rc -ge 64 ] && grep -q -e "$phrase" "$tmp/$name.log" || fail "$name: status $rc, and not a word of: $phrase"
}
refused wrong_rank 'this server is rank 0 of 2 and has members 0 to 1; member 3 connects to rank 1' --set share.clients=5 --set share.member=3
refused goes_on 'share.least' --set share.clients=5 --set share.least=0.9
refused too_few 'it has 2 members at least, not 1' --set share.clients=1
# A job has one group after another. The one that was never complete is forgotten when its member leaves.
member wrong 3 5 --set share.least=1
wait_for 'member 3 does not wait for the others' grep -q 'group wrong: member 3 is here' "$tmp/rank.1"
end_process "${pid[3]}"
group next 2 0 share.ends=private data.partition=iid
end_job

# Member 0 is killed and returns behind the others: all ranks go back within the same job. It has fewer steps to do, so
# rank 0 then has no member, and the other rank's members train on. The job dies and is restarted, and they finish their
# runs.
set_back=(--set train.eval_every=0 --set data.partition=iid --set train.checkpoint_every=5 --set share.least=1
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0 --set link.on_server_lost=wait --set link.retry_ms=20)
back=("${set_back[@]}" --set share.ends=step --set codec.end_mean=quant:8)
begin_job 2
for k in 0 1 2; do
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.apply=$([ $k = 0 ] && echo hold@13 || echo delay:100@36+) \
		member back $k 3 "${back[@]}" --set train.max_steps=$([ $k = 0 ] && echo 30 || echo 45)
done
stands_at back-0 client.apply "${pid[0]}"
end_process "${pid[0]}"
member back 0 3 "${back[@]}" --set train.max_steps=30 --resume
ends_with "${pid[0]}" 0 $patience 'back, member 0'
grep -q 'group-back: group back: member 0' "$tmp/rank.1" || fail 'the other rank does not say that it went back'
! job_ended || fail 'the job ended as a member came back'
wait_for 'rank 1 does not train on without rank 0' has_steps back-1 37
kill_ranks
wait_for 'the job does not end' job_ended
mend_job
for k in 1 2; do ends_with "${pid[k]}" 0 $patience "back, member $k"; done
grep -q 'all members of this rank are done, and other ranks train on' "$tmp/rank.0" || fail 'rank 0 does not say that it has no members'
[ "$(steps_of back-0)" = 30 ] || fail "member 0 has $(steps_of back-0) steps, not 30"
client back "$tmp/client.yaml" --local "${back[@]}" --set share.group=back --set share.clients=3 --set train.max_steps=45 \
	--absent "$(seq -s, -f 0:%g 31 45)" || fail "back in one process: exit status $?"
for k in 1 2; do same_run back-$k back/member-$k 45; done
few_files() { local r; for r in 0 1; do [ "$(find "$tmp/store/rank-$r" -name 'session-*.safetensors' | wc -l)" -le 1 ] || return 1; done; }
wait_for 'ranks keep more than the last checkpoint of a run that is over' few_files
end_job

# A member is killed before the checkpoint of its last step exists: the finished member of the other rank waits, and
# repeats the steps.
end=("${set_back[@]}" --set share.ends=private --set train.max_steps=23)
begin_job 2
for k in 0 1; do
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=$([ $k = 0 ] || echo client.logged=hold@23) member end $k 2 "${end[@]}"
done
dies_at end-1 client.logged "${pid[1]}"
is_done() { grep -q 'group-done: group end: member 0 is done' "$tmp/rank.0"; }
wait_for 'member 0 does not ask for its weights' is_done
member end 1 2 "${end[@]}" --resume
for k in 0 1; do ends_with "${pid[k]}" 0 $patience "end, member $k"; done
grep -q 'group-back: group end: member 1' "$tmp/rank.0" || fail 'the rank whose member was done did not go back'
client end "$tmp/client.yaml" --local "${end[@]}" --set share.group=end --set share.clients=2 || fail "end in one process: exit status $?"
for k in 0 1; do same_run end-$k end/member-$k 23; done
end_job

SPLIT_RANKS=3 SPLIT_KILLS=${SPLIT_KILLS:-3} tests/e2e/lib/share_kills.sh || fail "kills over ranks: exit status $?"
echo "share_ranks: ok"
