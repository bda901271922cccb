/* usage: make_text DIR: writes the tokenizer of tests/support/made_text.h, for tests/golden/tokens/make.sh: vocab.json,
 * merges.txt, vocab.txt, and strings.bin: for each string its length (u32) and bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/made_text.h"

static FILE *create(const char *dir, const char *name)
{
	char path[4096];
	FILE *to;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	to = fopen(path, "wbe");
	if (!to) {
		perror(path);
		exit(73);
	}
	return to;
}

static void finish(FILE *to)
{
	if (fclose(to) != 0)
		exit(74);
}

static void write_text(const char *dir, const char *name, char *text)
{
	FILE *to = create(dir, name);

	fputs(text, to);
	free(text);
	finish(to);
}

int main(int argc, char **argv)
{
	char text[MADE_STRING_BYTES], *vocab, *merges;
	FILE *to;

	if (argc != 2)
		return 64;
	to = create(argv[1], "strings.bin");
	for (uint64_t i = 0; i < MADE_STRINGS; i++) {
		uint32_t len = (uint32_t)made_string(i, text);

		fwrite(&len, sizeof len, 1, to);
		fwrite(text, 1, len, to);
	}
	finish(to);
	made_pairs(&vocab, &merges);
	write_text(argv[1], "vocab.json", vocab);
	write_text(argv[1], "merges.txt", merges);
	write_text(argv[1], "vocab.txt", made_words());
	return 0;
}
