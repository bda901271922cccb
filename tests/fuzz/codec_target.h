/* One decoder under libFuzzer. Byte 0 of the input is made of bits. 0-2: the codec spec. 3: a tensor of
 * two blocks. 4: the gradient paired with an activation. 5: one row less than the codec was opened for.
 * 6: the input contains its own header (else a valid one is prepended). 7: the loops of AVX-512 or NEON,
 * if this CPU has them. The rest is the payload. A refused payload must leave the output untouched. */
#ifndef SL_FUZZ_CODEC_TARGET_H
#define SL_FUZZ_CODEC_TARGET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/frame.h"
#include "common/codec/loops.h"
#include "common/exec/backend.h"
#include "kernels/cpu/codec_loops.h"

enum { FUZZ_SPECS = 8 };

struct fuzz_codec {
	struct sl_codec_spec spec;
	struct sl_shape shape;
	struct sl_codec *act, *grad; /* grad: NULL if the codec cannot be paired */
};

static struct fuzz_codec fuzz_codecs[2][FUZZ_SPECS][2];
static float fuzz_x[2 * 41 * 43 * 24], fuzz_was[2 * 41 * 43 * 24];

static void fuzz_must(enum sl_err err, const char *what)
{
	if (err == SL_OK)
		return;
	fprintf(stderr, "fuzz: %s: %s\n", what, sl_err_name(err));
	abort();
}

static const struct sl_codec_loops *fuzz_loops(void)
{
#if defined(__aarch64__)
	return &sl_cpu_codec_loops_neon;
#else
	return &sl_cpu_codec_loops_avx512;
#endif
}

static bool fuzz_vectors(void)
{
#if defined(__aarch64__)
	return true;
#else
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
}

static void fuzz_open(struct fuzz_codec *f, const char *text, bool large, bool vectors)
{
	static const struct sl_backend_ops ops = {.name = "fuzz", .codec_loops = fuzz_loops};
	static struct sl_backend be = {.ops = &ops, .host_memory = true};
	struct sl_codec_env env = {.be = vectors ? &be : NULL, .slots = 1, .seed = 1, .dir = SL_DIR_HEAD_ACT};
	struct sl_codec_call call = {.training = true};
	struct sl_tensor x = {.dtype = SL_F32, .data = fuzz_x};
	struct sl_buf out = {0};
	struct sl_fail fail;

	f->shape = large ? sl_shape4(2, 41, 43, 24) : sl_shape4(2, 5, 7, 9);
	env.shape = x.shape = f->shape;
	fuzz_must(sl_codec_parse(text, &f->spec, &fail), text);
	fuzz_must(sl_codec_open(&f->act, &f->spec, &env, &fail), text);
	if (!sl_codec_spec_pairs(&f->spec, &f->spec))
		return;
	env.pair = f->act;
	env.dir = SL_DIR_HEAD_GRAD;
	fuzz_must(sl_codec_open(&f->grad, &f->spec, &env, &fail), text);
	for (int64_t i = 0; i < sl_shape_count(&f->shape); i++)
		fuzz_x[i] = (float)(i * 7919 % 1000) - 500;
	out.cap = sl_codec_bound(f->act, 2);
	out.data = malloc(out.cap);
	fuzz_must(out.data == NULL ? SL_ERR_NOMEM : sl_codec_encode(f->act, &call, &x, &out), text);
	free(out.data);
}

static int fuzz_decode(const char *const *specs, const uint8_t *data, size_t size)
{
	struct sl_codec_call call = {.training = true};
	int n_spec = 0, which, large, vectors;
	struct fuzz_codec *f;
	struct sl_tensor x = {.dtype = SL_F32, .data = fuzz_x};
	struct sl_codec *codec;
	struct sl_fail fail;
	uint8_t *payload;
	size_t len = size - 1;
	bool paired;

	if (size < 1)
		return 0;
	while (specs[n_spec] != NULL)
		n_spec++;
	which = (data[0] & 7) % n_spec;
	large = data[0] >> 3 & 1;
	vectors = data[0] >> 7 && fuzz_vectors();
	f = &fuzz_codecs[vectors][which][large];
	if (f->act == NULL)
		fuzz_open(f, specs[which], large, vectors);
	paired = (data[0] & 0x10) && f->grad != NULL;
	codec = paired ? f->grad : f->act;
	x.shape = sl_shape_rows(f->shape, data[0] & 0x20 ? 1 : 2);
	payload = malloc(len + SL_FRAME_BYTES);
	if (payload == NULL)
		abort();
	sl_frame_write(payload, &f->spec, paired, x.shape.dim[0]);
	if (data[0] & 0x40) {
		memcpy(payload, data + 1, len);
	} else {
		memcpy(payload + SL_FRAME_BYTES, data + 1, len);
		len += SL_FRAME_BYTES;
	}
	memset(fuzz_x, 0x5a, sizeof fuzz_x);
	memset(fuzz_was, 0x5a, sizeof fuzz_was);
	if (sl_codec_decode(codec, &call, (struct sl_bytes){payload, len}, &x, &fail) == SL_OK)
		memset(fuzz_x, 0x5a, (size_t)sl_shape_count(&x.shape) * sizeof *fuzz_x);
	if (memcmp(fuzz_x, fuzz_was, sizeof fuzz_x) != 0)
		abort();
	free(payload);
	return 0;
}

#define FUZZ_CODEC(...)                                                 \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);   \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)    \
	{                                                               \
		static const char *const specs[] = {__VA_ARGS__, NULL}; \
                                                                        \
		return fuzz_decode(specs, data, size);                  \
	}

#endif
