#!/usr/bin/env bash
# usage: cuda-resources.sh SOURCES USAGE… [PTX…]
# Checks, on a host without a GPU, what the CUDA toolkit reports about the kernels of the CUDA module; `make
# cuda-resources` builds the module and calls this. SOURCES: the folder of the .cu files; NAME.usage: the output of
# `ptxas -v` for one file; NAME.ptx: the PTX of files that must round as the host does. Prints a line per kernel, all
# its template instances together: over all architectures the most registers, the threads for which a multiprocessor
# with 65536 registers then has room, and bytes of static shared memory, of local memory (arrays that registers cannot
# hold) and of spilled registers. Fails if a kernel
#   - spills, or has local memory, of more than 64 bytes: an array that registers should hold, or loops that wait
#   - has more than 48 KiB of shared memory, which every launch would have to ask for
#   - is launched with CU_PLACE_THREADS but not compiled for it: such a launch fails if registers do not suffice
# and if PTX contracts a product and a sum, leaves the rounding to the assembler, approximates, or flushes subnormals.
set -eu
sources=$1
shift
usage=() ptx=() bad=0
for file in "$@"; do
	case $file in *.ptx) ptx+=("$file") ;; *) usage+=("$file") ;; esac
done
[ ${#usage[@]} -gt 0 ] || { echo 'no usage files' >&2; exit 64; }

# Prints a line for the code of each architecture: FILE KERNEL ARCHITECTURE REGISTERS SHARED LOCAL SPILLED
for file in "${usage[@]}"; do
	name=${file##*/}
	awk -v file="${name%%.*}" '
		/Compiling entry function/ {split($0, part, "\047"); kernel = part[2]; arch = substr(part[4], 4); spilled = stack = 0}
		/bytes stack frame/ {stack = $1; spilled = $5 + $9}
		/Used [0-9]+ registers/ {
			shared = 0
			for (i = 2; i <= NF; i++) {if ($i ~ /^registers/) registers = $(i - 1); if ($i ~ /^smem/) shared = $(i - 2)}
			print file, kernel, arch, registers, shared, stack, spilled
		}' "$file"
done | { if command -v c++filt >/dev/null; then c++filt; else cat; fi } |
	sed -E 's/\(anonymous namespace\):://g; s/^([^ ]+) (void )?([A-Za-z0-9_]+)(<.*>)?(\(.*\))? ([0-9]+[a-z]? [0-9]+ [0-9]+ [0-9]+ [0-9]+)$/\1 \3 \6/' |
	awk '
		function most(array, key, value) {if (value + 0 > array[key] + 0) array[key] = value}
		{
			key = $1 " " $2; count[key]++; archs[$3] = 1
			most(registers, key, $4); most(shared, key, $5); most(local, key, $6); most(spilled, key, $7)
			if ($7 > 64 || $6 > 64) fault[++faults] = key ", sm " $3 ": " $6 " bytes of local memory, " $7 " spilled"
			if ($5 > 49152) fault[++faults] = key ", sm " $3 ": " $5 " bytes of shared memory"
		}
		END {
			for (a in archs) {list = list " " a; n++}
			if (NR == 0) {print "no kernels in what ptxas said" > "/dev/stderr"; exit 1}
			printf "%-38s %5s %9s %8s %7s %6s %8s\n", "kernel", "codes", "registers", "threads", "shared", "local", "spilled"
			for (key in count) {
				granted = int((registers[key] + 7) / 8) * 8
				threads = int(2048 / granted) * 32
				line = sprintf("%-38s %5d %9d %8d %7d %6d %8d", key, count[key], registers[key],
					threads < 2048 ? threads : 2048, shared[key], local[key], spilled[key])
				print line | "sort"
			}
			close("sort")
			printf "%d machine codes, %d architectures\n", NR, n
			for (i = 1; i <= faults; i++) print "FAULT " fault[i]
			exit faults > 0
		}' || bad=1

# Newlines are removed, because a launch or a declaration may span several lines.
flat=$(cat "$sources"/*.cu | tr '\n\t' '  ' | tr -s ' ')
while read -r kernel; do
	grep -qE "__global__ void (PLACE_THREADS|__launch_bounds__\([^)]*\)) $kernel\(" <<<"$flat" ||
		{ echo "FAULT $kernel is launched with CU_PLACE_THREADS, and not declared with PLACE_THREADS"; bad=1; }
done < <(grep -oE 'CU_LAUNCH\([a-z_]+, ([^,;]|\([^()]*\))*, CU_PLACE_THREADS,' <<<"$flat" | sed -E 's/CU_LAUNCH\(([a-z_]+),.*/\1/' | sort -u)

for file in ${ptx[@]+"${ptx[@]}"}; do
	grep -q '\.entry' "$file" || { echo "FAULT $file has no kernel"; bad=1; }
	# The assembler may contract an addition without a rounding mode with the product before it.
	found=$(grep -noE '\<(fma|mad)\.[a-z.]*f(32|64)|\<[a-z0-9.]*\.(approx|ftz)\>|\<(add|sub|mul|div|sqrt|rcp)\.f(32|64)' "$file" | head -n 3 | tr '\n' ' ') || true
	[ -z "$found" ] || { echo "FAULT $file: $found"; bad=1; }
done
echo "PTX that rounds as the host does: ${#ptx[@]} files"
exit $bad
