#include "tests/support/gpu_codecs/rig.h"
#include "tests/support/unit.h"

#include <math.h>

#include "kernels/module.h"
#include "tests/support/gpu_codecs/sim.h"
#include "tests/support/op_case.h"

/* ---- the backends */

static struct sl_backend *sim = &sim_codec_backend, *sim_ahead = &sim_codec_backend_ahead, gpu;

static int use_sim(struct sl_backend *be, void **state)
{
#if defined(__SANITIZE_THREAD__)
	/* it does not support fibers; tests/e2e/gpu_races.sh looks for races */
	print_message("SKIP fibers under the thread sanitizer\n");
	be->ops = NULL;
#endif
	*state = be;
	return 0;
}

int rig_use_sim(void **state)
{
	return use_sim(sim, state);
}

int rig_use_sim_ahead(void **state)
{
	return use_sim(sim_ahead, state);
}

static int use_gpu(bool overlap, void **state)
{
	const struct sl_module_options options = {.overlap = overlap};
	struct sl_fail fail;

	if (!gpu.ops && sl_module_open_with(NULL, &gpu, &options, &fail))
		print_message("SKIP %s\n", fail.text);
	*state = &gpu;
	return 0;
}

int rig_use_gpu(void **state)
{
	return use_gpu(false, state);
}

int rig_use_gpu_ahead(void **state)
{
	return use_gpu(true, state);
}

bool rig_brief(const struct sl_backend *be)
{
	return be == sim || be == sim_ahead || getenv("SPLIT_TEST_SHORT") != NULL;
}

int rig_close_gpu(void **state)
{
	if (gpu.ops)
		gpu.ops->close(&gpu);
	return 0;
}

struct sl_backend *rig_backend(void **state)
{
	struct sl_backend *be = *state;

	if (!be->ops)
		skip();
	return be;
}

/* ---- one codec, portable and on the device */

struct both both_open(struct sl_backend *be, const char *text, struct sl_shape shape, enum sl_dir dir,
		      const struct both *pair)
{
	return both_open_rows(be, text, shape, 0, 0, dir, pair);
}

struct both both_open_rows(struct sl_backend *be, const char *text, struct sl_shape shape, int64_t rows,
			   int64_t row_tokens, enum sl_dir dir, const struct both *pair)
{
	size_t bytes = (size_t)sl_shape_count(&shape) * sizeof(float);
	struct both b = {.be = be, .shape = shape, .text = text};
	struct sl_fail fail = {0};

	b.host = codec_open_rows(text, shape, rows, row_tokens, NULL, dir, pair ? pair->host : NULL);
	b.device = codec_open_rows(text, shape, rows, row_tokens, be, dir, pair ? pair->device : NULL);
	b.x = op_xalloc(bytes);
	b.want = op_xalloc(bytes);
	b.got = op_xalloc(bytes);
	assert_int_equal(be->ops->alloc(be, bytes + sizeof *b.memory, (void **)&b.memory, &fail), SL_OK);
	b.there = b.memory + sl_shape_count(&shape) % 2;
	return b;
}

void both_close(struct both *b)
{
	sl_codec_close(b->host);
	sl_codec_close(b->device);
	b->be->ops->free(b->be, b->memory);
	free(b->x);
	free(b->want);
	free(b->got);
}

static const float poison = -12345.678f;

static void put_poison(struct both *b)
{
	for (int64_t i = 0; i < sl_shape_count(&b->shape); i++)
		b->got[i] = b->want[i] = poison;
	assert_int_equal(b->be->ops->upload(b->be, b->there, b->got, (size_t)sl_shape_count(&b->shape) * 4), SL_OK);
}

static void fetch(struct both *b)
{
	assert_int_equal(b->be->ops->download(b->be, b->got, b->there, (size_t)sl_shape_count(&b->shape) * 4), SL_OK);
}

static void differ(const struct both *b, const char *what, const void *want, const void *got, size_t bytes)
{
	char shape[SL_SHAPE_TEXT];
	size_t at = 0;

	while (at < bytes && ((const uint8_t *)want)[at] == ((const uint8_t *)got)[at])
		at++;
	if (at < bytes)
		fail_msg("%s, %s: %s differ at byte %zu of %zu", b->text, sl_shape_text(&b->shape, shape), what, at,
			 bytes);
}

void rig_unify_nans(const char *text, float *values, int64_t count)
{
	for (int64_t i = 0; strstr(text, "lowrank") && i < count; i++)
		if (isnan(values[i]))
			values[i] = NAN;
}

enum sl_err both_decode(struct both *b, const struct sl_codec_call *call, const uint8_t *bytes, size_t len,
			int64_t rows)
{
	struct sl_shape s = sl_shape_rows(b->shape, rows);
	enum sl_err want, got;

	put_poison(b);
	want = codec_decode(b->host, call, bytes, len, s, b->want);
	got = codec_decode(b->device, call, bytes, len, s, b->there);
	if (got != want)
		fail_msg("%s: decoding %zu bytes gave %s, the portable codec says %s", b->text, len, sl_err_name(got),
			 sl_err_name(want));
	fetch(b);
	/* The portable codec may have written values before an inner stage found the fault; the
	 * device's never does. */
	if (want != SL_OK)
		for (int64_t i = 0; i < sl_shape_count(&b->shape); i++)
			b->want[i] = poison;
	rig_unify_nans(b->text, b->want, sl_shape_count(&b->shape));
	rig_unify_nans(b->text, b->got, sl_shape_count(&b->shape));
	differ(b, want == SL_OK ? "values" : "untouched values", b->want, b->got,
	       (size_t)sl_shape_count(&b->shape) * 4);
	return want;
}

enum sl_err both_encode(struct both *b, const struct sl_codec_call *call, int64_t rows, uint8_t **bytes, size_t *len)
{
	struct sl_shape s = sl_shape_rows(b->shape, rows);
	enum sl_err want, got;
	uint8_t *other;
	size_t other_len;

	assert_int_equal(b->be->ops->upload(b->be, b->there, b->x, (size_t)sl_shape_count(&b->shape) * 4), SL_OK);
	want = codec_encode(b->host, call, b->x, s, bytes, len);
	got = codec_encode(b->device, call, b->there, s, &other, &other_len);
	if (got != want)
		fail_msg("%s: encoding gave %s, the portable codec says %s", b->text, sl_err_name(got),
			 sl_err_name(want));
	if (want == SL_OK) {
		if (*len != other_len)
			fail_msg("%s: %zu bytes, the portable codec has %zu", b->text, other_len, *len);
		differ(b, "payloads", *bytes, other, *len);
	}
	free(other);
	return want;
}

void both_cross(struct both *b, int64_t rows)
{
	uint8_t *bytes;
	size_t len;

	assert_int_equal(both_encode(b, &codec_call0, rows, &bytes, &len), SL_OK);
	assert_int_equal(both_decode(b, &codec_call0, bytes, len, rows), SL_OK);
	free(bytes);
}
