/* PBM, PGM and PPM: "P4", "P5" or "P6", width, height and, but for PBM, the largest value as numbers, one blank,
 * pixels. With "P1", "P2" or "P3" pixels are numbers, too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/picture_format.h"

enum { MOST_VALUE = 65535 };

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Skips blanks and comments. */
static void skip(const struct sl_picture_job *job, size_t *at)
{

	while (*at < job->len && (is_blank(job->bytes[*at]) || job->bytes[*at] == '#')) {
		if (job->bytes[*at] == '#')
			while (*at < job->len && job->bytes[*at] != '\n' && job->bytes[*at] != '\r')
				++*at;
		else
			++*at;
	}
}

/* Reads a number after blanks and comments; 0: there is none, or it is too large. */
static uint32_t number(const struct sl_picture_job *job, size_t *at)
{
	uint32_t n = 0;

	skip(job, at);
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

/* Writes value i of a plain or a bit file, where 1 is black, as a binary file has it. False: there is none. */
static bool take_value(const struct sl_picture_job *job, size_t *at, size_t i, uint32_t w, uint32_t most, uint8_t *out)
{
	const char form = (char)job->bytes[1];
	uint32_t v;

	if (form == '4') {
		const size_t byte = *at + i / w * ((w + 7) / 8) + i % w / 8;

		out[i] = byte < job->len && !(job->bytes[byte] >> (7 - i % w % 8) & 1);
		return byte < job->len;
	}
	skip(job, at);
	if (*at >= job->len || job->bytes[*at] < '0' || job->bytes[*at] > '9')
		return false;
	v = form == '1' ? job->bytes[(*at)++] == '0' : number(job, at);
	if (most > 255)
		out[2 * i] = (uint8_t)(v >> 8);
	out[most > 255 ? 2 * i + 1 : i] = (uint8_t)v;
	return v <= most;
}

static enum sl_err read_values(const struct sl_picture_job *job, const uint8_t *in, size_t channels, uint32_t most)
{
	const size_t pixels = (size_t)job->out->dim[0] * (size_t)job->out->dim[1];
	uint8_t *out = job->room->data;

	if (job->spec->deep && most > 255)
		return read_deep(job, in, (int)channels, most);
	if (most == 255)
		memcpy(out, in, pixels * channels);
	else
		scale(out, in, pixels * channels, most);
	for (size_t i = pixels; channels == 1 && i-- > 0;)
		memset(out + i * SL_PICTURE_CHANNELS, out[i], SL_PICTURE_CHANNELS);
	return SL_OK;
}

enum sl_err sl_picture_read_pnm(const struct sl_picture_job *job)
{
	const char form = (char)job->bytes[1];
	const size_t channels = form == '6' || form == '3' ? SL_PICTURE_CHANNELS : 1;
	size_t at = 2, wanted;
	const uint32_t w = number(job, &at), h = number(job, &at),
		       most = form == '1' || form == '4' ? 1 : number(job, &at);
	uint8_t *values;
	enum sl_err err;

	if (!w || !h || !most || most > MOST_VALUE || at >= job->len || !is_blank(job->bytes[at]))
		return sl_fail_set(job->fail, SL_ERR_DATA,
				   "P%c: the header must be width, height, and a largest value up to %d", form,
				   MOST_VALUE);
	err = sl_picture_bounds(job, h, w);
	if (err)
		return err;
	at++;
	wanted = (size_t)h * w * channels * (most > 255 ? 2 : 1);
	if (form >= '5' && job->len - at < wanted)
		return sl_fail_set(job->fail, SL_ERR_DATA, "P%c: ends after %zu of %zu bytes of pixels", form,
				   job->len - at, wanted);
	err = sl_picture_room(job, (int)h, (int)w, (size_t)w * SL_PICTURE_CHANNELS * 2);
	if (err || form >= '5')
		return err ? err : read_values(job, job->bytes + at, channels, most);
	values = malloc(wanted);
	if (!values)
		return sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory for %u x %u pixels", w, h);
	for (size_t i = 0; i < (size_t)h * w * channels && !err; i++)
		if (!take_value(job, &at, i, w, most, values))
			err = sl_fail_set(job->fail, SL_ERR_DATA, "P%c: value %zu is missing, or above %u", form, i + 1,
					  most);
	if (!err)
		err = read_values(job, values, channels, most);
	free(values);
	return err;
}
