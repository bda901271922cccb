#include "tests/support/gpu_codecs/beside.h"
#include "tests/support/unit.h"

#include "kernels/cuda/codec_stage.h"
#include "tests/support/op_case.h"

static struct sl_codec *open_one(const struct beside *b, struct sl_backend *be, enum sl_dir dir, struct sl_codec *pair)
{
	const struct sl_codec_env env = {
		.be = be, .shape = b->shape, .slots = SLOTS, .seed = 11, .dir = dir, .pair = pair};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail = {0};

	if (sl_codec_parse(b->spec->text, &spec, &fail) || sl_codec_open(&codec, &spec, &env, &fail))
		fail_msg("%s: %s", b->spec->text, fail.text);
	return codec;
}

void beside_open(struct beside *b, struct sl_backend *be, const struct spec *spec, struct sl_shape shape,
		 enum sl_dir dir, const struct beside *pair)
{
	size_t bytes = (size_t)sl_shape_count(&shape) * sizeof(float);
	struct sl_fail fail;

	*b = (struct beside){.be = be, .spec = spec, .shape = shape, .n = sl_shape_count(&shape)};
	b->host = open_one(b, NULL, dir, pair ? pair->host : NULL);
	b->device = open_one(b, be, dir, pair ? pair->device : NULL);
	b->bound = sl_codec_bound(b->host, shape.dim[0]);
	b->x = op_xalloc(bytes);
	b->want = op_xalloc(bytes);
	b->got = op_xalloc(bytes);
	for (int s = 0; s < SLOTS; s++) {
		struct lane *l = &b->lane[s];

		l->call = (struct sl_codec_call){.slot = s, .chunk = (uint16_t)s, .training = true};
		l->shape = sl_shape_rows(shape, shape.dim[0] - (s == SLOTS - 1));
		l->n = sl_shape_count(&l->shape);
		assert_int_equal(be->ops->alloc(be, bytes, (void **)&l->there, &fail), SL_OK);
		assert_int_equal(be->ops->host_alloc(be, b->bound, (void **)&l->of.data, &fail), SL_OK);
		l->of.cap = b->bound;
	}
}

void beside_close(struct beside *b)
{
	sl_codec_close(b->host);
	sl_codec_close(b->device);
	for (int s = 0; s < SLOTS; s++) {
		b->be->ops->free(b->be, b->lane[s].there);
		b->be->ops->host_free(b->be, b->lane[s].of.data);
		free(b->lane[s].right);
	}
	free(b->x);
	free(b->want);
	free(b->got);
}

/* Checks, on the simulated device, that a call that need not wait was queued without waiting. */
static void check_waits(const struct beside *b, const struct lane *l, unsigned before)
{
	if (!l->later)
		fail_msg("%s: a call was not queued", b->spec->text);
	if (!b->spec->waits && sim_waits != before)
		fail_msg("%s: a call that is queued waits", b->spec->text);
}

void beside_begin_encode(struct beside *b, struct lane *l)
{
	struct sl_tensor there = {.dtype = SL_F32, .shape = l->shape, .data = l->there};
	unsigned before = sim_waits;
	enum sl_err err;

	assert_int_equal(b->be->ops->upload(b->be, l->there, b->x, (size_t)b->n * sizeof(float)), SL_OK);
	free(l->right);
	l->err = codec_encode(b->host, &l->call, b->x, l->shape, &l->right, &l->right_len);
	l->nominal = sl_codec_nominal_bytes(b->host, l->shape.dim[0]);
	before = sim_waits;
	l->of.len = 0;
	err = sl_codec_queue_encode(b->device, &l->call, &there, &l->of, &l->later);
	if (!b->spec->waits || err == SL_OK)
		assert_int_equal(err, SL_OK);
	if (err == SL_OK)
		check_waits(b, l, before);
	else
		assert_int_equal(err, l->err);
}

static void scribble(struct beside *b, struct lane *l)
{
	memset(l->of.data, 0x5a, l->of.cap);
	assert_int_equal(b->be->ops->zero(b->be, l->there, (size_t)b->n * sizeof(float)), SL_OK);
}

void beside_end_encode(struct beside *b, struct lane *l, enum sl_err expect)
{
	struct sl_fail fail = {0};
	enum sl_err err = l->later ? sl_codec_collect(b->device, &l->call, &l->of, &fail) : expect;

	if (err != expect)
		fail_msg("%s, slot %d: %s, expected %s", b->spec->text, l->call.slot, sl_err_name(err),
			 sl_err_name(expect));
	if (err == SL_OK && (l->of.len != l->right_len || memcmp(l->of.data, l->right, l->right_len) != 0))
		fail_msg("%s, slot %d: a payload of %zu bytes is not that of %zu", b->spec->text, l->call.slot,
			 l->of.len, l->right_len);
	if (err == SL_OK)
		assert_true(sl_codec_nominal_bytes(b->device, l->shape.dim[0]) == l->nominal);
	scribble(b, l);
}

enum sl_err beside_begin_decode(struct beside *b, struct lane *l, const uint8_t *bytes, size_t len)
{
	struct sl_tensor there = {.dtype = SL_F32, .shape = l->shape, .data = l->there};
	unsigned before = sim_waits;
	struct sl_fail fail;
	enum sl_err err;

	assert_true(len <= l->of.cap);
	memcpy(l->of.data, bytes, len);
	err = sl_codec_queue_decode(b->device, &l->call, (struct sl_bytes){l->of.data, len}, &there, &l->later, &fail);
	if (err == SL_OK) {
		const struct spec quiet = {b->spec->text, false}, *spec = b->spec;

		b->spec = &quiet;
		check_waits(b, l, before);
		b->spec = spec;
	}
	return err;
}

void beside_check(struct beside *b, const struct lane *l)
{
	size_t bytes = (size_t)l->n * sizeof(float);

	assert_int_equal(codec_decode(b->host, &l->call, l->right, l->right_len, l->shape, b->want), SL_OK);
	assert_int_equal(b->be->ops->download(b->be, b->got, l->there, bytes), SL_OK);
	if (memcmp(b->got, b->want, bytes) != 0)
		fail_msg("%s, slot %d: values differ", b->spec->text, l->call.slot);
}

void beside_end_decode(struct beside *b, struct lane *l)
{
	struct sl_fail fail = {0};

	if (l->later && sl_codec_collect(b->device, &l->call, NULL, &fail))
		fail_msg("%s, slot %d: %s", b->spec->text, l->call.slot, fail.text);
	memset(l->of.data, 0x5a, l->of.cap);
}

int beside_drawn(int round, int i)
{
	static const int order[6][SLOTS] = {{2, 0, 1}, {0, 1, 2}, {1, 2, 0}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};

	return order[round % 6][i];
}

void beside_fill(struct beside *b, int round, int slot)
{
	codec_fill(b->x, b->n, (round + slot) % 2 ? RELU : RANDOM);
	for (int64_t i = 0; i < b->n; i++)
		b->x[i] *= (float)(1 + slot + round);
}

void beside_encode(struct beside *b, int round)
{
	for (int s = 0; s < SLOTS; s++) {
		b->lane[s].call.step = (uint64_t)round;
		b->lane[s].call.training = round != 2;
		beside_fill(b, round, s);
		beside_begin_encode(b, &b->lane[s]);
	}
	for (int i = 0; i < SLOTS; i++)
		beside_end_encode(b, &b->lane[beside_drawn(round, i)], SL_OK);
}

void beside_make_idle(struct beside *b)
{
	for (int s = 0; s < SLOTS; s++)
		assert_int_equal(b->be->ops->upload(b->be, b->lane[s].there, b->x, (size_t)b->n * sizeof(float)),
				 SL_OK);
}

void beside_decode(struct beside *b, int round)
{
	beside_make_idle(b);
	for (int s = 0; s < SLOTS; s++)
		assert_int_equal(beside_begin_decode(b, &b->lane[s], b->lane[s].right, b->lane[s].right_len), SL_OK);
	for (int i = 0; i < SLOTS; i++)
		beside_end_decode(b, &b->lane[beside_drawn(round + 1, i)]);
	for (int s = 0; s < SLOTS; s++)
		beside_check(b, &b->lane[s]);
}

void beside_commit(struct beside *b)
{
	sl_codec_commit(b->host);
	sl_codec_commit(b->device);
}
