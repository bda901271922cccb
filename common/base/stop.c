#include "common/base/stop.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_status;
static bool is_set;

/* _exit alone is allowed here; what stdout still holds is lost, as it is by the signal itself. */
static void on_signal(int signum)
{
	static const char said[] = "splitc: stopped before it had begun, or by a second signal\n";

	(void)signum;
	(void)!write(STDERR_FILENO, said, sizeof said - 1);
	_exit(stop_status);
}

void sl_stop_again(void)
{
	void (*const action)(int) = is_set ? on_signal : SIG_DFL;

	signal(SIGINT, action);
	signal(SIGTERM, action);
	if (signal(SIGHUP, action) == SIG_IGN)
		signal(SIGHUP, SIG_IGN);
}

void sl_stop_with(int status)
{
	stop_status = status;
	is_set = true;
	sl_stop_again();
}
