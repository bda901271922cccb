/* The list of a set of pictures: which files there are, and what each one's label is. */
#ifndef SL_CLIENT_DATA_IMAGES_IMPL_H
#define SL_CLIENT_DATA_IMAGES_IMPL_H

#include "client/data/name_list.h"
#include "client/data/source.h"
#include "client/text/label.h"

#define SL_IMAGES_SUFFIXES ".jpg .jpeg .png .webp .tif .tiff .bmp .ppm .pgm .dcm; DICOM under any name"
enum { SL_IMAGES_KINDS = 8 };

/* Counts files whose names end alike. */
struct sl_images_kind {
	char ending[12]; /* ".gif" in small letters; "": the names have none */
	int64_t n;
};

/* What a set's `data` points to. A picture is a folder and a name in it. */
struct sl_images {
	char *root;                              /* the split's folder; NULL: pictures to predict, with whole paths */
	struct sl_names classes, folders, files; /* classes: their names, or those of numbers or labels */
	int32_t *label;                          /* [folders.n], of a folder's files */
	int32_t *folder_of;                      /* [files.n] */
	size_t folders_cap, files_cap;
	int64_t passed_over;
	struct sl_images_kind
		kind[SL_IMAGES_KINDS]; /* of other files than pictures; the last one counts all further kinds */
	struct sl_picture_spec picture;
	union sl_label *target; /* [files.n, targets], in place of classes; NULL: there are classes */
	uint64_t *key;          /* [files.n], with data.labels: what data.split keeps together */
	int targets, mask_classes;
	bool lacking;      /* classes may have no picture */
	const char *masks; /* the folder in `dir` that has a mask of each picture; NULL: no masks are read */
	char *dir;
};

/* Fills the zeroed *set, for which the caller calls sl_images_close in any case. It reads names, tables and the first
 * bytes of files that may be DICOM. Errors as those of sl_source.open. */
enum sl_err sl_images_list(struct sl_images *set, const struct sl_set_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
/* Finds the split's folder and, unless `classes` is NULL, the names of the classes, which are train's sub-folders.
 * Errors as those of sl_source.open. Close *classes also after an error. */
enum sl_err sl_images_split(char root[PATH_MAX], struct sl_names *classes, const struct sl_set_spec *spec,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Adds "", which is `root`, and the paths of all folders below it. NOINPUT, IO, NOMEM; DATA: they are nested too
 * deeply. */
enum sl_err sl_images_folders(const char *root, struct sl_names *out, struct sl_fail *fail) SL_MUST_CHECK;
/* Frees what it has, and not itself. */
void sl_images_close(struct sl_images *set);
/* "35 .gif, 2 .dcm, 4 others": the files that were passed over. */
void sl_images_kinds(struct sl_images *set, char *out, size_t size);
/* Whether each picture has a mask, with a class for each pixel. */
static inline bool sl_images_masked(const struct sl_set_spec *spec)
{
	return spec->task && spec->task->kind == SL_LEARN_PIXELS;
}

#endif
