/* The progress line at many widths, and rates. A pipe gets plain lines; a terminal gets a bar,
 * which never mixes with log lines. */
#include <stdbool.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/wrap.h"
#include "common/telemetry/progress.h"
#include "tests/support/unit.h"

static const struct sl_progress_state sample_state = {.phase = "train",
						      .epoch = 2,
						      .epochs = 10,
						      .step = 120,
						      .steps = 390,
						      .steps_left = 3000,
						      .samples = 15360,
						      .tx_bytes = 1000000,
						      .rx_bytes = 500000,
						      .loss = 1.23456,
						      .acc = 0.4512};

static void line_fits_any_width(void **state)
{
	const struct sl_progress_rates rates = {1234.4, 56.78, 12.3, 3725};
	char line[SL_PROGRESS_LINE];

	assert_true(sl_progress_line(line, &sample_state, &rates, 400, false) > 0);
	assert_string_equal(
		line,
		"train 2/10  120/390  loss 1.2346  acc 45.1%  1h02m left  1234 samples/s  up 56.8 down 12.3 MB/s");
	assert_true(sl_progress_line(line, &sample_state, &rates, 110, true) == 110);
	assert_string_equal(line,
			    "train 2/10  [###........]  120/390  loss 1.2346  acc 45.1%  1h02m left  1234 samples/s  "
			    "up 56.8 down 12.3 MB/s");
	for (int width = 0; width < 600; width++) {
		int n = sl_progress_line(line, &sample_state, &rates, width, true);
		assert_true(n <= width && n < SL_PROGRESS_LINE);
		assert_int_equal(strlen(line), n);
	}
	sl_progress_line(line, &sample_state, &rates, 40, true);
	assert_string_equal(line, "train 2/10  120/390  loss 1.2346");
}

static void unknown_values_are_left_out(void **state)
{
	const struct sl_progress_rates rates = {NAN, NAN, NAN, NAN};
	struct sl_progress_state s = sample_state;
	char line[SL_PROGRESS_LINE];

	s.loss = s.acc = NAN;
	s.steps = s.step = 0;
	sl_progress_line(line, &s, &rates, 400, false);
	assert_string_equal(line, "train 2/10  0/0");
	sl_progress_line(line, &s, &rates, 60, true);
	assert_string_equal(line, "train 2/10  [......................................]  0/0");
}

static void durations(void **state)
{
	static const struct {
		double seconds;
		const char *text;
	} cases[] = {{0, "0s"},         {59.4, "59s"},   {59.6, "1m00s"}, {185, "3m05s"}, {3725, "1h02m"},
		     {183600, "2d03h"}, {INFINITY, "-"}, {NAN, "-"},      {-1, "-"}};
	char text[16];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_string_equal(sl_progress_duration(cases[i].seconds, text), cases[i].text);
}

static void figures(void **state)
{
	static const struct {
		double x;
		const char *text;
	} cases[] = {{0, "0.0000"},       {0.5, "0.5000"},           {-0.00123, "-0.0012"}, {0.00012345, "0.0001234"},
		     {1e-7, "1e-07"},     {999999.4, "999999.4000"}, {1e6, "1e+06"},        {1.4614937e30, "1.461e+30"},
		     {-2.5e9, "-2.5e+09"}};
	char text[SL_FIGURE_TEXT];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		assert_string_equal(sl_figure_text(cases[i].x, text), cases[i].text);
}

static char *read_all(int fd)
{
	static char text[65536];
	ssize_t n, len = 0;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((n = read(fd, text + len, sizeof text - 1 - (size_t)len)) > 0)
		len += n;
	text[len] = 0;
	return text;
}

/* The state after i seconds of 100 steps, a second each: 64 samples/s, 1 MB/s up, 0.5 down. */
static struct sl_progress_state at_second(int i)
{
	struct sl_progress_state s = sample_state;

	s.step = (uint64_t)i;
	s.steps = 100;
	s.steps_left = (uint64_t)(1000 - i);
	s.samples = (uint64_t)i * 64;
	s.tx_bytes = (uint64_t)i * 1000000;
	s.rx_bytes = (uint64_t)i * 500000;
	return s;
}

static void pipe_gets_plain_lines(void **state)
{
	struct sl_progress_options options = {.plain_interval_ms = 20000};
	struct sl_progress *p;
	char *text;
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	options.fd = fd[1];
	assert_int_equal(sl_progress_open(&p, &options, NULL), SL_OK);
	for (int i = 0; i <= 100; i++) {
		struct sl_progress_state s = at_second(i);
		sl_progress_update(p, &s, 5000 + (uint64_t)i * 1000);
	}
	struct sl_progress_state again = at_second(100);
	sl_progress_update(p, &again, 105500); /* complete already: writes no second line */
	sl_progress_close(p);
	text = read_all(fd[0]);
	assert_string_equal(
		text, "train 2/10  20/100  loss 1.2346  acc 45.1%  16m20s left  64 samples/s  up 1.0 down 0.5 MB/s\n"
		      "train 2/10  40/100  loss 1.2346  acc 45.1%  16m00s left  64 samples/s  up 1.0 down 0.5 MB/s\n"
		      "train 2/10  60/100  loss 1.2346  acc 45.1%  15m40s left  64 samples/s  up 1.0 down 0.5 MB/s\n"
		      "train 2/10  80/100  loss 1.2346  acc 45.1%  15m20s left  64 samples/s  up 1.0 down 0.5 MB/s\n"
		      "train 2/10  100/100  loss 1.2346  acc 45.1%  15m00s left  64 samples/s  up 1.0 down 0.5 MB/s\n");
	close(fd[0]);
	close(fd[1]);
}

static void rates_follow_the_last_seconds(void **state)
{
	struct sl_progress_options options = {.plain_interval_ms = 1};
	struct sl_progress_state s = at_second(0);
	struct sl_progress *p;
	char *text;
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	options.fd = fd[1];
	assert_int_equal(sl_progress_open(&p, &options, NULL), SL_OK);
	for (int i = 0; i < 60; i++) { /* one minute of 10 samples/s, then one of 1000 */
		s.samples += 10;
		s.step = 1;
		sl_progress_update(p, &s, (uint64_t)i * 1000);
	}
	for (int i = 60; i < 120; i++) {
		s.samples += 1000;
		sl_progress_update(p, &s, (uint64_t)i * 1000);
	}
	sl_progress_close(p);
	text = read_all(fd[0]);
	assert_non_null(strstr(text, "  10 samples/s"));
	char *last = text + strlen(text) - 1;
	while (last > text && last[-1] != '\n')
		last--;
	assert_non_null(strstr(last, "  1000 samples/s"));
	close(fd[0]);
	close(fd[1]);
}

/* A step that takes a minute: a terminal shows what the link carries meanwhile, and keeps the pace of the steps. */
static void the_link_is_seen_during_a_step(struct sl_progress *p)
{
	struct sl_progress_state s = at_second(0);

	sl_progress_update(p, &s, 1000);
	s.step = 1, s.samples = 64, s.tx_bytes = s.rx_bytes = 4000000;
	sl_progress_update(p, &s, 5000);
	for (int i = 1; i <= 10; i++) {
		s.tx_bytes += 300000;
		sl_progress_update(p, &s, 5000 + (uint64_t)i * 5000);
	}
}

static void a_pipe_gets_no_line_during_a_step(void **state)
{
	struct sl_progress_options options = {.plain_interval_ms = 1};
	struct sl_progress *p;
	int fd[2];

	assert_int_equal(pipe(fd), 0);
	options.fd = fd[1];
	assert_int_equal(sl_progress_open(&p, &options, NULL), SL_OK);
	the_link_is_seen_during_a_step(p);
	sl_progress_close(p);
	assert_string_equal(
		read_all(fd[0]),
		"train 2/10  1/100  loss 1.2346  acc 45.1%  1h06m left  16 samples/s  up 1.0 down 1.0 MB/s\n");
	close(fd[0]);
	close(fd[1]);
}

struct terminal {
	int master, slave, keep_stderr;
};

static struct terminal open_terminal(unsigned short columns)
{
	struct winsize size = {.ws_row = 24, .ws_col = columns};
	struct terminal t;

	/* many chroots do not mount /dev/pts: skip the test there */
	if (openpty(&t.master, &t.slave, NULL, NULL, &size) != 0) {
		print_message("no terminal can be opened here: %s\n", strerror(errno));
		skip();
	}
	t.keep_stderr = dup(STDERR_FILENO);
	dup2(t.slave, STDERR_FILENO);
	return t;
}

static void close_terminal(struct terminal *t)
{
	dup2(t->keep_stderr, STDERR_FILENO);
	close(t->keep_stderr);
	close(t->slave);
	close(t->master);
}

static void terminal_gets_a_bar(void **state)
{
	struct sl_progress_options options = {.fd = STDERR_FILENO};
	struct sl_progress_state s = at_second(50);
	struct winsize narrow = {.ws_row = 24, .ws_col = 30};
	char text[4096];
	struct sl_progress *p;

	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "1", 1);
	struct terminal t = open_terminal(62);
	int rc = sl_progress_open(&p, &options, NULL);
	sl_progress_update(p, &s, 1000);
	sl_progress_update(p, &s, 1050); /* too soon after the last update: not drawn */
	sl_log(SL_LOG_WARN, "test-line", "hello");
	sl_log(SL_LOG_WARN, "test-line", "again");
	s.step = 51;
	s.loss = s.acc = NAN;
	ioctl(t.slave, TIOCSWINSZ, &narrow);
	sl_progress_update(p, &s, 1100);
	sl_progress_close(p);
	sl_log(SL_LOG_WARN, "test-line", "after");
	strcpy(text, read_all(t.master));
	close_terminal(&t);
	unsetenv("NO_COLOR");
	assert_int_equal(rc, SL_OK);
	assert_non_null(strstr(text, "\rtrain 2/10  ["));
	assert_non_null(strstr(text, "]  50/100  loss 1.2346  acc 45.1%\033[K\r\033[KWARN test-line: hello\r\n"
				     "WARN test-line: again\r\n\rtrain 2/10  [###....]  51/100\033[K"));
	const char *end = "\033[K\r\nWARN test-line: after\r\n";
	assert_string_equal(text + strlen(text) - strlen(end), end);
	assert_null(strstr(text, "\033[36m"));
}

static void a_terminal_shows_the_link_during_a_step(void **state)
{
	struct sl_progress_options options = {.fd = STDERR_FILENO};
	struct sl_progress *p;
	static char text[65536];

	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "1", 1);
	struct terminal t = open_terminal(110);
	int rc = sl_progress_open(&p, &options, NULL);
	the_link_is_seen_during_a_step(p);
	sl_progress_close(p);
	strcpy(text, read_all(t.master));
	close_terminal(&t);
	unsetenv("NO_COLOR");
	assert_int_equal(rc, SL_OK);
	assert_non_null(strstr(text, "1/100  loss 1.2346  acc 45.1%  1h06m left  16 samples/s  up 1.0 down 1.0 MB/s"));
	const char *end = "1h06m left  16 samples/s  up 0.06 down 0.00 MB/s\033[K\r\n";
	assert_string_equal(text + strlen(text) - strlen(end), end);
}

static void colours_unless_told(void **state)
{
	struct sl_progress_options options = {.fd = STDERR_FILENO};
	struct sl_progress_state s = at_second(50);
	struct sl_progress *p;
	char text[4096];

	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	struct terminal t = open_terminal(80);
	int rc = sl_progress_open(&p, &options, NULL);
	sl_progress_update(p, &s, 1000);
	sl_progress_close(p);
	strcpy(text, read_all(t.master));
	close_terminal(&t);
	assert_int_equal(rc, SL_OK);
	assert_non_null(strstr(text, "\033[36mtrain"));
	assert_non_null(strstr(text, "\033[0m\033[K\r\n"));
}

static void dumb_terminals_get_plain_lines(void **state)
{
	struct sl_progress_options options = {.fd = STDERR_FILENO};
	struct sl_progress_state s = at_second(100);
	struct sl_progress *p;
	char text[4096];

	setenv("TERM", "dumb", 1);
	struct terminal t = open_terminal(80);
	int rc = sl_progress_open(&p, &options, NULL);
	sl_progress_update(p, &s, 1000);
	sl_progress_close(p);
	strcpy(text, read_all(t.master));
	close_terminal(&t);
	assert_int_equal(rc, SL_OK);
	assert_string_equal(text, "train 2/10  100/100  loss 1.2346  acc 45.1%\r\n");
}

static void *log_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < 200; i++)
		sl_log(SL_LOG_WARN, "test-thread", "line %d", i);
	return NULL;
}

/* A bar is always wiped before a log line: each line follows a \n, a wipe, or nothing. */
static void log_lines_never_follow_a_bar(void **state)
{
	struct sl_progress_options options = {.fd = STDERR_FILENO};
	struct sl_progress *p;
	pthread_t thread;
	static char text[65536];
	int lines = 0, bad = 0;

	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "1", 1);
	struct terminal t = open_terminal(40);
	int flags = fcntl(t.master, F_GETFL);
	int rc = sl_progress_open(&p, &options, NULL);
	size_t len = 0;
	fcntl(t.master, F_SETFL, flags | O_NONBLOCK);
	pthread_create(&thread, NULL, log_many, NULL);
	for (int i = 0; i < 200; i++) {
		struct sl_progress_state s = at_second(i % 90);
		sl_progress_update(p, &s, 1000 + (uint64_t)i * 100);
		ssize_t n = read(t.master, text + len, sizeof text - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	for (int waited = 0; waited < 1000; waited++) { /* the terminal's buffer is small: keep it empty */
		ssize_t n = read(t.master, text + len, sizeof text - 1 - len);
		len += n > 0 ? (size_t)n : 0;
		if (strstr(text, "line 199"))
			break;
		usleep(1000);
	}
	pthread_join(thread, NULL);
	sl_progress_close(p);
	close_terminal(&t);
	unsetenv("NO_COLOR");
	for (char *at = text; (at = strstr(at, "WARN ")); at++) {
		lines++;
		if (at != text && at[-1] != '\n' && strncmp(at - 4, "\r\033[K", 4) != 0)
			bad++;
	}
	assert_int_equal(rc, SL_OK);
	assert_int_equal(lines, 200);
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_fits_any_width),
		cmocka_unit_test(unknown_values_are_left_out),
		cmocka_unit_test(durations),
		cmocka_unit_test(figures),
		cmocka_unit_test(pipe_gets_plain_lines),
		cmocka_unit_test(rates_follow_the_last_seconds),
		cmocka_unit_test(a_pipe_gets_no_line_during_a_step),
		cmocka_unit_test(terminal_gets_a_bar),
		cmocka_unit_test(a_terminal_shows_the_link_during_a_step),
		cmocka_unit_test(colours_unless_told),
		cmocka_unit_test(dumb_terminals_get_plain_lines),
		cmocka_unit_test(log_lines_never_follow_a_bar),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
