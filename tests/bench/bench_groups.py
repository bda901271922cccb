#!/usr/bin/env python3
"""usage: bench_groups.py [--members 1,4,100] [--steps N] [--image-steps N] [--chunk-steps N] [--rounds N] [--only PART,…] [--json]
Measures what a group costs its server, with real daemons on loopback and made-up data.

members  `mlp`, whose middle computes next to nothing, so that the time is the group's. For each number of members (0: one client
         without a group) it prints the server's CPU time per member and step, links included, the step's wall time, the server's peak
         memory, and the memory that the server reserves for a member.
rows     MobileNetV2 at 32x32, where the middle takes most of the time: rows per second of 4 members with 16 rows each, beside one
         client with 64 rows in 4 chunks. The server has one core and the clients the other. They take turns, --rounds (3) times.
         Medians with least and most.
chunks   What `train.chunk_sums` costs: the same network in one process, 64 and 16 rows in 4 chunks, without and with it, a step of each
         in turn. CPU time of a step, medians with least and most. Needs `make build-bench`.
BUILD: the folder of the programs (build/release). Prints Markdown, or JSON.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build/release"))
ENV = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
ROWS = 8
FEATURES = 16

TABLE = """
server: {server}
model: {{name: mlp, features: 16, classes: 2, dropout: 0}}
data: {{kind: csv, dir: {data}, label: kind}}
train: {{batch: 8, epochs: 1, max_steps: {steps}, seed: 1, checkpoint_every: 0, eval_every: 0, optimizer: {{kind: sgd, lr: 0.01}}}}
threads: 1
"""
IMAGES = """
server: {server}
model: {{name: mobilenet_v2, classes: 10, image: 32, form: cifar, dropout: 0}}
partition: "1:-1"
data: {{kind: cifar10, dir: {data}, normalize: cifar10, train_limit: 4096}}
train: {{batch: {batch}, chunks: {chunks}, epochs: 1, max_steps: {steps}, seed: 1, checkpoint_every: 0, eval_every: 0, optimizer: {{kind: sgd, lr: 0.01}}}}
codec: {{head_act: quant:8, mid_act: quant:8, mid_grad: quant:8, head_grad: quant:8}}
threads: 1
"""


class Server:
    def __init__(self, folder, prefix=()):
        self.folder = folder
        self.socket = f"{folder}/splits.sock"
        with open(f"{folder}/server.yaml", "w") as f:
            f.write(f'listen: tcp://127.0.0.1:0\nstore: ""\ndevice: cpu\nthreads: 1\ncontrol: {self.socket}\n'
                    "limits: {sessions: 256, sessions_per_key: 256, connections_per_s: 1000, memory_bytes: 12 GiB}\n")
        self.log = open(f"{folder}/server.log", "w")
        self.process = subprocess.Popen([*prefix, f"{BUILD}/splits", "serve", f"{folder}/server.yaml"], stderr=self.log, env=ENV)
        self.endpoint = None
        while not self.endpoint:
            if self.process.poll() is not None:
                sys.exit(open(f"{folder}/server.log").read())
            for line in open(f"{folder}/server.log"):
                if " on tcp://" in line and "serving" in line:
                    self.endpoint = line.split(" on ")[1].split(",")[0].split(" ")[0].strip()
            time.sleep(0.05)

    def cpu_s(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024

    def status(self):
        out = subprocess.run([f"{BUILD}/splits", "status", "--json", "--control", self.socket], stdout=subprocess.PIPE, env=ENV, check=True)
        return json.loads(out.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def start_client(folder, number, config, sets, prefix=()):
    own = f"{folder}/client-{number}"
    os.makedirs(own, exist_ok=True)
    with open(f"{own}/config.yaml", "w") as f:
        f.write(config)
    options = [f"log.dir={own}", f"control={own}/splitc.sock", *sets]
    return subprocess.Popen([*prefix, f"{BUILD}/splitc", "train", f"{own}/config.yaml", "--fresh",
                             *[x for option in options for x in ("--set", option)]],
                            stdout=subprocess.DEVNULL, stderr=open(f"{own}/log", "w"), env=ENV)


def step_times(folder, number):
    """Returns the seconds that each step took, including the wait for its batch."""
    rows = [json.loads(line) for line in open(f"{folder}/client-{number}/log.jsonl")]
    return [row["t_step_s"] + row["t_data_s"] for row in rows if row["type"] == "step"]


def wait_all(folder, clients):
    for i, client in enumerate(clients):
        if client.wait() != 0:
            for other in clients:
                other.kill()
            sys.exit(f"client {i}: exit status {client.returncode}: " + open(f"{folder}/client-{i}/log").read()[-500:])


def share(members, number):
    return [] if members == 0 else ["share.group=bench", "share.ends=private", f"share.clients={members}", f"share.member={number}"]


def make_table(folder):
    draw = random.Random(1)
    for name in ("train", "test"):
        with open(f"{folder}/{name}.csv", "w") as f:
            f.write(",".join(f"x{i}" for i in range(FEATURES)) + ",kind\n")
            for i in range(4096 if name == "train" else 16):
                f.write(",".join(f"{draw.gauss(i % 2, 1):.3f}" for _ in range(FEATURES)) + f",{i % 2}\n")


def cost_of_members(folder, members, steps):
    """members 0: one client without a group."""
    with Server(folder) as server:
        config = TABLE.format(server=server.endpoint, data=folder, steps=steps)
        clients = [start_client(folder, i, config, share(members, i)) for i in range(max(members, 1))]
        first = last = None
        while any(client.poll() is None for client in clients):
            sessions = server.status()["sessions"]
            if len(sessions) == len(clients) and all(s["step"] > 0 for s in sessions):
                last = (max(s["step"] for s in sessions), server.cpu_s(), time.time())
                first = first or last
                promised = statistics.median(s["memory_bytes"] for s in sessions)
            time.sleep(0.25 if first else 0.02)
        wait_all(folder, clients)
        if first == last:
            sys.exit(f"{steps} steps are too few: the run ended before the server's CPU time could be read twice")
        done, cpu, wall = (b - a for a, b in zip(first, last))
        return {"members": members, "steps": done, "cpu_ms": 1e3 * cpu / done / len(clients), "step_ms": 1e3 * wall / done,
                "peak_bytes": server.peak_bytes(), "promised_bytes": promised}


def rows_per_s(folder, members, steps):
    with Server(folder, ("taskset", "-c", "0")) as server:
        config = IMAGES.format(server=server.endpoint, data=folder, steps=steps, batch=64 // max(members, 1), chunks=1 if members else 4)
        clients = [start_client(folder, i, config, share(members, i), ("taskset", "-c", "1")) for i in range(max(members, 1))]
        wait_all(folder, clients)
    return 64 / statistics.mean(step_times(folder, 0)[3:])


class Steps:
    """A client's steps in one process (bench_train), each when it is asked for."""

    def __init__(self, folder, rows, sums):
        config = f"{folder}/steps-{rows}-{sums}.yaml"
        with open(config, "w") as f:
            f.write(IMAGES.format(server="tcp://127.0.0.1:5570", data=folder, steps=1000000, batch=rows, chunks=4))
        self.child = subprocess.Popen([f"{BUILD}/tests/bench/bench_train", config, "--set", f"train.chunk_sums={sums}"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENV)

    def cpu_ms(self):
        self.child.stdin.write("cpu\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline().split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()


def chunk_sums(folder, steps):
    """Returns rows of a batch → pairs of CPU ms of a step without and with chunk_sums, by turns."""
    result = {}
    for rows in (64, 16):
        with Steps(folder, rows, "false") as usual, Steps(folder, rows, "true") as apart:
            pairs = [(usual.cpu_ms(), apart.cpu_ms()) for _ in range(steps + 2)]
            result[rows] = pairs[2:]
    return result


def make_images(folder):
    draw = random.Random(2)
    for name, count in (("data_batch_1.bin", 4096), ("test_batch.bin", 64)):
        with open(f"{folder}/{name}", "wb") as f:
            for i in range(count):
                f.write(bytes([i % 10]) + draw.randbytes(3072))


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def markdown(result):
    out = ""
    if "members" in result:
        out += "| members | server's CPU, ms by member and step | step, ms | server's peak, MB | promised to a member, kB |\n|---|---|---|---|---|\n"
    for m in result.get("members", []):
        out += (f"| {m['members'] or 'no group'} | {m['cpu_ms']:.2f} | {m['step_ms']:.1f} | {m['peak_bytes'] / 1e6:.0f} | "
                f"{m['promised_bytes'] / 1e3:.0f} |\n")
    if "rows" in result:
        one, four = result["rows"]["one"], result["rows"]["four"]
        out += (f"\nRows per second, one client {statistics.median(one):.1f}, four members {statistics.median(four):.1f} in sum: "
                f"{spread([b / a for a, b in zip(one, four)], 2)} ×\n")
    if "chunks" in result:
        out += "\n| rows in 4 chunks | a step, CPU ms | with chunk_sums | ratio |\n|---|---|---|---|\n"
    for rows, pairs in result.get("chunks", {}).items():
        out += (f"| {rows} | {spread([a for a, _ in pairs], 1)} | {spread([b for _, b in pairs], 1)} | "
                f"{spread([b / a for a, b in pairs], 3)} |\n")
    return out


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--members", default="0,1,4,16,100")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--image-steps", type=int, default=30)
    parser.add_argument("--chunk-steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="members,rows,chunks")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    parts = args.only.split(",")
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        if "members" in parts:
            make_table(folder)
            result["members"] = [cost_of_members(folder, members, args.steps or (2000 if members < 10 else 300))
                                 for members in map(int, args.members.split(","))]
    with tempfile.TemporaryDirectory() as folder:
        make_images(folder)
        if "rows" in parts:
            pairs = [(rows_per_s(folder, 0, args.image_steps), rows_per_s(folder, 4, args.image_steps)) for _ in range(args.rounds)]
            result["rows"] = {"one": [one for one, _ in pairs], "four": [four for _, four in pairs]}
        if "chunks" in parts:
            result["chunks"] = chunk_sums(folder, args.chunk_steps)
    print(json.dumps(result) if args.json else markdown(result), end="\n" if args.json else "")


if __name__ == "__main__":
    main()
