#!/usr/bin/env bash
# Members come and go (share.clients: 4, share.quorum: 2, share.least: 0): two begin, a third joins, one is stopped and returns, and whoever hands over
# heads and tails, or takes them, is killed. The result equals the group in one process with the same list of absences.
# Below its quorum the group waits, and says so. A member that lost its link is missed after share.patience_s, and
# returns; a taken number is refused; and the fate of a group that all have left.
# The simulator has more kills, and mode rounds.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
port=$(free_port)
serve() { start_server "$1" threads=2 listen=tcp://127.0.0.1:"$port"; }
serve one
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: 0.01/' "$tmp/client.yaml"
set=(--set train.epochs=1000 --set train.eval_every=0 --set data.partition=iid --set share.clients=4 --set share.quorum=2 --set share.least=0 --set share.ends=private --set share.patience_s=60
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
	ends "$1" 75 stopped "$2"
}
last_step() { sed -n 's/.*"type":"step","step":\([0-9]*\),.*/\1/p' "$tmp/$1/log.jsonl" | tail -n 1; }
trained() { grep '"type":"step"' "$tmp/$1/log.jsonl" | grep -vc '"skipped":true'; }
behind() { [ "$(last_step "$1")" -ge "$2" ]; }
is_in() { paced "$1" wait_for "member $2 of $1 does not come to step $3" behind "$1-$2" "$3"; }
# absent GROUP MEMBER…: prints who was absent when, by the server's record, which they all have.
absent() {
	local k
	for k in "${@:2}"; do jq -r 'select(.type == "summary").group.absent' "$tmp/$1-$k/log.jsonl" | tail -n 1; done | sort -u
}
# equals GROUP STEPS MEMBER…: all of them end as in one process.
equals() {
	local list
	list=$(absent "$1" "${@:3}")
	[ "$(wc -l <<<"$list")" = 1 ] || fail "$1: members have other records: $list"
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
	for what in "group-joins: group $1: member 1 comes before step" "group-leaves: group $1: member 2 leaves .*: it was stopped" \
		"group-joins: group $1: member 2 comes before step"; do
		grep -q "$what" "$tmp/$2.log" || fail "the server does not say $what"
	done
	[ "$(last_step $1-2)" = 40 ] && [ "$(trained $1-2)" -lt 40 ] || fail 'the member that was stopped missed nothing'
	grep -q 'INFO joined' "$tmp/$1-1.log" || fail 'the newcomer does not say that it joined'
	! grep -q "group-short: group $1" "$tmp/$2.log" || fail 'the group had too few members'
	equals $1 40 0 1 2
}

# giver GROUP SERVER: the member is killed that hands over its head and tail to a new member; another member hands them
# over.
giver() {
	point=client.gives=kill begin $1 0 40
	begin $1 2 40 # two alone, with which the group begins: a third one could be a newcomer already
	is_in $1 0 6
	begin $1 1 40
	ends $1 137 'which gives, and is killed' 0
	paced $1 wait_for 'no other member gives' grep -q "group-joins: group $1: member 1 comes before step [0-9]*, with the group's head and tail" "$tmp/$2.log"
	begin $1 0 40 --fresh
	ends $1 0 'whose giver was killed' 0 1 2
	[ "$(trained $1-1)" -gt 4 ] || fail 'the newcomer has done nothing'
	! grep -q ends-differ "$tmp/$2.log" || fail 'members have different heads and tails'
	equals $1 40 1 2
	cmp "$tmp/$1-0/model.safetensors" "$tmp/$1-oracle/member-0/model.safetensors" || fail "$1: the member that began again has other weights"
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

mode=(--set share.ends=step --set codec.end_grad=quant:8)
come_and_go shared one
mode+=(--set train.checkpoint_every=0) # no head and tail is asked for before a member comes
giver given one
mode=(--set share.ends=step --set codec.end_grad=quant:8)
taker taken two three

# ---- numbers of members, while steps take 60 ms
end_process "$server_pid"
serve four
set=(--set train.epochs=1000 --set train.eval_every=0 --set data.partition=iid --set share.clients=3 --set share.quorum=2 --set share.least=0 --set share.patience_s=1
	--set train.checkpoint_every=4 --set train.schedule.warmup_epochs=0 --set link.retry_ms=50 --set link.on_server_lost=wait
	--set train.optimizer.lr=0.005 --set share.group=g --set drain_s=3 --set share.ends=private)
# starts NAME MEMBER STEPS [argument]…
starts() {
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.apply=delay:60@1+ start_client "$1" "$tmp/client.yaml" "${set[@]}" \
		--set server="$endpoint" --set share.member="$2" --set train.max_steps="$3" "${@:4}"
	pid[$2]=$client_pid
}
comes_to() { wait_for "$1 does not come to step $2" behind "$1" "$2"; }
says() { wait_for "the server $1 does not say $2" grep -q "$2" "$tmp/$1.log"; }
stops() {
	signal TERM "${pid[$1]}"
	ends_with "${pid[$1]}" 75 $patience "member $1, stopped"
}

# A member whose link is lost does not leave at once.
for k in 0 1 2; do starts m$k $k 100000; done
comes_to m2 6
end_process "${pid[2]}"
rc=0
"$SPLITC" export "$tmp/client.yaml" "$tmp/none.safetensors" "${set[@]}" --set server="$endpoint" --set share.member=2 --set log.dir="$tmp/m2" >"$tmp/export.log" 2>&1 || rc=$?
[ $rc = 69 ] && grep -q 'member 2 of group g, was not ended at step .*--resume' "$tmp/export.log" || fail "export of a member that was killed: $rc, $(cat "$tmp/export.log")"
says four 'group-late: group g: step [0-9]* was done without member 2'
comes_to m0 $(($(last_step m2) + 4))
starts m2 2 100000 --resume
comes_to m2 $(($(last_step m0) + 2))
grep -q 'INFO joined' "$tmp/m2.log" || fail 'the member that was gone does not say that it missed steps'
! grep -q group-back "$tmp/four.log" || fail 'the group went back'

# a number that is taken, and one that is free
had=${pid[2]}
starts again 2 100000 --set link.on_server_lost=exit
wait_for 'a second member 2 is not refused' grep -q 'another client is member 2 of group g' "$tmp/again.log"
wait_for 'a second member 2 goes on' eval "! kill -0 $client_pid"
pid[2]=$had
stops 1
starts other 1 100000
comes_to other $(($(last_step m0) + 2))
grep -q 'INFO joined: the group did steps 1 to' "$tmp/other.log" || fail 'the client with a free number did not begin where the group is'

# All leave and the server ends; the group continues with whoever returns.
for k in 0 1; do stops $k; done
says four 'group-short: group g waits .*: 1 member there, and share.quorum needs 2'
signal TERM "${pid[2]}" # its step waits for others
ends_with "${pid[2]}" 69 $patience 'the last member, stopped'
says four 'member 2 leaves .*: it was stopped'
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience 'the server'
serve five
at=$(last_step m2)
starts new 2 $((at + 12))
starts m0 0 $((at + 12)) --resume
for k in 0 2; do ends_with "${pid[k]}" 0 $patience "member $k of a group that everybody had left"; done
[ "$(last_step m0)" = $((at + 12)) ] && [ "$(steps_of new)" -le 13 ] || fail 'the group did not go on from where everybody had left it'

# A member that comes when the run is over trains nothing. It says so, and so does its model.
starts m1 1 $((at + 12)) --fresh
ends_with "${pid[1]}" 0 $patience 'a member that comes after the end'
grep -q "WARN untrained: this member has trained no step since it began again: its middle is that of group g after step $((at + 12)), its head and tail are as they began" "$tmp/m1.log" ||
	fail "a member that comes after the end: $(cat "$tmp/m1.log")"
"$SPLITC" eval "$tmp/client.yaml" --local --json --set log.dir="$tmp/m1" >"$tmp/untrained.json" 2>"$tmp/untrained.log" || fail 'its model cannot be read'
jq -e '[.warnings[].id] - ["no-better-than-majority"] == ["untrained"]' "$tmp/untrained.json" >/dev/null || fail "its model: $(cat "$tmp/untrained.json" "$tmp/untrained.log")"

# The group begins anew after its run is over, also where one comes first that has not done it.
starts m1 1 6 --fresh
wait_for 'the member that comes first is not welcomed' grep -q 'INFO session-open' "$tmp/m1.log"
starts m0 0 6 --fresh
for k in 0 1; do ends_with "${pid[k]}" 0 $patience "member $k of a new run"; done
[ "$(steps_of m0)" = 6 ] && [ "$(steps_of m1)" = 6 ] || fail 'a new run of a group did not begin at step 0'
echo "share_join: ok"
