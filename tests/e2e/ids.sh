#!/usr/bin/env bash
# Columns of ids in a table (data.ids), which a network looks up in tables: a run with a server equals --local, also over
# kills; predictions number texts as training did, 0 is for others; members of a group number alike or are refused; hashes
# need no list. What does not fit the network is refused with a sentence. With PyTorch, networks of papers learn as there.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/shop"
# Users are texts, items whole numbers, colours texts; the class depends on all three.
rows() { # FROM TO
	awk -v from="$1" -v to="$2" 'BEGIN {
		split("red green blue", colour, " "); print "row,user,item,colour,age,price,bought"
		for (i = from; i < to; i++) {
			u = i * 7 % 9; p = i * 5 % 11; c = int(i / 5) % 3
			printf "r%d,u%d,%d,%s,%.2f,%.2f,%s\n", i, u, p, colour[c + 1], 20 + i * 13 % 37, i * 17 % 23 / 4, (u * 5 % 9 + p * 3 % 11 + c * 4 > 12) ? "yes" : "no"
		}
	}'
}
rows 0 500 >"$tmp/shop/train.csv"
rows 500 620 >"$tmp/shop/val.csv"
# network FILE USERS ITEMS COLOURS: two tables of their own, and one for users and colours together, by offsets 0 and USERS
network() {
	python3 - "$@" <<-'PYTHON'
		import json, random, struct, sys
		path, users, items, colours = sys.argv[1], *map(int, sys.argv[2:5])
		random.seed(7)
		params = {"user.weight": [users, 4], "item.weight": [items, 4], "offsets": [2], "both.weight": [users + colours, 2],
		          "first.weight": [16, 14], "first.bias": [16], "second.weight": [16, 16], "second.bias": [16], "last.weight": [2, 16], "last.bias": [2]}
		nodes = """user.id resample %0
		item.id resample %0 first=1
		colour.id resample %0 first=2
		numbers resample %0 size=2 first=3
		user lookup %2 &0
		item lookup %3 &1
		pair concat %2 %4
		offsets repeat %8 &2
		sum add %8 %9
		both lookup %10 &3
		user.row permute %6
		item.row permute %7
		both.row permute %11
		a concat %12 %13
		b concat %14 %5
		all concat %15 %16
		first linear %17 &4 &5
		act act %18
		second linear %19 &6 &7
		more act %20
		last linear %21 &8 &9
		loss xent %22 %1"""
		text = "graph 1\nin row f32 R[5]\nin label i32 R[]\n" + "".join(
			f"param {n} [{','.join(map(str, s))}]{' frozen' * (n == 'offsets')} zero\n" for n, s in params.items())
		text += "".join(f"node {line.strip()}\n" for line in nodes.split("\n")) + "out loss %23\n"
		header, data = {"__metadata__": {"format": "pt", "split.graph": text, "split.network": json.dumps({"constants": ["offsets"], "ids": {"row": [users, items, colours, 0, 0]}})}}, b""
		for name, shape in params.items():
		    n = shape[0] * (shape[1] if len(shape) > 1 else 1)
		    values = [0, users] if name == "offsets" else [random.gauss(0, 0.4) for _ in range(n)]
		    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * n]}
		    data += struct.pack(f"<{n}f", *values)
		said = json.dumps(header).encode()
		said += b" " * (-len(said) % 8)
		open(path, "wb").write(len(said).to_bytes(8, "little") + said + data)
	PYTHON
}
network "$tmp/net.safetensors" 10 11 4
start_server one
config=$tmp/client.yaml
cat >"$config" <<-YAML
	server: $endpoint
	model: {network: $tmp/net.safetensors}
	head_end: first
	tail_begin: last
	data: {kind: csv, dir: $tmp/shop, label: bought, ignore: [row], ids: [user, item, 'col*']}
	train: {batch: 25, chunks: 2, epochs: 15, seed: 1, checkpoint_every: 40, optimizer: {kind: adamw, lr: 0.01}}
	threads: 1
YAML
as_local linked local 300 "$config" --json
killed_client 90 linked "$config"
tail -n 1 "$tmp/local.log" | jq -e '.test_acc > 0.9' >"$tmp/out" || fail "not learned: $(tail -n 1 "$tmp/local.log")"
jq -ce '[.columns[] | [.name, .ids, .rows, (.texts // [] | length)]]' "$tmp/local/about.json" >"$tmp/out" &&
	[ "$(cat "$tmp/out")" = '[["user","texts",10,9],["item","numbers",11,0],["colour","texts",4,3],["age",null,null,0],["price",null,null,0]]' ] || fail "about.json: $(cat "$tmp/out")"
"$SPLITC" data "$config" --json | jq -ce .ids >"$tmp/out" && [ "$(cat "$tmp/out")" = '{"user":10,"item":11,"colour":4}' ] || fail "data: $(cat "$tmp/out")"
"$SPLITC" data "$config" >"$tmp/out" && grep -q '^ids         10 rows of an embedding for column "user"$' "$tmp/out" || fail "data: $(cat "$tmp/out")"

# Predictions number as training did: by name, in any order of columns, also beside another table and in a stream. What
# training lacks is 0, with a warning.
on() { "$SPLITC" "$1" "$config" --local --set log.dir="$tmp/linked" "${@:2}" 2>"$tmp/err"; }
on predict --json | jq -c .probabilities >"$tmp/known" || fail "predict: $(cat "$tmp/err")"
awk -F, -v OFS=, '{ print $6, $3, $4, $2, $5 }' "$tmp/shop/val.csv" >"$tmp/turned.csv"
on predict --json --set data.dir="$tmp/nowhere" "$tmp/turned.csv" | jq -c .probabilities | cmp - "$tmp/known" || fail "columns in another order: $(cat "$tmp/err")"
on predict --stream --json <"$tmp/turned.csv" | jq -c .probabilities | cmp - "$tmp/known" || fail "a stream: $(cat "$tmp/err")"
sed '2,$s/,u[0-9],/,new,/' "$tmp/turned.csv" >"$tmp/new.csv"
on predict --json "$tmp/new.csv" | jq -c .probabilities >"$tmp/out" || fail "unknown users: $(cat "$tmp/err")"
grep -q '^WARN unknown-texts: .*new.csv:2: column "user": "new" does not occur in training, and has the id 0; 119 further cells are such$' "$tmp/err" || fail "unknown users: $(cat "$tmp/err")"
if cmp -s "$tmp/out" "$tmp/known"; then fail 'unknown users are known'; fi
for item in 11 -1 1.5 red ''; do
	sed "5s/^\([^,]*\),[0-9]*,/\1,$item,/" "$tmp/turned.csv" >"$tmp/odd.csv"
	if on predict "$tmp/odd.csv" >"$tmp/out"; then fail "the item '$item' is taken"; fi
	grep -qE 'odd.csv:5: (column "item"|the cell of column "item" is empty)' "$tmp/err" || fail "the item '$item': $(cat "$tmp/err")"
done

# Hashes: what training lacks has a bucket like all others. A missing cell is 0 for texts and hashes, and none for numbers.
network "$tmp/wide.safetensors" 10 11 10
client hashed "$config" --local --set data.buckets=10 --set model.network="$tmp/wide.safetensors" --set train.epochs=2 || fail "hashes: exit status $?"
"$SPLITC" predict "$config" --local --set data.buckets=10 --set model.network="$tmp/wide.safetensors" --set log.dir="$tmp/hashed" "$tmp/new.csv" >"$tmp/out" 2>"$tmp/err" &&
	! grep -q unknown-texts "$tmp/err" || fail "hashes of unknown texts: $(cat "$tmp/err")"
mkdir "$tmp/holes"
for part in train val; do sed '3s/,u[0-9],/,,/' "$tmp/shop/$part.csv" >"$tmp/holes/$part.csv"; done
client holes "$config" --local --set data.dir="$tmp/holes" --set data.missing=mean --set train.epochs=1 || fail "missing users: exit status $?"
sed -i '3s/\(,,\)[0-9]*,/\1,/' "$tmp/holes/train.csv"
refused 65 'train.csv:3: the cell of column "item" is empty; its column has whole numbers as ids, of which none stands for a missing cell' --set data.dir="$tmp/holes" --set data.missing=mean

# one word, and no cell is an id as it is
awk -F, -v OFS=, 'NR == 7 { $3 = "NA" } 1' "$tmp/shop/train.csv" >"$tmp/holes/train.csv"
cp "$tmp/shop/val.csv" "$tmp/holes"
network "$tmp/more.safetensors" 10 13 4
"$SPLITC" train "$config" --check-config --set log.dir="$tmp/na" --set data.dir="$tmp/holes" --set model.network="$tmp/more.safetensors" >"$tmp/out" 2>"$tmp/err" || fail "NA: $(cat "$tmp/err")"
grep -q '^WARN column-of-words: .*train.csv:7: column "item": "NA" is no id, .* though 499 of 500 are numbers$' "$tmp/err" || fail "NA: $(cat "$tmp/err")"

# Members number texts alike, or are refused: each by its own table would mean other users by one id.
ln -s "$tmp/shop" "$tmp/part0"
mkdir "$tmp/part1"
for part in train val; do sed 's/,u0,/,v0,/' "$tmp/shop/$part.csv" >"$tmp/part1/$part.csv"; done
both() { "$SPLITC" train "$config" --fresh --local --clients 2 --set share.epoch_steps=3 --set train.epochs=1 --set data.dir="$tmp/part%m" --set log.dir="$tmp/both" "$@" >"$tmp/out" 2>&1; }
if both; then fail 'members with other users'; fi
grep -q 'other classes, columns or scales than those of group local' "$tmp/out" || fail "members with other users: $(cat "$tmp/out")"
both --set data.like="$tmp/local/about.json" || fail "data.like: $(cat "$tmp/out")"
both --set data.buckets=10 --set model.network="$tmp/wide.safetensors" || fail "hashes at two members: $(cat "$tmp/out")"
both --set share.ends=private || fail "private heads: $(cat "$tmp/out")"

# init leaves no column of ids out, though each row may have its own. It takes them for such a network alone.
awk -F, -v OFS=, 'NR > 1 { $2 = $2 "-" NR } 1' "$tmp/shop/train.csv" >"$tmp/each.csv"
network "$tmp/each.safetensors" 501 11 4
init() { "$SPLITC" init "$tmp/made.yaml" --force --data "csv:$tmp/each.csv" --set data.label=bought --set data.ids=user,item,colour "$@" >"$tmp/out" 2>&1; }
init --model "$tmp/each.safetensors" --cut first,last || fail "init: $(cat "$tmp/out")"
grep -q '^  ignore: \["row"\]' "$tmp/made.yaml" && grep -q '^  ids: \["user", "item", "colour"\]' "$tmp/made.yaml" || fail "init: $(cat "$tmp/out" "$tmp/made.yaml")"
rm "$tmp/made.yaml"
if init --cut 1:-1; then fail 'init: mlp looks up ids'; fi
grep -q 'data.ids: the network looks up no ids' "$tmp/out" || fail "init: $(cat "$tmp/out")"

# Each sentence says what would fit.
network "$tmp/small.safetensors" 8 11 4
refused 78 'data.ids: column "user" has ids 0 to 9, of which 0 is for what training lacks, and the network looks them up in 8 rows: give nn.Embedding 10, or set data.buckets' \
	--set model.network="$tmp/small.safetensors"
network "$tmp/small.safetensors" 10 9 4
refused 78 'data.ids: column "item" has ids up to 10, and the network looks them up in 9 rows: give nn.Embedding 11' --set model.network="$tmp/small.safetensors"
network "$tmp/small.safetensors" 10 11 3 # the rows of the table that users and colours share
refused 78 'data.ids: column "colour" has ids 0 to 3' --set model.network="$tmp/small.safetensors"
sed 's/\\"ids\\"/\\"idz\\"/' "$tmp/net.safetensors" >"$tmp/silent.safetensors"
refused 65 'its note split.network does not say which numbers of a row are ids' --set model.network="$tmp/silent.safetensors"
refused 78 'data.ids: the network looks up number 1 of a row in an embedding, which is of column "item": name that here' --set data.ids=user,colour
refused 78 'data.ids: the network computes with number 3 of a row, and looks it up nowhere, where column "age" has ids' --set data.ids=user,item,colour,age
refused 65 'no column "users" (data.ids)' --set data.ids=users
refused 65 'data.ids: names the column "row", which is a label, or left out' --set data.ids=row,user,item,colour
refused 78 'data.ids: the network looks up no ids' --set model.network= --set model.name=mlp --set head_end= --set tail_begin= --set model.features=5
refused 78 'user (lookup): ids do not cross, since codecs would round them: end the head with this layer or a later one' --set head_end=numbers --set cut_values=4
refused 78 'data.buckets' --set data.ids= --set data.buckets=5
client numbered "$config" --set model.network="$tmp/wide.safetensors" --set train.epochs=2 || fail "a wider network: exit status $?"
refusing=--resume refused 78 'are not those that the run in' --set log.dir="$tmp/numbered" --set model.network="$tmp/wide.safetensors" --set train.epochs=3 --set data.buckets=10

python=${PYTHON:-/usr/bin/python3}
"$python" -c 'import torch' 2>/dev/null || { echo 'no PyTorch here: ids of splitc alone were tried'; exit 77; }
export SPLIT_LIBRARY=$PWD/$BUILD/libsplit.so.0 PYTHONPATH=$PWD/python:$PWD/tests/e2e/script OMP_NUM_THREADS=1
mkdir "$tmp/torch"
script=$PWD/tests/e2e/script/ids.py
(cd "$tmp/torch" && "$python" -W ignore "$script" "$SPLITC" >"$tmp/torch.log" 2>&1) || fail "as in PyTorch: $(tail -n 3 "$tmp/torch.log")"

# Two inputs: each source has its own columns of ids.
(cd "$tmp" && "$python" -W ignore -) >"$tmp/two.log" 2>&1 <<-'PYTHON' || fail "two inputs: $(tail -n 3 "$tmp/two.log")"
	import split, torch
	from torch import nn
	class Two(nn.Module):
	    def __init__(self):
	        super().__init__()
	        self.user, self.item = nn.Embedding(10, 4), nn.Embedding(11, 4)
	        self.a, self.b, self.c = nn.Linear(10, 8), nn.Linear(8, 8), nn.Linear(8, 2)
	    def forward(self, left, right):
	        x = torch.cat([self.user(left[:, 0].long()), self.item(right[:, 1].long()), left[:, 1:], right[:, :1]], 1)
	        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))
	split.write_network(Two(), (torch.zeros(2, 2), torch.zeros(2, 2)), "two.safetensors")
PYTHON
mkdir "$tmp/left" "$tmp/right"
for part in train val; do
	cut -d, -f1,2,5,7 "$tmp/shop/$part.csv" >"$tmp/left/$part.csv"
	awk -F, -v OFS=, '{ print $1, $6, $3 }' "$tmp/shop/$part.csv" >"$tmp/right/$part.csv"
done
two() { # CONFIG IDS
	cat >"$tmp/$1.yaml" <<-YAML
		server: $endpoint
		model: {network: $tmp/two.safetensors}
		head_end: a
		tail_begin: c
		data: {kind: csv, dir: $tmp/left, id: row, label: bought, inputs: [left], ids: [user], also: {kind: csv, dir: $tmp/right, id: row, inputs: [right]$2}}
		train: {batch: 25, epochs: 2, optimizer: {kind: adamw, lr: 0.01}}
		threads: 1
	YAML
}
two two ', ids: [item]'
as_local two-linked two-local 40 "$tmp/two.yaml"
two one ''
config=$tmp/one.yaml refused 78 'the network looks up number 1 of a row in an embedding, which is of column "item"'
echo 'ids of a table, by numbers, texts and hashes'
