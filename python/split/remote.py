"""split.RemoteModule: a module of a PyTorch network that a server computes and trains."""
import functools
import logging
import math
import os
import sys
import time
import weakref
from typing import NamedTuple, Optional

import torch
from torch import nn

from . import checks, crossing, errors, lora as adapters, network, plain, tracing
from .anchor import Anchor, Name, Shown
from .middle import Middle
from .optimizer import Beside, Groups, settings
from .taken import Taken, Written

_log = logging.getLogger("split")

class Keys(NamedTuple):
    """Files: the server's public key, and this client's own."""
    server: str
    own: str


class Step(NamedTuple):
    number: int
    bytes: int
    seconds: float
    skipped: bool = False


def _guarded(call):
    """If the call is interrupted, by Ctrl-C or because the server does not answer, the next call drops the step. A step that
    is lost, by NaN or because the server went back, is forgotten at once."""
    @functools.wraps(call)
    def guarded(self, *args, **kwargs):
        try:
            return call(self, *args, **kwargs)
        except (errors.NonfiniteError, errors.RolledBack):
            self._forget()
            raise
        except BaseException as e:
            if isinstance(e, (errors.UsageError, errors.ConfigError)) and not isinstance(e, errors.RolledBack):
                errors.at(e, errors.where())
            waits = isinstance(e, errors.UnavailableError) and call.__name__ not in ("step", "drop", "grad_norm")
            if waits or not isinstance(e, Exception):
                self.__dict__["_interrupted"] = call.__name__
            raise
    return guarded


def _uncompiled(call):
    """torch.compile leaves it as it is."""
    return torch.compiler.disable(call) if hasattr(torch, "compiler") else call  # PyTorch 2.1


def _nhwc(t):
    """t as packed float32 on the CPU, images with channels last."""
    if t.dtype != torch.float32 or t.device.type != "cpu":
        t = t.to("cpu", torch.float32)
    if t.dim() == 5:  # the slices of a volume lie one below the other
        return t.permute(0, 2, 3, 4, 1).contiguous().flatten(1, 2)
    return (t.permute(0, 2, 3, 1) if t.dim() == 4 else t).contiguous()


def _depth(shape):
    """The slices of a volume [n, C, D, H, W]; 0: it is none."""
    return shape[2] if len(shape) == 5 else 0


class RemoteModule(checks.Checks, nn.Module):
    """Takes the place of `module`, whose parameters are on the server from then on.

    module     a torch module; or the file of a network, as split.write_network and `splitc export` write it: its path, or what
               split.read_network gives, whose parameters an optimizer can have
    server     tcp://host:port; local: or local:FOLDER: a server in this process, with the same bits
    example    the input of a call with the most rows, or its shape; of several inputs a tuple of these
    optimizer  a torch.optim optimizer that has not stepped, out of which the module's parameters are taken; or a dict with
               kind, lr and the other keys of train.optimizer
    codec      one codec for all four directions, or a dict by name: head_act, mid_act, mid_grad, head_grad; of several inputs or
               outputs all have that of their direction
    chunks     parts of a call, which overlap on the link and on the server
    calls      most forwards of a step; their backwards may come in any order, and the gradient is their sum
    lengths    True: calls give the tokens of each row; what lies behind these neither crosses nor counts
    input_grad False: no input's gradient is computed; of several inputs a tuple, such as (True, False)
    freeze     shell patterns: parameters whose names match do not learn
    lora       {"rank": 8, "alpha": 16, "target": ["query", "value"]}: the module is frozen, and nn.Linears of these names get
               adapters, which learn; also "dropout"
    keep_every the server stores its state on disk every so many steps, before step() returns; 0: never
    wait_s     how long a call waits for a lost server; None: for ever
    resume     a token of checkpoint()
    conf       other keys of docs/config.md"""

    @errors.lined
    def __init__(self, module, server, *, example, optimizer, codec="none", chunks=1, calls=1, lengths=False, keys: Optional[Keys] = None,
                 precision="fp32", seed=None, freeze=(), lora=None, input_grad=True, keep_every=0, wait_s=600, resume=None, conf={}):
        super().__init__()
        if torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            raise errors.config("each rank would train a middle of its own: use one process")
        shapes, module = checks.shapes(example), network.read_network(module) if isinstance(module, (str, os.PathLike)) else module
        anchor = Anchor()
        nn.Module.register_parameter(self, Name("anchor_weight", [n for n, _ in module.named_parameters()], anchor.tell), anchor)  # the name of a weight
        self.__dict__.update(_module=module, _optimizer=optimizer, _pid=os.getpid(), _calls=calls, _lengths=lengths, _shape=shapes[0], _shapes=shapes, _odd=False, _followed_s=0.0, _told=set(), _ends=plain.Ends(), _anew="", _ever=set())
        self._forget()
        me = weakref.ref(self)
        self.anchor.watch(lambda grad: me() and me()._mark(grad))
        with plain.bare(module, fetches=resume is None), adapters.undone(module):
            self.__dict__["_added"] = {id(p) for p in adapters.lora(module, **lora)} if lora else set()
            adapters.freeze(module, freeze)
            self._input_grads = checks.input_grads(input_grad, len(shapes))
            graph = self._graph()
            self._statistics = dict(module.named_buffers())
            self._state = {**dict(module.named_parameters()), **self._statistics}
            self._learns = [(p, p.requires_grad) for p in module.parameters()]
            self.anchor.counts = [p.numel() for p in module.parameters() if p.requires_grad]
            self.anchor.frozen = [n for n, p in module.named_parameters() if not p.requires_grad]
            self.__dict__["_seen"] = [(n, Shown.made(m, me)) for n, m in module.named_modules() if n] or [("module", Shown.made(module, me))]
            self._modal, self._mode = [m for m in module.modules() if isinstance(m, tracing.MODAL)], module.training
            self._counted = [k for k in self._state if k.endswith("num_batches_tracked")]
            own = not isinstance(optimizer, dict)
            self._groups, self._beside = Groups(optimizer, module, self._added) if own else None, None
            rates, self._lr = settings(optimizer, self._groups and self._groups.held()[0])
            if seed is None and resume is None:  # a token has its own
                seed = torch.initial_seed() % (1 << 53)
            self._conf = {"server": server, "train.batch": self._shape[0], "train.chunks": chunks, "calls": calls,
                          **({} if seed is None else {"train.seed": seed}),
                          **({"tokens.row": self._shape[1], "tokens.chunk": self._shape[1] * -(-self._shape[0] // chunks)} if lengths else {}),
                          "train.precision": precision, "input_grad": any(self._input_grads), "keep_every": keep_every,
                          "wait_s": 0 if wait_s is None else wait_s, **rates, **(self._groups.rules if own else {}),
                          **{f"codec.{k}": v for k, v in checks.codecs(codec, shapes).items()}, **conf}
            if keys:
                self._conf.update({"auth.server_key": keys.server, "auth.secret_key": keys.own})
            self._set_graph(*graph)
            self.__dict__["_fresh"] = plain.Fresh(module, me)
            self._begin(resume)
        plain.watch(module, self._fresh)
        self._note_form(self._builder.recorded)
        self.anchor.of = me
        if own:
            self._groups.move(self.anchor)
            self._groups.watch(me)
        self.train(module.training)

    @property
    def anchor(self):
        """The parameter that stands for the middle's in parameters()."""
        if not isinstance(self.anchor_weight, Anchor):
            raise errors.here("anchor_weight has another tensor in its place, as by functional_call() with changed parameters, and the middle's are on the "
                              "server: call the network itself")
        return self.anchor_weight

    def _text_of(self, builder, out):
        still = [not learns for learns in self._input_grads]
        return builder.text(out, self._role, () if all(still) else still)

    def _read(self):
        with plain.bare(self._module):
            return self._graph(again=True)

    def _graph(self, again=False):
        return network.graph_of(self._module, self._shapes, self._lengths, [not learns for learns in self._input_grads], again)

    def _set_graph(self, builder, out):
        self.__dict__.update(_builder=builder, _out=out, _text=self._text_of(builder, out), _constants=[t.clone() for t in self._constants_of(builder)])
        self._written = [x.written for x in getattr(builder, "inputs", ())]
        self._behind = [builder.behind([x.number])[1] for x in out] if isinstance(out, tuple) else []

    def _begin(self, resume=None):
        weights = {p.name: p.to_graph(self._tensor(p)).numpy() for p in self._builder.params}
        try:
            middle = self.__dict__["_middle"] = Middle(self._text, weights, resume, **self._conf)
        except errors.ConfigError as e:
            raise errors.at(e, self._builder.lines.get(e.key.removeprefix("node ")))
        self.__dict__.update(_crossed=middle.crossed()[0], _skips=0, _kept=resume is not None, _resumed=resume is not None)  # crossed: bytes up to the last step
        self._fresh.fetched()
        self._fresh.stale = resume is not None

    def _tensor(self, p):
        return self._state[p.key] if p.constant is None else p.constant

    def _role(self, p):
        tensor = self._tensor(p)
        if p.constant is None and p.key in self._statistics:
            return "stat"
        if not tensor.requires_grad:
            return "frozen"
        at = self._groups.of.get(id(tensor), 0) if self._groups else 0
        return f"g{at}" if at else ""

    # ---- a step

    def _cleared(self):
        """Whether zero_grad() came after a backward: the marks that backwards leave in the anchor's gradient are gone."""
        grad = self.anchor.mark()
        return bool(self._marked) and (grad is None or grad.item() == 0)

    def _settle(self):
        """Before another call: drops a step that was interrupted, or whose gradients zero_grad() removed."""
        cleared = self._cleared()
        if cleared and not all(c.back for c in self._open):
            raise errors.usage(f"zero_grad() came between backwards of step {self.step_number}: call drop() first",
                               self.step_number)
        if self._interrupted or cleared:
            self._leave_out()

    def _leave_out(self):
        """Drops the open step, and reports a script that always does so."""
        self.__dict__["_skips"] += self._cleared()
        if self._cleared() and self._groups and self._groups.stepped is not None:
            self._tell("left out", f"the optimizer has stepped behind a backward(), and the middle has not: step {self.step_number} is left out there. Call "
                       "step() of the middle for each step of the optimizer")
        self.drop()
        if self._skips == 3:
            self._tell("skips", "zero_grad() came behind backward() and before step() of the middle, three times by now: the middle does not learn")

    @_uncompiled
    @_guarded
    def send(self, *xs, lengths=None, **named):
        """The first half of a call. Returns a Pending, whose wait() returns the output. Several may be under way."""
        xs, call, graded = self._begin_call(xs, lengths, named)
        sent = crossing.Send.apply(self, call, self.anchor, *xs) if graded else None
        pending = crossing.Pending(self, call, xs, sent)
        self._write(xs)
        return pending

    @_uncompiled
    @_guarded
    def forward(self, *xs, lengths=None, **named):
        """Takes the module's tensors in its order, and returns a tensor or, where the module does, a tuple. lengths may also stand
        behind them."""
        xs, call, graded = self._begin_call(xs, lengths, named)
        ys = crossing.Whole.apply(self, call, self.anchor, *xs) if graded else crossing.ungraded(xs, self._take(call))
        self._write(xs)
        return self._shown(ys)

    def _write(self, xs):
        """Marks what the module changes in place, which the server does not."""
        for x, written in zip(xs, self._written):
            if written and type(x) is torch.Tensor:
                x.__class__ = Written

    def _shown(self, ys):
        """The outputs as the module's forward returns them."""
        ys = ys if isinstance(ys, tuple) else (ys,)
        return ys if isinstance(self._out, tuple) else ys[0]

    def _begin_call(self, xs, lengths, named):
        """Returns the inputs, the call, and whether it has a backward."""
        self._check_process()
        if lengths is None and len(xs) == len(self._shapes) + 1 and (self._lengths or not isinstance(xs[-1], torch.Tensor)):
            *xs, lengths = xs
        self._check_inputs(xs, named)
        if self._odd:
            raise errors.usage(checks.ODD_MODE)
        if self.training and torch.is_grad_enabled():
            self._check_trained(len(xs[0]))
        self._check_form()
        self._check_values()
        if lengths is not None and not self._lengths:
            raise errors.usage("this middle has rows of one length: make it with lengths=True")
        self._settle()
        graded = self.training and torch.is_grad_enabled()
        trains = self.training and (graded or bool(self._modal) or self._calls > 1)  # else nothing tells it from an evaluation
        if self._open and (not trains or len(self._open) == self._calls):
            raise errors.usage(f"step {self.step_number} is open: call step() or drop() first", self.step_number)
        if self.training and not graded and self._calls == 1 and self._modal:
            raise errors.usage("the middle is in training, but gradients are off: call eval() first, or make it with "
                               "calls=2, so that a step has room for a call that moves statistics alone", self.step_number)
        if graded:
            self._check_learns(xs)
            self._check_factors()
            if self.anchor.moved:
                raise errors.usage("parameters() were moved by their gradients before this forward, as by SAM, and the middle's were not: its weights "
                                   "move in step() alone", self.step_number)
            self.anchor.spent = False
        call = self._post([x.detach() for x in xs], lengths, trains)
        call.leaf = crossing.leaf(xs) if graded else None
        if call.leaf is not None and not self._groups:
            self.__dict__["_beside"] = self._beside or Beside(call.leaf, self)
        return xs, call, graded

    @_guarded
    def pipelined(self, head, tail_loss, x, t):
        """A whole step except step(): head, middle, tail_loss(y, t) and all their backwards, chunk by chunk, so that
        both sides and the link work at once. tail_loss returns the mean over its rows; each chunk counts by its rows.
        Returns the mean over all rows, as a number."""
        self._check_process()
        self._settle()
        if self._open:
            raise errors.usage(f"step {self.step_number} is open: call step() or drop() first", self.step_number)
        if not self.training:
            raise errors.usage("the middle is in evaluation: call train() first")
        if not len(t) == len(x) <= self._shape[0]:
            raise errors.usage(f"x has {len(x)} rows, and t {len(t)}; the middle was made for {self._shape[0]}")
        self._check_trained(len(x))
        self._check_form()
        self._check_values()
        self.anchor.spent = False
        xs, ts = ([part for part in v.split(-(-self._conf["train.batch"] // self._conf["train.chunks"]))] for v in (x, t))
        state = crossing.Pipeline(self, head, tail_loss, list(zip(xs, ts)), len(x))
        while not state.over():
            if not (state.tail() or state.head() or state.back()):
                self._middle.wait()
        grad = self._one_mark() * len(state.parts)
        self._mark(grad)
        had = self.anchor.mark()
        self.anchor.grad = grad if had is None else had + grad
        self._note_ends()
        return state.loss

    def _forget(self):
        self._ends.forget()
        self.__dict__.update(_open=[], _marked=0, _interrupted=None, _clip=1.0, _clipped=False, _added_up=False, _reached=set())
        self.anchor.grad = None

    def _graded(self):
        """Whether a backward has come, whose gradient was neither taken away nor used."""
        return bool(self._marked) and not self._cleared()

    def _one_mark(self):
        return torch.full((1,), checks.MARK, dtype=torch.float32, device="cpu")

    def _mark(self, grad):
        """Counts backwards that have come to the anchor: grad has a mark for each call, and inf if it is another function's."""
        marks = grad.item() / checks.MARK
        self.__dict__["_marked"] += round(marks) if abs(marks) < 1e6 else math.inf

    @errors.lined
    def apply(self, fn):
        """Applies fn to the middle's modules, too, for example to initialize weights: what fn changes is sent to the server."""
        before = {k: v.clone() for k, v in self.state_dict().items()}
        self._module.apply(fn)
        self._check_module()
        self._check_replaced()
        if not self._computes(*self._read()):
            raise errors.usage("apply() changed what the module computes, as a rate of dropout: do so before it becomes a RemoteModule")
        now = self._module.state_dict()
        if any(not torch.equal(v, before[k]) for k, v in now.items() if k not in self._counted):
            self.load_state_dict(now)
        return super().apply(fn)

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Itself, and what modules() shows of the middle's."""
        yield from super().named_modules(memo, prefix, remove_duplicate)
        for name, module in self._seen:
            yield f"{prefix}.{name}" if prefix else name, module

    def train(self, mode=True):
        self.__dict__["_odd"] = False
        return super().train(mode)

    def __getattr__(self, name):
        module = self.__dict__.get("_module", self).__dict__
        if name in {**module.get("_parameters", {}), **module.get("_buffers", {})}:
            return getattr(self._module, name)
        if name in module.get("_modules", ()):
            if sys._getframe(1).f_code.co_name == "get_submodule":  # of a network around it: what named_modules() shows
                return dict(self._seen)[name]
            raise errors.no_attribute(f"{name} is on the server: state_dict() has its weights, and the module that RemoteModule was made of the layer")
        return self._attribute(name) if "_module" in self.__dict__ and name[0] != "_" else super().__getattr__(name)

    def __getitem__(self, i):
        raise errors.here(f"layer {i} is on the server: call the whole; the module that RemoteModule was made of has the layer")

    def __prepare_scriptable__(self):
        raise errors.here(checks.UNREAD)

    def _apply(self, fn, *rest):
        """Moves and converts nothing: the anchor stays float32, since float16 has no number as small as a mark."""
        return self

    def _post(self, xs, lengths, trains=True):
        n = len(xs[0])
        lengths = None if not self._lengths else [self._conf["tokens.row"]] * n if lengths is None else [int(n) for n in lengths]
        rows = [self._pack(_nhwc(x), lengths) for x in xs]
        number = self._middle.forward(rows, rows=n, lengths=lengths, training=trains)
        call = crossing.Call(number, self.step_number, xs, lengths)
        if trains:
            self._open.append(call)
            self._fresh.stale |= bool(self._counted)  # batch statistics move
        return call

    @_guarded
    def _take(self, call):
        ys = self._empty(self._middle.output_shapes, call)
        self._middle.output(call.number, ys)
        return self._outputs([self._unpack(y, call) for y in ys], call)

    @_guarded
    def _give(self, call, dys):
        if call not in self._open or call.back:
            raise errors.usage(f"backward of call {call.number} of step {call.step} ran already, or the step is over", call.step)
        if self._cleared():
            raise errors.usage(f"zero_grad() came between backwards of step {call.step}: call drop() first", call.step)
        if call.leaf is not None and not any(c.back for c in self._open) and call.leaf.grad is not None and call.leaf.grad.any():
            self.__dict__["_added_up"] = True
        if self._groups:
            self._groups.steps, self._groups.stepped = 0, None
        self._reached |= {i for i, dy in enumerate(dys) if dy is not None}
        self._middle.backward(call.number, [None if dy is None else self._pack(_nhwc(dy), call.lengths) for dy in dys])
        call.back = True

    def _note_ends(self):
        self._ends.note((self._groups and self._groups.others()) or [c.leaf for c in self._open if c.leaf is not None])

    @_guarded
    def _input_gradients(self, call):
        dxs = self._empty_gradients(call)
        self._middle.input_grad(call.number, dxs)
        return self._gradients([None if dx is None else self._unpack(dx, call) for dx in dxs], call)

    def _outputs(self, ys, call):
        outs = self._out if isinstance(self._out, tuple) else (self._out,)
        depths = [self._builder.depth[1] if out is None else _depth((0, *out.shape)) for out in outs]  # None: of a network that was read
        return tuple(self._like(y, call, depth) for y, depth in zip(ys, depths))

    def _gradients(self, dxs, call):
        return [None if dx is None else self._like(dx, call, _depth(shape)) for dx, shape in zip(dxs, self._shapes)]

    def _empty(self, shapes, call):
        rows = call.shape[0] if call.lengths is None else sum(call.lengths)
        return [torch.empty(rows, *shape[1:], dtype=torch.float32, device="cpu") for shape in shapes]

    def _empty_gradients(self, call):
        return [dx if crosses else None for dx, crosses in zip(self._empty(self._middle.input_shapes, call), self._input_grads)]

    @staticmethod
    def _mask(shape, lengths):
        if len(lengths) != shape[0] or not 0 <= min(lengths) <= max(lengths) <= shape[1]:
            raise errors.usage(f"lengths of {len(lengths)} rows up to {max(lengths, default=0)} for an input of {list(shape)}: {lengths}")
        return torch.arange(shape[1])[None] < torch.tensor(lengths)[:, None]

    def _pack(self, t, lengths):
        return t if lengths is None else t[self._mask(t.shape, lengths)]

    def _unpack(self, t, call):
        if call.lengths is None:
            return t
        out = torch.zeros(*call.shape[:2], t.shape[-1], dtype=torch.float32, device="cpu")
        out[self._mask(call.shape, call.lengths)] = t
        return out

    @staticmethod
    def _like(t, call, depth):
        """t as PyTorch has it. depth: of a volume, else 0."""
        if depth:
            t = t.reshape(len(t), depth, -1, *t.shape[2:]).permute(0, 4, 1, 2, 3).contiguous().detach()
        elif t.dim() == 4:
            t = t.permute(0, 3, 1, 2)
            t = (t.contiguous() if call.image else t).detach()  # what autograd takes for a view cannot be changed in place
        return t if call.device is None else t.to(call.device)

    @_guarded
    def step(self, lr=None, scale=1.0):
        """The server's optimizer takes its step; the script's own steps after that. If step() is interrupted, it can be
        called again, and goes on."""
        self._check_process()
        if self._cleared() or self._interrupted not in (None, "step"):
            number = self.step_number
            self._leave_out()
            return Step(number, 0, 0.0, True)
        self._check_gradients(scale)
        number, before = self._open[0].step, self._crossed
        if self._groups:
            self._groups.check_state(self)
        if self._groups and self._groups.loaded() and not self._resumed and self._moments():
            _log.warning("%s", errors.told("an optimizer's state was loaded, and the moments of the middle are on the server: split.save() and "
                                           "split.load() keep those of both"))
        self._check_outputs()
        if self._anew:
            _log.warning("%s", self._anew)
            self.__dict__["_anew"] = ""
        if self.anchor.counts and "ends" not in self._told and not self._clipped and self._ends.clipped({1, scale, self._clip, scale * self._clip}):
            self._tell("ends", "gradients of head and tail alone were made smaller behind backward(), as by PyTorch's clip_grad_norm_, and the middle's "
                       "were not: split.clip_grad_norm_(parameters, middle, max_norm) clips by the norm of all")
        if self._beside and lr is None:
            self._beside.check(self)
        self._fresh.stale = True
        self._middle.step(lr if lr is not None else self._groups.take_rate() if self._groups else self._lr, scale * self._clip)
        self._forget()
        self.anchor.spent, self.anchor.moved = True, False
        if self._fresh.held():
            self._follow()
        self.__dict__["_resumed"] = False
        self.__dict__["_skips"] = 0
        self.__dict__["_crossed"], seconds = self._middle.crossed()
        return Step(number, self._crossed - before, seconds)

    @_guarded
    def drop(self):
        """Drops the open step, which counts as done."""
        if self._counted and self._open:
            self._tell("statistics", "a step with batch norms was dropped, and with it what its forward added to their statistics: PyTorch keeps that")
        self._fresh.stale |= bool(self._counted)  # batch statistics have moved
        self._middle.drop()
        self._forget()

    @_guarded
    def grad_norm(self):
        return self._middle.norm()

    # ---- state

    @property
    def step_number(self):
        return self._middle.step_number

    @errors.lined
    def checkpoint(self):
        """The server stores this state. Returns its token, for the script's own file."""
        self.__dict__["_kept"] = True
        return torch.frombuffer(bytearray(self._middle.keep()), dtype=torch.uint8)

    @errors.lined
    def resume(self, token):
        self._check_process()
        self._forget()
        self.__dict__.update(_kept=True, _resumed=True)
        self._fresh.stale = True
        self._middle.resume(bytes(token.tolist()))

    def stats(self):
        return self._middle.stats()

    def graph(self):
        return self._text

    def close(self, goodbye=False):
        self._forget()
        self._middle.close(goodbye)

    def _follow(self):
        """Fetches the weights behind a step, for an array of numpy."""
        began = time.monotonic()
        self._fetch()
        self.__dict__["_followed_s"] += time.monotonic() - began
        if self._followed_s > 1:
            self._tell("numpy", "the script has an array of numpy() with the middle's weights, so they are fetched behind each step: copy() the array")

    def _fetch(self):
        with torch.no_grad(), plain.untraced(), torch._C.DisableTorchFunction():
            for p in (p for p in self._builder.params if p.constant is None):
                p.from_graph(self._middle.weight(p.name, p.shape), self._state[p.key])
            for key in self._counted:
                self._state[key].fill_(self.step_number)
        self._fresh.fetched()

    @errors.lined
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        self._settle()
        self._check_values()
        self._fetch()
        for key, value in self._module.state_dict(keep_vars=keep_vars).items():
            destination[prefix + key] = value.detach().clone() if isinstance(value, torch.Tensor) and not isinstance(value, Taken) else value

    @errors.lined
    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self._check_process()
        with plain.bare(self._module):
            own = self._module.state_dict()
        given = {k: state_dict[prefix + k] for k in own if prefix + k in state_dict}
        missing_keys += [prefix + k for k in own if k not in given]
        unexpected_keys += [k for k in state_dict if k.startswith(prefix) and k[len(prefix):] not in own]
        for key in [k for k in given if k.endswith("_extra_state")]:
            self._module.get_submodule(key[:-len("_extra_state")].rstrip(".")).set_extra_state(given.pop(key))
        wrong = [f"size mismatch for {prefix + k}: a shape of {list(v.shape)} for one of {list(own[k].shape)}"
                 for k, v in given.items() if v.shape != own[k].shape]
        error_msgs += wrong
        if wrong or not given:
            return
        if self.step_number and self._moments():
            self.__dict__["_anew"] = errors.told("load_state_dict() begins the middle anew, without the optimizer's moments; split.load() and resume() keep "
                                                 "them")  # said where it is trained on
        if len(given) < len(own) or any(isinstance(v, Taken) for v in given.values()):
            self._settle()
            if self._fresh.versions() == self._fresh.had:
                self._fetch()
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for key, value in given.items():
                own[key].copy_(value)
        if any(not torch.equal(now, was) for _, now, was in self._builder.read):  # the graph depends on their values
            self._set_graph(*self._read())
        self.close(goodbye=not self._kept)
        self._begin()
        if self._groups:
            self._groups.forget_state()

    def __deepcopy__(self, memo):
        raise errors.here("a middle cannot be copied: save state_dict() and checkpoint()")

    def __reduce__(self):
        raise errors.here("a middle cannot be pickled: save state_dict() and checkpoint()")

    def extra_repr(self):
        return f"{self._conf['server']}, {len(self._builder.nodes)} nodes, step {self.step_number}"
