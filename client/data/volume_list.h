/* Which cases there are, and their files: those of a split's folder, with masks or with a class each, or those that the
 * user named. */
#ifndef SL_CLIENT_DATA_VOLUME_LIST_H
#define SL_CLIENT_DATA_VOLUME_LIST_H

#include "client/data/name_list.h"
#include "client/data/source.h"
#include "client/data/volume.h"

struct sl_volume_list {
	char root[PATH_MAX];          /* the folder of the cases; "": names are paths */
	char masks[PATH_MAX];         /* the folder of their masks; "": they have none */
	struct sl_names files, cases; /* sorted; names in `root` */
	struct sl_names again;        /* sorted: files that the user named before */
	int64_t *first;               /* [cases + 1], a case's files */
	int64_t channels;             /* sequences of a case */
	int64_t passed;               /* files of volumes that are not read */
	char passed_name[PATH_MAX];   /* one of these */
	/* Of whole cases of a split (volume_classes.c): */
	struct sl_names classes;
	int32_t *label; /* [cases] */
	uint64_t *key;  /* [cases], of the table of labels: what data.split keeps together; NULL: there is none */
};

/* Lists what spec->given names, which may be files and folders, or else the split's folder, whose cases must all be
 * right. DATA: a folder has no NIfTI files, or a case is wrong; NOINPUT, NOMEM. Close it also after an error. */
enum sl_err sl_volume_list_open(struct sl_volume_list *out, const struct sl_set_spec *spec,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Adds the NIfTI files of a folder; `before`, unless "", and a slash precede their names. Counts other files that look
 * like volumes. DATA: there is none, if it
 * `needs` one, or it has DICOM files; NOINPUT, NOMEM. */
enum sl_err sl_volume_list_folder(struct sl_volume_list *list, const char *folder, const char *before, bool needs,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* The same for a folder and all below it, but for the folder `without`, unless that is NULL; names begin with `before`.
 */
enum sl_err sl_volume_list_below(struct sl_volume_list *list, const char *root, const char *before, const char *without,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* Groups the files by cases, in the order of their names. DATA: sequences are not numbered from 0. */
enum sl_err sl_volume_list_group(struct sl_volume_list *list, struct sl_fail *fail) SL_MUST_CHECK;
/* volume_classes.c: lists the cases of a split that have a class, by folders of classes as pictures (images.c), or by
 * spec->labels in the order of its rows. DATA also: fewer than two classes, or one without a case. */
enum sl_err sl_volume_list_classes(struct sl_volume_list *list, const struct sl_set_spec *spec,
				   struct sl_fail *fail) SL_MUST_CHECK;
void sl_volume_list_close(struct sl_volume_list *list); /* idempotent; a zeroed one is fine */
/* The paths of a case. DATA: its files are no sequences of one case, or not as many as most have; NOINPUT: it has no
 * mask. */
enum sl_err sl_volume_list_files(const struct sl_volume_list *list, int64_t i, struct sl_volume_files *out,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* volume_doubt.c: warns of prepared whole cases that data.size cuts off by more than half, or that fill less than
 * SL_VOLUME_SMALL of it. at [n]: the list's cases from `first` on. */
void sl_volume_warn_of_sizes(const struct sl_volume *at, int64_t n, const struct sl_volume_spec *spec,
			     const struct sl_volume_list *list, int64_t first);
/* The same: of classes that no mask of the list's prepared cases has. */
void sl_volume_warn_of_classes(const struct sl_volume *at, const struct sl_volume_list *list,
			       const struct sl_names *classes);
/* The same: of prepared cases that have one image. */
void sl_volume_warn_of_same(const struct sl_volume *at, const struct sl_volume_list *list);
/* The path of a case without ending. */
void sl_volume_list_name(const struct sl_volume_list *list, int64_t i, char *out, size_t size);

#endif
