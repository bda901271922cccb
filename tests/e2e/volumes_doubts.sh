#!/usr/bin/env bash
# Volumes with a class each: what is missing or doubtful about cases is said. A case that cannot be predicted is named, the
# others go on, and the status is not 0; over a link, too. Files that are no cases, rows of no part, cases that data.size
# cuts off or that hold nothing.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/volumes.sh
live classes "$tmp"
start_server one threads=2
cat >"$tmp/client.yaml" <<-YAML
	server: $endpoint
	model: {network: $tmp/classes.safetensors}
	head_end: e0
	tail_begin: pool
	data:
	  {kind: volumes, dir: $tmp/sorted, size: [18, 20, 20], spacing: [2, 1.8, 1.8], intensity: "ct:-100,250", cache: $tmp/cache}
	train: {batch: 4, epochs: 1, max_steps: 3, checkpoint_every: 0, optimizer: {kind: adamw, lr: 0.01}}
	threads: 2
YAML
config=$tmp/client.yaml
says() { grep -qF -- "$2" "$1" || fail "no $2: $(cat "$1")"; }
silent() { [ "$(grep -cF -- "$2" "$1")" = 0 ] || fail "$2: $(cat "$1")"; }
client run "$config" --local || fail "run: exit status $?"
for id in passed-over rows-of-no-part cut-off small-case placed-twice unplaced; do silent "$tmp/run.log" "WARN $id"; done

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
echo 'volumes_doubts: ok'
