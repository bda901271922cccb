/* Writes any bytes as the files of a source to a folder of this process, opens them as a set, and
 * reads samples. */
#ifndef SL_TESTS_SOURCE_TARGET_H
#define SL_TESTS_SOURCE_TARGET_H

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/data/picture.h"
#include "client/data/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SOURCE_SAMPLES = 6 };

static char source_dir[64];

static void source_put(const char *name, const uint8_t *data, size_t size)
{
	char path[PATH_MAX];
	FILE *file;

	if (!source_dir[0]) {
		snprintf(source_dir, sizeof source_dir, "%s/fuzz-source-%ld", /* in memory, if possible */
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
		snprintf(path, sizeof path, "mkdir -p %s", source_dir);
		if (system(path) != 0)
			abort();
	}
	snprintf(path, sizeof path, "%s/%s", source_dir, name);
	file = fopen(path, "w");
	if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
		abort();
}

/* A refusal must have a message; labels and ids of an accepted set must be in range. `buckets`: 0 or more, all columns
 * but the label are ids; -1: none is. */
static void source_read_ids(const char *source, enum sl_split split, enum sl_learn_kind kind, bool fill, int buckets)
{
	static const char *const label[] = {"label"}, *const all[] = {"*"};
	const struct sl_set_spec spec = {.source = source,
					 .split = split,
					 .dir = source_dir,
					 .picture.max_pixels = 1 << 20,
					 .label = label,
					 .nlabels = 1,
					 .fill = fill,
					 .id_column = all,
					 .nid_columns = buckets >= 0,
					 .buckets = buckets < 0 ? 0 : buckets,
					 .task = &sl_learn_tasks[kind]};
	struct sl_room room = {0};
	struct sl_fail fail = {0};
	struct sl_set set;

	if (sl_set_open(&set, &spec, &fail) != SL_OK) {
		if (!fail.text[0])
			abort();
		return;
	}
	for (int64_t i = 0; i < set.count && i < SOURCE_SAMPLES; i++) {
		struct sl_value v[SL_FIELD_COUNT] = {{0}};
		union {
			int32_t label;
			float target;
		} is;

		if (set.source->sample(&set, i, &room, v, &fail) != SL_OK)
			continue;
		memcpy(&is, v[SL_FIELD_TARGET].data, sizeof is);
		if (kind == SL_LEARN_CLASSES
			    ? is.label < 0 || is.label >= set.classes
			    : !isfinite(is.target) || (kind == SL_LEARN_LABELS && is.target != 0 && is.target != 1))
			abort();
		for (int64_t k = 0; k < v[SL_FIELD_INPUT].dim[0] && buckets >= 0; k++) {
			const float id = ((const float *)v[SL_FIELD_INPUT].data)[k];

			if (!(id >= 0 && id < (float)(buckets ? buckets : 1 << 24) && id == floorf(id)))
				abort();
		}
	}
	sl_room_close(&room);
	sl_set_close(&set);
}

static void source_read_as(const char *source, enum sl_split split, enum sl_learn_kind kind, bool fill)
{
	source_read_ids(source, split, kind, fill, -1);
}

static void source_read(const char *source, enum sl_split split)
{
	source_read_as(source, split, SL_LEARN_CLASSES, false);
}

#endif
