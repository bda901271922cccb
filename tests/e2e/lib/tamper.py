"""Tampers with a chained log: tamper.py LOG KIND SEED. Prints which line was changed first."""
import hashlib, json, random, re, sys
path, kind, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng, lines = random.Random(seed), open(path, "rb").read().split(b"\n")[:-1]
at = rng.randrange(len(lines) - 1)
if kind == "last":
    at, kind = len(lines) - 1, "change"
if kind == "change":  # one digit of a figure
    digits = [m.start() for m in re.finditer(rb"[0-9]", lines[at].split(b',"chain"')[0])]
    i = rng.choice(digits)
    lines[at] = lines[at][:i] + bytes([48 + (lines[at][i] - 48 + 1 + rng.randrange(9)) % 10]) + lines[at][i + 1:]
elif kind == "remove":
    del lines[at]
elif kind == "swap":
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
elif kind == "add":  # a line that fits the one before
    before = hashlib.blake2b(lines[at], digest_size=16).hexdigest()
    line = json.loads(lines[at + 1])
    line["chain"] = before
    lines.insert(at + 1, json.dumps(line, separators=(",", ":")).encode())
elif kind == "bare":  # a line without a hash
    lines.insert(at + 1, b'{"type":"audit","step":1,"steps":1,"found":"as agreed","t_s":0,"fetched_bytes":0}')
elif kind == "cut":
    del lines[at + 1:]
open(path, "wb").write(b"".join(line + b"\n" for line in lines))
print(at + 1)
