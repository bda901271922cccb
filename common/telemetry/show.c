#include "common/telemetry/show.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/link/control.h"
#include "common/telemetry/status.h"

enum { TIMEOUT_MS = 2000 };

/* Of the terminal; 0 where stdout is none. */
static int columns(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

enum sl_err sl_status_show(const char *control_path, bool json, bool prometheus, struct sl_fail *fail)
{
	struct sl_status status;
	char *answer;
	enum sl_err err = sl_control_ask(control_path, "status", TIMEOUT_MS, &answer, fail);

	if (err)
		return err;
	if (json) {
		printf("%s\n", answer);
	} else {
		err = sl_status_parse(answer, &status, fail);
		if (!err) {
			if (prometheus)
				sl_status_prometheus(&status, stdout);
			else
				sl_status_table(&status, columns(), stdout);
			sl_status_free(&status);
		}
	}
	free(answer);
	return err;
}
