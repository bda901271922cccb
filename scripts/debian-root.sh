#!/usr/bin/env bash
# usage: debian-root.sh FILE.tar [PACKAGE,…]        (as root)
# Makes an archive of a clean Debian with debootstrap, unless FILE exists. SUITE is the release: bookworm (Debian 12) or
# trixie (13). The archive serves as the image `debian:SUITE` without a registry, or as the root of a test. The mirror (or
# DEBIAN_MIRROR), proxies and dates come from this machine's apt settings. With ARCH=arm64 it is a Debian of that
# architecture, which is configured through qemu (scripts/emulated.sh).
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
	awk -v suite="$(. /etc/os-release && echo "$VERSION_CODENAME")" '$2 == suite {print $1; exit}')}
# In a mount namespace of its own: debootstrap's mounts are visible to no one else, and never to the removal of $root.
unshare --mount debootstrap --variant=minbase --arch="$arch" $foreign ${packages:+--include="$packages"} "${SUITE:-bookworm}" "$root" \
	${mirror:+"$mirror"} >"$root.log" 2>&1 || { tail -n 20 "$root.log"; rm -f "$root.log"; exit 69; }
if [ -n "$foreign" ]; then
	# The second stage would make these nodes if it were allowed to; in a container it does not try.
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
