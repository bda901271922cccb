#!/usr/bin/env bash
# usage: test-packages.sh        (make test-packages; as root, on Debian)
# Tests the packages of build/deb, and those of build/deb-next for the upgrade, in a clean Debian 12 that systemd-nspawn
# boots with systemd as its init. With SUITE=trixie: those of build/deb-trixie and build/deb-trixie-next, in Debian 13.
# They install, and the units start; a C program and a Python program each train a middle of their own; a client trains.
# systemd's watchdog kills a stopped server, which restarts, and the run continues. Reload reads the keys again. Then
# upgrade, removal, and purge, which keeps data and says so. The system is removed at the end.
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'test-packages: needs root' >&2; exit 77; }
[ -n "${SPLIT_NO_DEPS:-}" ] || scripts/install-deps.sh --packages
new=build/deb${SUITE:+-$SUITE}
ls $new/split-server_*.deb $new-next/split-server_*.deb >/dev/null 2>&1 || { echo "test-packages: no packages in $new and $new-next: make test-packages builds them" >&2; exit 66; }
limit=${PATIENCE:-300}
base=$PWD/build/packages/${SUITE:-bookworm}-systemd.tar
tmp=$(mktemp -d /tmp/packages.XXXXXX)
root=$tmp/root
init=

say() { printf 'test-packages: %s\n' "$*"; }
fail() {
	say "FAILED: $*"
	if [ -n "$init" ]; then inside journalctl --no-pager -n 40 -u splits -u 'splitc@*' -u systemd-tmpfiles-setup || true; fi
	[ ! -s "$tmp/out" ] || tail -n 20 "$tmp/out"
	exit 1
}
end_all() {
	trap - EXIT
	[ -z "$init" ] || kill -9 "$init" 2>/dev/null || true
	[ -z "${nspawn:-}" ] || wait "$nspawn" 2>/dev/null || true
	rm -rf --one-file-system "$tmp"
}
trap end_all EXIT
trap 'exit 130' INT TERM HUP
within() { # WHAT COMMAND…
	local what=$1 end=$((SECONDS + limit))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "after $limit s not yet: $what"
		sleep 0.5
	done
}

# ---- a Debian with systemd, and everything that the packages need from the network, before the network is cut off
scripts/debian-root.sh "$base" systemd,systemd-sysv,dbus,procps
mkdir "$root"
tar -C "$root" -xf "$base"
mkdir -p "$root/debs"
cp $new/*.deb $new-next/*.deb "$root/debs/"
cp /etc/resolv.conf "$root/etc/resolv.conf"
before=$(cd "$root" && find etc var/lib usr -name '*split*' | sort)
chroot "$root" apt-get update -qq >"$tmp/out" 2>&1 || fail 'apt-get update'
depends=$(for p in split-client split-server libsplit0 python3-split; do dpkg-deb -f $new/$p\_*.deb Depends; done | tr ',' '\n' | sed 's/[(|].*//; s/ //g' | grep -vE '^(lib)?split' | sort -u)
chroot "$root" apt-get install -y -qq --no-install-recommends --download-only $depends >"$tmp/out" 2>&1 || fail "dependencies: $depends"

# ---- boot
systemd-nspawn -q -D "$root" --boot --register=no --keep-unit --private-network --hostname=split-test </dev/null >"$tmp/console" 2>&1 &
nspawn=$!
booted() {
	local child
	kill -0 $nspawn 2>/dev/null || fail "systemd-nspawn ended: $(tail -n 5 "$tmp/console")"
	for child in $(pgrep -P $nspawn); do
		[ "$(cat "/proc/$child/comm")" != systemd ] || init=$child
	done
	[ -n "$init" ] && inside systemctl list-units >/dev/null
}
inside() { nsenter -t "$init" -m -u -i -n -p -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
within 'systemd' booted
inside ip link set lo up 2>/dev/null || true
say "systemd $(inside systemctl --version | sed -n '1s/.*(\(.*\)).*/\1/p') runs as init"

apt() { inside apt-get -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$@" >"$tmp/out" 2>&1 || fail "apt-get $*"; }
debs() { # VERSION PACKAGE…: their files
	local version=$1 p
	shift
	for p in "$@"; do (cd "$root" && ls -1 debs/"$p"_"$version"_*.deb) | sed 's|^|/|'; done
}
version=$(dpkg-parsechangelog -l deploy/debian/changelog -S Version) next=$(dpkg-deb -f $new-next/split-server_*.deb Version)
apt install $(debs "$version" split-client split-server split-doc)
within 'the server after the installation' inside splits status --control /run/split/splits.sock
[ "$(inside stat -c '%U %a' /var/lib/split /var/lib/splitc | xargs)" = 'splits 700 splitc 711' ] || fail 'owners and modes of the folders in /var/lib'
[ -s "$root/usr/share/man/man1/splitc.1.gz" ] && [ -s "$root/usr/share/doc/split-doc/tutorial.md" -o -s "$root/usr/share/doc/split-doc/tutorial.md.gz" ] || fail 'pages'
[ "$(inside dpkg-query -W -f '${Conffiles}\n' split-server split-client | awk '{print $1}' | sort | xargs)" = '/etc/split/client.yaml /etc/split/server.yaml' ] || fail 'conffiles'
say 'installed: the server runs, both users and their folders are there'

# ---- programs with a middle of their own, on the server and in their own process; compiled with this host's C compiler
apt install $(debs "$version" libsplit0 libsplit-dev python3-split)
flags=$(env PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_LIBDIR="$root/usr/lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)/pkgconfig" \
	PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 pkg-config --cflags --libs split)
# libsplit may ask for a newer libc than this host's
gcc -Wl,--allow-shlib-undefined examples/middle.c $flags -o "$root/debs/middle" >"$tmp/out" 2>&1 || fail "the example does not compile with $flags"
for server in tcp://127.0.0.1:5570 local:; do
	inside /debs/middle "$server" 20 >"$tmp/out" 2>&1 || fail "the example with $server"
	inside python3 - "$server" <tests/e2e/script/one_call.py >"$tmp/out" 2>&1 || fail "Python with $server"
done
apt remove libsplit-dev
say 'programs in C and Python have a middle, of the server and of their own process'

# ---- keys, data, a client's run
inside runuser -u splits -- splits keygen --out /etc/split/keys-server/splits.key >"$root/etc/split/splits.pub"
inside runuser -u splitc -- splitc keygen --out /etc/split/keys-client/splitc.key >"$root/etc/split/edge.pub"
echo "$(cat "$root/etc/split/edge.pub") edge" >"$root/etc/split/clients"
sed -i 's|^listen:.*|&\nauth: {secret_key: /etc/split/keys-server/splits.key, clients: /etc/split/clients}|' "$root/etc/split/server.yaml"
mkdir -p "$root/srv/split/cifar-10-batches-bin"
"${BUILD:-build/release}/tests/e2e/tools/make_cifar" "$root/srv/split/cifar-10-batches-bin" 1280 128
sed -e "s|^  epochs: .*|  epochs: 40\n  checkpoint_every: 2|; s|^  batch: 128|  batch: 32|; s|width: 0.35|width: 0.25|" \
	-e "s|^  dir: .*|&\n  train_files: [data_batch_1.bin]|" "$root/etc/split/client.yaml" >"$root/etc/split/edge.yaml"
printf 'auth: {secret_key: /etc/split/keys-client/splitc.key, server_key: /etc/split/splits.pub}\n' >>"$root/etc/split/edge.yaml"
inside systemctl restart splits
within 'the server with keys' inside splits status
inside systemctl start splitc@edge
step() { inside splitc status --control /run/splitc/edge/splitc.sock --json 2>/dev/null | jq -r '.sessions[0].step // 0'; }
beyond() { [ "$(step)" -gt "$1" ] 2>/dev/null; }
within 'steps of the client' beyond 4
say "a client trains: step $(step)"

# ---- the watchdog
pid=$(inside systemctl show -P MainPID splits)
reached=$(step)
inside kill -STOP "$pid"
watchdog() { inside journalctl --no-pager -u splits | grep -q 'Watchdog timeout'; }
within "systemd's watchdog" watchdog
again() { [ "$(inside systemctl show -P MainPID splits)" != "$pid" ] && inside systemctl is-active -q splits && inside splits status; }
within 'the server once more' again
within 'the run beyond where it was' beyond "${reached:-4}"
say "the watchdog killed the stopped server; it came back, and the run went on: step $reached, then $(step)"

# ---- reload
echo '# nobody' >"$root/etc/split/clients"
inside systemctl reload splits
refused() { inside journalctl --no-pager -u splitc@edge | grep -q 'status=77'; }
within 'the client without a place in the list' refused
echo "$(cat "$root/etc/split/edge.pub") edge" >"$root/etc/split/clients"
inside systemctl reload splits
reached=$(inside sh -c 'ls /var/lib/splitc/edge/checkpoint-*.safetensors | sed "s/.*checkpoint-0*//; s/[^0-9].*//" | sort -n | tail -n 1')
inside systemctl start splitc@edge
within 'the client in the list again' beyond "${reached:-4}"
say 'systemctl reload: a key that left the list ends its run, one that came back goes on'
inside systemd-analyze security --no-pager splits.service splitc@edge.service 2>/dev/null | grep -E 'Overall' | sed 's/^/    /' ||
	for unit in splits splitc@edge; do inside systemd-analyze security --no-pager $unit | tail -n 1 | sed 's/^/    /'; done

# ---- upgrade, with an edited conffile
pid=$(inside systemctl show -P MainPID splits)
apt install $(debs "$next" split-client split-server split-doc libsplit0 python3-split)
[ "$(inside dpkg-query -W -f '${Version}' split-server)" = "$next" ] || fail 'the version after the upgrade'
grep -q '^auth:' "$root/etc/split/server.yaml" || fail 'the upgrade changed an edited conffile'
within 'the server after the upgrade' inside splits status
[ "$(inside systemctl show -P MainPID splits)" != "$pid" ] || fail 'the server was not started again'
reached=$(step)
within 'the run after the upgrade' beyond "${reached:-4}"
say "upgraded to $next: the edited config stays, the server is the new one, the run goes on"

# ---- remove and purge
apt remove split-client split-server split-doc python3-split libsplit0   # what has no conffile is gone with that
! inside pgrep -x 'splits|splitc' >/dev/null || fail 'a daemon runs after the removal'
[ -e "$root/etc/split/server.yaml" ] || fail 'removal took a conffile'
rm -f "$root"/etc/split/{clients,edge.pub,splits.pub,edge.yaml}
inside apt-get -y -qq purge split-client split-server split-doc >"$tmp/out" 2>&1 || fail 'purge'
grep 'is kept' "$tmp/out" | sed 's/^/    /'
for folder in /var/lib/split /var/lib/splitc /etc/split/keys-client /etc/split/keys-server; do
	grep -q "$folder is kept" "$tmp/out" || fail "purge does not say that it keeps $folder"
done
[ -d "$root/var/lib/splitc/edge" ] || fail 'purge took the data'
rm -rf "$root"/var/lib/split "$root"/var/lib/splitc "$root"/etc/split
left=$(cd "$root" && find etc var/lib usr -name '*split*' | sort | comm -13 <(echo "$before") - | grep -vE '^(var/lib/(apt|systemd)|usr/lib/python3/dist-packages/numpy)/' || true)
[ -z "$left" ] || fail "purge left $left"
say 'removed and purged: data and keys are kept and named, nothing else is left'

# ---- a purge where no data were left also removes the users
apt install $(debs "$version" split-client split-server)
inside apt-get -y -qq purge split-client split-server >"$tmp/out" 2>&1 || fail 'the second purge'
! grep -q 'is kept' "$tmp/out" || fail 'the second purge kept something'
! grep -qE '^split[cs]:' "$root/etc/passwd" || fail 'users are left'
say passed
