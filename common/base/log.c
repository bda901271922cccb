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

#include "common/base/clock.h"

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
static void (*sink)(void *arg, const char *line, size_t len);
static void *sink_arg;

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

void sl_log_set_sink(void (*take)(void *arg, const char *line, size_t len), void *arg)
{
	pthread_mutex_lock(&lock);
	sink = take;
	sink_arg = arg;
	pthread_mutex_unlock(&lock);
}

void sl_log_exclusive(void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&lock);
	fn(arg);
	pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void behind_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void register_fork(void)
{
	pthread_atfork(before_fork, behind_fork, behind_fork);
}

void sl_log_at_fork(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork);
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

/* Under the lock; line[len] is the newline. */
static void write_line(const char *line, size_t len)
{
	if (hook)
		hook(hook_arg);
	if (sink)
		sink(sink_arg, line, len);
	else
		write_whole(line, len + 1);
}

/* Whether stderr is the very stream that JOURNAL_STREAM names. The variable alone proves nothing: a shell of a
 * desktop session inherits it although it writes to a terminal. */
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

static struct sl_log_warning kept[SL_LOG_KEPT];
static int n_kept;
static uint64_t warned;

/* Under the lock. */
static void keep(const char *id, const char *text)
{
	int of_id = 0;

	warned++;
	for (int i = 0; i < n_kept; i++) {
		const bool same = strcmp(kept[i].id, id) == 0;

		if (same && strncmp(kept[i].text, text, SL_LOG_KEPT_TEXT - 1) == 0)
			return;
		of_id += same;
	}
	if (n_kept == SL_LOG_KEPT || of_id == SL_LOG_KEPT_OF_ID)
		return;
	kept[n_kept].id = id;
	snprintf(kept[n_kept++].text, SL_LOG_KEPT_TEXT, "%s", text);
}

bool sl_log_warning(int i, struct sl_log_warning *out)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = i < n_kept;
	if (has)
		*out = kept[i];
	pthread_mutex_unlock(&lock);
	return has;
}

uint64_t sl_log_warned(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = warned;
	pthread_mutex_unlock(&lock);
	return n;
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
	line[n + m] = 0;
	sl_text_make_safe(line + n, ' ');

	pthread_mutex_lock(&lock);
	if (level == SL_LOG_WARN)
		keep(id, line + n);
	line[n + m] = '\n';
	if (level <= sl_log_level())
		write_line(line, (size_t)(n + m));
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
}

/* ---- the rate limit */

enum { BURST = 64, REFILL_MS = 1000, TELL_MS = 10000 };

static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;
static struct limit {
	const char *id;
	int spent;            /* lines written, minus one for each second since */
	uint64_t refilled_ms; /* the time up to which `spent` was reduced */
	uint64_t left_out;    /* lines, since the last report of them */
	uint64_t told_ms;
} limits[SL_LOG_LIMITED];
static uint64_t left_out;

static struct limit *limit_of(const char *id, uint64_t now_ms)
{
	int i = 0;

	while (i < SL_LOG_LIMITED - 1 && limits[i].id && strcmp(limits[i].id, id) != 0)
		i++;
	if (!limits[i].id)
		limits[i] = (struct limit){.id = id, .refilled_ms = now_ms, .told_ms = now_ms};
	return &limits[i];
}

bool sl_log_admits(const char *id)
{
	uint64_t now_ms = sl_now_ms(), seconds;
	struct limit *l;
	bool admitted;

	pthread_mutex_lock(&limits_lock);
	l = limit_of(id, now_ms);
	seconds = (now_ms - l->refilled_ms) / REFILL_MS;
	l->refilled_ms += seconds * REFILL_MS;
	l->spent = seconds < (uint64_t)l->spent ? l->spent - (int)seconds : 0;
	admitted = l->spent < BURST;
	l->spent += admitted;
	l->left_out += !admitted;
	left_out += !admitted;
	pthread_mutex_unlock(&limits_lock);
	return admitted;
}

void sl_log_tell_left_out(bool now)
{
	uint64_t now_ms = sl_now_ms();

	for (int i = 0; i < SL_LOG_LIMITED; i++) {
		struct limit told = {0};

		pthread_mutex_lock(&limits_lock);
		if (limits[i].left_out && (now || now_ms - limits[i].told_ms >= TELL_MS)) {
			told = limits[i];
			limits[i].left_out = 0;
			limits[i].told_ms = now_ms;
		}
		pthread_mutex_unlock(&limits_lock);
		if (told.left_out)
			sl_log(SL_LOG_WARN, "log-limit", "%llu more lines of \"%s\" were left out in the last %llu s",
			       (unsigned long long)told.left_out, told.id,
			       (unsigned long long)(now_ms - told.told_ms + 999) / 1000);
	}
}

uint64_t sl_log_left_out(void)
{
	uint64_t n;

	pthread_mutex_lock(&limits_lock);
	n = left_out;
	pthread_mutex_unlock(&limits_lock);
	return n;
}
