#!/usr/bin/env bash
# splitc align: two parties whose rows differ, in other orders, find those that both have, and train as one process does
# with the joined data, bit for bit. Each party and the server are killed on the way. The server's memory holds no name.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
. tests/e2e/lib/vertical.sh
train_images=0 test_images=0
for name in server A B stranger; do
	"$SPLITC" keygen --out "$tmp/$name.key" >"$tmp/$name.pub" 2>"$tmp/keygen.log" || { grep -q 'has no CURVE' "$tmp/keygen.log" && exit 77; }
done
for name in A B stranger; do echo "$(cat "$tmp/$name.pub") $name group=g,tables,split,groupname"; done >"$tmp/clients"
auth=("auth.secret_key=$tmp/server.key" "auth.clients=$tmp/clients")
SPLIT_DUMPABLE=1 start_server one threads=2 "${auth[@]}"
write_parties

# Rows of A and of B: about two thirds of all things each, shuffled.
python3 - "$tmp" <<'PY'
import random, sys
from pathlib import Path
draw = random.Random(5)
tmp = Path(sys.argv[1])
for part, things in (("train", range(150)), ("val", range(150, 220))):
    for party, header in (("A", "size,patient,colour"), ("B", "kind,patient")):
        rows = [i for i in things if draw.random() < 0.7]
        draw.shuffle(rows)
        folder = tmp / f"table-{party}"
        folder.mkdir(exist_ok=True)
        with open(folder / f"{part}.csv", "w") as file:
            print(header, file=file)
            for i in rows:
                a = f"{i * 37 % 101 / 10},person-{i}-of-study,{('red', 'green', 'blue')[i * 7 % 3]}"
                print(a if party == "A" else f"{'large' if i * 37 % 101 > 50 else 'small'},person-{i}-of-study", file=file)
PY
for party in A B; do
	sed -i -e "s,^data:.*,data: {kind: csv\, dir: $tmp/table-$party\, label: kind\, id: patient\, aligned: $tmp/$party.rows}," -e '/^partition:/d' \
		-e 's/^model:.*/model: {name: mlp, features: 4, classes: 2, dropout: 0.1}/' -e "s,^share: {,&peers: [$tmp/A.pub\, $tmp/B.pub]\, ," \
		-e '$aauth: {secret_key: '"$tmp/$party.key, server_key: $tmp/server.pub}" "$tmp/$party.yaml"
done
quick=(link.part_bytes=4096 link.heartbeat_ms=50 link.timeout_ms=5000 link.connect_timeout_ms=4000)

# begin_align PARTY NAME [argument]…: in the background, with the failpoints of $points_PARTY; sets $align_pid.
begin_align() {
	local points=points_$1 set=() pair program=$SPLITC
	[ -z "${!points:-}" ] || program=$PWD/$BUILD/fail/splitc
	for pair in server="$endpoint" "${quick[@]}" "${@:3}"; do set+=(--set "$pair"); done
	SPLIT_FAILPOINTS=${!points:-} SPLIT_FAILPOINTS_GO=$tmp/$2-$1.go "$program" align "$tmp/$1.yaml" --json \
		"${set[@]}" >"$tmp/$2-$1.json" 2>"$tmp/$2-$1.log" &
	align_pid=$!
	started+=("$align_pid")
}
# begin_second PARTY NAME [argument]…: the same for both, this party once the server has a seat for the other one, whose
# process is $other_pid.
begin_second() {
	local other=A
	[ "$1" = B ] || other=B
	begin_align "$other" "${@:2}"
	other_pid=$align_pid
	wait_for "$2: $other does not wait" grep -q 'waits for member' "$tmp/$2-$other.log"
	begin_align "$@"
}
both_align() { # NAME STATUS [key=value]…
	local a
	begin_align A "$1" "${@:3}"
	a=$align_pid
	begin_align B "$1" "${@:3}"
	ends_with "$a" "$2" $patience "$1: A"
	ends_with "$align_pid" "$2" $patience "$1: B"
}
# is_join NAME: the rows in the files of both are those of a plain join, in one order; nothing half-written is there.
is_join() {
	cmp "$tmp/A.rows" "$tmp/B.rows" || fail "$1: two results"
	for part in train val; do
		diff <(sed -n "s/^${part/val/test} //p" "$tmp/A.rows" | sort) \
			<(sort <(cut -d, -f2 "$tmp/table-A/$part.csv") <(cut -d, -f2 "$tmp/table-B/$part.csv") | uniq -d | grep person) || fail "$1: $part is no join"
	done
	[ "$(stat -c %a "$tmp/A.rows")" = 600 ] || fail "$1: others may read the result"
	! compgen -G "$tmp/*.rows.tmp" >/dev/null || fail "$1: a half-written file"
}
both_align plain 0
is_join plain
[ "$(jq -c '[.schema, .group, .member, .common[0] > 50, .rows[0] > .common[0], .other_points > .common[0]]' "$tmp/plain-B.json")" = '[1,"g",1,true,true,true]' ] ||
	fail "plain: $(cat "$tmp/plain-B.json")"

# joined: the tables of both parties with the rows of the result alone, in its order.
joined() {
	local party part
	for party in A B; do
		mkdir -p "$tmp/joined-$party"
		for part in train val; do
			sed -n "s/^${part/val/test} //p" "$tmp/A.rows" |
				awk -F, 'NR == FNR {row[$2] = $0; if (FNR == 1) print; next} {print row[$0]}' "$tmp/table-$party/$part.csv" - >"$tmp/joined-$party/$part.csv"
		done
	done
}
# trains NAME [key=value]…: both over links with their own tables; one process with the joined ones.
trains() {
	joined
	parties "$@"
	for party in A B; do
		sed -e "s,table-$party,joined-$party," -e "s,aligned: .*,aligned: \"\"," -e "s,^  secret: .*,  secret: $tmp/stranger.key," "$tmp/$1-$party.yaml" >"$tmp/$1-one-$party.yaml"
	done
	client "$1-local" "$tmp/$1-one-A.yaml" --local --party "$tmp/$1-one-B.yaml" || fail "$1 in one process: exit status $?"
	as_one "$1"
}
trains tables
# A row less at B: its order is that of the file, and the file names a row that is gone.
gone=$(sed -n "4s/train //p" "$tmp/A.rows")
cp "$tmp/table-B/train.csv" "$tmp/whole.csv"
grep -v ",$gone\$" "$tmp/whole.csv" >"$tmp/table-B/train.csv"
rc=0
client gone "$tmp/B.yaml" --set server="$endpoint" || rc=$?
[ $rc = 65 ] && grep -qF "no row \"$gone\"" "$tmp/gone.log" && grep -qF 'run splitc align again' "$tmp/gone.log" || fail "a row that is gone: status $rc"
cp "$tmp/whole.csv" "$tmp/table-B/train.csv"

# One set, divided by data.split, and padded lists.
both_align split 0 data.split.train=0.8 data.split.val=0.2 align.pad=true
[ "$(jq -c '[(.common | length), .other_points]' "$tmp/split-A.json")" = '[1,128]' ] || fail "split: $(cat "$tmp/split-A.json")"
trains split data.split.train=0.8 data.split.val=0.2

# What the server's memory holds: the group's name, but no name of a row. Once while A holds, and once at the end.
searches() { # TEXT…: how often each is in the server's memory
	python3 - "$server_pid" "$@" <<-'PY'
		import re, sys
		pid, found = sys.argv[1], [0] * (len(sys.argv) - 2)
		with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
		    for line in maps:
		        m = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
		        if not m: continue
		        mem.seek(int(m[1], 16))
		        try: data = mem.read(int(m[2], 16) - int(m[1], 16))
		        except OSError: continue
		        for i, text in enumerate(sys.argv[2:]): found[i] += data.count(text.encode())
		print(*found)
	PY
}
points_A=link.receive=hold@6
begin_second A memory share.group=groupname link.timeout_ms=100000
a=$align_pid
points_A=
stands_at memory-A link.receive "$a"
for moment in amid behind; do
	read -r groups names < <(searches groupname person-) || fail "the server's memory cannot be read"
	[ "$groups" -ge 1 ] || fail "$moment: the search does not find the group's name"
	[ "$names" = 0 ] || fail "$moment: the server's memory has $names names of rows"
	[ $moment = behind ] || { let_go memory-A && ends_with "$a" 0 $patience 'memory: A' && ends_with "$other_pid" 0 $patience 'memory: B'; }
done
is_join memory

# kills NAME WHO POINT [STATUS]: it dies; the others end with that status, and write nothing. Then both have the join.
kills() {
	local name=$1 who=$2 points_A= points_B= server_pid kept=$endpoint
	local endpoint=tcp://127.0.0.1:$(free_port)
	rm -f "$tmp"/[AB].rows
	declare "points_$who=$3"
	SPLITS=$PWD/$BUILD/fail/splits SPLIT_FAILPOINTS=${points_S:-} start_server "$name-S" store= "listen=$endpoint" "${auth[@]}"
	begin_second "${who/S/B}" "$name"
	points_A= points_B= points_S=
	ends_with "$align_pid" $([ "$who" = S ] && echo 69 || echo 137) $patience "$name: $who"
	ends_with "$other_pid" 69 $patience "$name: the other one"
	grep -q 'run splitc align again at both' "$tmp/$name"-?.log || fail "$name: no advice: $(tail -qn 1 "$tmp/$name"-?.log)"
	[ "$who" != S ] || { ends_with "$server_pid" 137 $patience "$name" && start_server "$name-again" store= "listen=$endpoint" "${auth[@]}"; }
	! compgen -G "$tmp/[AB].rows*" >/dev/null || fail "$name: a file of an alignment that failed"
	both_align "$name-again" 0
	is_join "$name"
	end_process "$server_pid"
	endpoint=$kept
}
kills early A link.receive=kill@3
kills late B link.receive=kill@7
kills server S link.receive=kill@12

# refuses STATUS WORDS PARTY [key=value]…: this party alone is refused.
refuses() {
	begin_align "$3" refused "${@:4}"
	ends_with "$align_pid" "$1" $patience "$2"
	grep -qF -e "$2" "$tmp/refused-$3.log" || fail "no word on $2: $(tail -n 1 "$tmp/refused-$3.log")"
}
refuses 78 'both members have one key' A "share.peers=$tmp/A.pub,$tmp/A.pub"
refuses 78 'is not that of auth.secret_key' B "share.peers=$tmp/B.pub,$tmp/A.pub"
refuses 78 'splitc align needs it' A data.aligned= data.id=
refuses 69 'member 1 of group g has not come within 1 s' A share.wait_s=1
printf '%s\n' 1,person-3-of-study,red 2,person-3-of-study,red >>"$tmp/table-A/val.csv"
refuses 65 'are both called "person-3-of-study"' A
sed -i '/person-3-of-study/d' "$tmp/table-A/val.csv"
# One with the other's role is refused alone: the first waits on, until the right one comes.
begin_align B roles
b=$align_pid
wait_for 'roles: B waits' grep -q '^INFO align-waits: ' "$tmp/roles-B.log"
refuses 78 'no member with share.role: features' A share.role=labels data.label=colour model.classes=3
# nor does a check of the group by A disturb B, which goes on waiting
"$SPLITC" train "$tmp/A.yaml" --set log.dir= --check-config --connect >"$tmp/connect.log" 2>&1 || fail "--connect: status $?"
grep -q '^group  *this client may train with g$' "$tmp/connect.log" && grep -q '^trial  *none: ' "$tmp/connect.log" || fail "--connect in a vertical group: $(cat "$tmp/connect.log")"
begin_align A roles
ends_with "$align_pid" 0 $patience 'roles: A'
ends_with "$b" 0 $patience 'roles: B'
# B takes another key for A's: a letter does not open, at both. Then no row is common: the old result stays.
cp "$tmp/A.rows" "$tmp/old.rows"
begin_align A key
a=$align_pid
begin_align B key "share.peers=$tmp/stranger.pub,$tmp/B.pub"
ends_with "$a" 77 $patience 'key: A'
ends_with "$align_pid" 77 $patience 'key: B'
grep -qF 'does not open' "$tmp/key-A.log" "$tmp/key-B.log" || fail "key: $(tail -n 1 "$tmp/key-A.log")"
sed -i 's/person/patient/' "$tmp/table-B/val.csv"
both_align empty 78
for party in A B; do grep -qF 'no row to evaluate on is at both members' "$tmp/empty-$party.log" || fail "empty: $(tail -n 1 "$tmp/empty-$party.log")"; done
cmp "$tmp/A.rows" "$tmp/old.rows" || fail 'empty: the old result is gone'
