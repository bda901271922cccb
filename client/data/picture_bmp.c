/* BMP: uncompressed, of 1, 4, 8, 16, 24 or 32 bits. */
#include <string.h>

#include "client/data/picture_format.h"

enum {
	FILE_HEADER = 14,
	CORE_HEADER = 12, /* OS/2's: sides of 16 bits, palette of three bytes */
	INFO_HEADER = 40,
	PLAIN = 0,
	BITFIELDS = 3,
	ALPHA_BITFIELDS = 6,
	PALETTE = 256
};

struct bmp {
	uint32_t header, compression;
	int h, w, bits;
	bool from_top;
	size_t pixels_at, row_bytes;
	uint32_t mask[SL_PICTURE_CHANNELS];
	uint8_t palette[PALETTE][SL_PICTURE_CHANNELS];
};

static enum sl_err damaged(const struct sl_picture_job *job, const char *what)
{
	return sl_fail_set(job->fail, SL_ERR_DATA, "BMP: %s", what);
}

static enum sl_err read_sides(const struct sl_picture_job *job, struct bmp *b)
{
	const uint8_t *at = job->bytes + FILE_HEADER;
	int64_t h, w;
	enum sl_err err;

	b->header = sl_le32(at);
	if (b->header != CORE_HEADER && (b->header < INFO_HEADER || b->header > job->len - FILE_HEADER))
		return damaged(job, "a header of an unknown size");
	if (b->header == CORE_HEADER) {
		w = sl_le16(at + 4);
		h = sl_le16(at + 6);
		b->bits = (int)sl_le16(at + 10);
	} else {
		w = (int32_t)sl_le32(at + 4);
		h = (int32_t)sl_le32(at + 8);
		b->bits = (int)sl_le16(at + 14);
		b->compression = sl_le32(at + 16);
	}
	b->from_top = h < 0;
	h = h < 0 ? -h : h;
	err = sl_picture_bounds(job, (uint64_t)h, w < 0 ? 0 : (uint64_t)w);
	if (!err) {
		b->h = (int)h;
		b->w = (int)w;
		b->row_bytes = ((size_t)b->w * (size_t)b->bits + 31) / 32 * 4;
	}
	return err;
}

static enum sl_err read_masks(const struct sl_picture_job *job, struct bmp *b)
{
	static const uint32_t usual[2][SL_PICTURE_CHANNELS] = {{0x7c00, 0x3e0, 0x1f}, {0xff0000, 0xff00, 0xff}};
	const size_t at = FILE_HEADER + INFO_HEADER;

	if (b->bits != 16 && b->bits != 32)
		return b->compression == PLAIN ? SL_OK : damaged(job, "compressed: save it without compression");
	memcpy(b->mask, usual[b->bits == 32], sizeof b->mask);
	if (b->compression == PLAIN)
		return SL_OK;
	if (b->compression != BITFIELDS && b->compression != ALPHA_BITFIELDS)
		return damaged(job, "compressed: save it without compression");
	if (job->len < at + sizeof b->mask)
		return damaged(job, "ends early");
	for (int c = 0; c < SL_PICTURE_CHANNELS; c++)
		b->mask[c] = sl_le32(job->bytes + at + 4 * (size_t)c);
	return SL_OK;
}

static enum sl_err read_palette(const struct sl_picture_job *job, struct bmp *b)
{
	const size_t entry = b->header == CORE_HEADER ? 3 : 4, at = FILE_HEADER + (size_t)b->header;
	size_t n = (size_t)1 << b->bits;
	uint32_t given = b->header == CORE_HEADER ? 0 : sl_le32(job->bytes + FILE_HEADER + 32);

	n = given && given < n ? given : n;
	if (at + n * entry > job->len)
		return damaged(job, "ends within its palette");
	for (size_t i = 0; i < n; i++)
		for (int c = 0; c < SL_PICTURE_CHANNELS; c++)
			b->palette[i][c] = job->bytes[at + i * entry + 2 - (size_t)c];
	if (b->pixels_at == at) /* some writers leave the palette out of the offset */
		b->pixels_at += n * entry;
	return SL_OK;
}

/* The pixel's bits under the mask, scaled to a byte. */
static uint8_t masked(uint32_t pixel, uint32_t mask)
{
	uint64_t most;

	if (!mask)
		return 0;
	most = mask >> __builtin_ctz(mask);
	return (uint8_t)((uint64_t)((pixel & mask) >> __builtin_ctz(mask)) * 255 / most);
}

static void read_row(const struct bmp *b, uint8_t *out, const uint8_t *in)
{
	for (int x = 0; x < b->w; x++, out += SL_PICTURE_CHANNELS) {
		if (b->bits <= 8) {
			const int per = 8 / b->bits, shift = 8 - b->bits * (x % per + 1);

			memcpy(out, b->palette[in[x / per] >> shift & ((1 << b->bits) - 1)], SL_PICTURE_CHANNELS);
		} else if (b->bits == 24) {
			for (int c = 0; c < SL_PICTURE_CHANNELS; c++)
				out[c] = in[3 * x + 2 - c];
		} else {
			const uint32_t pixel = b->bits == 16 ? sl_le16(in + 2 * x) : sl_le32(in + 4 * x);

			for (int c = 0; c < SL_PICTURE_CHANNELS; c++)
				out[c] = masked(pixel, b->mask[c]);
		}
	}
}

enum sl_err sl_picture_read_bmp(const struct sl_picture_job *job)
{
	struct bmp b = {0};
	enum sl_err err;

	if (job->len < FILE_HEADER + INFO_HEADER)
		return damaged(job, "ends early");
	err = read_sides(job, &b);
	if (err)
		return err;
	if (b.bits != 1 && b.bits != 4 && b.bits != 8 && b.bits != 16 && b.bits != 24 && b.bits != 32)
		return damaged(job, "not of 1, 4, 8, 16, 24 or 32 bits");
	b.pixels_at = sl_le32(job->bytes + 10);
	err = read_masks(job, &b);
	if (!err && b.bits <= 8)
		err = read_palette(job, &b);
	if (!err && (b.pixels_at > job->len || (job->len - b.pixels_at) / b.row_bytes < (size_t)b.h))
		err = sl_fail_set(job->fail, SL_ERR_DATA, "BMP: ends early: %d rows of %zu bytes do not fit", b.h,
				  b.row_bytes);
	if (!err)
		err = sl_picture_whole(job, b.h, b.w);
	for (int y = 0; y < b.h && !err; y++)
		read_row(&b, job->room->data + (size_t)y * (size_t)b.w * SL_PICTURE_CHANNELS,
			 job->bytes + b.pixels_at + (size_t)(b.from_top ? y : b.h - 1 - y) * b.row_bytes);
	return err;
}
