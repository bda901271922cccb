#!/usr/bin/env bash
# deploy/slurm/splits.sbatch, with a stand-in for mpirun: a job that died is restarted, one that is told to end passes
# the signal on, and one that a restart cannot help ends: with a missing program or a wrong config. The manifests of
# deploy/kubernetes are complete, and their configs are valid; one with a volume that is not declared is found.
set -eu
cd "$(dirname "$0")/../.."
[ -z "${SAN:-}" ] || { echo 'the same in every build'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin"
fail() { echo "FAILED: $*"; cat "$tmp/out"; exit 1; }
# mpirun_is BODY: makes the stand-in; $tmp/tries gets a line per start.
mpirun_is() {
	rm -f "$tmp/tries"
	printf '#!/bin/sh\necho "$*" >>%s/tries\n%s\n' "$tmp" "$1" >"$tmp/bin/mpirun"
	chmod +x "$tmp/bin/mpirun"
}
# job STATUS TRIES: the script ends with STATUS, after TRIES starts.
job() {
	local rc=0
	PATH=$tmp/bin:$PATH RANKS=2 SPLITS=$splits timeout -k 5 60 deploy/slurm/splits.sbatch "$tmp/config.yaml" >"$tmp/out" 2>&1 || rc=$?
	[ $rc = "$1" ] || fail "status $rc, not $1"
	[ "$(cat "$tmp/tries" 2>/dev/null | wc -l)" = "$2" ] || fail "$(cat "$tmp/tries" 2>/dev/null | wc -l) starts, not $2"
}

splits=$tmp/no-splits
mpirun_is 'exit 134' # what Open MPI says of a program that is missing
job 69 0
grep -q "no program '$splits'" "$tmp/out" || fail 'the missing program is not named'

splits=true
mpirun_is 'exit 78'
job 78 1
mpirun_is "[ \$(wc -l <$tmp/tries) = 2 ] || exit 137"
job 0 2
grep -qx -- "-n 2 true serve $tmp/config.yaml" "$tmp/tries" || fail "started with: $(cat "$tmp/tries")"

mpirun_is "trap 'echo told >>$tmp/tries; exit 143' TERM; kill \$PPID || exit 1; while :; do sleep 0.1; done"
job 143 2
grep -qx told "$tmp/tries" || fail 'mpirun was not told to end'

# ---- Kubernetes
/usr/bin/python3 -c 'import yaml' 2>/dev/null || { echo 'no python3-yaml'; exit 77; }
scripts/check-kubernetes.py
mkdir -p "$tmp/scripts" "$tmp/deploy"
cp scripts/check-kubernetes.py "$tmp/scripts/"
cp -r deploy/kubernetes "$tmp/deploy/"
sed -i 's/name: store, mountPath/name: stare, mountPath/' "$tmp/deploy/kubernetes/base/server.yaml"
BUILD=$PWD/$BUILD "$tmp/scripts/check-kubernetes.py" >"$tmp/out" && { echo 'a volume that is not declared was not found'; exit 1; }
grep -q 'mounts stare, which is not declared' "$tmp/out"
sed -i 's/name: split-server}/name: split-servers}/' "$tmp/deploy/kubernetes/gpu/kustomization.yaml"
BUILD=$PWD/$BUILD "$tmp/scripts/check-kubernetes.py" >"$tmp/out" && { echo 'a patch for nothing was not found'; exit 1; }
grep -q 'split-servers, which is not there' "$tmp/out"
