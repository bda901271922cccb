#include "client/predict/generate.h"

#include <stdlib.h>
#include <string.h>

struct sl_generate {
	struct sl_generate_spec spec;
	struct sl_generate_row *row;
	int prompts, told; /* rows; of these, reported to `done` */
	int next;          /* the first row that has not had a seat yet */
	int *seat;         /* [batch] rows of the cache: the row that has it; -1: none */
	struct sl_sample_room room;
	float *logits; /* [batch, vocab] */
	/* the pass under way */
	int *fed;         /* [batch] the rows in it */
	uint32_t *cached; /* [2·batch] as in struct sl_dims */
	int n_fed;
	int32_t *token;                   /* [batch · row_tokens] */
	int32_t *target;                  /* [batch] labels that mean nothing */
	uint32_t *begin, *chosen, *place; /* [batch + 1], [batch + 1], [batch] */
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for texts");
}

static enum sl_err take_prompts(struct sl_generate *g, const int32_t *id, const int64_t *begin, struct sl_fail *fail)
{
	for (int i = 0; i < g->prompts; i++) {
		struct sl_generate_row *r = &g->row[i];

		for (int64_t k = begin[i]; k < begin[i + 1]; k++)
			if (id[k] >= g->spec.vocab)
				return sl_fail_set(fail, SL_ERR_DATA,
						   "prompt %d has token %d, and the network has tokens below %d: take "
						   "the tokenizer that belongs to it",
						   i + 1, (int)id[k], g->spec.vocab);
		r->n = r->prompt = (int)(begin[i + 1] - begin[i]);
		if (r->n < 1 || r->n >= g->spec.row_tokens)
			return sl_fail_set(fail, SL_ERR_DATA,
					   "prompt %d has %d tokens: 1 to %d leave room for a text (model.tokens)",
					   i + 1, r->n, g->spec.row_tokens - 1);
		r->id = calloc((size_t)g->spec.row_tokens, sizeof *r->id);
		if (!r->id)
			return no_memory(fail);
		memcpy(r->id, id + begin[i], (size_t)r->n * sizeof *id);
	}
	return SL_OK;
}

enum sl_err sl_generate_open(struct sl_generate **out, const struct sl_generate_spec *spec, const int32_t *id,
			     const int64_t *begin, int prompts, struct sl_fail *fail)
{
	struct sl_generate *g = calloc(1, sizeof *g);
	const size_t batch = (size_t)spec->batch;
	enum sl_err err = g ? SL_OK : no_memory(fail);

	if (err)
		return err;
	g->spec = *spec;
	g->prompts = prompts;
	g->row = calloc((size_t)prompts, sizeof *g->row);
	g->logits = calloc(batch * (size_t)spec->vocab, sizeof *g->logits);
	g->seat = calloc(batch, sizeof *g->seat);
	g->fed = calloc(batch, sizeof *g->fed);
	g->cached = calloc(2 * batch, sizeof *g->cached);
	g->token = calloc(batch * (size_t)spec->row_tokens, sizeof *g->token);
	g->target = calloc(batch, sizeof *g->target);
	g->begin = calloc(batch + 1, sizeof *g->begin);
	g->chosen = calloc(batch + 1, sizeof *g->chosen);
	g->place = calloc(batch, sizeof *g->place);
	if (!g->row || !g->logits || !g->seat || !g->fed || !g->cached || !g->token || !g->target || !g->begin ||
	    !g->chosen || !g->place)
		err = no_memory(fail);
	if (!err)
		err = sl_sample_open(&g->room, spec->vocab, fail);
	if (!err)
		err = take_prompts(g, id, begin, fail);
	for (int i = 0; i < spec->batch && !err; i++)
		g->seat[i] = g->next < prompts ? g->next++ : -1;
	if (err)
		sl_generate_close(g);
	else
		*out = g;
	return err;
}

void sl_generate_close(struct sl_generate *g)
{
	if (!g)
		return;
	for (int i = 0; i < g->prompts && g->row; i++)
		free(g->row[i].id);
	sl_sample_close(&g->room);
	free(g->row);
	free(g->logits);
	free(g->seat);
	free(g->fed);
	free(g->cached);
	free(g->token);
	free(g->target);
	free(g->begin);
	free(g->chosen);
	free(g->place);
	free(g);
}

float *sl_generate_logits(struct sl_generate *g)
{
	return g->logits;
}

static void feed_row(struct sl_generate *g, int seat)
{
	const struct sl_generate_row *r = &g->row[g->seat[seat]];
	const int at = g->n_fed++, n = r->n - r->cached;

	g->fed[at] = g->seat[seat];
	g->cached[2 * at] = (uint32_t)seat;
	g->cached[2 * at + 1] = (uint32_t)r->cached;
	memcpy(g->token + g->begin[at], r->id + r->cached, (size_t)n * sizeof *r->id);
	g->begin[at + 1] = g->begin[at] + (uint32_t)n;
	g->chosen[at + 1] = (uint32_t)at + 1;
	g->place[at] = g->begin[at + 1] - 1;
}

bool sl_generate_feed(struct sl_generate *g, struct sl_feed *feed)
{
	g->n_fed = 0;
	for (int i = 0; i < g->spec.batch; i++) {
		if (g->seat[i] >= 0 && g->row[g->seat[i]].end != SL_GENERATE_GOES_ON)
			g->seat[i] = g->next < g->prompts ? g->next++ : -1;
		if (g->seat[i] >= 0)
			feed_row(g, i);
	}
	*feed = (struct sl_feed){.input = g->token,
				 .begin = g->begin,
				 .target = g->target,
				 .rows = g->n_fed,
				 .chosen = g->chosen,
				 .place = g->place,
				 .cached = g->spec.caches ? g->cached : NULL};
	return g->n_fed > 0;
}

void sl_generate_forget(struct sl_generate *g)
{
	for (int i = 0; i < g->prompts; i++)
		g->row[i].cached = 0;
}

static bool ends(const struct sl_generate *g, int32_t token)
{
	for (int i = 0; i < g->spec.n_end; i++)
		if (g->spec.end[i] == token)
			return true;
	return false;
}

static void append(const struct sl_generate *g, struct sl_generate_row *r, int32_t token)
{
	if (ends(g, token)) {
		r->end = SL_GENERATE_END;
		return;
	}
	r->id[r->n++] = token;
	if (r->n == g->spec.row_tokens || r->n - r->prompt == g->spec.max_tokens)
		r->end = SL_GENERATE_LENGTH;
}

enum sl_err sl_generate_take(struct sl_generate *g, struct sl_fail *fail)
{
	for (int i = 0; i < g->n_fed; i++) {
		struct sl_generate_row *r = &g->row[g->fed[i]];
		int32_t token;

		if (sl_sample_next(&g->room, &g->spec.how, g->logits + (size_t)i * (size_t)g->spec.vocab, r->id, r->n,
				   (uint64_t)g->fed[i], &token))
			return sl_fail_set(fail, SL_ERR_NONFINITE, "logits of prompt %d hold NaN or Inf",
					   g->fed[i] + 1);
		r->cached = g->spec.caches ? r->n : 0;
		append(g, r, token);
	}
	while (g->told < g->prompts && g->row[g->told].end != SL_GENERATE_GOES_ON) {
		g->spec.done(g->spec.arg, g->told, &g->row[g->told]);
		g->told++;
	}
	return SL_OK;
}
