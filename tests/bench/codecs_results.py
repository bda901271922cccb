#!/usr/bin/python3
"""Makes every table of docs/results/codecs.md: bench_codecs with one thread, on a small tensor, with two threads and with AVX2 and portable
loops, beside PyTorch, and on real tensors.

usage: codecs_results.py [--write] [--reps R] [--cut DIR] [PART …]        (BUILD: the folder of the programs, build/release)

PART: one, small, loops, peer, cut; by default all. They run one after the other. The tables go to stdout; --write: also to
the page, between the marks of each part. A part that cannot run (peer without PyTorch 2, cut without --cut) stays as it is on the page,
and stderr says why. --cut: the folder that dump_cut.py filled.
"""
import argparse
import datetime
import os
import platform
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs/results/codecs.md")
BENCH = os.path.join(os.environ.get("BUILD", "build/release"), "tests/bench/bench_codecs")
BUSY_LOAD = 2.5  # includes one or two threads of this benchmark
SMALL = ["none", "quant:8", "topk:0.1", "sortquant:6+2", "sortquant:9+3"]
TENSORS = {"head_act": "64,112,112,32", "mid_act": "64,7,7,1280", "mid_grad": "64,7,7,1280", "head_grad": "64,112,112,32"}
LOOPS = ["none", "f16", "quant:4", "quant:8", "quant:8,block=512", "quant:8,round=stochastic", "sortquant:6+2", "sortquant:12+4",
         "topk:0.1", "topk:0.2|quant:8", "cells:2|topk:0.1", "terngrad,bucket=512", "qsgd:255,bucket=512", "lowrank:3", "downsample:2"]
CUT = ["quant:4", "sortquant:3+1", "quant:8", "sortquant:6+2", "quant:8,per=channel", "quant:8,block=512", "quant:12",
       "sortquant:9+3", "topk:0.1", "topk:0.2|quant:8", "cells:2|topk:0.1", "lowrank:3", "lowrank:7", "qsgd:255,bucket=512",
       "terngrad,bucket=512", "downsample:2"]
# for PyTorch: blocks are never given back to the kernel, and lie on huge pages, as in bench-peer.sh
MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776", "MALLOC_TOP_PAD_": "268435456",
          "MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
CODEC, RATIO, ERROR, MS, COPIES = 0, 2, 4, 5, 7  # columns of bench_codecs


def run(command, **env):
    base = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "SL_CPU_SIMD")}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=base | env).stdout


def cells(line):
    return [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]


def rows(out):
    """Returns codec → cells of a table of bench_codecs."""
    return {c[0]: c for c in map(cells, out.splitlines()) if c and c[0].startswith("`")}


def pair(cell):
    return [float(x) for x in cell.split(" / ")]


def table(names, body):
    lines = ["| " + " | ".join(r) + " |" for r in [names, *body]]
    return "\n".join([lines[0], "|---" * len(names) + "|", *lines[1:]])


def columns(out, kept):
    """The first line of bench_codecs' output, and the chosen columns of its table."""
    names, body = next(c for c in map(cells, out.splitlines()) if c), rows(out).values()
    return out.splitlines()[0] + "\n\n" + table([names[k] for k in kept], [[c[k] for k in kept] for c in body])


def over_targets(found):
    """Names the rows that cost more copies than the targets: 2 for encoding, 3 for that of top-k and sortquant, 1.2 for decoding."""
    over = []
    for codec, row in found.items():
        tx, rx = pair(row[COPIES])
        if tx > (3 if re.search("topk|sortquant", codec) else 2):
            over.append(f"{codec} encoding {tx:.2f}")
        if rx > 1.2:
            over.append(f"{codec} decoding {rx:.2f}")
    return "Over the targets: " + (", ".join(over) or "none") + "."


class Parts:
    def __init__(self, reps, cut):
        self.reps, self.cut_dir = str(reps), cut

    def bench(self, *args, reps=None, **env):
        return run([BENCH, "--reps", reps or self.reps, *args], **env)

    def one(self):
        out = self.bench()
        return f"bench_codecs --reps {self.reps}", columns(out, [CODEC, RATIO, ERROR, MS, COPIES]) + "\n\n" + over_targets(rows(out))

    def small(self):
        out = self.bench("--shape", TENSORS["mid_act"], *SMALL)
        return f"bench_codecs --reps {self.reps} --shape {TENSORS['mid_act']} {' '.join(SMALL)}", columns(out, [CODEC, MS, COPIES])

    def loops(self):
        few = str(min(int(self.reps), 3))  # up to 0.6 s each
        outs = [self.bench("--threads", "2", *LOOPS), self.bench(*LOOPS, SL_CPU_SIMD="avx2"), self.bench("--portable", *LOOPS, reps=few)]
        two, avx2, portable = map(rows, outs)
        command = (f"bench_codecs --reps {self.reps} --threads 2 SPEC…`, `SL_CPU_SIMD=avx2 bench_codecs --reps {self.reps} SPEC…` and "
                   f"`bench_codecs --reps {few} --portable SPEC…")
        return command, "Encode / decode ms.\n\n" + table(
            ["codec", "two threads", "AVX2", "portable"], [[c, two[c][MS], avx2[c][MS], portable[c][MS]] for c in two])

    def peer(self):
        if subprocess.run(["/usr/bin/python3", "-c", "import torch; assert torch.__version__ >= '2'"], stderr=subprocess.DEVNULL).returncode:
            raise LookupError("no PyTorch 2 (package python3-torch of Debian 13)")
        out = run(["tests/bench/bench_codecs_peer.py", "--reps", "4", "--bench", BENCH], **MALLOC)
        return "bench_codecs_peer.py --reps 4", out.rstrip()

    def cut(self):
        if not self.cut_dir:
            raise LookupError("no --cut DIR (tests/bench/dump_cut.py makes one)")
        body = {}
        for tensor, shape in TENSORS.items():
            raw = os.path.join(self.cut_dir, tensor + ".f32")
            for codec, row in rows(self.bench("--shape", shape, "--raw", raw, *CUT, reps="1")).items():
                body.setdefault(codec, [codec, row[RATIO]]).append(row[ERROR])
        command = "bench_codecs --raw DIR/head_act.f32 --shape 64,112,112,32 SPEC…, and so on"
        return command, "Relative errors, and the real ratio of head_act.\n\n" + table(["codec", "ratio", *TENSORS], body.values())


PARTS = ["one", "small", "loops", "peer", "cut"]


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        name = re.search(r"model name\s*:\s*(.*)", f.read())
    return f"{name[1] if name else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs"


def marks(part):
    return f"<!-- make bench-codecs writes {part} from here -->", "<!-- to here -->"


def put(page, part, text):
    begin, end = marks(part)
    start = page.index(begin) + len(begin)
    return page[:start] + "\n\n" + text + "\n\n" + page[page.index(end, start):]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--reps", type=int, default=9)
    parser.add_argument("--cut", help="the folder that dump_cut.py filled")
    parser.add_argument("part", nargs="*", help=", ".join(PARTS))
    args = parser.parse_args()
    wrong = [p for p in args.part if p not in PARTS]
    if wrong:
        parser.error(f"no such part: {wrong[0]}; there are {', '.join(PARTS)}")
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    parts = Parts(args.reps, args.cut and os.path.abspath(args.cut))
    for part in args.part or PARTS:
        before = os.getloadavg()[0]
        try:
            command, text = getattr(parts, part)()
        except LookupError as why:
            print(f"{part}: left as it is: {why}", file=sys.stderr)
            continue
        loads = f"; load {before:.1f} before, {os.getloadavg()[0]:.1f} after"
        if max(before, os.getloadavg()[0]) > BUSY_LOAD:
            loads += ": a busy machine"
        if part == "cut":  # it has errors only, and no times
            loads = ""
        text = f"`{command}`, {datetime.date.today()}; {machine()}{loads}.\n\n{text}"
        page = put(page, part, text)
        print(text, end="\n\n", flush=True)
    if args.write:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(page)
        print(f"written: {os.path.relpath(PAGE, ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
