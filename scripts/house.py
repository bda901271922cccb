#!/usr/bin/env python3
"""usage: house.py [--gate] [ROOT]

Prints the structure of the sources in figures: what scripts/limits bounds, the sums of lines, and how many files of the
product a commit touches. --gate prints only what breaks a limit or a rule, and ends with status 1 where something does.

A file uses another where it names a function or a table that the other defines. A circle is a set of files of one
room that all use each other, directly or through others. A private header is one that only files of its own room
include. scripts/limits has the values; each may only fall.
"""
import collections
import pathlib
import re
import subprocess
import sys

EXPORTS_MOST, BOOLS_MOST, FUNCTION_MOST, COLUMNS, RADIUS_COMMITS = 25, 8, 80, 120, 100
ROOMS = ("client", "server", "common", "kernels", "lib", "proto")
CODE = (".c", ".h", ".cu", ".cuh", ".cc", ".def", ".proto")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
NAME = re.compile(r"\b[A-Za-z_]\w*\b")
SHARED = re.compile(r"(sl|cu|conf)_")  # how the names of functions begin that other files may use
SHOWN = re.compile(r"^(?!static|typedef|struct \w+ \{|enum \w* ?\{|#|\s|\}|SL_CASE)[A-Za-z_][\w \t*]*?[ *](\w+)\(", re.M)
INLINE = re.compile(r"^static inline [\w \t*]*?[ *](\w+)\(", re.M)
TABLE = re.compile(r"^(?!static|extern|typedef)[A-Za-z_][\w \t*]*?[ *](\w+)(?:\[[^\]]*\])*\s*=", re.M)
PLAIN = re.compile(r"^(?!static|extern|typedef|(?:struct|enum|union) \w+;)[A-Za-z_][\w \t*]*?[ *](\w+)(?:\[[^\]]*\])*;", re.M)
MADE = re.compile(r"^[A-Z][A-Z0-9_]*\(|^#define|^#include \"[^\"]*(?:\.def|/body_\w+\.h)\"", re.M)  # definitions by a macro or a body


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
    """Lines and words by kind. Test code without what generators write (tests/golden has only data beside its scripts)."""
    tests = [n for n in listed if n.startswith("tests/") and (root / n).is_file()]
    written = [Source(root / n, root).lines for n in tests if n.endswith(CODE) and not n.startswith("tests/golden/")]
    scripts = [lines_of(root / n) for n in tests if n.endswith((".py", ".sh"))]
    package = [lines_of(root / n) for n in listed if n.startswith("python/split/") and n.endswith(".py")]
    pages = [len((root / n).read_text().split()) for n in listed if n.startswith(("docs/", "README")) and n.endswith(".md")]
    return {"product": sum(s.lines for s in sources), "python": sum(package), "tests": sum(written + scripts),
            "words": sum(pages)}


def unnamed(sources):
    """.c files that define nothing which another source names. A name may also stand in a string (dlsym), or be pasted
    from a prefix and a row of a table (sl_source_##name)."""
    seen = collections.Counter(n for s in sources for n in set(NAME.findall(bare(s.text, strings=False))))
    prefixes = tuple({p for s in sources for p in re.findall(r"\b(\w+_)##", s.code)})
    named = lambda d: seen[d] > 1 or any(d.startswith(p) and seen[d[len(p):]] for p in prefixes)
    found = []
    for s in sources:
        if s.name.endswith((".c", ".cu")) and not s.name.endswith("/main.c"):
            defines = s.defined() | set(PLAIN.findall(s.code))
            if not (any(map(named, defines)) if defines else MADE.search(s.text)):
                found.append(s.name)
    return found


def rooms_of(sources):
    """{room: rooms that its files include}"""
    home = {s.name: s.room() for s in sources}
    uses = collections.defaultdict(set)
    for s in sources:
        uses[s.room()] |= {home[i] for i in s.includes if i in home} - {s.room()}
    return uses


def floors(uses, rings):
    """How many rooms lie above each other: the longest path of includes. Rooms of a circle count as one."""
    in_ring = {r: tuple(ring) for ring in rings for r in ring}
    height = {}

    def above(r):
        if r not in height:
            height[r] = 0  # a circle ends here
            height[r] = 1 + max((above(u) for u in uses[r] if in_ring.get(u) != in_ring.get(r, r)), default=0)
        return height[r]
    return max(map(above, list(uses)), default=0)


def radius(root):
    """Files of the product that each of the last commits touches, sorted; moves do not count."""
    log = subprocess.run(["git", "log", "--no-merges", "-n", str(5 * RADIUS_COMMITS), "-M", "--diff-filter=ACDM", "--name-only",
                          "--format=%x00"], cwd=root, capture_output=True, text=True).stdout
    files = [[f for f in c.split("\n") if f.startswith(ROOMS) and f.endswith(CODE)] for c in log.split("\0")]
    return sorted(len(f) for f in [f for f in files if f][:RADIUS_COMMITS])


def measured(sources, root, listed, rings, private, rows):
    """{name of a limit: its value}"""
    functions = [n for s in sources for _, n in s.functions()]
    bools = [n for s in sources for _, n in s.structs()]
    exports = [n for _, n in private]
    of_rooms = circles(rooms_of(sources))
    most = lambda values: max(values, default=0)
    above = lambda values, rule: sum(v > rule for v in values)
    return {"function_lines": most(functions), f"functions_above_{FUNCTION_MOST}": above(functions, FUNCTION_MOST),
            "file_lines": most(s.text.count("\n") for s in sources), "circle_files": most(map(len, rings)),
            "rooms_in_circles": sum(map(len, of_rooms)), "header_functions": most(exports),
            f"headers_above_{EXPORTS_MOST}": above(exports, EXPORTS_MOST), "struct_booleans": most(bools),
            f"structs_above_{BOOLS_MOST}": above(bools, BOOLS_MOST), "map_row_characters": most(map(len, rows))}


def read_limits(text):
    """{name: value} of scripts/limits."""
    return {m[1]: int(m[2]) for m in re.finditer(r"^(\w+)[ \t]+(\d+)$", text, re.M)}


def codec_lists(root, listed):
    """Tests that list the codecs: each names at least 7 of the methods in its strings, so a new method may belong there."""
    methods = re.findall(r"^SL_STAGE_ROW\(\w+, \d+, (\w+),", (root / "common/codec/stages.def").read_text(), re.M)
    names = re.compile(r"(?<![\w.])(" + "|".join(methods) + r")\b")
    texts = [(n, (root / n).read_text()) for n in listed if n.startswith("tests/") and n.endswith((".c", ".h", ".py", ".sh", ".def"))]
    return [n for n, text in texts if len({m for s in re.findall(r'"((?:\\.|[^"\\\n])*)"', text) for m in names.findall(s)}) >= 7]


def against_limits(found, text, before):
    """What is wrong with the measures, given scripts/limits and the same file of the branch that this one goes to."""
    limits, old = read_limits(text), read_limits(before)
    wrong = []
    for name, n in found.items():
        if n > limits.get(name, 0):
            wrong.append(f"{name}: {n}, and scripts/limits has {limits.get(name, 0)}: make it smaller")
        elif limits[name] > old.get(name, limits[name]):
            wrong.append(f"{name}: its limit rises from {old[name]} to {limits[name]}")
    return wrong + [f"{name}: scripts/limits has it, and nothing measures it" for name in sorted(set(limits) - set(found))]


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
    riddles = [(s.name, line) for s in sources for line, c in comments(s) if re.match(r"(//|/\*\*?)\s*(…|\.\.\.)", c)]
    rows = [line for line in (root / "docs/MAP.md").read_text().splitlines() if line.startswith("|")]
    found = measured(sources, root, listed, rings, private, rows)
    limits = root / "scripts/limits"
    wrong = against_limits(found, limits.read_text() if limits.exists() else "", committed(root, "scripts/limits"))
    wrong += [f"{f}:{n}: a comment begins with an ellipsis: give it a subject" for f, n in riddles]
    wrong += [f"{f}: no other source names what it defines: remove it" for f in unnamed(sources)]
    if gate:
        print("\n".join(wrong) or "house: limits, comments and unused files are in order", file=sys.stderr if wrong else sys.stdout)
        return 1 if wrong else 0
    show(sources, root, listed, found, rings, private)
    return 0


def show(sources, root, listed, found, rings, private):
    limits = read_limits((root / "scripts/limits").read_text())
    print(f"{'limit':24} {'now':>6} {'at most':>8}")
    for name, n in found.items():
        print(f"{name:24} {n:6} {limits.get(name, 0):8}")
    for s in sources:
        for name, n in s.functions():
            if n > FUNCTION_MOST:
                print(f"  {n:3} lines: {name}, {s.name}")
        for name, n in s.structs():
            if n > BOOLS_MOST:
                print(f"  {n:3} booleans: struct {name}, {s.name}")
    for name, n in private:
        if n > EXPORTS_MOST:
            print(f"  {n:3} functions: {name}")
    uses = rooms_of(sources)
    print(f"\nrooms: {len(uses)} on {floors(uses, circles(uses))} floors")
    for ring in circles(uses):
        print(f"  include each other: {' '.join(ring)}")
    touched = radius(root)
    if touched:
        print(f"radius: of the last {len(touched)} commits that change the product, files each: "
              f"p50 {share(touched, .5)}, p90 {share(touched, .9)}")
    sizes = sorted(n for s in sources for _, n in s.functions())
    wide = sum(len(line.expandtabs(8)) > COLUMNS for s in sources for line in s.text.splitlines())
    print(f"functions: {len(sizes)}, lines p50 {share(sizes, .5)}, p90 {share(sizes, .9)}; circles of files: {len(rings)}; "
          f"tests that list the codecs: {len(codec_lists(root, listed))}; lines above {COLUMNS} columns: {wide}")
    total = sums(sources, root, listed)
    by_room = collections.Counter()
    for s in sources:
        by_room[s.room()] += s.lines
    print(f"\nlines without blank ones and comments: product {total['product']} in {len(sources)} files, python/split "
          f"{total['python']}, tests {total['tests']}; words in pages: {total['words']}")
    for room, n in sorted(by_room.items()):
        print(f"  {room:18} {n:6}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
