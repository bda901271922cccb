/* Private to the reader of safetensors files. */
#ifndef SL_WEIGHTS_SAFETENSORS_IMPL_H
#define SL_WEIGHTS_SAFETENSORS_IMPL_H

#include <jansson.h>

#include "common/weights/safetensors.h"

struct sl_st_file {
	int fd;                /* -1: read from `image` */
	struct sl_bytes image; /* not owned */
	uint64_t data_start;   /* offset of the data in the file */
	json_t *root;          /* owns the names; NULL: its shards do */
	struct sl_st_tensor *tensor;
	int n_tensor;
	struct sl_st_file **shard; /* several files: this one has no data; each tensor has the index of its own */
	int n_shard;
	void *map; /* of the whole file; NULL: it is not mapped */
	size_t map_bytes;
	char name[96]; /* the end of the path, for errors */
};

/* Makes an empty file, which errors call `path`. NULL: no memory. */
struct sl_st_file *sl_st_new(const char *path);
void sl_st_unmap(struct sl_st_file *file);
/* The file that a tensor lies in. */
struct sl_st_file *sl_st_holder(const struct sl_st_file *file, const struct sl_st_tensor *tensor);
int sl_st_by_name(const void *a, const void *b); /* compares struct sl_st_tensor */

#endif
