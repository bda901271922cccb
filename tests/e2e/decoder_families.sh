#!/usr/bin/env bash
# Each family of decoders trains and generates over the link as in one process, byte for byte: scaled rotary positions,
# norms per head, fused layers, gemma's norms, local layers, granite's factors, OLMo 2's norms, Phi-4-mini's part of a head, Gemma 2's caps, GPT-2's learned positions; also if either side is killed.
# Adapters sit on the family's usual layers, and merged weights compute the same. Parameter counts of published configs
# are those of their authors. Unsupported features are refused by name. test_golden compares the same families with
# plain PyTorch.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/made" "$tmp/text"
"$TOOLS/make_text" "$tmp/made"
. tests/e2e/lib/lines.sh
lines 0 64 >"$tmp/text/train.txt"
lines 100 116 >"$tmp/text/dev.txt"
family() { # NAME MODEL_TYPE [FILTER]: a folder with a small config
	mkdir -p "$tmp/$1"
	jq -n --arg type "$2" '{model_type: $type, vocab_size: 700, hidden_size: 24, intermediate_size: 40, num_hidden_layers: 3,
		num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 40, initializer_range: 0.1, eos_token_id: 2} | '"${3:-.}" >"$tmp/$1/config.json"
}
family scaled llama '.rope_scaling = {rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 32}'
family qwen3 qwen3 '.head_dim = 10'
family phi3 phi3 '.resid_pdrop = 0.1'
family gemma gemma '.head_dim = 8'
family gemma3 gemma3_text '.head_dim = 8 | .sliding_window_pattern = 2 | .rope_scaling = {rope_type: "linear", factor: 4} | .query_pre_attn_scalar = 5'
family phi4 phi3 '.partial_rotary_factor = 0.75 | .max_position_embeddings = 160 | .original_max_position_embeddings = 40
	| .rope_scaling = {type: "longrope", short_factor: [1, 1], long_factor: [1, 4]}'
family gemma2 gemma2 '.head_dim = 8 | .attn_logit_softcapping = 2 | .final_logit_softcapping = 3'
family granite granite '.attention_multiplier = 0.3 | .embedding_multiplier = 6 | .residual_multiplier = 0.4 | .logits_scaling = 3'
family olmo2 olmo2
family gpt2 gpt2 '{model_type, vocab_size, initializer_range, eos_token_id, n_embd: .hidden_size, n_layer: 3, n_head: 4, n_positions: 40}'
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/gemma3, head: causal_lm, tokens: 40}
	partition: "2:-3"
	data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made}
	train: {batch: 32, chunks: 2, epochs: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01, weight_decay: 0.1}}
	threads: 1
YAML
steps=2
. tests/e2e/lib/compare.sh
cases=()
for name in scaled qwen3 phi3 phi4 gemma gemma2 gemma3 granite olmo2 gpt2; do cases+=("$name|model.huggingface=$tmp/$name"); done
for name in phi3 gemma3 gpt2; do base_for "$config" "$tmp/$name"; done
for name in phi3 gemma3 gpt2; do cases+=("$name adapters|model.huggingface=$tmp/$name|lora.rank=2"); done
two_at_a_time compare "${cases[@]}"

# Generated texts are the same, and continue the prompts.
printf 'green red\nboxes\n' >"$tmp/prompts"
for name in phi4 gemma2 gemma3 gpt2; do
	writes() { "$SPLITC" generate "$config" --weights "$tmp/local $name/model.safetensors" --prompts "$tmp/prompts" --ids --set model.huggingface="$tmp/$name" --set generate.max_tokens=8 "$@" 2>"$tmp/generate.log"; }
	[ "$(writes --local | wc -l)" = 2 ] || fail "generate $name: $(cat "$tmp/generate.log")"
	[ "$(writes --local)" = "$(writes --local --set generate.cache=false)" ] || fail "generate $name: without caches another text"
	[ "$(writes --local)" = "$(writes --set server="$two")" ] || fail "generate $name: over the link another text: $(cat "$tmp/generate.log")"
done

# Either side is killed in an upload of weights, in a step, or while text is generated: weights and texts equal those of
# an undisturbed run. Each family takes one of the three; with SPLIT_LONG=1 all of them.
writes() { "$SPLITC" generate "$config" "${set[@]}" --weights "$weights" --prompts "$tmp/prompts" --ids --set generate.max_tokens=8 "$@" 2>>"$tmp/generate.log"; }
# dies FAILPOINT COMMAND…: runs COMMAND in the background with failpoints in splitc; sets $dying.
dies() {
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=$1 "${@:2}" &
	dying=$!
	started+=("$dying")
}
nothing_stored() { ! compgen -G "$tmp/$store/*.f32" >"$tmp/out" || fail "$twin: the weights were there before the kill: $(cat "$tmp/out")"; }
disturbed() { # FAMILY WHAT SIDE
	local twin="undisturbed $1" weights="$tmp/local $1/model.safetensors" set text store at=$two server_pid
	set=(--set model.huggingface="$tmp/$1" --set model.weights="$weights" --set train.batch=16 --set train.checkpoint_every=1 --set link.part_bytes=4096)
	[ -d "$tmp/$twin" ] || client "$twin" "$config" --local "${set[@]}" || fail "$twin: exit status $?"
	text=$(writes --local) || fail "$1 writes nothing: $(cat "$tmp/generate.log")"
	case "$2 $3" in
	'step client') killed_client 2 "$twin" "$config" "${set[@]}" --set server="$two" ;;
	'step server') killed_server server.apply=kill@3 "$twin" "$config" "${set[@]}" ;;
	'upload server') store="$twin link.receive@5 store" between=nothing_stored killed_server link.receive=kill@5 "$twin" "$config" "${set[@]}" ;;
	'upload client')
		store="$twin store"
		start_server uploads store="$tmp/$store"
		set+=(--set server="$endpoint")
		dies link.send=kill@5 client uploaded "$config" "${set[@]}" --fresh
		ends_with "$dying" 137 $patience "$1: the client that uploads"
		nothing_stored
		client uploaded "$config" "${set[@]}" --fresh || fail "$1 uploads again: exit status $?"
		same_run uploaded "$twin" 4
		end_process "$server_pid"
		;;
	'text client')
		dies client.done=kill@5 writes --set server="$two" >"$tmp/written"
		ends_with "$dying" 137 $patience "$1: the client that writes"
		[ "$(writes --set server="$two")" = "$text" ] || fail "$1: the client that was killed writes another text"
		;;
	'text server')
		at=tcp://127.0.0.1:$(free_port)
		SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=server.eval=kill@7 start_server writes listen="$at" store="$tmp/$twin store"
		dies '' writes --set server="$at" --set link.on_server_lost=wait --set link.retry_ms=20 >"$tmp/written"
		ends_with "$server_pid" 137 $patience "$1: the server of a text"
		start_server writes listen="$at" store="$tmp/$twin store"
		ends_with "$dying" 0 $patience "$1 writes with a server that was killed"
		[ "$(cat "$tmp/written")" = "$text" ] || fail "$1: a server that was killed changes the text"
		end_process "$server_pid"
		;;
	esac
}
f=0
for name in gpt2 qwen3 phi3 gemma gemma3; do
	n=0
	for what in upload text step; do
		for side in client server; do [ -z "${SPLIT_LONG:-}" ] && [ $(((n + f) % 3)) != 0 ] || disturbed $name $what $side; done
		n=$((n + 1))
	done
	f=$((f + 1))
done

# Adapters on the family's usual layers, in PEFT's files. Merged, transposed or not, they evaluate to the run's final
# loss.
adapted() { "$SPLITC" "$1" "$config" "${@:3}" --set model.huggingface="$tmp/$2" --set log.dir="$tmp/local $2 adapters" 2>"$tmp/adapted.log"; }
for row in 'phi3 ["qkv_proj"] false' 'gpt2 ["c_attn"] true' 'gemma3 ["q_proj","v_proj"] false'; do
	read -r name targets transposed <<<"$row"
	adapted export "$name" "$tmp/peft $name" --adapter --set lora.rank=2 >"$tmp/out" || fail "export --adapter $name: $(cat "$tmp/adapted.log")"
	[ "$(jq -c '.target_modules, .fan_in_fan_out' "$tmp/peft $name/adapter_config.json")" = "$targets"$'\n'"$transposed" ] || fail "$(cat "$tmp/peft $name/adapter_config.json")"
	adapted export "$name" "$tmp/$name.safetensors" --set lora.rank=2 >"$tmp/out" || fail "export $name: $(cat "$tmp/adapted.log")"
	merged=$("$SPLITC" eval "$config" --local --json --set log.dir= --set model.huggingface="$tmp/$name" --weights "$tmp/$name.safetensors" 2>"$tmp/adapted.log" | jq .test_loss)
	jq -s -e --argjson merged "$merged" '[.[] | select(.type == "epoch")][-1].test_loss - $merged | fabs < 1e-5' "$tmp/local $name adapters/log.jsonl" >"$tmp/out" || fail "$name merged: $merged"
done
adapted train gpt2 --check-config --set lora.rank=2 --set lora.adapter="$tmp/peft gpt2" >"$tmp/out" || fail "PEFT's files of gpt2: $(cat "$tmp/adapted.log")"

# `splitc init` proposes defaults for a decoder: adapters, AdamW, whole texts.
family whole gpt2 '{model_type, vocab_size, eos_token_id, n_embd: .hidden_size, n_layer: 3, n_head: 4, n_positions: 128}'
cp "$tmp"/made/* "$tmp/whole/"
base_for "$config" "$tmp/whole"
(cd "$tmp" && "$SPLITC" init decoder.yaml --model huggingface:whole --data text:text) >"$tmp/out" 2>&1 || fail "init: $(cat "$tmp/out")"
(cd "$tmp" && "$SPLITC" train decoder.yaml --check-config) >"$tmp/out" 2>&1 || fail "what init writes: $(cat "$tmp/out")"
for line in 'head: causal_lm' 'kind: adamw' 'lr: 0.0001' 'rank: 16'; do grep -qF "$line" "$tmp/decoder.yaml" || fail "init does not write $line"; done
! grep -q 'split:' "$tmp/decoder.yaml" || fail 'init splits texts that have a file for evaluation'
mkdir "$tmp/alone"
cp "$tmp/text/train.txt" "$tmp/alone/"
for data in alone alone/train.txt; do
	(cd "$tmp" && "$SPLITC" init alone.yaml --force --model huggingface:whole --data "text:$data") >"$tmp/out" 2>&1 || fail "init of $data: $(cat "$tmp/out")"
	grep -q '^    val: 0.2' "$tmp/alone.yaml" || fail "init proposes no evaluation where $data is all there is"
	(cd "$tmp" && "$SPLITC" train alone.yaml --check-config) >"$tmp/out" 2>&1 || fail "what init writes of $data: $(cat "$tmp/out")"
done

# Published shapes: the number of all parameters, and of those in the middle blocks.
counted() { # NAME PARAMETERS MIDDLE
	"$SPLITC" train "$config" --check-config --set model.huggingface="$tmp/$1" --set model.tokens=1024 >"$tmp/out" 2>&1 || fail "$1: $(cat "$tmp/out")"
	"$SPLITC" flops "$config" --json --set model.huggingface="$tmp/$1" --set model.tokens=1024 >"$tmp/flops" || fail "flops $1"
	[ "$(jq -c '[([.head, .middle, .tail] | map(.parameters) | add), .middle.parameters]' "$tmp/flops")" = "[$2,$3]" ] || fail "$1 has $(jq -c . "$tmp/flops")"
}
published() { # NAME MODEL_TYPE VOCAB HIDDEN WIDE LAYERS HEADS KV [FILTER]
	family "$1" "$2" "{model_type, eos_token_id, vocab_size: $3, hidden_size: $4, intermediate_size: $5, num_hidden_layers: $6,
		num_attention_heads: $7, num_key_value_heads: $8, max_position_embeddings: 131072, rope_theta: 500000, rope_scaling: {rope_type: \"llama3\",
		factor: 32, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192}} | ${9:-.}"
}
published llama-3.2-1b llama 128256 2048 8192 16 32 8 '.tie_word_embeddings = true'
counted llama-3.2-1b 1235814400 851501056
published llama-3.1-8b llama 128256 4096 14336 32 32 8
counted llama-3.1-8b 8030261248 6543360000
published gemma-3-1b gemma3_text 262144 1152 6912 26 4 1 'del(.rope_scaling) | del(.rope_theta) | .sliding_window = 1024'
counted gemma-3-1b 999885952 644210688
published phi-4-mini phi3 200064 3072 8192 32 24 8 '.tie_word_embeddings = true | .partial_rotary_factor = 0.75 | .rope_scaling =
	{type: "longrope", short_factor: [range(48) | 1.0], long_factor: [range(48) | 4]}'
counted phi-4-mini 3836021760 3020083200
published gemma-2-2b gemma2 256000 2304 9216 26 8 4 'del(.rope_scaling) | del(.rope_theta)'
counted gemma-2-2b 2614341888 1868783616
published qwen3-0.6b qwen3 151936 1024 3072 28 16 8 'del(.rope_scaling) | .tie_word_embeddings = true'
counted qwen3-0.6b 596049920 409004544
published olmo-2-1b olmo2 100352 2048 8192 16 16 16 'del(.rope_scaling)'
counted olmo-2-1b 1484916736 939638784
published granite-3.1-2b granite 49155 2048 8192 40 32 8 'del(.rope_scaling) | .tie_word_embeddings = true'
counted granite-3.1-2b 2533531648 2311217152
family gpt2-medium gpt2 '{model_type, eos_token_id, vocab_size: 50257, n_embd: 1024, n_layer: 24, n_head: 16, n_positions: 1024}'
counted gpt2-medium 354823168 277116928

refused() { # SENTENCE MODEL_TYPE FILTER
	local rc=0
	family other "$2" "$3"
	"$SPLITC" train "$config" --local --set log.dir= --set model.huggingface="$tmp/other" >"$tmp/refused.log" 2>&1 || rc=$?
	[ $rc = 78 ] || [ $rc = 65 ] || fail "exit status $rc: $2 $3"
	grep -qF -- "$1" "$tmp/refused.log" || fail "$2 $3 is refused with '$(tail -n 1 "$tmp/refused.log")'"
}
refused 'model_type is qwen3_5_text; known: ' qwen3_5_text .
refused 'model_type is gemma4_text; known: ' gemma4_text .
refused 'model_type is gemma3; known: ' gemma3 .
refused 'residual_multiplier is 0.22: such a network is not built here' llama '.residual_multiplier = 0.22'
refused 'logits_scaling is 0' granite '.logits_scaling = 0'
other='; split.write_network of the Python package writes such a network, or RemoteModule trains it'
refused "attn_logit_softcapping is set, which is not built here$other" gemma3_text '.attn_logit_softcapping = 50'
refused 'rope_scaling is longrope; known: default, linear, llama3' llama '.rope_scaling = {type: "longrope", long_factor: [1], short_factor: [1]}'
long() { printf '.original_max_position_embeddings = 30 | .rope_scaling = {type: "longrope", long_factor: [1, 1, 1], short_factor: %s}' "$1"; }
refused "the numbers of rope_scaling.short_factor differ, which is not built here$other" phi3 "$(long '[1, 1, 2]')"
refused 'rope_scaling.short_factor is no list of 3 numbers from 1' phi3 "$(long '[1, 1]')"
refused 'rope_scaling.short_factor is no list of 3 numbers from 1' phi3 "$(long '["1", 1, 1]')"
refused 'but original_max_position_embeddings of' phi3 "$(long '[1, 1, 1]')"
refused 'partial_rotary_factor 0.2 makes no even number' phi3 '.partial_rotary_factor = 0.2'
refused 'attn_logit_softcapping is 0; it must lie in' gemma2 '.attn_logit_softcapping = 0'
refused 'lm_head_bias is true: such a network is not built here' phi3 '.lm_head_bias = true'
refused 'rope_parameters is yarn' qwen3 '.rope_parameters = {rope_type: "yarn", factor: 2}'
refused 'rope_scaling: high_freq_factor is missing' llama '.rope_scaling = {rope_type: "llama3", factor: 8, low_freq_factor: 1}'
refused 'rope_scaling.low_freq_factor is not below high_freq_factor' llama \
	'.rope_scaling = {rope_type: "llama3", factor: 8, low_freq_factor: 4, high_freq_factor: 4, original_max_position_embeddings: 32}'
refused 'rope_scaling: factor is 0' llama '.rope_scaling = {type: "linear", factor: 0}'
refused 'rope_parameters and rope_scaling differ' llama '.rope_scaling = {type: "linear", factor: 2} | .rope_parameters = {rope_type: "default"}'
refused "partial_rotary_factor is not 1, which is not built here$other" llama '.partial_rotary_factor = 0.75'
refused 'layer_types, entry 1: known: full_attention' gemma3_text '.layer_types = ["full_attention", "chunked_attention", "full_attention"]'
refused 'layer_types is no list of num_hidden_layers texts' gemma3_text '.layer_types = ["full_attention"]'
refused 'num_key_value_heads is missing' gemma 'del(.num_key_value_heads)'
refused 'bounds them to 30' gemma3_text '.sliding_window = 30'
refused 'activation_function is mish' gpt2 '. + {n_embd: 24, n_layer: 1, n_head: 4, n_positions: 40, activation_function: "mish"}'
refused 'scale_attn_weights is false' gpt2 '. + {n_embd: 24, n_layer: 1, n_head: 4, n_positions: 40, scale_attn_weights: false}'
refused 'n_embd is missing' gpt2 .
