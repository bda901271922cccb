#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/cmd/run_log.h"
#include "common/base/grow.h"
#include "common/telemetry/json.h"

/* Gathers steps in stretches of equal length. When all are in use, neighbours are joined, and stretches are twice as
 * long from then on, so memory does not grow with the run. */
struct gather {
	uint64_t length, first[SL_RUN_POINTS], n[SL_RUN_POINTS];
	double sum[SL_RUN_POINTS];
	int used;
};

struct reader {
	struct sl_run_log *log;
	const char *path;
	long line;
	struct gather gather;
	size_t room;
	struct sl_fail *fail;
};

static void join_neighbours(struct gather *g)
{
	for (int i = 0; i < SL_RUN_POINTS / 2; i++) {
		g->first[i] = g->first[2 * i];
		g->sum[i] = g->sum[2 * i] + g->sum[2 * i + 1];
		g->n[i] = g->n[2 * i] + g->n[2 * i + 1];
	}
	g->used = SL_RUN_POINTS / 2;
	g->length *= 2;
}

static void gather_step(struct gather *g, uint64_t step, double loss)
{
	if (g->used && step < g->first[g->used - 1] + g->length) {
		g->sum[g->used - 1] += loss;
		g->n[g->used - 1]++;
		return;
	}
	if (g->used == SL_RUN_POINTS)
		join_neighbours(g);
	g->first[g->used] = step;
	g->sum[g->used] = loss;
	g->n[g->used++] = 1;
}

static double count(const json_t *row, const char *key)
{
	double value = sl_json_number(row, key);

	return isfinite(value) && value > 0 ? value : 0;
}

static enum sl_err bad_line(const struct reader *r, const char *why)
{
	return sl_fail_set(r->fail, SL_ERR_DATA, "%s:%ld: %s", r->path, r->line, why);
}

static enum sl_err take_step(struct reader *r, const json_t *row)
{
	double step = sl_json_number(row, "step"), loss = sl_json_number(row, "loss");

	if (!(step >= 1 && step < 0x1p53))
		return bad_line(r, "a step without its number");
	r->log->steps = (uint64_t)step;
	if (isfinite(loss))
		gather_step(&r->gather, (uint64_t)step, loss);
	return SL_OK;
}

static enum sl_err take_epoch(struct reader *r, const json_t *row)
{
	struct sl_run_log *log = r->log;

	if (!sl_grow(&log->epoch, &r->room, (size_t)log->n_epoch + 1, sizeof *log->epoch))
		return sl_fail_set(r->fail, SL_ERR_NOMEM, "%s: no memory for its epochs", r->path);
	if (json_is_string(json_object_get(row, "evaluated_part")))
		snprintf(log->part, sizeof log->part, "%s", json_string_value(json_object_get(row, "evaluated_part")));
	log->bytes += count(row, "wire_tx_bytes") + count(row, "wire_rx_bytes");
	log->epoch[log->n_epoch] = (struct sl_run_epoch){
		.number = sl_json_number(row, "epoch"),
		.test_loss = sl_json_number(row, "test_loss"),
		.test_acc = sl_json_number(row, "test_acc"),
		.bytes = log->bytes,
		.metrics = json_incref(json_object_get(row, "test_metrics")),
	};
	log->best_acc = fmax(log->best_acc, log->epoch[log->n_epoch++].test_acc); /* fmax ignores a NAN */
	return SL_OK;
}

static enum sl_err take_line(struct reader *r, const char *text, size_t len)
{
	json_t *row = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *type = json_string_value(json_object_get(row, "type"));
	enum sl_err err = SL_OK;

	if (!type)
		err = bad_line(r, "not a line of a run's log (docs/OUTPUT.md)");
	else if (strcmp(type, "step") == 0)
		err = take_step(r, row);
	else if (strcmp(type, "epoch") == 0)
		err = take_epoch(r, row);
	json_decref(row);
	return err;
}

static enum sl_err read_lines(struct reader *r, FILE *file)
{
	char *text = NULL;
	size_t room = 0;
	enum sl_err err = SL_OK;

	for (ssize_t len; !err && (len = getline(&text, &room, file)) > 0;) {
		r->line++;
		if (text[len - 1] != '\n')
			break; /* it is being written */
		err = take_line(r, text, (size_t)len);
	}
	if (!err && ferror(file))
		err = sl_fail_set(r->fail, SL_ERR_IO, "%s: %s", r->path, strerror(errno));
	free(text);
	return err;
}

static void put_points(struct sl_run_log *log, const struct gather *g)
{
	for (int i = 0; i < g->used; i++)
		log->point[log->n_point++] = (struct sl_run_point){
			(double)g->first[i] + (double)(g->length - 1) / 2,
			g->sum[i] / (double)g->n[i],
		};
}

/* Copies a name, with characters that a legend cannot take replaced by '_'. */
static void put_name(char name[SL_RUN_NAME], const char *text, size_t len)
{
	snprintf(name, SL_RUN_NAME, "%.*s", (int)len, text);
	sl_text_make_safe(name, '_');
	for (char *c = name; *c; c++)
		if (strchr("\"'\\`", *c))
			*c = '_';
}

static void name_after_folder(char name[SL_RUN_NAME], const char *path)
{
	const char *end = path + strlen(path), *begin;

	if (strlen(path) > 10 && strcmp(end - 10, "/log.jsonl") == 0)
		end -= 10;
	while (end > path + 1 && end[-1] == '/')
		end--;
	for (begin = end; begin > path && begin[-1] != '/';)
		begin--;
	put_name(name, begin, (size_t)(end - begin));
}

/* Splits "NAME=PATH", unless a file has that whole name; returns the path. Without a name, the folder's is taken. */
static const char *split_name(char name[SL_RUN_NAME], const char *run)
{
	const char *equals = strchr(run, '=');
	struct stat st;

	if (equals && equals > run && stat(run, &st) != 0) {
		put_name(name, run, (size_t)(equals - run));
		return equals + 1;
	}
	name_after_folder(name, run);
	return run;
}

enum sl_err sl_run_log_read(struct sl_run_log *out, const char *run, struct sl_fail *fail)
{
	struct sl_run_log log = {.best_acc = (double)NAN};
	const char *at = split_name(log.name, run);
	char path[PATH_MAX];
	struct reader r = {.log = &log, .path = path, .gather.length = 1, .fail = fail};
	struct stat st;
	enum sl_err err;
	FILE *file;

	log.named = at != run;
	if (snprintf(path, sizeof path, "%s%s", at, stat(at, &st) == 0 && S_ISDIR(st.st_mode) ? "/log.jsonl" : "") >=
	    (int)sizeof path)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "the path '%.100s…' is too long", at);
	file = fopen(path, "re");
	if (!file)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "%s: %s (a run's log.dir, or its log.jsonl; NAME=DIR gives it a name)", path,
				   strerror(errno));
	err = read_lines(&r, file);
	fclose(file);
	if (!err && !log.steps)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: the run has no steps yet", path);
	if (err) {
		sl_run_log_close(&log);
		return err;
	}
	put_points(&log, &r.gather);
	*out = log;
	return SL_OK;
}

void sl_run_log_close(struct sl_run_log *log)
{
	for (int i = 0; i < log->n_epoch; i++)
		json_decref(log->epoch[i].metrics);
	free(log->epoch);
	*log = (struct sl_run_log){0};
}
