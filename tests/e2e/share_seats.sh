#!/usr/bin/env bash
# Members that come and go (share.clients: 2..3) and their numbers: a member that lost its link leaves after
# share.straggler_s and returns; a free number goes to another client, a taken one is refused; and the fate of a group
# that all have left.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
port=$(free_port)
serve() { start_server "$1" threads=2 listen=tcp://127.0.0.1:"$port"; }
serve one
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: 0.005/' "$tmp/client.yaml"
set=(--set train.epochs=1000 --set train.eval_every=0 --set data.partition=iid --set share.clients=2..3 --set share.straggler_s=1
	--set train.checkpoint_every=4 --set train.schedule.warmup_epochs=0 --set link.retry_ms=50 --set link.on_server_lost=wait
	--set share.group=g --set drain_s=3 --set share.ends=private)
# begin NAME MEMBER STEPS [argument]…
begin() {
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.apply=delay:60@1+ start_client "$1" "$tmp/client.yaml" "${set[@]}" \
		--set server="$endpoint" --set share.member="$2" --set train.max_steps="$3" "${@:4}"
	pid[$2]=$client_pid
}
last_step() { sed -n 's/.*"type":"step","step":\([0-9]*\),.*/\1/p' "$tmp/$1/log.jsonl" | tail -n 1; }
behind() { [ "$(last_step "$1")" -ge "$2" ]; }
comes_to() { wait_for "$1 does not come to step $2" behind "$1" "$2"; }
says() { wait_for "the server $1 does not say $2" grep -q "$2" "$tmp/$1.log"; }
stop() {
	signal TERM "${pid[$1]}"
	ends_with "${pid[$1]}" 0 $patience "member $1, stopped"
}

# A member whose link is lost does not leave at once.
for k in 0 1 2; do begin m$k $k 100000; done
comes_to m2 6
end_process "${pid[2]}"
rc=0
"$SPLITC" export "$tmp/client.yaml" "$tmp/none.safetensors" "${set[@]}" --set server="$endpoint" --set share.member=2 --set log.dir="$tmp/m2" >"$tmp/export.log" 2>&1 || rc=$?
[ $rc = 69 ] && grep -q 'member 2 of group g, was not ended at step .*--resume' "$tmp/export.log" || fail "export of a member that was killed: $rc, $(cat "$tmp/export.log")"
says one 'group-leaves: group g: member 2 leaves .* (its link was lost, and share.straggler_s is over): 2 are in'
comes_to m0 $(($(last_step m2) + 4))
begin m2 2 100000 --resume
comes_to m2 $(($(last_step m0) + 2))
grep -q 'ends-behind\|INFO joined' "$tmp/m2.log" || fail 'the member that was gone does not say that it missed steps'
! grep -q group-back "$tmp/one.log" || fail 'the group went back'

# a number that is taken, and one that is free
had=${pid[2]}
begin again 2 100000 --set link.on_server_lost=exit
wait_for 'a second member 2 is not refused' grep -q 'another client is member 2 of group g' "$tmp/again.log"
wait_for 'a second member 2 goes on' eval "! kill -0 $client_pid"
pid[2]=$had
stop 1
begin other 1 100000
comes_to other $(($(last_step m0) + 2))
grep -q 'INFO joined: the group did steps 1 to' "$tmp/other.log" || fail 'the client with a free number did not begin where the group is'

# All leave and the server ends; the group continues with whoever returns.
for k in 0 1; do stop $k; done
says one 'group-short: group g waits .*: 1 members are there, and share.clients needs 2; not there: 0 (has left), 1 (has left)'
signal TERM "${pid[2]}" # its step waits for others
ends_with "${pid[2]}" 69 $patience 'the last member, stopped'
says one 'member 2 leaves .* (it was stopped): 0 are in'
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience 'the server'
serve two
at=$(last_step m2)
begin new 2 $((at + 12))
begin m0 0 $((at + 12)) --resume
for k in 0 2; do ends_with "${pid[k]}" 0 $patience "member $k of a group that everybody had left"; done
[ "$(last_step m0)" = $((at + 12)) ] && [ "$(steps_of new)" -le 13 ] || fail 'the group did not go on from where everybody had left it'

# The group begins anew after its run is over.
begin m0 0 6 --fresh
begin m1 1 6 --fresh
for k in 0 1; do ends_with "${pid[k]}" 0 $patience "member $k of a new run"; done
[ "$(steps_of m0)" = 6 ] && [ "$(steps_of m1)" = 6 ] || fail 'a new run of a group did not begin at step 0'
echo "share_seats: ok"
