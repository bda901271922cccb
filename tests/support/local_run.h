/* A small MobileNetV2 (0.25, 32², 10 classes) that trains here on both sides of its cuts, and images for it. */
#ifndef SL_TESTS_LOCAL_RUN_H
#define SL_TESTS_LOCAL_RUN_H

#include "client/run/local.h"
#include "tests/support/asked.h"

enum { LOCAL_IMAGE = 32, LOCAL_CLASSES = 10, LOCAL_ROWS = 8 };

struct local_run {
	struct asked asked;
	struct sl_plan *plan;
	struct sl_weights weights; /* as they are at first; the test's to read and write from then on */
	struct sl_local *local;
	struct sl_pool *pool;
	struct sl_backend be;
};

struct local_run_conf {
	const char *head, *tail; /* inserts */
	bool form_cifar;         /* of the model */
	double dropout;
	int chunks, threads; /* of LOCAL_ROWS images; of the CPU backend */
	bool ref;            /* the reference's kernels instead */
	struct sl_optimizer optimizer;
};

/* Fails the test where it cannot. No codec; cut "1:-1". */
void local_run_open(struct local_run *r, const struct local_run_conf *conf);
void local_run_close(struct local_run *r);

/* The same images at every call, and labels 0, 1, 2 … */
void local_run_batch(const float **images, const int32_t **labels);
/* One step on them; the loss. Fails the test where it cannot. */
double local_run_step(struct local_run *r, uint64_t number, double lr);

#endif
