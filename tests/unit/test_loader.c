/* The data loader: content and order of batches, for any number of threads, with and without an event loop. */

#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/data/loader.h"
#include "client/setup/setup.h"
#include "common/base/rng.h"
#include "tests/support/unit.h"

enum { IMAGES = 53, SIDE = 40, IMAGE_BYTES = 3 * 32 * 32, IMAGE_FLOATS = SIDE * SIDE * 3 };

static struct sl_set set;
static uint8_t pixels[IMAGES][IMAGE_BYTES];
static int32_t labels[IMAGES];
static struct sl_augment *augment;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_MALLOC 0
#else
#define COUNTS_MALLOC 1
#endif
static atomic_long mallocs;
#if COUNTS_MALLOC
void *__libc_malloc(size_t bytes);
void *malloc(size_t bytes)
{
	atomic_fetch_add(&mallocs, 1);
	return __libc_malloc(bytes);
}
#endif

static struct sl_loader_spec spec_of(int64_t batch, bool train)
{
	return (struct sl_loader_spec){.set = &set,
				       .augment = augment,
				       .batch = batch,
				       .train = train,
				       .seed = 42,
				       .prefetch = 2,
				       .threads = 1};
}

static struct sl_loader *open_loader(const struct sl_loader_spec *spec)
{
	struct sl_loader *loader = NULL;
	struct sl_fail fail = {0};

	if (sl_loader_open(&loader, spec, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return loader;
}

static const struct sl_batch *next(struct sl_loader *loader)
{
	const struct sl_batch *batch = NULL;

	assert_int_equal(sl_loader_next(loader, &batch), SL_OK);
	return batch;
}

/* FNV-1a over all data of a batch. */
static uint64_t digest(const struct sl_batch *b)
{
	const struct {
		const void *data;
		size_t bytes;
	} range[] = {
		{sl_batch_images(b), (size_t)b->rows * IMAGE_FLOATS * sizeof(float)},
		{sl_batch_labels(b), (size_t)b->rows * sizeof(int32_t)},
		{b->samples, (size_t)b->rows * sizeof(int32_t)},
		{&b->epoch, sizeof b->epoch},
		{&b->index, sizeof b->index},
	};
	uint64_t h = 14695981039346656037u;

	for (size_t k = 0; k < sizeof range / sizeof *range; k++)
		for (size_t i = 0; i < range[k].bytes; i++)
			h = (h ^ ((const uint8_t *)range[k].data)[i]) * 1099511628211u;
	return h;
}

static int again[IMAGES]; /* how often each sample came in the epoch that read_epoch() reads */

/* Each row is the augmented image that `samples` names. A sample that comes again is augmented with other draws. */
static void assert_rows(const struct sl_batch *b, const struct sl_loader_spec *spec)
{
	static float image[IMAGE_FLOATS], scratch[3 * (32 + 2 * SIDE)];

	assert_true(sl_augment_scratch_floats(augment) <= sizeof scratch / sizeof *scratch);
	for (int64_t r = 0; r < b->rows; r++) {
		int32_t s = b->samples[r];
		struct sl_augment_draw draw = sl_augment_centre(augment);

		assert_in_range(s, 0, IMAGES - 1);
		if (spec->train)
			draw = sl_augment_draw(augment, spec->seed,
					       b->epoch | (spec->balanced ? (uint64_t)again[s]++ << 32 : 0), s);
		assert_int_equal(sl_batch_labels(b)[r], labels[s]);
		sl_augment_apply(augment, image, pixels[s], draw, scratch);
		assert_memory_equal(sl_batch_images(b) + r * IMAGE_FLOATS, image, sizeof image);
	}
}

/* Reads one epoch and stores its samples in order[]. Returns how many images it had. */
static int64_t read_epoch(struct sl_loader *loader, const struct sl_loader_spec *spec, uint64_t epoch, int32_t *order)
{
	int64_t at = 0;

	memset(again, 0, sizeof again);
	for (int64_t i = 0; i < sl_loader_batches(loader); i++) {
		const struct sl_batch *b = next(loader);

		assert_int_equal(b->epoch, epoch);
		assert_int_equal(b->index, i);
		assert_rows(b, spec);
		memcpy(order + at, b->samples, (size_t)b->rows * sizeof *order);
		at += b->rows;
		assert_true(b->rows == spec->batch || i == sl_loader_batches(loader) - 1);
		sl_loader_release(loader, b);
	}
	return at;
}

static void epochs_are_permutations(void **state)
{
	struct sl_loader_spec spec = spec_of(8, true);
	struct sl_loader *loader = open_loader(&spec);
	int32_t order[3][IMAGES];

	assert_int_equal(sl_loader_batches(loader), 7);
	for (int e = 0; e < 3; e++) {
		int seen[IMAGES] = {0}, in_place = 0;

		assert_int_equal(read_epoch(loader, &spec, (uint64_t)e, order[e]), IMAGES);
		for (int i = 0; i < IMAGES; i++) {
			assert_int_equal(seen[order[e][i]]++, 0);
			in_place += order[e][i] == i;
		}
		assert_true(in_place < 8); /* a random permutation has 1 fixed point on average */
	}
	assert_memory_not_equal(order[0], order[1], sizeof order[0]);
	assert_memory_not_equal(order[1], order[2], sizeof order[1]);
	sl_loader_close(loader);
}

/* Balanced classes: each run of as many samples as there are classes has each class once. Samples
 * of one class come equally often, give or take one. */
static void classes_take_turns(void **state)
{
	struct sl_loader_spec spec = spec_of(8, true);
	int32_t order[2][IMAGES];
	int have[10] = {0}, classes = 0;
	struct sl_loader *loader;

	for (int i = 0; i < IMAGES; i++)
		classes += have[labels[i]]++ == 0;
	spec.balanced = true;
	loader = open_loader(&spec);
	for (int e = 0; e < 2; e++) {
		int of[10] = {0}, seen[IMAGES] = {0};

		assert_int_equal(read_epoch(loader, &spec, (uint64_t)e, order[e]), IMAGES);
		for (int i = 0; i < IMAGES; i++) {
			assert_int_equal(of[labels[order[e][i]]]++, i / classes);
			seen[order[e][i]]++;
		}
		for (int i = 0; i < IMAGES; i++)
			assert_in_range(seen[i], of[labels[i]] / have[labels[i]], of[labels[i]] / have[labels[i]] + 1);
	}
	assert_memory_not_equal(order[0], order[1], sizeof order[0]);
	sl_loader_close(loader);
	loader = open_loader(&spec); /* a new loader gives the same order: a step can be replayed */
	assert_int_equal(read_epoch(loader, &spec, 0, order[1]), IMAGES);
	assert_memory_equal(order[0], order[1], sizeof order[0]);
	sl_loader_close(loader);
}

static void the_seed_decides(void **state)
{
	struct sl_loader_spec spec = spec_of(IMAGES, true);
	uint64_t first;

	for (int i = 0; i < 3; i++) {
		struct sl_loader *loader;

		spec.seed = i == 2 ? 43 : 42;
		loader = open_loader(&spec);
		if (i == 0)
			first = digest(next(loader));
		else
			assert_int_equal(digest(next(loader)) == first, i == 1);
		sl_loader_close(loader);
	}
}

static void evaluation_is_in_order(void **state)
{
	struct sl_loader_spec spec = spec_of(10, false);
	struct sl_loader *loader = open_loader(&spec);
	int32_t order[IMAGES];

	for (uint64_t e = 0; e < 2; e++) {
		assert_int_equal(read_epoch(loader, &spec, e, order), IMAGES);
		for (int i = 0; i < IMAGES; i++)
			assert_int_equal(order[i], i);
	}
	sl_loader_close(loader);
}

static void the_last_batch_is_ragged_or_dropped(void **state)
{
	static const struct {
		int64_t batch, batches, images;
		bool drop;
	} cases[] = {{10, 6, 53, false}, {10, 5, 50, true},  {53, 1, 53, false}, {53, 1, 53, true},
		     {1, 53, 53, true},  {64, 1, 53, false}, {52, 2, 53, false}};

	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct sl_loader_spec spec = spec_of(cases[k].batch, true);
		struct sl_loader *loader;
		int32_t order[IMAGES];

		spec.drop_last = cases[k].drop;
		loader = open_loader(&spec);
		assert_int_equal(sl_loader_batches(loader), cases[k].batches);
		assert_int_equal(read_epoch(loader, &spec, 0, order), cases[k].images);
		assert_int_equal(read_epoch(loader, &spec, 1, order), cases[k].images);
		sl_loader_close(loader);
	}
}

static void threads_and_prefetch_change_nothing(void **state)
{
	enum { STEPS = 60 }; /* about twenty epochs, so that threads that wrongly share a scratch area meet in some */
	static const struct {
		int threads, prefetch;
	} cases[] = {{1, 1}, {2, 1}, {4, 3}, {0, 8}};
	uint64_t digests[STEPS];

	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct sl_loader_spec spec = spec_of(24, true);
		struct sl_loader *loader;

		spec.threads = cases[k].threads;
		spec.prefetch = cases[k].prefetch;
		loader = open_loader(&spec);
		for (int i = 0; i < STEPS; i++) {
			const struct sl_batch *b = next(loader);

			if (k == 0)
				digests[i] = digest(b);
			else
				assert_int_equal(digest(b), digests[i]);
			sl_loader_release(loader, b);
		}
		sl_loader_close(loader);
	}
}

static void a_batch_can_be_had_again(void **state)
{
	struct sl_loader_spec spec = spec_of(8, true);
	struct sl_loader *loader = open_loader(&spec);
	uint64_t digests[28];

	for (int i = 0; i < 28; i++) {
		const struct sl_batch *b = next(loader);

		digests[i] = digest(b);
		sl_loader_release(loader, b);
	}
	for (uint32_t i = 0; i < 60; i++) {
		const struct sl_rng_key key = {.seed = 5, .tensor = SL_RNG_TEST};
		int at = (int)sl_rng_below(sl_rng_u32(&key, i), 28), run = 1 + (int)(i % 3);

		assert_int_equal(sl_loader_seek(loader, (uint64_t)at / 7, at % 7), SL_OK);
		for (; run > 0 && at < 28; run--, at++) {
			const struct sl_batch *b = next(loader);

			assert_int_equal(digest(b), digests[at]);
			sl_loader_release(loader, b);
		}
	}
	assert_int_equal(sl_loader_seek(loader, 0, 7), SL_ERR_BUG);
	assert_int_equal(sl_loader_seek(loader, 0, -1), SL_ERR_BUG);
	sl_loader_close(loader);
}

static void a_held_batch_does_not_change(void **state)
{
	struct sl_loader_spec spec = spec_of(8, true);
	struct sl_loader *loader = open_loader(&spec);
	const struct sl_batch *held = next(loader), *more = NULL;
	const uint64_t before = digest(held);

	assert_int_equal(sl_loader_next(loader, &more), SL_ERR_LIMIT);
	assert_null(more);
	assert_int_equal(sl_loader_seek(loader, 9, 3), SL_OK);
	for (int i = 0; i < 100 && digest(held) == before; i++) /* others are prepared in the meantime */
		usleep(1000);
	assert_int_equal(digest(held), before);
	sl_loader_release(loader, held);
	sl_loader_release(loader, held); /* a second release does nothing */
	for (int i = 0; i < 20; i++) {
		more = next(loader);
		assert_int_equal(more->index, (3 + i) % 7);
		sl_loader_release(loader, more);
	}
	sl_loader_close(loader);
}

static void nothing_is_allocated_per_batch(void **state)
{
	struct sl_loader_spec spec = spec_of(8, true);
	struct sl_loader *loader;
	long before;

	if (!COUNTS_MALLOC)
		skip();
	spec.threads = 2;
	loader = open_loader(&spec);
	before = atomic_load(&mallocs);
	assert_true(before > 0);
	for (int i = 0; i < 30; i++)
		sl_loader_release(loader, next(loader));
	assert_int_equal(atomic_load(&mallocs), before);
	sl_loader_close(loader);
}

/* A consumer with an event loop of its own: it sleeps in poll() until the loader wakes it. */
struct consumer {
	struct sl_loader *loader;
	int fd;
	int calls, in_drain;
	bool chain; /* the callback releases the batch and requests the next one */
	const struct sl_batch *batch;
	uint64_t digests[14];
};

static void wake(void *arg)
{
	uint64_t one = 1;

	assert_int_equal(write(((struct consumer *)arg)->fd, &one, sizeof one), sizeof one);
}

static void take(void *arg, const struct sl_batch *batch)
{
	struct consumer *c = arg;

	assert_int_equal(c->in_drain, 1);
	c->batch = batch;
	c->digests[c->calls++ % 14] = digest(batch);
	if (c->chain) {
		sl_loader_release(c->loader, batch);
		if (c->calls < 14)
			assert_int_equal(sl_loader_request(c->loader, take, c), SL_OK);
	}
}

/* One iteration of the loop; false if nothing woke it within `timeout_ms`. */
static bool turn(struct consumer *c, int timeout_ms)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	uint64_t wakes;

	if (poll(&p, 1, timeout_ms) != 1)
		return false;
	assert_int_equal(read(c->fd, &wakes, sizeof wakes), sizeof wakes);
	c->in_drain = 1;
	sl_loader_drain(c->loader);
	c->in_drain = 0;
	return true;
}

static void open_consumer(struct consumer *c, bool chain)
{
	struct sl_loader_spec spec = spec_of(8, true);

	*c = (struct consumer){.fd = eventfd(0, 0), .chain = chain};
	assert_true(c->fd >= 0);
	spec.wake = wake;
	spec.wake_arg = c;
	c->loader = open_loader(&spec);
}

static void close_consumer(struct consumer *c)
{
	sl_loader_close(c->loader);
	close(c->fd);
}

static void an_event_loop_is_woken(void **state)
{
	struct consumer c;
	struct sl_loader *plain;
	struct sl_loader_spec spec = spec_of(8, true);

	open_consumer(&c, true);
	assert_int_equal(sl_loader_request(c.loader, take, &c), SL_OK);
	assert_int_equal(c.calls, 0); /* the callback never runs inside the request */
	while (c.calls < 14)
		assert_true(turn(&c, 10000));
	plain = open_loader(&spec);
	for (int i = 0; i < 14; i++) {
		const struct sl_batch *b = next(plain);

		assert_int_equal(digest(b), c.digests[i]);
		sl_loader_release(plain, b);
	}
	sl_loader_close(plain);
	close_consumer(&c);
}

static void a_request_waits_for_a_free_buffer(void **state)
{
	const struct sl_batch *unused;
	struct consumer c;

	open_consumer(&c, false);
	assert_int_equal(sl_loader_request(c.loader, take, &c), SL_OK);
	assert_int_equal(sl_loader_request(c.loader, take, &c), SL_ERR_BUSY);
	assert_int_equal(sl_loader_next(c.loader, &unused), SL_ERR_BUSY);
	assert_int_equal(sl_loader_seek(c.loader, 1, 0), SL_ERR_BUG);
	while (c.calls < 1)
		assert_true(turn(&c, 10000));
	assert_int_equal(sl_loader_request(c.loader, take, &c), SL_OK);
	while (turn(&c, 100)) /* the loader prepared all it can: the only buffer is held */
		assert_int_equal(c.calls, 1);
	sl_loader_release(c.loader, c.batch);
	while (c.calls < 2)
		assert_true(turn(&c, 10000));
	assert_int_equal(c.batch->index, 1);
	close_consumer(&c);
}

static void closing_while_busy_is_fine(void **state)
{
	for (int i = 0; i < 50; i++) {
		struct sl_loader_spec spec = spec_of(16, true);
		struct sl_loader *loader;

		spec.prefetch = 4;
		spec.threads = 1 + i % 3;
		loader = open_loader(&spec);
		if (i % 2)
			assert_int_equal(sl_loader_seek(loader, 3, 1), SL_OK);
		sl_loader_close(loader);
	}
	sl_loader_close(NULL);
}

static void wrong_specs_are_refused(void **state)
{
	struct sl_set none = {.classes = 10};
	struct sl_augment *small = NULL;
	struct sl_loader_spec bad[3];
	enum { N = sizeof bad / sizeof *bad };

	assert_int_equal(sl_augment_open(&small, &(struct sl_augment_spec){.in_h = 28, .in_w = 28}, NULL), SL_OK);
	for (int i = 0; i < N; i++)
		bad[i] = spec_of(8, true);
	bad[0].batch = 54;
	bad[0].drop_last = true;
	bad[1].set = &none;
	bad[2].augment = small;
	for (int i = 0; i < N; i++) {
		struct sl_loader *loader = NULL;
		struct sl_fail fail = {0};

		assert_int_equal(sl_loader_open(&loader, &bad[i], &fail), SL_ERR_CONFIG);
		assert_null(loader);
		assert_string_not_equal(fail.text, "");
	}
	sl_augment_close(small);
}

/* read_sample() fails for sample `broken` (-1: none) and for all from `broken_from` on; if `broken_of`, of that set. */
static int64_t broken = -1, broken_from = IMAGES;
static const struct sl_set *broken_of;

static enum sl_err read_sample(const struct sl_set *of, int64_t index, struct sl_room *room,
			       struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	(void)room;
	if ((!broken_of || of == broken_of) && (index == broken || index >= broken_from))
		return sl_fail_set(fail, SL_ERR_DATA, "sample %d: broken", (int)index);
	out[SL_FIELD_INPUT] = (struct sl_value){.data = pixels[index], .dim = {32, 32, 3}};
	out[SL_FIELD_TARGET] = (struct sl_value){.data = &labels[index]};
	return SL_OK;
}

static const struct sl_source source = {.name = "made", .sample = read_sample};

/* A batch with a sample that cannot be read reports it; the batches around it are whole. */
static void a_broken_sample_is_named(void **state)
{
	struct sl_loader_spec spec = spec_of(8, false);
	struct sl_loader *loader;

	broken = 19;
	loader = open_loader(&spec);
	for (int i = 0; i < 5; i++) {
		const struct sl_batch *b = next(loader);

		if (i == 2) {
			assert_int_equal(b->err, SL_ERR_DATA);
			assert_int_equal(b->rows, 0);
			assert_string_equal(b->why.text, "sample 19: broken");
		} else {
			assert_int_equal(b->err, SL_OK);
			assert_int_equal(b->rows, 8);
			assert_rows(b, &spec);
		}
		sl_loader_release(loader, b);
	}
	sl_loader_close(loader);
	broken = -1;
}

/* With skip_bad the next readable sample replaces a broken one, for any number of threads, wherever a run resumes. */
static void a_broken_sample_is_replaced(void **state)
{
	uint64_t want[14];

	broken = 19;
	broken_from = 50;
	for (int threads = 1; threads <= 3; threads++) {
		struct sl_loader_spec spec = spec_of(8, true);
		struct sl_loader *loader;

		spec.skip_bad = true;
		spec.threads = threads;
		loader = open_loader(&spec);
		if (threads == 3)
			assert_int_equal(sl_loader_seek(loader, 1, 0), SL_OK);
		for (int i = threads == 3 ? 7 : 0; i < 14; i++) {
			const struct sl_batch *b = next(loader);

			assert_int_equal(b->err, SL_OK);
			assert_rows(b, &spec);
			for (int64_t r = 0; r < b->rows; r++)
				assert_true(b->samples[r] != 19 && b->samples[r] < 50);
			if (threads == 1)
				want[i] = digest(b);
			assert_true(digest(b) == want[i]);
			sl_loader_release(loader, b);
		}
		sl_loader_close(loader);
	}
	broken_from = 0;
	{
		struct sl_loader_spec spec = spec_of(8, false);
		struct sl_loader *loader;
		const struct sl_batch *b;

		spec.skip_bad = true;
		loader = open_loader(&spec);
		b = next(loader);
		assert_int_equal(b->err, SL_ERR_DATA);
		assert_string_equal(b->why.text, "none of the 53 samples can be read");
		sl_loader_release(loader, b);
		sl_loader_close(loader);
	}
	broken = -1;
	broken_from = IMAGES;
}

/* Each source says what becomes of a sample that it cannot read. The sample is replaced in all sources, or the batch
 * has the error. */
static void a_source_has_a_rule_of_its_own(void **state)
{
	struct sl_set further = set;

	broken = 19;
	for (int i = 0; i < 8; i++) {
		struct sl_loader_spec spec = spec_of(8, false);
		const bool skips[] = {i & 1, i & 2};
		const int of = i >> 2;
		struct sl_loader *loader;
		const struct sl_batch *b;

		broken_of = of ? &further : &set;
		spec.skip_bad = skips[0];
		spec.more[spec.n_more++] = (struct sl_loader_input){&further, augment, NULL, 1, skips[1]};
		loader = open_loader(&spec);
		assert_int_equal(sl_loader_seek(loader, 0, 2), SL_OK);
		b = next(loader);
		assert_int_equal(b->err, skips[of] ? SL_OK : SL_ERR_DATA);
		if (skips[of]) {
			assert_int_equal(b->samples[3], 20);
			assert_rows(b, &spec);
			assert_memory_equal(b->input[0], b->input[1], (size_t)b->rows * IMAGE_FLOATS * sizeof(float));
		}
		sl_loader_release(loader, b);
		sl_loader_close(loader);
	}
	broken = -1;
	broken_of = NULL;
}

/* A set whose samples do not fit the network's input is refused, with the shape that would fit. */
static void a_set_must_fit_the_network(void **state)
{
	const struct sl_field_type image = {"image", SL_F32, 3, {40, 56, 3}};
	struct sl_set gray = set;
	struct sl_fail fail = {0};

	assert_int_equal(sl_set_fits(&set, SL_FIELD_INPUT, &image, &fail), SL_OK);
	gray.field[SL_FIELD_INPUT].dim[2] = 1;
	assert_int_equal(sl_set_fits(&gray, SL_FIELD_INPUT, &image, &fail), SL_ERR_CONFIG);
	assert_string_equal(
		fail.text,
		"the network takes image [40,56,3]; made has image [32,32,1]: data with 3 channels would fit");
	gray.field[SL_FIELD_INPUT] = (struct sl_field_type){"tokens", SL_I32, 1, {0}};
	assert_int_equal(sl_set_fits(&gray, SL_FIELD_INPUT, &image, &fail), SL_ERR_CONFIG);
	assert_string_equal(
		fail.text,
		"the network takes pictures, and made has texts: choose data.kind: images, webdataset, cifar10 or "
		"cifar100; or another network");
}

static int make_set(void **state)
{
	struct sl_fail fail;

	set = (struct sl_set){.source = &source,
			      .count = IMAGES,
			      .classes = 10,
			      .field = {{"image", SL_U8, 3, {32, 32, 3}}, {"label", SL_I32, 0, {0}}}};
	for (int i = 0; i < IMAGES * IMAGE_BYTES; i++)
		pixels[i / IMAGE_BYTES][i % IMAGE_BYTES] = (uint8_t)(i * 73 + i / IMAGE_BYTES * 29 + i % 251);
	for (int i = 0; i < IMAGES; i++)
		labels[i] = i * 7 % 10;
	return sl_augment_open(&augment,
			       &(struct sl_augment_spec){.in_h = 32,
							 .in_w = 32,
							 .out_h = SIDE,
							 .out_w = SIDE,
							 .crop_padding = 4,
							 .flip = true,
							 .norm = SL_NORMALIZE_CIFAR10},
			       &fail);
}

static int drop_set(void **state)
{
	sl_augment_close(augment);
	return 0;
}

/* After a seek, batches that were prepared for the old position do not occupy the buffers of the next. */
static void what_is_ready_elsewhere_makes_room(void **state)
{
	struct sl_loader_spec spec = spec_of(8, true);
	struct sl_loader *loader = open_loader(&spec);
	const struct timespec moment = {0, 5000000};

	sl_loader_release(loader, next(loader));
	for (int i = 0; i < 20; i++) { /* time enough to prepare both batches */
		nanosleep(&moment, NULL);
		sl_loader_drain(loader);
	}
	assert_int_equal(sl_loader_seek(loader, 5, 2), SL_OK);
	for (int64_t index = 2; index < 5; index++) {
		const struct sl_batch *b = next(loader);

		assert_true(b->epoch == 5 && b->index == index);
		assert_rows(b, &spec);
		sl_loader_release(loader, b);
		sl_loader_release(loader, b); /* a second release does nothing */
	}
	(void)next(loader);
	assert_int_equal(sl_loader_next(loader, &(const struct sl_batch *){NULL}), SL_ERR_LIMIT);
	sl_loader_close(loader);
}

/* A run may leave out the last, smaller batch of a training epoch. Evaluations use the whole test set. */
static void batches_are_dropped_from_training_alone(void **state)
{
	struct sl_conf_client conf = {.agreed = {.batch = 10}, .train = {.drop_last = true}, .data = {.prefetch = 1}};
	struct sl_setup setup = {.conf = &conf, .augment = augment, .set = {set, set}};

	for (int split = 0; split < SL_SPLIT_COUNT; split++) {
		struct sl_loader *loader;
		struct sl_fail fail;

		if (sl_setup_loader(&setup, (enum sl_split)split, NULL, NULL, &loader, &fail) != SL_OK)
			fail_msg("%s", fail.text);
		assert_int_equal(sl_loader_batches(loader), IMAGES / 10 + (split == SL_SPLIT_TEST));
		sl_loader_close(loader);
	}
}

/* A permutation may leave an image at its own place. */
static void an_image_may_stay_where_it_is(void **state)
{
	const int64_t count = set.count;
	struct sl_loader_spec spec = spec_of(2, true);
	struct sl_loader *loader;
	int first[2] = {0};

	set.count = 2;
	loader = open_loader(&spec);
	for (int epoch = 0; epoch < 40; epoch++) {
		const struct sl_batch *b = next(loader);

		first[b->samples[0]]++;
		sl_loader_release(loader, b);
	}
	sl_loader_close(loader);
	set.count = count;
	assert_true(first[0] > 5 && first[1] > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_are_permutations),
		cmocka_unit_test(classes_take_turns),
		cmocka_unit_test(the_seed_decides),
		cmocka_unit_test(evaluation_is_in_order),
		cmocka_unit_test(the_last_batch_is_ragged_or_dropped),
		cmocka_unit_test(threads_and_prefetch_change_nothing),
		cmocka_unit_test(a_batch_can_be_had_again),
		cmocka_unit_test(a_held_batch_does_not_change),
		cmocka_unit_test(nothing_is_allocated_per_batch),
		cmocka_unit_test(an_event_loop_is_woken),
		cmocka_unit_test(a_request_waits_for_a_free_buffer),
		cmocka_unit_test(closing_while_busy_is_fine),
		cmocka_unit_test(wrong_specs_are_refused),
		cmocka_unit_test(what_is_ready_elsewhere_makes_room),
		cmocka_unit_test(an_image_may_stay_where_it_is),
		cmocka_unit_test(batches_are_dropped_from_training_alone),
		cmocka_unit_test(a_broken_sample_is_named),
		cmocka_unit_test(a_broken_sample_is_replaced),
		cmocka_unit_test(a_source_has_a_rule_of_its_own),
		cmocka_unit_test(a_set_must_fit_the_network),
	};

	return cmocka_run_group_tests(tests, make_set, drop_set);
}
