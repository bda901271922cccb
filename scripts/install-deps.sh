#!/usr/bin/env bash
# usage: install-deps.sh [--dev] [--data] [--onnx] [--peer] [--containers] [--packages] [--mpi] [--dicom] [--arm64] [--fresh] [--print]
# Installs the Debian 12 packages that building and testing need, and gnuplot for `splitc plot`. If all are installed,
# it prints nothing and needs no network.
#   --dev   also the packages for `make format-check` and `make fuzz`
#   --data  also npm, for the second source of the data if the archive is out of reach
#   --onnx  also Node.js and npm, for the test `onnx_runtime`
#   --peer  also PyTorch and scikit-learn, for `make test-torch`, `make bench-peer`, `make bench-rounding` and the test `script`
#   --containers  also podman and docker-compose, for `make test-containers`
#   --packages    also debhelper and lintian, for `make deb` and `make test-packages`
#   --mpi    also Open MPI, for servers that train one middle together (docs/howto-deploy.md)
#   --dicom  also DCMTK and a C++ compiler, for pictures in DICOM (docs/howto-images.md)
#   --arm64  also the cross compiler, the libraries of arm64 and qemu, for `make CROSS=aarch64-linux-gnu` and `make test-arm64`
#   --fresh  also debootstrap, for `make test-fresh`
#   --print  installs nothing, and prints the names of the packages
set -eu
packages='gcc g++ make pkg-config libc6-dev git ca-certificates curl
	libzmq3-dev libsodium-dev libprotobuf-c-dev protobuf-c-compiler libuv1-dev libopenblas-pthread-dev libyaml-dev libjansson-dev
	jq python3 libcmocka-dev libxxhash-dev libzstd-dev libpng-dev libjpeg62-turbo-dev libwebp-dev libtiff-dev libarchive-dev
	libpcre2-dev libutf8proc-dev gnuplot-nox'
libraries=$(printf '%s\n' $packages | grep -e '^lib.*-dev$')
foreign= only_print=
for arg in "$@"; do
	case $arg in
	--dev) packages="$packages clang clang-format libclang-rt-14-dev" ;;
	--data) command -v npm >/dev/null || packages="$packages npm" ;; # one that is no Debian package will do
	--onnx) command -v node >/dev/null && command -v npm >/dev/null || packages="$packages nodejs npm" ;;
	--peer) packages="$packages python3-torch python3-torchvision python3-sklearn" ;;
	--containers) packages="$packages podman runc docker-compose netavark aardvark-dns iptables debootstrap python3-yaml" ;;
	--packages) packages="$packages debhelper dh-python dpkg-dev fakeroot lintian debootstrap systemd-container libdcmtk-dev" ;;
	--fresh) packages="$packages debootstrap" ;;
	--mpi) packages="$packages libopenmpi-dev openmpi-bin" ;;
	--dicom) packages="$packages libdcmtk-dev g++" ;;
	--arm64)
		foreign=arm64
		packages="$packages gcc-aarch64-linux-gnu qemu-user-static debootstrap $(printf '%s:arm64 ' $libraries)" ;;
	--print) only_print=yes ;;
	*) echo "usage: ${0##*/} [--dev] [--data] [--onnx] [--peer] [--containers] [--packages] [--mpi] [--dicom] [--arm64] [--fresh] [--print]" >&2; exit 64 ;;
	esac
done
[ -z "$only_print" ] || { echo $packages; exit 0; }
command -v dpkg-query >/dev/null ||
	{ echo "this is not Debian: install what matches $(echo $packages)" >&2; exit 69; }

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
