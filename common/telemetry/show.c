#include "common/telemetry/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/wrap.h"
#include "common/link/control.h"
#include "common/telemetry/progress.h"
#include "common/telemetry/spark.h"
#include "common/telemetry/status.h"

enum { TIMEOUT_MS = 2000, WATCH_S = 1 };

static enum sl_err not_ready(const struct sl_status *s, struct sl_fail *fail)
{
	char text[16];

	if (strcmp(s->role, "server") != 0 && s->n_session && isnan(s->session[0].loss))
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "not ready: no link to %s; no batch yet", s->address);
	if (strcmp(s->role, "server") != 0 && s->n_session)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "not ready: no link to %s; the last batch was done %s ago",
				   s->address, sl_progress_duration(s->session[0].idle_s, text));
	if (s->n_session < s->sessions_limit)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "not ready: it is shutting down");
	return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "not ready: all places are taken (%d of %lld, limits.sessions)",
			   s->n_session, (long long)s->sessions_limit);
}

/* Prints what the daemon is doing, in a few words. */
static void print_doing(const struct sl_status *s)
{
	char text[16];

	printf("%s, pid %lld, up %s", s->version, (long long)s->pid, sl_progress_duration(s->uptime_s, text));
	if (strcmp(s->role, "server") == 0)
		printf(", %d of %lld session%s\n", s->n_session, (long long)s->sessions_limit,
		       sl_plural(s->sessions_limit));
	else if (s->n_session)
		printf(", %s, step %lld of %lld\n", s->session[0].phase, (long long)s->session[0].step,
		       (long long)s->session[0].steps);
	else
		putchar('\n');
}

static enum sl_err probe(const struct sl_status *s, const struct sl_status_how *how, struct sl_fail *fail)
{
	if (how->ready && !s->ready)
		return not_ready(s, fail);
	if (how->quiet)
		return SL_OK;
	printf("%s: %s ", how->ready ? "ready" : "live", strcmp(s->role, "server") == 0 ? "splits" : "splitc");
	print_doing(s);
	return SL_OK;
}

static bool speaks_unicode(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (int i = 0; i < 3; i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

/* The losses of a client's run while it was watched. */
struct watched {
	struct sl_spark loss;
	int64_t step;
};

static void print_loss(struct watched *w, const struct sl_status *s)
{
	char text[SL_SPARK_TEXT], figure[SL_FIGURE_TEXT];

	if (strcmp(s->role, "server") == 0 || !s->n_session)
		return;
	if (s->session[0].step != w->step)
		sl_spark_add(&w->loss, s->session[0].loss);
	w->step = s->session[0].step;
	if (w->loss.n > 1)
		printf("\nloss, every %d s  %s  %s\n", WATCH_S, sl_spark_text(&w->loss, speaks_unicode(), text),
		       sl_figure_text(w->loss.value[w->loss.n - 1], figure));
}

/* `w` NULL: prints the table once. Else it clears the terminal's screen first; other output has a blank line between
 * two tables. */
static void print_table(const struct sl_status *s, struct watched *w)
{
	bool screen = w && isatty(STDOUT_FILENO);

	if (screen)
		fputs("\033[H\033[2J", stdout);
	sl_status_table(s, sl_terminal_columns(STDOUT_FILENO), stdout);
	if (w)
		print_loss(w, s);
	if (w && !screen)
		putchar('\n');
}

static enum sl_err print(const char *answer, const struct sl_status_how *how, struct watched *w, struct sl_fail *fail)
{
	struct sl_status status;
	enum sl_err err = sl_status_parse(answer, &status, fail);

	if (err)
		return err;
	if (how->live || how->ready)
		err = probe(&status, how, fail);
	else if (how->prometheus)
		sl_status_prometheus(&status, stdout);
	else
		print_table(&status, w);
	sl_status_free(&status);
	return err;
}

static enum sl_err show_once(const char *control_path, const struct sl_status_how *how, struct watched *w,
			     struct sl_fail *fail)
{
	char *answer;
	enum sl_err err = sl_control_ask(control_path, "status", TIMEOUT_MS, &answer, fail);

	if (err)
		return err;
	if (how->json)
		printf("%s\n", answer);
	else
		err = print(answer, how, w, fail);
	free(answer);
	return err;
}

static enum sl_err watch(const char *control_path, const struct sl_status_how *how, struct sl_fail *fail)
{
	struct watched w = {.step = -1};
	bool answered = false;
	enum sl_err err;

	for (;;) {
		err = show_once(control_path, how, &w, fail);
		if (err == SL_ERR_TIMEOUT && answered) /* the daemon's host is busy */
			fprintf(stderr, "%s; asking again\n", fail->text);
		else if (err || ferror(stdout))
			break;
		answered = true;
		fflush(stdout);
		sleep(WATCH_S);
	}
	if (answered && err == SL_ERR_UNAVAILABLE) {
		fprintf(stderr, "%s: it has ended, or no longer answers\n", control_path);
		return SL_OK;
	}
	return err;
}

enum sl_err sl_status_show(const char *control_path, const struct sl_status_how *how, struct sl_fail *fail)
{
	return how->watch ? watch(control_path, how, fail) : show_once(control_path, how, NULL, fail);
}
