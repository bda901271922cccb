#!/usr/bin/env bash
# The command in the client's systemd unit begins a run, resumes one that was killed, also between two phases, and does
# nothing for a finished one. If systemd-analyze is installed, it checks both units. The lists of statuses agree.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
unit=deploy/splitc@.service
make_data 640 32
start_server server
write_config "$tmp/etc.yaml"
sed -i "s/epochs: 1/epochs: 4\n  checkpoint_every: 2/" "$tmp/etc.yaml"
client undisturbed "$tmp/etc.yaml" || fail "the undisturbed run: status $?"

# here: the unit for an instance `run`, with folders of this test
here() {
	sed -e "s|/etc/split/%i.yaml|$tmp/etc.yaml|g; s|/var/lib/splitc/%i|$tmp/run|g; s|/run/splitc/%i|$tmp|g" \
		-e "s|/run/splitc-serve/%i|$tmp|g; s|/usr/local/bin/splitc|$SPLITC|g; s|/usr/local/bin/splits|$SPLITS|g"
}
command=$(sed -n 's/^ExecStart=//p' $unit | here | sed 's/\$\$/$/g')
mkdir "$tmp/run"
# start NAME: starts it as systemd does; sets $service_pid.
start() {
	(cd "$tmp/run" && eval "exec $command") >"$tmp/$1.log" 2>&1 &
	service_pid=$!
	started+=("$service_pid")
}

command=${command//"$SPLITC"/$PWD/$BUILD/fail/splitc}
export SPLIT_FAILPOINTS=client.kept=kill@3
start first
unset SPLIT_FAILPOINTS
ends_with "$service_pid" 137 $patience "the killed run"
start second
ends_with "$service_pid" 0 $patience "the second start"
grep -q 'from step [1-9]' "$tmp/second.log" || fail "it did not go on from its checkpoint"
same_run undisturbed run 160
start third
ends_with "$service_pid" 0 $patience "the start of a run that is done"
grep -q 'is done' "$tmp/third.log" || fail "a run that is done: $(cat "$tmp/third.log")"
same_run undisturbed run 160

# A kill between two phases: there is a model, but no checkpoint.
sed -e 's/^\( *\)epochs: 4/\1phases: [{epochs: 2, image: 32}, {epochs: 1, image: 32}]/' "$tmp/etc.yaml" >"$tmp/phases.yaml"
client phases "$tmp/phases.yaml" || fail "the run with phases: status $?"
mv "$tmp/phases.yaml" "$tmp/etc.yaml"
rm -r "$tmp/run"
mkdir "$tmp/run"
SPLIT_FAILPOINTS=client.done=kill@81 start between
ends_with "$service_pid" 137 $patience "the run that was killed between two phases"
! compgen -G "$tmp/run/checkpoint-*" >"$tmp/out" || fail "the kill came too late: $(cat "$tmp/out")"
start behind
ends_with "$service_pid" 0 $patience "the second phase: $(tail -n 3 "$tmp/between.log")"
same_run phases run 120

# The model of that run is served, to the unit's group.
command=$(sed -n 's/^ExecStart=//p' deploy/splitc-serve@.service | here)
mask=$(umask)
umask "$(sed -n 's/^UMask=//p' deploy/splitc-serve@.service)"
start serve
umask "$mask"
wait_for 'the model is not served' grep -q "^INFO serving: .* unix:$tmp/s.sock" "$tmp/serve.log"
[ "$(stat -c %a "$tmp/s.sock")" = 660 ] || fail "the socket has mode $(stat -c %a "$tmp/s.sock")"
end_process "$service_pid"

# systemd sets the mode of an existing state folder at each start: it must be that of the packages' tmpfiles.d, not
# 0755.
for file in $unit deploy/splitc-serve@.service deploy/splits.service; do
	grep -qx StateDirectoryMode=0700 "$file" || fail "$file opens the state folder to other users"
done

if command -v systemd-analyze >/dev/null; then
	mkdir "$tmp/units"
	here <deploy/splits.service >"$tmp/units/splits.service"
	here <$unit >"$tmp/units/splitc@run.service"
	here <deploy/splitc-serve@.service >"$tmp/units/splitc-serve@run.service"
	for file in "$tmp"/units/*; do
		systemd-analyze verify --man=no "$file" >"$tmp/verify.log" 2>&1 || fail "${file##*/}"
		[ ! -s "$tmp/verify.log" ] || fail "${file##*/}"
	done
fi

# ---- statuses: the page's table, the units' lists and what a supervisor does are one
page=docs/troubleshooting.md
# statuses COLUMN CELL: those whose cell in that column of the table is CELL
statuses() { awk -F ' *[|] *' -v k="$1" -v cell="$2" '/^[|] [0-9]+ [|]/ && $(k + 1) ~ "^(" cell ")$" {print $2}' $page | sort -n | xargs; }
listed() { sed -n "s/^$2=//p" "$1" | tr ' ' '\n' | sort -n | xargs; }
equal() { [ "$2" = "$3" ] || fail "$1: '$2', and the table has '$3'"; }
equal err.h "$(sed -n 's/^\tX([A-Z_]*, \([0-9]*\),.*/\1/p' common/base/err.h | sort -nu | xargs)" "$(statuses 1 '.*')"
hand=$(statuses 3 stops)
for file in $unit deploy/splitc-serve@.service; do equal $file "$(listed $file RestartPreventExitStatus)" "$hand"; done
equal splits.service "$(listed deploy/splits.service RestartPreventExitStatus)" "${hand% 79 80 81}"
for key in SuccessExitStatus RestartForceExitStatus; do equal $key "$(listed $unit $key)" "$(statuses 3 'again; not as a failure')"; done
equal 'the shell loop' "$(statuses 5 stops)" "$hand"
grep -qx 'Restart=on-failure' $unit || fail 'the unit does not start a run again'
sed -n '/^until /,/^done/p' $page >"$tmp/loop"
mkdir "$tmp/bin"
# supervise NAME: runs the page's loop in a shell, without its pauses
supervise() {
	rc=0
	PATH=$tmp/bin:$PATH timeout $patience sh -c "sleep() { :; }; $(sed "s|CONFIG FOLDER|$tmp/etc.yaml $tmp/run|" "$tmp/loop")" >"$tmp/$1.log" 2>&1 || rc=$?
}
printf '#!/bin/sh\n' >"$tmp/bin/sleep"
chmod +x "$tmp/bin/sleep"
again=$(sed -n 's|.*entrypoint: \[/usr/share/split/\([a-z-]*\)\]$|deploy/container/\1|p' deploy/docker-compose.yaml)
for status in $(statuses 1 '.*'); do
	printf '#!/bin/sh\necho start >>%s/starts\n[ $(wc -l <%s/starts) -gt 1 ] || exit %s\n' "$tmp" "$tmp" "$status" >"$tmp/bin/splitc-run"
	chmod +x "$tmp/bin/splitc-run"
	rm -f "$tmp/starts"
	supervise loop
	case " $(statuses 5 again) " in *" $status "*) starts=2 ends=0 ;; *) starts=1 ends=$((status > 0)) ;; esac
	equal "starts after $status" "$(wc -l <"$tmp/starts"), then $rc" "$starts, then $ends"
	rm -f "$tmp/starts"
	rc=0
	PATH=$tmp/bin:$PATH timeout $patience "$again" config folder || rc=$?
	equal "the container's starts after $status" "$(wc -l <"$tmp/starts"), then $rc" "$starts, then $((starts > 1 ? 0 : status))"
done
# What stops the container stops the run, and starts no other one.
printf '#!/bin/sh\ntrap "echo stopped >>%s/starts; exit 75" TERM\necho start >>%s/starts\nwhile :; do /bin/sleep 0.1; done\n' "$tmp" "$tmp" >"$tmp/bin/splitc-run"
rm -f "$tmp/starts"
PATH=$tmp/bin:$PATH "$again" config folder &
started+=($!)
wait_for 'the container starts nothing' test -s "$tmp/starts"
signal TERM $!
ends_with $! 75 $patience 'a container that is stopped'
equal 'a container that is stopped' "$(xargs <"$tmp/starts")" 'start stopped'

# A run that is told to stop twice under that loop comes to its end, and to the same weights.
write_config "$tmp/etc.yaml"
sed -i "s/epochs: 1/epochs: 4\n  checkpoint_every: 2/" "$tmp/etc.yaml"
rm -r "$tmp/run"
cp deploy/splitc-run "$tmp/bin/"
cat >"$tmp/bin/splitc" <<-SH
	#!/bin/sh
	echo start >>$tmp/starts
	[ \$(wc -l <$tmp/starts) -gt 2 ] || export SPLIT_FAILPOINTS=client.begin=term@40
	exec $PWD/$BUILD/fail/splitc "\$@" --set control=$tmp/run.sock
SH
chmod +x "$tmp/bin/splitc"
rm -f "$tmp/starts"
supervise stopped
equal 'a run that was stopped' "$(wc -l <"$tmp/starts"), then $rc" '3, then 0'
[ "$(grep -c '^splitc: stopped after step [0-9]* of 160: ' "$tmp/stopped.log")" = 2 ] || fail 'no sentence'
same_run undisturbed run 160
