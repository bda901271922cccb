#include "tests/support/codec.h"
#include "tests/support/unit.h"

#include <float.h>
#include <math.h>

#include "common/codec/stage.h"

const struct sl_codec_call codec_call0 = {.slot = 0, .step = 7, .chunk = 1, .training = true};

struct sl_codec *codec_open_rows(const char *text, struct sl_shape shape, int64_t rows, int64_t row_tokens,
				 struct sl_backend *be, enum sl_dir dir, struct sl_codec *pair)
{
	struct sl_codec_env env = {.be = be,
				   .shape = shape,
				   .row_tokens = row_tokens,
				   .rows = rows,
				   .slots = 2,
				   .seed = 11,
				   .dir = dir,
				   .pair = pair};
	struct sl_codec_spec spec;
	struct sl_codec *codec = NULL;
	struct sl_fail fail = {0};

	if (sl_codec_parse(text, &spec, &fail) != SL_OK || sl_codec_open(&codec, &spec, &env, &fail) != SL_OK)
		fail_msg("%s: %s", text, fail.text);
	return codec;
}

struct sl_codec *codec_open(const char *text, struct sl_shape shape, struct sl_backend *be, enum sl_dir dir,
			    struct sl_codec *pair)
{
	return codec_open_rows(text, shape, 0, 0, be, dir, pair);
}

enum sl_err codec_encode(struct sl_codec *c, const struct sl_codec_call *call, const float *x, struct sl_shape shape,
			 uint8_t **bytes, size_t *len)
{
	size_t bound = sl_codec_bound(c, shape.dim[0]);
	uint8_t *mem = malloc(bound + 3 + 16);
	struct sl_buf out = {mem, 3, bound + 3};
	struct sl_tensor t = {.dtype = SL_F32, .shape = shape, .data = (void *)x};
	enum sl_err err;

	memset(mem, 0xa5, bound + 3 + 16);
	err = sl_codec_encode(c, call, &t, &out);
	for (int i = 0; i < 16; i++)
		assert_int_equal(mem[bound + 3 + i], 0xa5);
	assert_int_equal(mem[2], 0xa5);
	*bytes = NULL;
	*len = out.len - 3;
	if (err == SL_OK) {
		assert_true(*len <= bound);
		*bytes = malloc(*len);
		memcpy(*bytes, mem + 3, *len);
	} else {
		assert_int_equal(out.len, 3);
	}
	free(mem);
	return err;
}

enum sl_err codec_decode(struct sl_codec *c, const struct sl_codec_call *call, const uint8_t *bytes, size_t len,
			 struct sl_shape shape, float *x)
{
	struct sl_tensor t = {.dtype = SL_F32, .shape = shape, .data = x};
	struct sl_fail fail = {0};
	/* exactly `len` bytes at an odd address, so that sanitizers see a read beyond the end */
	uint8_t *copy = malloc(len + 1);
	enum sl_err err;

	memcpy(copy + 1, bytes, len);
	err = sl_codec_decode(c, call, (struct sl_bytes){copy + 1, len}, &t, &fail);
	free(copy);
	if (err != SL_OK)
		assert_true(fail.text[0] != '\0');
	return err;
}

size_t codec_round_trip(const char *text, struct sl_shape shape, const float *x, float *back)
{
	struct sl_codec *c = codec_open(text, shape, NULL, SL_DIR_HEAD_ACT, NULL);
	uint8_t *one, *two;
	size_t len, again;

	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &one, &len), SL_OK);
	assert_int_equal(codec_encode(c, &codec_call0, x, shape, &two, &again), SL_OK);
	assert_int_equal(len, again);
	assert_memory_equal(one, two, len);
	assert_int_equal(codec_decode(c, &codec_call0, one, len, shape, back), SL_OK);
	free(one);
	free(two);
	sl_codec_close(c);
	return len;
}

void codec_fill(float *x, int64_t n, enum codec_kind kind)
{
	struct sl_rng_key key = {.seed = 3, .step = (uint64_t)kind, .tensor = SL_RNG_TEST};

	for (int64_t i = 0; i < n; i++) {
		float pair[2];

		sl_rng_normal2(sl_rng_u32(&key, (uint64_t)(2 * i)), sl_rng_u32(&key, (uint64_t)(2 * i + 1)), pair);
		switch (kind) {
		case RANDOM:
			x[i] = pair[0];
			break;
		case CONSTANT:
			x[i] = -2.5f;
			break;
		case ZERO:
			x[i] = i % 2 ? -0.0f : 0.0f;
			break;
		case TINY:
			x[i] = pair[0] * 1e-42f;
			break;
		case HUGE_VALUES:
			x[i] = pair[0] > 0 ? FLT_MAX : -FLT_MAX;
			break;
		default:
			x[i] = pair[0] < 0 ? 0 : pair[0] > 1 ? 1 : pair[0];
			break;
		}
	}
}

const struct codec_golden codec_goldens[] = {
#define CODEC_GOLDEN(name, chain, fuzz, number) {name, chain, fuzz, number},
#include "tests/support/codec_list.def"
	{NULL, NULL, NULL, 0}};

struct sl_shape codec_golden_shape(void)
{
	return sl_shape4(2, 5, 7, 9);
}

void codec_golden_tensor(float x[CODEC_GOLDEN_N])
{
	for (int i = 0; i < CODEC_GOLDEN_N; i++)
		x[i] = (float)(i * 7919 % 1000) - 500;
	x[3] = -0.0f;
}

size_t codec_golden_read(const struct codec_golden *g, const char *kind, void *bytes, size_t cap)
{
	const char *folder = getenv("SPLIT_GOLDEN");
	char path[512];
	size_t len;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s.%s", folder != NULL ? folder : "tests/golden/codec", g->name, kind);
	f = fopen(path, "rb");
	if (f == NULL)
		return 0;
	len = fread(bytes, 1, cap, f);
	fclose(f);
	return len;
}

float *codec_make(int64_t n, enum codec_kind kind)
{
	float *x = malloc((size_t)n * sizeof *x);

	codec_fill(x, n, kind);
	return x;
}

double codec_relative_error(const float *x, const float *y, int64_t n)
{
	double error = 0, norm = 0;

	for (int64_t i = 0; i < n; i++) {
		error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
		norm += (double)x[i] * x[i];
	}
	return sqrt(error / norm);
}

struct sl_shape codec_odd_shape(int i)
{
	static const int64_t dim[CODEC_ODD_SHAPES][4] = {
		{1, 1, 1, 1}, {1, 1, 1, 3}, {2, 3, 5, 7}, {3, 1, 1, 17}, {4, 33, 65, 9}};

	return sl_shape4(dim[i][0], dim[i][1], dim[i][2], dim[i][3]);
}

bool codec_is_host_only(const char *text)
{
	static const uint16_t there[] = {
#define SL_ON_HOST
#define SL_ON_DEVICE(stage)                        1
#define SL_STAGE_ROW(KIND, id, stage, device, ...) [id] = device + 0,
#include "common/codec/stages.def"
	};
	const struct sl_codec_stage *stage = sl_codec_stage_find(text, strcspn(text, ":,|"));

	return stage && stage->kind != SL_STAGE_BYTES && !there[stage->id];
}
