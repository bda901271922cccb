#!/usr/bin/env bash
# share.mode: rounds. Each member trains a copy of the middle, and the copies are averaged after every round: over links
# as in one process, byte for byte, for every treatment of the optimizer's moments. A late member takes no part in its
# round. If members or the server are killed inside a round, all go back to its beginning. Invalid settings are refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.01
private=share.ends=private # heads and tails of their own

group two "$tmp/sgd.yaml" 2 $private share.mode=rounds data.partition=iid train.epochs=2
feedback='topk:0.3,ef=true|quant:8'
group keep "$tmp/adamw.yaml" 3 $private share.mode=rounds share.round=2 data.partition=iid codec="$feedback" train.epochs=2
group average "$tmp/adamw.yaml" 3 $private share.mode=rounds share.round=2 share.moments=average data.partition=iid train.epochs=2
group zero "$tmp/adamw.yaml" 2 $private share.mode=rounds share.round=3 share.moments=zero data.partition=iid train.epochs=2
group unequal "$tmp/sgd.yaml" 3 $private share.mode=rounds data.partition=dirichlet:0.7 train.epochs=2
group four "$tmp/adamw.yaml" 4 $private share.mode=rounds share.round=3 share.moments=average data.partition=by_label train.chunks=3 threads=2 \
	codec.head_act=lowrank:2,warm=true codec.head_grad=lowrank:2,warm=true codec.mid_grad=qsgd:16
group weights "$tmp/sgd.yaml" 2 $private share.mode=rounds data.partition=iid model.weights="$tmp/two/member-0/model.safetensors"
params() { python3 -c '
import hashlib, json, struct, sys
f = open(sys.argv[1], "rb"); n = struct.unpack("<Q", f.read(8))[0]; h = json.loads(f.read(n)); d = f.read()
for k in sorted(h):
    if k != "__metadata__" and k.startswith("features.7"):
        a, b = h[k]["data_offsets"]; print(k, hashlib.md5(d[a:b]).hexdigest())' "$tmp/$1/model.safetensors"; }
[ -n "$(params two/member-0)" ] || fail 'the model has no features.7'
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

# A group of one member equals a run without a group.
client plain "$tmp/adamw.yaml" --local || fail "plain: exit status $?"
client alone "$tmp/adamw.yaml" --local --clients 1 --set $private --set share.mode=rounds --set share.round=1 || fail "alone: exit status $?"
same_run alone/member-0 plain "$(steps_of plain)"

# A member that pauses takes no part in that round, and its copy is replaced by the mean.
late_member late "$tmp/sgd.yaml" 5 30 --set $private --set share.mode=rounds --set share.round=3 --set data.partition=iid --set train.epochs=5

killed kills "$tmp/adamw.yaml" 48 $private share.mode=rounds share.round=4 train.checkpoint_every=5 codec="$feedback"
killed kills_average "$tmp/adamw.yaml" 48 $private share.mode=rounds share.round=4 share.moments=average train.checkpoint_every=4

refused_beside 2 share.rows 'belongs to share.mode: sync' share.mode=rounds share.rows=16
refused_beside 2 share.round 'belongs to share.mode: rounds' share.round=3
refused_beside 2 share.moments 'belongs to share.mode: rounds' share.mode=serial share.moments=zero
refused_beside 2 share.round 'no whole rounds of 4: train.max_steps: 8 would be right' share.mode=rounds share.round=4
config=$tmp/sgd.yaml refused 78 'share.round: the run has ' --set share.group=g --set share.clients=2 --set share.mode=rounds --set share.round=4
echo "share_rounds: ok, absent $absent"
