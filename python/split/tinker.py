"""split.tinker: the calls of Tinker's training client over a decoder whose embedding, head and loss stay in this process
(docs/howto-trainer.md)."""
import asyncio
import concurrent.futures
import os
import sys
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Optional

import torch
from torch import nn

from . import errors, saving
from .optimizer import clip_grad_norm_
from .trainer import Place


@dataclass(frozen=True)
class AdamParams:
    learning_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0  # 0: no clipping


@dataclass(frozen=True)
class SamplingParams:
    max_tokens: Optional[int] = None  # None: as many as a row has room for
    seed: Optional[int] = None  # None: another one for each call
    stop: Optional[list] = None  # token ids
    temperature: float = 1.0  # 0: the likeliest token


@dataclass(frozen=True)
class TensorData:
    data: list
    dtype: str  # "int64" or "float32"
    shape: Optional[list] = None

    @classmethod
    def of(cls, values):
        """From a list, an array or a tensor."""
        t = torch.as_tensor(values)
        return cls(t.flatten().tolist(), "float32" if t.is_floating_point() else "int64", list(t.shape))

    from_torch = from_numpy = of

    def to_torch(self):
        t = torch.tensor(self.data, dtype=getattr(torch, self.dtype))
        return t if self.shape is None else t.reshape(self.shape)

    def to_numpy(self):
        return self.to_torch().numpy()


@dataclass(frozen=True)
class ModelInput:
    tokens: list

    @classmethod
    def from_ints(cls, tokens):
        return cls(list(tokens))

    def to_ints(self):
        return self.tokens

    length = property(lambda self: len(self.tokens))


@dataclass(frozen=True)
class Datum:
    """loss_fn_inputs: target_tokens and, for each of them, weights, which are 1 if they are not given."""
    model_input: ModelInput
    loss_fn_inputs: dict = field(default_factory=dict)

    def __post_init__(self):
        self.loss_fn_inputs.update({k: v if isinstance(v, TensorData) else TensorData.of(v) for k, v in self.loss_fn_inputs.items()})


ForwardBackwardOutput = namedtuple("ForwardBackwardOutput", "loss_fn_outputs metrics")  # for each datum {"logprobs": TensorData}
OptimStepResponse = namedtuple("OptimStepResponse", "metrics")
SampledSequence = namedtuple("SampledSequence", "stop_reason tokens logprobs")  # stop_reason: "length" or "stop"
SampleResponse = namedtuple("SampleResponse", "sequences")
StateResponse = namedtuple("StateResponse", "path")


class Future:
    """result() returns what the call gives, or raises its error; it can be awaited, too."""

    def __init__(self, of):
        self.result, self._of = of.result, of

    async def result_async(self, timeout=None):
        return await asyncio.wait_for(asyncio.wrap_future(self._of), timeout)

    def __await__(self):
        return self.result_async().__await__()


def cross_entropy(data, logprobs):
    weights = [d.loss_fn_inputs["weights"].to_torch() if "weights" in d.loss_fn_inputs else torch.ones(len(p)) for d, p in zip(data, logprobs)]
    return -sum(p.dot(w) for p, w in zip(logprobs, weights)), {}


class _Layers(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)[0]
        return x


def parts_of(model):
    """Head, middle and tail of a decoder of transformers, such as LlamaForCausalLM."""
    return model.model.embed_tokens, _Layers(model.model.layers), nn.Sequential(model.model.norm, model.lm_head)


class TrainingClient:
    """net        a decoder of transformers, or its modules (head, middle, tail): head takes token ids [rows, tokens], tail gives logits
    server     as in RemoteModule, which gets the other options, too
    rows       the most rows of a call; a larger batch is cut into several calls, which overlap
    tokens     the most tokens of a row
    calls      the most calls of a step
    adam       beta1, beta2, eps and weight_decay of all steps; the learning rate is that of each optim_step()
    folder     where save_state() writes
    Calls return futures, and run one after the other in their order."""

    def __init__(self, net, server, *, rows, tokens, calls=1, adam=AdamParams(), folder=".", **options):
        head, middle, tail = net if isinstance(net, (tuple, list)) else parts_of(net)
        self._net = nn.ModuleDict({"head": head, "middle": middle, "tail": tail})
        self._rows, self._tokens, self._folder, self._failed, self._norm = rows, tokens, folder, None, None
        self._optimizer = torch.optim.AdamW(self._net.parameters(), adam.learning_rate, (adam.beta1, adam.beta2), adam.eps, adam.weight_decay)
        with torch.no_grad():
            features = head(torch.zeros(1, 1, dtype=torch.int64)).shape[-1]
        self._options = {"example": (rows, tokens, features), "calls": calls, "lengths": True, **options}
        self._server, self._worker = server, concurrent.futures.ThreadPoolExecutor(1, "split.tinker")
        self._place = Place(self._net, self._optimizer, "middle", server, self._options)

    middle = property(lambda self: self._place.middle)

    def _begin(self, call, *args):
        return Future(self._worker.submit(call, *args))

    def __getattr__(self, name):
        """NAME_async() gives an awaitable of the future of NAME()."""
        if name.startswith("_") or not name.endswith("_async"):
            raise AttributeError(name)

        async def begun(*args, **kwargs):
            return getattr(self, name[:-len("_async")])(*args, **kwargs)
        return begun

    # ---- training

    def forward_backward(self, data, loss_fn="cross_entropy", loss_fn_config=None):
        """loss_fn: its name, or a function of data and of a tensor of logprobs for each datum, which returns the loss and metrics."""
        return self._begin(self._forward_backward, list(data), loss_fn, loss_fn_config)

    forward_backward_custom = forward_backward

    def forward(self, data, loss_fn="cross_entropy", loss_fn_config=None):
        """The same without gradients and dropout."""
        return self._begin(self._forward, list(data), loss_fn, loss_fn_config)

    def _forward_backward(self, data, loss_fn, config):
        try:
            self._net.train()
            loss, found = self._loss(data, loss_fn, config)
            loss.backward()
            return found
        except BaseException as e:
            self._failed = e
            raise

    def _forward(self, *args):
        self._net.eval()
        with torch.no_grad():
            return self._loss(*args)[1]

    def _loss(self, data, loss_fn, config):
        loss_fn = cross_entropy if loss_fn == "cross_entropy" else loss_fn
        if not callable(loss_fn) or config:
            raise errors.config(f"loss_fn={loss_fn!r}, loss_fn_config={config!r}: there is cross_entropy without a config; give another loss as "
                                "a function")
        logprobs = self._logprobs(data)
        loss, metrics = loss_fn(data, logprobs)
        return loss, ForwardBackwardOutput([{"logprobs": TensorData.of(p.detach())} for p in logprobs], {"loss:sum": loss.item(), **metrics})

    def _logprobs(self, data):
        """For each datum the logarithms of the probabilities of its target tokens."""
        targets = [d.loss_fn_inputs["target_tokens"].to_torch().long() for d in data]
        wrong = next((f"{d.model_input.length} tokens and {len(t)} target_tokens" for d, t in zip(data, targets) if d.model_input.length != len(t)),
                     None if data else "no tokens")
        if wrong:
            raise errors.usage(f"a datum needs as many target_tokens as tokens, and there are {wrong}")
        cuts = [data[i:i + self._rows] for i in range(0, len(data), self._rows)]
        sent = (self._send([d.model_input.to_ints() for d in cut]) for cut in cuts)
        sent = list(sent) if self._net.training else sent  # calls of a step overlap; of evaluations one is open at a time
        flat = torch.cat([self._net["tail"](pending.wait()[real]).float() for pending, real in sent])
        found = flat.log_softmax(-1).gather(1, torch.cat(targets)[:, None])[:, 0]
        return found.split([len(t) for t in targets])

    def _send(self, rows):
        """Returns what send() of the middle does, and which places of a row have a token."""
        lengths = [len(r) for r in rows]
        if not 0 < min(lengths) <= max(lengths) <= self._tokens:
            raise errors.usage(f"rows of {min(lengths)} to {max(lengths)} tokens; this client was made for 1 to {self._tokens}")
        ids = nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True)
        return self.middle.send(self._net["head"](ids), lengths), torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]

    def optim_step(self, adam_params):
        return self._begin(self._optim_step, adam_params)

    def _optim_step(self, a):
        failed, self._failed = self._failed, None
        try:
            if failed:
                raise errors.usage(f"nothing was applied, since a forward_backward() of this step failed: {failed}") from failed
            for g in self._optimizer.param_groups:
                g.update(lr=a.learning_rate, betas=(a.beta1, a.beta2), eps=a.eps, weight_decay=a.weight_decay)
            if a.grad_clip_norm and self._norm is None:  # else this is called again
                self._norm = float(clip_grad_norm_(self._net.parameters(), self.middle, a.grad_clip_norm))
            self.middle.step()  # first: if it fails, the rest has not stepped
        except errors.UnavailableError:  # the server may have applied the step: optim_step() can be called again
            raise
        except errors.Error as e:
            self._forget()
            if not isinstance(e, errors.RolledBack):
                self.middle.drop()  # which raises RolledBack, if that is why forward_backward() failed
            raise
        self._optimizer.step()
        norm = self._norm
        self._forget()
        return OptimStepResponse({} if norm is None else {"grad_norm": norm})

    def _forget(self):
        self._optimizer.zero_grad()
        self._failed = self._norm = None

    # ---- text

    def sample(self, prompt, num_samples=1, sampling_params=SamplingParams()):
        """Tokens that follow the prompt, with the weights of the last step. Not between forward_backward() and optim_step()."""
        return self._begin(self._sample, prompt.to_ints(), num_samples, sampling_params)

    def _sample(self, prompt, count, how):
        g = torch.Generator()
        g.manual_seed(how.seed) if how.seed is not None else g.seed()
        room = self._tokens + 1 - len(prompt)
        rows, logprobs, over = [list(prompt) for _ in range(count)], [[] for _ in range(count)], [None] * count
        self._net.eval()
        with torch.no_grad():
            for _ in range(min(room, how.max_tokens or room)):
                going = [i for i in range(count) if over[i] is None]
                for first in range(0, len(going), self._rows):
                    at = going[first:first + self._rows]
                    pending, _ = self._send([rows[i] for i in at])
                    p = self._net["tail"](pending.wait()[:, -1]).float().log_softmax(-1)
                    next_ones = p.argmax(-1) if how.temperature == 0 else torch.multinomial((p / how.temperature).softmax(-1), 1, generator=g)[:, 0]
                    for i, token, each in zip(at, next_ones.tolist(), p):
                        rows[i].append(token)
                        logprobs[i].append(each[token].item())
                        over[i] = "stop" if token in (how.stop or ()) else None
        return SampleResponse([SampledSequence(o or "length", r[len(prompt):], p) for o, r, p in zip(over, rows, logprobs)])

    # ---- state

    def save_state(self, name):
        return self._begin(self._save_state, os.path.join(self._folder, f"{name}.pt"))

    def load_state(self, path):
        """Everything as it was: weights, moments, random states. The server has the states of the last two save_state()."""
        return self._begin(self._load_state, path)

    load_state_with_optimizer = load_state

    def _parts(self):
        return {"head": self._net["head"], "tail": self._net["tail"], "optimizer": self._optimizer}

    def _save_state(self, path):
        saving.save(path, middle=self.middle, step=self.middle.step_number, **self._parts())
        return StateResponse(path)

    def _load_state(self, path):
        run = saving.load(path)
        if run is None:
            raise errors.usage(f"{path}: there is no such file")
        self._forget()
        self._place.leave()
        self._place = Place(self._net, self._optimizer, "middle", self._server, {**self._options, "resume": run["middle"]})
        run.restore(**self._parts())
        return StateResponse(path)

    def close(self, goodbye=False):
        """Ends the session, after the calls before it."""
        self._begin(self.middle.close, goodbye).result()
        self._worker.shutdown()


types = sys.modules[__name__]
