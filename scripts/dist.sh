#!/usr/bin/env bash
# usage: dist.sh BUILD FOLDER       (make dist)
# Writes split-VERSION.tar.gz of the last commit, its bill of materials as SPDX 2.3 (JSON), and SHA256SUMS into FOLDER. The
# same commit gives the same tarball to the byte. The bill names the Debian packages whose libraries the daemons in BUILD
# link, with their versions.
set -eu -o pipefail
build=$1 out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
version=$(sed -n 's/.*SL_VERSION "\(.*\)"/\1/p' common/base/version.h)
name=split-$version
mkdir -p "$out"
git archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz"
sum=$(sha256sum "$out/$name.tar.gz" | cut -d ' ' -f 1)

# The file that the linker names may be a link of the merged /usr, which dpkg knows by its other path.
owner() { dpkg-query -S "$(realpath "$1")" 2>/dev/null || dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}"; }
libraries() { ldd "$build"/splitc "$build"/splits | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u; }
libraries | while read -r file; do owner "$file"; done | cut -d: -f1 | sort -u |
	xargs dpkg-query -W -f '${Package}\t${Version}\t${source:Package}\t${Architecture}\n' |
	jq -R -s --arg name split --arg version "$version" --arg sum "$sum" --arg date "$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)" '
	def package($id; $name; $version): {SPDXID: "SPDXRef-\($id)", name: $name, versionInfo: $version,
		downloadLocation: "NOASSERTION", licenseConcluded: "NOASSERTION", licenseDeclared: "NOASSERTION",
		copyrightText: "NOASSERTION", filesAnalyzed: false};
	[splits("\n") | select(. != "") / "\t"] as $debs |
	{spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", name: "split-\($version)",
	 documentNamespace: "urn:sha256:\($sum)", creationInfo: {created: $date, creators: ["Tool: split-dist"]},
	 documentDescribes: ["SPDXRef-split"],
	 packages: ([package("split"; "split"; $version) + {checksums: [{algorithm: "SHA256", checksumValue: $sum}]}] +
		[$debs[] | package("deb-\(.[0])"; .[0]; .[1]) + {externalRefs: [{referenceCategory: "PACKAGE-MANAGER", referenceType: "purl",
			referenceLocator: "pkg:deb/debian/\(.[0])@\(.[1] | @uri)?arch=\(.[3])"}], sourceInfo: "built from the source package \(.[2])"}]),
	 relationships: ([{spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: "SPDXRef-split"}] +
		[$debs[] | {spdxElementId: "SPDXRef-split", relationshipType: "DYNAMIC_LINK", relatedSpdxElement: "SPDXRef-deb-\(.[0])"}])}' \
		>"$out/$name.spdx.json"
(cd "$out" && sha256sum "$name.tar.gz" "$name.spdx.json" >SHA256SUMS && cat SHA256SUMS)
