#!/usr/bin/env bash
# Without keys, beside a client that trains: a thief that knows everything on public pages, and the session's id, asks
# for that session, as another user if this is root (tools/thief.c). It gets nothing, learns no epoch, and breaks
# sessions of its own meanwhile. No step takes longer than 2 s, the server's memory stays bounded, and the client learns
# what it learns alone. The client's secret stays its own; a server whose state is not what the client left is detected.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
command -v curl >/dev/null || { echo 'no curl'; exit 77; }
make_data 480 16
slowest_ms=2000 # and as long as the machine kept a process waiting meanwhile
growth_kib=65536 # SECURITY.md: what the limit below holds, however slow the machine
start_server host limits.sessions=16 "limits.memory_bytes=64 MiB" metrics=127.0.0.1:0
write_config "$tmp/client.yaml"
run=("$tmp/client.yaml" --set train.eval_every=0 --set train.optimizer.lr=0.002 --set train.checkpoint_every=50
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)

start_client good "${run[@]}" --set train.epochs=100000
wait_for 'no steps' has_steps good 20
[ "$(stat -c %a "$tmp/good/session-key")" = 600 ] || fail "session-key: mode $(stat -c %a "$tmp/good/session-key")"

# what anybody may see
url=$(sed -n 's/^INFO metrics: on \(http:[^ ]*\)$/\1/p' "$tmp/host.log")
[ -n "$url" ] || fail 'no page'
curl -sf "$url" >"$tmp/page" || fail 'the page cannot be read'
shown=$(sed -n 's/^split_session_step{.*session="\([0-9a-f]*\)".*/\1/p' "$tmp/page")
[ ${#shown} = 32 ] || fail "the page shows '$shown' as the session's name"
id=$("$TOOLS/session_id" "$tmp/good/session-key")
ask "$SPLITS" "$tmp/host.sock" "$tmp/status.json"
for page in page status.json host.log good.log; do
	if grep -qi -e "$id" -e "${id:0:32}" -e "$(head -c 64 "$tmp/good/session-key")" "$tmp/$page"; then fail "$page shows the session's id or secret"; fi
done

as=()
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	cp "$TOOLS/thief" "$tmp/thief"; chmod 755 "$tmp" "$tmp/thief"
	TOOLS=$tmp
	if "${as[@]}" cat "$tmp/good/session-key" >/dev/null 2>&1; then fail 'another user can read the secret'; fi
fi
rss() { awk '/^VmRSS/ {print $2}' "/proc/$server_pid/status"; }
before=$(rss) most=0 from=$(steps_of good)
clock_starts
"${as[@]}" "$TOOLS/thief" "$endpoint" "$id" "$shown" >"$tmp/thief.out" 2>"$tmp/thief.log" &
thief=$!
started+=("$thief")
for _ in $(seq 40); do
	sleep 0.1
	now=$(rss)
	[ "$now" -le $most ] || most=$now
done
wait_for 'the good client stands still' has_steps good $((from + 20))
signal TERM "$thief"
wait "$thief" || fail "the thief: status $?"
[ "$(head -n 1 "$tmp/thief.out")" = 'WELCOMED 0 TOLD 0' ] || fail "the thief: $(cat "$tmp/thief.out")"
to=$(steps_of good)
longest=$(sed -n 's/^{"type":"step".*"t_step_s":\([0-9.e-]*\).*/\1/p' "$tmp/good/log.jsonl" | sed -n "$((from + 1)),${to}p" | sort -g | tail -n 1)
late_ms=$(clock_late)
[ -n "${SAN:-}" ] || awk -v s="$longest" -v most=$((slowest_ms + late_ms)) 'BEGIN {exit !(s * 1000 <= most)}' ||
	fail "a step took $longest s; a process was kept waiting for $late_ms ms"
[ -n "${SAN:-}" ] || [ $((most - before)) -le $growth_kib ] || fail "the server grew by $((most - before)) KiB"
signal INT "$client_pid"
ends_with "$client_pid" 75 $patience 'the good client'
steps=$(steps_of good)
client alone "${run[@]}" --local --set train.epochs=100000 --set train.max_steps="$steps" || fail "alone: exit status $?"
for name in good alone; do learned $name | grep -A 3 '"type":"step"' >"$tmp/$name.steps"; done
cmp "$tmp/good.steps" "$tmp/alone.steps" || fail 'the good client learned something else'
cmp <(weights_of "$tmp/good/model.safetensors") <(weights_of "$tmp/alone/model.safetensors") || fail 'the good client ended with other weights'

# Two processes with the same run, one of them a copy: each resumes at step 4 and goes to 6. The server's state of step
# 6 is then not what the copy left there, and the copy says so.
run=("$tmp/client.yaml")
# killed STEPS NAME [argument]…: a client that does STEPS steps, pauses, and dies when it has its only checkpoint, of
# the last step.
killed() {
	local status=0
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=client.kept=kill,client.apply=delay:600000@$(($1 + 1)) \
		client "$2" "${run[@]}" --set train.checkpoint_every="$1" "${@:3}" || status=$?
	[ $status = 137 ] || fail "$2: status $status"
}
killed 4 one
cp -r "$tmp/one" "$tmp/two"
killed 2 two --resume
killed 2 one --resume
run+=(--set train.checkpoint_every=2)
status=0
client two "${run[@]}" --resume || status=$?
[ $status = 78 ] || fail "what another process has gone on with: status $status"
grep -q "the server's state of step 6 is not the one that this run left there" "$tmp/two.log" || fail 'it does not say why'
# The copy's head is not exported or audited together with the other run's middle either.
for command in "export $tmp/client.yaml $tmp/two.safetensors" "audit $tmp/client.yaml --steps 2"; do
	status=0
	"$SPLITC" $command --set train.eval_every=0 --set log.dir="$tmp/two" --set control="$tmp/two.sock" >"$tmp/two.log" 2>&1 || status=$?
	[ $status = 78 ] || fail "${command%% *} of what another process has gone on with: status $status"
	grep -q "the server's state of step 6 is not the one that this run left there" "$tmp/two.log" || fail "${command%% *} does not say why"
done
[ ! -e "$tmp/two.safetensors" ] || fail 'a model of two runs was written'
client one "${run[@]}" --resume || fail "the one that went on last: status $?"
client undisturbed "${run[@]}" --local || fail "undisturbed: status $?"
same_run one undisturbed 30
printf '%s\n' "longest of $((to - from)) steps $longest s; the server grew by $((most - before)) KiB; $(tail -n 1 "$tmp/thief.out")"
