"""usage: fronts.py SPLITS FOLDER: split.trainer under loops with the Trainers' orders of calls: what it computes, kills of either side, and
refusals. It starts servers of its own."""
import os
import shutil
import signal
import socket
import sys

import torch

import loops
import split
import split.trainer
from loops import Fit, Lit, Net, Trainer, arguments
from middles import refused

splits, scratch = sys.argv[1:3]
torch.set_num_threads(1)
with socket.create_server(("127.0.0.1", 0)) as s:
    port = s.getsockname()[1]
endpoint = f"tcp://127.0.0.1:{port}"
server = 0


def start():
    """Starts the server, again with the same port and store."""
    global server
    config = os.path.join(scratch, "empty.yaml")
    with open(config, "w"), open(os.path.join(scratch, "fronts.log"), "a") as log:
        words = [f"{k}={v}" for k, v in (("listen", endpoint), ("store", f"{scratch}/fronts"), ("threads", 1), ("device", "cpu"),
                                         ("control", f"{scratch}/fronts.sock"))]
        server = os.posix_spawn(splits, [splits, "serve", config, *(w for pair in words for w in ("--set", pair))], os.environ,
                                file_actions=[(os.POSIX_SPAWN_DUP2, log.fileno(), 2)])


def watched(run):
    """Runs in a child, and starts the server again when it is killed. Returns the child's status, as waitpid()."""
    child = os.fork()
    if child == 0:
        try:
            run()
        except (split.RolledBack, split.MismatchError):  # before the first checkpoint: whoever started the script starts it again
            os._exit(75)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status
        start()


def same(a, b):
    return list(a) == list(b) and all(torch.equal(a[k], b[k]) for k in a)


# ---- Hugging Face's Trainer

def trainer(folder, net, to=endpoint, **more):
    kind = split.trainer.remote(Trainer, "parts.middle", to, example=(8, 16), conf={"link.retry_ms": 20}) if to else Trainer
    return kind(net, arguments(folder, **more))


def check_equal():
    """Two changed lines: losses, norms and weights are those of the Trainer alone, but for rounding."""
    found = []
    for to in (None, endpoint):
        torch.manual_seed(0)
        net = Net(0.0)
        t = trainer(os.path.join(scratch, f"equal-{bool(to)}"), net, to)
        t.train()
        found.append((t.losses, float(t.norm), net.state_dict(), t.evaluate()))
    (ours, norm, state, _), (theirs, other, remote, _) = found
    assert len(ours) == 12 and max(abs(ours[i] - theirs[i]) for i in ours) < 1e-5, found
    assert abs(norm - other) < 1e-5 and list(state) == list(remote)
    assert all(torch.allclose(state[k], remote[k], atol=1e-5) for k in state)


def run(folder, kill):
    """Trains to the end, from the newest complete checkpoint."""
    torch.manual_seed(0)
    t = trainer(os.path.join(scratch, folder), Net())
    kill(t)
    t.train(resume_from_checkpoint=True)
    torch.save(t.model.state_dict(), os.path.join(scratch, f"{folder}.pt"))
    t.split_middle.close(True)


def strike(owner, name, nth, victim, before):
    """Kills the client or the server around the nth call of owner.name."""
    call, count = getattr(owner, name), [0]

    def struck(*args, **kwargs):
        count[0] += 1
        if before and count[0] == nth:
            die(victim)
        found = call(*args, **kwargs)
        if not before and count[0] == nth:
            die(victim)
        return found
    setattr(owner, name, struck)


def die(victim):
    os.kill(os.getpid() if victim == "client" else server, signal.SIGKILL)


R = split.RemoteModule
PLACES = {  # what is called, the how manyeth call, whether before it
    "forward": (lambda t: R, "_begin_call", 15, False), "backward": (lambda t: R, "_give", 12, True),
    "norm": (lambda t: R, "grad_norm", 5, False), "before the middle's step": (lambda t: R, "step", 5, True),
    "behind the middle's step": (lambda t: R, "step", 5, False), "behind the optimizer's step": (lambda t: torch.optim.AdamW, "step", 8, False),
    "before the first save": (lambda t: t, "save_model", 1, True), "behind the weights": (lambda t: t, "save_model", 2, False),
    "behind the middle's state": (lambda t: R, "checkpoint", 2, False), "behind the token": (lambda t: t, "_save_rng_state", 2, False),
    "behind the Trainer's state": (lambda t: t, "_rotate", 2, True), "behind the rotation": (lambda t: t, "_rotate", 2, False),
    "behind the save": (lambda t: t, "_save_checkpoint", 2, False)}


def survives(run, places, found):
    """A run with a kill of either side at each place ends with the weights of an undisturbed one. found(folder): what it goes on from."""
    assert watched(lambda: run("undisturbed", lambda t: None)) == 0
    expected = torch.load(os.path.join(scratch, "undisturbed.pt"))
    shutil.rmtree(os.path.join(scratch, "undisturbed"))
    for victim in ("client", "server"):
        for place, (owner, name, nth, before) in places.items():
            old, where = server, (run.__name__, victim, place)
            status = watched(lambda: run("killed", lambda t: strike(owner(t), name, nth, victim, before)))
            assert (status == signal.SIGKILL) if victim == "client" else (server != old), (where, status)
            if status:
                assert status in (signal.SIGKILL, 75 << 8), (where, status)
                assert found(os.path.join(scratch, "killed")) or "first" in place, (where, "nothing to go on from")
                assert watched(lambda: run("killed", lambda t: None)) == 0, where
            assert same(expected, torch.load(os.path.join(scratch, "killed.pt"))), where
            shutil.rmtree(os.path.join(scratch, "killed"), ignore_errors=True)


def check_kills():
    survives(run, PLACES, lambda folder: trainer(folder, None)._newest())


def check_refused():
    for more, says in (({"fp16": True}, "fp16: the Trainer scales the loss"), ({"n_gpu": 2}, "CUDA_VISIBLE_DEVICES"),
                       ({"hub_strategy": "HubStrategy.CHECKPOINT"}, "it would publish the tokens")):
        refused(split.ConfigError, says, trainer(os.path.join(scratch, "refused"), Net(), **more).train)
    refused(split.ConfigError, "no class of Trainers", split.trainer.remote, dict, "middle", endpoint)
    t = trainer(os.path.join(scratch, "half"), Net())
    t.train()
    folder = os.path.join(scratch, "half", "checkpoint-12")
    assert os.stat(os.path.join(folder, split.trainer.TOKEN)).st_mode & 0o777 == 0o600
    os.unlink(os.path.join(folder, "trainer_state.json"))
    refused(split.ConfigError, "since its save was interrupted", t.train, folder)
    more = trainer(os.path.join(scratch, "more"), Net(), save_total_limit=None)
    more.train()
    more.save_state = lambda folder: 1 / 0  # the save over the last folder, which was complete, is interrupted
    refused(ZeroDivisionError, "", more.train, os.path.join(scratch, "more", "checkpoint-9"))
    assert more._newest().endswith("checkpoint-9")
    old = split.trainer.remote(type("Old", (Trainer,), {"event": lambda self, name: name != "pre_optimizer_step" and Trainer.event(self, name)}),
                               "parts.middle", endpoint, example=(8, 16))
    refused(split.ConfigError, "did not call on_pre_optimizer_step()", old(Net(), arguments(os.path.join(scratch, "old"))).train)
    for more, says in (({"gradient_clip_algorithm": "value"}, "clips it by norm alone"), ({"precision": "16-mixed"}, "use bf16")):
        refused(split.ConfigError, says, loops.Fit(os.path.join(scratch, "fit"), **more).fit, lit(Lit)())


# ---- Lightning

def lit(kind, to=endpoint):
    return split.trainer.remote(kind, "middle.parts.middle", to, example=(8, 16), conf={"link.retry_ms": 20}) if to else kind


def run_lightning(folder, kill):
    torch.manual_seed(0)
    module, fit = lit(Lit)(), Fit(os.path.join(scratch, folder))
    last = os.path.join(fit.folder, "last.ckpt")
    kill(fit)
    while True:
        try:
            fit.fit(module, ckpt_path=last if os.path.exists(last) else None)
            break
        except split.RolledBack:
            if not os.path.exists(last):
                raise
    torch.save(module.state_dict(), os.path.join(scratch, f"{folder}.pt"))
    module.split_middle.close(True)


def check_lightning():
    states = []
    for to in (None, endpoint):
        torch.manual_seed(0)
        module = lit(Lit, to)(0.0)
        for _ in range(2):  # the second one goes on with the weights, and a new optimizer
            Fit(os.path.join(scratch, "fit"), saves=False).fit(module)
        states.append(module.state_dict())
    assert list(states[0]) == list(states[1]) and all(torch.allclose(v, states[1][k], atol=1e-5) for k, v in states[0].items())
    survives(run_lightning, {
        "forward": (lambda t: R, "_begin_call", 12, False), "before the middle's step": (lambda t: R, "step", 5, True),
        "behind the middle's step": (lambda t: R, "step", 5, False), "behind the middle's state": (lambda t: R, "checkpoint", 2, False),
        "before the last file": (lambda t: t, "replace", 4, True), "behind it": (lambda t: t, "replace", 2, False)},
             lambda folder: os.path.exists(os.path.join(folder, "last.ckpt")))


if __name__ == "__main__":
    start()
    try:
        for check in (check_equal, check_kills, check_refused, check_lightning):
            if not sys.argv[3:] or check.__name__ in sys.argv[3:]:
                check()
                print(check.__name__, flush=True)
    finally:
        os.kill(server, signal.SIGKILL)
