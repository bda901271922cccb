#!/usr/bin/env bash
# usage: emulated.sh COMMAND…        (as root)
# Runs COMMAND with arm64 programs started through qemu by the kernel, also in a chroot. The registration with the
# kernel (binfmt_misc) is made in a user namespace of its own, which Linux supports since 6.7, and disappears when
# COMMAND ends. An older kernel needs a registration for the whole machine: the package qemu-user-static makes one if
# binfmt-support or systemd is installed. Exits with 77 if neither is possible.
set -eu
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
case ${1:-} in
--unmapped)
	# The namespace has no user map yet. Once it has one, the next program that this shell starts runs as root here.
	until read -r _ 2>/dev/null </proc/self/uid_map && read -r _ 2>/dev/null </proc/self/gid_map; do sleep 0.01; done
	shift
	exec "$0" --inside "$@" ;;
--inside)
	shift
	mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
	# Flag F: the kernel opens the interpreter now, so that a chroot needs no copy of it.
	printf ':qemu-aarch64:M::%s:%s:%s:F' "$magic" "$mask" "$(command -v qemu-aarch64-static)" >/proc/sys/fs/binfmt_misc/register
	exec "$@" ;;
'') echo "usage: ${0##*/} COMMAND…" >&2; exit 64 ;;
esac
[ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || exec unshare --mount "$@" # mounts are private either way
command -v qemu-aarch64-static >/dev/null || { echo 'qemu-aarch64-static is missing: run scripts/install-deps.sh --arm64'; exit 77; }
[ "$(printf '%s\n' 6.7 "$(uname -r)" | sort -V | head -n 1)" = 6.7 ] ||
	{ echo 'Linux is older than 6.7 and starts no arm64 programs: install qemu-user-static with binfmt-support'; exit 77; }
# The parent namespace writes the map of the new one, with every user id mapped to itself.
shell=$$ outside=$(readlink /proc/self/ns/user)
(
	until [ "$(readlink "/proc/$shell/ns/user")" != "$outside" ]; do sleep 0.01; done
	echo '0 0 4294967295' >"/proc/$shell/uid_map"
	echo '0 0 4294967295' >"/proc/$shell/gid_map"
) &
exec unshare --user --mount "$0" --unmapped "$@"
