#!/usr/bin/env bash
# A group with one head and tail for all over links equals the group in one process, byte for byte: a mean for each step
# (share.ends: step, also in mode serial) or each round, through codecs with error feedback, with members that were late
# or sent NaN. All members end with the same weights. A client with another head is refused. The simulator kills members
# and servers.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.002
feedback=(codec.end_grad='topk:0.1,ef=true|quant:8' codec.end_mean='topk:0.3,ef=true')

group two "$tmp/sgd.yaml" 2 share.ends=step data.partition=iid train.epochs=2 threads=2
one_model two 2
group three "$tmp/adamw.yaml" 3 share.ends=step data.partition=dirichlet:2 share.layers=all "${feedback[@]}" codec=qsgd:16
one_model three 3
group four "$tmp/sgd.yaml" 4 share.ends=step data.partition=by_label codec.end_grad=randomk:0.2 codec.end_mean=terngrad
one_model four 4
group batch "$tmp/sgd.yaml" 2 share.ends=step data.partition=batch model.name=resnet9 model.width=0.125 partition=3:-2
one_model batch 2
grep -q '"skipped":true' "$tmp"/*/log.jsonl && fail 'a step was skipped'

# The reference is one client that sums its chunks separately, because the server sums members that divide its batches
# like that.
set=(--set train.batch=24 --set train.chunks=4 --set train.chunk_sums=true --set train.optimizer.lr=0.001 --set model.name=mobilenet_v2 --set model.width=0.25 --set partition=3:-2)
as_local sums sums-local '' "$tmp/sgd.yaml" --set server="$endpoint" "${set[@]}"

# A shared embedding's gradient crosses as the touched rows, or as a whole vector: the same weights, with fewer bytes
# for rows.
cat >"$tmp/tokens.yaml" <<-YAML
	model: {name: token_mlp, classes: 2, vocab: 960, tokens: 24, width: 0.25, dropout: 0.2}
	head_end: up
	tail_begin: dense
	data: {kind: made_tokens, dir: ., train_limit: 56, test_limit: 24, partition: iid}
	train: {batch: 4, chunks: 2, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
	threads: 1
YAML
group rows "$tmp/tokens.yaml" 2 share.group=rows share.ends=step
group whole "$tmp/tokens.yaml" 2 share.group=whole share.ends=step share.layers=all
cmp "$tmp/rows-0/model.safetensors" "$tmp/whole-0/model.safetensors" || fail 'touched rows gave other weights'
end_bytes() { grep -E '^end_(grad|mean) ' "$tmp/$1-0.log" | awk '{s += $3} END {print int(100 * s)}'; }
[ $(($(end_bytes rows) * 5)) -lt "$(end_bytes whole)" ] || fail "touched rows took $(end_bytes rows) of $(end_bytes whole)"

# share.ends: round, for every treatment of the optimizer's moments, with members that pass the end of a round; and
# mode serial.
feedback_rounds=(codec.end_grad='topk:0.2,ef=true|quant:8' codec.end_mean='topk:0.4,ef=true')
rounds=(share.mode=rounds share.ends=round)
serial=(share.mode=serial share.ends=step)
group keep "$tmp/adamw.yaml" 3 "${rounds[@]}" share.round=2 data.partition=dirichlet:0.7 "${feedback_rounds[@]}" train.epochs=2
one_model keep 3
[ "$(for k in 0 1 2; do steps_of keep/member-$k; done | sort -u | wc -l)" -gt 1 ] || fail 'no member passed a step'
group average "$tmp/adamw.yaml" 3 "${rounds[@]}" share.round=2 share.moments=average data.partition=dirichlet:0.7 share.layers=all train.epochs=2
one_model average 3
group zero "$tmp/sgd.yaml" 2 "${rounds[@]}" share.round=3 share.moments=zero data.partition=iid train.epochs=2 codec.end_grad=randomk:0.5 codec=quant:8
one_model zero 2
group serial "$tmp/sgd.yaml" 3 "${serial[@]}" data.partition=dirichlet:0.7 "${feedback_rounds[@]}" train.epochs=2
one_model serial 3
group turns "$tmp/adamw.yaml" 2 "${serial[@]}" share.layers=all data.partition=iid model.name=resnet9 model.width=0.125 partition=3:-2
one_model turns 2
# Averaged heads and tails differ from private ones.
client private "$tmp/sgd.yaml" --local --clients 2 --set share.ends=private --set share.mode=rounds --set share.round=3 --set share.moments=zero \
	--set data.partition=iid --set train.epochs=2 --set codec=quant:8 || fail "private: exit status $?"
! cmp -s "$tmp/private/member-0/model.safetensors" "$tmp/zero/member-0/model.safetensors" || fail 'averaging made no difference'

# A member that pauses is late, and receives the mean of the step that it missed. Another one sends NaN once.
set=(--set share.ends=step --set train.epochs=1000 --set train.max_steps=24 --set train.eval_every=0 --set data.partition=iid
	--set share.patience_s=1 --set train.schedule.warmup_epochs=0 --set link.timeout_ms=60000 --set link.heartbeat_ms=20000 --set train.on_nan=skip)
for pair in "${feedback[@]}"; do set+=(--set "$pair"); done
points=(client.apply=delay:150@1+ 'client.begin=delay:3000@4' 'client.apply=delay:150@1+,client.check=EIO@2')
members late "$tmp/sgd.yaml" 3 "${set[@]}"
case ,$absent, in *,1:*,2:2,*) ;; *) fail "absent were $absent" ;; esac
as_told late "$tmp/sgd.yaml" 3 "$absent" "${set[@]}"
one_model late 3

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

# Two members whose runs differ in length have other rates of a cosine, and neither has most of the members. Head, middle
# and tail of both learn by the smaller rate, and the member with the larger one says so.
set=(--set server="$endpoint" --set share.group=rates --set share.clients=2 --set share.ends=step --set data.partition=iid
	--set train.schedule.kind=cosine --set train.schedule.warmup_epochs=0 --set train.eval_every=0)
start_client rates-0 "$tmp/sgd.yaml" "${set[@]}" --set share.member=0 --set train.epochs=1
short=$client_pid
start_client rates-1 "$tmp/sgd.yaml" "${set[@]}" --set share.member=1 --set train.epochs=2
ends_with "$short" 0 $patience 'the shorter run'
ends_with "$client_pid" 80 $patience 'the longer run, of which the other member has half'
rates() { jq -r 'select(.type == "step" and .step <= 6).lr' "$tmp/$1/log.jsonl"; }
[ "$(rates rates-0 | wc -l)" = 6 ] && [ "$(rates rates-0)" = "$(rates rates-1)" ] || fail "one head learns at $(rates rates-0), and the other at $(rates rates-1)"
grep -q '^WARN group-lr: step [2-6]: the group takes the learning rate .*, and this client.s is ' "$tmp/rates-1.log" || fail 'nobody tells the member of its learning rate'

# A client with another head is refused, and so is one with another codec for the mean.
start_client waits "$tmp/sgd.yaml" --set server="$endpoint" --set share.ends=step --set share.group=g --set share.clients=3
waiting=$client_pid
wait_for 'member 0 does not come' grep -q 'group-waits: group g: member 0 is here, 1 of 3' "$tmp/one.log"
refused_beside 3 share 'shares another head and tail' share.member=1 share.ends=step train.freeze=features.0.0.weight
refused_beside 3 share 'shares another head and tail' share.member=1 share.ends=step model.dropout=0.3
refused_beside 3 share.ends 'the group g has step, this client has private' share.member=1 share.ends=private
refused_beside 3 end_mean 'the group g has none, this client has quant:8' share.member=1 share.ends=step codec.end_mean=quant:8
kill -0 $waiting || fail 'a client that was refused ended another one'
signal TERM $waiting
ends_with $waiting 69 $patience 'a member that waits, and is interrupted'
echo "share_ends_link: ok, absent $absent"
