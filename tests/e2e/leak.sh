#!/usr/bin/env bash
# splitc leak: the same figures when repeated and with other numbers of threads; a page with pictures; two attackers
# once there is a trained model. A codec that loses more reveals less; tokens of texts; what cannot be measured is
# refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 120
write_config "$tmp/client.yaml"
sed -i 's/form: imagenet/form: cifar/' "$tmp/client.yaml"
leak() { # NAME STATUS ARGUMENT…
	local rc=0
	timeout -k 5 $patience "$SPLITC" leak "$tmp/client.yaml" --out "$tmp/$1" --set log.dir="$tmp/run" "${@:3}" >"$tmp/$1.log" 2>&1 || rc=$?
	[ $rc = "$2" ] || fail "leak $1: exit status $rc, not $2"
}
figure() { jq "$2" "$tmp/$1/leak.json"; }

leak first 0 --steps 40
[ "$(figure first .start)" = null ] || fail 'two attackers, and nothing was trained'
[ "$(figure first .pictures)" = 24 ] && [ "$(figure first .trained_with)" = 96 ] || fail "$(figure first .)"
figure first '.informed.psnr_db.mean > .mean_picture.psnr_db.mean + 1 and .labels.mid_grad_one_example == 1' | grep -q true || fail "$(figure first .)"
leak again 0 --steps 40 --set threads=2
cmp "$tmp/first/leak.json" "$tmp/again/leak.json" || fail 'other figures with other threads'
cmp "$tmp/first/sheet.png" "$tmp/again/sheet.png" || fail 'other pictures'
[ "$(head -c 4 "$tmp/first/sheet.png" | od -An -tx1)" = ' 89 50 4e 47' ] || fail 'no PNG'
for part in 'What was assumed' 'What was found' 'What this cannot show'; do
	grep -q "^## $part" "$tmp/first/leak.md" || fail "leak.md has no part '$part'"
done
leak bits 0 --steps 40 --set codec.head_act=quant:1
[ "$(jq -n "$(figure bits .informed.psnr_db.mean) < $(figure first .informed.psnr_db.mean)")" = true ] || fail 'one bit tells as much as all'

# A class with a far larger weight takes the whole range of a coarse code, so the gradients of the others come out as
# zeros.
leak even 0 --steps 1 --set codec.mid_grad=quant:3
leak weighted 0 --steps 1 --set codec.mid_grad=quant:3 --set train.class_weights=1,1,1,1,1,1,1,1,1,10000
[ "$(jq -n "$(figure weighted .labels.mid_grad_one_example) < $(figure even .labels.mid_grad_one_example) - 0.2")" = true ] ||
	fail "train.class_weights do not count: $(figure even .labels), $(figure weighted .labels)"
leak balanced 0 --steps 1 --set codec.mid_grad=quant:3 --set train.class_weights=balanced

# A decaying insert is as wide as it was in the run at these weights: full width at first, narrower after each
# reduction.
falls=(--set insert.head=decaylinear:rate=0.5,every=2,times=2 --set log.dir="$tmp/falls")
width() { sed -n 's/.* Of each picture .*,\([0-9]*\)\] numbers cross.*/\1/p' "$tmp/$1/leak.md"; }
leak wide 0 --steps 40 "${falls[@]}"
client falls "$tmp/client.yaml" --local "${falls[@]}" --set train.max_steps=3 --set train.schedule.warmup_epochs=0 || fail 'training with an insert'
leak narrow 0 --steps 40 "${falls[@]}"
[ "$(width wide)" = $((2 * $(width narrow))) ] || fail "widths: $(width wide), $(width narrow)"
figure narrow '.informed.psnr_db.mean > .mean_picture.psnr_db.mean + 1' | grep -q true || fail "behind one fall: $(figure narrow .)"

"$SPLITC" keygen --out "$tmp/key" >/dev/null 2>&1
leak noisy 0 --steps 40 --set noise.key="$tmp/key" --set noise.head_act=4 --set noise.mid_grad=64
figure noisy '.noise.head_act == 4 and .informed.psnr_db.mean < '"$(figure first .informed.psnr_db.mean)"' - 1 and .labels.mid_grad_one_example < 0.5' | grep -q true || fail "$(figure noisy .)"
grep -q 'The client adds noise' "$tmp/noisy/leak.md" || fail 'the page does not speak of noise'

client run "$tmp/client.yaml" --local || fail 'training'
jq -s -e '[.[] | select(.type == "epoch")][-1].dcor_squared | . > 0.1 and . < 1' "$tmp/run/log.jsonl" >/dev/null || fail "$(dcor_of run)"
leak trained 0 --steps 40 --json
figure trained '.start.psnr_db.mean > 0 and .informed.steps == 40' | grep -q true || fail "$(figure trained .)"
sed -n '/^{/,$p' "$tmp/trained.log" | jq -S . >"$tmp/said.json"
jq -S . "$tmp/trained/leak.json" | cmp - "$tmp/said.json" || fail '--json says something else'
grep -qx "start.psnr_db.mean,$(figure trained .start.psnr_db.mean)" "$tmp/trained/leak.csv" || fail "$(cat "$tmp/trained/leak.csv")"

leak minutes 0 --steps 100000 --minutes 0.02
grep -q 'since its time was over' "$tmp/minutes/leak.md" || fail 'the page does not say that time was short'
leak usage 64 --steps many
leak part 64 --steps 0.5
leak small 78 --steps 4 --set data.test_limit=4
mkdir "$tmp/fruit"
for part in train test; do printf 'a,b,y\n%s\n' "$(for i in $(seq 100); do echo "$i,$((i % 3)),$((i % 2))"; done)" >"$tmp/fruit/$part.csv"; done
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:9
	model: {name: mlp, features: 2, classes: 2}
	data: {kind: csv, dir: $tmp/fruit, label: y}
	train: {batch: 8}
YAML
rm -r "$tmp/run"
leak table 78 --steps 4
grep -q 'leak measures networks that read pictures or texts' "$tmp/table.log" || fail "$(cat "$tmp/table.log")"
client fruit-run "$tmp/client.yaml" --local --set train.epochs=2 || fail 'training with a table'
! python3 -c 'import numpy' 2>/dev/null || python3 tests/golden/dcor_live.py "$tmp/fruit-run/model.safetensors" "$tmp/fruit/test.csv" "$tmp/fruit-run/log.jsonl"

# After the embedding table every token is found by its nearest row; one layer later fewer are.
. tests/e2e/lib/lines.sh
mkdir "$tmp/toy" "$tmp/made" "$tmp/text"
"$TOOLS/make_text" "$tmp/made"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 700, "hidden_size": 24, "intermediate_size": 40,
	 "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 40, "rms_norm_eps": 1e-05,
	 "hidden_act": "silu", "initializer_range": 0.5, "tie_word_embeddings": true, "eos_token_id": 2}
JSON
lines 0 8 >"$tmp/text/train.txt"
lines 100 180 >"$tmp/text/dev.txt"
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:9
	model: {huggingface: $tmp/toy, head: causal_lm, tokens: 40}
	partition: "1:-2"
	data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made}
	train: {batch: 8, chunks: 2}
	threads: 1
YAML
leak texts 78 --steps 4 --set data.test_limit=16
grep -q 'the test set has 16 texts, and leak needs 100 or more' "$tmp/texts.log" || fail "$(cat "$tmp/texts.log")"
leak words 0 --steps 300
figure words '.tokens_by_nearest_row == 1 and .informed.tokens_by_probe > 0.9 and .most_frequent_token < 0.5' | grep -q true || fail "$(figure words .)"
leak layer 0 --steps 300 --set partition=3:-2 --set data.pad=max
figure layer '.tokens_by_nearest_row < 1 and .tokens == '"$(figure words .tokens)" | grep -q true || fail "$(figure layer .)"
leak layer_again 0 --steps 300 --set partition=3:-2 --set data.pad=max --set threads=2
cmp "$tmp/layer/leak.json" "$tmp/layer_again/leak.json" || fail 'other tokens with other threads'
lines 100 900 >"$tmp/text/dev.txt"
leak many 0 --steps 4
figure many '.tokens > 512 and .dcor_squared.tokens == .tokens' | grep -q true || fail "$(figure many .)"
echo "informed: $(figure first .informed.psnr_db.mean) dB, with one bit $(figure bits .informed.psnr_db.mean), the mean picture $(figure first .mean_picture.psnr_db.mean)"
