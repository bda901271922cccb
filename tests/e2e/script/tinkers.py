"""usage: tinkers.py SPLITS FOLDER [CHECK…]: split.tinker over a decoder of Llama's form: what it computes, errors, states, samples, kills of
the server, and what crosses the link."""
import asyncio
import os
import signal
import socket
import sys
import threading
import types

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import fronts
import split
import split.tinker as tinker
from fronts import endpoint, scratch, start
from middles import refused
from split import RemoteModule as R

VOCABULARY, SIZE, HEADS, KV, INNER, ROWS, TOKENS = 60000, 32, 4, 2, 48, 4, 12
CONFIG = types.SimpleNamespace(num_attention_heads=HEADS, num_key_value_heads=KV, attention_dropout=0.0, rope_theta=10000.0, rope_scaling=None)


# ---- a decoder as transformers writes it

class LlamaRMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(1 + 0.1 * torch.randn(size)), 1e-6

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


class LlamaAttention(nn.Module):
    def __init__(self, size, config):
        super().__init__()
        self.config, self.each = config, size // config.num_attention_heads
        kv = self.each * config.num_key_value_heads
        self.q_proj, self.o_proj = nn.Linear(size, size, bias=False), nn.Linear(size, size, bias=False)
        self.k_proj, self.v_proj = nn.Linear(size, kv, bias=False), nn.Linear(size, kv, bias=False)

    def forward(self, x):
        n, s, f = x.shape
        q, k, v = (p(x).view(n, s, -1, self.each).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        angle = torch.arange(s)[:, None] * self.config.rope_theta ** (-torch.arange(0, self.each, 2) / self.each)
        cos, sin = (g(torch.cat((angle, angle), -1)) for g in (torch.cos, torch.sin))

        def turned(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin
        k, v = (t.repeat_interleave(self.config.num_attention_heads // self.config.num_key_value_heads, 1) for t in (turned(k), v))
        scores = turned(q) @ k.transpose(2, 3) / self.each ** 0.5 + torch.full((s, s), -torch.inf).triu(1)
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, s, f))


class LlamaMLP(nn.Module):
    def __init__(self, size, inner):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(size, inner, bias=False), nn.Linear(size, inner, bias=False)
        self.down_proj, self.act_fn = nn.Linear(inner, size, bias=False), nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class LlamaDecoderLayer(nn.Module):
    def __init__(self, size, inner, config):
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(size, config), LlamaMLP(size, inner)
        self.input_layernorm, self.post_attention_layernorm = LlamaRMSNorm(size), LlamaRMSNorm(size)

    def forward(self, hidden_states):
        x = hidden_states + self.self_attn(self.input_layernorm(hidden_states))
        return (x + self.mlp(self.post_attention_layernorm(x)),)


for _part in (LlamaRMSNorm, LlamaAttention, LlamaMLP, LlamaDecoderLayer):
    _part.__module__ = "transformers.models.llama.modeling_llama"  # which need not be here


def decoder(vocabulary=VOCABULARY, size=SIZE, inner=INNER, layers=2, config=CONFIG):
    torch.manual_seed(0)
    net, net.model = nn.Module(), nn.Module()
    net.model.embed_tokens, net.model.norm = nn.Embedding(vocabulary, size), LlamaRMSNorm(size)
    net.model.layers = nn.ModuleList(LlamaDecoderLayer(size, inner, config) for _ in range(layers))
    net.lm_head = nn.Linear(size, vocabulary, bias=False)
    net.lm_head.weight = net.model.embed_tokens.weight
    return net


def logits(net, ids):
    x = net.model.embed_tokens(torch.tensor(ids)[None])
    for layer in net.model.layers:
        x = layer(x)[0]
    return net.lm_head(net.model.norm(x))[0]


def client(net=None, to=endpoint, **more):
    return tinker.TrainingClient(net or decoder(), to, **{"rows": ROWS, "tokens": TOKENS, "calls": 3, "folder": scratch,
                                                          "conf": {"link.retry_ms": 20}, **more})


def batch(step, first=50000):
    """Ten rows of 3 to TOKENS tokens, whose ids follow `first`; the weights leave out the first token."""
    g = torch.Generator().manual_seed(step)
    data = []
    for _ in range(10):
        n = int(torch.randint(3, TOKENS + 1, (), generator=g))
        tokens = (first + torch.randint(0, 40, (), generator=g) + 7 * torch.arange(n + 1)).tolist()
        data.append(tinker.Datum(model_input=tinker.ModelInput.from_ints(tokens=tokens[:-1]),
                                 loss_fn_inputs={"weights": [0.0] + [1.0] * (n - 1), "target_tokens": tokens[1:]}))
    return data


def adam(step, **more):
    return tinker.AdamParams(learning_rate=2e-3 * (1 - step / 20), beta1=0.9, beta2=0.95, **more)


def train(c, steps):
    """As the loop of a cookbook: both calls are under way before the first result."""
    losses = []
    for step in steps:
        data = batch(step)
        forward = c.forward_backward(data, loss_fn="cross_entropy")
        optim = c.optim_step(adam(step, grad_clip_norm=5.0))
        found = forward.result()
        optim.result()
        logprobs, weights = ([x[k].to_torch() for x in xs] for k, xs in (("logprobs", found.loss_fn_outputs),
                                                                         ("weights", [d.loss_fn_inputs for d in data])))
        losses.append(float(-sum(p.dot(w) for p, w in zip(logprobs, weights)) / sum(w.sum() for w in weights)))
        assert abs(found.metrics["loss:sum"] + sum(float(p.dot(w)) for p, w in zip(logprobs, weights))) < 1e-3
    return losses


def weights(c):
    return {k: v.clone() for k, v in c._net.state_dict().items()}


def check_loop():
    """The losses are those of PyTorch alone."""
    c, own = client(), decoder()
    losses, theirs = train(c, range(8)), []
    opt = torch.optim.AdamW(own.parameters(), 1e-3, (0.9, 0.95), 1e-12, 0.0)
    for step in range(8):
        opt.zero_grad()
        found, count = 0, 0
        for d in batch(step):
            w = d.loss_fn_inputs["weights"].to_torch()
            found += (F.cross_entropy(logits(own, d.model_input.to_ints()), d.loss_fn_inputs["target_tokens"].to_torch(), reduction="none") * w).sum()
            count += w.sum()
        found.backward()
        nn.utils.clip_grad_norm_(own.parameters(), 5.0)
        opt.param_groups[0]["lr"] = adam(step).learning_rate
        opt.step()
        theirs.append(float(found / count))
    assert max(abs(a - b) for a, b in zip(losses, theirs)) < 2e-3 and losses[-1] < losses[0] - 1, (losses, theirs)
    c.close(True)


def check_errors():
    """An error comes out of its future, the step that it spoils is not applied, and the next one is."""
    c, d = client(), batch(0)
    before = weights(c)
    wrong = tinker.Datum(d[0].model_input, {"target_tokens": [1]})
    refused(split.UsageError, "1 target_tokens", c.forward_backward([wrong]).result)
    refused(split.UsageError, "nothing was applied", c.optim_step(adam(0)).result)
    assert fronts.same(before, weights(c))
    for data, loss, says in ((d * 3, "cross_entropy", "is open"), ([], "cross_entropy", "no tokens"), (d, "ppo", "there is cross_entropy"),
                             ([tinker.Datum(tinker.ModelInput.from_ints(range(TOKENS + 1)), {"target_tokens": range(TOKENS + 1)})],
                              "cross_entropy", "made for 1 to 12")):
        refused((split.UsageError, split.ConfigError), says, c.forward_backward(data, loss).result)
        refused(split.UsageError, "nothing was applied", c.optim_step(adam(0)).result)
    refused(split.UsageError, "no gradient", c.optim_step(adam(0)).result)
    c.forward_backward(d)
    refused(split.UsageError, "is open", c.sample(d[0].model_input).result)
    refused(split.ConfigError, "betas is", c.optim_step(tinker.AdamParams(beta2=0.9)).result)
    assert fronts.same(before, weights(c))
    c.forward_backward(d)
    c.optim_step(adam(0)).result()
    assert not fronts.same(before, weights(c))
    c.close(True)


def check_adapters():
    """Only the middle's adapters learn, where head and tail are frozen."""
    net = decoder()
    for p in (*net.model.norm.parameters(), *net.lm_head.parameters()):
        p.requires_grad_(False)
    c = client(net, lora={"rank": 4, "alpha": 64, "target": ["q_proj", "v_proj"]})
    before = weights(c)
    losses = train(c, range(8))
    changed = [k for k, v in weights(c).items() if not torch.equal(v, before[k])]
    assert len(changed) == 2 * 2 * 2 and all("lora_" in k for k in changed) and train(c, [0])[0] < losses[0], (changed, losses)
    c.close(True)


def check_refused():
    """Layers of Llama that the server would compute in another way."""
    for change, says in ((lambda layer: setattr(layer.mlp, "act_fn", nn.GELU()), "has the type default and SiLU"),
                         (lambda layer: setattr(layer.self_attn, "config", types.SimpleNamespace(**{**vars(CONFIG), "rope_scaling": {
                             "rope_type": "llama3"}})), "rope of type llama3"),
                         (lambda layer: setattr(layer, "input_layernorm", nn.LayerNorm(SIZE)), "normalization.LayerNorm is not known")):
        net = decoder()
        change(net.model.layers[1])
        refused(split.ConfigError, says, client, net)


def check_custom():
    """A loss of the script's own, and awaited futures."""
    def minus(data, logprobs):
        loss = tinker.cross_entropy(data, logprobs)[0]
        return 2 * loss, {"rows": len(data)}

    async def awaited():
        return await (await c.forward_backward_custom_async(batch(1), minus))
    c = client()
    double, one = asyncio.run(awaited()), c.forward(batch(1))
    refused(split.UsageError, "is open", one.result)
    c.optim_step(adam(0)).result()
    assert double.metrics["rows"] == 10
    again = client()
    assert abs(again.forward(batch(1)).result().metrics["loss:sum"] * 2 - double.metrics["loss:sum"]) < 1e-3
    again.close(True)
    c.close(True)


def check_state():
    """What load_state() brings back is exact: in the same client, in another one, and after the server was killed."""
    c = client()
    train(c, range(2))
    path = c.save_state("two").result().path
    losses = train(c, range(2, 8))
    expected = weights(c)
    torch.manual_seed(5)
    c.load_state(path).result()
    assert train(c, range(2, 8)) == losses and fronts.same(expected, weights(c))
    c.close()
    torch.manual_seed(6)
    c = client()
    c.load_state(path).result()
    c.save_state("three").result()
    step = 2
    while step < 8:
        try:
            if step == 5 and os.path.exists(path):
                os.unlink(path)
                os.kill(fronts.server, signal.SIGKILL)
                os.waitpid(fronts.server, 0)
                start()
            train(c, [step])
            step += 1
        except split.RolledBack:
            c.load_state(os.path.join(scratch, "three.pt")).result()
            step = 2
    assert not os.path.exists(path) and fronts.same(expected, weights(c))
    refused(split.UsageError, "no such file", c.load_state(path).result)
    c.close(True)


def run_tinker(folder, kill):
    folder = os.path.join(scratch, folder)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    c, path, step = client(decoder(400), folder=folder), os.path.join(folder, "run.pt"), 0
    kill(c)
    while step < 9:
        try:
            if step == 0 and os.path.exists(path):
                c.load_state(path).result()
                step = c.middle.step_number
            c.forward_backward(batch(step, 0))
            c.optim_step(adam(step, grad_clip_norm=5.0)).result()
            step += 1
            if step % 3 == 0:
                c.save_state("run").result()
        except split.RolledBack:
            if not os.path.exists(path):
                raise
            step = 0
    torch.save(weights(c), f"{folder}.pt")
    c.close(True)


def check_kills():
    """Of either side, at ten places: the weights are those of an undisturbed run."""
    fronts.survives(run_tinker, {
        "send": (lambda c: R, "_begin_call", 14, False), "backward": (lambda c: R, "_give", 13, True), "norm": (lambda c: R, "grad_norm", 5, False),
        "before the middle's step": (lambda c: R, "step", 5, True), "behind the middle's step": (lambda c: R, "step", 5, False),
        "behind the optimizer's step": (lambda c: torch.optim.AdamW, "step", 5, False), "before the first save": (lambda c: R, "checkpoint", 1, True),
        "behind the middle's state": (lambda c: R, "checkpoint", 2, False), "before the file": (lambda c: os, "replace", 2, True),
        "behind the file": (lambda c: os, "replace", 2, False)}, lambda folder: os.path.exists(os.path.join(folder, "run.pt")))


def check_sample():
    """The likeliest tokens are PyTorch's; drawn ones follow from the seed."""
    c, own = client(), decoder()
    prompt = tinker.ModelInput.from_ints([50000, 50007, 50014])
    ids = prompt.to_ints()
    for _ in range(TOKENS - 2):
        ids = [*ids, int(logits(own, ids)[-1].argmax())]

    def drawn(count=1, **how):
        return [s.tokens for s in c.sample(prompt, count, tinker.SamplingParams(**how)).result().sequences]
    found = c.sample(prompt, 1, tinker.SamplingParams(temperature=0)).result().sequences[0]
    assert found.tokens == ids[3:] and found.stop_reason == "length"
    assert abs(found.logprobs[0] - float(logits(own, ids[:3])[-1].log_softmax(-1).max())) < 1e-4
    assert drawn(temperature=0, max_tokens=4) == [ids[3:7]] and drawn(temperature=0, stop=[ids[5]]) == [ids[3:ids.index(ids[5], 3) + 1]]
    assert drawn(6, seed=1) == drawn(6, seed=1) != drawn(6, seed=2)
    assert len(set(map(tuple, drawn(6, seed=1)))) > 1 and drawn(seed=1, temperature=1e-4) == [ids[3:]]
    state = torch.get_rng_state()
    drawn(2)
    assert torch.equal(state, torch.get_rng_state())
    c.close(True)


# ---- the link

class Relay:
    """Forwards connections to the server, and keeps all bytes that the client sends."""

    def __init__(self):
        self.listener, self.bytes = socket.create_server(("127.0.0.1", 0)), bytearray()
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            near = self.listener.accept()[0]
            far = socket.create_connection(("127.0.0.1", fronts.port))
            for pair in ((near, far, self.bytes), (far, near, bytearray())):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    @staticmethod
    def _forward(a, b, kept):
        while part := a.recv(1 << 16):
            kept += part
            b.sendall(part)
        b.shutdown(socket.SHUT_WR)


def shows(data, row):
    """Whether the first ids of a row are in data at equal distances: as whole or floating numbers in either order of bytes, or as text."""
    for kind in ("<u2", ">u2", "<i4", ">i4", "<i8", ">i8", "<f4", ">f4", "<f8", ">f8"):
        at = []
        for token in row[:4]:
            word, found, i = np.array([token], kind).tobytes(), set(), -1
            while (i := data.find(word, i + 1)) >= 0:
                found.add(i)
            at.append(found)
        if any(first + 2 * (second - first) in at[2] and first + 3 * (second - first) in at[3]
               for first in at[0] for second in at[1] if 0 < second - first <= 4096):
            return True
    return any(sep.join(map(str, row[:3])).encode() in data for sep in (" ", ",", ", "))


class Tells(nn.Embedding):
    """A head that sends each token's id, or if given the next one, as a feature."""

    next = 0

    def forward(self, ids):
        x = super().forward(ids)
        return torch.cat((torch.roll(ids, -self.next, 1)[..., None].float(), x[..., 1:]), -1)


def check_link():
    """No row's token ids and no labels cross; a head that sends them is found out."""
    for tells in (None, 0, 1):
        relay, net = Relay(), decoder()
        if tells is not None:
            net.model.embed_tokens.__class__ = Tells
            net.model.embed_tokens.next = tells
        c = client(net, relay.endpoint)
        train(c, range(2))
        c.save_state("link").result()
        c.sample(batch(0)[0].model_input, 1, tinker.SamplingParams(max_tokens=2)).result()
        c.close(True)
        assert len(relay.bytes) > 30000  # all activations and gradients
        rows = [(d.model_input.to_ints(), d.loss_fn_inputs["target_tokens"].data) for step in range(2) for d in batch(step)]
        found = [(shows(relay.bytes, tokens), shows(relay.bytes, labels)) for tokens, labels in rows if len(tokens) > 5]
        assert any(map(any, found)) == (tells is not None), (tells, found)


if __name__ == "__main__":
    start()
    try:
        for check in (check_loop, check_errors, check_adapters, check_refused, check_custom, check_state, check_kills, check_sample, check_link):
            if not sys.argv[3:] or check.__name__ in sys.argv[3:]:
                check()
                print(check.__name__, flush=True)
    finally:
        os.kill(fronts.server, signal.SIGKILL)
