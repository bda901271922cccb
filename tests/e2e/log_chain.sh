#!/usr/bin/env bash
# log.jsonl and sessions.jsonl show tampering: `splitc report --verify` names the first line that does not fit of 52
# logs with a line that was changed, removed, swapped or added, with a cut end, or with files of another run. It accuses
# no honest run: done, killed, resumed, paused, without a link for a while, made longer, begun anew, without room on the
# disk. A line that was changed while no process ran stays visible when the run goes on.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
sed -i 's/epochs: 1/epochs: 2\n  checkpoint_every: 2\n  keep_best: true/' "$tmp/client.yaml"

# verify STATUS NAME [PHRASE]: checks the run NAME.
verify() {
	local rc=0
	"$SPLITC" report "$tmp/$2" --verify >"$tmp/verify" 2>&1 || rc=$?
	[ $rc = "$1" ] || fail "verify $2: exit status $rc, not $1: $(cat "$tmp/verify")"
	[ $# -lt 3 ] || grep -qE -- "$3" "$tmp/verify" || fail "verify $2: no word on '$3': $(cat "$tmp/verify")"
}

# ---- honest runs
client run "$tmp/client.yaml" || fail "training: exit status $?"
verify 0 run '^log.jsonl, 15 lines: each fits the one before$'
grep -qx 'model.safetensors is the one that the run has written' "$tmp/verify" || fail "the model: $(cat "$tmp/verify")"
! grep -q '^behind line' "$tmp/verify" || fail "a run that is done has lines that nothing covers: $(cat "$tmp/verify")"
[ "$(sed -n 's/^log head \([0-9a-f]*\).*/\1/p' "$tmp/verify")" = "$(sed -n 's/^log head \([0-9a-f]*\) .*/\1/p' "$tmp/run.log")" ] || fail 'the summary prints another head'
client other "$tmp/client.yaml" --set train.seed=4 || fail "another run: exit status $?"
verify 0 other
client local "$tmp/client.yaml" --local || fail "--local: exit status $?"
verify 0 local
client run "$tmp/client.yaml" --fresh || fail "--fresh: exit status $?"
verify 0 run
client run "$tmp/client.yaml" --resume --set train.epochs=3 || fail "longer: exit status $?"
verify 0 run '^log.jsonl, 22 lines'
jq -se 'map(.type) == ["start","link","end","start","back","link","end"]' "$tmp/run/sessions.jsonl" >/dev/null || fail "sessions: $(cat "$tmp/run/sessions.jsonl")"

# phases, and members of a group in one process
sed 's/epochs: 2/phases: [{epochs: 1}, {epochs: 1, lr: 0.5}]/; s/schedule: .*/schedule: {kind: constant}/; /keep_best/d' "$tmp/client.yaml" >"$tmp/phases.yaml"
for how in '' --local; do
	client "phases$how" "$tmp/phases.yaml" $how || fail "phases $how: exit status $?"
	verify 0 "phases$how" '^model.safetensors is the one that the run has written$'
done
client group "$tmp/client.yaml" --local --clients 2 || fail "a group in one process: exit status $?"
for k in 0 1; do verify 0 group/member-$k '^model.safetensors is the one that the run has written$'; done

cp -r "$tmp/run" "$tmp/no-end"
sed -i '$d' "$tmp/no-end/sessions.jsonl"
verify 0 no-end '^log.jsonl ends with a summary, and sessions.jsonl lacks the line that follows it'

client_dies client.apply@8 killed "$tmp/client.yaml"
verify 0 killed '^the last process has not written its end'
cp -r "$tmp/killed" "$tmp/resettled"
echo '# command: another' >>"$tmp/resettled/config.yaml"
verify 65 resettled 'config.yaml is not the file that this run has written'
cp -r "$tmp/killed" "$tmp/half"
printf '{"type":"step","st' >>"$tmp/half/log.jsonl" # a process that was killed while it wrote
verify 0 half
client killed "$tmp/client.yaml" --resume || fail "--resume: exit status $?"
verify 0 killed '^log.jsonl, 15 lines'
jq -se 'map(.type) == ["start","link","start","back","link","end"] and .[3].step < 8' "$tmp/killed/sessions.jsonl" >/dev/null || fail "sessions: $(cat "$tmp/killed/sessions.jsonl")"

client_stands 5 paused "$tmp/client.yaml"
stops paused
verify 0 paused '^model.safetensors is the one that the run has written$'
for file in model.safetensors config.yaml about.json; do # of a run that was interrupted, and of one that is done
	for run in paused run; do
		rm -rf "$tmp/t1"; cp -r "$tmp/$run" "$tmp/t1"
		case $file in
		*.yaml) sed -i 's/batch: .*/batch: 1/' "$tmp/t1/$file" ;;
		*) printf ' ' >>"$tmp/t1/$file" ;;
		esac
		verify 65 t1 "$file is not the file that this run has written"
	done
done
client paused "$tmp/client.yaml" --auto-resume || fail "--auto-resume: exit status $?"
verify 0 paused

for fault in ENOSPC short; do
	start_failing_client log.write=$fault@6 full "$tmp/client.yaml" --fresh
	ends_with "$client_pid" 0 $patience "without room for a line of the log: $fault"
	verify 0 full "^log.jsonl, 1[45] lines"
done

# ---- the server has lost its newest state: the run goes back to an older checkpoint, and is killed before it has removed
# the one that it gave up
client_dies client.apply@8 older "$tmp/client.yaml"
newest=$(ls "$tmp/older"/checkpoint-*.safetensors | tail -n 1)
cp "$newest" "$tmp/given-up"
rm "$(ls "$tmp/store"/session-*"${newest##*checkpoint-}" | head -n 1)"
client_stands 1 older "$tmp/client.yaml" --resume
grep -q '^WARN steps-lost' "$tmp/older.log" || fail "the run did not go back to an older checkpoint: $(cat "$tmp/older.log")"
end_client
cp "$tmp/given-up" "$newest"
verify 0 older

# ---- the server is killed: the client goes back, waits, and goes on
killed_server server.apply=kill@8 other "$tmp/client.yaml" --set train.seed=4
lost='other server.apply@8'
verify 0 "$lost"
jq -se 'map(.type) | index("lost") != null' "$tmp/$lost/sessions.jsonl" >/dev/null || fail "sessions: $(cat "$tmp/$lost/sessions.jsonl")"

# ---- what was done to the end of sessions.jsonl while no process ran stays visible when the run goes on
for how in '$d' '$s/127.0.0.1/10.0.0.1/' '1,$d' gone; do
	client_dies client.apply@8 washed "$tmp/client.yaml" --fresh
	[ "$how" = gone ] && rm "$tmp/washed/sessions.jsonl" || sed -i "$how" "$tmp/washed/sessions.jsonl"
	client washed "$tmp/client.yaml" --resume || fail "--resume behind '$how': exit status $?"
	grep -q '^WARN log-unfit: sessions.jsonl is not the one beside which the checkpoint was written' "$tmp/washed.log" || fail "'$how': no warning"
	verify 65 washed 'sessions.jsonl: line [0-9]* says of the lines before it, when the run went on: sessions.jsonl is not the one'
done
# ---- the same of log.jsonl: nothing covers a line that is no longer there. And files that the run has written and counts
# on: the bytes of a killed process, and the best weights.
for how in '1d' '4,$d' '6s/"loss":/"loss":1/' gone; do
	client_dies client.apply@8 washed "$tmp/client.yaml" --fresh
	[ "$how" = gone ] && rm "$tmp/washed/log.jsonl" || sed -i "$how" "$tmp/washed/log.jsonl"
	client washed "$tmp/client.yaml" --resume || fail "--resume behind '$how' of log.jsonl: exit status $?"
	grep -q '^WARN log-unfit: log.jsonl ' "$tmp/washed.log" || fail "'$how' of log.jsonl: no warning: $(cat "$tmp/washed.log")"
	verify 65 washed 'log.jsonl: line [0-9]* '
done
for how in none 'traffic-lost traffic' 'traffic-lost -s 9 traffic' 'best-lost best.safetensors' 'best-lost -s 5000 best.safetensors'; do
	client_dies client.apply@11 washed "$tmp/client.yaml" --fresh
	case $how in
	none) ;;
	*-s*) (cd "$tmp/washed" && truncate ${how#* }) ;;
	*) rm "$tmp/washed/${how#* }" ;;
	esac
	client washed "$tmp/client.yaml" --resume || fail "--resume without $how: exit status $?"
	if [ "$how" = none ]; then
		! grep -qE '^WARN (traffic|best)-lost' "$tmp/washed.log" || fail "all is there: $(cat "$tmp/washed.log")"
	else
		grep -q "^WARN ${how%% *}: " "$tmp/washed.log" || fail "$how: no warning: $(cat "$tmp/washed.log")"
	fi
done

# ---- a run that is done, and a file of it is not there, or another one: nothing begins anew, and it is said
for file in model.safetensors best.safetensors config.yaml about.json; do
	rm -rf "$tmp/gone"; cp -r "$tmp/run" "$tmp/gone"; rm "$tmp/gone/$file"
	verify 0 gone "^$file is not there: sessions.jsonl has the hash of one"
	[ $file != best.safetensors ] || "$SPLITC" report "$tmp/gone" | grep -q "^- \*\*The best model\*\*: log.dir has no $file" || fail "the report of a run without $file"
	client gone "$tmp/client.yaml" --auto-resume --set train.epochs=3 || fail "--auto-resume without $file: exit status $?"
	grep -q "^WARN done-unfit: .*/$file is not there: the run is done" "$tmp/gone.log" || fail "--auto-resume without $file: $(cat "$tmp/gone.log")"
	[ -e "$tmp/gone/log.jsonl" ] && cmp -s "$tmp/run/log.jsonl" "$tmp/gone/log.jsonl" && [ ! -e "$tmp/gone/$file" ] || fail "a run that is done began anew without $file"
	printf x >>"$tmp/gone/$file"
	rc=0
	"$SPLITC" report "$tmp/gone" --out "$tmp/unfit.md" 2>"$tmp/verify" || rc=$?
	[ $rc = 65 ] && grep -q "THEY DO NOT FIT: .*/$file is not the file" "$tmp/unfit.md" && grep -q "$file is not the file" "$tmp/verify" || fail "the report of a run with another $file: $rc: $(cat "$tmp/verify")"
	client gone "$tmp/client.yaml" --auto-resume --set train.epochs=3 || fail "--auto-resume beside another $file: exit status $?"
	grep -q "^WARN done-unfit: .*/$file is not the file that this run has written" "$tmp/gone.log" || fail "another $file: $(cat "$tmp/gone.log")"
done
client gone "$tmp/client.yaml" --auto-resume --set log.dir="$tmp/run" --set train.epochs=3 || fail "--auto-resume of a run that is done: exit status $?"
! grep -q WARN "$tmp/gone.log" || fail "--auto-resume of a run that is done: $(cat "$tmp/gone.log")"
for run in run local; do
	rm -rf "$tmp/gone"; cp -r "$tmp/$run" "$tmp/gone"; rm "$tmp/gone/model.safetensors"
	rc=0
	client gone "$tmp/client.yaml" --local || rc=$?
	[ $rc = 73 ] && grep -q 'holds a run that is done.*, whose model.safetensors is not there: ' "$tmp/gone.log" || fail "over $run without its model: $rc: $(cat "$tmp/gone.log")"
done
client gone "$tmp/client.yaml" --local --fresh || fail "--fresh over a run without its model: exit status $?"

# ---- tampering
mkdir "$tmp/t"
named=0
for kind in change remove swap add bare; do
	for seed in 1 2 3 4 5 6 7; do
		rm -rf "$tmp/t"; cp -r "$tmp/run" "$tmp/t"
		at=$(python3 tests/e2e/lib/tamper.py "$tmp/t/log.jsonl" $kind $seed)
		verify 65 t 'log.jsonl: '
		line=$(grep -oE 'line [0-9]+' "$tmp/verify" | head -n 1 | tr -dc 0-9)
		[ "$line" -ge "$at" ] && [ "$line" -le $((at + 2)) ] || fail "$kind at line $at: $(cat "$tmp/verify")"
		named=$((named + 1))
	done
done
for seed in 1 2 3; do
	for kind in cut last; do
		rm -rf "$tmp/t"; cp -r "$tmp/run" "$tmp/t"
		python3 tests/e2e/lib/tamper.py "$tmp/t/log.jsonl" $kind $seed >/dev/null
		verify 65 t 'log.jsonl: its end is not the one that sessions.jsonl names'
		named=$((named + 1))
	done
done
for kind in change remove swap; do # the other log
	rm -rf "$tmp/t"; cp -r "$tmp/run" "$tmp/t"
	python3 tests/e2e/lib/tamper.py "$tmp/t/sessions.jsonl" $kind 5 >/dev/null
	verify 65 t 'sessions.jsonl: line'
	named=$((named + 1))
done
for file in model.safetensors best.safetensors log.jsonl finished-000000000018.safetensors sessions.jsonl; do # of another run
	rm -rf "$tmp/t"; cp -r "$tmp/run" "$tmp/t"
	cp "$tmp/other/$file" "$tmp/t/$file" 2>/dev/null || cp "$tmp/other/finished-000000000012.safetensors" "$tmp/t/"
	verify 65 t
	named=$((named + 1))
done
# an unfinished log: its end by the newest checkpoint
client_dies client.apply@8 killed "$tmp/client.yaml" --fresh
cp -r "$tmp/killed" "$tmp/t2"
sed -i '3,$d' "$tmp/t2/log.jsonl"
verify 65 t2 'checkpoint-.* was written beside another log.jsonl: its last lines, of which line 2 is left, were changed or removed'
named=$((named + 1))
rm -rf "$tmp/t2"; cp -r "$tmp/killed" "$tmp/t2"
sed -i '$s/"step":0/"step":1/' "$tmp/t2/sessions.jsonl"
verify 65 t2 'checkpoint-.* was written beside another sessions.jsonl'
rm -rf "$tmp/t"; cp -r "$tmp/run" "$tmp/t" # a line that fits, behind the end
python3 - "$tmp/t/log.jsonl" <<-'PY'
	import hashlib, sys
	last = open(sys.argv[1], "rb").read().split(b"\n")[-2]
	open(sys.argv[1], "a").write('{"type":"audit","found":"as agreed","chain":"%s"}\n' % hashlib.blake2b(last, digest_size=16).hexdigest())
PY
verify 65 t 'log.jsonl: line 23 was added behind the run.s end'
named=$((named + 2))
[ $named = 52 ] || fail "$named of 52 were named"

# A last line that somebody changed while the run stood does not fit what follows.
cp -r "$tmp/killed" "$tmp/t3"
lines=$("$SPLITC" report "$tmp/t3" --verify | sed -n 's/^behind line \([0-9]*\) .*/\1/p')
sed -i "$lines"'s/"loss":[0-9]/"loss":9/' "$tmp/t3/log.jsonl"
verify 65 t3
client t3 "$tmp/client.yaml" --resume || fail "--resume of a log that was changed: exit status $?"
verify 65 t3 "log.jsonl: line $((lines + 1)) does not fit line $lines"

mkdir "$tmp/none"
verify 66 none
echo '{"type":"step","step":1,"loss":1}' >"$tmp/none/log.jsonl"
verify 65 none 'its lines have no hashes'
echo "$named of 52 named"
