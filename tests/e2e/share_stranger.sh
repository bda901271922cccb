#!/usr/bin/env bash
# A member of a group is killed, and a stranger asks for its seat. The stranger has everything that the member had
# except the run's secret: its number, its checkpoints, and a listed key of its own. It names the member's steps, or
# begins anew. It is refused each time, also after a restart of the server. Nobody goes back for it, the member returns,
# and all learn what the group learns in one process. Without keys and with them, over sessions and over ranks.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/epochs: 1/epochs: 1000/; s/lr: 0.05/lr: 0.005/' "$tmp/client.yaml"
steps=32
set=(--set train.max_steps=$steps --set train.eval_every=0 --set train.checkpoint_every=4 --set data.partition=iid --set share.least=1
	--set share.clients=2 --set share.ends=private --set train.schedule.warmup_epochs=0 --set link.on_server_lost=wait --set link.retry_ms=20)
for name in server site-0 site-1 stranger; do
	"$SPLITC" keygen --out "$tmp/$name.key" >"$tmp/$name.pub" 2>"$tmp/$name.keygen" || keyless=1
	echo "$(cat "$tmp/$name.pub") $name group=g-sessions-keys,g-ranks-keys" >>"$tmp/clients"
done
server_keys=("auth.secret_key=$tmp/server.key" "auth.clients=$tmp/clients")

# begin NAME KEY MEMBER [argument]…
begin() {
	local key=()
	[ "$keys" = none ] || key=(--set "auth.secret_key=$tmp/$2.key" --set "auth.server_key=$tmp/server.pub")
	start_client "$1" "$tmp/client.yaml" "${set[@]}" --set share.group="$group" --set server="$(where "$3")" --set share.member="$3" \
		${key[@]+"${key[@]}"} "${@:4}"
}
# member K [argument]…: starts member K, with the failpoint $point.
member() {
	SPLITC=$PWD/$BUILD/fail/splitc SPLIT_FAILPOINTS=${point:-} begin "$group-$1" "site-$1" "$@"
	pid[$1]=$client_pid
}
# disguise: copies all that member 1 left into the stranger's folder, as if it were a run of its own.
disguise() {
	local file name
	rm -rf "$tmp/$group-stranger"
	cp -r "$tmp/$group-1" "$tmp/$group-stranger"
	od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$tmp/secret"
	echo >>"$tmp/secret"
	(umask 077 && cat "$tmp/secret" >"$tmp/$group-stranger/session-key")
	name=$("$TOOLS/session_id" "$tmp/$group-stranger/session-key" name)
	for file in "$tmp/$group-1"/checkpoint-*.safetensors; do
		file=${file##*/}
		"$TOOLS/forge" "$tmp/$group-1/$file" "$(sed 's/.*-0*\([0-9]\+\).safetensors/\1/' <<<"$file")" "session=$name" "$tmp/$group-stranger"
		mv "$tmp/$group-stranger/${file/checkpoint/forged}" "$tmp/$group-stranger/$file"
	done
}
# refused WORDS [argument]…: the stranger is refused with WORDS.
refused() {
	begin "$group-stranger" stranger 1 "${@:2}"
	ends_with "$client_pid" 78 $patience "$group: the stranger"
	grep -q -e "$1" "$tmp/$group-stranger.log" || fail "$group: the stranger is not told: $1"
	kill -0 "${pid[0]}" || fail "$group: member 0 has ended"
}

# stolen HOW KEYS
stolen() {
	local at
	keys=$2 group=g-$1-$2
	serve
	member 0
	point=client.apply=hold@11 member 1
	wait_for "$group: no checkpoint" has_steps "$group-1" 10
	end_process "${pid[1]}"
	disguise
	refused 'is the run of another client' --resume
	disguise
	refused 'is the run of another client\|begins anew' --fresh
	disguise
	at=$(steps_of "$group-0")
	kill_server
	refused 'is the run of another client' --resume
	[ "$(steps_of "$group-0")" = "$at" ] || fail "$group: member 0 went on without its member"
	member 1 --resume
	for k in 0 1; do ends_with "${pid[k]}" 0 $patience "$group, member $k"; done
	for k in 0 1; do same_run "$group-$k" local/member-$k $steps; done
	stop_server
}

# vain KEYS [OWN]: the others wait in vain for a member, and a stranger is refused at its seat, for its other settings or
# as another client. They end with 69, and hear since when the member is away. With OWN the member itself is refused
# first, which its key tells: they end with 78, and hear why.
vain() {
	local set=("${set[@]}" --set share.wait_s=8) other
	keys=$1 group=g-sessions-$1
	rm -rf "$tmp/store" "$tmp/$group"-*
	serve
	member 0
	point=client.apply=hold@11 member 1
	wait_for "$group: no checkpoint" has_steps "$group-1" 10
	end_process "${pid[1]}"
	if [ -n "${2:-}" ]; then
		member 1 --fresh --set train.checkpoint_every=5
		ends_with "${pid[1]}" 78 $patience "$group: the member with other settings"
	fi
	for other in train.checkpoint_every=6 train.optimizer.lr=0.001 log.level=info; do
		refused 'is the run of another client\|train.optimizer.lr\|checkpoint_every' --fresh --set $other
	done
	ends_with "${pid[0]}" "$([ -n "${2:-}" ] && echo 78 || echo 69)" $patience "$group: the other, whose member stays away"
	grep -q "missing are members 1 ($([ -n "${2:-}" ] && echo 'refused: .*has 4, this client has 5' || echo 'since 20[0-9: UTC-]*)$')" "$tmp/$group-0.log" ||
		fail "$group: the reason is a stranger's: $(tail -n 1 "$tmp/$group-0.log")"
	stop_server
	rm -rf "$tmp/store" "$tmp/$group"-*
}

client local "$tmp/client.yaml" --local "${set[@]}" --set share.group=local || fail "in one process: exit status $?"
where() { echo "$endpoint"; }
serve() {
	endpoint=tcp://127.0.0.1:$(free_port)
	serve_again
}
serve_again() {
	if [ "$keys" = none ]; then start_server serving "listen=$endpoint"; else start_server serving "listen=$endpoint" "${server_keys[@]}"; fi
}
kill_server() {
	end_process "$server_pid"
	serve_again
}
stop_server() {
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "$group: the server"
}
vain none
[ -n "${keyless:-}" ] || { vain keys; vain keys own; }
stolen sessions none
[ -n "${keyless:-}" ] || stolen sessions keys

if (. tests/e2e/lib/ranks.sh) >/dev/null; then
	. tests/e2e/lib/ranks.sh
	where() { server_of "$1" 2; }
	serve() {
		rank_set=()
		[ "$keys" = none ] || for pair in "${server_keys[@]}"; do rank_set+=(--set "$pair"); done
		begin_job 2
	}
	kill_server() {
		kill_ranks
		wait_for 'the job does not end' job_ended
		mend_job
		wait_for 'the job does not serve again' job_serves
	}
	stop_server() { end_job; }
	stolen ranks none
	[ -n "${keyless:-}" ] || stolen ranks keys
fi
echo "share_stranger: ok"
