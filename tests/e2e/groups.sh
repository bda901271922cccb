#!/usr/bin/env bash
# train.groups: groups of parameters have their own learning rate and weight decay, on whichever side they lie. A run
# with a server equals --local byte for byte, and continues after its end. Wrong groups are refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 40 16
start_server host
write_config "$tmp/sgd.yaml"
write_config "$tmp/adamw.yaml"
use_adamw "$tmp/adamw.yaml"
sed -i 's/schedule: {.*}/schedule: {kind: constant}/' "$tmp/sgd.yaml"

# groups as a list of mappings, and as one line each
groups='classifier.* lr=0.1,*.bias *.1.weight weight_decay=0,features.1[0-9].* lr=2 weight_decay=0.5'
for optimizer in sgd adamw; do
	cp "$tmp/$optimizer.yaml" "$tmp/$optimizer-mapped.yaml"
	sed -i 's/^  seed: 3$/  seed: 3\n  groups:\n    - match: classifier.*\n      lr: 0.1\n    - {match: ["*.bias", "*.1.weight"], weight_decay: 0}\n    - {match: "features.1[0-9].*", lr: 2, weight_decay: 0.5}/' \
		"$tmp/$optimizer-mapped.yaml"
	client "local-$optimizer" "$tmp/$optimizer-mapped.yaml" --local || fail "$optimizer, local: exit status $?"
	client "far-$optimizer" "$tmp/$optimizer.yaml" --set "train.groups=$groups" --set codec=none || fail "$optimizer: exit status $?"
	same_run "far-$optimizer" "local-$optimizer" 3
	client "plain-$optimizer" "$tmp/$optimizer.yaml" --local || fail "$optimizer without groups: exit status $?"
	[ "$(learned "local-$optimizer")" != "$(learned "plain-$optimizer")" ] || fail 'groups made no difference'
done
"$SPLITC" graph "$tmp/sgd-mapped.yaml" middle --text >"$tmp/graph"
grep -q '^param features.1.conv.0.0.weight \[[0-9,]*\] normal' "$tmp/graph" && grep -q '^param features.1.conv.0.1.bias \[[0-9]*\] g2 ' "$tmp/graph" &&
	grep -q '^param features.17.conv.0.0.weight \[[0-9,]*\] g3 ' "$tmp/graph" || fail "no groups in the middle's text: $(head -n 5 "$tmp/graph")"

# A group by kind of layer: every batch norm, and nothing else.
"$SPLITC" graph "$tmp/sgd.yaml" middle --text --set 'train.groups=kind:batchnorm weight_decay=0' >"$tmp/graph"
[ "$(grep -c '^param .* g1 ' "$tmp/graph")" = "$((2 * $(grep -c ' batchnorm ' "$tmp/graph")))" ] &&
	! grep '^param .* g1 ' "$tmp/graph" | grep -qv '\.1\.\(weight\|bias\)\|conv\.[23]\.\(weight\|bias\)' || fail "kind:batchnorm: $(grep -c ' g1 ' "$tmp/graph") parameters"
"$SPLITC" graph "$tmp/sgd.yaml" middle --text --set 'train.freeze=kind:batchnorm' | grep -q '^param features.1.conv.0.1.bias .*frozen' ||
	fail 'kind:batchnorm was not frozen'

# With frozen weights and clipping, over the end of an epoch; the printed config gives the same run.
more=(--set 'train.freeze=features.0.*' --set train.clip_norm=1 --set codec=quant:8)
"$SPLITC" train "$tmp/sgd-mapped.yaml" --print-config >"$tmp/printed.yaml" || fail "the config could not be printed"
client whole "$tmp/printed.yaml" "${more[@]}" --set train.epochs=2 --local || fail "two epochs: exit status $?"
client run "$tmp/sgd-mapped.yaml" "${more[@]}" || fail "one epoch: exit status $?"
rc=0
client run "$tmp/sgd.yaml" "${more[@]}" --set train.epochs=2 --resume || rc=$?
[ $rc = 78 ] && grep -q 'train.groups was lr=0.1, is ' "$tmp/run.log" || fail "--resume without groups: exit status $rc, $(tail -n 1 "$tmp/run.log")"
client run "$tmp/sgd-mapped.yaml" "${more[@]}" --set train.epochs=2 --resume || fail "the second epoch: exit status $?"
same_run run whole 6

# refused SENTENCE GROUPS: the client refuses these groups and says SENTENCE.
refused() {
	local status=0
	"$SPLITC" train "$tmp/sgd.yaml" --set "train.groups=$2" >"$tmp/out" 2>&1 || status=$?
	[ "$status" = 78 ] && grep -qF -- "$1" "$tmp/out" || fail "$2: exit status $status, $(cat "$tmp/out")"
}
refused 'train.groups: no parameter is called "clasifier.*": did you mean "classifier.*"?' 'clasifier.* lr=2'
refused 'nothing is left for "classifier.1.bias lr=3"' 'classifier.* lr=2,classifier.1.bias lr=3'
refused 'must be patterns with lr=FACTOR' 'classifier.*'
refused 'must be patterns with lr=FACTOR' 'classifier.* lr=-1'
refused 'must be patterns with lr=FACTOR' 'classifier.* momentum=0'
refused 'no layer with parameters is "kind:batchnrm"' 'kind:batchnrm weight_decay=0'
refused 'has 9 groups, where at most 8 can be' "$(printf 'features.%d.* lr=2,' 1 2 3 4 5 6 7 8)features.9.* lr=2"
echo 'groups learn by their own rules'
