#!/usr/bin/env bash
# train.audit and splitc audit catch a server that cheats (another weight, loss, activation or order of chunks, or a
# gradient that pulls the head elsewhere: failpoints server.*) at that step, with status 79 and a sentence. An honest
# server is never accused: with codecs that keep a state, two optimizers, LoRA, and kills. Audits do not change what a
# run learns.
set -eu
cd "$(dirname "$0")/../.."
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
. tests/e2e/lib/daemons.sh
make_data 96 32
start_server host
write_config "$tmp/client.yaml"
sed -i 's/epochs: 1/epochs: 2\n  checkpoint_every: 4/' "$tmp/client.yaml"
cp "$tmp/client.yaml" "$tmp/adamw.yaml"
use_adamw "$tmp/adamw.yaml"
audits() { sed -n 's/.*audits: \([0-9]*\) steps in .*/\1/p' "$tmp/$1.log"; }

# ---- honest: audited at every step with each codec, the run equals the one without audits
for row in none 'quant:8' 'topk:0.1,ef=true' 'quant:4,round=stochastic|zstd'; do
	for config in client adamw; do
		name=$config-${row//[^a-z0-9]/-}
		client "$name" "$tmp/$config.yaml" --set codec="$row" --set train.audit.every=1 || fail "$name: an honest server"
		client "$name-local" "$tmp/$config.yaml" --set codec="$row" --local || fail "$name, --local"
		same_run "$name" "$name-local" 12
		[ "$(audits "$name")" = 12 ] || fail "$name: $(audits "$name") steps were audited, not 12"
	done
done
client lowrank "$tmp/client.yaml" --set codec.head_act=lowrank:3,warm=true --set codec.head_grad=lowrank:3,warm=true --set train.audit.every=1 \
	--set train.clip_norm=1 || fail 'lowrank, clipped'
client accumulates "$tmp/client.yaml" --set train.accumulate=2 --set train.audit.every=1 || fail 'accumulate: an honest server'
client accumulates-local "$tmp/client.yaml" --set train.accumulate=2 --local || fail 'accumulate, --local'
same_run accumulates accumulates-local 12
client now_and_then "$tmp/client.yaml" --set train.audit.every=3 --set train.epochs=8 || fail 'every: 3'
[ "$(audits now_and_then)" -ge 4 ] || fail "$(audits now_and_then) of 48 steps were audited"

mkdir "$tmp/toy"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
	 "num_attention_heads": 4, "max_position_embeddings": 26, "type_vocab_size": 1, "layer_norm_eps": 1e-05, "initializer_range": 0.3}
JSON
cat >"$tmp/lora.yaml" <<-YAML
	server: $endpoint
	model: {huggingface: $tmp/toy, classes: 2, tokens: 24}
	lora: {rank: 4, alpha: 8, target: [query, value], dropout: 0.1}
	partition: "2:-1"
	data: {kind: made_tokens, dir: ., train_limit: 40, test_limit: 24}
	train: {batch: 16, chunks: 4, epochs: 2, seed: 3, audit: {every: 1}, optimizer: {kind: adamw, lr: 0.05, weight_decay: 0.1}}
	threads: 1
YAML
base_for "$tmp/lora.yaml" "$tmp/toy"
client lora "$tmp/lora.yaml" || fail 'lora: an honest server'
[ "$(audits lora)" = 6 ] || fail "lora: $(audits lora) steps were audited"

# SPLIT_LONG=1: 2,400 audited steps of honest servers
for row in ${SPLIT_LONG:+none quant:8 topk:0.1,ef=true quant:4,round=stochastic}; do
	for config in client adamw; do
		client long "$tmp/$config.yaml" --fresh --set codec="$row" --set train.audit.every=1 --set train.epochs=50 --set train.optimizer.lr=0.001 || fail "$row: long"
		[ "$(audits long)" = 300 ] || fail "$row: $(audits long) steps"
	done
done

# ---- a kill between two audits: the resumed run passes its audits
killed='client-none server.apply@6'
killed_server server.apply=kill@6 client-none "$tmp/client.yaml" --set train.audit.every=1
SPLITS=$PWD/$BUILD/fail/splits
[ "$(audits "$killed")" -ge 8 ] || fail "$(audits "$killed") steps of a run with a kill were audited"

# ---- cheats: each is caught at that step, and no wrong gradient is applied
cheats() { # NAME FAILPOINT PASSAGE STEP:_WHAT STEPS_DONE
	local rc=0
	SPLIT_FAILPOINTS="$2=EIO@$3" start_server "$1" store="$tmp/store-$1"
	client "run-$1" "$tmp/client.yaml" --set server="$endpoint" --set train.audit.every=1 "${@:6}" || rc=$?
	[ $rc = 79 ] || fail "$1: exit status $rc, not 79"
	grep -q "audit: \(evaluation after \)\?step \($4\) is not what the agreed network, loss, order and codecs give" "$tmp/run-$1.log" ||
		fail "$1: $(tail -n 2 "$tmp/run-$1.log")"
	[ "$5" = any ] || [ "$(steps_of "run-$1")" = "$5" ] || fail "$1: $(steps_of "run-$1") steps are done, not $5"
}
cheats first server.cheat_state 1 '1: the first middle, or the state of its optimizer or codecs,' 0
cheats act server.cheat_act 18 '5: mid_act of chunk 1' 4
cheats loss server.cheat_loss 19 '5: head_grad of chunk 2' 4
cheats hijack server.hijack 21 '6: head_grad of chunk 0' 5
# found in the middle's weights themselves, or in the outputs of the next step
cheats weight server.cheat_weight 7 '7: features.1.conv.0.0.weight (1 of [0-9]* numbers of the middle differ)\|8: mid_act of chunk 0' 7
# Payloads without a codec are received in place, so their order cannot be changed: this case needs quant:8. The cheat
# changes only the last bits of weights and running statistics. 8 bits may hide that until the next audit of the
# weights, at most four steps later.
cheats order server.cheat_order '25+' '[4-7]: [^ ]* ([0-9]* of [0-9]* numbers of the middle differ)\|[5-8]: [a-z]*_[a-z]* of chunk [0-3]\|6: mid_act of chunk [0-3]' any --set codec=quant:8
SPLIT_FAILPOINTS=server.hijack=EIO@9+ start_server sly store="$tmp/store-sly"
client unseen "$tmp/client.yaml" --set server="$endpoint" || fail 'without audits nobody sees it'

# another middle in place of a checkpoint's, behind a crash of the server: only the client's note of it tells
port=$(free_port)
SPLIT_FAILPOINTS=server.apply=kill@6 start_server dies listen="tcp://127.0.0.1:$port" store="$tmp/store-dies"
rc=0
client swapped "$tmp/client.yaml" --set server="$endpoint" --set train.audit.every=1 || rc=$?
[ $rc = 69 ] || fail "swapped: exit status $rc, not 69"
rc=0
SPLIT_FAILPOINTS=server.cheat_state=EIO@1 start_server swaps listen="tcp://127.0.0.1:$port" store="$tmp/store-dies"
client swapped "$tmp/client.yaml" --set server="$endpoint" --set train.audit.every=1 --resume || rc=$?
[ $rc = 79 ] || fail "swapped: exit status $rc, not 79"
grep -q 'audit: step 5: the middle, or the state of its optimizer or codecs, \(of this checkpoint \)\?is not' "$tmp/swapped.log" || fail "$(tail -n 1 "$tmp/swapped.log")"

# ---- the command: on a run that was killed; afterwards the run continues as if not audited. Class weights apply as in the run
weighted=(--set train.class_weights=1,2,3,4,5,6,7,8,9,0.5)
audit() { # NAME STATUS ARGUMENT…
	local rc=0
	timeout -k 5 $patience "$SPLITC" audit "$tmp/client.yaml" --set log.dir="$tmp/stopped" --set server="$asked" "${weighted[@]}" "${@:3}" >"$tmp/$1.log" 2>&1 || rc=$?
	[ $rc = "$2" ] || fail "audit $1: exit status $rc, not $2: $(cat "$tmp/$1.log")"
}
port=$(free_port) asked=tcp://127.0.0.1:$port
start_server asked store="$tmp/store-asked" listen="$asked"
client_stands 6 stopped "$tmp/client.yaml" --set server="$asked" "${weighted[@]}"
wait_for 'no checkpoint' has_checkpoint stopped
audit goes_on 75
grep -q ": pause it first (Ctrl-C), then audit$" "$tmp/goes_on.log" || fail "$(cat "$tmp/goes_on.log")"
end_client
audit first 0 --steps 3
grep -q '^from step 5, 3 steps: the server computed what was agreed, to the bit' "$tmp/first.log" || fail "$(cat "$tmp/first.log")"
audit json 0 --json
tail -n 1 "$tmp/json.log" | jq -e '.first_step == 5 and .steps == 4 and .bytes > 1000000' >/dev/null || fail "$(cat "$tmp/json.log")"
audit wrong 64 --steps x
signal TERM "$server_pid"
ends_with "$server_pid" 0 60 splits
SPLIT_FAILPOINTS=server.cheat_weight=EIO@3 start_server lies store="$tmp/store-asked" listen="$asked"
audit lied 79
grep -q 'audit: step 8: \(mid_act of chunk 0\|features.1.conv.0.0.weight .*\) is not' "$tmp/lied.log" || fail "$(cat "$tmp/lied.log")"
client stopped "$tmp/client.yaml" --set server="$asked" "${weighted[@]}" --resume || fail '--resume behind audits'
client weighted "$tmp/client.yaml" "${weighted[@]}" --local || fail 'class_weights, --local'
same_run stopped weighted 12
audit done 66

# ---- what cannot be audited is refused
config=$tmp/client.yaml
refused 78 'train.audit.every: is not possible in a group' --set train.audit.every=5 --set share.group=g
cp -r "$tmp/client-none" "$tmp/done"
command=audit refusing= refused 66 "log.dir '$tmp/done' has no checkpoint to go on from" --set log.dir="$tmp/done"
command=audit refused 78 'train.ema: a run with averages cannot be audited' --set train.ema=0.9
refused 78 'train.audit.every: is not possible with train.ema' --set train.audit.every=5 --set train.ema=0.9
echo "cheats are caught at their step; $(audits client-none) steps of an honest run, and of eight others, are not"
