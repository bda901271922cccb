#!/usr/bin/env bash
# A group that averages heads and tails after every round (share.ends: round), and one that takes turns with one head
# and one tail (share.ends: step in mode serial): over links as in one process, byte for byte, through codecs with error
# feedback, for every treatment of the optimizer's moments, with members that pass the end of a round, are late or send
# NaN, and after kills of a member and of the server. All members end with the same weights.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.01
feedback=(codec.end_grad='topk:0.2,ef=true|quant:8' codec.end_mean='topk:0.4,ef=true')
rounds=(share.mode=rounds share.ends=round)
serial=(share.mode=serial share.ends=step)

group two "$tmp/sgd.yaml" 2 "${rounds[@]}" share.round=2 data.partition=iid train.epochs=2
one_model two 2
group keep "$tmp/adamw.yaml" 3 "${rounds[@]}" share.round=2 data.partition=dirichlet:0.7 "${feedback[@]}" train.epochs=2
one_model keep 3
[ "$(for k in 0 1 2; do steps_of keep/member-$k; done | sort -u | wc -l)" -gt 1 ] || fail 'no member passed a step'
group average "$tmp/adamw.yaml" 3 "${rounds[@]}" share.round=2 share.moments=average data.partition=dirichlet:0.7 share.layers=all train.epochs=2
one_model average 3
group zero "$tmp/sgd.yaml" 2 "${rounds[@]}" share.round=3 share.moments=zero data.partition=iid train.epochs=2 codec.end_grad=randomk:0.5 codec=quant:8
one_model zero 2
group serial "$tmp/sgd.yaml" 3 "${serial[@]}" data.partition=dirichlet:0.7 "${feedback[@]}" train.epochs=2
one_model serial 3
group turns "$tmp/adamw.yaml" 2 "${serial[@]}" share.layers=all data.partition=iid model.name=resnet9 model.width=0.125 partition=3:-2
one_model turns 2
# Averaged heads and tails differ from private ones.
client private "$tmp/sgd.yaml" --local --clients 2 --set share.ends=private --set share.mode=rounds --set share.round=2 --set data.partition=iid --set train.epochs=2 || fail "private: exit status $?"
! cmp -s "$tmp/private/member-0/model.safetensors" "$tmp/two/member-0/model.safetensors" || fail 'averaging made no difference'

# A round of one member equals a run without a group, except for the rounding of differences, which later steps amplify.
first=(--set train.max_steps=1 --set train.eval_every=0 --set train.schedule.warmup_epochs=0)
client plain "$tmp/adamw.yaml" --local "${first[@]}" || fail "plain: exit status $?"
client alone "$tmp/adamw.yaml" --local --clients 1 --set share.mode=rounds --set share.ends=round --set share.round=1 "${first[@]}" ||
	fail "alone: exit status $?"
python3 - "$tmp/plain" "$tmp/alone/member-0" <<'PY' || fail 'one member does not learn what a run without a group learns'
import array, json, struct, sys
def weights(folder):
    f = open(folder + "/model.safetensors", "rb"); n = struct.unpack("<Q", f.read(8))[0]; h = json.loads(f.read(n)); d = f.read()
    return {k: array.array("f", d[slice(*v["data_offsets"])]) for k, v in h.items() if k != "__metadata__" and v["dtype"] == "F32"}
a, b = map(weights, sys.argv[1:])
off = max(abs(x - y) / max(1, abs(x)) for n in a for x, y in zip(a[n], b[n]))
print("one member, off by", off)
sys.exit(not off < 1e-6)
PY

# A member that pauses is late: it takes no part in that round, and receives its mean. Another sends NaN in the last
# step of a round.
set=(--set share.mode=rounds --set share.ends=round --set share.round=3 --set share.straggler_s=1 --set data.partition=iid
	--set train.epochs=1000 --set train.max_steps=30 --set train.eval_every=0 --set link.timeout_ms=60000 --set link.heartbeat_ms=20000
	--set train.on_nan=skip --set train.schedule.warmup_epochs=0)
for pair in "${feedback[@]}"; do set+=(--set "$pair"); done
points=(client.apply=delay:150@1+ 'client.begin=delay:3000@5' 'client.apply=delay:150@1+,client.check=EIO@6')
members late "$tmp/sgd.yaml" 3 "${set[@]}"
case ,$absent, in *,1:*,2:6,*) ;; *) fail "absent were $absent" ;; esac
# In one process the check finds NaN where member 2 did: it checks the three members of each step one by one.
absent=${absent%,2:6}
SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.check=EIO@18 as_told late "$tmp/sgd.yaml" 3 "$absent" "${set[@]}"
one_model late 3

killed kills "$tmp/adamw.yaml" 44 "${rounds[@]}" share.round=2 train.checkpoint_every=5 "${feedback[@]}"
one_model kills 3
killed kills_average "$tmp/adamw.yaml" 48 "${rounds[@]}" share.round=2 share.moments=average train.checkpoint_every=4
killed kills_serial "$tmp/adamw.yaml" 40 "${serial[@]}" train.checkpoint_every=5 "${feedback[@]}"
one_model kills_serial 3
echo "share_ends_round: ok, absent $absent"
