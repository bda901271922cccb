#!/usr/bin/env python3
"""usage: mutations.py [--seed N] [--count N] [--skip N] [--seeds N] [--list] [FILE…]

How much of the code the tests hold: changes one condition or constant at a time in common/session, server/group,
server/trunk's table and client/train, or in FILE…, and looks whether a test fails. --seed draws the changes, the same
ones each time; --list prints them only. Each is tried by the unit tests of its room, then by --seeds seeds of the
simulator, then by scripts of its room, as `make check QUICK=1` runs them. tests/mutations-equal says which change nothing. Prints a line for each, and at the end the share that was found. Works in a copy of HEAD; run `make all` first.
"""
import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from house import bare

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ("common/session/*.c", "server/group/*.c", "server/trunk/trunk_*.c", "client/train/*.c")
TESTS = {  # by the folder of a file: unit tests that run its code, in seconds
    "common/session": "session* port* fold mean ends agree checkpoint nonfinite free turns host host_shared",
    "server": "host host_* group_log fold members",
    "client/train": "absent drive recover* schedule training* epoch report summary nonfinite local turns",
}
SUITE = {"server/trunk": ["test_trunk_table"]}
SCRIPTS = {  # the same: scripts, the quickest first
    "common/session": "split_equals_local share_ends_link nonfinite hostile_peers uploads traffic server_killed vertical",
    "server": "share_link share_off share_join share_ends_link share_reports share_stranger share_left share_away vertical",
    "client/train": "split_equals_local share finished_run train_keys before_run nonfinite pause report output status phases "
                    "share_link sweep_and_parity server_killed vertical predict privacy",
}
CHANGES = ((r"(?<![<>=!-])<(?![<=])", "<="), (r"<=", "<"), (r"(?<![<>=!-])>(?![>=])", ">="), (r">=", ">"), (r"==", "!="), (r"!=", "=="),
           (r"&&", "||"), (r"\|\|", "&&"), (r" \+ 1\b", ""), (r" - 1\b", ""), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
           (r"(?<=[( ])!(?=[a-z(])", ""), (r"\+= 1\b", "+= 2"), (r"\+\+(?=;)", "--"))
TEST_S, SIM_S, SCRIPT_S = 60, 600, 600  # a change may make a program wait for ever
ENDLESS = "did not end"


def sites(name):
    """(line, column, end, text in its place) of all changes that `name` can have, outside strings, comments and assertions."""
    for n, line in enumerate(bare((ROOT / name).read_text(), strings=False).split("\n")):
        if line.startswith("#") or "sl_assert" in line or "static const" in line or re.match(r"\s*for \(", line):
            continue
        for pattern, instead in CHANGES:
            for m in re.finditer(pattern, line):
                yield n, m.start(), m.end(), instead


def draw(files, seed, count):
    names = sorted({str(p.relative_to(ROOT)) for f in files for p in ROOT.glob(f)})
    names = [n for n in names if not n.endswith("_check.c")]
    every = [(n, *site) for n in names for site in sites(n)]
    return random.Random(seed).sample(every, min(count, len(every)))


def equal():
    """(file, changed line) of those that change nothing."""
    rows = (line.split(" | ") for line in (ROOT / "tests/mutations-equal").read_text().split("\n") if line and line[0] != "#")
    return {(row[0], row[1]) for row in rows}


def changed(text, line, begin, end, instead):
    lines = text.split("\n")
    lines[line] = lines[line][:begin] + instead + lines[line][end:]
    return "\n".join(lines), lines[line].strip()


def run(command, cwd, seconds):
    """Whether it ended with status 0; what it printed last."""
    try:
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, start_new_session=True)
    except subprocess.TimeoutExpired:
        return False, ENDLESS
    return done.returncode == 0, done.stdout.decode(errors="replace").strip().split("\n")[-1]


class Copy:
    """A working tree of HEAD with a build of its own."""
    def __init__(self, where, seeds):
        self.dir, self.seeds = where, seeds
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "--force", where, "HEAD"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.make("all", "build/release/tests/sim/sim")

    def make(self, *targets):
        args = [a for a in ("CC=ccache gcc",) if subprocess.run(["which", "ccache"], stdout=subprocess.DEVNULL).returncode == 0]
        return run(["make", "-s", f"-j{os.cpu_count()}", "SPLIT_NO_DEPS=1", *args, *targets], self.dir, 1800)

    def tests_of(self, name):
        folder = str(pathlib.Path(name).parent)
        pattern = next(v for k, v in TESTS.items() if folder.startswith(k))
        unit = sorted({f"build/release/tests/unit/{p.stem}" for word in pattern.split() for p in ROOT.glob(f"tests/unit/test_{word}.c")})
        return unit + [f"build/release/tests/suite/{t}" for t in SUITE.get(folder, ())]

    def found_by(self, name):
        """What finds the change that is in the copy: a test, or "compiler"; None: nothing."""
        tests = self.tests_of(name)
        if not self.make("build/release/splitc", "build/release/splits", "build/release/tests/sim/sim", *tests)[0]:
            return "compiler"
        for test in tests:
            good, last = run([f"./{test}"], self.dir, TEST_S)
            if not good:
                return pathlib.Path(test).name + f", {last}" * (last == ENDLESS)
        os.environ["SPLITC"] = f"{self.dir}/build/release/splitc"
        good, last = run(["build/release/tests/sim/sim", "--seeds", str(self.seeds), "--first-bad"], self.dir, SIM_S)
        return f"sim: {last}" if not good else self.script_of(name)

    def script_of(self, name):
        scripts = next(v for k, v in SCRIPTS.items() if name.startswith(k)).split()
        if not self.make("all", "fail")[0]:
            return "compiler"
        for script in scripts:
            if not run(["make", "-s", "check", "QUICK=1", "SPLIT_NO_DEPS=1", f"T={script}.sh"], self.dir, SCRIPT_S)[0]:
                return f"{script}.sh"
        return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--skip", type=int, default=0, help="not the first N of the drawn ones")
    p.add_argument("--seeds", type=int, default=60)
    p.add_argument("--list", action="store_true")
    p.add_argument("files", nargs="*", default=FILES)
    o = p.parse_args()
    changes = draw(o.files, o.seed, o.count)[o.skip:]
    if o.list:
        for name, line, begin, end, instead in changes:
            print(f"{name}:{line + 1}: {changed((ROOT / name).read_text(), line, begin, end, instead)[1]}")
        return 0
    found = tried = 0
    same = equal()
    with tempfile.TemporaryDirectory() as tmp:
        copy = Copy(f"{tmp}/tree", o.seeds)
        for name, *change in changes:
            path = pathlib.Path(copy.dir, name)
            text = path.read_text()
            new, line = changed(text, *change)
            if (name, line) in same:
                print(f"equal  {name}:{change[0] + 1}: {line}", flush=True)
                continue
            path.write_text(new)
            by = copy.found_by(name)
            path.write_text(text)
            tried += by != "compiler"
            found += by not in (None, "compiler")
            print(f"{'LIVES' if by is None else 'found'}  {name}:{change[0] + 1}: {line}  ({by or 'no test'})", flush=True)
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", copy.dir])
    print(f"{found} of {tried} changes were found, {len(changes) - tried} do not compile, or change nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
