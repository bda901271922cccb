#!/usr/bin/env bash
# Networks that make one task long, at the server's default limits (tools/hostile.c, train): large windows of pools and
# convolutions, and long rows of attention. A good client trains beside each of them: no step of it takes 2 s longer
# than the time for which the busy machine kept processes waiting, and it learns what it learns alone. What is too long
# is refused. The server ends in time, with 0, while such a task runs. Nor does a task of minutes make others wait, which a
# codec makes: zstd:19. When a session ends, its task ends with it. A server can refuse such a session, or end it and
# continue.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 480 24
start_server host
write_config "$tmp/client.yaml"
run=("$tmp/client.yaml" --set train.epochs=100000 --set train.eval_every=0 --set train.optimizer.lr=0.002
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0) # max_steps changes a cosine

# ---- graphs: on an image of width SIZE or on tokens, with the given nodes behind a first one
image() { # SIZE CHANNELS NODE PARAM…; attributes in the order of ops.def
	local size=$1 channels=$2 node=$3 param
	shift 3
	printf 'graph 1\nin head_act f32 R[%d,%d,%d]\nparam first [%d,1,1,1] normal:0.5:1\n' "$size" "$size" 1 "$channels"
	for param in "$@"; do echo "param $param"; done
	printf 'node first conv2d %%0 &0\nnode long %s\nout mid_act %%2\n' "$node"
}
row() { # QUERY_WIDTH KEY_WIDTH ATTRIBUTES
	printf 'graph 1\nin head_act f32 T[8] most=65535\n'
	printf 'param q [%d,8] normal:0.5:1\nparam k [%d,8] normal:0.5:2\n' "$1" "$2"
	printf 'node q linear %%0 &0\nnode k linear %%0 &1\nnode long attention %%1 %%2 %%2%s\nout mid_act %%3\n' "$3"
}

task_s() { ask "$SPLITS" "$tmp/host.sock" "$tmp/status"; grep -oE '"task_s": [0-9.]+' "$tmp/status" | cut -d: -f2 | sort -g | tail -n 1; }
task_runs() { awk -v s="$(task_s)" 'BEGIN {exit !(s > 1)}'; }
no_task() { awk -v s="$(task_s)" 'BEGIN {exit !(s < 1)}'; }
is_in() { grep -q ^welcome "$tmp/$name.out"; } # until then a long task may be that of its login
long_or_over() { ! kill -0 "$stranger" 2>/dev/null || { is_in && { task_runs || grep -q ^backward "$tmp/$name.out"; }; }; }
slowest_since() { sed -n 's/.*"t_step_s":\([0-9.e-]*\).*/\1/p' "$tmp/good/log.jsonl" | tail -n +"$(($1 + 1))" | sort -g | tail -n 1; }

starts() { # NAME TOKENS, the graph on stdin: $stranger
	name=$1
	cat >"$tmp/$name.graph"
	"$TOOLS/hostile" "$endpoint" train "$tmp/$name.graph" "$2" >"$tmp/$name.out" 2>"$tmp/$name.err" &
	stranger=$!
	started+=("$stranger")
	wait_for "$name: neither a long task nor a refusal" long_or_over
}

# no_late_step STEP: checks the steps since STEP, beside $name.
no_late_step() {
	local slowest late
	slowest=$(slowest_since "$1") late=$(awk '{n += $1} END {print n / 1000}' "$tmp/clock.late")
	echo "$name: $(($(steps_of good) - before)) steps of the good client, the slowest $slowest s; a process was kept waiting for $late s"
	[ -n "${SAN:-}" ] || awk -v s="$slowest" -v late="$late" 'BEGIN { exit !(s > 0 && s < 2 + late) }' ||
		fail "$name: a step took $slowest s, and a process was kept waiting for $late s"
}

# beside long|refused NAME TOKENS: checks the good client's steps beside it.
beside() {
	local before how=$1
	before=$(steps_of good)
	clock_starts
	starts "$2" "$3"
	if [ "$how" = refused ]; then
		wait "$stranger" || fail "$name: $(cat "$tmp/$name.err")"
		grep -q "^refused: .*limits\." "$tmp/$name.out" || fail "$name is not refused: $(cat "$tmp/$name.out")"
		echo "$name: $(cat "$tmp/$name.out")"
		return
	fi
	grep -q '^welcome' "$tmp/$name.out" || fail "$name is no long task: $(cat "$tmp/$name.out")"
	wait_for "$name: the good client stands still" has_steps good $(($(steps_of good) + 10))
	end_process "$stranger"
	wait_for "$name: the task of a session that ended goes on" no_task
	no_late_step "$before"
}

start_client good "${run[@]}"
good=$client_pid
wait_for 'no steps' has_steps good 5
beside long maxpool-255 0 < <(image 256 1 'maxpool %1 k=255 stride=1 pad=127')
beside refused maxpool-1023 0 < <(image 1024 1 'maxpool %1 k=1023 stride=1 pad=511')
beside refused one-head-65535 65535 < <(row 8 8 '')
beside long one-head 40000 < <(row 8 8 '')
beside long eight-heads 5000 < <(row 64 8 ' heads=8 kv=1')
beside long depthwise-97 0 < <(image 256 2 'conv2d %1 &1 pad=48 groups=2' 'window [97,97,2] normal:0.01:2')
beside long dilated 0 < <(image 192 8 'conv2d %1 &1 pad=120 dilation=10' 'window [8,25,25,8] normal:0.01:2')
beside long transposed 0 < <(image 128 8 'convt2d %1 &1 stride=2 pad=24' 'window [8,49,49,8] normal:0.01:2')

# ---- strangers log in again and again with graphs of the maximal number of nodes: their plans are made in turns
awk 'BEGIN {
	print "graph 1\nin head_act f32 R[8,8,1]\nparam first [1,1,1,1] normal:0.5:1\nnode first conv2d %0 &0"
	for (i = 1; i < 8189; i++) print "node n" i " act %" i
	print "out mid_act %8189"
}' >"$tmp/nodes.graph"
logs_in() { while :; do timeout 2 "$TOOLS/hostile" "$endpoint" train "$tmp/nodes.graph" 0 || true; done >>"$tmp/logins.$1" 2>&1; }
before=$(steps_of good)
clock_starts
for i in 1 2 3 4 5 6 7 8; do
	logs_in $i &
	started+=($!) logins[i]=$!
done
wait_for 'nobody logs in' grep -q ^welcome "$tmp/logins.1" "$tmp/logins.2" "$tmp/logins.3"
wait_for 'logins: the good client stands still' has_steps good $(($(steps_of good) + 10))
end_process "${logins[@]}"
name=logins
no_late_step "$before"
end_process "$good"

# The server ends in time while such a task runs.
starts drained 0 < <(image 256 1 'maxpool %1 k=255 stride=1 pad=127')
signal TERM "$server_pid"
ends_with "$server_pid" 0 $patience 'the server with a long task'

# ---- an answer that is packed by zstd:19
make_data 192 16
start_server host
write_config "$tmp/client.yaml"
good=(--set train.epochs=2 --set data.train_limit=96)
client alone "$tmp/client.yaml" --set server="$endpoint" "${good[@]}" || fail "alone: $(tail -n 1 "$tmp/alone.log")"

longest_step() { grep '^{"type":"step"' "$tmp/$1/log.jsonl" | grep -oE '"t_step_s":[0-9.e-]+' | cut -d: -f2 | sort -g | tail -n 1; }

# 63 MB of activations, for which the client sends only 15 kB
start_client attack "$tmp/client.yaml" --set server="$endpoint" --set model.image=256 --set train.batch=192 \
	--set train.chunks=1 --set codec.head_act=downsample:64 --set codec.mid_act=zstd:19
wait_for "the long task" task_runs
clock_starts
client neighbour "$tmp/client.yaml" --set server="$endpoint" "${good[@]}" || fail "neighbour: $(tail -n 1 "$tmp/neighbour.log")"
late_ms=$(clock_late)
# The task seen before may have been the one that opens the session; the forward pass comes after it.
wait_for "the long task had ended before the good client" task_runs
[ "$(steps_of attack)" = 0 ] || fail "the attack was no long task: $(steps_of attack) steps"
same_run alone neighbour 12
end_client
gone=$SECONDS
wait_for "the task of a session that ended goes on" no_task
echo "good client: longest step $(longest_step alone) s alone, $(longest_step neighbour) s beside the long task, which ended $((SECONDS - gone)) s after its session"
awk -v s="$(longest_step neighbour)" -v late="$late_ms" 'BEGIN {exit !(s <= 2 + late / 1000)}' ||
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
