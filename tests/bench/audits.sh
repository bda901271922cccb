#!/usr/bin/env bash
# usage: tests/bench/audits.sh, after `make` and `make T=audit build-tests`
# Counts audited steps of honest servers: with every codec, two optimizers, adapters, noise, and clients that are killed
# and resumed. An audit that fails ends the script. The table goes to docs/results/audit.md.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
start_server host
mkdir "$tmp/toy"
cat >"$tmp/toy/config.json" <<-JSON
	{"model_type": "roberta", "vocab_size": 96, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
	 "num_attention_heads": 4, "max_position_embeddings": 26, "type_vocab_size": 1, "layer_norm_eps": 1e-05, "initializer_range": 0.1}
JSON
"$SPLITC" keygen --out "$tmp/key" >/dev/null 2>&1
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {huggingface: $tmp/toy, classes: 2, tokens: 24}
	partition: "2:-1"
	data: {kind: made_tokens, dir: ., train_limit: 160, test_limit: 24}
	train: {batch: 16, chunks: 4, epochs: 4, seed: 3, checkpoint_every: 5, audit: {every: 1}, optimizer: {kind: adamw, lr: 0.002}}
	threads: 1
YAML
all=0
count() { # NAME
	read -r steps < <(sed -n 's/.*audits: \([0-9]*\) steps in .* what was agreed: .*/\1/p' "$tmp/$1.log")
	all=$((all + steps))
}
config=$tmp/client.yaml
audited() { # OPTION…
	client run "$config" --fresh "$@" || fail "$*: the audit of an honest server failed"
	count run
}
say() { printf '| %s | %d | %d |\n' "$1" "$2" "$((all - before))"; before=$all; }
echo '| what | runs | audited steps |'
echo '|---|---|---|'
before=0
codecs=(none f16 bf16 quant:8 'quant:4,round=stochastic' sortquant:3+2 terngrad qsgd:4 topk:0.1,ef=true randomk:0.2,ef=true threshold:0.1 adaptive:0.1
	'topk:0.2|quant:8' 'quant:8|zstd:3' 'quant:8,block=24')
for codec in "${codecs[@]}"; do audited --set codec="$codec"; done
say 'a codec each, AdamW' ${#codecs[@]}
for codec in "${codecs[@]}"; do audited --set codec="$codec" --set train.optimizer.kind=sgd --set train.optimizer.lr=0.01; done
say 'a codec each, SGD' ${#codecs[@]}
make_data 160 16
write_config "$tmp/pictures.yaml"
config=$tmp/pictures.yaml
for codec in downsample:2 cells:2 lowrank:3,warm=true; do audited --set train.audit.every=1 --set codec.head_act=$codec --set codec.head_grad=$codec; done
config=$tmp/client.yaml
say 'codecs of pictures, MobileNetV2' 3
adapters=(--set lora.rank=2 --set lora.alpha=4 --set lora.target=query,value)
audited "${adapters[@]}"
audited "${adapters[@]}" --set codec=quant:8,ef=true
say adapters 2
audited --set noise.key="$tmp/key" --set noise.head_act=0.5 --set noise.mid_grad=1
audited --set noise.key="$tmp/key" --set noise.head_act=0.5 --set codec=topk:0.2,ef=true
say noise 2
for at in 7 13 22 31; do
	client_stands $at "killed$at" "$tmp/client.yaml"
	end_client
	client "killed$at" "$tmp/client.yaml" --resume || fail "resumed after a kill after step $at: exit status $?"
	count "killed$at"
done
say 'killed and resumed, steps behind the kill' 4
printf '| all | | %d |\n' $all
