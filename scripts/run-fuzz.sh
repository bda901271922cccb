#!/usr/bin/env bash
# usage: run-fuzz.sh build/fuzz/tests/fuzz/fuzz_x …
# Runs each target for FUZZ_SECONDS on a scratch corpus that starts from the seeds in tests/fuzz/corpus/<x>/. The seeds
# of wire are the golden frames of tests/golden/wire, so they always match the current protocol; those of picture_dicom
# are tests/golden/dicom.
set -eu
cd "$(dirname "$0")/.."

# frames FOLDER: writes the golden headers in the input format of fuzz_wire. Where a frame has a payload, any bytes will
# do.
frames() {
	local hex header payload
	for hex in tests/golden/wire/*.hex; do
		header=$(tr -d '\n' <"$hex")
		payload=''
		case $hex in *Part* | *Hello*) payload=$(printf '%0128d' 0) ;; esac
		printf '%s\n%s%s\n' $((${#header} / 2)) "$header" "$payload" |
			perl -ne 'chomp; print $. == 1 ? pack("v", $_) : pack("H*", $_)' >"$1/$(basename "$hex" .hex)"
	done
}

# scans FOLDER: writes DICOM files behind eight bytes that choose how the target reads them.
scans() {
	local file
	for file in tests/golden/dicom/*.dcm; do
		{ printf '\0\0\377\377\20\20\4\0' && cat "$file"; } >"$1/$(basename "$file" .dcm)"
	done
}

for bin in "$@"; do
	name=$(basename "$bin")
	seeds="tests/fuzz/corpus/${name#fuzz_}"
	grown="build/fuzz/corpus/${name#fuzz_}"
	mkdir -p "$grown" build/fuzz/crashes
	echo "== $name, ${FUZZ_SECONDS:-60} s"
	[ "$name" != fuzz_wire ] || frames "$grown"
	leaks=1
	# DCMTK itself leaks an object of 32 bytes on about one in 600,000 damaged files.
	[ "$name" != fuzz_picture_dicom ] || { scans "$grown" && leaks=0; }
	dirs=("$grown")
	[ ! -d "$seeds" ] || dirs+=("$seeds")
	ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=$leaks "$bin" -max_total_time="${FUZZ_SECONDS:-60}" -max_len="${FUZZ_MAX_LEN:-65536}" -timeout=10 -rss_limit_mb=2048 \
		-print_final_stats=1 -artifact_prefix="build/fuzz/crashes/$name-" "${dirs[@]}" >"build/fuzz/$name.log" 2>&1 || {
		tail -n 60 "build/fuzz/$name.log"
		echo "$name FAILED; input under build/fuzz/crashes/"
		exit 1
	}
	grep -E '^stat::(number_of_executed_units|peak_rss_mb)' "build/fuzz/$name.log"
done
