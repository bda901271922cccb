#!/usr/bin/env python3
"""usage: make_dicom.py [DIR]   (python3-pydicom, python3-pil; DIR: tests/golden/dicom)
Small DICOM files of what hospitals have, for each what pydicom makes of it: NAME.dcm, and NAME.want, floats of 0 … 65535 by
apply_modality_lut and apply_voi_lut, grey or RGB. And bad_NAME.dcm: files that are wrong, each in another way."""
import io
import os
import shutil
import struct
import sys
import warnings

import numpy as np
import pydicom
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixel_data_handlers.util import apply_modality_lut, apply_voi_lut, convert_color_space
from pydicom.uid import (DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian, JPEG2000Lossless,
                         JPEGBaseline8Bit, RLELossless)

DIR = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "dicom")
H, W = 6, 9
warnings.simplefilter("ignore")


def values(bits, signed=False, samples=1):
    """The same on every machine: from the lowest to the highest value."""
    n = H * W * samples
    v = np.array([(i * 2654435761 >> 7) % (1 << bits) for i in range(n)], np.int64)
    v[0], v[1] = 0, (1 << bits) - 1
    if signed:
        v -= 1 << (bits - 1)
    kind = ("int" if signed else "uint") + ("8" if bits <= 8 else "16")
    return v.astype(kind).reshape((H, W, samples) if samples > 1 else (H, W))


def dataset(pixels, stored, syntax=ExplicitVRLittleEndian, **more):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    meta.MediaStorageSOPInstanceUID = "1.2.3.4"
    meta.TransferSyntaxUID = syntax
    ds = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    ds.SOPClassUID, ds.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    ds.is_little_endian, ds.is_implicit_VR = syntax != ExplicitVRBigEndian, syntax == ImplicitVRLittleEndian
    ds.Rows, ds.Columns = pixels.shape[:2]
    ds.SamplesPerPixel = pixels.shape[2] if pixels.ndim == 3 else 1
    ds.BitsAllocated = 8 * pixels.dtype.itemsize
    ds.BitsStored, ds.HighBit = stored, stored - 1
    ds.PixelRepresentation = int(pixels.dtype.kind == "i")
    ds.PhotometricInterpretation = "RGB" if pixels.ndim == 3 else "MONOCHROME2"
    if pixels.ndim == 3:
        ds.PlanarConfiguration = 0
    data = pixels.astype(pixels.dtype.newbyteorder("<" if ds.is_little_endian else ">")).tobytes()
    ds.PixelData = data + b"\0" * (len(data) % 2)
    ds["PixelData"].VR = "OW" if ds.BitsAllocated == 16 else "OB"
    for key, value in more.items():
        setattr(ds, key, value)
    return ds


def save(name, ds):
    path = os.path.join(DIR, name + ".dcm")
    ds.save_as(path, write_like_original=False)
    return path


def whole(share):
    return np.clip(np.floor(share * 65535 + 0.5), 0, 65535)


def as_pydicom(path):
    """Shares of white, as pydicom's windows give them for all the stored values; in doubles."""
    ds = pydicom.dcmread(path)
    v = ds.pixel_array
    if ds.PhotometricInterpretation.startswith("YBR"):
        return convert_color_space(v, ds.PhotometricInterpretation, "RGB").astype(np.float64) * 257
    if ds.SamplesPerPixel == 3:
        return v.astype(np.float64) * 257
    low, high = (-(1 << (ds.BitsStored - 1)), (1 << (ds.BitsStored - 1)) - 1) if ds.PixelRepresentation else (0, (1 << ds.BitsStored) - 1)
    slope, intercept = float(ds.get("RescaleSlope", 1)), float(ds.get("RescaleIntercept", 0))
    x = apply_modality_lut(v, ds).astype(np.float64)
    ends = sorted((low * slope + intercept, high * slope + intercept))
    if "WindowCenter" in ds:
        x = apply_voi_lut(x, ds, index=0)
    y = whole((x - ends[0]) / (ends[1] - ends[0]))
    return 65535 - y if ds.PhotometricInterpretation == "MONOCHROME1" or ds.get("PresentationLUTShape") == "INVERSE" else y


def in_group(sequence, **others):
    """The rescale of `ct` and a window, in a functional group: the same picture as ct_window."""
    group, rescale, window = pydicom.Dataset(), pydicom.Dataset(), pydicom.Dataset()
    rescale.RescaleSlope, rescale.RescaleIntercept, rescale.RescaleType = 1, -1024, "HU"
    window.WindowCenter, window.WindowWidth = 40, 400
    group.PixelValueTransformationSequence, group.FrameVOILUTSequence = [rescale], [window]
    return dataset(values(12), 12, NumberOfFrames=1, **{sequence: [group]}, **others)


def good():
    ct = dict(RescaleSlope=1, RescaleIntercept=-1024, RescaleType="HU")
    cases = {
        "xray12": dataset(values(12), 12),
        "xray_inverted": dataset(values(12), 12, PhotometricInterpretation="MONOCHROME1", WindowCenter=2000, WindowWidth=1500),
        "ct_window": dataset(values(12), 12, WindowCenter=[40, 500], WindowWidth=[400, 2000], **ct),
        "ct_signed": dataset(values(16, True), 16, ImplicitVRLittleEndian, WindowCenter=-100, WindowWidth=3000, RescaleSlope=0.5, RescaleIntercept=10),
        "mr16": dataset(values(16), 16, ExplicitVRBigEndian),
        "exact": dataset(values(10), 10, WindowCenter=500, WindowWidth=300, VOILUTFunction="LINEAR_EXACT"),
        "sigmoid": dataset(values(10), 10, WindowCenter=500, WindowWidth=300, VOILUTFunction="SIGMOID"),
        "byte": dataset(values(8), 8),
        "rgb": dataset(values(8, samples=3), 8),
        "inverse": dataset(values(12), 12, PresentationLUTShape="INVERSE"),
        "rgb_ycbcr": dataset(values(8, samples=3), 8, PhotometricInterpretation="YBR_FULL"),
    }
    planes = dataset(values(8, samples=3), 8)
    planes.PlanarConfiguration = 1
    planes.PixelData = np.ascontiguousarray(values(8, samples=3).transpose(2, 0, 1)).tobytes()
    cases["rgb_planes"] = planes
    rle = dataset(values(16), 16)
    rle.compress(RLELossless)
    cases["rle"] = rle
    for name, ds in cases.items():
        want = as_pydicom(save(name, ds)).astype("<f4")
        want.tofile(os.path.join(DIR, name + ".want"))
    halved = dataset(values(8, samples=3)[:, :8], 8, PhotometricInterpretation="YBR_FULL_422")
    halved.PixelData = values(8, samples=2)[:, :8].tobytes()
    as_pydicom(save("rgb_ycbcr_422", halved)).astype("<f4").tofile(os.path.join(DIR, "rgb_ycbcr_422.want"))
    for name, sequence in (("group_of_frame", "PerFrameFunctionalGroupsSequence"), ("group_of_all", "SharedFunctionalGroupsSequence")):
        save(name, in_group(sequence))
        shutil.copy(os.path.join(DIR, "ct_window.want"), os.path.join(DIR, name + ".want"))
    jpeg = dataset(values(8), 8, JPEGBaseline8Bit)
    out = io.BytesIO()
    Image.fromarray(values(8)).save(out, "JPEG", quality=95)
    jpeg.PixelData = encapsulate([out.getvalue()])
    jpeg["PixelData"].is_undefined_length = True
    save("jpeg", jpeg)
    (np.array(Image.open(out)).astype("<f4") * 257).tofile(os.path.join(DIR, "jpeg.want"))


def bad():
    def wrong(name, **more):
        return save("bad_" + name, dataset(values(12), 12, **more))

    wrong("frames", NumberOfFrames=3)
    save("bad_deflated", dataset(values(8), 8, DeflatedExplicitVRLittleEndian))
    wrong("wide", Rows=60000, Columns=60000)
    wrong("empty", Rows=0)
    wrong("short", Rows=40)
    wrong("bits", BitsAllocated=32, BitsStored=32, HighBit=31)
    wrong("high_bit", HighBit=17)
    wrong("palette", PhotometricInterpretation="PALETTE COLOR")
    wrong("samples", SamplesPerPixel=2)
    wrong("slope", RescaleSlope=0, RescaleIntercept=0)
    wrong("window", WindowCenter=40, WindowWidth=0)
    wrong("function", WindowCenter=40, WindowWidth=10, VOILUTFunction="CUBIC")
    table = pydicom.Dataset()
    table.add_new("LUTDescriptor", "US", [4, 0, 16])
    table.add_new("LUTData", "OW", struct.pack("<4H", 0, 30000, 60000, 65535))
    wrong("table", VOILUTSequence=[table])
    for name, key in (("no_rows", "Rows"), ("no_pixels", "PixelData"), ("no_bits", "BitsAllocated"), ("no_colours", "PhotometricInterpretation")):
        ds = dataset(values(12), 12)
        del ds[key]
        save("bad_" + name, ds)
    j2k = dataset(values(8), 8, JPEG2000Lossless)
    j2k.PixelData = encapsulate([b"\xff\x4f\xff\x51 not decoded here"])
    j2k["PixelData"].is_undefined_length = True
    save("bad_j2k", j2k)
    rle = dataset(values(16), 16)
    rle.compress(RLELossless)
    broken = bytearray(rle.PixelData)
    broken[16:80] = b"\xff" * 64
    rle.PixelData = bytes(broken)
    save("bad_rle", rle)
    whole_file = open(os.path.join(DIR, "ct_window.dcm"), "rb").read()
    deep = b"".join(struct.pack("<HH2sHI", 0x0040, 0xA730, b"SQ", 0, 0xFFFFFFFF) + struct.pack("<HHI", 0xFFFE, 0xE000, 0xFFFFFFFF) for _ in range(100))
    for name, data in (("nested", whole_file[:-H * W * 2 - 12] + deep), ("cut", whole_file[: len(whole_file) // 2]), ("cut_head", whole_file[:140]), ("no_preamble", whole_file[132:]), ("only_name", whole_file[:132]),
                       ("length", whole_file[:-H * W * 2 - 4] + b"\xfe\xff\xff\xff" + whole_file[-H * W * 2:])):
        with open(os.path.join(DIR, "bad_" + name + ".dcm"), "wb") as f:
            f.write(data)


os.makedirs(DIR, exist_ok=True)
good()
bad()
