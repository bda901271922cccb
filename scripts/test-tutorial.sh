#!/usr/bin/env bash
# usage: test-tutorial.sh        (make test-tutorial; as root)
# Runs the commands of docs/tutorial.md, as they are printed there, in two network namespaces that act as the hosts
# `edge` and `gpu-host`. A block of the page begins with ```sh HOST[: WHAT]. WHAT marks the blocks that are run in a
# special way:
#   build       is skipped: this tree's programs are installed into a folder of the test instead
#   repository  runs in this tree; TUTORIAL_DATA may name a folder that has CIFAR-10's files already
#   serve       is left running
#   train       runs beside the block marked `watch`
#   own         finds pictures of two kinds in photos/
# `scp` is a shell function here that copies between the two home folders. The transcript goes to stdout.
set -eu
cd "$(dirname "$0")/.."
tree=$PWD build=${BUILD:-$PWD/build/release}
[ "$(id -u)" = 0 ] || { echo 'test-tutorial: network namespaces need root'; exit 77; }
command -v ip >/dev/null || { echo 'test-tutorial: ip is missing (package iproute2)'; exit 77; }

tmp=$(mktemp -d "${TMPDIR:-/tmp}/split-tutorial.XXXXXX")
tag=split$$
end_all() {
	trap - EXIT
	for host in edge gpu-host; do
		ip netns pids "$tag-$host" 2>/dev/null | xargs -r kill 2>/dev/null || true
		ip netns del "$tag-$host" 2>/dev/null || true
		rm -rf "/etc/netns/$tag-$host"
	done
	rm -rf "$tmp"
}
trap end_all EXIT
trap 'exit 130' INT TERM

mkdir -p "$tmp/bin" "$tmp/edge" "$tmp/gpu-host" "$tmp/block"
cp "$build/splitc" "$build/splits" "$tmp/bin/"
for host in edge gpu-host; do
	ip netns add "$tag-$host"
	ip -n "$tag-$host" link set lo up
	mkdir -p "/etc/netns/$tag-$host"
	printf '127.0.0.1 localhost\n10.77.0.1 edge\n10.77.0.2 gpu-host\n' >"/etc/netns/$tag-$host/hosts"
done
ip link add "$tag-a" type veth peer name "$tag-b"
ip link set "$tag-a" netns "$tag-edge" name eth0
ip link set "$tag-b" netns "$tag-gpu-host" name eth0
ip -n "$tag-edge" addr add 10.77.0.1/24 dev eth0
ip -n "$tag-gpu-host" addr add 10.77.0.2/24 dev eth0
ip -n "$tag-edge" link set eth0 up
ip -n "$tag-gpu-host" link set eth0 up

# Writes the page's blocks to numbered files in $tmp/block, with HOST and WHAT in their names.
awk -v dir="$tmp/block" '
	/^```sh / { host = $2; sub(/:$/, "", host); what = $3; file = sprintf("%s/%02d.%s.%s", dir, ++n, host, what); next }
	/^```/ { file = "" }
	file != "" { print > file }' docs/tutorial.md
blocks=("$tmp"/block/*)
[ ${#blocks[@]} -ge 12 ] || { echo "test-tutorial: only ${#blocks[@]} blocks found in docs/tutorial.md"; exit 1; }

scp() { # FROM TO, as between the two hosts
	local from=$1 to=$2
	case $from in *:*) from=$HOMES/${from%%:*}/${from#*:} ;; esac
	case $to in *:*) to=$HOMES/${to%%:*}/${to#*:} ;; esac
	cp "$from" "$to"
}
export -f scp
export HOMES=$tmp

# on HOST FOLDER FILE: runs the block's commands in a shell on that host.
on() {
	sed "s/^/$1\$ /" "$3"
	ip netns exec "$tag-$1" env HOME="$tmp/$1" XDG_RUNTIME_DIR="$tmp/$1" PATH="$tmp/bin:$PATH" \
		bash -euc "cd '$2'; . '$3'"
}

for block in "${blocks[@]}"; do
	name=${block##*/} host=${name#*.} what=${name##*.}; host=${host%%.*}
	folder=$tmp/$host/split
	[ -d "$folder" ] || folder=$tmp/$host
	case $what in
	build) continue ;;
	repository)
		if [ -n "${TUTORIAL_DATA:-}" ]; then
			mkdir -p "$folder/data"; ln -s "$TUTORIAL_DATA" "$folder/data/cifar-10-batches-bin"
		else # a namespace reaches no archive
			scripts/fetch-cifar10.sh "$folder/data/cifar-10-batches-bin"
		fi
		on "$host" "$tree" "$block"
		;;
	train)
		on "$host" "$folder" "$block" & training=$!
		watch=$(ls "$tmp"/block/*.watch)
		until on gpu-host "$tmp/gpu-host/split" "$watch" | tee "$tmp/watched" | grep -q 'edge'; do
			kill -0 $training 2>/dev/null || { echo 'test-tutorial: the run ended before status showed it'; exit 1; }
			sleep 1
		done
		cat "$tmp/watched"
		wait $training
		;;
	watch) ;;
	own)
		for kind in cat dog; do
			mkdir -p "$folder/photos/$kind"
			for i in $(seq 30); do
				awk -v i="$i" -v dark="$([ $kind = cat ] && echo 60 || echo 180)" 'BEGIN {
					print "P2 32 32 255"
					for (k = 0; k < 1024; k++) print dark + (k * i + i * 37) % 41
				}' >"$folder/photos/$kind/$i.pgm"
			done
		done
		on "$host" "$folder" "$block"
		;;
	*)
		if [ "$host" = both ]; then for h in edge gpu-host; do on "$h" "$tmp/$h" "$block"; done; continue; fi
		on "$host" "$folder" "$block"
		;;
	esac
	if [ "$what" = serve ]; then
		until grep -q 'serving' "$folder/splits.log"; do sleep 0.2; done
	fi
done
[ -s "$tmp/edge/split/model.safetensors" ] || { echo 'test-tutorial: no model'; exit 1; }
[ -s "$tmp/edge/split/runs/photos/model.safetensors" ] || { echo 'test-tutorial: no model of own pictures'; exit 1; }
echo 'test-tutorial: every command of docs/tutorial.md passed'
