#!/usr/bin/env bash
# Members with share.secret seal the head and tail that the server stores and hands on, in modes sync and rounds. No file
# of the store has a known weight in clear; without the secret one has it. A member whose folder is lost gets head and
# tail from another one; from the store of a server that was killed; beside a member that gives forged ones, and beside
# a store with those of another step: it refuses them, and gets those of another member. All end as one process does. A
# member with another secret, or none, is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 60 16
write_config "$tmp/client.yaml"
sed -i "s/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s|$tmp/data|$tmp/site-%m|; s/train_limit: [0-9]*/train_limit: 0/" "$tmp/client.yaml"
use_adamw "$tmp/client.yaml"
for k in 0 1 2; do
	cp -r "$tmp/data" "$tmp/site-$k"
	truncate -s $(((16 + 16 * k) * 3073)) "$tmp/site-$k/data_batch_1.bin"
done
for k in pair other; do "$SPLITC" keygen --out "$tmp/$k.key" >/dev/null 2>&1; done
steps=60
common=(--set train.epochs=1000 --set train.max_steps=$steps --set train.eval_every=0 --set train.checkpoint_every=10
	--set train.schedule.kind=constant --set train.schedule.warmup_epochs=0 --set share.clients=3 --set share.epoch_steps=6
	--set share.least=0.5 --set share.patience_s=600 --set link.retry_ms=20 --set link.heartbeat_ms=200 --set link.timeout_ms=3000)
sealed=(--set share.secret="$tmp/pair.key")

serve() { start_server "$name-$1" "listen=$endpoint" "store=$tmp/store-$name"; serving=$name-$1; }
# member K [argument]…: steps take a while, so that the run does not end before the script is in time.
member() {
	start_slow_client 1 30 "$name-$1" "$tmp/client.yaml" "${set[@]}" --set server="${at[$1]:-$endpoint}" --set share.member="$1" "${@:2}"
	pid[$1]=$client_pid
}
begin() { # NAME [argument]…
	name=$1
	set=("${common[@]}" --set share.group="$name" "${@:2}")
	endpoint=tcp://127.0.0.1:$(free_port)
	at=()
	serve server
}
trains() {
	local k
	for k in 0 1 2; do member $k; done
	wait_for "$name: member 2 does not train" has_steps "$name-2" 22
	wait_for "$name: no checkpoint is complete" compgen -G "$tmp/store-$name/session-*.ends-*20.safetensors" >/dev/null
}
says() { wait_for "$name: the server does not say $1" grep -q "$1" "$tmp/$serving.log"; }
loses_files() {
	end_process "${pid[2]}"
	rm -r "$tmp/$name-2"
}
# ends: all members end, and are what the record tells.
ends() {
	local k absent
	for k in 0 1 2; do ends_with "${pid[k]}" 0 $patience "$name, member $k"; done
	absent=$(jq -r 'select(.type == "summary").group.absent' "$tmp/$name-0/log.jsonl")
	client "$name" "$tmp/client.yaml" --local "${set[@]}" --absent "$absent" || fail "$name in one process, --absent $absent: exit status $?"
	for k in 0 1 2; do
		cmp "$tmp/$name-$k/model.safetensors" "$tmp/$name/member-$k/model.safetensors" || fail "$name, --absent $absent: member $k has other weights"
	done
	echo "$name: --absent $absent"
	signal TERM "$server_pid"
	ends_with "$server_pid" 0 $patience "$name: the server"
}
# lies: prints the files of the store that have the tail's bias, as the model has it.
lies() {
	python3 - "$tmp/$name-0/model.safetensors" "$tmp/store-$name" <<-'PY'
		import glob, json, sys
		raw = open(sys.argv[1], "rb").read()
		n = 8 + int.from_bytes(raw[:8], "little")
		at = json.loads(raw[8:n])["classifier.1.bias"]["data_offsets"]
		bias = raw[n + at[0]:n + at[1]]
		assert len(bias) == 40
		print(*[f for f in glob.glob(sys.argv[2] + "/**", recursive=True) if f.endswith("safetensors") and bias in open(f, "rb").read()])
	PY
}
# modes NAME [argument]…: a member is lost; then the server and all members, and one of them again.
modes() {
	begin "$@"
	trains
	loses_files
	member 2 --auto-resume
	says "member 2 comes .*head and tail"
	wait_for "$name: a checkpoint behind it" compgen -G "$tmp/store-$name/session-*.ends-*40.safetensors" >/dev/null
	end_process "$server_pid" "${pid[@]}"
	rm -r "$tmp/$name-2"
	serve again
	for k in 0 1 2; do member $k --auto-resume; done
	ends
	case $name in
	*open) [ -n "$(lies)" ] || fail "$name: the search does not find a weight that is stored in clear" ;;
	*) [ -z "$(lies)" ] || fail "$name: a weight is stored in clear: $(lies)" ;;
	esac
	! grep -q 'ends-refused' "$tmp/$name"-*.log || fail "$name: head and tail did not open"
}
# liar: member 0 gives what it did not seal.
liar() {
	begin liar "${sealed[@]}"
	"$TOOLS/faulty_link" "${endpoint##*:}" lie up payload.ends 1+ >"$tmp/relay.out" &
	started+=($!)
	wait_for 'the relay' test -s "$tmp/relay.out"
	at[0]=tcp://127.0.0.1:$(head -n 1 "$tmp/relay.out")
	trains
	loses_files
	member 2 --auto-resume
	says 'ends-refused: group liar: member 2 cannot open the head and tail of member 0: another one is asked'
	ends
	grep -q '^WARN ends-refused: .*do not open' "$tmp/liar-2.log" || fail 'the member does not say so'
}
# swapped: a server that gives head and tail of another step.
swapped() {
	local store=$tmp/store-swapped new old
	begin swapped "${sealed[@]}"
	trains
	end_process "$server_pid" "${pid[@]}"
	rm -r "$tmp/swapped-2"
	new=$(ls "$store"/session-*.ends-*.safetensors | tail -n 1) old=$(ls "$store"/session-*.ends-*.safetensors | head -n 1)
	[ "$new" != "$old" ] || fail 'one checkpoint alone'
	mkdir "$tmp/forged"
	local to=${new##*-}
	to=$((10#${to%.safetensors}))
	"$TOOLS/forge" "$old" $to step=$to "$tmp/forged" || fail 'it could not be forged'
	mv "$tmp/forged"/forged-* "$new"
	serve again
	for k in 0 1 2; do member $k --auto-resume; done
	says 'ends-refused: group swapped: member 2 cannot open the head and tail of the store: members are asked'
	ends
}
# strangers: members of another secret, or of none.
strangers() {
	begin strangers
	member 0 "${sealed[@]}"
	says 'member 0 is here'
	for other in "--set share.secret=$tmp/other.key" ''; do
		rc=0
		client strangers-1 "$tmp/client.yaml" "${set[@]}" --set server="$endpoint" --set share.member=1 --fresh $other || rc=$?
		[ $rc = 78 ] && grep -q "share.secret.*: this client's secret is not that of group strangers" "$tmp/strangers-1.log" || fail "another secret: status $rc: $(tail -n 2 "$tmp/strangers-1.log")"
	done
	config=$tmp/client.yaml
	refused 78 'share.secret' --set share.group=g --set share.clients=2 --set share.ends=private "${sealed[@]}"
}

alone() {
	trap 'kill -9 "${pid[@]}" "$server_pid" 2>/dev/null || true' EXIT
	"$@"
}
two_at_a_time alone "modes|sync|${sealed[0]}|${sealed[1]}" 'modes|sync-open' \
	"modes|rounds|${sealed[0]}|${sealed[1]}|--set|share.patience_s=2|--set|share.mode=rounds|--set|share.round=2|--set|share.ends=round" liar swapped strangers
echo "share_sealed: ok"
