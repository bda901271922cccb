#!/usr/bin/env bash
# usage: test-fresh.sh        (make test-fresh; as root, on Debian)
# Runs the commands of README.md under "Two commands", as they are printed there, in a clean Debian that has git, make and
# ca-certificates and nothing else: as root, and as a user with sudo, each in its own clone and its own Debian. SUITE is
# the release: bookworm (Debian 12) or trixie (13). It tests only what is committed. SPLIT_FRESH=root: only root, and the
# second command; SPLIT_FRESH=newcomer: only the user, and the first. build/fresh keeps the clean Debian for the next run,
# and the output of the commands.
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'test-fresh: needs root' >&2; exit 77; }
[ -n "${SPLIT_NO_DEPS:-}" ] || scripts/install-deps.sh --fresh
keep=$PWD/build/fresh
mkdir -p "$keep"
tmp=$(mktemp -d "$keep/run.XXXXXX")
. scripts/clean-root.sh
end_all() {
	trap - EXIT
	[ -z "$started" ] || kill -KILL "$started" 2>/dev/null || true # and with it all that it started
	wait
	rm -rf --one-file-system "$tmp"
}
trap end_all EXIT
trap 'exit 130' INT TERM HUP
say() { printf 'test-fresh: %s\n' "$*"; }

# Reads the lines of the page's code block. Comments stay in it; a shell skips them.
mapfile -t commands < <(sed -n '/^## Two commands/,/^## [^T]/p' README.md | sed -n '/^```sh/,/^```/ {/^```/!p}')
[ ${#commands[@]} = 2 ] || { say "README.md has ${#commands[@]} commands under \"Two commands\", not 2"; exit 1; }

suite=${SUITE:-bookworm}

# root_of USER: makes a Debian with a clone in it; sets $root.
root_of() {
	local home=/root
	root=$tmp/$1
	new_root "$root" "$suite"
	if [ "$1" = root ]; then
		SUDO_FORCE_REMOVE=yes chroot "$root" dpkg --purge sudo >/dev/null
	else
		home=/home/$1
		chroot "$root" useradd --create-home --shell /bin/bash "$1"
		echo "$1 ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$1"
	fi
	git clone -q --no-hardlinks . "$root$home/split"
	chroot "$root" chown -R "$1:" "$home/split"
	# Packages that the previous Debian has downloaded already.
	[ ! -d "$tmp/debs" ] || mv "$tmp"/debs/*.deb "$root/var/cache/apt/archives/"
}

# as USER COMMAND…: runs the commands as USER in a new root.
as() {
	local user=$1 command from status log
	shift
	root_of "$user"
	for command in 'make help' "$@"; do
		from=$SECONDS status=0 command=${command%%  *#*}
		log=$keep/$suite-$user-${command##* }.log
		in_root "$root" "$user" "$command" >"$log" 2>&1 || status=$?
		if [ $status != 0 ]; then
			tail -n 40 "$log"
			say "FAILED: $command as $user, status $status; all that it said is in $log"
			exit 1
		fi
		tail -n 1 "$log" | sed 's/^/    /'
		say "$command as $user: $((SECONDS - from)) s"
	done
	mkdir -p "$tmp/debs"
	find "$root/var/cache/apt/archives" -name '*.deb' -exec mv -t "$tmp/debs" {} +
	rm -rf --one-file-system "$root"
}

case ${SPLIT_FRESH:-} in
root) as root "${commands[1]}" ;;
newcomer) as newcomer "${commands[0]}" ;;
'')
	as root "${commands[@]}"
	as newcomer "${commands[@]}"
	;;
*) say "SPLIT_FRESH is root or newcomer, not $SPLIT_FRESH"; exit 64 ;;
esac
say "passed in $suite, $SECONDS s"
