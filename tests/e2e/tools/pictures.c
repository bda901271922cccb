/* usage: pictures decode FILE [TOP LEFT H W OUT_H OUT_W]
 *        pictures list DIR train|test
 *        pictures apply FILE SEED EPOCH SAMPLE OUT_H OUT_W STEP…
 * For tests that compare with other programs. `decode` writes the decoded picture as a PPM, all of it or at least the
 * given part; for deep pictures only the floats. `list` prints a line "CLASS PATH" for each sample of a folder. `apply`
 * prints a line of JSON with the random choices of each step, then the image's bytes: f32 [OUT_H, OUT_W, 3 or 1], in
 * this machine's byte order. $PICTURE_HOW: words grey, deep, exact, upright, as in struct sl_picture_spec. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/picture.h"
#include "client/data/sources.h"
#include "client/data/transform.h"

enum { MOST_FILE = 1 << 26 };

static struct sl_room room;
static struct sl_picture_spec how = {.max_pixels = 1 << 28};

static int complain(const struct sl_fail *fail)
{
	fprintf(stderr, "%s\n", fail->text);
	return sl_err_exit_status(fail->code);
}

static uint8_t *read_all(const char *path, size_t *len)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = malloc(MOST_FILE);

	if (!file || !bytes)
		exit(66);
	*len = fread(bytes, 1, MOST_FILE, file);
	fclose(file);
	return bytes;
}

static void choose(void *arg, struct sl_window *window)
{
	*window = *(const struct sl_window *)arg;
}

static int decode(int argc, char **argv)
{
	struct sl_window part;
	const struct sl_wanted wanted = {choose, &part};
	struct sl_value picture;
	struct sl_fail fail;
	size_t len;
	uint8_t *bytes = read_all(argv[2], &len);

	if (argc == 9) {
		part = (struct sl_window){atoi(argv[3]), atoi(argv[4]), atoi(argv[5]),
					  atoi(argv[6]), atoi(argv[7]), atoi(argv[8])};
		room.wanted = &wanted;
	}
	if (sl_picture_decode(&picture, bytes, len, &how, &room, &fail) != SL_OK)
		return complain(&fail);
	if (picture.deep) {
		fwrite(picture.data, sizeof(float) * (size_t)picture.dim[2], (size_t)(picture.dim[0] * picture.dim[1]),
		       stdout);
		return 0;
	}
	printf("P6\n# %d %d %d\n%d %d\n255\n", picture.part.top, picture.part.left, picture.part.shrink,
	       (int)picture.dim[1], (int)picture.dim[0]);
	fwrite(picture.data, 3, (size_t)(picture.dim[0] * picture.dim[1]), stdout);
	free(bytes);
	return 0;
}

static int list(char **argv)
{
	const struct sl_set_spec spec = {.source = "images",
					 .split = strcmp(argv[3], "train") == 0 ? SL_SPLIT_TRAIN : SL_SPLIT_TEST,
					 .dir = argv[2],
					 .picture.max_pixels = 1 << 28};
	struct sl_set set;
	struct sl_fail fail;

	if (sl_set_open(&set, &spec, &fail) != SL_OK)
		return complain(&fail);
	for (int64_t i = 0; i < set.count; i++) {
		struct sl_value value[SL_FIELD_COUNT];
		char name[4096];

		if (set.source->sample(&set, i, &room, value, &fail) != SL_OK)
			return complain(&fail);
		printf("%d %s\n", *(const int32_t *)value[SL_FIELD_TARGET].data,
		       set.source->sample_name(&set, i, name, sizeof name));
	}
	sl_set_close(&set);
	return 0;
}

static void print_draw(const struct sl_transform_draw *d, bool first)
{
	printf("%s{\"skip\": %s, \"part\": [%d, %d, %d, %d], \"order\": [%d, %d, %d, %d], \"factor\": [",
	       first ? "" : ", ", d->skip ? "true" : "false", d->part.top, d->part.left, d->part.h, d->part.w,
	       d->order[0], d->order[1], d->order[2], d->order[3]);
	for (int i = 0; i < 4; i++)
		if (isnan(d->factor[i]))
			printf("%snull", i ? ", " : "");
		else
			printf("%s%.17g", i ? ", " : "", d->factor[i]);
	printf("], \"angle\": %.17g, \"shift\": [%g, %g], \"scale\": %.17g, \"shear\": [%.17g, %.17g], \"op\": [",
	       d->angle, d->shift[0], d->shift[1], d->scale, d->shear[0], d->shear[1]);
	for (int i = 0; i < SL_STEP_MOST_OPS; i++)
		printf("%s[%d, %d]", i ? ", " : "", d->op[i], d->negative[i]);
	printf("]}");
}

static int apply(int argc, char **argv)
{
	static char step[16][SL_CONF_TEXT];
	struct sl_transform_spec spec = {.step = (const char(*)[SL_CONF_TEXT])step,
					 .n = argc - 8,
					 .out_h = atoi(argv[6]),
					 .out_w = atoi(argv[7]),
					 .norm = SL_NORMALIZE_NONE,
					 .channels = how.channels,
					 .deep = how.deep};
	const uint64_t seed = strtoull(argv[3], NULL, 10), epoch = strtoull(argv[4], NULL, 10);
	const int64_t sample = atoll(argv[5]);
	struct sl_transform_work work = {0};
	struct sl_value picture = {0};
	struct sl_transform *t;
	struct sl_fail fail;
	size_t len, floats = (size_t)spec.out_h * (size_t)spec.out_w * (how.channels == 1 ? 1 : 3);
	uint8_t *bytes = read_all(argv[2], &len);
	float *out = malloc(floats * sizeof *out);

	for (int i = 0; i < spec.n; i++)
		snprintf(step[i], sizeof step[i], "%s", argv[8 + i]);
	if (sl_transform_open(&t, &spec, &fail) != SL_OK)
		return complain(&fail);
	room.wanted = sl_transform_begin(t, &work, seed, epoch, sample);
	if (sl_picture_decode(&picture, bytes, len, &how, &room, &fail) != SL_OK ||
	    sl_transform_apply(&work, out, &picture, &fail) != SL_OK)
		return complain(&fail);
	putchar('[');
	for (int i = 0, h = (int)picture.dim[0], w = (int)picture.dim[1]; i < spec.n; i++) {
		/* after the first step of these lists an image has its final size */
		const struct sl_transform_draw draw = sl_transform_draw(
			t, i, seed, epoch, sample, i || picture.part.shrink ? (i ? spec.out_h : picture.part.h) : h,
			i || picture.part.shrink ? (i ? spec.out_w : picture.part.w) : w);

		print_draw(&draw, !i);
	}
	puts("]");
	fwrite(out, sizeof *out, floats, stdout);
	return 0;
}

/* Parses $PICTURE_HOW. */
static void choose_how(const char *words)
{
	how.channels = strstr(words, "grey") ? 1 : 3;
	how.deep = strstr(words, "deep");
	how.exact = strstr(words, "exact");
	how.upright = strstr(words, "upright");
}

int main(int argc, char **argv)
{
	const char *words = getenv("PICTURE_HOW");

	choose_how(words ? words : "");
	if (argc >= 3 && strcmp(argv[1], "decode") == 0)
		return decode(argc, argv);
	if (argc == 4 && strcmp(argv[1], "list") == 0)
		return list(argv);
	if (argc >= 8 && strcmp(argv[1], "apply") == 0)
		return apply(argc, argv);
	return 64;
}
