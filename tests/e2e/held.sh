#!/usr/bin/env bash
# Frozen weights that a file has in 16 bits stay in 16 bits on both sides. Adapters learn what they learn with the same
# values in 32 bits, byte for byte, over the link and in one process, also after kills, in a group, averaged, exported
# and evaluated. Half as many bytes are uploaded. A file that shrinks under a run ends the run with a sentence.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/made" "$tmp/text"
"$TOOLS/make_text" "$tmp/made"
. tests/e2e/lib/lines.sh
lines 0 64 >"$tmp/text/train.txt"
lines 100 116 >"$tmp/text/dev.txt"
mkdir "$tmp/first"
cat >"$tmp/first/config.json" <<-JSON
	{"model_type": "llama", "vocab_size": 700, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
	 "num_key_value_heads": 2, "max_position_embeddings": 40, "initializer_range": 0.1, "eos_token_id": 2, "tie_word_embeddings": true}
JSON
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/first, head: causal_lm, tokens: 40}
	partition: "2:-3"
	data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made}
	train: {batch: 32, chunks: 2, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01, weight_decay: 0.1}}
	threads: 1
YAML
steps=2
. tests/e2e/lib/compare.sh

# cast FROM TYPE TO: makes a model folder TO from the run FROM, with weights rounded to TYPE (bf16, f16) and stored in
# 16 bits; and a folder `TO wide` with the same values as F32.
cast() {
	mkdir -p "$tmp/$3" "$tmp/$3 wide"
	cp "$tmp/$1/config.json" "$tmp/$3"
	cp "$tmp/$1/config.json" "$tmp/$3 wide"
	python3 - "$tmp/$1/model.safetensors" "$2" "$tmp/$3/model.safetensors" "$tmp/$3 wide/model.safetensors" <<-'PYTHON'
		import json, struct, sys
		source, kind, narrow, wide = sys.argv[1:]
		with open(source, "rb") as f:
		    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
		    data = f.read()
		def write(path, kind, size, spell):
		    header, body = {}, b""
		    for name in sorted(n for n in head if n != "__metadata__"):
		        begin, end = head[name]["data_offsets"]
		        values = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
		        part = spell(values)
		        header[name] = {"dtype": kind, "shape": head[name]["shape"], "data_offsets": [len(body), len(body) + len(part)]}
		        body += part
		    text = json.dumps(header).encode()
		    text += b" " * (-len(text) % 8)
		    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
		def halves(values):
		    if kind == "f16":
		        return struct.pack(f"<{len(values)}e", *values)
		    return b"".join(struct.pack("<f", v)[2:] for v in values)
		def floats(values):
		    if kind == "f16":
		        return struct.pack(f"<{len(values)}f", *struct.unpack(f"<{len(values)}e", halves(values)))
		    return b"".join(b"\0\0" + struct.pack("<f", v)[2:] for v in values)
		write(narrow, kind.upper(), 2, halves)
		write(wide, "F32", 4, floats)
	PYTHON
}
client first "$config" --local --set train.optimizer.lr=1e-6 || fail "first: exit status $?"
cast first bf16 bf16
cast first f16 f16

# same_as_wide NAME FOLDER [key=value]…: a run with a server equals one in one process, and one with the values in 32
# bits.
same_as_wide() {
	local name=$1 folder=$2
	shift 2
	compare "$name" model.huggingface="$tmp/$folder" lora.rank=2 "$@"
	mapfile -t set < <(sets lora.rank=2 "$@")
	client "wide $name" "$config" --local --set model.huggingface="$tmp/$folder wide" "${set[@]}" || fail "wide $name: exit status $?"
	[ "$(learned "wide $name")" = "$(learned "two $name")" ] || fail "$name: the same values in 32 bits learn something else"
	for of in "wide $name" "two $name"; do
		"$SPLITC" export "$config" "$tmp/$of.safetensors" --set model.huggingface="$tmp/$folder" "${set[@]}" --set log.dir="$tmp/$of" >"$tmp/export-$name.log" 2>&1 || fail "export $of"
	done
	cmp <(weights_of "$tmp/wide $name.safetensors") <(weights_of "$tmp/two $name.safetensors") || fail "$name: other weights are exported"
}
two_at_a_time same_as_wide 'bf16|bf16' 'f16|f16|lora.target=q_proj,v_proj,down_proj' 'averaged|bf16|train.ema=0.9|lora.dropout=0.2' \
	'deep|bf16|partition=1:-2|codec=quant:8'
bytes() { jq 'select(.type == "summary").weights_tx_bytes' "$tmp/$1/log.jsonl"; }
client 'one wide' "$config" --set server="$one" --set model.huggingface="$tmp/bf16 wide" --set lora.rank=2 || fail "one wide: exit status $?"
[ $(($(bytes 'two bf16') * 10)) -lt $(($(bytes 'one wide') * 6)) ] || fail "the middle goes up in $(bytes 'two bf16') bytes, and in $(bytes 'one wide') of 32 bits"
size() { stat -c %s "$tmp/$1/model.safetensors"; }
[ $(($(size 'two bf16') * 10)) -lt $(($(size 'wide bf16') * 6)) ] || fail "a model of $(size 'two bf16') bytes, and of $(size 'wide bf16') in 32 bits"

# The run's model evaluates and generates as that of its 32-bit twin.
said() { "$SPLITC" "$1" "$config" --local --set log.dir="$tmp/$2" --set lora.rank=2 "${@:3}" 2>"$tmp/said.log"; }
[ "$(said eval 'two bf16' --json --set model.huggingface="$tmp/bf16" | jq .test_loss)" = "$(said eval 'wide bf16' --json --set model.huggingface="$tmp/bf16 wide" | jq .test_loss)" ] ||
	fail "eval: $(cat "$tmp/said.log")"
printf 'green red\nboxes\n' >"$tmp/prompts"
writes() { said generate "$1" --prompts "$tmp/prompts" --ids --set generate.max_tokens=8 --set model.huggingface="$tmp/$2"; }
[ "$(writes 'two bf16' bf16 | wc -l)" = 2 ] || fail "generate: $(cat "$tmp/said.log")"
[ "$(writes 'two bf16' bf16)" = "$(writes 'wide bf16' 'bf16 wide')" ] || fail 'generate: other texts'

# Products of bfloat16 factors, if the CPU has them: a server learns what one process learns, which is close to what
# fp32 learns, with weights of 16 or 32 bits. They are refused on other CPUs.
factors=(train.precision=bf16_factors train.ends_precision=bf16_factors)
if grep -q avx512_bf16 /proc/cpuinfo && [ -z "${SAN:-}" ]; then
	compare factors model.huggingface="$tmp/bf16" lora.rank=2 "${factors[@]}"
	loss() { jq 'select(.type == "epoch").train_loss' "$tmp/$1/log.jsonl"; }
	near=$(jq -n "($(loss 'two factors') - $(loss 'two bf16')) | fabs | . > 0 and . < 0.01")
	[ "$near" = true ] || fail "bf16_factors: a loss of $(loss 'two factors'), and of $(loss 'two bf16') in fp32"
	compare plain model.huggingface="$tmp/first" "${factors[@]}"
else
	client factors "$config" --local --set model.huggingface="$tmp/bf16" --set lora.rank=2 --set train.ends_precision=bf16_factors && fail 'bf16_factors on such a CPU'
	grep -q 'train.ends_precision: the .* runs on cpu, which computes in fp32: take that, or for bf16_factors a CPU that has it' "$tmp/factors.log" || fail "$(cat "$tmp/factors.log")"
fi

# A killed run can be exported, and reaches the same end.
set=(--set server="$two" --set model.huggingface="$tmp/bf16" --set lora.rank=2 --set train.checkpoint_every=1)
client_dies client.apply@2 killed "$config" "${set[@]}"
cp -r "$tmp/killed" "$tmp/of"
"$SPLITC" export "$config" "$tmp/half.safetensors" "${set[@]}" --set log.dir="$tmp/of" >"$tmp/export.log" 2>&1 || fail "export of a killed run: $(cat "$tmp/export.log")"
tensor() { python3 -c '
import hashlib, json, struct, sys
f = open(sys.argv[1], "rb"); n = struct.unpack("<Q", f.read(8))[0]; a, b = json.loads(f.read(n))[sys.argv[2]]["data_offsets"]
print(hashlib.md5(f.read()[a:b]).hexdigest())' "$@"; }
for name in model.embed_tokens.weight model.layers.{0,1,2}.mlp.up_proj.weight; do
	[ "$(tensor "$tmp/half.safetensors" $name)" = "$(tensor "$tmp/bf16 wide/model.safetensors" $name)" ] || fail "the export of a killed run has another $name"
done
client killed "$config" "${set[@]}" --resume || fail "killed: exit status $?"
same_run killed 'local bf16' $steps

# A group averages the trained parameters and leaves the frozen ones: with an encoder, in one process.
mkdir "$tmp/encoder"
cat >"$tmp/encoder/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4,
	 "max_position_embeddings": 26, "type_vocab_size": 1, "layer_norm_eps": 1e-05, "initializer_range": 0.3}
JSON
cat >"$tmp/encoder.yaml" <<-YAML
	model: {huggingface: $tmp/encoder, classes: 2, tokens: 24}
	partition: "2:-1"
	data: {kind: made_tokens, dir: ., train_limit: 40, test_limit: 24}
	train: {batch: 8, chunks: 2, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
	threads: 1
YAML
client encoder "$tmp/encoder.yaml" --local || fail "encoder: exit status $?"
cast encoder bf16 narrow
for folder in narrow 'narrow wide'; do
	for mode in sync rounds; do
		client "$mode $folder" "$tmp/encoder.yaml" --local --clients 2 --set model.huggingface="$tmp/$folder" --set lora.rank=2 --set lora.target=query,dense \
			--set share.mode=$mode --set data.partition=iid || fail "$mode $folder: exit status $?"
	done
done
for run in {sync,rounds}' %/member-'{0,1}; do
	[ "$(learned "${run/\%/narrow}")" = "$(learned "${run/\%/narrow wide}")" ] || fail "a group ($run) learns something else"
	[ -n "$(learned "${run/\%/narrow}")" ] || fail "$run: nothing is there"
done

# A file that shrinks during the run
cp -r "$tmp/bf16" "$tmp/shrinks"
client_stands 1 short "$config" "${set[@]}" --set model.huggingface="$tmp/shrinks"
truncate -s 4096 "$tmp/shrinks/model.safetensors"
: >"$tmp/short.go"
ends_with "$client_pid" 74 $patience 'a client whose file became shorter'
grep -q 'shrinks/model.safetensors: the file became shorter' "$tmp/short.log" || fail 'the file is not named'
