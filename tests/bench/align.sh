#!/usr/bin/env bash
# usage: tests/bench/align.sh [IDS…], after `make`
# Measures splitc align of two tables with so many rows each (100000), half of them common: both parties and the server
# on this host. Prints seconds, CPU seconds of both parties, and the host's load before.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
for name in server A B; do "$SPLITC" keygen --out "$tmp/$name.key" >"$tmp/$name.pub" 2>"$tmp/keygen.log"; done
for name in A B; do echo "$(cat "$tmp/$name.pub") $name group=g"; done >"$tmp/clients"
start_server host store= "auth.secret_key=$tmp/server.key" "auth.clients=$tmp/clients"
echo "$(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg)"
for ids in "${@:-100000}"; do
	for party in A B; do
		from=0 role=features member=0
		[ $party = A ] || from=$((ids / 2)) role=labels member=1
		mkdir -p "$tmp/$party-$ids"
		{ echo patient,kind,size && seq $from $((from + ids - 1)) | awk '{print "patient-" $1 "," ($1 % 3 ? "x" : "y") "," $1 % 7}'; } >"$tmp/$party-$ids/train.csv"
		cat >"$tmp/$party.yaml" <<-YAML
			server: $endpoint
			model: {name: mlp, features: 1, classes: 2}
			data: {kind: csv, dir: $tmp/$party-$ids, label: kind, id: patient, aligned: $tmp/$party.rows, split: {train: 0.8, val: 0.2}}
			train: {batch: 8, optimizer: {lr: 0.1}}
			share: {mode: vertical, group: g, clients: 2, member: $member, role: $role, peers: [$tmp/A.pub, $tmp/B.pub]}
			auth: {secret_key: $tmp/$party.key, server_key: $tmp/server.pub}
		YAML
	done
	{ time "$SPLITC" align "$tmp/A.yaml" >"$tmp/A.log" 2>&1; } 2>"$tmp/A.time" &
	other=$!
	{ time "$SPLITC" align "$tmp/B.yaml" >"$tmp/B.log" 2>&1; } 2>"$tmp/B.time" || fail 'B'
	wait $other || fail 'A'
	grep -q "^$((ids - ids / 2)) of $ids rows" "$tmp/A.log" || fail "$ids: $(cat "$tmp/A.log")"
	awk -v ids="$ids" '/real/ {split($2, t, "[ms]"); real = t[1] * 60 + t[2]} /user|sys/ {split($2, t, "[ms]"); cpu += t[1] * 60 + t[2]}
		END {printf "%d rows each: %.1f s, %.1f s of CPU at both\n", ids, real, cpu}' "$tmp/A.time" "$tmp/B.time"
done
