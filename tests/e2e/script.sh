#!/usr/bin/env bash
# libsplit and the Python package: exported symbols, a server that lies, forks, Ctrl-C, 1,000 links of one process; and,
# if PyTorch is installed, comparisons with PyTorch, kills, and refusals. It runs the examples of docs/howto-script.md
# (examples/). With SAN the sanitizer's library is loaded before Python, and comparisons
# with PyTorch are omitted.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. scripts/blas-core.sh "$SPLITC" # for local:, whose process is Python
root=$PWD
library=$root/$BUILD/libsplit.so.0
[ -f "$library" ] || fail "$library is not built: make lib"

# ---- the library
others=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -vE '^(split_[a-z_]+|SPLIT_0\.1)(@@SPLIT_0\.1)?$' || true)
[ -z "$others" ] || fail "libsplit exports what is not its own: $others"
nm -D --defined-only "$library" | sed -n 's/.* \(split_[a-z_]*\).*/\1/p' | sort >"$tmp/exported"
grep -oE '\bsplit_[a-z_]+\(' lib/split.h | tr -d '(' | sort -u | diff - "$tmp/exported" || fail 'split.h and libsplit differ'
[ -n "${SAN:-}" ] || ! ldd "$library" | grep -qE 'blas|lapack' || fail 'libsplit needs a BLAS'

start_server one
gcc -std=c99 -Wall -Werror ${SAN:+-fsanitize=$SAN} -Ilib examples/middle.c -o "$tmp/middle" "$library" -Wl,-rpath,"$root/$BUILD"
"$tmp/middle" "$endpoint" 300 >"$tmp/middle.out" || fail 'the example in C failed'
awk '/^step 300 / {exit !($4 < 0.001)}' "$tmp/middle.out" || fail "the example does not learn: $(cat "$tmp/middle.out")"
if [ -z "${SAN:-}" ] && command -v valgrind >/dev/null; then
	valgrind -q --error-exitcode=99 --leak-check=full "$tmp/middle" "$endpoint" 3 >"$tmp/valgrind.log" 2>&1 || fail "valgrind: $(cat "$tmp/valgrind.log")"
fi
[ -n "${SAN:-}" ] || examples/run middle.c local: 300 | cmp - "$tmp/middle.out" || fail 'examples/run middle.c with local: prints something else'
if "$tmp/middle" tcp://nobody 1 2>"$tmp/bad.out"; then fail 'a server that is none was taken'; else [ $? = 78 ] || fail "$(cat "$tmp/bad.out")"; fi

# ---- Python
python=/usr/bin/python3
"$python" -c 'import numpy.random' 2>/dev/null || { echo "no numpy here: the library alone was tested"; exit 77; }
export SPLIT_LIBRARY=$library PYTHONPATH=$root/python:$root/tests/e2e/script PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
case ${SAN:-} in
# Leak detection is off for Python's own leaks; C tests look for ours. PyTorch throws, so ASan must see libstdc++ from
# the start.
address*) before="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)" ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 ;;
thread*) before=$(gcc -print-file-name=libtsan.so) TSAN_OPTIONS="${TSAN_OPTIONS:-} ignore_noninstrumented_modules=1 die_after_fork=0" ;;
*) before= ;;
esac
[ -z "$before" ] || export ASAN_OPTIONS TSAN_OPTIONS
run() { LD_PRELOAD=$before timeout "$patience" "$python" "$@" >"$tmp/python.log" 2>&1 || fail "$*: $(tail -n 15 "$tmp/python.log")"; }
run tests/e2e/script/arrays.py "$endpoint" lib/split.h
# A program may have a locale that writes numbers with a comma: neither texts to the server nor a server inside it change.
if localedef -i de_DE -f UTF-8 "$tmp/de_DE.UTF-8" >/dev/null 2>&1; then
	comma='import locale, runpy, sys; locale.setlocale(locale.LC_ALL, "de_DE.UTF-8"); sys.argv[:1] = []; runpy.run_path(sys.argv[0], run_name="__main__"); assert locale.str(0.5) == "0,5"'
	LOCPATH=$tmp run -c "$comma" tests/e2e/script/arrays.py "$endpoint" lib/split.h
	LOCPATH=$tmp run -c "$comma" tests/e2e/script/one_call.py local:
else
	echo 'no localedef here: the locale of a program was not tried'
fi
run tests/e2e/script/hostile.py "$endpoint" "$TOOLS/faulty_link"
run tests/e2e/script/processes.py "$endpoint" "$server_pid"
run tests/e2e/script/opens.py "$endpoint" "$SPLITS" "$tmp"

# ---- the wheel, installed by pip if there is one
wheel=$(scripts/wheel.py "$(uname -m)" "$BUILD" "$tmp") || fail 'no wheel'
run tests/e2e/script/check_record.py "$wheel"
if "$python" -m pip --version >"$tmp/pip.out" 2>&1; then
	run -m pip install -q --no-index --no-deps --no-compile --target "$tmp/installed" "$wheel"
else
	run -m zipfile -e "$wheel" "$tmp/installed"
fi
(
	unset SPLIT_LIBRARY
	PYTHONPATH=$tmp/installed run tests/e2e/script/one_call.py local:
)
grep -qx "$tmp/installed/split/__init__.py" "$tmp/python.log" || fail 'the wheel was not what ran'
"$python" -c 'import torch, torchvision, sklearn' 2>/dev/null || { echo "no PyTorch, torchvision and scikit-learn here: arrays alone were tested"; exit 77; }
cd "$tmp"
# A DataLoader's worker starts threads after a fork, at its parent's addresses; ThreadSanitizer aborts on that ("dup
# thread").
checks=()
[[ ${SAN:-} != thread* ]] || checks=(check_fork check_interrupts check_state check_one_token check_saved)
run "$root/tests/e2e/script/torch_processes.py" "$endpoint" "$server_pid" ${checks[@]+"${checks[@]}"}
[ -z "${SAN:-}" ] || exit 0
run "$root/tests/e2e/script/torch_api.py" "$endpoint"
run "$root/tests/e2e/script/scripted.py" "$endpoint"
run "$root/tests/e2e/script/composed.py" "$endpoint"
run "$root/tests/e2e/script/attends.py" "$endpoint"
run "$root/tests/e2e/script/faithful.py" "$endpoint"
run "$root/tests/e2e/script/going_on.py" "$endpoint"
run "$root/tests/e2e/script/several.py" "$endpoint"
run "$root/tests/e2e/script/papers.py" "$endpoint"
run "$root/tests/e2e/script/volumes.py" "$endpoint"
for part in calls forward learn loops network picks plain steps; do
	run "$root/tests/e2e/script/idioms.py" "$endpoint" "idioms_$part"
done
run "$root/tests/e2e/script/idioms.py" --table
diff "$tmp/python.log" "$root/docs/results/idioms.md" || fail 'docs/results/idioms.md differs: idioms.py --table'
accuracy_of() { # SCRIPT LEAST
	timeout "$patience" "$root/examples/run" "$1.py" "$endpoint" >"$tmp/python.log" 2>&1 || fail "$1.py: $(tail -n 15 "$tmp/python.log")"
	awk -v least="$2" '/^accuracy/ {right = $2 + 0 >= least} END {exit !right}' "$tmp/python.log" || fail "$1: $(cat "$tmp/python.log")"
}
accuracy_of digits 0.93
accuracy_of rows 0.88

# ---- kills of either side: the weights equal those of an undisturbed run
cp "$root/examples/kills.py" "$root/tests/e2e/script/calls.py" "$root/tests/e2e/script/levels.py" .
for name in kills calls levels; do
	run "$name.py" "$endpoint"
	mv weights.pt "$name.undisturbed"
	rm "$name.pt"
done
end_process "$server_pid"
port=$(free_port)
server() { start_server "$1" "listen=tcp://127.0.0.1:$port"; }
saved() { grep -q "^step $1\$" script.log; }
begin() { # NAME STEP: until it has saved that step; behind that it stands, until it is killed or there is a file `go`
	{
		echo 'import os, sys, time'
		sed 's/^\( *\)print("step", step, flush=True)$/&\n\1while step == int(sys.argv[2]) and not os.path.exists("go"): time.sleep(0.01)/' "$1.py"
	} >stands.py
	grep -q 'exists("go")' stands.py || fail 'it does not stand'
	timeout "$patience" "$python" stands.py "$endpoint" "$2" >script.log 2>&1 &
	script=$!
	started+=("$script")
	wait_for "$1.py does not save step $2" saved "$2"
}
survives() { # NAME STEP STEP: its script is killed behind the first, its server behind the second
	rm -f go
	server "$1-one"
	begin "$1" "$2"
	kill -9 "$(pgrep -P "$script" | head -n 1)" || fail 'the script is over already'
	wait "$script" 2>/dev/null || true
	begin "$1" "$3"
	kill -9 "$server_pid" || fail 'the server is over already'
	wait "$server_pid" 2>/dev/null || true
	server "$1-two"
	: >go
	wait "$script" || fail "$1.py: $(tail -n 15 script.log)"
	end_process "$server_pid"
	"$python" - "$1" <<'END' || fail "$1.py: killed and not killed, it has two results"
import sys, torch
a, b = torch.load(sys.argv[1] + ".undisturbed"), torch.load("weights.pt")
assert list(a) == list(b) and all(torch.equal(a[k], b[k]) for k in a)
END
}
survives kills 60 120
survives calls 10 30
survives levels 10 30
