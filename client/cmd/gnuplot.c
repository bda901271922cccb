#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cmd/gnuplot.h"

/* Colours for 16 curves: gnuplot has eight of its own, and then begins again. */
static const char colours[] = "set linetype cycle 16\n"
			      "set linetype 9 lc rgb '#8c564b'\nset linetype 10 lc rgb '#e377c2'\n"
			      "set linetype 11 lc rgb '#7f7f7f'\nset linetype 12 lc rgb '#17becf'\n"
			      "set linetype 13 lc rgb '#bcbd22'\nset linetype 14 lc rgb '#ff7f0e'\n"
			      "set linetype 15 lc rgb '#98df8a'\nset linetype 16 lc rgb '#393b79'\n";

void sl_gnuplot_begin(FILE *script, bool svg, int width, int height, const char *out)
{
	fprintf(script, "set terminal %s size %d,%d\nset output '", svg ? "svg noenhanced" : "pngcairo noenhanced",
		width, height);
	for (const char *c = out; *c; c++) /* a quote within single quotes is written twice */
		fputs(*c == '\'' ? "''" : (char[]){*c, '\0'}, script);
	fputs("'\nset encoding utf8\nset grid\n", script);
	fputs(colours, script);
}

bool sl_gnuplot_range(FILE *script, char axis, double low, double high)
{
	const double large = fmax(fabs(low), fabs(high)), margin = large > 0 ? large / 10 : 1;

	if (high - low > 1e-7 * large) {
		fprintf(script, "set %crange [*:*]\n", axis);
		return true;
	}
	fprintf(script, "set %crange [%.9g:%.9g]\n", axis, low - margin, high + margin);
	return false;
}

/* On a full disk gnuplot leaves the picture's end out and says nothing. */
static bool is_whole(const char *picture)
{
	char end[16] = "";
	FILE *file = fopen(picture, "re");
	size_t n = file && fseek(file, -(long)sizeof end, SEEK_END) == 0 ? fread(end, 1, sizeof end, file) : 0;

	if (file)
		fclose(file);
	return memmem(end, n, "IEND", 4) || memmem(end, n, "</svg>", 6);
}

enum sl_err sl_gnuplot_run(const char *dir, const char *script, const char *picture, struct sl_fail *fail)
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
	return is_whole(picture) ? SL_OK
				 : sl_fail_set(fail, SL_ERR_IO,
					       "%s: gnuplot has not written it completely: is the disk full?", picture);
}
