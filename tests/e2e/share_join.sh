#!/usr/bin/env bash
# Members come and go (share.clients: 2..4): two begin, a third joins, one is stopped and returns, while the server and
# a member are killed. The result equals the group in one process with the same list of absences. Below the least number
# the group waits, and says for whom. In modes sync and rounds.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
port=$(free_port)
serve() { start_server "$1" threads=2 listen=tcp://127.0.0.1:"$port"; }
serve one
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: 0.01/' "$tmp/client.yaml"
set=(--set train.epochs=1000 --set train.eval_every=0 --set data.partition=iid --set share.clients=2..4 --set share.ends=private --set share.straggler_s=60
	--set train.checkpoint_every=4 --set train.schedule.warmup_epochs=0 --set codec='topk:0.5,ef=true' --set link.retry_ms=50
	--set link.on_server_lost=wait)

mode=()
# pace: members hold in every step until this script, waiting in `paced`, releases them; so they never get ahead of it.
pace() {
	while sleep 0.05; do
		[ ! -e "$tmp/pace" ] || for k in 0 1 2 3; do : >"$tmp/$(cat "$tmp/pace")-$k.go"; done
	done
}
pace 2>/dev/null & started+=($!)
paced() { # GROUP COMMAND…
	echo "$1" >"$tmp/pace.new"
	mv "$tmp/pace.new" "$tmp/pace"
	"${@:2}"
	rm "$tmp/pace"
}
ends() { # GROUP STATUS WHAT MEMBER…
	for k in "${@:4}"; do paced "$1" ends_with "${pid[k]}" "$2" $patience "member $k, $3"; done
}
# begin GROUP MEMBER STEPS [argument]…: starts a member. $point: one more failpoint.
begin() {
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.apply=hold@1+${point:+,$point} start_client "$1-$2" "$tmp/client.yaml" "${set[@]}" ${mode[@]+"${mode[@]}"} \
		--set server="$endpoint" --set share.group="$1" --set share.member="$2" --set train.max_steps="$3" "${@:4}"
	pid[$2]=$client_pid
}
# stop GROUP MEMBER: stops it by SIGINT, as a user does.
stop() {
	signal TERM "${pid[$2]}"
	ends "$1" 0 stopped "$2"
}
last_step() { sed -n 's/.*"type":"step","step":\([0-9]*\),.*/\1/p' "$tmp/$1/log.jsonl" | tail -n 1; }
trained() { grep '"type":"step"' "$tmp/$1/log.jsonl" | grep -vc '"skipped":true'; }
behind() { [ "$(last_step "$1")" -ge "$2" ]; }
is_in() { paced "$1" wait_for "member $2 of $1 does not come to step $3" behind "$1-$2" "$3"; }
# absent GROUP STEPS MEMBER…: prints who was absent when, by their logs, in the form that --absent takes.
absent() {
	python3 - "$tmp" "$@" <<-'PY'
		import json, sys
		tmp, group, steps, *members = sys.argv[1:]
		items = []
		for k in range(4):
		    there = {}
		    if str(k) in members:
		        for line in open(f"{tmp}/{group}-{k}/log.jsonl"):
		            line = json.loads(line)
		            if line["type"] == "step":
		                there[line["step"]] = line.get("skipped", False)
		    first = 1
		    for step in sorted(there) + [int(steps) + 1]:
		        if step > first:
		            items.append(f"{k}:{first}-{step - 1}")
		        if there.get(step):
		            items.append(f"{k}:{step}")
		        first = step + 1
		print(",".join(items))
	PY
}
# equals GROUP STEPS MEMBER…: all of them end as in one process.
equals() {
	local list
	list=$(absent "$@")
	echo "$1: --absent $list"
	client "$1-oracle" "$tmp/client.yaml" --local "${set[@]}" ${mode[@]+"${mode[@]}"} --set share.group="$1" --set train.max_steps="$2" --absent "$list" ||
		fail "the oracle, --absent $list: exit status $?"
	for k in "${@:3}"; do same_run "$1-$k" "$1-oracle/member-$k" "$(steps_of "$1-oracle/member-$k")"; done
}

# come_and_go GROUP SERVER: SERVER names the server's log.
come_and_go() {
	begin $1 0 40
	begin $1 2 40
	is_in $1 2 6
	begin $1 1 40
	is_in $1 1 12
	stop $1 2
	grep -q 'INFO paused' "$tmp/$1-2.log" || fail 'the member that was stopped does not say that it can come back'
	is_in $1 0 $(($(last_step $1-2) + 6))
	begin $1 2 40 --resume
	ends $1 0 'to the end' 0 1 2
	for what in "group-joins: group $1: member 1 joins" "group-leaves: group $1: member 2 leaves .* (it was stopped): 2 are in" \
		"group-joins: group $1: member 2 joins"; do
		grep -q "$what" "$tmp/$2.log" || fail "the server does not say $what"
	done
	[ "$(last_step $1-2)" = 40 ] && [ "$(trained $1-2)" -lt 40 ] || fail 'the member that was stopped missed nothing'
	grep -q 'INFO joined' "$tmp/$1-1.log" || fail 'the newcomer does not say that it joined'
	! grep -q "group-short: group $1" "$tmp/$2.log" || fail 'the group had too few members'
	equals $1 40 0 1 2
}

# killed GROUP SERVER SERVER: the server and a member are killed, and too few members are left for a while.
killed() {
	begin $1 3 48
	begin $1 1 48
	is_in $1 1 5
	begin $1 0 48
	is_in $1 0 12
	end_process "$server_pid"
	serve $2
	is_in $1 0 18
	stop $1 3
	end_process "${pid[1]}"
	paced $1 wait_for 'the group does not say that it waits' grep -q "group-short: group $1 waits .*: 1 members are there, and share.clients needs 2; not there: 1 (lost its link), 3 (has left)" "$tmp/$2.log"
	begin $1 1 48 --resume
	is_in $1 1 $(($(last_step $1-3) + 4))
	end_process "$server_pid"
	serve $3
	begin $1 3 48 --resume
	ends $1 0 'after kills' 0 1 3
	equals $1 48 0 1 3
}

# giver GROUP SERVER: the member is killed that hands over its head and tail to a new member; another member hands them
# over.
giver() {
	point=client.gives=kill begin $1 0 40
	begin $1 2 40 # two alone, with which the group begins: a third one could be a newcomer already
	is_in $1 0 6
	begin $1 1 40
	ends $1 137 'which gives, and is killed' 0
	paced $1 wait_for 'no other member gives' grep -q "group-gives: group $1: member 1 gets the head and tail that member 2 has" "$tmp/$2.log"
	begin $1 0 40 --resume
	ends $1 0 'whose giver was killed' 0 1 2
	[ "$(trained $1-1)" -gt 4 ] || fail 'the newcomer has done nothing'
	! grep -q ends-differ "$tmp/$2.log" || fail 'members have different heads and tails'
	equals $1 40 0 1 2
}

# taker GROUP SERVER SERVER: the server is killed as it hands them over, then the new member as it takes them. Nobody
# waits.
taker() {
	end_process "$server_pid"
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=server.gives=kill serve $2
	begin $1 0 60
	begin $1 2 60
	is_in $1 0 6
	point=client.takes=kill begin $1 1 60
	paced $1 ends_with "$server_pid" 137 $patience 'the server that is killed as it hands over'
	serve $3
	ends $1 137 'which is killed as it takes' 1
	is_in $1 0 $(($(last_step $1-2) + 6))
	begin $1 1 60 --fresh
	ends $1 0 'whose newcomer was killed' 0 1 2
	[ "$(trained $1-1)" -gt 4 ] || fail 'the newcomer has done nothing'
	equals $1 60 0 1 2
}

come_and_go free one
killed torn two three
mode=(--set share.mode=rounds --set share.round=4 --set share.moments=average)
come_and_go apart three
killed broken four five
mode=(--set share.ends=step --set codec.end_grad=quant:8)
come_and_go shared five
killed lost six seven
giver given seven
taker taken eight nine
mode=(--set share.ends=round --set share.mode=rounds --set share.round=4 --set share.moments=average)
come_and_go rounds nine
echo "share_join: ok"
