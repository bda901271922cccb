"""Writes tests/golden/volumes.h: small networks of volumes as graphs, and what PyTorch's 3-D layers make of the same
inputs and weights, forward and backward in training mode, computed in double. Volumes are laid out as
common/graph/op.h has them: [N,D·H,W,C].
Run: python3 tests/golden/make_volumes.py | clang-format --assume-filename=x.h > tests/golden/volumes.h"""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)
N, C, D, H, W = 2, 2, 4, 3, 3
cases = []


def draw(*shape):
    """Multiples of 1/16: exact in float."""
    return torch.randint(-32, 33, shape) / 16


def emit(name, v):
    text = ["%.9g" % e for e in v.detach().contiguous().flatten().tolist()]
    print("static const float %s[] = {%s};" % (name, ", ".join((t if any(c in t for c in ".e") else t + ".0") + "f" for t in text)))
    return name


def tall(t):
    return t.permute(0, 2, 3, 4, 1) if t.dim() == 5 else t


def graph_layout(t, transposed):
    """[O,C,k,KH,KW] to [O,KH,KW,k·C]; of a transposed convolution [C,O,k,KH,KW] to [C,KH,KW,k·O]."""
    return t.permute(0, 3, 4, 2, 1).flatten(3) if t.dim() == 5 else t


def bare(name, module, nodes):
    """A case of layers without parameters: a middle has some, so a convolution of one voxel follows, in which a volume is a tall picture."""
    case(name, nn.Sequential(module, nn.Conv3d(C, 2, 1)), [*nodes, ("conv2d", [len(nodes)], [0, 1], "")])


def case(name, module, nodes, transposed=False):
    """nodes: (word, inputs, indices of parameters, attributes); value 0 is the input. Parameters count in PyTorch's order."""
    x = draw(N, C, D, H, W).requires_grad_()
    held = list(module.named_parameters()) if isinstance(module, nn.Module) else []
    for key, p in held:
        p.data = draw(*p.shape) / 4 + ("norm" in key and "weight" in key)
    y = module(x)
    dy = draw(*y.shape)
    y.backward(dy)
    lines = ["graph 1", f"in head_act f32 R[{D * H},{W},{C}]"]
    for i, (key, p) in enumerate(held):
        lines.append(f"param p{i} [{','.join(map(str, graph_layout(p, transposed).shape))}] zero")
    stats = [b for m in (module.modules() if held else []) if isinstance(m, nn.BatchNorm3d) for b in ("zero", "one")]
    sizes = [m.num_features for m in (module.modules() if held else []) if isinstance(m, nn.BatchNorm3d) for _ in range(2)]
    for i, (init, n) in enumerate(zip(stats, sizes)):
        lines.append(f"param s{i} [{n}] stat {init}")
    order = [k for _, _, ks, _ in nodes for k in ks]  # a graph's parameters come in the order of their use
    lines[2:] = [lines[2 + k] for k in order]
    place = {k: i for i, k in enumerate(order)}
    for i, (word, ins, ks, attr) in enumerate(nodes):
        lines.append(" ".join(["node n%d" % i, word, *(f"%{v}" for v in ins), *(f"&{place[k]}" for k in ks), *([attr] if attr else [])]))
    lines.append(f"out mid_act %{len(nodes)}")
    fields = [f'.name = "{name}", .text = "' + "\\n".join(lines) + '\\n"', ".in = " + emit(name + "_in", tall(x)), ".din = " + emit(name + "_din", tall(x.grad)),
              ".dout = " + emit(name + "_dout", tall(dy)), ".out = " + emit(name + "_out", tall(y)), f".outs = {y.numel()}"]
    for i, (key, p) in enumerate(held):
        fields.append(f".param[{place[i]}] = " + emit(f"{name}_param{i}", graph_layout(p, transposed)))
        fields.append(f".grad[{place[i]}] = " + emit(f"{name}_grad{i}", graph_layout(p.grad, transposed)))
    cases.append(fields)


print("/* Made by make_volumes.py. */\n#ifndef SL_GOLDEN_VOLUMES_H\n#define SL_GOLDEN_VOLUMES_H\n")
case("conv3d", nn.Conv3d(C, 3, 3, 1, 1), [("window", [0], [], f"slices={D} k=3 pad=1"), ("conv2d", [1], [0, 1], f"pad=1 slices={D}")])
case("conv3d_stride", nn.Conv3d(C, 3, 3, 2, 1, bias=False),
     [("window", [0], [], f"slices={D} k=3 stride=2 pad=1"), ("conv2d", [1], [0], "stride=2 pad=1 slices=2")])
case("conv3d_dilated", nn.Conv3d(C, 2, (3, 1, 1), padding=(2, 0, 0), dilation=(2, 1, 1)),
     [("window", [0], [], f"slices={D} k=3 pad=2 dilation=2"), ("conv2d", [1], [0, 1], f"slices={D}")])
case("conv3d_uneven", nn.Conv3d(C, 2, (2, 3, 1), (3, 1, 1), (1, 0, 0)),
     [("window", [0], [], f"slices={D} k=2 stride=3 pad=1"), ("conv2d", [1], [0, 1], "slices=2")])


class Parts(nn.Module):
    """In the plane and along the depth by turns, with norms between: a norm and a convolution become one node on the CPU."""
    def __init__(self):
        super().__init__()
        self.a, self.norm_a = nn.Conv3d(C, 17, (1, 3, 3), padding=(0, 1, 1), bias=False), nn.BatchNorm3d(17)
        self.b, self.norm_b = nn.Conv3d(17, 3, (3, 1, 1), padding=(1, 0, 0), bias=False), nn.BatchNorm3d(3)
        self.c = nn.Conv3d(3, 2, (1, 3, 3), (1, 2, 2))

    def forward(self, x):
        return self.c(F.relu(self.norm_b(self.b(F.relu(self.norm_a(self.a(x)))))))


case("parts", Parts(), [("conv2d", [0], [0], f"pad=1 slices={D}"), ("batchnorm", [1], [1, 2, 8, 9], ""), ("act", [2], [], ""),
                        ("window", [3], [], f"slices={D} k=3 pad=1"), ("conv2d", [4], [3], f"slices={D}"), ("batchnorm", [5], [4, 5, 10, 11], ""),
                        ("act", [6], [], ""), ("conv2d", [7], [6, 7], f"stride=2 slices={D}")])
case("convt3d", nn.ConvTranspose3d(C, 1, 2, 2, bias=False), [("convt2d", [0], [0], f"stride=2 slices={D}"), ("window", [1], [], f"slices={D} k=2 stride=2 back=8")],
     transposed=True)
case("convt3d_overlap", nn.ConvTranspose3d(C, 1, 3, 2, 1, 1, bias=False),
     [("convt2d", [0], [0], f"stride=2 pad=1 out_pad=1,1 slices={D}"), ("window", [1], [], f"slices={D} k=3 stride=2 pad=1 back=8")], transposed=True)
case("instancenorm3d", nn.InstanceNorm3d(C, affine=True), [("groupnorm", [0], [0, 1], f"groups={C}")])
bare("maxpool3d_plane", nn.MaxPool3d((1, 2, 2)), [("maxpool", [0], [], f"k=2 stride=2 slices={D}")])
bare("avgpool3d", nn.AvgPool3d(3, 2, 1), [("avgpool", [0], [], f"k=3 stride=2 pad=1 slices={D}"),
                                          ("resample", [1], [], f"axis=0 size=2 mode=7 before=1 step=2 window=3 slices={D}")])
bare("trilinear", nn.Upsample(size=(6, 4, 2), mode="trilinear"),
     [("resample", [0], [], f"size=4 mode=4 slices={D}"), ("resample", [1], [], f"axis=2 size=2 mode=4 slices={D}"),
      ("resample", [2], [], f"axis=0 size=6 mode=4 slices={D}")])
bare("nearest3d", nn.Upsample(size=(3, 5, 3)), [("resample", [0], [], f"size=5 mode=3 slices={D}"), ("resample", [1], [], f"axis=0 size=3 mode=3 slices={D}")])
print("""
/* A graph of one middle for N = %d volumes, NULL behind the last parameter. Statistics begin at 0 and 1. */
enum { GOLDEN_VOLUMES = %d, GOLDEN_VOLUME_PARAMS = 12 };
static const struct volume_golden {
	const char *name, *text;
	const float *in, *din, *dout, *out, *param[GOLDEN_VOLUME_PARAMS], *grad[GOLDEN_VOLUME_PARAMS];
	int outs;
} golden_volumes[] = {""" % (N, N))
for fields in cases:
    print("{" + ", ".join(fields) + "},")
print("};\n\n#endif")
