/* What tests of codecs share: opening, encoding between guards, decoding at an odd address, tensors of every kind. */
#ifndef SL_TESTS_SUPPORT_CODEC_H
#define SL_TESTS_SUPPORT_CODEC_H

#include "common/codec/codec.h"

extern const struct sl_codec_call codec_call0; /* slot 0, step 7, chunk 1, training */

/* Fails the test where the codec cannot be opened. be, pair may be NULL. */
struct sl_codec *codec_open(const char *text, struct sl_shape shape, struct sl_backend *be, enum sl_dir dir,
			    struct sl_codec *pair);
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

#endif
