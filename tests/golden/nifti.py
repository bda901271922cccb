#!/usr/bin/env python3
"""Writes tests/golden/nifti, small NIfTI files for tests/unit/test_nifti.c, with numpy and from the standard's tables.

usage: nifti.py FOLDER

TYPE-ORDER-VERSION.nii has 5 × 4 × 3 voxels of that type in that byte order. Voxel (i, j, k) is i + 5 j + 20 k, less 30 where
the type has a sign. Version 1 has an sform; version 2 a qform with qfac -1, and scl_slope 0.5 and scl_inter -1. Files of
one order are also gzip's, one of them in two streams.
"""
import gzip
import pathlib
import sys

import numpy as np

TYPES = {"u8": 2, "i16": 4, "i32": 8, "f32": 16, "f64": 64, "i8": 256, "u16": 512, "u32": 768, "i64": 1024, "u64": 1280}
SFORM = [[-2, 0.5, 0, 90], [0.25, 3, 0, -126], [0, 0, 4, -72]]


def header(order, version, code, bits, dim):
    size, real, whole = (348, "f4", "i2") if version == 1 else (540, "f8", "i8")
    h = np.zeros(size + 4, np.uint8)

    def put(at, kind, *values):
        b = np.array(values, order + kind).tobytes()
        h[at:at + len(b)] = np.frombuffer(b, np.uint8)

    put(0, "i4", size)
    put(40 if version == 1 else 16, whole, 3, *dim, 1, 1, 1, 1)
    put(70 if version == 1 else 12, "i2", code, bits)
    put(76 if version == 1 else 104, real, -1, 2, 3, 4, 0, 0, 0, 0)
    if version == 1:
        put(108, "f4", size + 4)
        h[123] = 2
        put(254, "i2", 1)
        put(280, "f4", *np.ravel(SFORM))
        h[344:348] = list(b"n+1\0")
        return h.tobytes()
    h[4:12] = list(b"n+2\0\r\n\x1a\n")
    put(168, "i8", size + 4)
    put(176, "f8", 0.5, -1)
    put(344, "i4", 1, 0)
    put(352, "f8", 0, 0, 0.5 ** 0.5, 10, 20, 30)
    put(500, "i4", 2)
    return h.tobytes()


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    k, j, i = np.meshgrid(range(3), range(4), range(5), indexing="ij")
    for name, code in TYPES.items():
        for order, word in (("<", "le"), (">", "be")):
            for version in (1, 2):
                kind = np.dtype(order + name[0] + str(int(name[1:]) // 8))
                x = (i + 5 * j + 20 * k - (0 if name[0] == "u" else 30)).astype(kind)
                data = header(order, version, code, 8 * kind.itemsize, (5, 4, 3)) + x.tobytes()
                (folder / f"{name}-{word}-{version}.nii").write_bytes(data)
                if name in ("i16", "f32") and word == "le":
                    cut = len(data) // 2 if name == "i16" else len(data)
                    packed = b"".join(gzip.compress(part, mtime=0) for part in (data[:cut], data[cut:]) if part)
                    (folder / f"{name}-{word}-{version}.nii.gz").write_bytes(packed)


if __name__ == "__main__":
    main(sys.argv[1])
