/* An assertion that fails says where, and with which values, and ends the process by SIGABRT. */
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "tests/support/unit.h"

static void holds(void)
{
	sl_assert(true);
	sl_assert_int(2, <=, 2);
	sl_assert_if(false, false);
}

static void condition(void)
{
	sl_assert(holds == condition);
}

static void numbers(void)
{
	int computed = 6;

	sl_assert_int(++computed, <, 7); /* once: 7, not 8 */
}

static void given(void)
{
	sl_assert_if(true, false);
}

/* Runs `fn` in a child, whose stderr comes back in `said`; its wait status. */
static int run(void (*fn)(void), char said[400])
{
	int ends[2], status;
	ssize_t n = 0, got;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		dup2(ends[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL); /* in place of the test program's own */
		fn();
		_exit(0);
	}
	close(ends[1]);
	while ((got = read(ends[0], said + n, (size_t)(399 - n))) > 0)
		n += got;
	said[n] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void failures_are_said_and_end_the_process(void **state)
{
	static const struct {
		void (*fn)(void);
		const char *says;
	} cases[] = {{condition, "holds == condition does not hold"},
		     {numbers, "++computed < 7 does not hold (7, 7)"},
		     {given, "does not hold"}};
	char said[400];

	assert_int_equal(run(holds, said), 0);
	assert_string_equal(said, "");
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const int status = run(cases[i].fn, said);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGABRT);
		assert_non_null(strstr(said, "assertion: tests/unit/test_assert.c:"));
		assert_non_null(strstr(said, cases[i].says));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_are_said_and_end_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
