#!/usr/bin/env bash
# One of three members goes away and comes back by itself: it is stopped, killed, or killed and its folder removed; the
# server is killed meanwhile; heads and tails are shared or private. The others go on until they owe it a step
# (share.least), which the server says. All end, and the models are those of one process with the server's record of who
# was absent, byte for byte, though codecs keep state. Summary, JSON and log.jsonl have the record. A member that comes
# back without a missed step is in it, too. With share.unmet: go_on nobody waits, and all end with status 80; so do those
# whose member has a shorter run.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 60 16
write_config "$tmp/client.yaml"
sed -i "s/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s|$tmp/data|$tmp/site-%m|; s/train_limit: [0-9]*/train_limit: 0/" "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
for k in 0 1 2; do # of 2, 4 and 6 batches
	cp -r "$tmp/data" "$tmp/site-$k"
	truncate -s $(((16 + 16 * k) * 3073)) "$tmp/site-$k/data_batch_1.bin"
done
steps=100
missed=10 # as many as share.least allows
common=(--set train.epochs=1000 --set train.max_steps=$steps --set train.eval_every=0 --set train.checkpoint_every=10
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0 --set share.clients=3 --set share.epoch_steps=6
	--set codec='topk:0.5,ef=true' --set link.on_server_lost=wait --set link.retry_ms=20 --set link.heartbeat_ms=200 --set link.timeout_ms=3000)
shared=(--set share.ends=step --set codec.end_grad='topk:0.3,ef=true' --set codec.end_mean=quant:8)
private=(--set share.ends=private)

# serve NAME: the server of case $name.
serve() { start_server "$1" "listen=$endpoint" "store=$tmp/store-$name"; }
# member K [argument]…: starts member K; steps take a while, so that it does not end before the script is in time.
member() {
	start_slow_client 1 15 "$name-$1" "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member="$1" "${@:2}"
	pid[$1]=$client_pid
}
# begin [key=value]…: the server and all members, up to a step behind a checkpoint of member 2.
begin() {
	local k
	endpoint=tcp://127.0.0.1:$(free_port)
	serving=$name-server
	serve "$serving"
	for k in 0 1 2; do member $k $([ $k != 1 ] || echo --json); done
	wait_for "$name: member 2 does not train" has_steps "$name-2" 32
	wait_for "$name: member 2 has no checkpoint" has_checkpoint "$name-2"
}
says() { wait_for "$name: the server does not say $1" grep -q "$1" "$tmp/$serving.log"; }
# goes HOW: member 2 goes away, and the others miss it.
goes() {
	if [ "$1" = stop ]; then signal STOP "${pid[2]}"; else end_process "${pid[2]}"; fi
	says "group-late: group $name: step [0-9]* was done without member 2"
}
comes() { # HOW
	if [ "$1" = stop ]; then
		signal CONT "${pid[2]}"
	else
		[ "$1" != lost ] || rm -r "$tmp/$name-2"
		member 2 --auto-resume
	fi
}
# record K FILTER: of the summary in member K's log.jsonl.
record() { jq -r "select(.type == \"summary\").group | $2" "$tmp/$name-$1/log.jsonl"; }
# ends STATUS: all members end with it, and are what the record tells, which all have. Sets $absent.
ends() {
	local k
	for k in 0 1 2; do ends_with "${pid[k]}" "$1" $patience "$name, member $k"; done
	absent=$(record 0 .absent)
	[ -n "$absent" ] || fail "$name: the record tells of no absence"
	for k in 1 2; do [ "$(record $k .)" = "$(record 0 .)" ] || fail "$name: members 0 and $k have other records"; done
	grep -qx "the same run in one process, if members' configs are equal: --local --clients 3 --absent $absent" "$tmp/$name-0.log" || fail "$name: the summary does not say how to repeat the run"
	grep '^{' "$tmp/$name-1.log" | jq -e ".group == $(record 0 .)" >/dev/null || fail "$name: --json has another record"
	client "$name" "$tmp/client.yaml" --local "${set[@]}" --absent "$absent" || fail "$name in one process, --absent $absent: exit status $?"
	for k in 0 1 2; do
		cmp "$tmp/$name-$k/model.safetensors" "$tmp/$name/member-$k/model.safetensors" || fail "$name, --absent $absent: member $k has other weights"
	done
	echo "$name: --absent $absent"
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "$name: the server"
}

# away NAME HOW ENDS [server]: the others go on until they owe member 2 a step.
away() {
	name=$1
	local -n of=$3
	local since is
	set=("${common[@]}" --set share.group="$name" --set share.patience_s=1 "${of[@]}")
	begin
	goes "$2"
	if [ $# = 4 ]; then
		end_process "$server_pid"
		serving=$name-again
		serve "$serving"
	fi
	since=$([ $# = 4 ] || echo ' (since 20') # a server that was started again does not know it
	says "group-owes: group $name waits behind step [0-9]* for member 2, which is away$since"
	wait_for "$name: a member does not say for whom it waits" grep -q "group-waits: the group waits for member 2$since" "$tmp/$name-0.log"
	comes "$2"
	ends 0
	[ "$(record 0 '.members[2].steps')" = $((steps - missed)) ] || fail "$name: member 2 was in $(record 0 '.members[2].steps') steps"
	grep -qE "^2 +$((steps - missed)) +90.0 % +[0-9.]+ %  away in steps [0-9]+-[0-9]+" "$tmp/$name-0.log" || fail "$name: the summary has no row of member 2"
	grep -q "group-parts: group $name, $steps steps: member 0 100.0 % of the steps.*member 2 90.0 %" "$tmp/$serving.log" || fail "$name: the server does not say who took part"
	case $3.$2 in shared.*) is="are now the group's" ;; private.lost) is='are as they began' ;; *) is='stay those of that state' ;; esac
	grep -q "INFO joined: .* after the state that this member has: its head and tail $is\$" "$tmp/$name-2.log" || fail "$name: member 2 does not say that head and tail $is"
	case $absent in *@*) [ "$3" = private ] ;; *) [ "$3" = shared ] ;; esac || fail "$name: --absent $absent"
}

# in_time: a member is killed, and is back before a step was done without it.
in_time() {
	name=in-time
	set=("${common[@]}" --set share.group="$name" --set share.patience_s=600 "${shared[@]}")
	begin
	wait_for "$name: member 2 is not behind its checkpoint" has_steps "$name-2" 33
	end_process "${pid[2]}"
	comes kill
	ends 0
	grep -qE '^2:([0-9]+)-[0-9]+$' <<<"$absent" && [ "$((${absent#*-} + 1))" = "$(sed 's/^2:\(.*\)-.*/\1/' <<<"$absent")" ] || fail "$name: --absent $absent"
	[ "$(record 0 '.members[2].steps')" = $steps ] || fail "$name: a step was done without member 2"
}

# unmet: nobody waits for a member that gets less than share.least.
unmet() {
	name=unmet
	set=("${common[@]}" --set share.group="$name" --set share.patience_s=1 --set share.unmet=go_on "${shared[@]}")
	begin
	goes kill
	wait_for "$name: members do not hear who is away" grep -q 'group-away: the group goes on without member 2 (since 20' "$tmp/$name-0.log"
	"$SPLITS" status --control "$tmp/$serving.sock" --json | jq -e 'all(.sessions[]; .missing | startswith("2 (since 20"))' >/dev/null || fail "$name: the server's status does not say who is away"
	wait_for "$name: the others do not go on" has_steps "$name-0" 60
	"$SPLITS" status --control "$tmp/$serving.sock" --json | jq -e ".groups.$name.members | .[0].steps > .[2].steps and .[2].steps > 0" >/dev/null || fail "$name: the server's status does not say who had which steps"
	"$SPLITS" status --control "$tmp/$serving.sock" | grep -qE '^  member 2 +[0-9.]+ % of the steps, +[0-9.]+ % of the rows$' || fail "$name: the server's table does not say it"
	"$SPLITS" status --control "$tmp/$serving.sock" --prometheus | grep -qE "^split_group_member_steps_ratio\{group=\"$name\",member=\"2\"\} 0\.[0-9]+$" || fail "$name: the server's metrics do not say it"
	comes kill
	ends 80
	rc=0
	client "$name-2" "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member=2 --auto-resume || rc=$?
	[ $rc = 80 ] || fail "$name: a service that starts again over the run that is done: status $rc"
	grep -q 'group-away: all members are there' "$tmp/$name-0.log" || fail "$name: members do not hear who came back"
	! grep -q group-owes "$tmp/$serving.log" || fail "$name: the group waits"
	grep -q 'share.least: .*member 2 took part in [0-9.]* % of its steps, where 90.0 % were to be' "$tmp/$name-2.log" || fail "$name: it is not said who got less"
}

# gone: a member never comes back. As the last of the others leaves, the server's log says who took part.
gone() {
	local k
	name=gone
	set=("${common[@]}" --set share.group="$name" --set share.patience_s=1 --set share.unmet=go_on "${shared[@]}")
	begin
	goes kill
	for k in 0 1; do ends_with "${pid[k]}" 80 $patience "$name: member $k"; done
	says "WARN group-parts: group $name, $steps steps: member 0 100.0 % .* member 2 [0-9.]* %"
	says "group-absent: group $name: --local --absent 2:"
}

# moves: in rounds a member whose part of a round takes longer than share.patience_s, but each step less, is not late.
moves() {
	local k
	name=moves
	set=("${common[@]}" --set train.max_steps=32 --set share.group="$name" --set share.mode=rounds --set share.round=8 --set share.patience_s=1 --set share.least=0.2)
	endpoint=tcp://127.0.0.1:$(free_port)
	serve "$name-server"
	for k in 0 1; do member $k; done
	start_slow_client 1 250 "$name-2" "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member=2
	pid[2]=$client_pid
	for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "$name: member $k"; done
	[ "$(record 0 '.members[2].steps')" = 32 ] || fail "$name: a member that moves was left out: $(record 0 .)"
}

# shorter: a member's run ends in the middle of the others', who go on to have less of it than share.least.
shorter() {
	local k
	name=shorter
	set=("${common[@]}" --set share.group="$name" --set share.patience_s=1 "${shared[@]}")
	endpoint=tcp://127.0.0.1:$(free_port)
	serve "$name-server"
	for k in 0 1; do member $k; done
	member 2 --set train.max_steps=$((steps / 2))
	ends_with "${pid[2]}" 0 $patience "$name: the short member"
	for k in 0 1; do ends_with "${pid[k]}" 80 $patience "$name: member $k"; done
	grep -q 'share.least: .*member 2 took part in [45][0-9.]* % of its steps, where 90.0 % were to be: .*train.max_steps is another' "$tmp/$name-0.log" ||
		fail "$name: it is not said: $(tail -n 3 "$tmp/$name-0.log")"
}

# hangs NAME KEY=VALUE…: member 2 hangs with its link open. The group waits no longer than share.wait_s, and says for whom.
hangs() {
	local k
	name=$1
	set=("${common[@]}" --set share.group="$name" --set share.patience_s=2 --set share.wait_s=8 --set watchdog_s=0 "${shared[@]}")
	for k in "${@:2}"; do set+=(--set "$k"); done
	endpoint=tcp://127.0.0.1:$(free_port)
	serving=$name-server
	serve "$serving"
	for k in 0 1; do member $k; done
	start_failing_client client.apply=delay:600000@30 "$name-2" "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member=2
	pid[2]=$client_pid
	says "group-owes: group $name waits behind step [0-9]* for member 2, which does not do its part (here, idle since 20"
	wait_for "$name: a member does not say for whom it waits" grep -q "group-waits: the group waits for member 2 (here, idle since 20" "$tmp/$name-0.log"
	for k in 0 1; do
		ends_with "${pid[k]}" 69 $patience "$name, member $k"
		grep -q "group $name was not complete within 8 s: missing are members 2 (here, idle since 20" "$tmp/$name-$k.log" || fail "$name: member $k does not say why it ends"
	done
	echo "$name: ok"
}

# alone CASE [argument]…: in a process of its own, which leaves nothing behind.
alone() {
	trap 'kill -9 "${pid[@]}" "$server_pid" 2>/dev/null || true' EXIT
	"$@"
}
two_at_a_time alone 'away|stopped|stop|shared' 'away|killed|kill|shared|server' 'away|lost|lost|shared' 'away|stopped-own|stop|private' \
	'away|killed-own|kill|private|server' 'away|lost-own|lost|private' in_time unmet shorter gone moves \
	"hangs|hangs" "hangs|hangs-all|share.least=1" "hangs|hangs-none|share.least=0|share.quorum=3"
echo "share_away: ok"
