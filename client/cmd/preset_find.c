#include "client/cmd/preset_find.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "client/cmd/preset_columns.h"
#include "client/data/class_name.h"
#include "client/data/csv_number.h"
#include "client/data/label_table.h"
#include "client/data/name_list.h"
#include "client/data/nifti.h"
#include "client/data/parts.h"
#include "client/data/picture.h"
#include "client/model/source.h"
#include "client/text/records.h"
#include "common/base/folder.h"

enum { MOST_DEPTH = 4, FEW_COLUMNS = 4, SENTENCE = 5 /* blanks */, NAMED = 5, ROW_TOKENS = 128 };

/* Kinds of data. The first kind of each input is the usual one. */
const struct sl_preset_kind sl_preset_kinds[] = {
	{"cifar10", "data/cifar-10-batches-bin", "10", SL_NETWORK_IMAGES, "mobilenet_v2"},
	{"cifar100", "data/cifar-100-binary", "100", SL_NETWORK_IMAGES, "mobilenet_v2"},
	{"images", "data/photos", NULL, SL_NETWORK_IMAGES, "mobilenet_v2"},
	{"webdataset", "data/shards", NULL, SL_NETWORK_IMAGES, "mobilenet_v2"},
	{"volumes", "data/volumes", NULL, SL_NETWORK_IMAGES, NULL},
	{"csv", "data/table", NULL, SL_NETWORK_ROWS, "mlp"},
	{"cola", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"sst2", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"mrpc", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"qqp", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"mnli", "glue", "3", SL_NETWORK_TOKENS, NULL},
	{"mnli-mm", "glue", "3", SL_NETWORK_TOKENS, NULL},
	{"qnli", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"rte", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"wnli", "glue", "2", SL_NETWORK_TOKENS, NULL},
	{"stsb", "glue", "1", SL_NETWORK_TOKENS, NULL},
	{"text", "data/texts", NULL, SL_NETWORK_TOKENS, NULL},
};
enum { KINDS = sizeof sl_preset_kinds / sizeof sl_preset_kinds[0] };

/* Endings of files that are no data, or not as they are. */
static const struct {
	const char *ends, *why;
} others[] = {
	{".zip .rar .7z .gz .tgz .bz2 .xz .zst", "it is packed: unpack it, and name the folder"},
	{".json .ndjson", "of JSON, files with an object in each line are read: name such a file .jsonl; of one array "
			  "`jq -c '.[]' FILE.json > FILE.jsonl` makes one"},
	{".parquet .feather .arrow .xlsx .xls .ods .sav .dta .rds .h5 .hdf5 .npy .npz .pkl .mat .db .sqlite",
	 "files of this kind are not read: write the table as CSV, or pictures as PNG"},
	{".onnx .safetensors .pt .pth .bin",
	 "it is a network or its weights: name the data, and the network by --model"},
	{".nii", "it is one volume: name the folder that has train/ and masks/train/ (docs/howto-volumes.md)"},
	{".mha .nrrd", "volumes are read as NIfTI (.nii.gz): write them so"},
};

enum { FOLDERS, PICTURES, TABLES, TEXTS, PLAIN, TARS, REST, LISTS };

/* A folder's entries by what they are, without those that begin with a dot. */
struct entries {
	struct sl_names of[LISTS];
};

/* Returns true. */
static bool found(struct sl_preset_data *out, const char *kind, const char *what, const char *dir)
{
	out->kind = kind;
	out->what = what;
	snprintf(out->dir, sizeof out->dir, "%s", dir);
	return true;
}

/* Whether one of the words in `ends` ends the name. */
static bool ends_in(const char *name, const char *ends)
{
	const char *dot = strrchr(name, '.');
	const size_t n = dot ? strlen(dot) : 0;

	for (const char *at = ends; n > 1 && *at; at += strcspn(at, " "), at += *at == ' ')
		if (strcspn(at, " ") == n && strncasecmp(at, dot, n) == 0)
			return true;
	return false;
}

/* Whether a CSV file has few columns, and one of sentences; whether it lists pictures in a column "file". */
static bool holds_texts(const char *path, bool *lists)
{
	struct sl_preset_columns c;
	int text, label;

	sl_preset_columns_read(&c, path);
	sl_preset_columns_choose(&c, &text, &label);
	*lists = false;
	for (int i = 0; i < c.n; i++)
		*lists |= strcmp(c.name[i], "file") == 0 && c.pictures[i];
	return c.n && c.n <= FEW_COLUMNS && c.blanks[text] >= SENTENCE;
}

static enum sl_err find_file(struct sl_preset_data *out, const char *path, bool texts, struct sl_fail *fail)
{
	const enum sl_records_format format = sl_records_format_of(path);
	const char *slash = strrchr(path, '/');
	bool lists = false;

	if (format == SL_RECORDS_CSV)
		texts |= holds_texts(path, &lists);
	if (lists)
		return sl_fail_set(
			fail, SL_ERR_DATA,
			"%s: it lists pictures. Name the folder of both, and what is to be predicted: --data "
			"FOLDER --set data.label=COLUMN",
			path);
	if (format < SL_RECORDS_FORMAT_COUNT)
		return found(out, format == SL_RECORDS_CSV && !texts ? "csv" : "text",
			     format == SL_RECORDS_CSV && !texts ? "a table" : "texts", path)
			       ? SL_OK
			       : SL_ERR_BUG;
	if (sl_records_ends(path, ".tar")) {
		char dir[PATH_MAX];

		snprintf(out->files.item[out->files.n++], SL_CONF_TEXT, "%s", slash ? slash + 1 : path);
		return sl_folder_of(path, dir) && found(out, "webdataset", "pictures in a tar file", dir) ? SL_OK
													  : SL_ERR_DATA;
	}
	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
		if (ends_in(path, others[i].ends))
			return sl_fail_set(fail, SL_ERR_DATA, "%s: %s", path, others[i].why);
	return sl_fail_set(fail, SL_ERR_DATA, "%s: %s", path,
			   sl_picture_name(path) ? "it is one picture: name the folder of all"
						 : "data are folders of pictures, tables (.csv), texts (.jsonl, .tsv, "
						   ".csv, .txt) or tar files of pictures");
}

static int list_of(const char *folder, const char *name)
{
	const enum sl_records_format format = sl_records_format_of(name);

	return sl_records_ends(name, ".tar")      ? TARS
	       : format == SL_RECORDS_CSV         ? TABLES
	       : format == SL_RECORDS_LINES       ? PLAIN
	       : format < SL_RECORDS_FORMAT_COUNT ? TEXTS
	       : sl_picture_is(folder, name)      ? PICTURES
						  : REST;
}

/* Lists a folder. What cannot be read is as empty. */
static void list(struct entries *e, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char inside[PATH_MAX];

	*e = (struct entries){.of = {{0}}};
	while (dir && (entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (name[0] != '.' && strcmp(name, "__MACOSX") != 0 && !sl_records_ends(name, ".tokens") &&
		    snprintf(inside, sizeof inside, "%s/%s", path, name) < PATH_MAX)
			(void)sl_names_add(&e->of[sl_folder_is(inside) ? FOLDERS : list_of(path, name)], name);
	}
	if (dir)
		closedir(dir);
	for (int i = 0; i < LISTS; i++)
		sl_names_sort(&e->of[i]);
}

static void drop(struct entries *e)
{
	for (int i = 0; i < LISTS; i++)
		sl_names_close(&e->of[i]);
}

/* Writes "12 folders such as \"a\", 3 pictures …". */
static void tally(const struct entries *e, char *out, size_t size)
{
	static const char *const what[LISTS] = {"folders",     "pictures",  "CSV files",  "files of texts",
						"plain texts", "tar files", "other files"};
	size_t n = 0;

	snprintf(out, size, "nothing");
	for (int i = 0; i < LISTS && n + 1 < size; i++)
		if (e->of[i].n)
			n += (size_t)snprintf(out + n, size - n, "%s%lld %s such as \"%.40s\"", n ? ", " : "",
					      (long long)e->of[i].n, what[i], sl_name(&e->of[i], 0));
}

/* Names files for data.train_files. False: there are too many. */
static bool name_files(struct sl_preset_data *out, const struct sl_names *files)
{
	bool fits = files->n > 0 && files->n <= SL_CONF_LIST_MAX;

	for (int64_t i = 0; i < files->n && fits; i++)
		fits = snprintf(out->files.item[out->files.n++], SL_CONF_TEXT, "%s", sl_name(files, i)) < SL_CONF_TEXT;
	return fits;
}

/* Whether a folder has one of masks, which is no class. */
static bool holds_masks(const char *path)
{
	static const char *const words[] = {"mask", "annot", "segment", "label"};
	struct entries e;
	bool holds = false;

	list(&e, path);
	for (int64_t i = 0; i < e.of[FOLDERS].n; i++)
		for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
			holds |= strncasecmp(sl_name(&e.of[FOLDERS], i), words[k], strlen(words[k])) == 0;
	drop(&e);
	return holds;
}

/* How many cells of a column name a picture, each another one. */
static int64_t count_named(const struct sl_csv *s, int column, const struct sl_names *paths)
{
	struct sl_label_table table = {.path = ""};
	struct sl_fail why;
	int64_t *at = NULL, n = 0;
	bool fits = true;

	for (int64_t r = 0; r < s->rows && fits; r++)
		fits = sl_names_add(&table.picture, sl_csv_cell(s, r, column));
	if (fits && sl_label_table_match(&table, paths, false, &at, &why) == SL_OK)
		for (int64_t r = 0; r < s->rows; r++)
			n += at[r] >= 0;
	free(at);
	sl_label_table_close(&table);
	return n;
}

/* Finds a table beside pictures: of its columns, the one that names most of them. */
static bool find_labels(struct sl_preset_data *out, const char *path, const struct entries *e)
{
	struct sl_csv s = {.rows = 0};
	struct sl_names paths = {0};
	struct sl_fail why;
	int64_t most = 0;

	if (e->of[TABLES].n != 1 ||
	    snprintf(s.path, sizeof s.path, "%s/%s", path, sl_name(&e->of[TABLES], 0)) >= PATH_MAX)
		return false;
	sl_csv_notice(&s);
	if (sl_csv_read(&s, &why) == SL_OK && sl_images_paths(path, &paths, &why) == SL_OK)
		for (int i = 0; i < s.columns && paths.n; i++) {
			const int64_t n = count_named(&s, i, &paths);

			if (n > most && 2 * n >= s.rows && strlen(sl_name(&s.header, i)) < SL_CONF_TEXT) {
				most = n;
				strcpy(out->label_id, sl_name(&s.header, i));
			}
		}
	if (most)
		strcpy(out->labels, s.path);
	sl_csv_close(&s);
	sl_names_close(&paths);
	return most > 0 && found(out, "images", "pictures, with a table of their labels", path);
}

/* Whether a folder has a NIfTI file. */
static bool any_volume(const char *folder)
{
	struct entries e;
	bool any = false;

	list(&e, folder);
	for (int64_t i = 0; i < e.of[REST].n && !any; i++)
		any = sl_nifti_ending(sl_name(&e.of[REST], i)) != NULL;
	drop(&e);
	return any;
}

/* Whether a folder of the folder has one. */
static bool any_volume_of_class(const char *folder)
{
	struct entries e;
	bool any = false;

	list(&e, folder);
	for (int64_t i = 0; i < e.of[FOLDERS].n && !any; i++) {
		char inside[PATH_MAX];

		any = snprintf(inside, sizeof inside, "%s/%s", folder, sl_name(&e.of[FOLDERS], i)) < PATH_MAX &&
		      any_volume(inside);
	}
	drop(&e);
	return any;
}

/* Finds NIfTI files in the folder of training, with masks. *why says what is missing. */
static bool find_volumes(struct sl_preset_data *out, const char *path, struct sl_fail *why)
{
	char train[PATH_MAX], masks[PATH_MAX];
	bool any;

	snprintf(masks, sizeof masks, "%.*s/labelsTr", PATH_MAX - 16, path);
	if (!sl_set_usual(train, path, SL_SPLIT_TRAIN, "")) {
		if (sl_folder_is(masks))
			(void)!sl_fail_set(
				why, SL_ERR_DATA,
				"These are nnU-Net's folders. Links give them the names that are read: ln -s "
				"imagesTr train; mkdir masks; ln -s ../labelsTr masks/train. Without a test/, "
				"data.split divides the cases: docs/howto-volumes.md");
		else if (any_volume(path))
			(void)!sl_fail_set(why, SL_ERR_DATA,
					   "Volumes lie in train/ and test/, and their masks, with the same names, in "
					   "masks/train/ and masks/test/: docs/howto-volumes.md");
		return false;
	}
	any = any_volume(train);
	snprintf(masks, sizeof masks, "%.*s/masks", PATH_MAX - 8, path);
	out->masks = any && sl_folder_is(masks);
	if (any && !out->masks)
		(void)sl_fail_set(why, SL_ERR_DATA,
				  "Volumes need their masks in masks/train and masks/test: docs/howto-volumes.md");
	if (!any && any_volume_of_class(train))
		(void)sl_fail_set(why, SL_ERR_DATA,
				  "Volumes with a class each need data.size, and a config by hand: "
				  "docs/howto-volumes.md");
	return out->masks && found(out, "volumes", "volumes with masks", path);
}

/* Finds CIFAR's files, pictures with masks, and pictures of classes. *why says what else is there. */
static bool find_pictures(struct sl_preset_data *out, const char *path, const struct entries *e, struct sl_fail *why)
{
	static const char *const kind[] = {"cifar10", "cifar100", "images"};
	static const char *const what[] = {"CIFAR-10", "CIFAR-100", "pictures in class folders"};
	const struct sl_parts parts = {.share = {0.8, 0.2}, .by = "", .by_place = true}; /* warns of no names yet */
	char train[PATH_MAX] = "", masks[PATH_MAX];
	const bool divided = sl_set_usual(train, path, SL_SPLIT_TRAIN, "");
	struct sl_set there;

	snprintf(masks, sizeof masks, "%.*s/masks", PATH_MAX - 8, path);
	out->masks = divided && sl_folder_is(masks);
	if (!out->masks && (holds_masks(path) || (divided && holds_masks(train)))) {
		(void)sl_fail_set(why, SL_ERR_DATA,
				  "With masks the pictures lie in train and val, and their masks in "
				  "masks/train and masks/val: docs/howto-images.md");
		return false;
	}
	if (out->masks)
		return found(out, "images", "pictures with masks", path);
	for (int i = 0; i < 4; i++) {
		const int k = i < 2 ? i : 2;
		const struct sl_set_spec spec = {.source = kind[k], .dir = path, .parts = i == 3 ? &parts : NULL};

		if (i == 3 && find_labels(out, path, e)) /* its folders may be patients */
			return true;
		if (sl_set_check(&there, &spec, why) == SL_OK)
			return found(out, kind[k], what[k], path);
	}
	return false;
}

/* Finds files of a training set by their usual names, or all that there are. */
static bool find_files(struct sl_preset_data *out, const char *path, const struct entries *e, bool texts,
		       struct sl_fail *why)
{
	static const char *const ends[] = {".csv", ".tsv", ".jsonl", ".txt"};
	char inside[PATH_MAX];
	bool usual = false;

	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		if (sl_set_usual(inside, path, SL_SPLIT_TRAIN, ends[i]) && find_file(out, inside, texts, why) == SL_OK)
			return found(out, out->kind, out->what, path);
	for (int64_t i = 0; i < e->of[TARS].n; i++)
		usual |= strncmp(sl_name(&e->of[TARS], i), "train", 5) == 0;
	if (usual || name_files(out, &e->of[TARS]))
		return found(out, "webdataset", "pictures in tar files", path);
	if (e->of[TABLES].n + e->of[TEXTS].n == 1) {
		snprintf(inside, sizeof inside, "%.*s/%s", PATH_MAX - 257, path,
			 sl_name(&e->of[e->of[TABLES].n ? TABLES : TEXTS], 0));
		return find_file(out, inside, texts, why) == SL_OK;
	}
	return !e->of[FOLDERS].n && name_files(out, &e->of[PLAIN]) && found(out, "text", "plain texts", path);
}

/* Looks at a folder, and in one that it holds alone. */
static enum sl_err find_folder(struct sl_preset_data *out, const char *path, bool texts, int depth,
			       struct sl_fail *fail)
{
	struct entries e;
	char inside[PATH_MAX], what[300];
	struct sl_fail why = {.text = ""}, lacks = {.text = ""};
	enum sl_err err = SL_OK;

	list(&e, path);
	if (find_volumes(out, path, &lacks) || lacks.text[0] || find_pictures(out, path, &e, &why) ||
	    find_files(out, path, &e, texts, &why)) {
		drop(&e);
		return lacks.text[0] ? sl_fail_set(fail, SL_ERR_DATA, "%s: %s", path, lacks.text) : SL_OK;
	}
	if (e.of[FOLDERS].n == 1 && !e.of[PICTURES].n && !e.of[TABLES].n && depth < MOST_DEPTH) {
		snprintf(inside, sizeof inside, "%.*s/%s", PATH_MAX - 257, path, sl_name(&e.of[FOLDERS], 0));
		err = find_folder(out, inside, texts, depth + 1, fail);
	} else {
		tally(&e, what, sizeof what);
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: found %s, and no data that init knows. %s", path, what,
				  e.of[FOLDERS].n > 1 || e.of[TABLES].n == 1 ? why.text
				  : e.of[PICTURES].n ? "Sort the pictures into a folder for each class: "
						       "docs/howto-images.md"
				  : e.of[TABLES].n   ? "Name one of the files"
						     : "Name a folder of pictures, a table or texts");
	}
	drop(&e);
	return err;
}

/* Looks at a file or folder. */
static enum sl_err find_place(struct sl_preset_data *out, const char *path, bool texts, struct sl_fail *fail)
{
	*out = (struct sl_preset_data){.kind = NULL};
	if (strlen(path) > PATH_MAX - 300)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%.80s…: the path is too long", path);
	if (sl_folder_is(path))
		return find_folder(out, path, texts, 0, fail);
	if (access(path, R_OK) != 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT,
				   "%s: %s. For data that come later name their kind, too, such as images:%s", path,
				   strerror(errno), path);
	return find_file(out, path, texts, fail);
}

enum sl_err sl_preset_find_kind(const struct sl_preset_kind **out, struct sl_preset_data *at, const char *data,
				bool tokens, struct sl_fail *fail)
{
	const size_t len = strcspn(data, ":"), slash = strcspn(data, "/");
	const struct sl_preset_kind *k = sl_preset_kinds;
	struct sl_preset_data there;
	struct sl_fail why;
	char known[256] = "";
	enum sl_err err;

	for (; k < sl_preset_kinds + KINDS && (strlen(k->kind) != len || strncmp(data, k->kind, len) != 0); k++)
		snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", known[0] ? ", " : "", k->kind);
	if (!data[0])
		return sl_fail_set(fail, SL_ERR_CONFIG, "the data are empty: name their folder or file (data.dir)");
	if (k == sl_preset_kinds + KINDS && data[len] && len < slash && access(data, F_OK) != 0)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "data are KIND:FOLDER, and there is no kind \"%.*s\"; known: %s",
				   (int)(len < 40 ? len : 40), data, known);
	if (k == sl_preset_kinds + KINDS) {
		err = find_place(at, data, tokens, fail);
		for (k = sl_preset_kinds; !err && strcmp(k->kind, at->kind) != 0;)
			k++;
		*out = err ? sl_preset_kinds : k;
		return err;
	}
	*out = k;
	*at = (struct sl_preset_data){.kind = k->kind};
	snprintf(at->dir, sizeof at->dir, "%s", data[len] && data[len + 1] ? data + len + 1 : k->folder);
	/* the kind is said; what is there may also tell the folder and the files */
	if (!k->classes && access(at->dir, F_OK) == 0 &&
	    find_place(&there, at->dir, k->input & SL_NETWORK_TOKENS, &why) == SL_OK &&
	    strcmp(there.kind, k->kind) == 0)
		*at = there;
	return SL_OK;
}

void sl_preset_name_classes(const struct sl_set *set, struct sl_fail *out)
{
	char name[SL_CLASS_NAME_BYTES];
	size_t n = 0;

	for (int i = 0; i < set->classes && i < NAMED; i++)
		n += (size_t)snprintf(out->text + n, sizeof out->text - n, "%s%.40s", i ? ", " : "",
				      sl_class_name(set, i, name));
	if (set->classes > NAMED)
		snprintf(out->text + n, sizeof out->text - n, " and %d more", set->classes - NAMED);
}

const char *sl_preset_data_of(unsigned input)
{
	return input & SL_NETWORK_TOKENS      ? "texts: text:FOLDER, or TASK:FOLDER with a task of GLUE"
	       : !(input & SL_NETWORK_IMAGES) ? "a table: csv:FOLDER"
	       : input & SL_NETWORK_ROWS
		       ? "pictures or a table: cifar10, cifar100, images, webdataset or csv, each with :FOLDER"
		       : "pictures: cifar10, cifar100, images or webdataset, each with :FOLDER";
}

struct sl_model_takes sl_preset_takes_of(const char *folder)
{
	struct sl_model_takes takes = {.tokens = 0};
	struct sl_fail why;

	if (folder)
		(void)!sl_model_takes_of(&takes, &(struct sl_model_spec){.huggingface = folder}, &why);
	if (!takes.tokens || takes.tokens > ROW_TOKENS)
		takes.tokens = ROW_TOKENS;
	return takes;
}

const char *sl_preset_usual_kind(unsigned input, bool decoder)
{
	const struct sl_preset_kind *k = sl_preset_kinds;

	while (input && !(k->input & input))
		k++;
	return decoder ? "text" : k->kind;
}

bool sl_preset_place(int n, char out[PATH_MAX])
{
	const char *share = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int len = -1;

	if (n == 0)
		len = snprintf(out, PATH_MAX, "%s", sl_preset_kinds[0].folder);
	else if (n == 1 && share && share[0] == '/')
		len = snprintf(out, PATH_MAX, "%s/split/cifar-10-batches-bin", share);
	else if (n == 1 && home && home[0] == '/')
		len = snprintf(out, PATH_MAX, "%s/.local/share/split/cifar-10-batches-bin", home);
	return len >= 0 && len < PATH_MAX;
}
