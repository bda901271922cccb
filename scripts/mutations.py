#!/usr/bin/env python3
"""usage: make mutations ARGS="[--seed N] [--count N] [--skip N] [--seeds N] [--jobs N] [--no-scripts] [--list] [FILE…]"

How much of the code the tests hold: changes one condition or constant at a time in common/session, server/group,
server/trunk's table and client/train, or in FILE…, and looks whether a test fails. --seed draws the changes, the same
ones each time; --list prints them only. Each is compiled alone and linked before the library. It is tried by the quick
unit tests of its room, the simulator's cases and --seeds of its seeds, slow unit tests, then scripts, until one fails.
Limits are in processor time, since the machine may be busy. tests/mutations-equal says which changes make no difference.
Prints a line for each change, and at the end the share that was found. `make mutations` builds what this needs."""
import argparse
import concurrent.futures
import os
import pathlib
import queue
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys

from house import bare

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ("common/session/*.c", "server/group/*.c", "server/trunk/trunk_*.c", "client/train/*.c")
TESTS = {  # by the folder of a file: unit tests that run its code, in seconds
    "common/session": "session* port* fold mean ends agree checkpoint nonfinite free turns host host_shared host_tokens",
    "server": "host host_* group_log group_clock fold members",
    "client/train": "absent drive* recover* schedule training* epoch report summary nonfinite local turns",
}
SUITE = {"server/trunk": ["test_trunk_table"]}
SLOW = ("test_host_parties", "test_host_members", "test_host_joins", "test_host_shared", "test_trunk_table")  # 10 s and more: after the simulator
SCRIPTS = {  # the same: scripts, the quickest first
    "common/session": "split_equals_local share_ends_link nonfinite script hostile_peers uploads traffic server_killed vertical",
    "server": "share_link share_off share_join share_ends_link share_reports share_stranger share_left share_away vertical",
    "client/train": "split_equals_local share finished_run train_keys before_run nonfinite pause report output status phases "
                    "share_link sweep_and_parity server_killed vertical predict privacy",
}
CHANGES = ((r"(?<![<>=!-])<(?![<=])", "<="), (r"<=", "<"), (r"(?<![<>=!-])>(?![>=])", ">="), (r">=", ">"), (r"==", "!="), (r"!=", "=="),
           (r"&&", "||"), (r"\|\|", "&&"), (r" \+ 1\b", ""), (r" - 1\b", ""), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
           (r"(?<=[( ])!(?=[a-z(])", ""), (r"\+= 1\b", "+= 2"), (r"\+\+(?=;)", "--"))
TEST_S, SEED_S, WALL_S = 60, 20, 900  # a change may make a program run, or wait, for ever
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


def tests_of(name):
    """Programs, as paths below tests/."""
    folder = str(pathlib.Path(name).parent)
    pattern = next(v for k, v in TESTS.items() if folder.startswith(k))
    unit = sorted({f"unit/{p.stem}" for word in pattern.split() for p in ROOT.glob(f"tests/unit/test_{word}.c")})
    return [f"suite/{t}" for t in SUITE.get(folder, ())] + unit


def run(command, env=None, cpu_s=None):
    """Whether it ended with status 0; what it printed last."""
    def limit():
        if cpu_s:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WALL_S,
                              start_new_session=True, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return False, ENDLESS
    return done.returncode == 0, done.stdout.decode(errors="replace").strip().split("\n")[-1]


class Bench:
    """A folder in which one change after the other is compiled, linked and tried. The build itself stays as it is."""
    def __init__(self, number, options):
        self.b = ROOT / os.environ["BUILD"]
        self.dir, self.seeds, self.scripts = self.b / f"mutations/{number}", options.seeds, options.scripts
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        self.cc, self.link, self.libs = (shlex.split(os.environ[k]) for k in ("COMPILE", "LINK", "LIBS"))
        self.sim_link, self.sim_objects, self.fail_objects = (shlex.split(os.environ[k]) for k in ("SIM_LINK", "SIM_OBJECTS", "FAIL_OBJECTS"))
        self.support = shlex.split(os.environ["SUPPORT"])

    def compile(self, source, out, *more):
        at = next(i for i, word in enumerate(self.cc) if word.startswith("-"))
        return run([*self.cc[:at], f"-I{self.dir}", *self.cc[at:], *more, "-c", "-o", self.dir / out, source])[0]

    def linked(self, out, *objects, how=None):
        return run([*(how or self.link), "-Wl,--strip-debug", "-Wl,-z,muldefs", "-o", self.dir / out, *objects, *self.libs])[0]

    def found_by(self, name, text):
        """What finds this text of the file: a test, or "compiler"; None: nothing."""
        source = self.dir / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        points = "SL_FAILPOINT" in text
        try:
            if not self.compile(source, "plain.o") or (points and not self.compile(source, "points.o", "-DSL_FAILPOINTS")):
                return "compiler"
            self.plain, self.points = self.dir / "plain.o", self.dir / ("points.o" if points else "plain.o")
            return (self.by_tests(name, False) or self.by_sim(name) or self.by_tests(name, True) or
                    (self.by_scripts(name) if self.scripts else None))
        finally:
            source.unlink()

    def by_test(self, name, test):
        """The test's name where it fails; or "compiler"."""
        its, program = self.b / f"tests/{test}.o", pathlib.Path(test).name
        if name in its.with_suffix(".d").read_text(): # its own copy of the file
            its = self.dir / f"{program}.o"
            if not self.compile(ROOT / f"tests/{test}.c", its.name):
                return "compiler"
        if not self.linked(program, its, self.plain, *self.support, "-lcmocka"):
            raise SystemExit(f"{name}: {test} cannot be linked")
        good, last = run([self.dir / program], cpu_s=TEST_S)
        (self.dir / program).unlink()
        return None if good else program + f", {last}" * (last == ENDLESS)

    def by_tests(self, name, slow):
        """The slow ones wait for most of their time, so they run side by side."""
        tests = [t for t in tests_of(name) if t.split("/")[1].startswith(SLOW) == slow]
        if not slow:
            return next(filter(None, (self.by_test(name, t) for t in tests)), None)
        with concurrent.futures.ThreadPoolExecutor(len(SLOW)) as pool:
            return next(filter(None, pool.map(lambda t: self.by_test(name, t), tests)), None)

    def by_sim(self, name):
        """The reference comes from splitc without the change, unless only training in one process runs it."""
        splitc = self.b / "splitc"
        if "local" in name:
            splitc = self.dir / "splitc"
            if not self.linked("splitc", self.b / "client/main.o", self.plain):
                raise SystemExit(f"{name}: splitc cannot be linked")
        if not self.linked("sim", self.points, *self.sim_objects, how=self.sim_link):
            raise SystemExit(f"{name}: the simulator cannot be linked")
        good, last = run([self.dir / "sim", "--seeds", str(self.seeds), "--first-bad", "--seconds", str(SEED_S)], {**os.environ, "SPLITC": str(splitc)})
        return None if good else f"sim: {last}"

    def farm(self):
        """A build with the four daemons that have the change; the rest are links."""
        farm = self.dir / "build"
        shutil.rmtree(farm, ignore_errors=True)
        (farm / "fail").mkdir(parents=True)
        for path in self.b.iterdir():
            if path.name not in ("fail", "mutations", "splitc", "splits"):
                (farm / path.name).symlink_to(path)
        for side in ("client", "server"):
            program = f"split{side[0]}"
            if not self.linked(f"build/{program}", self.b / f"{side}/main.o", self.plain) or \
               not self.linked(f"build/fail/{program}", self.b / f"fail/{side}/main.o", self.points, *self.fail_objects):
                raise SystemExit(f"{program} cannot be linked")
        return farm

    def by_scripts(self, name):
        env = {**os.environ, "BUILD": str(self.farm().relative_to(ROOT)), "SPLIT_QUICK": "1", "TEST_TIMEOUT": str(WALL_S)}
        for script in next(v for k, v in SCRIPTS.items() if name.startswith(k)).split():
            if not run(["scripts/run-tests.sh", f"tests/e2e/{script}.sh"], env)[0]:
                return f"{script}.sh"
        return None


def check_unchanged(changes):
    """A test that fails anyhow finds nothing."""
    for test in sorted({t for name, *_ in changes for t in tests_of(name)}):
        good, last = run([ROOT / os.environ["BUILD"] / "tests" / test])
        if not good:
            raise SystemExit(f"tests/{test} fails without any change: {last}")


def try_all(changes, options):
    """(line as printed, whether it was tried, whether it was found) of each, as they end."""
    same, benches = equal(), queue.SimpleQueue()
    for i in range(options.jobs):
        benches.put(Bench(i, options))

    def attempt(change):
        name, *at = change
        text, line = changed((ROOT / name).read_text(), *at)
        where = f"{name}:{at[0] + 1}: {line}"
        if (name, line) in same:
            return f"equal  {where}", False, False
        bench = benches.get()
        try:
            by = bench.found_by(name, text)
        finally:
            benches.put(bench)
        return f"{'LIVES' if by is None else 'found'}  {where}  ({by or 'no test'})", by != "compiler", by not in (None, "compiler")

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(attempt, c) for c in changes]):
            if done.exception():
                pool.shutdown(cancel_futures=True)
            yield done.result()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--skip", type=int, default=0, help="not the first N of the drawn ones")
    p.add_argument("--seeds", type=int, default=60)
    p.add_argument("--jobs", type=int, default=2 * os.cpu_count(), help="tests wait more than they compute")
    p.add_argument("--no-scripts", dest="scripts", action="store_false")
    p.add_argument("--list", action="store_true")
    p.add_argument("--tests", action="store_true", help="prints the names of the unit tests that it runs")
    p.add_argument("files", nargs="*", default=FILES)
    o = p.parse_args()
    changes = draw(o.files, o.seed, o.count)[o.skip:]
    if o.tests:
        print(*sorted({pathlib.Path(t).name for name, *_ in changes for t in tests_of(name)}))
        return 0
    if o.list:
        for name, line, begin, end, instead in changes:
            print(f"{name}:{line + 1}: {changed((ROOT / name).read_text(), line, begin, end, instead)[1]}")
        return 0
    if "COMPILE" not in os.environ:
        p.error('only --list works without `make mutations ARGS="…"`')
    check_unchanged(changes)
    found = tried = 0
    for line, was_tried, was_found in try_all(changes, o):
        print(line, flush=True)
        tried, found = tried + was_tried, found + was_found
    print(f"{found} of {tried} changes were found, {len(changes) - tried} do not compile, or make no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
