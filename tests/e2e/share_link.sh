#!/usr/bin/env bash
# A group over links equals the group in one process, byte for byte: losses of every member and step, and weights. With
# dropout, batch norm, ragged chunks, several optimizers and codecs that keep state. Clients that may not join are
# refused, with the differing key.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.01
private=share.ends=private # heads and tails of their own

group two "$tmp/sgd.yaml" 2 $private data.partition=iid train.epochs=2 train.keep_best=true
for k in 0 1; do cmp "$tmp/two-$k/best.safetensors" "$tmp/two/member-$k/best.safetensors" || fail 'the best weights differ'; done
group three "$tmp/adamw.yaml" 3 $private data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8'
group four "$tmp/adamw.yaml" 4 $private data.partition=by_label train.chunks=3 codec.head_act=lowrank:2,warm=true codec.head_grad=lowrank:2,warm=true threads=2
group weighted "$tmp/sgd.yaml" 2 $private data.partition=iid train.epochs=2 train.class_weights=1,2,3,4,5,6,7,8,9,0.5
[ "$(learned weighted/member-0)" != "$(learned two/member-0)" ] || fail 'train.class_weights do not count in a group'
group batches "$tmp/sgd.yaml" 2 $private data.partition=batch codec=qsgd:16
group alone "$tmp/sgd.yaml" 1 $private codec=quant:4
grep -q '"skipped":true' "$tmp"/*/log.jsonl && fail 'a step was skipped'

# Weights from a file that the server lacks: each member uploads them; once they are stored, none does.
group from_file "$tmp/sgd.yaml" 2 $private data.partition=iid model.weights="$tmp/two/member-0/model.safetensors"
group from_store "$tmp/sgd.yaml" 2 $private data.partition=iid model.weights="$tmp/two/member-0/model.safetensors"

start_client waits "$tmp/sgd.yaml" --set server="$endpoint" --set share.group=g --set share.clients=3
waiting=$client_pid
wait_for 'member 0 does not come' grep -q 'group-waits: group g: member 0 is here, 1 of 3' "$tmp/one.log"
refused_beside 3 share.clients 'the group g has 3, this client has 4' share.clients=4 share.member=1
refused_beside 3 train.seed 'the group g has 3, this client has 5' train.seed=5 share.member=1
refused_beside 3 share.rows 'has 24, this client has 30' train.batch=10 share.member=1
refused_beside 3 'group g' 'trains another middle' partition=2:-1 share.member=1
refused_beside 3 share.member 'another client is member 0 of group g' share.member=0
wait_for 'member 0 does not say what it waits for' grep -q 'INFO group-waits: tcp.* has answered; group g goes on once all 3 members are there' "$tmp/waits.log"
"$SPLITS" status --control "$tmp/one.sock" >"$tmp/status"
grep -q 'member 0 of 3 in group g, which has done 0 steps; 1 is there; missing: 1 (refused: group g trains another middle' "$tmp/status" || fail "splits status does not say who is there: $(cat "$tmp/status")"
kill -0 $waiting || fail 'a client that was refused ended another one'
signal TERM $waiting
ends_with $waiting 69 $patience 'a member that waits, and is interrupted'
echo "share_link: ok"
