#include "client/text/marked.h"

#include <stdio.h>
#include <string.h>

#include "client/text/unicode.h"

static const char mark[] = "\xe2\x96\x81";
enum { MARK = sizeof mark - 1 };

static bool leads(enum sl_tok_lead lead, bool first, const char *text, size_t len)
{
	const bool has = text[0] == ' ' || (len >= MARK && memcmp(text, mark, MARK) == 0);

	return lead == SL_TOK_LEAD_EACH || (lead == SL_TOK_LEAD_LACKING && !has) ||
	       (lead == SL_TOK_LEAD_FIRST && first && !has);
}

size_t sl_marked_text(char *out, enum sl_tok_lead lead, bool first, const char *text, size_t len)
{
	size_t n = 0;

	if (leads(lead, first, text, len)) {
		memcpy(out, mark, MARK);
		n = MARK;
	}
	for (size_t i = 0; i < len; i++) {
		const size_t step = text[i] == ' ' ? MARK : 1;

		memcpy(out + n, text[i] == ' ' ? mark : text + i, step);
		n += step;
	}
	return n;
}

size_t sl_marked_ids(const struct sl_tok_spec *spec, const char *marked, size_t len, int32_t *id)
{
	size_t n = 0;

	for (size_t at = 0, end = 0; at < len; at = end) {
		(void)sl_utf8_next(marked, &end);
		id[n] = sl_vocab_find(&spec->vocab, marked + at, end - at);
		if (id[n] >= 0) {
			n++;
			continue;
		}
		for (size_t i = at; i < end; i++)
			id[n++] = spec->byte_id[(unsigned char)marked[i]];
	}
	return n;
}

int32_t sl_marked_byte(const struct sl_vocab *vocab, int byte)
{
	char name[8];

	snprintf(name, sizeof name, "<0x%02X>", byte);
	return sl_vocab_find(vocab, name, strlen(name));
}
