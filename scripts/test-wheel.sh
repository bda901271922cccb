#!/usr/bin/env bash
# usage: test-wheel.sh        (make test-wheel; as root, on Debian)
# Installs the wheel with pip in a clean Debian (SUITE: trixie) that has Python and PyTorch but no library of ours. There
# it trains examples/digits.py and pairs.py, and a Trainer's loop that goes on from a checkpoint. Each runs with local:
# and over TCP with a server of this machine: the same losses.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'test-wheel: needs root' >&2; exit 77; }
BUILD=${BUILD:-build/release} suite=${SUITE:-trixie}
unset OPENBLAS_L2_SIZE # other kernels would give other bits
. scripts/blas-core.sh "$BUILD/splitc"
mkdir -p build/fresh
tmp=$(mktemp -d "$PWD/build/fresh/wheel.XXXXXX") server=
. scripts/clean-root.sh
end_all() {
	trap - EXIT
	kill -KILL $server $started 2>/dev/null || true
	wait
	rm -rf --one-file-system "$tmp"
}
trap end_all EXIT
trap 'exit 130' INT TERM HUP
root=$tmp/root home=$tmp/root/root/split
new_root "$root" "$suite"
mkdir "$home"
wheel=$(scripts/wheel.py "$(uname -m)" "$BUILD" "$home")
cp examples/digits.py examples/pairs.py tests/e2e/script/loops.py "$home"
cat >"$home/trainer.py" <<-'PY'
	import sys, torch, loops, split.trainer

	torch.manual_seed(0)
	kind = split.trainer.remote(loops.Trainer, "parts.middle", sys.argv[1], example=(8, 16))
	trainer = kind(loops.Net(), loops.arguments("run-" + sys.argv[1][:3], save_steps=5))
	trainer.train(resume_from_checkpoint=True)
	for step, loss in trainer.losses.items():
	    print(step, loss)
PY
inside() { in_root "$root" root "$1"; }
inside 'export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-pip python3-torch python3-torchvision python3-sklearn' >"$tmp/apt.log" 2>&1 ||
	{ tail -n 20 "$tmp/apt.log"; exit 69; }
inside "pip install -q --break-system-packages --no-index --no-deps ${wheel##*/}"
inside 'pip show -f split-middle' >"$tmp/list"
for module in python/split/*.py; do
	grep -q "^  ${module#python/}\$" "$tmp/list" || { echo "test-wheel: the wheel lacks ${module#python/}"; exit 1; }
done
# Of the two libraries' own, none is the system's.
outside=$(inside 'ldd $(pip show -f split-middle | sed -n "s/^Location: //p")/split/libsplit*.so*' | grep '=>' | grep -v split_middle.libs |
	grep -vE '^\s*lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so.* => /' || true)
[ -z "$outside" ] || { printf 'test-wheel: taken from the system:\n%s\n' "$outside"; exit 1; }
"$BUILD/splits" serve configs/server.yaml --set listen=tcp://127.0.0.1:0 --set store="$tmp/store" --set control="$tmp/server.sock" 2>"$tmp/server.log" &
server=$!
until endpoint=$(grep -oE 'tcp://127\.0\.0\.1:[0-9]+' "$tmp/server.log"); do
	kill -0 $server || { cat "$tmp/server.log"; exit 1; }
	sleep 0.1
done
for script in digits pairs trainer; do
	for way in local:states "${endpoint%%$'\n'*}"; do
		again= # the second Trainer goes on from step 10
		[ $script != trainer ] || again="&& python3 trainer.py $way"
		{ inside "python3 $script.py $way $again" || echo "exit status $?"; } 2>"$tmp/errors" | tee "$tmp/out.${way%%:*}"
		[ ! -s "$tmp/errors" ] || { echo "test-wheel: $script.py with $way says:"; cat "$tmp/errors"; exit 1; }
	done
	cmp "$tmp/out.local" "$tmp/out.tcp"
done
[ "$(wc -l <"$tmp/out.tcp")" = 14 ] && [ "$(sort -u "$tmp/out.tcp" | wc -l)" = 12 ] || { echo 'test-wheel: a Trainer that goes on has other losses'; exit 1; }
echo "test-wheel: ${wheel##*/} trains in a clean $suite, with local: and over TCP alike"
