/* server/group/ranks.h over MPI. MPI's own waits keep a core busy. The waits here poll at growing intervals of up to a
 * millisecond, and leave the core to the kernels of ranks on the same host. */
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/group/ranks.h"

enum { TAG = 1, SHORTEST_NS = 2000, LONGEST_NS = 1000000, ALIVE_EVERY = 20 };

/* Two threads call MPI, and only one may be in it at a time (MPI_THREAD_SERIALIZED). */
enum { FAILED = 75 /* EX_TEMPFAIL: a supervisor may start all ranks again */ };

static pthread_mutex_t in_mpi = PTHREAD_MUTEX_INITIALIZER;
static MPI_Comm letters_comm; /* keeps letters apart from the collective calls */

/* A letter that is being sent to all other ranks. */
struct outgoing {
	struct outgoing *next;
	void *data;
	MPI_Request request[]; /* [count] */
};
static struct outgoing *letters; /* those that have not reached all ranks yet */

static void check(int rc, const char *what)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int len;

	if (rc == MPI_SUCCESS)
		return;
	MPI_Error_string(rc, text, &len);
	fprintf(stderr, "ERROR ranks: %s: %s\n", what, text);
	MPI_Abort(MPI_COMM_WORLD, FAILED);
}

static void wait_for(const struct sl_ranks *r, MPI_Request *request)
{
	long ns = SHORTEST_NS;
	int done = 0;

	for (long i = 1;; i++) {
		pthread_mutex_lock(&in_mpi);
		check(MPI_Test(request, &done, MPI_STATUS_IGNORE), "waiting for other ranks");
		pthread_mutex_unlock(&in_mpi);
		if (done)
			return;
		nanosleep(&(struct timespec){0, ns}, NULL);
		ns = 2 * ns < LONGEST_NS ? 2 * ns : LONGEST_NS;
		if (i % ALIVE_EVERY == 0)
			r->alive();
	}
}

static int count_of(size_t bytes)
{
	return bytes < INT_MAX / 2 ? (int)bytes : INT_MAX / 2;
}

static void gather_all(const struct sl_ranks *r, const void *own, void *all, size_t bytes)
{
	MPI_Request request;

	pthread_mutex_lock(&in_mpi);
	check(MPI_Iallgather(own, count_of(bytes), MPI_BYTE, all, count_of(bytes), MPI_BYTE, MPI_COMM_WORLD, &request),
	      "MPI_Iallgather");
	pthread_mutex_unlock(&in_mpi);
	wait_for(r, &request);
}

static void take(const struct sl_ranks *r, void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += (size_t)count_of(bytes - at)) {
		MPI_Request request;

		pthread_mutex_lock(&in_mpi);
		check(MPI_Irecv((char *)data + at, count_of(bytes - at), MPI_BYTE, r->rank - 1, TAG, MPI_COMM_WORLD,
				&request),
		      "MPI_Irecv");
		pthread_mutex_unlock(&in_mpi);
		wait_for(r, &request);
	}
}

static void pass(const struct sl_ranks *r, const void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += (size_t)count_of(bytes - at)) {
		MPI_Request request;

		pthread_mutex_lock(&in_mpi);
		check(MPI_Isend((const char *)data + at, count_of(bytes - at), MPI_BYTE, r->rank + 1, TAG,
				MPI_COMM_WORLD, &request),
		      "MPI_Isend");
		pthread_mutex_unlock(&in_mpi);
		wait_for(r, &request);
	}
}

static void spread(const struct sl_ranks *r, void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += (size_t)count_of(bytes - at)) {
		MPI_Request request;

		pthread_mutex_lock(&in_mpi);
		check(MPI_Ibcast((char *)data + at, count_of(bytes - at), MPI_BYTE, r->count - 1, MPI_COMM_WORLD,
				 &request),
		      "MPI_Ibcast");
		pthread_mutex_unlock(&in_mpi);
		wait_for(r, &request);
	}
}

/* ---- letters */

/* Frees letters that have been sent to all. */
static void forget_letters(const struct sl_ranks *r)
{
	for (struct outgoing **at = &letters; *at;) {
		struct outgoing *l = *at;
		int sent;

		check(MPI_Testall(r->count, l->request, &sent, MPI_STATUSES_IGNORE), "MPI_Testall");
		if (!sent) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		free(l->data);
		free(l);
	}
}

static void send_letter(const struct sl_ranks *r, int kind, const void *data, size_t bytes)
{
	struct outgoing *l = calloc(1, sizeof *l + (size_t)r->count * sizeof *l->request);

	if (l)
		l->data = malloc(bytes + 1);
	if (!l || !l->data || bytes > INT_MAX) {
		fprintf(stderr, "ERROR ranks: no memory for what other ranks are told\n");
		MPI_Abort(MPI_COMM_WORLD, FAILED);
		return;
	}
	memcpy(l->data, data, bytes);
	pthread_mutex_lock(&in_mpi);
	for (int to = 0; to < r->count; to++) {
		l->request[to] = MPI_REQUEST_NULL;
		if (to != r->rank)
			check(MPI_Isend(l->data, (int)bytes, MPI_BYTE, to, kind, letters_comm, &l->request[to]),
			      "MPI_Isend");
	}
	l->next = letters;
	letters = l;
	pthread_mutex_unlock(&in_mpi);
}

static bool receive_letter(const struct sl_ranks *r, struct sl_ranks_letter *out)
{
	MPI_Status status;
	int there, count = 0;

	*out = (struct sl_ranks_letter){0};
	pthread_mutex_lock(&in_mpi);
	forget_letters(r);
	check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, letters_comm, &there, &status), "MPI_Iprobe");
	if (there)
		check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
	out->data = there ? malloc((size_t)count + 1) : NULL;
	if (out->data) {
		out->kind = status.MPI_TAG;
		out->from = status.MPI_SOURCE;
		out->bytes = (size_t)count;
		check(MPI_Recv(out->data, count, MPI_BYTE, out->from, out->kind, letters_comm, MPI_STATUS_IGNORE),
		      "MPI_Recv");
	}
	pthread_mutex_unlock(&in_mpi);
	return out->data != NULL;
}

static void end_all(const struct sl_ranks *r, int status)
{
	MPI_Abort(MPI_COMM_WORLD, status);
}

static void close_all(const struct sl_ranks *r)
{
	MPI_Finalize();
}

static const struct sl_ranks *begin(void (*alive)(void), char *why, size_t cap)
{
	static struct sl_ranks ranks = {.abi = SL_RANKS_ABI,
					.gather_all = gather_all,
					.take = take,
					.pass = pass,
					.spread = spread,
					.send = send_letter,
					.receive = receive_letter,
					.abort = end_all,
					.close = close_all};
	MPI_Comm host;
	int level;

	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) {
		snprintf(why, cap, "MPI_Init_thread failed");
		return NULL;
	}
	if (level < MPI_THREAD_SERIALIZED) {
		snprintf(why, cap, "this MPI cannot be called from the thread that computes");
		return NULL;
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	ranks.alive = alive;
	MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks.count);
	if (MPI_Comm_dup(MPI_COMM_WORLD, &letters_comm) != MPI_SUCCESS) {
		snprintf(why, cap, "no second communicator");
		return NULL;
	}
	if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, ranks.rank, MPI_INFO_NULL, &host) ==
	    MPI_SUCCESS) {
		MPI_Comm_rank(host, &ranks.on_host);
		MPI_Comm_free(&host);
	}
	return &ranks;
}

__attribute__((visibility("default"))) const struct sl_ranks *sl_ranks_mpi(void (*alive)(void), char *why, size_t cap);

const struct sl_ranks *sl_ranks_mpi(void (*alive)(void), char *why, size_t cap)
{
	return begin(alive, why, cap);
}
