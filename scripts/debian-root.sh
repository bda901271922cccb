#!/usr/bin/env bash
# usage: debian-root.sh FILE.tar [PACKAGE,…]        (as root)
# A clean Debian 12 as an archive, made by debootstrap where FILE is not there: an image `debian:12` where no registry is,
# or the root for a test of packages. DEBIAN_MIRROR names another mirror than debootstrap's own. It uses this machine's settings
# of apt for proxies and dates.
set -eu
file=$1 packages=${2:-}
[ ! -e "$file" ] || exit 0
mkdir -p "$(dirname "$file")"
root=$(mktemp -d "$file.XXXXXX")
trap 'rm -rf "$root" "$file.new"' EXIT
trap 'exit 130' INT TERM HUP
echo "debian-root: debootstrap into ${file##*/}"
chmod 755 "$root" # mktemp: 0700, which would be the mode of / for every user
debootstrap --variant=minbase ${packages:+--include="$packages"} bookworm "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} \
	>"$root.log" 2>&1 || { tail -n 20 "$root.log"; rm -f "$root.log"; exit 69; }
rm -f "$root.log"
apt-config dump | grep -E '^Acquire::(Check|http|https|Retries)' >"$root/etc/apt/apt.conf.d/99host" || true
rm -f "$root"/var/cache/apt/archives/*.deb
tar -C "$root" -cf "$file.new" .
mv "$file.new" "$file"
