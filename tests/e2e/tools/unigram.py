"""An independent tokenizer of SentencePiece's unigram model, from its paper (arXiv:1804.10959), in plain Python.

unigram.py FOLDER: writes tokenizers in three published forms (old, new, bare) with a made vocabulary, texts of many scripts, and
their ids: FOLDER/FORM/tokenizer.json, FOLDER/texts, FOLDER/FORM.ids"""
import base64
import json
import os
import random
import re
import struct
import sys
import unicodedata

MARK = "\u2581"
LINES = """The quick brown fox, it isn't far.
Où est la bibliothèque ? Ça n'a pas d'importance, cœur.
Der Weg über die Straße ist 3,5 km lang.
¿Dónde está el niño? Mañana será otro día.
Привет, как дела? Съешь ещё этих булок.
Καλημέρα, τι κάνεις; Όλα καλά.
今日はとても良い天気ですね。ｶﾞｷﾞ ﾊﾟ
中文没有空格，但是有标点。
한국어 문장도 여기에 있습니다. \u1112\u1161\u11ab
สวัสดีครับ ไม่มีช่องว่าง
नमस्ते, आप कैसे हैं? क्षत्रिय
مرحبا، كيف حالك؟ ﷺ ﻻ
שלום, מה שלומך? שָׁלוֹם
Xin chào, bạn có khoẻ không? tiê\u0301ng Viê\u0323t
ﬁnance ﬀ ½ ² ℃ Ⅷ ① ㎏ ＡＢＣ１２３ ＜mask＞
e\u0301 E\u0302\u0301 a\u0315\u0300 n\u0303o \u00a0\u0301x
👍🏽 👩‍👩‍👧 🇩🇪🇫🇷 ❤\ufe0f \u200b zero\u200dwidth
  leading and   inner  runs   \u3000 wide \u00a0 
▁a literal ▁mark▁▁two ▁
a <mask> b<mask>c <s>x</s> <unk> <pad>
\u0600123 \u06dd4 x\u0085y \u0001\u0002 \ufeff bom""".split("\n")


def pieces_of(rng):
    """Marks, some characters, and random parts of words with random log-probabilities."""
    words = [MARK + w for line in LINES for w in unicodedata.normalize("NFKC", line).split()]
    letters = sorted({c for w in words for c in w})
    found = {MARK, *rng.sample(letters, len(letters) * 3 // 4)}
    for _ in range(1500):
        w = rng.choice(words)
        i = rng.randrange(len(w))
        found.add(w[i:i + rng.randint(2, 6)])
    found -= {"<mask>", "<s>", "</s>", "<unk>", "<pad>"}
    return [[p, -rng.uniform(2, 14)] for p in sorted(found)]


def replacements():
    """Compatible forms, compositions, and what becomes a space or nothing."""
    table = {c: " " for c in "\t\n\r\u200b\u3000\u00a0\u2028\ufeff"}
    table.update((chr(c), "") for c in (*range(1, 9), 0x200e, 0x2060))
    for c in range(0xa1, 0x10000):
        c = chr(c)
        to = unicodedata.normalize("NFKC", c) if unicodedata.category(c) not in ("Cs", "Cn") else c
        if to != c and c not in table:
            table[c] = to
        parts = unicodedata.normalize("NFD", c) if unicodedata.category(c) != "Cs" else c
        if parts != c and len(parts) < 4 and unicodedata.normalize("NFC", parts) == c:
            table.setdefault(parts, c)
    return table


def double_array(table):
    """The table as SentencePiece stores it: a double array of bytes, and behind it the replacements."""
    tree, texts, place = {}, b"", {}
    for key, to in sorted(table.items()):
        if to not in place:
            place[to] = len(texts)
            texts += to.encode() + b"\0"
        at = tree
        for byte in key.encode():
            at = at.setdefault(byte, {})
        at[0] = place[to]
    units, used, todo, first = {0: 0}, set(), [(0, tree)], 1
    while todo:
        at, node = todo.pop()
        base = first
        while base in used or any(base ^ c in units for c in node):
            base += 1
        if len(node) > 20:
            first = base
        used.add(base)
        units[at] |= (at ^ base) << 10 | (0 in node) << 8
        assert at ^ base < 1 << 21
        for c, below in node.items():
            units[base ^ c] = 1 << 31 | below if c == 0 else c
            if c:
                todo.append((base ^ c, below))
    data = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(max(units) + 1))
    return base64.b64encode(struct.pack("<I", len(data)) + data + texts).decode()


def clusters(text):
    """Extended grapheme clusters, as far as those of less than 6 bytes go."""
    out = []
    for c in text:
        extends = out and (unicodedata.category(c) in ("Mn", "Me", "Mc") or c in "\u200c\u200d\uff9e\uff9f") and unicodedata.category(out[-1][-1]) not in ("Cc", "Zl", "Zp")
        extends = extends and not (out[-1][-1] in "\u200b\u2060\ufeff\u200e")
        behind = out and (out[-1] in [chr(n) for n in range(0x600, 0x606)] + ["\u06dd"]) and unicodedata.category(c) != "Cc"
        if extends or behind:
            out[-1] += c
        else:
            out.append(c)
    return out


def clean(text, table):
    def one(part):
        return next((table[part[:i]] for i in range(1, len(part) + 1) if part[:i] in table), None)
    out = ""
    for cluster in clusters(text):
        whole = one(cluster) if len(cluster.encode()) < 6 else None
        out += whole if whole is not None else "".join(c if one(c) is None else one(c) for c in cluster)
    return out


def viterbi(word, score, ids, unk):
    best = [(0.0, 0, None)] + [None] * len(word)
    for end in range(1, len(word) + 1):
        for begin in range(end):
            piece = word[begin:end]
            if piece in score:
                way = (best[begin][0] + score[piece], begin, ids[piece])
            elif end == begin + 1:
                way = (best[begin][0] + min(score.values()) - 10, begin, unk)
            else:
                continue
            if best[end] is None or way[0] > best[end][0]:
                best[end] = way
    out, at = [], len(word)
    while at:
        if not (out and out[-1] == unk == best[at][2]):
            out.append(best[at][2])
        at = best[at][1]
    return out[::-1]


def words(text, form, first):
    if form == "new":
        text = re.sub(" {2,}", MARK, text.rstrip())
    for i, part in enumerate(text.split() if form == "old" else [text] if text else []):
        part = part.replace(" ", MARK)
        if not part.startswith(MARK) and (form != "bare" or first):
            part = MARK + part
        yield from re.findall(f"{MARK}[^{MARK}]*|^[^{MARK}]+", part)


def encode(text, form, table, vocab, cache):
    ids = {p: i for i, (p, _) in enumerate(vocab)}
    score, at, out = dict(vocab), 0, [0]
    for found in [*re.finditer(r"\s*<mask>|<s>|</s>|<unk>|<pad>", text), None]:
        stretch = text[at:found.start() if found else len(text)]
        for w in words(clean(stretch, table) if form != "bare" else stretch, form, at == 0):
            if w not in cache:
                cache[w] = viterbi(w, score, ids, 3)
            out += cache[w]
        if found:
            out.append(ids[found.group().strip()])
            at = found.end()
    return out + [2]


def main(folder):
    rng = random.Random(7)
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], *pieces_of(rng), ["<mask>", 0.0]]
    table = replacements()
    texts = list(LINES)
    letters = sorted({c for line in LINES for c in line} - set("\n\r"))
    for _ in range(1500):
        line = "".join(rng.choice(LINES)[i:i + rng.randint(1, 9)] for i in (rng.randrange(40) for _ in range(rng.randint(1, 8))))
        texts.append(line + "".join(rng.choice(letters) for _ in range(rng.randint(0, 12))))
    texts = [t for t in texts if t]
    open(f"{folder}/texts", "w", newline="").write("".join(t + "\n" for t in texts))
    special = [{"id": i, "content": t, "single_word": False, "lstrip": t == "<mask>", "rstrip": False, "normalized": t == "<mask>", "special": True}
               for i, (t, _) in enumerate(vocab) if t in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]
    charsmap = {"type": "Precompiled", "precompiled_charsmap": double_array(table)}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    runs = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}
    start, stop = ({"SpecialToken": {"id": t, "type_id": 0}} for t in ("<s>", "</s>"))
    a, b = ({"Sequence": {"id": t, "type_id": 0}} for t in "AB")
    post = {"type": "TemplateProcessing", "single": [start, a, stop], "pair": [start, a, stop, stop, b, stop],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (("<s>", 0), ("</s>", 2))}}
    space = {"type": "Metaspace", "replacement": MARK}
    forms = {"old": (charsmap, {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {**space, "str_rep": MARK, "add_prefix_space": True}]}),
             "new": ({"type": "Sequence", "normalizers": [charsmap, strip, runs]}, {**space, "prepend_scheme": "always", "split": True}),
             "bare": (None, {**space, "prepend_scheme": "first", "split": True})}
    for form, (normalizer, pre) in forms.items():
        os.makedirs(f"{folder}/{form}")
        model = {"type": "Unigram", "unk_id": 3, "vocab": vocab, **({"byte_fallback": False} if form == "new" else {})}
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": normalizer, "pre_tokenizer": pre,
                   "post_processor": post, "decoder": space, "model": model}, open(f"{folder}/{form}/tokenizer.json", "w"))
        cache = {}
        ids = [encode(t, form, table, vocab, cache) for t in texts]
        assert sum(i == 3 for line in ids for i in line) > 100 and max(map(len, ids)) > 30
        open(f"{folder}/{form}.ids", "w").write("".join(" ".join(map(str, line)) + "\n" for line in ids))


main(sys.argv[1])
