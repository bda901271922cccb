#!/usr/bin/env bash
# The pair in one process, under faults that seeds draw (tests/sim/sim.h): kills, power cuts, full disks, lost messages.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
[ -z "${SAN:-}" ] || { echo 'simulated processes change stacks, which sanitizers do not follow'; exit 77; }
"$BUILD/tests/sim/sim" --seeds 200
# Sites whose networks fail for hours: each gets what share.least says (docs/results/groups.md).
"$BUILD/tests/sim/sim" --days 1 --first 7 --seeds 1 | tee /dev/stderr | awk -F'|' '/least: / { n++; sub(/.*least: /, "", $2); bad += $4 + 0.05 < 100 * $2 } END { exit bad || n != 6 }'
"$BUILD/tests/sim/sim" --seeds 100 --faults 6 --kinds FULL,KILL_DISK,CUT,TERM # more of what one full disk leads to
[ -z "${SPLIT_LONG:-}" ] || "$BUILD/tests/sim/sim" --first 301 --seeds 100000
