#!/usr/bin/env bash
# DICOM: every file of tests/golden/dicom decodes to pydicom's values. Broken or unsupported files are refused with a
# sentence. A folder of .dcm files works from `splitc data` to predictions. Without the module, an error says what to
# install.
set -eu
cd "$(dirname "$0")/../.."
[ -f "$BUILD/libsplit_dicom.so" ] || { echo "no DCMTK here: scripts/install-deps.sh --dicom"; exit 77; }
. tests/e2e/lib/daemons.sh
files=tests/golden/dicom
decode() { LD_LIBRARY_PATH=$BUILD PICTURE_HOW=$1 "$TOOLS/pictures" decode "$2" >"$tmp/got" 2>"$tmp/err"; }

n=0
for want in "$files"/*.want; do
	how=deep,grey
	case $want in */rgb*) how=deep ;; esac
	decode $how "${want%.want}.dcm" || fail "$want: $(cat "$tmp/err")"
	cmp "$tmp/got" "$want" || fail "${want%.want}.dcm: other values than pydicom's"
	n=$((n + 1))
done
[ $n -ge 17 ] || fail "only $n files"

# refused NAME SENTENCE
refused() {
	local status=0
	decode deep,grey "$files/bad_$1.dcm" || status=$?
	[ $status = 65 ] && [ "$(wc -l <"$tmp/err")" = 1 ] && grep -qF -- "$2" "$tmp/err" || fail "bad_$1: exit status $status, $(cat "$tmp/err")"
	said=$((${said:-0} + 1))
}
refused frames 'it has 3 frames; volumes and films are not read yet'
refused wide '60000 x 60000 pixels are too many: data.max_pixels'
refused empty 'the picture has no pixels (9 x 0)'
refused short 'it ends after 54 of 360 numbers of its pixels'
refused bits '32 bits for each of 1 numbers of a pixel; 8 and 16 of grey are read'
refused high_bit '12 bits up to bit 17 do not fit 16'
refused palette 'it has PALETTE COLOR'
refused samples 'a pixel has 2 numbers; 1 and 3 are read'
refused slope 'rescale slope and intercept are no numbers'
refused window 'a window of width 0 cannot be shown: give data.window'
refused function 'VOI LUT function is CUBIC; LINEAR, LINEAR_EXACT and SIGMOID are read'
refused table 'it has a table in place of a window (VOI LUT Sequence), which is not read yet: give data.window'
refused no_rows 'it has no Rows'
refused no_pixels 'it has no pixels'
refused no_bits 'it has no BitsAllocated'
refused no_colours 'it has no PhotometricInterpretation'
refused deflated 'deflated files are not read yet'
refused nested 'sequences within sequences, more than 32'
refused j2k 'pixels in JPEG 2000 (Lossless only) cannot be decoded'
refused no_preamble 'this is DICOM without the 132 bytes that begin a file: dcmconv FILE OTHER adds them'
for name in cut cut_head only_name length rle; do refused $name 'damaged or cut off'; done
[ "$said" = "$(find $files -name 'bad_*' | wc -l)" ] || fail "$said files are refused"

# a folder of two classes that differ only in the display window
for split in train val; do
	for class in dark light; do
		mkdir -p "$tmp/scans/$split/$class"
		for i in 1 2 3 4; do cp $files/$([ $class = dark ] && echo ct_window || echo xray_inverted).dcm "$tmp/scans/$split/$class/$i.dcm"; done
	done
done
cat >"$tmp/client.yaml" <<-YAML
	model: {network: $PWD/tests/golden/onnx_grey.safetensors}
	data:
	  kind: images
	  dir: $tmp/scans
	  bits: 16
	  transforms: ["Resize((16, 16))", "Normalize(0.5, 0.5)"]
	  test_transforms: ["Resize((16, 16))", "Normalize(0.5, 0.5)"]
	train: {batch: 4, chunks: 2, epochs: 8, seed: 3, optimizer: {kind: adamw, lr: 0.02}}
	threads: 1
YAML
client run "$tmp/client.yaml" --local || fail "train: $(cat "$tmp/run.log")"
mean() { "$SPLITC" data "$tmp/client.yaml" --json "$@" 2>"$tmp/err" | jq '.mean[0] * 1000 | floor'; }
[ "$(mean)" != "$(mean --set data.window='40,4000')" ] || fail 'data.window changes nothing'
"$SPLITC" predict "$tmp/client.yaml" --local --csv --set log.dir="$tmp/run" "$tmp/scans/val" >"$tmp/predicted.csv" 2>"$tmp/err" || fail "predict: $(cat "$tmp/err")"
right=$(awk -F, 'NR > 1 && index($NF, $(NF - 1) "/") {n++} END {print n + 0}' "$tmp/predicted.csv")
[ "$right" = 8 ] || fail "$right of 8 are right: $(cat "$tmp/predicted.csv")"
status=0
"$SPLITC" data "$tmp/client.yaml" --set data.window=40 >"$tmp/out" 2>&1 || status=$?
[ $status = 78 ] && grep -qF 'data.window: must be two numbers, [centre, width]' "$tmp/out" || fail "a window of one number: $status, $(cat "$tmp/out")"

# the same without endings, as a PACS exports them
cp -r "$tmp/scans" "$tmp/pacs"
find "$tmp/pacs" -name '*.dcm' | while read -r file; do mv "$file" "${file%.dcm}"; done
"$SPLITC" data "$tmp/client.yaml" --json 2>"$tmp/err" | jq -c 'del(.samples_s)' >"$tmp/named"
"$SPLITC" data "$tmp/client.yaml" --json --set data.dir="$tmp/pacs" 2>"$tmp/err" | jq -c 'del(.samples_s)' >"$tmp/unnamed"
cmp "$tmp/named" "$tmp/unnamed" && [ "$(jq .train.samples "$tmp/unnamed")" = 8 ] || fail "without endings: $(cat "$tmp/named" "$tmp/unnamed" "$tmp/err")"

# a program whose module is not installed beside it
cp "$SPLITC" "$tmp/splitc"
status=0
"$tmp/splitc" predict "$tmp/client.yaml" --local --set log.dir="$tmp/run" "$tmp/scans/val" >"$tmp/out" 2>&1 || status=$?
[ $status = 69 ] && grep -qF 'install the package split-client-dicom, or build where libdcmtk-dev is' "$tmp/out" || fail "no module: $status, $(cat "$tmp/out")"
# NIfTI
mkdir "$tmp/volumes"
: >"$tmp/volumes/brain.nii"
status=0
"$SPLITC" predict "$tmp/client.yaml" --local --set log.dir="$tmp/run" "$tmp/volumes" >"$tmp/out" 2>&1 || status=$?
[ $status = 65 ] && grep -qF 'NIfTI: volumes, with masks or a class each, are data.kind: volumes' "$tmp/out" || fail "NIfTI: $status, $(cat "$tmp/out")"
echo "$n DICOM files by value, $said refused"
