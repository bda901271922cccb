#include <string.h>

#include "common/base/log.h"
#include "lib/impl.h"

enum { LINES = 64, LINE = 512 };

/* The only global state of the library, since the log is the process's. The log's own lock guards it. */
static struct {
	char line[LINES][LINE];
	unsigned written, taken;
} ring;
static pthread_once_t once = PTHREAD_ONCE_INIT;

struct text {
	char *line;
	size_t n;
};

static void put(void *arg, const char *line, size_t len)
{
	const size_t n = len < LINE - 1 ? len : LINE - 1;

	(void)arg;
	memcpy(ring.line[ring.written % LINES], line, n);
	ring.line[ring.written % LINES][n] = '\0';
	ring.written++;
	if (ring.written - ring.taken > LINES)
		ring.taken = ring.written - LINES;
}

static void put_text(void *arg)
{
	const struct text *t = arg;

	put(NULL, t->line, t->n);
}

void sl_lib_log_line(void *arg, const char *line, size_t len)
{
	struct text t = {(char *)(uintptr_t)line, len};

	(void)arg;
	sl_log_exclusive(put_text, &t);
}

static void begin(void)
{
	sl_log_at_fork();
	sl_log_set_level(SL_LOG_WARN);
	sl_log_set_sink(put, NULL);
}

void sl_lib_log_begin(void)
{
	pthread_once(&once, begin);
}

static void take(void *arg)
{
	struct text *t = arg;
	size_t len = 0;

	if (ring.taken != ring.written && t->n) {
		const char *next = ring.line[ring.taken++ % LINES];

		len = strnlen(next, t->n - 1);
		memcpy(t->line, next, len);
		t->line[len] = '\0';
	}
	t->n = len;
}

size_t split_log(char *line, size_t n)
{
	struct text t = {line, n};

	sl_log_exclusive(take, &t);
	return t.n;
}
