"""Convolutions and pools: windows that slide over images and signals. Signals are images of height 1."""
import types

import torch
import torch.nn.functional as F
from torch import nn

from . import errors, made, reduce
from .builder import AREA, EDGE, MEAN, NEAREST, Own, Param, image, must, one, params


def _pair(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x, x)


def _every(b, name, x, strides):
    """Every so many rows and columns of an image."""
    for dim, step in zip((2, 3), strides):
        if step != 1:
            x = b.resampled(f"{name}.stride{dim - 2}", x, dim, (x.shape[dim - 1] - 1) // step + 1, step=step)
    return x


def _convolve(b, name, m, prefix, x, kernel, pad, weight=None):
    """Convolves an image by weight, or by the weights of m. m may be for signals, so kernel gives height and width."""
    strides, spread = _pair(m.stride)[-len(m.kernel_size):], _pair(m.dilation)[-len(m.kernel_size):]
    stride = strides[0] if len(set(strides)) == 1 else 1
    dilation = one([d for d, k in zip(spread[::-1], kernel[::-1]) if k > 1] or [1], "dilation", name)
    depthwise = m.groups == m.in_channels == m.out_channels and m.groups > 1
    layout = "hwc" if depthwise else "ohwi"
    own, bias = getattr(m, "own", (None, None))
    weight = weight or (own.param(layout) if own else Param(prefix + "weight", prefix + "weight", m.weight, layout))
    biases = params(prefix, m, "bias") if own is None else [bias.param()] if bias else []
    out = [(n + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(image(name, x)[1:], kernel)]
    y = b.node(name, "conv2d", [x], (m.out_channels, *out), [weight, *biases],
               stride=stride if stride != 1 else None, pad=pad or None, groups=m.groups if m.groups != 1 else None,
               dilation=dilation if dilation != 1 else None)
    return y if len(set(strides)) == 1 else _every(b, name, y, strides)


def _padding(m):
    """The padding of m as torch's pad takes it, last dimension first."""
    if m.padding == "valid":
        return [0] * 2 * len(m.kernel_size)
    if m.padding == "same":
        all_of = [d * (k - 1) for k, d in zip(m.kernel_size[::-1], m.dilation[::-1])]
        return [part for n in all_of for part in (n // 2, n - n // 2)]
    return [p for p in m.padding[::-1] for _ in range(2)]


def _conv(b, name, m, prefix, x):
    pad, inside = _padding(m), 0
    if m.padding_mode == "zeros" and len(set(pad)) == 1:
        inside, pad = pad[0], [0] * 4
    return _convolve(b, name, m, prefix, made.padded(b, name + ".pad", x, pad, m.padding_mode), m.kernel_size, inside)


def _conv1d(b, name, m, prefix, x):
    b.signal(name, x)
    x = made.padded(b, name + ".pad", x, _padding(m), m.padding_mode)
    return b.turned(name + ".signal", _convolve(b, name, m, prefix, b.line(name + ".image", x), (1, *m.kernel_size), 0))


def _convt_weight(prefix, m):
    """PyTorch has [in, out of a group, height, width]."""
    depthwise = m.groups == m.in_channels == m.out_channels and m.groups > 1
    return Param(prefix + "weight", prefix + "weight", m.weight, "hwc" if depthwise else "ohwi")


def _convt(b, name, m, prefix, x):
    must(name, m, padding_mode="zeros", dilation=(1, 1))
    _, h, w = image(name, x)
    stride, pad, more = one(m.stride, "stride", name), one(m.padding, "padding", name), m.output_padding
    out = [(n - 1) * stride - 2 * pad + k + p for n, k, p in zip((h, w), m.kernel_size, more)]
    return b.node(name, "convt2d", [x], (m.out_channels, *out), [_convt_weight(prefix, m), *params(prefix, m, "bias")],
                  stride=stride if stride != 1 else None, pad=pad or None, out_pad=f"{more[0]},{more[1]}" if any(more) else None,
                  groups=m.groups if m.groups != 1 else None)


def _convt1d(b, name, m, prefix, x):
    """As an image of height 1, whole; what padding takes away at both ends is cut off."""
    must(name, m, padding_mode="zeros", dilation=(1,))
    c, n = b.signal(name, x)
    (k,), (stride,), (pad,), (more,) = m.kernel_size, m.stride, m.padding, m.output_padding
    if more > pad:
        raise errors.config(f"{name}: output_padding={more} is more than padding={pad}; the server has as much at most")
    weight, whole = _convt_weight(prefix, m), (n - 1) * stride + k
    y = b.node(name, "convt2d", [b.line(name + ".image", x)], (m.out_channels, 1, whole), [weight, *params(prefix, m, "bias")],
               stride=stride if stride != 1 else None, groups=m.groups if m.groups != 1 else None)
    y = b.turned(name + ".signal", y)
    return b.resampled(name + ".cut", y, 2, whole - 2 * pad + more, first=pad) if pad else y


# ---- pools

def _maxima(b, name, x, dim, k, stride, pad):
    """The maxima of windows along the height or width, which becomes the height of an image."""
    c, h, w = x.shape
    x = b.resampled(name + ".pad", x, dim, x.shape[dim - 1] + 2 * pad, mode=EDGE, before=pad) if pad else x
    n, before, behind = x.shape[dim - 1], h if dim == 3 else 1, c if dim == 3 else w * c  # as an image lies
    out = (n - k) // stride + 1
    shape = (c, h, out) if dim == 3 else (c, out, w)
    if k == stride:  # windows stand side by side
        x = b.resampled(name + ".cut", x, dim, out * k) if out * k != n else x
        x = b.arranged(name + ".turn", x, [before, out, k, behind], [2, 0, 1, 3], (before * out * behind, k, 1))
        return b.arranged(name + ".image", b.node(name, "maxpool", [x], (x.shape[0], 1, 1)), [1], [], shape)
    x = b.arranged(name + ".turn", x, [before, n, behind], [1, 0, 2], (before * behind, 1, n))
    x = b.resampled(name + ".rows", x, 2, k, mode=EDGE) if k > 1 else x  # square windows over as many copies have the same maxima
    x = b.node(name, "maxpool", [x], (x.shape[0], 1, out), k=k, stride=stride)
    return b.arranged(name + ".image", x, [out, before, behind], [1, 0, 2], shape)


def _means(b, name, x, dim, k, stride, pad):
    n = x.shape[dim - 1] + 2 * pad
    return b.resampled(name, x, dim, (n - k) // stride + 1, mode=MEAN, before=pad, step=stride, window=k)


def _pool(b, name, x, kind, k, stride, pad, counted=True):
    image(name, x)
    k, stride, pad = map(_pair, (k, stride, pad))
    y = x
    if len(set(k)) == len(set(stride)) == len(set(pad)) == 1:
        y = b.pool(name, x, kind, k[0], stride[0], pad[0])
    else:
        for dim in (3, 2):  # of equal values PyTorch takes the first one, row by row
            at, size = f"{name}.width" if dim == 3 else name, (k[dim - 2], stride[dim - 2], pad[dim - 2])
            if size != (1, 1, 0):
                y = _maxima(b, at, y, dim, *size) if kind == "maxpool" else _means(b, at, y, dim, *size)
    if kind == "avgpool" and not counted and any(pad):  # divides by the share of a window that lies on the image
        share = F.avg_pool2d(torch.ones(1, 1, *x.shape[1:]), k, stride, pad)
        y = b.mul(name + ".counted", y, Own(name + ".share", 1 / share, False))
    return y


def _pool_of(kind):
    def build(b, name, m, prefix, x):
        must(name, m, dilation=1, return_indices=False, divisor_override=None)
        k, stride, pad = m.kernel_size, m.stride, m.padding
        if m.ceil_mode:
            k, stride, pad = (one(n, "a size with ceil_mode", name) for n in (k, stride, pad))
            x = made.ceiled(b, name, x, kind, k, stride, pad)
        return _pool(b, name, x, kind, k, stride, pad, getattr(m, "count_include_pad", True))
    return build


def _ceiled(n, k, stride, pad):
    """The windows of a pool with ceil_mode over n numbers, and how far the last one reaches behind them and their padding."""
    out = -(-(n + 2 * pad - k) // stride) + 1
    out -= (out - 1) * stride >= n + pad
    return out, max(0, (out - 1) * stride + k - n - 2 * pad)


def _sizes1d(m, name):
    return [one(getattr(m, key), key, name) for key in ("kernel_size", "stride", "padding")]


def _maxpool1d(b, name, m, prefix, x):
    must(name, m, dilation=1, return_indices=False)
    k, stride, pad = _sizes1d(m, name)
    more = _ceiled(b.signal(name, x)[1], k, stride, pad)[1] if m.ceil_mode else 0
    x = made.padded(b, name + ".pad", x, [pad, pad + more], "replicate")
    image = b.resampled(name + ".rows", b.line(name + ".image", x), 2, k, mode=NEAREST)  # as many rows as the window is wide
    y = b.node(name, "maxpool", [image], (x.shape[0], 1, (x.shape[1] - k) // stride + 1), k=k, stride=stride)
    return b.turned(name + ".signal", y)


def _avgpool1d(b, name, m, prefix, x):
    k, stride, pad = _sizes1d(m, name)
    n = b.signal(name, x)[1]
    out, more = _ceiled(n, k, stride, pad) if m.ceil_mode else ((n + 2 * pad - k) // stride + 1, 0)
    x = made.padded(b, name + ".more", x, [0, more])
    y = _means(b, name, x, 2, k, stride, pad)
    first = [i * stride - pad for i in range(out)]
    low, high = (-pad, n + pad) if m.count_include_pad else (0, n)
    counted = torch.tensor([float(min(i + k, high) - max(i, low)) for i in first])  # by which PyTorch divides
    return y if (counted == k).all() else b.mul(name + ".counted", y, Own(name + ".share", (k / counted)[None, None], False))


def _plane1d(b, name, m, prefix, x):
    b.signal(name, x)
    n = one(m.output_size, "output_size", name)
    return b.mean(name, x, 2) if n == 1 else b.resampled(name, x, 2, n, mode=AREA)


def _plane_max1d(b, name, m, prefix, x):
    must(name, m, return_indices=False)
    n, length = one(m.output_size, "output_size", name), b.signal(name, x)[1]
    if length % n:
        raise errors.config(f"{name}: {n} maxima of {length} numbers; the server has windows of one width: give a divisor of {length}")
    return reduce.amax(b, name, x, 2, True) if n == 1 else _maxpool1d(b, name, nn.MaxPool1d(length // n), prefix, x)


def _f_pool1d(build, kind):
    """A function of torch.nn.functional, by the module of the same arguments."""
    return lambda b, name, x, *args, **kwargs: build(b, name, kind(*args, **{k: v for k, v in kwargs.items() if k != "return_indices" or v}), "", x)


def _f_conv(build, kernel):
    """F.conv1d or F.conv2d by a tensor that the module itself holds."""
    def convolve(b, name, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if not isinstance(weight, Own) or weight.shape != tuple(weight.tensor.shape) or len(weight.shape) != 2 + kernel or not isinstance(bias, (Own, type(None))):
            raise errors.config(f"{name}: it convolves by what is no parameter or buffer of the module, as it lies")
        out, each = weight.shape[:2]
        several = [tuple(n) if isinstance(n, (tuple, list)) else (n,) * kernel for n in (stride, dilation)]
        m = types.SimpleNamespace(kernel_size=weight.shape[2:], stride=several[0], dilation=several[1], padding_mode="zeros", groups=groups,
                                  padding=padding if isinstance(padding, (tuple, list, str)) else (padding,) * kernel, in_channels=each * groups,
                                  out_channels=out, own=(weight, bias))
        return build(b, name, m, "", x)
    return convolve


def _f_maxpool(b, name, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    m = nn.MaxPool2d(kernel_size, stride or None, padding, one(dilation, "dilation", name), return_indices, ceil_mode)
    return _pool_of("maxpool")(b, name, m, "", x)


def _shuffled(b, name, m, prefix, x):
    c, h, w = image(name, x)
    r = m.upscale_factor
    return b.arranged(name, x, [h, w, c // r ** 2, r, r], [0, 3, 1, 4, 2], (c // r ** 2, h * r, w * r))


def _unshuffled(b, name, m, prefix, x):
    c, h, w = image(name, x)
    r = m.downscale_factor
    return b.arranged(name, x, [h // r, r, w // r, r, c], [0, 2, 4, 1, 3], (c * r ** 2, h // r, w // r))


def _unfolded(b, name, m, prefix, x):
    """nn.Unfold: a convolution with a filter of one 1 for each number of a window."""
    (h, w), n = _pair(m.kernel_size), image(name, x)[0]
    conv = types.SimpleNamespace(kernel_size=(h, w), stride=_pair(m.stride), padding=_pair(m.padding), dilation=_pair(m.dilation), groups=1,
                                 in_channels=n, out_channels=n * h * w)
    windows = Own(name + ".windows", torch.eye(n * h * w).reshape(-1, n, h, w), False).param("ohwi")
    x = made.padded(b, name + ".pad", x, _padding(conv))
    return b.turned(name + ".flatten", _convolve(b, name, conv, prefix, x, (h, w), 0, windows))


MODULES = {nn.Unfold: _unfolded, nn.Conv1d: _conv1d, nn.Conv2d: _conv, nn.ConvTranspose2d: _convt, nn.ConvTranspose1d: _convt1d, nn.AdaptiveMaxPool1d: _plane_max1d, nn.MaxPool1d: _maxpool1d, nn.AvgPool1d: _avgpool1d,
           nn.AdaptiveAvgPool1d: _plane1d, nn.MaxPool2d: _pool_of("maxpool"), nn.AvgPool2d: _pool_of("avgpool"),
           nn.PixelShuffle: _shuffled, nn.PixelUnshuffle: _unshuffled}
FUNCTIONS = {F.max_pool1d: _f_pool1d(_maxpool1d, nn.MaxPool1d), F.avg_pool1d: _f_pool1d(_avgpool1d, nn.AvgPool1d),
             F.adaptive_avg_pool1d: _f_pool1d(_plane1d, nn.AdaptiveAvgPool1d), F.adaptive_max_pool1d: _f_pool1d(_plane_max1d, nn.AdaptiveMaxPool1d),
             F.conv1d: _f_conv(_conv1d, 1), F.conv2d: _f_conv(_conv, 2), F.max_pool2d: _f_maxpool, F.avg_pool2d: lambda b, name, x, kernel_size, stride=None, *args, **kwargs: _pool_of("avgpool")(
    b, name, nn.AvgPool2d(kernel_size, stride or None, *args, **kwargs), "", x)}
OF_OWN = FUNCTIONS[F.conv1d], FUNCTIONS[F.conv2d]
