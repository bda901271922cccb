/* The file that `splitc align` writes: the names of the rows that both members of a vertical group have, in the order
 * that both use, and a secret of both. A source that is given it reads these rows alone, in this order, as if its files
 * had no others. */
#ifndef SL_CLIENT_DATA_ALIGNED_H
#define SL_CLIENT_DATA_ALIGNED_H

#include "client/data/name_list.h"
#include "client/data/source.h"
#include "common/link/key.h"

struct sl_aligned {
	char path[PATH_MAX];
	struct sl_key secret;
	struct sl_names row[SL_SPLIT_COUNT]; /* with data.split the first has all */
};

/* NOINPUT, IO; DATA: no such file, or one that was cut or changed. Close *out after an error, too. */
enum sl_err sl_aligned_read(struct sl_aligned *out, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
void sl_aligned_close(struct sl_aligned *aligned); /* a zeroed one is fine */
/* Writes a new file with mode 0600, or replaces an old one, when it is complete. CANTCREATE, IO, NOMEM. */
enum sl_err sl_aligned_write(const struct sl_aligned *aligned, const char *group, struct sl_fail *fail) SL_MUST_CHECK;

/* Adds the names of a set's samples (sl_source.id). NOMEM. */
enum sl_err sl_aligned_names(const struct sl_set *set, struct sl_names *out, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether names can be aligned. DATA: one is empty, has control characters, or is another row's, too. */
enum sl_err sl_aligned_check(const struct sl_names *names, struct sl_fail *fail) SL_MUST_CHECK;
/* Adds to out->row[split] the names that all of names[n] have, in the order of the first. Each name is checked by
 * sl_aligned_check. DATA: there is none; NOMEM. */
enum sl_err sl_aligned_join(struct sl_aligned *out, enum sl_split split, const struct sl_names *names, int n,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* (*place)[row[split].n], malloc'ed: where these rows are among the names. DATA: one is missing, or there twice. */
enum sl_err sl_aligned_places(const struct sl_aligned *aligned, enum sl_split split, const struct sl_names *names,
			      int32_t **place, struct sl_fail *fail) SL_MUST_CHECK;

#endif
