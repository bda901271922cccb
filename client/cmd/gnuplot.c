#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cmd/gnuplot.h"

/* Every picture's colours: each is told from white and from black (3:1 or more). Texts and lines are grey, and there is
 * no ground, so a picture suits light pages and dark ones. After eight curves lines are dashed. */
static const char style[] = "set encoding utf8\n"
			    "colours = '4c78a8 e07b39 3f9b6c d1545a 8f6bb3 9c755f d0719c 3a9aa8'\n"
			    "do for [i=1:16] {set linetype i lc rgb '#'.word(colours, (i-1)%8+1) lw 2}\n"
			    "do for [i=9:16] {set linetype i dt 2}\n"
			    "set linetype cycle 16\n"
			    "set border 3 lc rgb '#808080'\nset tics nomirror textcolor rgb '#808080'\n"
			    "set grid lc rgb '#808080' lw 0.3\nset key textcolor rgb '#808080' noenhanced\n"
			    "set title textcolor rgb '#808080'\nset xlabel textcolor rgb '#808080'\n"
			    "set ylabel textcolor rgb '#808080'\nset cblabel textcolor rgb '#808080'\n";

void sl_gnuplot_begin(FILE *script, bool svg, int width, int height, const char *out)
{
	fprintf(script, "set terminal %s noenhanced size %d,%d\nset output '",
		svg ? "svg background rgb '#00000000'" : "pngcairo transparent", width, height);
	for (const char *c = out; *c; c++) /* a quote within single quotes is written twice */
		fputs(*c == '\'' ? "''" : (char[]){*c, '\0'}, script);
	fputs("'\n", script);
	fputs(style, script);
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

void sl_gnuplot_log_x(FILE *script, double low, double high)
{
	fputs("set logscale x\nset xtics (", script);
	for (int k = (int)floor(log10(low)); k <= (int)ceil(log10(high)); k++)
		fprintf(script, "%s1e%d", k > (int)floor(log10(low)) ? ", " : "", k);
	for (int k = (int)floor(log10(low)); k < (int)ceil(log10(high)) && high < 1e3 * low; k++)
		fprintf(script, ", 2e%d, 5e%d", k, k);
	fputs(")\nset format x '%g'\n", script);
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
