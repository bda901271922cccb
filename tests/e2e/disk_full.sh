#!/usr/bin/env bash
# A call that writes a checkpoint fails, with no space or an I/O error, on each side, from the second checkpoint on;
# SPLIT_LONG=1: each of them, as in the simulator.
# The run continues, no partial file is left, and `status` reports it on both sides. A client that is then killed
# resumes from the first checkpoint, which both sides still have, and ends as the undisturbed run. With
# on_checkpoint_error: exit it ends with status 74.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/failpoints.sh
first_weights
count=$tmp/count
undisturbed 2
unset count

no_tmp() { [ -z "$(find "$run" "$store" -name '*.tmp')" ] || fail "$what: $(find "$run" "$store" -name '*.tmp') is left"; }

n=0
for side in c s; do
	for call in sync rename ${SPLIT_LONG:+open write close dirsync}; do
		errno=$([ $((n % 2)) = 0 ] && echo ENOSPC || echo EIO)
		n=$((n + 1)) what="$errno at ckpt.$call, side $side"
		# The run writes four checkpoints; the fault begins within the second one.
		per=$(awk -v call="ckpt.$call" '$1 == call {print int($2 / 4)}' "$tmp/count.$side")
		broken="ckpt.$call=$errno@$((per + 1 + (per > 1)))+"
		client_lives=(client.apply=kill@11) server_lives=()
		if [ $side = c ]; then
			client_lives[0]+=",$broken"
		else
			server_lives=("$broken")
		fi
		settings "${codecs[2]}"
		sets+=(--set log.level=info)
		play 1
		[ $killed = 1 ] || fail "$what: the client was not killed"
		grep -q "^WARN checkpoint-missed: step 6: .*; the last good one is 3" "$tmp/client.log" || fail "$what: not said"
		# If only the folder's fsync fails, the file is complete unless the power fails, so a later checkpoint
		# may be used.
		from=3
		[ $side-$call != c-dirsync ] || from="[369]"
		grep -q "session-open: .*, from step $from$" "$tmp/client.log" || fail "$what: the run did not go on from step $from"
		no_tmp
		same_run undisturbed-2 run $steps
	done
done

# holds COMMAND SOCKET JQ-CONDITION
holds() {
	"$1" status --control "$2" --json >"$tmp/status.json" || return 1
	jq -e ".sessions[0] | $3" "$tmp/status.json" >/dev/null
}
hold='client.codecs=delay:1000@5,client.apply=delay:60000@8' # time for a file, and for a look; on the thread that computes, so the loop answers
missed='.checkpoint_step == 3 and .checkpoint_missed == 6 and (.checkpoint_error | test("^checkpoint-000000000006.*: No space left on device$|^session-.*-000000000006.*: No space left on device$"))'

# begin CLIENT-FAILPOINTS SERVER-FAILPOINTS [key=value]…
begin() {
	local pair
	rm -rf "$run" "$store" "$tmp"/*.log
	settings quant:8
	for pair in "${@:3}"; do sets+=(--set "$pair"); done
	serve "$2"
	go_on "$1"
}
stop() {
	kill -9 "$server_pid" "$client_pid" 2>/dev/null || true
	{ wait "$server_pid" "$client_pid" || true; } 2>/dev/null
}

what="status, client"
begin "ckpt.sync=ENOSPC@2+,$hold" '' link.timeout_ms=30000
wait_for "$what: not said" holds "$SPLITC" "$tmp/client.sock" "$missed"
in_table() { "$SPLITC" status --control "$tmp/client.sock" | grep -q "checkpoint: failed at step 6: .*No space left on device; last good 3$"; }
wait_for "$what: not in the table" in_table
wait_for "$what: the server's own" holds "$SPLITS" "$tmp/server.sock" '.checkpoint_step == 6 and .checkpoint_missed == 0'
stop
what="status, server"
begin "$hold" 'ckpt.sync=ENOSPC@2+' link.timeout_ms=30000
wait_for "$what: not said" holds "$SPLITS" "$tmp/server.sock" "$missed"
wait_for "$what: not said by the client" holds "$SPLITC" "$tmp/client.sock" \
	'.checkpoint_step == 3 and .checkpoint_missed == 6 and (.checkpoint_error | test("server"))'
stop

# With the policy `exit` the run ends there, and resumes from the last good checkpoint.
for side in c s; do
	what="exit by policy, side $side"
	broken='ckpt.sync=EIO@2+'
	begin "$([ $side = s ] || echo "$broken,")client.apply=delay:1000@8" "$([ $side = c ] || echo "$broken")" train.on_checkpoint_error=exit
	ends_with "$client_pid" 74 $patience "$what"
	grep -q '^splitc: no checkpoint (train.on_checkpoint_error: exit): ' "$tmp/client.log" || fail "$what: no sentence"
	end_process "$server_pid"
	serve ''
	go_on ''
	ends_with "$client_pid" 0 $patience "$what: resumed"
	! grep 'steps-lost' "$tmp/client.log" || fail "$what: the server has forgotten the last good checkpoint"
	sed -i '/ failpoint: /d' "$tmp/client.log"
	stop
	mv "$run" "$tmp/policy-$side"
done
undisturbed 1
for side in c s; do same_run undisturbed-1 policy-$side $steps; done

# A pause whose checkpoint cannot be written says so, and names the checkpoint to resume from.
what="pause with a full disk"
begin 'ckpt.sync=ENOSPC@2+,client.begin=term@5' ''
ends_with "$client_pid" 74 $patience "$what"
grep -q '^splitc: step [0-9]* could not be kept: .*No space left on device; the last good one is 3$' "$tmp/client.log" || fail "$what: no sentence"
go_on ''
ends_with "$client_pid" 0 $patience "$what: resumed"
stop
same_run undisturbed-1 run $steps

# The model cannot be written: the client has not said goodbye to the server, so nothing learned is lost.
for call in write rename ${SPLIT_LONG:+open sync close dirsync}; do
	what="ENOSPC at model.$call"
	begin "model.$call=ENOSPC" ''
	rc=0
	{ wait "$client_pid" || rc=$?; } 2>/dev/null
	[ $rc = 73 ] || [ $rc = 74 ] || fail "$what: status $rc"
	grep -q '^splitc: .*model.safetensors.*: No space left on device$' "$tmp/client.log" || fail "$what: no sentence"
	no_tmp
	sets+=(--set log.level=info)
	go_on ''
	ends_with "$client_pid" 0 $patience "$what: resumed"
	grep -q 'session-open: .*, from step 12$' "$tmp/client.log" || fail "$what: resumed, but not from its end"
	stop
	same_run undisturbed-1 run $steps
done
# Faults of the server's copy of uploaded weights, and short writes, cost nothing. A failed write of the log costs that
# line.
for broken in store.open=EACCES store.rename=ENOSPC ${SPLIT_LONG:+store.write=EIO store.sync=EIO}; do
	what=$broken
	begin '' "$broken"
	ends_with "$client_pid" 0 $patience "$what"
	grep -q '^WARN store-write: ' "$tmp/server.log" || fail "$what: not said"
	no_tmp
	stop
	same_run undisturbed-1 run $steps
done
what="short writes"
begin 'ckpt.write=short@1+,model.write=short@1+,log.write=short@1+' 'ckpt.write=short@1+,store.write=short@1+'
ends_with "$client_pid" 0 $patience "$what"
stop
same_run undisturbed-1 run $steps
what="a full disk under log.jsonl"
begin log.write=ENOSPC@4 ''
ends_with "$client_pid" 0 $patience "$what"
grep -q '^WARN log-write: log.jsonl: No space left on device; lines are lost$' "$tmp/client.log" || fail "$what: not said"
jq -es 'map(select(.type == "step")) | length == 11' "$run/log.jsonl" >/dev/null || fail "$what: one line should be missing, and all others whole"
cmp "$run/model.safetensors" "$tmp/undisturbed-1/model.safetensors" || fail "$what: other weights"
stop
# No room for log.jsonl, or no inode: the run cannot begin, but may if it is tried again, as a service does.
what='no room to begin'
begin log.open=ENOSPC ''
ends_with "$client_pid" 74 $patience "$what"
grep -q '^splitc: .*log.jsonl: No space left on device$' "$tmp/client.log" || fail "$what: no sentence"
stop
# A limit on file sizes makes the write fail; it must not end the process by a signal.
rc=0
(ulimit -f 8 && client limited "$tmp/client.yaml" --local) || rc=$?
[ $rc = 74 ] && grep -q 'model.safetensors.*: File too large' "$tmp/limited.log" || fail "a limit of file sizes: status $rc"
grep -q '^test accuracy ' "$tmp/limited.log" || fail 'no figures of a run whose weights could not be written'
# A failed write of an event costs that event only, not the run; so does an event file that cannot be opened.
for broken in events.write=ENOSPC@8 events.write=EIO@5+ events.open=ENOSPC@1+ events.sync=EIO@1+; do
	what=$broken
	begin "$broken" ''
	ends_with "$client_pid" 0 $patience "$what"
	stop
	same_run undisturbed-1 run $steps
	[ $broken = events.sync=EIO@1+ ] || grep -q '^WARN log-write: events for TensorBoard: .*; they are lost from here on$' "$tmp/client.log" || fail "$what: not said"
	[ $broken = events.open=ENOSPC@1+ ] && continue
	"$TOOLS/events" "$run"/events.out.tfevents.* >"$tmp/events" || fail "$what: a damaged file"
	! grep -q 'cut off' "$tmp/events" || fail "$what: a torn record is left"
	n=$(grep -c ' train/loss ' "$tmp/events" || true)
	case $broken in
	*@8) [ "$n" = $((steps - 1)) ] ;;
	*@5+) [ "$n" = 2 ] ;;
	*) [ "$n" = $steps ] ;;
	esac || fail "$what: $n of $steps steps"
done

# A file system (a small tmpfs, which only root can mount) is filled while both sides write checkpoints to it. Training
# continues, and `status` reports the fault. After a kill, and with room again, the run resumes from the last good
# checkpoint and ends as the undisturbed one did.
mkdir "$tmp/small"
mount -t tmpfs -o size=16m split-test "$tmp/small" 2>/dev/null || { echo "no tmpfs can be mounted here: no file system was filled"; exit 77; }
# A lazy unmount, because processes that end_all kills next may still have files open there.
trap 'umount -l "$tmp/small"; end_all' EXIT
steps=600 sets=()
make_data 320 16
start_server server store="$tmp/small/store"
write_config "$tmp/client.yaml"
for pair in train.epochs=30 train.eval_every=0 train.checkpoint_every=20 log.tensorboard=true link.on_server_lost=wait codec=quant:8; do
	sets+=(--set "$pair")
done
client undisturbed "$tmp/client.yaml" "${sets[@]}" || fail "the undisturbed run: status $?"
sets+=(--set log.dir="$tmp/small/run")
start_slow_client 60 40 run "$tmp/client.yaml" "${sets[@]}"
kept() { ls "$tmp"/small/run/checkpoint-*.safetensors >/dev/null; }
step_is() { [ "$("$SPLITC" status --control "$tmp/run.sock" --json | jq '.sessions[0].step')" -ge "$1" ]; }
missing() { "$1" status --control "$2" | grep -q 'checkpoint: failed at step .*: No space left on device; last good [0-9]*[1-9]'; }

wait_for "no checkpoint" kept
dd if=/dev/zero of="$tmp/small/filler" bs=64k status=none 2>/dev/null || true
wait_for "the server does not say that its disk is full" missing "$SPLITS" "$tmp/server.sock"
said() {
	ask "$SPLITC" "$tmp/run.sock" "$tmp/status.json"
	jq -e '.sessions[0] | .checkpoint_missed > .checkpoint_step' "$tmp/status.json" >/dev/null
}
wait_for "the client does not say so" said
wait_for "the run does not go on" step_is $(($(jq '.sessions[0].step' "$tmp/status.json") + 30))
end_client
mv "$tmp/run.log" "$tmp/first.log"
grep -q 'log-write: log.jsonl: .*; lines are lost' "$tmp/first.log" || fail "nothing was said of the log"
grep -q 'log-write: events for TensorBoard: .*; they are lost' "$tmp/first.log" || fail "nothing was said of the events"
rm "$tmp/small/filler"
no_tmp() { [ -z "$(find "$tmp/small" -name '*.tmp')" ]; } # the server may be writing its last words
wait_for "a .tmp is left" no_tmp
start_client run "$tmp/client.yaml" "${sets[@]}" --resume
ends_with "$client_pid" 0 $patience "the resumed run"
grep -q 'session-open: .*, from step [1-9]' "$tmp/run.log" || fail "the old checkpoint was not loaded"
same_run undisturbed small/run $steps
"$TOOLS/events" "$tmp"/small/run/events.out.tfevents.* >"$tmp/events" || fail "damaged events"
! grep -q 'cut off' "$tmp/events" || fail "a torn event is left"
[ "$(awk '$3 == "train/loss" && $1 == 2' "$tmp/events" | tail -n 1 | cut -d' ' -f2)" = $steps ] || fail "events end before the run"
