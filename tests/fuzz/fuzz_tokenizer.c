/* Any bytes as a tokenizer's files and a text. The first byte chooses the file, and the first 0xff ends it (UTF-8 has
 * no such byte). A tokenizer that opens must tokenize the text or say why not; ids must be in the vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "client/text/tokenizer.h"

static const char words[] = "[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n";

/* Decodes; the text must not be longer than sl_tokenizer_decoded says. */
static void decode(const struct sl_tokenizer *t, const struct sl_tokens *tokens)
{
	const size_t most = sl_tokenizer_decoded(t, tokens->n);
	char *text = malloc(most + 1);

	if (!text || sl_tokenizer_decode(t, tokens->id, tokens->n, text) > most)
		abort();
	free(text);
}

static void encode(const struct sl_tokenizer *t, struct sl_bytes text)
{
	struct sl_tokenizer_work *w;
	struct sl_tokens out;
	struct sl_fail fail = {0};
	size_t half = text.len / 2;
	enum sl_err err;

	if (sl_tokenizer_work_open(&w, t, &fail) != SL_OK)
		return;
	err = sl_tokenizer_encode(w, text, (struct sl_bytes){NULL, 0}, 0, &out, &fail);
	if (err ? !fail.text[0] : out.n != out.whole || out.first > out.n)
		abort();
	for (int32_t i = 0; i < out.n && !err; i++)
		if (out.id[i] < 0 || out.id[i] >= sl_tokenizer_size(t))
			abort();
	if (!err)
		decode(t, &out);
	err = sl_tokenizer_encode(w, (struct sl_bytes){text.data, half},
				  (struct sl_bytes){text.data + half, text.len - half}, 12, &out, &fail);
	if (!err && out.n > 12 && out.n > sl_tokenizer_specials(t, true))
		abort();
	sl_tokenizer_work_close(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_tok_files files = {.words = {"vocab.txt", {(const uint8_t *)words, sizeof words - 1}}};
	struct sl_tok_spec spec;
	struct sl_tokenizer *t;
	struct sl_fail fail = {0};
	const uint8_t *end;
	struct sl_bytes file, text;

	if (size < 2)
		return 0;
	end = memchr(data + 1, 0xff, size - 1);
	file = (struct sl_bytes){data + 1, end ? (size_t)(end - data - 1) : size - 1};
	text = (struct sl_bytes){data + 1, size - 1};
	if (end)
		text = (struct sl_bytes){end + 1, size - file.len - 2};
	switch (data[0] % 4) {
	case 0:
		files.json = (struct sl_tok_file){"tokenizer.json", file};
		break;
	case 1:
		files.vocab = (struct sl_tok_file){"vocab.json", file};
		files.merges = (struct sl_tok_file){"merges.txt", text};
		break;
	case 2:
		files.words.bytes = file;
		break;
	default:
		files.config = (struct sl_tok_file){"tokenizer_config.json", file};
	}
	if (sl_tok_spec_parse(&spec, &files, &fail) != SL_OK) {
		if (!fail.text[0])
			abort();
		return 0;
	}
	if (sl_tokenizer_make(&t, &spec, 0, &fail) != SL_OK)
		return 0;
	encode(t, text);
	sl_tokenizer_close(t);
	return 0;
}
