#!/usr/bin/env bash
# A power cut at any moment, of the client's machine, the server's, or both: what both daemons do to their disks is recorded
# (tests/support/preload/disk_recorder.c) over runs in which client and server are killed and come back; from the record, states are made in
# which a power cut may have left the two disks (tests/support/disk_model.h has the model). From each of them `splitc train --resume`
# with a new splits must end as the undisturbed run did, byte for byte, and from no earlier step than was promised; or, where
# no checkpoint need be there, say so and what to do, which is then done.
# SPLIT_CUTS states of each of four recordings (8; SPLIT_LONG=1: 700), SPLIT_CUT_SEED (1). Arguments: names of recordings. And
# where a kind of sync is left out of a recording, that must be found.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/failpoints.sh
recorder=$release/tests/support/preload/disk_recorder.so
cuts=8
[ -z "${SPLIT_LONG:-}" ] || cuts=700
cuts=${SPLIT_CUTS:-$cuts} seed=${SPLIT_CUT_SEED:-1}
disks=$tmp/disks run=$disks/client/runs/one store=$disks/server/state/store
codec_of() { case $1 in none) codec=0 ;; paused) codec=1 ;; feedback) codec=2 ;; anew) codec=3 ;; *) fail "no recording '$1'" ;; esac; }

# ---- a recording: $tmp/NAME.disk, with what is on the disks at the end in $tmp/NAME.real

# recorded COMMAND…: the run of lib/failpoints.sh, again where a checkpoint was skipped
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

# Client and server die and come back, each with two checkpoints behind it.
both_die() {
	what="recording of ${codecs[$codec]}"
	client_lives=("client.kept=delay:20,client.begin=kill@8") server_lives=("server.answered=kill@11" "")
	play_once 3 # more than there are: the server ends in order
	[ $killed = 2 ] || fail "$what: $killed kills"
}

# The client is told to stop, and goes on; the server stays.
pauses() {
	what="recording of a pause"
	client_lives=("client.begin=term@2" "") server_lives=("") # before the first checkpoint
	play_once 1
}

# A run with another learning rate is killed, and one begins anew in its folder.
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

# all_is_there MODE WHAT: that state at the end of the recording is what is really on the disks
all_is_there() {
	rm -rf "$tmp/state" && mkdir "$tmp/state"
	"$TOOLS/powercut" build "$tmp/$name.disk" end "$1" "$1" 0 "$tmp/state" || fail "$what: it cannot be replayed"
	diff -r "$tmp/state" "$tmp/$name.real" || fail "$what: $2"
}

# record NAME: and the undisturbed run
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

# old_run STEP: what the run that was there before becomes when it is gone on with, from either of its checkpoints: allowed
# until its log is gone. $tmp/old-STEP
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

# What other commands have written when they end is on the disk.
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

# is_run REFERENCE: what this one has come to
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
	# what deploy/splitc@.service takes for a run that is done
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
	! grep ' store-tidy: ' "$tmp/server.log" || fail "$what: housekeeping took something away"
	[ -z "$(find "$disks" -name '*.tmp')" ] || fail "$what: left is $(find "$disks" -name '*.tmp')"
	! is_run "undisturbed-$codec" || return 0
	[ "$8" = 1 ] && { is_run old-6 || is_run old-3; } || fail "$what, $result: $(cat "$tmp/same.log")"
	result=old
}

# refused DONE: it says whether the run is done; where it is not, it can begin
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

# planned NAME COUNT: cases
planned() {
	"$TOOLS/powercut" ${SPLIT_LEFT_OUT:+-d "$SPLIT_LEFT_OUT"} -f "$(cat "$tmp/$1.from" 2>/dev/null || echo 0)" \
		plan "$tmp/$1.disk" "$2" "$seed" | sed "s/^/$1 /"
}

# ---- all of them, dealt to two workers
for name in "$@"; do planned "$name" "$cuts"; done >"$tmp/cases"
awk -v tmp="$tmp" '{print > tmp "/cases." NR % 2}' "$tmp/cases"
: >"$tmp/passed.0" && : >"$tmp/passed.1"
two_workers

# ---- a sync that is left out must be found, in 20 (40) states of the first recording
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
