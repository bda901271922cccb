#!/usr/bin/env bash
# splitc leak: the same figures again and with other threads, a page with pictures, two attackers once there is a trained model,
# a codec that loses more tells less, and what cannot be measured is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 120
write_config "$tmp/client.yaml"
sed -i 's/form: imagenet/form: cifar/' "$tmp/client.yaml"
leak() { # NAME STATUS ARGUMENT…
	local rc=0
	timeout -k 5 $patience "$SPLITC" leak "$tmp/client.yaml" --out "$tmp/$1" --set log.dir="$tmp/run" "${@:3}" >"$tmp/$1.log" 2>&1 || rc=$?
	[ $rc = "$2" ] || fail "leak $1: exit status $rc, not $2"
}
figure() { jq "$2" "$tmp/$1/leak.json"; }

leak first 0 --steps 40
[ "$(figure first .start)" = null ] || fail 'two attackers, and nothing was trained'
[ "$(figure first .pictures)" = 24 ] && [ "$(figure first .trained_with)" = 96 ] || fail "$(figure first .)"
figure first '.informed.psnr_db.mean > .mean_picture.psnr_db.mean + 1 and .labels.mid_grad_one_example == 1' | grep -q true || fail "$(figure first .)"
leak again 0 --steps 40 --set threads=2
cmp "$tmp/first/leak.json" "$tmp/again/leak.json" || fail 'other figures with other threads'
cmp "$tmp/first/sheet.png" "$tmp/again/sheet.png" || fail 'other pictures'
[ "$(head -c 4 "$tmp/first/sheet.png" | od -An -tx1)" = ' 89 50 4e 47' ] || fail 'no PNG'
for part in 'What was assumed' 'What was found' 'What this cannot show'; do
	grep -q "^## $part" "$tmp/first/leak.md" || fail "leak.md has no part '$part'"
done
leak bits 0 --steps 40 --set codec.head_act=quant:1
[ "$(jq -n "$(figure bits .informed.psnr_db.mean) < $(figure first .informed.psnr_db.mean)")" = true ] || fail 'one bit tells as much as all'

client run "$tmp/client.yaml" --local || fail 'training'
leak trained 0 --steps 40 --json
figure trained '.start.psnr_db.mean > 0 and .informed.steps == 40' | grep -q true || fail "$(figure trained .)"
sed -n '/^{/,$p' "$tmp/trained.log" | jq -S . >"$tmp/said.json"
jq -S . "$tmp/trained/leak.json" | cmp - "$tmp/said.json" || fail '--json says something else'

leak minutes 0 --steps 100000 --minutes 0.02
grep -q 'since its time was over' "$tmp/minutes/leak.md" || fail 'the page does not say that time was short'
leak usage 64 --steps many
leak small 78 --steps 4 --set data.test_limit=4
mkdir "$tmp/fruit"
for part in train test; do printf 'a,b,y\n%s\n' "$(for i in $(seq 40); do echo "$i,$((i % 3)),$((i % 2))"; done)" >"$tmp/fruit/$part.csv"; done
cat >"$tmp/client.yaml" <<-YAML
	server: tcp://127.0.0.1:9
	model: {name: mlp, features: 2, classes: 2}
	data: {kind: csv, dir: $tmp/fruit, label: y}
	train: {batch: 8}
YAML
rm -r "$tmp/run"
leak table 78 --steps 4
grep -q 'leak measures networks that read pictures' "$tmp/table.log" || fail "$(cat "$tmp/table.log")"
echo "informed: $(figure first .informed.psnr_db.mean) dB, with one bit $(figure bits .informed.psnr_db.mean), the mean picture $(figure first .mean_picture.psnr_db.mean)"
