#!/usr/bin/env bash
# usage: debian-root.sh FILE.tar [PACKAGE,…]        (as root)
# A clean Debian 12 as an archive, made by debootstrap where FILE is not there: an image `debian:12` where no registry is,
# or the root for a test. It uses this machine's settings of apt for the mirror (DEBIAN_MIRROR names another), proxies and dates.
# With ARCH=arm64 it is a Debian of that architecture, which is configured through qemu (scripts/emulated.sh).
set -eu
file=$(realpath -m "$1") packages=${2:-} arch=${ARCH:-$(dpkg --print-architecture)}
cd "$(dirname "$0")"
[ ! -e "$file" ] || exit 0
mkdir -p "$(dirname "$file")"
root=$(mktemp -d "$file.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$file.new"' EXIT
trap 'exit 130' INT TERM HUP
echo "debian-root: debootstrap into ${file##*/}"
chmod 755 "$root" # mktemp: 0700, which would be the mode of / for every user
foreign=
[ "$arch" = "$(dpkg --print-architecture)" ] || foreign=--foreign
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
	awk '$2 == "bookworm" {print $1; exit}')}
# what it mounts is seen by itself alone, and never by the removal of $root
unshare --mount debootstrap --variant=minbase --arch="$arch" $foreign ${packages:+--include="$packages"} bookworm "$root" \
	${mirror:+"$mirror"} >"$root.log" 2>&1 || { tail -n 20 "$root.log"; rm -f "$root.log"; exit 69; }
if [ -n "$foreign" ]; then
	# Nodes that the second stage would make, were it allowed to; it does not try in a container.
	for node in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0' 'console 5 1' 'ptmx 5 2'; do
		set -- $node
		[ -e "$root/dev/$1" ] || mknod -m 666 "$root/dev/$1" c "$2" "$3"
	done
	./emulated.sh env container=lxc chroot "$root" /debootstrap/debootstrap --second-stage >"$root.log" 2>&1 ||
		{ tail -n 20 "$root.log"; tail -n 20 "$root/debootstrap/debootstrap.log" 2>/dev/null; rm -f "$root.log"; exit 69; }
fi
rm -f "$root.log"
apt-config dump | grep -E '^Acquire::(Check|http|https|Retries)' >"$root/etc/apt/apt.conf.d/99host" || true
rm -f "$root"/var/cache/apt/archives/*.deb
tar -C "$root" -cf "$file.new" .
mv "$file.new" "$file"
