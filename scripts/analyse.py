#!/usr/bin/env python3
"""usage: analyse.py KNOWN REPORT…

Reads reports of clang's static analyser and prints the findings that the table KNOWN does not have, each with its path. Status 1 if there
is one, or if KNOWN has a row that is no finding any more. A row is: FILE, a tab, the finding, a tab, why it cannot happen."""
import pathlib
import re
import sys

FINDING = re.compile(r"^([^\s:]+):\d+:\d+: warning: (.*)$")


def main():
    rows = [line.split("\t") for line in pathlib.Path(sys.argv[1]).read_text().splitlines() if line and line[0] != "#"]
    known = {(file, finding) for file, finding, _ in rows}
    seen, new = set(), 0
    for report in sys.argv[2:]:
        shown = False
        for line in pathlib.Path(report).read_text().splitlines():
            m = FINDING.match(line)
            if m:
                finding = m[1].removeprefix("./"), m[2]
                shown = finding not in known | seen
                seen.add(finding)
                new += shown
            if shown:
                print(line)
    gone = sorted(known - seen)
    for file, finding in gone:
        print(f"{sys.argv[1]}: remove the row of {file}: {finding}")
    print(f"{len(seen)} findings, {new} unknown")
    return 1 if new or gone else 0


if __name__ == "__main__":
    sys.exit(main())
