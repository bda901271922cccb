"""Scripts that continue: from a token, after load_state_dict(), after other gradients, with another optimizer."""
import copy
import math
import os
import tempfile

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

import split
from faithful import listen
from middles import refused
from torch_api import batches, remote, run


class Divided(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.layer = nn.Linear(12, 5)
        self.register_buffer("by", torch.full((5,), by))
        self.register_buffer("all", torch.tensor(by))

    def forward(self, x):
        return self.layer(x) / self.by / self.all


def resumed(mid, token):
    return remote(mid, (8, 12), torch.optim.SGD([p for p in mid.parameters() if p.requires_grad], 0.1), resume=token)


def check_tokens():
    """No seed is set: the run takes the token's. Frozen parameters must be unchanged."""
    mid = nn.Sequential(nn.Linear(12, 12), nn.Dropout(0.5), nn.Linear(12, 5))
    mid[0].requires_grad_(False)
    (x, t), frozen = batches((8, 12), 1)[0], copy.deepcopy(mid[0])
    torch.seed()
    m = remote(mid, (8, 12), torch.optim.SGD(mid[2].parameters(), 0.1))
    F.cross_entropy(m(x), t).backward()
    m.step()
    token = m.checkpoint()
    y = m(x)
    m.drop()
    m(x)
    m.close()
    refused(split.UsageError, "there is no middle", m, x)
    torch.seed()
    other = nn.Sequential(nn.Linear(12, 12), nn.Dropout(0.5), nn.Linear(12, 5))
    other[0].requires_grad_(False)
    refused(split.MismatchError, "other frozen parameters", resumed, other, token)
    other[0].load_state_dict(frozen.state_dict())
    m = resumed(other, token)
    assert torch.equal(m(x), y), "other random numbers"
    refused(split.MismatchError, "train.seed", remote, nn.Linear(12, 5), (8, 12), resume=token)
    token = remote(Divided(2.0), (8, 12)).checkpoint()
    refused(split.MismatchError, "", remote, Divided(3.0), (8, 12), resume=token)


def check_buffers():
    """load_state_dict() also applies to values that the graph has as constants or in its text."""
    m, other, x = remote(Divided(1.0), (8, 12)), Divided(0.1), batches((8, 12), 1)[0][0]
    m.load_state_dict(other.state_dict())
    m.eval()
    assert torch.allclose(m(x), other(x), rtol=1e-5)


def check_gradients():
    """An autograd.grad of another loss is not part of the step, and the step says so."""
    mid, (x, t) = nn.Linear(12, 5), batches((8, 12), 1)[0]
    own, opt = copy.deepcopy(mid), torch.optim.SGD(mid.parameters(), 0.1)
    m = remote(mid, (8, 12), opt, calls=2)
    delta = torch.zeros_like(x, requires_grad=True)
    torch.autograd.grad(F.cross_entropy(m(x + delta), t), delta)
    F.cross_entropy(m(x), t).backward()
    refused(split.UsageError, "2 calls had a backward, and 1 were for the middle's parameters", m.step)
    m.drop()
    for _ in range(2):
        opt.zero_grad()
        for net in (m, m, own, own):
            (F.cross_entropy(net(x), t) / 2).backward()
        m.step()
        with torch.no_grad():
            for p in own.parameters():
                p -= 0.1 * p.grad
                p.grad = None
    assert torch.allclose(m.state_dict()["weight"], own.weight, atol=1e-6)


def check_optimizers():
    """Removing a group does not give its learning rate to another group."""
    head, mid, tail = (nn.Linear(12, 12) for _ in range(3))
    opt = torch.optim.SGD([{"params": net.parameters(), "lr": lr} for net, lr in ((head, 0.1), (mid, 0.2), (tail, 0.3))], 0.1)
    m = remote(mid, (8, 12), opt)
    del opt.param_groups[0]
    assert m._groups.rate() == 0.2
    del opt.param_groups[0]
    refused(split.UsageError, "groups of the optimizer were taken away", m._groups.rate)
    refused(split.ConfigError, "a dict has lr", remote, nn.Linear(12, 5), (8, 12), {"kind": "sgd"})


def check_moved():
    """Converting a whole model (dtype, device) keeps the anchor that ties a middle to autograd."""
    whole, x = nn.Sequential(remote(nn.Linear(12, 5), (8, 12)), nn.Linear(5, 5)), batches((8, 12), 1)[0][0]
    whole.to(torch.bfloat16)
    whole[1](whole[0](x).bfloat16()).sum().backward()
    assert not whole[0].step().skipped and whole[0].anchor.dtype == torch.float32
    whole.to("meta")
    whole[0](x).sum().backward()
    whole[0].step()
    m, x = remote(nn.Conv2d(1, 3, 3, padding=1), (4, 1, 8, 8)), torch.rand(4, 1, 8, 8)
    m.eval()
    assert m(x).is_contiguous() and m(x.to(memory_format=torch.channels_last)).is_contiguous()


def check_stores():
    """Sessions whose token was never asked for leave nothing in the store."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        m, x = split.RemoteModule(nn.Linear(12, 5), f"local:{folder}", example=(8, 12), optimizer={"lr": 0.1}), torch.ones(8, 12)

        def stored():
            return [f for _, _, files in os.walk(folder) for f in files if f != "lock" and not f.endswith(".f32")]  # those are first weights
        for _ in range(4):
            m(x).sum().backward()
            m.step()
            m.load_state_dict(m.state_dict())
        m.close(True)
        assert not stored(), stored()
        m.load_state_dict(nn.Linear(12, 5).state_dict())
        m(x).sum().backward()
        m.step()
        token = m.checkpoint()
        m.load_state_dict(m.state_dict())
        m.close(True)
        again = split.RemoteModule(nn.Linear(12, 5), f"local:{folder}", example=(8, 12), optimizer={"lr": 0.1}, resume=token)
        assert again.step_number == 1
        again.close(True)


def check_parameters():
    """What a script does to all parameters of a network has an effect on the middle, or is refused or reported."""
    said, x = listen(), torch.randn(8, 12)
    mid = nn.Sequential(nn.Linear(12, 12), nn.BatchNorm1d(12), nn.Dropout(0.0))
    opt = torch.optim.SGD(mid.parameters(), 0.1)
    m = remote(mid, (8, 12), opt)
    (m(x).square().sum() + 0.1 * sum(p.abs().sum() for p in m.parameters())).backward()
    refused(split.UsageError, "a penalty on parameters()", m.step)
    m.drop()
    m(x).square().sum().backward()
    refused(split.UsageError, "of all gradients misses the middle's", nn.utils.clip_grad_norm_, m.parameters(), 1e-7)
    m.anchor.grad.mul_(0.1)
    refused(split.UsageError, "all gradients were multiplied by 0.1", m.step)
    m.drop()
    m(x).square().sum().backward()
    norm = split.clip_grad_norm_(m.parameters(), m, 1e-3)
    opt.param_groups[0]["lr"] = torch.tensor(0.1)
    m.step()
    assert norm > 1e-3 and not any("changed here" in s for s in said), said
    with torch.no_grad():
        for p in m.parameters():
            p.data.clamp_(-0.01, 0.01)
    m(x)
    assert sum("were changed here" in s for s in said) == 1, said
    m.drop()
    for fn, says in ((lambda layer: setattr(layer, "p", 0.5), "apply() changed what the module computes"),
                     (lambda layer: isinstance(layer, nn.BatchNorm1d) and layer.eval(), "a part has another mode"),
                     (lambda layer: setattr(layer, "weight", nn.Parameter(torch.ones(12))), "1.weight was replaced")):
        kept = copy.deepcopy(mid)
        refused(split.UsageError, says, m.apply, lambda layer: fn(layer) if isinstance(layer, (nn.BatchNorm1d, nn.Dropout)) else None)
        if "compute" not in says:
            refused(split.UsageError, says, m, x)
        mid[1], mid[2] = mid[1].train(), kept[2]
    m.close(True)


def check_forgotten():
    """A script that never calls the middle's step() is told so; a norm that is NaN steps nothing."""
    said, mid, (x, t) = listen(), nn.Linear(12, 5), batches((8, 12), 1)[0]
    opt = torch.optim.SGD(mid.parameters(), 0.1)
    m = remote(mid, (8, 12), opt)
    for i in range(5):
        opt.zero_grad()
        F.cross_entropy(m(x), t).backward()
        opt.step()
        assert sum("the middle does not learn" in s for s in said) == (i > 2), said
    lost = nn.Parameter(torch.ones(1))
    lost.grad = torch.full((1,), math.nan)
    assert split.clip_grad_norm_([lost], m, 1.0).isnan()
    refused(split.UsageError, "after a norm that is Inf or NaN, drop the step", m.step)
    refused(TypeError, "positional", split.clip_grad_norm_, [lost], m, 1.0, 2.0)  # the last one is PyTorch's norm_type
    m.close(True)


def check_checkpoints():
    """torch.utils.checkpoint computes a middle again, which is wrong only where it drops."""
    x = torch.randn(8, 12, requires_grad=True)
    for p in (0.0, 0.5):
        m = remote(nn.Sequential(nn.Linear(12, 12), nn.Dropout(p)), (8, 12), calls=2)
        y = torch.utils.checkpoint.checkpoint(m, x)
        if p:
            refused(split.UsageError, "would drop others than before", y.sum().backward)
        else:
            y.sum().backward()
            m.step()
        m.close(True)


if __name__ == "__main__":
    run(check_tokens, check_buffers, check_gradients, check_optimizers, check_moved, check_stores, check_parameters, check_forgotten, check_checkpoints)
