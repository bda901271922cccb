#include "client/data/stream_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/text/records.h"
#include "client/text/tokenizer.h"
#include "common/base/grow.h"

static const char name[] = "stream"; /* of the lines, in messages and as samples */

struct line {
	char *text; /* what the source reads, with a newline and a NUL */
	size_t len, cap, above;
	uint64_t number; /* from 0, in its stream */
	bool json, read;
	struct sl_set set; /* of this line alone */
	enum sl_err err;   /* why it cannot be read */
	struct sl_fail why;
};

struct lines {
	struct sl_stream_set_spec spec;
	struct sl_set base; /* without a sample */
	struct sl_tokenizer *tokenizer;
	struct line *line; /* [spec.most] */
};

/* Gets the picture's path from the line. */
static enum sl_err path_of(char out[PATH_MAX], const struct line *line, struct sl_fail *fail)
{
	const struct sl_records_spec spec = {.path = name,
					     .format = line->json ? SL_RECORDS_JSONL : SL_RECORDS_LINES,
					     .a = {line->json ? "file" : NULL, 0},
					     .b = {NULL, -1},
					     .label = {NULL, -1},
					     .above = line->above};
	struct sl_records *records;
	struct sl_record row = {.line = 0};
	enum sl_err err =
		sl_records_open_bytes(&records, &spec, (struct sl_bytes){(const uint8_t *)line->text, line->len}, fail);

	if (err)
		return err;
	err = sl_records_next(records, &row, fail);
	if (!err && (!row.a.len || row.a.len >= PATH_MAX || memchr(row.a.data, 0, row.a.len)))
		err = sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: a path of 1 to %d bytes is needed", name, row.line,
				  PATH_MAX - 1);
	if (!err) {
		memcpy(out, row.a.data, row.a.len);
		out[row.a.len] = 0;
	}
	sl_records_close(records);
	return err;
}

static enum sl_err open_line(const struct lines *l, struct line *line)
{
	const struct sl_set_rows rows = {
		{(const uint8_t *)line->text, line->len}, .json = line->json, .above = line->above};
	const bool pictures = l->spec.pictures;
	char path[PATH_MAX];
	enum sl_err err = pictures ? path_of(path, line, &line->why) : SL_OK;

	if (!err)
		err = l->spec.open(l->spec.arg, pictures ? path : name, pictures ? NULL : &rows, l->tokenizer,
				   &line->set, &line->why);
	if (!err && line->set.count != 1) {
		sl_set_close(&line->set);
		err = sl_fail_set(&line->why, SL_ERR_DATA, "%s:%zu: a line is one sample, such as a picture's file",
				  name, line->above + 1);
	}
	return err;
}

/* The line's set, opened at the first call. NULL: line->err. */
static const struct sl_set *set_of(const struct sl_set *set, int64_t index, struct line **line)
{
	const struct lines *l = set->data;

	*line = &l->line[index];
	if (!(*line)->read)
		(*line)->err = open_line(l, *line);
	(*line)->read = true;
	return (*line)->err ? NULL : &(*line)->set;
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	struct line *line;
	const struct sl_set *one = set_of(set, index, &line);

	return one ? one->source->sample(one, 0, room, out, fail) : sl_fail_set(fail, line->err, "%s", line->why.text);
}

/* A place without a line counts as the longest, for whoever makes room. One that cannot be read has one token. */
static int64_t extent(const struct sl_set *set, int64_t index)
{
	const struct lines *l = set->data;
	const struct sl_set *one;
	struct line *line;

	if (!l->line[index].len)
		return l->spec.most_tokens;
	one = set_of(set, index, &line);
	return one ? one->source->extent(one, 0) : 1;
}

static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	struct line *line;
	const struct sl_set *one = set_of(set, index, &line);

	if (one && ((const struct lines *)set->data)->spec.pictures)
		return one->source->sample_name(one, 0, out, size);
	snprintf(out, size, "%s:%" PRIu64, name, line->number + 1);
	return out;
}

static const char *class_name(const struct sl_set *set, int label)
{
	const struct sl_set *base = &((const struct lines *)set->data)->base;

	return base->source->class_name ? base->source->class_name(base, label) : NULL;
}

static void close_set(struct sl_set *set)
{
	struct lines *l = set->data;

	for (int64_t i = 0; l && l->line && i < l->spec.most; i++) {
		sl_set_close(&l->line[i].set);
		free(l->line[i].text);
	}
	if (l) {
		sl_set_close(&l->base);
		sl_tokenizer_close(l->tokenizer);
		free(l->line);
	}
	free(l);
}

#define SOURCE .name = name, .sample = sample, .close = close_set, .sample_name = sample_name, .class_name = class_name

static const struct sl_source plain = {SOURCE}, tokens = {SOURCE, .extent = extent};

enum sl_err sl_stream_set_open(struct sl_set *out, const struct sl_stream_set_spec *spec, struct sl_fail *fail)
{
	struct lines *l = calloc(1, sizeof *l);
	struct sl_set set = {.source = &plain, .data = l};
	struct sl_fail why;
	enum sl_err err = SL_OK;

	if (l) {
		l->spec = *spec;
		l->line = calloc((size_t)spec->most, sizeof *l->line);
	}
	if (!l || !l->line)
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for lines");
	if (!err && spec->tokenizer && sl_tokenizer_open(&l->tokenizer, spec->tokenizer, &why) != SL_OK)
		err = sl_fail_at(fail, "data.tokenizer", why.code, "%s", why.text);
	if (!err)
		err = spec->open(spec->arg, NULL, NULL, l->tokenizer, &l->base, fail);
	if (err) {
		close_set(&set);
		return err;
	}
	*out = l->base;
	out->source = l->base.source->extent ? &tokens : &plain;
	out->data = l;
	out->count = spec->most;
	return SL_OK;
}

void sl_stream_set_put(struct sl_set *set, int64_t index, const struct sl_stream_line *from)
{
	struct lines *l = set->data;
	struct line *line = &l->line[index];
	const struct sl_bytes part[] = {from->header, from->text};

	sl_set_close(&line->set);
	line->read = false;
	line->len = 0;
	line->json = from->json;
	line->number = from->number;
	line->above = from->number - (from->header.data != NULL);
	set->count = index + 1;
	if (!from->text.data)
		line->err = sl_fail_set(&line->why, SL_ERR_DATA, "%s:%" PRIu64 ": the line is too long", name,
					from->number + 1);
	else if (!sl_grow(&line->text, &line->cap, from->header.len + from->text.len + 3, 1))
		line->err = sl_fail_set(&line->why, SL_ERR_NOMEM, "%s: no memory for a line", name);
	else
		line->err = SL_OK;
	if (line->err) {
		line->len = line->read = true;
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		if (!part[i].data)
			continue;
		if (part[i].len)
			memcpy(line->text + line->len, part[i].data, part[i].len);
		line->len += part[i].len;
		line->text[line->len++] = '\n';
	}
	line->text[line->len] = 0;
}
