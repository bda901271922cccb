# Sourced by test-fresh.sh, test-wheel.sh and in-suite.sh: clean Debians, and commands in them. As root, from the root of the repository.

# A clean Debian lacks what this machine needs to reach the network: proxies and certificate files.
reach=()
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY npm_config_registry CIFAR10_URL; do
	[ -z "${!name:-}" ] || reach+=("$name=${!name}")
done
for name in NODE_EXTRA_CA_CERTS SSL_CERT_FILE CURL_CA_BUNDLE; do
	[ ! -f "${!name:-/nowhere}" ] || reach+=("$name=/etc/ssl/host/$name")
done

# new_root FOLDER SUITE: unpacks a clean Debian, which also has git, make and sudo. build/fresh keeps its archive.
new_root() {
	local name base=build/fresh/$2-clean.tar
	SUITE=$2 scripts/debian-root.sh "$base" git,make,ca-certificates,sudo
	mkdir -p "$1"
	tar -C "$1" -xf "$base"
	cp /etc/resolv.conf "$1/etc/resolv.conf"
	printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(uname -n)" >"$1/etc/hosts"
	mkdir "$1/etc/ssl/host"
	for name in "${reach[@]}"; do
		case $name in *=/etc/ssl/host/*) name=${name%%=*}; cp "${!name}" "$1/etc/ssl/host/$name" ;; esac
	done
}

# in_root FOLDER USER COMMAND: runs COMMAND in ~/split of USER, in namespaces of its own. Its mounts and processes are
# invisible outside and end with it, so nothing is mounted in the tree when it is removed. Devices are nodes that
# debootstrap made. The waiting bash is the init process; killing $started ends all of it.
started=
in_root() {
	local root=$1 user=$2 home=/home/$2 status=0
	[ "$user" != root ] || home=/root
	unshare --mount --pid --fork --kill-child bash -euc '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts"
		mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
		chroot "$root" "$@" || exit $?' in_root "$root" \
		runuser -u "$user" -- env -i HOME="$home" USER="$user" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		LANG=C.UTF-8 "${reach[@]}" bash -c "cd ~/split && $3" </dev/null &
	started=$!
	wait $started || status=$?
	started=
	return $status
}
