/* usage: bench_tokens TOKENIZER FILE
 *
 * Prints the tokens per second of one thread on the lines of FILE, the most of 7 passes. Beside it are the seconds in
 * which the tokenizer was opened. Both are JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "client/text/lines.h"
#include "client/text/tokenizer.h"
#include "common/base/clock.h"

enum { PASSES = 7 };

static enum sl_err pass(struct sl_tokenizer_work *w, const char *path, uint64_t *tokens, struct sl_fail *fail)
{
	struct sl_lines lines;
	struct sl_bytes line;
	struct sl_tokens out;
	enum sl_err err = sl_lines_open(&lines, path, fail);

	if (err)
		return err;
	for (*tokens = 0; !(err = sl_lines_next(&lines, &line, fail)) && line.data; *tokens += (uint64_t)out.n) {
		err = sl_tokenizer_encode(w, line, (struct sl_bytes){NULL, 0}, 0, &out, fail);
		if (err)
			break;
	}
	sl_lines_close(&lines);
	return err;
}

int main(int argc, char **argv)
{
	struct sl_tokenizer *t = NULL;
	struct sl_tokenizer_work *w = NULL;
	struct sl_fail fail;
	uint64_t tokens = 0, start = sl_now_ns();
	double best = 0, opened;
	enum sl_err err;

	if (argc != 3)
		return 64;
	err = sl_tokenizer_open(&t, argv[1], &fail);
	opened = sl_seconds_since(start);
	for (int i = 0; i < PASSES && !err; i++) {
		err = sl_tokenizer_work_open(&w, t, &fail); /* anew, so that its cache is empty in each pass */
		start = sl_now_ns();
		if (!err)
			err = pass(w, argv[2], &tokens, &fail);
		if (!err && (double)tokens / sl_seconds_since(start) > best)
			best = (double)tokens / sl_seconds_since(start);
		sl_tokenizer_work_close(w);
		w = NULL;
	}
	sl_tokenizer_close(t);
	if (err) {
		fprintf(stderr, "%s\n", fail.text);
		return sl_err_exit_status(err);
	}
	printf("{\"tokens\": %llu, \"tokens_per_s\": %.0f, \"open_s\": %.3f}\n", (unsigned long long)tokens, best,
	       opened);
	return 0;
}
