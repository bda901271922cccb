/* Servers that train one middle together: the ranks of an MPI job (`mpirun -n R splits serve CONFIG`), of which each
 * serves members of its own. MPI is in a module of its own, libsplit_mpi.so (server/mpi), so that splits needs no MPI
 * where there is one rank.
 *
 * All ranks call the same functions in the same order, so one thread at a time of each rank, the worker's, does. They
 * wait for the others as long as it takes; `alive` is called meanwhile, some times a second. What cannot be sent or
 * received ends the whole job. Addresses are host memory.
 *
 * `tell`, `hear`, `send` and `receive` are apart from these: another thread, the loop's, may call them at any time, and
 * they wait for nobody. */
#ifndef SL_SERVER_TRUNK_RANKS_H
#define SL_SERVER_TRUNK_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

enum { SL_RANKS_ABI = 3, SL_RANKS_WORD = 64 };

struct sl_ranks {
	uint32_t abi;
	int rank, count; /* 0 ≤ rank < count */
	int on_host;     /* number of this rank among those of its host, from 0 */
	void (*alive)(void);
	/* [count][bytes], rank by rank, what each gives. */
	void (*gather_all)(const struct sl_ranks *ranks, const void *own, void *all, size_t bytes);
	/* From the rank before this one, and to the next one. */
	void (*take)(const struct sl_ranks *ranks, void *data, size_t bytes);
	void (*pass)(const struct sl_ranks *ranks, const void *data, size_t bytes);
	/* What the last rank has, to all. */
	void (*spread)(const struct sl_ranks *ranks, void *data, size_t bytes);
	/* Tells all other ranks one word, `bytes` ≤ SL_RANKS_WORD, the same number on all ranks. It takes the place of
	 * the last one: a rank may not hear of that any more. */
	void (*tell)(const struct sl_ranks *ranks, const void *word, size_t bytes);
	/* `words` is [count][bytes]: the newest word of each rank that has told one since. False: nobody has. */
	bool (*hear)(const struct sl_ranks *ranks, void *words, size_t bytes);
	/* To all other ranks, any number of bytes; copied. And of these the next that has come: free *data. */
	void (*send)(const struct sl_ranks *ranks, const void *data, size_t bytes);
	bool (*receive)(const struct sl_ranks *ranks, void **data, size_t *bytes);
	/* Ends all ranks with that exit status; does not return. */
	void (*abort)(const struct sl_ranks *ranks, int status);
	/* All ranks end in good order: waits for them. */
	void (*close)(const struct sl_ranks *ranks);
};

/* *out NULL: this process is not one of several ranks. UNAVAILABLE: it is, and the module is not there. On the thread
 * that ends the process. */
enum sl_err sl_ranks_open(const struct sl_ranks **out, struct sl_fail *fail) SL_MUST_CHECK;

/* Members of a group of `clients` that a rank serves: first … end - 1. Without ranks all of them. */
struct sl_ranks_span {
	int first, end;
};
struct sl_ranks_span sl_ranks_span(const struct sl_ranks *ranks, int clients);
/* The rank that serves that member. */
int sl_ranks_of(const struct sl_ranks *ranks, int clients, int member);

/* The module's only symbol, "sl_ranks_mpi"; NULL, and a sentence in `why`: MPI could not be begun. */
typedef const struct sl_ranks *sl_ranks_fn(void (*alive)(void), char *why, size_t cap);

#endif
