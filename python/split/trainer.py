"""split.trainer: a Trainer of Hugging Face, or a module of Lightning, whose middle is remote (docs/howto-trainer.md). Neither package
is imported: their methods and hooks are known by name."""
import contextlib
import json
import logging
import os
import re

import torch

from . import errors, saving
from .optimizer import clip_grad_norm_
from .remote import RemoteModule

_log = logging.getLogger("split")
TOKEN = "split_middle.token"  # in a checkpoint's folder: the name of the server's state of the same step
_STATE = "trainer_state.json"  # what Hugging Face's Trainer writes last


def remote(base, path, server, **options):
    """A subclass of `base`, a class of Trainers or LightningModules, that trains the submodule `path` of its network on `server`.
    options: those of RemoteModule, which gets the optimizer, and by default as many calls as batches are accumulated."""
    mixin = RemoteTrainer if hasattr(base, "create_optimizer") else RemoteLightning if hasattr(base, "configure_optimizers") else None
    if mixin is None:
        raise errors.config(f"{base.__name__} is no class of Trainers, with create_optimizer(), or of LightningModules, with "
                            "configure_optimizers()")
    return type(base.__name__, (mixin, base), {"_split": (path, server, options), "__doc__": base.__doc__, "__module__": base.__module__})


class Place:
    """The place of a module in a network, where a RemoteModule stands in for it."""

    def __init__(self, net, optimizer, path, server, options):
        owner, _, self.name = path.rpartition(".")
        self.owner, self.optimizer = net.get_submodule(owner), optimizer
        self.module = getattr(self.owner, self.name)
        self.had = [list(g["params"]) for g in optimizer.param_groups]
        self.middle = RemoteModule(self.module, server, optimizer=optimizer, **options)
        setattr(self.owner, self.name, self.middle)
        self.kept = None, None

    def token(self):
        """The token of this step: two files of one step share it, since the server keeps the states of two tokens alone."""
        step = self.middle._middle, self.middle.step_number
        if self.kept[0] != step:
            self.kept = step, self.middle.checkpoint()
        return self.kept[1]

    def leave(self, fetch=False):
        """Puts the module and its parameters back, without the optimizer's moments. fetch: with the weights of now."""
        if fetch:
            self.middle.state_dict()
        self.middle.close()
        setattr(self.owner, self.name, self.module)
        for g, params in zip(self.optimizer.param_groups, self.had):
            g["params"] = params
        self.optimizer.state.clear()


class MiddleCallback:
    """A callback of Hugging Face's Trainer: the middle takes its step just before the Trainer's optimizer does."""

    def __init__(self, middle):
        self.middle, self.stepped = middle, False

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.middle.step()  # if it fails, the optimizer has not stepped
        self.stepped = True

    def on_step_end(self, args, state, control, **kwargs):
        if not self.stepped:
            raise errors.config("this Trainer did not call on_pre_optimizer_step(), so the middle did not learn: transformers has it from "
                                "4.45 on")
        self.stepped = False

    def __getattr__(self, event):
        if not event.startswith("on_"):
            raise AttributeError(event)
        return lambda *args, **kwargs: None


class _Remote:
    _split_place = None
    split_middle = property(lambda self: self._split_place and self._split_place.middle, doc="The RemoteModule; None before training.")


class RemoteTrainer(_Remote):
    """What remote() puts in front of a Trainer. A folder checkpoint-N is complete once it has TOKEN and then _STATE."""

    _token = None
    _REFUSED = {"fp16": (bool, "the Trainer scales the loss, and the middle's gradient would stay scaled: use bf16"),
                "torch_compile": (bool, "a remote middle cannot be compiled"),
                "deepspeed": (bool, "its optimizer would not know the middle"),
                "fsdp": (bool, "it would share out the middle's parameters, which are on the server"),
                "n_gpu": (lambda n: n and n > 1, "the Trainer would copy the model to each GPU: let it see one, by CUDA_VISIBLE_DEVICES"),
                "hub_strategy": (lambda how: "checkpoint" in str(how).lower(), "it would publish the tokens in the checkpoints, which give "
                                 "access to the session: use \"every_save\" or \"end\"")}

    def _check(self):
        for key, (is_refused, why) in self._REFUSED.items():
            if is_refused(getattr(self.args, key, None)):
                raise errors.config(f"{key}: {why}")

    def create_optimizer(self, *args, **kwargs):
        if self._split_place and self.optimizer is None:
            self._leave(fetch=True)
        optimizer = super().create_optimizer(*args, **kwargs)
        if self._split_place is None:
            self._check()
            path, server, options = self._split
            options = {"calls": self.args.gradient_accumulation_steps, **options}
            self._split_place = Place(self.model, optimizer, path, server, {**options, "resume": self._token})
            self._step = MiddleCallback(self.split_middle)
            self.add_callback(self._step)
            self.accelerator.clip_grad_norm_ = self._clip
        return optimizer

    def _clip(self, parameters, max_norm, norm_type=2):
        if norm_type != 2:
            raise errors.config(f"norm_type={norm_type}: the middle has the norm of type 2")
        return clip_grad_norm_(parameters, self.split_middle, max_norm)

    def _leave(self, fetch=False):
        self.remove_callback(self._step)
        del self.accelerator.clip_grad_norm_
        if self.optimizer is not None:
            self.optimizer = self._split_place.optimizer  # without what accelerate wraps around it
        self._split_place.leave(fetch)
        self._split_place = None

    def train(self, resume_from_checkpoint=None, *args, **kwargs):
        """resume_from_checkpoint: True is the newest complete folder, or none. If the server comes back with an older step, training
        goes on from that folder."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = self._newest()
        while True:
            if resume_from_checkpoint:
                self._token = _token_of(resume_from_checkpoint)
                if not self._token:
                    raise errors.config(f"{resume_from_checkpoint}: it lacks {_STATE} or {TOKEN}, since its save was interrupted or had no "
                                        "remote middle: resume_from_checkpoint=True takes the newest complete one")
                if self._split_place:
                    self._leave()
            try:
                return super().train(resume_from_checkpoint, *args, **kwargs)
            except errors.RolledBack as e:
                resume_from_checkpoint = self._newest()
                if not resume_from_checkpoint:
                    raise
                _log.warning("%s; training goes on from %s", e, resume_from_checkpoint)
            finally:
                self._token = None

    def _newest(self):
        """The complete folder of the last step; None: there is none."""
        folder = self.args.output_dir
        found = [re.fullmatch(r"checkpoint-(\d+)", n) for n in os.listdir(folder)] if os.path.isdir(folder) else []
        steps = sorted((int(m[1]) for m in found if m), reverse=True)
        return next((f for f in (os.path.join(folder, f"checkpoint-{n}") for n in steps) if _token_of(f)), None)

    def _save_checkpoint(self, model, trial, *args, **kwargs):
        folder = os.path.join(self._get_output_dir(trial), f"checkpoint-{self.state.global_step}")
        for name in (_STATE, TOKEN):  # of an earlier attempt: the folder is incomplete from now on
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
        return super()._save_checkpoint(model, trial, *args, **kwargs)

    def _save_rng_state(self, output_dir):
        super()._save_rng_state(output_dir)
        with saving.replaced(os.path.join(output_dir, TOKEN)) as f:
            f.write(bytes(self._split_place.token().tolist()))


def _token_of(folder):
    """The token in a folder, if it is complete, else None."""
    try:
        with open(os.path.join(folder, _STATE)) as state, open(os.path.join(folder, TOKEN), "rb") as token:
            json.load(state)
            return token.read()
    except (OSError, ValueError):
        return None


class RemoteLightning(_Remote):
    """What remote() puts in front of a LightningModule."""

    _split_saved = None

    def configure_optimizers(self):
        if self._split_place:
            self._split_place.leave(fetch=True)
            self._split_place = None
        found = super().configure_optimizers()
        first = found.get("optimizer") if isinstance(found, dict) else found
        for _ in range(2):  # ([optimizer], [schedulers])
            if isinstance(first, (tuple, list)) and (len(first) == 1 or isinstance(first[0], (tuple, list))):
                first = first[0]
        if not isinstance(first, torch.optim.Optimizer) or not self.automatic_optimization:
            raise errors.config("a remote middle needs automatic_optimization and one optimizer, which has its parameters")
        if "16" in str(self.trainer.precision) and "bf16" not in str(self.trainer.precision):
            raise errors.config("precision=16: Lightning scales the loss, and the middle's gradient would stay scaled: use bf16")
        path, server, options = self._split
        options = {"calls": self.trainer.accumulate_grad_batches, **options}
        self._split_place = Place(self, first, path, server, {**options, "resume": self._split_saved and self._split_saved["token"]})
        return found

    def clip_gradients(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        most = gradient_clip_val or self.trainer.gradient_clip_val
        how = str(gradient_clip_algorithm or self.trainer.gradient_clip_algorithm or "norm").lower()
        if most and not how.endswith("norm"):
            raise errors.config(f"gradient_clip_algorithm={how}: the middle's gradient is on the server, which clips it by norm alone")
        if most:
            clip_grad_norm_((p for g in optimizer.param_groups for p in g["params"]), self.split_middle, most)

    def configure_gradient_clipping(self, *args, **kwargs):
        """The last hook before the optimizer's step."""
        if not any(c.back for c in self.split_middle._open):  # training_step() returned None
            return self.split_middle.drop()
        super().configure_gradient_clipping(*args, **kwargs)
        self.split_middle.step()

    def on_save_checkpoint(self, checkpoint):
        super().on_save_checkpoint(checkpoint)
        if self._split_place:
            checkpoint["split"] = {"token": self._split_place.token(), "random": saving.random_states()}

    def on_load_checkpoint(self, checkpoint):
        """Comes before the weights are loaded, for which the module must be in its place."""
        super().on_load_checkpoint(checkpoint)
        self._split_saved = checkpoint.get("split")
        if self._split_place:
            self._split_place.leave()
            self._split_place = None

    def on_train_start(self):
        super().on_train_start()
        if self._split_saved:
            saving.restore_random(self._split_saved["random"])
            self._split_saved = None
