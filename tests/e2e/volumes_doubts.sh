#!/usr/bin/env bash
# Volumes with a class each: what is missing or doubtful about cases is said. A case that cannot be predicted is named, the
# others go on, and the status is not 0; over a link, too. Files that are no cases, rows of no part, cases that data.size
# cuts off or that hold nothing; one image in two cases, a patient in both parts, and prepared cases with other bytes.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/volumes.sh
live classes "$tmp"
start_server one threads=2
class_config "batch: 4, epochs: 1, max_steps: 3, checkpoint_every: 0"
says() { grep -qF -- "$2" "$1" || fail "no $2: $(cat "$1")"; }
silent() { [ "$(grep -cF -- "$2" "$1")" = 0 ] || fail "$2: $(cat "$1")"; }
client run "$config" --local || fail "run: exit status $?"
for id in passed-over rows-of-no-part cut-off small-case placed-twice unplaced same-images rows-repeat cache-damaged; do silent "$tmp/run.log" "WARN $id"; done

# ---- predict goes on; whole cases may lie in folders below
test=$tmp/sorted/test/ball
mkdir -p "$tmp/given/below"
for name in a c below/d; do cp "$test/c00.nii.gz" "$tmp/given/$name.nii.gz"; done
head -c 5000 "$test/c01.nii.gz" >"$tmp/given/b.nii.gz"
predict() { # STATUS ARGUMENT…
	local rc=0
	"$SPLITC" predict "$config" --set log.dir="$tmp/run" "${@:2}" >"$tmp/out" 2>"$tmp/err" || rc=$?
	[ $rc = "$1" ] || fail "predict ${*:2}: exit status $rc, not $1: $(cat "$tmp/out" "$tmp/err")"
}
for where in --local ''; do
	predict 65 --json ${where:+"$where"} "$tmp/given"
	says "$tmp/err" "WARN not-predicted: case $tmp/given/b: "
	says "$tmp/err" '1 of 4 cases have no prediction; the first: '
	jq -s -e 'map(.class != null) == [true, false, true, true] and .[1].error == "DATA" and .[1].sample == 1 and (.[1].name | endswith("given/b")) and
		(.[1].message | contains("ends before its last voxel")) and (map(select(.class).probabilities) | unique | length) == 1' "$tmp/out" >"$tmp/jq" || fail "JSON: $(cat "$tmp/out")"
done
predict 65 --local --csv --out "$tmp/some.csv" "$tmp/given"
[ "$(cut -d, -f1 "$tmp/some.csv" | tr '\n' ' ')" = 'sample 0 2 3 ' ] || fail "CSV: $(cat "$tmp/some.csv")"
predict 66 --local "$tmp/given/a.nii.gz" "$tmp/given/none.nii.gz"
says "$tmp/out" given/a
predict 65 --local "$tmp/given/b.nii.gz"
predict 0 --local "$tmp/given/below"

# ---- a case that tells nothing, or that data.size reads little of
cp "$test/c00.nii.gz" "$tmp/one.nii.gz"
live change one "$tmp/one.nii.gz"
predict 65 --local "$tmp/one.nii.gz"
says "$tmp/err" 'prepared voxels have one number, and tell a network nothing'
cp "$test/c00.nii.gz" "$tmp/tiny.nii.gz"
live change tiny "$tmp/tiny.nii.gz"
predict 0 --local "$tmp/tiny.nii.gz"
says "$tmp/err" 'WARN small-case: 1 of 1 case fills less than 1/64 of data.size'
predict 0 --local --set data.spacing=0.5,0.5,0.5 "$test/c00.nii.gz"
says "$tmp/err" 'WARN cut-off: data.size reads less than half of the voxels of 1 of 1 case: '
client wide "$config" --local --set data.spacing=0.5,0.5,0.5 --set data.cache= || fail "wide: exit status $?"
says "$tmp/wide.log" 'half of the voxels of 60 of 60 cases: '
says "$tmp/wide.log" 'half of the voxels of 24 of 24 cases: '

# ---- an affine that is doubtful is said in each run, also of cases that are prepared
cp -r "$tmp/sorted" "$tmp/odd"
live change mirrored "$tmp/odd/train/ball/c00.nii.gz"
live change unplaced "$tmp/odd/train/ball/c01.nii.gz"
for k in 1 2; do
	client "odd$k" "$config" --local --set data.dir="$tmp/odd" --set data.cache="$tmp/odd-cache" || fail "odd: exit status $?"
	says "$tmp/odd$k.log" "WARN placed-twice: $tmp/odd/train/ball/c00.nii.gz: "
	says "$tmp/odd$k.log" "WARN unplaced: $tmp/odd/train/ball/c01.nii.gz: "
done

# ---- files that are no cases
over() { # NAME
	refused 0 'WARN passed-over: 1 file beside the cases is not read, such as '"$tmp/odd/train/ball/$1" --set data.dir="$tmp/odd"
	rm -r "$tmp/odd/train/ball/$1"
}
refused 0 ok --set data.dir="$tmp/odd"
silent "$tmp/refused.log" passed-over
for name in x.NII.GZ x.mgz x.nrrd; do
	echo none >"$tmp/odd/train/ball/$name"
	over "$name"
done
ln -s nowhere "$tmp/odd/train/ball/x.nii.gz"
over x.nii.gz
mkfifo "$tmp/odd/train/ball/x.nii"
over x.nii
mkdir "$tmp/odd/train/ball/x.nii.gz"
over x.nii.gz

# ---- rows of a table: of no part; of a file without compression
mkdir "$tmp/table"
cp -r "$tmp/odd/train" "$tmp/odd/test" "$tmp/table"
gzip -dc "$test/c00.nii.gz" >"$tmp/table/train/ball/plain.nii"
cp "$test/c00.nii.gz" "$tmp/table/stray.nii.gz"
{ echo case,kind && (cd "$tmp/table" && find train test -name '*.nii*' | sort | awk -F/ '{print $0 "," $2}') && echo stray,ball; } >"$tmp/table.csv"
table=(--set data.dir="$tmp/table" --set data.labels="$tmp/table.csv" --set data.label_id=case --set data.label=kind)
refused 0 'WARN rows-of-no-part: '"$tmp/table.csv"': rows whose case lies in no folder of a part, such as train or val: 1, such as "stray"' "${table[@]}"
says "$tmp/refused.log" 'ok, 3 steps on 61 samples, 24 samples'
silent "$tmp/refused.log" without
says "$tmp/refused.log" 'case         '

# ---- a case that is named twice has two lines, as pictures have
predict 0 --local --json "$tmp/given/a.nii.gz" "$tmp/given/c.nii.gz" "$tmp/given/a.nii.gz"
jq -s -e 'map(.sample) == [0, 1, 2] and (map(.name | split("/")[-1]) == ["a", "a", "c"]) and (map(.probabilities) | unique | length) == 1' "$tmp/out" >"$tmp/jq" || fail "twice: $(cat "$tmp/out")"

# ---- the test part, without FILE: a bad case stops no other, as long as no figure is of fewer cases
predict 0 --local --json
cp "$tmp/out" "$tmp/all"
cp -r "$tmp/sorted" "$tmp/broken"
head -c 5000 "$test/c01.nii.gz" >"$tmp/broken/test/ball/c01.nii.gz"
for where in --local ''; do
	predict 65 --json ${where:+"$where"} --set data.dir="$tmp/broken" --set data.cache="$tmp/broken-cache"
	says "$tmp/err" "WARN not-predicted: case $tmp/broken/test/ball/c01: "
	says "$tmp/err" '1 of 24 cases have no prediction; the first: '
	jq -s -e --slurpfile all "$tmp/all" 'map(.probabilities) == ($all | map(.probabilities) | .[1] = null) and .[1].error == "DATA" and (map(.label) | del(.[1])) == ($all | map(.label) | del(.[1]))' "$tmp/out" >"$tmp/jq" ||
		fail "the test part: $(cat "$tmp/out")"
done
command=eval refusing=--local refused 65 'broken/test/ball/c01.nii.gz: the file ends before its last voxel' --set data.dir="$tmp/broken" --set data.cache="$tmp/broken-cache" --set log.dir="$tmp/run"

# ---- prepared cases with other bytes are prepared again
losses() { jq -c 'select(.type == "step") | .loss' "$tmp/$1/log.jsonl"; }
rot() { # FILE: one bit of a voxel
	printf '\x7e' | dd of="$1" bs=1 seek=20001 conv=notrunc status=none
}
rot "$tmp/cache/test-ball/c00.vol"
predict 0 --local --json
says "$tmp/err" "WARN cache-damaged: $tmp/sorted/test/ball/c00: its prepared file in data.cache has other bytes than were written, so the case is prepared again"
jq -c .probabilities "$tmp/all" >"$tmp/before"
jq -c .probabilities "$tmp/out" | cmp - "$tmp/before" || fail 'predict used a damaged case'
for file in "$tmp"/cache/train-*/*.vol; do rot "$file"; done
client rotten "$config" --local || fail "rotten: exit status $?"
grep -q '^WARN cache-damaged: ' "$tmp/rotten.log" || fail "rotten: $(cat "$tmp/rotten.log")"
[ "$(losses rotten)" = "$(losses run)" ] || fail "damaged cases trained: $(losses rotten), not $(losses run)"
client mended "$config" --local || fail "mended: exit status $?"
silent "$tmp/mended.log" cache-damaged

# ---- one image in two cases
cp -r "$tmp/sorted" "$tmp/same-image"
same=(--set data.dir="$tmp/same-image" --set data.cache="$tmp/same-cache")
gzip -dc "$tmp/sorted/train/ball/c00.nii.gz" >"$tmp/same-image/train/shell/x.nii"
cp "$tmp/sorted/train/ball/c00.nii.gz" "$tmp/same-image/train/ball/y.nii.gz"
client pair "$config" --local "${same[@]}" || fail "pair: exit status $?"
pair='WARN same-images: '"$tmp/same-image/train: 2 of 62 cases have the images of another case, 1 of them with another class, such as $tmp/same-image/train/ball/c00 and $tmp/same-image/train/shell/x: "
says "$tmp/pair.log" "$pair"
[ "$(grep -c "^WARN same-images" "$tmp/pair.log")" = 1 ] || fail "pair: $(cat "$tmp/pair.log")"
refused 0 "$pair" "${same[@]}"
command=data refusing='' refused 0 "$pair" "${same[@]}"
refused 0 "$pair" "${same[@]}" --set data.split.train=0.5 --set data.split.val=0.5

# ---- a patient in both parts, without data.split
for k in 00 01 02 03 04 05 06; do
	for kind in ball shell tube; do
		mkdir -p "$tmp/patients/train/$kind" "$tmp/patients/test/$kind"
		ln -s "$tmp/sorted/train/$kind/c$k.nii.gz" "$tmp/patients/train/$kind/$kind$k-1.nii.gz"
		ln -s "$tmp/sorted/test/$kind/c$k.nii.gz" "$tmp/patients/test/$kind/$kind$k-2.nii.gz"
	done
done
ln -s "$test/c07.nii.gz" "$tmp/patients/test/ball/nobody.nii.gz"
client patients "$config" --local --set data.dir="$tmp/patients" --set data.cache="$tmp/patients-cache" || fail "patients: exit status $?"
says "$tmp/patients.log" 'WARN rows-repeat: the names of 21 of 21 cases of the evaluation begin, before their last number, as names of training do'
for part in train test; do (cd "$tmp/patients/$part" && for file in */*-?.nii.gz; do mv "$file" "$(dirname "$file")/case_$(basename "$file" | tr -dc '0-9' | cut -c1-2).nii.gz"; done); done
client numbered "$config" --local --set data.dir="$tmp/patients" --set data.cache="$tmp/patients-cache" || fail "numbered: exit status $?"
silent "$tmp/numbered.log" rows-repeat

# ---- voxels that are no single numbers are found in the header
for how in rgb:128 complex:32; do
	cp "$tmp/sorted/train/ball/c02.nii.gz" "$tmp/broken/train/ball"
	live change "${how%:*}" "$tmp/broken/train/ball/c02.nii.gz"
	refused 65 "broken/train/ball/c02.nii.gz: its voxels are of datatype ${how#*:}, which is not read" --set data.dir="$tmp/broken"
done

# ---- members whose cases are prepared in other ways
group=(--set share.group=ways --set share.clients=2 --set share.mode=rounds --set train.max_steps=15)
start_client ways-0 "$config" "${group[@]}" --set share.member=0
first=$client_pid
rc=0
client ways-1 "$config" "${group[@]}" --set share.member=1 --set data.spacing=2,2,2 --set data.cache="$tmp/ways-cache" || rc=$?
[ $rc = 78 ] && grep -q 'data.spacing, data.axes and data.intensity' "$tmp/ways-1.log" || fail "another data.spacing: exit status $rc, $(cat "$tmp/ways-1.log")"
end_process "$first"
echo 'volumes_doubts: ok'
