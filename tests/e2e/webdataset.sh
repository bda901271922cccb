#!/usr/bin/env bash
# Tar files of pictures: training on them equals training on the same pictures in folders, also with a server; labels as
# text and as JSON; errors for shards that are truncated, are compressed, or lack a label.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
make_data 60 30
start_server one
write_config "$tmp/client.yaml"
sed "s|^data: .*|data: {kind: images, dir: $tmp/pictures}|" "$tmp/client.yaml" >"$tmp/images.yaml"
sed "s|^data: .*|data: {kind: webdataset, dir: $tmp/shards}|" "$tmp/client.yaml" >"$tmp/shards.yaml"
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures" 0
"$TOOLS/make_pictures" "$tmp/data/data_batch_1.bin" "$tmp/pictures/train" 60
"$TOOLS/make_pictures" "$tmp/data/test_batch.bin" "$tmp/pictures/val" 30

# shard NAME FORMAT FILE…: makes a tar file of these pictures with their labels, in this order.
mkdir "$tmp/shards"
shard() {
	local name=$1 format=$2 file class list=$tmp/list more=()
	[ "$format" != pax ] || more=(--transform 's,^train/,größe/,' --owner 'Jürgen:1000') # which no locale of C has
	: >"$list"
	for file in "${@:3}"; do
		class=$(basename "$(dirname "$file")")
		if [ $((${#file} % 2)) = 0 ]; then echo "${class#class-}" >"${file%.*}.cls"; else echo "{\"width\": 1, \"label\": ${class#class-}}" >"${file%.*}.json"; fi
		printf '%s\n' "${file#"$tmp/pictures/"}" "$(cd "$tmp/pictures" && ls "${file#"$tmp/pictures/"}" | sed 's/\.[a-z]*$/.cls/')" >>"$list"
	done
	(cd "$tmp/pictures" && while read -r file; do [ -f "$file" ] && echo "$file" || echo "${file%.cls}.json"; done <"$list" >"$list.there" &&
		tar --format="$format" "${more[@]}" -cf "$tmp/shards/$name" -T "$list.there")
}
mapfile -t train < <(ls "$tmp/pictures/train"/*/*)
mapfile -t val < <(ls "$tmp/pictures/val"/*/*)
shard train-000.tar gnu "${train[@]:0:25}"
shard train-001.tar ustar "${train[@]:25:25}"
shard train-002.tar pax "${train[@]:50}"
shard val.tar gnu "${val[@]}"
for other in dev test; do cp "$tmp/shards/train-000.tar" "$tmp/shards/$other.tar"; done # not read, as val.tar is there
client folders "$tmp/images.yaml" --local || fail "folders: exit status $?"
client shards "$tmp/shards.yaml" --local || fail "shards: exit status $?"
same_run shards folders 4 other
client named "$tmp/shards.yaml" --set 'data.train_files=train-{000..002}.tar' --set data.test_files=val.tar --set data.threads=3 || fail "named shards: exit status $?"
same_run named folders 4 other

# refused SENTENCE OPTION…: exit status 65.
refused() {
	local status=0 says=$1
	shift
	"$SPLITC" train "$tmp/shards.yaml" --check-config "$@" >"$tmp/out" 2>&1 || status=$?
	[ "$status" = 65 ] && [ "$(wc -l <"$tmp/out")" = 1 ] && grep -qF -- "$says" "$tmp/out" || fail "$says: exit status $status, $(cat "$tmp/out")"
}
cp "$tmp/shards/train-000.tar" "$tmp/whole"
for size in 100 512 700 5000 $(($(stat -c %s "$tmp/whole") - 10240)); do
	truncate -s "$size" "$tmp/shards/train-000.tar"
	refused "$tmp/shards/train-000.tar: "
	cp "$tmp/whole" "$tmp/shards/train-000.tar"
done
gzip -c "$tmp/whole" >"$tmp/shards/train-000.tar"
refused "$tmp/shards/train-000.tar: "
cp "$tmp/whole" "$tmp/shards/train-000.tar"
tar -C "$tmp/pictures" -cf "$tmp/shards/train-003.tar" "${train[0]#"$tmp/pictures/"}"
refused 'the sample has no label (.cls, or .json)'
rm "$tmp/shards/train-003.tar"
echo 'none of your business' >"$tmp/shards/1.cls"
cp "${train[0]}" "$tmp/shards/1.jpg"
tar -C "$tmp/shards" -cf "$tmp/shards/train-003.tar" 1.jpg 1.cls
refused '1.cls: must be a class from 0 to'
rm "$tmp/shards/train-003.tar"
# A file whose name has another dot belongs to no sample.
echo 1 >"$tmp/shards/1.cls"
for name in x.1 x.2; do
	cp "${train[0]}" "$tmp/shards/$name.png"
	cp "$tmp/shards/1.cls" "$tmp/shards/$name.cls"
done
tar -C "$tmp/shards" -cf "$tmp/shards/train-003.tar" x.1.png x.1.cls x.2.png x.2.cls
refused "train-003.tar: x.2.png: a sample's name ends at the first dot, so \"x\" has no picture: rename its members without further dots"
cp "${train[0]}" "$tmp/shards/x.png"
cp "$tmp/shards/1.cls" "$tmp/shards/x.cls"
tar -C "$tmp/shards" -cf "$tmp/shards/train-003.tar" x.png x.cls x.1.png x.1.cls
"$SPLITC" train "$tmp/shards.yaml" --check-config --set train.drop_last=true >"$tmp/out" 2>&1 || fail "a second picture: $(cat "$tmp/out")"
grep -q 'WARN.* pictures that are not read: 1, such as x.1.png; a sample has one' "$tmp/out" || fail "a second picture: $(cat "$tmp/out")"
rm "$tmp/shards/train-003.tar"
status=0
"$SPLITC" train "$tmp/shards.yaml" --check-config --set 'data.train_files=train-{000..}.tar' >"$tmp/out" 2>&1 || status=$?
[ $status = 78 ] && grep -qF 'numbers are written as {000..146}' "$tmp/out" || fail "wrong braces: $status, $(cat "$tmp/out")"
status=0
"$SPLITC" train "$tmp/shards.yaml" --check-config --set train.drop_last=true --set 'data.train_files=train-{000..003}.tar' >"$tmp/out" 2>&1 || status=$?
[ $status = 66 ] && grep -qF 'train-003.tar: No such file' "$tmp/out" || fail "a shard that is not there: $status, $(cat "$tmp/out")"
# Training and test set may have different highest classes.
mkdir "$tmp/many" "$tmp/few"
for k in $(seq 0 59); do
	cp "${train[0]}" "$tmp/many/$k.png"
	echo "$k" >"$tmp/many/$k.cls"
done
tar -C "$tmp/many" --sort=name -cf "$tmp/few/all.tar" .
tar -C "$tmp/many" -cf "$tmp/few/two.tar" 0.cls 0.png 1.cls 1.png
# counts TRAIN TEST: how many classes have how many samples in both sets.
counts() {
	"$SPLITC" data "$tmp/shards.yaml" --json --set data.dir="$tmp/few" --set data.train_files="$1" --set data.test_files="$2" >"$tmp/counts" ||
		fail "data of $1 and $2: exit status $?"
	jq -c '[.classes[] | [.train, .test]] | group_by(.) | map([.[0], length])' "$tmp/counts"
}
[ "$(counts all.tar two.tar)" = '[[[1,0],58],[[1,1],2]]' ] || fail "a test set with fewer classes: $(counts all.tar two.tar)"
[ "$(counts two.tar all.tar)" = '[[[0,1],58],[[1,1],2]]' ] || fail "a test set with more classes: $(counts two.tar all.tar)"
# Classes are counted by labels alone: data.on_bad_sample decides about unreadable pictures.
echo 'no picture' >"$tmp/many/1.png"
tar -C "$tmp/many" -cf "$tmp/few/bad.tar" 0.cls 0.png 1.cls 1.png 2.cls 2.png
for key in data.sampling=balanced train.class_weights=balanced; do
	client "bad ${key%%.*}" "$tmp/shards.yaml" --local --set $key --set data.on_bad_sample=skip --set train.mixup=0 --set data.dir="$tmp/few" --set data.train_files=bad.tar --set data.test_files=two.tar ||
		fail "$key with a picture that cannot be read: exit status $?"
	grep -q 'WARN bad-sample: .*bad.tar: 1: ' "$tmp/bad ${key%%.*}.log" || fail "$key: the picture is not named"
done
# macOS adds a file of its own before each file.
mkdir "$tmp/many/a"
for k in 3 4; do
	cp "$tmp/many/$k".* "$tmp/many/a"
	for end in cls png; do echo 'not yours' >"$tmp/many/a/._$k.$end"; done
done
tar -C "$tmp/many" -cf "$tmp/few/mac.tar" a/._3.cls a/3.cls a/._3.png a/3.png a/._4.cls a/4.cls a/._4.png a/4.png
[ "$(counts mac.tar two.tar)" = '[[[0,0],1],[[0,1],2],[[1,0],2]]' ] || fail "hidden members: $(counts mac.tar two.tar)"
echo 'shards train as folders do; broken ones are named'
