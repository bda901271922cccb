#!/usr/bin/env python3
"""Finds checks of shell scripts that cannot fail. Under `set -e` bash passes over the failure of A in `A && B`, and over
that of `! A`. Such a list may be a condition, end with `||`, decide what its function or script returns, or lead to a
word that leaves, as in `A && fail`."""
import pathlib
import re
import subprocess
import sys

# what bash reads as one: what is quoted, comments, here-documents
ONE = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|(?<!\S)\#[^\n]*|<<-?(['"]?)(\w+)\1[^\n]*\n(?:.*?\n)?\s*\2$""", re.S | re.M)
GROUP = re.compile(r"\$?\([^()]*\)|\[\[.*?\]\]", re.S)  # subshells, arithmetic, arrays
LIST = re.compile(r"(?:[^;\n]|(?<=&&)\n|(?<=\|)\n)+")
BEFORE = re.compile(r"\s*(?:(?:then|do|else|\{)\s+|\w+\s+\{\s+|[^\s()]*\)\s+)*")  # as of a function or a case
LEAVES = re.compile(r"&&\s*(?:fail|return|continue|break|exit|exec)\b[^&]*$|&&\s*\{")


def blank(m):
    """A word, and a vertical tab for each line that ends in it."""
    return "_" * (m[0] != "\\\n") + "\v" * len(re.findall(r"[\n\v]", m[0]))


def faults(text):
    """(line, list) of every check that cannot fail."""
    text = ONE.sub(blank, text)
    while (less := GROUP.sub(blank, text)) != text:
        text = less
    for m in LIST.finditer(text):
        first = m.start() + BEFORE.match(m[0]).end()
        one = " ".join(text[first:m.end()].split())
        returned = re.match(r"[;\s]*(\}|\Z)", text[m.end():])
        if re.match(r"(if|elif|while|until)\b", one) or "||" in one or returned:
            continue
        if "&&" in one and not LEAVES.search(one) or "&&" not in one and one.startswith("! "):
            yield len(re.findall(r"[\n\v]", text[:first])) + 1, one


def main():
    listed = subprocess.run("git ls-files -co --exclude-standard '*.sh'; git grep -lI --untracked -E '^#!.*[/ ](ba)?sh'", shell=True,
                            capture_output=True, text=True).stdout.splitlines()
    found = [f"{name}:{line}: its failure does not end the script: {one}" for name in sorted(set(listed))
             if pathlib.Path(name).is_file() for line, one in faults(pathlib.Path(name).read_text())]
    for line in found:
        print(line, file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
