#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/sweep.h"
#include "common/base/newfile.h"
#include "common/base/real.h"

/* Writes a cell, quoted if it must be (RFC 4180). */
static void put_text(FILE *file, const char *text)
{
	if (!strpbrk(text, "\",\r\n")) {
		fprintf(file, "%s,", text);
		return;
	}
	fputc('"', file);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', file);
		fputc(*text, file);
	}
	fputs("\",", file);
}

/* Writes settings as on a command line, with blanks between them. */
static void put_settings(FILE *file, const struct sl_conf_list *set)
{
	char text[SL_CONF_LIST_MAX * SL_CONF_TEXT];
	int at = 0;

	text[0] = 0;
	for (int i = 0; i < set->n; i++)
		at += snprintf(text + at, sizeof text - (size_t)at, "%s%s", i ? " " : "", set->item[i]);
	put_text(file, text);
}

/* A number as a cell, which is empty if it is unknown or undefined. */
static const char *number(double x, char text[SL_REAL_TEXT])
{
	return isfinite(x) ? sl_double_text(x, text) : "";
}

#define COLUMN(name) #name ","
#define PUT(name)    fprintf(file, "%s,", number(r->name, text));

/* The metrics of all rows, each once, in the order in which they first occur. */
static int metrics_of(const char *name[SL_SCORES_MOST], const struct sl_sweep_result *result, int n)
{
	int metrics = 0;

	for (int i = 0; i < n; i++)
		for (int k = 0; k < SL_SCORES_MOST && result[i].score[k].name[0]; k++) {
			int at = 0;

			while (at < metrics && strcmp(name[at], result[i].score[k].name) != 0)
				at++;
			if (at == metrics && metrics < SL_SCORES_MOST)
				name[metrics++] = result[i].score[k].name;
		}
	return metrics;
}

static double score_of(const struct sl_sweep_result *r, const char *name)
{
	for (int k = 0; k < SL_SCORES_MOST && r->score[k].name[0]; k++)
		if (strcmp(r->score[k].name, name) == 0)
			return r->score[k].value;
	return (double)NAN;
}

static void put_row(FILE *file, const struct sl_conf_sweep_row *row, const struct sl_sweep_result *r,
		    const char *const *metric, int metrics)
{
	char text[SL_REAL_TEXT];

	put_text(file, row->name);
	for (int i = 0; i < 4; i++)
		put_text(file, r->codec[i]);
	put_text(file, row->insert.head);
	put_text(file, row->insert.tail);
	put_settings(file, &row->set);
	fprintf(file, "%d,", r->chunks);
	put_text(file, r->done ? "done" : r->error);
	SL_SWEEP_FIGURES(PUT)
	if (r->done)
		fprintf(file, "%.0f,%.0f", r->wire_tx_bytes, r->wire_rx_bytes);
	else
		fputs(",", file);
	for (int i = 0; i < metrics; i++)
		fprintf(file, ",%s", number(r->done ? score_of(r, metric[i]) : (double)NAN, text));
	fputc('\n', file);
}

enum sl_err sl_sweep_write_csv(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n,
			       const char *out_dir, struct sl_fail *fail)
{
	const char *metric[SL_SCORES_MOST];
	const int metrics = metrics_of(metric, result, n);
	char path[PATH_MAX], *text = NULL;
	size_t len = 0;
	FILE *file;
	enum sl_err err;

	if (snprintf(path, sizeof path, "%s/sweep.csv", out_dir) >= (int)sizeof path)
		return sl_fail_set(fail, SL_ERR_CANTCREATE, "the path of --out is too long");
	file = open_memstream(&text, &len);
	if (!file)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %s", path);
	fputs("name,codec_head_act,codec_mid_act,codec_mid_grad,codec_head_grad,insert_head,insert_tail,set,chunks,"
	      "outcome," SL_SWEEP_FIGURES(COLUMN) "wire_tx_bytes,wire_rx_bytes",
	      file);
	for (int i = 0; i < metrics; i++)
		fprintf(file, ",test_%s", metric[i]);
	fputc('\n', file);
	for (int i = 0; i < n; i++)
		put_row(file, &row[i], &result[i], metric, metrics);
	if (fclose(file) != 0) {
		free(text);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %s", path);
	}
	/* rows take hours: a failure must not cost those that are in the file already */
	err = sl_newfile_put(path, 0666, SL_FP_NONE, text, len, fail);
	free(text);
	return err;
}
