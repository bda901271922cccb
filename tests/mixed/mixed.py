#!/usr/bin/env python3
"""Trains configs that are drawn from seeds, and checks four equalities of each: a run over the link learns what one process
learns; killed and resumed it learns the same; `eval` prints the run's last evaluation; `predict`, in each of its forms, has
eval's figures. Prints a config that fails, and the command that repeats it.

mixed.py BUILD SEED COUNT: configs of the seeds from SEED on.
mixed.py BUILD readers: a plain config of each task, with all that reads its model."""
import atexit
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # others, which Split never uses, spin for 26 ms in each process
import draw

OF_PROCESS = 120  # seconds
FIELDS = ("type", "step", "skipped", "epoch", "loss", "acc", "lr", "grad_norm", "train_loss", "train_acc", "test_loss", "test_acc", "test_metrics")


class Failed(Exception):
    pass


def need(what, holds, *more):
    if not holds:
        raise Failed(" ".join([what, *map(str, more)]))


def last(text):
    return (["no word"] + text.split("\n"))[-2 if text.endswith("\n") else -1]


def flat(x):
    return x if isinstance(x, list) else [x]


def near(a, b, far=1e-4):
    return a == b or (a is not None and b is not None and abs(a - b) <= far * max(abs(a), abs(b), 1e-3))


class Run:
    """One config in a folder of its own."""

    def __init__(self, pair, folder, task, keys, rest):
        self.pair, self.folder, self.task, self.keys, self.draw = pair, folder, task, keys, rest
        os.makedirs(folder)
        self.config = self.write("config", keys)
        self.parties, self.why = [], ""

    def write(self, name, keys):
        pathlib.Path(f"{self.folder}/{name}.yaml").write_text(json.dumps(draw.nested({**keys, "server": self.pair.endpoint}), indent=1))
        return f"{self.folder}/{name}.yaml"

    def start(self, name, command, *args, program="splitc", env=None):
        with open(f"{self.folder}/{name}.out", "w") as out, open(f"{self.folder}/{name}.err", "w") as err:
            return subprocess.Popen([f"{self.pair.build}/{program}", command, *args], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    env={**os.environ, **(env or {})})

    def end(self, name, process):
        try:
            status = process.wait(OF_PROCESS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failed(f"{name} hangs")
        return status, *(pathlib.Path(f"{self.folder}/{name}.{end}").read_text() for end in ("out", "err"))

    def call(self, name, command, *args, **more):
        return self.end(name, self.start(name, command, *args, **more))

    def ok(self, name, command, *args, **more):
        status, out, err = self.call(name, command, *args, **more)
        need(f"{name}: status {status}:", status == 0, last(err))
        return out, err

    def lines(self, name, config, *args):
        return [json.loads(x) for x in self.ok(name, "predict", config, "--local", "--json", *args)[0].splitlines()]

    def on(self, name):
        return ["--set", f"log.dir={self.folder}/{name}", "--set", f"control={self.folder}/{name}.sock"]

    def log(self, name):
        return [json.loads(line) for line in pathlib.Path(f"{self.folder}/{name}/log.jsonl").read_text().splitlines()]

    def learned(self, name):
        return [{k: line[k] for k in FIELDS if k in line} for line in self.log(name) if line["type"] in ("step", "epoch")]

    def model(self, name):
        return pathlib.Path(f"{self.folder}/{name}/model.safetensors").read_bytes()

    def same(self, what, name, other, whole=True):
        a, b = self.learned(name), self.learned(other)
        for x, y in zip(a, b):
            need(f"{what} differs:", x == y, x, y)
        need(f"{what}: {len(a)} and {len(b)} lines", len(a) == len(b))
        need(f"{what}: other weights", not whole or self.model(name) == self.model(other))


def eval_figures(run, name, config, *args):
    return json.loads(run.ok(name, "eval", config, "--json", *args)[0].splitlines()[-1])


def same_figures(what, now, then):
    for key in ("test_loss", "test_acc"):
        need(f"{what}: {key} is", now.get(key) == then.get(key), now.get(key), "not", then.get(key))
    for key, value in (then.get("test_metrics") or {}).items():
        need(f"{what}: {key} is", now["test_metrics"].get(key) == value, now["test_metrics"].get(key), "not", value)


def figures_of(kind, lines, logits):
    """What predictions say: name of eval's figure, and its value by the lines."""
    if kind == "classes":
        yield "test_acc", sum(x["label"] == x["class"] for x in lines) / len(lines)
        yield "test_loss", sum(math.log(sum(math.exp(v - max(x["logits"])) for v in x["logits"])) + max(x["logits"]) - x["logits"][x["label"]]
                               for x in logits) / len(logits)
    if kind == "labels":
        each = [(v, y) for x in logits for v, y in zip(x["logits"], x["labels"])]
        yield "test_loss", sum(max(v, 0) - v * y + math.log1p(math.exp(-abs(v))) for v, y in each) / len(each)
    if kind == "numbers":
        miss = [[a - b for a, b in zip(flat(x.get("numbers", x.get("number"))), flat(x["predicted"]))] for x in lines]
        by_target = [math.sqrt(sum(m[k] ** 2 for m in miss) / len(miss)) for k in range(len(miss[0]))]
        yield "rmse", sum(by_target) / len(by_target)


def check_predictions(run, config, said, where):
    """predict on the test set, logits, lines as they come, given files, and an exported model."""
    kind, c = draw.learns(run.keys), run.keys
    if kind == "next":
        return
    if kind == "pixels":
        err = run.ok("predict", "predict", config, "--local", "--out", f"{run.folder}/masks", *where)[1]
        share = float(err.split("accuracy of pixels ")[1].split()[0])
        need("predict: pixels", abs(share - 100 * said["test_acc"]) < 0.006, share, said["test_acc"])
        return
    lines = run.lines("predict", config, *where)
    logits = run.lines("logits", config, "--logits", *where) if kind != "numbers" else []
    for name, value in figures_of(kind, lines, logits):
        was = said.get(name, (said.get("test_metrics") or {}).get(name))
        need(f"predict: {name} is", was is None or near(was, value), value, "eval's is", was)
    values = lambda x: x.get("probabilities", x.get("predicted"))
    compare = lambda what, those: need(f"{what} says something else:", len(those) == len(lines) and all(
        near(a, b) for x, y in zip(those, lines) for a, b in zip(flat(values(x)), flat(values(y)))), those[:1], lines[:1])
    if c["data.kind"] == "csv":
        compare("predict FILE", run.lines("file", config, f"{c['data.dir']}/val.csv", *where))
        with open(f"{c['data.dir']}/val.csv") as f:
            stream = subprocess.run([f"{run.pair.build}/splitc", "predict", config, "--local", "--stream", *where], stdin=f,
                                    capture_output=True, text=True, timeout=OF_PROCESS)
        need("predict --stream:", stream.returncode == 0, last(stream.stderr))
        if not codes_chunks(c):
            compare("predict --stream", [json.loads(x) for x in stream.stdout.splitlines()])
    if not c.get("lora.rank"):
        run.ok("export", "export", config, f"{run.folder}/export.safetensors", *where)
        compare("an exported model", run.lines("exported", config, "--weights", f"{run.folder}/export.safetensors", "--set", "log.dir="))


def codes_chunks(c):
    """Whether a codec draws, or codes a chunk in one range, so that a sample's values depend on those beside it."""
    return any(c.get(f"codec.{way}", "none") not in ("none", "f16", "bf16") for way in ("head_act", "mid_act"))


def check_reading(run, config, name, where):
    """All that reads the model of a run has the figures of the run's last evaluation."""
    epochs = [x for x in run.log(name) if x["type"] == "epoch" and x.get("test_loss") is not None]
    said = eval_figures(run, "eval", config, "--local", *where)
    same_figures("eval", said, epochs[-1])
    if run.draw.random() < 0.3:
        same_figures("eval over the link", eval_figures(run, "eval-link", config, *where), epochs[-1])
    best = f"{run.folder}/{name}/best.safetensors"
    if os.path.exists(best) and not run.keys.get("train.phases"):
        figures = eval_figures(run, "eval-best", config, "--local", "--weights", "best", *where)
        need("eval --weights best is no evaluation of the run:", any(
            figures["test_loss"] == x["test_loss"] and figures.get("test_acc") == x.get("test_acc") for x in epochs), figures["test_loss"])
    check_predictions(run, config, said, where)
    check_going_on(run, name, said)


def check_going_on(run, name, said):
    """A run that begins with the model, and hardly learns, has its figures, where no batch norm moves."""
    if run.keys.get("model.name") != "mlp" or run.parties:
        return
    kept = ("batch", "chunks", "seed", "loss", "precision", "ends_precision")
    keys = {k: v for k, v in run.keys.items() if k.split(".")[0] != "train" or k[len("train."):] in kept}
    keys.update({"model.weights": f"{run.folder}/{name}/model.safetensors", "data.like": f"{run.folder}/{name}/about.json",
                 "train.optimizer.lr": 1e-12, "train.max_steps": 1})
    err = run.ok("on", "train", run.write("on", keys), "--local", *run.on("on"))[1]
    need("training on by data.like, and:", "other-scale" not in err, err)
    if "WARN insert-anew" in err:
        return
    now = [x for x in run.log("on") if x["type"] == "epoch"][-1]
    need("training on from the model: test_loss is", near(now["test_loss"], said["test_loss"], 1e-3), now["test_loss"], "not", said["test_loss"])


def floats(path):
    data = pathlib.Path(path).read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    return struct.unpack(f"<{(len(data) - end) // 4}f", data[end:])


def check_accumulated(run):
    """Of masks with pixels that do not count: two batches of a step learn what one batch of all their pictures does."""
    for loss in ("labels", "dice"):
        keys = {k: v for k, v in run.keys.items() if k.split(".")[0] not in ("codec", "train")}
        keys.update({"train.loss": loss, "train.chunks": 1, "train.seed": 3, "train.optimizer.lr": 1, "train.optimizer.momentum": 0,
                     "train.epochs": 1, "train.checkpoint_every": 0})
        for name, batch, of in (("begin", 8, 0), ("whole", 8, 1), ("parts", 4, 2)):
            more = {"train.batch": batch, "train.accumulate": max(of, 1), "train.max_steps": max(of, 1)}
            if not of:
                more["train.optimizer.lr"] = 1e-12
            run.ok(name, "train", run.write(name, {**keys, **more}), "--local", "--fresh", *run.on(name))
        begin, whole, parts = (floats(f"{run.folder}/{name}/model.safetensors") for name in ("begin", "whole", "parts"))
        moved = max(abs(a - b) for a, b in zip(begin, whole))
        differ = max(abs(a - b) for a, b in zip(parts, whole))
        need(f"accumulated batches of {loss} learn otherwise: by", moved > 0 and differ < 1e-4 * moved, differ, "of", moved)


def check_alone(run):
    """A client without a group."""
    status, out, err = run.call("local", "train", run.config, "--local", *run.on("local"))
    far, _, why = run.call("link", "train", run.config, *run.on("link"))
    need("over the link the status is", far == status, far, "not", status, last(why), last(err))
    if status == 65 and "NaN or Inf" in err:
        return "nonfinite"
    need(f"local: status {status}:", status == 0, last(err))
    run.same("the link", "link", "local")
    steps = sum(x["type"] == "step" for x in run.log("local"))
    at = run.draw.randint(1, max(1, steps))
    kill = {"SPLIT_FAILPOINTS": f"client.apply=kill@{at}"}
    status, _, err = run.call("killed", "train", run.config, *run.on("resumed"), program="fail/splitc", env=kill)
    need(f"kill@{at} of {steps}: status {status}:", status in (-9, 0), last(err))
    run.ok("resumed", "train", run.config, *run.on("resumed"), "--auto-resume")
    run.same(f"killed in step {at} and resumed", "resumed", "local")
    check_reading(run, run.config, "link", run.on("link")[:2])
    return "done"


def check_parties(run, group):
    """Two members: of a vertical group with a table's features and labels, or with a part each of its rows."""
    data = os.path.dirname(run.keys["data.dir"])
    mode = run.draw.choice(["sync", "serial", "rounds"]) if group else "vertical"
    for member, role in enumerate(("features", "labels")):
        keys = {**run.keys, "share.group": os.path.basename(run.folder), "share.clients": 2, "share.mode": mode, "share.member": member}
        keys.update({"data.partition": "iid"} if group else {
            "share.role": role, "data.dir": f"{data}/site-{'AB'[member]}", "data.id": "id", "share.secret": run.pair.key,
            "data.ignore": [x for x in run.keys["data.ignore"] if x != "id" and role == "labels"]})
        run.parties.append(run.write(f"member{member}", keys))
    args = ["--clients", "2"] if group else ["--party", run.parties[1]]
    status, _, err = run.call("one", "train", run.parties[0], "--local", *args, *run.on("one"))
    if status == 78 or (status == 65 and "NaN or Inf" in err):
        run.why = last(err)
        return "refused" if status == 78 else "nonfinite"
    need(f"in one process: status {status}:", status == 0, last(err))
    started = [(f"far{k}", run.start(f"far{k}", "train", config, *run.on(f"far{k}"))) for k, config in enumerate(run.parties)]
    for name, process in started:
        status, _, err = run.end(name, process)
        need(f"{name}: status {status}:", status == 0, last(err))
    if group:
        for k in range(2):
            run.same("a member", f"far{k}", f"one/member-{k}")
        check_reading(run, run.parties[0], "far0", run.on("far0")[:2])
    else:
        check_joined(run, data)
    return "done"


def check_joined(run, data):
    """The site with features predicts by the model of both what that of one process predicts, in the labels' units."""
    run.same("the member with labels", "far1", "one", whole=False)
    run.ok("join", "export", run.parties[0], f"{run.folder}/joined.safetensors", *run.on("far0")[:2], "--join", f"{run.folder}/far1/model.safetensors")
    joined, one = (run.lines("by", run.parties[0], "--weights", f"{run.folder}/{model}.safetensors", f"{data}/site-A/val.csv")
                   for model in ("joined", "one/model"))
    need("A's predictions by the joined model", joined == one, joined[:1], one[:1])
    target, said = run.keys["data.label"], [x["test_metrics"] for x in run.log("far1") if x["type"] == "epoch" and x.get("test_metrics")]
    if len(target) == 1 and said and "rmse" in said[-1]:
        miss = [x["predicted"] - float(row[target[0]]) for x, row in zip(joined, draw.rows("val", 17))]
        rmse = math.sqrt(sum(m * m for m in miss) / len(miss))
        need("A's predictions have other units: rmse", near(rmse, said[-1]["rmse"], 1e-3), rmse, said[-1])


class Pair:
    """A server, and what all configs share."""

    def __init__(self, build, folder):
        self.build, self.folder, self.data = build, folder, f"{folder}/data"
        os.makedirs(self.data)
        draw.write_data(self.data, f"{build}/tests/e2e/tools")
        self.key = f"{folder}/pair.key"
        subprocess.run([f"{build}/splitc", "keygen", "--out", self.key], check=True, capture_output=True)
        open(f"{folder}/server.yaml", "w").close()
        pairs = [y for x in ("listen=tcp://127.0.0.1:0", f"store={folder}/store", "threads=2", "device=cpu", f"control={folder}/s.sock",
                             "limits.sessions=32") for y in ("--set", x)]
        atexit.register(self.close)
        self.server = subprocess.Popen([f"{build}/splits", "serve", f"{folder}/server.yaml", *pairs], stderr=open(f"{folder}/server.err", "w"))
        for _ in range(6000):
            with open(f"{folder}/server.err") as f:
                said = [x for x in f if x.startswith("INFO serving: ")]
            if said or self.server.poll() is not None:
                break
            time.sleep(0.01)
        need("splits does not serve", said)
        self.endpoint = "tcp:" + said[0].split(" tcp:")[1].split(",")[0].split()[0]

    def close(self):
        self.server.terminate()
        self.server.wait()


def give_base(run):
    """Adapters train beside weights that are there: those of a short run without adapters."""
    if not run.keys.get("lora.rank") or run.keys.get("model.weights"):
        return
    base = {k: v for k, v in run.keys.items() if k.split(".")[0] in ("model", "data", "partition", "threads") or k in ("train.batch", "train.seed")}
    status, _, err = run.call("base", "train", run.write("base", {**base, "train.max_steps": 1, "train.eval_every": 0}), "--local", *run.on("base"))
    need(f"base weights: status {status}:", status == 0, last(err))
    run.keys["model.weights"] = f"{run.folder}/base/model.safetensors"
    run.config = run.write("config", run.keys)


def is_valid(run):
    status, _, err = run.call("check", "train", run.config, "--check-config", "--local")
    need(f"--check-config: status {status}:", status in (0, 78, 65), last(err))
    run.why = last(err)
    return status == 0


def check(pair, seed, task, refusals):
    """Draws until a config is valid, and checks it. Returns how it ended."""
    rest, folder = random.Random(f"{seed}"), f"{pair.folder}/{seed if task is None else task}"
    for _ in range(40):
        shutil.rmtree(folder, ignore_errors=True)
        of_task, keys = draw.draw_config(rest, pair.data, task)
        run = Run(pair, folder, of_task, keys, rest)
        try:
            give_base(run)
            if of_task in ("vertical", "group"):
                how = check_parties(run, of_task == "group")
            else:
                how = check_alone(run) if is_valid(run) else "refused"
            if task == "masks":
                check_accumulated(run)
            if how != "refused":
                shutil.rmtree(folder, ignore_errors=True)
                return how
        except Exception as failure:
            raise Failed(f"{type(failure).__name__}: {failure}\nconfig of seed {seed} ({of_task}):\n{json.dumps(keys)}\nrepeat: make mixed SEED={seed} COUNT=1 KEEP=1")
        refusals.append(run.why)
    return "refused"


def main():
    build = os.path.abspath(sys.argv[1])
    readers = sys.argv[2] == "readers"
    items = [(7, task) for task in draw.TASKS] if readers else [(int(sys.argv[2]) + i, None) for i in range(int(sys.argv[3]))]
    folder, counts, refusals, bad = tempfile.mkdtemp(prefix="mixed."), collections.Counter(), [], 0
    pair = Pair(build, folder)
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        tasks = [pool.submit(check, pair, seed, task, refusals) for seed, task in items]
        for done in concurrent.futures.as_completed(tasks):
            try:
                counts[done.result()] += 1
            except Failed as failure:
                bad += 1
                print(f"FAILED: {failure}", flush=True)
    if not os.environ.get("KEEP"):
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(items)} configs: " + ", ".join(f"{n} {how}" for how, n in sorted(counts.items())) + f", {bad} failed; {len(refusals)} drawn anew")
    if os.environ.get("REFUSALS"):
        why = collections.Counter(x.split(".yaml:")[-1].split(": ", 1)[-1][:150] for x in refusals)
        print("\n".join(f"{n} {x}" for x, n in why.most_common(12)))
    return 1 if bad or counts["done"] < len(items) * (1 if readers else 0.8) else 0


if __name__ == "__main__":
    sys.exit(main())
