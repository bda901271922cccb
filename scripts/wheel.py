#!/usr/bin/env python3
"""usage: scripts/wheel.py MACHINE BUILD OUT       (make wheel)

A wheel of python/split with libsplit and its module for local:, for Linux on MACHINE (x86_64, aarch64), into the folder
OUT: the libraries are those of the folder BUILD. It needs nothing but Python and strip. The libraries that libsplit
needs itself are not in it.
"""
import base64
import hashlib
import pathlib
import re
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
"""
WHEEL = """Wheel-Version: 1.0
Generator: split wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""


def stripped(path):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["strip", "--strip-unneeded", "-o", out.name, path], check=True)
        return pathlib.Path(out.name).read_bytes()


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
    tag = f"py3-none-linux_{machine}"
    files = {f"split/{p.name}": p.read_bytes() for p in sorted((ROOT / "python/split").glob("*.py"))}
    for name in "libsplit.so.0", "libsplit_local.so":
        files[f"split/{name}"] = stripped(pathlib.Path(build) / name)
    info = f"split_middle-{version}.dist-info"
    files[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    files[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD").encode()
    path = pathlib.Path(out) / f"split_middle-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, files)
    print(path)


if len(sys.argv) != 4:
    sys.exit("usage: scripts/wheel.py MACHINE BUILD OUT")
main(*sys.argv[1:])
