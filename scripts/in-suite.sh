#!/usr/bin/env bash
# usage: in-suite.sh SUITE COMMAND        (as root, on Debian)
# Runs COMMAND in a Debian of that release, bookworm (Debian 12) or trixie (13), in a copy of this tree with its
# uncommitted changes. build/suites/SUITE keeps the Debian with what COMMAND installed and built, for the next run. The
# tree is in its root/split.
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'in-suite: needs root' >&2; exit 77; }
[ -n "${SPLIT_NO_DEPS:-}" ] || scripts/install-deps.sh --fresh
. scripts/clean-root.sh
root=$PWD/build/suites/$1
mkdir -p build/suites
exec 9>"$root.lock"
flock 9 # one command at a time
trap '[ -z "$started" ] || kill -KILL "$started" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM HUP
if [ ! -d "$root" ]; then
	rm -rf --one-file-system "$root.new"
	new_root "$root.new" "$1"
	mv "$root.new" "$root"
fi

# the last commit, and over it what has changed since
tree=$root/root/split
[ -d "$tree" ] || git clone -q --no-hardlinks --no-checkout . "$tree"
git -C "$tree" fetch -q "$PWD" HEAD
git -C "$tree" checkout -q --force --detach FETCH_HEAD
git -C "$tree" clean -fdq
git ls-files -z --deleted | (cd "$tree" && xargs -0r rm -f)
git ls-files -z --modified --others --exclude-standard |
	tar --null -T - --ignore-failed-read -cf - 2>/dev/null | tar -C "$tree" -xf -
in_root "$root" root "$2"
