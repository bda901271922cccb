#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/sweep.h"
#include "common/base/newfile.h"

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

/* Writes a number; an empty cell if it is not known. */
static void put_number(FILE *file, double x)
{
	if (isfinite(x))
		fprintf(file, "%.8g", x);
	fputc(',', file);
}

#define COLUMN(name) #name ","
#define PUT(name)    put_number(file, r->name);

static void put_row(FILE *file, const struct sl_conf_sweep_row *row, const struct sl_sweep_result *r)
{
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
		fprintf(file, "%.0f,%.0f\n", r->wire_tx_bytes, r->wire_rx_bytes);
	else
		fputs(",\n", file);
}

enum sl_err sl_sweep_write_csv(const struct sl_conf_sweep_row *row, const struct sl_sweep_result *result, int n,
			       const char *out_dir, struct sl_fail *fail)
{
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
	      "outcome," SL_SWEEP_FIGURES(COLUMN) "wire_tx_bytes,wire_rx_bytes\n",
	      file);
	for (int i = 0; i < n; i++)
		put_row(file, &row[i], &result[i]);
	if (fclose(file) != 0) {
		free(text);
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %s", path);
	}
	/* rows take hours: a failure must not cost those that are in the file already */
	err = sl_newfile_put(path, 0666, SL_FP_NONE, text, len, fail);
	free(text);
	return err;
}
