#!/usr/bin/env python3
"""Makes a tokenizer.json of SentencePiece's tokenizer.model, as transformers converts that of Llama 2.

usage: tokenizer-json.py TOKENIZER.MODEL OUT.JSON
Only models of byte pair encoding with byte fallback are converted, which leave the text as it is but for its spaces.
"""
import json
import struct
import sys

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BPE = 2
MARK = "\u2581"


def fields(data):
    """The fields of a message of protocol buffers: number and value."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        else:
            size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            yield key >> 3, data[at : at + size]
            at += size


def read(data):
    """Pieces as (text, score, type), and what trainer and normalizer were told, by numbers of sentencepiece_model.proto."""
    pieces, told = [], {2: {}, 3: {}}
    for number, value in fields(data):
        if number == 1:
            piece = dict(fields(value))
            pieces.append((piece[1].decode(), struct.unpack("<f", piece.get(2, bytes(4)))[0], piece.get(3, NORMAL)))
        elif number in told:
            told[number] = dict(fields(value))
    return pieces, told[2], told[3]


def merges_of(pieces):
    """All ways to put a piece together from two others: those of high scores first."""
    ids = {text: i for i, (text, _, _) in enumerate(pieces)}
    merges = []
    for text, score, kind in pieces:
        if kind not in (NORMAL, USER_DEFINED):
            continue
        halves = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in ids and text[i:] in ids]
        merges += [(score, pair) for pair in sorted(halves, key=lambda pair: (ids[pair[0]], ids[pair[1]]))]
    return [list(pair) for _, pair in sorted(merges, key=lambda merge: -merge[0])]


def convert(data):
    pieces, trainer, normalizer = read(data)
    if trainer.get(3, 1) != BPE or not trainer.get(35, 0):
        sys.exit("only models of byte pair encoding with byte fallback are converted")
    if normalizer.get(1, b"") != b"identity":
        sys.exit(f"the model rewrites its text by {normalizer.get(1, b'').decode()}, which is not converted")
    if normalizer.get(4, 1):
        print("the model drops spaces at both ends of a text and where several follow each other; the copy keeps them", file=sys.stderr)
    # pieces that are found in a text before its words are put together; merges may not reach those of the model's user
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": kind != USER_DEFINED} for i, (text, _, kind) in enumerate(pieces) if kind in (UNKNOWN, CONTROL, USER_DEFINED)]
    unknown = next(text for text, _, kind in pieces if kind == UNKNOWN)
    first = pieces[trainer.get(41, 1)][0]
    to_marks = [{"type": "Replace", "pattern": {"String": " "}, "content": MARK}]
    if normalizer.get(3, 1):
        to_marks.insert(0, {"type": "Prepend", "prepend": MARK})
    text = lambda name, kind: {"Sequence": {"id": name, "type_id": kind}}
    begin = lambda kind: {"SpecialToken": {"id": first, "type_id": kind}}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": to_marks},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [begin(0), text("A", 0)],
                           "pair": [begin(0), text("A", 0), begin(1), text("B", 1)],
                           "special_tokens": {first: {"id": first, "ids": [trainer.get(41, 1)], "tokens": [first]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": {text: i for i, (text, _, _) in enumerate(pieces)}, "merges": merges_of(pieces)},
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as file:
        tokenizer = convert(file.read())
    with open(sys.argv[2], "w") as file:
        json.dump(tokenizer, file, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
