"""Loops that call in the order that the documentation of transformers' Trainer (4.57) and of Lightning's Trainer (2.5) gives, for tests
without these packages."""
import json
import os
import random
import shutil
import types

import numpy
import torch
import torch.nn.functional as F
from torch import nn

BATCH, BATCHES, EPOCHS = 8, 7, 3
EVENTS = "train_begin train_end epoch_begin epoch_end step_begin step_end substep_end pre_optimizer_step optimizer_step evaluate save log".split()


class Net(nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(8, 16), nn.Dropout(p))
        self.parts = nn.ModuleDict({"middle": nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Dropout(p), nn.Linear(32, 16))})
        self.tail = nn.Linear(16, 5)

    def forward(self, x, labels):
        return F.cross_entropy(self.tail(self.parts["middle"](self.head(x))), labels)


def batches(epoch):
    """BATCHES of them, the last one smaller, in an order that follows from the epoch."""
    g = torch.Generator().manual_seed(7)
    x, t = torch.randn(BATCH * BATCHES - 3, 8, generator=g), torch.randint(0, 5, (BATCH * BATCHES - 3,), generator=g)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
    return [(x[i], t[i]) for i in order.split(BATCH)]


def arguments(folder, **more):
    return types.SimpleNamespace(**{"output_dir": str(folder), "learning_rate": 0.01, "weight_decay": 0.1, "gradient_accumulation_steps": 2,
                                    "max_grad_norm": 0.5, "save_steps": 3, "save_total_limit": 1, "fp16": False, "n_gpu": 1,
                                    "hub_strategy": "HubStrategy.EVERY_SAVE", **more})


class Accelerator:
    def clip_grad_norm_(self, parameters, max_norm, norm_type=2):
        return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)


class Prepared(torch.optim.Optimizer):
    """What accelerate wraps around an optimizer; the groups are new ones afterwards."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        optimizer.load_state_dict(optimizer.state_dict())

    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)

    def step(self, closure=None):
        self.optimizer.step(closure)

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)


class Trainer:
    """As that of transformers: the same methods, in the same order."""

    def __init__(self, model, args, optimizers=(None, None)):
        self.model, self.args, self.accelerator, self.callbacks = model, args, Accelerator(), []
        self.optimizer, self.lr_scheduler = optimizers
        self.losses = {}

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def remove_callback(self, callback):
        self.callbacks.remove(callback)

    def event(self, name):
        assert name in EVENTS
        for callback in self.callbacks:
            getattr(callback, f"on_{name}")(self.args, self.state, None, model=self.model, optimizer=self.optimizer)

    def create_optimizer(self):
        if self.optimizer is None:
            named = list(self.model.named_parameters())
            groups = [{"params": [p for n, p in named if n.endswith("bias") == bias], "weight_decay": 0.0 if bias else self.args.weight_decay}
                      for bias in (False, True)]
            self.optimizer = torch.optim.AdamW(groups, lr=self.args.learning_rate, betas=(0.9, 0.999), eps=1e-8)
        return self.optimizer

    def train(self, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None):
        if resume_from_checkpoint is not None:
            self._load_from_checkpoint(resume_from_checkpoint)
        return self._inner_training_loop(resume_from_checkpoint)

    def _inner_training_loop(self, resume):
        updates = -(-BATCHES // self.args.gradient_accumulation_steps)
        total = updates * EPOCHS
        self.create_optimizer()
        self.state = types.SimpleNamespace(global_step=0)
        self.model.train()
        self.optimizer = Prepared(self.optimizer)
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda i: min(i / 3, 1 - i / total / 2))  # the first rate is 0
        if resume:
            self.optimizer.load_state_dict(torch.load(os.path.join(resume, "optimizer.pt")))
            self.lr_scheduler.load_state_dict(torch.load(os.path.join(resume, "scheduler.pt")))
            with open(os.path.join(resume, "trainer_state.json")) as f:
                self.state.global_step = json.load(f)["global_step"]
        first, behind = divmod(self.state.global_step, updates)
        self.model.zero_grad()
        self.event("train_begin")
        for epoch in range(first, EPOCHS):
            self.event("epoch_begin")
            data, step = batches(epoch), -1
            if resume and epoch == first:
                data, step = data[behind * self.args.gradient_accumulation_steps:], behind * self.args.gradient_accumulation_steps - 1
                self._load_rng_state(resume)
            while data:
                some, data = data[:self.args.gradient_accumulation_steps], data[self.args.gradient_accumulation_steps:]
                for i, inputs in enumerate(some):
                    step += 1
                    if i == 0:
                        self.event("step_begin")
                    self.training_step(inputs, len(some))
                    if i < len(some) - 1:
                        self.event("substep_end")
                self._update()
            self.event("epoch_end")
        self.event("train_end")
        return self.state

    def training_step(self, inputs, count):
        self.model.train()
        loss = self.model(*inputs)
        self.losses[self.state.global_step] = loss.item()
        (loss / count).backward()

    def _update(self):
        if self.args.max_grad_norm:
            self.norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
        self.event("pre_optimizer_step")
        self.optimizer.step()
        self.event("optimizer_step")
        self.lr_scheduler.step()
        self.model.zero_grad()
        self.state.global_step += 1
        self.event("step_end")
        if self.state.global_step % 4 == 0:
            self.evaluate()
        if self.state.global_step % self.args.save_steps == 0:
            self._save_checkpoint(self.model, None)
            self.event("save")

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            found = self.model(*batches(0)[0]).item()
        self.event("evaluate")
        return found

    def _get_output_dir(self, trial):
        return self.args.output_dir

    def _save_checkpoint(self, model, trial):
        folder = os.path.join(self._get_output_dir(trial), f"checkpoint-{self.state.global_step}")
        self.save_model(folder, _internal_call=True)
        torch.save(self.optimizer.state_dict(), os.path.join(folder, "optimizer.pt"))
        torch.save(self.lr_scheduler.state_dict(), os.path.join(folder, "scheduler.pt"))
        self._save_rng_state(folder)
        self.save_state(folder)
        self._rotate(folder)

    def save_model(self, folder, _internal_call=False):
        os.makedirs(folder, exist_ok=True)
        torch.save(self.model.state_dict(), os.path.join(folder, "model.pt"))

    def _save_rng_state(self, folder):
        torch.save((torch.get_rng_state(), numpy.random.get_state(), random.getstate()), os.path.join(folder, "rng_state.pth"))

    def save_state(self, folder):
        with open(os.path.join(folder, "trainer_state.json"), "w") as f:
            json.dump(vars(self.state), f)

    def _rotate(self, newest):
        for name in os.listdir(self.args.output_dir):
            if self.args.save_total_limit == 1 and os.path.join(self.args.output_dir, name) != newest:
                shutil.rmtree(os.path.join(self.args.output_dir, name))

    def _load_from_checkpoint(self, folder, model=None):
        self.model.load_state_dict(torch.load(os.path.join(folder, "model.pt")))

    def _load_rng_state(self, folder):
        state = torch.load(os.path.join(folder, "rng_state.pth"), weights_only=False)
        torch.set_rng_state(state[0])
        numpy.random.set_state(state[1])
        random.setstate(state[2])


# ---- Lightning

class LightningModule(nn.Module):
    automatic_optimization = True

    def configure_optimizers(self):
        raise NotImplementedError

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.clip_gradients(optimizer, gradient_clip_val=gradient_clip_val, gradient_clip_algorithm=gradient_clip_algorithm)

    def clip_gradients(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        if gradient_clip_val:
            nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], gradient_clip_val)

    def on_save_checkpoint(self, checkpoint):
        pass

    def on_load_checkpoint(self, checkpoint):
        pass

    def on_train_start(self):
        pass


class Lit(LightningModule):
    """Every fifth batch is left out, and the batches of one step all are, by a training_step() that returns None."""

    def __init__(self, p=0.1):
        super().__init__()
        self.middle = Net(p)  # a name that a network may have

    def training_step(self, batch, i):
        loss = self.middle(*batch)
        return None if i in (2, 3, 5) else loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 0.01, weight_decay=0.1)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5 ** epoch)}


class Fit:
    """As Lightning's Trainer, with automatic optimization. After each epoch it writes best.ckpt, and then last.ckpt."""

    def __init__(self, folder, **more):
        self.folder = str(folder)
        vars(self).update({"accumulate_grad_batches": 2, "gradient_clip_val": 0.5, "gradient_clip_algorithm": None, "precision": "32-true", "saves": True,
                           **more})

    def fit(self, module, ckpt_path=None):
        module.trainer, saved = self, torch.load(ckpt_path) if ckpt_path else None
        if saved:
            module.on_load_checkpoint(saved)
            module.load_state_dict(saved["state_dict"])
        found = module.configure_optimizers()
        optimizer, plan = found["optimizer"], found["lr_scheduler"]
        if saved:
            optimizer.load_state_dict(saved["optimizer"])
            plan.load_state_dict(saved["plan"])
        module.train()
        module.on_train_start()
        for epoch in range(saved["epoch"] if saved else 0, EPOCHS):
            data = batches(epoch)
            for i, batch in enumerate(data):
                def closure(batch=batch, i=i):
                    loss = module.training_step(batch, i)
                    if i % self.accumulate_grad_batches == 0:
                        optimizer.zero_grad(set_to_none=True)  # as PyTorch 2 does by default
                    if loss is not None:
                        (loss / self.accumulate_grad_batches).backward()

                def wrapped():
                    closure()
                    module.configure_gradient_clipping(optimizer, gradient_clip_val=self.gradient_clip_val,
                                                       gradient_clip_algorithm=self.gradient_clip_algorithm)
                if (i + 1) % self.accumulate_grad_batches == 0 or i + 1 == len(data):
                    optimizer.step(wrapped)
                else:
                    closure()
            plan.step()
            if self.saves:
                self.save(module, optimizer, plan, epoch + 1)

    def save(self, module, optimizer, plan, epoch):
        os.makedirs(self.folder, exist_ok=True)
        for name in ("best.ckpt", "last.ckpt"):
            checkpoint = {"state_dict": module.state_dict(), "optimizer": optimizer.state_dict(), "plan": plan.state_dict(), "epoch": epoch}
            module.on_save_checkpoint(checkpoint)
            torch.save(checkpoint, os.path.join(self.folder, "part"))
            self.replace(name)

    def replace(self, name):
        os.replace(os.path.join(self.folder, "part"), os.path.join(self.folder, name))
