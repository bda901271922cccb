#!/usr/bin/env bash
# scripts/gpu-check.sh with stubs for the GPU's programs: verdicts, limits, exit statuses and files; and its plan fits
# its limits.
set -eu
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*"; cat "$tmp/said" 2>/dev/null || true; exit 1; }
cp scripts/gpu-check.sh "$tmp"

# ---- the plan
scripts/gpu-check.sh plan >"$tmp/said"
for call in 1 2 3; do
	sum=$(sed -n "s/^call $call: \([0-9]*\) s at most/\1/p" "$tmp/said")
	[ "${sum:-999}" -le 540 ] || fail "call $call takes $sum s"
done
grep -oE '\./[a-z_]+' "$tmp/said" | sort -u >"$tmp/programs"
[ -s "$tmp/programs" ] || fail 'a plan without programs'
programs=() # and then as gpu-bundle.sh has them
# shellcheck disable=SC2034
build=x
eval "$(sed -n '/^programs=/,/)$/p' scripts/gpu-bundle.sh)"
while read -r p; do
	[[ " ${programs[*]##*/} " == *" ${p#./} "* ]] || fail "the bundle has no $p"
done <"$tmp/programs"
[ -z "$(sed -nE 's/^ +[0-9]+ s  ([a-z0-9_]+).*/\1/p' "$tmp/said" | sort | uniq -d)" ] || fail 'a name twice'

# ---- all parts of the C library come from the host: parts of two versions do not work together
for script in scripts/gpu-bundle.sh scripts/portable.sh; do
	left_out=$(sed -n "s/.*grep -vE '\([^']*\)'.*/\1/p" "$script")
	for part in c m mvec dl rt pthread resolv anl util; do
		echo "/lib/x86_64-linux-gnu/lib$part.so.6" | grep -qE "$left_out" || fail "$script takes lib$part along"
	done
	echo /lib/x86_64-linux-gnu/libzmq.so.5 | grep -vqE "$left_out" || fail "$script leaves libzmq behind"
done

# ---- a host on which all is well, except for one planted fault
stub() { printf '#!/bin/sh\n%s\n' "$2" >"$tmp/$1"; chmod +x "$tmp/$1"; }
well="printf '[==========] Running 1 test(s).\n[       OK ] x\n'"
while read -r p; do stub "${p#./}" "$well"; done <"$tmp/programs"
mkdir "$tmp/bin"
stub bin/nvidia-smi 'echo a GPU'
stub bin/compute-sanitizer "$(cat <<'END'
while [ "${1#--}" != "$1" ]; do
	case $1 in --tool | --report-api-errors | --error-exitcode) shift ;; *) exit 3 ;; esac
	shift
done
echo '========= ERROR SUMMARY: 0 errors'
exec "$@"
END
)"
stub bin/python3 'echo "libraries: ${LD_LIBRARY_PATH-}"'
check() { # WANTED_STATUS ARGUMENT…
	local want=$1 rc=0
	shift
	rm -rf "$tmp/out"
	LD_LIBRARY_PATH=/of/the/host PATH=$tmp/bin:$PATH OUT=$tmp/out "$tmp/gpu-check.sh" "$@" >"$tmp/said" 2>&1 || rc=$?
	[ $rc = "$want" ] || fail "$*: exit status $rc, not $want"
}
says() { grep -qE -- "$1" "$tmp/said" || fail "$title: not said: $1"; }

title='call 1'
check 0 call 1
says '^11 passed, 0 failed, 0 timeout, 0 skipped$'
tail -n 5 "$tmp/out/call-1.txt" | grep -q '^bench_graphs_fp32 *passed' || fail 'no digest'
[ "$(grep -c '^==== ' "$tmp/out/call-1.log")" = 11 ] || fail 'no log'
[ "$(ls "$tmp/out")" = "call-1.log
call-1.txt" ] || fail 'other files'
title='call 2, no data'
check 77 call 2
says '^    SKIP no data in the bundle'
says '^7 passed, 0 failed, 0 timeout, 3 skipped$'
says '^    libraries: /of/the/host$' # of PyTorch: not the bundle's
title='call 3'
check 0 call 3
says '^9 passed, 0'
title='call 3, no sanitizer'
mv "$tmp/bin/compute-sanitizer" "$tmp/away"
check 77 call 3
says '^    SKIP no compute-sanitizer on this host$'
says '^0 passed, 0 failed, 0 timeout, 9 skipped$'
mv "$tmp/away" "$tmp/bin/compute-sanitizer"
title='nowhere to write, and much to say'
stub test_module "printf '[==========] Running 1 test(s).\\n[       OK ] x\\n'; head -c 3000000 /dev/zero | tr '\\0' x; echo the end"
rc=0
PATH=$tmp/bin:$PATH OUT=/dev/null/out TMPDIR=$tmp "$tmp/gpu-check.sh" module >"$tmp/said" 2>&1 || rc=$?
[ $rc = 0 ] || fail "exit status $rc"
says "^results are in $tmp/"
log=$(sed -n 's/^results are in //p' "$tmp/said")/module.log
if [ "$(wc -c <"$log")" -gt 1100000 ] || ! tail -n 1 "$log" | grep -q 'the end$'; then fail 'a log that is too long, or has no end'; fi
stub test_module "$well"

title='no device'
stub test_ops 'echo "SKIP cuda: none"; [ "$SPLIT_TEST_ABSENT" = skip ] || exit 1; exit 77'
check 77 ops ops_without_cudnn
says '^    SKIP cuda: none$'
says '^0 passed, 0 failed, 0 timeout, 2 skipped$'
stub test_ops "$well"
ops=${BUILD:-build/release}/tests/suite/test_ops
for absent in skip ''; do
	rc=0
	SPLIT_TEST_ABSENT=$absent SPLIT_TEST_BACKEND=cuda LD_LIBRARY_PATH= "$ops" 'cuda, two chunks*' >"$tmp/said" 2>&1 || rc=$?
	[ "$rc" = "$([ -z "$absent" ] && echo 1 || echo 77)" ] || fail "test_ops without a device: exit status $rc"
	says 'cuda: .*libsplit_cuda.so'
done

title='names and groups'
check 0 codec_state graphs
says '^10 passed, 0 failed'
check 64 codec_sate
check 64 call 4
check 64

title='weights with and without overlap'
mkdir "$tmp/pair" "$tmp/scripts"
for file in data_batch_1 test_batch; do echo | gzip >"$tmp/pair/$file.bin.gz"; done
stub scripts/gpu-pair.sh 'echo "{\"codec\":\"none\",\"weights\":\"$WEIGHTS$SPLIT_CUDA_PLAIN\"}" >"$3/timing.jsonl"'
check 1 overlap
sed -i 's/\$SPLIT_CUDA_PLAIN//' "$tmp/scripts/gpu-pair.sh"
WEIGHTS=a check 0 overlap
says '^overlap +passed'

title='pairs without a device'
stub scripts/gpu-pair.sh 'echo "splits: no CUDA device: none" >"$3/server.log"; exit 69'
check 77 pair overlap
says '^    SKIP no CUDA device: none$'
says '^0 passed, 0 failed, 0 timeout, 3 skipped$'
stub scripts/gpu-pair.sh 'echo "splits: port in use" >"$3/server.log"; exit 69'
check 1 overlap

title=verdicts
stub test_gpu_codecs 'echo "[==========] Running"; echo "[       OK ] a"; echo "bytes differ"; exit 1'
stub test_gpu_codec_state 'exit 124' # as timeout says of one that it ended
stub test_gpu_middle 'echo "[==========] Running"; echo "SKIP no CUDA device"; echo "[  SKIPPED ] a"'
stub test_ops 'echo "[==========] Running 0 test(s)."'
stub bench_gpu_codecs 'echo "SKIP no device"; exit 77'
stub bench_gpu "[ -z \"\$1\" ] || echo 'WARN graph-refused: it cannot'; echo ours 3"
check 1 call 1
says '^codecs +failed .* of [0-9]+$'
says '^    bytes differ$'
says '^codec_state +timeout '
says '^middle +skipped'
says '^    SKIP no CUDA device$'
says '^ops +failed'
says '^bench_codecs +skipped'
says '^bench_fp32 +passed'
says '^bench_graphs_fp32 +failed'
says '^4 passed, 4 failed, 1 timeout, 2 skipped$'
# Runs alone: on a busy machine another test might exceed such a limit.
title='a limit'
stub test_gpu_codec_state 'sleep 100'
MOST_S=1 check 1 codec_state
says '^codec_state +timeout +[0-9]+ s of 1$'

! command -v shellcheck >/dev/null || shellcheck scripts/gpu-check.sh scripts/gpu-bundle.sh scripts/gpu-pair.sh || fail shellcheck
