#!/usr/bin/env bash
# scripts/fetch-cifar10.sh with an archive of the real files ($SPLIT_DATA or ./data; skipped without them): unpacks,
# verifies, leaves a complete folder alone, and repairs a damaged one.
set -eu
cd "$(dirname "$0")/../.."
real=${SPLIT_DATA:-./data}/cifar-10-batches-bin
[ -f "$real/test_batch.bin" ] || { echo "no CIFAR-10 in $real"; exit 77; }
command -v curl >/dev/null || { echo 'no curl'; exit 77; }
tmp=$(mktemp -d "${TMPDIR:-/tmp}/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin"
printf '#!/bin/sh\nexit 1\n' >"$tmp/bin/npm"
chmod +x "$tmp/bin/npm"
export PATH="$tmp/bin:$PATH" CIFAR10_URL="file://$tmp/archive.tar"
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
