#include "tests/bench/op_times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { OPS_MOST = 1024 };

static struct {
	struct sl_backend_ops ops;
	struct sl_kernel kernel[SL_OP_COUNT];
	const struct sl_backend_ops *inner;
	struct op_profile op[OPS_MOST];
	int n;
} timed;

double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

double peak_resident_mb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	long kib = 0;

	while (f && !kib && fgets(line, sizeof line, f))
		sscanf(line, "VmHWM: %ld kB", &kib);
	if (f)
		fclose(f);
	return (double)kib * 1024e-6;
}

static struct op_profile *profile_of(const struct sl_op *op)
{
	for (int i = 0; i < timed.n; i++)
		if (timed.op[i].op == op)
			return &timed.op[i];
	if (timed.n == OPS_MOST)
		abort();
	timed.op[timed.n] = (struct op_profile){.op = op, .ms = {INFINITY, INFINITY}};
	return &timed.op[timed.n++];
}

static void note(const struct sl_op *op, enum pass pass, double ms, double bytes)
{
	struct op_profile *p = profile_of(op);

	p->ms[pass] = fmin(p->ms[pass], ms);
	p->bytes[pass] = bytes;
}

static double bytes_of(const struct sl_tensor *t)
{
	return t->data ? (double)sl_shape_count(&t->shape) * (double)sizeof(float) : 0;
}

static enum sl_err timed_forward(const struct sl_op_call *call)
{
	const double began = cpu_ms();
	enum sl_err err = timed.inner->kernel[call->op->kind]->forward(call);
	const double ms = cpu_ms() - began;
	double bytes = bytes_of(&call->out);

	for (int i = 0; i < call->op->n_in; i++)
		bytes += bytes_of(&call->in[i]);
	note(call->op, FORWARD, ms, bytes);
	return err;
}

static enum sl_err timed_backward(const struct sl_op_call *call)
{
	const double began = cpu_ms();
	enum sl_err err = timed.inner->kernel[call->op->kind]->backward(call);
	const double ms = cpu_ms() - began;
	double bytes = bytes_of(&call->dout) + bytes_of(&call->out);

	for (int i = 0; i < call->op->n_in; i++)
		bytes += bytes_of(&call->in[i]) + bytes_of(&call->din[i]) * (call->din_add[i] ? 2 : 1);
	note(call->op, BACKWARD, ms, bytes);
	return err;
}

void op_times_watch(struct sl_backend *be)
{
	timed.inner = be->ops;
	timed.ops = *be->ops;
	for (int k = 0; k < SL_OP_COUNT; k++) {
		if (!be->ops->kernel[k])
			continue;
		timed.kernel[k] = *be->ops->kernel[k];
		timed.kernel[k].forward = timed_forward;
		timed.kernel[k].backward = timed_backward;
		timed.ops.kernel[k] = &timed.kernel[k];
	}
	be->ops = &timed.ops;
}

const struct op_profile *op_times(int *n)
{
	*n = timed.n;
	return timed.op;
}
