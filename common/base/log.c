#include "common/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 2048 };

static const struct {
	const char *label;
	const char *priority; /* of sd-daemon(3) */
} levels[SL_LOG_COUNT] = {
	[SL_LOG_ERROR] = {"ERROR", "<3>"},
	[SL_LOG_WARN] = {"WARN", "<4>"},
	[SL_LOG_INFO] = {"INFO", "<6>"},
	[SL_LOG_DEBUG] = {"DEBUG", "<7>"},
};

static _Atomic int current_level = SL_LOG_INFO;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*hook)(void *arg);
static void *hook_arg;

void sl_log_set_level(enum sl_log_level level)
{
	atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

enum sl_log_level sl_log_level(void)
{
	return (enum sl_log_level)atomic_load_explicit(&current_level, memory_order_relaxed);
}

void sl_log_set_hook(void (*before_line)(void *arg), void *arg)
{
	pthread_mutex_lock(&lock);
	hook = before_line;
	hook_arg = arg;
	pthread_mutex_unlock(&lock);
}

void sl_log_exclusive(void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&lock);
	fn(arg);
	pthread_mutex_unlock(&lock);
}

static void write_whole(const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDERR_FILENO, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* nobody to tell */
		data += n;
		len -= (size_t)n;
	}
}

/* A desktop's shells inherit the variable of a terminal that the journal looks after: only the stream that it names
 * counts. */
static bool to_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	       st.st_dev == (dev_t)dev && st.st_ino == (ino_t)ino;
}

const char *sl_log_priority(enum sl_log_level level)
{
	return to_journal() ? levels[level].priority : "";
}

void sl_log_write(enum sl_log_level level, const char *id, const char *fmt, ...)
{
	char line[LINE_BYTES];
	int saved_errno = errno, n, m;
	va_list args;

	if (to_journal())
		n = snprintf(line, sizeof line, "%s%s: ", levels[level].priority, id);
	else
		n = snprintf(line, sizeof line, "%s %s: ", levels[level].label, id);
	va_start(args, fmt);
	m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, args);
	va_end(args);
	if (m < 0)
		m = 0;
	if ((size_t)m > sizeof line - (size_t)n - 2)
		m = (int)(sizeof line - (size_t)n - 2);
	for (int i = n; i < n + m; i++)
		if (sl_text_controls(line, (size_t)i))
			line[i] = ' ';
	line[n + m] = '\n';

	pthread_mutex_lock(&lock);
	if (hook)
		hook(hook_arg);
	write_whole(line, (size_t)(n + m) + 1);
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
}
