#!/usr/bin/env bash
# A group over links equals the group in one process, byte for byte: losses of every member and step, and weights, in
# each mode. With dropout, batch norm, ragged chunks, several optimizers and codecs that keep state. Settings that do not
# go together, and clients that may not join, are refused with the key. The simulator kills members and servers.
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

# ---- share.mode: serial. Each step is one member's, every member has all its own batches, and each epoch has another order.
serial=($private share.mode=serial)
group turns2 "$tmp/sgd.yaml" 2 "${serial[@]}" data.partition=iid train.epochs=2
group turns3 "$tmp/adamw.yaml" 3 "${serial[@]}" data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8' train.epochs=2
steps() { sed -n 's/^{"type":"step","step":\([0-9]*\),.*/\1/p' "$tmp/$1/log.jsonl"; }
all=$(for k in 0 1 2; do steps turns3/member-$k; done | sort -n | tr '\n' ' ')
[ "$all" = "$(seq -s ' ' 1 "$(echo $all | wc -w)") " ] || fail "the members' steps are not each once: $all"
for k in 0 1; do
	[ "$(steps_of turns2/member-$k)" = 12 ] || fail "member $k of turns2 has $(steps_of turns2/member-$k) steps, not 2 epochs of 6"
done
first=$(steps turns2/member-0 | awk '$1 <= 12' | tr '\n' ' ')
second=$(steps turns2/member-0 | awk '$1 > 12 {print $1 - 12}' | tr '\n' ' ')
[ "$first" != "$second" ] || fail "both epochs have one order: $first"

# ---- share.mode: rounds. Each member trains a copy of the middle; the copies are averaged, and moments are treated as told.
rounds=($private share.mode=rounds)
feedback='topk:0.3,ef=true|quant:8'
group keep "$tmp/adamw.yaml" 3 "${rounds[@]}" share.round=2 data.partition=iid codec="$feedback" train.epochs=2
group average "$tmp/adamw.yaml" 3 "${rounds[@]}" share.round=2 share.moments=average data.partition=iid train.epochs=2
group zero "$tmp/adamw.yaml" 3 "${rounds[@]}" share.round=2 share.moments=zero data.partition=iid train.epochs=2
group unequal "$tmp/sgd.yaml" 3 "${rounds[@]}" data.partition=dirichlet:0.7 train.epochs=2
params() { python3 -c '
import hashlib, json, struct, sys
f = open(sys.argv[1], "rb"); n = struct.unpack("<Q", f.read(8))[0]; h = json.loads(f.read(n)); d = f.read()
for k in sorted(h):
    if k != "__metadata__" and k.startswith("features.7"):
        a, b = h[k]["data_offsets"]; print(k, hashlib.md5(d[a:b]).hexdigest())' "$tmp/$1/model.safetensors"; }
[ -n "$(params keep/member-0)" ] || fail 'the model has no features.7'
for pair in 'keep/member-0 keep/member-2' 'unequal/member-0 unequal/member-1'; do
	read -r a b <<<"$pair"
	[ "$(params "$a")" = "$(params "$b")" ] || fail "$pair end with different middles"
done
for pair in 'keep average' 'average zero'; do
	read -r a b <<<"$pair"
	[ "$(params "$a/member-0")" != "$(params "$b/member-0")" ] || fail "share.moments: $pair make no difference"
done
# A member with fewer samples trains only its own.
[ "$(for k in 0 1 2; do steps_of unequal/member-$k; done | sort -u | wc -l)" -gt 1 ] || fail 'members with unequal data have equal steps'

# A group of one member has all turns and rounds: it equals a run without a group.
client plain "$tmp/adamw.yaml" --local || fail "plain: exit status $?"
for mode in serial 'rounds --set share.round=1'; do
	client alone "$tmp/adamw.yaml" --local --fresh --clients 1 --set $private --set share.mode=$mode || fail "alone, $mode: exit status $?"
	same_run alone/member-0 plain "$(steps_of plain)"
done

refused_beside 2 share.rows 'belongs to share.mode: sync' share.mode=serial share.rows=16
refused_beside 2 share.rows 'belongs to share.mode: sync' share.mode=rounds share.rows=16
refused_beside 2 share.round 'belongs to share.mode: rounds' share.round=3
refused_beside 2 share.moments 'belongs to share.mode: rounds' share.mode=serial share.moments=zero
refused_beside 2 share.round 'no whole rounds of 4: train.max_steps: 8 would be right' share.mode=rounds share.round=4
config=$tmp/sgd.yaml refused 78 'share.round: the run has ' --set share.group=g --set share.clients=2 --set share.mode=rounds --set share.round=4

start_client waits "$tmp/sgd.yaml" --set server="$endpoint" --set share.group=g --set share.clients=3
waiting=$client_pid
wait_for 'member 0 does not come' grep -q 'group-waits: group g: member 0 is here, 1 of 3' "$tmp/one.log"
refused_beside 3 share.clients 'the group g has 3, this client has 4' share.clients=4 share.member=1
refused_beside 3 share.mode 'has sync, this client has serial' share.mode=serial share.member=1
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
