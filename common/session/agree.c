#include "common/session/agree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IMAGE_BITS = 16 };

_Static_assert((int)SL_PRECISION_COUNT == (int)SL_WIRE_PRECISIONS, "what Hello carries is enum sl_precision");
_Static_assert((int)SL_OPTIMIZER_COUNT == (int)SL_WIRE_OPTIMIZERS, "what Hello carries is enum sl_optimizer_kind");

void sl_agreement_seal(struct sl_agreement *a)
{
	char optimizer[SL_OPTIMIZER_TEXT];

	sl_optimizer_text(&a->split.plan.optimizer, optimizer);
	snprintf(a->split.plan.note, sizeof a->split.plan.note, "codec %s %s %s %s\n%s", a->codec[0].text,
		 a->codec[1].text, a->codec[2].text, a->codec[3].text, optimizer);
}

static void put(char *to, size_t cap, const char *text)
{
	snprintf(to, cap, "%s", text);
}

void sl_agreement_to_hello(const struct sl_agreement *a, const struct sl_plan *plan, struct sl_hello *h)
{
	const struct sl_model_spec *m = &a->split.model;
	const struct sl_optimizer *o = &a->split.plan.optimizer;

	memcpy(h->plan_hash, plan->hash, sizeof h->plan_hash);
	put(h->model, sizeof h->model, m->name);
	h->width = m->width;
	h->dropout = m->dropout;
	h->classes = (uint32_t)m->classes;
	/* one number where height and width are the same, else the width above the height */
	h->image = (uint32_t)m->image;
	if (sl_model_image_w(m) != m->image)
		h->image |= (uint32_t)sl_model_image_w(m) << IMAGE_BITS;
	h->cifar_stem = m->cifar_stem;
	put(h->cut, sizeof h->cut, plan->cut.text);
	put(h->insert[0], sizeof h->insert[0], a->split.insert_head);
	put(h->insert[1], sizeof h->insert[1], a->split.insert_tail);
	h->batch = (uint32_t)a->split.plan.batch;
	h->chunks = (uint32_t)a->split.plan.chunks;
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		put(h->codec[dir], sizeof h->codec[dir], a->codec[dir].text);
	h->seed = a->split.plan.seed;
	h->optimizer = o->kind;
	h->momentum = o->momentum;
	h->weight_decay = o->weight_decay;
	h->nesterov = o->nesterov;
	h->beta1 = o->beta1;
	h->beta2 = o->beta2;
	h->eps = o->eps;
	h->precision = a->split.plan.precision;
}

/* "head_end=NAME tail_begin=NAME" */
static enum sl_err read_cut(struct sl_cut_spec *cut, const char *text, struct sl_fail *fail)
{
	char extra;

	if (sscanf(text, "head_end=%95s tail_begin=%95s%c", cut->head_end, cut->tail_begin, &extra) != 2)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the cut '%.100s' is not 'head_end=NAME tail_begin=NAME'",
				   text);
	return SL_OK;
}

/* Only the canonical text: the client's own parser made it. */
static enum sl_err read_insert(char out[SL_INSERT_TEXT], const char *text, struct sl_fail *fail)
{
	char canonical[SL_INSERT_TEXT];
	struct sl_fail why;
	enum sl_err err = sl_insert_canonical(text, canonical, &why);

	if (err)
		return sl_fail_set(fail, err, "insert: %s", why.text);
	if (strcmp(canonical, text) != 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "insert: '%.100s' is written '%.100s'", text, canonical);
	put(out, SL_INSERT_TEXT, canonical);
	return SL_OK;
}

static bool between(double x, double low, double high)
{
	return isfinite(x) && x >= low && x <= high;
}

static enum sl_err read_model(struct sl_model_spec *m, const struct sl_hello *h, struct sl_fail *fail)
{
	const uint32_t image = h->image & ((1u << IMAGE_BITS) - 1);
	const uint32_t image_w = h->image >> IMAGE_BITS ? h->image >> IMAGE_BITS : image;

	if (!between(h->width, 0.01, 16) || !between(h->dropout, 0, 0.99) || h->classes < 2 || h->classes > 1000000 ||
	    image < SL_MODEL_MIN_IMAGE || image > SL_MODEL_MAX_IMAGE || image_w < SL_MODEL_MIN_IMAGE ||
	    image_w > SL_MODEL_MAX_IMAGE)
		return sl_fail_set(
			fail, SL_ERR_LIMIT,
			"a model of width %g (0.01 to 16), dropout %g (0 to 0.99), %u classes (2 to 1000000), image "
			"%ux%u (%d to %d)",
			h->width, h->dropout, h->classes, image, image_w, SL_MODEL_MIN_IMAGE, SL_MODEL_MAX_IMAGE);
	put(m->name, sizeof m->name, h->model);
	m->width = h->width;
	m->dropout = h->dropout;
	m->classes = (int)h->classes;
	m->image = (int)image;
	m->image_w = (int)image_w;
	m->cifar_stem = h->cifar_stem;
	return SL_OK;
}

enum sl_err sl_agreement_from_hello(struct sl_agreement *a, const struct sl_hello *h, struct sl_fail *fail)
{
	struct sl_agreement read = {0};
	enum sl_err err = read_model(&read.split.model, h, fail);

	if (!err)
		err = read_cut(&read.split.cut, h->cut, fail);
	if (!err)
		err = read_insert(read.split.insert_head, h->insert[0], fail);
	if (!err)
		err = read_insert(read.split.insert_tail, h->insert[1], fail);
	read.split.plan.optimizer = (struct sl_optimizer){.kind = (enum sl_optimizer_kind)h->optimizer,
							  .weight_decay = h->weight_decay,
							  .momentum = h->momentum,
							  .nesterov = h->nesterov,
							  .beta1 = h->beta1,
							  .beta2 = h->beta2,
							  .eps = h->eps};
	if (!err)
		err = sl_optimizer_check(&read.split.plan.optimizer, fail);
	if (!err && (h->batch < 1 || h->batch > SL_PLAN_MAX_BATCH || h->chunks < 1 || h->chunks > SL_PLAN_MAX_CHUNKS))
		err = sl_fail_set(fail, SL_ERR_LIMIT, "a batch of %u rows (1 to %d) in %u chunks (1 to %d)", h->batch,
				  SL_PLAN_MAX_BATCH, h->chunks, SL_PLAN_MAX_CHUNKS);
	for (int dir = 0; dir < SL_DIR_COUNT && !err; dir++)
		err = sl_codec_parse(h->codec[dir], &read.codec[dir], fail);
	if (err)
		return err;
	read.split.plan.batch = h->batch;
	read.split.plan.chunks = (int)h->chunks;
	read.split.plan.seed = h->seed;
	read.split.plan.precision = (enum sl_precision)h->precision;
	sl_agreement_seal(&read);
	*a = read;
	return SL_OK;
}
