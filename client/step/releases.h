/* LOG.DIR/releases: hashes of the newest tensors that a run with privacy.… has sent, by their place in the run. So it
 * notices a place that is repeated with other values, also in the process after this one. A head of 32 bytes, then rows
 * of 32 bytes in this host's order: 32 bits of when and 32 bits of which tensor, the tensor's hash, the row's number
 * and the check of these three. A row of zeros was never written.
 * A row is on the disk before its tensor crosses, and before the next row is written. So after a power cut only the row
 * behind the newest one may be torn, and its tensor has not crossed. One thread, but for _steps. */
#ifndef SL_CLIENT_STEP_RELEASES_H
#define SL_CLIENT_STEP_RELEASES_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/base/err.h"

#define SL_RELEASES_FILE "releases"

enum { SL_RELEASES_ROWS = 1 << 17 }; /* tensors that are remembered: a ring */

/* A zeroed one remembers in memory alone. */
struct sl_releases {
	struct sl_releases_row {
		uint64_t place, hash;
	} * row;
	uint64_t n; /* rows that were ever added; row n % SL_RELEASES_ROWS is the next one */
	int fd;     /* the file's, plus 1; 0: none */
	_Atomic uint64_t steps;
};

/* Reads what an earlier process has left, brings it to the disk, and writes behind it from now on. Close it after an
 * error, too. DATA: the file is damaged, or an earlier version's, and counts as empty; CANTCREATE, IO, NOMEM. */
enum sl_err sl_releases_open(struct sl_releases *c, const char *path, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_releases_empty(struct sl_releases *c, struct sl_fail *fail) SL_MUST_CHECK;
void sl_releases_close(struct sl_releases *c);
/* Before a tensor crosses: notes it, on the disk. `when`: 2 s + 2 for training step s, from 0; 2 s + 1 for an
 * evaluation behind s steps. AUDIT, without *fail: another hash is noted at this place, or the run was beyond it and
 * nothing is known of it. IO: it cannot be noted; NOMEM. */
enum sl_err sl_releases_add(struct sl_releases *c, uint64_t when, uint32_t which, uint64_t hash,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Training steps of which something has crossed. */
static inline uint64_t sl_releases_steps(const struct sl_releases *c)
{
	return atomic_load(&c->steps);
}

#endif
