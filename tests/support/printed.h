/* What code prints to stdout, kept in a file in the meantime. */
#ifndef SL_TESTS_SUPPORT_PRINTED_H
#define SL_TESTS_SUPPORT_PRINTED_H

#include <unistd.h>

#include "tests/support/unit.h"

struct printed {
	FILE *file;
	int out; /* stdout as it was */
};

static inline struct printed printed_begin(void)
{
	struct printed p = {tmpfile(), dup(STDOUT_FILENO)};

	assert_true(p.file && p.out >= 0 && fflush(stdout) == 0 && dup2(fileno(p.file), STDOUT_FILENO) >= 0);
	return p;
}

/* Returns the text from its first byte on, as a file that the caller closes. */
static inline FILE *printed_end(const struct printed *p)
{
	assert_true(fflush(stdout) == 0 && dup2(p->out, STDOUT_FILENO) >= 0);
	close(p->out);
	rewind(p->file);
	return p->file;
}

#endif
