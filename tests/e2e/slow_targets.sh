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
# The only commit begins with the second line of the page; what does not fit is left out.
try 0 'no target fits into 1 minutes' --minutes 1
try 1 'FAILED: .*, status 3 after .*' --minutes 4
[ "$(grep -cE 'passed|FAILED' out)" = 1 ] || fail '4 minutes have room for one'
grep -qx broken out || fail 'what a target said is not shown'
try 1 'true: passed, [0-9]+ s' --minutes 10
[ "$(grep -cE 'passed|FAILED' out)" = 3 ] || fail '10 minutes have room for all'
for next in second third; do git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m $next; done
try 0 'true: passed, [0-9]+ s' --minutes 3 --record
git checkout -q .
try 64 'no target none .*' none
git diff --quiet || fail 'the page changed without --record'
# A target that passed becomes the newest; a failed one keeps its line.
try 1 'FAILED: .*' --record old bad
git diff --numstat | grep -qP '^1\t1\t' || fail 'not one line of the page changed'
grep -qE "^\| old \| \`echo a/b; cat\` \| 1 \| $(git rev-parse --short=9 HEAD) \| 20[-0-9]+ [0-9:]{5} \|\$" docs/results/slow-targets.md ||
	fail "$(cat docs/results/slow-targets.md)"
try 0 'true: passed, [0-9]+ s' new
# Uncommitted changes are not part of the recorded commit.
touch scripts/x; git add scripts/x
try 0 'the tree is not that of commit .*: not recorded' --record new
