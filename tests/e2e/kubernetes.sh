#!/usr/bin/env bash
# The manifests of deploy/kubernetes are complete, and their configs are valid (scripts/check-kubernetes.py). A planted
# manifest with an undeclared volume is detected.
set -eu
cd "$(dirname "$0")/../.."
/usr/bin/python3 -c 'import yaml' 2>/dev/null || { echo 'no python3-yaml'; exit 77; }
scripts/check-kubernetes.py
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/scripts" "$tmp/deploy"
cp scripts/check-kubernetes.py "$tmp/scripts/"
cp -r deploy/kubernetes "$tmp/deploy/"
sed -i 's/name: store, mountPath/name: stare, mountPath/' "$tmp/deploy/kubernetes/base/server.yaml"
BUILD=$PWD/$BUILD "$tmp/scripts/check-kubernetes.py" >"$tmp/out" && { echo 'a volume that is not declared was not found'; exit 1; }
grep -q 'mounts stare, which is not declared' "$tmp/out"
