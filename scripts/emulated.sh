#!/usr/bin/env bash
# usage: emulated.sh COMMAND…        (as root)
# Runs COMMAND where the kernel starts arm64 programs through qemu, also in a chroot. The registration with the kernel
# (binfmt_misc) is made in a user namespace of its own, which Linux has since 6.7, and is gone when COMMAND ends. An
# older kernel needs a registration for the whole machine, which the package qemu-user-static makes where
# binfmt-support or systemd is. Ends with 77 where there is neither.
set -eu
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
case ${1:-} in
--unmapped)
	# nobody yet: this shell becomes root here with the first program that it runs after the map is there
	until read -r _ 2>/dev/null </proc/self/uid_map && read -r _ 2>/dev/null </proc/self/gid_map; do sleep 0.01; done
	shift
	exec "$0" --inside "$@" ;;
--inside)
	shift
	mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
	# F: the interpreter is opened now, so that a chroot needs no copy of it
	printf ':qemu-aarch64:M::%s:%s:%s:F' "$magic" "$mask" "$(command -v qemu-aarch64-static)" >/proc/sys/fs/binfmt_misc/register
	exec "$@" ;;
'') echo "usage: ${0##*/} COMMAND…" >&2; exit 64 ;;
esac
[ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || exec unshare --mount "$@" # mounts are private either way
command -v qemu-aarch64-static >/dev/null || { echo 'qemu-aarch64-static is missing: run scripts/install-deps.sh --arm64'; exit 77; }
[ "$(printf '%s\n' 6.7 "$(uname -r)" | sort -V | head -n 1)" = 6.7 ] ||
	{ echo 'Linux is older than 6.7 and starts no arm64 programs: install qemu-user-static with binfmt-support'; exit 77; }
# From outside, every user becomes the same user inside.
shell=$$ outside=$(readlink /proc/self/ns/user)
(
	until [ "$(readlink "/proc/$shell/ns/user")" != "$outside" ]; do sleep 0.01; done
	echo '0 0 4294967295' >"/proc/$shell/uid_map"
	echo '0 0 4294967295' >"/proc/$shell/gid_map"
) &
exec unshare --user --mount "$0" --unmapped "$@"
