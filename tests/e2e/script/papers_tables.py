"""Networks for tables, of papers and tutorials (papers.py)."""
import torch
import torch.nn.functional as F
from torch import nn

from papers import net


@net((12,))
class Mlp(nn.Module):
    """A perceptron with batch norms"""

    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.0), nn.Linear(32, 3))

    def forward(self, x):
        return self.l(x)


@net((12,))
class TabResNet(nn.Module):
    """Gorishniy et al. 2021"""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 16)
        self.blocks = nn.ModuleList([nn.ModuleDict(dict(norm=nn.BatchNorm1d(16), a=nn.Linear(16, 32), b=nn.Linear(32, 16))) for _ in range(2)])
        self.norm = nn.BatchNorm1d(16)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        x = self.first(x)
        for layer in self.blocks:
            z = layer["norm"](x)
            z = layer["b"](F.relu(layer["a"](z)))
            x = x + z
        return self.out(F.relu(self.norm(x)))


@net((12,))
class FTTransformer(nn.Module):
    """Gorishniy et al. 2021: each number of a row is a token, behind one of its own"""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(12, 16) * 0.1)
        self.b = nn.Parameter(torch.zeros(12, 16))
        self.cls = nn.Parameter(torch.randn(1, 1, 16))
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=True), 2)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        t = x.unsqueeze(-1) * self.w + self.b
        t = torch.cat([self.cls.expand(len(x), -1, -1), t], 1)
        return self.out(self.enc(t)[:, 0])


@net((12,))
class CrossNet(nn.Module):
    """DCN v2"""

    def __init__(self):
        super().__init__()
        self.cross = nn.ModuleList([nn.Linear(12, 12) for _ in range(3)])
        self.deep = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.out = nn.Linear(28, 2)

    def forward(self, x):
        x0 = x
        y = x
        for layer in self.cross:
            y = x0 * layer(y) + y
        return self.out(torch.cat([y, self.deep(x)], 1))


@net((12,))
class DCN(nn.Module):
    """DCN v1: x0 x^T w + b + x"""

    def __init__(self):
        super().__init__()
        self.w = nn.ParameterList([nn.Parameter(torch.randn(12, 1) * 0.1) for _ in range(2)])
        self.b = nn.ParameterList([nn.Parameter(torch.zeros(12)) for _ in range(2)])
        self.out = nn.Linear(12, 2)

    def forward(self, x):
        y = x
        for w, b in zip(self.w, self.b):
            y = x * torch.matmul(y, w) + b + y
        return self.out(y)


@net((18,))
class DeepFMOfOnes(nn.Module):
    """DeepFM as its refusal says: each column of 5 categories is 5 numbers"""

    def __init__(self):
        super().__init__()
        self.emb = nn.ModuleList([nn.Linear(5, 8, bias=False) for _ in range(3)])
        self.lin = nn.Linear(3, 2)
        self.mlp = nn.Sequential(nn.Linear(24 + 3, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        e = torch.stack([m(x[:, 5 * i:5 * i + 5]) for i, m in enumerate(self.emb)], 1)
        fm = 0.5 * (e.sum(1) ** 2 - (e ** 2).sum(1)).sum(1, keepdim=True)
        return fm + self.lin(x[:, 15:]) + self.mlp(torch.cat([e.flatten(1), x[:, 15:]], 1))


@net((12,))
class FM(nn.Module):
    """Rendle 2010, by squares of sums less sums of squares"""

    def __init__(self):
        super().__init__()
        self.v = nn.Parameter(torch.randn(12, 4) * 0.1)
        self.l = nn.Linear(12, 1)

    def forward(self, x):
        a = (x @ self.v) ** 2
        b = x ** 2 @ self.v ** 2
        return self.l(x) + 0.5 * (a - b).sum(1, keepdim=True)


@net((12,))
class FMByNames(FM):
    """The same by functions' names, as many packages have it, and a gate for each feature"""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(12))
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        x = x * torch.sigmoid(self.gate)
        a = torch.pow(torch.mm(x, self.v), 2)
        b = torch.mm(torch.pow(x, 2), torch.square(self.v))
        return self.l(x) + 0.5 * torch.exp(self.scale) * torch.sum(a - b, dim=1, keepdim=True)


@net((12,))
class Snn(nn.Module):
    """Klambauer 2017: SELU, and alpha dropout"""

    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(nn.Linear(12, 16), nn.SELU(), nn.AlphaDropout(0.0), nn.Linear(16, 3))

    def forward(self, x):
        return self.l(x)


@net((12,))
class Mmoe(nn.Module):
    """Ma 2018: gates over experts"""

    def __init__(self):
        super().__init__()
        self.ex = nn.ModuleList([nn.Linear(12, 8) for _ in range(3)])
        self.g = nn.Linear(12, 3)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        g = F.softmax(self.g(x), -1)
        e = torch.stack([F.relu(m(x)) for m in self.ex], 1)
        return self.out((g.unsqueeze(-1) * e).sum(1))


@net((12,))
class AutoInt(nn.Module):
    """Song 2019: attention over features"""

    def __init__(self):
        super().__init__()
        self.e = nn.Parameter(torch.randn(12, 16) * 0.1)
        self.a = nn.MultiheadAttention(16, 2, batch_first=True)
        self.r = nn.Linear(16, 16)
        self.out = nn.Linear(12 * 16, 2)

    def forward(self, x):
        t = x.unsqueeze(2) * self.e
        y, _ = self.a(t, t, t)
        y = F.relu(y + self.r(t))
        return self.out(y.flatten(1))


@net((12,))
class GatedResidual(nn.Module):
    """A part of the Temporal Fusion Transformer, Lim 2021"""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 16)
        self.b = nn.Linear(16, 16)
        self.g = nn.Linear(16, 32)
        self.s = nn.Linear(12, 16)
        self.n = nn.LayerNorm(16)
        self.o = nn.Linear(16, 3)

    def forward(self, x):
        return self.o(self.n(self.s(x) + F.glu(self.g(self.b(F.elu(self.a(x)))), dim=-1)))


@net((12,))
class TabNetStep(nn.Module):
    """Arik 2021, a step with a softmax in place of sparsemax"""

    def __init__(self):
        super().__init__()
        self.n = nn.BatchNorm1d(12)
        self.a = nn.Linear(12, 12)
        self.m = nn.BatchNorm1d(12)
        self.f = nn.Linear(12, 32)
        self.k = nn.BatchNorm1d(32)
        self.o = nn.Linear(16, 3)

    def forward(self, x):
        x = self.n(x)
        w = torch.softmax(self.m(self.a(x)), dim=-1)
        return self.o(F.relu(F.glu(self.k(self.f(w * x)))))


@net((12,))
class Vae(nn.Module):
    """An autoencoder without noise"""

    def __init__(self):
        super().__init__()
        self.e = nn.Linear(12, 8)
        self.m = nn.Linear(8, 2)
        self.d = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 12))

    def forward(self, x):
        return self.d(self.m(F.relu(self.e(x))))


@net((12,), refused="a tensor of a module itself")
class Moe2(nn.Module):
    """Experts in one parameter"""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 12, 8) * 0.1)
        self.g = nn.Linear(12, 3)
        self.o = nn.Linear(8, 2)

    def forward(self, x):
        e = torch.einsum("bi,eio->beo", x, self.w)
        g = F.softmax(self.g(x), 1)
        return self.o(torch.einsum("be,beo->bo", g, F.relu(e)))


@net((12,))
class LogSoft(nn.Module):
    """Log-probabilities, for nll_loss"""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(12, 3)

    def forward(self, x):
        return F.log_softmax(self.l(x), 1)


@net((12,))
class Product(nn.Module):
    """Weights by a product of parameters: low rank, and a scale"""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(12, 2) * 0.3)
        self.b = nn.Parameter(torch.randn(2, 8) * 0.3)
        self.s = nn.Parameter(torch.ones(1))
        self.o = nn.Linear(8, 3)

    def forward(self, x):
        return self.o(F.relu(x @ (self.a @ self.b) * self.s))


@net((12,))
class OwnFunctions(nn.Module):
    """Functions of its own parameters, some twice, beside rows and in front of them"""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.rand(12) + 0.5) for _ in range(3))
        self.l = nn.Linear(12, 3)

    def forward(self, x):
        width = F.softplus(self.a)
        x = (x - self.b * torch.sigmoid(self.b)) / width + 2 / self.c ** 2
        return self.l(x * width - (1 - self.c).unsqueeze(0) * F.relu(x))


@net((12,), refused="a tensor of a module itself")
class OwnSoftmax(nn.Module):
    """Weights of features that add up to 1: no function of each number alone"""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.rand(12))
        self.l = nn.Linear(12, 3)

    def forward(self, x):
        return self.l(x * F.softmax(torch.exp(self.a), 0))


@net((12,), refused="a tensor of a module itself")
class OwnInLayer(OwnSoftmax):
    def forward(self, x):
        return self.l(x) + self.l(self.a ** 2)


@net((12,), refused="a tensor of a module itself")
class OwnOuter(OwnSoftmax):
    """A matrix of one vector, by itself"""

    def forward(self, x):
        return self.l(x @ (self.a.view(-1, 1) * self.a.view(1, -1)))


@net((12,), refused="a tensor of a module itself")
class OwnDetached(OwnSoftmax):
    def forward(self, x):
        return self.l(x * torch.exp(self.a).detach())


@net((12,), refused="a product with what is computed of a")
class OwnOfRank(OwnSoftmax):
    def forward(self, x):
        return self.l(x) + (x * x @ self.a ** 2).unsqueeze(1)
