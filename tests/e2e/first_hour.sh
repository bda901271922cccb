#!/usr/bin/env bash
# The first hour of a new user: six tasks go from data, in shapes that others have, to predictions in at most six
# commands and without an edit by hand. Whatever else `splitc init --data` is given is refused with what it found, and
# no config is written.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
python=${PYTHON:-/usr/bin/python3}
mkdir "$tmp/hour"
"$TOOLS/make_text" "$tmp/hour"
"$python" - "$tmp/hour" <<-'END'
	import json, os, random, struct, sys, zlib

	os.chdir(sys.argv[1])
	random.seed(1)

	def write(path, text):
	    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
	    with open(path, "w") as file:
	        file.write(text)

	def picture(path, rgb, side=32):
	    os.makedirs(os.path.dirname(path), exist_ok=True)
	    pixels = bytes(max(0, min(255, v + random.randint(-20, 20))) for _ in range(side * side) for v in rgb)
	    with open(path, "wb") as file:
	        file.write(b"P6 %d %d 255 " % (side, side) + pixels)

	def mask(path, side=32):
	    os.makedirs(os.path.dirname(path), exist_ok=True)
	    rows = b"".join(b"\0" + bytes(int(x > 9) for x in range(side)) for _ in range(side))
	    parts = (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
	    with open(path, "wb") as file:
	        file.write(b"\x89PNG\r\n\x1a\n")
	        for name, data in parts:
	            file.write(struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)))

	for i in range(24):
	    picture(f"archive/Pet Images/Cat/{i}.ppm", (200, 60, 60))
	    picture(f"archive/Pet Images/Dog/{i}.ppm", (60, 60, 200))
	write("titanic/train.csv", "PassengerId,Survived,Sex,Age,Ticket No\n" + "".join(
	    f"{i + 1},{i % 2},{('female', 'male')[i % 2]},{20 + i % 30 if i % 7 else ''},T {1000 + 7 * i}\n" for i in range(80)))
	write("titanic/test.csv", "PassengerId,Sex,Age,Ticket No\n" + "".join(f"{i + 90},{('female', 'male')[i % 2]},33,T {i}\n" for i in range(4)))
	write("titanic/gender_submission.csv", "PassengerId,Survived\n90,0\n")
	write("imdb/IMDB Dataset.csv", "review,sentiment\n" + "".join(
	    f'"a {("bad", "good")[i % 2]} film, which I have seen {i} times","{("negative", "positive")[i % 2]}"\n' for i in range(80)))
	write("new reviews.txt", "a good film\na bad film\n")
	for name in "ab":
	    write(f"books/{name}.txt", "".join(f"the red box of fish number {i} is {name}\n" for i in range(40)))
	write("house prices.csv", "Rooms;Living Area;Place;Sale Price\n" + "".join(
	    f"{3 + i % 4};{60 + 5 * (i % 9)},5;{('north', 'south')[i % 2]};{100 + 9 * (i % 4) + (i % 9)},25\n" for i in range(80)))
	for part, n in ("train", 8), ("val", 4):
	    for i in range(n):
	        picture(f"scans/{part}/{i}.ppm", (90, 90, 90))
	        mask(f"scans/masks/{part}/{i}.png")
	text = {"vocab_size": len(json.load(open("vocab.json"))), "num_hidden_layers": 3}
	encoder = {"model_type": "roberta", "hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "max_position_embeddings": 130, "type_vocab_size": 1}
	decoder = {"model_type": "llama", "hidden_size": 24, "intermediate_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2,
	           "max_position_embeddings": 40, "initializer_range": 0.1, "eos_token_id": 2}
	for name, config in ("encoder", encoder), ("decoder", decoder):
	    write(f"{name}/config.json", json.dumps({**text, **config}))
	    for file in "vocab.json", "merges.txt":
	        write(f"{name}/{file}", open(file).read())

	# what init refuses, or takes
	for i in range(3):
	    picture(f"flat/{i}.ppm", (1, 2, 3), 4)
	    for kind in "images", "masks":
	        picture(f"undivided/{kind}/{i}.ppm", (1, 2, 3), 4)
	        picture(f"beside/train/{kind}/{i}.ppm", (1, 2, 3), 4)
	os.mkdir("empty")
	write("several/a.csv", "x,y\n1,2\n")
	write("several/b.csv", "x,y\n1,2\n")
	write("array.json", '[{"text": "x", "label": "a"}]')
	for name in "packed.zip", "packed.tar.gz", "table.parquet", "unet.onnx", "notes.odt":
	    write(name, "PK")
	write("reviews.jsonl", "".join('{"text": "x %d", "label": "%s"}\n' % (i, "ab"[i % 2]) for i in range(40)))
END
start_server hour

# in_hour WORD…: runs splitc in the user's folder. It counts commands, and refuses what the user cannot want.
in_hour() {
	commands=$((commands + 1))
	(cd "$tmp/hour" && timeout -k 5 $patience "$SPLITC" "$@") >"$tmp/out" 2>"$tmp/err" </dev/null || fail "$task: splitc $*: exit status $?: $(cat "$tmp/out" "$tmp/err")"
}
# A network for masks, if there is PyTorch.
masks=
if PYTHONPATH=$PWD/python "$python" -W ignore 2>"$tmp/err" - "$tmp/hour/net.safetensors" <<-'END'; then
	import sys, split, torch
	from torch.nn import Conv2d, ReLU, Sequential
	net = Sequential(Conv2d(3, 8, 3, padding=1), ReLU(), Conv2d(8, 8, 3, padding=1), ReLU(), Conv2d(8, 2, 1))
	split.write_network(net, torch.zeros(1, 3, 32, 32), sys.argv[1])
END
	masks='masks|--data scans --model net.safetensors --set train.batch=4|pictures with masks|--epochs 1|scans/val --out predicted|predicted/.*3.png'
else
	echo 'no PyTorch: masks are not tried'
fi
# TASK|words of init|what init says|words of train|files to predict, or the prompt of a decoder|what predict prints
while IFS='|' read -r task init says train new predicted; do
	[ -n "$task" ] || continue
	commands=2 # splits serve, and ls, which shows the data
	eval "in_hour init '$task.yaml' --server $endpoint $init"
	grep -qE "$says" "$tmp/out" || fail "$task: init says: $(cat "$tmp/out")"
	eval "in_hour train '$task.yaml' $train"
	case $task in
	decoder) eval "in_hour generate '$task.yaml' --prompt '$new'" ;;
	*)
		in_hour eval "$task.yaml"
		eval "in_hour predict '$task.yaml' $new"
		;;
	esac
	grep -qE "$predicted" "$tmp/out" || fail "$task: predict prints: $(cat "$tmp/out")"
	[ $commands -le 6 ] || fail "$task takes $commands commands"
done <<-TASKS
	pictures|--data archive --model resnet9 --set train.batch=8|pictures in class folders .images.|--epochs 1|"archive/Pet Images/Cat/0.ppm"|(Cat|Dog) +archive/Pet Images/Cat/0.ppm
	classes|--data titanic --set data.label=Survived|label is the column "Survived", of 2 classes; the other columns make 3 features|--epochs 1|titanic/test.csv|titanic/test.csv:5
	texts|--data imdb --model huggingface:encoder|The classes are negative, positive|--epochs 1|"new reviews.txt"|(negative|positive) +new reviews.txt:2
	numbers|--data "house prices.csv" --set "data.label=Sale Price"|column "Sale Price", a number; the other columns make 4 features|--epochs 1|"house prices.csv"|house prices.csv:81
	decoder|--data books --model huggingface:decoder|plain texts|--epochs 1|the red box|^the red box
	$masks
TASKS

# ---- a refused prediction prints no line, and says what to do
refused() { # STATUS SENTENCE WORD…
	local rc=0 status=$1 says=$2
	(cd "$tmp/hour" && "$SPLITC" predict "${@:3}") >"$tmp/out" 2>"$tmp/err" </dev/null || rc=$?
	[ $rc = "$status" ] && grep -qF -- "$says" "$tmp/err" && [ ! -s "$tmp/out" ] || fail "predict ${*:3}: $rc: $(cat "$tmp/out" "$tmp/err")"
}
refused 78 'this one continues texts: use splitc generate' decoder.yaml
printf '\377\330\377\340' >"$tmp/hour/broken.jpg"
refused 65 'broken.jpg' pictures.yaml broken.jpg
(cd "$tmp/hour" && "$SPLITC" predict pictures.yaml broken.jpg flat/0.ppm --set data.on_bad_sample=skip) >"$tmp/out" 2>"$tmp/err" </dev/null || fail "$(cat "$tmp/err")"
grep -q 'broken.jpg: .*; it gets no prediction (bad samples so far: 1)' "$tmp/err" && [ "$(wc -l <"$tmp/out")" = 2 ] || fail "$(cat "$tmp/out" "$tmp/err")"

# ---- init is right, or says what it found
while IFS='|' read -r data status says; do
	rm -f "$tmp/hour/q.yaml"
	rc=0
	(cd "$tmp/hour" && "$SPLITC" init q.yaml --data "$data") >"$tmp/out" 2>&1 </dev/null || rc=$?
	[ $rc = "$status" ] && grep -qF -- "$says" "$tmp/out" || fail "init --data $data: $rc: $(cat "$tmp/out")"
	[ $rc = 0 ] || [ ! -e "$tmp/hour/q.yaml" ] || fail "init --data $data wrote a config"
done <<-'CASES'
	archive/Pet Images|0|pictures in class folders
	images:archive/Pet Images|0|pictures in class folders
	titanic|78|which column is the label? Give --set data.label=NAME with one of: PassengerId, Survived, Sex
	imdb|78|texts need a network: --model huggingface:FOLDER
	reviews.jsonl|78|texts need a network: --model huggingface:FOLDER
	scans|78|masks need a network that gives a class for each pixel or voxel: --model network:FILE
	flat|65|found 3 pictures such as
	empty|65|found nothing
	undivided|65|With masks the pictures lie in train and val
	beside|65|With masks the pictures lie in train and val
	several|65|found 2 CSV files
	array.json|65|name such a file .jsonl
	packed.zip|65|unpack it
	packed.tar.gz|65|unpack it
	table.parquet|65|write the table as CSV
	unet.onnx|65|by --model
	notes.odt|65|data are folders of pictures
	flat/0.ppm|65|it is one picture
	nowhere|66|No such file
CASES
echo passed
