/* Messages to systemd, and the interval of its watchdog. */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/notify.h"
#include "tests/support/unit.h"

static void hear(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	size_t len = strlen(path);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	char text[64];
	ssize_t n;

	memcpy(at.sun_path, path, len);
	if (path[0] == '@')
		at.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
			 0);
	setenv("NOTIFY_SOCKET", path, 1);
	sl_notify("READY=1");
	n = recv(fd, text, sizeof text, MSG_DONTWAIT);
	assert_int_equal(n, 7);
	assert_memory_equal(text, "READY=1", 7);
	close(fd);
	sl_notify("WATCHDOG=1"); /* without a listener it does nothing */
}

static void a_state_is_one_datagram(void **state)
{
	char path[64];

	snprintf(path, sizeof path, "/tmp/test_notify.%d", (int)getpid());
	hear(path);
	unlink(path);
	snprintf(path, sizeof path, "@test_notify.%d", (int)getpid());
	hear(path);
	unsetenv("NOTIFY_SOCKET");
	sl_notify("READY=1");
	setenv("NOTIFY_SOCKET", "relative", 1);
	sl_notify("READY=1");
}

static uint64_t wanted(const char *usec, const char *pid)
{
	usec ? setenv("WATCHDOG_USEC", usec, 1) : unsetenv("WATCHDOG_USEC");
	pid ? setenv("WATCHDOG_PID", pid, 1) : unsetenv("WATCHDOG_PID");
	return sl_notify_watchdog_ms();
}

static void pings_come_in_half_the_time(void **state)
{
	char own[32];

	snprintf(own, sizeof own, "%d", (int)getpid());
	assert_int_equal(wanted(NULL, NULL), 0);
	assert_int_equal(wanted("30000000", NULL), 15000);
	assert_int_equal(wanted("30000000", own), 15000);
	assert_int_equal(wanted("30000000", "1"), 0);
	assert_int_equal(wanted("100", NULL), 1);
	assert_int_equal(wanted("x", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_state_is_one_datagram),
		cmocka_unit_test(pings_come_in_half_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
