#include "client/persist/epoch.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/base/newfile.h"

enum { LINK_BITS = 20, DIGITS = 20 };

static const uint64_t most = (uint64_t)1 << 42; /* a file with this number or more is ignored: epochs fit int64_t */

/* The number that the last process wrote; 0: there is none, or it cannot be read. */
static uint64_t last_of(const char *path)
{
	FILE *f = fopen(path, "r");
	uint64_t last = 0;
	char end = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%13" SCNu64 "%c", &last, &end) != 2 || end != '\n' || last >= most)
		last = 0;
	fclose(f);
	return last;
}

static enum sl_err write_down(const char *path, uint64_t number, struct sl_fail *fail)
{
	char text[DIGITS + 2];
	int n = snprintf(text, sizeof text, "%" PRIu64 "\n", number);

	return sl_newfile_put(path, 0600, SL_FP_NONE, text, (size_t)n, fail);
}

static void remember(const char *path, uint64_t number)
{
	struct sl_fail fail;

	if (write_down(path, number, &fail) != SL_OK)
		sl_log(SL_LOG_WARN, "link-epoch",
		       "%s: if this host's clock is set back, the client needs the server to tell it the newest link's "
		       "number",
		       fail.text);
}

static bool path_of(const char *dir, char out[PATH_MAX])
{
	return dir[0] && snprintf(out, PATH_MAX, "%s/link-epoch", dir) < PATH_MAX;
}

uint64_t sl_epoch_begin(const char *dir, uint64_t now_s)
{
	uint64_t number = now_s < most ? now_s : most, last;
	char path[PATH_MAX];

	if (!path_of(dir, path))
		return number << LINK_BITS;
	last = last_of(path);
	if (number <= last)
		number = last + 1;
	sl_assert(number > last && number <= most); /* a link's number only grows, and fits */
	remember(path, number);
	return number << LINK_BITS;
}

void sl_epoch_raise(const char *dir, uint64_t epoch)
{
	char path[PATH_MAX];

	if (path_of(dir, path))
		remember(path, epoch >> LINK_BITS);
}
