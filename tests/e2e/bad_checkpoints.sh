#!/usr/bin/env bash
# Both sides of a run hold steps 9 and 6; then checkpoints are damaged or exchanged, and the run is resumed. A torn,
# truncated or foreign checkpoint is refused, and the older one is used. Another model, cut or codec is refused with
# both values named.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/failpoints.sh
first_weights
undisturbed 1
undisturbed 2
undisturbed 3

ours() { echo "$run/checkpoint-$(printf %012d "$1").safetensors"; }
theirs() { echo "$store"/session-*-"$(printf %012d "$1")".safetensors; }

# interrupted NAME CODEC: a run that dies after its third checkpoint; keeps both sides' files in $tmp/NAME.
interrupted() {
	local rc try
	for try in 1 2 3 4 5; do # on a busy machine one may be skipped
		rm -rf "$run" "$store" "$tmp"/*.log
		settings "$2"
		serve ''
		rc=0
		go_on client.kept=kill@3,client.apply=delay:150@4+ # time for a file
		{ wait "$client_pid" || rc=$?; } 2>/dev/null
		end_server
		[ $rc != 137 ] || [ ! -f "$(ours 9)" ] || [ ! -f "$(ours 6)" ] || break
	done
	[ $rc = 137 ] || fail "$1: status $rc"
	mkdir "$tmp/$1"
	mv "$run" "$tmp/$1/run"
	mv "$store" "$tmp/$1/store"
}
end_server() {
	end_process "$server_pid"
}
interrupted saved quant:8
interrupted other topk:0.1,ef=true
interrupted adamw "${codecs[3]}"

# Both sides also hold step 3 besides 9 and 6, as they would a pinned one.
three() {
	rm -rf "$run" "$store" "$tmp"/*.log
	settings quant:8
	serve ''
	go_on client.kept=kill
	{ wait "$client_pid" || true; } 2>/dev/null
	[ -f "$(ours 3)" ] || fail "no third checkpoint"
	cp "$(ours 3)" "$tmp/ours-3"
	cp "$(theirs 3)" "$tmp/theirs-3"
	go_on client.kept=kill@2,client.apply=delay:150
	{ wait "$client_pid" || true; } 2>/dev/null
	end_server
}
for try in 1 2 3 4 5; do # as above
	three
	[ ! -f "$(ours 9)" ] || [ ! -f "$(ours 6)" ] || break
done
[ -f "$(ours 9)" ] && [ -f "$(ours 6)" ] || fail "three checkpoints: there are $(ls "$run")"
cp "$tmp/ours-3" "$(ours 3)"
cp "$tmp/theirs-3" "$(theirs 9 | sed s/000000000009/000000000003/)"
mkdir "$tmp/three"
mv "$run" "$tmp/three/run"
mv "$store" "$tmp/three/store"

# put_back: restores the files of both sides.
put_back() { # [NAME]
	rm -rf "$run" "$store" "$tmp"/*.log
	cp -r "$tmp/${1:-saved}/run" "$run"
	cp -r "$tmp/${1:-saved}/store" "$store"
	settings quant:8
	sets+=(--set log.level=info)
}
# resumed STATUS [key=value]…: splitc train --resume ends with STATUS.
resumed() {
	local status=$1 pair
	shift
	for pair in "$@"; do sets+=(--set "$pair"); done
	serve "${broken_server:-}"
	go_on "${broken_client:-}"
	ends_with "$client_pid" "$status" $patience "$what"
	end_server
}
# goes_on_from STEP WHO: the resumed run equals the undisturbed one, and WHO's log says that a checkpoint was refused.
goes_on_from() {
	resumed 0
	grep -q "session-open: .*, from step $1$" "$tmp/client.log" || fail "$what: it did not go on from step $1"
	grep -q '^WARN checkpoint-refused: ' "$tmp/$2.log" || fail "$what: $2 did not say so"
	same_run "undisturbed-${codec:-1}" run $steps
}
flip() { # FILE: a bit of its middle
	local at=$(($(stat -c %s "$1") / 2)) byte
	byte=$(od -An -tu1 -j $at -N 1 "$1")
	printf "\\x$(printf %x $((byte ^ 16)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
}

what="torn, client"; put_back; truncate -s -1000 "$(ours 9)"; goes_on_from 6 client
what="flipped, client"; put_back; flip "$(ours 9)"; goes_on_from 6 client
what="torn, server"; put_back; truncate -s 100 "$(theirs 9)"
left=$store/0123456789abcdef0123456789abcdef.f32.tmp # of a server that was killed while it wrote
touch "$left" "$store/notes.tmp"
goes_on_from 6 server
[ ! -f "$left" ] || fail "a killed server's .tmp is left"
[ -f "$store/notes.tmp" ] || fail "somebody else's file is gone"
what="flipped, server"; put_back; flip "$(theirs 9)"; goes_on_from 6 server
what="another codec's, server"; put_back; cp "$tmp"/other/store/session-*-000000000009.safetensors "$(theirs 9)"; goes_on_from 6 server
grep -q 'checkpoint-refused: .*: codec.head_act was topk:0.1,ef=true, is quant:8' "$tmp/server.log" ||
	fail "$what: not both named"
what="a disk that does not give it, client"; put_back
broken_client=client.ckpt.read=EIO goes_on_from 6 client
what="a disk that does not give it, server"; put_back
broken_server=server.ckpt.read=EIO goes_on_from 6 server
what="the two newest, client"; put_back three; flip "$(ours 9)"; truncate -s 100 "$(ours 6)"; goes_on_from 3 client
[ "$(grep -c '^WARN checkpoint-refused: ' "$tmp/client.log")" = 2 ] || fail "$what: not both named"
what="the two newest, server"; put_back three; flip "$(theirs 9)"; truncate -s 100 "$(theirs 6)"; goes_on_from 3 server
what="the newest here, the next there"; put_back three; flip "$(ours 9)"; flip "$(theirs 6)"; goes_on_from 3 server
what="another step's, client"; put_back; mv "$(ours 6)" "$(ours 9)"; : >"$(ours 6)"
resumed 65
grep -q '^splitc: --resume: no good checkpoint: .*damaged: its hash is ' "$tmp/client.log" || fail "$what: no sentence"
what="one that the server lacks"; put_back; rm "$(theirs 9)"
broken_client=client.kept=kill resumed 137 train.checkpoint_every=2
[ -f "$(ours 8)" ] && [ -f "$(ours 6)" ] && [ ! -f "$(ours 9)" ] || fail "$what: left are $(ls "$run")"

# A file with a right hash whose state no codec accepts: the run continues from an older one, and the codecs that had
# accepted their part keep nothing of it. If the server has no older one, the client keeps its own.
put_other() { # [NAME CODEC]
	rm -rf "$run" "$store" "$tmp"/*.log
	cp -r "$tmp/${1:-other}/run" "$run"
	cp -r "$tmp/${1:-other}/store" "$store"
	settings "${2:-topk:0.1,ef=true}"
	sets+=(--set log.level=info)
}
is_kept() {
	resumed 78
	grep -q 'no common step to go on from: the client holds 9 6, ' "$tmp/client.log" || fail "$what: no sentence"
	[ -f "$(ours 9)" ] && [ -f "$(ours 6)" ] || fail "$what: left are $(ls "$run")"
}
forge() { # FILE STEP PART
	rm -rf "$tmp/forged"
	mkdir "$tmp/forged"
	"$TOOLS/forge" "$1" "$2" "$3" "$tmp/forged" || fail "$what: it could not be forged"
	mv "$tmp/forged"/forged-* "$1"
}
what="forged, client"; put_other; forge "$(ours 9)" 9 mid_grad
codec=2 goes_on_from 6 client
what="forged, server"; put_other; forge "$(theirs 9)" 9 head_grad
codec=2 goes_on_from 6 server
what="both forged, server"; put_other; forge "$(theirs 9)" 9 head_grad; forge "$(theirs 6)" 6 head_grad
is_kept
# Notes on the run that are of another step than the file
what="forged position, client"; put_other; forge "$(ours 9)" 9 "position=8 2 0 0"
codec=2 goes_on_from 6 client
grep -q 'checkpoint-refused: the checkpoint of step 9: its notes on the run are of step 8' "$tmp/client.log" || fail "$what: no sentence"
for weights in "5 4" "-1 4" "1 inf" "nan 4"; do
	what="forged batch weights $weights, client"; put_other; forge "$(ours 9)" 9 "batch weights=$weights"
	codec=2 goes_on_from 6 client
	grep -q 'checkpoint-refused: the checkpoint of step 9: its notes have weights that no batches have' "$tmp/client.log" || fail "$what: no sentence"
done
# A count of applied steps that is higher than the steps of the run is refused.
what="forged count, client"; put_other adamw "${codecs[3]}"; forge "$(ours 9)" 9 tail.applied
codec=3 goes_on_from 6 client
what="forged count, server"; put_other adamw "${codecs[3]}"; forge "$(theirs 9)" 9 middle.applied
codec=3 goes_on_from 6 server
grep -q 'checkpoint-refused: step 9: its loss scale or its count of applied steps is not valid' "$tmp/server.log" || fail "$what: no sentence"
what="both counts forged, server"; put_other adamw "${codecs[3]}"; forge "$(theirs 9)" 9 middle.applied; forge "$(theirs 6)" 6 middle.applied
is_kept

# refuses WHAT KEY=VALUE: --resume ends with status 78 and names both values in one sentence.
refuses() {
	what="another $1"
	put_back
	config=${other_config:-$config}
	resumed 78 "${@:4}"
	grep -q "^splitc: --resume: no good checkpoint: .*checkpoint-000000000009.safetensors: \(its $1 is .*$2.*, this run's is .*$3\|$1 was $2, is $3\)" "$tmp/client.log" ||
		fail "$what: not both named"
	[ "$(grep -c ": \(its $1 is\|$1 was\) " "$tmp/client.log")" = 1 ] || fail "$what: one refusal is said more than once"
	grep -q ' (1 older one cannot be used either)$' "$tmp/client.log" || fail "$what: nothing of the older one"
	cmp "$(ours 9)" "$tmp/saved/run/checkpoint-000000000009.safetensors" || fail "$what: the checkpoint was touched"
}
refuses codec.head_act quant:8 quant:4 codec=quant:4
refuses model 'width 0.25' 'width 0.5' model.width=0.5 model.weights=
refuses cut 'head_end=features.0 ' 'head_end=features.1 ' partition=2:-2
refuses train.chunks 4 2 train.chunks=2
refuses train.optimizer.nesterov true false train.optimizer.nesterov=false
other_config=$tmp/adamw.yaml
refuses train.optimizer.kind sgd adamw
