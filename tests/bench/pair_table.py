#!/usr/bin/env python3
"""usage: pair_table.py TIMING.jsonl
Prints the rows of scripts/gpu-pair.sh as a table in Markdown. The columns are those of the published table, and the last one holds
its figure. Medians leave out the first two steps of a row. MB = 10^6 bytes. The average
counts only bytes from client to server, as the published table does."""
import json
import statistics
import sys

PUBLISHED = {  # method: chunks: (total s per batch, computation s, average MB/s)
    "none": {1: (2.47, 0.48, 236.07), 4: (2.15, 0.33, 343.37), 8: (2.07, 0.35, 323.75)},
    "lowrank:3,7": {1: (0.66, 0.56, 20.50), 4: (0.43, 0.35, 32.80), 8: (0.43, 0.37, 31.03)},
    "conv-insert": {1: (0.62, 0.55, 13.92), 4: (0.37, 0.34, 22.52), 8: (0.37, 0.36, 21.27)},
    "quant:8": {8: (0.62, 0.30, None)},
}

print("| method | chunks | rate (wire) | s per batch: median (min – max) | computation client + server, s | average MB/s | "
      "peak client MB/s | peak server MB/s | published: s per batch |")
print("|---|---|---|---|---|---|---|---|---|")
for line in open(sys.argv[1]):
    row = json.loads(line)
    result, steps = row["result"], row["steps"][2:]
    times = [s["t_step_s"] for s in steps]
    wire = sum(d["wire_bytes"] for d in result["directions"])
    raw = sum(d["raw_bytes"] for d in result["directions"])
    published = PUBLISHED.get(row["codec"], {}).get(row["chunks"])
    rate = f"{wire / raw:.4f}"
    average, up, down = (f"{x:.0f}" if x is not None else "–"
                         for x in (result["avg_mb_s"], result["peak_client_mb_s"], result["peak_server_mb_s"]))
    print(f"| {row['codec']} | {row['chunks']} | {rate} | {statistics.median(times):.4f} ({min(times):.4f} – {max(times):.4f}) | "
          f"{result['t_compute_client_per_batch_s']:.3f} + {result['t_compute_server_per_batch_s']:.3f} | {average} | {up} | {down} | "
          f"{published[0] if published else '–'} |")
