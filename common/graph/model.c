#include "common/graph/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/grow.h"
#include "common/base/rng.h"
#include "common/graph/model_impl.h"

void sl_model_close(struct sl_model *model)
{
	if (!model)
		return;
	sl_graph_close(&model->graph);
	free(model->file);
	free(model->unit);
	free(model->adapter);
	free(model->ids);
	free(model);
}

/* Keeps only the first failure, because later ones are its consequences. Returns -1. */
static int give_up(struct sl_build *b, enum sl_err err)
{
	if (!b->err)
		b->err = err;
	return -1;
}

void sl_build_refuse(struct sl_build *b, const char *fmt, ...)
{
	char text[SL_FAIL_TEXT];
	va_list args;

	if (b->err)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	give_up(b, sl_fail_set(b->fail, SL_ERR_CONFIG, "%s", text));
}

bool sl_build_name(struct sl_build *b, char dst[SL_NAME_MAX], const char *name, const char *suffix)
{
	size_t len = strlen(name), more = strlen(suffix);

	if (len + more >= SL_NAME_MAX) {
		give_up(b, sl_fail_set(b->fail, SL_ERR_CONFIG, "the name %.40s… is longer than %d bytes", name,
				       SL_NAME_MAX - 1));
		return false;
	}
	memcpy(dst, name, len);
	memcpy(dst + len, suffix, more + 1);
	return true;
}

/* Makes room for one more element in *list, which has `count`. */
static bool grow(struct sl_build *b, void *list, int count, size_t *cap, size_t size)
{
	if (sl_grow(list, cap, (size_t)count + 1, size))
		return true;
	give_up(b, sl_fail_set(b->fail, SL_ERR_NOMEM, "no memory for a model of %d parts", count + 1));
	return false;
}

static enum sl_err open_model(struct sl_build *b, const char *name, const struct sl_field *input,
			      const struct sl_graph_value *value, const struct sl_learn_task *task, int classes,
			      struct sl_fail *fail)
{
	const struct sl_shape target = task->kind == SL_LEARN_PIXELS
					       ? sl_shape3(1, value->shape.dim[1], value->shape.dim[2])
				       : task->each ? sl_shape2(1, classes)
						    : sl_shape1(1);
	struct sl_model *m = calloc(1, sizeof(*m));
	enum sl_err err;

	*b = (struct sl_build){.model = m, .fail = fail};
	if (!m)
		return b->err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a model");
	b->graph = &m->graph;
	m->task = task;
	m->classes = classes;
	if (sl_build_name(b, m->name, name, "")) {
		err = sl_graph_add_input(b->graph, input->name, value->dtype, value->lead, value->shape, input->most,
					 NULL, fail);
		if (!err)
			err = sl_graph_add_input(b->graph, task->target, task->dtype, task->lead, target, 1, NULL,
						 fail);
		b->err = err;
	}
	if (b->err) {
		sl_model_close(m);
		b->model = NULL;
	}
	return b->err;
}

int sl_model_input(const struct sl_graph *g, const char *name)
{
	for (int k = 0; k < g->n_in; k++)
		if (strcmp(g->in[k].name, name) == 0 && k != SL_BUILD_LABEL)
			return k;
	return -1;
}

/* The slices that a node with `slices` makes. */
static int made_slices(const struct sl_graph *g, const struct sl_node *n)
{
	const int64_t in_h = g->value[g->link[n->in]].shape.dim[1], out_h = g->value[n->out].shape.dim[1];

	if (n->kind == SL_OP_WINDOW)
		return (int)(out_h / (in_h / n->slices));
	return n->kind == SL_OP_RESAMPLE && n->u.resample.axis == 0 ? n->u.resample.size : n->slices;
}

/* An input of the node that has the plane and the slices of its output; -1: there is none. */
static int alike(const struct sl_graph *g, const struct sl_node *n)
{
	const int64_t *out = g->value[n->out].shape.dim;

	for (int i = 0; i < n->n_in && n->kind != SL_OP_PERMUTE; i++) {
		const struct sl_shape *in = &g->value[g->link[n->in + i]].shape;

		if (in->ndim == 4 && in->dim[1] == out[1] && in->dim[2] == out[2])
			return g->link[n->in + i];
	}
	return -1;
}

int sl_model_slices(const struct sl_graph *g, int value, int depth)
{
	const struct sl_shape *shape = &g->value[value].shape;

	if (!depth || shape->ndim != 4)
		return 0;
	for (int at = value; at >= 0; at = alike(g, &g->node[g->value[at].maker])) {
		const int maker = g->value[at].maker;

		if (maker >= 0 && g->node[maker].slices)
			return made_slices(g, &g->node[maker]);
		if (maker < 0) {
			if (at == g->in[0].value && shape->dim[1] % depth == 0)
				return depth;
			break;
		}
	}
	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].slices && g->link[g->node[i].in] == value)
			return g->node[i].slices;
	return 0;
}

enum sl_err sl_build_open(struct sl_build *b, const char *name, struct sl_shape input, const struct sl_learn_task *task,
			  int classes, struct sl_fail *fail)
{
	static const struct sl_field row = {.name = "row", .most = 1}, image = {.name = "image", .most = 1};
	const struct sl_graph_value value = {.dtype = SL_F32, .lead = SL_PER_ROW, .shape = input};

	return open_model(b, name, input.ndim == 2 ? &row : &image, &value, task, classes, fail);
}

enum sl_err sl_build_open_tokens(struct sl_build *b, const char *name, int most, int vocab,
				 const struct sl_learn_task *task, int classes, struct sl_fail *fail)
{
	const struct sl_field input = {.name = "tokens", .most = most};
	const struct sl_graph_value value = {.dtype = SL_I32, .lead = SL_PER_TOKEN, .shape = sl_shape1(1)};
	enum sl_err err = open_model(b, name, &input, &value, task, classes, fail);

	if (!err)
		b->model->vocab = vocab;
	return err;
}

struct sl_draft sl_draft_like(struct sl_build *b, const struct sl_node *node, const char *name, int in)
{
	struct sl_draft d = {.node = sl_node_like(node), .in = {in}};

	d.node.stream = (uint16_t)b->graph->n_node;
	d.node.n_in = 1;
	sl_build_name(b, d.node.name, name, "");
	if (!b->err && (in < 0 || in >= b->graph->n_value))
		give_up(b, sl_fail_set(b->fail, SL_ERR_BUG, "%s: there is no value %d yet", name, in));
	return d;
}

struct sl_draft sl_draft_begin(struct sl_build *b, enum sl_op_kind kind, const char *name, int in)
{
	const struct sl_node node = sl_node_of(kind);

	return sl_draft_like(b, &node, name, in);
}

int sl_draft_finish(struct sl_build *b, struct sl_draft *d)
{
	enum sl_err err;
	int out;

	if (b->err)
		return -1;
	if (b->graph->n_node >= SL_RNG_INIT)
		return give_up(b, sl_fail_set(b->fail, SL_ERR_CONFIG, "%s: too large a model", d->node.name));
	err = sl_graph_add_node(b->graph, &d->node, d->in, d->param, &out, b->fail);
	return err ? give_up(b, err) : out;
}

/* The parameter of that name, which other nodes use too; -1: there is none yet, or the build fails. */
static int shared_param(struct sl_build *b, const struct sl_param *param, const struct sl_file_param *file)
{
	const struct sl_graph *g = &b->model->graph;
	int i = 0;

	while (i < g->n_param && strcmp(g->param[i].name, param->name) != 0)
		i++;
	if (i == g->n_param)
		return -1;
	if (sl_shape_equal(&g->param[i].shape, &param->shape) && g->param[i].role == param->role &&
	    sl_shape_equal(&b->model->file[i].shape, &file->shape) && b->model->file[i].layout == file->layout)
		return i;
	give_up(b, sl_fail_set(b->fail, SL_ERR_CONFIG, "%s: layers that use it in different ways cannot share it",
			       param->name));
	return -1;
}

void sl_draft_param(struct sl_build *b, struct sl_draft *d, const struct sl_made_param *made)
{
	struct sl_model *m = b->model;
	const bool frozen = b->lora && !b->adapting && !b->head && !b->insert && made->role == SL_LEARNS;
	struct sl_param param = {.shape = made->shape,
				 .init = made->init,
				 .stream = (uint32_t)m->graph.n_param,
				 .role = frozen ? SL_FROZEN : made->role};
	const struct sl_file_param file = {.shape = made->file.ndim ? made->file : made->shape,
					   .layout = made->layout,
					   .channels = made->channels,
					   .optional = b->insert || b->adapting,
					   .head = b->head};
	const char *given = b->param_name ? b->param_name[d->node.n_param] : NULL;
	int shared;
	enum sl_err err;

	if (b->err || !sl_build_name(b, param.name, given ? given : d->node.name, given ? "" : made->suffix))
		return;
	shared = given ? shared_param(b, &param, &file) : -1;
	if (shared >= 0)
		d->param[d->node.n_param++] = shared;
	if (shared >= 0 || b->err || !grow(b, &m->file, m->graph.n_param, &m->cap_file, sizeof(*m->file)))
		return;
	m->file[m->graph.n_param] = file;
	d->param[d->node.n_param++] = b->graph->n_param;
	err = sl_graph_add_param(b->graph, &param, b->fail);
	if (!err && b->graph != &m->graph)
		err = sl_graph_add_param(&m->graph, &param, b->fail);
	if (err)
		give_up(b, err);
}

void sl_build_adapter(struct sl_build *b, const struct sl_adapter *adapter)
{
	struct sl_model *m = b->model;

	if (!b->err && grow(b, &m->adapter, m->n_adapter, &m->cap_adapter, sizeof(*m->adapter)))
		m->adapter[m->n_adapter++] = *adapter;
}

void sl_build_new_head(struct sl_build *b)
{
	b->head = true;
}

void sl_build_unit(struct sl_build *b, const char *name)
{
	sl_build_unit_at(b, name, b->model->graph.n_node);
}

void sl_build_unit_at(struct sl_build *b, const char *name, int first_node)
{
	struct sl_model *m = b->model;
	struct sl_unit *unit;

	if (b->err || !grow(b, &m->unit, m->n_unit, &m->cap_unit, sizeof(*m->unit)))
		return;
	unit = &m->unit[m->n_unit];
	if (!sl_build_name(b, unit->name, name, ""))
		return;
	unit->first_node = first_node;
	if (m->n_unit > 0)
		unit[-1].end_node = first_node;
	m->n_unit++;
}

static enum sl_err check_units(struct sl_build *b)
{
	struct sl_model *m = b->model;

	if (m->n_unit == 0 || m->unit[0].first_node != 0)
		return sl_fail_set(b->fail, SL_ERR_BUG, "%s: its first node lies in no unit", m->name);
	m->unit[m->n_unit - 1].end_node = m->graph.n_node;
	for (int i = 0; i < m->n_unit; i++)
		if (m->unit[i].end_node <= m->unit[i].first_node)
			return sl_fail_set(b->fail, SL_ERR_BUG, "%s: unit %s is empty", m->name, m->unit[i].name);
	return SL_OK;
}

enum sl_err sl_build_finish(struct sl_build *b, struct sl_model **out)
{
	if (!b->err)
		b->err = check_units(b);
	if (!b->err)
		b->err = sl_graph_check(b->graph, b->fail);
	if (!b->err) {
		b->model->n_plain = b->model->graph.n_param;
		*out = b->model;
	} else {
		sl_model_close(b->model);
	}
	b->model = NULL;
	return b->err;
}
