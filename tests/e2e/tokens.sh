#!/usr/bin/env bash
# `splitc tokens` on a made tokenizer: ids, tokens, pairs, truncation, figures, JSON, standard input; and errors of bad
# files.
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/lib/daemons.sh
"$TOOLS/make_text" "$tmp"
wrong=0
mkdir "$tmp/bpe" "$tmp/words" "$tmp/none"
mv "$tmp/vocab.json" "$tmp/merges.txt" "$tmp/bpe"
mv "$tmp/vocab.txt" "$tmp/words"
printf 'the un\nhello\n' >"$tmp/two"
printf 'the\tun\nno tab\n' >"$tmp/pairs"

# says WANTED ARGUMENT…: splitc tokens prints WANTED, to the last character.
says() {
	local want=$1 got
	shift
	got=$("$SPLITC" tokens "$@") || fail "tokens $*: exit status $?"
	[ "$got" = "$want" ] || fail "tokens $*: $got, not $want"
}
# refuses STATUS PART ARGUMENT…: it ends with STATUS, and with one line on stderr that has PART.
refuses() {
	wrong=$((wrong + 1))
	local status=0 want=$1 part=$2
	shift 2
	"$SPLITC" tokens "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || status=$?
	[ "$status" = "$want" ] || fail "tokens $*: exit status $status, not $want: $(cat "$tmp/err")"
	[ "$(wc -l <"$tmp/err")" = 1 ] || fail "tokens $*: $(cat "$tmp/err")"
	grep -qF -- "$part" "$tmp/err" || fail "tokens $*: '$(cat "$tmp/err")' lacks '$part'"
}

says $'2 5 8 3\n2 11 3' "$tmp/words" "$tmp/two"
says $'2 5 8 3\n2 11 3' "$tmp/words/vocab.txt" - <"$tmp/two"
says $'[CLS] the un [SEP]\n[CLS] hello [SEP]' "$tmp/words" --text <"$tmp/two"
says '[CLS] the [SEP] un [SEP]' "$tmp/words" --text --pair - < <(head -n 1 "$tmp/pairs")
says '{"ids":[2,5,3,8,3],"types":[0,0,0,1,1]}' "$tmp/words" --json --pair - < <(head -n 1 "$tmp/pairs")
says '2 5 8 3' "$tmp/words" --max-length=4 - <<<'the un the un'
says '' "$tmp/words" /dev/null
"$SPLITC" tokens "$tmp/words" "$tmp/two" "$tmp/two" --stats --json --max-length 5 >"$tmp/json" || fail "--stats --json"
[ "$(jq -c '[.rows, .tokens, .length.min, .length.median, .length.p90, .length.max, .cut, .max_length]' "$tmp/json")" = \
	'[4,14,3,3,4,4,0,5]' ] || fail "--stats --json: $(cat "$tmp/json")"
"$SPLITC" tokens "$tmp/words" "$tmp/two" --stats | grep -q '^rows  *2$' || fail "--stats"

mkdir "$tmp/RTE"
printf 'index\tsentence1\tsentence2\tlabel\n0\tthe\tun\tnot_entailment\n' >"$tmp/RTE/dev.tsv"
says '{"ids":[2,5,3,8,3],"types":[0,0,0,1,1],"label":1}' "$tmp/words" --task rte --split dev --json "$tmp"
says '2 5 3 8 3' "$tmp/words" --task rte --split dev "$tmp/RTE"
printf 'y,text\r\n1,"the\n""un"""\r\n' >"$tmp/own.csv"
says '[CLS] the " un " [SEP]' "$tmp/words" --text --columns text "$tmp/own.csv"
says '[CLS] the " un " [SEP] [UNK] [SEP]' "$tmp/words" --text --columns text,y --format csv - < <(sed 's/^1,/\xe2\x82\xaa,/' "$tmp/own.csv")
# TSV has no quotes: cells that a CSV writer has quoted give one warning.
printf 'y\ttext\n1\t"the"\n1\t"the ""un"""\n2\t"the ""un"""\n' >"$tmp/own.tsv"
"$SPLITC" tokens "$tmp/words" --columns text "$tmp/own.tsv" >"$tmp/out" 2>"$tmp/err" || fail "own.tsv: $(cat "$tmp/err")"
grep -qF "WARN quoted-tsv: $tmp/own.tsv:3: " "$tmp/err" && [ "$(wc -l <"$tmp/err")" = 1 ] || fail "own.tsv: $(cat "$tmp/err")"
says '2 11 3' "$tmp/words" --columns t - --format jsonl <<<'{"t": "hello"}'

# SentencePiece's model as a tokenizer.json: a user-defined piece is one token, although no merge makes it.
mkdir "$tmp/pieces"
/usr/bin/python3 - "$tmp/tokenizer.model" <<'PYTHON'
import struct, sys
varint = lambda n: bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3 | 5) + struct.pack("<f", value) if isinstance(value, float) else varint(number << 3) + varint(value)
pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("<sep>", 4)] + [(f"<0x{i:02X}>", 6) for i in range(256)] + [(c, 1) for c in "abesp<>"]
model = b"".join(field(1, field(1, text.encode()) + field(2, 0.0) + field(3, kind)) for text, kind in pieces)
model += field(2, field(3, 2) + field(35, 1)) + field(3, field(1, b"identity") + field(3, 0) + field(4, 0))
open(sys.argv[1], "wb").write(model)
PYTHON
scripts/tokenizer-json.py "$tmp/tokenizer.model" "$tmp/pieces/tokenizer.json"
says '1 260 3 261' "$tmp/pieces" - <<<'a<sep>b'

refuses 64 TOKENIZER
refuses 64 'only one of' "$tmp/words" --pair --task rte "$tmp"
refuses 64 '--split needs --task' "$tmp/words" --split dev "$tmp"
refuses 64 '--task needs' "$tmp/words" --task rte
refuses 64 'is not known: give --format' "$tmp/words" --columns a "$tmp/two"
refuses 64 "not ',b'" "$tmp/words" --columns ,b "$tmp/own.csv"
refuses 78 'did you mean rte?' "$tmp/words" --task rtte "$tmp"
refuses 66 'neither train.tsv nor RTE/train.tsv exists' "$tmp/words" --task rte "$tmp"
refuses 65 "$tmp/own.csv:1: no column \"x\"; the header names y, text" "$tmp/words" --columns x "$tmp/own.csv"
printf '1\tthe\tun\tmaybe\n' >>"$tmp/RTE/dev.tsv"
refuses 65 "$tmp/RTE/dev.tsv:3: label \"maybe\": one of entailment, not_entailment" "$tmp/words" --task rte --split dev "$tmp"
refuses 64 '--max-length 3' "$tmp/words" --max-length 3 "$tmp/two"
refuses 66 "$tmp/none: no tokenizer" "$tmp/none" "$tmp/two"
refuses 66 "$tmp/absent" "$tmp/absent" "$tmp/two"
refuses 66 "$tmp/absent" "$tmp/words" "$tmp/absent"
refuses 66 "is a folder, not a file" "$tmp/words" "$tmp/none"
refuses 65 "$tmp/pairs:2: --pair: the line has no tab" "$tmp/words" --pair "$tmp/pairs"
printf 'good\nb\xffd\n' >"$tmp/bad"
refuses 65 "$tmp/bad:2: invalid UTF-8 at byte 1 of the text" "$tmp/words" "$tmp/bad"
printf 'Q <mask>\n' >>"$tmp/bpe/merges.txt"
refuses 65 "$tmp/bpe/merges.txt:$(wc -l <"$tmp/bpe/merges.txt"): the merge makes \"Q<mask>\"" "$tmp/bpe" "$tmp/two"
printf '{"a": 1' >"$tmp/bpe/tokenizer.json"
refuses 65 "$tmp/bpe/tokenizer.json:1:" "$tmp/bpe" "$tmp/two"
echo "ids, tokens, pairs, cuts and figures as they should be; $wrong wrong calls refused"
