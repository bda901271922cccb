/* Shared by tests of codecs: opening, encoding between guard bytes, decoding from an odd address, test tensors. */
#ifndef SL_TESTS_SUPPORT_CODEC_H
#define SL_TESTS_SUPPORT_CODEC_H

#include "common/codec/codec.h"

extern const struct sl_codec_call codec_call0; /* slot 0, step 7, chunk 1, training */

/* Fails the test if the codec cannot be opened. be and pair may be NULL. */
struct sl_codec *codec_open(const char *text, struct sl_shape shape, struct sl_backend *be, enum sl_dir dir,
			    struct sl_codec *pair);
/* The same for rows of different lengths: shape is [tokens, features]. */
struct sl_codec *codec_open_rows(const char *text, struct sl_shape shape, int64_t rows, int64_t row_tokens,
				 struct sl_backend *be, enum sl_dir dir, struct sl_codec *pair);
/* Encodes into a buffer of exactly `bound` bytes between guards. *bytes is malloc'ed; NULL on failure. */
enum sl_err codec_encode(struct sl_codec *c, const struct sl_codec_call *call, const float *x, struct sl_shape shape,
			 uint8_t **bytes, size_t *len);
/* Decodes from an odd address in a copy that ends where its allocation ends. */
enum sl_err codec_decode(struct sl_codec *c, const struct sl_codec_call *call, const uint8_t *bytes, size_t len,
			 struct sl_shape shape, float *x);
/* Encodes twice, checks that both payloads are equal, and decodes. Returns the payload's length in bytes. */
size_t codec_round_trip(const char *text, struct sl_shape shape, const float *x, float *back);

enum codec_kind { RANDOM, CONSTANT, ZERO, TINY, HUGE_VALUES, RELU, KINDS };

void codec_fill(float *x, int64_t n, enum codec_kind kind);
/* The same, in new memory that the caller frees. */
float *codec_make(int64_t n, enum codec_kind kind);
/* Whether a chain begins with a method that the GPU does not implement. */
bool codec_is_host_only(const char *text);
/* ‖x − y‖ / ‖x‖ */
double codec_relative_error(const float *x, const float *y, int64_t n);

/* Shapes whose dimensions are no multiples of a vector length; i = 0 … CODEC_ODD_SHAPES - 1. */
enum { CODEC_ODD_SHAPES = 5 };
struct sl_shape codec_odd_shape(int i);

/* Stored payloads and the tensors that they decode to, in tests/golden/codec or the folder in SPLIT_GOLDEN. `fuzz`
 * and `number` name the fuzz target for the payload, and the index of the codec spec in that target's list. */
struct codec_golden {
	const char *name, *spec, *fuzz;
	int number;
};
enum { CODEC_GOLDEN_N = 2 * 5 * 7 * 9, CODEC_GOLDEN_MOST = 4096 };
extern const struct codec_golden codec_goldens[]; /* the last one has no name */

struct sl_shape codec_golden_shape(void);
void codec_golden_tensor(float x[CODEC_GOLDEN_N]);
/* Reads "<name>.<kind>", where kind is "payload" or "f32". Returns the bytes read; 0 if there is no such file. */
size_t codec_golden_read(const struct codec_golden *g, const char *kind, void *bytes, size_t cap);

#endif
