#!/usr/bin/env bash
# usage: gpu-check.sh [STEP]…    steps: codecs tests mixed graphs sanitizer racecheck bench peer profile (without arguments all of them but profile
# and mixed, which is what tests and bench have of tf32, bf16 and fp16). `sanitizer` is memcheck of everything; `sanitizer racecheck` (or `racecheck`) looks for races in shared memory.
# Runs, on a host with a GPU, what scripts/gpu-bundle.sh has put beside this script. cuBLAS and cuDNN are taken from the
# CUDA toolkit, or else from the wheels that PyTorch installs. Logs go to LOGS (default: logs/ here), a digest to stdout.
set -u
here=$(cd "$(dirname "$0")" && pwd)
logs=${LOGS:-$here/logs}
mkdir -p "$logs"
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
export BUILD=$here SPLIT_GOLDEN=$here/golden
bad=0
step() { [ "${#steps[@]}" = 0 ] && [[ $1 != @(profile|mixed) ]] || [[ " ${steps[*]} " == *" $1 "* ]]; }
steps=("$@")

# NAME LIMIT_S COMMAND…: its log, and a line with the verdict
try() {
	local name=$1 limit=$2 rc start=$SECONDS
	shift 2
	timeout -k 5 "$limit" "$@" >"$logs/$name.log" 2>&1
	rc=$?
	echo "$name: exit status $rc, $((SECONDS - start)) s"
	if [ $rc != 0 ]; then
		bad=1
		grep -vE '^\[ (RUN|      OK)' "$logs/$name.log" | tail -n 25
	fi
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
if step codecs; then
	try test_gpu_codecs 100 "$here/test_gpu_codecs" '*GPU*'
	try test_gpu_codec_state 30 "$here/test_gpu_codec_state" '*GPU*'
	try bench_codecs 60 "$here/bench_gpu_codecs"
	cat "$logs/bench_codecs.log"
fi
if step tests; then
	try test_module 60 "$here/test_module"
	grep -h 'driver for CUDA' "$logs/test_module.log"
	try test_gpu 60 "$here/test_gpu"
	try test_gpu_middle 100 "$here/test_gpu_middle"
	grep -hE 'relative errors|left out, scale|^SKIP' "$logs/test_gpu_middle.log"
	SPLIT_TEST_BACKEND=cuda try test_ops 150 "$here/test_ops"
	SPLIT_CUDNN=none SPLIT_TEST_BACKEND=cuda try test_ops_without_cudnn 150 "$here/test_ops"
	grep -h cudnn-missing "$logs"/test_*.log | sort | uniq -c
fi
if step mixed; then
	try test_gpu_precisions 100 "$here/test_gpu_middle" '*precisions*'
	try test_gpu_fp16 60 "$here/test_gpu_middle" '*fp16*'
	grep -hE 'relative errors|left out, scale|^SKIP' "$logs"/test_gpu_{precisions,fp16}.log
	for p in tf32 bf16 fp16; do
		SPLIT_TEST_BACKEND=cuda try "test_ops_$p" 60 "$here/test_ops" "cuda, $p*"
		try "mixed_plain_$p" 60 "$here/bench_gpu" --precision $p
		try "mixed_graphs_$p" 60 "$here/bench_gpu" --precision $p --graphs
		try "mixed_peer_$p" 100 python3 "$here/bench_gpu_peer.py" --precision $p
		grep -hE '^(ours|torch)' "$logs"/mixed_{plain,graphs,peer}_$p.log
	done
fi
if step graphs; then
	try test_gpu_graphs 60 "$here/test_gpu_middle" '*graphs*'
	for p in fp32 tf32 bf16 fp16; do
		try "bench_plain_$p" 60 "$here/bench_gpu" --precision $p
		try "bench_graphs_$p" 60 "$here/bench_gpu" --graphs --precision $p
		grep -H '^ours' "$logs/bench_plain_$p.log" "$logs/bench_graphs_$p.log"
	done
	grep -h graph-refused "$logs"/{test_gpu,bench}_graphs*.log && bad=1
fi
if step bench; then
	for p in fp32 tf32 bf16 fp16; do
		try "bench_$p" 100 "$here/bench_gpu" --precision $p --layers
		grep -hE '^(ours|all)' "$logs/bench_$p.log"
	done
	cat "$logs/bench_fp32.log" "$logs/bench_bf16.log"
fi
if step profile; then
	for p in fp32 tf32 bf16; do
		try "profile_$p" 120 ncu --clock-control none --metrics gpu__time_duration.sum --csv \
			--log-file "$logs/profile_$p.csv" "$here/bench_gpu" --profile --precision $p
		gzip -f "$logs/profile_$p.csv"
	done
fi
if step peer; then
	try peer 300 python3 "$here/bench_gpu_peer.py"
	cat "$logs/peer.log"
fi
if step sanitizer || step racecheck; then
	sanitize() { # TOOL LIMIT_S PROGRAM ARGUMENT…; memory that is refused on purpose is no error
		local api=()
		[ "$1" != memcheck ] || api=(--report-api-errors no)
		try "$1_$3" "$2" compute-sanitizer --tool "$1" "${api[@]}" --error-exitcode 9 "$here/$3" "${@:4}"
		grep -h 'SUMMARY' "$logs/$1_$3.log"
	}
	export SPLIT_TEST_BACKEND=cuda
fi
if step sanitizer; then
	sanitize memcheck 150 test_ops
	sanitize memcheck 60 test_gpu
	sanitize memcheck 60 test_gpu_middle
	SPLIT_TEST_SHORT=1 sanitize memcheck 180 test_gpu_codecs '*GPU*'
	SPLIT_TEST_SHORT=1 sanitize memcheck 60 test_gpu_codec_state '*GPU*'
fi
if step racecheck; then
	SPLIT_TEST_SHORT=1 sanitize racecheck 180 test_gpu_codecs '*GPU*'
	SPLIT_TEST_SHORT=1 sanitize racecheck 60 test_gpu_codec_state '*GPU*'
	sanitize racecheck 240 test_ops 'cuda, two chunks*'
fi
exit $bad
