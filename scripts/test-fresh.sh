#!/usr/bin/env bash
# usage: test-fresh.sh        (make test-fresh; as root, on Debian)
# Runs the commands of README.md under "Two commands", as they are printed there, in a clean Debian that has git, make and
# ca-certificates and nothing else: as root, and as a user with sudo, each in its own clone and its own Debian. SUITE is
# the release: bookworm (Debian 12) or trixie (13). It tests only what is committed. SPLIT_FRESH=short: root runs the second
# command and the user the first. build/fresh keeps the clean Debian for the next run, and the output of the commands.
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'test-fresh: needs root' >&2; exit 77; }
[ -n "${SPLIT_NO_DEPS:-}" ] || scripts/install-deps.sh --fresh
keep=$PWD/build/fresh
mkdir -p "$keep"
tmp=$(mktemp -d "$keep/run.XXXXXX")
started=
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

# The clean Debian also has sudo, for the user; root's copy removes it.
suite=${SUITE:-bookworm}
base=$keep/$suite-clean.tar
SUITE=$suite scripts/debian-root.sh "$base" git,make,ca-certificates,sudo

# A clean Debian lacks what this machine needs to reach the network: proxies and certificate files.
reach=()
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY npm_config_registry CIFAR10_URL; do
	[ -z "${!name:-}" ] || reach+=("$name=${!name}")
done
for name in NODE_EXTRA_CA_CERTS SSL_CERT_FILE CURL_CA_BUNDLE; do
	[ ! -f "${!name:-/nowhere}" ] || reach+=("$name=/etc/ssl/host/$name")
done

# new_root USER: makes a Debian with a clone in it; sets $root.
new_root() {
	root=$tmp/$1
	home=$([ "$1" = root ] && echo /root || echo "/home/$1")
	mkdir "$root"
	tar -C "$root" -xf "$base"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(uname -n)" >"$root/etc/hosts"
	mkdir "$root/etc/ssl/host"
	for name in "${reach[@]}"; do
		case $name in *=/etc/ssl/host/*) name=${name%%=*} && cp "${!name}" "$root/etc/ssl/host/$name" ;; esac
	done
	if [ "$1" = root ]; then
		SUDO_FORCE_REMOVE=yes chroot "$root" dpkg --purge sudo >/dev/null
	else
		chroot "$root" useradd --create-home --shell /bin/bash "$1"
		echo "$1 ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$1"
	fi
	git clone -q --no-hardlinks . "$root$home/split"
	chroot "$root" chown -R "$1:" "$home/split"
	# Packages that the previous Debian has downloaded already.
	[ ! -d "$tmp/debs" ] || mv "$tmp"/debs/*.deb "$root/var/cache/apt/archives/"
}

# in_root USER COMMAND: runs COMMAND in namespaces of its own. Its mounts and processes are invisible outside and end
# with it, so nothing is mounted in the tree when it is removed. Devices are nodes that debootstrap made. The waiting
# bash is the init process.
in_root() {
	unshare --mount --pid --fork --kill-child bash -euc '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts"
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
		chroot "$root" "$@" || exit $?' in_root "$root" \
		runuser -u "$1" -- env -i HOME="$home" USER="$1" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		LANG=C.UTF-8 "${reach[@]}" bash -c "cd ~/split && $2" </dev/null &
	local status=0
	started=$!
	wait $started || status=$?
	started=
	return $status
}

# as USER COMMAND…: runs the commands as USER in a new root.
as() {
	local user=$1 command from status log
	shift
	new_root "$user"
	for command in 'make help' "$@"; do
		from=$SECONDS status=0 command=${command%%  *#*}
		log=$keep/$suite-$user-${command##* }.log
		in_root "$user" "$command" >"$log" 2>&1 || status=$?
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

if [ "${SPLIT_FRESH:-}" = short ]; then
	as root "${commands[1]}"
	as newcomer "${commands[0]}"
else
	as root "${commands[@]}"
	as newcomer "${commands[@]}"
fi
say "passed in $suite, $SECONDS s"
