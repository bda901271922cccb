/* PPM and PGM, the binary forms: "P6" or "P5", width, height and the largest value as numbers, one blank, pixels. */
#include <math.h>
#include <string.h>

#include "client/data/picture_format.h"

enum { MOST_VALUE = 65535 };

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Reads a number of the header, after blanks and comments; 0: there is none, or it is too large. */
static uint32_t number(const struct sl_picture_job *job, size_t *at)
{
	uint32_t n = 0;

	while (*at < job->len && (is_blank(job->bytes[*at]) || job->bytes[*at] == '#')) {
		if (job->bytes[*at] == '#')
			while (*at < job->len && job->bytes[*at] != '\n' && job->bytes[*at] != '\r')
				++*at;
		else
			++*at;
	}
	for (; *at < job->len && job->bytes[*at] >= '0' && job->bytes[*at] <= '9'; ++*at) {
		n = n * 10 + job->bytes[*at] - '0';
		if (n > 1 << 24)
			return 0;
	}
	return n;
}

/* Scales values up to `most`, of one byte or two, to bytes, rounded to the nearest as Pillow does for PPM. */
static void scale(uint8_t *out, const uint8_t *in, size_t values, uint32_t most)
{
	for (size_t i = 0; i < values; i++) {
		const uint32_t v = most > 255 ? (uint32_t)in[2 * i] << 8 | in[2 * i + 1] : in[i];

		out[i] = (uint8_t)fmin(rint((double)v / most * 255), 255);
	}
}

/* Reads a file with more than 8 bits, whose values have the high byte first. `most` becomes 65535. */
static enum sl_err read_deep(const struct sl_picture_job *job, const uint8_t *in, int channels, uint32_t most)
{
	const size_t n = (size_t)job->out->dim[0] * (size_t)job->out->dim[1] * (size_t)channels;
	uint16_t *out = (uint16_t *)(void *)job->room->data;

	for (size_t i = 0; i < n; i++) {
		const uint32_t v = (uint32_t)in[2 * i] << 8 | in[2 * i + 1];

		out[i] = (uint16_t)(v < most ? (v * 65535ull + most / 2) / most : 65535);
	}
	return sl_picture_deepen(job, out, 16, channels);
}

enum sl_err sl_picture_read_pnm(const struct sl_picture_job *job)
{
	const size_t channels = job->bytes[1] == '6' ? SL_PICTURE_CHANNELS : 1;
	size_t at = 2, pixels, wanted;
	const uint32_t w = number(job, &at), h = number(job, &at), most = number(job, &at);
	uint8_t *out;
	enum sl_err err;

	if (!w || !h || !most || most > MOST_VALUE || at >= job->len || !is_blank(job->bytes[at]))
		return sl_fail_set(job->fail, SL_ERR_DATA,
				   "PPM: the header must be P6 or P5, width, height, and a largest value up to %d",
				   MOST_VALUE);
	err = sl_picture_bounds(job, h, w);
	if (err)
		return err;
	at++;
	pixels = (size_t)h * w;
	wanted = pixels * channels * (most > 255 ? 2 : 1);
	if (job->len - at < wanted)
		return sl_fail_set(job->fail, SL_ERR_DATA, "PPM: ends after %zu of %zu bytes of pixels", job->len - at,
				   wanted);
	err = sl_picture_room(job, (int)h, (int)w, (size_t)w * SL_PICTURE_CHANNELS * 2);
	if (err)
		return err;
	if (job->spec->deep && most > 255)
		return read_deep(job, job->bytes + at, (int)channels, most);
	out = job->room->data;
	if (most == 255)
		memcpy(out, job->bytes + at, wanted);
	else
		scale(out, job->bytes + at, pixels * channels, most);
	for (size_t i = pixels; channels == 1 && i-- > 0;)
		memset(out + i * SL_PICTURE_CHANNELS, out[i], SL_PICTURE_CHANNELS);
	return SL_OK;
}
