/* PNG through libpng. */
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/picture_format.h"

enum { CHUNK_BYTES = 8 << 20, CHUNKS = 1000 };

struct reading {
	const struct sl_picture_job *job;
	size_t at;
	png_bytep *row; /* [h] */
	char text[160];
};

static void fails(png_structp png, png_const_charp text)
{
	struct reading *r = png_get_error_ptr(png);

	snprintf(r->text, sizeof r->text, "%s", text);
	png_longjmp(png, 1);
}

static void warns(png_structp png, png_const_charp text)
{
}

static void take(png_structp png, png_bytep out, size_t n)
{
	struct reading *r = png_get_io_ptr(png);

	if (n > r->job->len - r->at)
		png_error(png, "ends early");
	memcpy(out, r->job->bytes + r->at, n);
	r->at += n;
}

/* Has libpng make rows of 8-bit RGB of any file. With `deep` samples have 16 bits, and grey stays one number. */
static void convert(png_structp png, png_infop info, bool deep)
{
	if (deep)
		png_set_swap(png);
	else
		png_set_strip_16(png);
	png_set_expand(png);
	if (!deep)
		png_set_gray_to_rgb(png);
	png_set_strip_alpha(png);
	png_set_interlace_handling(png);
	png_read_update_info(png, info);
}

/* Leaves a mask's numbers as they are. False: a pixel has more than one, or they have 16 bits. */
static bool keep_index(png_structp png, png_infop info)
{
	const int colour = png_get_color_type(png, info);

	png_set_packing(png);
	png_set_interlace_handling(png);
	png_read_update_info(png, info);
	return (colour == PNG_COLOR_TYPE_GRAY || colour == PNG_COLOR_TYPE_PALETTE) && png_get_bit_depth(png, info) == 8;
}

static enum sl_err read_picture(png_structp png, png_infop info, struct reading *r)
{
	uint32_t h, w, channels;
	size_t row;
	bool deep;
	enum sl_err err;

	png_read_info(png, info);
	h = png_get_image_height(png, info);
	w = png_get_image_width(png, info);
	err = sl_picture_bounds(r->job, h, w);
	if (err)
		return err;
	deep = r->job->spec->deep && png_get_bit_depth(png, info) == 16;
	if (!r->job->spec->index)
		convert(png, info, deep);
	else if (!keep_index(png, info))
		return sl_fail_set(
			r->job->fail, SL_ERR_DATA,
			"a mask has one number of at most 8 bits for each pixel, its class: a PNG that is grey or has "
			"a palette, without alpha");
	row = png_get_rowbytes(png, info);
	channels = png_get_channels(png, info);
	if ((channels != 1 && channels != SL_PICTURE_CHANNELS) || row != (size_t)w * channels * (deep ? 2 : 1) ||
	    (!deep && (channels == 1) != r->job->spec->index))
		return sl_fail_set(r->job->fail, SL_ERR_DATA, "PNG: pixels of an unknown form");
	r->row = calloc(h, sizeof *r->row);
	if (!r->row)
		return sl_fail_set(r->job->fail, SL_ERR_NOMEM, "no memory for %u rows", h);
	err = sl_picture_room(r->job, (int)h, (int)w, row);
	if (err)
		return err;
	if (r->job->spec->index)
		r->job->out->dim[2] = 1;
	for (uint32_t y = 0; y < h; y++)
		r->row[y] = r->job->room->data + (size_t)y * row;
	png_read_image(png, r->row);
	return deep ? sl_picture_deepen(r->job, r->job->room->data, 16, (int)channels) : SL_OK;
}

enum sl_err sl_picture_read_png(const struct sl_picture_job *job)
{
	struct reading r = {.job = job};
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, fails, warns);
	png_infop info = png ? png_create_info_struct(png) : NULL;
	enum sl_err err;

	if (!info) {
		png_destroy_read_struct(&png, NULL, NULL);
		return sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory to read a PNG");
	}
	if (setjmp(png_jmpbuf(png))) {
		err = sl_fail_set(job->fail, SL_ERR_DATA, "PNG: %s", r.text);
	} else {
		png_set_read_fn(png, &r, take);
		png_set_user_limits(png, SL_PICTURE_MAX_SIDE, SL_PICTURE_MAX_SIDE);
		png_set_chunk_malloc_max(png, CHUNK_BYTES);
		png_set_chunk_cache_max(png, CHUNKS);
		err = read_picture(png, info, &r);
	}
	free(r.row);
	png_destroy_read_struct(&png, &info, NULL);
	return err;
}
