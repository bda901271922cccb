#!/usr/bin/python3
"""Measures the loss of a language model, lm_head with cross-entropy, beside PyTorch's; or the memory of a client that computes one.

    bench_vocab.py [--rows N] [--features N] [--words N] [--runs N] [--threads N] [--own] [--cpu]
    bench_vocab.py --memory [--words N] [--features N]

Speed: forward and backward with the gradient of the input, Split and PyTorch by turns; --own: also with the gradient of the weight.
Losses and norms of gradients must agree. --cpu: CPU time instead of wall time. Memory: the peak of a splitc that trains adapters of a
small Llama with random weights over the link, with 4 rows of 256 tokens in one chunk. BUILD: the folder of the programs (build/release).
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from bench_peer import BUILD, Ours, our_env, use_threads


def made(count, seed):
    """Returns the values that made() of bench_vocab.c gives."""
    import numpy as np

    x = (np.arange(count, dtype=np.uint32) + np.uint32(seed)) * np.uint32(2654435761)
    x = ((x ^ x >> np.uint32(15)) * np.uint32(2246822519)) >> np.uint32(8)
    return x.astype(np.float32) / (1 << 24) - np.float32(0.5)


class Theirs:
    def __init__(self, o):
        import torch

        use_threads(o.threads)
        self.clock = time.process_time if o.cpu else time.perf_counter
        self.h = torch.from_numpy(made(o.rows * o.features, 2)).view(o.rows, o.features).requires_grad_()
        self.w = torch.from_numpy(made(o.words * o.features, 1)).view(o.words, o.features).requires_grad_(o.own)
        self.labels = torch.arange(o.rows) * 7919 % o.words

    def run(self):
        from torch.nn import functional

        self.h.grad = self.w.grad = None
        start = self.clock()
        loss = functional.cross_entropy(functional.linear(self.h, self.w), self.labels)
        loss.backward()
        return (self.clock() - start) * 1e3, loss.item(), self.h.grad.double().norm().item()


def speed(o):
    ours = Ours("cpu" if o.cpu else "run", "bench_vocab", *map(str, (o.threads, o.rows, o.features, o.words)),
                *(["own"] if o.own else []))
    theirs = Theirs(o)
    times = []
    for _ in range(o.runs + 1):
        a, b = [float(x) for x in ours.ask()], theirs.run()
        for k in (1, 2):
            if not abs(a[k] - b[k]) <= 1e-5 * abs(b[k]):
                sys.exit(f"bench_vocab.py: {('loss', 'norm')[k - 1]} {a[k]} here, {b[k]} in PyTorch")
        times.append((a[0], b[0]))
    mine, peer = zip(*times[1:])  # the first run warms up
    ratio = statistics.median(a / b for a, b in times[1:])
    print(f"{o.rows} rows, {o.features} features, {o.words} words, {o.threads} threads{', own weight' if o.own else ''}"
          f"{', CPU time' if o.cpu else ''}: ours {statistics.median(mine):.0f} ms ({min(mine):.0f} … {max(mine):.0f}), "
          f"PyTorch {statistics.median(peer):.0f} ms ({min(peer):.0f} … {max(peer):.0f}), ratio {ratio:.2f}; "
          f"loss {a[1]:.6f} and {b[1]:.6f}; {ours.close()}")


CLIENT = """\
model: {{huggingface: {folder}/toy, head: causal_lm, tokens: 257}}
partition: "1:-2"
lora: {{rank: 8, alpha: 16}}
data: {{kind: text, dir: {folder}, tokenizer: {folder}/made, pack: join, max_length: 257, token_cache: false}}
train: {{batch: 4, chunks: 1, epochs: 1, seed: 1, optimizer: {{kind: adamw, lr: 1e-4}}}}
threads: 2
log: {{dir: {folder}/run}}
"""


def write_folder(folder, o):
    os.mkdir(f"{folder}/toy")
    os.mkdir(f"{folder}/made")
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": o.words, "hidden_size": o.features,
              "intermediate_size": o.features, "num_hidden_layers": 3, "num_attention_heads": 32, "num_key_value_heads": 8,
              "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "initializer_range": 0.02,
              "tie_word_embeddings": True, "eos_token_id": 2}
    with open(f"{folder}/toy/config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    subprocess.run([os.path.join(BUILD, "tests/e2e/tools/make_text"), f"{folder}/made"], check=True, stdout=subprocess.DEVNULL)
    for name, lines in (("train", 1500), ("dev", 300)):
        with open(f"{folder}/{name}.txt", "w", encoding="utf-8") as f:
            f.writelines(f"line {i} of a text that says {i * i}, and nothing else\n" for i in range(lines))
    with open(f"{folder}/client.yaml", "w", encoding="utf-8") as f:
        f.write(CLIENT.format(folder=folder))
    with open(f"{folder}/server.yaml", "w", encoding="utf-8") as f:
        f.write(f'listen: tcp://127.0.0.1:0\nstore: ""\ncontrol: {folder}/splits.sock\nlimits: {{memory_bytes: 12 GiB}}\n')


def serve(folder):
    """Starts a server and waits until it says where it listens."""
    server = subprocess.Popen([os.path.join(BUILD, "splits"), "serve", f"{folder}/server.yaml"], stderr=subprocess.PIPE, text=True,
                              env=our_env())
    for line in server.stderr:
        found = re.search(r"serving: .* on (tcp:[^,]*), ", line)
        if found:
            return server, found[1]
    sys.exit("bench_vocab.py: splits ended before it began to serve")


def memory(o):
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, o)
        server, endpoint = serve(folder)
        client = subprocess.Popen([os.path.join(BUILD, "splitc"), "train", f"{folder}/client.yaml", "--fresh", "--set", f"server={endpoint}",
                                   "--set", f"control={folder}/splitc.sock"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True, env=our_env())
        said = client.stderr.read()
        _, status, usage = os.wait4(client.pid, 0)
        server.terminate()
        server.communicate()
        if status:
            sys.exit(said)
        with open(f"{folder}/run/log.jsonl", encoding="utf-8") as f:
            losses = [json.loads(line).get("loss") for line in f if '"step"' in line]
        print(f"{o.words} words, {o.features} features, 4 × 256 tokens: the client's peak is {usage.ru_maxrss / 1024:.0f} MiB; "
              f"losses {losses[:3]}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, standard in (("rows", 224), ("features", 2048), ("words", 128256), ("runs", 5), ("threads", 1)):
        p.add_argument("--" + name, type=int, default=standard)
    for name in ("own", "cpu", "memory"):
        p.add_argument("--" + name, action="store_true")
    o = p.parse_args()
    (memory if o.memory else speed)(o)


if __name__ == "__main__":
    main()
