#!/usr/bin/env bash
# A group with one head and tail for all (share.ends: step) over links equals the group in one process, byte for byte:
# through codecs with error feedback, over kills of a member and of the server, and with members that were late or sent
# NaN. All members end with the same weights. A client with another head is refused.
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

# A member is killed, then the server: the checkpoints restore the codecs' residuals of members and server.
killed kills "$tmp/adamw.yaml" 40 share.ends=step train.checkpoint_every=5 "${feedback[@]}"
one_model kills 3

# A member that pauses is late, and receives the means of the steps that it missed. Another one sends NaN once.
set=(--set share.ends=step --set train.epochs=1000 --set train.max_steps=24 --set train.eval_every=0 --set data.partition=iid
	--set share.straggler_s=1 --set train.schedule.warmup_epochs=0 --set link.timeout_ms=60000 --set link.heartbeat_ms=20000 --set train.on_nan=skip)
for pair in "${feedback[@]}"; do set+=(--set "$pair"); done
points=(client.apply=delay:150@1+ 'client.begin=delay:3000@4' 'client.apply=delay:150@1+,client.check=EIO@2')
members late "$tmp/sgd.yaml" 3 "${set[@]}"
case ,$absent, in *,1:*,2:2,*) ;; *) fail "absent were $absent" ;; esac
as_told late "$tmp/sgd.yaml" 3 "$absent" "${set[@]}"
one_model late 3

# Two members whose runs differ in length have other rates of a cosine, and neither has most of the members. Head, middle
# and tail of both learn by the smaller rate, and the member with the larger one says so.
set=(--set server="$endpoint" --set share.group=rates --set share.clients=2 --set share.ends=step --set data.partition=iid
	--set train.schedule.kind=cosine --set train.schedule.warmup_epochs=0 --set train.eval_every=0)
start_client rates-0 "$tmp/sgd.yaml" "${set[@]}" --set share.member=0 --set train.epochs=1
short=$client_pid
start_client rates-1 "$tmp/sgd.yaml" "${set[@]}" --set share.member=1 --set train.epochs=2
ends_with "$short" 0 $patience 'the shorter run'
ends_with "$client_pid" 0 $patience 'the longer run'
rates() { jq -r 'select(.type == "step" and .step <= 6).lr' "$tmp/$1/log.jsonl"; }
[ "$(rates rates-0 | wc -l)" = 6 ] && [ "$(rates rates-0)" = "$(rates rates-1)" ] || fail "one head learns at $(rates rates-0), and the other at $(rates rates-1)"
grep -q '^WARN group-lr: step [2-6]: the group takes the learning rate .*, and this client.s is ' "$tmp/rates-1.log" || fail 'nobody tells the member of its learning rate'

# A client with another head is refused, and so is one with another codec for the mean.
start_client waits "$tmp/sgd.yaml" --set server="$endpoint" --set share.ends=step --set share.group=g --set share.clients=3
waiting=$client_pid
wait_for 'member 0 does not come' grep -q 'group-waits: group g: member 0 is here, 1 of 3' "$tmp/one.log"
refused_beside 3 share 'shares another head and tail' share.member=1 share.ends=step train.freeze=features.0.0.weight
refused_beside 3 share.ends 'the group g has step, this client has private' share.member=1 share.ends=private
refused_beside 3 end_mean 'the group g has none, this client has quant:8' share.member=1 share.ends=step codec.end_mean=quant:8
kill -0 $waiting || fail 'a client that was refused ended another one'
signal TERM $waiting
ends_with $waiting 69 $patience 'a member that waits, and is interrupted'
echo "share_ends_link: ok, absent $absent"
