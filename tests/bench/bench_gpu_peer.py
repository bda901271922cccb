#!/usr/bin/env python3
"""usage: bench_gpu_peer.py [--precision NAME…]
Measures the work of bench_gpu.c in PyTorch on the same device: MobileNetV2's middle (the stem's ReLU6 and features.1 to features.18)
at 224², 64 images as one chunk and as 8 chunks of 8, forward + backward with the gradient of the input. Channels-last,
cudnn.benchmark; eager, and captured in one CUDA graph. In fp32, TF32, and under torch.autocast in bfloat16 and half, where TF32 serves
what stays fp32. --precision: only these of bf16, fp16, tf32, fp32."""
import statistics
import sys
import time

try:
    import torch
    import torchvision
except ImportError as missing:
    print(f"SKIP {missing}")
    sys.exit(77)
if not torch.cuda.is_available():
    print("SKIP no CUDA device in PyTorch")
    sys.exit(77)

BATCH = 64


def median_ms(call, rounds=7):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    once = (time.perf_counter() - start) * 1e3
    reps = max(1, int(20 / once) + 1)
    ms = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(reps):
            call()
        torch.cuda.synchronize()
        ms.append((time.perf_counter() - start) * 1e3 / reps)
    return statistics.median(ms)


def middle():
    net = torchvision.models.mobilenet_v2(weights=None)
    seq = torch.nn.Sequential(torch.nn.ReLU6(inplace=True), *net.features[1:])
    return seq.cuda().to(memory_format=torch.channels_last).train()


LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


def bench(chunks, graph, precision):
    rows = BATCH // chunks
    torch.manual_seed(1)
    net = middle()
    xs = [torch.randn(rows, 32, 112, 112, device="cuda").to(memory_format=torch.channels_last) for _ in range(chunks)]
    gs = [torch.randn(rows, 1280, 7, 7, device="cuda").to(memory_format=torch.channels_last) for _ in range(chunks)]
    for p in net.parameters():
        p.grad = torch.zeros_like(p)

    def forward(x):
        # autocast's cache of cast weights must not be used while a graph is captured
        low = LOW.get(precision)
        with torch.autocast("cuda", dtype=low or torch.bfloat16, enabled=low is not None, cache_enabled=not graph):
            return net[1:](torch.nn.functional.relu6(x))

    def forward_only():
        for x in xs:
            forward(x)

    def zero():
        torch._foreach_zero_([p.grad for p in net.parameters()])

    def both():
        zero()
        for x, g in zip(xs, gs):
            x = x.detach().requires_grad_(True)
            y = forward(x)
            y.backward(g.to(y.dtype))

    if not graph:
        return median_ms(forward_only), median_ms(both)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            both()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    whole = torch.cuda.CUDAGraph()
    with torch.cuda.graph(whole):
        both()
    return float("nan"), median_ms(whole.replay)


def main():
    torch.backends.cudnn.benchmark = True
    print(f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}")
    wanted = sys.argv[2:] if sys.argv[1:2] == ["--precision"] else ["bf16", "fp16", "tf32", "fp32"]
    for precision in wanted:
        tf32 = precision != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        for chunks in (1, 8):
            for graph in (False, True):
                forward, both = bench(chunks, graph, precision)
                print(
                    f"torch {precision} {'graph' if graph else 'eager'} {chunks} x {BATCH // chunks:2d}: "
                    f"forward {forward:7.3f} ms, forward + backward {both:7.3f} ms",
                    flush=True,
                )


main()
