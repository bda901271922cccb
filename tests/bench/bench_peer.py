#!/usr/bin/python3
"""Compares Split on the CPU with PyTorch: pieces of a step (bench_segments) and the pair of daemons on loopback. Both sides take turns on
one machine. Start it with bench-peer.sh, which chooses PyTorch's malloc.

    bench_peer.py [--quick] [--write] [--warm] [--cpu] [--compile] [--bf16] [--runs N] [--threads N,…] [--only head,tail,step,middle,memory,split,resnet9,
        resnet18,resnet50,vgg16,files,encoder,decoder,cola,lora]

A row has the medians of N (7) runs, 3 N for short pieces, with the smallest and the largest, and the ratio of Split's median to
PyTorch's, in the better one of PyTorch's memory formats. A run is forward and backward; gradients are set to None before. Only the rows
of split, cola and lora include the optimizer.

files    networks of tests/golden/onnx_families.py; Split reads them from the files that split.write_network writes
encoder  a layer of RoBERTa-base; PyTorch pads rows of different lengths, and the column "its form" says how far
decoder  a layer of Llama 3.2 1B with adapters, and one new token with a cache
cola     whole steps of RoBERTa-base over batches of CoLA; lora: the same with adapters. The environment's SPLIT_TEXT_DATA is a folder
         with glue/CoLA and roberta_tokenizer/. Without it both are left out.

--warm: before each run that counts, one that does not, as in training. --cpu: CPU time in place of wall time in the rows of encoder,
decoder, cola and lora, for machines that others use too. --write: writes the table to docs/results/cpu.md, in a part of its own for each
--only. --compile: torch.compile's NHWC is a third form of PyTorch in the rows of networks. --bf16: in these rows, precision bf16_factors
beside PyTorch with torch.autocast("cpu", torch.bfloat16). --quick: tiny settings, to check that the script works. --threads: 1,2 unless given. BUILD: the folder of Split's programs
(build/release). SPLIT_LIBRARIES: where they find shared libraries that this host does not have.
"""
import argparse
import ctypes
import datetime
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
CONFIG = os.path.join(HERE, "bench.yaml")
RESULT = os.path.join(ROOT, "docs", "results", "cpu.md")
MALLOC_KEYS = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES",
               "LD_PRELOAD")

# name, piece, image, batch, chunks, target ratio, network
SEGMENTS = [
    ("head conv+BN, 224², batch 64", "head", 224, 64, 1, 0.5, "mobilenet_v2"),
    ("tail, batch 64", "tail", 224, 64, 1, 0.5, "mobilenet_v2"),
    ("whole step, 32², batch 128", "step", 32, 128, 1, 0.5, "mobilenet_v2"),
    ("middle, 224², batch 64", "middle", 224, 64, 1, 0.6, "mobilenet_v2"),
    ("middle, 224², batch 64, chunks of 8", "middle", 224, 64, 8, 0.6, "mobilenet_v2"),
    ("ResNet9, whole step, 32², batch 128", "step", 32, 128, 1, 0.5, "resnet9"),
    ("ResNet-18, whole step, 224², batch 32", "step", 224, 32, 1, 0.5, "resnet18"),
    ("ResNet-50, whole step, 224², batch 16", "step", 224, 16, 1, 0.7, "resnet50"),
    ("VGG16, whole step, 224², batch 8", "step", 224, 8, 1, 0.5, "vgg16"),
    ("U-Net, whole step, 128², batch 16", "step", 128, 16, 1, 0.5, "unet"),
    ("ViT-S, whole step, 224², batch 16", "step", 224, 16, 1, 0.9, "vit_s"),
    ("ConvNeXt-T, whole step, 224², batch 8", "step", 224, 8, 1, 0.9, "convnext_t"),
    ("EfficientNet-B0, whole step, 224², batch 16", "step", 224, 16, 1, 0.9, "efficientnet_b0"),
    ("ResNeXt-50 32x4d, whole step, 224², batch 8", "step", 224, 8, 1, 0.8, "resnext50_32x4d"),
    ("RegNet-Y-400MF, whole step, 224², batch 16", "step", 224, 16, 1, 0.8, "regnet_y_400mf"),
    ("ModerateCNN, whole step, 32², batch 64", "step", 32, 64, 1, 0.5, "moderate_cnn"),
]
# Networks of files, and where they are cut. The cut only serves bench_segments; the step is the whole network's.
WRITTEN = {"unet": ("down.0.0", "last"), "vit_s": ("conv_proj", "heads"), "convnext_t": ("features.0", "classifier.2"),
        "efficientnet_b0": ("stem", "classifier"), "resnext50_32x4d": ("conv1", "fc"), "regnet_y_400mf": ("stem", "fc"),
        "moderate_cnn": ("features.0", "classifier.7")}
# For Split: what to set in bench.yaml for a network.
SETS = {"mobilenet_v2": [], "resnet9": ["model.name=resnet9", "head_end=prep_relu", "tail_begin=linear"],
        "resnet18": ["model.name=resnet18", "head_end=maxpool", "tail_begin=avgpool"],
        "resnet50": ["model.name=resnet50", "head_end=maxpool", "tail_begin=avgpool"],
        "vgg16": ["model.name=vgg16", "head_end=features.0", "tail_begin=classifier"]}
SPLIT = [("split over loopback, 4 chunks, none", "none", 0.6), ("split over loopback, 4 chunks, quant:8", "quant:8", 0.6)]
MEMORY_TARGET, SCALING_TARGET, BF16_TARGET = 0.6, 1.7, 0.9


def our_env():
    """Returns the environment of Split's programs, which use the system's malloc."""
    ours = {"LD_LIBRARY_PATH": os.environ["SPLIT_LIBRARIES"]} if "SPLIT_LIBRARIES" in os.environ else {}
    return {k: v for k, v in os.environ.items() if k not in MALLOC_KEYS} | ours


class Ours:
    """One of Split's programs, which runs a piece for each line of its stdin."""

    def __init__(self, piece, program, *args):
        self.piece = piece
        self.p = subprocess.Popen([os.path.join(BUILD, "tests/bench", program), *args], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=our_env())

    def ask(self):
        """Runs the piece once and returns the numbers of the answer."""
        answer = []
        try:
            self.p.stdin.write(self.piece + "\n")
            self.p.stdin.flush()
            answer = self.p.stdout.readline().split()
        except BrokenPipeError:
            pass
        return answer or sys.exit("bench_peer.py: " + self.p.stderr.read().strip())

    def run(self):
        return float(self.ask()[0])

    def close(self):
        """Ends the program; returns what it printed about the CPU."""
        self.p.stdin.close()
        self.p.stdout.read()
        said = self.p.stderr.read()
        self.p.wait()
        return said.strip().splitlines()[-1].split(": ", 1)[-1]


def use_threads(n):
    """Also sets the threads of OpenBLAS, with which Debian's PyTorch multiplies matrices."""
    import torch

    torch.set_num_threads(n)
    try:
        blas = ctypes.CDLL("libblas.so.3")
    except OSError:  # PyTorch's wheels have their own
        return
    if hasattr(blas, "openblas_set_num_threads"):
        blas.openblas_set_num_threads(n)


def families():
    sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
    import onnx_families
    return onnx_families


def network_worker(net, image, file):
    import torch
    sys.path.insert(0, os.path.join(ROOT, "python"))
    os.environ["SPLIT_LIBRARY"] = os.path.join(BUILD, "libsplit.so.0")
    import split
    split.write_network(network(False, net)[0], torch.zeros(2, 3, image, image), file)


def network_config(folder, net, image):
    """Writes the network's file to FOLDER, and a config beside it; returns the config's path."""
    path, (head, tail) = os.path.join(folder, net), WRITTEN[net]
    subprocess.run([sys.executable, __file__, "--network-worker", f"{net},{image},{path}.safetensors"], env=our_env(), check=True)
    with open(CONFIG, encoding="utf-8") as f:
        text = re.sub(r"model:\n(  .*\n)*", f"model: {{network: {path}.safetensors}}\n", f.read())
    with open(path + ".yaml", "w", encoding="utf-8") as f:
        f.write(re.sub("(head_end|tail_begin): .*", lambda m: f"{m[1]}: {head if m[1] == 'head_end' else tail}", text))
    return path + ".yaml"


def our_segments(piece, image, batch, chunks, threads, net, folder, bf16):
    config = network_config(folder, net, image) if net in WRITTEN else CONFIG
    args = ["bench_segments", config, "--serve", piece]
    factors = ["train.precision=bf16_factors", "train.ends_precision=bf16_factors"] if bf16 else []
    for s in [*SETS.get(net, []), *factors, f"model.image={image}", f"train.batch={batch}", f"train.chunks={chunks}",
              f"threads={threads}"]:
        args += ["--set", s]
    return Ours(piece, *args)


# ---- PyTorch


def network(cut, name="mobilenet_v2"):
    """Returns head, middle and tail. ReLU6 works in place, as in torchvision, except the middle's first one if `cut`. Networks other than
    MobileNetV2 are whole: their middle and tail do nothing."""
    import torch
    import torchvision
    torch.manual_seed(0)
    if name == "resnet9":
        sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
        from make_resnet9 import ResNet9
        return torch.nn.Sequential(ResNet9((64, 128, 256, 512), 10), torch.nn.Identity(), torch.nn.Identity()).train()
    if name in WRITTEN:
        return torch.nn.Sequential(families().FULL[name][0](), torch.nn.Identity(), torch.nn.Identity()).train()
    if name != "mobilenet_v2":
        net = getattr(torchvision.models, name)(num_classes=10)
        return torch.nn.Sequential(net, torch.nn.Identity(), torch.nn.Identity()).train()
    net = torchvision.models.mobilenet_v2(num_classes=10)
    head = torch.nn.Sequential(net.features[0][0], net.features[0][1])
    middle = torch.nn.Sequential(torch.nn.ReLU6(inplace=not cut), *net.features[1:])
    tail = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), net.classifier)
    return torch.nn.Sequential(head, middle, tail).train()


class Torch:
    """One piece in one memory format; run() returns milliseconds."""

    def __init__(self, piece, image, batch, chunks, form, name, bf16):
        import torch
        self.torch, self.piece, self.bf16 = torch, piece, bf16
        self.format = torch.contiguous_format if form == "NCHW" else torch.channels_last
        net = network(piece != "step", name).to(memory_format=self.format)
        self.loss = torch.nn.CrossEntropyLoss(reduction="sum")
        self.scale = 1.0 / batch
        rows = batch // chunks
        x = torch.randn(rows, 3, image, image)
        with torch.no_grad():
            h = net[0](x.contiguous(memory_format=self.format))
            m = net[1](h.clone()) if piece != "head" else h
        self.part = {"head": net[0], "middle": net[1], "tail": net[2], "step": net}[piece]
        if form == "compiled":
            self.part = torch.compile(self.part)
        shape, out = {"head": (x, h), "middle": (h, m), "tail": (m, None), "step": (x, None)}[piece]
        self.wants_din = piece in ("middle", "tail")
        self.x = [torch.randn(shape.shape).contiguous(memory_format=self.format) for _ in range(chunks)]
        self.dout = None if out is None else torch.randn(out.shape).contiguous(memory_format=self.format)
        self.labels = torch.arange(rows) % 10

    def run(self):
        start = time.perf_counter()
        for p in self.part.parameters():
            p.grad = None
        for x in self.x:
            with self.torch.autocast("cpu", self.torch.bfloat16, self.bf16):
                y = self.part(x.detach().requires_grad_(self.wants_din))
            if self.dout is None:
                (self.loss(y.float(), self.labels) * self.scale).backward()
            else:
                y.float().backward(self.dout)
        return (time.perf_counter() - start) * 1e3


class Times:
    def __init__(self, ms):
        self.median, self.least, self.most = statistics.median(ms), min(ms), max(ms)

    def __str__(self):
        return f"{self.median:.1f} ({self.least:.1f} to {self.most:.1f})"


def say(text):
    print(text, flush=True)


class Report:
    def __init__(self):
        self.rows, self.cpu = [], ""

    def add(self, name, threads, ours, peer, note, target):
        ratio = ours.median / peer.median
        self.rows.append((name, threads, str(ours), str(peer), note, f"{ratio:.2f}", f"{target}",
                          "yes" if ratio <= target else "no"))
        say(f"  {name}, {threads} threads: {ours} against {peer} {note}: {ratio:.2f}, at most {target}")

    def plain(self, name, threads, ours, peer, note, ratio, target, good):
        self.rows.append((name, threads, ours, peer, note, ratio, target, "yes" if good else "no"))
        say(f"  {name}, {threads} threads: {ours}, PyTorch {peer} {note}: {ratio}, target {target}")


def by_turns(ours, peers, runs, warm):
    """Returns the milliseconds of `runs` runs of each, after two that do not count, and what our program printed about the CPU."""
    ms = {who: [] for who in ("ours", *peers)}
    for r in range(-2, runs):
        for who, what in [("ours", ours), *peers.items()]:
            for _ in range(2 if warm else 1):
                t = what.run()
            if r >= 0:
                ms[who].append(t)
    return ms, ours.close()


def compare_segment(report, row, threads, runs, warm, forms, bf16):
    name, piece, image, batch, chunks, target, net = row
    use_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        ours = our_segments(piece, image, batch, chunks, threads, net, folder, bf16)
        ours.run()  # so that it has read the network before the folder goes
    peers = {form: Torch(piece, image, batch, chunks, form, net, bf16) for form in forms}
    ms, report.cpu = by_turns(ours, peers, runs, warm)
    order = sorted(peers, key=lambda k: statistics.median(ms[k]))
    best, mine = order[0], Times(ms["ours"])
    others = "".join(f"; {k} {statistics.median(ms[k]):.1f}" for k in order[1:] if "compiled" in order)
    report.add(f"{name}, bf16" if bf16 else name, threads, mine, Times(ms[best]), best + others, BF16_TARGET if bf16 else target)
    return mine.median, statistics.median(ms[best])


# ---- a layer of an encoder


def layer(name, lengths, threads, cpu):
    return Ours("cpu" if cpu else "run", "bench_encoder", name, str(threads), ",".join(str(n) for n in lengths))


def compare_decoder(report, threads, runs, warm, cpu):
    from bench_peer_encoder import BLOCKS, FACTORS_TARGET, Block
    use_threads(threads)
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        factors = "avx512_bf16" in f.read()
    for name, kind, lengths, target in BLOCKS:
        peers = {"eager": Block(lengths, kind, cpu)}
        if factors and kind == "llama":
            peers["bf16"] = layer("factors", lengths, threads, cpu)
        ms, report.cpu = by_turns(layer(kind, lengths, threads, cpu), peers, runs, warm)
        report.add(name, threads, Times(ms["ours"]), Times(ms["eager"]), "eager", target)
        if "bf16" in peers:
            peers["bf16"].close()
            report.add(f"{name}, bf16_factors", threads, Times(ms["bf16"]), Times(ms["ours"]), "our fp32", FACTORS_TARGET)


def compare_encoder(report, threads, runs, warm, cpu):
    from bench_peer_encoder import CASES, Layer
    use_threads(threads)
    for name, lengths, pads in CASES:
        ours = layer("roberta", lengths, threads, cpu)
        ms, report.cpu = by_turns(ours, {form: Layer(lengths, to, cpu) for form, to, _ in pads}, runs, warm)
        for form, _, target in pads:
            report.add(name, threads, Times(ms["ours"]), Times(ms[form]), form, target[min(threads, 2) - 1])


def compare_cola(report, threads, runs, quick, cpu, lora):
    """Each run has another batch, which is the same for all sides. PyTorch with padding to 128 tokens can take a minute: it has a third
    of the runs, and no warm-up run."""
    from bench_peer_encoder import LORA_STEPS, STEPS, Step, write_config
    steps = LORA_STEPS if lora else STEPS
    data = os.environ["SPLIT_TEXT_DATA"]
    use_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(folder, quick)
        glue = os.path.join(data, "glue")
        sets = {"model.huggingface": folder, "data.dir": glue if os.path.isdir(glue) else data,
                "data.tokenizer": os.path.join(data, "roberta_tokenizer"), "data.token_cache": "false",
                "train.optimizer.kind": "adamw", "train.optimizer.weight_decay": "0.1", "train.chunks": "1",
                "threads": str(threads), "log.dir": "", "log.level": "error", "lora.rank": "8" if lora else "0"}
        args = [a for k, v in sets.items() for a in ("--set", f"{k}={v}")]
        ours = Ours("cpu" if cpu else "run", "bench_train", os.path.join(ROOT, "configs/client-cola.yaml"), *args)
        peer = Step(config, cpu, lora)
        ms = {who: [] for who in ("ours", *(form for form, _, _ in steps))}
        for r in range(-1, runs):
            time_of_ours, *lengths = ours.ask()
            lengths = [int(n) for n in lengths]
            if r >= 0:
                ms["ours"].append(float(time_of_ours))
            for form, padded, _ in steps:
                if padded == 0 or r >= 0 and r % 3 == 0:
                    t = peer.run(lengths, padded)
                    if r >= 0:
                        ms[form].append(t)
        report.cpu = ours.close()
    for form, _, target in steps:
        report.add(f"whole step of RoBERTa-base{', LoRA' if lora else ''}, 32 rows of CoLA", threads, Times(ms["ours"]), Times(ms[form]), form, target)


# ---- peak memory: each in a process that does nothing else


def peak_resident_mb():
    """Not from ru_maxrss, which includes the process before exec."""
    with open("/proc/self/status", encoding="utf-8") as f:
        return int(re.search(r"VmHWM:\s*(\d+) kB", f.read()).group(1)) * 1024e-6


def memory_worker(image, batch, channels_last):
    import torch
    use_threads(1)
    base = peak_resident_mb()
    net = network(True)[1].to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    side = image // 2
    x = torch.randn(batch, 32, side, side)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    dout = torch.randn(batch, 1280, image // 32, image // 32)
    for _ in range(2):
        for p in net.parameters():
            p.grad = None
        x = x.detach().requires_grad_(True)
        net(x).backward(dout)
    print(base, peak_resident_mb())


def compare_memory(report, image, batch):
    args = [os.path.join(BUILD, "tests/bench/bench_segments"), CONFIG, "--set", f"model.image={image}", "--set",
            f"train.batch={batch}", "--set", "train.chunks=1", "--set", "threads=1", "--runs", "2", "middle"]
    out = subprocess.run(args, env=our_env(), capture_output=True, text=True, check=True).stdout
    ours = float(re.search(r"peak resident\t([0-9.]+)", out).group(1))
    peers = {}
    for malloc, env in (("default malloc", our_env()), ("tuned malloc", os.environ)):
        for form in ("NHWC", "NCHW"):
            run = subprocess.run([sys.executable, __file__, "--memory-worker", f"{image},{batch},{int(form == 'NHWC')}"],
                                 env=env, capture_output=True, text=True, check=True).stdout.split()
            peers[f"{form}, {malloc}, {float(run[0]):.0f} before the first tensor"] = float(run[1])
    best = min(peers, key=peers.get)
    ratio = ours / peers[best]
    report.plain(f"peak resident MB, middle, {image}², batch {batch}", 1, f"{ours:.0f}", f"{peers[best]:.0f}", best,
                 f"{ratio:.2f}", f"{MEMORY_TARGET}", ratio <= MEMORY_TARGET)


# ---- the pair in PyTorch: head and tail in one process, the middle in another, with gloo between them


def quantize(x, out):
    """Writes min and step = (max - min) / 255 as two floats to `out`, then the codes round((x - min) / step)."""
    import torch
    lo, hi = torch.aminmax(x)
    step = (hi - lo) / 255
    out[:8].view(torch.float32).copy_(torch.stack((lo, step)))
    out[8:].copy_(torch.sub(x, lo).div_(step).round_().view(-1))
    return out


def dequantize(payload, shape):
    import torch
    lo, step = payload[:8].view(torch.float32)
    return payload[8:].to(torch.float32).mul_(step).add_(lo).view(shape)


class Crossing:
    """One of the four tensors that cross, for all chunks. `shape` is that in memory; the buffers are made once."""

    def __init__(self, dist, peer, number, chunks, shape, codec):
        import torch
        n = torch.Size(shape).numel()
        self.dist, self.peer, self.shape, self.codec = dist, peer, shape, codec
        self.tags = [number * chunks + c for c in range(chunks)]
        self.buffers = [torch.empty(n + 8, dtype=torch.uint8) if codec == "quant:8" else torch.empty(shape)
                        for _ in range(chunks)]
        self.sends = []

    def expect(self):
        self.requests = [self.dist.irecv(b, self.peer, tag=t) for b, t in zip(self.buffers, self.tags)]

    def get(self, c):
        self.requests[c].wait()
        return dequantize(self.buffers[c], self.shape) if self.codec == "quant:8" else self.buffers[c]

    def put(self, c, x):
        b = quantize(x, self.buffers[c]) if self.codec == "quant:8" else x
        self.sends.append(self.dist.isend(b, self.peer, tag=self.tags[c]))

    def sent(self):
        for s in self.sends:
            s.wait()
        self.sends = []


def split_worker(rank, port, image, batch, chunks, codec, channels_last, steps):
    """rank 0 computes head and tail and prints milliseconds per step; rank 1 computes the middle. As in GPipe, all chunks go through the
    head, then all through the tail, then all back through the head; sends and receives run meanwhile."""
    import torch
    import torch.distributed as dist
    use_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    form = torch.channels_last if channels_last else torch.contiguous_format
    net = network(True).to(memory_format=form)
    rows, side = batch // chunks, image // 2
    small = image // 32

    def lies(n, c, h, w):
        return (n, h, w, c) if channels_last else (n, c, h, w)

    def wire(x):  # as it is in memory
        return x.permute(0, 2, 3, 1) if channels_last else x

    def tensor(x):
        return x.permute(0, 3, 1, 2) if channels_last else x

    head, mid = lies(rows, 32, side, side), lies(rows, 1280, small, small)
    links = [Crossing(dist, 1 - rank, i, chunks, shape, codec) for i, shape in enumerate((head, mid, mid, head))]
    head_act, mid_act, mid_grad, head_grad = links
    parameters = [*net[0].parameters(), *net[2].parameters()] if rank == 0 else [*net[1].parameters()]
    sgd = torch.optim.SGD(parameters, lr=0.005, momentum=0.1)
    loss = torch.nn.CrossEntropyLoss(reduction="sum")
    images = [torch.randn(rows, 3, image, image).contiguous(memory_format=form) for _ in range(chunks)]
    labels = torch.arange(rows) % 10

    def client():
        mid_act.expect(), head_grad.expect()
        outs = []
        for c in range(chunks):
            outs.append(net[0](images[c]))
            head_act.put(c, wire(outs[c].detach()))
        for c in range(chunks):
            x = tensor(mid_act.get(c)).detach().requires_grad_(True)
            (loss(net[2](x), labels) / batch).backward()
            mid_grad.put(c, wire(x.grad.contiguous(memory_format=form)))
        for c in range(chunks):
            outs[c].backward(tensor(head_grad.get(c)))

    def server():
        head_act.expect(), mid_grad.expect()
        ins, outs = [], []
        for c in range(chunks):
            ins.append(tensor(head_act.get(c)).detach().requires_grad_(True))
            outs.append(net[1](ins[c]))
            mid_act.put(c, wire(outs[c].detach().contiguous(memory_format=form)))
        for c in range(chunks):
            outs[c].backward(tensor(mid_grad.get(c)))
            outs[c] = None
            head_grad.put(c, wire(ins[c].grad.contiguous(memory_format=form)))

    for step in range(steps + 1):
        dist.barrier()
        start = time.perf_counter()
        sgd.zero_grad(set_to_none=True)
        (client if rank == 0 else server)()
        sgd.step()
        for crossing in links:
            crossing.sent()
        if rank == 0 and step > 0:
            print(f"{(time.perf_counter() - start) * 1e3:.3f}", flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def torch_pair(image, batch, chunks, codec, channels_last, steps):
    args = f"{free_port()},{image},{batch},{chunks},{codec},{int(channels_last)},{steps}"
    pair = [subprocess.Popen([sys.executable, __file__, "--split-worker", f"{rank},{args}"], stdout=subprocess.PIPE,
                             text=True) for rank in (0, 1)]
    out = pair[0].communicate()[0]
    pair[1].communicate()
    if pair[0].returncode or pair[1].returncode:
        sys.exit("bench_peer.py: PyTorch's pair failed")
    return [float(x) for x in out.split()]


def our_pair(data, image, batch, chunks, codec, steps):
    sets = [f"model.image={image}", f"train.batch={batch}", f"train.chunks={chunks}", f"codec={codec}"]
    args = [os.path.join(HERE, "pair.sh"), str(steps)]
    for s in sets:
        args += ["--set", s]
    out = subprocess.run(args, env={**our_env(), "DATA": data, "BUILD": BUILD, "THREADS": "1"}, capture_output=True,
                         text=True)
    if out.returncode:
        sys.exit("bench_peer.py: pair.sh failed: " + out.stderr)
    return [float(x) for x in out.stdout.split()]


def compare_split(report, row, image, batch, chunks, steps, rounds):
    name, codec, target = row
    ms = {"ours": [], "NHWC": [], "NCHW": []}
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(["bash", "-c", f". {HERE}/pair.sh; made_up_data {tmp}"], check=True, env=our_env())
        for _ in range(rounds):
            ms["ours"] += our_pair(tmp, image, batch, chunks, codec, steps)
            ms["NHWC"] += torch_pair(image, batch, chunks, codec, True, steps)
            ms["NCHW"] += torch_pair(image, batch, chunks, codec, False, steps)
    best = min(("NHWC", "NCHW"), key=lambda k: statistics.median(ms[k]))
    report.add(f"{name}, {image}², batch {batch}", "1 + 1", Times(ms["ours"]), Times(ms[best]), best, target)


# ---- the whole


def machine():
    import torch
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = re.search(r"model name\s*: (.*)", f.read()).group(1)
    lines = [f"{model}, {len(os.sched_getaffinity(0))} CPUs; ours: ",
             f"PyTorch {torch.__version__}, oneDNN {'on' if torch.backends.mkldnn.is_available() else 'off'}, malloc: "
             + os.environ.get("PEER_MALLOC", "as the environment has it"),
             f"load average at the start {os.getloadavg()[0]:.2f}"]
    return lines


ALL = "head,tail,step,middle,memory,split,resnet9,resnet18,resnet50,vgg16,files,encoder,decoder,cola,lora"
END = "<!-- to here -->"


def begin_of(only):
    return f"<!-- make bench-peer {'' if only == ALL else '--only ' + only + ' '}writes from here -->"


def table(report, head, only):
    args = "--write" if only == ALL else f'"--write --only {only}"'
    lines = [begin_of(only), "", f"`make bench-peer BENCH_ARGS={args}`, {datetime.date.today()}. " + ". ".join(head) + ".", "",
             "Milliseconds, medians (smallest to largest) of runs that alternate; PyTorch in the better of its memory "
             "formats, which is named.", "",
             "| work, forward + backward, fp32 | threads | ours | PyTorch | its form | ratio | target | held |",
             "|---|---|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(str(x) for x in row) + " |" for row in report.rows]
    return "\n".join([*lines, "", END])


def write(report, head, only):
    """Writes the table to its part of the page or, if there is none yet, to the end."""
    os.makedirs(os.path.dirname(RESULT), exist_ok=True)
    old = "# The CPU path\n"
    if os.path.exists(RESULT):
        with open(RESULT, encoding="utf-8") as f:
            old = f.read()
    new, at = table(report, head, only), old.find(begin_of(only))
    if at >= 0:
        new = old[:at] + new + old[old.index(END, at) + len(END):]
    else:
        new = old.rstrip("\n") + f"\n\n## Beside PyTorch{'' if only == ALL else ': ' + only}\n\n" + new + "\n"
    with open(RESULT, "w", encoding="utf-8") as f:
        f.write(new)
    say(f"written: {os.path.relpath(RESULT, ROOT)}")


def show(report):
    names = ("work, forward + backward, fp32", "threads", "ours, ms", "PyTorch, ms", "its form", "ratio", "target", "held")
    widths = [max(len(str(r[i])) for r in [names, *report.rows]) for i in range(len(names))]
    say("")
    for row in [names, *report.rows]:
        say("  ".join(str(x).ljust(w) for x, w in zip(row, widths)).rstrip())


def scaling(report, medians):
    for name in dict.fromkeys(n for n, _ in medians):
        if "middle" in name and (name, 1) in medians and (name, 2) in medians:
            (o1, p1), (o2, p2) = medians[name, 1], medians[name, 2]
            report.plain(f"1 → 2 threads, {name}", "2", f"{o1 / o2:.2f} ×", f"{p1 / p2:.2f} ×", "", f"{o1 / o2:.2f}",
                         f"≥ {SCALING_TARGET}", o1 / o2 >= SCALING_TARGET)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", default=ALL)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--warm", action="store_true", help="before each run that counts, one that does not, on either side")
    parser.add_argument("--compile", action="store_true", help="also torch.compile, in the rows of networks")
    parser.add_argument("--bf16", action="store_true", help="bf16_factors beside torch.autocast, in the rows of networks")
    parser.add_argument("--cpu", action="store_true", help="CPU time in place of wall time in the rows of encoder, decoder, cola and lora")
    parser.add_argument("--memory-worker", help=argparse.SUPPRESS)
    parser.add_argument("--network-worker", help=argparse.SUPPRESS)
    parser.add_argument("--split-worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory_worker:
        return memory_worker(*(int(x) for x in args.memory_worker.split(",")))
    if args.network_worker:
        net, image, file = args.network_worker.split(",")
        return network_worker(net, int(image), file)
    if args.split_worker:
        rank, port, image, batch, chunks, codec, last, steps = args.split_worker.split(",")
        return split_worker(int(rank), int(port), int(image), int(batch), int(chunks), codec, last == "1", int(steps))
    if args.write:
        import torch
        if torch.__version__ < "2":
            sys.exit(f"bench_peer.py: the page is about PyTorch 2, not {torch.__version__}: make bench-peer SUITE=trixie")
    report, medians, only = Report(), {}, args.only.split(",")
    runs, small = (1, True) if args.quick else (args.runs, False)
    head, counts = machine(), [int(n) for n in args.threads.split(",") if int(n) <= len(os.sched_getaffinity(0))]
    for row in SEGMENTS:
        if not {row[1] if row[6] == "mobilenet_v2" else row[6], "files" if row[6] in WRITTEN else None} & set(only):
            continue
        if small:  # a network's file has a fixed size of pictures
            row = (f"tiny: {row[0]}", row[1], row[2] if row[6] in WRITTEN else min(row[2], 64), 2 if row[6] in WRITTEN else 8, min(row[4], 4), *row[5:])
        for threads in counts:
            medians[row[0], threads] = compare_segment(report, row, threads, runs if row[1] == "middle" or row[2] * row[3] > 4096 and row[1] == "step" else 3 * runs,
                                                      args.warm, ("NHWC", "NCHW", "compiled") if args.compile else ("NHWC", "NCHW"), args.bf16)
    for compare, name in ((compare_encoder, "encoder"), (compare_decoder, "decoder")):
        for threads in counts if name in only else ():
            compare(report, threads, runs, args.warm, args.cpu)
    for name in [n for n in ("cola", "lora") if n in only]:
        if not os.environ.get("SPLIT_TEXT_DATA"):
            say(f"{name}: left out, SPLIT_TEXT_DATA names no folder")
            continue
        for threads in counts:
            compare_cola(report, threads, runs, small, args.cpu, name == "lora")
    scaling(report, medians)
    if "memory" in only:
        compare_memory(report, 64 if small else 224, 8 if small else 64)
    for row in SPLIT if "split" in only else ():
        compare_split(report, row, 64 if small else 224, 8 if small else 64, 4, *((1, 1) if small else (4, 2)))
    head[0] += report.cpu
    for line in head:
        say(line)
    show(report)
    if args.write:
        write(report, head, args.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
