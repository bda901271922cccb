#include <string.h>

#include "common/base/log.h"
#include "lib/impl.h"

enum { LINES = 64, LINE = 512 };

/* All that is global in the library: the log is the process's. */
static struct {
	char line[LINES][LINE];
	unsigned written, taken;
} ring;
static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void sl_lib_log_line(void *arg, const char *line, size_t len)
{
	const size_t n = len < LINE - 1 ? len : LINE - 1;

	(void)arg;
	pthread_mutex_lock(&ring_lock);
	memcpy(ring.line[ring.written % LINES], line, n);
	ring.line[ring.written % LINES][n] = '\0';
	ring.written++;
	if (ring.written - ring.taken > LINES)
		ring.taken = ring.written - LINES;
	pthread_mutex_unlock(&ring_lock);
}

static void begin(void)
{
	sl_log_set_level(SL_LOG_WARN);
	sl_log_set_sink(sl_lib_log_line, NULL);
}

void sl_lib_log_begin(void)
{
	pthread_once(&once, begin);
}

size_t split_log(char *line, size_t n)
{
	size_t len = 0;

	pthread_mutex_lock(&ring_lock);
	if (ring.taken != ring.written && n) {
		const char *next = ring.line[ring.taken++ % LINES];

		len = strnlen(next, n - 1);
		memcpy(line, next, len);
		line[len] = '\0';
	}
	pthread_mutex_unlock(&ring_lock);
	return len;
}
