/* The device's decoders on a simulated device (tests/support/cuda_sim), against the portable ones: the same
 * verdict and the same floats for any bytes. Byte 0 of the input chooses the codec spec. Byte 1 has the bits of
 * codec_target.h, except bit 7: the rest modifies a valid payload. Then byte 2 says how many bytes are cut off its
 * end (16 and more: none), and every four bytes after that are an offset and the bits to flip there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/frame.h"
#include "tests/support/gpu_codecs/sim.h"

static const char *const specs[] = {
#define CODEC_CHAIN(methods, levels, memory, ragged, gpu, ahead, chain) CODEC_IF_##gpu(chain)
#include "tests/support/codec_list.def"
};
enum { SPECS = sizeof specs / sizeof specs[0], MOST = 2 * 41 * 43 * 24 };

struct pair {
	struct sl_codec *host, *device;
};
struct target {
	struct sl_codec_spec spec;
	struct sl_shape shape;
	struct pair act, grad;  /* grad: NULL if the codec cannot be paired */
	struct sl_buf right[2]; /* valid payloads of both */
};

static struct target targets[SPECS][2];
static float x[MOST], want[MOST], got[MOST];
static const struct sl_codec_call call = {.training = true};

static void must(bool good, const char *text, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz: %s: %s\n", text, what);
	abort();
}

static struct sl_codec *open_codec(const struct target *t, struct sl_backend *be, struct sl_codec *pair,
				   const char *text)
{
	const struct sl_codec_env env = {.be = be,
					 .shape = t->shape,
					 .slots = 1,
					 .seed = 1,
					 .dir = pair ? SL_DIR_HEAD_GRAD : SL_DIR_HEAD_ACT,
					 .pair = pair};
	struct sl_codec *codec;
	struct sl_fail fail;

	must(sl_codec_open(&codec, &t->spec, &env, &fail) == SL_OK, text, "opening");
	return codec;
}

/* Both must give the same bytes. After an activation, its places are those of the gradient. */
static struct sl_buf encode(const struct target *t, const struct pair *p, const char *text)
{
	const struct sl_tensor tensor = {.dtype = SL_F32, .shape = t->shape, .data = x};
	struct sl_buf out = {.cap = sl_codec_bound(p->host, 2)}, other = out;

	out.data = malloc(out.cap);
	other.data = malloc(out.cap);
	must(out.data && other.data, text, "memory");
	must(sl_codec_encode(p->host, &call, &tensor, &out) == SL_OK, text, "encoding");
	must(sl_codec_encode(p->device, &call, &tensor, &other) == SL_OK, text, "encoding on the device");
	must(out.len == other.len && memcmp(out.data, other.data, out.len) == 0, text, "payloads differ");
	free(other.data);
	return out;
}

static void open_target(struct target *t, const char *text, bool large)
{
	struct sl_fail fail;

	t->shape = large ? sl_shape4(2, 41, 43, 24) : sl_shape4(2, 5, 7, 9);
	must(sl_codec_parse(text, &t->spec, &fail) == SL_OK, text, "parsing");
	t->act.host = open_codec(t, NULL, NULL, text);
	t->act.device = open_codec(t, &sim_codec_backend, NULL, text);
	for (int64_t i = 0; i < sl_shape_count(&t->shape); i++)
		x[i] = (float)(i * 7919 % 1000) / 250 - 2;
	t->right[0] = encode(t, &t->act, text);
	if (!sl_codec_spec_pairs(&t->spec, &t->spec))
		return;
	t->grad.host = open_codec(t, NULL, t->act.host, text);
	t->grad.device = open_codec(t, &sim_codec_backend, t->act.device, text);
	t->right[1] = encode(t, &t->grad, text);
}

/* Returns the payload that the input describes, in memory that ends with it. */
static uint8_t *payload_of(const struct target *t, const uint8_t *data, size_t size, bool paired, int64_t rows,
			   size_t *len)
{
	const struct sl_buf *right = &t->right[paired];
	uint8_t *out;

	if (data[1] & 0x80) {
		const size_t cut = size > 2 && data[2] < 16 && data[2] < right->len ? data[2] : 0;

		*len = right->len - cut;
		out = malloc(*len);
		must(out != NULL, "payload", "memory");
		memcpy(out, right->data, *len);
		for (size_t i = 3; i + 3 < size; i += 4)
			out[(size_t)(data[i] | data[i + 1] << 8 | data[i + 2] << 16) % *len] ^= data[i + 3];
		return out;
	}
	*len = size - 2 + (data[1] & 0x40 ? 0 : SL_FRAME_BYTES);
	out = malloc(*len ? *len : 1);
	must(out != NULL, "payload", "memory");
	if (!(data[1] & 0x40))
		sl_frame_write(out, &t->spec, paired, rows);
	memcpy(out + *len - (size - 2), data + 2, size - 2);
	return out;
}

static enum sl_err decode(struct sl_codec *codec, const struct target *t, struct sl_bytes payload, int64_t rows,
			  float *to)
{
	struct sl_tensor out = {.dtype = SL_F32, .shape = sl_shape_rows(t->shape, rows), .data = to};
	struct sl_fail fail;

	memset(to, 0x5a, (size_t)sl_shape_count(&t->shape) * sizeof *to);
	return sl_codec_decode(codec, &call, payload, &out, &fail);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text;
	struct target *t;
	const struct pair *p;
	enum sl_err host, device;
	uint8_t *payload;
	int64_t rows;
	size_t len, bytes;
	bool paired;

	if (size < 2)
		return 0;
	text = specs[data[0] % SPECS];
	t = &targets[data[0] % SPECS][data[1] >> 3 & 1];
	if (t->act.host == NULL)
		open_target(t, text, data[1] >> 3 & 1);
	paired = (data[1] & 0x10) && t->grad.host != NULL;
	p = paired ? &t->grad : &t->act;
	rows = data[1] & 0x20 ? 1 : 2;
	payload = payload_of(t, data, size, paired, rows, &len);
	host = decode(p->host, t, (struct sl_bytes){payload, len}, rows, want);
	device = decode(p->device, t, (struct sl_bytes){payload, len}, rows, got);
	if (host != device) {
		fprintf(stderr, "fuzz: %s: %s on the host, %s on the device\n", text, sl_err_name(host),
			sl_err_name(device));
		abort();
	}
	bytes = (size_t)sl_shape_count(&t->shape) * sizeof *want;
	/* The portable decoder may have written values before an inner stage found the fault; the
	 * device's never does. */
	if (host != SL_OK)
		memset(want, 0x5a, bytes);
	must(memcmp(want, got, bytes) == 0, text, host == SL_OK ? "values differ" : "written, and refused");
	free(payload);
	return 0;
}
