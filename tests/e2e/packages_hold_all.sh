#!/usr/bin/env bash
# Everything that `make install` installs is in one of the Debian packages; otherwise debhelper refuses to build them.
# The modules for GPUs, MPI and DICOM, which only some machines build, are omitted.
set -eu
[ -z "${SAN:-}" ] || { echo 'the same in every build'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# -o: other tests are using these programs, so make must not rebuild them.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -o all -o "$BUILD/splitc" -o "$BUILD/splits" install DESTDIR="$tmp/root" PREFIX=/usr MPI= DICOM= >"$tmp/out" 2>&1 ||
	{ cat "$tmp/out"; exit 1; }
# Only names count, so empty files replace what `make lib` builds.
mkdir "$tmp/b"
touch "$tmp/b"/{libsplit.so.0,libsplit_local.so,split.pc}
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -o lib B="$tmp/b" install-lib DESTDIR="$tmp/root" PREFIX=/usr LIBDIR=/usr/lib/any MODULEDIR=/usr/lib/any/split \
	>"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
# Below /usr/local (no PREFIX) the Python package must be where Python looks for it.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -o lib B="$tmp/b" install-lib DESTDIR="$tmp/local" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
found=$(find "$tmp/local" -path '*/split/__init__.py' | sed "s|^$tmp/local||; s|/split/__init__.py$||")
/usr/bin/python3 -c 'import site, sys; sys.exit(sys.argv[1] not in site.getsitepackages())' "$found" || { echo "Python does not look in $found"; exit 1; }

mapfile -t held < <(awk '/^(usr|lib)\// {print $1}' deploy/debian/*.install | sed 's|^lib/|usr/lib/|')
bad=0 n=0
while read -r f; do
	n=$((n + 1))
	for pattern in "${held[@]}"; do
		case $f in $pattern | $pattern/* | */libsplit_cuda.so) continue 2 ;; esac
	done
	echo "$f is in no package: add it to a file deploy/debian/*.install"
	bad=1
done < <(cd "$tmp/root" && find . -type f -o -type l | sed 's|^\./||')
[ $n -ge 20 ] || { echo "only $n files installed"; exit 1; }
exit $bad
