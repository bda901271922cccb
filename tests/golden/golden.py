"""Reference runs of torchvision's MobileNetV2 in float64, and the safetensors files that they are kept in.

A run makes four files, PREFIX_….safetensors:
  init   torchvision's state_dict before the first step
  grad   gradient of the first step's loss, under the parameter's name
  after  torchvision's state_dict after the last step
  run    input [N,H,W,3] F16 (NHWC) and label [N] I32: the batch of every step
         lr [steps] F64, loss [steps] F64 (mean over the batch), correct [steps] I64 (rows whose largest logit is right)
         logits.first [N,K] (step 0, training mode), logits.eval [N,K] (after the last step, running statistics)
         metadata, all strings: width, image, batch, classes, steps, momentum, weight_decay, cifar_stem, seed; where a run
         has rules, optimizer, beta1, beta2, eps, clip_norm, accumulate, ema, freeze and groups (both as splitc's config has
         them, joined with commas), and from: the prefix of the run whose `init` it begins with
Weights, gradients and logits are F32 and in torchvision's layouts. A step is one batch in one chunk, dropout is 0.

From the float32 weights and the inputs on, everything is computed in float64: the results are the truth, which a float32
engine misses by its rounding only. Compare per tensor: largest |got - want| ≤ 1e-4 · max(largest |want|, floor) with floor
0, but for gradients 1e-3 · the largest element of all gradients: the bias of a batchnorm without activation has a
gradient of exactly 0, because the next convolution's batchnorm takes any shift out again, and only rounding is left of it.
The weight decay is larger than the usual 1e-4, under which forgetting it would pass at that tolerance.
"""
import copy
import fnmatch
import json
import struct

import numpy as np
import torch
from torchvision.models import mobilenet_v2

DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32}


def write_safetensors(path, tensors, metadata=None):
    """tensors: name → numpy array of one of DTYPES. Largest elements first, then by name: all are aligned."""
    kind = {np.dtype(v): k for k, v in DTYPES.items()}
    header, blobs, at = {}, [], 0
    if metadata:
        header["__metadata__"] = {k: str(v) for k, v in metadata.items()}
    for name in sorted(tensors, key=lambda n: (-tensors[n].dtype.itemsize, n)):
        array = tensors[name]
        blob = array.tobytes()  # C order; ascontiguousarray would make a scalar a vector
        header[name] = {"dtype": kind[array.dtype], "shape": list(array.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    """name → numpy array, and the metadata."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


def new_model(width, classes, generator, spread=1.0, centre=2.0):
    """Random weights under which five steps in float32 are comparable with five in float64 at all.

    torchvision's own initialisation is chaotic there: its small depthwise weights, scale-free before a batchnorm, make
    steps that flip many ReLU6 masks, and torch's float32 leaves its float64 by 10 % after four steps. Here weights are
    wide, and a batchnorm before a ReLU6 gives values of mean `centre` and deviation `spread`: most lie between the kinks
    0 and 6, some beyond either, and hardly any so near a kink that rounding decides its mask.
    """
    model = mobilenet_v2(width_mult=width, num_classes=classes, dropout=0.0)

    def normal(t, mean, std):
        t.copy_(torch.randn(t.shape, generator=generator) * std + mean)

    with torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Conv2d):
                normal(module.weight, 0, (2 / module.weight[0].numel()) ** 0.5)
            elif isinstance(module, torch.nn.BatchNorm2d):
                before_act = name.split(".")[-2] != "conv"  # features.1.conv.2 is linear, features.1.conv.0.1 is not
                normal(module.weight, spread if before_act else 1, 0.1 * spread)
                normal(module.bias, centre if before_act else 0.3, 0.3 * spread)
                normal(module.running_mean, 0, 0.1)
                module.running_var.copy_(0.5 + torch.rand(module.running_var.shape, generator=generator))
            elif isinstance(module, torch.nn.Linear):
                normal(module.weight, 0, 0.02)
                normal(module.bias, 0, 0.05)
    return model


def cifar_stem(model):
    """The usual CIFAR form: stride 1 in the stem and in the first strided stage."""
    model.features[0][0].stride = (1, 1)
    block = model.features[2]
    block.conv[1][0].stride = (1, 1)
    # what its constructor would have said of that stride (narrow models have equal channels here)
    block.use_res_connect = block.conv[0][0].in_channels == block.conv[-1].num_features
    return model


def state_of(model):
    """state_dict with floats as float32."""
    return {
        name: t.detach().numpy().astype(np.float32 if t.is_floating_point() else np.int64)
        for name, t in model.state_dict().items()
    }


def matches(name, globs):
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def set_rules(model, lr, momentum=0.0, weight_decay=0.0, nesterov=False, freeze="", groups="", optimizer="sgd", beta1=0.9, beta2=0.999, eps=1e-8, **others):
    """The optimizer, with a factor of the learning rate in each of its groups; what `freeze` matches does not learn."""
    group = [dict(match=[""], params=[], factor=1.0, weight_decay=weight_decay)]
    for text in filter(None, groups.split(",")):
        words = text.split()
        rule = dict(word.split("=") for word in words if "=" in word)
        decay = float(rule.get("weight_decay", weight_decay))
        group.append(dict(match=[w for w in words if "=" not in w], params=[], factor=float(rule.get("lr", 1)), weight_decay=decay))
    for name, p in model.named_parameters():
        p.requires_grad_(not matches(name, freeze.split(",")))
        if p.requires_grad:
            next((g for g in group[1:] if matches(name, g["match"])), group[0])["params"].append(p)
    group = [g for g in group if g["params"]]
    if optimizer == "sgd":
        return torch.optim.SGD(group, lr=lr, momentum=momentum, nesterov=nesterov)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer]
    return kind(group, lr=lr, betas=(beta1, beta2), eps=eps)


def train(model, data, labels, lrs, clip_norm=0, accumulate=1, ema=0, **rules):
    """One step per learning rate, all on data [N,H,W,3] and labels [N]. Returns (grad, run, after).

    accumulate: so many steps are batches of one step of the optimizer, and step k has labels + k modulo the classes, so that
    no two batches have the same gradient. ema: as timm's ModelEmaV2, but for buffers, which are the model's own; `after` and
    logits.eval are of the average."""
    dtype = next(model.parameters()).dtype
    images = torch.from_numpy(data).to(dtype).permute(0, 3, 1, 2)
    classes = list(model.parameters())[-1].shape[0]  # of the classifier's bias
    first_labels = torch.from_numpy(labels.astype(np.int64))
    average = copy.deepcopy(model) if ema else model
    optimizer = set_rules(model, lrs[0], **rules)
    grad, losses, correct, first, norms = {}, [], [], None, []
    model.train()
    for step, lr in enumerate(lrs):
        for group in optimizer.param_groups:
            group["lr"] = float(lr) * group["factor"]
        targets = (first_labels + step) % classes if accumulate > 1 else first_labels
        if step % accumulate == 0:
            optimizer.zero_grad()
        logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits, targets)
        (loss / accumulate).backward()
        losses.append(loss.item())
        correct.append(int((logits.argmax(1) == targets).sum()))
        if step == 0:
            first = logits.detach().numpy()
            grad = {name: p.grad.numpy().astype(np.float32) for name, p in model.named_parameters() if p.requires_grad}
        if (step + 1) % accumulate:
            continue
        if clip_norm:
            norm = torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], clip_norm)
            norms.append(float(norm))
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()) if ema else ():
                a.copy_(ema * a + (1 - ema) * p)
    if clip_norm:  # some steps are clipped, or there is nothing to compare
        assert max(norms) > clip_norm, norms
    for a, b in zip(average.buffers(), model.buffers()):
        a.copy_(b)
    average.eval()
    with torch.no_grad():
        evaluated = average(images).numpy()
    run = {
        "input": data,
        "label": labels.astype(np.int32),
        "lr": np.array(lrs, np.float64),
        "loss": np.array(losses, np.float64),
        "correct": np.array(correct, np.int64),
        "logits.first": first.astype(np.float32),
        "logits.eval": evaluated.astype(np.float32),
    }
    return grad, run, state_of(average)


def deviation(got, want, floor):
    """Largest |got - want| over the tensor's largest |want|, which counts as `floor` where it is below that."""
    return float(np.abs(got.astype(np.float64) - want).max() / max(np.abs(want).max(), floor))


def make(prefix, model, width, image, batch, classes, steps, lr, seed, stem=False, name="mobilenet_v2", nesterov=False, rules=None, init_of=None, shakes=0, channels=3):
    """Runs in float64, writes the four files, and prints how far torch's own float32 lies from them. With `rules` it writes
    no gradients, and with init_of, the prefix of another run, no initial weights. Of `shakes` runs with weights that are off by
    about the rounding of Winograd's convolutions, the report has the largest deviation too."""
    generator = np.random.default_rng(seed)
    data = generator.standard_normal((batch, image, image, channels)).astype(np.float16)
    labels = generator.integers(0, classes, batch).astype(np.int32)
    lrs = [lr * (step + 1) / steps for step in range(steps)]
    settings = dict(momentum=0.9, weight_decay=1e-2)
    if nesterov:
        settings["nesterov"] = True
    settings.update(rules or {})
    init = state_of(model)
    grad, run, after = train(model.double(), data, labels, lrs, **settings)
    grad32, run32, after32 = train(load(model.float(), init), data, labels, lrs, **settings)

    metadata = dict(settings, width=width, image=image, batch=batch, classes=classes, steps=steps, seed=seed)
    metadata["cifar_stem"] = int(stem)
    if name != "mobilenet_v2":  # what files without it are of
        metadata["model"] = name
    if init_of:
        metadata["from"] = init_of
    else:
        write_safetensors(prefix + "_init.safetensors", init)
    if not rules:
        write_safetensors(prefix + "_grad.safetensors", grad)
    write_safetensors(prefix + "_after.safetensors", after)
    write_safetensors(prefix + "_run.safetensors", run, metadata)
    report = compare(grad32, run32, after32, grad, run, after)
    if shakes:
        report["shaken"] = shaken(model, init, data, labels, lrs, shakes, 2e-6, **settings)
    print(prefix, "loss", " ".join(f"{x:.5f}" for x in run["loss"]))
    print("torch's float32 against it:", ", ".join(f"{k} {v:.1e}" for k, v in report.items()))
    return report


def shaken(model, init, data, labels, lrs, times, size, **settings):
    """The largest deviation, over so many runs in float32 whose initial weights are off by `size` of their value, from the
    run in float64. Where it is large, rounding of that size decides the sign of some value before a ReLU."""
    _, _, want = train(load(model.double(), init), data, labels, lrs, **settings)
    floats = [name for name in want if not name.endswith("num_batches_tracked")]
    worst = 0
    for k in range(times):
        noise = np.random.default_rng(k)
        off = {n: (t * (1 + size * noise.standard_normal(t.shape))).astype(t.dtype) for n, t in init.items()}
        _, _, after = train(load(model.float(), off), data, labels, lrs, **settings)
        worst = max(worst, max(deviation(after[n], want[n], 0) for n in floats))
    return worst


def load(model, state):
    model.load_state_dict({name: torch.from_numpy(np.array(t)) for name, t in state.items()})
    return model


def compare(grad, run, after, want_grad, want_run, want_after):
    """Largest deviation of each kind, by the rule above."""
    floor = 1e-3 * max(np.abs(g).max() for g in want_grad.values())
    floats = [name for name in want_after if not name.endswith("num_batches_tracked")]
    return {
        "loss": max(abs(a - b) / b for a, b in zip(run["loss"], want_run["loss"])),
        "grad": max(deviation(grad[n], want_grad[n], floor) for n in want_grad),
        "after": max(deviation(after[n], want_after[n], 0) for n in floats),
        "logits.eval": deviation(run["logits.eval"], want_run["logits.eval"], 0),
    }
