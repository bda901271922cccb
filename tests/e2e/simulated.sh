#!/usr/bin/env bash
# The pair in one process, under faults that seeds draw (tests/sim/sim.h): kills, power cuts, full disks, lost messages.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
[ -z "${SAN:-}" ] || { echo 'simulated processes change stacks, which sanitizers do not follow'; exit 77; }
seeds=1500
[ -z "${SPLIT_QUICK:-}" ] || seeds=300
[ -z "${SPLIT_LONG:-}" ] || seeds=100000
"$BUILD/tests/sim/sim" --seeds $seeds
