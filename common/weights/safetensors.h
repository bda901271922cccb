/* safetensors files: [8 bytes: length of the header, little endian][header: JSON][data].
 * The reader trusts nothing: header ≤ 100 MB, duplicate keys refused, products of dimensions checked in 64 bits, and
 * the tensors' byte ranges must cover the data exactly, without hole or overlap. A dtype that is not known here is
 * listed, but cannot be read. Reading copies out of the file on demand: no tensor is held in memory. */
#ifndef SL_WEIGHTS_SAFETENSORS_H
#define SL_WEIGHTS_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/failpoint.h"

enum { SL_ST_MAX_HEADER = 100000000, SL_ST_MAX_DIMS = 8, SL_ST_SHAPE_TEXT = 128 };

struct sl_st_tensor {
	const char *name;  /* owned by the file and valid until it is closed, as dtype is */
	const char *dtype; /* "F32" … as the file has it */
	int ndim;          /* 0: a scalar, of count 1 */
	int64_t dim[SL_ST_MAX_DIMS];
	int64_t count;
	uint64_t offset, bytes; /* from the start of the data */
	int shard;              /* index of its file, if there are several */
};

struct sl_st_file;

/* NOINPUT: cannot be opened or is no regular file. DATA: not a safetensors file, and why. IO: reading failed. */
enum sl_err sl_st_open(struct sl_st_file **out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
/* The same for a whole file in memory, which stays the caller's and must outlive *out. */
enum sl_err sl_st_open_bytes(struct sl_st_file **out, struct sl_bytes image, struct sl_fail *fail) SL_MUST_CHECK;
/* A folder as transformers writes it: model.safetensors, or model.safetensors.index.json and the files that it names,
 * read as one. NOINPUT: it has neither. DATA: index and files do not fit, or the index names files elsewhere. */
enum sl_err sl_st_open_folder(struct sl_st_file **out, const char *dir, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether the folder has either, or any other file that looks like weights, which sl_st_open_folder refuses with a
 * reason: shards without an index, an unfinished download, adapters alone, another format. */
bool sl_st_in_folder(const char *dir);
void sl_st_close(struct sl_st_file *file); /* NULL is fine */

int sl_st_count(const struct sl_st_file *file);
const struct sl_st_tensor *sl_st_at(const struct sl_st_file *file, int index);               /* sorted by name */
const struct sl_st_tensor *sl_st_find(const struct sl_st_file *file, const char *name);      /* NULL: none */
const char *sl_st_metadata(const struct sl_st_file *file, const char *key);                  /* NULL: none */
const char *sl_st_shape_text(const struct sl_st_tensor *tensor, char out[SL_ST_SHAPE_TEXT]); /* "[32,3,3,3]" */

/* Calls fn for all metadata, in any order. */
void sl_st_each_note(const struct sl_st_file *file, void (*fn)(void *arg, const char *key, const char *value),
		     void *arg);

/* Reads bytes [offset, offset + len) of the tensor as the file has them. */
enum sl_err sl_st_read_raw(const struct sl_st_file *file, const struct sl_st_tensor *tensor, uint64_t offset, void *out,
			   size_t len, struct sl_fail *fail) SL_MUST_CHECK;
/* Maps the file: *out is the tensor in it, valid until the file is closed. If another process makes the file
 * shorter, reading the tensor ends this process with status 74 and a line that names the file. NOMEM: it cannot be
 * mapped. DATA: truncated. Not for files in memory. */
enum sl_err sl_st_map(const struct sl_st_file *file, const struct sl_st_tensor *tensor, const void **out,
		      struct sl_fail *fail) SL_MUST_CHECK;
/* The tensor's offset in its file, which gives the alignment of its address in sl_st_map. */
uint64_t sl_st_place(const struct sl_st_file *file, const struct sl_st_tensor *tensor);
/* Whether sl_st_read_f32 can read it: F32, F16, BF16, F64. */
bool sl_st_is_float(const struct sl_st_tensor *tensor);
/* Reads the tensor to out [count]. DATA if it cannot read the dtype, or the file has become shorter. */
enum sl_err sl_st_read_f32(const struct sl_st_file *file, const struct sl_st_tensor *tensor, float *out,
			   struct sl_fail *fail) SL_MUST_CHECK;

/* A tensor to be written; everything stays the caller's. */
struct sl_st_item {
	const char *name;
	const char *dtype; /* "F32", "I64" or another that the reader knows */
	int ndim;
	int64_t dim[SL_ST_MAX_DIMS];
	const void *data; /* packed, little endian */
};

struct sl_st_note {
	const char *key, *value; /* UTF-8 */
};

/* A note with this key and the value SL_ST_HASH_OPEN gets a hash of header and data as its value. */
#define SL_ST_HASH      "split.hash"
#define SL_ST_HASH_OPEN "----------------"
/* *changed: the file, or one of a folder's, has a hash, which is not that of its bytes. A file without one is as it is.
 * Reads the whole file. */
enum sl_err sl_st_check_hash(const struct sl_st_file *file, bool *changed, struct sl_fail *fail) SL_MUST_CHECK;

/* Writes `path`.tmp, syncs it, renames it to `path` and syncs the folder, so that `path` is the old file or the
 * whole new one. Tensors are in the order of element size (largest first: all are aligned), then of name; the same
 * items give the same bytes. CANTCREATE, IO; `path`.tmp is removed on failure. `points`: the file's failpoints,
 * SL_FP_x_OPEN. */
enum sl_err sl_st_write(const char *path, const struct sl_st_item *items, int n_items, const struct sl_st_note *notes,
			int n_notes, enum sl_failpoint points, struct sl_fail *fail) SL_MUST_CHECK;

/* Bytes of an element of this dtype; 0: not known here. */
int sl_st_dtype_bytes(const char *dtype);

#endif
