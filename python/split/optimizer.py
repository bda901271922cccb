"""Optimizers: what a server has of the script's one, and one for both sides."""
import torch

from . import errors

RULES = ("momentum", "betas", "eps", "nesterov", "weight_decay", "amsgrad", "maximize", "dampening")


def settings(optimizer, g):
    """Keys of the config, and the learning rate where no group has it. `g`: the optimizer's first group of the middle."""
    if isinstance(optimizer, dict):
        o = dict(optimizer)
        kind, lr = o.pop("kind", "sgd"), o.pop("lr")
        return {f"train.optimizer.{k}": v for k, v in {"kind": kind, **o}.items()}, lr
    kinds = {torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw"}
    if type(optimizer) not in kinds or any(g.get(k) for k in ("amsgrad", "maximize", "dampening")):
        raise errors.config(f"the middle has SGD, Adam, AdamW without amsgrad, maximize and dampening, not "
                            f"{type(optimizer).__name__}")
    s = {"kind": kinds[type(optimizer)], "weight_decay": g["weight_decay"]}
    if s["kind"] == "sgd":
        s.update(momentum=g["momentum"], nesterov=g["nesterov"])
    else:
        s.update(beta1=g["betas"][0], beta2=g["betas"][1], eps=g["eps"])
    return {f"train.optimizer.{k}": v for k, v in s.items()}, None


class Optimizer(torch.optim.Optimizer):
    """One optimizer for the script's own parameters and the middle: step() asks the server, then steps `optimizer`."""

    def __init__(self, optimizer, middle):
        self.__dict__.update(optimizer=optimizer, middle=middle, defaults=optimizer.defaults, _step_count=0)

    # load_state_dict() of `optimizer` makes new ones
    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)

    def step(self, closure=None):
        loss = closure() if closure is not None else None
        self.middle.step()
        self.optimizer.step()
        return loss

    def zero_grad(self, set_to_none=False):
        self.optimizer.zero_grad(set_to_none)
        if set_to_none:
            self.middle.anchor.grad = None
        elif self.middle.anchor.grad is not None:
            self.middle.anchor.grad.zero_()

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)

    def __repr__(self):
        return f"split.{self.optimizer!r}"


def clip_grad_norm_(parameters, middle, max_norm):
    """As torch.nn.utils.clip_grad_norm_, with the middle's gradient; the norm of all of them before. The next step()
    takes the middle's share."""
    grads = [p.grad for p in parameters if p.grad is not None]
    squares = sum(float(torch.linalg.vector_norm(g.double())) ** 2 for g in grads)
    norm = (squares + (middle._clip * middle.grad_norm()) ** 2) ** 0.5
    factor = min(1.0, max_norm / (norm + 1e-6))
    for g in grads:
        g.mul_(factor)
    middle._clip *= factor
    return norm
