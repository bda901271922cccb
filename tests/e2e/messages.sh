#!/usr/bin/env bash
# Messages for mistakes of new users: a table of commands, each with its exit status and one line with a sentence.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 40 20
mkdir "$tmp/table" "$tmp/here"
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/photos" 0
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/photos/train" 40
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/photos/val" 20
printf 'age,sick\n40,yes\n50,no\n' | tee "$tmp/table/train.csv" >"$tmp/table/val.csv"
old_blas=$PWD/$BUILD/tests/support/preload/old_blas.so
cd "$tmp/here"
printf '\377\330\377\340' >x.jpg
head -c 2000000 /dev/zero >model.safetensors
cat >photos.yaml <<-YAML
	model: {name: resnet18, classes: 10, image: 32, width: 0.1}
	data: {kind: images, dir: $tmp/photos}
	train: {batch: 16}
	threads: 1
YAML
# says STATUS SENTENCE: runs the command on stdin.
says() {
	local want=$1 sentence=$2 status=0 command
	read -r command
	bash -c "${command/splitc/$SPLITC}" >"$tmp/out" 2>&1 || status=$?
	[ "$status" = "$want" ] && grep -qxF -- "$sentence" "$tmp/out" || fail "$command: exit status $status, $(cat "$tmp/out")"
}

# predict
says 64 'splitc: x.jpg is no config: write splitc predict CONFIG x.jpg, with the config that the model was trained with' <<'E1'
splitc predict x.jpg
E1
says 66 'splitc: runs/default/model.safetensors cannot be read: `splitc train` writes it; or name another file with --weights' <<'E1'
splitc predict photos.yaml x.jpg --local --set log.dir=runs/default
E1
says 64 'splitc: predict: --force lets --out FILE be replaced: give --out, too' <<'E1'
splitc predict photos.yaml x.jpg --local --force
E1
says 64 'splitc: predict: this network predicts numbers, which have no logits: leave out --logits' <<'E1'
splitc predict photos.yaml --local --logits --set model.name=mlp --set model.classes=1 --set model.task=numbers --set data.kind=csv --set data.dir=../table --set data.label=age
E1
says 64 'splitc: tokens: --stats prints no rows: leave out --text' <<'E1'
splitc tokens . --stats --text
E1
# train
says 64 'splitc: model.safetensors is no config, which is a YAML file: `splitc init` writes one, and weights are named in it by model.weights, a network by model.network' <<'E1'
splitc train model.safetensors
E1
says 66 "splitc: photos.yaml:2:27: data.dir: $tmp/photos/train.csv is missing: it names pictures and their numbers or labels; pictures in folders of classes need model.classes of 2 or more" <<'E1'
splitc train photos.yaml --set model.classes=1
E1
says 78 'splitc: --set data.normalize: must be imagenet, cifar10, cifar100 or none, got "[0.5,0.5,0.5]"; own numbers are Normalize((MEAN), (DEVIATION)) in data.transforms and data.test_transforms' <<'E1'
splitc train photos.yaml --set data.normalize=[0.5,0.5,0.5]
E1
says 78 'splitc: --set data.kind: the network takes pictures, and csv has rows of a table: choose data.kind: images, webdataset, cifar10 or cifar100; or another network' <<'E1'
splitc train photos.yaml --set data.kind=csv --set data.dir=../table --set data.label=sick
E1
says 78 'splitc: photos.yaml:2:14: data.kind: the network takes rows of a table, and images has pictures: choose data.kind: csv; or another network' <<'E1'
splitc train photos.yaml --set model.name=mlp
E1
says 0 'WARN batch: train.batch is 100000, but there are only 40 samples: each step has 40, and memory is taken for 100000; write train.batch: 40 or less' <<'E1'
splitc train photos.yaml --check-config --set train.batch=100000
E1
case $("$SPLITC" --version) in *avx*)
	says 0 'WARN slow-blas: OPENBLAS_CORETYPE in the environment makes OpenBLAS use kernels of an older CPU: unset it' <<-'E1'
		OPENBLAS_CORETYPE=Prescott splitc train photos.yaml --local --set log.dir= --set train.epochs=1
	E1
	# where OpenBLAS does not know the CPU, the program chooses its kernels, and keeps name and arguments
	[ -n "${SAN:-}" ] || for program in splitc splits; do
		LD_PRELOAD=$old_blas "${SPLITC%splitc}$program" --version | grep -Eq "^$program .*OpenBLAS (SkylakeX|Haswell)$" || fail "$program: kernels of 2004"
	done
esac
says 78 'splitc: --set data.transforms: the list does not say the size of its images: end with a crop, or Resize((32, 32))' <<'E1'
splitc train photos.yaml --check-config --set 'data.transforms=[Resize(64), RandomRotation(10)]'
E1
says 78 'splitc: --set data.transforms: the list makes images of 64 x 64, model.image is 32x32' <<'E1'
splitc train photos.yaml --check-config --set 'data.transforms=[RandomCrop(64, padding=4)]'
E1
mkdir ../one
cp ../table/train.csv ../one
head -n 2 ../table/val.csv >../one/val.csv
says 0 'photos.yaml: ok, 1 step on 2 samples, 1 sample to evaluate with' <<'E1'
splitc train photos.yaml --check-config --epochs 1 --set model.name=mlp --set model.classes=2 --set model.features=1 --set data.kind=csv --set data.dir=../one --set data.label=sick
E1
# Short options do what --set does.
says 0 'photos.yaml: ok, 25 steps on 40 samples, 20 samples to evaluate with' <<'E1'
splitc train photos.yaml --epochs 5 --batch 8 --lr 0.01 --check-config
E1
# export
says 64 'splitc: export: model.pt: models are written as .safetensors, which PyTorch reads (docs/howto-pytorch.md), or as .onnx: name a file that ends so' <<'E1'
splitc export photos.yaml model.pt
E1
[ ! -e model.pt ] || fail 'a refused export wrote a file'
says 64 'splitc: export: model.ONNX: models are written as .safetensors, which PyTorch reads (docs/howto-pytorch.md), or as .onnx: name a file that ends so' <<'E1'
splitc export photos.yaml model.ONNX
E1
says 64 'splitc: export: model.gguf: models are written as .safetensors, which PyTorch reads (docs/howto-pytorch.md), or as .onnx: name a file that ends so' <<'E1'
splitc export photos.yaml model.gguf
E1

# generate, keys, tokenizers
says 64 "splitc generate: no value (or too many) for '--prompt'; usage: $("$SPLITC" generate --help | sed -n '1,2{s/usage: //;p}' | tr -s ' \n' ' ' | sed 's/ $//')" <<'E1'
splitc generate photos.yaml --prompt A --prompt B
E1
"$SPLITC" keygen --out own.key >own.pub 2>"$tmp/out" || fail "keygen: $(cat "$tmp/out")"
says 78 "splitc: --set auth.server_key: is the public key of this client's own auth.secret_key: give the server's" <<'E1'
splitc train photos.yaml --set auth.secret_key=own.key --set auth.server_key=own.pub
E1
printf '\n\016\n\005<unk>' >tokenizer.model
echo '{"text": "x", "label": 1}' | tee train.jsonl >dev.jsonl
says 65 'splitc: --set data.tokenizer: tokenizer.model is a model of SentencePiece, which is not read: scripts/tokenizer-json.py makes tokenizer.json of it' <<'E1'
splitc train --local --set model.name=token_mlp --set model.classes=2 --set head_end=embedding --set tail_begin=dense --set data.kind=text --set data.dir=. --set data.tokenizer=tokenizer.model
E1

# More tensors than memory: whichever allocation or thread fails first, the error says what the run needs and may have.
# Not with sanitizers, which need far more address space. OpenBLAS has 128 MiB of it for each thread.
if [ -z "${SAN:-}" ]; then
	# limits, images and widths: the first has no room for its weights
	for case in 260000:256:2 $(seq -f %.0f:512:0.5 260000 97000 1400000) 2000000:512:0.5; do
		IFS=: read -r limit image width <<<"$case"
		rc=0
		room=$(awk -v n=$((limit * 1024)) 'BEGIN { printf n < 1e9 ? "%.1f MB" : "%.1f GB", n / (n < 1e9 ? 1e6 : 1e9) }')
		(ulimit -v $limit && OPENBLAS_NUM_THREADS=1 "$SPLITC" train photos.yaml --local --set model.image=$image --set train.batch=40 --set train.chunks=1 --set model.width=$width) >"$tmp/out" 2>&1 || rc=$?
		[ $rc = 71 ] && grep -qE "^splitc: .*; the run needs [0-9.]+ GB here, and this process may have $room: .splitc flops. lists the need\$" "$tmp/out" ||
			fail "too little memory, $limit KiB: $rc, $(cat "$tmp/out")"
	done
	# OpenBLAS tries for ever to get memory, before main or in a thread of its own: the program does not wait for it.
	for limit in $(seq 130000 15000 400000); do
		for command in 'train photos.yaml --local' 'flops missing.yaml'; do
			rc=0
			(ulimit -v $limit && env -u OPENBLAS_NUM_THREADS timeout 20 "$SPLITC" $command) >"$tmp/out" 2>&1 || rc=$?
			[ $rc != 124 ] && [ -s "$tmp/out" ] || fail "$limit KiB, $command: $rc, $(cat "$tmp/out")"
		done
	done
	# A process that may use one CPU needs room for one thread.
	rc=0
	one=$(taskset -cp $$ | sed 's/.*: //; s/[^0-9].*//')
	(ulimit -v 300000 && env -u OPENBLAS_NUM_THREADS taskset -c "$one" "$SPLITC" flops missing.yaml) >"$tmp/out" 2>&1 || rc=$?
	[ $rc = 66 ] || fail "one CPU: $rc, $(cat "$tmp/out")"
fi

# A run that is interrupted after an evaluation names the step of its figures; an epoch has 3 steps here.
cd "$OLDPWD"
start_server one
client_stands 3 interrupted "$tmp/here/photos.yaml" --set server="$endpoint" --set train.epochs=9 --json
stops interrupted
grep '^{' "$tmp/interrupted.log" | jq -e '.outcome == "interrupted" and .evaluated_step == 3 and .steps > 3' >"$tmp/out" ||
	fail "of which step: $(grep '^{' "$tmp/interrupted.log" | jq -c '{outcome, evaluated_step, steps}')"
client_stands 1 resumed "$tmp/here/photos.yaml" --set server="$endpoint" --set train.epochs=9 --set log.dir="$tmp/interrupted" --resume
stops resumed
grep -qE '^that was after step (3|6), and the run ended after step [0-9]+$' "$tmp/resumed.log" || fail "$(tail -n 3 "$tmp/resumed.log")"
echo 'mistakes are named in plain words, and figures with their step'
