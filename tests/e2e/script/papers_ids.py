"""Networks for tables with columns of categories, of papers and packages: ids are in the row, beside numbers."""
import torch
import torch.nn.functional as F
from torch import nn

SIZES = (7, 5, 11)  # of the columns of ids, which come first; three columns of numbers follow
IDS = {}


def net(kind):
    IDS[kind.__name__] = kind
    return kind


@net
class DeepFM(nn.Module):
    """Guo et al. 2017: a factorization machine and a perceptron over the same embeddings"""

    def __init__(self):
        super().__init__()
        self.emb = nn.ModuleList([nn.Embedding(n, 8) for n in SIZES])
        self.first = nn.ModuleList([nn.Embedding(n, 1) for n in SIZES])
        self.lin = nn.Linear(3, 2)
        self.mlp = nn.Sequential(nn.Linear(24 + 3, 16), nn.ReLU(), nn.Dropout(0.0), nn.Linear(16, 2))

    def forward(self, x):
        ids, dense = x[:, :3].long(), x[:, 3:]
        e = torch.stack([m(ids[:, i]) for i, m in enumerate(self.emb)], 1)
        fm = 0.5 * (e.sum(1) ** 2 - (e ** 2).sum(1)).sum(1, keepdim=True)
        first = torch.cat([m(ids[:, i]) for i, m in enumerate(self.first)], 1).sum(1, keepdim=True)
        return fm + first + self.lin(dense) + self.mlp(torch.cat([e.flatten(1), dense], 1))


@net
class WideDeep(nn.Module):
    """Cheng et al. 2016: the wide part has a weight for each id, the deep part embeddings, as torchfm has them by offsets in one table"""

    def __init__(self):
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0, *SIZES[:-1]]).cumsum(0))
        self.deep = nn.Embedding(sum(SIZES), 6)
        self.wide = nn.Embedding(sum(SIZES), 2)
        self.bias = nn.Parameter(torch.zeros(2))
        self.mlp = nn.Sequential(nn.Linear(18 + 3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        ids = x[:, :3].long() + self.offsets
        deep = self.mlp(torch.cat([self.deep(ids).view(-1, 18), x[:, 3:]], dim=1))
        return torch.sum(self.wide(ids), dim=1) + self.bias + deep


@net
class Dlrm(nn.Module):
    """Naumov et al. 2019: products of all pairs of embeddings and of what the bottom makes of the numbers"""

    def __init__(self):
        super().__init__()
        self.emb_l = nn.ModuleList([nn.EmbeddingBag(n, 4, mode="sum") for n in SIZES])
        self.bot_l = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU())
        self.top_l = nn.Sequential(nn.Linear(4 + 6, 8), nn.ReLU(), nn.Linear(8, 2))

    def interact(self, x, ly):
        t = torch.cat([x] + ly, dim=1).view(-1, len(ly) + 1, 4)
        z = torch.bmm(t, torch.transpose(t, 1, 2))
        li = torch.tensor([i for i in range(4) for j in range(i)])
        lj = torch.tensor([j for i in range(4) for j in range(i)])
        return torch.cat([x, z[:, li, lj]], dim=1)

    def forward(self, x):
        ly = [m(x[:, k:k + 1].long()) for k, m in enumerate(self.emb_l)]
        return self.top_l(self.interact(self.bot_l(x[:, 3:]), ly))


@net
class FieldFM(nn.Module):
    """torchfm's factorization machine, with F.embedding, for columns behind the numbers of other ones"""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(sum(SIZES), 4) * 0.1)
        self.mlp = nn.Sequential(nn.Linear(4 + 3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x):
        x = x[:, [3, 4, 5, 0, 1, 2]]
        offsets = torch.tensor([0, 7, 12])
        e = F.embedding(x[:, 3:].to(torch.int64) + offsets.unsqueeze(0), self.weight)
        return self.mlp(torch.cat([x[:, :3], e.sum(dim=1) ** 2 - (e ** 2).sum(dim=1)], 1))


@net
class CategoryTokens(nn.Module):
    """FT-Transformer, Gorishniy et al. 2021: each number and each category of a row is a token"""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, 8) for n in SIZES])
        self.w = nn.Parameter(torch.randn(3, 8) * 0.1)
        self.b = nn.Parameter(torch.zeros(3, 8))
        self.cls = nn.Parameter(torch.randn(1, 1, 8))
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True), 1)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        t = torch.stack([m(x[:, k].int()) for k, m in enumerate(self.tables)], dim=1)
        t = torch.cat([self.cls.expand(len(x), -1, -1), t, x[:, 3:].unsqueeze(-1) * self.w + self.b], 1)
        return self.out(self.enc(t)[:, 0])
