/* Decodes any bytes as a picture of one format, of at most 256 pixels in each direction. The first 8
 * bytes choose a part of it and the size to which that is resized; the others are the file, whose first
 * bytes are replaced by the format's. Decoded pixels must lie in the room and cover the part. */
#ifndef SL_TESTS_PICTURE_TARGET_H
#define SL_TESTS_PICTURE_TARGET_H

#include <stdlib.h>
#include <string.h>

#include "client/data/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct picture_asked {
	const uint8_t *head;
	struct sl_window window;
};

static void picture_choose(void *arg, struct sl_window *window)
{
	struct picture_asked *asked = arg;
	const uint8_t *head = asked->head;
	const struct sl_window whole = *window;

	if (whole.h < 1 || whole.w < 1 || whole.top || whole.left)
		abort();
	window->top = head[0] * whole.h / 256;
	window->left = head[1] * whole.w / 256;
	window->h = 1 + head[2] * (whole.h - window->top - 1) / 255;
	window->w = 1 + head[3] * (whole.w - window->left - 1) / 255;
	window->out_h = head[4];
	window->out_w = head[4] ? 1 + head[5] : 0;
	asked->window = *window;
}

/* `mend` repairs what a fuzzer cannot guess, such as checksums; may be NULL. */
static int picture_target(const uint8_t *data, size_t size, const char *begins, size_t n_begins,
			  void (*mend)(uint8_t *bytes, size_t len))
{
	struct picture_asked asked = {.head = data};
	const struct sl_wanted wanted = {picture_choose, &asked};
	struct sl_room room = {.wanted = &wanted};
	struct sl_value v = {0};
	struct sl_fail fail = {0};
	uint8_t *file;
	unsigned sum = 0;

	if (size < 8 + n_begins)
		return 0;
	file = malloc(size - 8);
	memcpy(file, data + 8, size - 8);
	memcpy(file, begins, n_begins);
	if (mend)
		mend(file, size - 8);
	if (data[6] & 1)
		room.wanted = NULL;
	const struct sl_picture_spec spec = {.max_pixels = 1 << 20,
					     .channels = data[6] & 2 ? 1 : 3,
					     .deep = data[6] & 4,
					     .exact = data[6] & 8,
					     .upright = data[6] & 16};

	if (sl_picture_decode(&v, file, size - 8, &spec, &room, &fail) != SL_OK) {
		if (!fail.text[0])
			abort();
	} else {
		const int64_t h = v.dim[0], w = v.dim[1], shrink = v.part.shrink ? v.part.shrink : 1;

		if (h < 1 || w < 1 || v.dim[2] != (spec.deep && spec.channels == 1 ? 1 : 3) || h * w > 1 << 20 ||
		    v.deep != spec.deep)
			abort();
		for (int64_t i = 0; i < h * w * v.dim[2] * (v.deep ? 4 : 1); i++)
			sum += ((const uint8_t *)v.data)[i];
		if (asked.window.h && v.part.shrink &&
		    (asked.window.top / shrink < v.part.top || asked.window.left / shrink < v.part.left ||
		     (asked.window.top + asked.window.h - 1) / shrink >= v.part.top + h ||
		     (asked.window.left + asked.window.w - 1) / shrink >= v.part.left + w))
			abort();
	}
	sl_room_close(&room);
	free(file);
	return sum == 1 ? 0 : 0;
}

#endif
