#!/usr/bin/env bash
# Members of a group in one process, with private heads and tails: a group of one equals a run without a group;
# partitions of data; an absent member changes only the others' sum; invalid keys are refused with their place.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 56 24
write_config "$tmp/client.yaml" # batches of 16, 16, 16 and 8
config=$tmp/client.yaml
calm=(train.optimizer.lr=0.002)

# run NAME [argument]… -- [key=value]…
run() {
	local name=$1 args=() set=()
	shift
	while [ $# -gt 0 ] && [ "$1" != -- ]; do args+=("$1"); shift; done
	[ $# = 0 ] || shift
	case " ${args[*]} " in *' --clients '*) set+=(--set share.ends=private) ;; esac
	for pair in "$@"; do set+=(--set "$pair"); done
	client "$name" "$config" --local ${args[@]+"${args[@]}"} ${set[@]+"${set[@]}"} || fail "$name: exit status $?"
}

# A group of one member equals a run without a group.
for case in '' 'train.drop_last=true codec=topk:0.2,ef=true|quant:8 train.clip_norm=0.5' 'model.name=resnet9 model.width=0.125 partition=3:-2'; do
	read -r -a set <<<"$case"
	run 'plain' --fresh -- ${set[@]+"${set[@]}"}
	run 'one' --fresh --clients 1 -- ${set[@]+"${set[@]}"}
	same_run one/member-0 plain "$(steps_of plain)"
done

# Every partition of data can be trained, and all members have the same steps.
for parts in files iid by_label dirichlet:1 batch; do
	run "parts $parts" --clients 3 -- data.partition=$parts train.batch=4 train.chunks=1 "${calm[@]}"
	for k in 0 1 2; do
		[ "$(steps_of "parts $parts/member-$k")" = "$(steps_of "parts $parts/member-0")" ] ||
			fail "data.partition=$parts: members have different steps"
	done
	[ "$(learned "parts $parts/member-0")" != "$(learned "parts $parts/member-1")" ] ||
		fail "data.partition=$parts: members learned from the same samples"
done
[ "$(steps_of 'parts batch/member-0')" = 4 ] || fail 'a batch of 3 × 4 samples out of 56 is not taken 4 times'
[ "$(steps_of 'parts iid/member-0')" = 5 ] || fail '19 samples are not 5 batches'

# There is one middle: members end with equal parameters of it, and with different heads and tails.
params() { python3 -c '
import json, struct, sys
f = open(sys.argv[1], "rb"); n = struct.unpack("<Q", f.read(8))[0]; h = json.loads(f.read(n)); d = f.read()
for k in sorted(h):
    if k != "__metadata__" and k.startswith(sys.argv[2]):
        a, b = h[k]["data_offsets"]; print(k, hash(d[a:b]))' "$1" "$2"; }
export PYTHONHASHSEED=0
middle() { params "$tmp/$1/model.safetensors" features.7; }
tail_of() { params "$tmp/$1/model.safetensors" classifier; }
[ -n "$(middle 'parts iid/member-0')" ] || fail 'the model has no features.7'
[ "$(middle 'parts iid/member-0')" = "$(middle 'parts iid/member-2')" ] || fail 'members have different middles'
[ "$(tail_of 'parts iid/member-0')" != "$(tail_of 'parts iid/member-2')" ] || fail 'members have one tail'

# absent members
run absent --clients 3 --absent 1:2,1:3 -- data.partition=iid train.batch=4 train.chunks=1 "${calm[@]}"
[ "$(grep -c '"skipped":true' "$tmp/absent/member-1/log.jsonl")" = 2 ] || fail 'member 1 was not absent twice'
! grep -q '"skipped":true' "$tmp/absent/member-0/log.jsonl" || fail 'member 0 was absent, too'
[ "$(middle absent/member-0)" != "$(middle 'parts iid/member-0')" ] || fail 'absence made no difference'

# A member that has left affects the others as a late member does. It has no lines in the log meanwhile, and returns at
# the group's step.
for how in 1:1,1:2,1:3,1:4,1:7,1:8 1:1-4,1:7-8; do
	run "gone $how" --clients 3 --absent $how -- data.partition=iid train.batch=4 train.chunks=1 train.epochs=2 train.eval_every=0 "${calm[@]}"
done
for k in 0 1 2; do
	cmp "$tmp/gone 1:1-4,1:7-8/member-$k/model.safetensors" "$tmp/gone 1:1,1:2,1:3,1:4,1:7,1:8/member-$k/model.safetensors" ||
		fail "member $k: one that is away leaves other weights than one that is late"
done
for k in 0 2; do same_run "gone 1:1-4,1:7-8/member-$k" "gone 1:1,1:2,1:3,1:4,1:7,1:8/member-$k" 10; done
[ "$(grep -o '"type":"step","step":[0-9]*' "$tmp/gone 1:1-4,1:7-8/member-1/log.jsonl" | grep -o '[0-9]*$' | paste -sd' ')" = '5 6 9 10' ] ||
	fail 'a member that is away has lines, or lacks some'

# Two of three members equal a group of two.
run 'two of three' --clients 3 --absent 2:1-99 -- train.batch=4 train.chunks=1 share.rows=12 "${calm[@]}"
run 'two' --clients 2 -- train.batch=4 train.chunks=1 share.rows=12 "${calm[@]}"
for k in 0 1; do same_run "two of three/member-$k" "two/member-$k" 14; done

# A member alone uses its part of the data, independently of the others. Its first round in mode rounds is the same.
rounds=(share.mode=rounds data.partition=dirichlet:2 train.batch=4 train.chunks=1 "${calm[@]}"
	train.schedule.kind=constant train.schedule.warmup_epochs=0)
run together --clients 3 -- "${rounds[@]}"
run alone --clients 3 --alone 0 -- "${rounds[@]}"
losses() { grep '"type":"step"' "$tmp/$1/log.jsonl" | grep -oE '"loss":[^,]*'; }
[ "$(losses alone)" = "$(losses together/member-0)" ] || fail 'member 0 alone does not learn what it learns in the first round'
run 'alone 1' --clients 3 --alone 1 -- "${rounds[@]}"
[ "$(steps_of 'alone 1')" = "$(steps_of together/member-1)" ] || fail 'member 1 alone has other data than in the group'
# A round leaves out members whose weights overflow, here by a weight decay that multiplies them by -999. Where none is
# left, all go on with what they had.
run overflows --clients 2 -- share.mode=rounds share.round=1 data.partition=iid train.batch=4 train.chunks=1 train.epochs=2 train.on_nan=skip \
	train.optimizer.lr=1000 train.schedule.kind=constant train.schedule.warmup_epochs=0 'train.groups=features.7.conv.0.1.weight weight_decay=1,* lr=0'
[ "$(grep -c '^WARN step-skipped: step 1[234]: NaN or Inf in the weights that this member trained in the round' "$tmp/overflows.log")" = 6 ] ||
	fail 'members whose weights overflow are in the average'
# A member learns the same in every seat.
for k in 1 9 10 15; do
	run "seat $k" --clients 16 --alone $k -- data.partition=files train.batch=16 train.chunks=2 "${calm[@]}"
	[ "$(losses "seat $k")" = "$(losses 'seat 1')" ] || fail "member $k alone learns otherwise than member 1"
done

# refused KEY PHRASE [argument]…
refused() {
	local key=$1 phrase=$2 rc=0
	shift 2
	client refused "$config" "$@" || rc=$?
	[ $rc -ge 64 ] && grep -q "$key" "$tmp/refused.log" && grep -q "$phrase" "$tmp/refused.log" ||
		fail "$*: status $rc, and not a word on $key: $phrase"
}
refused share.clients 'needs the name of a group' --local --set share.clients=3
refused data.partition 'needs a name in share.group' --local --set data.partition=iid
refused share.member 'must be below share.clients (2), got 2' --local --set share.group=g --set share.member=2
refused share.group 'letters, digits' --local --set share.group='a b'
refused train.chunk_loss 'sum is not possible' --local --clients 2 --set train.chunk_loss=sum
refused data.partition 'dirichlet:ALPHA' --local --clients 2 --set data.partition=dirichlet:x
refused data.partition 'divides one set that all members have' --local --clients 2 --set data.partition=iid --set data.dir="$tmp/site-%m"
refused data.partition 'gets none' --local --clients 60 --set data.partition=iid
refused train.batch 'make no batch' --local --clients 4 --set data.partition=batch
for wrong in 0 257 2x -1; do
	refused share.clients 'a whole number from 1 to 256 (members)' --local --set share.group=g --set share.clients=$wrong
done
# keys of earlier versions name what is right now
refused share.clients 'what 2..8 was is share.clients: 8, share.quorum: 2 and share.least: 0' --local --set share.group=g --set share.clients=2..8
refused share.straggler_s 'share.patience_s says how long a step waits for a member; share.straggler_s: 0 is share.least: 1 now' --local --set share.group=g --set share.straggler_s=9
refused share.quorum 'must be at most share.clients (3), got 4' --local --set share.group=g --set share.clients=3 --set share.quorum=4
refused share.least '0 does not go with share.mode: serial' --local --set share.group=g --set share.least=0 --set share.mode=serial
for wrong in -0.1 1.1 x; do refused share.least 'from 0 to 1' --local --set share.group=g --set share.least=$wrong; done
refused share.unmet 'wait' --local --set share.group=g --set share.unmet=x
refused clients 'need --local' --clients 2
refused alone 'need --local' --alone 1
refused alone 'give one of' --local --clients 2 --alone 1 --absent 1:1
refused share.member 'must be below share.clients (2), got 2' --local --clients 2 --alone 2
refused share.member 'needs the name of a group' --local --alone 0
refused data.partition 'a member alone has no part' --local --clients 2 --alone 0 --set data.partition=batch
refused absent 'MEMBER:STEP' --local --clients 2 --absent 1
refused absent 'MEMBER:STEP' --local --clients 2 --absent 1:4-2
refused absent 'names step 99, and the run ends with step ' --local --clients 2 --absent 1:1,0:99-120
refused absent 'there is no member 2 in a group of 2' --local --clients 2 --absent 1:3,2:3
refused absent 'there is no member 0 in a group of 0, see --clients' --local --absent 0:3
refused absent 'leaves nobody in step 2' --local --clients 2 --absent 0:2-3,1:2-2 --set share.ends=private
refused absent 'MEMBER:STEP' --local --clients 2 --absent 1:2-3@4
refused absent 'MEMBER:STEP' --local --clients 2 --absent 1:2@1
refused absent 'MEMBER:STEP' --local --clients 2 --absent 1:2-3@
refused absent 'comes back in step 4, inside a round of 2 steps' --local --clients 2 --absent 1:2-3 --set share.ends=private --set share.mode=rounds \
	--set share.moments=zero --set share.round=2
client again "$config" --local --clients 2 --set "${calm[0]}" --set data.partition=iid || fail "again: $?"
refused member-0 'holds a trained model' --local --clients 2 --set log.dir="$tmp/again"
echo "share: ok"
