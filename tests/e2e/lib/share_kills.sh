#!/usr/bin/env bash
# Members and the server of a group are killed at random moments, one after another, and restarted: the group ends with
# the losses and weights of the group in one process, byte for byte. With AdamW and codecs that keep state. SPLIT_KILLS:
# the number of kills (6), fewer if all members finish before. SPLIT_SEED: the random seed. SPLIT_STEPS: the length of
# the run. SPLIT_RANKS: the number of servers, which are the ranks of an MPI job; one or all of them are killed, and the
# job is restarted whatever ended it. SPLIT_SET: more settings (KEY=VALUE …), such as another mode.
set -eu
cd "$(dirname "$0")/../../.."
. tests/e2e/lib/daemons.sh
ranks=${SPLIT_RANKS:-1}
[ "$ranks" = 1 ] || . tests/e2e/lib/ranks.sh
kills=${SPLIT_KILLS:-6}
patience=$((patience + kills * 10))
steps=${SPLIT_STEPS:-$((60 + kills * 12))}
make_data 96 16
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/epochs: 1/epochs: 100000/' "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
sed -i 's/lr: 0.002/lr: 0.0005/' "$tmp/client.yaml"
set=(--set train.max_steps=$steps --set train.eval_every=7 --set train.checkpoint_every=5 --set data.partition=iid
	--set share.group=kills --set share.ends=private --set share.clients=3 --set share.least=1 --set codec='topk:0.3,ef=true|quant:8'
	--set link.on_server_lost=wait --set link.retry_ms=20 --set link.timeout_ms=4000 --set link.heartbeat_ms=500
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
for pair in ${SPLIT_SET:-}; do set+=(--set "$pair"); done
client oracle "$tmp/client.yaml" --local "${set[@]}" || fail "the oracle: exit status $?"

seed=${SPLIT_SEED:-$$}
RANDOM=$seed
echo "share_kills: seed $seed, $kills kills, $steps steps, $ranks servers"
# serve: starts the server, at first and after each kill. mend: restarts a job that has ended by itself.
if [ "$ranks" = 1 ]; then
	endpoint=tcp://127.0.0.1:$(free_port)
	serve() { start_server serving "listen=$endpoint"; }
	where() { echo "$endpoint"; }
	mend() { :; }
	strike() {
		end_process "$server_pid"
		serve
	}
else
	serve() { begin_job "$ranks"; }
	where() { server_of "$1" 3; }
	mend() { mend_job; }
	strike() { kill_ranks $((RANDOM % 2 ? 1 : ranks)); }
fi
alive() { kill -0 "${pid[$1]}" 2>/dev/null; }
# begin K: starts member K, which resumes if it can. A member that was killed before its first checkpoint begins anew; a
# finished one has nothing to resume.
begin() {
	local k=$1 how=--fresh
	if grep -q '"type":"summary"' "$tmp/member-$k/log.jsonl" 2>/dev/null && ! compgen -G "$tmp/member-$k/checkpoint-*" >/dev/null; then
		true &
		pid[k]=$!
		return
	fi
	! compgen -G "$tmp/member-$k/checkpoint-*.safetensors" >/dev/null || how=--resume
	# Steps of 30 ms, so that a fast machine does not finish before the first kill.
	start_slow_client 1 30 "member-$k" "$tmp/client.yaml" $how --set server="$(where "$k")" --set share.member=$k "${set[@]}"
	pid[k]=$client_pid
}
# goes_on: succeeds once the group has made progress since the last kill, or has finished.
goes_on() {
	mend
	[ "$tmp/member-0/log.jsonl" -nt "$tmp/struck" ] || ! alive 0 || ! alive 1 || ! alive 2
}
touch -d yesterday "$tmp/struck"
serve
for k in 0 1 2; do begin $k; done
any_alive() { alive 0 || alive 1 || alive 2; }
died=0
while [ $died -lt $kills ]; do
	wait_for 'the group does not go on' goes_on
	for ((i = RANDOM % 20; i > 0 && died > 0; i--)); do
		sleep 0.1
		mend
	done
	any_alive || break
	victim=$((RANDOM % 4))
	if [ $victim = 3 ]; then
		strike
	else
		alive $victim || continue # it is done
		rc=0
		kill -9 "${pid[victim]}" 2>/dev/null || true
		{ wait "${pid[victim]}" || rc=$?; } 2>/dev/null
		[ $rc = 137 ] || [ $rc = 0 ] || fail "member $victim ended with status $rc"
		begin $victim
		[ $rc = 137 ] || continue # it was done before the kill
	fi
	touch "$tmp/struck"
	died=$((died + 1))
done
until=$((SECONDS + patience))
while any_alive && [ $SECONDS -lt $until ]; do
	sleep 0.1
	mend
done
for k in 0 1 2; do ends_with "${pid[k]}" 0 1 "member $k"; done
for k in 0 1 2; do same_run "member-$k" "oracle/member-$k" "$(steps_of "oracle/member-$k")"; done
[ $died -gt 0 ] || fail "all members were done before the first kill"
[ "$ranks" = 1 ] || end_job
echo "share_kills: ok, $died kills${jobs:+, and $jobs jobs of $ranks ranks}"
