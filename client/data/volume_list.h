/* Which cases there are, and their files: those of a split's folder, with masks, or those that the user named. */
#ifndef SL_CLIENT_DATA_VOLUME_LIST_H
#define SL_CLIENT_DATA_VOLUME_LIST_H

#include "client/data/name_list.h"
#include "client/data/source.h"
#include "client/data/volume.h"

struct sl_volume_list {
	char root[PATH_MAX];          /* the folder of the cases; "": names are paths, and there are no masks */
	char masks[PATH_MAX];         /* the folder of their masks */
	struct sl_names files, cases; /* sorted; names in `root` */
	int64_t *first;               /* [cases + 1], a case's files */
	int64_t channels;             /* sequences of a case */
};

/* Lists what spec->given names, which may be files and folders, or else the split's folder, whose cases must all be
 * right. DATA: a folder has no NIfTI files, or a case is wrong; NOINPUT, NOMEM. Close it also after an error. */
enum sl_err sl_volume_list_open(struct sl_volume_list *out, const struct sl_set_spec *spec,
				struct sl_fail *fail) SL_MUST_CHECK;
void sl_volume_list_close(struct sl_volume_list *list); /* idempotent; a zeroed one is fine */
/* The paths of a case. DATA: its files are no sequences of one case, or not as many as most have; NOINPUT: it has no
 * mask. */
enum sl_err sl_volume_list_files(const struct sl_volume_list *list, int64_t i, struct sl_volume_files *out,
				 struct sl_fail *fail) SL_MUST_CHECK;
/* The path of a case without ending. */
void sl_volume_list_name(const struct sl_volume_list *list, int64_t i, char *out, size_t size);

#endif
