#!/usr/bin/env bash
# A decoder trains and generates text over the link as in one process, byte for byte: with and without tied embeddings,
# in chunks, by codecs, padded, clipped, with adapters, on texts and on prompts with completions, and over a kill. Its
# loss falls. Its file has the embedding table once and loads again. Only completions have losses, and packed texts lose
# no token. Unsupported settings are refused. SPLIT_TEXT_DATA, SPLIT_DECODER: folders with glue/CoLA, and with a small
# Llama and its tokenizer.model, for a run on real sentences.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/toy" "$tmp/made" "$tmp/text" "$tmp/pairs"
"$TOOLS/make_text" "$tmp/made"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 700, "hidden_size": 24, "intermediate_size": 40,
	 "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 40, "rms_norm_eps": 1e-05,
	 "hidden_act": "silu", "initializer_range": 0.1, "tie_word_embeddings": true, "eos_token_id": 2}
JSON
. tests/e2e/lib/lines.sh
lines 0 96 >"$tmp/text/train.txt"
lines 100 124 >"$tmp/text/dev.txt"
pairs() { lines "$1" "$2" | jq -R -c '{prompt: "\(.) then", completion: " \(.[0:5])"}'; }
pairs 0 96 >"$tmp/pairs/train.jsonl"
pairs 100 124 >"$tmp/pairs/dev.jsonl"
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/toy, head: causal_lm, tokens: 40}
	partition: "2:-2"
	data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made}
	train:
	  batch: 32
	  chunks: 4
	  epochs: 1
	  seed: 3
	  optimizer: {kind: adamw, lr: 0.01, weight_decay: 0.1}
	  groups: [{match: ["*norm*"], weight_decay: 0}]
	threads: 1
YAML
steps=3
. tests/e2e/lib/compare.sh
base_for "$config" "$tmp/toy"
mkdir "$tmp/untied"
jq '.tie_word_embeddings = false' "$tmp/toy/config.json" >"$tmp/untied/config.json"
prompts="data.dir=$tmp/pairs|data.columns=prompt,completion"
adapters='lora.rank=2|lora.target=q_proj,v_proj,down_proj|train.groups='
cases=('1 chunk|train.chunks=1' '4 chunks|train.chunks=4' '8 chunks|train.chunks=8|partition=1:-3' 'rotated|codec=hadamard^normal:4'
	'top-k|codec=topk:0.2,ef=true^quant:8' "untied|model.huggingface=$tmp/untied" 'clipped|train.clip_norm=0.1'
	'padded|data.pad=max' "prompts|$prompts" "adapters|$adapters" "frozen head|$adapters|head_end=embed_tokens|$prompts"
	"loss|$prompts|tail_tokens=loss" "quant of loss|$prompts|tail_tokens=loss|codec=quant:8,ef=true" "padded loss|data.pad=max|tail_tokens=loss|train.chunks=1"
	"frozen loss|$adapters|head_end=embed_tokens|$prompts|tail_tokens=loss")
two_at_a_time compare "${cases[@]}"

# tail_tokens: loss changes no bit of what is learned. Tokens without a loss do not cross in either direction.
same_run 'local frozen loss' 'local frozen head' $steps
crossed() { jq -r 'select(.type == "summary") | .direction.'"$2"'.payload_bytes' "$tmp/$1/log.jsonl"; }
[ "$(crossed 'two frozen loss' mid_act)" -lt "$(($(crossed 'two frozen head' mid_act) / 2))" ] || fail "mid_act has $(crossed 'two frozen loss' mid_act) bytes"
[ "$(crossed 'two frozen loss' mid_grad)" -lt "$(crossed 'two frozen loss' mid_act)" ] || fail "mid_grad has $(crossed 'two frozen loss' mid_grad) bytes"
[ "$(learned 'local 4 chunks')" != "$(learned 'local untied')" ] || fail 'a weight of its own makes no difference'

# It learns: in these texts each word determines the next. The loss is a mean over tokens; perplexity is exp(loss).
learn=(--set train.epochs=30 --set train.chunks=2)
client learns "$config" --local "${learn[@]}" || fail "learns: exit status $?"
jq -s -e '[.[] | select(.type == "epoch")] | (.[0].test_loss > 3) and (.[-1].test_loss < 1.5) and (.[-1].test_acc > 0.5) and
	((.[-1].test_metrics.perplexity | log) - .[-1].test_loss | fabs < 1e-9)' "$tmp/learns/log.jsonl" >"$tmp/out" ||
	fail "the loss does not fall: $(grep '"epoch"' "$tmp/learns/log.jsonl" | tail -n 1)"
grep -q '^validation accuracy .* of the next tokens of 24 samples' "$tmp/learns.log" || fail 'the summary does not say what was guessed'

# A run that is killed between two steps reaches the same end.
set=(--set server="$two" --set train.checkpoint_every=1 --set tail_tokens=loss)
killed_client 2 'local 4 chunks' "$config" "${set[@]}"

# The file has the table once, and evaluates to the run's final loss.
names() { head -c 20000 "$1" | tail -c +9 | tr ',{' '\n\n' | sed -n 's/^"\([a-z][^"]*\)":.*/\1/p'; }
model=$tmp/learns/model.safetensors
names "$model" | grep -q '^model.embed_tokens.weight$' || fail 'the table is not in the file'
! names "$model" | grep -q '^lm_head' || fail 'the table is in the file twice'
names "$tmp/local untied/model.safetensors" | grep -q '^lm_head.weight$' || fail 'an untied output is not in the file'
evaluated() { "$SPLITC" eval "$config" --local --json --set log.dir= --weights "$model" --set train.chunks=2 | jq .test_loss; }
same=$(jq -s '.[-1] | .test_loss' <(jq -c 'select(.type == "epoch")' "$tmp/learns/log.jsonl"))
[ "$(evaluated)" = "$same" ] || fail "the file evaluates to $(evaluated), the run to $same"

# Exported adapters are in PEFT's format for causal models.
"$SPLITC" export "$config" "$tmp/peft" --adapter --set lora.rank=2 --set lora.target=q_proj,v_proj,down_proj --set train.groups= --set log.dir="$tmp/local adapters" >"$tmp/export.log" 2>&1 ||
	fail "export --adapter: $(cat "$tmp/export.log")"
[ "$(jq -c '[.task_type, .r, .target_modules, .modules_to_save]' "$tmp/peft/adapter_config.json")" = '["CAUSAL_LM",2,["q_proj","v_proj","down_proj"],null]' ] ||
	fail "adapter_config.json: $(cat "$tmp/peft/adapter_config.json")"
grep -aq 'base_model.model.model.layers.2.mlp.down_proj.lora_B.weight' "$tmp/peft/adapter_model.safetensors" || fail 'no such tensor'

# Numbers of tokens: each text gets an end token, texts fill rows of 16, and only completions have a loss.
rows() { "$SPLITC" data "$config" --json --set data.token_cache=false "$@" | jq -c '[.train.samples, .train.tokens]'; }
all=$(rows)
[ "$all" = "$(rows --set data.end=false)" ] || fail "the tokenizer's form ends each text already: $all"
[ "$(rows --set data.pack=split --set data.max_length=4 | jq '.[1]')" -gt "$(rows --set data.max_length=4 | jq '.[1]')" ] || fail 'no row is split'
joined=$(rows --set data.pack=join --set data.max_length=16)
[ "$(jq .[1] <<<"$joined")" = "$(jq .[1] <<<"$all")" ] || fail "joined rows have $joined, the texts $all"
[ "$(jq .[0] <<<"$joined")" = $((($(jq .[1] <<<"$all") + 15) / 16)) ] || fail "joined rows are $joined"
on() { "$SPLITC" eval "$config" --local --set log.dir= --weights "$model" --set data.dir="$tmp/pairs" --set data.columns=prompt,completion "$@" 2>&1; }
on | grep -q '^validation accuracy' || fail "$(on)"
[ "$(on | grep '^validation perp')" != "$(on --set data.loss_on=all | grep '^validation perp')" ] || fail 'prompts have a loss'
kept=(--set train.keep_head_bytes=10000000 --set head_end=embed_tokens --set train.freeze='*embed_tokens*' --set train.epochs=2)
client kept "$config" --local "${kept[@]}" || fail "kept: exit status $?"
client 'not kept' "$config" --local "${kept[@]}" --set train.keep_head_bytes=0 || fail "not kept: exit status $?"
same_run kept 'not kept' $((2 * steps))

# The server keeps the activations of a frozen head, so each sample crosses once. The run has the same bits, with codecs
# that code each token by itself, and also if client or server are killed and samples are sent again. Codecs that code
# several tokens together are refused.
sent=(--set head_end=embed_tokens --set train.freeze='*embed_tokens*' --set train.epochs=3 --set codec.head_act='hadamard|normal:4' --set tail_tokens=loss)
keep=("${sent[@]}" --set train.keep_sent_bytes=10000000)
client 'sent again' "$config" --set server="$two" "${sent[@]}" || fail "sent again: exit status $?"
client 'sent once' "$config" --set server="$two" "${keep[@]}" || fail "sent once: exit status $?"
client 'sent in one chunk' "$config" --set server="$two" "${keep[@]}" --set train.chunks=1 || fail "sent in one chunk: exit status $?"
client 'sent by none' "$config" --set server="$two" "${keep[@]}" --set codec.head_act=none || fail "sent by none: exit status $?"
client 'local by none' "$config" --local "${keep[@]}" --set codec.head_act=none || fail "local by none: exit status $?"
same_run 'sent once' 'sent again' $((3 * steps))
same_run 'sent by none' 'local by none' $((3 * steps))
# Noise is derived from the key and the sample, so it is the same in every epoch and the kept activations stay right.
"$SPLITC" keygen --out "$tmp/noise.key" >"$tmp/out" 2>&1
noise=("${keep[@]}" --set noise.head_act=0.1 --set noise.key="$tmp/noise.key")
client 'noise once' "$config" --set server="$two" "${noise[@]}" || fail "noise once: exit status $?"
client 'noise again' "$config" --set server="$two" "${noise[@]}" --set train.keep_sent_bytes=0 || fail "noise again: exit status $?"
same_run 'noise once' 'noise again' $((3 * steps))
[ "$(crossed 'sent once' head_act)" -lt "$(($(crossed 'sent again' head_act) * 6 / 10))" ] || fail "head_act has $(crossed 'sent once' head_act) bytes"
killed_client 5 'sent again' "$config" --set server="$two" --set train.checkpoint_every=2 "${keep[@]}"

# Changes of mid_act in place of its values: a run has the same bits in one process and over a link, in one chunk or four,
# and if client or server are killed within an epoch of changes. Then they go on from what both kept at the checkpoint.
changes=("${keep[@]}" --set codec.mid_act='quant:6,change=4,eval=8|zstd:9')
for chunks in 1 4; do
	client "changes local $chunks" "$config" --local "${changes[@]}" --set train.chunks=$chunks || fail "changes local $chunks: exit status $?"
	client "changes $chunks" "$config" --set server="$two" "${changes[@]}" --set train.chunks=$chunks || fail "changes $chunks: exit status $?"
	same_run "changes $chunks" "changes local $chunks" $((3 * steps))
done
# So has a run whose tail alone chooses tokens: all tokens of mid_act cross, and all change.
as_local 'changes of all' 'changes of all, local' $((3 * steps)) "$config" --set server="$two" "${changes[@]}" --set tail_tokens=all
[ "$(crossed 'changes of all' mid_act)" -gt "$(crossed 'changes 4' mid_act)" ] || fail "all tokens have $(crossed 'changes of all' mid_act) bytes"
client values "$config" --local "${keep[@]}" --set codec.mid_act='quant:6,eval=8|zstd:9' || fail "values: exit status $?"
[ "$(crossed 'changes local 4' mid_act)" -lt "$(crossed values mid_act)" ] || fail "changes have $(crossed 'changes local 4' mid_act) bytes, values $(crossed values mid_act)"
[ "$(learned 'changes local 4')" != "$(learned values)" ] || fail 'changes make no difference'
killed_client 5 'changes 4' "$config" --set server="$two" --set train.checkpoint_every=2 "${changes[@]}"
killed_client 7 'changes 4' "$config" --set server="$two" --set train.checkpoint_every=1 "${changes[@]}"
# With fewer samples the state of the codec has another length: the error names the setting that changed.
longer=("${changes[@]}" --set server="$two" --set train.checkpoint_every=1 --set train.epochs=6)
client_dies client.apply@6 'fewer samples' "$config" "${longer[@]}" --set data.train_limit=96
client 'fewer samples' "$config" "${longer[@]}" --set data.train_limit=95 --resume && fail 'fewer samples: status 0'
grep -q 'since then.* data.train_limit was 96, is 95' "$tmp/fewer samples.log" || fail "fewer samples: $(cat "$tmp/fewer samples.log")"
killed_server server.apply=kill@6 'changes 4' "$config" --set train.checkpoint_every=2 "${changes[@]}"
for fault in 'drop down part 26' 'drop up part 52' 'duplicate up part 52'; do
	read -ra words <<<"$fault"
	rm -f "$tmp/relay.out"
	"$TOOLS/faulty_link" "${two##*:}" "${words[@]}" >"$tmp/relay.out" &
	relay=$!
	started+=("$relay")
	wait_for 'the relay' test -s "$tmp/relay.out"
	client "changes $fault" "$config" --set server="tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")" --set link.on_server_lost=wait --set link.retry_ms=20 \
		--set train.checkpoint_every=2 "${changes[@]}" || fail "changes, $fault: exit status $?"
	signal TERM "$relay"
	wait "$relay" || true
	[ "$(tail -n 1 "$tmp/relay.out" | jq .done)" = true ] || fail "changes, $fault: no such frame passed: $(cat "$tmp/relay.out")"
	same_run "changes $fault" 'changes 4' $((3 * steps))
done
# The report says that head_act does not cross in each epoch.
for name in 'sent once' 'sent again'; do "$SPLITC" report "$tmp/$name" 2>/dev/null | grep -c 'Of these times with head.*the first on each link' || true; done >"$tmp/out"
[ "$(paste -sd ' ' "$tmp/out")" = '1 0' ] || fail "reports say how often head_act crossed: $(paste -sd ' ' "$tmp/out")"
# --check-config counts kept tokens where a checkpoint copies them and where an audit fetches them.
before() { "$SPLITC" train "$config" --set server="$two" "$@" --set train.audit.every=2 --check-config --json 2>"$tmp/out" | jq -c '[.memory.client.checkpoint, .memory.server.checkpoint, .link_bytes.audit.down]'; }
kept=$(sed -n 's/^INFO sent-kept: .*: \([0-9]*\) bytes for .*/\1/p' "$tmp/changes 4.log")
jq -e -n --argjson with "$(before "${changes[@]}")" --argjson without "$(before "${keep[@]}")" --argjson kept "$kept" \
	'[$with, $without] | transpose | length == 3 and all(.[0] - .[1] >= $kept and .[0] - .[1] < 1.1 * $kept)' >"$tmp/out" ||
	fail "--check-config says $(before "${changes[@]}") with changes, $(before "${keep[@]}") without, and $kept bytes are kept"
client 'changes audited' "$config" --set server="$two" "${changes[@]}" --set train.audit.every=2 || fail "changes audited: exit status $?"
same_run 'changes audited' 'changes 4' $((3 * steps))

# Generated text is the same over the link and in one process: greedy and sampled, with a codec, with one prompt or
# three at a time, with caches or without. If the server is killed, it loses its caches, and that costs only time.
printf 'green red\nfish water said\nboxes\n' >"$tmp/prompts"
writes() { "$SPLITC" generate "$config" --weights "$model" --prompts "$tmp/prompts" --ids --set generate.max_tokens=20 "$@" 2>"$tmp/generate.log"; }
drawn=(--set generate.temperature=1.5 --set generate.top_k=50 --set generate.top_p=0.95 --set generate.repetition_penalty=1.1 --set generate.seed=5)
for how in '' 'codec=quant:4,block=24' 'train.batch=2 train.chunks=2'; do
	read -ra keys <<<"${how:+$(printf -- '--set %s ' $how)}"
	[ "$(writes --local "${keys[@]}" | wc -l)" = 3 ] || fail "generate $how: $(cat "$tmp/generate.log")"
	[ "$(writes --local "${keys[@]}")" = "$(writes --set server="$two" "${keys[@]}")" ] || fail "generate $how: over the link another text: $(cat "$tmp/generate.log")"
	[ "$(writes --local "${drawn[@]}" "${keys[@]}")" = "$(writes --set server="$two" "${drawn[@]}" "${keys[@]}")" ] || fail "generate $how: drawn, another text"
	[ "$(writes --local "${drawn[@]}" "${keys[@]}")" = "$(writes --local --set generate.cache=false "${drawn[@]}" "${keys[@]}")" ] || fail "generate $how: caches change the text"
done
[ "$(writes --local)" = "$(writes --set server="$two" --set generate.cache=false)" ] || fail 'without caches another text'
[ "$(writes --local)" = "$(writes --set server="$two" --set data.pad=max)" ] || fail 'a prompt is padded'
[ "$(writes --local "${drawn[@]}")" != "$(writes --local)" ] || fail 'drawn texts are the likeliest'
[ "$(writes --local "${drawn[@]}")" = "$(writes --local "${drawn[@]}" --set train.batch=1 --set train.chunks=1)" ] || fail 'a prompt alone has another text'
"$SPLITC" generate "$config" --local --weights "$model" --prompt 'green red' --json >"$tmp/json" || fail 'generate --json'
jq -e '.prompt == "green red" and (.text | length > 0) and (.ids | length > 0) and (.reason == "end" or .reason == "length")' "$tmp/json" >"$tmp/out" || fail "generate --json: $(cat "$tmp/json")"
cp -r "$tmp/made" "$tmp/retold"
sed -i '$d' "$tmp/retold/merges.txt"
for tokenizer in made retold; do
	"$SPLITC" generate "$config" --local --weights "$model" --prompt 'green red' --set data.tokenizer="$tmp/$tokenizer" >"$tmp/out" 2>"$tmp/$tokenizer.log" || fail "generate with $tokenizer"
done
grep -q '^WARN other-data: the model was trained with tokenizer "[0-9a-f]*", and this config has "[0-9a-f]*"$' "$tmp/retold.log" &&
	! grep -q other-data "$tmp/made.log" || fail "generate with another tokenizer: $(cat "$tmp/made.log" "$tmp/retold.log")"
"$SPLITC" eval "$config" --local --weights "$model" --set data.end=false >"$tmp/out" 2>"$tmp/eval.log" || fail 'eval without ends'
[ "$(grep other-data "$tmp/eval.log")" = 'WARN other-data: the model was trained with end true, and this config has false (data.end)' ] || fail "eval without ends: $(cat "$tmp/eval.log")"
"$SPLITC" generate "$config" --local --weights "$model" --prompt 'green red' | grep -q '^green red ' || fail 'generate --prompt'
printf '\357\273\277green red\n' >"$tmp/marked"
"$SPLITC" generate "$config" --local --weights "$model" --prompts "$tmp/marked" --json | cmp "$tmp/json" - || fail 'a byte order mark is part of a prompt'
# A generated NUL does not end a text.
mkdir "$tmp/nuls"
for i in $(seq 32); do echo '{"text": "green\u0000\u0000\u0000\u0000\u0000"}'; done | tee "$tmp/nuls/train.jsonl" >"$tmp/nuls/dev.jsonl"
client nuls "$config" --local --set data.dir="$tmp/nuls" --set train.epochs=20 || fail "nuls: exit status $?"
"$SPLITC" generate "$config" --local --weights "$tmp/nuls/model.safetensors" --prompt green --json >"$tmp/json" || fail 'generate NUL'
jq -e --argjson nul "$(jq '."Ā"' "$tmp/made/vocab.json")" '(.ids | map(select(. == $nul)) | length) as $n | $n > 1 and (.text | explode | map(select(. == 65533)) | length == $n)' \
	"$tmp/json" >"$tmp/out" || fail "a NUL ends the text: $(cat "$tmp/json")"
port=$(free_port)
waits=(--set server="tcp://127.0.0.1:$port" --set link.on_server_lost=wait --set link.timeout_ms=1000 --set link.heartbeat_ms=200 "${drawn[@]}"
	--set generate.max_tokens=30 --set tail_tokens=loss --set train.batch=2 --set train.chunks=2)
start_server first listen="tcp://127.0.0.1:$port" store="$tmp/other"
plain=$SPLITC
SPLITC=$PWD/$BUILD/fail/splitc
SPLIT_FAILPOINTS=client.done=hold@5 SPLIT_FAILPOINTS_GO=$tmp/writer.go writes "${waits[@]}" >"$tmp/with" &
writer=$!
SPLITC=$plain
wait_for 'no pass' grep -q ' failpoint: client.done, ' "$tmp/generate.log"
end_process "$server_pid"
start_server second listen="tcp://127.0.0.1:$port" store="$tmp/other"
let_go writer
wait "$writer" || fail "generate, whose server was killed: $(cat "$tmp/generate.log")"
grep -q 'waiting for it' "$tmp/generate.log" || fail 'the server was not missed'
[ "$(cat "$tmp/with")" = "$(writes --local "${waits[@]}")" ] || fail 'a killed server changes the text'
SPLIT_FAILPOINTS=client.done=hold@2 SPLIT_FAILPOINTS_GO=$tmp/stops.go "$BUILD/fail/splitc" generate "$config" --local --weights "$model" \
	--prompts "$tmp/prompts" --set generate.max_tokens=20 >"$tmp/out" 2>"$tmp/stops.log" &
writer=$!
started+=($writer)
wait_for 'no local pass' grep -q ' failpoint: client.done, ' "$tmp/stops.log"
signal INT $writer
let_go stops
ends_with $writer 75 $patience 'a local generation, after SIGINT'
grep -q 'interrupted by signal 2' "$tmp/stops.log" || fail "a local generation: $(cat "$tmp/stops.log")"
other() { # NAME FILTER: the toy's folder, changed
	mkdir -p "$tmp/$1"
	jq "$2" "$tmp/toy/config.json" >"$tmp/$1/config.json"
	printf 'model.huggingface=%s' "$tmp/$1"
}
writes_not() { # STATUS SENTENCE [argument]…
	local rc=0
	"$SPLITC" generate "$config" --local --weights "$model" "${@:3}" >"$tmp/out" 2>"$tmp/refused.log" || rc=$?
	[ $rc = "$1" ] || fail "exit status $rc, not $1: generate ${*:3}"
	grep -qF -- "$2" "$tmp/refused.log" || fail "generate ${*:3} is refused with '$(cat "$tmp/refused.log")'"
}
writes_not 65 'prompt 1 has 42 tokens: 1 to 39 leave room' --prompt "$(printf '!%.0s' $(seq 41))"
mkdir "$tmp/larger"
jq '."!" = 700' "$tmp/made/vocab.json" >"$tmp/larger/vocab.json"
cp "$tmp/made/merges.txt" "$tmp/larger/"
writes_not 65 'prompt 1 has token 700, and the network has tokens below 700: take the tokenizer that belongs to it' --prompt '!' --set data.tokenizer="$tmp/larger"
# An end token in the prompt that the tokenizer's post-processor did not add counts as a token of the prompt.
writes_not 65 'prompt 1 has 42 tokens' --prompt "$(printf '!%.0s' $(seq 41))" --set "$(other ends ".eos_token_id = [2, $(jq '."!"' "$tmp/made/vocab.json")]")"
# generation_config.json says where a generated text ends, in place of config.json.
"$SPLITC" generate "$config" --local --weights "$model" --prompt 'green red' --json >"$tmp/json" || fail 'generate --json'
other stops . >"$tmp/set"
jq '{eos_token_id: [.ids[2]]}' "$tmp/json" >"$tmp/stops/generation_config.json"
"$SPLITC" generate "$config" --local --weights "$model" --prompt 'green red' --json --set "$(cat "$tmp/set")" >"$tmp/stopped" || fail 'generate with generation_config.json'
jq -es '.[1].reason == "end" and (.[0].ids as $all | .[0].ids | index($all[2])) as $n | .[1].ids == .[0].ids[:$n]' "$tmp/json" "$tmp/stopped" >"$tmp/out" ||
	fail "generation_config.json: $(cat "$tmp/json" "$tmp/stopped")"
echo '{"eos_token_id": 1e9}' >"$tmp/stops/generation_config.json"
writes_not 65 'stops/generation_config.json: eos_token_id is no token below vocab_size' --prompt green --set "$(cat "$tmp/set")"
printf 'green\nred\0fish\n' >"$tmp/nul"
writes_not 65 "$tmp/nul:2: a NUL character" --prompts "$tmp/nul"
printf 'green\nred\377\n' >"$tmp/latin"
writes_not 65 "$tmp/latin:2: invalid UTF-8 at byte 3 of the prompt" --prompts "$tmp/latin"
writes_not 64 'give --prompt or --prompts, not both' --prompt a --prompts b
writes_not 66 'none: ' --prompts "$tmp/none"
echo '{"prompt":"green"}' >"$tmp/green.JSONL"
writes_not 64 'green.JSONL: prompts are lines of text, not .jsonl' --prompts "$tmp/green.JSONL"
writes_not 78 'model.head: generate needs a decoder' --set model.head=classifier
writes_not 78 'model.head: generate needs a decoder' --set model.head=classifier --check-config
writes_not 78 'generate.top_p' --set generate.top_p=0
for key in top_k=5 top_p=0.9; do
	writes_not 78 "generate.${key%=*}: needs a generate.temperature above 0: at 0 the likeliest token is taken" --set generate.$key
done

refused 78 'tokens are chosen in the middle: begin the tail with model.chosen_tokens or an earlier layer' --set partition=2:-1
refused 78 'tail_tokens: loss needs a tail in which no token sees another one: it begins at layers.2' --set partition=2:-3 --set tail_tokens=loss
keep=(--set head_end=embed_tokens --set train.freeze='*embed_tokens*' --set train.keep_sent_bytes=10000000)
refused 78 'train.keep_sent_bytes: needs a codec.head_act that codes each token by itself, and quant:4 does not' "${keep[@]}" --set codec=quant:4
refused 78 'train.keep_sent_bytes: needs a codec.head_act that codes each token by itself' "${keep[@]}" --set codec=quant:4,block=24,ef=true
refused 78 'train.keep_sent_bytes: needs a head in which nothing learns' --set train.keep_sent_bytes=10000000
refused 78 'codec.mid_act: change=b needs train.keep_sent_bytes, by which both sides know a sample again' --set codec.mid_act=quant:6,change=4
refused 78 'codec.head_act: codec quant:6,change=4: change=b is for mid_act alone' "${keep[@]}" --set codec=quant:6,change=4
refused 78 'model.head: llama is a decoder: give causal_lm' --set model.head=classifier --set data.kind=made_tokens --set data.dir=.
refused 78 'model.head: llama is a decoder: give causal_lm' --set model.head=masked_lm
refused 78 'data.pack: belongs to model.head: causal_lm' --set model.head=masked_lm --set data.pack=join
refused 78 'train.metrics: belongs to classifiers' --set train.metrics=f1
refused 78 'data.pack: join makes rows of several texts' --set data.pack=join --set data.columns=prompt,completion --set data.dir="$tmp/pairs"
refused 78 'data.kind: a causal language model reads texts' --set data.kind=made_tokens
refused 78 'config.json names no end token' --set "$(other endless 'del(.eos_token_id)')"
refused 78 'rope_scaling is yarn' --set "$(other yarn '.rope_scaling = {type: "yarn", factor: 2}')"
refused 65 'num_key_value_heads is missing' --set "$(other mistral '.model_type = "mistral" | del(.num_key_value_heads)')"
refused 78 'num_attention_heads 4 is no multiple of num_key_value_heads 3' --set "$(other odd '.num_key_value_heads = 3')"
refused 78 'quantization_config is {"bits":4}: such a network is not built here' --set "$(other quantized '.quantization_config = {bits: 4}')"
refused 78 'bounds them to 8' --set "$(other window '.model_type = "mistral" | .sliding_window = 8')"
refused 78 'rope_theta is 5, and 7 in rope_parameters' --set "$(other theta '.rope_theta = 5 | .rope_parameters = {rope_theta: 7}')"

if [ -n "${SPLIT_TEXT_DATA:-}" ] && [ -n "${SPLIT_DECODER:-}" ]; then
	mkdir "$tmp/small"
	cp "$SPLIT_DECODER/config.json" "$SPLIT_DECODER/model.safetensors" "$tmp/small"
	scripts/tokenizer-json.py "$SPLIT_DECODER/tokenizer.model" "$tmp/small/tokenizer.json" 2>"$tmp/out"
	set=(--set model.huggingface="$tmp/small" --set model.tokens=128 --set data.kind=cola --set data.dir="$SPLIT_TEXT_DATA/glue" --set data.tokenizer="$tmp/small"
		--set data.token_cache=false --set lora.rank=8 --set lora.target=q_proj,v_proj --set train.groups= --set train.optimizer.lr=0.003)
	as_local cola 'local cola' 100 "$config" "${set[@]}" --set server="$two" --set train.max_steps=100
	jq -s -e '[.[] | select(.type == "epoch")][-1].test_loss < 3' "$tmp/cola/log.jsonl" >"$tmp/out" || fail "on CoLA: $(tail -n 3 "$tmp/cola/log.jsonl")"
fi
