#include "common/weights/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/filekind.h"
#include "common/base/half.h"
#include "common/base/worker.h"
#include "common/weights/safetensors_impl.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors files are little endian");

enum { LENGTH_BYTES = 8, CHUNK_BYTES = 32768 };

static const char metadata_key[] = "__metadata__";

static const struct {
	const char *name;
	int bytes;
} dtypes[] = {
	{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8},     {"I32", 4},     {"I16", 2},  {"I8", 1},
	{"U8", 1},  {"U16", 2}, {"U32", 4},  {"U64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1},
};

int sl_st_dtype_bytes(const char *dtype)
{
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (!strcmp(dtype, dtypes[i].name))
			return dtypes[i].bytes;
	return 0;
}

const char *sl_st_shape_text(const struct sl_st_tensor *tensor, char out[SL_ST_SHAPE_TEXT])
{
	int used = snprintf(out, SL_ST_SHAPE_TEXT, "[");

	for (int i = 0; i < tensor->ndim && used < SL_ST_SHAPE_TEXT; i++)
		used += snprintf(out + used, (size_t)(SL_ST_SHAPE_TEXT - used), "%s%lld", i ? "," : "",
				 (long long)tensor->dim[i]);
	if (used < SL_ST_SHAPE_TEXT)
		snprintf(out + used, (size_t)(SL_ST_SHAPE_TEXT - used), "]");
	return out;
}

enum sl_err sl_st_read_at(const struct sl_st_file *f, uint64_t offset, void *dst, size_t len, struct sl_fail *fail)
{
	uint8_t *to = dst;

	if (f->fd < 0) {
		if (offset > f->image.len || len > f->image.len - offset)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: truncated", f->name);
		if (len > 0)
			memcpy(to, f->image.data + offset, len);
		return SL_OK;
	}
	while (len > 0) {
		ssize_t got = pread(f->fd, to, len, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return sl_fail_set(fail, SL_ERR_IO, "%s: %s", f->name, strerror(errno));
		if (got == 0)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: truncated", f->name);
		to += got;
		offset += (uint64_t)got;
		len -= (size_t)got;
	}
	return SL_OK;
}

static enum sl_err bad_tensor(const struct sl_st_file *f, const char *name, const char *what, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_DATA, "%s: tensor \"%.96s\": %s", f->name, name, what);
}

static enum sl_err parse_shape(const struct sl_st_file *f, const json_t *shape, struct sl_st_tensor *t,
			       struct sl_fail *fail)
{
	if (!json_is_array(shape))
		return bad_tensor(f, t->name, "its shape is no list", fail);
	if (json_array_size(shape) > SL_ST_MAX_DIMS)
		return bad_tensor(f, t->name, "it has more than 8 dimensions", fail);
	t->ndim = (int)json_array_size(shape);
	t->count = 1;
	for (int i = 0; i < t->ndim; i++) {
		const json_t *d = json_array_get(shape, (size_t)i);

		if (!json_is_integer(d) || json_integer_value(d) < 0)
			return bad_tensor(f, t->name, "a dimension is no count", fail);
		t->dim[i] = json_integer_value(d);
		if (__builtin_mul_overflow(t->count, t->dim[i], &t->count))
			return bad_tensor(f, t->name, "its size passes 64 bits", fail);
	}
	return SL_OK;
}

static enum sl_err parse_offsets(const struct sl_st_file *f, const json_t *offsets, uint64_t data_bytes,
				 struct sl_st_tensor *t, struct sl_fail *fail)
{
	const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
	json_int_t begin, end;

	if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second))
		return bad_tensor(f, t->name, "its data_offsets are no pair of integers", fail);
	begin = json_integer_value(first);
	end = json_integer_value(second);
	if (begin < 0 || end < begin || (uint64_t)end > data_bytes)
		return bad_tensor(f, t->name, "its data_offsets lie outside of the file (truncated?)", fail);
	t->offset = (uint64_t)begin;
	t->bytes = (uint64_t)(end - begin);
	return SL_OK;
}

static enum sl_err parse_tensor(const struct sl_st_file *f, const char *name, const json_t *entry, uint64_t data_bytes,
				struct sl_st_tensor *t, struct sl_fail *fail)
{
	uint64_t want;
	enum sl_err err;

	t->name = name;
	t->dtype = json_string_value(json_object_get(entry, "dtype"));
	if (!json_is_object(entry) || !t->dtype || json_object_size(entry) != 3)
		return bad_tensor(f, name, "its entry is not {dtype, shape, data_offsets}", fail);
	err = parse_shape(f, json_object_get(entry, "shape"), t, fail);
	if (!err)
		err = parse_offsets(f, json_object_get(entry, "data_offsets"), data_bytes, t, fail);
	if (err)
		return err;
	int size = sl_st_dtype_bytes(t->dtype);
	if (size && (__builtin_mul_overflow((uint64_t)t->count, (uint64_t)size, &want) || want != t->bytes))
		return bad_tensor(f, name, "its bytes are not those of its shape", fail);
	return SL_OK;
}

static enum sl_err check_metadata(const struct sl_st_file *f, json_t *meta, struct sl_fail *fail)
{
	const char *key;
	json_t *value;

	if (!json_is_object(meta))
		return sl_fail_set(fail, SL_ERR_DATA, "%s: __metadata__ is no map", f->name);
	json_object_foreach(meta, key, value)
	{
		if (!json_is_string(value))
			return sl_fail_set(fail, SL_ERR_DATA, "%s: __metadata__ of \"%.96s\" is no string", f->name,
					   key);
	}
	return SL_OK;
}

static int by_offset(const void *a, const void *b)
{
	const struct sl_st_tensor *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

int sl_st_by_name(const void *a, const void *b)
{
	return strcmp(((const struct sl_st_tensor *)a)->name, ((const struct sl_st_tensor *)b)->name);
}

/* Checks that the tensors cover the data without hole or overlap. Leaves them sorted by name. */
static enum sl_err check_cover(struct sl_st_file *f, uint64_t data_bytes, struct sl_fail *fail)
{
	uint64_t at = 0;

	qsort(f->tensor, (size_t)f->n_tensor, sizeof(*f->tensor), by_offset);
	for (int i = 0; i < f->n_tensor; i++) {
		if (f->tensor[i].offset != at)
			return bad_tensor(
				f, f->tensor[i].name,
				f->tensor[i].offset < at ? "it overlaps another" : "there is a hole before it", fail);
		at += f->tensor[i].bytes;
	}
	if (at != data_bytes)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: %llu bytes of data, of which tensors take %llu", f->name,
				   (unsigned long long)data_bytes, (unsigned long long)at);
	qsort(f->tensor, (size_t)f->n_tensor, sizeof(*f->tensor), sl_st_by_name);
	return SL_OK;
}

static enum sl_err parse_header(struct sl_st_file *f, const char *text, size_t len, uint64_t data_bytes,
				struct sl_fail *fail)
{
	json_error_t why;
	const char *key;
	json_t *value;
	enum sl_err err = SL_OK;

	f->root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(f->root))
		return sl_fail_set(fail, SL_ERR_DATA, "%s: its header is no JSON map: %s", f->name,
				   f->root ? "another type" : why.text);
	f->tensor = calloc(json_object_size(f->root) + 1, sizeof(*f->tensor));
	if (!f->tensor)
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for its list of tensors", f->name);
	json_object_foreach(f->root, key, value)
	{
		if (!strcmp(key, metadata_key))
			err = check_metadata(f, value, fail);
		else
			err = parse_tensor(f, key, value, data_bytes, &f->tensor[f->n_tensor++], fail);
		if (err)
			return err;
	}
	return check_cover(f, data_bytes, fail);
}

/* Whether these bytes are not a length, but the beginning of a zip archive or, before PyTorch 1.6, of a pickle. */
static bool of_torch_save(const unsigned char first[LENGTH_BYTES])
{
	return memcmp(first, "PK\3\4", 4) == 0 || memcmp(first, "\x80\2\x8a\n", 4) == 0;
}

/* Reads the header of a file of `total` bytes. */
static enum sl_err load_header(struct sl_st_file *f, uint64_t total, struct sl_fail *fail)
{
	char begin[SL_FILEKIND_BYTES], *text;
	const char *other;
	uint64_t len;
	size_t n;
	enum sl_err err;

	if (total < LENGTH_BYTES)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: too short for a safetensors file", f->name);
	err = sl_st_read_at(f, 0, &len, sizeof(len), fail);
	if (err)
		return err;
	if (len > SL_ST_MAX_HEADER || len > total - LENGTH_BYTES) {
		if (of_torch_save((const unsigned char *)&len))
			return sl_fail_set(fail, SL_ERR_DATA,
					   "%s: a file of torch.save, which may hold code: write it with "
					   "safetensors.torch.save_file(model.state_dict(), FILE)",
					   f->name);
		n = total < sizeof begin ? (size_t)total : sizeof begin;
		other = sl_st_read_at(f, 0, begin, n, fail) == SL_OK ? sl_filekind(begin, n) : NULL;
		if (other)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: this is no safetensors file, but %s", f->name,
					   other);
		return sl_fail_set(fail, SL_ERR_DATA, "%s: no safetensors file, or truncated: a header of %llu bytes",
				   f->name, (unsigned long long)len);
	}
	text = malloc((size_t)len + 1);
	if (!text)
		return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory for a header of %llu bytes", f->name,
				   (unsigned long long)len);
	err = sl_st_read_at(f, LENGTH_BYTES, text, (size_t)len, fail);
	f->data_start = LENGTH_BYTES + len;
	if (!err)
		err = parse_header(f, text, (size_t)len, total - f->data_start, fail);
	free(text);
	return err;
}

struct sl_st_file *sl_st_new(const char *path)
{
	struct sl_st_file *f = calloc(1, sizeof(*f));
	size_t len = strlen(path);

	if (!f)
		return NULL;
	f->fd = -1;
	snprintf(f->name, sizeof(f->name), "%s", len < sizeof(f->name) ? path : path + len - sizeof(f->name) + 1);
	return f;
}

enum sl_err sl_st_open(struct sl_st_file **out, const char *path, struct sl_fail *fail)
{
	struct sl_st_file *f = sl_st_new(path);
	struct stat st;
	enum sl_err err;

	if (!f)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to open %s", path);
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
	if (f->fd < 0 || fstat(f->fd, &st) < 0) {
		err = sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
		goto fail;
	}
	if (!S_ISREG(st.st_mode)) {
		err = sl_fail_set(fail, SL_ERR_NOINPUT, "%s: not a regular file", path);
		goto fail;
	}
	err = load_header(f, (uint64_t)st.st_size, fail);
	if (err)
		goto fail;
	*out = f;
	return SL_OK;
fail:
	sl_st_close(f);
	return err;
}

enum sl_err sl_st_open_bytes(struct sl_st_file **out, struct sl_bytes image, struct sl_fail *fail)
{
	struct sl_st_file *f = sl_st_new("safetensors in memory");
	enum sl_err err;

	if (!f)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to open a safetensors image");
	f->image = image;
	err = load_header(f, image.len, fail);
	if (err)
		sl_st_close(f);
	else
		*out = f;
	return err;
}

void sl_st_close(struct sl_st_file *file)
{
	if (!file)
		return;
	for (int i = 0; i < file->n_shard; i++)
		sl_st_close(file->shard[i]);
	free(file->shard);
	sl_st_unmap(file);
	if (file->fd >= 0)
		close(file->fd);
	json_decref(file->root);
	free(file->tensor);
	free(file);
}

int sl_st_count(const struct sl_st_file *file)
{
	return file->n_tensor;
}

const struct sl_st_tensor *sl_st_at(const struct sl_st_file *file, int index)
{
	return &file->tensor[index];
}

const struct sl_st_tensor *sl_st_find(const struct sl_st_file *file, const char *name)
{
	const struct sl_st_tensor key = {.name = name};

	return bsearch(&key, file->tensor, (size_t)file->n_tensor, sizeof(key), sl_st_by_name);
}

const char *sl_st_metadata(const struct sl_st_file *file, const char *key)
{
	return json_string_value(json_object_get(json_object_get(file->root, metadata_key), key));
}

void sl_st_each_note(const struct sl_st_file *file, void (*fn)(void *arg, const char *key, const char *value),
		     void *arg)
{
	json_t *notes = json_object_get(file->root, metadata_key), *value;
	const char *key;

	json_object_foreach(notes, key, value)
	{
		fn(arg, key, json_string_value(value));
	}
}

struct sl_st_file *sl_st_holder(const struct sl_st_file *file, const struct sl_st_tensor *tensor)
{
	return file->n_shard ? file->shard[tensor->shard] : (struct sl_st_file *)(uintptr_t)file;
}

enum sl_err sl_st_read_raw(const struct sl_st_file *file, const struct sl_st_tensor *tensor, uint64_t offset, void *out,
			   size_t len, struct sl_fail *fail)
{
	if (offset > tensor->bytes || len > tensor->bytes - offset)
		return sl_fail_set(fail, SL_ERR_BUG, "%s: tensor \"%.96s\" is read past its end", file->name,
				   tensor->name);
	file = sl_st_holder(file, tensor);
	return sl_st_read_at(file, file->data_start + tensor->offset + offset, out, len, fail);
}

/* ---- conversion of `count` packed elements to floats; no alignment is assumed of the source */

typedef void convert_fn(void *dst, const uint8_t *src, size_t count);

static void f32_of_f16(void *dst, const uint8_t *src, size_t count)
{
	for (size_t i = 0; i < count; i++)
		((float *)dst)[i] = sl_float_of_f16((uint16_t)(src[2 * i] | src[2 * i + 1] << 8));
}

static void f32_of_bf16(void *dst, const uint8_t *src, size_t count)
{
	for (size_t i = 0; i < count; i++)
		((float *)dst)[i] = sl_float_of_bf16((uint16_t)(src[2 * i] | src[2 * i + 1] << 8));
}

static void f32_of_f64(void *dst, const uint8_t *src, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double x;

		memcpy(&x, src + 8 * i, sizeof(x));
		((float *)dst)[i] = (float)x;
	}
}

static void copy_4(void *dst, const uint8_t *src, size_t count)
{
	memcpy(dst, src, 4 * count);
}

struct conversion {
	const char *dtype;
	convert_fn *convert;
};

static const struct conversion to_f32[] = {
	{"F32", copy_4}, {"F16", f32_of_f16}, {"BF16", f32_of_bf16}, {"F64", f32_of_f64}, {NULL, NULL}};

static convert_fn *find_conversion(const char *dtype)
{
	const struct conversion *list = to_f32;

	while (list->dtype && strcmp(list->dtype, dtype))
		list++;
	return list->convert;
}

bool sl_st_is_float(const struct sl_st_tensor *tensor)
{
	return find_conversion(tensor->dtype) != NULL;
}

enum sl_err sl_st_read_f32(const struct sl_st_file *f, const struct sl_st_tensor *t, float *out, struct sl_fail *fail)
{
	convert_fn *convert = find_conversion(t->dtype);
	uint8_t chunk[CHUNK_BYTES];
	uint64_t done = 0;

	f = sl_st_holder(f, t);
	if (!convert)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: tensor \"%.96s\" is %.16s, not F32, F16, BF16 or F64",
				   f->name, t->name, t->dtype);
	while (done < t->bytes) {
		const size_t size = (size_t)sl_st_dtype_bytes(t->dtype);
		const size_t len = t->bytes - done < CHUNK_BYTES ? (size_t)(t->bytes - done) : CHUNK_BYTES;
		enum sl_err err;

		sl_worker_turn();
		err = sl_st_read_at(f, f->data_start + t->offset + done, chunk, len, fail);

		if (err)
			return err;
		convert(out, chunk, len / size);
		out += len / size;
		done += len;
	}
	return SL_OK;
}
