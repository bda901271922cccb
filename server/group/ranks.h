/* Several servers that train one middle together: the ranks of an MPI job (`mpirun -n R splits serve CONFIG`). Each
 * serves its own members of a group. MPI is in a module of its own, libsplit_mpi.so (server/mpi), so that a single
 * server needs no MPI.
 *
 * gather_all, take, pass and spread are collective: all ranks call them in the same order, each on its worker's thread,
 * or on its loop's while it has no job of the group. They block until the other ranks are there, without limit, and
 * call `alive` some times a second meanwhile. An error of communication ends the whole job. All data are in host
 * memory.
 *
 * `send` and `receive` are independent of these: the loop's thread may call them at any time, and they do not block. */
#ifndef SL_SERVER_GROUP_RANKS_H
#define SL_SERVER_GROUP_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { SL_RANKS_ABI = 4 };

struct sl_ranks_letter {
	int kind, from; /* kind: ≥ 0, as the sender called it; from: the sender's rank */
	void *data;
	size_t bytes;
};

struct sl_ranks {
	uint32_t abi;
	int rank, count; /* 0 ≤ rank < count */
	int on_host;     /* number of this rank among those on its host, from 0 */
	void (*alive)(void);
	/* Fills all[count][bytes] with the `own` of each rank, in order of ranks. */
	void (*gather_all)(const struct sl_ranks *ranks, const void *own, void *all, size_t bytes);
	/* take receives from the previous rank; pass sends to the next one. */
	void (*take)(const struct sl_ranks *ranks, void *data, size_t bytes);
	void (*pass)(const struct sl_ranks *ranks, const void *data, size_t bytes);
	/* Broadcasts `data` of the last rank to all. */
	void (*spread)(const struct sl_ranks *ranks, void *data, size_t bytes);
	/* send copies a letter of any size, and sends it to all other ranks. receive gets the next one: free out->data.
	 * A rank's letters arrive in the order in which it sent them. False: there is none. */
	void (*send)(const struct sl_ranks *ranks, int kind, const void *data, size_t bytes);
	bool (*receive)(const struct sl_ranks *ranks, struct sl_ranks_letter *out);
	/* Ends all ranks with this exit status; does not return. */
	void (*abort)(const struct sl_ranks *ranks, int status);
	/* Shuts MPI down; waits until all ranks call it. */
	void (*close)(const struct sl_ranks *ranks);
};

/* *out NULL: this process is not one of several ranks. UNAVAILABLE: it is one, but the module is missing, or MPI could
 * not be started; VERSION: the module is from another build. Call it on the thread that ends the process. */
enum sl_err sl_ranks_open(const struct sl_ranks **out, struct sl_fail *fail) SL_MUST_CHECK;

/* The members of a group of `clients` that this rank serves: first … end - 1. `ranks` NULL: all of them. */
struct sl_ranks_span {
	int first, end;
};
struct sl_ranks_span sl_ranks_span(const struct sl_ranks *ranks, int clients);
/* The rank that serves that member. */
int sl_ranks_of(const struct sl_ranks *ranks, int clients, int member);

/* The module's only symbol, "sl_ranks_mpi". It returns NULL, and a sentence in `why`, if MPI could not be started. */
typedef const struct sl_ranks *sl_ranks_fn(void (*alive)(void), char *why, size_t cap);

#endif
