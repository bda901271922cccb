#!/usr/bin/env bash
# Bad input: the exit status of sysexits.h, one line on stderr that says what is wrong, and never a crash.
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

# expect STATUS FRAGMENT COMMAND…: as said above; the fragment stands in stderr, or in stdout where the status is 0
expect() {
	local status=$1 fragment=$2 rc=0
	shift 2
	# not stderr.log: fail would show it of other cases too
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
	expect "$status" "$fragment" "$SPLITC" train "$tmp/good.yaml" ${set[@]+"${set[@]}"}
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
expect 0 'usage: splitc train CONFIG' "$SPLITC" help train
expect 0 '--set KEY=VALUE' "$SPLITS" serve --help
expect 64 '--resume goes on, --fresh begins anew' "$SPLITC" train "$tmp/good.yaml" --resume --fresh
expect 64 "unknown option '--loacl'" "$SPLITC" train "$tmp/good.yaml" --loacl
expect 64 "unknown option '--daemon'" "$SPLITS" serve "$tmp/server.yaml" --daemon
expect 64 "missing argument 'CONFIG'" "$SPLITC" train
expect 64 "missing argument 'CONFIG'" "$SPLITS" serve
expect 64 'one argument too many' "$SPLITC" eval "$tmp/good.yaml" "$tmp/good.yaml"
expect 64 "for '--set'" "$SPLITC" train "$tmp/good.yaml" --set
expect 64 "missing argument 'OUT.safetensors'" "$SPLITC" export "$tmp/good.yaml"
expect 0 'splitc COMMAND' "$SPLITC" --help
expect 0 'splits COMMAND' "$SPLITS" --help
expect 0 'OpenBLAS' "$SPLITC" --version

# configs
expect 0 'ok' "$SPLITC" train "$tmp/good.yaml" --check-config
expect 0 'ok' "$SPLITS" serve configs/server.yaml --check-config
for config in configs/client-*.yaml; do
	expect 0 'ok' "$SPLITC" train "$config" --set model.weights= --set model.partial=false --check-config
done
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
train 78 'train.chunks: must be at most train.batch (16), got 17' train.chunks=17
train 78 'chunks' train.batch=65536 train.chunks=1024
train 78 'train.optimizer.lr' train.optimizer.lr=fast
train 78 'no method is called' codec=squeeze:8
train 78 'quant:b with b = 1…16' codec=quant:17
train 78 'quant:b with b = 1…16' codec.mid_grad='topk:0.1|quant:0'
train 78 'codec.head_grad' codec.head_grad='quant:8|topk:0.1'
train 78 'model.name' model.name=mobilenet_v9

# cuts
train 78 'is not A:-B' partition=0:-1
train 78 'partition' partition=1:-40
train 78 'partition' partition=12:-12
train 78 'one must' head_end=features.9.conv.0.0
train 78 'has no "nowhere"' tail_begin=nowhere
train 78 'tail_begin: no middle' head_end=features.12 tail_begin=features.3

# data
train 66 'No such file' data.dir="$tmp/nowhere"
train 66 'No such file' data.train_files=[data_batch_7.bin]
mkdir "$tmp/cut"
head -c 100000 "$tmp/data/data_batch_1.bin" >"$tmp/cut/data_batch_1.bin"
cp --sparse=always "$tmp/data/test_batch.bin" "$tmp/cut"
train 65 'truncated' data.dir="$tmp/cut"
cp --sparse=always "$tmp/data/data_batch_1.bin" "$tmp/cut"
printf '\012' | dd of="$tmp/cut/data_batch_1.bin" conv=notrunc bs=1 seek=3073 status=none
train 65 'record 1: label byte 0 is 10, must be below 10' data.dir="$tmp/cut"
train 78 'model.classes' model.classes=4

# weights
expect 66 '`splitc train` writes it' "$SPLITC" eval "$tmp/good.yaml"
expect 66 'cannot be read: `splitc train` writes it' "$SPLITC" export "$tmp/good.yaml" "$tmp/out.safetensors"
client source "$tmp/good.yaml" --local || fail 'no weights to spoil'
weights="$tmp/source/model.safetensors"
train 66 'No such file' model.weights="$tmp/nowhere"
head -c 9000 "$weights" >"$tmp/short.safetensors"
train 65 'short.safetensors' model.weights="$tmp/short.safetensors"
head -c -1 "$weights" >"$tmp/short.safetensors"
train 65 'short.safetensors' model.weights="$tmp/short.safetensors"
head -c 4096 /dev/urandom >"$tmp/garbage.safetensors"
train 65 'garbage.safetensors' model.weights="$tmp/garbage.safetensors"
: >"$tmp/empty.safetensors"
train 65 'empty.safetensors' model.weights="$tmp/empty.safetensors"
train 65 'is [8,3,3,3] in the file and [16,3,3,3] in the model' model.weights="$weights" model.width=0.5
train 65 'classifier.1' model.weights="$weights" model.classes=12
expect 65 'is [8,3,3,3] in the file and [16,3,3,3] in the model' "$SPLITC" eval "$tmp/good.yaml" --weights "$weights" --set model.width=0.5
expect 73 "$tmp/nowhere" "$SPLITC" export "$tmp/good.yaml" "$tmp/nowhere/out.safetensors" --weights "$weights"
expect 0 'mobilenet_v2, 262 tensors' "$SPLITC" export "$tmp/good.yaml" "$tmp/out.safetensors" --weights "$weights"
train 73 'proc' log.dir=/proc/nowhere

# places to talk at
before=$SECONDS
train 69 'no answer from tcp://127.0.0.1:9 within 300 ms: is splits running there? (Connection refused)'
[ $((SECONDS - before)) -le 5 ] || fail "an unreachable server took $((SECONDS - before)) s"
train 78 'server' server=127.0.0.1:5570
train 73 'control' control="$tmp/nowhere/splitc.sock"
expect 69 'nobody answers' "$SPLITC" status "$tmp/good.yaml"
expect 69 'nobody answers' "$SPLITS" status --control "$tmp/splits.sock"
serve 78 'must be on loopback' listen=tcp://0.0.0.0:5570
serve 78 'must be on loopback' listen=tcp://192.168.1.1:5570
serve 73 'store' store="$tmp/server.yaml/store"
serve 78 'device' device=gpu
start_server first
serve 69 'Address already in use' listen="$endpoint"
serve 69 'control' control="$tmp/first.sock"
if command -v nvidia-smi >/dev/null && nvidia-smi >/dev/null 2>&1; then
	echo 'a GPU is here: device=cuda:0 was not tried'
else
	serve 69 'cuda' device=cuda:0
fi

# a session that the server's limits refuse
start_server small limits.memory_bytes="1 MiB"
train 76 'the session needs' server="$endpoint"
kill -0 "$server_pid" || fail 'the server did not survive its refusal'
[ $bad = 0 ] || fail "$bad of $cases cases"
echo "$cases cases"
