"""Attention that forward() spells out: each module trains as in PyTorch, read by torch.fx and as a script."""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

import split
from composed import check_each
from middles import refused
from torch_api import batches, check_same, remote, run

S, E, H = 5, 12, 3
SHAPE = (8, S, E)


class Nano(nn.Module):
    """As nanoGPT writes it."""

    def __init__(self, causal=True):
        super().__init__()
        self.c_attn, self.c_proj, self.drop, self.causal, self.heads = nn.Linear(E, 3 * E), nn.Linear(E, E), nn.Dropout(0.0), causal, H
        self.register_buffer("mask", torch.tril(torch.ones(9, 9)).view(1, 1, 9, 9))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        if self.causal:
            att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = self.drop(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Timm(nn.Module):
    """As timm writes it."""

    def __init__(self):
        super().__init__()
        self.qkv, self.scale, self.heads = nn.Linear(E, 3 * E), 0.3, H

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        return (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C)


class Summed(nn.Module):
    """By einsum, as in many papers' code; the axis of heads is after that of tokens, or before it."""

    def __init__(self, scores="bihd,bjhd->bhij", values="bhij,bjhd->bihd", turn=False):
        super().__init__()
        self.qkv, self.heads, self.scores, self.values, self.turn = nn.Linear(E, 3 * E), H, scores, values, turn

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = q.view(B, N, self.heads, -1), k.view(B, N, self.heads, -1), v.view(B, N, self.heads, -1)
        if self.turn:
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = torch.einsum(self.values, torch.einsum(self.scores, q, k).mul(0.5).softmax(dim=-1), v)
        return (y.transpose(1, 2) if self.turn else y).reshape(B, N, C)


class Lone(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(E, E), nn.Linear(E, E)

    def forward(self, x):
        s = torch.einsum("bjd,bid->bij", self.k(x), self.q(x)) * 0.3
        return torch.einsum("bij, bjd -> bid", s.softmax(-1), x)


class Annotated(nn.Module):
    """As the annotated Transformer writes it."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.heads = nn.Linear(E, E), nn.Linear(E, E), nn.Linear(E, E), H

    def one(self, x):
        return x.view(x.size(0), -1, self.heads, x.size(2) // self.heads).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.one(self.q(x)), self.one(self.k(x)), self.one(self.v(x))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(3))
        return torch.matmul(scores.softmax(-1), v).permute(0, 2, 1, 3).flatten(2)


class One(nn.Module):
    """A single head, a learned temperature, and a mask that forward() makes."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.temper = nn.Linear(E, E), nn.Linear(E, E), nn.Parameter(torch.tensor(0.4))

    def forward(self, x):
        n = x.size(1)
        scores = torch.bmm(self.q(x), self.k(x).transpose(1, 2)) * self.temper
        scores = scores + torch.triu(torch.full((n, n), float("-inf")), 1)
        return torch.bmm(torch.softmax(scores, dim=2), x)


@torch.fx.wrap
def scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p: float = 0.0, is_causal: bool = False):
    """PyTorch 2 has it, as torch.nn.functional's."""
    n = q.size(-2)
    hidden = torch.full((n, n), float("-inf") if is_causal else 0.0).triu(1)
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + hidden, -1) @ v


scaled_dot_product_attention.__module__ = "torch.nn.functional"


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.heads = nn.Linear(E, 3 * E), H

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).view(b, n, self.heads, -1, 3).transpose(1, 2)
        q, k, v = qkv[..., 0], qkv[:, :, :, :, 1], qkv.select(4, 2)
        return scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c)


class Masked(nn.Module):
    """Modules of torch.nn with a causal mask."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(E, H, batch_first=True)
        self.layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, H, 16, 0.0, batch_first=True), 1)
        self.register_buffer("mask", torch.triu(torch.ones(S, S), 1).bool())

    def forward(self, x):
        x = x + self.attend(x, x, x, attn_mask=self.mask, need_weights=False)[0]
        return self.layer(x, self.mask)


MODULES = {"nanoGPT": Nano, "nanoGPT without a mask": lambda: Nano(False), "timm": Timm, "annotated": Annotated, "one": One,
           "masked": Masked, "einsum": Summed, "einsum of heads": lambda: Summed("bhid,bhjd->bhij", "bhij,bhjd->bhid", True),
           "einsum of other orders": lambda: Summed("bjhd,bihd->bhij"), "einsum of one": Lone}


class Scored(nn.Module):
    def __init__(self, makes):
        super().__init__()
        self.layer, self.bias, self.makes = nn.Linear(E, E), nn.Parameter(torch.zeros(S, S)), makes
        self.register_buffer("first", torch.arange(S)[None] > 2)

    def forward(self, x):
        y = self.layer(x).view(x.size(0), S, H, E // H).transpose(1, 2)
        return self.makes(self, y, y @ y.transpose(2, 3))


def check_attends():
    check_each(MODULES, SHAPE, lambda: nn.Linear(E, E))


def check_fused():
    check_same((nn.Identity(), Fused(), nn.Sequential(nn.Flatten(), nn.Linear(S * E, 5))), batches(SHAPE, 10), SHAPE)


def check_lengths():
    """Padding follows all tokens, so a causal mask hides it in PyTorch, too."""
    mid, lengths = nn.Sequential(nn.Linear(E, E), Nano()), [5, 1, 3, 2, 4, 5, 1, 2]
    m, x = remote(copy.deepcopy(mid), SHAPE, {"lr": 0.1}, lengths=True), batches(SHAPE, 1)[0][0]
    y, theirs = m(x, lengths=lengths), mid(x)
    real = (torch.arange(S)[None] < torch.tensor(lengths)[:, None])[..., None]
    assert torch.allclose(y, theirs * real, atol=1e-6)
    ((y * real) ** 2).sum().backward()
    m.step()
    ((theirs * real) ** 2).sum().backward()
    for name, p in mid.named_parameters():
        assert torch.allclose(m.state_dict()[name], p - 0.1 * p.grad, atol=1e-5), name
    m.close(True)


def check_refused():
    for makes, says in ((lambda m, y, s: s, "without a softmax"), (lambda m, y, s: y, "in attention alone"),
                        (lambda m, y, s: (s + m.bias).softmax(-1) @ y, "only causal masks"),
                        (lambda m, y, s: s.masked_fill(m.first, -1e9).softmax(-1) @ y, "only causal masks"),
                        (lambda m, y, s: (s * s).softmax(-1) @ y, "single numbers"), (lambda m, y, s: s.softmax(1) @ y, "over the keys"),
                        (lambda m, y, s: (s.softmax(-1) @ y).flatten(2), "transpose"), (lambda m, y, s: s @ y, "by transposed keys"),
                        (lambda m, y, s: torch.einsum("bhij,bhjd->bhd", s, y), "over one dimension"),
                        (lambda m, y, s: torch.einsum("bhid,bhid->bhid", y, y), "over one dimension"),
                        (lambda m, y, s: F.softmax(y, -1), "over the keys"), (lambda m, y, s: y + y, "add tokens"),
                        (lambda m, y, s: F.relu(y).transpose(1, 2).flatten(2), "in attention alone")):
        refused(split.ConfigError, says, remote, Scored(makes), SHAPE)
    refused(split.ConfigError, "over the keys", remote, nn.Sequential(nn.Linear(E, E), nn.Softmax(-1)), SHAPE, lengths=True)


if __name__ == "__main__":
    run(check_attends, check_fused, check_lengths, check_refused)
