#!/usr/bin/env python3
"""usage: house.py [--gate] [ROOT]

Measures the structure of the sources beside its aims, and in detail: code by room, functions, circles of files, flags in structs, exports of
headers, comments and width. --gate prints only what breaks a rule, and ends with status 1 where something does.

A file uses another where it names a function or a table that the other defines. A circle is a set of files of one
room that all use each other, directly or through others. A private header is one that only files of its own room
include. scripts/limits has what may be at most; its values may only fall.
"""
import collections
import pathlib
import re
import subprocess
import sys

CIRCLE_MOST, EXPORTS_MOST, BOOLS_MOST, COLUMNS, FILE_MOST, ROW_MOST = 3, 25, 8, 120, 600, 200
SLACK = {"product": 250, "python": 50, "tests": 250, "words": 500, "room": 50}  # how far a limit may be above its measure
ROOMS = ("client", "server", "common", "kernels", "lib", "proto")
CODE = (".c", ".h", ".cu", ".cuh", ".cc", ".def", ".proto")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NAME = re.compile(r"\b[A-Za-z_]\w*\b")
SHARED = re.compile(r"(sl|cu|conf)_")  # how the names of functions begin that other files may use
SHOWN = re.compile(r"^(?!static|typedef|struct \w+ \{|enum \w* ?\{|#|\s|\}|SL_CASE)[A-Za-z_][\w \t*]*?[ *](\w+)\(", re.M)
INLINE = re.compile(r"^static inline [\w \t*]*?[ *](\w+)\(", re.M)
TABLE = re.compile(r"^(?!static|extern|typedef)[A-Za-z_][\w \t*]*?[ *](\w+)(?:\[[^\]]*\])*\s*=", re.M)


def bare(text, strings=True):
    """The text without comments and, unless told otherwise, without strings; lines stay where they are."""
    def blank(m):
        keep = m[0][0] in "\"'" and not strings
        return m[0] if keep else "\n" * m[0].count("\n")
    return TOKEN.sub(blank, text)


class Source:
    def __init__(self, path, root):
        self.name = str(path.relative_to(root))
        self.text = path.read_text()
        self.code = bare(self.text)
        self.lines = sum(1 for line in bare(self.text, strings=False).splitlines() if line.strip())
        self.names = set(NAME.findall(self.code))
        self.includes = re.findall(r'^\s*#\s*include\s*"([^"]+)"', self.text, re.M)

    def room(self):
        part = self.name.split("/")
        return "/".join(part[:2]) if part[0] in ("common", "client", "kernels", "server") and len(part) > 2 else part[0]

    def functions(self):
        """(name, lines) of every function that stands in a .c file: its opening line and its brace at column 0."""
        found, name, first = [], None, 0
        for number, line in enumerate(self.code.splitlines()):
            head = re.match(r"[A-Za-z_][\w \t*]*?[ *](\w+)\(", line)
            if head and not line.rstrip().endswith(";") and not line.startswith(("#", "typedef")):
                name, first = head[1], number
            elif line == "}" and name:
                found.append((name, number - first + 1))
                name = None
        return found

    def shown(self):
        """Functions that a header declares or a .c file defines for others."""
        return {m[1] for m in SHOWN.finditer(self.code)}

    def exports(self):
        """What a header offers: functions, and those that it defines inline."""
        return self.shown() | {m[1] for m in INLINE.finditer(self.code)}

    def defined(self):
        """Functions and tables that a .c file defines for others."""
        return self.shown() | {m[1] for m in TABLE.finditer(self.code)}

    def structs(self):
        """(struct, fields of type bool) of every struct that stands at column 0."""
        for m in re.finditer(r"^struct (\w+) \{\n(.*?)^\};", self.code, re.M | re.S):
            yield m[1], sum(len(f.split(",")) for f in re.findall(r"\bbool\s+([^;()]+);", m[2]))


def circles(uses):
    """Tarjan's strongly connected components of {file: files}, those with more than one file."""
    index, low, stack, on, found, count = {}, {}, [], set(), [], [0]
    sys.setrecursionlimit(10000)

    def visit(v):
        index[v] = low[v] = count[0]
        count[0] += 1
        stack.append(v)
        on.add(v)
        for w in sorted(uses[v]):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            one = []
            while True:
                w = stack.pop()
                on.discard(w)
                one.append(w)
                if w == v:
                    break
            if len(one) > 1:
                found.append(sorted(one))

    for v in sorted(uses):
        if v not in index:
            visit(v)
    return sorted(found, key=len, reverse=True)


def graph(sources):
    """{file: files of its room that it uses}, a .h and its .c being one file."""
    stem = lambda s: re.sub(r"\.(c|h|cu|cuh)$", "", s.name)
    home = {}
    for s in sources:
        if s.name.endswith((".c", ".cu")):
            for f in filter(SHARED.match, s.defined()):
                home.setdefault(f, (stem(s), s.room()))
    uses = collections.defaultdict(set)
    for s in sources:
        if s.name.endswith((".c", ".cu")):
            uses[stem(s)] |= {home[n][0] for n in s.names
                              if n in home and home[n][1] == s.room() and home[n][0] != stem(s)}
    return uses


def private_headers(sources):
    """(header, how many functions it declares) of headers that only their own room includes."""
    seen = collections.defaultdict(set)
    for s in sources:
        for inc in s.includes:
            seen[inc].add(s.room())
    return sorted(((s.name, len(s.exports())) for s in sources
                   if s.name.endswith(".h") and seen[s.name] <= {s.room()}), key=lambda h: -h[1])


def comments(s):
    for m in TOKEN.finditer(s.text):
        if m[0].startswith(("//", "/*")):
            yield s.text.count("\n", 0, m.start()) + 1, m[0]


def share(counts, part):
    return counts[min(len(counts) - 1, int(len(counts) * part))] if counts else 0


def lines_of(path):
    """Lines of code of a script: without blank ones and comments."""
    return sum(1 for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#"))


def sums(sources, root, listed):
    """Lines and words that may only fall. Test code without what generators write (tests/golden has only data beside
    its scripts)."""
    tests = [n for n in listed if n.startswith("tests/") and (root / n).is_file()]
    written = [Source(root / n, root).lines for n in tests if n.endswith(CODE) and not n.startswith("tests/golden/")]
    scripts = [lines_of(root / n) for n in tests if n.endswith((".py", ".sh"))]
    package = [lines_of(root / n) for n in listed if n.startswith("python/split/") and n.endswith(".py")]
    pages = [len((root / n).read_text().split()) for n in listed if n.startswith(("docs/", "README")) and n.endswith(".md")]
    return {"product": sum(s.lines for s in sources), "python": sum(package), "tests": sum(written + scripts),
            "words": sum(pages)}


def measured(sources, root, listed, rings, private):
    """{name of a limit: its value} of all that may have one: sums, of rooms too, and what is above a rule."""
    found = sums(sources, root, listed)
    for s in sources:
        found[f"room {s.room()}"] = found.get(f"room {s.room()}", 0) + s.lines
    found |= {f"circle {r[0]}": len(r) for r in rings if len(r) > CIRCLE_MOST}
    found |= {f"exports {h}": n for h, n in private if n > EXPORTS_MOST}
    found |= {f"file {s.name}": n for s in sources if (n := s.text.count(chr(10))) > FILE_MOST}
    found |= {f"flags {name}": n for s in sources for name, n in s.structs() if n > BOOLS_MOST}
    return found


def read_limits(text):
    """{name: value} of scripts/limits, and the lines that features were granted: {what: sum of "+N product: …"}."""
    limits, granted = {}, collections.Counter()
    for line in text.splitlines():
        if m := re.match(r"\+(\d+) (\w+|room \S+): \S", line):
            granted[m[2]] += int(m[1])
        elif m := re.match(r"(\w.*?)\s+(\d+)$", line):
            limits[m[1]] = int(m[2])
    return limits, granted


def codec_lists(root, listed):
    """Tests that list the codecs: each names at least 7 of the methods in its strings, so a new method may belong there."""
    methods = re.findall(r"^SL_STAGE_ROW\(\w+, \d+, (\w+),", (root / "common/codec/stages.def").read_text(), re.M)
    names = re.compile(r"(?<![\w.])(" + "|".join(methods) + r")\b")
    texts = [(n, (root / n).read_text()) for n in listed if n.startswith("tests/") and n.endswith((".c", ".h", ".py", ".sh", ".def"))]
    return [n for n, text in texts if len({m for s in re.findall(r'"((?:\\.|[^"\\\n])*)"', text) for m in names.findall(s)}) >= 7]


def aims(sources, root, listed, found, rings):
    """(measure, its value, its aim) of what the house is measured by."""
    above = lambda word: sum(name.startswith(word + " ") for name in found)
    middle = "".join(s.code for s in sources if s.name.startswith("server/trunk/middle"))
    return [("circles of files, the largest six", ", ".join(str(len(r)) for r in rings[:6]), "at most 3"),
            (f"private headers above {EXPORTS_MOST} functions", above("exports"), 0),
            (f"structs above {BOOLS_MOST} booleans", above("flags"), 3),
            ("branches on \"has it a group\" in server/trunk/middle*.c",
             len(re.findall(r"\bm->group (?=\?|&&)|\bif \(m->group\)|(?:&&|\|\|) m->group\b(?! *\?)", middle)), 0),
            ("tests that list the codecs", len(codec_lists(root, listed)), 3),
            ("lines of Makefile and mk/", sum((root / n).read_text().count("\n") for n in listed if n == "Makefile" or n.startswith("mk/")), 450),
            ("words of pages", found["words"], 75000), ("lines of the product", found["product"], 111500),
            ("lines of the tests", found["tests"], 89000)]


def against_limits(found, text, before):
    """What is wrong with the measures, given scripts/limits and the same file of the branch that this one goes to."""
    limits, granted = read_limits(text)
    old, _ = read_limits(before)
    wrong = []
    for name, n in sorted(found.items()):
        most = limits.get(name, 0) + granted[name]
        if name.startswith("room ") and name not in limits:
            continue  # only rooms that shall not grow have a limit
        if n > most:
            wrong.append(f"{name}: {n}, and scripts/limits has {most}")
        elif n + SLACK.get(name.split()[0], 0) < most:
            wrong.append(f"{name}: {n}, so lower its {most} in scripts/limits")
    wrong += [f"{name}: is within the rules: take it out of scripts/limits" for name in sorted(set(limits) - set(found))]
    wrong += [f"{name}: its limit rises from {old[name]} to {limits[name]}: a feature has a line of its own, such as "
              f"\"+400 product: attention with relative positions\"" for name in sorted(limits) if limits[name] > old.get(name, limits[name])]
    wrong += [f"{name}: a new exception in scripts/limits" for name in sorted(limits) if old and name not in old]
    return wrong


def committed(root, name):
    """The file as the branch has it to which this one goes; as HEAD has it where that is not known."""
    for ref in ("origin/main", "HEAD"):
        got = subprocess.run(["git", "show", f"{ref}:{name}"], cwd=root, capture_output=True, text=True)
        if got.returncode == 0:
            return got.stdout
    return ""


def main(argv):
    gate = argv[:1] == ["--gate"]
    root = pathlib.Path((argv[1:] if gate else argv)[0] if (argv[1:] if gate else argv) else
                        pathlib.Path(__file__).resolve().parent.parent).resolve()
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                            check=True, capture_output=True, text=True).stdout.split("\0")
    listed = [n for n in listed if n and (root / n).exists()]
    sources = [Source(root / n, root) for n in listed if n.endswith(CODE) and n.startswith(ROOMS)]
    rings = circles(graph(sources))
    private = private_headers(sources)
    found = measured(sources, root, listed, rings, private)
    riddles = [(s.name, line) for s in sources for line, c in comments(s) if re.match(r"(//|/\*\*?)\s*(…|\.\.\.)", c)]
    rows = [line for line in (root / "docs/MAP.md").read_text().splitlines() if line.startswith("|")]
    limits = root / "scripts/limits"
    wrong = against_limits(found, limits.read_text() if limits.exists() else "", committed(root, "scripts/limits"))
    wrong += [f"docs/MAP.md: a row has {len(r)} characters, at most {ROW_MOST}: {r[:60]}" for r in rows if len(r) > ROW_MOST]
    wrong += [f"{f}:{n}: a comment begins with an ellipsis: give it a subject" for f, n in riddles]
    if gate:
        print("\n".join(wrong) or "house: sizes, circles, headers, flags, comments and rows are in order",
              file=sys.stderr if wrong else sys.stdout)
        return 1 if wrong else 0

    print(f"{'measure':60} {'now':>16} {'aim':>9}")
    for name, now, aim in aims(sources, root, listed, found, rings):
        print(f"{name:60} {now:>16} {aim:>9}")
    print()
    by_room = collections.Counter()
    for s in sources:
        by_room[s.room()] += s.lines
    sizes = sorted(n for s in sources for _, n in s.functions())
    wide = sum(len(line.expandtabs(8)) > COLUMNS for s in sources for line in s.text.splitlines())
    print(f"code without blank lines and comments: {found['product']} lines in {len(sources)} files")
    for room, n in sorted(by_room.items()):
        print(f"  {room:18} {n:6}")
    print(f"python/split: {found['python']} lines; tests by hand: {found['tests']}; words in pages: {found['words']}")
    print(f"functions: {len(sizes)}, lines p50 {share(sizes, .5)}, p90 {share(sizes, .9)}, longest {sizes[-1]}")
    print(f"largest circles of files: {', '.join(str(len(r)) for r in rings[:6]) or 'none'}")
    for r in rings[:4]:
        print(f"  {' '.join(r)}")
    print(f"longest row of docs/MAP.md: {max(map(len, rows))} characters; lines of code above {COLUMNS} columns: {wide}")
    print("above a rule, as in scripts/limits:")
    for name, n in sorted(found.items()):
        if " " in name and not name.startswith("room "):
            print(f"  {name:50} {n:4}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
