"""networks.py FOLDER SERVER: modules as split.write_network, and split.convert_onnx of torch.onnx.export, write them, and what write_network refuses; the files as
middles of SERVER, and broken ones. FOLDER has mobilenet.safetensors and encoder.safetensors of `splitc export`."""
import copy
import json
import os
import sys

import torch
import torchvision
from torch import nn
from torchvision.models.resnet import BasicBlock

import split

WORDS = 700


class Text(nn.Module):
    """Rows of any number of tokens."""

    def __init__(self):
        super().__init__()
        self.emb, self.pos, self.fc = nn.Embedding(WORDS, 16), nn.Embedding(12, 16), nn.Linear(16, 2)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True)

    def forward(self, ids):
        return self.fc(self.layer(self.emb(ids) + self.pos(torch.arange(ids.shape[1]))).mean(1))


class Order(nn.Module):
    """Rows of one length, whose tokens a convolution mixes."""

    def __init__(self):
        super().__init__()
        self.emb, self.c, self.fc = nn.Embedding(WORDS, 16), nn.Conv1d(16, 8, 3, padding=1), nn.Linear(8 * 12, 2)

    def forward(self, ids):
        return self.fc(torch.relu(self.c(self.emb(ids).transpose(1, 2))).flatten(1))


class Residual(nn.Sequential):
    """The blocks of torchvision's ResNet, with few channels."""

    def __init__(self):
        down = nn.Sequential(nn.Conv2d(8, 16, 1, 2, bias=False), nn.BatchNorm2d(16))
        super().__init__(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), BasicBlock(8, 8), BasicBlock(8, 16, 2, down),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0), nn.Linear(16, 10))


class Tokens(nn.Module):
    """A signal whose steps become tokens. Its mask is a constant, its scale a buffer, and its first layer is frozen."""

    def __init__(self):
        super().__init__()
        self.c, self.fc = nn.Conv1d(3, 8, 3, padding=1), nn.Linear(8, 5)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1, "gelu", batch_first=True)
        self.register_buffer("scale", torch.rand(8))
        self.c.requires_grad_(False)

    def forward(self, x):
        x = self.c(x).transpose(1, 2) * self.scale + torch.arange(8) / 8
        return self.fc(self.layer(x).mean(1))


class Maps(nn.Module):
    """Images to images; a linear layer over the channels, a depthwise convolution, one back to larger images, a parameter of pixels."""

    def __init__(self):
        super().__init__()
        self.deep, self.up, self.norm = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.ConvTranspose2d(4, 6, 2, 2), nn.BatchNorm2d(4)
        self.pixels, self.mix = nn.Parameter(torch.rand(4, 8, 8)), nn.Linear(4, 4)

    def forward(self, x):
        x = self.norm(self.deep(x)) * self.pixels
        return self.up(self.mix(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


def refused(says, kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as e:
        assert says in str(e), f"{says!r} is not in {e}"
    else:
        raise AssertionError(f"not refused: {says}, {args}")


def refused_module(says, module, example):
    refused(says, split.ConfigError, split.write_network, module, example, "refused.safetensors")
    assert not os.path.exists("refused.safetensors")


def learnt(middle, shape, server, **conf):
    """The losses of three steps behind a head that learns, and all weights behind them."""
    head = torch.nn.Parameter(torch.zeros(shape[1:]))
    opt = torch.optim.SGD([{"params": [head]}, {"params": list(middle.parameters()), "weight_decay": 0.01}], 0.1, momentum=0.9)
    remote, g, losses = split.RemoteModule(middle, server, example=shape, optimizer=opt, seed=3, **conf), torch.Generator().manual_seed(4), []
    for _ in range(3):
        opt.zero_grad()
        y = remote(torch.randn(shape, generator=g) + head)
        loss = (y * torch.randn(y.shape, generator=g)).mean()
        loss.backward()
        remote.step()
        opt.step()
        losses.append(loss.item())
    state = {"head": head.detach(), **remote.state_dict()}
    remote.close(True)
    return losses, state


def check_middles(server):
    """The network of a file learns the bits of the module that wrote it, and its state fits that module."""
    for name, module, shape, conf in (("resnet", Residual(), (6, 3, 32, 32), {"codec": "quant:8"}), ("maps", Maps(), (6, 4, 8, 8), {"chunks": 2}),
                                      ("tokens", Tokens(), (6, 3, 12), {"freeze": ["fc.bias"]}), ("table", table(), (4, 3), {})):
        split.write_network(module, torch.zeros(shape), "middle.safetensors")
        (losses, state), (same, again) = (learnt(m, shape, server, **conf) for m in (copy.deepcopy(module), split.read_network("middle.safetensors")))
        assert losses == same, f"{name}: losses {losses} and {same}"
        assert state.keys() == again.keys(), f"{name}: {sorted(state.keys() ^ again.keys())} are in one state"
        assert all(torch.equal(v, again[k]) for k, v in state.items()), f"{name}: {[k for k, v in state.items() if not torch.equal(v, again[k])]}"
        assert not torch.equal(state["head"], torch.zeros(shape[1:])), name
        del again["head"]
        module.load_state_dict(again)
    remote = split.RemoteModule("middle.safetensors", "local:", example=(4, 3), optimizer={"lr": 0.1})
    refused("one number for each channel has no variance", split.UsageError, remote, torch.zeros(1, 3))
    remote.load_state_dict(module.state_dict())
    assert torch.allclose(remote.eval()(torch.ones(4, 3)), module.eval()(torch.ones(4, 3)), atol=1e-5)


def check_export():
    """An exported network gives what torchvision's gives with its weights, and with the strides that small pictures have."""
    remote = split.RemoteModule("mobilenet.safetensors", "local:", example=(4, 3, 32, 32), optimizer={"lr": 0.1}).eval()
    module, x = torchvision.models.mobilenet_v2(width_mult=0.1, num_classes=10).eval(), torch.randn(4, 3, 32, 32)
    module.features[0][0].stride = module.features[2].conv[1][0].stride = (1, 1)
    module.load_state_dict(remote.state_dict())
    assert torch.allclose(remote(x), module(x), atol=1e-4), (remote(x) - module(x)).abs().max()


def tampered(change, cut=None):
    """Writes bad.safetensors: table.safetensors, whose header, notes and graph `change` has changed."""
    data = open("table.safetensors", "rb").read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    text = json.dumps(change(header, header["__metadata__"]) or header).encode()
    with open("bad.safetensors", "wb") as f:
        f.write((len(text).to_bytes(8, "little") + text + data[8 + size:])[:cut])


def check_broken():
    def graph(old, new):
        def change(header, notes):
            assert old in notes["split.graph"], notes["split.graph"]
            notes["split.graph"] = notes["split.graph"].replace(old, new, 1)
        return change

    def note(**more):
        return lambda header, notes: notes.update({"split.network": json.dumps(more)})

    def tensor(name, **more):
        return lambda header, notes: header[name].update(more)

    def within(header, notes):  # a parameter inside another one
        header["0.weight.x"] = header["0.bias"]
        graph("param 0.bias", "param 0.weight.x")(header, notes)
    rows = [("its end is missing", lambda h, n: None, 5), ("its end is missing", lambda h, n: None, 40), ("its end is missing", lambda h, n: None, -40),
            ("it has weights and no network", lambda h, n: n.pop("split.graph") and None), ("it has weights and no network", lambda h, n: h.pop("__metadata__") and None),
            ("it is malformed", lambda h, n: [1]), ("it is malformed", lambda h, n: h.update(__metadata__=3)), ("it is malformed", lambda h, n: n.update({"split.graph": 3})),
            ("it is malformed", lambda h, n: n.update({"split.network": "[" * 100000})), ("is no JSON object", lambda h, n: n.update({"split.network": "[]"})),
            ("does not lead from an image or a row", graph("graph 1", "graph 2")), ("does not lead from an image or a row", graph("in row f32 R[3]", "in row f32 R[3] still")),
            ("does not lead from an image or a row", graph("in row f32 R[3]", "in image f32 R[3]")), ("does not lead from an image or a row", graph("in row f32 R[3]", "in row f32 R[0]")),
            ("no parameter of a network", graph("param 0.weight [8,3]", "param 0.weight [8,3] g1")), ("no parameter of a network", graph("param 0.weight [8,3]", "param 0.weight [8,3] tied")),
            ("0.weight does not have the size", graph("param 0.weight [8,3]", "param 0.weight [8,4]")), ("a.weight is missing", graph("param 0.weight", "param a.weight")),
            ("__metadata__ is missing", graph("param 0.weight", "param __metadata__")), ("reads the labels", graph("linear %0", "linear %1")), ("reads the labels", graph("linear %0", "linear %9")),
            ("it is malformed", graph("&0", "&77")),
            ("does not have the layout 'chw'", note(layout={"0.weight": "chw"})), ("does not have the layout 0", note(layout={"0.weight": 0})),
            ("does not have the layout 2", note(layout={"0.weight": 2})), ("does not have the layout 'hwc'", note(layout={"0.weight": "hwc"})),
            ("it is malformed", note(layout=[1])), ("of a kind or size", tensor("0.weight", dtype="I64")), ("of a kind or size", tensor("0.weight", shape=[])),
            ("of a kind or size", tensor("0.weight", shape=[-1])), ("of a kind or size", tensor("0.weight", data_offsets=[0, 1 << 60])),
            ("it is malformed", tensor("0.weight", shape=[1 << 40])), ("it is malformed", tensor("0.weight", data_offsets=[0, 7])),
            ("it is malformed", tensor("0.weight", data_offsets="ab")), ("it is malformed", within)]
    for says, change, *cut in rows:
        tampered(change, *cut)
        refused("bad.safetensors: ", split.DataError, split.read_network, "bad.safetensors")
        refused(says, split.DataError, split.read_network, "bad.safetensors")
    tampered(graph("linear %0", "linoar %0"))  # what the library itself reads
    refused("linoar", split.Error, split.RemoteModule, "bad.safetensors", "local:", example=(4, 3), optimizer={"lr": 0.1})
    refused("it takes [rows, 3], and example has [4, 4]", split.ConfigError, split.RemoteModule, "table.safetensors", "local:", example=(4, 4), optimizer={"lr": 0.1})
    refused("a middle cannot begin with token ids", split.DataError, split.RemoteModule, "encoder.safetensors", "local:", example=(4, 20), optimizer={"lr": 0.1})
    refused("give it to RemoteModule", split.UsageError, split.read_network("table.safetensors"), torch.zeros(1, 3))
    refused("none.safetensors", FileNotFoundError, split.read_network, "none.safetensors")


class Towers(nn.Module):
    """Two inputs, which meet in the middle."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(3, 5), nn.Linear(2, 4), nn.Linear(9, 6), nn.Linear(6, 3)

    def forward(self, width, depth):
        return self.d(torch.relu(self.c(torch.cat([torch.relu(self.b(depth)), torch.relu(self.a(width))], 1))))


def write_towers():
    """towers.safetensors, a table for each input with the test rows as training rows, too, and PyTorch's loss of these."""
    towers, label = Towers(), torch.randint(0, 3, (40,))
    width, depth = ((x - x.mean(0)) / x.std(0, unbiased=False) for x in (torch.randn(40, 3), torch.randn(40, 2)))  # as splitc reads a table
    split.write_network(towers, (torch.zeros(2, 3), torch.zeros(2, 2)), "towers.safetensors")
    for name, x, more in (("width", width, None), ("depth", depth, label)):
        os.makedirs(name)
        for part in ("train", "test"):
            with open(f"{name}/{part}.csv", "w") as f:
                print(*(f"x{i}" for i in range(x.shape[1])), *([] if more is None else ["kind"]), sep=",", file=f)
                for i, row in enumerate(x.tolist()):
                    print(*map(repr, row), *([] if more is None else [int(more[i])]), sep=",", file=f)
    with open("towers.loss", "w") as f:
        print(nn.functional.cross_entropy(towers(width, depth), label).item(), file=f)
    refused_module("none is token ids", nn.Bilinear(2, 2, 2), (torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.long)))


def table():
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def main():
    os.chdir(sys.argv[1])
    torch.manual_seed(5)
    ids, whole = torch.ones(2, 12, dtype=torch.long), {"input_names": ["x"], "dynamic_axes": {"x": {0: "n", 1: "s"}}}
    for name, module, example, more in (("resnet", Residual(), torch.zeros(2, 3, 32, 32), {}), ("text", Text(), ids, whole),
                                        ("order", Order(), ids, {}), ("table", table(), torch.zeros(4, 3), {})):
        split.write_network(module, (example,) if name == "table" else example, name + ".safetensors")
        torch.onnx.export(module.train(), example, name + ".onnx", training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                          opset_version=16, **more)
        split.convert_onnx(name + ".onnx", name + ".onnx.safetensors", tokens=12 if name == "text" else None)
    refused_module("an example of [2]", table(), torch.zeros(2))
    refused_module("works on volumes [C, D, H, W], and gets [3, 4, 4]", nn.Conv3d(1, 1, 1), torch.zeros(2, 3, 4, 4))
    refused_module("gives [3, 8] for each row", nn.Linear(8, 8), torch.zeros(2, 3, 8))
    write_towers()
    check_middles(sys.argv[2])
    check_export()
    check_broken()


main()
