#!/usr/bin/env bash
# A group over links equals the group in one process, byte for byte: losses of every member and step, and weights, in
# each mode. With dropout, batch norm, ragged chunks, several optimizers and codecs that keep state. Settings that do not
# go together, clients that may not join, and data that do not fit are refused with the key. A message is lost on a link
# that stays up; a member that comes back once the others have ended gets their model. The simulator kills members and servers.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/groups.sh
begin_groups 0.01
private=share.ends=private # heads and tails of their own

group two "$tmp/sgd.yaml" 2 $private data.partition=iid train.epochs=2 train.keep_best=true
for k in 0 1; do cmp "$tmp/two-$k/best.safetensors" "$tmp/two/member-$k/best.safetensors" || fail 'the best weights differ'; done
# An evaluation leaves a member's model, though the config has other steps.
"$SPLITC" eval "$tmp/sgd.yaml" --set server="$endpoint" --set log.dir="$tmp/two-0" --set share.group=two --set share.clients=2 --set share.member=0 --set train.epochs=3 >"$tmp/eval.log" 2>&1 ||
	fail "an evaluation of a member's model: $(tail -n 1 "$tmp/eval.log")"
[ -e "$tmp/two-0/model.safetensors" ] || fail 'an evaluation has removed the model'
group three "$tmp/adamw.yaml" 3 $private data.partition=dirichlet:2 codec='topk:0.3,ef=true|quant:8'
group four "$tmp/adamw.yaml" 4 $private data.partition=by_label train.chunks=3 codec.head_act=lowrank:2,warm=true codec.head_grad=lowrank:2,warm=true threads=2
group weighted "$tmp/sgd.yaml" 2 $private data.partition=iid train.epochs=2 train.class_weights=1,2,3,4,5,6,7,8,9,0.5
[ "$(learned weighted/member-0)" != "$(learned two/member-0)" ] || fail 'train.class_weights do not count in a group'
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
refused_beside 3 share.member_norm 'the group g has 0, this client has 3' share.member_norm=3 share.member=1
refused_beside 3 share.patience_s 'the group g has 0, this client has 3' share.patience_s=3 share.member=1
refused_beside 3 'group g' 'trains another middle' partition=2:-1 share.member=1
refused_beside 3 share.member 'another client is member 0 of group g' share.member=0
wait_for 'member 0 does not say what it waits for' grep -q 'INFO group-waits: tcp.* has answered; group g goes on once enough of its 3 members are there' "$tmp/waits.log"
"$SPLITS" status --control "$tmp/one.sock" >"$tmp/status"
grep -q 'member 0 of 3 in group g, which has done 0 steps; 1 is there; missing: 1 (refused: group g trains another middle' "$tmp/status" || fail "splits status does not say who is there: $(cat "$tmp/status")"
kill -0 $waiting || fail 'a client that was refused ended another one'
signal TERM $waiting
ends_with $waiting 69 $patience 'a member that waits, and is interrupted'

# ---- a message is lost on a link that stays up: the group, which does no step without a member, goes on behind link.stall_s,
# also with on_server_lost: exit
set=(--set share.clients=2 --set share.least=1 --set data.partition=iid --set link.stall_s=2 --set link.heartbeat_ms=200
	--set link.timeout_ms=60000 --set link.retry_ms=20 --set codec=topk:0.5,ef=true)
client lossless "$tmp/sgd.yaml" "${set[@]}" --local --set share.group=g || fail "in one process: exit status $?"
# loses DIR KIND NTH: that message of member 1, and all later ones of that link, are lost; heartbeats and credit are not.
loses() {
	local name=$1-$2 k pid=()
	"$TOOLS/faulty_link" "${endpoint##*:}" mute "$@" >"$tmp/$name.relay" &
	started+=($!)
	wait_for 'the relay' test -s "$tmp/$name.relay"
	for k in 0 1; do
		start_client "$name-$k" "$tmp/sgd.yaml" "${set[@]}" --set share.group="$name" --set share.member=$k \
			--set server="$([ $k = 0 ] && echo "$endpoint" || echo "tcp://127.0.0.1:$(cat "$tmp/$name.relay")")"
		pid[k]=$client_pid
	done
	for k in 0 1; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	for k in 0 1; do same_run "$name-$k" "lossless/member-$k" "$(steps_of "lossless/member-$k")"; done
	grep -q 'server-lost: .*nothing but heartbeats for 2 s (link.stall_s' "$tmp/$name-1.log" || fail "$name: member 1 has not noticed"
}
loses up mid_grad 3
loses down committed 2

# ---- a member is killed, and the others end without it: it gets the last state, and ends with their model
set=(--set share.group=behind --set share.clients=3 --set share.patience_s=1 --set share.least=0 --set data.partition=iid
	--set train.checkpoint_every=2 --set train.epochs=2)
for k in 0 2; do
	start_client behind-$k "$tmp/sgd.yaml" "${set[@]}" --set share.member=$k
	pid[k]=$client_pid
done
client_dies client.apply@4 behind-1 "$tmp/sgd.yaml" "${set[@]}" --set share.member=1
for k in 0 2; do ends_with "${pid[k]}" 0 $patience "behind, member $k"; done
client behind-1 "$tmp/sgd.yaml" "${set[@]}" --set share.member=1 --resume || fail "the member that comes back: status $?, $(tail -n 1 "$tmp/behind-1.log")"
one_model behind 3

# ---- members with files of their own, of 6, 4 and 2 batches
for k in 0 1 2; do
	cp -r "$tmp/data" "$tmp/site-$k"
	truncate -s $(((48 - 20 * k + 4 * (k / 2)) * 3073)) "$tmp/site-$k/data_batch_1.bin"
done
sed "s|$tmp/data|$tmp/site-%m|; s/train_limit: [0-9]*/train_limit: 0/" "$tmp/adamw.yaml" >"$tmp/sites.yaml"
set=(--set share.clients=3 --set share.least=1 --set share.ends=private --set train.epochs=3 --set train.checkpoint_every=2 --set train.schedule.warmup_epochs=0
	--set codec='topk:0.5,ef=true' --set link.retry_ms=50 --set link.on_server_lost=wait)
begin() { # GROUP MEMBER [argument]…
	start_client "$1-$2" "$tmp/sites.yaml" "${set[@]}" --set share.group="$1" --set share.member="$2" "${@:3}"
	pid[$2]=$client_pid
}
# unfit NAME PHRASE MEMBERS [key=value]…: each of the members ends with that sentence.
unfit() {
	local name=$1 phrase=$2 k more=()
	for pair in "${@:4}"; do more+=(--set "$pair"); done
	for k in $3; do begin "$name" $k "${more[@]}" --set link.on_server_lost=exit; done
	for k in $3; do
		wait_for "$name: member $k goes on" eval "! kill -0 ${pid[k]}"
	done
	cat "$tmp/$name"-[0-2].log >"$tmp/$name.log"
	grep -q "$phrase" "$tmp/$name.log" || fail "$name: nobody says $phrase"
}
begin other 0 --set share.wait_s=3
wait_for 'member 0 does not wait' grep -q 'group other: member 0 is here' "$tmp/one.log"
unfit other 'an epoch of group other has 6 steps, one of this client has 4: where members have unequal data, all need the same share.epoch_steps' 1 share.wait_s=3
# A member whose group cannot become complete ends in time, and says why.
ends_with "${pid[0]}" 78 $patience 'other, member 0'
grep -q 'group other was not complete within 3 s: missing are members 1 (refused: share.epoch_steps: an epoch of group other.*), 2$' \
	"$tmp/other-0.log" || fail "the member that waits does not say for whom: $(cat "$tmp/other-0.log")"
begin alone 0 --set share.wait_s=1 --set link.on_server_lost=exit
ends_with "${pid[0]}" 69 $patience 'alone, member 0'
grep -q 'group alone was not complete within 1 s: missing are members 1, 2$' "$tmp/alone-0.log" ||
	fail "the member that is alone says something else: $(cat "$tmp/alone-0.log")"
begin net 0 --set share.wait_s=3 --set share.epoch_steps=6
wait_for 'member 0 does not wait' grep -q 'group net: member 0 is here' "$tmp/one.log"
unfit net 'group net trains another middle' 1 share.wait_s=3 share.epoch_steps=6 model.width=0.5
ends_with "${pid[0]}" 78 $patience 'net, member 0'
grep -q 'missing are members 1 (refused: group net trains another middle.*), 2$' "$tmp/net-0.log" ||
	fail "the member that waits does not say who was refused: $(cat "$tmp/net-0.log")"
begin every 0 --set share.wait_s=3 --set share.epoch_steps=6
wait_for 'member 0 does not wait' grep -q 'group every: member 0 is here' "$tmp/one.log"
unfit every "^splitc: .*set train.checkpoint_every: .*the group every has" 1 share.wait_s=3 share.epoch_steps=6 train.checkpoint_every=7
ends_with "${pid[0]}" 78 $patience 'every, member 0'
begin serial 0 --set share.wait_s=3 --set share.mode=serial
wait_for 'member 0 does not wait' grep -q 'group serial: member 0 is here' "$tmp/one.log"
unfit serial 'one of this client has 12: where members have unequal data, all need the same share.batches' 1 share.wait_s=3 share.mode=serial
ends_with "${pid[0]}" 78 $patience 'serial, member 0'
grep -q 'missing are members 1 (refused: share.batches: an epoch of group serial' "$tmp/serial-0.log" || fail "the wrong key is named: $(tail -n 1 "$tmp/serial-0.log")"
begin listed 0 --set share.mode=serial --set share.batches=6,4,2
wait_for 'member 0 does not wait' grep -q 'group listed: member 0 is here' "$tmp/one.log"
unfit listed "share.batches: .*this client's list is another than that of group listed" 1 share.mode=serial share.batches=5,4,3
unfit listed 'this client is member 2, and its data make 2 batches of train.batch, not 3' 2 share.mode=serial share.batches=6,4,3
end_process "${pid[0]}"
sed -i 's|site-%m|site-0|' "$tmp/sites.yaml"
# Members that divide one set in different ways would have samples of each other.
begin dealt 0 --set data.partition=iid
wait_for 'member 0 does not wait' grep -q 'group dealt: member 0 is here' "$tmp/one.log"
unfit dealt 'division of the data is not that of group dealt.*the same data.partition, data.split' 1 data.partition=by_label
unfit dealt 'division of the data is not that of group dealt' 1 data.partition=iid data.train_limit=47
end_process "${pid[0]}"
wrong() {
	local rc=0
	client wrong "$tmp/sites.yaml" --local "${set[@]}" --set share.group=wrong "${@:2}" || rc=$?
	[ $rc -ge 64 ] && grep -q "$1" "$tmp/wrong.log" || fail "$*: status $rc"
}
wrong 'share.batches: needs a number for each of the 3 members' --set share.mode=serial --set share.batches=6,4
wrong 'share.batches: belongs to share.mode: serial' --set share.batches=6,4,2
wrong 'share.batches: .*must be whole numbers from 1 on' --set share.mode=serial --set share.batches=6,4,x
wrong 'share.epoch_steps: belongs to share.mode: sync and rounds' --set share.mode=serial --set share.epoch_steps=6
wrong 'share.epoch_steps: belongs to data.partition: files' --set share.epoch_steps=6 --set data.partition=iid
echo "share_link: ok"
