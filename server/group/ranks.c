#include "server/group/ranks.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "common/base/program.h"
#include "common/base/worker.h"

static const char file_name[] = "libsplit_mpi.so";

/* Environment variables by which mpirun, srun and others tell a process the number of ranks. */
static const char *const told[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

static bool is_rank(void)
{
	for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
		const char *count = getenv(told[i]);

		if (count && atoi(count) > 1)
			return true;
	}
	return false;
}

enum sl_err sl_ranks_open(const struct sl_ranks **out, struct sl_fail *fail)
{
	char why[200] = "", beside[PATH_MAX];
	sl_ranks_fn *begin;
	void *handle;

	*out = NULL;
	if (!is_rank())
		return SL_OK;
	handle = dlopen(sl_beside_program(file_name, beside) ? beside : file_name,
			RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
	if (!handle)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE,
				   "this is one of several MPI ranks, and splits' module for MPI is missing: %s. Build "
				   "where mpi.h is (package libopenmpi-dev)",
				   dlerror());
	begin = (sl_ranks_fn *)dlsym(handle, "sl_ranks_mpi");
	*out = begin ? begin(sl_worker_turn, why, sizeof why) : NULL;
	if (!*out)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "MPI did not start: %s", why);
	if ((*out)->abi != SL_RANKS_ABI)
		return sl_fail_set(fail, SL_ERR_VERSION, "%s was built from other sources: install both together",
				   file_name);
	if ((*out)->count == 1)
		*out = NULL;
	return SL_OK;
}

static int first_of(const struct sl_ranks *r, int clients, int rank)
{
	return (int)((int64_t)rank * clients / r->count);
}

struct sl_ranks_span sl_ranks_span(const struct sl_ranks *r, int clients)
{
	return r ? (struct sl_ranks_span){first_of(r, clients, r->rank), first_of(r, clients, r->rank + 1)}
		 : (struct sl_ranks_span){0, clients};
}

int sl_ranks_of(const struct sl_ranks *r, int clients, int member)
{
	int rank = 0;

	while (rank + 1 < r->count && first_of(r, clients, rank + 1) <= member)
		rank++;
	return rank;
}
