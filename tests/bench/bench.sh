#!/usr/bin/env bash
# usage: bench.sh [--json] [--quick]
# Prints milliseconds of head, middle, tail, whole step, each daemon's share of a step, codec (quant:8) and link, for
# MobileNetV2 at 224² with batch 64 (whole, and in 8 chunks) and at 32² with batch 128 (with torchvision's strides), on 1
# and 2 threads. Each is the median of RUNS (7) runs after a warm-up run. The middle's peak resident memory is measured
# in a process that runs nothing else.
# --json: one object instead of the table. --quick: tiny settings, to check that the script works. BUILD: the folder of
# the programs (build/release).
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"
bench=${BUILD:-build/release}/tests/bench
runs=${RUNS:-7} threads="1 2" json= link_mib=1024
works=("224,64,1" "224,64,8" "32,128,1")
for arg in "$@"; do
	case $arg in
	--json) json=1 ;;
	--quick) runs=1 threads=1 link_mib=64 works=("64,4,2") ;;
	*) echo "usage: ${0##*/} [--json] [--quick]" >&2; exit 64 ;;
	esac
done
[ "$(nproc)" -ge 2 ] || threads=1
. scripts/blas-core.sh "${BUILD:-build/release}/splitc"
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT

segments() { # IMAGE BATCH CHUNKS THREADS RUNS PIECE… → rows
	"$bench/bench_segments" tests/bench/bench.yaml --set "model.image=$1" --set "train.batch=$2" --set "train.chunks=$3" \
		--set "threads=$4" --set codec=quant:8 --runs "$5" "${@:6}" 2>"$rows.cpu"
}

for t in $threads; do
	for work in "${works[@]}"; do
		IFS=, read -r image batch chunks <<<"$work"
		name="$image² batch $batch"
		[ "$chunks" = 1 ] || name="$name, $chunks chunks"
		[ -n "$json" ] || echo "… $name, $t thread(s)" >&2
		{
			segments "$image" "$batch" "$chunks" "$t" "$runs" head middle tail step pair | grep -v '^peak'
			segments "$image" "$batch" "$chunks" "$t" 1 middle | sed -n 's/^peak resident/middle peak resident/p'
		} | sed "s/^/$name\t$t\t/" >>"$rows"
	done
done
"$bench/bench_link" --rows "$link_mib" | sed 's/^/link\t-\t/' >>"$rows"
cpu=$(sed -n 's/^bench_segments: //p' "$rows.cpu")
rm -f "$rows.cpu"
model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)

if [ -n "$json" ]; then
	awk -F'\t' -v cpu="$cpu" -v model="$model" -v runs="$runs" '
		BEGIN { printf "{\"schema\":1,\"cpu\":\"%s\",\"kernels\":\"%s\",\"runs\":%d,\"rows\":[", model, cpu, runs }
		{ printf "%s{\"work\":\"%s\",\"threads\":%s,\"what\":\"%s\",\"median\":%s,\"min\":%s,\"max\":%s,\"unit\":\"%s\"}",
		  (NR > 1 ? "," : ""), $1, ($2 == "-" ? "null" : $2), $3, $4, $5, $6, $7 }
		END { print "]}" }' "$rows"
else
	echo "$model; $cpu; medians of $runs"
	awk -F'\t' '
		BEGIN { printf "%-24s %7s  %-22s %10s %10s %10s\n", "work", "threads", "what", "median", "min", "max" }
		{ gsub("²", "^2", $1); printf "%-24s %7s  %-22s %10.3f %10.3f %10.3f %s\n", $1, $2, $3, $4, $5, $6, $7 }' "$rows"
fi
