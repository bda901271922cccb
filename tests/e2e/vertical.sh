#!/usr/bin/env bash
# A vertical group: one client has the pictures and the head, another one the labels and the tail. Over links both learn,
# byte for byte, what one process learns with the data of both: cuts, chunks, codecs with state, frozen heads, threads,
# evaluations, skipped steps. Rows in another order are found before anything is computed. What does not go together is
# refused with a sentence.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/vertical.sh
make_data 84 24
start_server one threads=2
write_parties

vertical plain
vertical chunks train.chunks=1 train.batch=8 train.drop_last=true
vertical codecs 'codec=topk:0.3,ef=true|quant:8' codec.head_grad=lowrank:3,warm=true
vertical adamw train.optimizer.kind=adamw train.optimizer.lr=0.002
vertical frozen 'train.freeze=features.0.*'
vertical middle 'train.freeze=features.*'
vertical deep head_end=features.2 tail_begin=features.18 threads=2

# Each party adds noise by its own key, to what it sends.
for party in A B; do "$SPLITC" keygen --out "$tmp/$party.noise" >"$tmp/keygen.log" 2>&1 || fail "keygen: $(cat "$tmp/keygen.log")"; done
cp "$tmp/A.yaml" "$tmp/quiet.yaml"
cp "$tmp/B.yaml" "$tmp/silent.yaml"
echo "noise: {head_act: 0.5, key: $tmp/A.noise}" >>"$tmp/A.yaml"
echo "noise: {mid_grad: 2, key: $tmp/B.noise}" >>"$tmp/B.yaml"
vertical noise
! cmp -s <(tensors_of "$tmp/noise-A") <(tensors_of "$tmp/plain-A") || fail 'noise changes nothing'
mv "$tmp/quiet.yaml" "$tmp/A.yaml"
mv "$tmp/silent.yaml" "$tmp/B.yaml"

# The fourth step has NaN at one party, then at the other, then at the server: both skip it.
skips() { # NAME PARTY
	! grep -q '"skipped":true' "$tmp/$1-A/log.jsonl" && fail "$1: A skipped nothing"
	diff <(grep -c '"skipped":true' "$tmp/$1-A/log.jsonl") <(grep -c '"skipped":true' "$tmp/$1-B/log.jsonl") || fail "$1: the parties skipped different steps"
}
for at in A B; do
	points_A= points_B=
	declare "points_$at=client.check=EIO@4"
	parties "nan-$at" train.on_nan=skip
	skips "nan-$at"
	[ -n "$(tensors_of "$tmp/nan-$at-A" | grep ' features.5')" ]
	cmp <(tensors_of "$tmp/nan-$at-A" | grep ' features.5') <(tensors_of "$tmp/nan-$at-B" | grep ' features.5') || fail "nan-$at: two middles"
done
points_A= points_B=
cmp <(tensors_of "$tmp/nan-A-B") <(tensors_of "$tmp/nan-B-B") || fail "it matters who found NaN"
rc=0
points_B=client.check=EIO@4
status=65 parties stop train.on_nan=stop
points_B=
grep -q 'NaN' "$tmp/stop-A.log" || fail "A does not say why it ends: $(tail -n 2 "$tmp/stop-A.log")"

# What does not go together is refused beside A, which waits.
config_of A waits
begin_party A waits
waiting=$client_pid
wait_for 'A does not join' grep -q 'has answered; group waits goes on' "$tmp/waits-A.log"
refused_beside_A() { # WORDS KEY=VALUE…: B is refused with status 78 and these words
	local rc=0
	config_of B waits "${@:2}"
	client waits-B "$tmp/waits-B.yaml" || rc=$?
	[ $rc = 78 ] && grep -qF -e "$1" "$tmp/waits-B.log" || fail "${*:2}: status $rc, and no word of $1: $(tail -n 1 "$tmp/waits-B.log")"
}
refused_beside_A train.batch train.batch=16
refused_beside_A train.chunks train.chunks=2
refused_beside_A 'run is not that' train.epochs=4
refused_beside_A 'run is not that' data.train_limit=80
refused_beside_A 'run is not that' train.drop_last=true
refused_beside_A 'run is not that' train.on_nan=skip
refused_beside_A train.seed train.seed=4
refused_beside_A train.optimizer train.optimizer.momentum=0.5
refused_beside_A 'has features, too, and the group needs a member with labels' share.role=features
config_of B waits
begin_party B waits
ends_with "$client_pid" 0 $patience 'B with the right role'
ends_with "$waiting" 0 $patience 'A, which waited for the right B'

# refuses WORDS KEY=VALUE…: a config with these keys is refused.
refuses() {
	local set=()
	for pair in "${@:2}"; do set+=(--set "$pair"); done
	config=$tmp/A.yaml refused 78 "$1" "${set[@]}"
}
refuses 'must be 2' share.clients=3
refuses 'must be private' share.ends=mean
refuses 'train.keep_best: does not go with' train.keep_best=true
refuses 'train.clip_norm: does not go with' train.clip_norm=1
refuses 'needs share.secret' data.id=stem data.kind=images
sed 's/^partition:.*/head_end: features.3.conv.0\ntail_begin: features.3.conv.3/' "$tmp/A.yaml" >"$tmp/over.yaml"
config=$tmp/over.yaml refused 78 'begin the tail after its last reader' --local --party "$tmp/B.yaml"
config=$tmp/A.yaml refusing= refused 78 "needs the other member's config" --local

# Two tables with a row each for the same things: A's columns are the input, and B's have the class.
write_table() { # FROM TO PART
	mkdir -p "$tmp/table-A" "$tmp/table-B"
	awk -v from="$1" -v to="$2" -v a="$tmp/table-A/$3.csv" -v b="$tmp/table-B/$3.csv" 'BEGIN {
		split("red green blue", colour, " ")
		print "id,size,colour" >a
		print "id,kind" >b
		for (i = from; i < to; i++) {
			printf "row-%d,%.1f,%s\n", i, (i * 37 % 101) / 10, colour[i * 7 % 3 + 1] >a
			printf "row-%d,%s\n", i, (i * 37 % 101 > 50 ? "large" : "small") >b
		}
	}'
}
write_table 0 90 train
write_table 90 120 test
"$SPLITC" keygen --out "$tmp/pair.key" >"$tmp/keygen.log" 2>&1 || fail "keygen: $(cat "$tmp/keygen.log")"
for party in A B; do
	sed -i -e "s,^data:.*,data: {kind: csv\, dir: $tmp/table-$party\, label: kind\, id: id}," -e '/^partition:/d' \
		-e 's/^model:.*/model: {name: mlp, features: 4, classes: 2, dropout: 0.1}/' -e "s,^share: {,&secret: $tmp/pair.key\, ," "$tmp/$party.yaml"
done
vertical tables
vertical tables-split data.split.train=0.75 data.split.val=0.25

# The models of both members make one, which predicts what that of one process does.
join() { # OUT CONFIG OTHER
	"$SPLITC" export "$tmp/tables-$2.yaml" "$tmp/$1.safetensors" --set log.dir="$tmp/tables-$2" --join "$tmp/$3/model.safetensors" >"$tmp/join.log" 2>&1
}
predicted() { "$SPLITC" predict "$tmp/tables-A.yaml" --local --weights "$1" "$tmp/table-A/test.csv" 2>"$tmp/predict.log"; }
join one A tables-B || fail "A's model with B's"
join other B tables-A || fail "B's model with A's"
cmp "$tmp/one.safetensors" "$tmp/other.safetensors" || fail 'it matters who joins the models'
[ "$(predicted "$tmp/one.safetensors" | grep -c 'large\|small')" = 30 ] || fail 'the joined model predicts something else'
diff <(predicted "$tmp/one.safetensors") <(predicted "$tmp/tables-local/model.safetensors") >"$tmp/differ" || fail "the joined model: $(head -n 4 "$tmp/differ")"
! join bad A tables-split-B && grep -q 'take both models of one run, after the same step' "$tmp/join.log" || fail "another run's model: $(cat "$tmp/join.log")"
! join bad A tables-A && grep -q "neither this run's model nor" "$tmp/join.log" || fail "A's model twice: $(cat "$tmp/join.log")"
! predicted "$tmp/tables-A/model.safetensors" && grep -q 'export CONFIG OUT --join FILE' "$tmp/predict.log" || fail "A's model alone: $(cat "$tmp/predict.log")"

sed -i -e 2d -e '$arow-90,small' "$tmp/table-B/train.csv"
status=78 parties shifted
for party in A B; do
	grep -qF 'different rows in step 0' "$tmp/shifted-$party.log" || fail "a shifted table: $party says $(tail -n 1 "$tmp/shifted-$party.log")"
	! has_steps "shifted-$party" 1 || fail "a shifted table: a step was done"
done
