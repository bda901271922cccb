#!/usr/bin/env bash
# Members with shared head and tail (share.ends: step): their files are equal at the end, whatever codec the gradients
# passed and whoever was late. Members that divide a common batch learn what one client learns, to the bit. Invalid
# settings are refused with their place.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
write_config "$tmp/client.yaml"
sed -i 's/chunks: 4/chunks: 1/; s/lr: 0.05/lr: 0.002/' "$tmp/client.yaml"

# run NAME [argument]… -- [key=value]…
run() {
	local name=$1 args=() set=()
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do args+=("$1"); shift; done
	[ $# = 0 ] || shift
	for pair in "$@"; do set+=(--set "$pair"); done
	client "$name" "$tmp/client.yaml" --local ${args[@]+"${args[@]}"} ${set[@]+"${set[@]}"} || fail "$name: exit status $?"
}
# one_model NAME CLIENTS: all members wrote the same weights
one_model() {
	for ((k = 1; k < $2; k++)); do
		cmp "$tmp/$1/member-0/model.safetensors" "$tmp/$1/member-$k/model.safetensors" || fail "$1: members 0 and $k differ"
	done
}

# K members that divide a common batch learn what one client learns that has the whole batch in K chunks and sums each
# chunk separately: the same losses and weights, to the bit.
common=(train.epochs=2 train.drop_last=true)
# as_one K [key=value]…: succeeds if they do.
as_one() {
	local k=$1
	shift
	run one --fresh -- "${common[@]}" train.chunk_sums=true train.batch=24 train.chunks="$k" "$@"
	run parts --fresh --clients "$k" -- "${common[@]}" share.ends=step data.partition=batch "$@" train.batch=$((24 / k))
	one_model parts "$k"
	python3 - "$tmp/one" "$tmp/parts" "$k" <<'PY'
import json, struct, sys
def weights(folder):
    f = open(folder + "/model.safetensors", "rb"); n = struct.unpack("<Q", f.read(8))[0]; h = json.loads(f.read(n)); d = f.read()
    return {k: d[slice(*v["data_offsets"])] for k, v in h.items() if k != "__metadata__"}
def losses(folder):
    return [l["loss"] for l in map(json.loads, open(folder + "/log.jsonl")) if l["type"] == "step"]
one, k = sys.argv[1], int(sys.argv[3])
members = ["%s/member-%d" % (sys.argv[2], i) for i in range(k)]
a, b, loss = weights(one), weights(members[0]), losses(one)
mean = [sum(at) / k for at in zip(*map(losses, members))]
off = [n for n in a if a[n] != b[n]]
# means of thirds round in another way than a mean of all
same = len(mean) == len(loss) == 8 and all(abs(x - y) <= 1e-15 * x for x, y in zip(loss, mean))
print(k, "members:", len(off), "of", len(a), "tensors differ", off[:3], "" if same else "and losses do")
sys.exit(not (same and not off))
PY
}
mobilenet=(model.name=mobilenet_v2 model.width=0.25 partition=3:-2)
for k in 2 3 4; do
	as_one $k "${mobilenet[@]}" || fail "$k members do not learn as one client does"
done
for case in 'model.name=resnet9 model.width=0.125 partition=3:-2 codec=topk:0.3,ef=true|quant:8' \
	'model.name=alexnet model.width=0.125 partition=2:-2 train.clip_norm=0.5' 'model.name=mobilenet_v2 model.width=0.25 partition=3:-2 codec=qsgd:16 threads=2'; do
	read -r -a set <<<"$case"
	as_one 4 "${set[@]}" train.optimizer.kind=adamw train.optimizer.lr=0.001 || fail "4 members do not learn as one client of $case does"
done
! as_one 2 "${mobilenet[@]}" train.chunk_sums=false || fail 'sums that go from chunk to chunk make no difference: is train.chunk_sums read?'

# Every codec; an absent member receives the mean, too.
small=(share.ends=step data.partition=iid train.batch=4)
run none --clients 3 -- "${small[@]}"
one_model none 3
n=0
for codec in 'topk:0.1,ef=true' 'randomk:0.2' 'threshold:0.001' 'adaptive:0.5,ef=true' terngrad 'qsgd:255' 'quant:8' 'topk:0.3|quant:8|zstd:3'; do
	for layers in each all; do
		n=$((n + 1)) name=code$n
		run "$name" --clients 3 --absent 1:2,2:3 -- "${small[@]}" share.layers=$layers codec.end_grad="$codec" codec.end_mean="$codec"
		one_model "$name" 3
		! cmp -s "$tmp/none/member-0/model.safetensors" "$tmp/$name/member-0/model.safetensors" || fail "$layers $codec made no difference"
	done
done
[ "$(grep -c '"skipped":true' "$tmp/code1/member-1/log.jsonl")" = 1 ] || fail 'member 1 was not absent'
run nobody --clients 2 --absent 0:2,1:2 -- "${small[@]}" share.rows=8
one_model nobody 2
run adam --clients 2 -- "${small[@]}" train.optimizer.kind=adamw train.optimizer.lr=0.001 share.layers=all codec.end_grad=qsgd:16
one_model adam 2

# refused KEY PHRASE [argument]…
refused() {
	local key=$1 phrase=$2 rc=0
	shift 2
	client refused "$tmp/client.yaml" "$@" || rc=$?
	[ $rc -ge 64 ] && grep -q "$key" "$tmp/refused.log" && grep -q "$phrase" "$tmp/refused.log" ||
		fail "$*: status $rc, and not a word on $key: $phrase"
}
# If the config does not say whether members share heads and tails, the default depends on the mode.
for default in sync:step serial:step rounds:round; do
	"$SPLITC" train "$tmp/client.yaml" --set share.group=g --set share.mode="${default%:*}" --print-config | grep -qx " *ends: ${default#*:}" ||
		fail "share.ends in mode ${default%:*} is not ${default#*:}"
done
run default --clients 3 -- data.partition=iid train.batch=4
for k in 0 1 2; do cmp "$tmp/none/member-$k/model.safetensors" "$tmp/default/member-$k/model.safetensors" || fail "member $k: the default is not step"; done

refused share.ends 'needs the name of a group' --local --set share.ends=step
refused share.ends 'share.mode: rounds: take private or round' --local --clients 2 --set share.ends=step --set share.mode=rounds
refused share.ends 'share.mode: sync: take private or step' --local --clients 2 --set share.ends=round
refused codec.end_grad 'share.ends: step' --local --clients 2 --set share.ends=private --set codec.end_grad=quant:8
refused share.layers 'share.ends: step' --local --clients 2 --set share.ends=private --set share.layers=all
refused codec.end_mean 'positions' --local --clients 2 --set share.ends=step --set codec.end_mean=lowrank:2
refused share.ends 'nothing in head and tail learns' --local --clients 2 --set share.ends=step --set model.name=vgg16 --set model.width=0.05 --set partition=1:-1 \
	--set train.freeze=features.0.*,classifier.*
echo "share_ends: ok"
