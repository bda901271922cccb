#!/usr/bin/env python3
"""usage: prose.py [--longest N] [FILE.md | FILE.c | FILE.h]...

Prints how long the sentences of the project are: median, 90th percentile and the longest ones,
for its pages (README.md, docs/), for its messages (strings of the daemons) and for its comments.
Exit status 1 where the 90th percentile of a page, or of all messages, is above 30 words, that of all comments
above 20, or a sentence is above 60. Code, tables and headings of a page are left out, and lines of a comment that
are set in columns. A message is a string of at least four words.
"""
import pathlib
import re
import sys

P90_MOST, COMMENT_P90_MOST, SENTENCE_MOST = 30, 20, 60
ROOT = pathlib.Path(__file__).resolve().parent.parent
# a full stop that ends no sentence
SHORT = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|Fig|no|approx)\.$", re.I)


def words(text):
    return [w for w in text.split() if re.search(r"\w", w)]


def sentences(text):
    """Sentences of one paragraph. A stop counts where a space or the end follows it."""
    part = []
    for token in text.split():
        part.append(token)
        if re.search(r"[.!?][)\"'*_`”’]*$", token) and not SHORT.search(token):
            yield " ".join(part)
            part = []
    if part:
        yield " ".join(part)


def page(path):
    """(line, sentence) of a Markdown file: paragraphs and list items, each by itself."""
    block, first, fence = [], 0, False

    def flush():
        text = " ".join(block)
        text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
        found = [(first, s) for s in sentences(text)]
        block.clear()
        return found

    for number, line in enumerate(path.read_text().splitlines(), 1):
        bare = line.strip()
        if bare.startswith("```"):
            fence = not fence
            yield from flush()
        elif fence or bare.startswith(("|", "#", "<")) or not bare:
            yield from flush()
        else:
            item = re.match(r"([-*+]|\d+\.)\s+", bare)
            if item:
                yield from flush()
                bare = bare[item.end():]
            if not block:
                first = number
            block.append(bare)
    yield from flush()


STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def source(path):
    """(line, sentence) of the strings of a C file; neighbouring literals are one string."""
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), path.read_text(), flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'^\s*#[^\n]*', "", text, flags=re.M)
    joined, start, end = "", 0, None
    for m in STRING.finditer(text):
        between = text[end:m.start()] if end is not None else ""
        if end is not None and re.fullmatch(r"(\s|PRI\w+)*", between):
            joined += m[1]
        else:
            yield from message(joined, start)
            joined, start = m[1], text.count("\n", 0, m.start()) + 1
        end = m.end()
    yield from message(joined, start)


def message(text, line):
    for paragraph in re.split(r"\\n", text):
        for s in sentences(paragraph.replace('\\"', '"').replace("\\t", " ")):
            if len([w for w in words(s) if re.search(r"[a-z]{2}", w)]) >= 4:
                yield line, s


COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/', re.S)


def comments(path):
    """(line, sentence) of the comments of a C file; neighbouring // lines are one comment."""
    text = path.read_text()
    for m in COMMENT.finditer(text):
        if m[0][0] != "/":
            continue
        first, block = text.count("\n", 0, m.start()) + 1, []
        for number, line in enumerate(m[0].splitlines(), first):
            bare = re.sub(r"^\s*(/\*+|\*(?!/)|//)|\*/\s*$", "", line).rstrip()
            column = re.search(r"\S\s{2,}\S|^\s{2,}|=", bare.removeprefix(" "))
            if column or not bare.strip():
                yield from ((first, s) for s in sentences(" ".join(block)))
                block = []
            else:
                if not block:
                    first = number
                block.append(bare.strip())
        yield from ((first, s) for s in sentences(" ".join(block)))


def report(name, found, longest, p90_most=P90_MOST):
    """Prints a line and the longest sentences; whether the bounds hold."""
    if not found:
        return True
    found.sort(key=lambda f: f[0], reverse=True)
    count = [n for n, _, _ in found]
    p50, p90 = count[len(count) // 2], count[len(count) // 10]
    print(f"{name}: {len(count)} sentences, median {p50} words, 90th percentile {p90}, longest {count[0]}")
    for n, where, s in found[:longest]:
        print(f"  {n:3} {where}: {s[:90]}{'…' if len(s) > 90 else ''}")
    return p90 <= p90_most and count[0] <= SENTENCE_MOST


def gather(paths, read):
    found = []
    for path in paths:
        path = path.resolve()
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        found += [(len(words(s)), f"{name}:{line}", s) for line, s in read(path)]
    return found


def main(argv):
    longest = 10
    if argv[:1] == ["--longest"]:
        longest, argv = int(argv[1]), argv[2:]
    if argv:
        good = True
        for name in argv:
            path = pathlib.Path(name)
            good &= report(name, gather([path], page if path.suffix == ".md" else source), longest)
        return 0 if good else 1
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    rooms = [p for room in ("client", "server", "common", "kernels", "lib")
             for p in sorted((ROOT / room).rglob("*.[ch]"))]
    good = all([report(str(p.relative_to(ROOT)), gather([p], page), 0) for p in pages])
    good &= report("pages", gather(pages, page), longest)
    good &= report("messages", gather(rooms, source), longest)
    good &= report("comments", gather(rooms, comments), longest, COMMENT_P90_MOST)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
