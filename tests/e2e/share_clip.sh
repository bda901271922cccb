#!/usr/bin/env bash
# train.clip_norm in a group. With private heads and tails, and in rounds, each member clips the gradient of its own
# model; with shared heads and tails, the norm is that of the whole step. Over links each mode equals the group in one
# process, byte for byte, with unequal batches, codecs that keep state, optimizers with moments, and over a kill of a
# member.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.01
private=share.ends=private # heads and tails of their own
iid=data.partition=iid
clip=train.clip_norm=0.5

group sync "$tmp/sgd.yaml" 3 $private data.partition=dirichlet:2 $clip 'codec=topk:0.3,ef=true|quant:8'
group serial "$tmp/sgd.yaml" 2 $private $iid $clip share.mode=serial
group rounds "$tmp/adamw.yaml" 2 $private $iid $clip share.mode=rounds share.round=2 train.max_steps=4
group round "$tmp/sgd.yaml" 2 $iid $clip share.mode=rounds share.ends=round share.round=2 train.max_steps=4 codec.end_grad=topk:0.3,ef=true
group step "$tmp/adamw.yaml" 3 data.partition=dirichlet:2 $clip share.ends=step codec.end_grad=qsgd:64 codec.end_mean=quant:8
group turns "$tmp/sgd.yaml" 2 $iid $clip share.mode=serial share.ends=step
grep -q '"skipped":true' "$tmp"/*/log.jsonl && fail 'a step was skipped'

# The logged norm is that of the member's own model before clipping; clipping has an effect in each case.
norms() { grep -o '"grad_norm":[^,}]*' "$tmp/$1/log.jsonl" | cut -d: -f2; }
for name in sync serial rounds round; do
	[ -n "$(norms $name-0)" ] && norms $name-0 | awk '$1 > 0.5 { n++ } END { exit !n }' || fail "$name: no norm above 0.5: $(norms $name-0)"
done
for name in step turns; do [ -z "$(norms $name-0)" ] || fail "$name: a member tells a norm of its own"; done
client plain "$tmp/sgd.yaml" --local --clients 2 --set $iid --set share.mode=serial --set share.ends=step || fail "plain: $?"
[ "$(learned plain/member-0)" != "$(learned turns-0)" ] || fail 'clipping made no difference'
# a member and the server are killed
sed -i 's/lr: 0.01/lr: 0.002/' "$tmp/sgd.yaml"
killed torn "$tmp/sgd.yaml" 24 $clip train.checkpoint_every=4 share.mode=rounds share.ends=round share.round=4
echo "share_clip: ok"
