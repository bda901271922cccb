/* JPEG through libjpeg-turbo. If the caller wants a part, little more than that is decoded, and it may be shrunk by
 * a power of two on the way. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "client/data/picture_format.h"

enum {
	CMYK = 4,
	MARGIN = 2, /* columns and rows beside a part: chroma is interpolated from its neighbours */
	MOST_SHRINK = 8,
	MOST_SCANS = 500 /* of a progressive file: in a hostile one every few bytes cost a pass over all pixels */
};

struct failure {
	struct jpeg_error_mgr mgr; /* first: libjpeg's pointer to it is one to this struct */
	struct jpeg_progress_mgr progress;
	jmp_buf back;
	char text[JMSG_LENGTH_MAX];
};

/* What is decoded, in pixels of the shrunk picture. */
struct area {
	int top, left, h, w;
};

static void fails(j_common_ptr info)
{
	struct failure *f = (struct failure *)info->err;

	f->mgr.format_message(info, f->text);
	longjmp(f->back, 1);
}

/* Warnings that pixels are missing or wrong fail the picture. Others, such as of extra bytes between two markers,
 * are common and harmless. */
static void warns(j_common_ptr info, int level)
{
	const int code = info->err->msg_code;

	if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
			  code == JWRN_MUST_RESYNC))
		fails(info);
}

static void count_scans(j_common_ptr info)
{
	struct failure *f = (struct failure *)info->err;

	if (((j_decompress_ptr)info)->input_scan_number <= MOST_SCANS)
		return;
	snprintf(f->text, sizeof f->text, "more than %d scans", MOST_SCANS);
	longjmp(f->back, 1);
}

/* Whether the data after the header have an end marker. A truncated file lacks it, or has zeros there. */
static bool ends(const struct jpeg_decompress_struct *info)
{
	const uint8_t *begin = info->src->next_input_byte, *at = begin + info->src->bytes_in_buffer;

	while (at - begin >= 2) {
		at = memrchr(begin + 1, JPEG_EOI, (size_t)(at - begin) - 1);
		if (!at)
			return false;
		if (at[-1] == 0xff)
			return true;
	}
	return false;
}

/* The largest shrink that leaves at least the wanted out_h × out_w pixels. */
static int shrink_for(const struct sl_window *wanted)
{
	int shrink = 1;

	if (wanted->out_h && wanted->out_w)
		while (shrink < MOST_SHRINK && wanted->h / (2 * shrink) >= wanted->out_h &&
		       wanted->w / (2 * shrink) >= wanted->out_w)
			shrink *= 2;
	return shrink;
}

static int at_least(int x, int low)
{
	return x > low ? x : low;
}

static int at_most(int x, int high)
{
	return x < high ? x : high;
}

static struct area area_of(const struct jpeg_decompress_struct *info, const struct sl_window *wanted, int shrink)
{
	const int h = (int)info->output_height, w = (int)info->output_width;
	const int top = at_least(wanted->top / shrink - MARGIN, 0), left = at_least(wanted->left / shrink - MARGIN, 0);
	const int bottom = at_most((wanted->top + wanted->h - 1) / shrink + 1 + MARGIN, h);
	const int right = at_most((wanted->left + wanted->w - 1) / shrink + 1 + MARGIN, w);

	return (struct area){top, left, bottom - top, right - left};
}

/* out [w, 3] = in [w, 4], inverted as Adobe's programs write it, and converted as Pillow does */
static void from_cmyk(uint8_t *out, const uint8_t *in, int w)
{
	for (int x = 0; x < w; x++, in += CMYK, out += SL_PICTURE_CHANNELS) {
		const int light = in[3];

		for (int c = 0; c < SL_PICTURE_CHANNELS; c++) {
			int ink = (255 - in[c]) * light + 128;

			ink = ((ink >> 8) + ink) >> 8;
			out[c] = (uint8_t)at_least(light - ink, 0);
		}
	}
}

/* Reads all rows of the area, without the columns that crop_scanline adds on the left. `all`: decodes the rows
 * below, too, to find out whether the file is truncated. */
static enum sl_err read_rows(struct jpeg_decompress_struct *info, const struct sl_picture_job *job,
			     const struct area *area, bool all)
{
	const size_t row_bytes = (size_t)area->w * SL_PICTURE_CHANNELS;
	const bool ink = info->out_color_space == JCS_CMYK;
	const int channels = ink ? CMYK : SL_PICTURE_CHANNELS;
	JDIMENSION first = (JDIMENSION)area->left, width = (JDIMENSION)area->w;
	uint8_t *line, *data;

	if (width < info->output_width)
		jpeg_crop_scanline(info, &first, &width);
	if (sl_room_need(job->room, (size_t)area->h * row_bytes + (size_t)width * (size_t)channels))
		return sl_fail_set(job->fail, SL_ERR_NOMEM, "no memory for %d x %d pixels", area->w, area->h);
	data = job->room->data;
	line = data + (size_t)area->h * row_bytes;
	if (area->top > 0 && jpeg_skip_scanlines(info, (JDIMENSION)area->top) != (JDIMENSION)area->top)
		return sl_fail_set(job->fail, SL_ERR_DATA, "JPEG: ends early");
	for (int y = 0; y < area->h; y++) {
		uint8_t *row = data + (size_t)y * row_bytes;
		const uint8_t *at = line + ((size_t)area->left - first) * (size_t)channels;

		jpeg_read_scanlines(info, &(JSAMPROW){line}, 1);
		if (ink)
			from_cmyk(row, at, area->w);
		else
			memcpy(row, at, row_bytes);
	}
	while (all && info->output_scanline < info->output_height)
		jpeg_read_scanlines(info, &(JSAMPROW){line}, 1);
	return SL_OK;
}

static enum sl_err read_picture(struct jpeg_decompress_struct *info, const struct sl_picture_job *job)
{
	const struct sl_wanted *asks = job->room->wanted;
	struct sl_window wanted = {0, 0, (int)info->image_height, (int)info->image_width, 0, 0};
	enum sl_err err = sl_picture_bounds(job, info->image_height, info->image_width);
	const bool whole = ends(info);
	struct area area;

	if (err)
		return err;
	if (asks)
		asks->choose(asks->arg, &wanted);
	info->scale_num = 1;
	info->scale_denom = job->spec->exact ? 1 : (unsigned)shrink_for(&wanted);
	info->out_color_space =
		info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
	jpeg_start_decompress(info);
	area = area_of(info, &wanted, (int)info->scale_denom);
	err = read_rows(info, job, &area, !whole);
	if (!err)
		*job->out = (struct sl_value){.data = job->room->data,
					      .dim = {area.h, area.w, SL_PICTURE_CHANNELS},
					      .part = {.top = area.top,
						       .left = area.left,
						       .h = (int)info->image_height,
						       .w = (int)info->image_width,
						       .shrink = (int)info->scale_denom}};
	return err;
}

enum sl_err sl_picture_read_jpeg(const struct sl_picture_job *job)
{
	struct jpeg_decompress_struct info;
	struct failure failure = {.progress = {.progress_monitor = count_scans}};
	enum sl_err err;

	info.err = jpeg_std_error(&failure.mgr);
	failure.mgr.error_exit = fails;
	failure.mgr.emit_message = warns;
	if (setjmp(failure.back)) {
		jpeg_destroy_decompress(&info);
		return sl_fail_set(job->fail, SL_ERR_DATA, "JPEG: %.200s", failure.text);
	}
	jpeg_create_decompress(&info);
	info.progress = &failure.progress;
	jpeg_mem_src(&info, job->bytes, job->len);
	jpeg_read_header(&info, TRUE);
	err = read_picture(&info, job);
	jpeg_destroy_decompress(&info);
	return err;
}
