#include <string.h>

#include "client/data/loader_impl.h"
#include "client/data/mixup.h"
#include "common/base/log.h"

enum { BLOCK_ROWS = 4 }; /* samples per block of the pool: whatever the number of threads */

static enum sl_err fill_tokens(struct slot *slot, int64_t r, int thread, struct sl_fail *fail)
{
	const struct sl_loader *loader = slot->loader;
	const struct sl_batch *batch = &slot->batch;
	const struct sl_set *set = loader->spec.set;
	struct sl_value value[SL_FIELD_COUNT];
	int32_t *token = batch->field[SL_FIELD_INPUT].data;
	const uint32_t stop = slot->pieces ? slot->pieces[2 * r + 1] : slot->begin[r + 1];
	enum sl_err err = set->source->sample(set, slot->samples[r], &loader->room[thread], value, fail);

	if (err)
		return err;
	memcpy(token + slot->begin[r], value[SL_FIELD_INPUT].data, (stop - slot->begin[r]) * sizeof *token);
	for (uint32_t i = stop; i < slot->begin[r + 1]; i++)
		token[i] = set->pad;
	if (slot->chosen) {
		slot->chosen[r + 1] = loader->spec.next ? *(const uint32_t *)value[SL_FIELD_TARGET].data : 0;
		return SL_OK;
	}
	memcpy((char *)batch->field[SL_FIELD_TARGET].data + (size_t)r * loader->row_bytes[SL_FIELD_TARGET],
	       value[SL_FIELD_TARGET].data, loader->row_bytes[SL_FIELD_TARGET]);
	return SL_OK;
}

/* The epoch number for the random choices of row r. A sample that repeats in an epoch gets another number, so that
 * it draws anew. */
static uint64_t drawn_in(const struct slot *slot, int64_t r)
{
	const struct sl_loader *loader = slot->loader;
	const int64_t place = sl_loader_first_row(loader, slot->batch.index) + r;

	return slot->batch.epoch |
	       (loader->spec.train && loader->balance ? (uint64_t)sl_balance_again(loader->balance, place) << 32 : 0);
}

/* Makes row r of input k from what the source has read of the sample. */
static enum sl_err fill_image(struct slot *slot, int k, float *image, int64_t r, int64_t sample, int thread,
			      const struct sl_value *picture, struct sl_fail *fail)
{
	const struct sl_loader *loader = slot->loader;
	const struct sl_loader_spec *spec = &loader->spec;
	const struct sl_loader_input *in = &loader->input[k];

	if (in->augment) {
		sl_augment_apply(in->augment, image, picture->data,
				 spec->train ? sl_augment_draw(in->augment, spec->seed, drawn_in(slot, r), sample)
					     : sl_augment_centre(in->augment),
				 loader->scratch + (size_t)thread * loader->scratch_floats);
		return SL_OK;
	}
	if (in->transform)
		return sl_transform_apply(&loader->work[thread * loader->n_input + k], image, picture, fail);
	memcpy(image, picture->data, loader->input_bytes[k]); /* a row of numbers, or a patch */
	return SL_OK;
}

/* Copies the target of row r, or transforms it if it is a mask. */
static enum sl_err fill_target(struct slot *slot, int64_t r, int64_t sample, int thread, const struct sl_value *target,
			       struct sl_fail *fail)
{
	const struct sl_loader *loader = slot->loader;
	const size_t bytes = loader->row_bytes[SL_FIELD_TARGET];
	void *out = (char *)slot->batch.field[SL_FIELD_TARGET].data + (size_t)r * bytes;
	struct sl_fail why = {0};
	enum sl_err err;

	if (loader->type[SL_FIELD_TARGET].ndim < 2 || !loader->input[0].transform) {
		memcpy(out, target->data, bytes);
		return SL_OK;
	}
	if (target->dim[0]) {
		err = sl_transform_mask(&loader->work[thread * loader->n_input], out, target, &why);
		return sl_set_blame(loader->spec.set, sample, err, &why, fail);
	}
	for (size_t i = 0; i < bytes / sizeof(int32_t); i++) /* there is no mask */
		((int32_t *)out)[i] = SL_LEARN_IGNORED;
	return SL_OK;
}

/* Reads sample `sample` of input k as row r of the batch. */
static enum sl_err fill_input(struct slot *slot, int k, int64_t r, int64_t sample, int thread,
			      struct sl_value value[SL_FIELD_COUNT], struct sl_fail *fail)
{
	struct sl_loader *loader = slot->loader;
	const struct sl_loader_input *in = &loader->input[k];
	struct sl_room *room = &loader->room[thread * loader->n_input + k];
	const struct sl_sample_draw draw = {loader->spec.seed, drawn_in(slot, r)};
	float *image = (float *)slot->input[k] + (size_t)r * loader->input_bytes[k] / sizeof(float);
	struct sl_fail why = {0};
	enum sl_err err;

	if (in->transform)
		room->wanted = sl_transform_begin(in->transform, &loader->work[thread * loader->n_input + k],
						  loader->spec.seed, drawn_in(slot, r), sample);
	room->draw = &draw;
	err = in->set->source->sample(in->set, sample, room, value, fail);
	room->draw = NULL;
	return err ? err
		   : sl_set_blame(in->set, sample,
				  fill_image(slot, k, image, r, sample, thread, &value[SL_FIELD_INPUT], &why), &why,
				  fail);
}

/* Reads sample `sample` as row r of the batch. *k: the input that was read last. */
static enum sl_err fill_sample(struct slot *slot, int64_t r, int64_t sample, int thread, int *k, struct sl_fail *fail)
{
	struct sl_value value[SL_FIELD_COUNT] = {0};
	enum sl_err err = fill_input(slot, *k = 0, r, sample, thread, value, fail);

	if (!err)
		err = fill_target(slot, r, sample, thread, &value[SL_FIELD_TARGET], fail);
	while (!err && *k + 1 < slot->loader->n_input)
		err = fill_input(slot, ++*k, r, sample, thread, value, fail);
	if (!err)
		slot->samples[r] = (int32_t)sample;
	return err;
}

/* Whether the error is one of the sample, and not of this machine: another sample may be read instead. */
static bool is_of_sample(enum sl_err err)
{
	return err == SL_ERR_DATA || err == SL_ERR_NOINPUT;
}

static void name_bad(struct sl_loader *loader, int64_t sample, const struct sl_fail *why)
{
	if (!atomic_exchange(&loader->named[sample], 1))
		sl_log(SL_LOG_WARN, "bad-sample", "%s; %s (bad samples so far: %lld)", why->text,
		       loader->spec.train     ? "the next sample takes its place"
		       : loader->spec.predict ? "it gets no prediction"
					      : "the next sample takes its place, and an evaluation counts it twice",
		       atomic_fetch_add(&loader->n_named, 1) + 1);
}

/* Fills row r. The next readable sample replaces one that an input with skip_bad cannot read. */
static enum sl_err fill_row(struct slot *slot, int64_t r, int thread, struct sl_fail *fail)
{
	struct sl_loader *loader = slot->loader;
	const int64_t first = slot->samples[r], count = loader->spec.set->count;

	for (int64_t i = 0; i < count; i++) {
		struct sl_fail why = {0};
		int k;
		const enum sl_err err = fill_sample(slot, r, (first + i) % count, thread, &k, &why);
		const bool stops = is_of_sample(err) && !loader->input[k].skip_bad;

		if (stops || !is_of_sample(err)) {
			if (err)
				(void)sl_fail_set(fail, err, "%s%s", why.text,
						  stops && loader->input[k].transform && !loader->spec.apart
							  ? "; data.on_bad_sample: skip goes on without it"
							  : "");
			return err;
		}
		name_bad(loader, (first + i) % count, &why);
	}
	return sl_fail_set(fail, SL_ERR_DATA, "none of the %lld samples can be read", (long long)count);
}

/* What was in the row before is another batch's. */
static void clear_row(struct slot *slot, int64_t r)
{
	const struct sl_loader *loader = slot->loader;
	char *input = slot->batch.field[SL_FIELD_INPUT].data, *target = slot->batch.field[SL_FIELD_TARGET].data;
	const size_t from = slot->begin ? slot->begin[r] : (size_t)r;
	const size_t n = slot->begin ? slot->begin[r + 1] - from : 1;

	memset(input + from * loader->row_bytes[SL_FIELD_INPUT], 0, n * loader->row_bytes[SL_FIELD_INPUT]);
	memset(target + (size_t)r * loader->row_bytes[SL_FIELD_TARGET], 0, loader->row_bytes[SL_FIELD_TARGET]);
}

static void fill_block(void *arg, int64_t block, int thread)
{
	struct slot *slot = arg;
	int64_t first = block * BLOCK_ROWS;
	int64_t end = first + BLOCK_ROWS < slot->batch.rows ? first + BLOCK_ROWS : slot->batch.rows;

	for (int64_t r = first; r < end; r++) {
		struct sl_fail *why = slot->row_fail ? &slot->row_fail[r] : NULL;

		if (why)
			*why = (struct sl_fail){.code = SL_OK};
		slot->row_err[r] = (slot->begin ? fill_tokens : fill_row)(slot, r, thread, why);
		if (!why || !slot->row_err[r])
			continue;
		clear_row(slot, r);
		if (!why->code)
			(void)sl_fail_set(why, slot->row_err[r], "%s", sl_err_text(slot->row_err[r]));
	}
}

/* Reads the first row that failed again, to learn why. */
static void look_for_failure(struct slot *slot)
{
	struct sl_batch *batch = &slot->batch;

	for (int64_t r = 0; r < batch->rows; r++) {
		if (!slot->row_err[r])
			continue;
		batch->err = (slot->begin ? fill_tokens : fill_row)(slot, r, 0, &batch->why);
		if (batch->err)
			batch->rows = 0;
	}
}

/* Mixes row r with its partner, the row as far from the end. The middle row of an odd batch is its own partner. */
static void mix_rows(void *arg, int64_t r, int thread)
{
	struct slot *slot = arg;
	const struct sl_loader *loader = slot->loader;
	const struct sl_loader_spec *spec = &loader->spec;
	int32_t *label = slot->batch.field[SL_FIELD_TARGET].data;
	const int64_t row[2] = {r, slot->batch.rows - 1 - r};
	double lambda[2];

	for (int i = 0; i < 2; i++) {
		lambda[i] = sl_mixup_draw(spec->mixup, spec->seed, drawn_in(slot, row[i]), slot->samples[row[i]]);
		slot->other[row[i]] = label[row[1 - i]];
	}
	for (int k = 0; k < loader->n_input && row[0] != row[1]; k++) {
		const size_t floats = loader->input_bytes[k] / sizeof(float);
		float *x = slot->input[k];

		sl_mixup_pair(x + (size_t)row[0] * floats, lambda[0], x + (size_t)row[1] * floats, lambda[1],
			      (int64_t)floats);
	}
	for (int i = 0; i < 1 + (row[0] != row[1]); i++)
		sl_mixup_target(lambda[i], &label[row[i]], &slot->other[row[i]], &slot->share[row[i]]);
}

/* Finds where the tokens of each row begin, and where its padding does. */
static void place_tokens(struct slot *slot)
{
	const struct sl_loader_spec *spec = &slot->loader->spec;
	const struct sl_set *set = spec->set;
	uint32_t each = spec->pad == SL_PAD_MAX ? (uint32_t)spec->pad_to : 0;

	for (int64_t r = 0; r < slot->batch.rows && spec->pad == SL_PAD_LONGEST; r++) {
		const uint32_t n = (uint32_t)set->source->extent(set, slot->samples[r]);

		each = n > each ? n : each;
	}
	for (int64_t r = 0; r < slot->batch.rows; r++) {
		const uint32_t n = (uint32_t)set->source->extent(set, slot->samples[r]);

		slot->begin[r + 1] = slot->begin[r] + (spec->pad ? each : n);
		if (!slot->pieces)
			continue;
		slot->pieces[2 * r + 1] = slot->begin[r] + n;
		slot->pieces[2 * r + 2] = slot->begin[r + 1];
	}
}

/* Masks one row after the other, since a row's labels follow those of the row before. */
static void mask_rows(struct slot *slot)
{
	const struct sl_loader *loader = slot->loader;
	const struct sl_loader_spec *spec = &loader->spec;
	const uint64_t epoch = spec->train ? slot->batch.epoch : SL_MASK_EVALUATION;
	int32_t *token = slot->batch.field[SL_FIELD_INPUT].data, *label = slot->batch.field[SL_FIELD_TARGET].data;

	slot->chosen[0] = 0;
	for (int64_t r = 0; r < slot->batch.rows; r++) {
		const uint32_t from = slot->begin[r], at = slot->chosen[r];
		const uint32_t stop = slot->pieces ? slot->pieces[2 * r + 1] : slot->begin[r + 1];
		const struct sl_rng_key key = sl_mask_key(spec->seed, epoch, slot->samples[r]);
		const int64_t n = sl_mask_row(&spec->set->mask, spec->masked, spec->set->vocab, key, token + from,
					      stop - from, loader->draw, slot->place + at, label + at);

		for (int64_t i = 0; i < n; i++)
			slot->place[at + i] += from;
		slot->chosen[r + 1] = at + (uint32_t)n;
	}
}

/* Makes each token the label of the one before it. The first token of a row that is a label has the index that
 * fill_tokens has left in `chosen`. */
static void choose_next(struct slot *slot)
{
	const int32_t *token = slot->batch.field[SL_FIELD_INPUT].data;
	int32_t *label = slot->batch.field[SL_FIELD_TARGET].data;

	slot->chosen[0] = 0;
	for (int64_t r = 0; r < slot->batch.rows; r++) {
		const uint32_t from = slot->begin[r], first = slot->chosen[r + 1];
		const uint32_t stop = slot->pieces ? slot->pieces[2 * r + 1] : slot->begin[r + 1];
		uint32_t n = slot->chosen[r];

		for (uint32_t i = from + (first > 1 ? first : 1); i < stop; i++, n++) {
			slot->place[n] = i - 1;
			label[n] = token[i];
		}
		slot->chosen[r + 1] = n;
	}
}

void sl_loader_fill(struct slot *slot)
{
	struct sl_loader *loader = slot->loader;
	const int64_t first = sl_loader_first_row(loader, slot->batch.index);

	if (loader->spec.train && !(loader->order_known && loader->order_epoch == slot->batch.epoch)) {
		sl_loader_order(loader, slot->batch.epoch);
		loader->order_epoch = slot->batch.epoch;
		loader->order_known = true;
	}
	for (int64_t r = 0; r < slot->batch.rows; r++)
		slot->samples[r] = loader->spec.train ? loader->order[first + r] : (int32_t)(first + r);
	if (slot->begin)
		place_tokens(slot);
	sl_pool_run(loader->pool, (slot->batch.rows + BLOCK_ROWS - 1) / BLOCK_ROWS, fill_block, slot);
	if (!slot->row_fail)
		look_for_failure(slot);
	if (slot->chosen)
		(loader->spec.next ? choose_next : mask_rows)(slot);
	if (slot->other)
		sl_pool_run(loader->pool, (slot->batch.rows + 1) / 2, mix_rows, slot);
}
