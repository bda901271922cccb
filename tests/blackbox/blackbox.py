#!/usr/bin/env python3
"""Trains with the real programs over TCP while a seed's faults happen to them, and checks what the pages promise.

blackbox.py BUILD [--seconds S | --seed N] [--first N] [--jobs N] [--first-bad] [--keep]

It knows docs/ alone, not the sources, nor the simulator: which status means "start it again" (troubleshooting.md), that a
member comes back without a hand (howto-groups.md), and that the list in a summary repeats the run in one process, to the byte.
Faults (faults.py has the means): kill -9, SIGTERM, SIGSTOP and lost files of a member; kill -9 and SIGSTOP of the server;
links that are cut or hold what they carry; networks that lose, refuse or delay packets; hosts that vanish; disks without space
or inodes; clocks that jump, also back while a link's number is lost. Root has networks and disks. What the machine lacks is
said, and left out.
Prints a line for each seed; for one that fails what broke which promise, and the command that repeats it.
Seeds are drawn by their number, but processes and links keep their own time: a seed that failed once may pass again."""
import argparse
import asyncio
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from faults import Clock, Disk, Net, Relay, find_means, send, stop_for

AGAIN = {69, 70, 71, 74, 75}  # troubleshooting.md, "Exit statuses": start it again
STARTS_MOST, RUN_S = 60, 240
STEPS = 40
HOURS = (0, 3, -2, 30, -50, 1500, -1500)  # by which a clock is wrong
STORE_HOURS = tuple(h for h in HOURS if abs(h) < 720)  # of the server: files have the kernel's times, and store_ttl_s is 30 days
LINK_NET = ["pull", "deaf", "mute", "reset", "lossy", "slow", "vanish", "server-vanish"]
TIMED = ("stop", "server-stop", "cut", "hold", "fill", "server-fill", *LINK_NET)
COLOURS = ("red", "green", "blue")


class Broken(Exception):
    """A promise of the pages was broken."""


def draw_share(r, members):
    share = {"mode": r.choice(("sync", "sync", "rounds", "serial")), "least": r.choice((0.9, 0.5, 0, 1)), "unmet": r.choice(("wait", "go_on")),
             "patience_s": r.choice((1, 3))} if members else {}
    if share and r.random() < 0.3:
        share["ends"] = "private"
    if share and share["mode"] == "rounds":
        share["round"] = 5
    if share and share["mode"] == "serial" and not share["least"]:  # does not go (config.md)
        share["least"] = 0.5
    return share


def draw(seed):
    """What a seed trains, and what happens to it: (fraction of the run, fault, whom, seconds, whether the next ones happen meanwhile)."""
    r = random.Random(seed)
    case = {"members": r.choice((0, 2, 3, 3)), "codec": r.choice(("exact", "small", "smallest"))}
    case["share"] = share = draw_share(r, case["members"])
    case["clock"], case["net"] = r.random() < 0.4, r.random() < 0.4
    case["connect_ms"] = r.choice((10000, 1000))
    case["keys"] = r.random() < 0.3 or case["net"]  # beyond loopback both sides need keys (howto-keys.md)

    def faults(kinds, most):
        return [(r.uniform(0.05, 0.95), r.choice(kinds), r.randrange(max(1, case["members"])), r.choice((0.3, 1, 3, 5)), r.random() < 0.4)
                for _ in range(r.randrange(1, most))]

    kinds = ["kill", "term", "stop", "server-kill", "server-stop"] + (LINK_NET if case["net"] else ["cut", "hold"])
    if share and share["least"] < 1:  # else it needs its key (howto-groups.md, "No step without a member")
        kinds.append("lose")
    case["faults"] = faults(kinds, 6)
    if case["clock"]:
        case["faults"] += faults(("clock", "server-clock", "forget"), 4)
    if r.random() < 0.5 and not (share and share["least"] == 1 and "ends" in share):  # 78 may be right there (RELIABILITY.md, "Groups")
        case["faults"] += faults(("fill", "fill", "server-fill"), 4)
    full = {k for _, kind, k, *_ in case["faults"] if kind == "fill"}  # a stop without room for its checkpoint needs a hand (73)
    case["faults"] = sorted((at, "kill" if kind == "term" and k in full else kind, k, *rest) for at, kind, k, *rest in case["faults"])
    return case


def free_port():
    """A port on which nobody listens. It is below the ephemeral ports: no relay is given it, and a restarted server can bind it."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)):
                return port


def tensors(path):
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise Broken(f"{path} is not there, and its run is done") from None
    return data[8 + struct.unpack("<Q", data[:8].ljust(8, b"\0"))[0]:]


class Case:
    def __init__(self, build, seed, dir_, means):
        self.build, self.dir, self.case, self.seed = pathlib.Path(build).resolve(), pathlib.Path(dir_), draw(seed), seed
        self.n, self.port, self.started, self.ended, self.happened = max(1, self.case["members"]), free_port(), {}, {}, 0
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SPLIT", "OPENBLAS_CORE"))} | {"OPENBLAS_NUM_THREADS": "1"}
        sites, fills = range(-1, self.n), means["disk"] and any(kind.endswith("fill") for _, kind, *_ in self.case["faults"])
        self.disk = {k: Disk(self.dir / ("site-server" if k < 0 else f"site-{k}"), seed, fills) for k in sites}
        self.clock = {k: Clock(self.dir / f"clock-{k}", means["clock"]) for k in sites} if self.case["clock"] and means["clock"] else {}
        self.net = Net(f"{os.getpid()}x{seed}", self.n, means) if self.case["net"] and means["net"] else None
        self.was_full, self.meanwhile = set(), []

    # ---- files

    def log_dir(self, k):
        return self.disk[k].path / "run"

    def open(self):
        for disk in self.disk.values():
            disk.open()
        for k in self.clock:
            self.set_clock(k)
        if self.net:
            self.net.open()
        self.write()

    def close(self, keep):
        if self.net:
            self.net.close()
        for k, disk in self.disk.items():
            disk.close(self.dir / f"kept-{k}" if keep else None)

    def write(self):
        r = random.Random(5)
        for part, rows in (("train", 96), ("test", 30)):
            with open(self.dir / f"{part}.csv", "w") as f:
                print("a,b,c,d,kind", file=f)
                for _ in range(rows):
                    x = [r.gauss(0, 1) for _ in range(4)]
                    print(*(f"{v:.4f}" for v in x), COLOURS[(x[0] + x[1] > 0) + (x[2] > 0.3)], sep=",", file=f)
        self.settings = ["server=tcp://127.0.0.1:1", "model.name=mlp", "model.features=4", "model.classes=3", f"data.dir={self.dir}", "data.kind=csv",
                         "data.label=kind", "train.batch=8", f"train.max_steps={STEPS}", "train.epochs=1000", "train.checkpoint_every=5", "train.eval_every=0",
                         "train.optimizer.kind=adam", "train.optimizer.lr=0.003", "partition=1:-1", f"codec={self.case['codec']}", "link.heartbeat_ms=200",
                         "link.timeout_ms=1000", f"link.connect_timeout_ms={self.case['connect_ms']}", "link.retry_ms=50",
                         "link.on_server_lost=wait", "threads=1"]
        if self.case["members"]:
            self.settings += [f"share.{k}={v}" for k, v in self.case["share"].items()]
            self.settings += ["share.group=g", f"share.clients={self.n}", "data.partition=iid"]
        (self.dir / "run.yaml").write_text("")
        (self.dir / "server.yaml").write_text("")
        if self.case["keys"]:
            keys = [self.command("splitc", "keygen", "--out", f"{self.dir}/{k}.key") for k in range(self.n)]
            group = " group=g" if self.case["members"] else ""
            (self.dir / "clients").write_text("".join(f"{key} site-{k}{group}\n" for k, key in enumerate(keys)))
            (self.dir / "server.pub").write_text(self.command("splits", "keygen", "--out", f"{self.dir}/server.key") + "\n")

    def command(self, program, *args):
        done = subprocess.run([self.build / program, *args], capture_output=True, text=True, env=self.env, timeout=RUN_S)
        if done.returncode:
            raise Broken(f"{program} {' '.join(map(str, args))} ended with {done.returncode}: {done.stderr[-600:]}")
        return done.stdout.strip()

    def sets(self, more):
        return [a for s in self.settings + more for a in ("--set", s)]

    # ---- processes

    def inside(self, k):
        """What runs a program in the network of a member, or of the server (-1)."""
        return ["nsenter", f"--net=/run/netns/{self.net.server if k < 0 else self.net.members[k]}"] if self.net else []

    def env_at(self, k):
        return self.env | (self.clock[k].env() if self.clock else {})

    async def serve(self):
        host = "0.0.0.0" if self.net else "127.0.0.1"
        more = [f"listen=tcp://{host}:{self.port}", f"store={self.disk[-1].path}/store", "device=cpu", "threads=1", f"control={self.dir}/s.sock"]
        if self.case["keys"]:
            more += [f"auth.secret_key={self.dir}/server.key", f"auth.clients={self.dir}/clients"]
        with open(self.dir / "server.log", "ab") as log:
            self.server = await asyncio.create_subprocess_exec(*self.inside(-1), self.build / "splits", "serve", self.dir / "server.yaml",
                                                               *[a for s in more for a in ("--set", s)], stdout=log, stderr=log, env=self.env_at(-1))

    async def start(self, k):
        server = f"10.80.{k}.1:{self.port}" if self.net else f"127.0.0.1:{self.relay[k].port}"
        more = [f"log.dir={self.log_dir(k)}", f"server=tcp://{server}", f"control={self.dir}/c{k}.sock"]
        more += [f"share.member={k}"] if self.case["members"] else []
        if self.case["keys"]:
            more += [f"auth.secret_key={self.dir}/{k}.key", f"auth.server_key={self.dir}/server.pub"]
        self.started[k] = self.started.get(k, 0) + 1
        if self.started[k] > STARTS_MOST:
            raise Broken(f"member {k} was started {STARTS_MOST} times, and is not done")
        with open(self.dir / f"run-{k}.log", "ab") as log:
            return await asyncio.create_subprocess_exec(*self.inside(k), self.build / "splitc", "train", self.dir / "run.yaml", "--auto-resume",
                                                        *self.sets(more), stdout=log, stderr=log, env=self.env_at(k))

    async def keep(self, k):
        """As a service does: starts the member until its status says that it is done."""
        while True:
            self.member[k] = await self.start(k)
            status = await self.member[k].wait()
            if status in (0, 80):
                self.ended[k] = status
                return
            if status >= 0 and status not in AGAIN:
                raise Broken(f"member {k} ended with status {status}")
            await asyncio.sleep(0.2)

    async def keep_server(self):
        while True:
            await self.serve()
            await self.server.wait()
            await asyncio.sleep(0.3)

    def steps(self, k):
        try:
            return sum('"type":"step"' in line for line in open(self.log_dir(k) / "log.jsonl", errors="replace"))
        except OSError:
            return 0

    # ---- faults

    async def happen(self):
        for at, kind, k, seconds, meanwhile in self.case["faults"]:
            while max(map(self.steps, range(self.n))) < at * STEPS / (self.n if self.case["share"].get("mode") == "serial" else 1):
                if len(self.ended) == self.n:
                    return
                await asyncio.sleep(0.02)
            self.meanwhile.append(asyncio.ensure_future(self.fault(kind, -1 if kind.startswith("server") else k, seconds)))
            if not meanwhile and not kind.endswith("fill"):
                await self.meanwhile[-1]

    async def fault(self, kind, k, seconds):
        """A fault of the server (-1) or of a member, unless it is done."""
        if k in self.ended:
            return
        self.happened += 1
        process, kind = self.server if k < 0 else self.member[k], kind.removeprefix("server-")
        if kind in ("kill", "lose", "forget", "vanish"):
            if kind == "vanish":
                self.meanwhile += [asyncio.ensure_future(self.spoil("pull", m, seconds)) for m in (range(self.n) if k < 0 else (k,))]
                await asyncio.sleep(0.01)
            send(process, signal.SIGKILL)
            self.set_clock(k, f" {self.happened}")  # the host may have lost it
            if kind == "lose":
                await process.wait()
                shutil.rmtree(self.log_dir(k), ignore_errors=True)
            elif kind == "forget" and self.clock:
                await process.wait()
                self.clock[k].set(min(HOURS))
                (self.log_dir(k) / "link-epoch").unlink(missing_ok=True)
        elif kind == "term":
            send(process, signal.SIGTERM)
        elif kind == "stop":
            await stop_for(process, seconds)
        elif kind == "clock":
            self.set_clock(k, f" {self.happened}")
        elif kind == "fill":
            await self.fill(k, seconds)
        else:
            await self.spoil(kind, k, seconds)

    def set_clock(self, k, when=""):
        if self.clock:
            self.clock[k].set(random.Random(f"{self.seed} {k}{when}").choice(STORE_HOURS if k < 0 else HOURS))

    async def spoil(self, kind, k, seconds):
        change = (lambda on: self.net.spoil(kind, k, on)) if self.net else (lambda on: self.relay[k].spoil(kind, on))
        change(True)
        await asyncio.sleep(seconds)
        change(False)

    async def fill(self, k, seconds):
        if self.disk[k].own:
            self.was_full.add(k)
            self.disk[k].fill()
            await asyncio.sleep(seconds)
            self.disk[k].clear()

    # ---- promises

    def summary(self, k):
        """None: its disk was full, so that the line may be lost (RELIABILITY.md, "A disk that is full or broken")."""
        lines = [json.loads(line) for line in open(self.log_dir(k) / "log.jsonl", errors="replace") if '"summary"' in line]
        if not lines and k in self.was_full:
            return None
        if not lines:
            raise Broken(f"member {k} ended with status {self.ended[k]}, and its log has no summary")
        return lines[-1]

    def check(self):
        more, names = [], [""]
        if self.case["members"]:
            groups = [own["group"] for k in self.ended if (own := self.summary(k))]
            if not groups:
                return
            group = max(reversed(groups), key=lambda g: len(g["absent"]))  # members that end together know unequal parts of the end
            least, parts = self.case["share"]["least"], [m["steps"] / group["steps"] for m in group["members"]]
            short = [k for k, part in enumerate(parts) if part < least - 1e-9]
            for k, status in self.ended.items():
                own = self.summary(k)
                if own and (status == 80) != bool(short) and own["group"]["members"] == group["members"]:
                    raise Broken(f"member {k} ended with status {status}, where the parts of the steps are {parts}, and share.least is {least}")
            if short and self.case["share"]["unmet"] == "wait":
                raise Broken(f"members {short} got less than share.least, which share.unmet: wait does not allow")
            more = ["--clients", str(self.n)] + (["--absent", group["absent"]] if group["absent"] else [])
            names = [f"member-{k}" for k in range(self.n)]
        self.command("splitc", "train", self.dir / "run.yaml", "--local", *self.sets([f"log.dir={self.dir}/local"]), *more)
        for k, name in enumerate(names):
            if tensors(self.log_dir(k) / "model.safetensors") != tensors(self.dir / "local" / name / "model.safetensors"):
                raise Broken(f"member {k}'s model is not that of: splitc train --local {' '.join(more)}")

    async def train(self):
        self.relay, self.member = [Relay(self.port) for _ in range(self.n)], {}
        for relay in self.relay if not self.net else ():
            await relay.open()
        jobs = [asyncio.ensure_future(self.keep(k)) for k in range(self.n)]
        others = [asyncio.ensure_future(self.keep_server()), asyncio.ensure_future(self.happen())]
        try:
            await asyncio.wait_for(asyncio.gather(*jobs), RUN_S)
            for task in [others[-1], *self.meanwhile]:
                if task.done():
                    task.result()  # where the black box itself failed
        except asyncio.TimeoutError:
            raise Broken(f"not done within {RUN_S} s: members {sorted(set(range(self.n)) - set(self.ended))}") from None
        finally:
            for task in jobs + others + self.meanwhile:
                task.cancel()
            for process in [self.server, *self.member.values()]:
                if process.returncode is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                    await process.wait()


def run(build, seed, keep, means):
    """None, or the sentence that says which promise was broken."""
    dir_ = tempfile.mkdtemp(prefix=f"bb{seed}-", dir=os.environ.get("TMPDIR"))
    case = Case(build, seed, dir_, means)
    began, broken = time.monotonic(), None
    try:
        case.open()
        asyncio.run(case.train())
        case.check()
    except Broken as e:
        broken = str(e)
    finally:
        case.close(keep and broken)
        if not (keep and broken):
            shutil.rmtree(dir_, ignore_errors=True)
    if keep and broken:
        broken += f"\n  files: {dir_}"
    what, flags = case.case, (("keys", case.case["keys"]), ("networks", case.net), ("clocks", case.clock))
    about = " ".join([f"{case.n} members" if what["members"] else "alone", *(f"{k}={v}" for k, v in what["share"].items()), f"codec={what['codec']}",
                      f"connect_ms={what['connect_ms']}", *(name for name, on in flags if on)])
    faults = ", ".join(f"{kind}{'' if kind.startswith('server') else f' {k}'} at {at:.0%}{f' for {s} s' if kind in TIMED else ''}{' &' if meanwhile else ''}"
                       for at, kind, k, s, meanwhile in case.case["faults"])
    counts = f"{case.happened} of {len(what['faults'])} happened, {sum(case.started.values())} starts, {time.monotonic() - began:.0f} s"
    return seed, broken, f"{about}; {faults}; {counts}"


def end_on_sigterm(*_):
    """Ends what runs, and leaves neither networks nor disks behind: in a worker by the `finally` of its case."""
    for worker in multiprocessing.active_children():
        worker.terminate()
    sys.exit(75)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--seed", type=int)
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--first-bad", action="store_true", help="end at the first seed that fails")
    p.add_argument("--keep", action="store_true", help="keep the files of seeds that fail")
    o = p.parse_args()
    seeds = [o.seed] if o.seed is not None else range(o.first, 1 << 30)
    signal.signal(signal.SIGTERM, end_on_sigterm)  # workers inherit it
    means, lacks = find_means()
    print(*lacks, sep="\n", end="\n" if lacks else "", flush=True)
    end, bad, good = time.monotonic() + o.seconds, 0, 0
    with concurrent.futures.ProcessPoolExecutor(o.jobs) as pool:
        waiting, seeds = set(), iter(seeds)
        while True:
            while len(waiting) < o.jobs and time.monotonic() < end and (seed := next(seeds, None)) is not None:
                waiting.add(pool.submit(run, o.build, seed, o.keep, means))
            if not waiting:
                break
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for seed, broken, about in (d.result() for d in done):
                bad, good = bad + bool(broken), good + (not broken)
                print(f"seed {seed}: {about}" + (f"\n  BROKEN: {broken}\n  again: {sys.argv[0]} {o.build} --seed {seed} --keep" if broken else ""), flush=True)
            if o.first_bad and bad:
                end = 0
    print("; ".join([f"{good + bad} seeds, {bad} failed", *lacks]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
