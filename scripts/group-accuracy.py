#!/usr/bin/env python3
"""usage: group-accuracy.py CIFAR_DIR OUT [--json] [option]…

What a group of clients learns in each mode, beside each client alone and one client that has all data: a split ResNet9 on
CIFAR-10 (CIFAR_DIR: its binary files), in one process each (`splitc train --local`). One row for each way and partition:
test accuracy, bytes that cross the link, rows trained, steps of the optimizer, time.

Every run is trained on as many rows, and a step of the optimizer sees BATCH rows: in `sync` all members together, else one client.
In `rounds` each member takes its steps on a copy, and the copies are averaged after each epoch. A member with a head and tail of its
own is tested with these on the whole test set. The table has the mean of the members, and the least and the most.
With several seeds it has the mean over these, and its standard error: from how far the seeds' means lie apart. A seed decides the
initial weights, the order of samples, their augmentation and the partition.
OUT gets a folder for each run, group-accuracy.json and group-accuracy.md. Runs that are there are not run again. The seeds are run one
behind the other, and the two files are written anew behind each of them.
BUILD is the folder of splitc, build/release. The defaults take about half an hour of one core's time.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPLITC = os.path.join(ROOT, os.environ.get("BUILD", "build/release"), "splitc")
ENV = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}

CONFIG = """
model: {{name: resnet9, classes: 10, image: 32, width: {width}}}
head_end: prep
tail_begin: linear
codec: {codec}
data:
  kind: cifar10
  dir: {data}
  train_files: [data_batch_1.bin]
  train_limit: {train}
  test_limit: {test}
train:
  chunks: 1
  eval_every: 0
  optimizer: {{kind: sgd, lr: {lr}, momentum: 0.9, weight_decay: 0.0005, nesterov: true}}
  schedule: {{kind: cosine}}
threads: 1
"""


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--partitions", default="iid,dirichlet:0.3")
    parser.add_argument("--train", type=int, default=2000, help="images of the training set, at most 10000")
    parser.add_argument("--test", type=int, default=2000, help="images of the test set")
    parser.add_argument("--epochs", type=int, default=10, help="each run is trained on EPOCHS x TRAIN rows")
    parser.add_argument("--batch", type=int, default=64, help="rows of a step")
    parser.add_argument("--width", type=float, default=0.25, help="of the network; 1 is the published one")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--codec", default="quant:8")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many: SEED, SEED + 1, …")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a thread each")
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    if a.batch % a.clients:
        parser.error(f"--batch {a.batch} cannot be divided by {a.clients} clients")
    return a


# ---- what is run

class Run:
    """One call of splitc. `limit`: it is ended by steps, all of whose batches are full; else by epochs."""

    def __init__(self, way, partition, options=(), sets=(), batch=0, limit=0, folders=("",)):
        self.way, self.partition, self.seed = way, partition, 0
        self.name = f"{way} {partition}".strip().replace(",", "").replace(" ", "-").replace(":", "-")
        self.options, self.sets, self.batch, self.limit, self.folders = options, sets, batch, limit, folders


def runs_of(a, seed):
    """Every run of the table with one seed. One client with all data has no partition."""
    steps = a.train * a.epochs // a.batch
    members = [f"member-{k}" for k in range(a.clients)]
    out = [Run("one", "", batch=a.batch, limit=steps)]
    for partition in a.partitions.split(","):
        group = ("--clients", str(a.clients))
        part = f"data.partition={partition}"
        share = a.batch // a.clients
        out += [Run("sync", partition, group, (part, "share.ends=private"), share, steps, members),
                Run("sync, shared ends", partition, group, (part, "share.ends=step"), share, steps, members),
                Run("serial", partition, group, (part, "share.mode=serial", "share.ends=private"), a.batch, 0, members),
                Run("serial, shared ends", partition, group, (part, "share.mode=serial", "share.ends=step"), a.batch, 0, members),
                Run("rounds", partition, group, (part, "share.mode=rounds", "share.ends=private"), a.batch, 0, members),
                Run("rounds, shared ends", partition, group, (part, "share.mode=rounds", "share.ends=round"), a.batch, 0, members)]
        out += [Run(f"alone {k}", partition, (*group, "--alone", str(k)), (part,), a.batch, steps) for k in range(a.clients)]
    for run in out:
        run.seed = seed
        run.name += f"-seed-{seed}" if seed != a.seed else ""
    return out


def command(a, run, folder):
    sets = [f"log.dir={folder}", f"control={folder}.sock", f"train.seed={run.seed}", f"train.batch={run.batch}", *run.sets]
    if run.limit:
        sets += [f"train.max_steps={run.limit}", "train.epochs=1000000", "train.drop_last=true"]
    else:
        sets += [f"train.epochs={a.epochs}"]
    return [SPLITC, "train", f"{a.out}/config.yaml", "--local", "--fresh", *run.options, *[x for s in sets for x in ("--set", s)]]


def run_one(a, run):
    """Its record: what each member did, and how long all of them took."""
    folder = f"{a.out}/{run.name}"
    record = f"{folder}/record.json"
    if os.path.exists(record):
        return json.load(open(record))
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    with open(f"{a.out}/{run.name}.log", "w") as log:
        child = subprocess.Popen(command(a, run, folder), stdout=subprocess.DEVNULL, stderr=log, env=ENV)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{run.name}: exit status {child.returncode}: " + "".join(open(f"{a.out}/{run.name}.log").readlines()[-5:]))
    result = {"way": run.way, "partition": run.partition, "seed": run.seed, "wall_s": time.monotonic() - began, "cpu_s": used.ru_utime + used.ru_stime,
              "members": [member(a, f"{folder}/{sub}") for sub in run.folders]}
    with open(record, "w") as f:
        json.dump(result, f)
    return result


def member(a, folder):
    """What its log says. `samples` of a summary are those of evaluations, too."""
    log = [json.loads(line) for line in open(f"{folder}/log.jsonl")]
    steps, end = [line for line in log if line["type"] == "step"], log[-1]
    evaluations = sum(line["type"] == "epoch" and line["test_acc"] is not None for line in log)
    if end["outcome"] != "finished" or end["test_acc"] is None:
        sys.exit(f"{folder}: the run ended {end['outcome']}, without a test")
    return {"accuracy": end["test_acc"], "up_bytes": sum(s["wire_tx_bytes"] for s in steps),
            "down_bytes": sum(s["wire_rx_bytes"] for s in steps), "rows": end["samples"] - a.test * evaluations, "steps": len(steps)}


# ---- the table

def accuracies(records):
    return [100 * m["accuracy"] for r in records for m in r["members"]]


def row(way, partition, records):
    """Accuracies of all members of all records; of the rest, the mean of the records' sums. Steps are the middle's."""
    members = [m for r in records for m in r["members"]]
    accuracy = accuracies(records)
    by_seed = [statistics.mean(accuracies([r for r in records if r["seed"] == seed])) for seed in sorted({r["seed"] for r in records})]
    mean = lambda key: sum(m[key] for m in members) / len(records)
    steps = [(sum if way.startswith("serial") else max)(m["steps"] for m in r["members"]) for r in records]
    return {"way": way, "partition": partition, "accuracy": statistics.mean(by_seed), "by_seed": by_seed,
            "error": statistics.stdev(by_seed) / len(by_seed) ** 0.5 if len(by_seed) > 1 else None,
            "least": min(accuracy), "most": max(accuracy), "up_bytes": mean("up_bytes"), "down_bytes": mean("down_bytes"), "rows": mean("rows"),
            "steps": round(statistics.mean(steps)), "wall_s": sum(r["wall_s"] for r in records) / len(records),
            "cpu_s": sum(r["cpu_s"] for r in records) / len(records)}


def table(a, records):
    rows = []
    for partition in a.partitions.split(","):
        here = [r for r in records if r["partition"] == partition]
        for way in (w + ends for w in ("sync", "serial", "rounds") for ends in ("", ", shared ends")):
            rows.append(row(way, partition, [r for r in here if r["way"] == way]))
        rows.append(row("each client alone", partition, [r for r in here if r["way"].startswith("alone")]))
    rows.append(row("one client with all data", "", [r for r in records if r["way"] == "one"]))
    return rows


def markdown(rows):
    lines = ["| data | way | test accuracy, % | least to most | MB up | MB down | rows trained | optimizer steps | wall, s | CPU, s |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        spread = "" if r["least"] == r["most"] else f"{r['least']:.1f} to {r['most']:.1f}"
        error = "" if r["error"] is None else f" ± {r['error']:.1f}"
        lines.append(f"| {r['partition'] or 'all'} | {r['way']} | {r['accuracy']:.1f}{error} | {spread} | {r['up_bytes'] / 1e6:.0f} | "
                     f"{r['down_bytes'] / 1e6:.0f} | {r['rows']:.0f} | {r['steps']} | {r['wall_s']:.0f} | {r['cpu_s']:.0f} |")
    return "\n".join(lines) + "\n"


def write(a, records):
    """The table of whole seeds, to both files."""
    rows = table(a, records)
    with open(f"{a.out}/group-accuracy.md", "w") as f:
        f.write(markdown(rows))
    with open(f"{a.out}/group-accuracy.json", "w") as f:
        json.dump({"options": vars(a), "rows": rows}, f, indent=1)
    return rows


def run_seed(a, seed, began):
    todo, records = runs_of(a, seed), []
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run_one, a, run) for run in todo]):
            records.append(future.result())
            r = records[-1]
            print(f"seed {seed}, {len(records)} of {len(todo)}, {time.monotonic() - began:.0f} s: {r['way']} {r['partition'] or 'all data'}: "
                  f"{statistics.mean(accuracies([r])):.1f} % in {r['wall_s']:.0f} s", file=sys.stderr, flush=True)
    return records


def main():
    a = arguments()
    a.data, a.out = os.path.abspath(a.data), os.path.abspath(a.out)
    os.makedirs(a.out, exist_ok=True)
    with open(f"{a.out}/config.yaml", "w") as f:
        f.write(CONFIG.format(**vars(a)))
    records, rows, began = [], [], time.monotonic()
    for seed in range(a.seed, a.seed + a.seeds):
        records += run_seed(a, seed, began)
        rows = write(a, records)
    print(json.dumps({"options": vars(a), "rows": rows}) if a.json else markdown(rows), end="\n" if a.json else "")


main()
