#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/data/loader_impl.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"

static int members_of(const struct sl_loader_spec *spec)
{
	return spec->members > 1 ? spec->members : 1;
}

int64_t sl_loader_first_row(const struct sl_loader *loader, int64_t index)
{
	return (index * members_of(&loader->spec) + loader->spec.member) * loader->spec.batch;
}

static void slot_run(struct sl_job *job)
{
	struct slot *slot = (struct slot *)job;

	if (slot->generation != atomic_load(&slot->loader->generation))
		return;
	SL_FAILPOINT(SL_FP_CLIENT_LOAD);
	sl_loader_fill(slot);
}

static struct position position_after(const struct sl_loader *loader, struct position at)
{
	if (at.index + 1 < loader->batches)
		return (struct position){at.epoch, at.index + 1};
	return (struct position){at.epoch + 1, 0};
}

static int64_t rows_of(const struct sl_loader *loader, int64_t index)
{
	int64_t left = loader->spec.set->count - sl_loader_first_row(loader, index);

	return left < loader->spec.batch ? left : loader->spec.batch;
}

/* Queues the next batches in free slots, up to `prefetch` ahead. One slot more is left for the batch that the
 * consumer holds. */
static void refill(struct sl_loader *loader)
{
	const int most = loader->spec.prefetch ? loader->spec.prefetch : loader->waiting != NULL;
	int ahead = 0;

	for (int i = 0; i < loader->nslots; i++)
		ahead += loader->slots[i].state == SLOT_QUEUED || loader->slots[i].state == SLOT_READY;
	for (int i = 0; i < loader->nslots && ahead < most; i++) {
		struct slot *slot = &loader->slots[i];

		if (slot->state != SLOT_FREE)
			continue;
		slot->batch.epoch = loader->ahead.epoch;
		slot->batch.index = loader->ahead.index;
		slot->batch.rows = rows_of(loader, loader->ahead.index);
		slot->batch.err = SL_OK;
		slot->generation = atomic_load(&loader->generation);
		slot->state = SLOT_QUEUED;
		loader->ahead = position_after(loader, loader->ahead);
		sl_worker_post(loader->worker, &slot->job);
		ahead++;
	}
}

static void slot_done(struct sl_job *job)
{
	struct slot *slot = (struct slot *)job;

	slot->state = slot->generation == atomic_load(&slot->loader->generation) ? SLOT_READY : SLOT_FREE;
}

/* Takes the next batch, which is held from now on; NULL: it is not ready. */
static struct slot *take_ready(struct sl_loader *loader)
{
	for (int i = 0; i < loader->nslots; i++) {
		struct slot *slot = &loader->slots[i];

		if (slot->state != SLOT_READY || slot->batch.epoch != loader->next.epoch ||
		    slot->batch.index != loader->next.index)
			continue;
		slot->state = SLOT_HELD;
		loader->held = true;
		loader->next = position_after(loader, loader->next);
		refill(loader);
		return slot;
	}
	return NULL;
}

static void wake_consumer(struct sl_loader *loader)
{
	if (loader->spec.wake)
		loader->spec.wake(loader->spec.wake_arg);
}

static void worker_wake(void *arg)
{
	struct sl_loader *loader = arg;
	uint64_t one = 1;
	ssize_t written = write(loader->wake_fd, &one, sizeof one);

	(void)written; /* fails only where 2^64 − 2 wakes are waiting already */
	wake_consumer(loader);
}

void sl_loader_drain(struct sl_loader *loader)
{
	sl_worker_drain(loader->worker);
	refill(loader);
	if (loader->waiting && !loader->held) {
		struct slot *slot = take_ready(loader);

		if (slot) {
			sl_loader_fn *fn = loader->waiting;

			loader->waiting = NULL; /* before the call: fn may request the next */
			slot->batch.waited_s = sl_seconds_since(loader->asked_ns);
			fn(loader->waiting_arg, &slot->batch);
		}
	}
}

enum sl_err sl_loader_request(struct sl_loader *loader, sl_loader_fn *fn, void *arg)
{
	if (loader->waiting)
		return SL_ERR_BUSY;
	loader->waiting = fn;
	loader->waiting_arg = arg;
	loader->asked_ns = sl_now_ns();
	wake_consumer(loader);
	return SL_OK;
}

enum sl_err sl_loader_next(struct sl_loader *loader, const struct sl_batch **out)
{
	if (loader->waiting)
		return SL_ERR_BUSY;
	if (loader->held)
		return SL_ERR_LIMIT;
	loader->asked_ns = sl_now_ns();
	for (;;) {
		struct slot *slot;
		uint64_t wakes;

		sl_worker_drain(loader->worker);
		refill(loader);
		slot = take_ready(loader);
		if (slot) {
			slot->batch.waited_s = sl_seconds_since(loader->asked_ns);
			*out = &slot->batch;
			return SL_OK;
		}
		if (read(loader->wake_fd, &wakes, sizeof wakes) < 0 && errno != EINTR)
			return SL_ERR_OS;
	}
}

void sl_loader_release(struct sl_loader *loader, const struct sl_batch *batch)
{
	for (int i = 0; i < loader->nslots; i++) {
		struct slot *slot = &loader->slots[i];

		if (&slot->batch != batch || slot->state != SLOT_HELD)
			continue;
		slot->state = SLOT_FREE;
		loader->held = false;
		refill(loader);
		if (loader->waiting)
			wake_consumer(loader);
	}
}

enum sl_err sl_loader_take(struct sl_loader *loader, const struct sl_batch **out, struct sl_fail *fail)
{
	enum sl_err err = sl_loader_next(loader, out);

	if (err) {
		*out = NULL;
		return sl_fail_set(fail, err, "the data loader: %s", sl_err_text(err));
	}
	err = (*out)->err;
	if (err) {
		*fail = (*out)->why;
		sl_loader_release(loader, *out);
		*out = NULL;
	}
	return err;
}

enum sl_err sl_loader_seek(struct sl_loader *loader, uint64_t epoch, int64_t index)
{
	if (loader->waiting || index < 0 || index >= loader->batches)
		return SL_ERR_BUG;
	if (loader->next.epoch == epoch && loader->next.index == index)
		return SL_OK;
	atomic_fetch_add(&loader->generation, 1);
	for (int i = 0; i < loader->nslots; i++)
		if (loader->slots[i].state == SLOT_READY)
			loader->slots[i].state = SLOT_FREE;
	loader->next = loader->ahead = (struct position){epoch, index};
	refill(loader);
	return SL_OK;
}

int64_t sl_loader_batches(const struct sl_loader *loader)
{
	return loader->batches;
}

static enum sl_err spec_check(const struct sl_loader_spec *spec, struct sl_fail *fail)
{
	const struct sl_augment_spec *aug = spec->augment ? sl_augment_spec(spec->augment) : NULL;
	const int64_t *side = spec->set->field[SL_FIELD_INPUT].dim;

	if (aug && (aug->in_h != side[0] || aug->in_w != side[1]))
		return sl_fail_set(fail, SL_ERR_CONFIG, "the augmentation's input is %d×%d, the images are %lld×%lld",
				   aug->in_h, aug->in_w, (long long)side[0], (long long)side[1]);
	if (spec->set->count < 1 || spec->set->count > SL_SET_MAX_SAMPLES)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the data set has %lld samples", (long long)spec->set->count);
	if ((aug || spec->transform) != (strcmp(spec->set->field[SL_FIELD_INPUT].name, "image") == 0))
		return sl_fail_set(fail, SL_ERR_BUG, "images are transformed, and nothing else");
	if (spec->members > 1 && spec->batch * spec->members > spec->set->count)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%d members with batches of %lld need more than %lld samples",
				   spec->members, (long long)spec->batch, (long long)spec->set->count);
	if (spec->drop_last && spec->batch > spec->set->count)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "batch %lld is larger than the data set of %lld samples, and drop_last leaves none",
				   (long long)spec->batch, (long long)spec->set->count);
	if (spec->mixup > 0 && spec->train &&
	    (spec->set->source->extent || spec->set->field[SL_FIELD_TARGET].dtype != SL_I32))
		return sl_fail_set(fail, SL_ERR_CONFIG, "only pictures and rows with labels can be mixed");
	return SL_OK;
}

/* The type of a row of field f: pictures and masks as the network takes them, all else as the set has it. */
static struct sl_field_type type_of_row(const struct sl_loader_input *in, int f)
{
	struct sl_field_type type = in->set->field[f];

	if ((f == SL_FIELD_INPUT && in->augment) || (type.ndim > 1 && in->transform)) {
		type.dtype = f == SL_FIELD_INPUT ? SL_F32 : type.dtype;
		type.dim[0] = in->augment ? sl_augment_spec(in->augment)->out_h : sl_transform_height(in->transform);
		type.dim[1] = in->augment ? sl_augment_spec(in->augment)->out_w : sl_transform_width(in->transform);
	}
	return type;
}

/* Of tokens: the bytes of one. */
static size_t bytes_of_row(const struct sl_field_type *type, bool tokens)
{
	size_t bytes = sl_dtype_bytes(type->dtype);

	for (int d = 0; d < type->ndim && !tokens; d++)
		bytes *= (size_t)type->dim[d];
	return bytes;
}

static void types_of_rows(struct sl_loader *loader)
{
	const struct sl_loader_spec *spec = &loader->spec;
	const bool tokens = spec->set->source->extent != NULL;

	loader->n_input = 1 + spec->n_more;
	loader->input[0] =
		(struct sl_loader_input){spec->set, spec->augment, spec->transform, spec->place, spec->skip_bad};
	memcpy(&loader->input[1], spec->more, sizeof spec->more);
	for (int f = 0; f < SL_FIELD_COUNT; f++) {
		loader->type[f] = type_of_row(&loader->input[0], f);
		loader->row_bytes[f] = bytes_of_row(&loader->type[f], f == SL_FIELD_INPUT && tokens);
	}
	for (int k = 0; k < loader->n_input; k++) {
		const struct sl_field_type type = type_of_row(&loader->input[k], SL_FIELD_INPUT);

		loader->input_bytes[k] = bytes_of_row(&type, tokens);
	}
}

static bool chooses(const struct sl_loader *loader)
{
	return loader->spec.masked > 0 || loader->spec.next;
}

static size_t most_chosen(const struct sl_loader *loader, size_t rows)
{
	const float share = loader->spec.next ? 1 : loader->spec.masked;

	return (size_t)sl_mask_most(share, loader->most_tokens, (int64_t)rows);
}

static size_t chosen_bytes(const struct sl_loader *loader, size_t rows)
{
	return chooses(loader) ? sl_align((rows + 1) * sizeof(uint32_t)) +
					 sl_align(most_chosen(loader, rows) * sizeof(uint32_t))
			       : 0;
}

static size_t field_bytes(const struct sl_loader *loader, int f, size_t rows)
{
	const bool tokens = f == SL_FIELD_INPUT && loader->most_tokens;

	if (f == SL_FIELD_TARGET && chooses(loader))
		return sl_align(most_chosen(loader, rows) * sizeof(int32_t));
	return sl_align((tokens ? (size_t)loader->most_tokens : rows) * loader->row_bytes[f]);
}

static size_t begin_bytes(const struct sl_loader *loader, size_t rows)
{
	return loader->most_tokens ? sl_align((rows + 1) * sizeof(uint32_t)) : 0;
}

static size_t pieces_bytes(const struct sl_loader *loader, size_t rows)
{
	return loader->most_tokens && loader->spec.pad ? sl_align((2 * rows + 1) * sizeof(uint32_t)) : 0;
}

static bool mixes(const struct sl_loader *loader)
{
	return loader->spec.train && loader->spec.mixup > 0;
}

static void take_slot_memory(struct sl_loader *loader, struct slot *slot, size_t rows)
{
	slot->job.run = slot_run;
	slot->job.done = slot_done;
	slot->loader = loader;
	for (int f = 0; f < SL_FIELD_COUNT; f++)
		slot->batch.field[f] = (struct sl_batch_field){
			sl_arena_take(&loader->arena, field_bytes(loader, f, rows)), loader->type[f]};
	for (int k = 0; k < loader->n_input; k++) {
		slot->input[k] = k ? sl_arena_take(&loader->arena, sl_align(rows * loader->input_bytes[k]))
				   : slot->batch.field[SL_FIELD_INPUT].data;
		slot->batch.input[loader->input[k].place] = slot->input[k];
	}
	slot->batch.samples = slot->samples = sl_arena_take(&loader->arena, sl_align(rows * sizeof(int32_t)));
	slot->row_err = sl_arena_take(&loader->arena, sl_align(rows));
	if (loader->spec.apart)
		slot->batch.row_fail = slot->row_fail =
			sl_arena_take(&loader->arena, sl_align(rows * sizeof *slot->row_fail));
	if (mixes(loader)) {
		slot->batch.other = slot->other = sl_arena_take(&loader->arena, sl_align(rows * sizeof(int32_t)));
		slot->batch.share = slot->share = sl_arena_take(&loader->arena, sl_align(rows * sizeof(float)));
	}
	if (loader->most_tokens)
		slot->batch.begin = slot->begin = sl_arena_take(&loader->arena, begin_bytes(loader, rows));
	if (chooses(loader)) {
		slot->batch.chosen = slot->chosen =
			sl_arena_take(&loader->arena, sl_align((rows + 1) * sizeof(uint32_t)));
		slot->batch.place = slot->place =
			sl_arena_take(&loader->arena, sl_align(most_chosen(loader, rows) * sizeof(uint32_t)));
	}
	if (pieces_bytes(loader, rows))
		slot->batch.pieces = slot->pieces = sl_arena_take(&loader->arena, pieces_bytes(loader, rows));
}

/* Finds the most tokens that a batch of `rows` rows, whichever they are, may have. */
static enum sl_err count_most_tokens(struct sl_loader *loader, int64_t rows, struct sl_fail *fail)
{
	const struct sl_loader_spec *spec = &loader->spec;
	const bool alike = spec->pad || spec->balanced; /* a batch may count its longest row `rows` times */
	enum sl_err err = sl_set_most_tokens(spec->set, alike ? 1 : rows, &loader->most_tokens, fail);

	if (!err)
		err = sl_set_most_tokens(spec->set, 1, &loader->longest, fail);
	if (!err && spec->pad == SL_PAD_MAX && spec->pad_to < loader->most_tokens)
		return sl_fail_set(fail, SL_ERR_CONFIG, "rows of %lld tokens are not padded to %lld",
				   (long long)loader->most_tokens, (long long)spec->pad_to);
	if (!err && alike)
		loader->most_tokens = rows * (spec->pad == SL_PAD_MAX ? spec->pad_to : loader->most_tokens);
	if (!err && loader->most_tokens > INT32_MAX)
		err = sl_fail_set(fail, SL_ERR_LIMIT, "a batch may have %lld tokens, where %d are the most",
				  (long long)loader->most_tokens, INT32_MAX);
	return err;
}

/* Takes one arena for all that the loader ever needs, except what sources read into. A batch never has more rows
 * than the set has samples. */
static enum sl_err take_memory(struct sl_loader *loader, struct sl_fail *fail)
{
	const struct sl_loader_spec *spec = &loader->spec;
	size_t rows = (size_t)(spec->batch < spec->set->count ? spec->batch : spec->set->count);
	size_t order = spec->train ? sl_align((size_t)spec->set->count * sizeof(int32_t)) : 0;
	size_t placed = spec->by_length ? sl_align((size_t)spec->set->count * sizeof(struct sl_placed)) : 0;
	size_t slots = sl_align((size_t)loader->nslots * sizeof(struct slot)), scratch, total;
	size_t of_slot = sl_align(rows * sizeof(int32_t)) + sl_align(rows) +
			 (spec->apart ? sl_align(rows * sizeof(struct sl_fail)) : 0);
	enum sl_err err = SL_OK;

	if (spec->set->source->extent)
		err = count_most_tokens(loader, (int64_t)rows, fail);
	if (err)
		return err;
	of_slot += begin_bytes(loader, rows) + pieces_bytes(loader, rows) + chosen_bytes(loader, rows) +
		   (mixes(loader) ? 2 * sl_align(rows * sizeof(int32_t)) : 0);
	for (int f = 0; f < SL_FIELD_COUNT; f++)
		of_slot += field_bytes(loader, f, rows);
	for (int k = 1; k < loader->n_input; k++)
		of_slot += sl_align(rows * loader->input_bytes[k]);
	for (int k = 0; k < loader->n_input; k++) { /* whole cache lines, so that threads do not share one */
		const struct sl_augment *augment = loader->input[k].augment;
		const size_t bytes = augment ? sl_align(sl_augment_scratch_floats(augment) * sizeof(float)) : 0;

		if (bytes > loader->scratch_floats * sizeof(float))
			loader->scratch_floats = bytes / sizeof(float);
	}
	scratch = (size_t)loader->threads * loader->scratch_floats * sizeof(float);
	if (__builtin_mul_overflow((size_t)loader->nslots, of_slot, &total))
		return sl_fail_set(fail, SL_ERR_NOMEM, "batches of %zu images are larger than the address space", rows);
	err = sl_arena_open(&loader->arena, total + slots + order + scratch + placed + (placed ? order : 0), fail);
	if (err)
		return err;
	loader->slots = sl_arena_take(&loader->arena, slots);
	loader->order = sl_arena_take(&loader->arena, order);
	if (placed) {
		loader->placed = sl_arena_take(&loader->arena, placed);
		loader->turn = sl_arena_take(&loader->arena, order);
	}
	loader->scratch = sl_arena_take(&loader->arena, scratch);
	for (int i = 0; i < loader->nslots; i++)
		take_slot_memory(loader, &loader->slots[i], rows);
	if (spec->masked > 0)
		loader->draw = calloc((size_t)loader->longest, sizeof *loader->draw);
	loader->room = calloc((size_t)loader->threads * (size_t)loader->n_input, sizeof *loader->room);
	loader->work = calloc((size_t)loader->threads * (size_t)loader->n_input, sizeof *loader->work);
	loader->named = calloc((size_t)spec->set->count, sizeof *loader->named);
	if (!loader->room || !loader->work || !loader->named || (spec->masked > 0 && !loader->draw))
		return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the data loader");
	return SL_OK;
}

/* With one thread, the worker does everything. With more, it takes part in a pool. */
static enum sl_err start_threads(struct sl_loader *loader, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	loader->threads = 1;
	if (loader->spec.threads != 1) {
		err = sl_pool_open(&loader->pool, loader->spec.threads, fail);
		if (!err)
			loader->threads = sl_pool_threads(loader->pool);
	}
	return err ? err : sl_worker_open(&loader->worker, "data", worker_wake, loader, fail);
}

enum sl_err sl_loader_open(struct sl_loader **out, const struct sl_loader_spec *spec, struct sl_fail *fail)
{
	struct sl_loader *loader;
	enum sl_err err = spec_check(spec, fail);

	if (err)
		return err;
	loader = calloc(1, sizeof *loader);
	if (!loader)
		return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the data loader");
	loader->spec = *spec;
	loader->nslots = spec->prefetch + 1;
	types_of_rows(loader);
	loader->batches = spec->set->count / (spec->batch * members_of(spec));
	if (spec->members <= 1 && !spec->drop_last && spec->set->count % spec->batch)
		loader->batches++;
	loader->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (loader->wake_fd < 0) {
		err = sl_fail_set(fail, SL_ERR_OS, "eventfd: %s", strerror(errno));
		goto fail;
	}
	err = spec->balanced ? sl_balance_open(&loader->balance, spec->set, fail) : SL_OK;
	if (!err)
		err = start_threads(loader, fail);
	if (err)
		goto fail;
	err = take_memory(loader, fail);
	if (err)
		goto fail;
	refill(loader);
	*out = loader;
	return SL_OK;
fail:
	sl_loader_close(loader);
	return err;
}

void sl_loader_close(struct sl_loader *loader)
{
	if (!loader)
		return;
	atomic_fetch_add(&loader->generation, 1); /* the worker skips what is still queued */
	sl_worker_close(loader->worker);
	sl_pool_close(loader->pool);
	for (int i = 0; i < loader->threads * loader->n_input && loader->room; i++)
		sl_room_close(&loader->room[i]);
	for (int i = 0; i < loader->threads * loader->n_input && loader->work; i++)
		sl_transform_work_close(&loader->work[i]);
	free(loader->room);
	free(loader->work);
	free(loader->named);
	free(loader->draw);
	sl_balance_close(loader->balance);
	sl_arena_close(&loader->arena);
	if (loader->wake_fd >= 0)
		close(loader->wake_fd);
	free(loader);
}
