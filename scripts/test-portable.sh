#!/usr/bin/env bash
# usage: test-portable.sh        (make test-portable; as root, on Debian)
# Unpacks the tarball of `make portable` in a clean Debian (SUITE: bookworm) that has none of the libraries. There both
# programs train five steps of the demo's config over TCP; --local gives the same weights.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'test-portable: needs root' >&2; exit 77; }
BUILD=${BUILD:-build/release} suite=${SUITE:-bookworm}
mkdir -p build/fresh
tmp=$(mktemp -d "$PWD/build/fresh/portable.XXXXXX")
. scripts/clean-root.sh
end_all() {
	trap - EXIT
	kill -KILL $started 2>/dev/null || true
	wait
	rm -rf --one-file-system "$tmp"
}
trap end_all EXIT
trap 'exit 130' INT TERM HUP
root=$tmp/root home=$tmp/root/root/split
new_root "$root" "$suite"
BUILD=$BUILD scripts/portable.sh "$tmp/out"
mkdir -p "$home/data/cifar-10-batches-bin"
tar -C "$home" --strip-components=1 -xf "$tmp"/out/split-*.tar.gz
"$BUILD/tests/e2e/tools/make_cifar" "$home/data/cifar-10-batches-bin" 2000 100
inside() { in_root "$root" root "$1"; }
# What the C library does not have comes from the tarball.
outside=$(inside 'ldd bin/*' | grep '=>' | grep -v '/split/' |
	grep -vE '^\s*lib(c|m|dl|rt|pthread|resolv|mvec)\.so.* => /|^\s*libcu(da|dnn|blas)[^ ]* => not found' || true)
[ -z "$outside" ] || { printf 'test-portable: taken from the system, or missing:\n%s\n' "$outside"; exit 1; }
inside 'touch server.log
	bin/splits serve configs/server.yaml --set listen=tcp://127.0.0.1:0 --set store=store 2>server.log &
	until endpoint=$(grep -m 1 -oE "tcp://127\.0\.0\.1:[1-9][0-9]*" server.log); do
		kill -0 $! || { cat server.log; exit 1; }
		sleep 0.1
	done
	for way in "" --local; do
		bin/splitc train configs/client-demo.yaml $way --fresh --set server="$endpoint" --set data.train_files=data_batch_1.bin \
			--set train.max_steps=5 --set train.schedule.warmup_epochs=0 --set log.dir="run$way" >out 2>&1 ||
			{ cat out server.log; exit 1; }
	done
	kill $!
	wait $!
	cmp run/model.safetensors run--local/model.safetensors'
echo "test-portable: both programs train in a clean $suite, over TCP and with --local alike"
