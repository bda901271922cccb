/* Any bytes as a prepared case (volume.h): the magic and the hash are put in, since a fuzzer cannot guess them. A case
 * that is taken must give patches wherever they begin, also outside of it, and its places must be as many as it says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/data/volume.h"
#include "client/data/volume_warp.h"
#include "common/graph/task.h"

enum { HASH = 7, CLASSES = 4, SIDE = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(const char *path, const uint8_t *data, size_t size)
{
	struct sl_volume_head head;
	FILE *file = fopen(path, "wb");

	memcpy(&head, data, sizeof head);
	memcpy(head.magic, SL_VOLUME_MAGIC, sizeof head.magic);
	head.hash = HASH;
	if (!file || fwrite(&head, 1, sizeof head, file) != sizeof head ||
	    fwrite(data + sizeof head, 1, size - sizeof head, file) != size - sizeof head || fclose(file) != 0)
		abort();
}

static void cut(const struct sl_volume *v)
{
	const struct sl_volume_spec spec = {.patch = {SIDE, SIDE, SIDE}};
	static float voxel[SIDE * SIDE * SIDE * SL_VOLUME_CHANNELS];
	static int32_t mask[SIDE * SIDE * SIDE];
	const struct sl_step step = {.kind = SL_STEP_AFFINE_3D, .p = 1, .spread = {0.5}, .turn = {90, 90, 90}};
	double m[3][3];
	const uint32_t *place = v->place;
	uint32_t sum = 0;

	for (int k = 0; k < 27; k++) {
		int64_t at[3];
		struct sl_fail fail = {.text = ""};

		for (int axis = 0, where = k; axis < 3; axis++, where /= 3)
			at[axis] = where % 3 == 0   ? sl_patch_begin(0, SIDE, v->head->dim[axis])
				   : where % 3 == 1 ? sl_patch_around(v->head->dim[axis] - 1, SIDE, v->head->dim[axis])
						    : sl_patch_around(v->head->dim[axis] / 2, SIDE, v->head->dim[axis]);
		if (!sl_volume_warp_draw(m, &step, &(struct sl_sample_draw){1, 1}, k, v))
			abort();
		if ((k % 2 ? sl_volume_warp(v, &spec, at, m, CLASSES, voxel, mask, &fail)
			   : sl_volume_cut(v, &spec, at, CLASSES, voxel, mask, &fail)) != SL_OK) {
			if (!fail.text[0])
				abort();
			continue;
		}
		for (int i = 0; i < SIDE * SIDE * SIDE; i++)
			if (mask[i] != SL_LEARN_IGNORED && (mask[i] < 0 || mask[i] >= CLASSES))
				abort();
	}
	for (int k = 0; k < SL_VOLUME_CLASSES; k++)
		for (int64_t i = 0; i < v->head->places[k]; i++)
			sum += *place++;
	if (sum == 1)
		(void)fputc('.', stderr);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	struct sl_volume v;
	struct sl_fail fail = {.text = ""};

	if (size < sizeof(struct sl_volume_head))
		return 0;
	snprintf(path, sizeof path, "%s/fuzz-volume-%ld", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
		 (long)getpid());
	put(path, data, size);
	if (sl_volume_map(&v, path, HASH, &fail) == SL_OK) {
		cut(&v);
		sl_volume_close(&v);
	} else if (!fail.text[0]) {
		abort();
	}
	unlink(path);
	return 0;
}
