#!/usr/bin/env bash
# share.mode: serial. Members take turns: over links they learn what they learn in one process, byte for byte, and each
# step belongs to one member. A late member loses its turn. Members and the server are killed, and the run continues.
# Invalid settings are refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.01
private=share.ends=private # heads and tails of their own

group two "$tmp/sgd.yaml" 2 $private share.mode=serial data.partition=iid train.epochs=2
group three "$tmp/adamw.yaml" 3 $private share.mode=serial data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8' train.epochs=2
group four "$tmp/adamw.yaml" 4 $private share.mode=serial data.partition=by_label train.chunks=3 threads=2 \
	codec.head_act=lowrank:2,warm=true codec.head_grad=lowrank:2,warm=true codec.mid_grad=qsgd:16
group weights "$tmp/sgd.yaml" 2 $private share.mode=serial data.partition=iid model.weights="$tmp/two/member-0/model.safetensors"

# Each step is one member's, every member has all its own batches, and each epoch has another order.
steps() { sed -n 's/^{"type":"step","step":\([0-9]*\),.*/\1/p' "$tmp/$1/log.jsonl"; }
all=$(for k in 0 1 2; do steps three/member-$k; done | sort -n | tr '\n' ' ')
[ "$all" = "$(seq -s ' ' 1 "$(echo $all | wc -w)") " ] || fail "the members' steps are not each once: $all"
for k in 0 1; do
	[ "$(steps_of two/member-$k)" = 12 ] || fail "member $k of two has $(steps_of two/member-$k) steps, not 2 epochs of 6"
done
first=$(steps two/member-0 | awk '$1 <= 12' | tr '\n' ' ')
second=$(steps two/member-0 | awk '$1 > 12 {print $1 - 12}' | tr '\n' ' ')
[ "$first" != "$second" ] || fail "both epochs have one order: $first"

# A group of one member has all turns: it equals a run without a group.
client plain "$tmp/sgd.yaml" --local || fail "plain: exit status $?"
client alone "$tmp/sgd.yaml" --local --clients 1 --set $private --set share.mode=serial || fail "alone: exit status $?"
same_run alone/member-0 plain "$(steps_of plain)"

# A member that pauses loses its turn, and has others later.
late_member late "$tmp/sgd.yaml" 3 30 --set $private --set share.mode=serial --set data.partition=iid --set train.epochs=5

killed kills "$tmp/adamw.yaml" 48 $private share.mode=serial train.checkpoint_every=5 codec='topk:0.3,ef=true|quant:8'

refused_beside 2 share.rows 'belongs to share.mode: sync' share.mode=serial share.rows=16
start_client waits "$tmp/sgd.yaml" --set server="$endpoint" --set share.group=g --set share.clients=2
waiting=$client_pid
wait_for 'member 0 does not come' grep -q 'group-waits: group g: member 0 is here, 1 of 2' "$tmp/one.log"
refused_beside 2 share.mode 'has sync, this client has serial' share.mode=serial share.member=1
signal TERM $waiting
ends_with $waiting 69 $patience 'a member that waits, and is interrupted'
echo "share_serial: ok, absent $absent"
