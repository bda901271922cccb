#!/usr/bin/env bash
# A run of root in another user's folder. That user has placed links to outside files under every name that the run
# writes: none of those files changes, and the run says whom it trusts. A store of that user is refused.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
other=54321
mkdir "$tmp/run"
chown $other:$other "$tmp/run" 2>/dev/null || { echo "not root: the links and folders of another user cannot be laid"; exit 77; }
# It works in the run's folder, because only root can enter the folders above.
as_other() { (cd "$tmp/run" && setpriv --reuid=$other --regid=$other --clear-groups -- "$@"); }
make_data 96 16
start_server server
write_config "$tmp/client.yaml"
mkdir "$tmp/elsewhere"
for i in 1 2 3 4; do echo "what another program needs, $i" >"$tmp/elsewhere/$i"; done
cat "$tmp"/elsewhere/? >"$tmp/before"

as_other ln -s "$tmp/elsewhere/1" log.jsonl
as_other ln -s "$tmp/elsewhere/2" model.safetensors.tmp
as_other ln -s "$tmp/elsewhere/3" link-epoch.tmp
as_other ln -s "$tmp/elsewhere/4" checkpoint-000000000004.safetensors.tmp
status=0
client run "$tmp/client.yaml" --set train.checkpoint_every=4 || status=$?
cat "$tmp"/elsewhere/? | cmp -s - "$tmp/before" || fail "files elsewhere were overwritten through log.jsonl"
[ $status = 73 ] || fail "a log that is a link: status $status, not 73"
grep -q 'log.jsonl is a symbolic link, which is not followed: remove it' "$tmp/run.log" || fail "no sentence about the link"
as_other rm log.jsonl
client run "$tmp/client.yaml" --set train.checkpoint_every=4 || fail "the run in a folder of another user: status $?"
cat "$tmp"/elsewhere/? | cmp -s - "$tmp/before" || fail "files elsewhere were overwritten"
grep -q "log-folder: .* belongs to another user (uid $other)" "$tmp/run.log" || fail "no warning of the folder's owner"
for file in log.jsonl model.safetensors link-epoch traffic about.json config.yaml; do
	[ "$(stat -c '%a %F' "$tmp/run/$file")" = '600 regular file' ] || fail "$file is $(stat -c '%a %F' "$tmp/run/$file")"
	if as_other cat "$file" >"$tmp/read" 2>&1; then fail "another user can read $file"; fi
done
client own "$tmp/client.yaml" || fail "a run in a folder of its own: status $?"
[ "$(stat -c %a "$tmp/own")" = 700 ] || fail "the folder of a run has mode $(stat -c %a "$tmp/own")"
if grep log-folder "$tmp/own.log"; then fail "a warning of one's own folder"; fi

# refuses STORE SENTENCE: the server does not start, and says SENTENCE.
refuses() {
	local status=0
	"$SPLITS" serve "$tmp/empty.yaml" --set listen=tcp://127.0.0.1:0 --set threads=1 --set store="$1" --set control="$tmp/no.sock" \
		>"$tmp/refused.log" 2>&1 || status=$?
	[ $status = 78 ] || fail "store $1: status $status, not 78"
	grep -q "$2" "$tmp/refused.log" || fail "store $1: another sentence"
}
mkdir "$tmp/theirs" "$tmp/everybodys"
chown $other "$tmp/theirs"
chmod 777 "$tmp/everybodys"
refuses "$tmp/theirs" "belongs to another user (uid $other), who can replace what is in it: chown it to uid 0"
refuses "$tmp/everybodys" 'every user may write to the folder .* (mode 0777): chmod o-w it'
echo passed
