#!/usr/bin/env bash
# The disk of a group's server is full when it starts, and has room later: the limit of its store grows with the free
# space, so checkpoints are kept from then on. It is full again for the last state: members write their models, wait, and
# hear why and for what; one that is stopped there keeps its model. Once there is room, the other ends with 0.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 96 16
mkdir "$tmp/small"
mount -t tmpfs -o size=48m split-test "$tmp/small" 2>/dev/null || { echo "no tmpfs can be mounted here"; exit 77; }
trap 'umount -l "$tmp/small"; end_all' EXIT
mkdir -m 700 "$tmp/small/store"
fill() { dd if=/dev/zero of="$tmp/small/filler" bs=4k status=none 2>/dev/null || true; }
: >"$tmp/small/store/lock"
fill
start_server serving "store=$tmp/small/store"
write_config "$tmp/client.yaml"
sed -i 's/batch: 16/batch: 8/; s/chunks: 4/chunks: 2/; s/lr: 0.05/lr: 0.005/' "$tmp/client.yaml"
for k in 0 1; do
	start_failing_client client.apply=delay:20@1+,client.apply=hold@21 "member-$k" "$tmp/client.yaml" --set train.epochs=1000 --set train.max_steps=32 --set train.eval_every=0 \
		--set train.checkpoint_every=4 --set data.partition=iid --set share.group=full --set share.clients=2 --set share.member=$k --set train.schedule.warmup_epochs=0
	pid[$k]=$client_pid
done
says() { wait_for "the server does not say: $1" grep -q -- "$1" "$tmp/serving.log"; }
says 'checkpoint-write: .*\(the disk of the store .* is full: it has [0-9]* bytes free, and [0-9]* more do not fit\|No space left on device\); there is none before it$'
! grep -q 'may hold [0-9]* (store_bytes)' "$tmp/serving.log" || fail "a limit that nobody has set is the reason: $(grep 'store_bytes)' "$tmp/serving.log" | tail -n 1)"
rm "$tmp/small/filler"
is_kept() { compgen -G "$tmp/small/store/session-*.safetensors" >/dev/null; }
wait_for 'the server keeps nothing, though it has room' is_kept
for k in 0 1; do stands_at "member-$k" client.apply "${pid[k]}"; done
fill
for k in 0 1; do let_go "member-$k"; done
says 'full, step 32: .*\(is full: it has [0-9]* bytes free\|No space left on device\)'
for k in 0 1; do
	wait_for "member $k does not hear that the last state is not stored" grep -q '^WARN last-state: the server could not keep its side; its log says why: this member writes its model, and ends once the server.s store, if it has one, holds the last state$' "$tmp/member-$k.log"
	wait_for "member $k does not hear for what it waits" grep -q '^INFO group-waits: this member is done, and waits until the server has stored the last state of group full$' "$tmp/member-$k.log"
	! grep 'waits until all members' "$tmp/member-$k.log" || fail "member $k waits for members, who are all done"
	[ -s "$tmp/member-$k/model.safetensors" ] || fail "member $k has no model while it waits"
done
signal TERM "${pid[1]}"
ends_with "${pid[1]}" 75 $patience 'a member that is stopped as it waits'
[ -s "$tmp/member-1/model.safetensors" ] || fail 'the member that was stopped has no model'
rm "$tmp/small/filler"
ends_with "${pid[0]}" 0 $patience 'the member that waits'
grep -v '^train' "$tmp/member-0.log" "$tmp/serving.log"
echo "share_full: ok"
