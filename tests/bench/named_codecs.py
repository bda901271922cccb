#!/usr/bin/python3
"""What `codec: exact`, `small` and `smallest` cost and save.

    named_codecs.py [--only TASK,…] [--seeds N] [--write]

Trains tasks of learn_peer.py by `splitc train --local`, which passes every tensor through its codec. A line has the mean of the figure on
the test part, its standard error, and how many times fewer bytes the four tensors have than as fp32. --write: docs/results/named-codecs.md.
"""
import argparse
import datetime
import math
import os
import statistics
import subprocess
import sys
import tempfile

import torch

import learn_peer

NAMES = "exact", "small", "smallest"
RESULT = os.path.join(learn_peer.ROOT, "docs", "results", "named-codecs.md")


def fewer(lines):
    directions = [line for line in lines if line["type"] == "summary"][-1]["direction"].values()
    return sum(d["raw_bytes"] for d in directions) / sum(d["payload_bytes"] for d in directions)


def measure(name, seeds, work):
    task, folder = learn_peer.TASKS[name](), os.path.join(work, name)
    os.makedirs(folder)
    task.make(folder)
    rows = []
    for codec in NAMES:
        figures, ratio = [], 0
        for seed in range(1, (seeds or task.seeds) + 1):
            torch.manual_seed(seed)
            lines = learn_peer.run_split(task, task.net(), folder, work, seed, codec)[0]
            figures.append(learn_peer.figure_of(task, lines))
            ratio = fewer(lines)
            print(f"{name} {codec} {seed}: {figures[-1]:.4f}, {ratio:.1f} times fewer", file=sys.stderr)
        error = statistics.stdev(figures) / math.sqrt(len(figures)) if len(figures) > 1 else 0.0
        rows.append(f"| {name} | {task.figure} | {len(figures)} | {codec} | {statistics.mean(figures):.4f} ± {error:.4f} | {ratio:.1f} |")
    return rows


def page(rows):
    commit = subprocess.run(["git", "-C", learn_peer.ROOT, "log", "-1", "--format=%h"], capture_output=True, text=True).stdout.strip()
    return "\n".join([
        "# Codecs by name", "", "    tests/bench/named_codecs.py --write", "",
        "trains tasks of [learning.md](learning.md) with `codec: exact`, `small` and `smallest` (`splitc codecs` prints what they are). "
        "Figures are means of the test part with their standard errors; bytes are those of the four tensors' payloads, beside fp32. "
        "A decoder's are [elsewhere](reproduction.md#curve-decoder-pretrained).", "",
        "| task | figure | runs | codec | mean | times fewer bytes |", "|---|---|---|---|---|---|", *rows, "",
        f"{datetime.date.today()}, commit {commit}.", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(learn_peer.TASKS))
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    os.environ.pop("OPENBLAS_CORETYPE", None)
    with tempfile.TemporaryDirectory() as work:
        rows = [row for name in learn_peer.TASKS if name in args.only.split(",") for row in measure(name, args.seeds, work)]
    text = page(rows)
    print(text)
    if args.write:
        with open(RESULT, "w") as f:
            f.write(text)


if __name__ == "__main__":
    main()
