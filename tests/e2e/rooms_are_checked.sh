#!/usr/bin/env bash
# `make rooms` and `make test` must fail on planted faults.
set -eu
root=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
command -v git >/dev/null || { echo 'no git'; exit 77; }
git init -q .
mkdir -p scripts common/base common/graph common/codec client/cmd client/run client/persist client/data server/host server/trunk server/store kernels/cuda kernels/cpu tests/e2e tests/ref
cp "$root"/scripts/check-rooms.sh "$root"/scripts/run-tests.sh scripts/

try() { # file, include, 0: in order | 1: refused
	local rc=0
	echo "#include $2" >"$1"
	scripts/check-rooms.sh >out 2>&1 || rc=$?
	[ $rc = "$3" ] || { echo "$1 with $2: exit status $rc"; cat out; exit 1; }
	[ $rc = 0 ] || grep -q "^$1:1: " out || { echo "$1: the place is not named"; cat out; exit 1; }
	rm "$1"
}

try common/base/a.c '"common/base/err.h"' 0
try common/base/a.c '"common/graph/op.h"' 1
try common/graph/a.c '"common/base/err.h"' 0
try common/graph/a.c '<cblas.h>' 1
try common/codec/a.c '"common/graph/tensor.h"' 0
try common/codec/a.c '"common/graph/op.h"' 1
try client/main.c '"client/cmd/command.h"' 0
try client/cmd/a.c '"client/run/drive.h"' 0
try client/run/a.c '"common/graph/op.h"' 0
try client/run/a.c '"server/session.h"' 1
try client/run/a.c '<zmq.h>' 1
try client/run/a.c '"client/cmd/command.h"' 1
try client/persist/a.c '"common/exec/exec.h"' 0
try client/persist/a.c '"client/run/drive.h"' 1
try client/data/a.c '"client/run/setup.h"' 1
try server/a.c '"client/loop.h"' 1
try server/trunk/a.c '"server/store/store.h"' 0
try server/store/a.c '"server/trunk/trunk.h"' 1
try server/trunk/a.c '"server/host/host.h"' 1
try kernels/cpu/a.c '<cblas.h>' 0
try kernels/cuda/a.c '"kernels/cpu/cpu.h"' 1
try tests/ref/a.c '"common/exec/backend.h"' 0
try tests/ref/a.c '"kernels/cpu/cpu.h"' 1
try kernels/cpu/a.c '<pthread.h>' 1

# kills LINE RC: an end-to-end test with LINE is accepted (0) or refused (1).
kills() {
	local rc=0
	echo "$1" >tests/e2e/a.sh
	echo '#include "common/base/err.h"' >common/base/a.c
	scripts/check-rooms.sh >out 2>&1 || rc=$?
	[ $rc = "$2" ] || { echo "$1: exit status $rc"; cat out; exit 1; }
	[ $rc = 0 ] || grep -q '^tests/e2e/a.sh:1: a bare kill' out || { echo "$1: the place is not named"; cat out; exit 1; }
	rm tests/e2e/a.sh common/base/a.c
}
kills 'end_process "$pid"' 0
kills '# kill -9 "$pid"' 0
kills 'kill -0 "$pid" || fail over' 0
kills 'kill -9 "$pid" 2>/dev/null || true' 0
kills 'kill -9 "$pid"' 1
bare=kill # else it would be found here
kills "	[ \$n = 0 ] || $bare \"\$pid\"" 1
kills "stop() { kill -0 \"\$pid\"; $bare -TERM \"\$pid\"; }" 1
if scripts/check-rooms.sh >out 2>&1; then echo 'nothing to check, and no complaint'; exit 1; fi

printf '#!/bin/sh\nexit 0\n' >good.sh
printf '#!/bin/sh\nexit 77\n' >skipped.sh
printf '#!/bin/sh\nexit 3\n' >bad.sh
printf '#!/bin/sh\nexit 0\n' >empty # a program, in which no case ran
chmod +x good.sh skipped.sh bad.sh empty
tally() { # expected last line, expected status, programs …
	local rc=0 line=$1 status=$2
	shift 2
	scripts/run-tests.sh "$@" >out 2>&1 || rc=$?
	[ $rc = "$status" ] && [ "$(tail -n 1 out)" = "$line" ] || { echo "$*: exit status $rc"; cat out; exit 1; }
}
tally '1 passed, 0 failed, 1 skipped' 0 ./good.sh ./skipped.sh
tally '1 passed, 1 failed, 0 skipped' 1 ./good.sh ./bad.sh
tally '0 passed, 1 failed, 0 skipped' 1 ./empty
tally '0 passed, 1 failed, 0 skipped' 1
