"""usage: check_record.py WHEEL: its RECORD names each file with its hash and length, also the fronts, and its tag is that of its name."""
import base64
import csv
import hashlib
import sys
import zipfile

wheel = zipfile.ZipFile(sys.argv[1])
info = next(n for n in wheel.namelist() if n.endswith("/RECORD"))
rows = {r[0]: r[1:] for r in csv.reader(wheel.read(info).decode().splitlines())}
assert {"split/remote.py", "split/trainer.py", "split/tinker.py"} < set(rows)
assert set(rows) == set(wheel.namelist()) and rows.pop(info) == ["", ""]
for name, (digest, size) in rows.items():
    data = wheel.read(name)
    found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    assert digest == "sha256=" + found and int(size) == len(data), name
tag = "-".join(sys.argv[1][:-len(".whl")].split("-")[-3:])
assert f"Tag: {tag}\n" in wheel.read(info.replace("RECORD", "WHEEL")).decode(), tag
