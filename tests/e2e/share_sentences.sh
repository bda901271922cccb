#!/usr/bin/env bash
# What members of a group hear where something was put back, lost or mixed up: an older copy of the server's store; a
# lost log.dir in a vertical group; another share.secret; a server that keeps nothing, or nothing yet; a member that comes
# late, or after the end. Each sentence names the cause, and what would be right.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/vertical.sh
make_data 96 16
start_server serving
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: 0.005/' "$tmp/client.yaml"
set=(--set train.epochs=1000 --set train.max_steps=40 --set train.eval_every=0 --set train.checkpoint_every=4 --set data.partition=iid
	--set share.clients=2 --set link.retry_ms=20 --set train.schedule.warmup_epochs=0)
member() { # K [argument]…
	start_slow_client 1 15 "$group-$1" "$tmp/client.yaml" "${set[@]}" --set share.group="$group" --set server="$endpoint" --set share.member="$1" "${@:2}"
	pid[$1]=$client_pid
}
hears() { grep -q -- "$2" "$tmp/$1.log" || fail "$1 does not hear: $2: $(grep -v '^train' "$tmp/$1.log" | tail -n 3)"; }

# older ENDS STATUS SENTENCE: the server's store is put back as it was; all begin again with their own files.
older() {
	local k
	group=older-$1
	for k in 0 1; do member $k --set share.ends="$1"; done
	wait_for "$group: no step 10" has_steps "$group-0" 10
	end_process "$server_pid"
	rm -rf "$tmp/old"
	cp -a "$tmp/store" "$tmp/old"
	start_server serving "listen=$endpoint"
	wait_for "$group: no step 26" has_steps "$group-0" 26
	end_process "$server_pid" "${pid[@]}"
	rm -rf "$tmp/store"
	mv "$tmp/old" "$tmp/store"
	start_server serving "listen=$endpoint"
	for k in 0 1; do member $k --set share.ends="$1" --resume; done
	for k in 0 1; do ends_with "${pid[k]}" "$2" $patience "$group, member $k"; done
	for k in 0 1; do hears "$group-$k" "$3"; done
}
older step 0 'steps-lost: this side has the checkpoint of step [0-9]*, and the group goes on from step [1-9][0-9]*, the newest that the server.s store has: .*older copy, stop the group and put the newer one back'
older private 78 '^splitc: the server refused: member [01] of group older-private has the checkpoint of step [0-9]*, and the newest one in the server.s store is of step [1-9][0-9]*: put the newer store back, or let all members begin anew with --fresh$'

group=secret
for key in a b; do "$SPLITC" keygen --out "$tmp/$key.key" >"$tmp/$key.pub" 2>"$tmp/keygen.log" || { grep -q 'has no CURVE' "$tmp/keygen.log" && exit 77; fail keygen; }; done
for k in 0 1; do member $k --set share.secret="$tmp/a.key"; done
wait_for "$group: no step 10" has_steps $group-1 10
end_process "${pid[1]}"
for other in "$tmp/b.key" ''; do
	rc=0
	client $group-1 "$tmp/client.yaml" "${set[@]}" --set share.group=$group --set server="$endpoint" --set share.member=1 --set share.secret="$other" --resume || rc=$?
	[ $rc = 78 ] || fail "$group, another one: status $rc"
	hears $group-1 "share.secret was another one, is $([ -n "$other" ] && echo 'this one' || echo none)"
done
end_process "${pid[0]}"

write_parties
for party in A B; do config_of $party lost train.epochs=100 train.checkpoint_every=2; done
points_A=client.apply=delay:30@1+
begin_party A lost
pid_a=$client_pid
begin_party B lost
pid_b=$client_pid
wait_for 'lost: no step 10' has_steps lost-B 10
end_process "$pid_a"
rm -rf "$tmp/lost-A"
begin_party A lost
ends_with "$client_pid" 78 $patience 'lost: the party without its files'
hears lost-A 'goes on with that run.s log.dir; if it is lost, all members begin anew with --fresh, and another client needs another number'
end_process "$pid_b"

# norms GROUP TEXT STATUS [argument]…: every gradient is above share.member_norm. Members and the server say what became of it.
norms() {
	local k
	group=$1
	for k in 0 1; do member $k --set train.max_steps=8 --set share.member_norm=1e-6 "${@:4}"; done
	for k in 0 1; do
		ends_with "${pid[k]}" "$3" $patience "$group, member $k"
		[ "$(grep -cE "^$k +[08] .*$2\$" "$tmp/$group-$k.log")" = 1 ] || fail "$group: member $k's table: $(grep '^[01] ' "$tmp/$group-$k.log")"
	done
	grep -q "group-norms: group $group: in [03458] steps member 0 had no gradient" "$tmp/serving.log" || fail "$group: the server does not say it"
}
norms clipped 'clipped in 8 steps' 0 --set share.over_norm=clip
norms dropped 'no gradient in 8 steps .NaN, Inf or above share.member_norm.' 80 --set train.on_nan=skip
norms dropped-turns 'no gradient in [345] steps .NaN, Inf or above share.member_norm.' 80 --set train.on_nan=skip --set share.mode=serial
hears dropped-turns-0 'member 0 took part in 0.0 % of its steps, where 90.0 % were to be: it had no gradient in [345] steps'
hears dropped-0 'took part in 0.0 % of its steps, where 90.0 % were to be: it had no gradient in 8 steps'

# No checkpoint is due before the server dies, which has a store.
group=early
for k in 0 1; do member $k --set train.checkpoint_every=30; done
wait_for "$group: no step 6" has_steps $group-0 6
end_process "$server_pid"
start_server serving "listen=$endpoint"
for k in 0 1; do wait_for "$group: member $k does not hear why all begin again" grep -q 'steps-lost: .*, the server from step 0: the steps between them are run again: the server has no checkpoint of them: none was due yet (train.checkpoint_every), or it has no .store., or another one$' "$tmp/$group-$k.log"; done
end_process "${pid[@]}"

# A member comes late, loses its files, and comes again when the run is done.
group=late
late=(--set share.clients=3 --set share.quorum=2 --set share.least=0 --set share.patience_s=1 --set share.mode=rounds --set share.round=4)
for k in 0 1; do member $k "${late[@]}"; done
wait_for 'the server does not say that a member never came' grep -q 'group-late: group late: step [0-9]* was done without member 2, which has never come$' "$tmp/serving.log"
member 2 "${late[@]}"
wait_for 'the server does not say what the member has missed' grep -q 'group-late: group late: member 2 takes part again in step [0-9]*, and has missed [0-9]* steps$' "$tmp/serving.log"
missed=$(sed -n 's/.*group late: member 2 takes part again.* has missed \([0-9]*\) steps$/\1/p' "$tmp/serving.log" | head -n 1)
wait_for "$group: member 2 does no round" has_steps $group-2 $((missed + 5))
end_process "${pid[2]}"
rm -r "$tmp/$group-2"
for k in 0 1; do ends_with "${pid[k]}" 0 $patience "$group, member $k"; done
jq -r 'select(.type == "summary").group.absent' "$tmp/$group-0/log.jsonl" | grep -q "^2:1-$missed," || fail "$group: the server says that member 2 has missed $missed steps, the record: $(jq -c 'select(.type == "summary").group' "$tmp/$group-0/log.jsonl")"
member 2 "${late[@]}"
ends_with "${pid[2]}" 0 $patience "$group: the member that comes after the end"
! grep untrained "$tmp/$group-2.log" || fail "$group: a member that took part says that it has trained nothing"
"$SPLITC" eval "$tmp/client.yaml" --local --json --set log.dir="$tmp/$group-2" >"$tmp/eval.json" 2>"$tmp/eval.log" || fail "$group: the model cannot be read"
jq -e '[.warnings[].id | select(. == "untrained")] == []' "$tmp/eval.json" >/dev/null || fail "$group: the model says that it is untrained"

# unkept GROUP WARNINGS [argument]…: members and server warn so often that nothing is kept.
unkept() {
	local k log
	group=$1
	for k in 0 1; do member $k --set train.max_steps=8 "${@:3}"; done
	for k in 0 1; do ends_with "${pid[k]}" 0 $patience "$group, member $k"; done
	for log in "$group-0" "$group-1" "$serving"; do
		[ "$(grep -c 'group-unkept: ' "$tmp/$log.log")" = "$2" ] || fail "$group: $log warns $(grep -c 'group-unkept: ' "$tmp/$log.log") times that nothing is kept"
	done
}
serving=serving
unkept kept 0
unkept no-checkpoints 1 --set train.checkpoint_every=0
end_process "$server_pid"
serving=bare
start_server bare "listen=$endpoint" store=
unkept no-store 1
echo "share_sentences: ok"
