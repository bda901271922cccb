#!/usr/bin/env bash
# splitc leak: the same figures when repeated and with other numbers of threads; a page with every figure; two attackers
# once there is a trained model. A codec that loses more reveals less; tokens of texts, rows of tables, labels of all;
# what is not finite is undefined; what cannot be measured is named or refused. Then noise on what the client sends: a run
# over the link has the bits of one in one process, also if killed and resumed, audited, and with codecs. Another key, or
# none, gives another run. A missing key, or one that others can read, is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 120
write_config "$tmp/client.yaml"
sed -i 's/form: imagenet/form: cifar/' "$tmp/client.yaml"
leak() { # NAME STATUS ARGUMENT…
	local rc=0
	timeout -k 5 $patience "$SPLITC" leak "${of:-$tmp/client.yaml}" --out "$tmp/$1" --set log.dir="$tmp/run" "${@:3}" >"$tmp/$1.log" 2>&1 || rc=$?
	[ $rc = "$2" ] || fail "leak $1: exit status $rc, not $2"
}
figure() { jq "$2" "$tmp/$1/leak.json"; }
is() { jq -e "$2" "$tmp/$1/leak.json" >/dev/null || fail "not $2: $(figure "$1" .)"; }
page() { /usr/bin/python3 tests/golden/leak_page.py "$tmp/$1" "${@:2}" || fail "the page of $1"; }

leak first 0 --steps 40
is first '.start == null and .pictures == 24 and .trained_with == 96'
is first '.informed.psnr_db.value > .informed.psnr_db.chance + 1 and .labels.mid_grad_one_example.value == 1'
is first '.labels | [.mid_grad_clusters, .mid_act_clusters, .mid_both_clusters] | all(.value >= .chance - 0.2 and (.classes | length) == 10 and .worst == ([.classes[] | values] | min) and .worst == .classes[.worst_class])'
grep -q 'gradients, no known label: .*; worst class [0-9]: .*; by class: ' "$tmp/first.log" || fail "$(cat "$tmp/first.log")"
is first '.labels.mid_grad_clusters | .chance > 0.4 and .low < .value and .high <= 1 and .samples == 24'
[ "$(jq -r .in_short.labels "$tmp/first/leak.json")" = "$(sed -n 's/^in short  labels: //p' "$tmp/first.log")" ] || fail 'the answer of page and terminal'
leak again 0 --steps 40 --set threads=2
cmp "$tmp/first/leak.json" "$tmp/again/leak.json" || fail 'other figures with other threads'
cmp "$tmp/first/sheet.png" "$tmp/again/sheet.png" || fail 'other pictures'
[ "$(head -c 4 "$tmp/first/sheet.png" | od -An -tx1)" = ' 89 50 4e 47' ] || fail 'no PNG'
page first 'In short' "$(jq -r .in_short.data "$tmp/first/leak.json")" 'worst class' 'by class' 'protocol ' 'cut at' 'form: cifar' threads "$(jq -r .fingerprint.samples "$tmp/first/leak.json")" 'What was not measured'
leak bits 0 --steps 40 --set codec.head_act=quant:1
[ "$(jq -n "$(figure bits .informed.psnr_db.value) < $(figure first .informed.psnr_db.value)")" = true ] || fail 'one bit tells as much as all'

# A class with a far larger weight takes the whole range of a coarse code, so the gradients of the others come out as
# zeros.
leak even 0 --steps 1 --set codec.mid_grad=quant:3
leak weighted 0 --steps 1 --set codec.mid_grad=quant:3 --set train.class_weights=1,1,1,1,1,1,1,1,1,10000
[ "$(jq -n "$(figure weighted .labels.mid_grad_one_example.value) < $(figure even .labels.mid_grad_one_example.value) - 0.2")" = true ] ||
	fail "train.class_weights do not count: $(figure even .labels), $(figure weighted .labels)"
leak balanced 0 --steps 1 --set codec.mid_grad=quant:3 --set train.class_weights=balanced

# A decaying insert is as wide as it was in the run at these weights: full width at first, narrower after each
# reduction.
falls=(--set insert.head=decaylinear:rate=0.5,every=2,times=2 --set log.dir="$tmp/falls")
width() { sed -n 's/.*,\([0-9]*\)\] numbers of each picture.*/\1/p' "$tmp/$1/leak.html"; }
leak wide 0 --steps 40 "${falls[@]}"
client falls "$tmp/client.yaml" --local "${falls[@]}" --set train.max_steps=3 --set train.schedule.warmup_epochs=0 || fail 'training with an insert'
leak narrow 0 --steps 40 "${falls[@]}"
[ "$(width wide)" = $((2 * $(width narrow))) ] || fail "widths: $(width wide), $(width narrow)"
is narrow '.informed.psnr_db.value > .informed.psnr_db.chance + 1'

# Two values go up from inside a residual block: decoders see both.
two=(--set cut_values=2 --set head_end=features.3.conv.0)
leak two 0 --steps 40 "${two[@]}"
is two '(.values | startswith("2 values go up and 1 come down.")) and .informed.psnr_db.value > .informed.psnr_db.chance + 1'
is two '.labels.head_act_neighbours.samples == 24 and .labels.mid_grad_one_example.value == 1'
page two '2 values go up and 1 come down'
is first '.values == null'

"$SPLITC" keygen --out "$tmp/key" >/dev/null 2>&1
leak noisy 0 --steps 40 --set noise.key="$tmp/key" --set noise.head_act=4 --set noise.mid_grad=64
is noisy '.noise.head_act == 4 and .informed.psnr_db.value < '"$(figure first .informed.psnr_db.value)"' - 1 and .labels.mid_grad_one_example.value < 0.5'
page noisy '4 times a sample' noise.head_act=4

client run "$tmp/client.yaml" --local || fail 'training'
jq -s -e '[.[] | select(.type == "epoch")][-1].dcor_squared | . > 0.1 and . < 1' "$tmp/run/log.jsonl" >/dev/null || fail "$(dcor_of run)"
leak trained 0 --steps 40 --json
is trained '.start.psnr_db.value > 0 and .informed.steps == 40'
page trained 'steps of training'
sed -n '/^{/,$p' "$tmp/trained.log" | jq -S . >"$tmp/said.json"
jq -S . "$tmp/trained/leak.json" | cmp - "$tmp/said.json" || fail '--json says something else'
grep -q "^\"start\",\"psnr_db\",$(figure trained .start.psnr_db.value)," "$tmp/trained/leak.csv" || fail "$(cat "$tmp/trained/leak.csv")"

leak minutes 0 --steps 100000 --minutes 0.02
page minutes 'its time was over'
leak usage 64 --steps many
leak part 64 --steps 0.5
leak small 78 --steps 4 --set data.test_limit=4

# A table: the first column shows behind a layer with ReLU, and so do classes that follow from it. Names of columns come
# from strangers. With three features a row has the shape of a picture of one pixel.
mkdir "$tmp/fruit"
for part in train test; do printf 'a,"<script>&""b",c,y\n%s\n' "$(for i in $(seq 160); do echo "$((i * 37 % 101)),$((i * i % 7)),$((i * 53 % 89)),$((i * 37 % 101 > 50))"; done)" >"$tmp/fruit/$part.csv"; done
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:9 # <&>
	model: {name: mlp, features: 3, classes: 2}
	data: {kind: csv, dir: $tmp/fruit, label: y}
	train: {batch: 8}
YAML
rm -r "$tmp/run"
leak table 0 --steps 400
is table '.rows == 32 and .informed.r2.value > 0.8 and .informed_columns.a.value > 0.8 and .informed.found_again.value > 0.5'
is table '.dcor_squared.value > 0.2 and .labels.head_act_neighbours.value > 0.75 and .labels.mid_grad_one_example.value == 1'
page table '<script>&"b' '# <&>'

# A vertical pair: the server sees what it would see of one client. Site A, with the columns, reads labels from head_grad;
# site B, with the labels, columns from mid_act. A frozen head gets no gradient.
for part in train test; do
	mkdir -p "$tmp/A" "$tmp/B"
	cut -d, -f1-3 "$tmp/fruit/$part.csv" | awk '{ print (NR > 1 ? NR : "id") "," $0 }' >"$tmp/A/$part.csv"
	cut -d, -f4 "$tmp/fruit/$part.csv" | awk '{ print (NR > 1 ? NR : "id") "," $0 }' >"$tmp/B/$part.csv"
done
"$SPLITC" keygen --out "$tmp/pair.key" >/dev/null 2>&1
for site in A:0:features B:1:labels; do
	IFS=: read -r site member role <<<"$site"
	{ sed "s,dir: $tmp/fruit,dir: $tmp/$site\, id: id," "$tmp/client.yaml"
		echo "share: {mode: vertical, group: g, clients: 2, member: $member, role: $role, secret: $tmp/pair.key}"; } >"$tmp/$site.yaml"
done
of=$tmp/A.yaml leak sites 0 --steps 400 --party "$tmp/B.yaml"
cmp <(jq 'del(.site_a, .site_b, .site_b_columns)' "$tmp/sites/leak.json") <(jq . "$tmp/table/leak.json") || { diff <(jq 'del(.site_a, .site_b, .site_b_columns)' "$tmp/sites/leak.json") <(jq . "$tmp/table/leak.json"); fail 'a pair: the server sees something else'; }
is sites '.site_a | .head_grad_one_example.value > 0.9 and .head_grad_clusters.value > 0.9 and .head_grad_neighbours.value > 0.9'
is sites '.site_b.r2.value > 0.3 and .site_b.r2.value < .informed.r2.value and .site_b.found_again.low > .site_b.found_again.chance and .site_b_columns.a.value > 0.8'
page sites 'learns of member B' 'Attacker site_b'
of=$tmp/B.yaml leak riap 0 --steps 400 --party "$tmp/A.yaml"
cmp "$tmp/sites/leak.json" "$tmp/riap/leak.json" || fail "the order of a pair's configs counts"
client sites-run "$tmp/A.yaml" --local --party "$tmp/B.yaml" --set train.epochs=2 || fail 'training of a pair'
of=$tmp/A.yaml leak trained_sites 0 --steps 40 --party "$tmp/B.yaml" --set log.dir="$tmp/sites-run"
is trained_sites '.start.steps == 40 and .site_b.steps == 40 and .site_a.head_grad_one_example.value > 0.9'
of=$tmp/B.yaml leak frozen 0 --steps 4 --party "$tmp/A.yaml" --set 'train.freeze=layer1.*'
is frozen '.site_a == null and .site_b.steps == 4 and (.not_measured | any(startswith("Labels from head_grad: the head is frozen")))'
of=$tmp/A.yaml leak half_a_pair 78
grep -q "needs the other members' configs" "$tmp/half_a_pair.log" || fail "$(cat "$tmp/half_a_pair.log")"
sed -i '5s/^5/six/' "$tmp/B/test.csv"
of=$tmp/A.yaml leak renamed 78 --party "$tmp/B.yaml"
grep -q 'row 3 has another name at the other member' "$tmp/renamed.log" || fail "$(cat "$tmp/renamed.log")"
sed -i 5d "$tmp/B/test.csv"
of=$tmp/A.yaml leak shorter 78 --party "$tmp/B.yaml"
grep -q "has 159 rows, and the other member's has 160" "$tmp/shorter.log" || fail "$(cat "$tmp/shorter.log")"

leak noise_table 0 --steps 40 --set noise.key="$tmp/key" --set noise.head_act=64 --set noise.mid_grad=64
is noise_table '[.informed.r2, .dcor_squared] | all(.value < .chance + 0.25)'
# an interval of 95 % misses now and then
is noise_table '[.labels[], .informed.found_again] | map(select(.low >= .chance)) | length <= 1'
sed 's/classes: 2/classes: 1, task: numbers/; s/label: y/label: a/; s/features: 3/features: 3/' "$tmp/client.yaml" >"$tmp/numbers.yaml"
sed -i 's/, classes: 2}/, task: labels, classes: 1}/; s/classes: 2/classes: 1/' "$tmp/client.yaml"
sed -i 's/label: y/label: [y]/' "$tmp/client.yaml"
leak yes_or_no 0 --steps 4
is yes_or_no '.labels.mid_grad_one_example.value == 1 and .not_measured == []'
mv "$tmp/numbers.yaml" "$tmp/client.yaml"
leak numbers 0 --steps 4
is numbers '.labels == null and (.not_measured | any(startswith("Labels: here they are numbers")))'
page numbers 'Labels: here they are numbers'
grep -q '^not measured: Labels' "$tmp/numbers.log" || fail "$(cat "$tmp/numbers.log")"
sed -i 's/classes: 1, task: numbers/classes: 2/; s/label: a/label: y/' "$tmp/client.yaml"
client fruit-run "$tmp/client.yaml" --local --set train.epochs=2 || fail 'training with a table'
/usr/bin/python3 - "$tmp/fruit-run/model.safetensors" "$tmp/nan.safetensors" <<-'PYTHON'
	import json, struct, sys
	file = bytearray(open(sys.argv[1], "rb").read())
	end = 8 + struct.unpack("<Q", file[:8])[0]
	at = json.loads(file[8:end])["layer1.linear.bias"]["data_offsets"][0]
	file[end + at:end + at + 4] = struct.pack("<f", float("nan"))
	open(sys.argv[2], "wb").write(file)
PYTHON
leak nan 0 --steps 4 --weights "$tmp/nan.safetensors"
is nan '[.. | objects | select(has("samples") and has("value")) | .value] | length > 10 and all(. == null)'
is nan '.not_measured | any(startswith("Figures that are undefined"))'
page nan undefined
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
grep -q 'the validation part has 16 texts, and leak needs 100 or more' "$tmp/texts.log" || fail "$(cat "$tmp/texts.log")"
leak words 0 --steps 300
is words '.tokens_by_nearest_row.value == 1 and (.informed.tokens_by_probe | .value > 0.9 and .chance < 0.5)'
is words '.not_measured | any(startswith("Labels: those of a language model"))'
page words 'words and labels'
leak layer 0 --steps 300 --set partition=3:-2 --set data.pad=max
is layer '.tokens_by_nearest_row.value < 1 and .tokens == '"$(figure words .tokens)"
leak layer_again 0 --steps 300 --set partition=3:-2 --set data.pad=max --set threads=2
cmp "$tmp/layer/leak.json" "$tmp/layer_again/leak.json" || fail 'other tokens with other threads'
lines 100 900 >"$tmp/text/dev.txt"
leak many 0 --steps 4
is many '.tokens > 512 and .dcor_squared.samples == .tokens'

# Texts with classes: beside their tokens the labels, of each text.
rm "$tmp"/text/*
for part in train:0:16 val:100:260; do
	IFS=: read -r name from to <<<"$part"
	{ echo label,text; lines "$from" "$to" | awk '{ print NR % 3 ",\"" $0 (NR % 3 ? NR % 3 == 1 ? " red" : " green" : " water") "\"" }'; } >"$tmp/text/$name.csv"
done
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "roberta", "architectures": ["RobertaForSequenceClassification"], "vocab_size": 700, "hidden_size": 24,
	 "intermediate_size": 40, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 42, "type_vocab_size": 1,
	 "layer_norm_eps": 1e-05, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0, "hidden_act": "gelu",
	 "initializer_range": 0.1, "pad_token_id": 1}
JSON
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:9
	model: {huggingface: $tmp/toy, classes: 3, tokens: 40}
	partition: "1:-1"
	data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made, label: label}
	train: {batch: 8, chunks: 2}
	threads: 1
YAML
leak classes 0 --steps 100
is classes '.not_measured == [] and .labels.mid_grad_one_example.value == 1 and .labels.mid_grad_clusters.value > .labels.mid_grad_clusters.chance + 0.2'
is classes '.labels.head_act_neighbours | .value > .chance + 0.1 and .samples == 160'
is classes '.tokens_by_nearest_row | .low > .chance'
page classes 'the labels of 160 texts'
leak classes_padded 0 --steps 100 --set data.pad=max
is classes_padded '.labels == '"$(figure classes .labels)"
leak per_token 0 --steps 4 --set partition=1:-2
is per_token '.labels.mid_grad_one_example.value > .labels.mid_grad_one_example.chance + 0.2'

# ---- noise
mkdir "$tmp/small"
cat >"$tmp/small/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
	 "num_attention_heads": 4, "max_position_embeddings": 26, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
	 "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0, "hidden_act": "gelu", "initializer_range": 0.1,
	 "pad_token_id": 1}
JSON
for key in pair other open; do "$SPLITC" keygen --out "$tmp/$key" >/dev/null 2>&1; done
chmod 644 "$tmp/open"
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/small, classes: 2, tokens: 24}
	head_end: encoder.layer.0
	tail_begin: encoder.layer.2
	data: {kind: made_tokens, dir: ., train_limit: 48, test_limit: 24}
	train: {batch: 16, chunks: 4, seed: 3, optimizer: {kind: adamw, lr: 0.01}}
	noise: {head_act: 0.5, mid_grad: 1, key: $tmp/pair}
	threads: 1
YAML
steps=3
. tests/e2e/lib/compare.sh
compare plain
compare codecs codec=quant:8,ef=true
compare padded data.pad=max
first_loss() { jq 'select(.type == "step" and .step == 1).loss' "$tmp/local $1/log.jsonl"; }
[ "$(first_loss padded)" = "$(first_loss plain)" ] || fail "padding changes the noise: $(first_loss padded), $(first_loss plain)"
compare audited train.audit.every=1
compare 'behind the first token' tail_begin=classifier
make_data 48 24
write_config "$tmp/pictures.yaml"
sed -i "/^server/d; s/form: imagenet/form: cifar/; \$a noise: {head_act: 0.5, mid_grad: 1, key: $tmp/pair}" "$tmp/pictures.yaml"
tokens=$config config=$tmp/pictures.yaml
steps=$("$SPLITC" train "$config" --local --check-config 2>&1 | sed -n 's/.* \([0-9]*\) steps.*/\1/p')
compare pictures
config=$tokens steps=3
same_run 'local plain' 'local audited' 3
differs() { # NAME OPTION…
	client "local $1" "$config" --local "${@:2}" || fail "$1: exit status $?"
	! cmp -s "$tmp/local $1/model.safetensors" "$tmp/local plain/model.safetensors" || fail "$1: the same run"
}
differs 'other key' --set noise.key="$tmp/other"
differs 'no noise' --set noise.head_act=0 --set noise.mid_grad=0 --set noise.key=
differs 'gradients alone' --set noise.head_act=0

set=(--set server="$two" --set train.checkpoint_every=1)
killed_client 2 'local plain' "$config" "${set[@]}"

refused 78 'noise.key: noise needs a key file' --set noise.key=
refused 78 'noise needs a key file' --set noise.head_act=0 --set noise.mid_grad=0
refused 66 'noise.key' --set noise.key="$tmp/none"
refused 78 'noise.key' --set noise.key="$tmp/open"
echo "informed: $(figure first .informed.psnr_db.value) dB, with one bit $(figure bits .informed.psnr_db.value), the mean picture $(figure first .informed.psnr_db.chance)"
