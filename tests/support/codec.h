/* What tests of codecs share: opening, encoding between guards, decoding at an odd address, tensors of every kind. */
#ifndef SL_TESTS_SUPPORT_CODEC_H
#define SL_TESTS_SUPPORT_CODEC_H

#include "common/codec/codec.h"

extern const struct sl_codec_call codec_call0; /* slot 0, step 7, chunk 1, training */

/* Fails the test where the codec cannot be opened. be, pair may be NULL. */
struct sl_codec *codec_open(const char *text, struct sl_shape shape, struct sl_backend *be, enum sl_dir dir,
			    struct sl_codec *pair);
/* The same for rows of different lengths: shape is [tokens, features]. */
struct sl_codec *codec_open_rows(const char *text, struct sl_shape shape, int64_t rows, int64_t row_tokens,
				 struct sl_backend *be, enum sl_dir dir, struct sl_codec *pair);
/* Encodes into exactly `bound` bytes between guards; *bytes is malloc'ed, NULL on failure. */
enum sl_err codec_encode(struct sl_codec *c, const struct sl_codec_call *call, const float *x, struct sl_shape shape,
			 uint8_t **bytes, size_t *len);
/* Decodes from a copy that ends where its allocation does. */
enum sl_err codec_decode(struct sl_codec *c, const struct sl_codec_call *call, const uint8_t *bytes, size_t len,
			 struct sl_shape shape, float *x);
/* Encodes twice (same bytes), decodes; returns the bytes of the payload. */
size_t codec_round_trip(const char *text, struct sl_shape shape, const float *x, float *back);

enum codec_kind { RANDOM, CONSTANT, ZERO, TINY, HUGE_VALUES, RELU, KINDS };

void codec_fill(float *x, int64_t n, enum codec_kind kind);
/* The same in memory of its own; the caller frees. */
float *codec_make(int64_t n, enum codec_kind kind);
/* Whether a chain begins with a method that a device has no stage for. */
bool codec_is_host_only(const char *text);
/* ‖x − y‖ / ‖x‖ */
double codec_relative_error(const float *x, const float *y, int64_t n);

/* Shapes that no loop divides, i = 0 … CODEC_ODD_SHAPES-1. */
enum { CODEC_ODD_SHAPES = 5 };
struct sl_shape codec_odd_shape(int i);

/* Payloads that were written once, and what they decode to: tests/golden/codec, or the folder SPLIT_GOLDEN.
 * `fuzz`: target and number of the specification there. */
struct codec_golden {
	const char *name, *spec, *fuzz;
	int number;
};
enum { CODEC_GOLDENS = 33, CODEC_GOLDEN_N = 2 * 5 * 7 * 9, CODEC_GOLDEN_MOST = 4096 };
extern const struct codec_golden codec_goldens[CODEC_GOLDENS];

struct sl_shape codec_golden_shape(void);
void codec_golden_tensor(float x[CODEC_GOLDEN_N]);
/* Bytes read of "<name>.<kind>", kind "payload" or "f32"; 0 where there is none. */
size_t codec_golden_read(const struct codec_golden *g, const char *kind, void *bytes, size_t cap);

#endif
