/* A small MobileNetV2 (0.25, 32², 10 classes) that trains in this process, with both cuts, and images for it. */
#ifndef SL_TESTS_LOCAL_RUN_H
#define SL_TESTS_LOCAL_RUN_H

#include "client/pass/local.h"
#include "tests/support/asked.h"

enum { LOCAL_IMAGE = 32, LOCAL_CLASSES = 10, LOCAL_ROWS = 8 };

struct local_run {
	struct asked asked;
	struct sl_plan *plan;
	struct sl_weights weights; /* the initial values; afterwards the test may read and write them */
	struct sl_local *local;
	struct sl_pool *pool;
	struct sl_backend be;
};

struct local_run_conf {
	const char *head, *tail; /* inserts */
	bool form_cifar;         /* the CIFAR form of the model */
	double dropout;
	int chunks, threads; /* chunks: of a batch of LOCAL_ROWS images; threads: of the CPU backend */
	bool ref;            /* use the reference backend instead */
	struct sl_optimizer optimizer;
};

/* Opens a run without codecs, with cut "1:-1". Fails the test on an error. */
void local_run_open(struct local_run *r, const struct local_run_conf *conf);
void local_run_close(struct local_run *r);

/* Returns the same images at every call, and labels 0, 1, 2 … */
void local_run_batch(const float **images, const int32_t **labels);
/* Trains one step on that batch and returns the loss. Fails the test on an error. */
double local_run_step(struct local_run *r, uint64_t number, double lr);

#endif
