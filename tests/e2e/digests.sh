#!/usr/bin/env bash
# Runs compute the same as before: digests of all losses and of the final weights, over cuts, codecs, inserts,
# optimizers and all networks, are compared with tests/golden/digests.txt. The kernels are forced to AVX2 and to
# OpenBLAS's Haswell, so every x86 machine with AVX2 gives the same digests. A change that alters arithmetic on purpose
# rewrites the file with SL_GOLDEN_WRITE=1, and says so in its commit.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
[ -z "${SAN:-}" ] || { echo 'a build with sanitizers has other kernels'; exit 77; }
grep -qw avx2 /proc/cpuinfo 2>/dev/null && grep -qw fma /proc/cpuinfo || { echo 'this CPU has no AVX2'; exit 77; }
export SL_CPU_SIMD=avx2 OPENBLAS_CORETYPE=Haswell
unset OPENBLAS_NUM_THREADS # as users run it: its threads change no bit
golden=tests/golden/digests.txt
make_data 40 16 # batches of 16, 16 and 8
write_config "$tmp/sgd.yaml"
write_config "$tmp/adamw.yaml"
use_adamw "$tmp/adamw.yaml"
sed -e 's/model: {.*}/model: {name: token_mlp, classes: 2, vocab: 96, tokens: 24, width: 0.25, dropout: 0.2}/' \
	-e 's/data: {.*}/data: {kind: made_tokens, dir: ., train_limit: 40, test_limit: 16}/' "$tmp/adamw.yaml" >"$tmp/tokens.yaml"
mkdir "$tmp/made"

# The tensors of a safetensors file: the bytes after its header
tensors() { tail -c +$((9 + $(od -An -t u8 -N 8 "$1"))) "$1"; }

# Numbers with 17 digits, which identify a double: a digest does not depend on how many digits the log prints.
digits() {
	awk '{at = index($0, ":"); v = substr($0, at + 1)
		if (v ~ /^-?[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?$/ && v ~ /[.e]/) {v = sprintf("%.17g", v); if (v !~ /[.e]/) v = v ".0"}
		print substr($0, 1, at) v}' | sed -E 's/e\+/e/; s/e(-?)0+([0-9])/e\1\2/'
}

# digest NUMBER OPTIMIZER [key=value]…: writes a line to $tmp/made/NUMBER. In a codec chain ^ stands for |.
digest() {
	local n=$1 optimizer=$2 set=() pair
	shift 2
	set -- "${@//^/|}"
	for pair in "$@"; do set+=(--set "$pair"); done
	client "run-$n" "$tmp/$optimizer.yaml" --local "${set[@]}" || fail "$optimizer $*: exit status $?"
	[ "$(steps_of "run-$n")" = 3 ] || fail "$optimizer $*: $(steps_of "run-$n") steps, not 3"
	printf '%s  %s\n' "$({ learned "run-$n" | digits; tensors "$tmp/run-$n/model.safetensors"; } | sha256sum | cut -c1-16)" "$optimizer $*" >"$tmp/made/$n"
	rm -rf "$tmp/run-$n"
}

cases=()
add() { cases+=("$(printf '%03d' ${#cases[@]})|${2:-sgd}|$1"); }

for cut in partition=1:-1 partition=2:-2 partition=1:-2 partition=3:-1 head_end=features.0.1 tail_begin=classifier.0; do
	for chunks in 1 4; do add "$cut|train.chunks=$chunks"; done
done
add 'model.form=cifar|model.width=0.35|train.chunk_loss=sum'
add 'threads=2|train.chunks=3'
for codec in none f16 bf16 quant:8 quant:4,per=sample quant:8,block=64,round=stochastic sortquant:6+2 terngrad qsgd:255 topk:0.1 \
	randomk:0.2 threshold:0.01 topk:0.2^quant:8 topk:0.1,ef=true randomk:0.2^qsgd:255 threshold:0.01^zstd; do
	add "codec=$codec"
done
for codec in lowrank:3 lowrank:3,warm=true,iters=2 downsample:2 cells:2 lowrank:3^quant:8,per=sample cells:2^topk:0.2^quant:6 \
	downsample:2^f16^zstd; do
	add "codec.head_act=$codec|codec.head_grad=$codec|model.image=64"
done
add 'codec.head_act=quant:6|codec.mid_act=f16|codec.mid_grad=topk:0.3|codec.head_grad=none|partition=2:-2'
for insert in 'insert.head=conv:4,k=3,s=2|insert.tail=conv:320' 'insert.head=linear:8|insert.tail=linear:640' \
	'insert.head=conv:6,k=4,s=3,p=1+conv:3|insert.tail=conv:320+linear:100' \
	'insert.head=decaylinear:rate=0.9,every=1,times=2,l1=0.001|insert.tail=conv:160+decaylinear:rate=0.9,every=1,times=2'; do
	add "$insert"
	add "$insert|codec=quant:8"
done
for kind in adam adamw; do
	for chunks in 1 4; do add "train.optimizer.kind=$kind|train.chunks=$chunks" adamw; done
done
add 'train.optimizer.momentum=0|train.optimizer.nesterov=false'
add 'train.schedule.kind=constant|train.schedule.warmup_epochs=0'
for cut in partition=1:-1 partition=3:-2; do add "model.name=resnet9|model.width=0.125|$cut"; done
add 'model.name=resnet9|model.width=0.125|tail_begin=classifier|codec=topk:0.2'
for codec in none quant:8,per=sample topk:0.1,ef=true lowrank:3 downsample:2 cells:2^quant:6; do add "tail_begin=first|codec=$codec" tokens; done
for cut in partition=1:-1 partition=2:-2 head_end=first; do
	for chunks in 1 4; do add "$cut|train.chunks=$chunks" tokens; done
done
add 'model.dropout=0|threads=2' tokens

two_at_a_time digest "${cases[@]}"
cat "$tmp"/made/* >"$tmp/digests.txt"
if [ -n "${SL_GOLDEN_WRITE:-}" ]; then
	cp "$tmp/digests.txt" "$golden"
	echo "wrote ${#cases[@]} digests to $golden"
	exit
fi
diff "$golden" "$tmp/digests.txt" || fail 'what runs compute has changed'
echo "${#cases[@]} runs compute what they did"
