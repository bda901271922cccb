#!/usr/bin/env bash
# scripts/slow-targets.sh: which targets are next, what is recorded of those that pass, and that it fails if one fails.
set -eu
root=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
fail() { echo "$*"; cat out; exit 1; }
mkdir -p scripts docs/results
cp "$root/scripts/slow-targets.sh" scripts/
cat >docs/results/slow-targets.md <<'PAGE'
| name | command | minutes | passed at commit | when |
|---|---|---|---|---|
| new | `true` | 3 | abc | 2026-11-02 10:00 |
| old | `echo a/b \| cat` | 5 | abc | 2026-11-01 10:00 |
| bad | `sh -c 'echo broken; exit 3'` | 2 | abc | 2026-11-03 10:00 |
PAGE
sed -i 's/ \\|/;/' docs/results/slow-targets.md
echo build >.gitignore
git init -q .
git add -A
git -c user.name=t -c user.email=t@example.org commit -qm tree

try() { # STATUS LINE ARGUMENT…: ends with it; its last line
	local rc=0 status=$1 line=$2
	shift 2
	scripts/slow-targets.sh "$@" >out 2>&1 || rc=$?
	[ $rc = "$status" ] && grep -qE "^slow-targets: $line\$" <(tail -n 1 out) || fail "slow-targets.sh $*: exit status $rc, not $status with: $line"
}
# The target that passed longest ago always runs, even if it takes too long; of the others only as many as fit.
try 0 'echo a/b; cat: passed, [0-9]+ s' --minutes 4
try 0 'true: passed, [0-9]+ s' --minutes 9
[ "$(grep -c passed out)" = 2 ] || fail '9 minutes have room for two'
try 1 'FAILED: .*, status 3 after .*' --minutes 10
grep -qx broken out || fail 'what a target said is not shown'
try 64 'no target none .*' none
git diff --quiet || fail 'the page changed without --record'
# A target that passed becomes the newest; a failed one keeps its line.
try 1 'FAILED: .*' --record old bad
git diff --numstat | grep -qP '^1\t1\t' || fail 'not one line of the page changed'
grep -qE "^\| old \| \`echo a/b; cat\` \| 1 \| $(git rev-parse --short=9 HEAD) \| 20[-0-9]+ [0-9:]{5} \|\$" docs/results/slow-targets.md ||
	fail "$(cat docs/results/slow-targets.md)"
try 0 'true: passed, [0-9]+ s' --minutes 1
# Uncommitted changes are not part of the recorded commit.
touch scripts/x && git add scripts/x
try 0 'the tree is not that of commit .*: not recorded' --record new
