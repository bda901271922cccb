#!/usr/bin/env bash
# Bad input gives an exit status of sysexits.h and one line on stderr that says what is wrong, and never a crash.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 48 24
write_config "$tmp/good.yaml"
cat >>"$tmp/good.yaml" <<YAML
link: {connect_timeout_ms: 300}
log: {dir: $tmp/run}
control: $tmp/splitc.sock
YAML
: >"$tmp/server.yaml"
cases=0 bad=0

# expect STATUS FRAGMENT COMMAND…: the fragment must be in stderr, or in stdout if the status is 0.
expect() {
	local status=$1 fragment=$2 rc=0
	shift 2
	# The name does not end in .log, or `fail` would print it for other cases too.
	timeout -k 5 "$patience" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || rc=$?
	cases=$((cases + 1))
	if [ $rc = "$status" ] && [ "$status" = 0 ]; then
		grep -qiF -- "$fragment" "$tmp/out" && return
	elif [ $rc = "$status" ]; then
		grep -qiF -- "$fragment" "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ] && return
	fi
	echo "FAILED: ${*/$tmp/\$tmp}"
	echo "exit status $rc where $status is right; one line with '$fragment' where this was said:"
	cat "$tmp/err" "$tmp/out"
	bad=$((bad + 1))
}

train() { # STATUS FRAGMENT [key=value]…
	local status=$1 fragment=$2 set=() pair
	shift 2
	for pair in "$@"; do set+=(--set "$pair"); done
	expect "$status" "$fragment" "$SPLITC" train "$tmp/good.yaml" ${set[@]+"${set[@]}"} ${more[@]+"${more[@]}"}
}
more=()
# both KEY=VALUE…: `train` refuses it, and so does --check-config.
both() {
	train "$@"
	more=(--check-config)
	train "$@"
	more=()
}

serve() { # STATUS FRAGMENT [key=value]…
	local status=$1 fragment=$2 set=(--set "listen=tcp://127.0.0.1:0" --set "control=$tmp/splits.sock" --set device=cpu) pair
	shift 2
	for pair in "$@"; do set+=(--set "$pair"); done
	expect "$status" "$fragment" "$SPLITS" serve "$tmp/server.yaml" "${set[@]}"
}

# the command line
expect 64 "unknown command 'trian': did you mean 'train'?" "$SPLITC" trian
expect 64 "unknown command 'server': did you mean 'serve'?" "$SPLITS" server
expect 64 "unknown command 'server'" "$SPLITC" help server
expect 0 'usage: splitc train [CONFIG]' "$SPLITC" help train
expect 0 '--set KEY=VALUE' "$SPLITS" serve --help
for check in "" --check-config; do
	expect 64 'give one of --resume, --fresh and --auto-resume' "$SPLITC" train "$tmp/good.yaml" --resume --fresh $check
	expect 64 '--local keeps no checkpoints' "$SPLITC" train "$tmp/good.yaml" --resume --local $check
done
expect 78 'unknown model "resnt9": did you mean "resnet9"? Known: mobilenet_v2, ' "$SPLITC" train "$tmp/good.yaml" --check-config --set model.name=resnt9
expect 64 "unknown option '--loacl'" "$SPLITC" train "$tmp/good.yaml" --loacl
expect 64 "unknown option '--daemon'" "$SPLITS" serve "$tmp/server.yaml" --daemon
expect 64 "unknown option '--momentum'; a key of the config is set by --set train.optimizer.momentum=VALUE" \
	"$SPLITC" train "$tmp/good.yaml" --momentum 0.5
expect 64 '--set train.drop_last=VALUE' "$SPLITC" train "$tmp/good.yaml" --drop-last
expect 64 '--set listen=VALUE' "$SPLITS" serve "$tmp/server.yaml" --listen tcp://127.0.0.1:5570
expect 78 '--set train.optimizer.lr: must be a number' "$SPLITC" train "$tmp/good.yaml" --epochs 2 --batch=8 --lr fast
expect 0 'ok, 12 steps on 48 samples' "$SPLITC" train "$tmp/good.yaml" --epochs 2 --batch 8 --lr 0.1 --check-config
expect 64 "missing argument 'CONFIG'" "$SPLITC" export
expect 64 "missing argument 'CONFIG'" "$SPLITC" eval --parity
expect 64 "missing argument 'CONFIG'" "$SPLITS" serve
expect 64 'one argument too many' "$SPLITC" eval "$tmp/good.yaml" "$tmp/good.yaml"
expect 64 "for '--set'" "$SPLITC" train "$tmp/good.yaml" --set
expect 64 "missing argument 'OUT'" "$SPLITC" export "$tmp/good.yaml"
expect 64 "unknown option '--local=1'" "$SPLITC" train "$tmp/good.yaml" --local=1
expect 78 '--set train.batch: must be a whole number' "$SPLITC" train "$tmp/good.yaml" --set=train.batch=many
expect 78 '--set train.batch: must be KEY=VALUE, such as threads=2' "$SPLITC" train "$tmp/good.yaml" --set train.batch
expect 0 'batch: 48' "$SPLITC" train "$tmp/good.yaml" --set=train.batch=48 --print-config
expect 0 'splitc COMMAND' "$SPLITC" --help
expect 0 'splits COMMAND' "$SPLITS" --help
expect 0 'OpenBLAS' "$SPLITC" --version

# configs
expect 0 'good.yaml: ok, 3 steps on 48 samples, 24 samples to evaluate with' "$SPLITC" train "$tmp/good.yaml" --check-config
expect 0 'activations ' "$SPLITC" train "$tmp/good.yaml" --check-config # of client and server
expect 0 'this host ' "$SPLITC" train "$tmp/good.yaml" --check-config
if [ -z "${SAN:-}" ]; then # sanitizers need more addresses
	(ulimit -v 8000000 && "$SPLITC" train "$tmp/good.yaml" --check-config --set train.batch=1000000) >"$tmp/memory" 2>&1 &&
		grep -q '^WARN memory: the run needs .* may have 8.2 GB' "$tmp/memory" || fail "a network larger than this host: $(cat "$tmp/memory")"
	(ulimit -v 8000000 && "$SPLITC" train "$tmp/good.yaml" --local --set train.batch=1000000 --set log.dir="$tmp/large") >"$tmp/memory" 2>&1 || true
	grep -q '^WARN memory: the run needs .* may have 8.2 GB' "$tmp/memory" || fail "its training: $(cat "$tmp/memory")"
fi
expect 0 'the server: the middle runs on cpu, which computes in fp32' "$SPLITC" flops "$tmp/good.yaml" --set train.precision=bf16
expect 0 'ok' "$SPLITS" serve configs/server.yaml --check-config
expect 0 'partition: ' "$SPLITC" train "$tmp/good.yaml" --print-config
expect 66 'No such file' "$SPLITC" train "$tmp/nowhere.yaml"
expect 66 'not a regular file' "$SPLITC" train "$tmp"
printf 'model: {name: mobilenet_v2}\ndata: {dir: x}\ntrain:\n  batch: 4\n  bacth: 5\n' >"$tmp/bad.yaml"
expect 78 'bad.yaml:5:3: unknown key "bacth" in train: did you mean "batch"?' "$SPLITC" train "$tmp/bad.yaml"
printf 'model: {name: mobilenet_v2}\ndata: {dir: x}\nthreads: 1\nthreads: 2\n' >"$tmp/bad.yaml"
expect 78 'bad.yaml:4:1' "$SPLITC" train "$tmp/bad.yaml"
printf 'model: {name: mobilenet_v2}\n' >"$tmp/bad.yaml"
expect 78 'data.dir' "$SPLITC" train "$tmp/bad.yaml"
printf 'model: {name: mobilenet_v2\n' >"$tmp/bad.yaml"
expect 78 'bad.yaml:2:1' "$SPLITC" train "$tmp/bad.yaml"
head -c 5000 /dev/urandom >"$tmp/bad.yaml"
expect 78 'bad.yaml' "$SPLITS" serve "$tmp/bad.yaml"
both 78 'train.chunks: must be at most train.batch (16), got 17' train.chunks=17
both 78 'chunks' train.batch=65536 train.chunks=1024
both 78 'train.optimizer.lr' train.optimizer.lr=fast
both 78 'train.optimizer.lr: must be a number from 1e-12 to 1000' train.optimizer.lr=0
both 78 'no method is called' codec=squeeze:8
both 78 'quant:b with b = 1…16' codec=quant:17
both 78 'quant:b with b = 1…16' codec.mid_grad='topk:0.1|quant:0'
both 78 'codec.head_grad' codec.head_grad='quant:8|topk:0.1'
both 78 '--set codec.head_act: qsgd:15,ef=true: error feedback would diverge, because qsgd may lose as much of' codec.head_act=qsgd:15,ef=true
both 78 'leave ef=true out' codec.mid_grad='topk:0.9,ef=true|terngrad'
both 78 '--set codec.end_grad: qsgd:15,ef=true: error feedback would diverge' share.group=local share.ends=step codec.end_grad=qsgd:15,ef=true
both 78 'model.name' model.name=mobilenet_v9

# cuts
both 78 'is not A:-B' partition=0:-1
both 78 'partition' partition=1:-40
both 78 'partition' partition=12:-12
both 78 'where cut_values allows 1' head_end=features.9.conv.0.0
both 78 'has no "nowhere"' tail_begin=nowhere
both 78 'tail_begin: no middle' head_end=features.12 tail_begin=features.3

# data
mkdir "$tmp/short" "$tmp/locked" "$tmp/100"
ln -s "$tmp/data/data_batch_1.bin" "$tmp/short"
ln -s "$tmp/data/data_batch_1.bin" "$tmp/100/train.bin"
ln -s "$tmp/data/data_batch_1.bin" "$tmp/locked"
: >"$tmp/locked/test_batch.bin"
chmod 0 "$tmp/locked/test_batch.bin"
both 66 "--set data.dir: $tmp/nowhere/data_batch_1.bin: No such file or directory (scripts/fetch-cifar10.sh fetches CIFAR-10)" \
	data.dir="$tmp/nowhere" data.train_files=
both 66 'test_batch.bin: No such file' data.dir="$tmp/short"
[ "$(id -u)" = 0 ] || both 66 'Permission denied' data.dir="$tmp/locked" # root may read all
both 65 'truncated: its 30730000 bytes end 2296 bytes into a cifar100 record of 3074' data.kind=cifar100 data.dir="$tmp/100" data.train_files= model.classes=100
both 78 'drop_last leaves no batch of 64 in 48 samples' train.batch=64 train.drop_last=true train.schedule.warmup_epochs=0
both 78 'warmup_epochs' train.schedule.warmup_epochs=2
both 78 'the run has 3 batches, so no step of 4 batches is ever done' train.accumulate=4
# At 32 x 32 the last batch norms see 1 x 1 pixels, at 64 x 64 four of them.
both 78 'a chunk of 16 samples in 16 chunks has one sample, where batch norm features.14.conv.1.1 has one value for each channel' train.chunks=16
both 78 'train.batch: the last batch of an epoch has 1 of 33 samples' data.train_limit=33
both 78 'train.batch: the last batch of an epoch has 5 of 37 samples' data.train_limit=37
for fine in data.train_limit=34 'data.train_limit=33 --set train.drop_last=true' 'data.train_limit=33 --set model.image=64' 'data.train_limit=33 --set train.max_steps=2'; do
	expect 0 'good.yaml: ok' "$SPLITC" train "$tmp/good.yaml" --check-config --set $fine
done
for where in --check-config --local; do
	"$SPLITC" train "$tmp/good.yaml" --batch 64 $where --set train.schedule.warmup_epochs=0 --set log.dir= >"$tmp/out" 2>"$tmp/err" || fail "a large batch: $(cat "$tmp/err")"
	[ "$(grep -c '^WARN batch: train.batch is 64, but there are only 48 samples: each step has 48, .*write train.batch: 48 or less$' "$tmp/err")" = 1 ] ||
		fail "a batch above the data set, $where: $(cat "$tmp/err")"
done
both 66 'No such file' data.train_files=[data_batch_7.bin]
mkdir "$tmp/cut"
head -c 100000 "$tmp/data/data_batch_1.bin" >"$tmp/cut/data_batch_1.bin"
cp --sparse=always "$tmp/data/test_batch.bin" "$tmp/cut"
both 65 'data_batch_1.bin: truncated: its 100000 bytes end 1664 bytes into a cifar10 record of 3073' data.dir="$tmp/cut"
cp --sparse=always "$tmp/data/data_batch_1.bin" "$tmp/cut"
printf '\012' | dd of="$tmp/cut/data_batch_1.bin" conv=notrunc bs=1 seek=3073 status=none
both 65 'record 1: label byte 0 is 10, must be below 10' data.dir="$tmp/cut"
both 78 'model.classes' model.classes=4
both 78 'cifar10 has classes, and no numbers or several labels' model.classes=1
both 78 'train.metrics: no metric "pearson" of classes; there are accuracy, top5, matthews, f1' train.metrics=pearson

# keys
both 66 "--set auth.secret_key: $tmp/nowhere.key: No such file" auth.secret_key="$tmp/nowhere.key" auth.server_key="$tmp/nowhere.pub"
expect 66 "--set auth.secret_key: $tmp/nowhere.key: No such file" "$SPLITS" serve "$tmp/server.yaml" --check-config \
	--set auth.secret_key="$tmp/nowhere.key" --set auth.clients="$tmp/nowhere"

# weights
expect 66 '`splitc train` writes it' "$SPLITC" eval "$tmp/good.yaml"
expect 66 'cannot be read: `splitc train` writes it' "$SPLITC" export "$tmp/good.yaml" "$tmp/out.safetensors"
client source "$tmp/good.yaml" --local || fail 'no weights to spoil'
weights="$tmp/source/model.safetensors"
both 66 "--set model.weights: $tmp/nowhere: No such file or directory (a safetensors file with PyTorch's names of mobilenet_v2" model.weights="$tmp/nowhere"
expect 66 '`splitc train` writes it' "$SPLITC" eval "$tmp/good.yaml" --set log.dir="$tmp/none" --check-config
expect 66 'log.dir is empty: name the model with --weights' "$SPLITC" eval "$tmp/good.yaml" --set log.dir=
expect 0 'ok, 24 samples to evaluate with' "$SPLITC" eval "$tmp/good.yaml" --weights "$weights" --check-config
expect 65 'is [8,3,3,3] in the file' "$SPLITC" export "$tmp/good.yaml" --weights "$weights" --set model.width=0.5 --check-config
expect 0 ': ok' "$SPLITC" flops "$tmp/good.yaml" --set data.dir="$tmp/nowhere" --check-config # it reads no file
head -c 9000 "$weights" >"$tmp/short.safetensors"
both 65 'short.safetensors' model.weights="$tmp/short.safetensors"
head -c -1 "$weights" >"$tmp/short.safetensors"
both 65 'short.safetensors' model.weights="$tmp/short.safetensors"
head -c 4096 /dev/urandom >"$tmp/garbage.safetensors"
both 65 'garbage.safetensors' model.weights="$tmp/garbage.safetensors"
: >"$tmp/empty.safetensors"
both 65 'empty.safetensors' model.weights="$tmp/empty.safetensors"
both 65 'is [8,3,3,3] in the file and [16,3,3,3] in the model' model.weights="$weights" model.width=0.5
both 65 'classifier.1' model.weights="$weights" model.classes=12
expect 65 'is [8,3,3,3] in the file and [16,3,3,3] in the model' "$SPLITC" eval "$tmp/good.yaml" --weights "$weights" --set model.width=0.5
expect 73 "$tmp/nowhere" "$SPLITC" export "$tmp/good.yaml" "$tmp/nowhere/out.safetensors" --weights "$weights"
expect 0 'mobilenet_v2, 314 tensors' "$SPLITC" export "$tmp/good.yaml" "$tmp/out.safetensors" --weights "$weights"
[ ! -s "$tmp/err" ] || fail "an export of torchvision's form says $(cat "$tmp/err")"
header() { tail -c +9 "$1" | head -c "$(od -An -tu8 -N8 "$1")"; }
[ "$(header "$tmp/out.safetensors" | jq length)" = 315 ] || fail "tensors of an export"
# A state_dict lacks facts about the model: the export warns of them, and its metadata have them.
expect 0 '314 tensors' "$SPLITC" export "$tmp/good.yaml" "$tmp/out.safetensors" --weights "$weights" --set model.form=cifar
grep -q '^WARN form-cifar: ' "$tmp/err" || fail "strides of form: cifar: $(cat "$tmp/err")"
header "$tmp/out.safetensors" | jq -e '.__metadata__ | .model == "mobilenet_v2" and .form == "cifar" and .width == "0.25" and
	.image == "32" and .normalize == "cifar10" and .format == "pt"' >"$tmp/out" || fail "an export's metadata: $(header "$tmp/out.safetensors" | jq .__metadata__)"
# No form is mentioned for a network that has only one.
expect 0 'resnet9, 49 tensors' "$SPLITC" export "$tmp/good.yaml" "$tmp/out.safetensors" --weights tests/golden/resnet9_after.safetensors \
	--set model.name=resnet9 --set model.width=0.125
[ ! -s "$tmp/err" ] || fail "an export of resnet9 says $(cat "$tmp/err")"
header "$tmp/out.safetensors" | jq -e '.__metadata__ | .model == "resnet9" and .form == "only"' >"$tmp/out" || fail "resnet9's metadata"

# log.dir: checked for access, and left unchanged
train 73 'proc' log.dir=/proc/nowhere
train 73 "$tmp/empty.safetensors: Not a directory" log.dir="$tmp/empty.safetensors"
more=(--check-config)
train 73 "$tmp/empty.safetensors/log.jsonl: Not a directory" log.dir="$tmp/empty.safetensors"
more=()
both 73 "$tmp/empty.safetensors" log.dir="$tmp/empty.safetensors/run"
mkdir "$tmp/shut" "$tmp/shut/log.jsonl"
both 73 "$tmp/shut/log.jsonl: Is a directory" log.dir="$tmp/shut"
rmdir "$tmp/shut/log.jsonl"
chmod 0555 "$tmp/shut"
[ "$(id -u)" = 0 ] || both 73 'Permission denied' log.dir="$tmp/shut" # root may write all
mkdir "$tmp/unfinished"
cp "$weights" "$tmp/unfinished/checkpoint-000000000007.safetensors"
for step in 7 ''; do # a run that is there is a note of the check, which looks at everything first
	train 73 "log.dir '$tmp/unfinished' holds a${step:+n unfinished run, at step 7: --resume goes on with it}" log.dir="$tmp/unfinished"
	more=(--check-config)
	train 0 'ok, 3 steps on 48 samples' log.dir="$tmp/unfinished"
	train 0 "note: log.dir '$tmp/unfinished' holds a${step:+n unfinished run, at step 7: --resume goes on with it}" log.dir="$tmp/unfinished"
	train 78 'model.classes' log.dir="$tmp/unfinished" model.classes=4
	more=()
	[ -n "$step" ] || continue
	mv "$tmp/unfinished/checkpoint-000000000007.safetensors" "$tmp/unfinished/model.safetensors"
done
mv "$tmp/unfinished/model.safetensors" "$tmp/unfinished/checkpoint-000000000007.safetensors"
for resume in "" --check-config; do
	expect 66 "--resume: no checkpoint in '$tmp/none'" "$SPLITC" train "$tmp/good.yaml" --set log.dir="$tmp/none" --resume $resume
	rm -rf "$tmp/none"
done
expect 0 'ok, ' "$SPLITC" train "$tmp/good.yaml" --set log.dir="$tmp/unfinished" --fresh --check-config
[ "$(ls "$tmp/unfinished")" = checkpoint-000000000007.safetensors ] || fail "--check-config left $(ls "$tmp/unfinished")"
expect 0 'ok, ' "$SPLITC" train "$tmp/good.yaml" --set log.dir="$tmp/new/run" --check-config
[ ! -e "$tmp/new" ] || fail '--check-config made a folder'
exec 8>"$tmp/unfinished/log.jsonl"
flock 8
rm "$tmp/unfinished/checkpoint-000000000007.safetensors"
both 75 'another run is writing it' log.dir="$tmp/unfinished"
exec 8>&-

# endpoints
before=$SECONDS
train 69 'no answer from tcp://127.0.0.1:9 within 300 ms: is splits running there? (Connection refused)'
[ $((SECONDS - before)) -le 5 ] || fail "an unreachable server took $((SECONDS - before)) s"
train 78 'server' server=127.0.0.1:5570
train 73 'control' control="$tmp/nowhere/splitc.sock"
expect 69 'nobody answers' "$SPLITC" status "$tmp/good.yaml"
expect 64 '--quiet goes with --live or --ready' "$SPLITS" status --quiet
expect 64 '--watch goes with a table or --json' "$SPLITC" status "$tmp/good.yaml" --watch --live
expect 64 '--json, --prometheus, --live or --ready: one of them' "$SPLITC" status "$tmp/good.yaml" --json --prometheus
expect 69 'nobody answers' "$SPLITS" status --control "$tmp/splits.sock"
serve 78 'must be on loopback' listen=tcp://0.0.0.0:5570
serve 78 'must be on loopback' listen=tcp://192.168.1.1:5570
"$SPLITS" keygen --out "$tmp/server.key" >/dev/null 2>&1
: >"$tmp/clients"
serve 69 'cannot listen on tcp://192.0.2.1:5570: give an IP address of this machine, such as 127.0.0.1, not a name' listen=tcp://192.0.2.1:5570 log.level=error auth.secret_key="$tmp/server.key" auth.clients="$tmp/clients"
serve 78 'cannot listen on tcp://lo:0: that is the name of an interface' listen=tcp://lo:0 log.level=error auth.secret_key="$tmp/server.key" auth.clients="$tmp/clients"
start_server named listen=tcp://localhost:0 store="$tmp/named"
case $endpoint in tcp://127.0.0.1:*) ;; *) fail "localhost is bound as $endpoint" ;; esac
serve 73 'store' store="$tmp/server.yaml/store"
serve 78 'device' device=gpu
start_server first
serve 69 'Address already in use: another server has this port' listen="$endpoint"
for address in 9570 :9570 '*:9570' localhost 127.0.0.1:70000 host.example:9570 tcp://127.0.0.1:9570; do
	serve 78 '--set metrics: must be ADDRESS:PORT, such as 127.0.0.1:9570' metrics="$address"
done
both 78 '--set metrics: must be ADDRESS:PORT, such as 127.0.0.1:9570' metrics=:9570
serve 69 'control' control="$tmp/first.sock"
if command -v nvidia-smi >/dev/null && nvidia-smi >/dev/null 2>&1; then
	echo 'a GPU is here: device=cuda:0 was not tried'
else
	serve 69 'cuda' device=cuda:0
fi

# output to a full disk, to a closed pipe, or to a closed descriptor
run=("$SPLITC" train "$tmp/good.yaml" --local)
if [ -w /dev/full ]; then
	for words in '--help' 'codecs --json' "flops $tmp/good.yaml" "train $tmp/good.yaml --print-config" "train $tmp/good.yaml --check-config" \
		"eval $tmp/good.yaml --local --json --weights $weights"; do
		rc=0
		"$SPLITC" $words >/dev/full 2>"$tmp/err" || rc=$?
		[ $rc = 74 ] && [ "$(grep -c '^splitc: stdout could not be written completely' "$tmp/err")" = 1 ] || fail "$words >/dev/full: status $rc, $(cat "$tmp/err")"
		rc=0
		"$SPLITC" $words >&- 2>"$tmp/err" || rc=$?
		[ $rc = 74 ] && [ "$(grep -c '^splitc: stdout could not be written completely' "$tmp/err")" = 1 ] || fail "$words >&-: status $rc, $(cat "$tmp/err")"
	done
fi
rc=0
"$SPLITS" --version >&- 2>"$tmp/err" || rc=$?
[ $rc = 74 ] && grep -q '^splits: stdout could not be written' "$tmp/err" || fail "splits --version >&-: status $rc, $(cat "$tmp/err")"
(set -o pipefail; "$SPLITC" codecs --measure --shape 8,8 none f16 | :) 2>"$tmp/err" && [ ! -s "$tmp/err" ] || fail "a reader that has gone: $(cat "$tmp/err")"
# A run whose summary is lost is done, and its log is whole, but its status says so.
for closed in '74 >&-' '0 2>&-' '74 <&- >&- 2>&-'; do
	rc=0
	eval '"${run[@]}" --fresh >"$tmp/out" 2>"$tmp/err" '"${closed#* }" || rc=$?
	[ $rc = ${closed%% *} ] || fail "a run with ${closed#* }: status $rc"
	jq -se '.[-1] | .type == "summary" and .outcome == "finished"' "$tmp/run/log.jsonl" >"$tmp/out" || fail "with $closed the log lacks its summary"
	jq -e .type "$tmp/run/log.jsonl" >"$tmp/out" || fail "with $closed something else is in log.jsonl"
done

# a signal ends a client that is still planning or connecting
SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=link.connect=delay:600000 start_client connects "$tmp/good.yaml" --set server="$endpoint"
at_point connects link.connect
signal TERM "$client_pid"
ends_with "$client_pid" 75 60 'a client that connects'

# one that still reads its data, whatever the command: status 75, as of a run that is stopped later
mkdir "$tmp/long"
awk 'BEGIN {print "a,b,kind"; for (i = 0; i < 3000000; i++) print i % 101 "," i % 89 "," (i % 2 ? "x" : "y")}' >"$tmp/long/train.csv"
ln -s train.csv "$tmp/long/val.csv"
printf 'model: {name: mlp, features: 2, classes: 2}\ndata: {kind: csv, dir: %s, label: kind}\ntrain: {max_steps: 3}\nthreads: 1\nlog: {dir: %s}\n' "$tmp/long" "$tmp/long run" >"$tmp/long.yaml"
mkdir "$tmp/few rows"
head -n 99 "$tmp/long/train.csv" | tee "$tmp/few rows/train.csv" >"$tmp/few rows/val.csv"
"$SPLITC" train "$tmp/long.yaml" --local --set data.dir="$tmp/few rows" >"$tmp/out" 2>&1 || fail "a model to read with: $(cat "$tmp/out")"
reads_data() { ls -l "/proc/$1/fd" | grep -q "$tmp/long/" || grep -q "$tmp/long/" "/proc/$1/maps"; }
for words in 'train --fresh --local' 'eval --local' 'leak' 'predict --local' 'data' 'train --check-config --fresh'; do
	for how in TERM INT HUP; do
		"$SPLITC" ${words%% *} "$tmp/long.yaml" ${words#"${words%% *}"} >"$tmp/out" 2>&1 &
		reads=$!
		wait_for "$words does not read" reads_data $reads
		signal $how $reads
		ends_with $reads 75 60 "$words, which reads its data, at SIG$how"
	done
done

# OpenBLAS would try again for ever
expect 71 "OpenBLAS needs 128 MiB of this process' address space for each of 64 threads" \
	prlimit --as=$((3 << 30)) "$SPLITS" serve "$tmp/server.yaml" --set listen=tcp://127.0.0.1:0 --set control="$tmp/splits.sock" \
	--set device=cpu --set threads=64

# libzmq would abort
few=(prlimit --nofile=24)
expect 78 'its sockets need 32: raise `ulimit -n`' "${few[@]}" "$SPLITS" serve "$tmp/server.yaml" \
	--set listen=tcp://127.0.0.1:0 --set control="$tmp/splits.sock" --set device=cpu --set threads=1
expect 78 'its sockets need 32: raise `ulimit -n`' "${few[@]}" "$SPLITC" train "$tmp/good.yaml" --set server="$endpoint" --set log.dir="$tmp/few"

# a session that the server's limits refuse
start_server small "store=$tmp/small store" limits.memory_bytes="1 MiB"
train 76 'the session needs' link.connect_timeout_ms=60000 server="$endpoint" log.dir="$tmp/small-run"
kill -0 "$server_pid" || fail 'the server did not survive its refusal'
[ $bad = 0 ] || fail "$bad of $cases cases"
echo "$cases cases"
