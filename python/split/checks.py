"""What a RemoteModule refuses or warns of, when it is made, before a call and before a step."""
import logging
import math
import os
import sys

import torch
import torch.fx
from torch import nn

from . import again, errors, plain, taken, tracing
from .anchor import of_package, unset
from .optimizer import Optimizer

_log = logging.getLogger("split")
MARK = 2.0 ** -100  # each backward of a call adds this to the anchor's gradient

ODD_MODE = "a part has another mode than RemoteModule, and the server has one: call train() or eval() of the whole"
UNREAD = "a RemoteModule cannot be traced, scripted or exported: do that to head and tail, or to the module that it was made of, behind load_state_dict()"


def shapes(example):
    """The shapes of the inputs of the largest call."""
    several = isinstance(example, (tuple, list)) and any(isinstance(x, (tuple, list, torch.Tensor)) for x in example)
    found = [tuple(x.shape if isinstance(x, torch.Tensor) else x) for x in (example if several else [example])]
    for i, shape in enumerate(found if several else ()):
        if len(shape) < 2 or shape[0] != found[0][0]:
            raise errors.config(f"input {i} of example is {list(shape)}: give each tensor the same rows, and one dimension more at least")
    return found


def input_grads(given, n):
    """Whether each input has a gradient."""
    grads = (given,) * n if isinstance(given, bool) else tuple(given)
    if len(grads) != n:
        raise errors.config(f"input_grad has {len(grads)} values, and example has {n} tensors")
    return grads


def codecs(given, shapes):
    """The codec of each direction."""
    each = given if isinstance(given, dict) else dict.fromkeys(("head_act", "mid_act", "mid_grad", "head_grad"), given)
    for direction, codec in each.items():
        if any(len(shape) == 5 for shape in shapes) and any(stage.split(":")[0].strip() in ("downsample", "cells") for stage in str(codec).split("|")):
            raise errors.config(f"codec={codec!r} for {direction} would mix rows of neighbouring slices of volumes: leave downsample out, and cells too, whose heights only splitc train checks")
    return each


class Checks:
    """The base of RemoteModule that has them."""

    def _check_process(self):
        if self._pid != os.getpid():
            raise errors.usage(errors.FORKED)

    def named_children(self):
        frame = sys._getframe(1)
        while frame and frame.f_code is nn.Module.children.__code__:
            frame = frame.f_back
        if frame and not of_package(frame):
            self.anchor.tell("children() of the middle gives none, since they are on the server: do that before RemoteModule is made; modules() has them, to be read")
        return super().named_children()

    def named_parameters(self, prefix="", recurse=True, *rest, **options):
        """Without recurse those that the module holds itself, so that a loop over modules() has each one once."""
        if recurse:
            return super().named_parameters(prefix, recurse, *rest, **options)
        return iter(()) if self._seen[0][1]._of is self._module else self._module.named_parameters(prefix, False, *rest, **options)

    def _attribute(self, name):
        """What the script reads that RemoteModule lacks: the module's. A method of it would compute here."""
        if hasattr(type(self._module), name):
            raise errors.no_attribute(f"{name} is of {type(self._module).__name__}, which is on the server: ask the module that RemoteModule was made of")
        return vars(self._module)[name] if name in vars(self._module) else super().__getattr__(name)

    def __setattr__(self, name, value):
        module = self.__dict__.get("_module")
        if module is not None and name not in self.__dict__ and not hasattr(type(self), name) and not of_package(sys._getframe(1)):
            held = {*vars(module), *module._parameters, *module._buffers, *module._modules}
            if isinstance(value, (nn.Module, nn.Parameter)) or name in held or hasattr(type(module), name):
                raise unset(module, name)
        super().__setattr__(name, value)

    def _refuse(self, name, *_, **__):
        raise unset(self._module, name)

    add_module = register_module = register_buffer = register_parameter = _refuse

    def _check_learns(self, xs):
        for i, (x, crosses) in enumerate(zip(xs, self._input_grads)):
            if x.requires_grad and not crosses:
                raise errors.usage(f"something in the head learns{f' through input {i}' * (len(xs) > 1)}, and the middle has input_grad=False"
                                   + " there" * (len(xs) > 1))

    def _check_inputs(self, xs, named):
        if torch.jit.is_tracing() or any(isinstance(x, torch.fx.Proxy) for x in xs):
            raise errors.usage(UNREAD)
        if named:
            raise errors.usage(f"{', '.join(named)}: the middle takes its tensors by place, in the order of example")
        if len(xs) != len(self._shapes):
            raise errors.usage(f"a call with {len(xs)} tensors; the middle was made for {len(self._shapes)}")
        for i, (x, made) in enumerate(zip(xs, self._shapes)):
            what = f"input {i}" if len(xs) > 1 else "its input"
            if isinstance(x, taken.Written):
                x.refuse()
            if not isinstance(x, torch.Tensor):
                raise errors.usage(f"{what} is a {type(x).__name__}: the middle takes tensors")
            if x.dtype == torch.float64 or not x.is_floating_point():
                raise errors.usage(f"the middle computes in float32: call .float() on {what}" + f", which is {x.dtype}" * (len(xs) > 1))
            shape, fits = made[1:], tuple(x.shape[1:]) == made[1:]
            if self._lengths:
                fits = x.dim() == 3 and x.shape[1] <= shape[0] and x.shape[2] == shape[1] and x.shape[1] == xs[0].shape[1]
            if not fits or not len(x) or len(x) != len(xs[0]):
                raise errors.usage(f"{what if len(xs) > 1 else 'an input'} of {list(x.shape)}; the middle was made for [rows, "
                                   f"{', '.join(map(str, shape))}]" + f", with the rows of input 0, {len(xs[0])}" * (i > 0))

    def _check_trained(self, rows):
        """Checks a training call: each chunk needs a variance. Refuses or reports changes to the module that the server lacks."""
        part = -(-self._shape[0] // self._conf["train.chunks"])
        if self._builder.single and 1 in (min(rows, part), rows % part):
            raise errors.usage(f"{self._builder.single}: the last chunk of {rows} rows has one row, and one number for each channel has no "
                               "variance: give more rows in training")
        self._check_module()
        tracing.check_draws(self._builder)
        with torch._C.DisableTorchFunction():
            graded = next((n for n, p in self._state.items() if p.grad is not None), None)
        if graded:
            self._tell("graded", f"{graded}: a gradient of the module's own came to it here, as of a penalty or a tied layer, and the server does "
                       "not get it: call RemoteModule in place of the module")

    def _check_values(self):
        if self._fresh.versions() != self._fresh.had or self.anchor.raw().item() != 1:
            self._fresh.had = self._fresh.versions()
            self.anchor.raw().fill_(1)
            _log.warning("%s", errors.told("the parameters of the module were changed here, and the server has its own: load_state_dict() of the "
                                           "RemoteModule sends some"))

    def _note_form(self, recorded):
        self.__dict__["_form"] = plain.Form(self._module, recorded.leaves() if recorded else set())
        self._builder.recorded = recorded

    def _check_form(self):
        """Refuses a module that would not be read as it was."""
        recorded, line, what = self._builder.recorded, "", "a layer, a hook or an attribute of a layer, as a rate of dropout, was changed"
        if self._form.patched():
            what = f"the forward of {self._form.patched()} was replaced"
        elif self._form.changed():
            self._check_replaced()
            builder, out = self._read()
            if self._computes(builder, out):
                return self._note_form(builder.recorded)
        elif isinstance(recorded, again.Recording):
            found = self._called(recorded)
            if found is None:
                return
            line, what = found, "what forward reads for this line was changed"
        else:
            path = recorded.changed() if recorded else ""
            if not path:
                return
            what = f"{path} was changed"
        raise errors.at(errors.usage(f"the module that RemoteModule was made of computes something else by now, as {what}, and the server does not: do so before "
                                     "it becomes a RemoteModule; what changes from step to step belongs in head or tail, or in an input of the middle"), line)

    def _called(self, recorded):
        """Runs forward's Python for a call. None: the server computes that; else the script's line from which on it does not."""
        self._fresh.paused = True
        try:
            found = recorded.again(self.training)
        finally:
            self._fresh.paused = False
        if found is None:
            return None
        had, (traced, line) = recorded.traced[self.training], found
        recorded.hold(self.training, traced)
        try:
            with plain.bare(self._module):
                if self._computes(*self._builder.filled(True)) if self.training else self._evaluates(*self._builder.filled(False, without_dropout=True, evaluates=True)):
                    return None
        except errors.ConfigError as e:
            line = e.line or line
        recorded.traced[self.training] = had
        return line

    def _constants_of(self, builder):
        """Tensors that forward has and the module does not hold."""
        return [p.constant for p in builder.params if p.constant is not None and p.key not in self._state]

    def _computes(self, builder, out):
        """Whether that is what the server computes."""
        return self._text_of(builder, out) == self._text and self._has_constants(builder)

    def _evaluates(self, builder, out):
        """The same of an evaluation, read without dropout."""
        return builder.text(out, lambda p: "") == self._builder.bare and self._has_constants(builder)

    def _has_constants(self, builder):
        return all(map(torch.equal, self._constants_of(builder), self._constants))

    def _check_factors(self):
        """Before the first step the groups may have other rates than when the middle was made, as of a scheduler's list."""
        if self._groups and not self._open and not self.step_number and not self._resumed and self._groups.refactored():
            self._conf.update(self._groups.rules)
            self.close(goodbye=not self._kept)
            self._begin()

    def _check_outputs(self):
        """Reports gradients that add up, and parameters that PyTorch leaves as they are, since the loss read no output of theirs, and the server does not."""
        if self._added_up:
            self._tell("zero", "zero_grad() was not called since the last step: gradients of head and tail add up, and the middle's begin anew in "
                       "each step")
        now = set().union(*(self._behind[i] for i in self._reached if i < len(self._behind)))
        rest = set().union(*self._behind) - now
        moves = rest if self._decays() else rest & self._ever if self._moments() else set()
        moves = moves - self._ever if self.anchor.zeros else moves  # PyTorch has gradients of 0
        self._ever |= now
        if moves:
            self._tell("outputs", f"the loss did not read all outputs of the middle: PyTorch leaves {min(moves)} as it is, and the server moves it by momentum and "
                       "weight_decay: freeze what the loss never reads, or take an optimizer without both")

    def _decays(self):
        return self._groups.decays() if self._groups else self._conf.get("train.optimizer.weight_decay")

    def _drifts(self):
        """Whether the optimizer moves parameters whose gradient is 0."""
        return bool(self._moments() or self._decays())

    def _check_replaced(self):
        buffers = [(n, t) for n, t in self._module.named_buffers() if n.rpartition(".")[2] not in ("running_mean", "running_var", "num_batches_tracked")]
        replaced = next((n for n, t in (*self._module.named_parameters(), *buffers) if t is not self._state.get(n)), None)
        if replaced:
            raise errors.usage(f"{replaced} was replaced behind RemoteModule: change it in place, by apply() or load_state_dict()")

    def _check_module(self):
        if any(p.requires_grad != learns for p, learns in self._learns) or not self.anchor.requires_grad:
            raise errors.usage("requires_grad was changed behind RemoteModule, and the server does not know: leave it as it was. What never learns is named by "
                               "freeze=[...]; behind a backward that shall not count for the middle, as that of a generator through its critic, call drop()")
        if any(m.training not in (self._mode, self.training) for m in self._modal):
            raise errors.usage(ODD_MODE)

    def check_unfrozen(self, parameter):
        if any(p is parameter and not learns for p, learns in self._learns):
            self.anchor.refuse_frozen()

    def _is_own(self, optimizer):
        return isinstance(optimizer, Optimizer) or (self._groups is not None and optimizer is self._groups.optimizer)

    def _strange(self, optimizer):
        """Another optimizer of the script reads the middle's gradients."""
        if self._groups is None:
            return self._tell("dict", "an optimizer of the script has parameters() of the network, and the middle was made with a dict, whose "
                              "learning rate stays: give RemoteModule that optimizer")
        raise errors.here(f"this {type(optimizer).__name__} has the middle's parameters, and the middle learns by the optimizer that RemoteModule was made "
                          "with. To begin with another one: put the module back in place of the RemoteModule, make the optimizer, then RemoteModule with it, "
                          "and close() the old one")

    def _check_gradients(self, scale):
        """Checks that the anchor's gradient has a mark for each backward of a call, and nothing else."""
        backs = sum(c.back for c in self._open)
        if not backs:
            raise errors.usage(f"step {self.step_number} has no gradient: call backward() first", self.step_number)
        if self._marked == math.inf:
            raise errors.usage("the loss has a penalty on parameters(), and the middle's are on the server: call drop(), and use "
                               "weight_decay", self.step_number)
        if backs != self._marked:
            raise errors.usage(f"of step {self.step_number}, {backs} calls had a backward, and {self._marked} were for "
                               "the middle's parameters: call drop() behind torch.autograd.grad() of something else", self.step_number)
        by = self.anchor.mark().item() / (MARK * backs)
        if not any(math.isclose(by, known, rel_tol=1e-3) for known in (1, scale, self._clip, scale * self._clip)):
            what = "all gradients were set" if abs(by) > 1e9 else "gradients were multiplied between the backwards of a step" if backs > 1 else f"all gradients were multiplied by {by:.4g}"
            raise errors.usage(f"{what} behind backward(), and the server's were not: multiply the loss, call split.clip_grad_norm_ in place of PyTorch's, or give "
                               "step() the factor of all as scale", self.step_number)

    def _moments(self):
        """Whether the server's optimizer has a state beside the weights."""
        return self._conf.get("train.optimizer.kind") != "sgd" or self._conf.get("train.optimizer.momentum")

    def _tell(self, what, text):
        """Warns, once."""
        if what not in self._told:
            self._told.add(what)
            _log.warning("%s", errors.told(text))
