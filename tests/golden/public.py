#!/usr/bin/env python3
"""Fifty public networks, by both ways from PyTorch to SPLITC: split.write_network, and split.convert_onnx of torch.onnx.export with its plain call and with
the flags of docs/howto-onnx.md. Each must train three steps as PyTorch does.

usage: public.py FOLDER SPLITC [NAME…]   prints a table of docs/results/public-networks.md. FOLDER has the checkouts that NETWORKS names.

Dropout is off, and ten samples are one batch. PyTorch computes in float64, and again in float32, which shows what rounding does: where
that is more than 5e-3, the learning rate is 0.001 in place of 0.01. Losses agree to 1e-4, the way of all parameters and that of all
statistics to 1e-2 of its length; where PyTorch's float32 is off, to ten times, and to five times, at most 0.5, of that.
"""
import copy
import importlib
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest.mock
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

import golden
import split

ROWS, STEPS, CLASSES = 10, 3, 10
VIT = dict(image_size=32, patch_size=8, num_classes=CLASSES, dim=64, depth=2, heads=4, dim_head=16, mlp_dim=128)
TWO = dict(spatial_dims=2, in_channels=3, out_channels=2)
EEG = dict(n_outputs=CLASSES, add_log_softmax=False)

# checkout, module, an example's shape, whether each pixel has a class; then name: arguments
NETWORKS = [
    ("pytorch-cifar", "models", (3, 32, 32), False, {
        "LeNet": {}, "VGG": dict(vgg_name="VGG11"), "ResNet18": {}, "PreActResNet18": {}, "GoogLeNet": {}, "densenet_cifar": {}, "ResNeXt29_2x64d": {},
        "MobileNetV2": {}, "DPN26": {}, "ShuffleNetV2": dict(net_size=0.5), "SENet18": {}, "SimpleDLA": {}}),
    ("vit-pytorch", "vit_pytorch", (3, 32, 32), False, {
        "vit:ViT": VIT, "simple_vit:SimpleViT": VIT, "vit_for_small_dataset:ViT": VIT, "deepvit:DeepViT": VIT, "parallel_vit:ViT": VIT,
        "xcit:XCiT": dict(VIT, cls_depth=1), "pit:PiT": dict(VIT, depth=(1, 1)),
        "cct:CCT": dict(img_size=(32, 32), embedding_dim=64, n_conv_layers=1, num_layers=2, num_heads=2, mlp_ratio=2.0, num_classes=CLASSES,
                        positional_embedding="learnable", dropout_rate=0.0, attention_dropout=0.0, stochastic_depth_rate=0.0),
        "cvt:CvT": dict(num_classes=CLASSES, s1_emb_dim=16, s2_emb_dim=32, s3_emb_dim=48, s3_depth=1)}),
    ("vit-pytorch", "vit_pytorch", (3, 64, 64), False, {
        "mobile_vit:MobileViT": dict(image_size=(64, 64), dims=[32, 48, 64], channels=[8, 16, 24, 24, 32, 32, 48, 48, 64, 64, 128], num_classes=CLASSES)}),
    ("MONAI", "monai.networks.nets", (3, 32, 32), True, {
        "UNet": dict(TWO, channels=(8, 16, 32), strides=(2, 2), num_res_units=1), "BasicUNet": dict(TWO, features=(8, 8, 16, 16, 32, 8)),
        "AttentionUnet": dict(TWO, channels=(8, 16, 32), strides=(2, 2)), "SegResNet": dict(TWO, init_filters=8),
        "DynUNet": dict(TWO, kernel_size=(3, 3, 3), strides=(1, 2, 2), upsample_kernel_size=(2, 2)), "HighResNet": TWO}),
    ("MONAI", "monai.networks.nets", (3, 64, 64), False, {
        "DenseNet121": dict(TWO, out_channels=CLASSES), "resnet18": dict(spatial_dims=2, n_input_channels=3, num_classes=CLASSES)}),
    ("pytorch-image-models", "timm", (3, 64, 64), False, {name: dict(num_classes=CLASSES) for name in (
        "resnet18", "resnet26d", "convnext_atto", "efficientnet_b0", "mobilenetv3_small_050", "regnety_002", "skresnet18", "repvgg_a0", "ghostnet_050")}),
    ("pytorch-image-models", "timm", (3, 64, 64), False, {name: dict(num_classes=CLASSES, img_size=64) for name in (
        "vit_tiny_patch16_224", "mixer_s32_224", "resmlp_12_224")}),
    ("resnet1d", "", (4, 200), False, {
        "resnet1d:ResNet1D": dict(in_channels=4, base_filters=16, kernel_size=8, stride=2, groups=4, n_block=4, n_classes=CLASSES),
        "net1d:Net1D": dict(in_channels=4, base_filters=16, ratio=1.0, filter_list=[16, 32], m_blocks_list=[2, 2], kernel_size=8, stride=2,
                            groups_width=8, n_classes=CLASSES)}),
    ("resnet1d", "", (1, 200), False, {
        "cnn1d:CNN": dict(in_channels=1, out_channels=16, n_len_seg=50, n_classes=CLASSES, device="cpu"),
        "crnn1d:CRNN": dict(in_channels=1, out_channels=16, n_len_seg=50, n_classes=CLASSES, device="cpu")}),
    ("braindecode", "braindecode.models", (8, 200), False, {"shallow_fbcsp:ShallowFBCSPNet": dict(EEG, n_chans=8, n_times=200, final_conv_length="auto")}),
    ("braindecode", "braindecode.models", (8, 500), False, {"deep4:Deep4Net": dict(EEG, n_chans=8, n_times=500)}),
    ("braindecode", "braindecode.models", (8, 128), False, {"eegnet:EEGNetv4": dict(n_outputs=CLASSES, n_chans=8, n_times=128)}),
    ("braindecode", "braindecode.models", (2, 3000), False, {
        "sleep_stager_chambon_2018:SleepStagerChambon2018": dict(n_outputs=CLASSES, n_chans=2, sfreq=100, input_window_seconds=30)}),
]
BARE = "braindecode", "braindecode.models"  # packages whose __init__ needs more than networks do
STUBS = "mne", "skorch", "torchinfo", "h5py", "tqdm", "matplotlib", "matplotlib.pyplot", "docstring_inheritance"  # of what networks import and do not use


def prepare(folder):
    for checkout in ("einops", *{row[0]: 0 for row in NETWORKS}):
        sys.path.append(os.path.join(folder, checkout))
    for name in STUBS:
        sys.modules.setdefault(name, unittest.mock.MagicMock())
    sys.modules["docstring_inheritance"].NumpyDocstringInheritanceInitMeta = type
    for name in BARE:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [os.path.join(folder, "braindecode", *name.split("."))]


def make(package, name, arguments, seed):
    """The network, in training, without dropout."""
    torch.manual_seed(seed)
    place, _, last = name.rpartition(":")
    module = importlib.import_module(".".join(filter(None, (package, place))))
    model = module.create_model(last, **arguments) if package == "timm" else getattr(module, last)(**arguments)
    for m in model.modules():
        if isinstance(m, nn.modules.dropout._DropoutNd):
            m.p = 0.0
        if isinstance(m, nn.MultiheadAttention):
            m.dropout = 0.0
    return model.train()


def make_data(folder, shape, pixels):
    """Writes ten samples for training, and the same for an evaluation. Returns the config's keys and the samples."""
    g = np.random.default_rng(3)
    if len(shape) == 3:
        x, masks = g.integers(0, 256, (ROWS, *shape[1:], shape[0]), np.uint8), g.integers(0, 2, (ROWS, *shape[1:]), np.uint8)
        for part in ("train", "val"):
            for i in range(ROWS):
                at = os.path.join(part, "all" if pixels else f"c{i}")
                for path, pixel in ((at, x[i]), (os.path.join("masks", at), masks[i])):
                    os.makedirs(os.path.join(folder, path), exist_ok=True)
                    Image.fromarray(pixel).save(os.path.join(folder, path, f"{i}.png"))
        size = ", ".join(map(str, shape[1:]))
        steps = f'["Resize(({size}))", "Normalize((0.5,), (0.25,))"]'
        data = {"kind": "images", "dir": folder, "transforms": steps, "test_transforms": steps, "test_limit": 2, **({"label": "[off, on]"} if pixels else {})}
        x = (torch.from_numpy(x).permute(0, 3, 1, 2).double().contiguous() / 255 - 0.5) / 0.25
        return data, x, torch.from_numpy(masks).long() if pixels else torch.arange(ROWS)
    x = np.round(g.normal(size=(ROWS, int(np.prod(shape)))), 6)
    for part in ("train", "val"):
        with open(os.path.join(folder, part + ".csv"), "w") as f:
            f.write(",".join((*(f"f{i}" for i in range(x.shape[1])), "label")) + "\n")
            f.writelines(",".join((*(f"{v:.6f}" for v in x[i]), str(i))) + "\n" for i in range(ROWS))
    x = (x - x.mean(0)) / x.std(0)
    return {"kind": "csv", "dir": folder, "label": "label", "test_limit": 2}, torch.from_numpy(x).reshape(ROWS, *shape), torch.arange(ROWS)


def three_steps(model, x, t, lr):
    """The losses, and how far each tensor of the state went."""
    before, losses = {k: v.clone() for k, v in model.state_dict().items()}, []
    opt = torch.optim.SGD(model.parameters(), lr)
    for _ in range(STEPS):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses, {k: v.double() - before[k].double() for k, v in model.state_dict().items() if v.is_floating_point()}


def off(found, want, names):
    """How far from those that are wanted, by their size: losses, the way of the parameters `names`, and that of statistics."""
    far = [max(abs(a - b) / abs(b) for a, b in zip(found[0], want[0]))]
    for part in (names, want[1].keys() - names):
        miss, size = (sum(float(f(k).square().sum()) for k in part) ** 0.5 for f in (lambda k: found[1][k] - want[1][k], lambda k: want[1][k]))
        far.append(miss / size if size else miss)
    return far


def trained(splitc, folder, file, data, before, pixels, rate):
    """The same of a run of SPLITC."""
    runs = tempfile.mkdtemp(dir=folder)
    with open(os.path.join(runs, "config.yaml"), "w") as f:
        f.write(f"model: {{network: {file}{', task: pixels' * pixels}}}\ndata: {{{', '.join(f'{k}: {v}' for k, v in data.items())}}}\n"
                f"train: {{batch: {ROWS}, chunks: 1, epochs: {STEPS}, seed: 1, eval_every: 0, optimizer: {{kind: sgd, lr: {rate}, momentum: 0, weight_decay: 0}}}}\n"
                f"threads: 1\nlog: {{dir: {runs}/log}}\n")
    got = subprocess.run([splitc, "train", os.path.join(runs, "config.yaml"), "--local"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if got.returncode:
        raise ValueError(got.stdout.strip().splitlines()[-1])
    losses = [line["loss"] for line in map(json.loads, open(os.path.join(runs, "log", "log.jsonl"))) if line["type"] == "step"]
    after = golden.read_safetensors(os.path.join(runs, "log", "model.safetensors"))[0]
    name_of = {before[k].data_ptr(): k for k in before if k in after}  # a module may have two names; what forward does not use is in no file
    return losses, {k: torch.from_numpy(after[name_of[v.data_ptr()]].copy()).double().reshape(v.shape) - v.double() if v.data_ptr() in name_of
                    else torch.zeros_like(v, dtype=torch.double) for k, v in before.items() if v.is_floating_point()}


def write(way, model, x, path):
    if way == "network":
        split.write_network(model, x, path)
    elif way == "plain":
        torch.onnx.export(model, x, path)
    else:
        torch.onnx.export(model, x, path, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=16)


WAYS = ("network", "flags", "plain")


def tried(splitc, folder, package, name, arguments, shape, pixels):
    """Of each way "", or why the network does not learn by it as in PyTorch."""
    data, x, t = make_data(folder, shape, pixels)
    model = make(package, name, arguments, 1)
    names = {k for k, v in model.state_dict(keep_vars=True).items() if isinstance(v, nn.Parameter)}
    for rate in (0.01, 0.001):
        want, own = three_steps(copy.deepcopy(model).double(), x, t, rate), three_steps(copy.deepcopy(model), x.float(), t, rate)
        rounds = off(own, want, names)
        if max(rounds) < 5e-3:
            break
    before, found = dict(model.state_dict()), []
    for way in WAYS:
        file, again = os.path.join(folder, way + (".safetensors" if way == "network" else ".onnx")), copy.deepcopy(model)
        try:
            write(way, again.eval() if way == "plain" else again, x.float()[:2], file)
            if way != "network":
                split.convert_onnx(file, file + ".safetensors")
                file += ".safetensors"
            miss = off(trained(splitc, folder, file, data, before, pixels, rate), want, names)
            most = [max(1e-4, 10 * rounds[0]), *(min(max(0.01, 5 * r), 0.5) for r in rounds[1:])]
            checked = zip(miss, most) if way == "network" else zip(miss[:2], most)  # torch's export moves the statistics once
            found.append("" if all(m < limit for m, limit in checked) else f"differs by {miss}, PyTorch's float32 by {rounds}")
        except Exception as e:
            found.append(f"{type(e).__name__}: {e}".splitlines()[0].replace(folder + "/", ""))
    return found


def main():
    folder, splitc, names, counts = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:], [0] * (len(WAYS) + 1)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    prepare(os.path.abspath(folder))
    print("| | network | `write_network` | ONNX | ONNX, plain call |\n|---|---|---|---|---|")
    for checkout, package, shape, pixels, networks in NETWORKS:
        for name, arguments in networks.items():
            if names and name not in names and checkout not in names:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                why = tried(splitc, scratch, package, name, arguments, shape, pixels)
            print(f"| {checkout} | {name.rpartition(':')[2]} | " + " | ".join("learns" if not w else "no" for w in why) + " |", flush=True)
            for way, w in zip(WAYS, why):
                if w:
                    print(f"  {name} by {way}: {w}", file=sys.stderr, flush=True)
            counts = [n + yes for n, yes in zip(counts, (1, *(not w for w in why)))]
    print(f"| all | {counts[0]} | {' | '.join(map(str, counts[1:]))} |")


if __name__ == "__main__":
    main()
