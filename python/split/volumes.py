"""Layers of volumes. A volume (C, D, H, W) is a row [D·H, W, C] of the graph: its slices, one below the other. A node with slices=D computes
each slice by itself, as layers of images do; without it the node sees the volume as one tall image. Along the depth there is the op
window, which puts neighbouring slices side by side in the channels, and resample with axis=0."""
import torch
import torch.nn.functional as F
from torch import nn

from . import errors
from .builder import EDGE, LINEAR, MEAN, NEAREST, Own, Param, is_volume, must, one, params


def volume(name, x):
    if not is_volume(x):
        raise errors.config(f"{name}: works on volumes [C, D, H, W], and gets {list(x.shape)}: give example as a 5-D tensor [n, C, D, H, W]")
    return x.shape


def _both(name, m, *keys):
    """Of each key: (along the depth, in the plane)."""
    for key in keys:
        sizes = getattr(m, key)
        if isinstance(sizes, str):
            raise errors.config(f"{name}: {key}={sizes!r} is not known on the server: give numbers")
        sizes = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,) * 3
        yield sizes[0], one(sizes[1:], key, name)


def _out(n, k, stride, pad, dilation=1):
    return (n + 2 * pad - dilation * (k - 1) - 1) // stride + 1


def _but(n, usual):
    return n if n != usual else None


def _weight(prefix, m):
    return Param(prefix + "weight", prefix + "weight", m.weight, "oidhw")


def _conv(b, name, m, prefix, x):
    """A window along the depth, and a convolution of its channels in the plane."""
    must(name, m, padding_mode="zeros", groups=1)
    c, d, h, w = volume(name, x)
    (ds, s), (dp, p), (dd, dil) = _both(name, m, "stride", "padding", "dilation")
    kd, kh, kw = m.kernel_size
    depth, height, width = _out(d, kd, ds, dp, dd), _out(h, kh, s, p, dil), _out(w, kw, s, p, dil)
    if min(depth, height, width) < 1:
        raise errors.config(f"{name}: a kernel of {list(m.kernel_size)} with padding {m.padding} is larger than {[d, h, w]}")
    if (kd, ds, dp) != (1, 1, 0):
        x = b.node(name + ".window", "window", [x], (kd * c, depth, h, w), slices=_but(d, 1), k=_but(kd, 1), stride=_but(ds, 1), pad=dp or None,
                   dilation=_but(dd, 1))
    return b.node(name, "conv2d", [x], (m.out_channels, depth, height, width), [_weight(prefix, m), *params(prefix, m, "bias")],
                  stride=_but(s, 1), pad=p or None, dilation=_but(dil, 1), slices=depth)


def _convt(b, name, m, prefix, x):
    """A transposed convolution in the plane to k·C channels, whose parts are added up along the depth; then the bias."""
    must(name, m, padding_mode="zeros", groups=1, dilation=(1, 1, 1))
    _, d, h, w = volume(name, x)
    (ds, s), (dp, p) = _both(name, m, "stride", "padding")
    (kd, kh, kw), more, c = m.kernel_size, m.output_padding, m.out_channels
    depth = (d - 1) * ds - 2 * dp + kd + more[0]
    h, w = ((n - 1) * s - 2 * p + k + o for n, k, o in zip((h, w), (kh, kw), more[1:]))
    if min(depth, h, w) < 1:
        raise errors.config(f"{name}: its padding {m.padding} takes all of {list(x.shape[1:])} away")
    if more[0] and more[0] >= ds or any(o and o >= s for o in more[1:]):
        raise errors.config(f"{name}: output_padding={more} is not below stride={m.stride}")
    flat = (kd, ds, dp, more[0]) == (1, 1, 0, 0)
    x = b.node(name if flat else name + ".parts", "convt2d", [x], (kd * c, d, h, w), [_weight(prefix, m), *(params(prefix, m, "bias") if flat else [])],
               stride=_but(s, 1), pad=p or None, out_pad=f"{more[1]},{more[2]}" if any(more[1:]) else None, slices=d)
    if flat:
        return x
    x = b.node(name if m.bias is None else name + ".sum", "window", [x], (c, depth, h, w), slices=_but(d, 1), k=_but(kd, 1), stride=_but(ds, 1),
               pad=dp or None, back=depth)
    if m.bias is None:
        return x
    each = Own(name + ".ones", torch.ones((1, 1, c) if c > 1 else (1, 1, 1, 1)), False).param()  # a convolution of single voxels, for the bias alone
    return b.node(name, "conv2d", [x], x.shape, [each, *params(prefix, m, "bias")], groups=_but(c, 1), slices=depth)


def _adaptive(kind):
    def build(b, name, m, prefix, x):
        must(name, m, return_indices=False)
        return _plane(b, name, x, m.output_size, kind)
    return build


def _plane(b, name, x, output_size, kind="avgpool"):
    c, *_ = volume(name, x)
    if output_size not in (1, (1, 1, 1), [1, 1, 1]):
        raise errors.config(f"{name}: output_size={output_size}: of volumes the server has 1")
    return b.node(name, kind, [x], (c, 1, 1, 1))


def _in_plane(b, name, x, kind, k, stride, pad):
    c, d, h, w = x.shape
    if (k, stride, pad) == (1, 1, 0):
        return x
    return b.node(name, kind, [x], (c, d, _out(h, k, stride, pad), _out(w, k, stride, pad)), k=k, stride=stride, pad=pad or None, slices=d)


def _avgpool(b, name, m, prefix, x):
    must(name, m, ceil_mode=False, count_include_pad=True, divisor_override=None)
    _, d, *_ = volume(name, x)
    (kd, k), (ds, s), (dp, p) = _both(name, m, "kernel_size", "stride", "padding")
    y = _in_plane(b, name + ".plane", x, "avgpool", k, s, p)
    return b.resampled(name, y, 2, _out(d, kd, ds, dp), MEAN, before=dp, step=ds, window=kd)


def _maxpool(b, name, m, prefix, x):
    """Maxima in the plane, then along the depth: there a volume is an image of D columns, whose channels are its voxels in the plane."""
    must(name, m, ceil_mode=False, return_indices=False, dilation=1)
    volume(name, x)
    (k, kp), (stride, sp), (pad, pp) = _both(name, m, "kernel_size", "stride", "padding")
    x = _in_plane(b, name + ".plane" if k > 1 else name, x, "maxpool", kp, sp, pp)
    if (k, stride, pad) == (1, 1, 0):
        return x
    x = b.resampled(name + ".pad", x, 2, x.shape[1] + 2 * pad, mode=EDGE, before=pad) if pad else x  # copies of the end change no maximum
    c, d, h, w = x.shape
    out, inner = (d - k) // stride + 1, h * w * c
    if k == stride:  # windows stand one behind the other
        x = b.resampled(name + ".cut", x, 2, out * k) if out * k != d else x
        x = b.arranged(name + ".turn", x, [out, k, inner], [1, 0, 2], (out * inner, k, 1))
        x = b.node(name + ".max", "maxpool", [x], (out * inner, 1, 1))
    else:
        x = b.arranged(name + ".turn", x, [1], [], (inner, 1, d))
        x = b.resampled(name + ".rows", x, 2, k, mode=EDGE) if k > 1 else x  # square windows over as many copies have the same maxima
        x = b.node(name + ".max", "maxpool", [x], (inner, 1, out), k=k, stride=stride)
    return b.arranged(name, x, [1], [], (c, out, h, w))


def interpolated(b, name, x, size, scale_factor, mode, align_corners):
    c, *now = volume(name, x)
    by = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * 3
    size = [int(n * f) for n, f in zip(now, by)] if size is None else list(size) if isinstance(size, (tuple, list)) else [size] * 3
    if mode not in ("nearest", "trilinear") or align_corners or size is None or any(f and f != int(f) for f in by):
        raise errors.config(f"{name}: mode={mode!r}, scale_factor={scale_factor}, align_corners={align_corners}; of volumes the server has nearest and "
                            "trilinear, by whole factors or to a size, with align_corners=False")
    for dim in (3, 4, 2):
        if size[dim - 2] != x.shape[dim - 1]:
            x = b.resampled(f"{name}.{'  dhw'[dim]}", x, dim, size[dim - 2], mode=NEAREST if mode == "nearest" else LINEAR)
    return x


def mixed(name, what, x):
    """The error for what does not know volumes."""
    return errors.config(f"{name}: {what} is not known on the server for volumes {list(x.shape)}: keep it in head or tail (docs/howto-volumes.md)")


MODULES = {nn.Conv3d: _conv, nn.ConvTranspose3d: _convt, nn.AdaptiveAvgPool3d: _adaptive("avgpool"), nn.AdaptiveMaxPool3d: _adaptive("maxpool"),
           nn.AvgPool3d: _avgpool, nn.MaxPool3d: _maxpool}


def _f_max(b, name, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    return _maxpool(b, name, nn.MaxPool3d(kernel_size, stride or None, padding, one(dilation, "dilation", name), return_indices, ceil_mode), "", x)


def _f_avg(b, name, x, kernel_size, stride=None, *args, **kwargs):
    return _avgpool(b, name, nn.AvgPool3d(kernel_size, stride or None, *args, **kwargs), "", x)


FUNCTIONS = {F.adaptive_avg_pool3d: _plane, F.adaptive_max_pool3d: lambda b, name, x, output_size, return_indices=False: _plane(b, name, x, output_size, "maxpool"),
             F.max_pool3d: _f_max, F.avg_pool3d: _f_avg}
# what works on volumes as on images or single numbers, beside MODULES
OTHERS = (nn.BatchNorm3d, nn.InstanceNorm3d, nn.GroupNorm, nn.Dropout, nn.Dropout3d, nn.Identity, nn.Flatten, nn.Upsample, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU,
          nn.ELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish)
CALLED = (F.interpolate, F.relu, torch.relu, "relu", F.relu6, F.leaky_relu, F.prelu, F.elu, F.gelu, F.silu, F.mish, F.softplus, F.hardtanh, torch.tanh, torch.sigmoid, "sigmoid",
          "tanh", F.dropout, F.dropout3d, "mean", torch.mean, "sum", torch.sum, "amax", torch.amax, torch.cat, torch.flatten, "flatten", "view", "reshape", "clone", "to", "add", "sub", "mul", "div")
