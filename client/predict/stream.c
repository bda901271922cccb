#include "client/predict/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/stream_set.h"
#include "client/predict/passes.h"
#include "client/setup/about.h"
#include "common/base/form.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/link/talk.h"

/* A line of the batch under way. */
struct place {
	struct sl_talk *from;
	uint64_t number;
};

struct stream {
	struct sl_setup *setup;
	const struct sl_stream_spec *spec;
	struct sl_passes *passes;
	struct sl_talks *talks;
	struct place *place; /* [train.batch] */
	int64_t n;           /* lines of the batch under way; 0: there is none */
	struct sl_loader *loader;
	struct sl_async *loaded;
	const struct sl_batch *batch; /* NULL: not ready yet, or none */
	bool passing;                 /* the batch is with the server */
	bool format_known, json;      /* of standard input, by its first line */
	struct sl_bytes header;       /* of rows of CSV; malloc'ed */
	FILE *out;                    /* a line that predict.c prints: text [len] */
	char *text;
	size_t len;
	struct sl_fail away; /* why there is no link; its code is OK while there is one, or the first is being opened */
	bool stops;
	struct sl_fail end; /* with `stops`: what the end is */
	uint64_t lines, refused;
	struct sl_fail first; /* the first error of a line */
};

static void turn(void *arg);

/* ---- answers */

/* Sends what predict.c has printed. */
static void send_line(struct stream *s, const struct place *to)
{
	(void)!fflush(s->out);
	sl_talk_answer(to->from, s->text, s->len);
	rewind(s->out);
	s->lines++;
}

static void refuse(struct stream *s, const struct place *to, const struct sl_fail *why)
{
	if (!s->refused++)
		s->first = *why;
	sl_predict_refuse(s->spec->predict, to->number, why);
	send_line(s, to);
}

/* Answers the batch under way. `why`: it was not computed; NULL: p->row has its logits. */
static void answer(struct stream *s, const struct sl_fail *why)
{
	struct sl_predict *p = s->spec->predict;
	const struct sl_batch *b = s->batch;

	for (int64_t i = 0; i < s->n; i++) {
		const struct sl_fail *bad = b && b->row_fail[i].code ? &b->row_fail[i] : why;

		if (bad) {
			refuse(s, &s->place[i], bad);
			continue;
		}
		sl_predict_line(p, sl_batch_target(b), i, s->place[i].number);
		if (p->fail.code && !s->refused++)
			s->first = p->fail;
		send_line(s, &s->place[i]);
	}
	s->n = 0;
	s->passing = false;
	s->batch = NULL;
	if (b)
		sl_loader_release(s->loader, b);
}

/* ---- batches */

static bool has_row(const struct sl_batch *b)
{
	for (int64_t i = 0; i < b->rows; i++)
		if (!b->row_fail[i].code)
			return true;
	return false;
}

static void on_batch(void *arg, const struct sl_batch *batch)
{
	struct stream *s = arg;
	const struct sl_feed feed = sl_feed_of(batch);

	s->batch = batch;
	s->passing = sl_passes_up(s->passes) && has_row(batch);
	if (s->passing)
		sl_passes_begin(s->passes, &feed);
	else
		answer(s, s->away.code ? &s->away : NULL);
	turn(s);
}

/* The names of the columns that the model reads, by its file: of a table, or of texts. The caller drops *all. */
static int names_of(const struct sl_setup *s, json_t **all, const char *name[SL_CONF_LIST_MAX])
{
	const bool table = s->conf->data.kind == SL_DATA_CSV;
	const json_t *list, *x;
	size_t i;
	int n = 0;

	*all = sl_about_parse(s);
	list = json_object_get(*all, table ? "columns" : "text_columns");
	json_array_foreach(list, i, x)
	{
		const char *one = json_string_value(table ? json_object_get(x, "name") : x);

		if (one && n < SL_CONF_LIST_MAX)
			name[n++] = one;
	}
	return n;
}

/* The first line is of neither form: no line is predicted. */
static void refuse_all(struct stream *s, const char *why)
{
	(void)sl_fail_set(&s->end, SL_ERR_DATA, "standard input: %s", why);
	s->stops = true;
}

static void say_form(struct stream *s, const char *form)
{
	sl_log(SL_LOG_INFO, "form", "standard input: %s", form);
	s->format_known = true;
}

/* On standard input the first line with data says whether lines are JSON; that of rows of CSV has the names of the
 * columns. True: it was such a header. */
static bool took_header(struct stream *s, const struct sl_bytes *line)
{
	const bool table = s->setup->conf->data.kind == SL_DATA_CSV;
	const char *name[SL_CONF_LIST_MAX];
	enum sl_form form;
	json_t *all;
	uint8_t *copy;
	int n, named;

	if (s->format_known)
		return false;
	n = names_of(s->setup, &all, name);
	form = sl_form_of(*line, name, n, &named);
	json_decref(all);
	if (s->spec->path || form == SL_FORM_JSON) { /* clients of a socket send objects alone */
		s->json = s->format_known = true;
		if (!s->spec->path)
			say_form(s, "a JSON object on each line");
	} else if (form == SL_FORM_EMPTY) {
		return false;
	} else if (table && n && !named) {
		refuse_all(s,
			   "the first line is no JSON object, and names none of the model's columns: rows of CSV need "
			   "such a line in front");
	} else if (!table && form == SL_FORM_HEADER) {
		refuse_all(s,
			   "the first line names the model's columns, and rows of CSV are not read here: give a text "
			   "on each line, or JSON objects");
	} else {
		say_form(s, table ? "rows of CSV behind the names of their columns" : "a text or path on each line");
	}
	if (!table || s->json || s->stops || !s->format_known)
		return false;
	copy = malloc(line->len + 1);
	if (!copy)
		return false;
	memcpy(copy, line->data, line->len);
	s->header = (struct sl_bytes){copy, line->len};
	return true;
}

/* Takes the lines that have come. */
static void take_lines(struct stream *s)
{
	struct place at;
	struct sl_bytes line;

	while (!s->stops && s->n < s->setup->conf->agreed.batch &&
	       sl_talks_next(s->talks, &at.from, &line, &at.number)) {
		if (took_header(s, &line)) {
			sl_talk_answer(at.from, NULL, 0);
			continue;
		}
		if (s->stops) {
			refuse(s, &at, &s->end);
			return;
		}
		sl_stream_set_put(&s->setup->set[SL_SPLIT_TEST], s->n,
				  &(struct sl_stream_line){line, at.number, s->json, s->header});
		at.number -= s->header.data != NULL; /* samples are counted, as in a file */
		s->place[s->n++] = at;
	}
}

/* Does what is next, unless a batch is under way. */
static void turn(void *arg)
{
	struct stream *s = arg;
	const bool up = sl_passes_up(s->passes);

	while (!s->n && (up || s->away.code)) {
		take_lines(s);
		if (s->n && up) {
			if (sl_loader_request(s->loader, on_batch, s) == SL_OK)
				return;
			s->away = (struct sl_fail){SL_ERR_BUG, "", "a batch is requested twice"};
		}
		if (!s->stops && sl_talks_check(s->talks, &s->end))
			s->stops = true;
		if (!s->n && (s->stops || sl_talks_over(s->talks)))
			sl_passes_end(s->passes, s->end.code, &s->end);
		if (!s->n)
			return;
		answer(s, &s->away);
	}
}

static void on_loaded(void *arg)
{
	struct stream *s = arg;

	sl_loader_drain(s->loader);
}

/* ---- the server */

static void on_ready(void *arg)
{
	struct stream *s = arg;

	s->away.code = SL_OK;
	sl_log(SL_LOG_INFO, "serving", "lines are predicted%s%s", s->spec->path ? " at unix:" : "",
	       s->spec->path ? s->spec->path : "");
	turn(s);
}

static void on_done(void *arg)
{
	struct stream *s = arg;

	answer(s, NULL);
	turn(s);
}

static void on_lost(void *arg, const struct sl_fail *why, bool again)
{
	struct stream *s = arg;

	if (!sl_passes_up(s->passes))
		s->away = *why;
	if (s->passing)
		answer(s, why);
	if (again)
		turn(s);
}

/* The batch under way is answered first, unless a second signal comes. */
static void on_signal(void *arg, int signum)
{
	struct stream *s = arg;

	if (!s->spec->path)
		(void)sl_fail_set(&s->end, s->stops ? SL_ERR_UNAVAILABLE : SL_ERR_BUSY, "interrupted by signal %d",
				  signum);
	if (s->stops || !s->n)
		sl_passes_end(s->passes, s->end.code, &s->end);
	s->stops = true;
}

/* ---- from the first line to the last */

static enum sl_err open_all(struct stream *s, struct sl_fail *fail)
{
	const struct sl_passes_spec spec = {.setup = s->setup,
					    .logits = s->spec->predict->row,
					    .local = s->spec->local,
					    .waits = true,
					    .serves = true,
					    .ready = on_ready,
					    .done = on_done,
					    .lost = on_lost,
					    .signal = on_signal,
					    .arg = s};
	enum sl_err err = sl_passes_open(&s->passes, &spec, fail);
	struct sl_loop *loop = err ? NULL : sl_passes_loop(s->passes);

	s->place = calloc((size_t)s->setup->conf->agreed.batch, sizeof *s->place);
	s->out = open_memstream(&s->text, &s->len);
	if (!err && (!s->place || !s->out))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a batch of lines");
	s->spec->predict->spec.out = s->out;
	if (!err)
		err = sl_async_open(&s->loaded, loop, on_loaded, s, fail);
	if (!err)
		err = sl_setup_loader(s->setup, SL_SPLIT_TEST, sl_async_wake, s->loaded, &s->loader, fail);
	return err ? err : sl_talks_open(&s->talks, loop, s->spec->path, turn, s, fail);
}

enum sl_err sl_stream_run(struct sl_setup *setup, const struct sl_stream_spec *spec, struct sl_fail *fail)
{
	struct stream s = {.setup = setup, .spec = spec};
	enum sl_err err = open_all(&s, fail);

	if (!err)
		err = sl_passes_run(s.passes, fail);
	sl_talks_close(s.talks);
	sl_loader_close(s.loader);
	sl_async_close(s.loaded);
	sl_passes_close(s.passes);
	if (s.out)
		fclose(s.out);
	free(s.text);
	free(s.place);
	free((void *)(uintptr_t)s.header.data);
	if (!err)
		sl_log(SL_LOG_INFO, "predicted", "%" PRIu64 " line%s, %" PRIu64 " of them with an error", s.lines,
		       sl_plural((long long)s.lines), s.refused);
	if (err || spec->path || !s.refused)
		return err;
	return sl_fail_set(fail, s.first.code, "%" PRIu64 " of %" PRIu64 " lines have an error; the first: %.300s",
			   s.refused, s.lines, s.first.text);
}
