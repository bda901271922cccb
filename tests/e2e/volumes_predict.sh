#!/usr/bin/env bash
# Masks of volumes: on each file's own grid, as numpy and torch make them of windows, for a U-Net, a threshold and a constant
# network, with other spacings, and for cases smaller than a patch. A server gives the bytes of --local. A case that cannot
# be read is named, and the others go on. A predict that is killed leaves whole masks alone. It takes less memory than training.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/volumes.sh
live make "$tmp"
start_server one
for name in ct mri; do
	[ $name = ct ] && intensity=ct:-100,250 || intensity=mri
	cat >"$tmp/$name.yaml" <<-YAML
		server: $endpoint
		model: {network: $tmp/$name.safetensors, task: pixels}
		head_end: e0
		tail_begin: u0
		data: {kind: volumes, dir: $tmp/$name, label: [back, ball, shell, tube], patch: [16, 16, 16], spacing: [1.5, 1.5, 1.5], intensity: "$intensity", cache: $tmp/cache}
		train: {batch: 3, chunks: 2}
		threads: 2
		log: {dir: ""}
	YAML
done
predict() { # OUT [argument]…
	timeout -k 5 $patience "$SPLITC" predict "$tmp/ct.yaml" --out "$tmp/$1" "${@:2}" >"$tmp/$1.lines" 2>"$tmp/$1.log"
}
masks() { # OUT NETWORK SPACING [argument]…
	predict "$1" --local --set model.network="$tmp/$2.safetensors" --set data.spacing="$3" "${@:4}" || fail "$1: $(cat "$tmp/$1.log")"
	live predicted "$tmp/ct" "$tmp/$1" "$2" -100 250 ${3//,/ }
}

masks unet ct 1.5,1.5,1.5
predict linked "$tmp/ct/test" || fail "linked: $(cat "$tmp/linked.log")"
diff -r "$tmp/unet" "$tmp/linked" || fail 'a server gives other masks than --local'
sort "$tmp/linked.lines" | diff - <(ls -d "$tmp"/linked/*) || fail "lines: $(cat "$tmp/linked.lines")"
grep -q 'INFO predicted: 3 of 3 cases' "$tmp/linked.log" || fail "linked: $(cat "$tmp/linked.log")"
[ ! -e "$tmp/cache" ] || fail 'predict has kept prepared cases'
predict figures --local --json || fail "figures: $(cat "$tmp/figures.log")"
live figures "$tmp/ct" "$tmp/figures" "$tmp/figures.lines"
jq -rs 'range(3) as $k | [.[].classes[$k]] | map(.dice | values) as $d | map(.hd95_mm | values) as $h |
	[.[0].class_name, ($d | length), (map(select(.dice == null)) | length), ($d | add / length), ($h | add / length), ($h | length)] | @tsv' "$tmp/figures.lines" |
	awk '{printf "%s %d %d %.4f %.2f %d\n", $1, $2, $3, $4, $5, $6}' >"$tmp/means"
sed '1,/^means of classes/d' "$tmp/unet.lines" | awk '{print $1, $2, $3, $4, $8, $9}' | diff - "$tmp/means" || fail "means: $(cat "$tmp/unet.lines")"
# A case without a mask and one with numbers that are no classes are named.
cp -r "$tmp/ct/masks" "$tmp/ct/some"
rm "$tmp/ct/some/test/case0.nii.gz"
cp "$tmp/ct/test/case1.nii.gz" "$tmp/ct/some/test/case1.nii.gz"
rc=0
predict some --local --json --set data.masks=some || rc=$?
[ $rc = 66 ] && jq -es 'map(.error) == ["NOINPUT", "DATA", null]' "$tmp/some.lines" >"$tmp/out" || fail "some: exit status $rc, $(cat "$tmp/some.lines")"
grep -qF 'is -1000: a mask has whole numbers' "$tmp/some.log" && [ "$(ls "$tmp/some")" = case2.nii.gz ] || fail "some: $(cat "$tmp/some.log")"
masks wide threshold 2.5,1.1,0.9
masks small threshold 4,4,4
masks own threshold 1.5,1.5,1.5 --set data.axes=zyx
predict constant --local --set model.network="$tmp/constant.safetensors" || fail "constant: $(cat "$tmp/constant.log")"
live predicted "$tmp/ct" "$tmp/constant" constant -100 250 1.5 1.5 1.5
rc=0
predict undefined --local --set model.network="$tmp/undefined.safetensors" || rc=$?
[ $rc = 65 ] && [ -z "$(ls "$tmp/undefined")" ] && [ "$(grep -c "WARN not-predicted: case .*/case[0-2]: .* outputs hold NaN or Inf" "$tmp/undefined.log")" = 3 ] ||
	fail "undefined: exit status $rc, $(cat "$tmp/undefined.log")"

# A server is killed amid a case: the next one computes the rest, with the same bytes.
endpoint=tcp://127.0.0.1:$(free_port)
SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=port.post=kill@30 start_server dies listen="$endpoint" store="$tmp/other"
predict again --set server="$endpoint" --set link.on_server_lost=wait --set link.retry_ms=100 "$tmp/ct/test" &
again=$!
started+=("$again")
ends_with "$server_pid" 137 $patience 'the server'
start_server next listen="$endpoint" store="$tmp/other"
wait "$again" && grep -q 'WARN server-lost' "$tmp/again.log" || fail "again: $(cat "$tmp/again.log")"
diff -r "$tmp/unet" "$tmp/again" || fail 'a lost server changes masks'

# Several sequences; one broken file, and one that is not there. The others go on.
"$SPLITC" predict "$tmp/mri.yaml" --local --json --out "$tmp/four" "$tmp/mri/test/" >"$tmp/four.json" 2>"$tmp/four.log" || fail "four: $(cat "$tmp/four.log")"
jq -es --arg at "$tmp" 'length == 2 and .[1].sample == 1 and .[1].name == $at + "/mri/test/p1" and .[1].mask == $at + "/four/p1.nii.gz"' "$tmp/four.json" >"$tmp/out" || fail "four: $(cat "$tmp/four.json")"
mkdir "$tmp/new"
cp "$tmp"/ct/test/case2.nii.gz "$tmp/new/c.nii.gz"
head -c 3000 "$tmp/new/c.nii.gz" >"$tmp/new/b.nii.gz"
rc=0
predict broken --local --json "$tmp/new" "$tmp/none.nii" || rc=$?
[ $rc = 65 ] && cmp "$tmp/broken/new/c.nii.gz" "$tmp/unet/case2.nii.gz" || fail "broken: exit status $rc, $(cat "$tmp/broken.log")"
grep -q 'WARN not-predicted: case .*/new/b: .*is it a copy that broke off' "$tmp/broken.log" || fail "broken: $(cat "$tmp/broken.log")"
grep -q '2 of 3 cases have no mask; the first: .*/new/b' "$tmp/broken.log" || fail "broken: $(cat "$tmp/broken.log")"
jq -es 'map(.error) == ["DATA", null, "NOINPUT"] and .[1].sample == 1' "$tmp/broken.lines" >"$tmp/out" || fail "broken: $(cat "$tmp/broken.lines")"

# A case whose files are wrong is named, and the others go on; a file that is named twice is one case.
mkdir "$tmp/odd"
for name in a b_0001 d e_0000 e_0001; do cp "$tmp/ct/test/case2.nii.gz" "$tmp/odd/$name.nii.gz"; done
gunzip -k "$tmp/odd/d.nii.gz"
rc=0
predict out-odd --local --json "$tmp/odd" "$tmp/odd/a.nii.gz" || rc=$?
[ $rc = 65 ] && cmp "$tmp/out-odd/a.nii.gz" "$tmp/unet/case2.nii.gz" || fail "odd: exit status $rc, $(cat "$tmp/out-odd.log")"
for says in 'case .*/odd/b: .*/odd/b_0001.nii.gz: by its name it is sequence 0001 of case .*/odd/b, whose' 'case .*/odd/d: .*/odd/d.nii.gz: the same case is there as .*/odd/d.nii, too' \
	'case .*/odd/e: .* has 2 sequences, and .*/odd/a has 1'; do
	grep -q "WARN not-predicted: $says" "$tmp/out-odd.log" || fail "odd: no $says: $(cat "$tmp/out-odd.log")"
done
jq -es 'map(.error) == [null, "DATA", "DATA", "DATA"]' "$tmp/out-odd.lines" >"$tmp/out" || fail "odd: $(cat "$tmp/out-odd.lines")"
grep -q 'INFO cases: 8 files are 2 cases of 4 sequences, such as .*/mri/test/p0 of .*/p0_0000' "$tmp/four.log" || fail "four: $(cat "$tmp/four.log")"
# Nothing is kept, so no folder is needed; one that cannot be written to is found first.
predict bare --local --set data.cache= "$tmp/new/c.nii.gz" && cmp "$tmp/bare/c.nii.gz" "$tmp/unet/case2.nii.gz" || fail "bare: $(cat "$tmp/bare.log")"
"$SPLITC" train "$tmp/ct.yaml" --local --set log.dir="$tmp/trained" --set train.max_steps=1 --set data.patches=1 >"$tmp/trained.log" 2>&1 || fail "trained: $(cat "$tmp/trained.log")"
predict by --local --set log.dir="$tmp/trained" --set data.patches=1 && [ "$(ls "$tmp/by")" = "$(ls "$tmp/unet")" ] || fail "by: $(cat "$tmp/by.log")"
predict barred --local --out /proc/self "$tmp/new/c.nii.gz" && fail 'masks in /proc' || rc=$?
[ $rc = 73 ] && grep -q '^splitc: predict: /proc/self: ' "$tmp/barred.log" || fail "barred: exit status $rc, $(cat "$tmp/barred.log")"

rc=0
{ SPLITC=$BUILD/fail/splitc SPLIT_FAILPOINTS=client.done=kill@12 predict killed --local || rc=$?; } 2>"$tmp/shell" # in the second case
[ $rc = 137 ] && [ "$(ls "$tmp/killed")" = case0.nii.gz ] && cmp "$tmp/killed/case0.nii.gz" "$tmp/unet/case0.nii.gz" || fail "killed: exit status $rc, $(ls "$tmp/killed")"

live unet "$tmp/wide" 64 8 16
wide=("$tmp/ct.yaml" --local --set model.network="$tmp/wide/unet.safetensors" --set data.patch=64,64,64 --set train.batch=1 --set train.chunks=1)
peak() { # NAME COMMAND [argument]…: of splitc, in kB
	"$python" -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$SPLITC" "$2" "${wide[@]}" "${@:3}" 2>"$tmp/$1.log" || fail "$1: $(cat "$tmp/$1.log")"
}
trains=$(peak trains train --set log.dir="$tmp/trains" --set train.max_steps=1 --set data.test_limit=1)
predicts=$(peak predicts predict --out "$tmp/wide-masks" "$tmp/ct/test/case1.nii.gz")
[ $((10 * predicts)) -lt $((6 * trains)) ] || fail "predict takes $predicts kB, and training $trains kB"

config=$tmp/ct.yaml command=predict refusing=--local
refused 73 'exists already: give --force' --out "$tmp/unet"
cp -r "$tmp/new" "$tmp/before"
refused 73 'is one of the samples: name another folder' --out "$tmp/new" "$tmp/new" --force
diff -r "$tmp/new" "$tmp/before" || fail 'a case was written over'
refused 64 'written as NIfTI: leave out --csv' --out "$tmp/some" --csv
refused 65 'no NIfTI file; each case is a file CASE.nii.gz' --out "$tmp/some" "$tmp/ct.yaml"
refused 78 'data with 4 channels would fit' --out "$tmp/some" --set model.network="$tmp/mri.safetensors"
echo 'volumes_predict: masks as numpy and torch make them'
