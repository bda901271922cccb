#include <stdlib.h>
#include <string.h>

#include "common/base/newfile.h"
#include "common/weights/safetensors_impl.h"

enum { ALIGN = 8 };

struct placed {
	const struct sl_st_item *item;
	int size; /* of an element */
	uint64_t bytes;
};

static int by_size_and_name(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	return x->size != y->size ? y->size - x->size : strcmp(x->item->name, y->item->name);
}

static enum sl_err place(struct placed *list, const struct sl_st_item *items, int n, struct sl_fail *fail)
{
	for (int i = 0; i < n; i++) {
		list[i] = (struct placed){&items[i], sl_st_dtype_bytes(items[i].dtype), 0};
		if (list[i].size == 0)
			return sl_fail_set(fail, SL_ERR_BUG, "tensor \"%s\": no dtype \"%s\"", items[i].name,
					   items[i].dtype);
		list[i].bytes = (uint64_t)list[i].size;
		for (int d = 0; d < items[i].ndim; d++)
			list[i].bytes *= (uint64_t)items[i].dim[d];
	}
	qsort(list, (size_t)n, sizeof(*list), by_size_and_name);
	return SL_OK;
}

static json_t *entry_of(const struct placed *p, uint64_t begin)
{
	json_t *shape = json_array();

	for (int d = 0; d < p->item->ndim; d++)
		json_array_append_new(shape, json_integer(p->item->dim[d]));
	return json_pack("{s:s, s:o, s:[I,I]}", "dtype", p->item->dtype, "shape", shape, "data_offsets",
			 (json_int_t)begin, (json_int_t)(begin + p->bytes));
}

/* Makes the header without its length, malloc'ed. NULL: no memory, or a name is not UTF-8 or comes twice. */
static char *make_header(const struct placed *list, int n, const struct sl_st_note *notes, int n_notes)
{
	json_t *root = json_object(), *meta = json_object();
	uint64_t at = 0;
	char *text = NULL;
	bool ok = root && meta;

	for (int i = 0; ok && i < n_notes; i++)
		ok = json_object_set_new(meta, notes[i].key, json_string(notes[i].value)) == 0;
	if (ok && n_notes > 0)
		ok = json_object_set(root, "__metadata__", meta) == 0;
	for (int i = 0; ok && i < n; i++) {
		ok = !json_object_get(root, list[i].item->name) &&
		     json_object_set_new(root, list[i].item->name, entry_of(&list[i], at)) == 0;
		at += list[i].bytes;
	}
	if (ok)
		text = json_dumps(root, JSON_COMPACT);
	json_decref(meta);
	json_decref(root);
	return text;
}

/* Puts the file's hash into its header. False: no memory. */
static bool put_hash(char *header, const struct placed *list, int n)
{
	const struct sl_st_item **items = calloc((size_t)n + 1, sizeof *items);
	uint64_t *bytes = calloc((size_t)n + 1, sizeof *bytes);
	const bool ok = items && bytes;

	for (int i = 0; i < n && ok; i++) {
		items[i] = list[i].item;
		bytes[i] = list[i].bytes;
	}
	if (ok)
		sl_st_put_hash(header, items, bytes, n);
	free(items);
	free(bytes);
	return ok;
}

static enum sl_err write_file(struct sl_newfile *f, const char *header, const struct placed *list, int n,
			      struct sl_fail *fail)
{
	const char spaces[ALIGN] = "        ";
	size_t len = strlen(header), pad = (ALIGN - len % ALIGN) % ALIGN;
	uint64_t total = len + pad;
	enum sl_err err = sl_newfile_write(f, &total, sizeof total, fail);

	if (!err)
		err = sl_newfile_write(f, header, len, fail);
	if (!err)
		err = sl_newfile_write(f, spaces, pad, fail);
	for (int i = 0; i < n && !err; i++)
		err = sl_newfile_write(f, list[i].item->data, (size_t)list[i].bytes, fail);
	return err ? err : sl_newfile_finish(f, fail);
}

enum sl_err sl_st_write(const char *path, const struct sl_st_item *items, int n_items, const struct sl_st_note *notes,
			int n_notes, enum sl_failpoint points, struct sl_fail *fail)
{
	struct sl_newfile file;
	struct placed *list = calloc((size_t)n_items + 1, sizeof(*list));
	char *header = NULL;
	enum sl_err err;

	if (!list)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to write %s", path);
	err = place(list, items, n_items, fail);
	if (err)
		goto fail;
	header = make_header(list, n_items, notes, n_notes);
	if (!header) {
		err = sl_fail_set(fail, SL_ERR_BUG, "%s: a name that is not UTF-8, or one that comes twice", path);
		goto fail;
	}
	if (!put_hash(header, list, n_items)) {
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory to write %s", path);
		goto fail;
	}
	err = sl_newfile_open(&file, path, 0600, points, fail);
	if (!err)
		err = write_file(&file, header, list, n_items, fail);
fail:
	free(header);
	free(list);
	return err;
}
