/* WebDataset: tar files ("shards") of samples. The members of a sample are adjacent, and their names are equal up to
 * the first dot after the folder: "a/0001.jpg", "a/0001.cls". */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "client/data/name_list.h"
#include "client/data/picture.h"
#include "client/data/sources.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/text.h"

enum { BLOCK = 512, BUFFER = 1 << 16, MOST_LABEL_BYTES = 1 << 20, MOST_CLASSES = 100000, MOST_SHARDS = 100000 };

/* What a set's `data` points to. */
struct shards {
	struct sl_names path;
	struct sl_names key; /* of each sample: its members' names up to the dot */
	int32_t *shard;      /* [key.n] */
	int32_t *label;      /* [key.n] */
	int64_t *at;         /* [key.n], offset of its picture's header in the shard */
	size_t caps[3];
	struct sl_picture_spec picture;
	int classes;
	bool given;                /* tar files of pictures to predict: no labels are looked for */
	int64_t beside;            /* pictures that are not read; if given: files that are not, labels apart */
	char beside_one[PATH_MAX]; /* the last of them */
};

/* A shard that is being read, from an offset on. */
struct reading {
	const char *path;
	int fd;
	int64_t at;
	uint8_t buffer[BUFFER];
	struct archive *archive;
};

/* The sample whose members are being read. */
struct group {
	char key[PATH_MAX];
	int64_t picture_at; /* −1: it has none yet */
	int32_t label;      /* −1: it has none yet */
	bool beside;        /* it has a picture that is not read */
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "out of memory for the list of samples");
}

static ssize_t take(struct archive *archive, void *arg, const void **out)
{
	struct reading *r = arg;
	const ssize_t n = pread(r->fd, r->buffer, sizeof r->buffer, r->at);

	if (n < 0) {
		archive_set_error(archive, errno, "%s", strerror(errno));
		return -1;
	}
	r->at += n;
	*out = r->buffer;
	return n;
}

/* Moves the offset over what libarchive skips, without reading it. */
static int64_t skip(struct archive *archive, void *arg, int64_t n)
{
	struct reading *r = arg;
	struct stat st;

	if (n < 0 || fstat(r->fd, &st) || r->at >= st.st_size)
		return 0;
	n = n < st.st_size - r->at ? n : st.st_size - r->at;
	r->at += n;
	return n;
}

static void reading_close(struct reading *r)
{
	archive_read_free(r->archive);
	close(r->fd);
}

static enum sl_err damaged(const struct reading *r, struct sl_fail *fail)
{
	const char *why = archive_error_string(r->archive);

	return sl_fail_set(fail, SL_ERR_DATA, "%s: %s", r->path, why ? why : "not a tar file");
}

/* As archive_read_next_header, but a warning is ignored if the name is there: it may concern an owner's name, say. */
static int next_header(struct reading *r, struct archive_entry **entry)
{
	const int status = archive_read_next_header(r->archive, entry);

	return status == ARCHIVE_WARN && archive_entry_pathname(*entry) ? ARCHIVE_OK : status;
}

static enum sl_err reading_open(struct reading *r, const char *path, int64_t at, struct sl_fail *fail)
{
	struct stat st;

	*r = (struct reading){.path = path, .at = at, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	if (r->fd < 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	if (fstat(r->fd, &st) || !S_ISREG(st.st_mode)) {
		close(r->fd);
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: not a regular file", path);
	}
	r->archive = archive_read_new();
	if (!r->archive) {
		close(r->fd);
		return no_memory(fail);
	}
	archive_read_support_format_tar(r->archive);
	archive_read_set_read_callback(r->archive, take);
	archive_read_set_skip_callback(r->archive, skip);
	archive_read_set_callback_data(r->archive, r);
	if (archive_read_open1(r->archive) == ARCHIVE_OK)
		return SL_OK;
	damaged(r, fail);
	reading_close(r);
	return SL_ERR_DATA;
}

/* ---- the list of samples ---- */

static enum sl_err text_label(const char *text, size_t len, int32_t *out)
{
	long value = 0;
	size_t i = 0;

	while (i < len && text[i] >= '0' && text[i] <= '9' && value < MOST_CLASSES)
		value = value * 10 + text[i++] - '0';
	if (i == 0 || value >= MOST_CLASSES || strspn(text + i, " \r\n\t") != len - i)
		return SL_ERR_DATA;
	*out = (int32_t)value;
	return SL_OK;
}

/* Reads the member "label" or "cls" of an object. */
static enum sl_err json_label(const char *text, size_t len, int32_t *out)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL), *value = json_object_get(root, "label");
	json_int_t label;
	enum sl_err err = SL_ERR_DATA;

	if (!value)
		value = json_object_get(root, "cls");
	label = json_is_integer(value) ? json_integer_value(value) : -1;
	if (label >= 0 && label < MOST_CLASSES) {
		*out = (int32_t)label;
		err = SL_OK;
	}
	json_decref(root);
	return err;
}

static enum sl_err read_label(struct reading *r, const char *name, int64_t size, bool json, int32_t *out,
			      struct sl_fail *fail)
{
	char *text = size <= MOST_LABEL_BYTES ? calloc((size_t)size + 1, 1) : NULL;
	enum sl_err err;

	if (!text)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: %s: %lld bytes are too many for a label", r->path, name,
				   (long long)size);
	if (archive_read_data(r->archive, text, (size_t)size) != size)
		err = damaged(r, fail);
	else if ((json ? json_label : text_label)(text, (size_t)size, out) != SL_OK)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  json ? "%s: %s: no member \"label\" or \"cls\" with a class from 0 to %d"
				       : "%s: %s: must be a class from 0 to %d",
				  r->path, name, MOST_CLASSES - 1);
	else
		err = SL_OK;
	free(text);
	return err;
}

static enum sl_err end_group(struct shards *s, const struct group *g, const char *path, struct sl_fail *fail)
{
	const int64_t n = s->key.n;

	if (!g->key[0] || (g->picture_at < 0 && g->label < 0 && !g->beside))
		return SL_OK; /* it has neither picture nor label, so it is not a sample */
	if (g->picture_at < 0 && g->beside)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s: %.200s: a sample's name ends at the first dot, so \"%.60s\" has no picture: "
				   "rename its members without further dots",
				   path, s->beside_one, g->key);
	if (g->picture_at < 0 || g->label < 0)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: %.200s: the sample has no %s", path, g->key,
				   g->label < 0 ? "label (.cls, or .json)" : "picture");
	if (n == SL_SET_MAX_SAMPLES)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: more than %d samples", path, SL_SET_MAX_SAMPLES);
	if (!sl_grow(&s->shard, &s->caps[0], (size_t)n + 1, sizeof *s->shard) ||
	    !sl_grow(&s->label, &s->caps[1], (size_t)n + 1, sizeof *s->label) ||
	    !sl_grow(&s->at, &s->caps[2], (size_t)n + 1, sizeof *s->at) || !sl_names_add(&s->key, g->key))
		return no_memory(fail);
	s->shard[n] = (int32_t)s->path.n - 1;
	s->label[n] = g->label;
	s->at[n] = g->picture_at;
	s->classes = g->label >= s->classes ? g->label + 1 : s->classes;
	return SL_OK;
}

static enum sl_err add_member(struct shards *s, struct reading *r, struct archive_entry *entry, struct group *g,
			      struct sl_fail *fail)
{
	const char *name = archive_entry_pathname(entry), *slash, *base, *dot;

	if (!name || archive_entry_filetype(entry) != AE_IFREG)
		return SL_OK;
	slash = strrchr(name, '/');
	base = slash ? slash + 1 : name;
	if (base[0] == '.') /* such as "._0001.jpg", which macOS puts in front of "0001.jpg" */
		return SL_OK;
	if (s->given) {
		if (!sl_picture_name(name) || strlen(name) >= sizeof g->key) {
			if (!sl_ends_with(name, ".cls") && !sl_ends_with(name, ".json")) {
				s->beside++;
				snprintf(s->beside_one, sizeof s->beside_one, "%s", name);
			}
			return SL_OK;
		}
		strcpy(g->key, name);
		g->picture_at = archive_read_header_position(r->archive);
		g->label = 0;
		return end_group(s, g, r->path, fail);
	}
	dot = strchr(base, '.');
	if (!dot || dot - name >= (ptrdiff_t)sizeof g->key)
		return SL_OK;
	if (strlen(g->key) != (size_t)(dot - name) || memcmp(g->key, name, (size_t)(dot - name)) != 0) {
		enum sl_err err = end_group(s, g, r->path, fail);

		if (err)
			return err;
		snprintf(g->key, sizeof g->key, "%.*s", (int)(dot - name), name);
		g->picture_at = -1;
		g->label = -1;
		g->beside = false;
	}
	if (g->picture_at < 0 && sl_picture_name(dot) && !strchr(dot + 1, '.'))
		g->picture_at = archive_read_header_position(r->archive);
	else if (sl_picture_name(dot)) {
		g->beside = true;
		s->beside++;
		snprintf(s->beside_one, sizeof s->beside_one, "%s", name);
	} else if (strcmp(dot, ".cls") == 0 || (strcmp(dot, ".json") == 0 && g->label < 0))
		return read_label(r, name, archive_entry_size(entry), dot[1] == 'j', &g->label, fail);
	return SL_OK;
}

/* DATA: the file is truncated. A complete tar file ends with zeros. */
static enum sl_err check_end(const struct reading *r, struct sl_fail *fail)
{
	uint8_t block[BLOCK];
	struct stat st;

	if (fstat(r->fd, &st) || st.st_size < BLOCK || pread(r->fd, block, BLOCK, st.st_size - BLOCK) != BLOCK)
		return sl_fail_set(fail, SL_ERR_DATA, "%s: ends early", r->path);
	for (int i = 0; i < BLOCK; i++)
		if (block[i])
			return sl_fail_set(fail, SL_ERR_DATA, "%s: ends early: a tar file ends with zeros", r->path);
	return SL_OK;
}

static enum sl_err add_shard(struct shards *s, const char *path, struct sl_fail *fail)
{
	struct group g = {.picture_at = -1, .label = -1};
	struct archive_entry *entry;
	struct reading *r = malloc(sizeof *r);
	int status = ARCHIVE_OK;
	enum sl_err err = r ? reading_open(r, path, 0, fail) : no_memory(fail);

	if (err) {
		free(r);
		return err;
	}
	if (!sl_names_add(&s->path, path))
		err = no_memory(fail);
	while (!err && (status = next_header(r, &entry)) == ARCHIVE_OK)
		err = add_member(s, r, entry, &g, fail);
	if (!err && status != ARCHIVE_EOF)
		err = damaged(r, fail);
	if (!err)
		err = check_end(r, fail);
	if (!err && !s->given)
		err = end_group(s, &g, path, fail);
	reading_close(r);
	free(r);
	return err;
}

/* ---- which shards ---- */

/* Adds `dir`/`name`, where {000..146} stands for each of these numbers. */
static enum sl_err expand(struct sl_names *out, const char *dir, const char *name, struct sl_fail *fail)
{
	const char *open_at = strchr(name, '{');
	char path[PATH_MAX];
	int used = 0, width;
	long first, last;

	if (!open_at || sscanf(open_at, "{%9ld..%9ld}%n", &first, &last, &used) != 2 || !used || first < 0 ||
	    last < first || last - first >= MOST_SHARDS) {
		if (open_at)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: numbers are written as {000..146}, at most %d of them", name,
					   MOST_SHARDS);
		if (snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_MAX)
			return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", name);
		return sl_names_add(out, path) ? SL_OK : no_memory(fail);
	}
	width = (int)strspn(open_at + 1, "0123456789");
	for (long i = first; i <= last; i++) {
		if (snprintf(path, sizeof path, "%s/%.*s%0*ld%s", dir, (int)(open_at - name), name, width, i,
			     open_at + used) >= PATH_MAX)
			return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", name);
		if (!sl_names_add(out, path))
			return no_memory(fail);
	}
	return SL_OK;
}

/* Lists the folder's shards whose names begin with `word`. */
static enum sl_err list_shards(struct sl_names *out, const char *dir, const char *word, struct sl_fail *fail)
{
	DIR *folder = opendir(dir);
	struct dirent *entry;
	enum sl_err err = SL_OK;

	if (!folder)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", dir, strerror(errno));
	while (!err && (entry = readdir(folder))) {
		const char *name = entry->d_name;
		char path[PATH_MAX];

		if (!sl_ends_with(name, ".tar") || strncmp(name, word, strlen(word)) != 0)
			continue;
		if (snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_MAX)
			err = sl_fail_set(fail, SL_ERR_NOINPUT, "%.200s/%.200s: this path is too long", dir, name);
		else if (!sl_names_add(out, path))
			err = no_memory(fail);
	}
	closedir(folder);
	sl_names_sort(out);
	return err;
}

/* Lists the usual shards: train*.tar, or those of the evaluation's first name that is there, as with folders. */
static enum sl_err usual_shards(struct sl_names *out, const char *dir, enum sl_split split, struct sl_fail *fail)
{
	static const char *const words[SL_SPLIT_COUNT][4] = {{"train"}, {"val", "dev", "test"}};
	enum sl_err err = SL_OK;

	for (const char *const *word = words[split]; *word && !out->n && !err; word++)
		err = list_shards(out, dir, *word, fail);
	if (!err && !out->n)
		err = sl_fail_set(fail, SL_ERR_NOINPUT, "%s: no shard %s in it", dir,
				  split == SL_SPLIT_TRAIN ? "train*.tar" : "val*.tar, dev*.tar or test*.tar");
	return err;
}

static enum sl_err find_shards(struct sl_names *out, const struct sl_set_spec *spec, struct sl_fail *fail)
{
	const char *dir = spec->dir ? spec->dir : ".";
	enum sl_err err = SL_OK;

	for (int i = 0; i < spec->ngiven; i++)
		if (!sl_names_add(out, spec->given[i]))
			return no_memory(fail);
	if (spec->given)
		return SL_OK;
	if (!spec->files)
		return usual_shards(out, dir, spec->split, fail);
	for (int i = 0; i < spec->nfiles && !err; i++)
		err = expand(out, dir, spec->files[i], fail);
	return err;
}

/* ---- the source ---- */

static void shards_close(struct shards *s)
{
	if (!s)
		return;
	sl_names_close(&s->path);
	sl_names_close(&s->key);
	free(s->shard);
	free(s->label);
	free(s->at);
	free(s);
}

static enum sl_err open_set(const struct sl_source *self, struct sl_set *out, const struct sl_set_spec *spec,
			    struct sl_fail *fail)
{
	struct shards *s = calloc(1, sizeof *s);
	struct sl_names found = {0};
	const char *part = NULL;
	enum sl_err err = s ? find_shards(&found, spec, fail) : no_memory(fail);

	if (s)
		s->given = spec->given != NULL;
	for (int64_t i = 0; i < found.n && !err; i++)
		err = add_shard(s, sl_name(&found, i), fail);
	if (!err && !s->key.n)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: no sample in it", sl_name(&found, 0));
	if (!err && spec->split == SL_SPLIT_TRAIN && s->classes < 2)
		err = sl_fail_set(fail, SL_ERR_DATA,
				  "%s: all samples have label 0; a classifier needs two classes or more",
				  sl_name(&found, 0));
	if (!err && found.n && spec->split == SL_SPLIT_TEST)
		part = sl_set_part_of(sl_name(&found, 0));
	sl_names_close(&found);
	if (err) {
		shards_close(s);
		return err;
	}
	if (s->beside && s->given)
		sl_log(SL_LOG_WARN, "passed-over",
		       "files in a format that splitc does not read: %" PRId64 ", such as %.200s", s->beside,
		       s->beside_one);
	else if (s->beside)
		sl_log(SL_LOG_WARN, "pictures-beside",
		       "pictures that are not read: %lld, such as %.200s; a sample has one, and its name ends at the "
		       "first dot",
		       (long long)s->beside, s->beside_one);
	s->picture = spec->picture;
	*out = (struct sl_set){
		.source = self,
		.data = s,
		.count = s->key.n,
		.classes = s->classes,
		.part = part,
		.field = {{"image", SL_U8, 3, {0, 0, spec->picture.channels == 1 ? 1 : SL_PICTURE_CHANNELS}},
			  {"label", SL_I32, 0, {0}}},
	};
	return SL_OK;
}

static void close_set(struct sl_set *set)
{
	shards_close(set->data);
}

static const char *sample_name(const struct sl_set *set, int64_t index, char *out, size_t size)
{
	const struct shards *s = set->data;

	snprintf(out, size, "%s: %s", sl_name(&s->path, s->shard[index]), sl_name(&s->key, index));
	return out;
}

static enum sl_err read_member(struct reading *r, struct sl_room *room, size_t *len, struct sl_fail *fail)
{
	struct archive_entry *entry;
	int64_t size;

	if (next_header(r, &entry) != ARCHIVE_OK)
		return damaged(r, fail);
	size = archive_entry_size(entry);
	if (size < 0 || size > SL_PICTURE_MAX_FILE)
		return sl_fail_set(fail, SL_ERR_DATA, "%lld bytes are too many for a picture: at most %d",
				   (long long)size, SL_PICTURE_MAX_FILE);
	if (sl_room_need_file(room, (size_t)size + 1))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %lld bytes", (long long)size);
	if (archive_read_data(r->archive, room->file, (size_t)size) != size)
		return damaged(r, fail);
	*len = (size_t)size;
	return SL_OK;
}

static enum sl_err sample(const struct sl_set *set, int64_t index, struct sl_room *room,
			  struct sl_value out[SL_FIELD_COUNT], struct sl_fail *fail)
{
	const struct shards *s = set->data;
	struct sl_fail why = {0};
	struct reading r;
	char name[PATH_MAX];
	size_t len = 0;
	enum sl_err err = reading_open(&r, sl_name(&s->path, s->shard[index]), s->at[index], fail);

	if (err)
		return err;
	err = read_member(&r, room, &len, &why);
	reading_close(&r);
	if (!err)
		err = sl_picture_decode(&out[SL_FIELD_INPUT], room->file, len, &s->picture, room, &why);
	if (err)
		return sl_fail_set(fail, err, "%s: %s", sample_name(set, index, name, sizeof name), why.text);
	sl_picture_warn_dim(sample_name(set, index, name, sizeof name), room->file, len, &out[SL_FIELD_INPUT]);
	out[SL_FIELD_TARGET] = (struct sl_value){.data = &s->label[index]};
	return SL_OK;
}

static int64_t file(const struct sl_set *set, int64_t index, struct sl_room *room)
{
	const struct shards *s = set->data;
	struct archive_entry *entry;
	struct reading r;
	struct sl_fail why;
	int64_t size = -1;
	size_t len = 0;

	if (reading_open(&r, sl_name(&s->path, s->shard[index]), s->at[index], &why) != SL_OK)
		return -1;
	if (room)
		size = read_member(&r, room, &len, &why) == SL_OK ? (int64_t)len : -1;
	else if (next_header(&r, &entry) == ARCHIVE_OK)
		size = archive_entry_size(entry);
	reading_close(&r);
	return size;
}

static int32_t label(const struct sl_set *set, int64_t index)
{
	const struct shards *s = set->data;

	return s->label[index];
}

/* Hashes names, labels, and the offsets of pictures in their shards. */
static uint64_t fingerprint(const struct sl_set *set)
{
	const struct shards *s = set->data;
	const size_t n = (size_t)s->key.n;
	uint64_t hash = XXH3_64bits(s->key.text, s->key.bytes);

	hash = XXH3_64bits_withSeed(s->label, n * sizeof *s->label, hash);
	return XXH3_64bits_withSeed(s->at, n * sizeof *s->at, hash);
}

/* Tar files (shards) of samples: a picture, and its class in NAME.cls as text, or in NAME.json as the member "label"
 * or "cls". `files` are names in `dir`, where {000..146} stands for each of these numbers; NULL: train*.tar, or
 * val*.tar, without any dev*.tar, else test*.tar. Shards must not be compressed: opening reads all headers, and
 * `sample` seeks to its picture. Samples keep the order of shards and members. */
const struct sl_source sl_source_webdataset = {.name = "webdataset",
					       .open = open_set,
					       .sample = sample,
					       .close = close_set,
					       .sample_name = sample_name,
					       .label = label,
					       .file = file,
					       .fingerprint = fingerprint};
