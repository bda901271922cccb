"""Frozen weights and adapters of a module that becomes a middle. Names of parameters are PEFT's."""
import contextlib
import fnmatch

from torch import nn

from . import errors


class Lora(nn.Module):
    """base_layer(x) + alpha/rank · B(A(dropout(x))) with frozen base_layer, as in arXiv:2106.09685. B begins with zeros."""

    def __init__(self, base_layer, rank, alpha, dropout=0.0):
        super().__init__()
        self.base_layer, self.scale = base_layer.requires_grad_(False), alpha / rank
        self.lora_dropout = nn.Dropout(dropout)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base_layer.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, base_layer.out_features, bias=False)})
        nn.init.zeros_(self.lora_B["default"].weight)

    def forward(self, x):
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](self.lora_dropout(x))) * self.scale


@contextlib.contextmanager
def undone(module):
    """If the block fails, restores the layers of the module, and which parameters learn."""
    learned, had = [(p, p.requires_grad) for p in module.parameters()], {id(m) for m in module.modules()}
    try:
        yield
    except BaseException:
        for parent in list(module.modules()):
            for name, m in parent.named_children():
                if isinstance(m, Lora) and id(m) not in had:
                    setattr(parent, name, m.base_layer)
        for p, learns in learned:
            if p.requires_grad != learns:
                p.requires_grad_(learns)
        raise


def freeze(module, patterns):
    """Freezes the parameters whose names match one of the shell patterns."""
    names = [name for name, _ in module.named_parameters()]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise errors.config(f"freeze: no parameter of the middle matches {pattern!r}; they are called {', '.join(names[:4])} …")
    for name, p in module.named_parameters():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            p.requires_grad_(False)


def lora(module, rank, alpha, target, dropout=0.0):
    """Freezes the module, and adds an adapter to each nn.Linear whose last name is in target. Returns their parameters."""
    found = [(name, m) for name, m in module.named_modules() if isinstance(m, nn.Linear) and name.split(".")[-1] in target]
    for word in target:
        if not any(name.split(".")[-1] == word for name, _ in found):
            raise errors.config(f"lora: no nn.Linear of the middle is called {word!r}")
    module.requires_grad_(False)
    learn = []
    for name, m in found:
        parent, _, last = name.rpartition(".")
        adapter = Lora(m, rank, alpha, dropout)
        setattr(module.get_submodule(parent), last, adapter)
        learn += [*adapter.lora_A.parameters(), *adapter.lora_B.parameters()]
    return learn
