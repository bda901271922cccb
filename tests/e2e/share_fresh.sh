#!/usr/bin/env bash
# All members of a group come with --fresh, though the server's store has a run of that group: one under way, whose server
# was killed or not, or one that is done. The group begins anew, in every mode. A server that dies behind the begin, and
# a member whose link is lost there, do not change that. A member that alone has --fresh is told who has not.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
write_config "$tmp/client.yaml"
sed -i "s/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/" "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
steps=24
common=(--set train.epochs=1000 --set train.max_steps=$steps --set train.eval_every=0 --set train.checkpoint_every=4
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0 --set share.clients=3 --set data.partition=iid
	--set codec='topk:0.5,ef=true' --set link.on_server_lost=wait --set link.retry_ms=20 --set link.heartbeat_ms=200 --set link.timeout_ms=3000)
step=(--set share.patience_s=600)
private=(--set share.patience_s=600 --set share.ends=private)
rounds=(--set share.patience_s=600 --set share.mode=rounds --set share.round=2)
serial=(--set share.patience_s=600 --set share.mode=serial)
all=(--set share.least=1)

serve() {
	serving=$name-server$1
	start_server "$serving" "listen=$endpoint" "store=$tmp/store-$name"
}
# member K [argument]…
member() {
	start_slow_client 1 "${delay:-15}" "$name-$1" "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member="$1" "${@:2}"
	pid[$1]=$client_pid
}
members() {
	local k
	for k in 0 1 2; do member $k "$@"; done
}
says() { wait_for "$name: the server does not say $1" grep -q "$1" "$tmp/$serving.log"; }
# begin NAME KEYS: a server and a run that has a checkpoint.
begin() {
	local -n of=$2
	local k
	name=$1
	set=("${common[@]}" --set share.group="$name" "${of[@]}")
	endpoint=tcp://127.0.0.1:$(free_port)
	serve ""
	members
	for k in 0 1 2; do wait_for "$name: member $k has no checkpoint" has_checkpoint "$name-$k"; done
}
# anew: all members end, and have the model of one process from the first step on.
anew() {
	local k absent first
	for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	for k in 0 1 2; do
		first=$(jq -n "first(inputs | select(.type == \"step\").step)" "$tmp/$name-$k/log.jsonl")
		[ "$first" -le 8 ] || fail "$name: member $k begins with step $first"
	done
	absent=$(jq -r 'select(.type == "summary").group.absent' "$tmp/$name-0/log.jsonl")
	case ${1-} in '') [ -z "$absent" ] || [ "$absent" = null ] || fail "$name: --absent $absent" ;; esac
	client "$name" "$tmp/client.yaml" --local "${set[@]}" ${1:+--absent "$absent"} || fail "$name in one process: exit status $?"
	for k in 0 1 2; do
		cmp "$tmp/$name-$k/model.safetensors" "$tmp/$name/member-$k/model.safetensors" || fail "$name: member $k has other weights"
	done
	grep -q "group-open: group $name: 3 members go on from step 0\|group-open: group $name: [123] members\? go on from step 0" "$tmp/$serving.log" || fail "$name: the group went on from another step"
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "$name: the server"
	echo "$name: ok"
}

# under_way NAME KEYS [server]: the run is stopped in its middle; the server, too.
under_way() {
	begin "$1" "$2"
	end_process "${pid[@]}"
	if [ $# = 3 ]; then
		end_process "$server_pid"
		serve -again
	fi
	members --fresh
	anew
}

# ended NAME KEYS: the run is done.
ended() {
	local k
	delay=1
	begin "$1" "$2"
	for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "$name, member $k of the run before"; done
	delay=15
	member 0 --fresh
	wait_for "$name: member 0 does not wait" grep -q "group-waits" "$tmp/$name-0.log"
	for k in 1 2; do member $k --fresh; done
	anew
}

# again: the server dies behind the begin, before a step; then a member does, behind a step. Both come back to the new run.
again() {
	begin again step
	end_process "${pid[@]}"
	delay=1500
	members --fresh
	says "group-anew: group again begins anew"
	says "group-open: group again: 3 members go on from step 0"
	end_process "$server_pid"
	serve -again
	says "group-open: group again: 3 members go on from step 0"
	! grep -q group-anew "$tmp/$serving.log" || fail "$name: it begins anew twice"
	wait_for "$name: member 1 does no step" has_steps again-1 1
	end_process "${pid[1]}"
	delay=15
	member 1 --auto-resume
	says "group-joins: group again: member 1 comes before step [1-9]"
	! grep -q group-anew "$tmp/$serving.log" || fail "$name: it begins anew twice"
	anew listed
}

# one NAME KEYS: the others go on, or come back without --fresh. So does this one, with its files or without.
one() {
	local told='begins anew only if all members come with --fresh, and members 0, 1 have not: stop those, and start all with it. To come into the run under way, leave --fresh out: --resume goes on with this member.s log.dir'
	begin "$1" "$2"
	end_process "${pid[2]}"
	member 2 --fresh
	ends_with "${pid[2]}" 78 $patience "$name: a member that alone begins anew"
	grep -q "$told" "$tmp/$name-2.log" || fail "$name: it is not told who has not, and what to do"
	delay=1000 member 2 --resume # all steps wait for this one's
	wait_for "$name: its files do not come into the run" grep -q 'INFO session-open: training with .*, from step [1-9]' "$tmp/$name-2.log"
	! grep -q 'its head and tail are as they began' "$tmp/$name-2.log" || fail "$name: its head and tail are lost by what it is told"
	end_process "${pid[@]}" "$server_pid"
	serve -again
	member 2 --fresh
	says "group-waits: group $name: member 2 is here, 1 of 3"
	for k in 0 1; do member $k --auto-resume; done
	ends_with "${pid[2]}" 78 $patience "$name: a member that alone begins anew, once the others are here"
	grep -q "$told" "$tmp/$name-2.log" || fail "$name: it is not told who has not, once they are here"
	rm -r "$tmp/$name-2"
	member 2
	for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	echo "$name: ok"
}

alone() {
	trap 'kill -9 "${pid[@]}" "$server_pid" 2>/dev/null || true' EXIT
	"$@"
}
two_at_a_time alone 'under_way|running|step' 'under_way|restarted|step|server' 'ended|ended|step' again 'one|one|step' 'one|one-own|private' 'under_way|own|private|server' \
	'under_way|rounds|rounds|server' 'under_way|serial|serial' 'ended|ended-own|private' 'under_way|all|all|server' 'ended|ended-all|all'
echo "share_fresh: ok"
