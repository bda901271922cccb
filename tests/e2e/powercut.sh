#!/usr/bin/env bash
# A power cut at any moment, of the client's machine, the server's, or both. The disk operations of both daemons are
# recorded (tests/support/preload/disk_recorder.c) over runs in which client and server are killed and restarted. From
# the record, disk states are made that a power cut may have left (model: tests/support/disk_model.h). From each state,
# `splitc train --resume` with a new splits must end as the undisturbed run, byte for byte, from no earlier step than
# promised. If no checkpoint need exist, it must say so and what to do, and that must work.
#  SPLIT_CUTS: states per recording, of four (8; SPLIT_LONG=1: 700). SPLIT_CUT_SEED (1). Arguments: names of recordings.
# If one kind of sync is removed from a recording, the test must detect it.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/failpoints.sh
recorder=$release/tests/support/preload/disk_recorder.so
cuts=8
[ -z "${SPLIT_LONG:-}" ] || cuts=700
cuts=${SPLIT_CUTS:-$cuts} seed=${SPLIT_CUT_SEED:-1}
disks=$tmp/disks run=$disks/client/runs/one store=$disks/server/state/store
codec_of() { case $1 in none) codec=0 ;; paused) codec=1 ;; feedback) codec=2 ;; anew) codec=3 ;; *) fail "no recording '$1'" ;; esac; }

# ---- a recording: $tmp/NAME.disk; $tmp/NAME.real has the real disks at its end

# recorded COMMAND…: records the run of lib/failpoints.sh; again if a checkpoint was skipped.
recorded() {
	local try
	export SPLIT_DISK_ROOT=$disks SPLIT_DISK_LOG=$tmp/$name.disk
	for try in 1 2 3 4 5; do
		rm -rf "$disks" "$tmp/$name.disk"
		mkdir -p "$disks/client" "$disks/server"
		LD_PRELOAD=$recorder "$@"
		grep -q ' checkpoint-skipped: ' "$tmp/client.log" || break
	done
	unset SPLIT_DISK_ROOT SPLIT_DISK_LOG
	mv "$disks" "$tmp/$name.real"
}

# Client and server die and are restarted, each after two checkpoints.
both_die() {
	what="recording of ${codecs[$codec]}"
	client_lives=("client.kept=delay:20,client.begin=kill@8") server_lives=("server.answered=kill@11" "")
	play_once 3 # more than there are: the server ends in order
	[ $killed = 2 ] || fail "$what: $killed kills"
}

# The client is stopped and resumed; the server keeps running.
pauses() {
	what="recording of a pause"
	client_lives=("client.begin=term@2" "") server_lives=("") # before the first checkpoint
	play_once 1
}

# A run with another learning rate is killed, and a new run begins in its folder.
begun_anew() {
	local rc=0
	what="recording of a run begun anew"
	rm -f "$tmp"/*.log
	serve server.lasted=delay:1 # it says when its last words are written
	settings "${codecs[$codec]}"
	sets+=(--set train.optimizer.lr=0.09)
	go_on "client.kept=kill@2"
	{ wait "$client_pid" || rc=$?; } 2>/dev/null
	[ $rc = 137 ] || fail "$what: status $rc"
	at_point server server.lasted
	stat -c %s "$tmp/$name.disk" >"$tmp/$name.from"
	settings "${codecs[$codec]}"
	run_with "$SPLITC" --fresh
	ends_with "$client_pid" 0 $patience "$what"
	end_server
}

end_server() {
	wait_for "$what: the server does not listen" listens # it may not handle SIGTERM before that
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "$what: the server"
}

listens() { (: >"/dev/tcp/127.0.0.1/$port"); }

# all_is_there MODE WHAT: that state at the end of the recording equals the real disks.
all_is_there() {
	rm -rf "$tmp/state" && mkdir "$tmp/state"
	"$TOOLS/powercut" build "$tmp/$name.disk" end "$1" "$1" 0 "$tmp/state" || fail "$what: it cannot be replayed"
	diff -r "$tmp/state" "$tmp/$name.real" || fail "$what: $2"
}

# record NAME: makes the recording and the undisturbed run.
record() {
	name=$1
	codec_of "$name"
	settings "${codecs[$codec]}"
	case $name in
	anew) recorded begun_anew ;;
	paused) recorded pauses ;;
	*) recorded both_die ;;
	esac
	all_is_there all "something was not recorded"
	all_is_there none "not all is on the disks, though both have ended in order"
	undisturbed "$codec"
	[ "$name" != anew ] || { old_run 6; old_run 3; }
}

# old_run STEP: the result of the previous run, resumed from either of its checkpoints, in $tmp/old-STEP. Such a result
# is allowed until that run's log is removed.
old_run() {
	settings "${codecs[$codec]}"
	rm -rf "$disks" && mkdir "$disks"
	local at
	at=$("$TOOLS/powercut" -f "$(cat "$tmp/$name.from")" first "$tmp/$name.disk")
	"$TOOLS/powercut" build "$tmp/$name.disk" "$at" all all 0 "$disks"
	[ "$1" = 6 ] || rm "$run/checkpoint-000000000006.safetensors"
	serve ''
	go_on ''
	ends_with "$client_pid" 0 $patience "the old run, gone on with"
	end_server
	mv "$run" "$tmp/old-$1"
}

# Files that other commands wrote must be on the disk when the commands end.
others() {
	local file out=$disks/client/out
	name=others what="other commands"
	rm -rf "$disks"
	mkdir -p "$disks/client" "$tmp/state/others"
	echo '- {name: one}' >"$tmp/rows.yaml"
	export SPLIT_DISK_ROOT=$disks SPLIT_DISK_LOG=$tmp/others.disk
	LD_PRELOAD=$recorder "$release/splitc" sweep "$tmp/client.yaml" --codecs "$tmp/rows.yaml" --local --out "$out" \
		--set train.epochs=1 --set train.schedule.warmup_epochs=0 >"$tmp/others.log" 2>&1 || fail "$what: sweep"
	LD_PRELOAD=$recorder "$release/splitc" keygen --out "$out/key" >>"$tmp/others.log" 2>&1 || fail "$what: keygen"
	LD_PRELOAD=$recorder "$release/splitc" export "$tmp/client.yaml" "$out/exported" \
		--weights "$out/row-01/model.safetensors" >>"$tmp/others.log" 2>&1 || fail "$what: export"
	unset SPLIT_DISK_ROOT SPLIT_DISK_LOG
	"$TOOLS/powercut" build "$tmp/others.disk" end none none 0 "$tmp/state/others" || fail "$what: it cannot be replayed"
	for file in sweep.csv key exported row-01/model.safetensors row-01/log.jsonl; do
		cmp "$out/$file" "$tmp/state/others/client/out/$file" || fail "$what: $file"
	done
}

# ---- a case

# is_run REFERENCE: the resumed run equals this reference.
is_run() { (same_run "../${shared##*/}/$1" disks/client/runs/one $steps) >"$tmp/same.log" 2>&1; }

# check NAME CUT CLIENT SERVER SEED PROMISED DONE OLD: sets $result
check() {
	local from rc=0
	what="$1, cut $2: client $3, server $4, seed $5"
	rm -rf "$disks" "$tmp"/*.log
	mkdir -p "$disks"
	"$TOOLS/powercut" ${SPLIT_LEFT_OUT:+-d "$SPLIT_LEFT_OUT"} build "$shared/$1.disk" "$2" "$3" "$4" "$5" "$disks"
	settings "${codecs[$codec]}"
	sets+=(--set log.level=info)
	# the condition by which deploy/splitc@.service takes a run as finished
	[ ! -f "$run/model.safetensors" ] || compgen -G "$run/checkpoint-*.safetensors" >/dev/null || [ "$7" = 1 ] ||
		fail "$what: a model without a checkpoint, and the run is not done"
	serve ''
	run_with "$release/splitc" --resume
	{ wait "$client_pid" || rc=$?; } 2>/dev/null
	kill -0 "$server_pid" 2>/dev/null || fail "$what: the server ended"
	if [ $rc = 66 ] && [ "$6" = 0 ] || { [ $rc = 66 ] && [ "$7" = 1 ]; }; then
		refused "$7"
	elif [ $rc != 0 ]; then
		fail "$what: status $rc, promised was step $6"
	else
		from=$(sed -n 's/.*session-open: .*, from step \([0-9]*\)$/\1/p' "$tmp/client.log" | head -n 1)
		[ "$from" -ge "$6" ] || fail "$what: it went on from step $from, promised was $6"
		result=resumed
		[ "$from" -gt 0 ] || fail "$what: it began anew without being asked to"
	fi
	end_server
	! grep ' store-retention: ' "$tmp/server.log" || fail "$what: housekeeping took something away"
	[ -z "$(find "$disks" -name '*.tmp')" ] || fail "$what: left is $(find "$disks" -name '*.tmp')"
	! is_run "undisturbed-$codec" || return 0
	[ "$8" = 1 ] && { is_run old-6 || is_run old-3; } || fail "$what, $result: $(cat "$tmp/same.log")"
	result=old
}

# refused DONE: the client refuses and says whether the run is finished; if it is not, it must be able to begin.
refused() {
	if grep -q '^splitc: --resume: no checkpoint in .* is done' "$tmp/client.log"; then
		[ "$1" = 1 ] || fail "$what: done?"
		result=done
	elif grep -q '^splitc: --resume: no checkpoint in .*without --resume' "$tmp/client.log"; then
		[ "$1" = 0 ] || fail "$what: the run is lost"
		result=refused
		run_with "$SPLITC" --fresh
		ends_with "$client_pid" 0 $patience "$what: begun anew"
	else
		fail "$what: it does not say what to do"
	fi
}

if [ "${1:-}" = --worker ]; then
	shared=$2 worker=$3
	SPLITS=$release/splits SPLITC=$release/splitc
	while read -r -a case; do
		codec_of "${case[0]}"
		check "${case[@]}"
		echo "$result ${case[*]}" >>"$shared/passed.$worker"
	done <"$shared/cases.$worker"
	exit 0
fi

[ -z "${SAN:-}" ] || { echo "a recorder and a sanitizer do not both come first"; exit 77; }
[ $# -gt 0 ] || set -- none paused feedback anew
first_weights
for name in "$@"; do record "$name"; done
others

# planned NAME COUNT: prints the cases of a recording.
planned() {
	"$TOOLS/powercut" ${SPLIT_LEFT_OUT:+-d "$SPLIT_LEFT_OUT"} -f "$(cat "$tmp/$1.from" 2>/dev/null || echo 0)" \
		plan "$tmp/$1.disk" "$2" "$seed" | sed "s/^/$1 /"
}

# ---- all cases, dealt to two workers
for name in "$@"; do planned "$name" "$cuts"; done >"$tmp/cases"
awk -v tmp="$tmp" '{print > tmp "/cases." NR % 2}' "$tmp/cases"
: >"$tmp/passed.0" && : >"$tmp/passed.1"
two_workers

# ---- a removed sync must be detected, within 20 (40) states of the first recording
kinds="client:data server:file"
[ -z "${SPLIT_LONG:-}" ] || kinds="client:file client:data client:dir server:file server:dir"
for SPLIT_LEFT_OUT in $kinds; do
	export SPLIT_LEFT_OUT
	planned "$1" $([ -z "${SPLIT_LONG:-}" ] && echo 20 || echo 40) >"$tmp/cases.left-out"
	! "$0" --worker "$tmp" left-out >"$tmp/worker.left-out" 2>&1 || fail "without $SPLIT_LEFT_OUT: nothing was found"
	grep -q '^FAILED: ' "$tmp/worker.left-out" || fail "without $SPLIT_LEFT_OUT: $(cat "$tmp/worker.left-out")"
	rm -f "$tmp/passed.left-out"
done
count() { cat "$tmp"/passed.? | grep -c "^$1" || true; }
echo "$(wc -l <"$tmp/cases") states after a power cut: $(count resumed) gone on from, $(count old) from the run before," \
	"$(count refused) without a checkpoint yet, $(count done) done"
