#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/text/glue.h"
#include "client/text/records.h"
#include "client/text/tokenizer.h"
#include "common/base/grow.h"

static const char *const usage[] = {
	"splitc tokens TOKENIZER [FILE…] [--pair | --columns A[,B] | --task NAME] [--text] [--max-length N] [--stats] "
	"[--json]",
	"Prints what a tokenizer makes of each line of the FILEs: token ids, special tokens included. The lines are "
	"texts; with --columns or --task they are rows of data sets.",
	"TOKENIZER is a folder with tokenizer.json, with vocab.json and merges.txt (byte-level BPE, as GPT-2 and "
	"RoBERTa), or with vocab.txt (WordPiece, as BERT); or it is one such file. Where the folder has a "
	"tokenizer_config.json, its lower-casing counts. FILE - is standard input, as is no FILE at all.",
	NULL,
};

enum { COLUMN_BYTES = 128 };

struct tokens {
	const struct sl_options *o;
	struct sl_tokenizer *tokenizer;
	struct sl_tokenizer_work *work;
	const struct sl_glue_task *task; /* NULL: none */
	enum sl_glue_split split;
	char column[2][COLUMN_BYTES]; /* of --columns; "": none */
	int32_t max_length;
	int32_t *length; /* of each row, with --stats */
	size_t rows, cap;
	uint64_t total, cut;
};

static void print_row(const struct tokens *t, const struct sl_tokens *row, json_t *label)
{
	for (int32_t i = 0; i < row->n; i++) {
		if (i)
			putchar(' ');
		if (t->o->text)
			sl_command_print_text(sl_tokenizer_text(t->tokenizer, row->id[i]), "");
		else
			printf("%" PRId32, row->id[i]);
	}
	putchar('\n');
}

/* `label`: NULL for none. */
static void print_json(const struct tokens *t, const struct sl_tokens *row, json_t *label)
{
	json_t *root = json_object(), *ids = json_array(), *types = json_array(), *texts = json_array();

	for (int32_t i = 0; i < row->n; i++) {
		json_array_append_new(ids, json_integer(row->id[i]));
		json_array_append_new(types, json_integer(i >= row->first));
		json_array_append_new(texts, json_string(sl_tokenizer_text(t->tokenizer, row->id[i])));
	}
	json_object_set(root, "ids", ids);
	if (row->first < row->n)
		json_object_set(root, "types", types);
	if (t->o->text)
		json_object_set(root, "tokens", texts);
	if (label)
		json_object_set(root, "label", label);
	if (row->whole > row->n)
		json_object_set_new(root, "whole", json_integer(row->whole));
	sl_command_print_json(root, JSON_COMPACT);
	json_decref(ids);
	json_decref(types);
	json_decref(texts);
}

static enum sl_err count_row(struct tokens *t, const struct sl_tokens *row, struct sl_fail *fail)
{
	if (!sl_grow(&t->length, &t->cap, t->rows + 1, sizeof *t->length))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for lengths");
	t->length[t->rows++] = row->n;
	t->total += (uint64_t)row->n;
	t->cut += row->whole > row->n;
	return SL_OK;
}

static enum sl_err split_pair(const struct sl_record *row, struct sl_bytes *a, struct sl_bytes *b)
{
	const uint8_t *tab = row->a.len ? memchr(row->a.data, '\t', row->a.len) : NULL;

	if (!tab)
		return SL_ERR_DATA;
	*a = (struct sl_bytes){row->a.data, (size_t)(tab - row->a.data)};
	*b = (struct sl_bytes){tab + 1, row->a.len - a->len - 1};
	return SL_OK;
}

static enum sl_err do_row(struct tokens *t, const char *path, const struct sl_record *row, struct sl_fail *fail)
{
	struct sl_bytes a = row->a, b = row->b;
	struct sl_tokens out;
	union sl_label value;
	json_t *label = NULL;
	enum sl_err err = SL_OK;

	if (t->o->pair && split_pair(row, &a, &b) != SL_OK)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: --pair: the line has no tab between two texts", path,
				   row->line);
	if (row->label.data)
		err = sl_label_read(&t->task->labels, row->label, &value, fail);
	if (!err)
		err = sl_tokenizer_encode(t->work, a, b, t->max_length, &out, fail);
	if (err)
		return sl_fail_set(fail, err, "%s:%zu: %s", path, row->line, fail->text);
	if (t->o->stats)
		return count_row(t, &out, fail);
	if (row->label.data)
		label = t->task->labels.regression ? json_real(value.target) : json_integer(value.label);
	(t->o->json ? print_json : print_row)(t, &out, label);
	json_decref(label);
	return SL_OK;
}

/* How to read `path`, which the command line names. `file`: room for the path of a task's file. */
static enum sl_err choose(const struct tokens *t, const char *path, char *file, struct sl_records_spec *spec,
			  struct sl_fail *fail)
{
	*spec = (struct sl_records_spec){.path = path, .b = {NULL, -1}, .label = {NULL, -1}};
	if (t->task)
		return sl_glue_records(t->task, t->split, path, file, spec, fail);
	if (!t->column[0][0])
		return SL_OK;
	spec->format = sl_records_format_of(t->o->format ? t->o->format : path);
	if (spec->format == SL_RECORDS_FORMAT_COUNT || spec->format == SL_RECORDS_LINES)
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "tokens: the format of %s is not known: give --format tsv, csv or jsonl", path);
	spec->header = spec->exact = true;
	spec->a.name = t->column[0];
	spec->b.name = t->column[1][0] ? t->column[1] : NULL;
	return SL_OK;
}

static enum sl_err do_file(struct tokens *t, const char *path, struct sl_fail *fail)
{
	char file[PATH_MAX];
	struct sl_records_spec spec;
	struct sl_records *rows;
	struct sl_record row;
	enum sl_err err = choose(t, path, file, &spec, fail);

	if (!err)
		err = sl_records_open(&rows, &spec, fail);
	if (err)
		return err;
	do {
		err = sl_records_next(rows, &row, fail);
		if (!err && row.a.data)
			err = do_row(t, spec.path, &row, fail);
	} while (!err && row.a.data);
	sl_records_close(rows);
	return err;
}

static int by_size(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

/* The quantile `share` of the rows' lengths, by nearest rank. */
static int32_t quantile(const struct tokens *t, double share)
{
	size_t rank = (size_t)(share * (double)t->rows + 0.999999);

	return t->rows ? t->length[rank ? rank - 1 : 0] : 0;
}

static void print_stats(struct tokens *t)
{
	static const char *const name[] = {[SL_TOK_BPE] = "bpe",
					   [SL_TOK_MARKED] = "bpe",
					   [SL_TOK_WORDPIECE] = "wordpiece",
					   [SL_TOK_UNIGRAM] = "unigram"};
	const char *kind = name[sl_tokenizer_kind(t->tokenizer)];
	int32_t min, median, p90, max;

	if (t->rows)
		qsort(t->length, t->rows, sizeof *t->length, by_size);
	min = quantile(t, 0);
	median = quantile(t, 0.5);
	p90 = quantile(t, 0.9);
	max = quantile(t, 1);
	if (t->o->json) {
		json_t *root = json_pack("{s:i, s:s, s:i, s:I, s:I, s:{s:i, s:i, s:i, s:i}, s:i, s:I}", "schema", 1,
					 "tokenizer", kind, "vocabulary", sl_tokenizer_size(t->tokenizer), "rows",
					 (json_int_t)t->rows, "tokens", (json_int_t)t->total, "length", "min", min,
					 "median", median, "p90", p90, "max", max, "max_length", t->max_length, "cut",
					 (json_int_t)t->cut);

		sl_command_print_json(root, JSON_INDENT(2));
		return;
	}
	printf("tokenizer   %s, %" PRId32 " tokens\n", kind, sl_tokenizer_size(t->tokenizer));
	printf("rows        %zu\n", t->rows);
	printf("tokens      %" PRIu64 ", special tokens included\n", t->total);
	printf("length      min %" PRId32 ", median %" PRId32 ", p90 %" PRId32 ", max %" PRId32 "\n", min, median, p90,
	       max);
	if (t->max_length)
		printf("cut         %" PRIu64 " row%s, at %" PRId32 " tokens\n", t->cut, sl_plural(t->cut),
		       t->max_length);
}

static enum sl_err read_max_length(struct tokens *t, struct sl_fail *fail)
{
	char *end;
	long n;
	int least = sl_tokenizer_specials(t->tokenizer, true);

	if (!t->o->max_length)
		return SL_OK;
	n = strtol(t->o->max_length, &end, 10);
	if (*end || end == t->o->max_length || n <= least || n > INT32_MAX)
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "tokens: --max-length %s: a number above %d, the special tokens "
				   "of a pair",
				   t->o->max_length, least);
	t->max_length = (int32_t)n;
	return SL_OK;
}

static enum sl_err read_columns(struct tokens *t, struct sl_fail *fail)
{
	const char *text = t->o->columns, *comma = strchr(text, ',');
	size_t first = comma ? (size_t)(comma - text) : strlen(text);

	if (first == 0 || first >= COLUMN_BYTES || (comma && (!comma[1] || strlen(comma + 1) >= COLUMN_BYTES)))
		return sl_fail_set(fail, SL_ERR_USAGE,
				   "tokens: --columns takes one name, or two with a comma between them, not '%.64s'",
				   text);
	memcpy(t->column[0], text, first);
	snprintf(t->column[1], COLUMN_BYTES, "%s", comma ? comma + 1 : "");
	return SL_OK;
}

/* Reads which rows to take, from --pair, --columns or --task. */
static enum sl_err read_choice(struct tokens *t, struct sl_fail *fail)
{
	const struct sl_options *o = t->o;
	enum sl_err err = SL_OK;

	if (o->pair + (o->columns != NULL) + (o->task != NULL) > 1)
		return sl_fail_set(fail, SL_ERR_USAGE, "tokens: give only one of --pair, --columns and --task");
	if (o->stats && o->text)
		return sl_fail_set(fail, SL_ERR_USAGE, "tokens: --stats prints no rows: leave out --text");
	if (o->split && !o->task)
		return sl_fail_set(fail, SL_ERR_USAGE, "tokens: --split needs --task");
	if (o->format && !o->columns)
		return sl_fail_set(fail, SL_ERR_USAGE, "tokens: --format needs --columns");
	if (o->columns)
		err = read_columns(t, fail);
	if (!err && o->task)
		err = sl_glue_find(&t->task, o->task, fail);
	t->split = sl_glue_split_of(o->split ? o->split : "train");
	if (!err && t->split == SL_GLUE_SPLIT_COUNT)
		err = sl_fail_set(fail, SL_ERR_USAGE, "tokens: --split takes train, dev or test, not '%.64s'",
				  o->split);
	if (!err && o->task && o->n_positional == 1)
		err = sl_fail_set(fail, SL_ERR_USAGE, "tokens: --task needs the folder of the task");
	return err;
}

static enum sl_err do_files(struct tokens *t, struct sl_fail *fail)
{
	enum sl_err err = t->o->n_positional == 1 ? do_file(t, "-", fail) : SL_OK;

	for (int i = 1; i < t->o->n_positional && !err; i++)
		err = do_file(t, t->o->positional[i], fail);
	return err;
}

int splitc_tokens(int argc, char **argv)
{
	struct sl_options o = {.command = "tokens", .usage = usage};
	struct tokens t = {.o = &o};
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_TOKENS, SL_MAX_OPERANDS);

	if (status >= 0)
		return status;
	if (!o.n_positional)
		return sl_options_missing(&o, "TOKENIZER");
	err = read_choice(&t, &fail);
	if (!err)
		err = sl_tokenizer_open(&t.tokenizer, o.positional[0], &fail);
	if (!err)
		err = read_max_length(&t, &fail);
	if (!err)
		err = sl_tokenizer_work_open(&t.work, t.tokenizer, &fail);
	if (!err)
		err = do_files(&t, &fail);
	if (!err && o.stats)
		print_stats(&t);
	sl_tokenizer_work_close(t.work);
	sl_tokenizer_close(t.tokenizer);
	free(t.length);
	return err ? sl_command_failed(&fail) : 0;
}
