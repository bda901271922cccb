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
/* Reads bytes [offset, offset + len) of the file. DATA: it is shorter. */
enum sl_err sl_st_read_at(const struct sl_st_file *f, uint64_t offset, void *dst, size_t len,
			  struct sl_fail *fail) SL_MUST_CHECK;
/* Puts the hash into the header's note SL_ST_HASH, if it has one. The data: bytes[i] of items[i], in the file's order.
 */
void sl_st_put_hash(char *header, const struct sl_st_item *const *items, const uint64_t *bytes, int n);
void sl_st_unmap(struct sl_st_file *file);
/* The file that a tensor lies in. */
struct sl_st_file *sl_st_holder(const struct sl_st_file *file, const struct sl_st_tensor *tensor);
int sl_st_by_name(const void *a, const void *b); /* compares struct sl_st_tensor */

#endif
