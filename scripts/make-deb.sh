#!/usr/bin/env bash
# usage: make-deb.sh [OUT]        (make deb)
# Builds the Debian packages of this tree into OUT (default build/deb). SUITE=trixie builds them in a Debian of that
# release (scripts/in-suite.sh), into build/deb-trixie. The tracked files are copied to
# build/deb-source, with deploy/debian as debian/ there. Then lintian checks the packages: its errors and warnings fail.
# VERSION names another version. DEB_BUILD_PROFILES=pkg.split.nocuda omits the CUDA module, pkg.split.nodicom the one
# for DICOM. HOST_ARCH=arm64 builds for that architecture, with Debian's cross compiler and the libraries of that
# architecture.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/deb${SUITE:+-$SUITE}}")
if [ -n "${SUITE:-}" ]; then
	scripts/in-suite.sh "$SUITE" "rm -rf build/deb && env VERSION='${VERSION:-}' DEB_BUILD_PROFILES='${DEB_BUILD_PROFILES:-}' JOBS='${JOBS:-2}' \
		HOST_ARCH='${HOST_ARCH:-}' SPLIT_NO_DEPS='${SPLIT_NO_DEPS:-}' scripts/make-deb.sh"
	mkdir -p "$out"
	cp "build/suites/$SUITE/root/split/build/deb/"* "$out/"
	exit 0
fi
source=$PWD/build/deb-source
[ -n "${SPLIT_NO_DEPS:-}" ] || scripts/install-deps.sh --packages
mkdir -p "$source/split" "$out"
# Files of an earlier build stay, so that a second build is short.
git ls-files -z --cached --others --exclude-standard | sort -z >"$source/files"
tar --null -T "$source/files" --ignore-failed-read -cf - 2>/dev/null | tar -C "$source/split" -xf -
(cd "$source/split" && find . -path ./build -prune -o -path ./debian -prune -o -type f -print | sed 's|^\./||' | LC_ALL=C sort) |
	LC_ALL=C comm -23 - <(tr '\0' '\n' <"$source/files" | LC_ALL=C sort) | (cd "$source/split" && xargs -r -d '\n' rm -f)
rm -rf "$source/split/debian"
cp -r deploy/debian "$source/split/debian"
sed -i "1s/) [a-z]*;/) $(. /etc/os-release && echo "$VERSION_CODENAME");/" "$source/split/debian/changelog"
if [ -n "${VERSION:-}" ]; then
	sed -i "1s/(.*)/($VERSION)/" "$source/split/debian/changelog"
fi
cd "$source/split"
rm -f "$source"/*.deb "$source"/*.changes "$source"/*.buildinfo
JOBS=${JOBS:-2}
[ -z "${HOST_ARCH:-}" ] || DEB_BUILD_PROFILES="${DEB_BUILD_PROFILES:+$DEB_BUILD_PROFILES }pkg.split.nodicom"
dpkg-buildpackage -us -uc -b -nc --jobs="$JOBS" ${HOST_ARCH:+--host-arch="$HOST_ARCH"} \
	${DEB_BUILD_PROFILES:+--build-profiles="${DEB_BUILD_PROFILES// /,}"} >"$source/build.log" 2>&1 ||
	{ tail -n 30 "$source/build.log"; echo "make deb: failed, see $source/build.log"; exit 1; }
lintian --fail-on error,warning --tag-display-limit 0 ../*.changes || { echo 'make deb: lintian has errors or warnings'; exit 1; }
cp ../*.deb ../*.buildinfo ../*.changes "$out/"
(cd .. && ls -1 *.deb)
echo "the packages are in ${out#"$OLDPWD/"}"
