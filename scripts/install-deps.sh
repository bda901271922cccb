#!/usr/bin/env bash
# usage: install-deps.sh [--dev] [--data] [--onnx] [--wheel] [--peer] [--compile] [--containers] [--packages] [--mpi] [--dicom] [--arm64] [--fresh] [--print]
# Installs the packages that building and testing need, and gnuplot for `splitc plot`, on Debian 12 and 13 and Ubuntu
# 24.04. If all are installed, it prints nothing and needs no network. On another system it installs nothing, and names
# the programs and libraries that are missing. OS_RELEASE is a file in place of /etc/os-release, for tests.
#   --dev   also the packages for `make format-check` and `make fuzz`, and for the networks and clocks of `make blackbox`
#   --data  also npm, for the second source of the data if the archive is out of reach
#   --onnx  also Node.js and npm, for the test `onnx_runtime`
#   --wheel also patchelf, for `make wheel`, `make test-wheel` and the test `script`
#   --peer  also PyTorch and scikit-learn, for `make test-torch`, `make bench-peer`, `make bench-rounding` and the test `script`
#   --compile  also what torch.compile builds with, for `make bench-peer BENCH_ARGS=--compile`
#   --containers  also podman and docker-compose, for `make test-containers`
#   --packages    also debhelper and lintian, for `make deb` and `make test-packages`
#   --mpi    also Open MPI, for servers that train one middle together (docs/howto-deploy.md)
#   --dicom  also DCMTK and a C++ compiler, for pictures in DICOM (docs/howto-images.md)
#   --arm64  also the cross compiler, the libraries of arm64 and qemu, for `make CROSS=aarch64-linux-gnu` and `make test-arm64`
#   --fresh  also debootstrap, for `make test-fresh`
#   --print  installs nothing, and prints the names of the packages
set -eu
programs='gcc g++ make pkg-config git curl jq python3 protoc-c'
# the package, pkg-config's name of the library, and the least version: Debian 12's, with which Split is tested
libraries='
	libzmq3-dev            libzmq         4.3.4
	libsodium-dev          libsodium      1.0.18
	libprotobuf-c-dev      libprotobuf-c  1.4.1
	libuv1-dev             libuv          1.44.2
	libopenblas-pthread-dev openblas       0.3.21
	libyaml-dev            yaml-0.1       0.2.5
	libjansson-dev         jansson        2.14
	libxxhash-dev          libxxhash      0.8.1
	libzstd-dev            libzstd        1.5.4
	zlib1g-dev             zlib           1.2.13
	libpng-dev             libpng         1.6.39
	libjpeg-dev            libjpeg        2.1.5
	libwebp-dev            libwebp        1.2.4
	libtiff-dev            libtiff-4      4.5.0
	libarchive-dev         libarchive     3.6.2
	libpcre2-dev           libpcre2-8     10.42
	libutf8proc-dev        libutf8proc    2.6.0
	libcmocka-dev          cmocka         1.1.5'
# Each of these names stands for the same in Debian 12, Debian 13 and Ubuntu 24.04.
packages="gcc g++ make pkg-config libc6-dev git ca-certificates curl protobuf-c-compiler jq python3 gnuplot-nox
	$(awk 'NF {print $1}' <<<"$libraries")"
headers=$(printf '%s\n' $packages | grep -e '^lib.*-dev$')
basis=$packages foreign= only_print=
for arg in "$@"; do
	case $arg in
	--dev) packages="$packages clang clang-format libclang-rt-dev patchelf python3-pyflakes openssh-server faketime iproute2 iptables" ;;
	--data) command -v npm >/dev/null || packages="$packages npm" ;; # one that is no Debian package will do
	--wheel) packages="$packages patchelf" ;;
	--onnx) command -v node >/dev/null && command -v npm >/dev/null || packages="$packages nodejs npm" ;;
	--peer) packages="$packages python3-torch python3-torchvision python3-onnx python3-sklearn" ;;
	--compile) packages="$packages libtorch-dev libsleef-dev python3-dev python3-setuptools" ;;
	--containers) packages="$packages podman runc docker-compose netavark aardvark-dns iptables debootstrap python3-yaml" ;;
	--packages) packages="$packages build-essential debhelper dh-python dpkg-dev fakeroot lintian debootstrap systemd-container libdcmtk-dev" ;;
	--fresh) packages="$packages debootstrap" ;;
	--mpi) packages="$packages libopenmpi-dev openmpi-bin" ;;
	--dicom) packages="$packages libdcmtk-dev g++" ;;
	--arm64)
		foreign=arm64
		packages="$packages gcc-aarch64-linux-gnu qemu-user-static debootstrap $(printf '%s:arm64 ' $headers)" ;;
	--print) only_print=yes ;;
	*) echo "usage: ${0##*/} [--dev] [--data] [--onnx] [--wheel] [--peer] [--compile] [--containers] [--packages] [--mpi] [--dicom] [--arm64] [--fresh] [--print]" >&2; exit 64 ;;
	esac
done
[ -z "$only_print" ] || { echo $packages; exit 0; }

# On a system of another family: what pkg-config and the shell find there.
case " $(. "${OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-} ${ID_LIKE:-}") " in
*' debian '* | *' ubuntu '*) ;;
*)
	missing=$(
		for p in $programs; do command -v "$p" >/dev/null || echo "program $p"; done
		awk 'NF {print $2, $3}' <<<"$libraries" | while read -r name least; do
			pkg-config --exists "$name >= $least" 2>/dev/null || echo "library $name, $least or later"
		done
	)
	[ "$packages" = "$basis" ] || echo "install-deps: this is neither Debian nor Ubuntu; $* needs what they call${packages#"$basis"}" >&2
	[ -n "$missing" ] || exit 0
	printf '%s\n' 'install-deps: this is neither Debian nor Ubuntu, so nothing is installed. These are missing (libraries by their names in pkg-config):' "$missing" >&2
	exit 69
	;;
esac

# a package may be installed for several architectures
native=$(dpkg --print-architecture) missing=
for p in $packages; do
	case $p in *:*) arch=${p#*:} ;; *) arch=$native ;; esac
	dpkg-query -W -f '${db:Status-Status} ${Architecture}\n' "$p" 2>/dev/null | grep -qxE "installed ($arch|all)" || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || { echo "packages are missing, and there is no sudo; as root: apt-get install$missing" >&2; exit 77; }
	as_root=sudo
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
[ -z "$foreign" ] || $as_root dpkg --add-architecture "$foreign"
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
