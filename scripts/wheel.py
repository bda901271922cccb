#!/usr/bin/env python3
"""usage: scripts/wheel.py MACHINE BUILD OUT       (make wheel)

A wheel of python/split with libsplit and its module for local:, for Linux on MACHINE (x86_64, aarch64), into the folder
OUT: the two libraries are those of the folder BUILD. The libraries that these need come with it, but for libc's and
libstdc++, in a folder of their own. Their names there end with a hash, so they never meet other copies in a process. It
needs strip and patchelf. The tag names the glibc of this machine; older ones may lack symbols.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
METADATA = """Metadata-Version: 2.1
Name: split-middle
Version: {version}
Summary: The middle of a network on a server of Split, for PyTorch and numpy
Requires-Python: >=3.9
Requires-Dist: numpy
Provides-Extra: torch
Requires-Dist: torch >=1.13; extra == "torch"
Provides-Extra: onnx
Requires-Dist: torch >=1.13; extra == "onnx"
Requires-Dist: onnx; extra == "onnx"
"""
WHEEL = """Wheel-Version: 1.0
Generator: split wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""


# Every Linux with glibc has these (PEP 600), and a process must not have two of them.
SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def needed(path):
    return [n for n in output("patchelf", "--print-needed", str(path)).split() if not SYSTEM.match(n)]


def bundled(paths):
    """The files of all libraries that those of `paths` need, {name: file}, found as the dynamic linker finds them."""
    found = {}
    for path in paths:
        linked = output("ldd", str(path))
        found.update(re.findall(r"(\S+) => (\S+) \(", linked))
        missing = re.findall(r"(\S+) => not found", linked)
        if missing:
            sys.exit(f"wheel.py: {path} needs {', '.join(missing)}, which this machine has not")
    return {name: path for name, path in found.items() if not SYSTEM.match(name)}


def copied(path, place, rpath, names):
    """The bytes of a library that finds others as `names` calls them, in `rpath`."""
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "lib")
        subprocess.run(["strip", "--strip-unneeded", "-o", out, path], check=True)
        os.chmod(out, 0o644)
        # one change a call: patchelf 0.14 mixes them up
        for n in needed(path):
            subprocess.run(["patchelf", "--replace-needed", n, names[n], out], check=True)
        if place in names:
            subprocess.run(["patchelf", "--set-soname", names[place], out], check=True)
        subprocess.run(["patchelf", "--set-rpath", rpath, out], check=True)
        return pathlib.Path(out).read_bytes()


def licences(paths):
    """What the packages of these libraries say about copyright, {package: text}."""
    files = [os.path.realpath(p) for p in paths]
    # dpkg knows some of them below /lib, which is a link to /usr/lib
    known = [name for f in files for name in (f, f.removeprefix("/usr"))]
    found = subprocess.run(["dpkg-query", "-S", *known], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    packages = {line.split(":")[0] for line in found.splitlines()}
    return {p: pathlib.Path(f"/usr/share/doc/{p}/copyright").read_bytes() for p in sorted(packages)}


def record(files, name):
    """A line for each file with its hash; RECORD's own line has none."""
    def digest(data):
        return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "".join(f"{path},sha256={digest(data)},{len(data)}\n" for path, data in files.items()) + f"{name},,\n"


def write(out, files):
    """Writes the wheel; the same files give the same bytes."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for path, data in files.items():
            info = zipfile.ZipInfo(path)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            z.writestr(info, data)


def main(machine, build, out):
    version = re.search(r'SL_VERSION "(.*)"', (ROOT / "common/base/version.h").read_text())[1]
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")
    tag = f"py3-none-manylinux_{glibc}_{machine}"
    info, libs = f"split_middle-{version}.dist-info", "split_middle.libs"
    own = [pathlib.Path(build) / name for name in ("libsplit.so.0", "libsplit_local.so")]
    others = bundled(own)
    names = {}
    for name, path in others.items():
        stem, _, rest = name.partition(".so")
        names[name] = f"{stem}-{hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:8]}.so{rest}"
    files = {f"split/{p.name}": p.read_bytes() for p in sorted((ROOT / "python/split").glob("*.py"))}
    for path in own:
        files[f"split/{path.name}"] = copied(path, None, f"$ORIGIN/../{libs}", names)
    for name in sorted(others):
        files[f"{libs}/{names[name]}"] = copied(others[name], name, "$ORIGIN", names)
    for package, text in licences(others.values()).items():
        files[f"{info}/licenses/{package}"] = text
    files[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    files[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()
    path = pathlib.Path(out) / f"split_middle-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, files)
    print(path)


if len(sys.argv) != 4:
    sys.exit("usage: scripts/wheel.py MACHINE BUILD OUT")
for tool in "patchelf", "strip":
    if not shutil.which(tool):
        sys.exit(f"wheel.py: needs {tool}: scripts/install-deps.sh --wheel")
main(*sys.argv[1:])
