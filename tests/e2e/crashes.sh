#!/usr/bin/env bash
# Client, server or both are killed with SIGKILL at random moments and restarted, SPLIT_KILLS times: 6, or 1000 with
# SPLIT_LONG=1 (SPLIT_KILL_SEED: the random seed). The losses of all steps and the final weights equal those of an
# undisturbed run. The codecs keep state between steps, and the optimizer counts steps.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
kills=6
[ -z "${SPLIT_LONG:-}" ] || kills=1000
kills=${SPLIT_KILLS:-$kills} patience=$((patience + kills * 2))
epochs=$((kills * 2)) steps=$((kills * 40)) # enough that the run outlasts its kills
RANDOM=${SPLIT_KILL_SEED:-31} # its first six kills hit the client twice, the server twice, and both twice
make_data 640 64
port=$(free_port)
serve() { start_server server "listen=tcp://127.0.0.1:$port"; }
serve
write_config "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
sets=()
for pair in "train.epochs=$epochs" train.checkpoint_every=7 train.batch=32 link.on_server_lost=wait link.retry_ms=20 \
	link.heartbeat_ms=100 link.timeout_ms=2000 link.connect_timeout_ms=2000 'codec.head_act=topk:0.1,ef=true' \
	codec.mid_act=quant:8 codec.mid_grad=quant:6 'codec.head_grad=lowrank:3,warm=true'; do
	sets+=(--set "$pair")
done
client undisturbed "$tmp/client.yaml" "${sets[@]}" || fail "the undisturbed run: status $?"

# A run without a checkpoint begins anew. Each life holds after its share of the steps, so that no life ends before its
# kill.
go_on() {
	local resume=()
	! ls "$tmp"/killed/checkpoint-*.safetensors >/dev/null 2>&1 || resume=(--resume)
	start_failing_client client.apply=hold@$((steps / (kills + 2))) killed "$tmp/client.yaml" "${sets[@]}" ${resume[@]+"${resume[@]}"}
}
go_on
n=0 victims="" most=0 # steps that the run had ever come to when something was killed
moved_on() { has_steps killed $((most + 1)) || has_passed killed client.apply; }
while [ $n -lt "$kills" ]; do
	# One kill in three comes at a random moment, which may be in a handshake. The others wait until the run is
	# further than before: otherwise a busy machine would kill it again and again before its first step.
	if [ $((RANDOM % 3)) = 0 ]; then
		sleep "0.$((RANDOM % 25 + 10))"
	else
		wait_for 'no further step' moved_on
		sleep "0.0$((RANDOM % 90 + 10))"
	fi
	victim=$((RANDOM % 3))
	[ $victim = 1 ] || end_client
	at=$(steps_of killed)
	[ "${at:-0}" -le $most ] || most=$at
	[ $victim = 0 ] || { end_process "$server_pid"; serve; }
	[ $victim = 1 ] || go_on
	n=$((n + 1)) victims="$victims $([ $victim = 0 ] && echo client || { [ $victim = 1 ] && echo server || echo both; })"
	[ $((n % 50)) != 0 ] || echo "$n of $kills kills, $most of $steps steps"
done
wait_for 'the last life does not come to its share of the steps' has_passed killed client.apply
let_go killed
ends_with "$client_pid" 0 $patience "the disturbed run"
echo "victims:$victims"
same_run undisturbed killed $steps
[ $most -ge $((n / 3)) ] || fail "of $n kills the last came at step $most: hardly anything was learned between them"
echo "killed $n times in $most of $steps steps"
