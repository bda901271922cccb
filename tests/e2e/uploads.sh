#!/usr/bin/env bash
# The middle's weights are in memory once on each side: the server receives them, or reads them from its store, into the
# place where it computes, and writes checkpoints from there; the client sends them from the mapped file. If a daemon
# dies in an upload or just after it, it is restarted, and the run ends as the undisturbed one; SPLIT_LONG=1: at more places.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
mkdir "$tmp/made" "$tmp/text" "$tmp/of-large" "$tmp/of-small"
"$TOOLS/make_text" "$tmp/made"
. tests/e2e/lib/lines.sh
lines 0 8 >"$tmp/text/train.txt"
lines 100 102 >"$tmp/text/dev.txt"
python3 tests/bench/llama_of.py "$tmp/of-large" 6 1024 700
python3 tests/bench/llama_of.py "$tmp/of-small" 4 256 700
config=$tmp/client.yaml
cat >"$config" <<-YAML
	model: {huggingface: $tmp/of-large, head: causal_lm, tokens: 40}
	partition: "2:-3"
	lora: {rank: 2}
	data: {kind: text, dir: $tmp/text, tokenizer: $tmp/made}
	train: {batch: 4, chunks: 2, epochs: 1, checkpoint_every: 1, seed: 3, optimizer: {kind: adamw, lr: 0.01, weight_decay: 0.1}}
	threads: 1
YAML
small=(--set model.huggingface="$tmp/of-small" --set link.part_bytes=16384)
client small "$config" --local "${small[@]}" || fail "small: exit status $?"

# ---- 120 MB of weights; beside what is counted a process needs 10 MB, and the server a window for what it has not stored
slack=40000000 # sanitizers have memory of their own
said() { "$SPLITC" flops "$config" --json | jq ".memory.$1 | .sum + .checkpoint + .mapped"; }
file=$(stat -c %s "$tmp/of-large/model.safetensors")
weights=$((file * 4 / 6))
most() { awk -v unit=1024 '/^VmHWM/ {print $2 * unit}' "/proc/$1/status"; }
# within SIDE PID FILE_BYTES: the peak is no more than announced, which has room for the weights once.
within() {
	local most said
	most=$(most "$2") said=$(said "$1")
	[ $((said - $3)) -lt $((weights * 17 / 10)) ] || fail "$1: $said bytes are said, $3 of them mapped, with $weights of weights"
	[ -n "${SAN:-}" ] || [ "$most" -lt $((said + slack)) ] || fail "$1: $most bytes at most, and $said were said"
	echo "$1: $((most / 1000000)) MB, $((said / 1000000)) MB were said, $((weights / 1000000)) MB of weights"
}
# Two runs: an upload, then the store's copy; each with a server of its own.
for run in first second; do
	start_server "server of $run" "store=$tmp/large store" link.window_bytes=16MiB
	start_failing_client client.leave=hold "$run" "$config" --set server="$endpoint"
	at_point "$run" client.leave
	within client "$client_pid" "$file"
	let_go "$run"
	ends_with "$client_pid" 0 $patience "$run"
	within server "$server_pid" 0
	end_process "$server_pid"
done
same_run first second 2
sent() { jq 'select(.type == "summary").weights_tx_bytes' "$tmp/$1/log.jsonl"; }
[ "$(sent first)" -gt $((weights / 10 * 9)) ] && [ "$(sent second)" = 0 ] || fail "$(sent first), then $(sent second) bytes of weights went up"

# ---- killed in an upload, and as soon as it is whole, checked or in the store
for point in link.receive=kill@60 store.done=kill ${SPLIT_LONG:+port.whole=kill server.install=kill server.apply=kill}; do
	killed_server "$point" small "$config" "${small[@]}"
done
start_server "server of all" "store=$tmp/whole store"
for point in link.send=kill@60 ${SPLIT_LONG:+port.post=kill client.apply=kill}; do
	name="small ${point%=*}"
	start_failing_client "$point" "$name" "$config" --set server="$endpoint" "${small[@]}"
	ends_with "$client_pid" 137 $patience "$name"
	client "$name" "$config" --fresh --set server="$endpoint" "${small[@]}" || fail "$name: exit status $?"
	same_run "$name" small 2
done
