/* The file of a token cache from an unknown source: as it is, or with a matching key and hash, as
 * an attacker could write it. If it is accepted, its ids, lengths and labels must be valid. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/text/token_image.c" /* for its head and its hash */

enum { VOCAB = 5, CLASSES = 3, MOST = 9, KEY = 77 };
enum { FITS = 1, REGRESSION = 2, PLAIN = 4 }; /* bits of the first byte */

static void must(bool good)
{
	if (!good)
		abort();
}

static struct sl_tokenizer *tokenizer(void)
{
	static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n";
	struct sl_tok_files files = {.words = {"vocab.txt", {(const uint8_t *)words, sizeof words - 1}}};
	struct sl_tokenizer *t;
	struct sl_tok_spec spec;
	struct sl_fail fail;

	must(sl_tok_spec_parse(&spec, &files, &fail) == SL_OK && sl_tokenizer_make(&t, &spec, 0, &fail) == SL_OK);
	must(sl_tokenizer_size(t) == VOCAB);
	return t;
}

/* Sets the key, sizes and hash that match the data after the head. */
static void make_fit(uint8_t *file, size_t len)
{
	struct sl_token_image m = {0};
	struct head head;

	memcpy(&head, file, sizeof head);
	memcpy(head.magic, magic, sizeof magic);
	head.key = KEY;
	head.count = head.count % 8 + 1;
	head.width = head.width & 1 ? sizeof(uint16_t) : sizeof(uint32_t);
	m = (struct sl_token_image){.count = head.count, .width = head.width};
	for (m.tokens = 0; m.tokens < 64; m.tokens++) { /* as many tokens as there are bytes for */
		struct array array[ARRAYS];
		uint64_t want = sizeof head;

		arrays_of(&m, array);
		for (int i = 0; i < ARRAYS; i++)
			want += array[i].bytes;
		if (want == len)
			break;
	}
	head.tokens = m.tokens;
	if (take(&m, file, len))
		head.hash = hash_of(&head, &m);
	sl_token_image_free(&m);
	memcpy(file, &head, sizeof head);
}

static void check(const struct sl_token_image *m, const struct sl_token_set_spec *spec, bool labelled)
{
	for (uint64_t i = 0; i < m->count; i++) {
		const uint64_t n = m->at[i + 1] - m->at[i];

		must(m->at[i] < m->at[i + 1] && n <= MOST && m->first[i] <= n && m->whole[i] >= n);
		must(!labelled                 ? m->value[i].label == -1
		     : spec->labels.regression ? isfinite(m->value[i].target)
					       : m->value[i].label >= 0 && m->value[i].label < CLASSES);
	}
	for (uint64_t i = m->at[0]; i < m->at[m->count]; i++)
		must(sl_token_image_id(m, i) < VOCAB);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sl_tokenizer *t;
	static char path[64];
	static int fd = -1;
	struct sl_token_set_spec spec = {.labels.classes = CLASSES, .max_length = MOST};
	struct sl_token_image image = {0};
	uint8_t *file;
	size_t len;

	if (fd < 0) {
		t = tokenizer();
		fd = memfd_create("tokens", 0);
		must(fd >= 0);
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	}
	if (!size)
		return 0;
	spec.tokenizer = t;
	spec.labels.regression = data[0] & REGRESSION;
	spec.records.label.number = data[0] & PLAIN ? -1 : 0;
	len = size - 1;
	file = malloc(size);
	must(file != NULL);
	memcpy(file, data + 1, len);
	if (data[0] & FITS && len >= sizeof(struct head))
		make_fit(file, len);
	must(ftruncate(fd, 0) == 0 && pwrite(fd, file, len, 0) == (ssize_t)len);
	if (sl_token_image_read(&image, path, KEY, &spec))
		check(&image, &spec, !(data[0] & PLAIN));
	sl_token_image_free(&image);
	free(file);
	return 0;
}
