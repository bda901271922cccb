#include "client/data/augment.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"

enum { CHANNELS = 3, LEVELS = 256 };

static const struct {
	float mean[CHANNELS], std[CHANNELS];
} norms[] = {
	[SL_NORMALIZE_NONE] = {{0, 0, 0}, {1, 1, 1}},
	[SL_NORMALIZE_CIFAR10] = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}},
	[SL_NORMALIZE_CIFAR100] = {{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}},
	[SL_NORMALIZE_IMAGENET] = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
};

void sl_norm_values(enum sl_conf_normalize norm, float mean[3], float std[3])
{
	memcpy(mean, norms[norm].mean, sizeof norms[norm].mean);
	memcpy(std, norms[norm].std, sizeof norms[norm].std);
}

/* Output position i of one axis is (1 − frac)·source[low] + frac·source[high]. */
struct tap {
	int low, high;
	float frac;
};

struct sl_augment {
	struct sl_augment_spec spec;
	bool resize;
	struct tap *rows, *columns;         /* [out_h], [out_w] */
	float normalised[CHANNELS][LEVELS]; /* by byte: a table is exact, and cheaper than arithmetic */
};

/* In single precision, as PyTorch computes them (area_pixel_compute_source_index). */
static void taps_fill(struct tap *taps, int in, int out)
{
	float scale = (float)in / (float)out;

	for (int i = 0; i < out; i++) {
		float at = scale * ((float)i + 0.5f) - 0.5f;

		at = at < 0 ? 0 : at;
		taps[i].low = (int)at < in - 1 ? (int)at : in - 1;
		taps[i].high = taps[i].low + (taps[i].low < in - 1);
		taps[i].frac = at - (float)taps[i].low;
	}
}

static enum sl_err spec_check(const struct sl_augment_spec *spec, struct sl_fail *fail)
{
	const int sides[] = {spec->in_h, spec->in_w, spec->out_h, spec->out_w};

	for (int i = 0; i < 4; i++)
		if (sides[i] < 1 || sides[i] > SL_AUGMENT_MAX_SIDE)
			return sl_fail_set(fail, SL_ERR_CONFIG, "image size %d is out of range: 1 to %d", sides[i],
					   SL_AUGMENT_MAX_SIDE);
	if (spec->crop_padding < 0 || spec->crop_padding > spec->in_h || spec->crop_padding > spec->in_w)
		return sl_fail_set(fail, SL_ERR_CONFIG, "crop padding %d is out of range: 0 to the image's side",
				   spec->crop_padding);
	return SL_OK;
}

enum sl_err sl_augment_open(struct sl_augment **out, const struct sl_augment_spec *spec, struct sl_fail *fail)
{
	struct sl_augment_spec full = *spec;
	struct sl_augment *aug = NULL;
	enum sl_err err;

	full.out_h = full.out_h ? full.out_h : full.in_h;
	full.out_w = full.out_w ? full.out_w : full.in_w;
	err = spec_check(&full, fail);
	if (err)
		return err;
	aug = calloc(1, sizeof *aug);
	if (!aug)
		goto fail;
	aug->spec = full;
	aug->resize = full.out_h != full.in_h || full.out_w != full.in_w;
	aug->rows = calloc((size_t)full.out_h, sizeof *aug->rows);
	aug->columns = calloc((size_t)full.out_w, sizeof *aug->columns);
	if (!aug->rows || !aug->columns)
		goto fail;
	taps_fill(aug->rows, full.in_h, full.out_h);
	taps_fill(aug->columns, full.in_w, full.out_w);
	for (int c = 0; c < CHANNELS; c++)
		for (int v = 0; v < LEVELS; v++)
			aug->normalised[c][v] =
				((float)v / 255.0f - norms[full.norm].mean[c]) / norms[full.norm].std[c];
	*out = aug;
	return SL_OK;
fail:
	sl_augment_close(aug);
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the tables of the resize");
}

void sl_augment_close(struct sl_augment *aug)
{
	if (!aug)
		return;
	free(aug->rows);
	free(aug->columns);
	free(aug);
}

const struct sl_augment_spec *sl_augment_spec(const struct sl_augment *aug)
{
	return &aug->spec;
}

struct sl_augment_draw sl_augment_draw(const struct sl_augment *aug, uint64_t seed, uint64_t epoch, int64_t sample)
{
	const struct sl_rng_key key = {.seed = seed, .step = epoch, .tensor = SL_RNG_AUGMENT};
	uint32_t places = 2 * (uint32_t)aug->spec.crop_padding + 1, w[4];

	sl_rng_quad(&key, 2 * (uint32_t)sample, w); /* elements 8·sample … 8·sample + 3 */
	return (struct sl_augment_draw){
		.top = (int)sl_rng_below(w[0], places),
		.left = (int)sl_rng_below(w[1], places),
		.flip = aug->spec.flip && w[2] >> 31,
	};
}

struct sl_augment_draw sl_augment_centre(const struct sl_augment *aug)
{
	return (struct sl_augment_draw){aug->spec.crop_padding, aug->spec.crop_padding, false};
}

/* row [in_w, 3] = row y, normalised, of the window that the draw cuts out of the padded image. */
static void window_row(const struct sl_augment *aug, float *row, const uint8_t *image, struct sl_augment_draw draw,
		       int y)
{
	int h = aug->spec.in_h, w = aug->spec.in_w;
	int dy = draw.top - aug->spec.crop_padding, dx = draw.left - aug->spec.crop_padding;
	int first = dx < 0 ? -dx : 0, end = dx > 0 ? w - dx : w; /* columns of the window inside the image */
	int step = draw.flip ? -CHANNELS : CHANNELS;
	float *start = draw.flip ? row + (w - 1) * CHANNELS : row;

	if (y + dy < 0 || y + dy >= h)
		end = first = 0;
	for (int c = 0; c < CHANNELS; c++) {
		ptrdiff_t src = ((ptrdiff_t)(y + dy) * w + dx) * CHANNELS + c;
		const float *value = aug->normalised[c];
		float *out = start + c;
		int x = 0;

		for (; x < first; x++, out += step)
			*out = value[0];
		for (; x < end; x++, out += step)
			*out = value[image[src + (ptrdiff_t)x * CHANNELS]];
		for (; x < w; x++, out += step)
			*out = value[0];
	}
}

/* wide [out_w, 3] = row [in_w, 3] */
static void stretch_row(const struct sl_augment *aug, float *wide, const float *row)
{
	for (int x = 0; x < aug->spec.out_w; x++) {
		const struct tap *tap = &aug->columns[x];
		const float *low = row + tap->low * CHANNELS, *high = row + tap->high * CHANNELS;
		float rest = 1.0f - tap->frac;

		for (int c = 0; c < CHANNELS; c++)
			wide[x * CHANNELS + c] = rest * low[c] + tap->frac * high[c];
	}
}

static void mix_rows(float *restrict out, const float *restrict low, const float *restrict high, float frac, int n)
{
	float rest = 1.0f - frac;

	for (int i = 0; i < n; i++)
		out[i] = rest * low[i] + frac * high[i];
}

size_t sl_augment_scratch_floats(const struct sl_augment *aug)
{
	return aug->resize ? (size_t)CHANNELS * ((size_t)aug->spec.in_w + 2 * (size_t)aug->spec.out_w) : 0;
}

/* Each source row is resized to the output's width once. Taps only move down, so two such rows are enough: source
 * row s is in wide[s & 1]. */
static void resize(const struct sl_augment *aug, float *out, const uint8_t *image, struct sl_augment_draw draw,
		   float *scratch)
{
	int n = aug->spec.out_w * CHANNELS, held[2] = {-1, -1};
	float *wide[2] = {scratch, scratch + n}, *row = scratch + 2 * (ptrdiff_t)n;

	for (int y = 0; y < aug->spec.out_h; y++) {
		const struct tap *tap = &aug->rows[y];

		for (int s = tap->low; s <= tap->high; s++) {
			if (held[s & 1] == s)
				continue;
			window_row(aug, row, image, draw, s);
			stretch_row(aug, wide[s & 1], row);
			held[s & 1] = s;
		}
		mix_rows(out + (ptrdiff_t)y * n, wide[tap->low & 1], wide[tap->high & 1], tap->frac, n);
	}
}

void sl_augment_apply(const struct sl_augment *aug, float *out, const uint8_t *image, struct sl_augment_draw draw,
		      float *scratch)
{
	if (aug->resize) {
		resize(aug, out, image, draw, scratch);
		return;
	}
	for (int y = 0; y < aug->spec.in_h; y++)
		window_row(aug, out + (ptrdiff_t)y * aug->spec.in_w * CHANNELS, image, draw, y);
}
