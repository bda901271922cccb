#!/usr/bin/env python3
"""usage: by_turns.py OLD NEW [--runs N] [--only steps,codecs,groups]
Compares the speed of two builds of Split, which take turns. OLD and NEW are source trees in which `make all build-bench` has run.
Prints Markdown; each ratio is new over old.

steps    CPU time of whole steps, as in `splitc train --local`, and of an encoder layer: medians of N (9) turns, with the least and the
         largest ratio of a turn
codecs   CPU time of encoding and decoding one tensor with each codec: the least of N turns
groups   CPU time of a server per member and step, without a group and with 4 members: medians of N turns, of 5 at most
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import bench_groups

IMAGENET = ["model.form=imagenet", "model.image=224", "train.batch=8", "data.normalize=imagenet"]
STEPS = [("MobileNetV2, 32², batch 64, quant:8", []),
         ("MobileNetV2, 224², batch 8, quant:8", IMAGENET),
         ("MobileNetV2, 32², batch 64, top-k 0.2", [f"codec.{t}=topk:0.2" for t in ("head_act", "mid_act", "mid_grad", "head_grad")]),
         ("ResNet9, 32², batch 64, quant:8", ["model.name=resnet9"])]
ENCODER = [("layer of RoBERTa-base, 16 rows of 11 to 41 tokens", "11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41"),
           ("layer of RoBERTa-base, 4 rows of 128 tokens", "128x4")]
SHAPE = "32,56,56,24"


class Asked:
    """A program that runs once for each line of its stdin, and prints the milliseconds of CPU time."""

    def __init__(self, tree, program, *args):
        self.child = subprocess.Popen([f"{tree}/build/release/tests/bench/{program}", *args], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=bench_groups.ENV)

    def ask(self):
        try:
            self.child.stdin.write("cpu\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.child.stdout.readline().split()
        return float(answer[0]) if answer else sys.exit(self.child.stderr.read())

    def close(self):
        self.child.communicate()


def say(name, old, new):
    ratios = [b / a for a, b in zip(old, new)]
    print(f"| {name} | {statistics.median(old):.2f} | {statistics.median(new):.2f} | "
          f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |", flush=True)


def encoder_args(tree):
    """Returns the first argument of bench_encoder. Older versions have one layer and take no such argument."""
    with open(f"{tree}/tests/bench/bench_encoder.c") as f:
        return ["roberta"] if "roberta" in f.read(400) else []


def alternate(name, trees, runs, program, *args, first=lambda tree: []):
    both = [Asked(tree, program, *first(tree), *args) for tree in trees]
    times = [[child.ask() for child in (both if turn % 2 else both[::-1])] for turn in range(runs + 2)]
    times = [pair if turn % 2 else pair[::-1] for turn, pair in enumerate(times)][2:]
    for child in both:
        child.close()
    say(name, *zip(*times))


def steps(trees, runs):
    print("\n| step | old, CPU ms | new, CPU ms | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        bench_groups.make_images(folder)
        with open(f"{folder}/config.yaml", "w") as f:
            f.write(bench_groups.IMAGES.format(server="tcp://127.0.0.1:5570", data=folder, steps=1000000, batch=64, chunks=4))
        for name, sets in STEPS:
            alternate(name, trees, runs, "bench_train", f"{folder}/config.yaml", *[x for s in sets for x in ("--set", s)])
    for name, lengths in ENCODER:
        alternate(name, trees, runs, "bench_encoder", "1", lengths, first=encoder_args)


def codec_times(tree):
    """Returns codec → milliseconds of CPU time, encoding and decoding."""
    out = subprocess.run([f"{tree}/build/release/tests/bench/bench_codecs", "--shape", SHAPE, "--cpu-time", "--reps", "3"],
                         stdout=subprocess.PIPE, text=True, env=bench_groups.ENV, check=True).stdout
    rows = [line.replace("\\|", "\0").split("|") for line in out.splitlines() if line.startswith("| `")]
    return {row[1].strip().replace("\0", "\\|"): [float(ms) for ms in row[6].split("/")] for row in rows}


def codecs(trees, runs):
    print(f"\n| codec, [{SHAPE}] | old, encode / decode, ms | new | ratio of both |\n|---|---|---|---|")
    turns = [[codec_times(tree) for tree in trees] for _ in range(runs)]
    for codec in turns[0][0]:
        if codec not in turns[0][1]:
            print(f"| {codec} | | not there | |")
            continue
        old, new = ([min(turn[side][codec][way] for turn in turns) for way in (0, 1)] for side in (0, 1))
        print(f"| {codec} | {old[0]:.2f} / {old[1]:.2f} | {new[0]:.2f} / {new[1]:.2f} | {sum(new) / sum(old):.3f} |")


def groups(trees, runs):
    print("\n| members | old, server's CPU, ms | new | ratio |\n|---|---|---|---|")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench_groups.py")
    turns = [[json.loads(subprocess.run([sys.executable, script, "--json", "--only", "members", "--members", "0,4"], check=True,
                                        stdout=subprocess.PIPE, env={**bench_groups.ENV, "BUILD": f"{tree}/build/release"}).stdout)
              for tree in trees] for _ in range(min(runs, 5))]
    for i, members in enumerate(("no group", "4")):
        say(members, *([turn[side]["members"][i]["cpu_ms"] for turn in turns] for side in (0, 1)))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("old", type=os.path.abspath)
    parser.add_argument("new", type=os.path.abspath)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--only", default="steps,codecs,groups")
    args = parser.parse_args()
    parts = {"steps": steps, "codecs": codecs, "groups": groups}
    for name in args.only.split(","):
        if name not in parts:
            parser.error(f"--only {name}: known are {', '.join(parts)}")
        parts[name]((args.old, args.new), args.runs)


if __name__ == "__main__":
    main()
