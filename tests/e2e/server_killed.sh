#!/usr/bin/env bash
# Each side's behaviour when the other dies, leaves, or is told to stop; and two clients at once do not affect each
# other.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 480 24
# At the rate of the short runs, random labels lead to NaN after about 1,500 steps, or soon after a resume.
calm=(--set train.optimizer.lr=0.002)
endless=(--set train.epochs=100000 --set train.eval_every=0 "${calm[@]}")
fast_link=(--set link.heartbeat_ms=200 --set link.timeout_ms=2000 --set link.connect_timeout_ms=5000)

says() { # NAME WORDS
	grep -qF -- "$2" "$tmp/$1.log" || fail "$1 did not say '$2'"
}

# SIGKILL to the server in a run: the client ends with 69 and a sentence, within the link's timeout.
most=8000
[ -z "${SAN:-}" ] || most=38000
port=$(free_port)
start_server killed listen="tcp://127.0.0.1:$port"
write_config "$tmp/client.yaml"
start_client orphan "$tmp/client.yaml" "${endless[@]}" "${fast_link[@]}"
wait_for 'no steps' has_steps orphan 3
clock_starts
end_process "$server_pid"
ends_with "$client_pid" 69 $patience 'client of a killed server'
clock_within "$most" 'client of a killed server'
says orphan 'splitc: nothing heard from the server for'
[ ! -e "$tmp/orphan.sock" ] || fail 'the control socket was left behind'
tail -n 1 "$tmp/orphan/log.jsonl" | grep -qE '^\{"type":"(step|epoch)",.*\}$' || fail 'the last line of log.jsonl is not whole'

# A client that is configured to wait continues with the restarted server.
start_server before listen="tcp://127.0.0.1:$port" threads=1
start_client waits "$tmp/client.yaml" "${endless[@]}" "${fast_link[@]}" --set link.on_server_lost=wait
wait_for 'no steps' has_steps waits 3
end_process "$server_pid"
wait_for 'the client does not wait' grep -q 'waiting for it' "$tmp/waits.log"
start_server after listen="tcp://127.0.0.1:$port" threads=1
wait_for 'the client did not come back' grep -q ' session-open: ' "$tmp/after.log"
wait_for 'no steps with the new server' has_steps waits 3
end_client

# A client that waits does not begin anew behind a checkpoint that both sides had: not with a server whose store is
# another one, nor with one whose kernels have other bits. Nothing of either side is overwritten.
comes_back() { # emptied | storeless | level
	local how=$1 why port server_pid endpoint client_pid
	port=$(free_port)
	start_server "$how" listen="tcp://127.0.0.1:$port" store="$tmp/$how store"
	start_client "$how client" "$tmp/client.yaml" "${endless[@]}" "${fast_link[@]}" --set server="tcp://127.0.0.1:$port" \
		--set link.on_server_lost=wait --set train.checkpoint_every=2
	wait_for 'no checkpoint' has_checkpoint "$how client"
	signal STOP "$client_pid"
	end_process "$server_pid"
	why='holds none of them: is its store another one'
	if [ $how = emptied ]; then
		rm -r "$tmp/emptied store"
		start_server "$how" listen="tcp://127.0.0.1:$port" store="$tmp/$how store"
	elif [ $how = storeless ]; then
		why='holds none of them: it has no `store`'
		start_server "$how" listen="tcp://127.0.0.1:$port" store=
	else
		why='cannot use its own files of them: .*: its core is .*, this run.s is .*base'
		SL_CPU_SIMD=base start_server "$how" listen="tcp://127.0.0.1:$port" store="$tmp/$how store"
	fi
	signal CONT "$client_pid"
	ends_with "$client_pid" 78 $patience "the client of a server that is another one ($how)"
	grep -q "^splitc: .*no common step .*$why" "$tmp/$how client.log" || fail "no sentence ($how)"
	has_checkpoint "$how client" || fail "its checkpoints are gone ($how)"
	! grep -q 'from step 0' <(tail -n +3 "$tmp/$how client.log" | grep 'session-open' | tail -n +2) || fail "it began anew ($how)"
	# A loop that starts it again, as a unit or a job does, ends at once.
	for _ in 1 2; do
		rc=0
		timeout -k 5 $patience "$SPLITC" train "$tmp/client.yaml" "${endless[@]}" --auto-resume --set server="tcp://127.0.0.1:$port" --set link.on_server_lost=wait \
			--set train.checkpoint_every=2 --set log.dir="$tmp/$how client" --set control="$tmp/again.sock" >"$tmp/again.log" 2>&1 || rc=$?
		[ $rc = 78 ] && grep -q "^splitc: .*no common step .*$why" "$tmp/again.log" || fail "started again ($how): status $rc, $(cat "$tmp/again.log")"
	done
	end_process "$server_pid"
}
comes_back emptied
comes_back storeless
comes_back level

# By default a client ends with its server. But one that is back before link.timeout_ms is not lost.
soon() {
	local port server_pid endpoint client_pid steps
	port=$(free_port)
	start_server went listen="tcp://127.0.0.1:$port" store="$tmp/went store"
	start_client soon "$tmp/client.yaml" "${endless[@]}" --set server="tcp://127.0.0.1:$port" --set train.checkpoint_every=2
	wait_for 'no checkpoint' has_checkpoint soon
	end_process "$server_pid"
	start_server again listen="tcp://127.0.0.1:$port" store="$tmp/went store"
	wait_for 'the client did not come back' grep -q 'session-open: training .* from step [1-9]' "$tmp/soon.log"
	steps=$(steps_of soon)
	wait_for 'it stands still' has_steps soon $((steps + 3))
	end_process "$server_pid"
	ends_with "$client_pid" 69 $patience 'a client whose server does not come back'
}
soon

# A server that ends at the same step each time is lost: the client does not try it for ever.
falls() {
	local port server_pid endpoint client_pid SPLITS=$PWD/$BUILD/fail/splits
	port=$(free_port)
	for start in 1 2 3; do # in step 4; a checkpoint of step 2 is there
		SPLIT_FAILPOINTS=server.apply=kill@$((start > 1 ? 2 : 4)) start_server "falls $start" listen="tcp://127.0.0.1:$port" store="$tmp/falls store"
		[ $start -gt 1 ] || start_client falls "$tmp/client.yaml" "${endless[@]}" "${fast_link[@]}" --set server="tcp://127.0.0.1:$port" --set train.checkpoint_every=2
		[ $start -gt 2 ] || ends_with "$server_pid" 137 $patience "server $start"
	done
	ends_with "$client_pid" 69 $patience 'a client whose server ends at the same step again'
	[ "$(grep -c 'session-open: training' "$tmp/falls.log")" = 2 ] || fail "it tried again: $(cat "$tmp/falls.log")"
	end_process "$server_pid"
}
falls

# waits_in_vain NAME WORDS [argument]…: a waiting client is told to stop. It has no step to finish, and says what is
# left of the run.
waits_in_vain() {
	start_client "$1" "$tmp/client.yaml" --set server=tcp://127.0.0.1:9 --set link.on_server_lost=wait --set link.connect_timeout_ms=100 "${@:3}"
	wait_for 'the client does not wait' grep -q 'waiting for it' "$tmp/$1.log"
	signal TERM "$client_pid"
	ends_with "$client_pid" 69 $patience 'client that waits, and is told to stop'
	says "$1" "splitc: interrupted by signal 15; $2"
}
waits_in_vain patient 'there is no checkpoint to --resume from'

# A client that is told to stop during a step, and then loses its server, does not wait.
client_stands 3 leaving "$tmp/client.yaml" "${endless[@]}" "${fast_link[@]}" --set link.on_server_lost=wait --set drain_s=3000
signal TERM "$client_pid"
wait_for 'the client does not stop' grep -q ' stopping: ' "$tmp/leaving.log"
signal STOP "$server_pid"
let_go leaving
end_process "$server_pid"
ends_with "$client_pid" 69 $patience 'client that is told to stop, and loses its server'
start_server after listen="tcp://127.0.0.1:$port" threads=1

# SIGTERM to the server: the client is told at once.
start_client told "$tmp/client.yaml" "${endless[@]}"
wait_for 'no steps' has_steps told 3
clock_starts
signal TERM "$server_pid"
ends_with "$client_pid" 69 $patience 'client of a server that shuts down'
ends_with "$server_pid" 0 $patience 'server that shuts down'
clock_within "$most" 'a server that shuts down'
says told 'the server shuts down'
[ ! -e "$tmp/after.sock" ] || fail 'the control socket was left behind'

# SIGINT to the client: it ends after its step with its weights, and the server serves the next client.
start_server long
sed -i "s|^server: .*|server: $endpoint|" "$tmp/client.yaml"
start_client stopped "$tmp/client.yaml" "${endless[@]}"
wait_for 'no steps' has_steps stopped 3
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'client that is told to stop'
grep -q '"outcome":"interrupted"' "$tmp/stopped/log.jsonl" || fail 'the summary does not say interrupted'
says stopped 'interrupted: '
client resumed "$tmp/client.yaml" "${calm[@]}" --set model.weights="$tmp/stopped/model.safetensors" || fail 'the saved weights are no good'
waits_in_vain stopped '--resume goes on from the last checkpoint' "${endless[@]}" --resume

# SIGKILL to a client: the server notices, and continues.
start_client shot "$tmp/client.yaml" "${endless[@]}" "${fast_link[@]}"
wait_for 'no steps' has_steps shot 3
end_client
wait_for 'the server did not notice' grep -q ' session-failed: ' "$tmp/long.log"

# Two clients at once, with different models: each learns what it learns alone.
both=("$tmp/client.yaml" --set train.epochs=2)
client 'solo a' "${both[@]}" || fail "solo a: exit status $?"
client 'solo b' "${both[@]}" --set train.seed=9 --set partition=2:-2 --set codec=quant:8 || fail "solo b: exit status $?"
start_client 'pair a' "${both[@]}"
a=$client_pid
start_client 'pair b' "${both[@]}" --set train.seed=9 --set partition=2:-2 --set codec=quant:8
b=$client_pid
ends_with "$a" 0 $patience 'first of two clients'
ends_with "$b" 0 $patience 'second of two clients'
same_run 'pair a' 'solo a' 60
same_run 'pair b' 'solo b' 60
[ "$(learned 'solo a')" != "$(learned 'solo b')" ] || fail 'the two clients were the same'

# More sessions than the server allows: the new client is refused, and the first continues.
start_server narrow limits.sessions=1 "store=$tmp/narrow"
start_client first "$tmp/client.yaml" "${endless[@]}" --set server="$endpoint"
wait_for 'no steps' has_steps first 1
rc=0
client second "$tmp/client.yaml" --set server="$endpoint" || rc=$?
[ $rc = 75 ] || fail "a refused client: exit status $rc, not 75"
says second 'all sessions of this server are taken'
steps=$(steps_of first)
wait_for 'the first client stands still' has_steps first $((steps + 3))
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'first client'

# A store belongs to one server: a second server is refused and changes nothing, even if the first one hangs.
: >"$tmp/narrow/session-00112233445566778899aabbccddeeff-000000000001.safetensors.tmp"
signal STOP "$server_pid"
rc=0
timeout $patience "$SPLITS" serve "$tmp/empty.yaml" --set listen=tcp://127.0.0.1:0 --set device=cpu --set "store=$tmp/narrow" \
	--set "control=$tmp/intruder.sock" 2>"$tmp/intruder.log" || rc=$?
signal CONT "$server_pid"
[ $rc = 75 ] || fail "a second server on one store: exit status $rc, not 75"
says intruder "another running server uses the store '$tmp/narrow'"
[ -e "$tmp/narrow/session-00112233445566778899aabbccddeeff-000000000001.safetensors.tmp" ] || fail 'the second server removed files of the first'

# A server that sends heartbeats and does nothing else does not hold a client for longer than link.stall_s.
SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=server.apply=delay:6000@3 start_server stalls store="$tmp/stalls"
rc=0
client held "$tmp/client.yaml" --set server="$endpoint" --set link.stall_s=2 --set link.heartbeat_ms=100 || rc=$?
[ $rc = 69 ] || fail "a server that stalls: exit status $rc, not 69"
grep -q '^splitc: .* has sent nothing but heartbeats for 2 s (link.stall_s): .* set a longer link.stall_s' "$tmp/held.log" || fail 'no sentence'
[ "$(steps_of held)" = 2 ] || fail "$(steps_of held) steps"
# A server that is only slow is waited for.
client slow "$tmp/client.yaml" --set server="$endpoint" --set link.stall_s=60 || fail "a slow server: status $?"
echo passed
