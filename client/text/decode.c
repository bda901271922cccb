#include "client/text/decode.h"

#include <string.h>

#include "client/text/marked.h"
#include "client/text/unicode.h"

/* The byte that byte-level BPE writes as this character; -1: none. */
static int byte_of(uint32_t c)
{
	for (int b = 0; b < 256 && c < 512; b++)
		if (sl_tok_char_of(b) == c)
			return b;
	return -1;
}

static size_t decode_bytes(const char *text, size_t len, char *out)
{
	size_t n = 0;

	for (size_t at = 0, from = 0; at < len; from = at) {
		const int byte = byte_of(sl_utf8_next(text, &at));

		if (byte >= 0) {
			out[n++] = (char)byte;
			continue;
		}
		memcpy(out + n, text + from, at - from);
		n += at - from;
	}
	return n;
}

static size_t decode_marked(const struct sl_tok_spec *spec, int32_t id, const char *text, size_t len, char *out)
{
	size_t n = 0;

	for (int b = 0; b < 256 && text[0] == '<'; b++)
		if (spec->byte_id[b] == id) {
			out[0] = (char)b;
			return 1;
		}
	for (size_t at = 0, from = 0; at < len; from = at) {
		if (sl_utf8_next(text, &at) == SL_MARK) {
			out[n++] = ' ';
			continue;
		}
		memcpy(out + n, text + from, at - from);
		n += at - from;
	}
	return n;
}

size_t sl_decode_token(const struct sl_tok_spec *spec, int32_t id, char *out)
{
	const char *text = sl_vocab_text(&spec->vocab, id);
	const size_t len = strlen(text);

	for (int i = 0; i < spec->n_added; i++)
		if (spec->added[i].id == id) {
			memcpy(out, text, spec->added[i].special ? 0 : len);
			return spec->added[i].special ? 0 : len;
		}
	if (spec->kind == SL_TOK_MARKED)
		return decode_marked(spec, id, text, len, out);
	if (spec->kind == SL_TOK_BPE)
		return decode_bytes(text, len, out);
	memcpy(out, text, len);
	return len;
}
