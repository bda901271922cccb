"""usage: bench_script.py client SPLIT PICKLE RPC STEPS RATE | python SPLIT | pickle ADDRESS PORT | rpc ADDRESS PORT

Measures a step of a PyTorch script whose middle runs in another process: on splits, on a server that speaks pickle over TCP, and in
torch.distributed's RemoteModule, by turns. The batch has 32 rows; 51 MB go to the middle and 3 MB come back. SPLIT, PICKLE and RPC are
endpoints; RATE is the link's rate in MB/s. Prints medians of STEPS steps and their ratios. tests/bench/script.sh runs it over a shaped
link. `python` prints only the time that a step spends in Split's Python code. `pickle` and `rpc` are the two other servers."""
import os
import pickle
import socket
import statistics
import struct
import sys
import time

import torch
import torch.distributed.rpc as rpc
import torch.nn.functional as F
from torch import nn

BATCH, CHUNKS = 32, int(os.environ.get("CHUNKS", 8))
torch.set_num_threads(1)


def narrow(c, out):
    return [nn.Conv2d(c, c, 3, 2, 1, groups=c, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, out, 1, bias=False),
            nn.BatchNorm2d(out), nn.ReLU()]


def make_middle():
    torch.manual_seed(1)
    return nn.Sequential(*narrow(32, 32), *narrow(32, 32)).to(memory_format=torch.channels_last)


def make_ends():
    torch.manual_seed(2)
    head = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()).to(memory_format=torch.channels_last)
    return head, nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def sgd(*modules):
    return torch.optim.SGD([p for m in modules for p in m.parameters()], 0.01, 0.9)


# ---- pickle over TCP

def send(s, value):
    data = pickle.dumps(value, protocol=5)
    s.sendall(struct.pack("<Q", len(data)) + data)


def receive(s):
    def take(n):
        data = bytearray(n)
        view = memoryview(data)
        while n:
            got = s.recv_into(view[-n:])
            if not got:
                raise EOFError
            n -= got
        return data
    return pickle.loads(take(struct.unpack("<Q", take(8))[0]))


def serve_pickle(address, port):
    s = socket.create_server((address, int(port)))
    s = s.accept()[0]
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    middle = make_middle()
    opt = sgd(middle)
    while True:
        try:
            x = receive(s)
        except EOFError:
            return
        x = torch.from_numpy(x).permute(0, 3, 1, 2).requires_grad_()
        y = middle(x)
        send(s, y.detach().permute(0, 2, 3, 1).contiguous().numpy())
        opt.zero_grad()
        y.backward(torch.from_numpy(receive(s)).permute(0, 3, 1, 2))
        opt.step()
        send(s, x.grad.permute(0, 2, 3, 1).contiguous().numpy())


class Pickled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.s = s
        send(s, x.detach().permute(0, 2, 3, 1).contiguous().numpy())
        return torch.from_numpy(receive(s)).permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx, dy):
        send(ctx.s, dy.permute(0, 2, 3, 1).contiguous().numpy())
        return torch.from_numpy(receive(ctx.s)).permute(0, 3, 1, 2), None


# ---- torch.distributed

def join_rpc(name, rank, address, port):
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
        init_method=f"tcp://{address}:{port}", rpc_timeout=600, _transports=["uv"], _channels=["basic"]))  # other transports would not use the link, since both sides are on one host


def rpc_step(x, t):
    from torch.distributed import autograd as dist_autograd
    from torch.distributed.nn import RemoteModule
    from torch.distributed.optim import DistributedOptimizer
    head, tail = make_ends()
    middle = RemoteModule("server/cpu", make_middle_contiguous)
    own = [rpc.RRef(p) for m in (head, tail) for p in m.parameters()]
    opt = DistributedOptimizer(torch.optim.SGD, own + middle.remote_parameters(), lr=0.01, momentum=0.9)

    def step():
        with dist_autograd.context() as c:
            loss = F.cross_entropy(tail(middle(head(x))), t)
            dist_autograd.backward(c, [loss])
            opt.step(c)
    return step


class make_middle_contiguous(nn.Module):
    """A class, because RemoteModule makes the module on the server from a class."""

    def __init__(self):
        super().__init__()
        self.net = make_middle()

    def forward(self, x):
        return self.net(x)


# ---- the client

def whole_step(x, t, middle, own=None):
    head, tail = make_ends()
    opt = sgd(head, tail, *([middle] if own is None else []))

    def step():
        opt.zero_grad()
        F.cross_entropy(tail(middle(head(x))), t).backward()
        if own:
            own()
        opt.step()
    return step


def split_step(x, t, server, codec, chunks, pipelined):
    import split
    head, tail = make_ends()
    opt, mid = sgd(head, tail), make_middle()
    optimizer = {"kind": "sgd", "momentum": 0.9, "lr": 0.01}
    shape = (BATCH, 32, *[(n + 1) // 2 for n in x.shape[2:]])
    m = split.RemoteModule(mid, server, example=shape, optimizer=optimizer, codec=codec, chunks=chunks)

    def whole():
        opt.zero_grad()
        F.cross_entropy(tail(m(head(x))), t).backward()
        m.step()
        opt.step()

    def piped():
        opt.zero_grad()
        m.pipelined(head, lambda y, t: F.cross_entropy(tail(y), t), x, t)
        m.step()
        opt.step()
    return piped if pipelined else whole


class Waits(nn.Module):
    """A middle in this process. Its forward and backward sleep, as if they waited for a server, so that caches are as cold afterwards."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)

    def forward(self, x):
        self.wait()
        y = self.net(x)
        y.register_hook(self.wait)
        return y

    @staticmethod
    def wait(_=None):
        time.sleep(3e-4)


def python_ms(server, steps=300):
    """Returns the CPU ms of the main thread in a step with a tiny remote middle, less those with a local one (Waits), by turns."""
    import split
    x, t = torch.randn(4, 8), torch.zeros(4, dtype=torch.long)

    def stepper(middle, own):
        head, tail = nn.Linear(8, 8), nn.Linear(8, 2)
        opt = sgd(head, tail)

        def step():
            began = time.thread_time()
            opt.zero_grad()
            F.cross_entropy(tail(middle(head(x))), t).backward()
            own()
            opt.step()
            return time.thread_time() - began
        return step
    m = split.RemoteModule(nn.Linear(8, 8), server, example=(4, 8), optimizer={"lr": 0.1})
    both = stepper(m, m.step), stepper(Waits(), Waits.wait)
    remote, alone = zip(*([step() for step in both] for _ in range(steps)))
    m.close(True)
    return (statistics.median(remote) - statistics.median(alone)) * 1e3


def tell_python(server):
    print(f"Python: {python_ms(server):.2f} ms a step")


def client(server, pickled, rpc_at, steps, rate):
    size = int(os.environ.get("IMAGE", 224))
    x = torch.randn(BATCH, 3, size, size).to(memory_format=torch.channels_last)
    t = torch.randint(0, 10, (BATCH,))
    s = socket.create_connection(pickled.rsplit(":", 1))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    join_rpc("client", 0, *rpc_at.rsplit(":", 1))
    rows = {"one process, no link": whole_step(x, t, make_middle()),
            "pickle over TCP": whole_step(x, t, lambda h: Pickled.apply(h, s), lambda: None),
            "torch.distributed RemoteModule": rpc_step(x, t)}
    for codec in ("none", "quant:8"):
        for chunks, pipelined in ((1, False), (4, False), (CHUNKS, False), (CHUNKS, True)):
            rows[f"{codec}, {'pipelined' if pipelined else 'whole'}, {chunks}"] = split_step(x, t, server, codec, chunks, pipelined)
    took = {name: [] for name in rows}
    for i in range(int(steps) + 1):
        for name, step in rows.items():
            began = time.monotonic()
            step()
            if i:
                took[name].append(time.monotonic() - began)
    report({name: statistics.median(v) for name, v in took.items()}, x.shape, float(rate))
    tell_python(server)
    rpc.shutdown(graceful=False)


def report(seconds, shape, rate):
    pickled, remote = seconds["pickle over TCP"], seconds["torch.distributed RemoteModule"]
    print(f"{'':32}{'s a step':>10}{'/ pickle':>10}{'/ RemoteModule':>16}")
    for name, v in seconds.items():
        print(f"{name:32}{v:10.3f}{v / pickled:10.2f}{v / remote:16.2f}")
    side = (shape[2] + 1) // 2
    busy = 4 * BATCH * 32 * (side ** 2 + (side // 4) ** 2) / (rate * 1e6)
    bound = busy + seconds["one process, no link"] / CHUNKS
    print(f"pipelined none: {seconds[f'none, pipelined, {CHUNKS}'] / bound:.2f} of the bound, {bound:.3f} s")


role, rest = sys.argv[1], sys.argv[2:]
if role == "client":
    client(*rest)
elif role == "python":
    tell_python(*rest)
elif role == "pickle":
    serve_pickle(*rest)
else:
    join_rpc("server", 1, *rest)
    rpc.shutdown()
