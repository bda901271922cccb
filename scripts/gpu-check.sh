#!/usr/bin/env bash
# usage: gpu-check.sh plan | call 1|2|3 | all | STEP…
# Runs the contents of the bundle that scripts/gpu-bundle.sh made, on a host with a GPU.
#   plan     prints the steps, the most valuable first, with their limits and groups
#   call N   runs the steps of one call, in at most nine minutes, for hosts whose commands may take ten. Call 1 checks
#            correctness, 2 speed, 3 memory and races, by a checker
#   all      all three, one after another
#   STEP…    steps by name or group, whatever their call
# A step that exceeds its limit is ended, and the next one begins. OUT (default: results/ here) gets NAME.txt, a digest
# that ends with a line for every step, and NAME.log, their whole output; NAME is call-1 or the like. Exit status: 0 if
# every step passed, 77 if some had to be skipped, 1 if one failed or exceeded its limit. MOST_S: a lower limit in
# seconds for every step. cuBLAS and cuDNN are taken from the CUDA toolkit, or else from the wheels that PyTorch
# installs.
set -u
here=$(cd "$(dirname "$0")" && pwd)

# Columns: CALL LIMIT_S GROUPS NAME COMMAND. The plan omits call 0. The tests provoke failed allocations, so memcheck
# must not report API errors.
steps() {
	local memcheck='sanitizer --tool memcheck --report-api-errors no --error-exitcode 9'
	local racecheck='sanitizer --tool racecheck --error-exitcode 9'
	cat <<-END
		1  15 tests                module             ./test_module
		1 100 codecs               codecs             ./test_gpu_codecs '*GPU*'
		1  15 codecs               codec_state        ./test_gpu_codec_state '*GPU*'
		1  25 codecs               codec_ahead        ./test_gpu_codec_ahead '*GPU*'
		1 100 tests,mixed,graphs   middle             ./test_gpu_middle
		1 100 tests,mixed          ops                SPLIT_TEST_BACKEND=cuda ./test_ops
		1  35 tests                device             ./test_gpu
		1  50 tests                ops_without_cudnn  SPLIT_CUDNN=none SPLIT_TEST_BACKEND=cuda ./test_ops 'cuda, two chunks*'
		1  50 codecs               bench_codecs       ./bench_gpu_codecs
		1  25 graphs,bench         bench_fp32         ./bench_gpu
		1  25 graphs               bench_graphs_fp32  ./bench_gpu --graphs
		2  30 overlap              overlap            overlap
		2  70 pair                 pair               pair
		2  25 mixed,graphs,bench   bench_tf32         ./bench_gpu --precision tf32
		2  25 mixed,graphs,bench   bench_fp16         ./bench_gpu --precision fp16
		2  25 mixed,graphs         bench_graphs_tf32  ./bench_gpu --precision tf32 --graphs
		2  25 mixed,graphs         bench_graphs_bf16  ./bench_gpu --precision bf16 --graphs
		2  25 mixed,graphs         bench_graphs_fp16  ./bench_gpu --precision fp16 --graphs
		2  60 mixed,graphs,bench   bench_layers_bf16  ./bench_gpu --precision bf16 --layers
		2 180 mixed,peer           peer               peer
		2  70 pair                 pair_on_a_link     pair_on_a_link
		0 240 layers               layers             layers
		0  60 bench                bench_layers_fp32  ./bench_gpu --layers
		3 110 sanitizer            memory_codecs      SPLIT_TEST_SHORT=1 $memcheck ./test_gpu_codecs '*GPU*'
		3  20 sanitizer            memory_state       SPLIT_TEST_SHORT=1 $memcheck ./test_gpu_codec_state '*GPU*'
		3  40 sanitizer            memory_ahead       SPLIT_TEST_SHORT=1 $memcheck ./test_gpu_codec_ahead '*GPU*'
		3 110 racecheck            races_codecs       SPLIT_TEST_SHORT=1 $racecheck ./test_gpu_codecs '*GPU*'
		3  20 racecheck            races_state        SPLIT_TEST_SHORT=1 $racecheck ./test_gpu_codec_state '*GPU*'
		3  80 sanitizer            memory_ops         SPLIT_TEST_BACKEND=cuda $memcheck ./test_ops 'cuda, bf16*'
		3  30 sanitizer            memory_device      $memcheck ./test_gpu
		3  50 sanitizer            memory_middle      $memcheck ./test_gpu_middle '*fp16*'
		3  80 racecheck            races_ops          SPLIT_TEST_BACKEND=cuda $racecheck ./test_ops 'cuda, two chunks*'
	END
	for p in fp32 tf32 bf16; do
		echo "0 120 profile profile_$p ncu --clock-control none --metrics gpu__time_duration.sum --csv" \
			"--log-file \$OUT/profile_$p.csv ./bench_gpu --profile --precision $p && gzip -f \$OUT/profile_$p.csv"
	done
}

# shellcheck disable=SC2317 # steps call these
has() { command -v "$1" >/dev/null || { echo "SKIP no $1 on this host"; return 77; }; }
# Runs a program of the host without the bundle's libraries.
# shellcheck disable=SC2317
of_host() { LD_LIBRARY_PATH=$host_libraries "$@"; }
# shellcheck disable=SC2317
sanitizer() { has compute-sanitizer && compute-sanitizer "$@"; }
# shellcheck disable=SC2317
peer() { has python3 && of_host python3 bench_gpu_peer.py; }
# shellcheck disable=SC2317
layers() { has python3 && SPLIT_LIBRARIES=$LD_LIBRARY_PATH of_host python3 bench_gpu_layers.py --compile; }
# rows NAME: runs scripts/gpu-pair.sh on the bundle's data (PAIR_DATA) and weights (PAIR_WEIGHTS), with every codec on
# the device. Its rows go to NAME.jsonl; those that are done when the time is up stay there.
# shellcheck disable=SC2317 # steps call these
rows() {
	local work rc=0 file
	[ -d pair ] || { echo 'SKIP no data in the bundle: make gpu-bundle PAIR_DATA=FOLDER PAIR_WEIGHTS=FILE'; return 77; }
	work=$(mktemp -d) || return 1
	mkdir "$work/out"
	: >"$OUT/$1.jsonl"
	ln -s "$OUT/$1.jsonl" "$work/out/timing.jsonl"
	for file in data_batch_1 test_batch; do gzip -dc "pair/$file.bin.gz" >"$work/$file.bin"; done
	BIN=$here STEPS=8 scripts/gpu-pair.sh "$work" "$here/pair/weights.safetensors" "$work/out" || rc=$?
	if [ "$rc" = 69 ] && grep -q 'no CUDA device' "$work/out/server.log"; then
		echo "SKIP $(grep -om 1 'no CUDA device.*' "$work/out/server.log")"
		rc=77
	elif ! [ -s "$OUT/$1.jsonl" ]; then
		echo 'no rows'
	elif has python3; then
		of_host python3 pair_table.py "$OUT/$1.jsonl" || rc=$?
	fi
	rm -rf "$work"
	return "$rc"
}
# shellcheck disable=SC2317
pair() { rows pair; }
# The pair over a link with the published rate.
# shellcheck disable=SC2317
pair_on_a_link() { LINK_MB_S=455 rows pair-455; }
# Tasks queued ahead and CUDA graphs may change times, but not the weights.
# shellcheck disable=SC2317
overlap() {
	local way rc=0
	export CODECS='none quant:8 topk:0.2|quant:8' CHUNKS=8
	for way in plain ahead; do
		echo "overlap, $way:"
		SPLIT_CUDA_PLAIN=${way/ahead/} rows "overlap-$way" || rc=$?
		[ "$rc" = 0 ] || return "$rc"
		grep -o '"weights":"[^"]*"' "$OUT/overlap-$way.jsonl" >"$OUT/overlap-$way.weights"
	done
	cmp "$OUT"/overlap-{plain,ahead}.weights || rc=1
	rm -f "$OUT"/overlap-*.weights
	return "$rc"
}
export -f has of_host sanitizer peer layers rows pair pair_on_a_link overlap
export here host_libraries=${LD_LIBRARY_PATH-}

plan() {
	local call
	for call in 1 2 3; do
		echo "call $call: $(steps | awk -v c=$call '$1 == c {s += $2} END {print s}') s at most"
		steps | awk -v c=$call '$1 == c {printf "%5d s  %-18s %-21s", $2, $4, $3; $1 = $2 = $3 = $4 = ""; sub(/ +/, ""); print}'
	done
}

usage() {
	sed -n '2,/^set/{/^#/s/^# \?//p}' "$0"
	exit "$1"
}

# Prints the verdict on a step, from its exit status and its output.
verdict() { # STATUS SECONDS LIMIT LOG
	if [ "$1" = 124 ] || { [ "$1" = 137 ] && [ "$2" -ge "$3" ]; }; then
		echo timeout
	elif [ "$1" = 77 ]; then
		echo skipped
	elif [ "$1" != 0 ] || grep -q graph-refused "$4"; then
		echo failed
	elif grep -q '^\[==========\]' "$4" && ! grep -q '^\[       OK ' "$4"; then # a suite of which nothing ran
		if grep -q '^\[  SKIPPED ' "$4"; then echo skipped; else echo failed; fi
	else
		echo passed
	fi
}

digest() { # NAME VERDICT LOG
	case $2-$1 in
	passed-bench_* | passed-peer | passed-layers | passed-pair* | passed-overlap) tail -n 70 "$3" ;;
	passed-*) grep -E 'relative errors|left out, scale|SUMMARY|SKIP |cudnn-missing|cudnn-refused|driver for CUDA' "$3" | sort | uniq -c | sed 's/^ *1 //' ;;
	timeout-*) tail -n 8 "$3" ;;
	skipped-*) grep -m 1 -E '^SKIP' "$3" || tail -n 1 "$3" ;;
	*) grep -vE '^\[ RUN|^\[       OK|^\[  SKIPPED' "$3" | tail -n 25 ;;
	esac | sed 's/^/    /'
}

# Some hosts limit the size of files that may leave them: of a longer log only the beginning and the end are kept.
cut_short() { # LOG
	local most=500000
	if [ "$(wc -c <"$1")" -le $((2 * most)) ]; then cat "$1"; else head -c $most "$1"; printf '\n[…]\n'; tail -c $most "$1"; fi
}

# Runs the steps that stdin lists, in the format of `steps`.
run() { # NAME
	local title=$1 log limit name command start rc said line
	log=$OUT/$title.step
	: >"$OUT/$title.log"
	: >"$log.lines"
	while read -r _ limit _ name command; do
		[ "${MOST_S:-$limit}" -ge "$limit" ] || limit=$MOST_S
		start=$SECONDS rc=0
		timeout -k 2 "$limit" bash -c "$command" >"$log" 2>&1 </dev/null || rc=$?
		said=$(verdict $rc $((SECONDS - start)) "$limit" "$log")
		line=$(printf '%-18s %-8s %4d s of %d' "$name" "$said" $((SECONDS - start)) "$limit")
		echo "$line" | tee -a "$log.lines"
		digest "$name" "$said" "$log"
		{ echo "==== $line: $command"; cut_short "$log"; } >>"$OUT/$title.log"
	done
	echo
	cat "$log.lines"
	awk '{n[$2]++} END {printf "%d passed, %d failed, %d timeout, %d skipped\n", n["passed"], n["failed"], n["timeout"], n["skipped"]
		exit n["failed"] || n["timeout"] || NR == 0 ? 1 : n["skipped"] ? 77 : 0}' "$log.lines"
	rc=$?
	rm -f "$log" "$log.lines"
	return "$rc"
}

chosen() { # STEP…
	local want
	for want in "$@"; do
		steps | awk -v w="$want" '$4 == w || index("," $3 ",", "," w ",") {found = 1} END {exit !found}' ||
			{ echo "no step or group is called $want; gpu-check.sh plan lists them" >&2; return 64; }
	done
	steps | awk -v w=" $* " 'function has(x) {return index(w, " " x " ")}
		{n = split($3, group, ","); for (i = 1; i <= n && !has(group[i]); i++); if (has($4) || i <= n) print}'
}

case ${1:-} in
plan) plan; exit ;;
call)
	[[ ${2:-} == [123] ]] || usage 64 >&2
	title=call-$2 todo=$(steps | awk -v c="$2" '$1 == c') ;;
all) title=all todo=$(steps | awk '$1 > 0') ;;
'' | -*) usage 64 >&2 ;;
*) title=$(printf '%s-' "$@") title=${title%-} todo=$(chosen "$@") || exit ;;
esac

# The folders of CUDA libraries that NVIDIA's Python packages have installed, joined by colons.
wheels=$(python3 - 2>/dev/null <<'PY'
import os
try:
    import nvidia
    print(":".join(d for p in nvidia.__path__ for d, _, f in os.walk(p) if any(".so." in n for n in f)))
except ImportError:
    pass
PY
)
export LD_LIBRARY_PATH="$here:$here/lib${wheels:+:$wheels}:/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export BUILD=$here SPLIT_GOLDEN=$here/golden SPLIT_TEST_ABSENT=skip
export PATH="$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
OUT=${OUT:-$here/results}
if ! { mkdir -p "$OUT" && [ -w "$OUT" ]; } 2>/dev/null; then
	OUT=$(mktemp -d) || exit
	echo "results are in $OUT"
fi
OUT=$(cd "$OUT" && pwd)
export OUT
cd "$here" || exit
{
	echo "$title, $(date -u +%F), $(nproc) processors"
	nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo 'nvidia-smi says nothing'
	echo "$todo" | run "$title"
} | tee "$OUT/$title.txt"
exit "${PIPESTATUS[0]}"
