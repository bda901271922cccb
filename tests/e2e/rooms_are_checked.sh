#!/usr/bin/env bash
# `make rooms` and `make test` must fail on planted faults.
set -eu
root=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
command -v git >/dev/null || { echo 'no git'; exit 77; }
git init -q .
mkdir -p scripts common/base common/graph common/codec client/cmd client/train client/persist client/data server/host server/trunk server/store kernels/cuda kernels/cpu tests/e2e tests/ref tests/sim docs
cp "$root"/scripts/check-rooms.sh "$root"/scripts/check-shell.py "$root"/scripts/run-tests.sh scripts/
touch docs/config.md tests/sim/rows.h tests/sim/no_row
echo 'a fault | scripts/run-tests.sh | - | 1 | s/set -/set +/' >tests/sim/planted

try() { # file, include, 0: in order | 1: refused
	local rc=0
	echo "#include $2" >"$1"
	scripts/check-rooms.sh >out 2>&1 || rc=$?
	[ $rc = "$3" ] || { echo "$1 with $2: exit status $rc"; cat out; exit 1; }
	[ $rc = 0 ] || grep -q "^$1:1: " out || { echo "$1: the place is not named"; cat out; exit 1; }
	rm "$1"
}

try common/base/a.c '"common/base/err.h"' 0
# a key that the simulator leaves out
echo '#include "common/base/err.h"' >common/base/a.c
echo '| `train.new` | `1` | a key |' >docs/config.md
if scripts/check-rooms.sh >out 2>&1 || ! grep -q '^train.new: add a row' out; then echo 'a key without a row'; cat out; exit 1; fi
echo 'ROW("new", "train.new=2", 0)' >tests/sim/rows.h
scripts/check-rooms.sh >out 2>&1 || { echo 'a key with a row'; cat out; exit 1; }
# a planted fault whose text is gone
echo 'gone | scripts/run-tests.sh | - | 1 | s/no such text//' >>tests/sim/planted
if scripts/check-rooms.sh >out 2>&1 || ! grep -q '^tests/sim/planted: gone : its text is no longer' out; then echo 'a plant without its text'; cat out; exit 1; fi
sed -i '$d' tests/sim/planted
rm common/base/a.c
try common/base/a.c '"common/graph/op.h"' 1
try common/graph/a.c '"common/base/err.h"' 0
try common/graph/a.c '<cblas.h>' 1
try common/codec/a.c '"common/graph/tensor.h"' 0
try common/codec/a.c '"common/graph/op.h"' 1
try client/main.c '"client/cmd/command.h"' 0
try client/cmd/a.c '"client/train/drive.h"' 0
try client/train/a.c '"common/graph/op.h"' 0
try client/train/a.c '"server/session.h"' 1
try client/train/a.c '<zmq.h>' 1
try client/train/a.c '"client/cmd/command.h"' 1
try client/persist/a.c '"common/exec/exec.h"' 0
try client/persist/a.c '"client/train/drive.h"' 1
try client/data/a.c '"client/setup/setup.h"' 1
try server/a.c '"client/loop.h"' 1
try server/trunk/a.c '"server/store/store.h"' 0
try server/store/a.c '"server/trunk/trunk.h"' 1
try server/trunk/a.c '"server/host/host.h"' 1
try kernels/cpu/a.c '<cblas.h>' 0
try kernels/cuda/a.c '"kernels/cpu/cpu.h"' 1
try tests/ref/a.c '"common/exec/backend.h"' 0
try tests/ref/a.c '"kernels/cpu/cpu.h"' 1
try kernels/cpu/a.c '<pthread.h>' 1

# script RC TEXT [PHRASE]: a test with this text is accepted (0) or refused (1), with the phrase, and the place of line 2.
echo '#include "common/base/err.h"' >common/base/a.c
script() {
	local rc=0
	printf '%b\ntrue\n' "set -e\n$2" >tests/e2e/a.sh
	{ scripts/check-rooms.sh && scripts/check-shell.py; } >out 2>&1 || rc=$?
	[ $rc = "$1" ] && { [ $rc = 0 ] || grep -q "^tests/e2e/a.sh:2: ${3-its failure does not end}" out; } || { echo "$2: exit status $rc"; cat out; exit 1; }
}
script 0 'end_process "$pid"'
script 0 '# kill -9 "$pid"'
script 0 'kill -0 "$pid" || fail over'
script 0 'kill -9 "$pid" 2>/dev/null || true'
script 1 'kill -9 "$pid"' 'a bare kill'
bare=kill # else it would be found here
script 1 "\t[ \$n = 0 ] || $bare \"\$pid\"" 'a bare kill'
script 1 "stop() { kill -0 \"\$pid\"; $bare -TERM \"\$pid\"; }" 'a bare kill'
for text in '[ A ] && [ B ]' '[ "$(a \\\n")" = 1 ] &&\n\tcmp b c # || fail' 'for a in 1; do ! grep b c; done' 'case a in b) c=1 && shift ;; esac'; do script 1 "$text"; done
script 0 'cat <<E\na && b\nE'
script 0 'f() {\n[ A ] && [ B ]\n}\ng() { a && b; }'
script 0 'while [ A ] && [ B ]; do\n[ A ] && [ B ] || fail c\ngrep a b && fail c\ndone'
script 0 'a="b && c" e=$(f && g)\n[[ a && b ]] # c && d'
rm tests/e2e/a.sh common/base/a.c
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
# Newer releases of cmocka name the group in their headings: no heading is a case.
for heading in '' 'tests: '; do
	printf '#!/bin/sh\ncat <<END\n[==========] %sRunning 4 test(s).\n[       OK ] a\n[  SKIPPED ] b\n[  FAILED  ] c\n[==========] %s4 test(s) run.\n' "$heading" "$heading" >cases
	printf '[  PASSED  ] 1 test(s).\n[  SKIPPED ] %s1 test(s), listed below:\n[  SKIPPED ] b\n[  FAILED  ] %s1 test(s), listed below:\n[  FAILED  ] c\nEND\nexit 1\n' "$heading" "$heading" >>cases
	chmod +x cases
	tally '1 passed, 1 failed, 1 skipped' 1 ./cases
	[ "$(grep -c '^SKIP' out)" = 1 ] || { echo 'a heading is listed'; cat out; exit 1; }
done
tally '0 passed, 1 failed, 0 skipped' 1

# ---- scripts/house.py: what is above a rule of the house, or above scripts/limits
mkdir house
cd house
git init -q .
mkdir -p scripts docs client/train tests/unit python/split
cp "$root"/scripts/house.py scripts/
printf '# Map\n' >docs/MAP.md
printf '%s\n' 'function_lines 80' 'functions_above_80 0' 'file_lines 600' 'circle_files 3' 'rooms_in_circles 0' 'header_functions 25' \
	'headers_above_25 0' 'struct_booleans 8' 'structs_above_8 0' 'map_row_characters 200' >scripts/limits
git add .; git -c user.name=a -c user.email=a@b commit -qm base

# gate RC PHRASE: the gate ends with this status, and says PHRASE if it refuses. The tree is then as before.
gate() {
	local rc=0
	scripts/house.py --gate >out 2>&1 || rc=$?
	[ $rc = "$1" ] && { [ $rc = 0 ] || grep -q "${2-}" out; } || { echo "house: '${2-}': exit status $rc"; cat out; exit 1; }
	rm out
	git checkout -q . && git clean -qfd && mkdir -p client/train tests/unit python/split
}
circle() { # TYPE: four files that call each other by functions of this type
	local at=(a b c d a)
	for i in 0 1 2 3; do printf '%s sl_%s(void)\n{\n\treturn sl_%s();\n}\n' "$1" "${at[i]}" "${at[i + 1]}" >client/train/"${at[i]}".c; done
}
lines() { seq -f "$1" "$2"; }

named() { printf 'int sl_use(void)\n{\n\treturn sl_%s();\n}\n' "$1" >client/main.c; } # a file that names it
gate 0
circle int; gate 1 '^circle_files: 4, and'
circle 'enum sl_err'; gate 1 '^circle_files: 4, and'
circle int; printf 'const struct x sl_d = {sl_a};\n' >client/train/d.c; sed -i 's/sl_d()/sl_d.f()/' client/train/c.c
gate 1 '^circle_files: 4, and' # through a table
lines 'enum sl_err sl_f%g(void);' 26 >client/train/a.h; gate 1 '^header_functions: 26, and'
lines 'int sl_f%g(void);' 26 >client/train/a.h; gate 1 '^headers_above_25: 1, and'
lines 'int sl_f%g(void);' 25 >client/train/a.h; gate 0
lines 'static inline int sl_f%g(void) { return 0; }' 26 >client/train/a.h; gate 1 '^header_functions: 26, and'
{ echo 'struct sl_x {'; lines '	bool f%g;' 9; echo '};'; } >client/train/a.h; gate 1 '^struct_booleans: 9, and'
{ echo 'struct sl_x {'; lines '	bool f%g;' 9; echo '};'; } >client/train/a.h; gate 1 '^structs_above_8: 1, and'
lines '/* %g */' 601 >client/train/a.h; gate 1 '^file_lines: 601, and'
{ echo 'int sl_long(void)'; echo '{'; lines '	f(%g);' 79; echo '}'; } >client/train/a.c; named long; gate 1 '^function_lines: 82, and'
{ echo 'int sl_long(void)'; echo '{'; lines '	f(%g);' 77; echo '}'; } >client/train/a.c; named long; gate 0
echo "| $(lines 'word%g' 60 | tr '\n' ' ') |" >docs/MAP.md; gate 1 '^map_row_characters: '
# rooms that include each other, though the table of rooms may allow both
mkdir -p client/step; echo '#include "client/step/b.h"' >client/train/a.h; echo '#include "client/train/a.h"' >client/step/b.h; gate 1 '^rooms_in_circles: 2, and'
mkdir -p client/step; echo '#include "client/step/b.h"' >client/train/a.h; echo 'int sl_b(void);' >client/step/b.h; gate 0
# a file that nothing uses
echo 'int sl_zzz;' >client/train/act.c; gate 1 '^client/train/act.c: no other source names'
echo 'int sl_zzz;' >client/train/act.c; named zzz; gate 0
printf '#define ROW(x) &sl_row_##x,\nROW(zzz)\n' >client/train/table.h; echo 'const int sl_row_zzz = 1;' >client/train/act.c; gate 0 # a table's row names it
echo 'static int a;' >client/train/act.c; gate 1 '^client/train/act.c: no other source names'
sed -i 's/file_lines 600/file_lines 700/' scripts/limits; gate 1 'its limit rises from 600 to 700'
echo 'product 40' >>scripts/limits; gate 1 '^product: scripts/limits has it, and nothing measures it'
