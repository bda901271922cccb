/* Runs a job, such as a codec's, on a worker beside a rival of another share that always has a job waiting.
 * Measures the job's seconds, and the longest time that the rival waited beyond a job's slice. The wait is
 * scaled down by the processor time that other processes took meanwhile. For benchmarks and tests. */
#ifndef SL_TESTS_PIECE_RIG_H
#define SL_TESTS_PIECE_RIG_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/worker_turns.h"
#include "common/codec/codec.h"
#include "common/exec/backend.h"

struct piece_task {
	struct sl_job job; /* first */
	struct sl_codec *codec;
	struct sl_tensor x; /* the input of an encode, the output of a decode */
	struct sl_buf *payload;
	bool decodes;
	enum sl_err err;
};

static inline void piece_run(struct sl_job *job)
{
	static const struct sl_codec_call call = {.training = true};
	struct piece_task *t = (struct piece_task *)job;
	struct sl_fail fail;

	if (t->decodes)
		t->err = sl_codec_decode(t->codec, &call, (struct sl_bytes){t->payload->data, t->payload->len}, &t->x,
					 &fail);
	else
		t->err = sl_codec_encode(t->codec, &call, &t->x, t->payload);
}

/* ---- the rival */

struct piece_rival {
	struct sl_job job; /* first */
	struct sl_worker *worker;
	bool over;
};

static atomic_bool piece_is_over;

static inline void piece_over(struct sl_job *job)
{
	(void)job;
	piece_is_over = true;
}

static inline void piece_rival_runs(struct sl_job *job)
{
	(void)job;
}

static inline void piece_rival_again(struct sl_job *job)
{
	struct piece_rival *r = (struct piece_rival *)job;

	if (piece_is_over)
		r->over = true;
	else
		sl_worker_post(r->worker, &r->job);
}

static inline double piece_cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The caller sets job->run; this function sets done and share. Returns the job's seconds; *piece_s
 * is the rival's wait. */
static inline double piece_measure_job(struct sl_job *job, double *piece_s)
{
	struct sl_share shares[2] = {{0}};
	struct piece_rival r = {.job = {.run = piece_rival_runs, .done = piece_rival_again, .share = &shares[1]}};
	double cpu_s = piece_cpu_s(), used_s;

	if (sl_worker_open(&r.worker, "pieces", NULL, NULL, NULL))
		abort();
	job->done = piece_over;
	job->share = &shares[0];
	piece_is_over = false;
	sl_worker_post(r.worker, job);
	sl_worker_post(r.worker, &r.job);
	while (!piece_is_over || !r.over) {
		sl_worker_drain(r.worker);
		usleep(200);
	}
	cpu_s = piece_cpu_s() - cpu_s;
	used_s = (double)shares[0].used_ns * 1e-9;
	*piece_s = (double)r.worker->late_ns * 1e-9 * (cpu_s < used_s ? cpu_s / used_s : 1);
	sl_worker_close(r.worker);
	return used_s;
}

static inline double piece_measure(struct piece_task *t, double *piece_s)
{
	t->job = (struct sl_job){.run = piece_run};
	return piece_measure_job(&t->job, piece_s);
}

#endif
