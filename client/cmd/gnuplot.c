#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cmd/gnuplot.h"

void sl_gnuplot_begin(FILE *script, bool svg, int width, int height, const char *out)
{
	fprintf(script, "set terminal %s size %d,%d\nset output '", svg ? "svg noenhanced" : "pngcairo noenhanced",
		width, height);
	for (const char *c = out; *c; c++) /* a quote within single quotes is written twice */
		fputs(*c == '\'' ? "''" : (char[]){*c, '\0'}, script);
	fputs("'\nset encoding utf8\nset grid\n", script);
}

enum sl_err sl_gnuplot_run(const char *dir, const char *script, struct sl_fail *fail)
{
	char *const argv[] = {"gnuplot", (char *)(uintptr_t)script, NULL};
	posix_spawn_file_actions_t actions;
	int rc, status = 0;
	pid_t pid;

	if (posix_spawn_file_actions_init(&actions))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to start gnuplot");
	rc = posix_spawn_file_actions_addchdir_np(&actions, dir);
	if (!rc)
		rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE,
				   "gnuplot cannot be started: %s (apt-get install gnuplot-nox)", strerror(rc));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		return sl_fail_set(fail, SL_ERR_IO, "gnuplot made no picture from %s; its messages are above", script);
	return SL_OK;
}
