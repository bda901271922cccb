/* A backend that fences in each kernel call. An executor's memory is a few large areas, so the address sanitizer alone
 * does not notice a kernel that leaves its tensors but stays within the area. Here every area is poisoned while a
 * kernel runs, except for the tensors, parameters and scratch of the call. Some kernels are assembly, which the
 * sanitizer does not watch. So the areas are also compared with a copy: memory that a kernel may not write must be
 * unchanged. Memory that a kernel must write, or may not rely on, is filled with NaN before the call. */
#ifndef SL_FUZZ_EXEC_FENCE_H
#define SL_FUZZ_EXEC_FENCE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/exec/exec.h"

#if defined(__has_include)
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

enum { FENCE_AREAS = 24, FENCE_OPS = 256 };

/* Copying a larger area at each call would take most of the time, so a larger one is only poisoned. */
enum { FENCE_COPIED = 256 << 10, FENCE_SPOILED = 64 << 10 };

struct fence_area {
	unsigned char *at, *was; /* was: the copy */
	size_t bytes;
	bool copied;
};

struct fence {
	struct sl_backend be; /* first, because calls point to it */
	struct sl_backend_ops ops;
	const struct sl_backend_ops *real;
	struct sl_kernel kernel[SL_OP_COUNT];
	struct fence_area area[FENCE_AREAS];
	int n_area;
	struct {
		const struct sl_op *op;
		struct sl_op_sizes sizes;
	} asked[FENCE_OPS]; /* the answers of prepare */
	int n_asked;
	const struct sl_plan_segment *part; /* the segment that it computes */
	bool open;                          /* no fence: for a backend that is not checked */
	int64_t cache_rows;
};

static void fence_must(bool holds, const struct sl_op *op, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fence: %s: %s\n", op ? sl_op_kind_name(op->kind) : "an optimizer", what);
	abort();
}

static enum sl_err fence_alloc(struct sl_backend *be, size_t bytes, void **out, struct sl_fail *fail)
{
	struct fence *f = (struct fence *)(void *)be;
	struct fence_area a = {.bytes = bytes, .was = malloc(bytes), .copied = bytes <= FENCE_COPIED};
	void *at = NULL;

	if (!a.was || posix_memalign(&at, 64, bytes) || f->n_area == FENCE_AREAS)
		abort();
	memset(at, 0, bytes);
	a.at = at;
	f->area[f->n_area++] = a;
	*out = at;
	return SL_OK;
}

static void fence_free(struct sl_backend *be, void *ptr)
{
	struct fence *f = (struct fence *)(void *)be;
	int i = 0;

	while (ptr && i < f->n_area && f->area[i].at != ptr)
		i++;
	if (!ptr)
		return;
	if (i == f->n_area)
		abort();
	free(f->area[i].was);
	f->area[i] = f->area[--f->n_area];
	free(ptr);
}

static const struct fence_area *fence_area_of(const struct fence *f, const void *at, size_t bytes)
{
	const unsigned char *p = at;

	for (int i = 0; i < f->n_area; i++)
		if (p >= f->area[i].at && p + bytes <= f->area[i].at + f->area[i].bytes)
			return &f->area[i];
	return NULL;
}

/* ---- the memory of a call */

enum fence_way { FENCE_OPEN, FENCE_TAKE };

/* OPEN: these bytes may be read. TAKE: the call was allowed to write them, so the copy is updated. */
static void fence_range(const struct fence *f, enum fence_way way, const struct sl_op *op, const void *at, size_t bytes)
{
	const struct fence_area *a = at && bytes ? fence_area_of(f, at, bytes) : NULL;

	if (!at || !bytes)
		return;
	fence_must(a != NULL, op, "is given memory beyond an area");
	if (way == FENCE_OPEN)
		ASAN_UNPOISON_MEMORY_REGION(at, bytes);
	else if (a->copied)
		memcpy(a->was + ((const unsigned char *)at - a->at), at, bytes);
}

static size_t fence_bytes(const struct sl_tensor *t)
{
	return (size_t)sl_shape_count(&t->shape) * sl_dtype_bytes(t->dtype);
}

static void fence_tensor(const struct fence *f, enum fence_way way, const struct sl_op *op, const struct sl_tensor *t)
{
	if (t->data)
		fence_range(f, way, op, t->data, fence_bytes(t));
}

/* in[k] or din[k] as its memory is: where a window is read in place, the data are those of the window's input, and the
 * shape that of its output (backend.h). */
static struct sl_tensor fence_input(const struct sl_op_call *c, const struct sl_tensor *t)
{
	const struct sl_op *w = c->form.window;
	struct sl_tensor x = *t;

	if (w)
		x.shape = (struct sl_shape){.ndim = 2,
					    .dim = {sl_shape_count(&t->shape) / sl_shape_row(&w->out_shape),
						    sl_shape_row(&w->in_shape[0])}};
	return x;
}

static const struct sl_op_sizes *fence_sizes(const struct fence *f, const struct sl_op *op)
{
	for (int i = 0; i < f->n_asked; i++)
		if (f->asked[i].op == op)
			return &f->asked[i].sizes;
	fence_must(false, op, "computes without having been asked");
	return NULL;
}

static size_t fence_param_bytes(const struct fence *f, const struct sl_op *op, int k)
{
	return (size_t)sl_shape_count(&f->part->graph.param[op->param[k]].shape) * sizeof(float);
}

/* Memory that a kernel may only read. */
static void fence_inputs(const struct fence *f, const struct sl_op_call *c)
{
	for (int k = 0; k < c->op->n_in; k++) {
		const struct sl_tensor in = fence_input(c, &c->in[k]);

		fence_tensor(f, FENCE_OPEN, c->op, &in);
	}
	fence_tensor(f, FENCE_OPEN, c->op, &c->dout);
	for (int k = 0; k < c->op->n_param; k++)
		fence_range(f, FENCE_OPEN, c->op, c->param[k], fence_param_bytes(f, c->op, k));
	if (c->op->n_param)
		fence_range(f, FENCE_OPEN, c->op, c->held.data, fence_param_bytes(f, c->op, 0) / 2);
}

static bool fence_is_statistic(const struct fence *f, const struct sl_op *op, int k)
{
	return f->part->graph.param[op->param[k]].role == SL_STATISTIC;
}

/* Memory that a kernel may write. */
static void fence_outputs(const struct fence *f, enum fence_way way, const struct sl_op_call *c, enum sl_pass_kind pass)
{
	const struct sl_op_sizes *s = fence_sizes(f, c->op);

	if (pass == SL_PASS_FORWARD || way == FENCE_OPEN)
		fence_tensor(f, way, c->op, &c->out);
	for (int k = 0; k < c->op->n_in; k++) {
		const struct sl_tensor din = fence_input(c, &c->din[k]);

		fence_tensor(f, way, c->op, &din);
	}
	for (int k = 0; k < c->op->n_param; k++) {
		fence_range(f, way, c->op, c->grad[k], fence_param_bytes(f, c->op, k));
		if (pass == SL_PASS_COMMIT && fence_is_statistic(f, c->op, k))
			fence_range(f, way, c->op, c->param[k], fence_param_bytes(f, c->op, k));
	}
	fence_range(f, way, c->op, c->saved, s->saved_bytes);
	fence_range(f, way, c->op, c->workspace, s->workspace_bytes);
	fence_range(f, way, c->op, c->cache, (size_t)f->cache_rows * s->cache_bytes);
}

/* The memory of a call, with that of the ops fused before and after a convolution. */
static void fence_call(const struct fence *f, enum fence_way way, const struct sl_op_call *c, enum sl_pass_kind pass)
{
	const struct sl_op_call *const all[] = {c, c->pre, c->post};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (!all[i])
			continue;
		if (way == FENCE_OPEN)
			fence_inputs(f, all[i]);
		fence_outputs(f, way, all[i], pass);
	}
	/* a fused batchnorm behind may compute its input's gradient in place */
	if (way == FENCE_TAKE && c->form.post)
		fence_tensor(f, way, c->op, &c->dout);
}

static void fence_close_all(const struct fence *f)
{
	for (int i = 0; i < f->n_area; i++) {
		if (f->area[i].copied)
			memcpy(f->area[i].was, f->area[i].at, f->area[i].bytes);
		ASAN_POISON_MEMORY_REGION(f->area[i].at, f->area[i].bytes);
	}
}

static void fence_open_all(const struct fence *f)
{
	for (int i = 0; i < f->n_area; i++)
		ASAN_UNPOISON_MEMORY_REGION(f->area[i].at, f->area[i].bytes);
}

static void fence_compare(const struct fence *f, const struct sl_op *op)
{
	for (int i = 0; i < f->n_area; i++)
		fence_must(!f->area[i].copied || memcmp(f->area[i].was, f->area[i].at, f->area[i].bytes) == 0, op,
			   "has written what is not its own");
}

/* ---- kernels */

static void fence_apart(const struct sl_op *op, const struct sl_tensor *a, const struct sl_tensor *b)
{
	const unsigned char *p = a->data, *q = b->data;

	fence_must(!p || !q || p + fence_bytes(a) <= q || q + fence_bytes(b) <= p, op, "writes over what it reads");
}

static void fence_spoil(const void *at, size_t bytes)
{
	if (at)
		memset((void *)(uintptr_t)at, 0xff, bytes < FENCE_SPOILED ? bytes : FENCE_SPOILED);
}

/* Checks that shapes are within those that the kernel was prepared for, and that outputs do not overlap inputs. */
static void fence_check(const struct sl_op_call *c)
{
	const struct sl_op *op = c->op;

	fence_must(c->out.shape.dim[0] <= op->out_shape.dim[0] && c->dout.shape.dim[0] <= op->out_shape.dim[0], op,
		   "has more rows than it was planned for");
	for (int k = 0; k < op->n_in; k++) {
		const struct sl_tensor in = fence_input(c, &c->in[k]), own = fence_input(c, &c->din[k]);

		fence_must(c->in[k].shape.dim[0] <= op->in_shape[k].dim[0], op, "has more rows than planned");
		fence_apart(op, &c->out, &in);
		for (int i = 0; i < op->n_in; i++) {
			const struct sl_tensor din = fence_input(c, &c->din[i]);

			fence_apart(op, &din, &in);
		}
		fence_apart(op, &own, &c->dout);
		fence_apart(op, &own, &c->out);
	}
}

static void fence_fill(const struct fence *f, const struct sl_op_call *c, enum sl_pass_kind pass)
{
	const struct sl_op_sizes *s = fence_sizes(f, c->op);

	fence_spoil(c->workspace, s->workspace_bytes);
	if (pass == SL_PASS_FORWARD && c->out.data)
		fence_spoil(c->out.data, fence_bytes(&c->out));
	/* for a batchnorm, a fused convolution may have saved something there */
	if (pass == SL_PASS_FORWARD && c->training && c->op->kind != SL_OP_BATCHNORM)
		fence_spoil(c->saved, s->saved_bytes);
	for (int k = 0; k < c->op->n_in && pass == SL_PASS_BACKWARD; k++) {
		const struct sl_tensor din = fence_input(c, &c->din[k]);

		if (din.data && !c->din_add[k])
			fence_spoil(din.data, fence_bytes(&din));
	}
}

static enum sl_err fence_kernel(const struct sl_kernel *real, const struct sl_op_call *c, enum sl_pass_kind pass)
{
	return pass == SL_PASS_FORWARD    ? real->forward(c)
	       : pass == SL_PASS_BACKWARD ? real->backward(c)
					  : real->commit(c);
}

static enum sl_err fence_run(const struct sl_op_call *c, enum sl_pass_kind pass)
{
	const struct fence *f = (const struct fence *)(const void *)c->be;
	const struct sl_kernel *real = f->real->kernel[c->op->kind];
	enum sl_err err;

	if (f->open)
		return fence_kernel(real, c, pass);
	fence_check(c);
	fence_fill(f, c, pass);
	fence_close_all(f);
	fence_call(f, FENCE_OPEN, c, pass);
	err = fence_kernel(real, c, pass);
	fence_open_all(f);
	fence_call(f, FENCE_TAKE, c, pass);
	fence_compare(f, c->op);
	fence_must(!err, c->op, "has failed");
	return err;
}

static enum sl_err fence_forward(const struct sl_op_call *c)
{
	return fence_run(c, SL_PASS_FORWARD);
}

static enum sl_err fence_backward(const struct sl_op_call *c)
{
	return fence_run(c, SL_PASS_BACKWARD);
}

static enum sl_err fence_commit(const struct sl_op_call *c)
{
	return fence_run(c, SL_PASS_COMMIT);
}

static enum sl_err fence_prepare(struct sl_op_prepare *p)
{
	struct fence *f = (struct fence *)(void *)p->be;
	const struct sl_kernel *real = f->real->kernel[p->op->kind];
	const enum sl_err err = real->prepare ? real->prepare(p) : SL_OK;

	if (f->n_asked == FENCE_OPS)
		abort();
	f->asked[f->n_asked].op = p->op;
	f->asked[f->n_asked++].sizes = p->sizes;
	return err;
}

static enum sl_err fence_update(struct sl_backend *be, const struct sl_update *update, int64_t count, float *weight,
				const float *grad, float *const moment[SL_MOMENTS_MOST])
{
	const struct fence *f = (const struct fence *)(const void *)be;
	const size_t bytes = (size_t)count * sizeof *weight;
	enum sl_err err;

	fence_close_all(f);
	fence_range(f, FENCE_OPEN, NULL, grad, bytes);
	fence_range(f, FENCE_OPEN, NULL, weight, bytes);
	for (int i = 0; i < SL_MOMENTS_MOST; i++)
		fence_range(f, FENCE_OPEN, NULL, moment[i], bytes);
	err = f->real->update(be, update, count, weight, grad, moment);
	fence_open_all(f);
	fence_range(f, FENCE_TAKE, NULL, weight, bytes);
	for (int i = 0; i < SL_MOMENTS_MOST; i++)
		fence_range(f, FENCE_TAKE, NULL, moment[i], bytes);
	fence_compare(f, NULL);
	return err;
}

/* Puts a fence around an open backend. */
static void fence_around(struct fence *f, struct sl_backend be)
{
	*f = (struct fence){.be = be, .ops = *be.ops, .real = be.ops};
	f->be.ops = &f->ops;
	f->ops.alloc = fence_alloc;
	f->ops.free = fence_free;
	f->ops.update = fence_update;
	for (int kind = 0; kind < SL_OP_COUNT; kind++) {
		if (!f->real->kernel[kind])
			continue;
		f->kernel[kind] = *f->real->kernel[kind];
		f->kernel[kind].prepare = fence_prepare;
		f->kernel[kind].forward = fence_forward;
		if (f->kernel[kind].backward)
			f->kernel[kind].backward = fence_backward;
		if (f->kernel[kind].commit)
			f->kernel[kind].commit = fence_commit;
		f->ops.kernel[kind] = &f->kernel[kind];
	}
}

#endif
