#!/usr/bin/env bash
# A task of minutes does not make others wait: beside a client whose answer is packed by zstd:19, another client trains
# to its end while that task runs, its steps take at most 2 s, and it learns what it learns alone. When a session ends,
# its task ends with it. A server can refuse such a session, or end it and continue.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh

make_data 192 16
start_server s
write_config "$tmp/client.yaml"
good=(--set train.epochs=2 --set data.train_limit=96)
client alone "$tmp/client.yaml" --set server="$endpoint" "${good[@]}" || fail "alone: $(tail -n 1 "$tmp/alone.log")"

task_s() { ask "$SPLITS" "$tmp/s.sock" "$tmp/status"; grep -oE '"task_s": [0-9.]+' "$tmp/status" | cut -d: -f2; }
task_runs() { awk -v s="$(task_s)" 'BEGIN {exit !(s > 1)}'; }
no_task() { awk -v s="$(task_s)" 'BEGIN {exit !(s == 0)}'; }
longest_step() { grep '^{"type":"step"' "$tmp/$1/log.jsonl" | grep -oE '"t_step_s":[0-9.e-]+' | cut -d: -f2 | sort -g | tail -n 1; }

# 63 MB of activations, for which the client sends only 15 kB
start_client attack "$tmp/client.yaml" --set server="$endpoint" --set model.image=256 --set train.batch=192 \
	--set train.chunks=1 --set codec.head_act=downsample:64 --set codec.mid_act=zstd:19
wait_for "the long task" task_runs
clock_starts
client beside "$tmp/client.yaml" --set server="$endpoint" "${good[@]}" || fail "beside: $(tail -n 1 "$tmp/beside.log")"
late_ms=$(clock_late)
# The task seen before may have been the one that opens the session; the forward pass comes after it.
wait_for "the long task had ended before the good client" task_runs
[ "$(steps_of attack)" = 0 ] || fail "the attack was no long task: $(steps_of attack) steps"
same_run alone beside 12
end_client
gone=$SECONDS
wait_for "the task of a session that ended goes on" no_task
echo "good client: longest step $(longest_step alone) s alone, $(longest_step beside) s beside the long task, which ended $((SECONDS - gone)) s after its session"
awk -v s="$(longest_step beside)" -v late="$late_ms" 'BEGIN {exit !(s <= 2 + late / 1000)}' ||
	fail "a step took longer than 2 s; a process was kept waiting for $late_ms ms"

# With a lower limit the task is refused before it begins; with a low watchdog limit its session ends, and the server
# does not.
slow=("$tmp/client.yaml" --set model.image=256 --set train.batch=192 --set train.chunks=1 --set codec.head_act=downsample:64
	--set codec.mid_act=zstd:19)
refused() { # NAME SENTENCE
	local rc=0
	client "$1" "${slow[@]}" --set server="$endpoint" || rc=$?
	[ $rc = 76 ] || fail "$1: exit status $rc, not 76"
	grep -q "$2" "$tmp/$1.log" || fail "$1: no '$2': $(tail -n 1 "$tmp/$1.log")"
}
start_server limited limits.task_s=5 store=
refused predicted 'limits.task_s is 5'
start_server watched watchdog_s=2 store=
refused watched-client 'watchdog_s is 2'
client after "$tmp/client.yaml" --set server="$endpoint" "${good[@]}" || fail "after: $(tail -n 1 "$tmp/after.log")"
same_run alone after 12
