#!/usr/bin/env python3
"""usage: tests/golden/leak_page.py FOLDER TEXT…
Checks FOLDER/leak.html: well-formed, loads nothing, has no script and each TEXT; has each figure of leak.json, as it should
be printed, and no others.
"""
import json
import re
import sys
import xml.etree.ElementTree as ET

folder, texts = sys.argv[1], sys.argv[2:]
source = open(f"{folder}/leak.html", encoding="utf-8").read()
page = ET.fromstring(source)
shown = "".join(page.itertext())
found = json.load(open(f"{folder}/leak.json"))
rows = {(r.get("data-group"), r.get("data-figure")): [c for c in r] for r in page.iter("tr") if r.get("data-figure") is not None}


def text(kind, x, unit=True):
    if x is None:
        return "undefined"
    if kind == "psnr_db":
        return f"{x:.1f}" + " dB" * unit
    share = kind in ("found_again", "tokens_by_probe", "tokens_by_nearest_row", "head_grad_masks") or "_example" in kind or "clusters" in kind or "neighbours" in kind
    return f"{100 * x:.1f}" + " %" * unit if share else f"{x:.2f}"


figures = {("", k): v for k, v in found.items() if isinstance(v, dict) and "value" in v}
for group, of in found.items():
    if isinstance(of, dict) and "value" not in of:
        figures.update({(group, k): v for k, v in of.items() if isinstance(v, dict) and "value" in v})
assert rows.keys() == figures.keys() and rows, (rows.keys(), figures.keys())
for at, f in figures.items():
    kind = "" if at[0].endswith("_columns") else at[1]
    cells = ["".join(c.itertext()) for c in rows[at]]
    span = "" if f["low"] is None else f"{text(kind, f['low'], False)} to {text(kind, f['high'])}"
    want = [text(kind, f["value"]), "–" if f["chance"] is None else text(kind, f["chance"]), span, str(f["samples"])]
    assert cells[1:] == want, (at, cells, want)
    assert kind or cells[0] == at[1], (at, cells)
tags = {e.tag for e in page.iter()}
assert not tags & {"script", "link", "iframe", "object"}, tags
for e in page.iter():
    for name, value in e.attrib.items():
        assert not name.startswith("on") and (name not in ("src", "href") or value.startswith("data:image/png;base64,")), (e.tag, name)
assert not re.search(r"url\(|@import|https?:", source)
for wanted in texts:
    assert wanted in shown, f"the page lacks {wanted!r}"
