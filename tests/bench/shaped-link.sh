#!/usr/bin/env bash
# usage: shaped-link.sh [--write] [--quick]        (root: network namespaces and tc)
# Measures splitc and splits over a link with a limited rate. Each side has one core and one thread in a network namespace
# of its own; a veth pair joins the two, and tc (tbf) limits both directions to one rate. The rate is such that the
# uncompressed transfer in one direction takes FACTORS (0.75 and 3) times the compute time of both sides, as it did at
# 455 and 114 MiB/s in the published measurement. The network is MobileNetV2 at 224² with batch 64, with CODECS and CHUNKS.
#
# First it measures the compute time of each side alone, on one core and without a link (bench_segments pair). Then
#   ideal = max(client, server, bytes up / rate, bytes down / rate)
#   fill  = (client + server + up + down - ideal) / chunks: the time in which the pipeline fills and drains
# A row shows (total - fill) / ideal, with the target 1.15 at 8 chunks, and total / compute, with the target 1.05 at 8
# chunks where the link is not the bottleneck. Bytes are payloads and headers of training, as the daemons count them.
# With a factor below 1 the link shares a core with computation all the time. There a plain socket is measured, too
# (bench_socket): the seconds of the server's core that it takes to move the uncompressed bytes without Split's code.
#
#   --write  writes the table and its pictures to docs/results/link.md
#   --quick  tiny settings, to check that the script works
# STEPS (6): timed steps of a row. ALONE_RUNS (5): runs of each side alone, of which the median counts. CODECS, CHUNKS,
# FACTORS: the settings to run. COMPUTE: assumed seconds of compute time. CLIENT_SETS: more --set pairs for every run.
# CONGESTION (reno, which every kernel has): TCP's congestion control. BBR, the default of some hosts, paces: it takes
# 0.04 s more of a core for the uncompressed bytes of a batch, and leaves the link idle for 0.2 s every 10 s.
# NOTSENT_LOWAT: TCP's limit in bytes, instead of the kernel's default (none). BUILD, DATA, SERVER_YAML: as in pair.sh.
# The server accepts clients without keys only on loopback addresses. So 127.1.0.0/24 is on the veth pair, whose ends
# route it (route_localnet), and not on lo.
set -eu
[ "$(id -u)" = 0 ] || { echo "${0##*/}: needs root, for network namespaces and tc: nothing was run" >&2; exit 77; }
. "$(dirname "$0")/pair.sh"
. "$here/tests/bench/namespaces.sh"
cd "$here"
image=224 batch=64 alone_runs=${ALONE_RUNS:-5} write=
steps=${STEPS:-6} chunks_list=${CHUNKS:-1 4 8} factors=${FACTORS:-0.75 3}
for arg in "$@"; do
	case $arg in
	--write) write=1 ;;
	--quick) image=64 batch=16 alone_runs=1 steps=2 chunks_list="1 4" CODECS=${CODECS:-none quant:8} ;;
	*) echo "usage: ${0##*/} [--write] [--quick]" >&2; exit 64 ;;
	esac
done
for tool in ip tc taskset ${write:+gnuplot}; do
	command -v "$tool" >/dev/null || { echo "${0##*/}: $tool is missing (apt-get install iproute2 util-linux gnuplot-nox)" >&2; exit 69; }
done
[ "$(nproc)" -ge 2 ] || echo "${0##*/}: both sides share the only CPU, so the figures mean little" >&2
client_cpu=0 server_cpu=$(($(nproc) > 1 ? 1 : 0))

ns=split$$ work=$(mktemp -d) server_pid=
cleanup() {
	server_stop
	namespaces_remove
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
data=${DATA:-$work/data}
[ -n "${DATA:-}" ] || made_up_data "$data"

namespaces_make

# ---- methods
method_sets() { # METHOD → --set pairs
	case $1 in
	insert) echo "--set codec=none --set insert.head=conv:20,k=3,s=3 --set insert.tail=conv:320" ;;
	*) echo "--set codec=$1" ;;
	esac
}
common=(--set "model.image=$image" --set "train.batch=$batch") # shellcheck disable=SC2206
common+=(${CLIENT_SETS:-})
methods=${CODECS:-none quant:8 sortquant:6+2}
if [ -z "${CODECS:-}" ] && "$BUILD/splitc" train tests/bench/bench.yaml "${common[@]}" $(method_sets insert) --set "data.dir=$data" --check-config >/dev/null 2>&1; then
	methods="$methods insert"
fi

alone() { # METHOD CHUNKS → "client server up down", seconds and MB
	# shellcheck disable=SC2046
	taskset -c "$server_cpu" "$BUILD/tests/bench/bench_segments" tests/bench/bench.yaml "${common[@]}" --set threads=1 \
		--set "train.chunks=$2" $(method_sets "$1") --runs "$alone_runs" pair 2>"$work/alone.log" |
		awk -F'\t' '{ v[$1] = $2 } END { printf "%.5f %.5f %.4f %.4f\n", v["client"] / 1e3, v["server"] / 1e3,
			v["payload head_act"] + v["payload mid_grad"], v["payload mid_act"] + v["payload head_grad"] }'
}

median() { sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }
field() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" "$work/summary.json"; }

plain_socket() { # MB SECONDS → seconds of the server's core: median, least, most
	ip netns exec "${ns}c" taskset -c "$client_cpu" "$BUILD/tests/bench/bench_socket" 127.1.0.2 5599 "$1" &
	ip netns exec "${ns}s" taskset -c "$server_cpu" "$BUILD/tests/bench/bench_socket" 127.1.0.2 5599 "$1" "$2"
	wait $!
}

last_chunks=${chunks_list##* }
read -r none_client none_server none_up none_down <<<"$(alone none "$last_chunks")"
compute=${COMPUTE:-}
[ -n "$compute" ] || compute=$(awk -v c="$none_client" -v s="$none_server" 'BEGIN { print c + s }')
cpu=$(sed -n 's/^bench_segments: //p' "$work/alone.log")
model=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
about="$model; $cpu; uncompressed: $none_up MB up and $none_down MB down a batch, compute $compute s (client $none_client, server $none_server) at $last_chunks chunks"
echo "$about"

for factor in $factors; do
	awk -v f="$factor" 'BEGIN { exit !(f < 1) }' || continue
	shape "$(awk -v mb="$none_up" -v c="$compute" -v f="$factor" 'BEGIN { printf "%.2f", mb / (c * f) }')"
	plain_socket "$none_up" "$none_server" >"$work/socket-$factor"
	awk -F'\t' -v n="$none_server" '{ printf "A plain socket that moves the uncompressed bytes takes %.3f s (%.3f to %.3f) of a core that computes for %.3f s.\n", $1, $2, $3, n }' \
		"$work/socket-$factor" | tee "$work/socket-text-$factor"
done

server_start "$work" 127.1.0.2 1 ip netns exec "${ns}s" taskset -c "$server_cpu"
: >"$work/rows"
header="factor rate_MB/s method chunks ratio avg peak_client peak_server compute total min max client server up down ideal fill over_ideal over_compute"
for method in $methods; do
	for chunks in $chunks_list; do
		read -r client server up down <<<"$(alone "$method" "$chunks")"
		for factor in $factors; do
			rate=$(awk -v mb="$none_up" -v c="$compute" -v f="$factor" 'BEGIN { printf "%.2f", mb / (c * f) }')
			shape "$rate"
			# shellcheck disable=SC2046
			client_run "$work" 1 "$steps" ip netns exec "${ns}c" taskset -c "$client_cpu" -- "${common[@]}" \
				--set "train.chunks=$chunks" $(method_sets "$method")
			step_ms "$work" >"$work/ms"
			awk -v factor="$factor" -v rate="$rate" -v method="$method" -v n="$chunks" -v raw="$none_up $none_down" \
				-v avg="$(field avg_mb_s)" -v pc="$(field peak_client_mb_s)" -v ps="$(field peak_server_mb_s)" \
				-v compute="$(field t_compute_per_batch_s)" -v total="$(median <"$work/ms")" \
				-v lo="$(sort -g "$work/ms" | head -n 1)" -v hi="$(sort -g "$work/ms" | tail -n 1)" \
				-v c="$client" -v s="$server" -v up_mb="$up" -v down_mb="$down" 'BEGIN {
				split(raw, r, " "); total /= 1e3; up = up_mb / rate; down = down_mb / rate
				ideal = c; if (s > ideal) ideal = s; if (up > ideal) ideal = up; if (down > ideal) ideal = down
				fill = (c + s + up + down - ideal) / n
				ps = ps == "" ? "-" : sprintf("%.1f", ps)
				printf "%s %.1f %s %d %.4f %.2f %.1f %s %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f\n",
					factor, rate, method, n, (up_mb + down_mb) / (r[1] + r[2]), avg, pc, ps, compute, total, lo / 1e3,
					hi / 1e3, c, s, up, down, ideal, fill, (total - fill) / ideal, total / (c + s) }' |
				tee -a "$work/rows" |
				awk '{ printf "%-14s %d chunks, link %5.1f MB/s: %.3f s (ideal %.3f, fill %.3f): %.2f × ideal, %.2f × compute\n", $3, $4, $2, $10, $17, $18, $19, $20 }'
		done
	done
done
server_stop

echo
{ echo "$header"; sort -s -k1,1g "$work/rows"; } | awk '{ for (i = 1; i <= NF; i++) printf "%-*s", (i == 3 ? 15 : length($i) > 10 ? length($i) + 1 : 11), $i; print "" }'
[ -n "$write" ] || exit 0

# ---- docs/results
out=docs/results
mkdir -p "$out"
loopback=$(sed -n '/^## On loopback/,$p' "$out/link.md" 2>/dev/null) # is kept: it is written by hand
{
	echo "# The pair over a shaped link"
	echo
	echo "\`make bench-link BENCH_ARGS=--write\`, $(date -I). $about."
	echo
	echo "Seconds, MB = 10^6 bytes; medians of $steps steps, TCP ${CONGESTION:-reno}. client and server are each side's computation alone."
	echo "ideal = max(client, server, up / rate, down / rate); fill = what one chunk spends at the other three."
	echo "Over ideal = (total - fill) / ideal, at most 1.15 at 8 chunks; over compute = total / (client + server), at most 1.05 there where the link is not the bottleneck."
	for factor in $factors; do
		echo
		echo "## Uncompressed transfer $factor × compute: $(awk -v f="$factor" '$1 == f { print $2; exit }' "$work/rows") MB/s each way"
		echo
		echo "| method | ratio | chunks | total per batch (min to max) | ideal | over ideal | over compute |"
		echo "|---|---|---|---|---|---|---|"
		awk -v f="$factor" '$1 == f { print "| " $3 " | " $5 " | " $4 " | " $10 " (" $11 " to " $12 ") | " $17 " | " $19 " | " $20 " |" }' "$work/rows"
		echo
		echo "![time per batch](link-$factor.svg)"
		[ ! -s "$work/socket-text-$factor" ] || { echo; cat "$work/socket-text-$factor"; }
	done
	[ -z "$loopback" ] || printf '\n%s\n' "$loopback"
} >"$out/link.md"
for factor in $factors; do
	awk -v f="$factor" '$1 == f { print $3 "," $4, $10, $17, $17 + $18 }' "$work/rows" >"$work/plot"
	gnuplot <<PLOT
set terminal svg size 900,420 noenhanced background "white"
set output "$out/link-$factor.svg"
set title "Uncompressed transfer $factor × compute: seconds per batch by method, chunks"
set style fill solid 0.6
set boxwidth 0.6
set yrange [0:*]
set grid y
set xtics rotate by -30
plot "$work/plot" using 2:xtic(1) with boxes lc rgb "#a9c4e4" title "measured", \
	"" using 0:4 with points pt 7 ps 0.9 lc rgb "#c0392b" title "ideal + fill and drain", "" using 0:3 with points pt 2 ps 0.9 lc rgb "black" title "ideal"
PLOT
done
echo "written: $out/link.md and its pictures"
