#!/usr/bin/env bash
# A vertical group: one client has the pictures and the head, another one the labels and the tail. Over links both learn,
# byte for byte, what one process learns with the data of both: cuts, chunks, codecs with state, frozen heads, threads,
# evaluations, skipped steps. Rows in another order are found before anything is computed. What does not go together is
# refused with a sentence. At the end the same with a network of several inputs: pictures at A, rows at B, rows and labels
# at C.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/vertical.sh
make_data 84 24
start_server one threads=2
write_parties

vertical plain
further vertical chunks train.chunks=1 train.batch=8 train.drop_last=true
vertical codecs 'codec=topk:0.3,ef=true|quant:8' codec.head_grad=lowrank:3,warm=true
further vertical adamw train.optimizer.kind=adamw train.optimizer.lr=0.002
vertical frozen 'train.freeze=features.0.*'
further vertical middle 'train.freeze=features.*'
vertical deep head_end=features.2 tail_begin=features.18 threads=2

# A member's own train.freeze holds for its head. That of the middle, and whether the head learns, are the same for all.
cp "$tmp/A.yaml" "$tmp/thawed.yaml"
for freeze in 'features.0.0.*' 'features.0.*' 'features.5.*'; do
	sed "s/^train:/train:\n  freeze: [$freeze]/" "$tmp/thawed.yaml" >"$tmp/A.yaml"
	[ "$freeze" = 'features.0.0.*' ] || { config=$tmp/A.yaml refused 78 'with the same train.freeze and train.groups of the middle' --local --party "$tmp/B.yaml"; continue; }
	vertical own-freeze train.epochs=1
done
mv "$tmp/thawed.yaml" "$tmp/A.yaml"

# Each member's head begins with its own model.weights; the middle's are the same for all.
python3 - "$tmp/plain-local/model.safetensors" "$tmp/head.safetensors" <<'END'
import json, struct, sys

data = bytearray(open(sys.argv[1], "rb").read())
end = 8 + struct.unpack("<Q", data[:8])[0]
at = end + json.loads(data[8:end])["features.0.0.weight"]["data_offsets"][0]
data[at : at + 16] = struct.pack("<4f", 0.5, -0.5, 0.25, 0)
open(sys.argv[2], "wb").write(data)
END
cp "$tmp/A.yaml" "$tmp/seeded.yaml"
sed -i "s#^model: {#model: {weights: $tmp/head.safetensors, #" "$tmp/A.yaml"
config=$tmp/A.yaml refusing=--fresh refused 78 'model.weights: all members need the same weights of the middle' --local --party "$tmp/B.yaml"
cp "$tmp/B.yaml" "$tmp/unfed.yaml"
sed -i "s#^model: {#model: {weights: $tmp/plain-local/model.safetensors, #" "$tmp/B.yaml"
vertical own-weights train.epochs=1
mv "$tmp/seeded.yaml" "$tmp/A.yaml"
mv "$tmp/unfed.yaml" "$tmp/B.yaml"

# clips NAME [key=value]…: the same with gradients clipped by one norm, which all parties and the process with all data log.
norms_of() { jq -c 'select(.type == "step") | .grad_norm' "$tmp/$1/log.jsonl"; }
clips() {
	vertical "$@"
	local party
	for party in "${members[@]}"; do
		diff <(norms_of "$1-$party") <(norms_of "$1-local") >"$tmp/differ" || fail "$1: $party has other norms: $(head -n 4 "$tmp/differ")"
	done
	[ "$(norms_of "$1-A" | awk -v most="$clip_norm" '$1 > most' | wc -l)" -gt 3 ] || fail "$1: no gradient is above $clip_norm"
}
clip_norm=0.5
clips clipped train.clip_norm=0.5
! cmp -s <(tensors_of "$tmp/clipped-A") <(tensors_of "$tmp/plain-A") || fail 'clipping changes nothing'
further vertical clipped-middle train.clip_norm=0.5 'train.freeze=features.*'
further clips clipped-codecs train.clip_norm=0.5 'codec=topk:0.3,ef=true|quant:8' train.optimizer.kind=adamw train.optimizer.lr=0.002 train.batch=8

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
refuses 'must be 2 to 9' share.clients=10
refuses 'must be private' share.ends=mean
refuses 'train.keep_best: does not go with' train.keep_best=true
refuses 'needs share.secret' data.id=stem data.kind=images
sed 's/^partition:.*/head_end: features.3.conv.0\ntail_begin: features.3.conv.3/' "$tmp/A.yaml" >"$tmp/over.yaml"
config=$tmp/over.yaml refused 78 'begin the tail after its last reader' --local --party "$tmp/B.yaml"
config=$tmp/A.yaml refusing= refused 78 "needs the other members' configs" --local
# --check-config reads the other members' configs, too
sed 's/role: labels/role: features/' "$tmp/B.yaml" >"$tmp/twice.yaml"
sed 's/train_limit: [0-9]*/train_limit: 80/' "$tmp/B.yaml" >"$tmp/fewer.yaml"
config=$tmp/A.yaml refused 78 "needs the other members' configs" --local
config=$tmp/A.yaml refused 78 'the others with features' --local --party "$tmp/twice.yaml"
config=$tmp/A.yaml refused 78 "has 80 rows, and the other member's has 84" --local --party "$tmp/fewer.yaml"
config=$tmp/A.yaml refused 0 'A.yaml: ok, 14 steps on 84 samples, 24 samples to evaluate with' --local --party "$tmp/B.yaml"

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
cp -r "$tmp/table-B" "$tmp/words"
sed -i 's/large/1700000015/; s/small/1700000009/' "$tmp"/table-B/*.csv
vertical tables-numbers model.task=numbers model.classes=1 data.scale_label=true
# Whoever reads the model of both has numbers in their own units, also above 2^24: the site of the features, too.
"$SPLITC" export "$tmp/tables-numbers-A.yaml" "$tmp/numbers.safetensors" --set log.dir="$tmp/tables-numbers-A" --join "$tmp/tables-numbers-B/model.safetensors" >"$tmp/join.log" 2>&1 ||
	fail "models of numbers: $(cat "$tmp/join.log")"
for model in numbers tables-numbers-local/model; do
	"$SPLITC" predict "$tmp/tables-numbers-A.yaml" --local --weights "$tmp/$model.safetensors" "$tmp/table-A/test.csv" --csv >"$tmp/units.csv" 2>"$tmp/predict.log" || fail "A predicts numbers: $(cat "$tmp/predict.log")"
	awk -F, 'NR > 1 { n++; sum += $2 - 1700000000 } END { exit !(n == 30 && sum / n > 9 && sum / n < 15) }' "$tmp/units.csv" || fail "A has other units with $model: $(head -n 3 "$tmp/units.csv")"
done
cp "$tmp"/words/*.csv "$tmp/table-B"
# A network's file tells the member that has labels alone that the other one has rows.
"$SPLITC" export "$tmp/tables-A.yaml" "$tmp/rows.safetensors" --weights "$tmp/tables-local/model.safetensors" >"$tmp/out" 2>&1 || fail "export: $(cat "$tmp/out")"
cp "$tmp"/[AB].yaml "$tmp/words"
sed -i "s,^model:.*,model: {network: $tmp/rows.safetensors}," "$tmp"/[AB].yaml
vertical file
cp "$tmp"/words/[AB].yaml "$tmp"

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
# Its figures of the evaluated part are those of the run in one process, whoever asks. A alone knows no label.
for pair in 'A B' 'B A'; do
	"$SPLITC" eval "$tmp/tables-${pair% *}.yaml" --local --party "$tmp/tables-${pair#* }.yaml" --weights "$tmp/one.safetensors" --json 2>"$tmp/eval.log" | tail -n 1 |
		jq -c '[.test_acc, .test_loss]' >"$tmp/figures"
	jq -c 'select(.type == "epoch") | [.test_acc, .test_loss]' "$tmp/tables-local/log.jsonl" | tail -n 1 | cmp - "$tmp/figures" || fail "eval of both: $(cat "$tmp/figures" "$tmp/eval.log")"
done
"$SPLITC" eval "$tmp/tables-A.yaml" --party "$tmp/tables-B.yaml" 2>"$tmp/eval.log" && fail 'eval --party without --local' || status=$?
[ $status = 64 ] || fail "eval --party without --local: $status"
status=0
"$SPLITC" predict "$tmp/tables-A.yaml" --local --weights "$tmp/one.safetensors" --csv 2>"$tmp/predict.log" | head -n 1 | grep -q '^sample,class,' && ! grep accuracy "$tmp/predict.log" || fail "A's own labels: $(cat "$tmp/predict.log")"
! join bad A tables-split-B && grep -q 'take both models of one run, after the same step' "$tmp/join.log" || fail "another run's model: $(cat "$tmp/join.log")"
! join bad A tables-A && grep -q "neither this run's model nor" "$tmp/join.log" || fail "A's model twice: $(cat "$tmp/join.log")"
! predicted "$tmp/tables-A/model.safetensors" && grep -q 'export CONFIG OUT --join FILE' "$tmp/predict.log" || fail "A's model alone: $(cat "$tmp/predict.log")"

sed -i -e 2d -e '$arow-90,small' "$tmp/table-B/train.csv"
status=78 parties shifted
for party in A B; do
	grep -qF 'different rows in step 0' "$tmp/shifted-$party.log" || fail "a shifted table: $party says $(tail -n 1 "$tmp/shifted-$party.log")"
	! has_steps "shifted-$party" 1 || fail "a shifted table: a step was done"
done

# ---- networks of several inputs

# write_towers FILE INPUT=SHAPE…: a network whose inputs go through a tower each, and meet in `joined`.
write_towers() {
	python3 - "$@" <<-'PY'
		import json, random, struct, sys
		inputs = [(name, [int(n) for n in shape.split("x")]) for name, shape in (given.split("=") for given in sys.argv[2:])]
		draw, params, nodes, ends, values = random.Random(3), [], [], [], len(inputs) + 1
		def param(name, *dims):
		    params.append((name, dims))
		    return f" &{len(params) - 1}"
		def node(name, kind, ins, said=""):
		    global values
		    nodes.append(f"node {name} {kind} " + " ".join(f"%{i}" for i in ins) + said)
		    values += 1
		    return values - 1
		for i, (name, shape) in enumerate(inputs):
		    x, wide = i + bool(i), shape[0]
		    if len(shape) == 3:
		        x = node(f"{name}.conv", "conv2d", [x], param(f"{name}.conv.weight", 4, 3, 3, shape[2]) + param(f"{name}.conv.bias", 4) + " stride=4 pad=1")
		        x = node(f"{name}.norm", "batchnorm", [x], "".join(param(f"{name}.norm.{which}", 4) for which in ("weight", "bias", "running_mean", "running_var")))
		        x, wide = node(f"{name}.flatten", "flatten", [x]), 4 * (shape[0] // 4) ** 2
		    x = node(f"{name}.fc", "linear", [x], param(f"{name}.fc.weight", 6 + i, wide) + param(f"{name}.fc.bias", 6 + i))
		    ends.append(node(f"{name}.drop", "dropout", [node(f"{name}.act", "act", [x])]))
		x = ends[0]
		for i, y in enumerate(ends[1:]):
		    x = node(f"joined.{i}", "concat", [x, y])
		wide = sum(6 + i for i in range(len(ends)))
		x = node("middle", "linear", [x], param("middle.weight", 12, wide) + param("middle.bias", 12))
		x = node("out", "linear", [node("middle.act", "act", [x])], param("out.weight", 10, 12) + param("out.bias", 10))
		fields = [f"in {name} f32 R[{','.join(map(str, shape))}]" for name, shape in inputs]
		stat = lambda name: " stat" * ("running" in name)
		text = ["graph 1", fields[0], "in label i32 R[]", *fields[1:], *(f"param {name} [{','.join(map(str, dims))}]{stat(name)} zero" for name, dims in params),
		        *nodes, f"node loss xent %{x} %1", f"out loss %{values}", ""]
		header, data = {"__metadata__": {"split.graph": "\n".join(text), "split.network": "{}"}}, b""
		for name, dims in params:
		    n = 1
		    for d in dims: n *= d
		    blob = struct.pack(f"<{n}f", *(1 if "running_var" in name else 0 if stat(name) else draw.uniform(-0.5, 0.5) for _ in range(n)))
		    header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [len(data), len(data) + len(blob)]}
		    data += blob
		said = json.dumps(header).encode()
		with open(sys.argv[1], "wb") as f: f.write(struct.pack("<Q", len(said)) + said + data)
	PY
}
# Rows beside the pictures of make_data: the label hangs on what B and C have.
for party in A B C; do
	mkdir -p "$tmp/rows-$party"
	for part in train:84 test:24; do
		awk -v n="${part#*:}" -v party=$party -v from=$([ ${part%:*} = test ] && echo 1000 || echo 0) 'BEGIN {
			print "id," (party == "A" ? "width" : party == "B" ? "size,age,colour" : "depth,kind")
			for (i = from; i < from + n; i++) {
				a = i * 37 % 101; b = i * 53 % 89
				printf "row-%d,", i
				if (party == "A") printf "%.1f\n", (i * 29 % 97) / 9
				if (party == "B") printf "%.1f,%d,%s\n", a / 10, i % 7, i % 3 ? "red" : "blue"
				if (party == "C") printf "%.1f,k%d\n", b / 8, (a > 50) + (b > 44)
			}
		}' >"$tmp/rows-$party/${part%:*}.csv"
	done
done
write_towers "$tmp/three.safetensors" image=32x32x3 left=4 right=1
write_towers "$tmp/two.safetensors" image=32x32x3 right=1
write_towers "$tmp/rows.safetensors" first=1 left=4 right=1
# write_members NETWORK CUT VALUES MEMBERS: the configs of A, maybe B, and C, which has an input of its own.
write_members() {
	local party k=0
	write_parties
	members=(${4//,/ })
	sed -e "s,^model:.*,model: {network: $tmp/$1.safetensors}\nhead_end: $2\ntail_begin: out\ncut_values: $3," -e '/^partition:/d' -e '/^share:/d' "$tmp/A.yaml" >"$tmp/towers.yaml"
	for party in "${members[@]}"; do
		local role=features input=image data="{kind: csv\, train_limit: 84\, test_limit: 24\, dir: $tmp/rows-$party"
		[ $party != B ] || { input=left && data="$data\\, ignore: [id]}"; }
		[ $party != C ] || { role=labels && input=right && data="$data\, label: kind\, ignore: [id]}"; }
		sed "$([ $party = A ] || echo "s,^data:.*,data: $data,")" "$tmp/towers.yaml" >"$tmp/$party.yaml"
		echo "share: {mode: vertical, group: g, clients: ${#members[@]}, member: $k, role: $role, inputs: [$input]}" >>"$tmp/$party.yaml"
		k=$((k + 1))
	done
}
several=true
write_members two right.drop 2 A,C
vertical pair
write_members three right.drop 3 A,B,C
vertical three
further vertical three-one train.chunks=1 train.batch=8 train.drop_last=true
clips three-clipped train.clip_norm=0.5
# The members in another order: C, with the labels, is first.
for party in A:2 B:1 C:0; do sed -i "s/member: [0-9]/member: ${party#*:}/" "$tmp/${party%:*}.yaml"; done
further clips three-turned train.clip_norm=0.5
write_members three right.drop 3 A,B,C
clips three-clipped-frozen train.clip_norm=0.5 'train.freeze=image.*,right.*' train.chunks=1
vertical three-codecs 'codec=topk:0.3,ef=true|quant:8' codec.head_grad=qsgd:16 train.optimizer.kind=adamw train.optimizer.lr=0.002

# The image's tower is frozen, so no gradient comes back to A, and B and C learn.
vertical three-frozen 'train.freeze=image.*'
head_grad_of() { jq 'select(.type == "summary") | .direction.head_grad.payload_bytes // 0' "$tmp/$1/log.jsonl"; }
[ "$(head_grad_of three-frozen-A)" = 0 ] && [ "$(head_grad_of three-A)" -gt 0 ] && [ "$(head_grad_of three-frozen-B)" -gt 0 ] || fail 'A is sent gradients that it does not need'

# NaN at one member: all skip the step.
for at in A B C; do
	points_A= points_B= points_C=
	declare "points_$at=client.check=EIO@4"
	parties "three-nan-$at" train.on_nan=skip train.clip_norm=0.5
	for party in A B C; do [ "$(grep -c '"skipped":true' "$tmp/three-nan-$at-$party/log.jsonl")" = 1 ] || fail "three-nan-$at: $party"; done
	cmp <(tensors_of "$tmp/three-nan-$at-C") <(tensors_of "$tmp/three-nan-A-C") || fail "it matters that $at found NaN"
done
points_A= points_B= points_C=

# The three models make one.
"$SPLITC" export "$tmp/three-B.yaml" "$tmp/all.safetensors" --set log.dir="$tmp/three-B" --join "$tmp/three-A/model.safetensors" --join "$tmp/three-C/model.safetensors" >"$tmp/join.log" 2>&1 ||
	fail "three models: $(cat "$tmp/join.log")"
mkdir -p "$tmp/all"
cp "$tmp/all.safetensors" "$tmp/all/model.safetensors"
diff <(tensors_of "$tmp/all") <(tensors_of "$tmp/three-local") >"$tmp/differ" || fail "three models make another one: $(head -n 3 "$tmp/differ")"
rc=0
"$SPLITC" export "$tmp/three-B.yaml" "$tmp/few.safetensors" --set log.dir="$tmp/three-B" --join "$tmp/three-A/model.safetensors" >"$tmp/join.log" 2>&1 || rc=$?
[ $rc != 0 ] && grep -q 'gives "right' "$tmp/join.log" || fail "two of three models: $(cat "$tmp/join.log")"

# Refused, each with a sentence.
config=$tmp/A.yaml
refuses 'must name this member' share.inputs=
refuses 'no input depth' share.inputs=depth
refuses 'must name one input' share.inputs=image,left
refuses 'joins inputs image and left' head_end=joined.0 cut_values=2
refuses 'splitc align finds the rows of two members' share.peers=a,b,c
config=$tmp/three-A.yaml refusing= refused 78 'no member has left' --local --party "$tmp/three-C.yaml"
sed 's/member: 0/member: 1/' "$tmp/three-A.yaml" >"$tmp/three-A1.yaml"
config=$tmp/three-A.yaml refusing= refused 78 'another member has image' --local --party "$tmp/three-C.yaml" --party "$tmp/three-A1.yaml"
config=$tmp/three-A1.yaml refusing= refused 78 'each with a share.member of its own' --local --party "$tmp/three-B.yaml" --party "$tmp/three-C.yaml"
config=$tmp/three-A.yaml refusing= refused 78 'with one codec' --local --party "$tmp/three-codecs-B.yaml" --party "$tmp/three-C.yaml"
config=$tmp/three-A.yaml refusing= command=leak refused 78 'leak measures networks with one input' --party "$tmp/three-B.yaml" --party "$tmp/three-C.yaml"
sed '/^share:/,$d' "$tmp/A.yaml" >"$tmp/alone.yaml"
config=$tmp/alone.yaml refusing= refused 78 'each belongs to a member' --local
config_of A twice
begin_party A twice
waiting=$client_pid
wait_for 'A does not join' grep -q 'has answered; group twice goes on' "$tmp/twice-A.log"
rc=0
client twice-B "$tmp/twice-A.yaml" --set share.member=1 || rc=$?
[ $rc = 78 ] && grep -qF 'has this input, too' "$tmp/twice-B.log" || fail "an input twice: status $rc, $(tail -n 1 "$tmp/twice-B.log")"
end_process "$waiting"

# Three tables with names of rows. If one of them is shifted by a row, nothing is computed.
write_members rows right.drop 3 A,B,C
sed -i -e "s,^data:.*,data: {kind: csv\, train_limit: 84\, test_limit: 24\, dir: $tmp/rows-A}," -e 's/\[image\]/[first]/' "$tmp/A.yaml"
for party in A B C; do sed -i -e "s,^share: {,&secret: $tmp/pair.key\, ," -e '/^data:/s/ignore: \[id\]/id: id/; /^data:/s/rows-A}/rows-A, id: id}/' "$tmp/$party.yaml"; done
vertical three-tables
for at in A B C; do
	cp "$tmp/rows-$at/train.csv" "$tmp/straight.csv"
	sed -i -e 2d -e "\$a$(sed -n '2s/row-0/row-99/p' "$tmp/rows-$at/train.csv")" "$tmp/rows-$at/train.csv"
	status=78 parties "three-shifted-$at"
	cp "$tmp/straight.csv" "$tmp/rows-$at/train.csv"
	for party in A B C; do
		grep -qF 'different rows in step 0' "$tmp/three-shifted-$at-$party.log" || fail "$at is shifted: $party says $(tail -n 1 "$tmp/three-shifted-$at-$party.log")"
		! has_steps "three-shifted-$at-$party" 1 || fail "$at is shifted: a step was done"
	done
done

# ---- one client with several sources (data.also)

# Pictures, and two tables with a row each for most of them. In `pair` all have the same rows; in `wide` each has rows that
# the others lack. The label hangs on the table `row`.
python3 - "$tmp" <<'PY'
import random, sys
from pathlib import Path
for where, more in (("pair", 0), ("wide", 1)):
    for part, first, n in (("train", 0, 84), ("val", 500, 24)):
        names = [f"row-{first + i:04d}" for i in range(n)]
        own = lambda letter, *at: sorted(names + [f"row-{first + i:04d}{letter}" for i in at * more] + [f"row-{first:04d}two"] * more * (letter != "x"))
        folder = Path(sys.argv[1], where)
        for source in ("scans/" + part, "row", "left"):
            (folder / source).mkdir(parents=True, exist_ok=True)
        for name in own("x", 3, 11):
            draw = random.Random(name)
            hue = [draw.randrange(200) for _ in range(3)]
            (folder / "scans" / part / f"{name}.ppm").write_bytes(b"P6 36 36 255\n" + bytes(hue[k % 3] + draw.randrange(56) for k in range(36 * 36 * 3)))
        for source, header, others in (("row", "size,age,kind", (7, 8, 16)), ("left", "width", (0, 23))):
            with open(folder / source / f"{part}.csv", "w") as file:
                print("id," + header, file=file)
                for name in own(source[0], *others):
                    draw = random.Random(source + name)
                    a, b = draw.randrange(100), draw.randrange(7)
                    print(f"{name},{a / 10},{b},k{(a > 50) + (b > 3)}" if source == "row" else f"{name},{a / 9:.1f}", file=file)
PY
# site PARTY MEMBER ROLE INPUTS DATA: writes the config of a member, from towers.yaml. The last one is C.
site() {
	{ cat "$tmp/towers.yaml" && echo "data: {dir: $tmp/pair/$5}" &&
		echo "share: {mode: vertical, group: g, clients: ${#members[@]}, member: $2, role: $3, inputs: [$4], secret: $tmp/pair.key}"; } >"$tmp/$1.yaml"
}
# network NAME CUT VALUES: writes towers.yaml.
network() {
	write_parties
	sed -e "s,^model:.*,model: {network: $tmp/$1.safetensors}\nhead_end: $2\ntail_begin: out\ncut_values: $3," -e '/^partition:/d' -e '/^share:/d' -e '/^data:/d' "$tmp/A.yaml" >"$tmp/towers.yaml"
}
# as_vertical NAME [key=value]…: one client with the sources of one.yaml, over a link and in one process, learned what the
# members did.
as_vertical() {
	local set=() pair
	for pair in "${@:2}"; do set+=(--set "$pair"); done
	for how in --local "--set server=$endpoint --set threads=2"; do
		# shellcheck disable=SC2086
		client "$1-one" "$tmp/one.yaml" $how --fresh "${set[@]}" || fail "$1: one client: exit status $?"
		diff <(learned "$1-one") <(learned "$1-C") >"$tmp/differ" || fail "$1: one client learned otherwise: $(head -n 4 "$tmp/differ")"
		diff <(tensors_of "$tmp/$1-one") <(tensors_of "$tmp/$1-local") >"$tmp/differ" || fail "$1: one client has other weights: $(head -n 4 "$tmp/differ")"
	done
}
table="kind: csv, id: id"
members=(A B C)
write_towers "$tmp/fields.safetensors" image=32x32x3 left=1 row=2
network fields row.drop 3
site A 0 features image 'scans, kind: images, id: stem'
site B 1 features left "left, $table"
site C 2 labels row "row, $table, label: kind"
cat "$tmp/towers.yaml" - >"$tmp/one.yaml" <<YAML
data:
  kind: csv
  dir: $tmp/wide/row
  id: id
  label: kind
  inputs: [row]
  also:
    - kind: csv
      dir: $tmp/wide/left
      id: id
      inputs: left
    - {kind: images, dir: $tmp/wide/scans, id: stem, inputs: [image]}
YAML
cases=('fields' 'fields-split data.split.train=0.75 data.split.val=0.25' 'fields-codecs codec=topk:0.3,ef=true|quant:8 codec.head_grad=qsgd:16 train.chunks=2')
[ -z "${SPLIT_QUICK:-}" ] || cases=(fields)
for case in "${cases[@]}"; do
	read -r -a keys <<<"$case"
	vertical "${keys[@]}"
	as_vertical "${keys[@]}"
done
grep -qF '4 of 88 rows of '"$tmp/wide/row to train on are left out" "$tmp/fields-one.log" && grep -qF '2 of 26 rows of '"$tmp/wide/scans to evaluate on are left out" "$tmp/fields-one.log" ||
	fail "no word of rows that not all sources have: $(grep data-joined "$tmp/fields-one.log")"

# Killed at both sides; evaluated and predicted, also with columns and pictures as the model's file has them.
kept=(--set train.checkpoint_every=3)
client 'fields-one' "$tmp/one.yaml" --set server="$endpoint" --fresh "${kept[@]}" || fail "one client with checkpoints: exit status $?"
killed_client 8 fields-one "$tmp/one.yaml" --set server="$endpoint" "${kept[@]}"
killed_server server.apply=kill@9 fields-one "$tmp/one.yaml" "${kept[@]}"
cp "$tmp/one.yaml" "$tmp/wide.yaml"
sed -i "s,$tmp/wide/row,$tmp/tested/row,; s,$tmp/wide/left,$tmp/tested/left," "$tmp/one.yaml"
mkdir -p "$tmp/tested/row" "$tmp/tested/left" # the training tables need not be there
for source in row left; do cp "$tmp/wide/$source/val.csv" "$tmp/tested/$source/val.csv"; done
of_run=("$tmp/one.yaml" --set log.dir="$tmp/fields-one")
jq -c 'select(.type == "summary") | [.test_acc, .test_loss]' "$tmp/fields-one/log.jsonl" >"$tmp/figures"
for how in local link; do
	[ $how = local ] && where=(--local) || where=(--set server="$endpoint")
	"$SPLITC" eval "${of_run[@]}" "${where[@]}" --json >"$tmp/eval.json" 2>"$tmp/eval.log" && "$SPLITC" predict "${of_run[@]}" "${where[@]}" --csv >"$tmp/predicted-$how" 2>>"$tmp/eval.log" ||
		fail "eval and predict, $how: $(tail -n 1 "$tmp/eval.log")"
	cmp "$tmp/figures" <(jq -c '[.test_acc, .test_loss]' "$tmp/eval.json") || fail "eval, $how: $(jq -c '[.test_acc, .test_loss]' "$tmp/eval.json"), and the run ended with $(cat "$tmp/figures")"
done
[ "$(jq -c '.classes[1:5]' "$tmp/eval.json")" = '["k1","k2","3","4"]' ] || fail "names of classes: $(jq -c .classes "$tmp/eval.json")"
cmp "$tmp/predicted-local" "$tmp/predicted-link" || fail 'predictions over a link are others'
[ "$(sed 1d "$tmp/predicted-local" | grep -c 'k[012],')" = 24 ] || fail "predictions: $(head -n 3 "$tmp/predicted-local")"

# The members' models joined into one file say what that of one process says: of each source.
"$SPLITC" export "$tmp/fields-C.yaml" "$tmp/fields.joined.safetensors" --set log.dir="$tmp/fields-C" --join "$tmp/fields-B/model.safetensors" --join "$tmp/fields-A/model.safetensors" >"$tmp/join.log" 2>&1 ||
	fail "the models of three sources: $(cat "$tmp/join.log")"
for model in fields.joined fields-local/model fields-one/model; do
	"$SPLITC" predict "$tmp/one.yaml" --local --weights "$tmp/$model.safetensors" --csv >"$tmp/predicted" 2>"$tmp/eval.log" && cmp "$tmp/predicted" "$tmp/predicted-local" || fail "predict with $model: $(tail -n 1 "$tmp/eval.log")"
	"$SPLITC" eval "$tmp/one.yaml" --local --weights "$tmp/$model.safetensors" --json >"$tmp/eval.json" 2>>"$tmp/eval.log" && cmp "$tmp/figures" <(jq -c '[.test_acc, .test_loss]' "$tmp/eval.json") || fail "eval with $model: $(tail -n 1 "$tmp/eval.log")"
	"$SPLITC" eval "$tmp/fields-A.yaml" --local --party "$tmp/fields-B.yaml" --party "$tmp/fields-C.yaml" --weights "$tmp/$model.safetensors" --json >"$tmp/eval.json" 2>>"$tmp/eval.log" || fail "eval of the members with $model: $(tail -n 1 "$tmp/eval.log")"
	! grep -E 'WARN (other|columns)-' "$tmp/eval.log" || fail "with $model"
done

# Another run goes on with the same data alone, of whichever source.
client_dies client.apply@5 changed "$tmp/wide.yaml" --set server="$endpoint" "${kept[@]}"
cp "$tmp/wide/left/train.csv" "$tmp/straight.csv"
sed -i '5s/,.*/,0/' "$tmp/wide/left/train.csv"
rc=0
client changed "$tmp/wide.yaml" --set server="$endpoint" "${kept[@]}" --resume || rc=$?
[ $rc = 78 ] && grep -q 'are not those that the run in' "$tmp/changed.log" || fail "another table of a further source: status $rc, $(tail -n 1 "$tmp/changed.log")"
mv "$tmp/straight.csv" "$tmp/wide/left/train.csv"

# Labels alone may be in a table, beside pictures for a network with one input.
members=(A C)
write_parties
sed -e 's/classes: 10/classes: 3/' -e '/^share:/d' -e '/^data:/d' "$tmp/A.yaml" >"$tmp/towers.yaml"
several=
site A 0 features '' 'scans, kind: images, id: stem'
site C 1 labels '' "row, $table, label: kind"
cat "$tmp/towers.yaml" - >"$tmp/one.yaml" <<YAML
data: {kind: csv, dir: $tmp/wide/row, id: id, label: kind, inputs: [], also: {kind: images, dir: $tmp/wide/scans, id: stem, inputs: [image]}}
YAML
vertical labels
as_vertical labels
mkdir "$tmp/wide/bare"
for part in "$tmp"/wide/row/*.csv; do
	awk -F, -v OFS=, 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i} {print $at["id"], $at["kind"]}' "$part" >"$tmp/wide/bare/${part##*/}"
done
for task in train eval predict; do
	"$SPLITC" $task "$tmp/one.yaml" --local --set log.dir="$tmp/bare" --set data.dir="$tmp/wide/bare" >"$tmp/out" 2>&1 ||
		fail "$task with a table of labels alone: $(cat "$tmp/out")"
done

# Refused, each with a sentence.
pictures="kind=images,dir=$tmp/wide/scans,id=stem"
width="- kind=csv,dir=$tmp/wide/left,id=id"
config=$tmp/wide.yaml
without() { # WORDS KEY=VALUE…: wide.yaml with these keys
	local set=() pair
	for pair in "${@:2}"; do set+=(--set "$pair"); done
	refused 78 "$1" "${set[@]}"
}
without 'source 1: data.inputs: must name the network' "data.also=$pictures"
without 'the network has no input picture' "data.also=$pictures,inputs=[picture],$width,inputs=[left]"
without 'the network has no input picture' data.inputs=picture
without 'source 2: another source gives row, too' "data.also=$pictures,inputs=[image],$width,inputs=[row]"
without 'no source gives left' "data.also=$pictures,inputs=[image]"
without 'no source gives row' data.inputs=
without 'source 1: data.id: must say what names a row' "data.also=kind=images,dir=$tmp/wide/scans,inputs=[image]"
without 'source 2: data.ignore: ' "data.also=$pictures,inputs=[image],- $pictures,inputs=[left],ignore=[a]"
without 'data.label counts for all sources' "data.also=$pictures,inputs=[image],label=kind"
without 'unknown key: did you mean "kind"' data.also=knd=csv
without 'source 1: data.inputs: the network'"'"'s input image takes pictures' "data.also=kind=csv,dir=$tmp/wide/left,id=id,inputs=[image],$width,inputs=[left]"
without 'source 1: data.inputs: the network'"'"'s input left takes rows of numbers' "data.also=$pictures,inputs=[left],- $pictures,inputs=[image]"
without 'source 1: data.transforms: the list makes images of 8 x 8' "data.also=$pictures,inputs=[image],transforms=[RandomCrop(8)],$width,inputs=[left]"
without 'this key is given twice' "data.also=$pictures,dir=elsewhere"
without 'at most 8 sources' 'data.also=dir=a,- dir=a,- dir=a,- dir=a,- dir=a,- dir=a,- dir=a,- dir=a,- dir=a'
without 'does not go with share.group' share.group=g
without 'does not go with data.also' data.split.by=id data.split.train=0.5 data.split.val=0.5
refused 65 'no column "name"' --set data.id=name
mkdir -p "$tmp/odd/train" "$tmp/odd/val"
cp "$tmp/wide/scans/train/row-0003.ppm" "$tmp/odd/train/other.ppm"
data_refused() { # WORDS: pictures in $tmp/odd
	local rc=0
	client odd "$config" --local --set "data.also=kind=images,dir=$tmp/odd,id=stem,inputs=[image],$width,inputs=[left]" || rc=$?
	[ $rc = 65 ] && grep -qF -- "$1" "$tmp/odd.log" || fail "$1: status $rc, $(tail -n 1 "$tmp/odd.log")"
}
data_refused 'the sources have no common row'
mkdir "$tmp/odd/train/again"
cp "$tmp/odd/train/other.ppm" "$tmp/odd/train/again"
data_refused 'are both called "other"'

# A broken picture of a further source: its name and what to do, or another row from all sources; splitc data names it.
mkdir -p "$tmp/broken"
cp -r "$tmp/wide/scans/." "$tmp/broken"
echo P6 >"$tmp/broken/train/row-0005.ppm"
broken="data.also=kind=images,dir=$tmp/broken,id=stem,inputs=[image],$width,inputs=[left]"
rc=0
client broken "$config" --local --fresh --set "$broken" || rc=$?
[ $rc = 65 ] && grep -q 'row-0005.ppm: .*; data.on_bad_sample: skip goes on without it' "$tmp/broken.log" || fail "a broken picture: status $rc, $(tail -n 1 "$tmp/broken.log")"
client broken "$config" --local --fresh --set "${broken/id=stem/id=stem,on_bad_sample=skip}" || fail "a broken picture that is skipped: $(tail -n 1 "$tmp/broken.log")"
grep -q 'row-0005.ppm: .*; the next sample takes its place' "$tmp/broken.log" || fail 'no word of a skipped picture'
rc=0
"$SPLITC" data "$config" --set "$broken" --json >"$tmp/look.json" 2>"$tmp/look.log" || rc=$?
[ $rc = 65 ] && [ "$(jq .train.unreadable "$tmp/look.json")" = 1 ] && grep -q 'row-0005.ppm: ' "$tmp/look.log" || fail "splitc data, a broken picture: status $rc, $(cat "$tmp/look.json")"

# Columns as a run's model has them for the source in that place.
client skipped "$config" --local --fresh || fail "wide.yaml: $(tail -n 1 "$tmp/skipped.log")"
client broken "$config" --local --fresh --set "data.also=${width#- },inputs=[left],like=$tmp/skipped/model.safetensors,- $pictures,inputs=[image]" || fail "columns of a further source: $(tail -n 1 "$tmp/broken.log")"
cmp <(tensors_of "$tmp/broken") <(tensors_of "$tmp/skipped") || fail 'columns of a further source: other weights'
for refused in "leak|leak measures networks with one input|" "predict|a sample has parts in several files|$tmp/wide/row/val.csv"; do
	IFS='|' read -r command words file <<<"$refused"
	refusing='' command=$command refused 78 "$words" ${file:+"$file"}
done
