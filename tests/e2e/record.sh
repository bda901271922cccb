#!/usr/bin/env bash
# log.dir has a record of its run: config.yaml, from which `splitc train` repeats it byte for byte. It has the command
# line, the host, the versions and the data's fingerprint, and no secret. What differs is never written over.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 24
start_server host
write_config "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
sets=(--set train.chunks=2 --set codec=topk:0.1,ef=true --set train.clip_norm=0.123456789012345 --set train.label_smoothing=0.0333333333333333)
equal() { cmp "$tmp/$1/model.safetensors" "$tmp/$2/model.safetensors" || fail "$2 is not the run $1 again"; }
has() { grep -qE -- "$2" "$tmp/$1" || fail "$1 lacks $2: $(head -n 8 "$tmp/$1")"; }

# ---- the record, and the run that it repeats: in this process, with a server, and in its own folder
odd="$tmp/o'dd
# name.yaml"
cp "$tmp/client.yaml" "$odd"
client local "$odd" "${sets[@]}" --local || fail "local: status $?"
[ "$(stat -c %a "$tmp/local/config.yaml")" = 600 ] || fail "others may read the record"
has local/config.yaml "^# command: .*splitc train '.*/o'\\\\''dd[?]# name.yaml' --set log.dir=.* --set codec=topk:0.1,ef=true .*--local$"
has local/config.yaml "^# in: $PWD$"
has local/config.yaml "^# on: $(uname -n), $(uname -s) $(uname -r), $(uname -m)$"
has local/config.yaml "^# with: $("$SPLITC" --version | sed 's/[()+.]/[&]/g')$"
client again "$tmp/local/config.yaml" --local || fail "the record, local: status $?"
equal local again
client link "$tmp/client.yaml" "${sets[@]}" || fail "with a server: status $?"
equal local link
client linked "$tmp/link/config.yaml" || fail "the record, with a server: status $?"
equal local linked
cp "$tmp/link/config.yaml" "$tmp/before"
rc=0
"$SPLITC" train "$tmp/link/config.yaml" >"$tmp/taken.log" 2>&1 || rc=$?
[ $rc = 73 ] && grep -q -- '--fresh removes it' "$tmp/taken.log" || fail "over its own run: status $rc"
cmp "$tmp/before" "$tmp/link/config.yaml" || fail "a run that was refused has changed the record"
"$SPLITC" train "$tmp/link/config.yaml" --fresh >"$tmp/fresh.log" 2>&1 || fail "its own record, --fresh: status $?"
equal local link
cmp <(grep -v '^# ' "$tmp/before") <(grep -v '^# ' "$tmp/link/config.yaml") || fail "a run's own record has other settings after --fresh"
cmp "$tmp/before" "$tmp/link/config.yaml.1" || fail "--fresh has written over a record"
has link/config.yaml "^# command: .*splitc train $tmp/link/config.yaml --fresh$"

# ---- tables and texts say what their data are
mkdir "$tmp/table"
for part in train test; do
	awk -v n=$((${#part} * 16)) 'BEGIN {print "a,b,kind"; for (i = 0; i < n; i++) printf "%d,%d,%s\n", i % 7, i % 5, (i % 7 > 3 ? "x" : "y")}' >"$tmp/table/$part.csv"
done
printf 'server: %s\nmodel: {name: mlp, features: 2, classes: 2}\ndata: {kind: csv, dir: %s, label: kind}\ntrain: {chunks: 1}\nthreads: 1\n' "$endpoint" "$tmp/table" >"$tmp/table.yaml"
client table "$tmp/table.yaml" --local || fail "table: status $?"
mark=$(jq -r .train.fingerprint "$tmp/table/about.json")
has table/config.yaml "^# data: train 80 samples, fingerprint $mark; test 64 samples, fingerprint [0-9a-f]{16}$"

# ---- --resume: what differs gets the name, the earlier record another one, and a line says so
sets+=(--set train.checkpoint_every=2 --set train.schedule.kind=constant --set train.schedule.warmup_epochs=0)
client_dies client.apply@5 half "$tmp/client.yaml" "${sets[@]}"
cp "$tmp/half/config.yaml" "$tmp/before"
client half "$tmp/client.yaml" "${sets[@]}" --auto-resume || fail "--auto-resume: status $?"
cmp "$tmp/half/config.yaml.1" "$tmp/before" || fail "the record of the run's begin is gone"
has half.log "^INFO record: .*/half/config.yaml says otherwise than this run, and is config.yaml.1 now$"
has half/config.yaml '^# command: .* --auto-resume$'
client half "$tmp/client.yaml" "${sets[@]}" --resume --set train.epochs=2 || fail "--resume, longer: status $?"
has half/config.yaml '^  epochs: 2$'
has half/config.yaml.2 '^  epochs: 1$'
cp "$tmp/half/config.yaml" "$tmp/before"
! client half "$tmp/client.yaml" "${sets[@]}" --resume --set train.epochs=2 --set model.width=0.5 || fail "another network goes on"
cmp "$tmp/half/config.yaml" "$tmp/before" || fail "a run that was refused has changed the record"
client long "$tmp/half/config.yaml" || fail "the longer run's record: status $?"
equal half long
client_dies client.apply@5 twice "$tmp/client.yaml" "${sets[@]}" --auto-resume
client_dies client.apply@1 twice "$tmp/client.yaml" "${sets[@]}" --auto-resume
[ ! -e "$tmp/twice/config.yaml.1" ] || fail "a service that is started again has two records that are equal"

# ---- a config.yaml that is somebody's own stays
mkdir "$tmp/own"
cp "$tmp/client.yaml" "$tmp/own/config.yaml"
client own "$tmp/own/config.yaml" "${sets[@]}" --local || fail "own: status $?"
cmp "$tmp/client.yaml" "$tmp/own/config.yaml" || fail "a run has written over the user's config"
has own.log "^WARN record-missed: log.dir has no record of this run: .*/own/config.yaml is no record of a run, and stays$"

# ---- a member of a group names its group's config, phases have one record, and keys stay paths
"$SPLITC" train "$tmp/client.yaml" "${sets[@]}" --local --clients 2 --set log.dir="$tmp/group" >"$tmp/group.log" 2>&1 || fail "group: status $?"
has group/member-1/config.yaml '^# command: .* --local --clients 2 '
"$SPLITC" train "$tmp/group/member-1/config.yaml" --local --set log.dir="$tmp/group-again" >"$tmp/group-again.log" 2>&1 || fail "group again: status $?"
equal group/member-0 group-again/member-0
equal group/member-1 group-again/member-1
"$SPLITC" keygen --out "$tmp/c.key" >"$tmp/c.pub" 2>/dev/null
"$SPLITS" keygen --out "$tmp/s.key" >"$tmp/s.pub" 2>/dev/null
echo "$(cat "$tmp/c.pub") a" >"$tmp/clients"
start_server locked store="$tmp/elsewhere" auth.secret_key="$tmp/s.key" auth.clients="$tmp/clients"
client keyed "$tmp/client.yaml" --set server="$endpoint" --set auth.secret_key="$tmp/c.key" --set auth.server_key="$tmp/s.pub" || fail "keyed: status $?"
has keyed/config.yaml "^  secret_key: \"?$tmp/c.key\"?$"
! grep -qF "$(grep -v '^#' "$tmp/c.key" | tail -n 1)" "$tmp/keyed/config.yaml" || fail "the record has the secret key"
echo passed
