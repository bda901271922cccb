#!/usr/bin/env bash
# Sixteen clients at once, each with a middle of its own, come and go: run follows run until the time is over, and some
# runs are interrupted and resumed. Every run ends with the weights and losses that it has alone, byte for byte, and the
# server's memory does not grow: every 15 s all clients pause between two runs, and the memory of the idle server is
# sampled.
#  Two values are sampled: the heap, in which a run leaves nothing behind, and the resident memory, which includes
# fragments. glibc's per-thread caches of freed blocks are off in this server: they fill for an hour and count as used.
#  SPLIT_SOAK_S: seconds (3; with SPLIT_LONG=1: 3600). SPLIT_SOAK_HEAP_KB_MIN: the bound on the slope of the heap, in
# KiB per minute (1), checked from five minutes on. SPLIT_SOAK_KB_MIN: that of resident memory (10), checked from half
# an hour on, because it varies by about 200 KiB with the places of the last blocks, which gives any slope in less time.
# SPLIT_SOAK_CSV: the file for the samples (seconds, KiB resident, bytes of heap).
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
long=3
[ -z "${SPLIT_LONG:-}" ] || long=3600
seconds=${SPLIT_SOAK_S:-$long} bound=${SPLIT_SOAK_KB_MIN:-10} heap_bound=${SPLIT_SOAK_HEAP_KB_MIN:-1} samples=${SPLIT_SOAK_CSV:-$tmp/rss.csv}
clients=16
patience=$((patience + seconds))
make_data 64 16
GLIBC_TUNABLES=glibc.malloc.tcache_count=0 start_server host limits.sessions=24
host_pid=$server_pid
write_config "$tmp/client.yaml"

# arguments N: the clients differ in seed, cut, codec and chunks; four kinds, each with four seeds.
arguments() { # N
	case $(($1 % 4)) in
	0) echo "train.seed=$1" ;;
	1) echo "train.seed=$1 codec=quant:8" ;;
	2) echo "train.seed=$1 partition=2:-2 codec.head_act=topk:0.1,ef=true codec.head_grad=lowrank:3,warm=true" ;;
	3) echo "train.seed=$1 train.chunks=2 codec=f16" ;;
	esac
}
# argv NAME N [argument]…: sets $argv to the command line of a run.
argv() {
	local name=$1 pair
	argv=("$SPLITC" train "$tmp/client.yaml" --set log.dir="$tmp/$name" --set control="$tmp/$name.sock")
	for pair in $(arguments "$2") train.epochs=3; do argv+=(--set "$pair"); done
	argv+=("${@:3}")
}
run() {
	argv "$@"
	timeout -k 5 "$patience" "${argv[@]}" >"$tmp/$1.log" 2>&1
}

for n in $(seq $clients); do run "solo$n" "$n" || fail "client $n alone: status $?"; done
[ "$(learned solo1)" != "$(learned solo5)" ] || fail 'the runs are all the same'

# live N: one client, run after run until the file `over` exists. It writes a word about each run to its file: `FAILED
# …` on a failure.
live() { # N
	local n=$1 round=0 pid rc
	while [ ! -e "$tmp/over" ] || ! grep -qs '^run' "$tmp/c$n.word"; do
		if [ -e "$tmp/rest" ]; then sleep 0.1 && continue; fi
		round=$((round + 1)) rc=0
		rm -rf "${tmp:?}/c$n"
		argv "c$n" "$n"
		"${argv[@]}" >"$tmp/c$n.log" 2>&1 &
		pid=$!
		# Every seventh run is interrupted somewhere, and resumed.
		if [ $(((round + n) % 7)) = 0 ]; then
			sleep "0.$((RANDOM % 9))"
			kill -INT "$pid" 2>/dev/null || true
		fi
		wait "$pid" || rc=$?
		if ls "$tmp/c$n"/checkpoint-*.safetensors >/dev/null 2>&1; then
			rc=0
			run "c$n" "$n" --resume || rc=$?
			echo resumed >>"$tmp/c$n.word"
		fi
		# interrupted before it handled signals, or before its session was open
		case $rc in 69 | 75 | 130) [ -e "$tmp/c$n/model.safetensors" ] || continue ;; esac
		[ $rc = 0 ] || { echo "FAILED round $round: status $rc" >>"$tmp/c$n.word"; return; }
		cmp -s "$tmp/c$n/model.safetensors" "$tmp/solo$n/model.safetensors" && [ "$(learned "c$n")" = "$(learned "solo$n")" ] ||
			{ echo "FAILED round $round: not what it is alone" >>"$tmp/c$n.word"; return; }
		echo run >>"$tmp/c$n.word"
	done
}

rss() { awk '/^VmRSS/ {print $2}' "/proc/$host_pid/status"; }
lives=()
for n in $(seq $clients); do
	live "$n" &
	lives+=($!)
	started+=($!)
done
sessions() { ask "$SPLITS" "$tmp/host.sock" "$tmp/now.json" && jq '.sessions | length' "$tmp/now.json"; }
: >"$samples"
from=$SECONDS most=0 highest=0 next=15
while [ $((SECONDS - from)) -lt "$seconds" ]; do
	sleep 1
	n=$(sessions)
	[ "$n" -le $most ] || most=$n
	r=$(rss)
	[ "$r" -le $highest ] || highest=$r
	! grep -l FAILED "$tmp"/c*.word 2>/dev/null || break
	[ $((SECONDS - from)) -ge $next ] || continue
	touch "$tmp/rest"
	wait_for 'the clients do not pause' eval '[ "$(sessions)" = 0 ]'
	sleep 0.2
	ask "$SPLITS" "$tmp/host.sock" "$tmp/now.json"
	echo "$((SECONDS - from)) $(rss) $(jq .heap_bytes "$tmp/now.json")" >>"$samples"
	rm "$tmp/rest"
	[ $(($(wc -l <"$samples") % 20)) != 0 ] || echo "after $((SECONDS - from)) of $seconds s: $(cat "$tmp"/c*.word | grep -c '^run') runs"
	next=$((SECONDS - from + 15))
done
touch "$tmp/over"
for pid in "${lives[@]}"; do wait "$pid" || fail 'a client script failed'; done
! grep -h FAILED "$tmp"/c*.word || fail 'a run was not what it is alone'
runs=$(cat "$tmp"/c*.word | grep -c '^run') resumed=$(cat "$tmp"/c*.word | grep -c '^resumed' || true)
for n in $(seq $clients); do grep -q '^run' "$tmp/c$n.word" || fail "client $n never finished a run"; done
kill -0 "$host_pid" || fail 'the server is dead'
ask "$SPLITS" "$tmp/host.sock" "$tmp/host.json"
[ "$(jq .rejected+.malformed "$tmp/host.json")" = 0 ] || fail 'frames were rejected'

signal TERM "$host_pid" # with a sanitizer, this is when it says what leaked
ends_with "$host_pid" 0 "$patience" 'the server'

# slope_of COLUMN UNIT: least squares over the samples, without the first fifth.
slope_of() {
	awk -v column="$1" -v unit="$2" -v from=$((seconds / 5)) '$1 >= from {n++; v = $column / unit; x += $1; y += v; xx += $1 * $1; xy += $1 * v}
		END {printf("%.2f", 60 * (n * xy - x * y) / (n * xx - x * x))}' "$samples"
}
slope=- heap_slope=-
[ "$seconds" -lt 120 ] || slope=$(slope_of 2 1) heap_slope=$(slope_of 3 1024)
echo "$seconds s: $runs runs of $clients clients ($resumed interrupted and resumed), at most $most sessions at once, $(jq .links "$tmp/host.json") links;" \
	"RSS at most $highest KiB; at rest $(head -n 1 "$samples" | cut -d' ' -f2) KiB at first, $(tail -n 1 "$samples" | cut -d' ' -f2) at last, slope $slope KiB a minute; heap" \
	"$(head -n 1 "$samples" | cut -d' ' -f3) bytes at first, $(tail -n 1 "$samples" | cut -d' ' -f3) at last, slope $heap_slope KiB a minute"
[ "$most" -ge 8 ] || [ "$seconds" -lt 10 ] || fail "at most $most sessions at once"
if [ "$seconds" -ge 300 ] && [ -z "${SAN:-}" ]; then
	[ "$seconds" -lt 1800 ] || awk -v s="$slope" -v b="$bound" 'BEGIN {exit !(s <= b)}' || fail "RSS grows by $slope KiB a minute, more than $bound"
	awk -v s="$heap_slope" -v b="$heap_bound" 'BEGIN {exit !(s <= b)}' ||
		fail "the heap grows by $heap_slope KiB a minute, more than $heap_bound"
fi
