#!/usr/bin/env bash
# Checks every #include against the table of rooms below: which room may include which, and which library
# belongs to one room alone. Also finds a key that the simulator does not try, a `kill` in an end-to-end test
# that hides that its process has ended already, and a script that is not executable.
set -eu -o pipefail
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard '*.sh' '*.py' | while read -r f; do
	[ -x "$f" ] || [ ! -f "$f" ] || ! read -r -n 2 begin <"$f" || [ "$begin" != '#!' ] || echo "$f: it cannot be run: chmod +x"
done | { ! grep . >&2; }
git ls-files --cached --others --exclude-standard 'tests/e2e/*.sh' | while read -r f; do
	[ ! -f "$f" ] || awk -v file="$f" '
		/^[ \t]*#/ {next}
		{
			rest = $0
			while (match(rest, /(^|[;&|{(!)]|then|do|else)[ \t]*kill [^;]*/)) {
				one = substr(rest, RSTART, RLENGTH)
				rest = substr(rest, RSTART + RLENGTH)
				if (one !~ /kill -0 / && one !~ /\|\|/)
					print file ":" FNR ": a bare kill: use end_process, end_client or signal (tests/e2e/lib/daemons.sh)"
			}
		}' "$f"
done | { ! grep . >&2; }
sed -nE 's/^\| `((train|codec|share)\.[a-z0-9_.]+)` .*/\1/p' docs/config.md | while read -r key; do
	grep -q "[\" ]$key=" tests/sim/rows.h || grep -q "^$key " tests/sim/no_row || echo "$key: add a row to tests/sim/rows.h, or say in tests/sim/no_row why none is needed"
done | { ! grep . >&2; }
# each codec has golden bytes with a fuzz target, its row on the page, and a price
sed -nE 's/^SL_STAGE_ROW\(\w+, \w+, (\w+), .*, ([0-9.]+, [0-9.]+), \w+\)$/\1 \2/p' $(git ls-files common/codec/stages.def) </dev/null | while read -r name price; do
	row=$(grep -E "^CODEC_GOLDEN\\(\"[^\"]*\", \"([^\"]*\\|)?$name[\":,|].*, \"[a-z]+\", " tests/support/codec_list.def | sed '1!d; s/[^"]*"//; s/".*//') || true
	[ -f "tests/golden/codec/$row.payload" ] || echo "codec $name: no golden payload with a fuzz target in tests/support/codec_list.def"
	grep -qE "^\\|.*\`$name(:[^\`]*)?\`.* \| (quantizer|transform|bytes) " docs/CODECS.md || echo "codec $name: no row in docs/CODECS.md"
	[ "$price" != '0, 0' ] || grep -q "${name}_ns\b" common/codec/cost.c || echo "codec $name: no price in common/codec/stages.def: see tests/bench/bench_pieces.c"
done | { ! grep . >&2; }
# a golden payload is a seed of the fuzz target that decodes its chain
sed -nE 's/^CODEC_GOLDEN\("([^"]*)", "([^"]*)", "([a-z]+)", ([0-9]+)\)$/\1 \2 \3 \4/p' $(git ls-files tests/support/codec_list.def) </dev/null | while read -r name chain target number; do
	grep -o '"[^"]*"' "tests/fuzz/fuzz_codec_$target.c" | grep -v '/' | sed "$((number + 1))!d" | grep -qxF "\"$chain\"" ||
		echo "tests/support/codec_list.def: $name: chain $number of tests/fuzz/fuzz_codec_$target.c is not $chain"
done | { ! grep . >&2; }
grep -v '^#' tests/sim/planted | while IFS='|' read -r name file _ _ edit; do
	! sed "${edit# }" "$(xargs <<<"$file")" | cmp -s - "$(xargs <<<"$file")" || echo "tests/sim/planted: $name: its text is no longer in$file"
done | { ! grep . >&2; }
git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cu' '*.cuh' | while read -r f; do
	[ ! -f "$f" ] || awk -v file="$f" '
		match($0, /^[ \t]*#[ \t]*include[ \t]*[<"][^>"]+[>"]/) {
			inc = $0; sub(/^[^<"]*[<"]/, "", inc); sub(/[>"].*/, "", inc)
			print file "\t" FNR "\t" inc
		}' "$f"
done | awk -F'\t' '
BEGIN {
	# may[ROOM]: the rooms that its files may include, besides itself
	may["common/base"] = ""
	may["common/conf"] = "common/base"
	may["common/graph"] = "common/base common/conf"
	may["common/exec"] = "common/base common/conf common/graph"
	may["common/weights"] = "common/base common/graph common/exec"
	may["common/codec"] = "common/base common/graph/tensor.h common/exec/backend.h"
	may["common/link"] = "common/base proto"
	may["common/telemetry"] = "common/base common/link/loop.h common/link/control.h common/link/http.h common/link/chain.h" # the status socket, /metrics
	may["common/session"] = "common/base common/conf/agreed.h common/graph common/exec common/weights common/codec common/link common/telemetry"
	may["kernels"] = "common/base common/graph common/exec common/weights common/codec"
	may["client"] = "common kernels client/cmd" # main.c
	may["client/cmd"] = "common kernels client/figures client/step client/setup client/pass client/predict client/train client/align client/leak client/link client/model client/persist client/data client/text"
	may["client/figures"] = "common client/data client/persist"
	may["client/step"] = "common kernels client/model client/persist client/data client/figures"
	may["client/setup"] = "common kernels client/step client/link client/model client/persist client/data"
	may["client/pass"] = "common kernels client/step client/setup client/link client/persist client/data"
	may["client/predict"] = "common client/figures client/step client/setup client/pass client/link client/persist client/data"
	may["client/train"] = "common kernels client/figures client/step client/setup client/pass client/predict client/link client/model client/persist client/data"
	may["client/align"] = "common client/setup client/link client/data"
	may["client/leak"] = "common kernels client/figures client/step client/setup client/pass client/data"
	may["client/link"] = "common"
	may["client/model"] = "common/base common/conf common/graph common/exec common/weights"
	may["client/persist"] = "common kernels client/model"
	may["client/data"] = "common client/text"
	may["client/dicom"] = "client/data/dicom.h"
	may["client/text"] = "common/base"
	may["server"] = "common kernels server/host" # main.c, sub-commands
	may["server/host"] = "common kernels server/group server/trunk server/store"
	may["server/group"] = "common kernels server/trunk"
	may["server/trunk"] = "common kernels server/store"
	may["server/store"] = "common"
	may["server/mpi"] = "common/base server/group/ranks.h"
	may["lib"] = "common kernels client/link lib/local/local.h"
	may["lib/local"] = "common server/host"
	may["tests/ref"] = "common/base common/graph common/exec"
	may["tests"] = "common kernels client server lib proto"
	# home[HEADER]: the only rooms that may include this library header
	home["uv.h"] = home["zmq.h"] = home["protobuf-c/"] = "common/link tests"
	home["sodium.h"] = "common/link tests"
	home["cblas.h"] = home["lapack"] = home["openblas_config.h"] = home["f77blas.h"] = "kernels/cpu tests/bench tests/fuzz"
	home["mpi"] = "server/mpi"
	home["cuda"] = home["cudnn"] = home["cublas"] = home["nccl"] = "kernels/cuda"
	home["pcre2.h"] = home["utf8proc.h"] = "client/text"
	home["jpeglib.h"] = home["jerror.h"] = home["webp/"] = home["tiffio.h"] = home["archive"] = "client/data tests"
	home["zlib.h"] = home["png.h"] = "client/data scripts tests"
	home["yaml.h"] = home["cyaml/"] = "common/conf"
	home["pthread.h"] = home["threads.h"] = "common/base lib server/mpi tests"
}
function room(path,   part, n) {
	n = split(path, part, "/")
	if (part[1] "/" part[2] == "tests/ref") # the yardstick, which takes nothing from what it measures
		return "tests/ref"
	return part[1] ~ /^(common|client|server|lib)$/ && n > 2 ? part[1] "/" part[2] : part[1]
}
# True if `path` is `prefix` or lies in that folder. A prefix without a folder also matches longer names (cuda:
# cuda_runtime.h).
function under(path, prefix) { return path == prefix || index(path, prefix "/") == 1 }
function any(path, list,   word, i, n) {
	n = split(list, word, " ")
	for (i = 1; i <= n; i++)
		if (under(path, word[i]))
			return 1
	return 0
}
function complain(text) { print $1 ":" $2 ": " text > "/dev/stderr"; bad++ }
{
	from = room($1); inc = $3; files[$1] = 1; includes++
	for (lib in home)
		if (index(inc, lib) == 1 && !any($1, home[lib]) && inc !~ /^(common|client|server|kernels)\//)
			complain("<" inc "> has its home in " home[lib] " alone")
	if (inc !~ /^(common|client|server|kernels|lib|proto|tests|deploy|configs)\//) {
		if (inc ~ /\.\.\//) complain("\"" inc "\": write paths from the root")
		next
	}
	if (!(from in may)) { complain("room " from " is not in the table"); next }
	if (under(inc, from) || any(inc, may[from])) {
		if (from == "kernels" && inc ~ /^kernels\// ) {
			split($1, a, "/"); split(inc, b, "/")
			if (a[2] != b[2] && b[3] != "" && a[3] != "")
				complain("kernels/" a[2] " may not include kernels/" b[2])
		}
		next
	}
	complain("room " from " may not include \"" inc "\"")
}
END {
	if (!includes) { print "no sources found: is this a git checkout?" > "/dev/stderr"; exit 1 }
	if (bad) { print bad " wrong includes" > "/dev/stderr"; exit 1 }
	n = 0; for (f in files) n++
	printf "rooms: %d includes in %d files are in order\n", includes, n
}'
