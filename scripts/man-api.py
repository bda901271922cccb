#!/usr/bin/env python3
"""usage: scripts/man-api.py >split.3       (make man)

The manual page of the calls of libsplit, from lib/split.h: its first comment is the description, and each group of
declarations stands with the comment before it. So no second source can fall behind.
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def prose(comment):
    """A comment as paragraphs; lines of "  key  what it is" as a list."""
    out = []
    for line in comment.splitlines():
        line = re.sub(r"^\s*/?\*+/? ?|\s*\*/\s*$", "", line)
        row = re.match(r"  (\S.*?)  +(\S.*)", line)
        if not line.strip():
            out.append(".PP")
        elif row and not line.startswith("    "):
            out += [".TP", f'.B "{escape(row[1])}"', escape(row[2])]
        else:
            out.append(escape(line.strip()))
    return out


def declarations(lines):
    return [".nf", *(f'.B "{escape(s.expandtabs(4))}"' for s in lines), ".fi"]


def groups(body):
    """(comment before, declarations) of what blank lines and comments part."""
    for block in re.split(r"\n\s*\n", body):
        for part in re.split(r"\n(?=/\*)", block):
            comment = re.match(r"/\*.*?\*/", part, re.S)
            rest = part[comment.end():] if comment else part
            lines = [s for s in rest.splitlines() if s.strip()]
            if lines:
                yield comment[0] if comment else "", lines


def main():
    header = (ROOT / "lib/split.h").read_text()
    version = re.search(r'SL_VERSION "(.*)"', (ROOT / "common/base/version.h").read_text())[1]
    about, body = re.match(r"(/\*.*?\*/)(.*)", header, re.S).groups()
    body = "\n".join(s for s in body.splitlines() if not re.match(r'#(?!define SPLIT_API)|extern "C"|}$', s))
    page = [f'.TH SPLIT 3 "" "Split {version}" "Split"',
            ".SH NAME", "split \\- a program's own middle of a network, on a server of Split",
            ".SH SYNOPSIS", ".nf", ".B #include <split.h>", ".PP", ".B cc PROGRAM.c $(pkg\\-config \\-\\-cflags \\-\\-libs split)", ".fi",
            ".SH DESCRIPTION", *prose(about), ".SH CALLS"]
    for comment, lines in groups(body):
        page += declarations(lines) + ([".PP", *prose(comment)] if comment else []) + [".PP"]
    page += [".SH SEE ALSO", ".BR splits (1),", ".BR splitc (1)"]
    print("\n".join(page))


main()
