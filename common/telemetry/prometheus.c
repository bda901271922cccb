/* A status as Prometheus reads it (text format 0.0.4): base units, one HELP and TYPE a name, its samples together. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/real.h"
#include "common/telemetry/status.h"
#include "common/telemetry/status_members.h"

static void print_label(FILE *file, const char *before, const char *name, const char *text)
{
	fprintf(file, "%s%s=\"", before, name);
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', file);
		fputc(*text == '\n' ? ' ' : *text, file);
	}
	fputc('"', file);
}

static void print_head(FILE *file, const struct sl_status_member *m)
{
	fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", m->metric, m->help, m->metric, m->kind);
}

/* Whether it is a metric of this daemon. */
static bool is_metric(const struct sl_status_member *m, const struct sl_status *status)
{
	return m->metric && !(m->of_server && strcmp(status->role, "client") == 0);
}

static bool known(const struct sl_status_member *m, const void *from)
{
	return m->type == WHOLE || isfinite(*(const double *)(const void *)((const char *)from + m->offset));
}

static void print_value(FILE *file, const struct sl_status_member *m, const void *from)
{
	const char *at = (const char *)from + m->offset;
	char text[SL_REAL_TEXT];

	if (m->type == REAL)
		fprintf(file, " %s\n", sl_double_text(*(const double *)(const void *)at, text));
	else
		fprintf(file, " %" PRId64 "\n", *(const int64_t *)(const void *)at);
}

/* The metrics of the last evaluations, by their names. */
static void print_scores(FILE *file, const struct sl_status *status)
{
	static const struct sl_status_member m = {.type = REAL,
						  .metric = "split_session_test_metric",
						  .kind = "gauge",
						  .help = "A metric of the last evaluation, by its name."};
	bool head = false;

	for (int i = 0; i < status->n_session; i++)
		for (int k = 0; k < status->session[i].n_score; k++) {
			const struct sl_status_session *s = &status->session[i];

			if (!known(&m, &s->score[k].value))
				continue;
			if (!head)
				print_head(file, &m);
			head = true;
			fputs(m.metric, file);
			print_label(file, "{", "session", s->id);
			print_label(file, ",", "peer", s->peer);
			print_label(file, ",", "metric", s->score[k].name);
			fputc('}', file);
			print_value(file, &m, &s->score[k].value);
		}
}

static void print_sessions(FILE *file, const struct sl_status_member *m, const struct sl_status *status)
{
	bool head = false;

	for (int i = 0; i < status->n_session; i++) {
		const struct sl_status_session *s = &status->session[i];

		if (!known(m, s))
			continue;
		if (!head)
			print_head(file, m);
		head = true;
		fputs(m->metric, file);
		print_label(file, "{", "session", s->id);
		print_label(file, ",", "peer", s->peer);
		fputc('}', file);
		print_value(file, m, s);
	}
}

void sl_status_prometheus(const struct sl_status *status, FILE *file)
{
	fputs("# HELP split_info Version, role, address and device of the daemon.\n# TYPE split_info gauge\nsplit_info",
	      file);
	print_label(file, "{", "role", status->role);
	print_label(file, ",", "version", status->version);
	print_label(file, ",", "address", status->address);
	print_label(file, ",", "device", status->device);
	fputs("} 1\n", file);
	fprintf(file, "# HELP split_sessions Current sessions.\n# TYPE split_sessions gauge\nsplit_sessions %d\n",
		status->n_session);
	for (const struct sl_status_member *m = sl_status_of_daemon; m->name; m++) {
		if (!is_metric(m, status) || !known(m, status))
			continue;
		print_head(file, m);
		fputs(m->metric, file);
		print_value(file, m, status);
	}
	for (const struct sl_status_member *m = sl_status_of_session; m->name; m++)
		if (is_metric(m, status))
			print_sessions(file, m, status);
	print_scores(file, status);
	sl_status_groups_metrics(status->groups, file);
}

char *sl_status_metrics(const char *json)
{
	struct sl_status status;
	struct sl_fail fail;
	char *text = NULL;
	size_t len;
	FILE *file;

	if (sl_status_parse(json, &status, &fail) != SL_OK)
		return NULL;
	file = open_memstream(&text, &len);
	if (file) {
		bool failed;

		sl_status_prometheus(&status, file);
		failed = ferror(file);
		if (fclose(file) != 0 || failed) {
			free(text);
			text = NULL;
		}
	}
	sl_status_free(&status);
	return text;
}
