#include "common/base/failpoint.h"

#ifdef SL_FAILPOINTS

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/log.h"

enum action { NOTHING, KILL, TERM, DELAY, HOLD, FAIL, SHORT, TEAR };

enum { HOLD_LOOK_NS = 5000000 };

static const struct {
	const char *name, *sides, *before, *beside, *what;
} map[] = {
#define X(id, name, sides, before, beside, what) {name, sides, before, beside, what},
	SL_FAILPOINT_MAP(X)
#undef X
};

static const struct {
	const char *name;
	enum action action;
	int err; /* for FAIL */
} actions[] = {
	{"kill", KILL, 0},  {"term", TERM, 0},        {"short", SHORT, 0},
	{"tear", TEAR, 0},  {"hold", HOLD, 0},        {"ENOSPC", FAIL, ENOSPC},
	{"EIO", FAIL, EIO}, {"EDQUOT", FAIL, EDQUOT}, {"EACCES", FAIL, EACCES},
};

/* After the first thread has started, only `passed` changes. */
static struct {
	enum action action;
	int err, delay_ms;
	long first;
	bool all; /* at every passage from `first` on */
	_Atomic long passed;
} set[SL_FP_COUNT];
static const char *count_file, *go_file;

/* Counts this passage and returns the action that is due. It logs the action, because tests look for that line: a
 * test whose action was never taken proves nothing. */
static enum action take(enum sl_failpoint point)
{
	long n = atomic_fetch_add(&set[point].passed, 1) + 1;

	if (set[point].action == NOTHING || n < set[point].first || (n > set[point].first && !set[point].all))
		return NOTHING;
	sl_log(SL_LOG_WARN, "failpoint", "%s, passage %ld", map[point].name, n);
	return set[point].action;
}

static void hold(void)
{
	const struct timespec a_while = {0, HOLD_LOOK_NS};

	while (!go_file || unlink(go_file) != 0)
		nanosleep(&a_while, NULL);
}

static void act(enum sl_failpoint point, enum action action)
{
	const struct timespec pause = {set[point].delay_ms / 1000, set[point].delay_ms % 1000 * 1000000L};

	if (action == KILL)
		kill(getpid(), SIGKILL);
	else if (action == TERM)
		kill(getpid(), SIGTERM);
	else if (action == DELAY)
		nanosleep(&pause, NULL);
	else if (action == HOLD)
		hold();
}

int sl_failpoint_pass(enum sl_failpoint point)
{
	enum action action = point < SL_FP_NONE ? take(point) : NOTHING;

	if (action == NOTHING)
		return 0;
	act(point, action);
	if (action != FAIL)
		return 0;
	errno = set[point].err;
	return -1;
}

ssize_t sl_failpoint_write(enum sl_failpoint point, int fd, const void *from, size_t len)
{
	enum action action;
	ssize_t put;

	if (point >= SL_FP_NONE)
		return write(fd, from, len);
	action = take(point);
	act(point, action);
	if (action == FAIL) {
		errno = set[point].err;
		return -1;
	}
	put = write(fd, from, (action == SHORT || action == TEAR) && len > 1 ? len / 2 : len);
	if (action == TEAR)
		kill(getpid(), SIGKILL);
	return put;
}

static enum sl_failpoint find(const char *name, size_t len)
{
	int i = 0;

	while (i < SL_FP_COUNT && (strlen(map[i].name) != len || strncmp(map[i].name, name, len) != 0))
		i++;
	return (enum sl_failpoint)i;
}

/* ACTION[@N[+]] */
static bool parse_action(enum sl_failpoint point, const char *text)
{
	size_t len = strcspn(text, "@");
	char *end;

	set[point].first = 1;
	if (text[len] == '@') {
		set[point].first = strtol(text + len + 1, &end, 10);
		set[point].all = *end == '+';
		if (set[point].first < 1 || end[set[point].all] != '\0')
			return false;
	}
	if (strncmp(text, "delay:", strlen("delay:")) == 0) {
		set[point].action = DELAY;
		set[point].delay_ms = (int)strtol(text + strlen("delay:"), &end, 10);
		return end == text + len && set[point].delay_ms > 0;
	}
	for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
		if (strlen(actions[i].name) == len && strncmp(actions[i].name, text, len) == 0) {
			set[point].action = actions[i].action;
			set[point].err = actions[i].err;
			return true;
		}
	return false;
}

static bool parse(char *list)
{
	for (char *one = strtok(list, ","); one; one = strtok(NULL, ",")) {
		size_t len = strcspn(one, "=");
		enum sl_failpoint point = find(one, len);

		if (point == SL_FP_COUNT || one[len] != '=' || !parse_action(point, one + len + 1)) {
			fprintf(stderr,
				"SPLIT_FAILPOINTS: '%s' is not NAME=ACTION[@N[+]] with a known name and action\n", one);
			return false;
		}
	}
	return true;
}

static void write_counts(void)
{
	FILE *file = fopen(count_file, "w");

	for (int i = 0; file && i < SL_FP_COUNT; i++)
		fprintf(file, "%s %ld\n", map[i].name, atomic_load(&set[i].passed));
	if (file)
		fclose(file);
}

int sl_failpoint_main(int argc, char **argv)
{
	const char *list = getenv("SPLIT_FAILPOINTS");
	char *copy = strdup(list ? list : "");
	bool good = copy && parse(copy);

	free(copy);
	if (!good)
		return sl_err_exit_status(SL_ERR_USAGE);
	count_file = getenv("SPLIT_FAILPOINTS_COUNT");
	go_file = getenv("SPLIT_FAILPOINTS_GO");
	if (count_file && count_file[0])
		atexit(write_counts);
	if (argc != 2 || strcmp(argv[1], "--failpoints") != 0)
		return -1;
	for (int i = 0; i < SL_FP_COUNT; i++)
		printf("%s\t%s\t%s\t%s\t%s\n", map[i].name, map[i].sides, map[i].before[0] ? map[i].before : "-",
		       map[i].beside[0] ? map[i].beside : "-", map[i].what);
	return 0;
}

#endif
