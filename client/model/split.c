#include "client/model/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/roles.h"

/* Copies nodes of the model into a part. value[], param[]: the part's indices of the model's values and parameters; -1:
 * the part does not have it. */
struct copier {
	const struct sl_graph *from;
	struct sl_graph *to;
	int *value, *param;
	int first; /* the part's first node in the model */
};

static enum sl_err copier_open(struct copier *c, const struct sl_graph *from, struct sl_graph *to, struct sl_fail *fail)
{
	*c = (struct copier){.from = from,
			     .to = to,
			     .value = malloc((size_t)from->n_value * sizeof *c->value),
			     .param = malloc(((size_t)from->n_param + 1) * sizeof *c->param)};
	if (!c->value || !c->param)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to cut the model");
	for (int i = 0; i < from->n_value; i++)
		c->value[i] = -1;
	for (int i = 0; i < from->n_param; i++)
		c->param[i] = -1;
	return SL_OK;
}

static void copier_close(struct copier *c)
{
	free(c->value);
	free(c->param);
}

/* Whether a node before `node`, the part's first one, uses the parameter, which then belongs to an earlier part. */
static bool is_used_before(const struct sl_graph *g, int param, int node)
{
	for (int i = 0; i < node; i++)
		for (int k = 0; k < g->node[i].n_param; k++)
			if (g->link[g->node[i].param + k] == param)
				return true;
	return false;
}

static enum sl_err copy_node(struct copier *c, const struct sl_node *node, struct sl_fail *fail)
{
	const struct sl_graph *from = c->from;
	int in[SL_OP_MAX_IN], param[SL_OP_MAX_PARAM];
	enum sl_err err = SL_OK;

	for (int i = 0; i < node->n_in; i++)
		in[i] = c->value[from->link[node->in + i]];
	for (int i = 0; i < node->n_param && !err; i++) {
		int at = from->link[node->param + i];

		if (c->param[at] < 0) {
			struct sl_param copy = from->param[at];

			c->param[at] = c->to->n_param;
			if (is_used_before(from, at, c->first)) {
				if (copy.role == SL_STATISTIC)
					return sl_fail_set(fail, SL_ERR_CONFIG,
							   "%s: two layers have these statistics, and the cut parts "
							   "them: take another cut",
							   copy.name);
				copy.role = SL_TIED;
			}
			err = sl_graph_add_param(c->to, &copy, fail);
		}
		param[i] = c->param[at];
	}
	return err ? err : sl_graph_add_node(c->to, node, in, param, &c->value[node->out], fail);
}

static enum sl_err copy_nodes(struct copier *c, int first, int end, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	c->first = first;
	for (int i = first; i < end && !err; i++)
		err = copy_node(c, &c->from->node[i], fail);
	return err;
}

/* Names of further fields: "head_act.1" …, "home.1" …. */
static const char *numbered(const char *name, int k, char out[SL_NAME_MAX])
{
	snprintf(out, SL_NAME_MAX, "%s.%d", name, k);
	return out;
}

/* Adds inputs for n values of the model, called name.1 and on. */
static enum sl_err add_values(struct copier *c, const char *name, const int *value, int n, struct sl_fail *fail)
{
	const struct sl_graph *model = c->from;
	enum sl_err err = SL_OK;
	char text[SL_NAME_MAX];

	for (int k = 0; k < n && !err; k++) {
		const struct sl_graph_value *v = &model->value[value[k]];

		c->value[value[k]] = c->to->n_in;
		err = sl_graph_add_input(c->to, numbered(name, k + 1, text), v->dtype, v->lead, v->shape,
					 v->lead == SL_PER_TOKEN ? model->in[0].most : 1, NULL, fail);
	}
	return err;
}

/* Adds a part's inputs: the model's input, or the value that crosses from the part before, which the insert restores.
 * The tail also takes the labels or numbers. */
static enum sl_err add_inputs(struct copier *c, enum sl_segment which, const struct sl_cut *cut,
			      const struct sl_insert insert[2], const struct sl_graph *before, struct sl_build *b)
{
	const struct sl_graph *model = c->from;
	const char *const name[SL_SEGMENT_COUNT] = {model->in[0].name, "head_act", "mid_act"};
	const struct sl_field *from = which == SL_HEAD ? &model->in[0] : &before->out[0];
	const struct sl_graph_value *value =
		which == SL_HEAD ? &model->value[from->value] : &before->value[from->value];
	enum sl_err err = sl_graph_add_input(c->to, name[which], value->dtype, value->lead, value->shape, from->most,
					     which == SL_HEAD ? NULL : &from->decay, b->fail);

	if (!err && which == SL_TAIL) {
		const struct sl_field *right = &model->in[1];

		value = &model->value[right->value];
		c->value[SL_BUILD_LABEL] = 1;
		err = sl_graph_add_input(c->to, right->name, value->dtype, value->lead, value->shape, 1, NULL, b->fail);
	}
	for (int k = SL_BUILD_LABEL + 1; which == SL_HEAD && k < model->n_in && !err; k++) {
		c->value[k] = c->to->n_in;
		err = sl_graph_add_input(c->to, model->in[k].name, SL_F32, SL_PER_ROW, model->value[k].shape, 1, NULL,
					 b->fail);
	}
	if (!err && which == SL_MIDDLE)
		err = add_values(c, "head_act", cut->up + 1, cut->n_up - 1, b->fail);
	if (!err && which == SL_TAIL)
		err = add_values(c, "mid_act", cut->down + 1, cut->n_down - 1, b->fail);
	if (!err && which == SL_TAIL)
		err = add_values(c, "home", cut->home, cut->n_home, b->fail);
	if (err)
		return err;
	if (which == SL_HEAD)
		c->value[SL_BUILD_INPUT] = 0;
	else
		c->value[which == SL_MIDDLE ? cut->head_value : cut->tail_value] =
			sl_insert_restore(&insert[which == SL_TAIL], b, 0);
	return b->err;
}

static enum sl_err add_output(struct copier *c, enum sl_segment which, const struct sl_cut *cut,
			      struct sl_insert insert[2], struct sl_build *b)
{
	const struct sl_field *loss = &c->from->out[0];
	const bool mid = which == SL_MIDDLE;
	struct sl_decay decay;
	char name[SL_NAME_MAX];
	enum sl_err err;
	int value;

	if (which == SL_TAIL)
		return sl_graph_add_output(c->to, loss->name, c->value[loss->value], NULL, b->fail);
	value = sl_insert_build(&insert[mid], b, c->value[mid ? cut->tail_value : cut->head_value]);
	decay = sl_insert_decay(&insert[mid]);
	err = b->err ? b->err : sl_graph_add_output(c->to, mid ? "mid_act" : "head_act", value, &decay, b->fail);
	for (int k = 1; k < (mid ? cut->n_down : cut->n_up) && !err; k++)
		err = sl_graph_add_output(c->to, numbered(mid ? "mid_act" : "head_act", k, name),
					  c->value[mid ? cut->down[k] : cut->up[k]], NULL, b->fail);
	for (int k = 0; k < cut->n_home && !mid && !err; k++)
		if (cut->home[k] != SL_BUILD_INPUT) /* which the client has */
			err = sl_graph_add_output(c->to, numbered("home", k + 1, name), c->value[cut->home[k]], NULL,
						  b->fail);
	return err;
}

static enum sl_err split_part(struct sl_graph *part, enum sl_segment which, struct sl_model *model,
			      const struct sl_cut *cut, struct sl_insert insert[2], struct sl_fail *fail)
{
	struct sl_fail why = {0};
	struct sl_build b = {.graph = &part[which], .model = model, .insert = true, .fail = &why};
	struct copier c;
	enum sl_err err = copier_open(&c, &model->graph, &part[which], &why);
	int first, end, blame = which == SL_TAIL; /* the insert that is being built, for errors */

	sl_cut_nodes(cut, model, which, &first, &end);
	if (!err)
		err = add_inputs(&c, which, cut, insert, which ? &part[which - 1] : NULL, &b);
	if (!err) {
		blame = which == SL_MIDDLE;
		err = copy_nodes(&c, first, end, &why);
	}
	if (!err)
		err = add_output(&c, which, cut, insert, &b);
	copier_close(&c);
	if (!err)
		return SL_OK;
	return b.err ? sl_fail_at(fail, insert[blame].key, err, "%s", why.text)
		     : sl_fail_set(fail, err, "%s", why.text);
}

/* Makes the graphs of head, middle and tail, with inserts on both sides of either cut. Fields are called "image" or
 * "tokens", "label", "head_act", "mid_act", "loss". Each graph has its own indices of values and parameters; streams
 * are the whole model's. Appends the inserts' parameters to the model's. CONFIG: an insert does not fit. */
static enum sl_err split_model(struct sl_graph part[SL_SEGMENT_COUNT], struct sl_model *model, const struct sl_cut *cut,
			       struct sl_insert insert[2], struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		part[i] = (struct sl_graph){0};
	for (int i = 0; i < SL_SEGMENT_COUNT && !err; i++)
		err = split_part(part, (enum sl_segment)i, model, cut, insert, fail);
	return err;
}

/* ---- the loss of restoring (SL_LOSS_RESTORE_…) */

static int difference(struct sl_build *b, int x, struct sl_insert *insert)
{
	const int y = sl_insert_restore(insert, b, sl_insert_build(insert, b, x));

	return sl_build_add(b, "restored.error", y, sl_build_scale(b, "restored.minus", x, -1));
}

static enum sl_err restoring_middle(struct sl_graph part[SL_SEGMENT_COUNT], struct copier *c, const struct sl_cut *cut,
				    struct sl_insert *insert, bool tail, struct sl_build *b)
{
	const struct sl_insert none[2] = {0};
	enum sl_err err = add_inputs(c, SL_MIDDLE, cut, none, &part[SL_HEAD], b);
	int first, end, error;

	sl_cut_nodes(cut, b->model, SL_MIDDLE, &first, &end);
	if (!err && tail)
		err = copy_nodes(c, first, end, b->fail);
	if (err)
		return err;
	error = difference(b, c->value[tail ? cut->tail_value : cut->head_value], insert);
	return b->err ? b->err : sl_graph_add_output(c->to, "mid_act", error, NULL, b->fail);
}

/* The tail is the mean square of the error. Its targets are zeros, so no caller has to give them (exec.h). */
static enum sl_err restoring_tail(struct sl_graph *to, const struct sl_graph *middle, struct sl_build *b)
{
	const struct sl_graph_value *error = &middle->value[middle->out[0].value];
	const struct sl_shape flat = sl_shape2(1, sl_shape_row(&error->shape));
	int value = 0;
	enum sl_err err = sl_graph_add_input(to, "mid_act", error->dtype, error->lead, error->shape,
					     middle->out[0].most, NULL, b->fail);

	if (!err)
		err = sl_graph_add_input(to, "label", SL_F32, error->lead, flat, middle->out[0].most, NULL, b->fail);
	if (err)
		return err;
	if (error->shape.ndim > 2)
		value = sl_build_flatten(b, "restored.flatten", value);
	sl_build_mse(b, "restored.loss", value, 1);
	return b->err;
}

static void freeze_all_but_inserts(struct sl_graph *part)
{
	for (int i = 0; i < part->n_param; i++)
		if (part->param[i].role == SL_LEARNS && strncmp(part->param[i].name, "insert.", 7) != 0)
			part->param[i].role = SL_FROZEN;
}

static enum sl_err check_restorable(const struct sl_insert *insert, struct sl_fail *fail)
{
	if (!insert->n)
		return sl_fail_at(fail, "train.loss", SL_ERR_CONFIG, "there is no %s that could learn", insert->key);
	for (int i = 0; i < insert->n; i++)
		if (insert->item[i].kind == SL_INSERT_DECAY)
			return sl_fail_at(fail, insert->key, SL_ERR_CONFIG,
					  "decaylinear begins as the identity: there is nothing to restore better");
	return SL_OK;
}

/* Makes the parts for SL_LOSS_RESTORE_HEAD, or with `tail` for …_TAIL. CONFIG: that insert is none, or decays. */
static enum sl_err split_restore(struct sl_graph part[SL_SEGMENT_COUNT], struct sl_model *model,
				 const struct sl_cut *cut, struct sl_insert *insert, bool tail, struct sl_fail *fail)
{
	struct sl_insert none[2] = {{.key = "insert.head"}, {.key = "insert.tail"}};
	struct sl_cut only = *cut; /* the loss of restoring reads no value that stays at home */
	struct sl_fail why = {0};
	struct sl_build b = {.graph = &part[SL_MIDDLE], .model = model, .insert = true, .fail = &why};
	struct copier c = {0};
	enum sl_err err = check_restorable(insert, fail);

	only.n_home = 0;
	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		part[i] = (struct sl_graph){0};
	if (!err)
		err = split_part(part, SL_HEAD, model, &only, none, fail);
	if (err)
		return err;
	err = copier_open(&c, &model->graph, &part[SL_MIDDLE], &why);
	if (!err)
		err = restoring_middle(part, &c, cut, insert, tail, &b);
	copier_close(&c);
	b.graph = &part[SL_TAIL];
	if (!err)
		err = restoring_tail(&part[SL_TAIL], &part[SL_MIDDLE], &b);
	if (err)
		return b.err ? sl_fail_at(fail, insert->key, err, "%s", why.text)
			     : sl_fail_set(fail, err, "%s", why.text);
	freeze_all_but_inserts(&part[SL_HEAD]);
	freeze_all_but_inserts(&part[SL_MIDDLE]);
	return SL_OK;
}

/* ---- the whole */

static const char *given(const char *text)
{
	return text[0] ? text : NULL;
}

/* Sets the attributes of the model's own loss. */
static void choose_loss(struct sl_model *m, const struct sl_split_spec *spec)
{
	for (int i = 0; i < m->graph.n_node; i++) {
		struct sl_node *node = &m->graph.node[i];

		if (node->kind == SL_OP_XENT) {
			node->u.xent.smoothing = (float)spec->label_smoothing;
			node->u.xent.fn = spec->pixels;
		}
		if (node->kind == SL_OP_MSE)
			node->u.mse.fn = m->task->kind == SL_LEARN_LABELS ? SL_MSE_BCE : spec->numbers;
	}
}

/* What is made for one tensor at a cut. */
static enum sl_err check_several(const struct sl_cut *cut, const struct sl_split_spec *spec, struct sl_fail *fail)
{
	const bool head = spec->insert_head[0], inserts = head || spec->insert_tail[0];

	if (cut->n_up == 1 && cut->n_down == 1)
		return SL_OK;
	if (inserts)
		return sl_fail_at(fail, head ? "insert.head" : "insert.tail", SL_ERR_CONFIG,
				  "inserts go with one value at each end; %d go up here and %d down", cut->n_up,
				  cut->n_down);
	return spec->loss == SL_LOSS_LABELS
		       ? SL_OK
		       : sl_fail_at(fail, "train.loss", SL_ERR_CONFIG, "there is no insert that could learn");
}

/* See struct sl_insert. */
static int slices_at(const struct sl_model *m, int value)
{
	const int n = sl_model_slices(&m->graph, value, m->depth[0]);

	return m->depth[0] && !n ? -1 : n;
}

static enum sl_err split_all(struct sl_parts *s, const struct sl_split_spec *spec, struct sl_fail *fail)
{
	const struct sl_cut_spec *c = &spec->cut;
	struct sl_insert insert[2];
	enum sl_err err = sl_model_open(&s->model, &spec->model, fail);

	if (!err)
		choose_loss(s->model, spec);
	if (!err)
		err = sl_cut_find(&s->cut, s->model, given(c->partition), given(c->head_end), given(c->tail_begin),
				  c->values > 1 ? c->values : 1, fail);
	if (!err)
		err = check_several(&s->cut, spec, fail);
	if (!err && spec->tail_loss)
		err = sl_cut_behind_gather(&s->cut, s->model, fail);
	if (!err)
		err = sl_insert_parse(&insert[0], "insert.head", spec->insert_head, fail);
	if (!err)
		err = sl_insert_parse(&insert[1], "insert.tail", spec->insert_tail, fail);
	s->loss = spec->loss;
	insert[0].row_tokens = insert[1].row_tokens = spec->model.whole_rows;
	if (!err) {
		insert[0].slices = slices_at(s->model, s->cut.head_value);
		insert[1].slices = slices_at(s->model, s->cut.tail_value);
	}
	if (!err)
		err = spec->loss == SL_LOSS_LABELS
			      ? split_model(s->part, s->model, &s->cut, insert, fail)
			      : split_restore(s->part, s->model, &s->cut, &insert[spec->loss == SL_LOSS_RESTORE_TAIL],
					      spec->loss == SL_LOSS_RESTORE_TAIL, fail);
	if (!err && spec->freeze && spec->freeze->n)
		err = sl_roles_freeze(s->part, spec->freeze, fail);
	if (!err && spec->groups)
		err = sl_roles_group(s->part, spec->groups, fail);
	return err;
}

enum sl_err sl_parts_open(struct sl_parts *parts, const struct sl_split_spec *spec, struct sl_fail *fail)
{
	enum sl_err err;

	*parts = (struct sl_parts){0};
	err = split_all(parts, spec, fail);
	if (err)
		sl_parts_close(parts);
	return err;
}

void sl_parts_close(struct sl_parts *parts)
{
	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		sl_graph_close(&parts->part[i]);
	sl_model_close(parts->model);
	*parts = (struct sl_parts){0};
}

/* ---- the head of one party */

/* Writes the inputs on which each value of the graph depends, a bit each. NULL: no memory. */
static uint32_t *inputs_of(const struct sl_graph *g)
{
	uint32_t *of = calloc((size_t)g->n_value + 1, sizeof *of);

	for (int k = 0; of && k < g->n_in; k++)
		of[g->in[k].value] = 1U << k;
	for (int i = 0; of && i < g->n_node; i++)
		for (int k = 0; k < g->node[i].n_in; k++)
			of[g->node[i].out] |= of[g->link[g->node[i].in + k]];
	return of;
}

/* Notes on which input the parameters of a head with several depend. */
static enum sl_err note_inputs(struct sl_plan_segment *head)
{
	const struct sl_graph *g = &head->graph;
	uint32_t *of = inputs_of(g);

	for (int i = 0; of && i < head->n_op; i++)
		for (int k = 0; k < head->op[i].op.n_param; k++)
			head->param[head->op[i].param[k]].input = ffs((int)of[head->op[i].op.out]) - 1;
	free(of);
	return of ? SL_OK : SL_ERR_NOMEM;
}

enum sl_err sl_parts_spare_gradients(struct sl_parts *parts, struct sl_fail *fail)
{
	const struct sl_graph *head = &parts->part[SL_HEAD];
	bool *learns = calloc((size_t)head->n_value + 1, sizeof *learns);

	if (!learns)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to cut the model");
	for (int i = 0; i < head->n_node; i++) {
		const struct sl_node *node = &head->node[i];

		for (int k = 0; k < node->n_in; k++)
			learns[node->out] |= learns[head->link[node->in + k]];
		for (int k = 0; k < node->n_param; k++)
			learns[node->out] |= head->param[head->link[node->param + k]].role == SL_LEARNS;
	}
	for (int k = 0; k < head->n_out; k++)
		parts->part[SL_MIDDLE].in[k].still = !learns[head->out[k].value];
	free(learns);
	return SL_OK;
}

/* Copies what depends on the input `own` of `from` alone. */
static enum sl_err copy_own(struct copier *c, int own, const uint32_t *of, int *sends, struct sl_fail *fail)
{
	const struct sl_graph *from = c->from;
	const struct sl_graph_value *in = &from->value[from->in[own].value];
	enum sl_err err = sl_graph_add_input(c->to, from->in[own].name, in->dtype, in->lead, in->shape, 1, NULL, fail);

	c->value[from->in[own].value] = 0;
	for (int i = 0; i < from->n_node && !err; i++) {
		const uint32_t others = of[from->node[i].out] & ~(1U << own);

		if (others == of[from->node[i].out])
			continue;
		err = others ? sl_fail_at(fail, "head_end", SL_ERR_CONFIG,
					  "%s joins inputs %s and %s: begin the middle there or before",
					  from->node[i].name, from->in[own].name, from->in[ffs((int)others) - 1].name)
			     : copy_node(c, &from->node[i], fail);
	}
	for (int k = 0; k < from->n_out && !err; k++) {
		if (of[from->out[k].value] != 1U << own)
			continue;
		*sends |= 1 << k;
		err = sl_graph_add_output(c->to, from->out[k].name, c->value[from->out[k].value], NULL, fail);
	}
	return err;
}

enum sl_err sl_parts_take_input(struct sl_parts *parts, const char *name, int *sends, struct sl_fail *fail)
{
	struct sl_graph *head = &parts->part[SL_HEAD], own = {0};
	int input = -1;
	uint32_t *of = inputs_of(head);
	struct copier c = {0};
	enum sl_err err =
		of ? copier_open(&c, head, &own, fail) : sl_fail_set(fail, SL_ERR_NOMEM, "no memory to cut the model");

	for (int k = 0; k < head->n_in; k++)
		input = strcmp(head->in[k].name, name) == 0 ? k : input;
	*sends = 0;
	if (!err)
		err = copy_own(&c, input, of, sends, fail);
	if (!err && !*sends)
		err = sl_fail_at(fail, "head_end", SL_ERR_CONFIG,
				 "the head makes nothing of input %s: end it behind a layer that reads it", name);
	copier_close(&c);
	free(of);
	if (err) {
		sl_graph_close(&own);
		return err;
	}
	sl_graph_close(head);
	*head = own;
	return SL_OK;
}

enum sl_err sl_plan_open_parts(struct sl_plan **out, struct sl_parts *parts, const struct sl_plan_spec *spec,
			       struct sl_fail *fail)
{
	struct sl_plan *plan;
	enum sl_err err = sl_plan_begin(&plan, spec, fail);

	if (err)
		return err;
	sl_plan_settle(plan, &parts->part[SL_MIDDLE]);
	plan->model = parts->model;
	plan->cut = parts->cut;
	parts->model = NULL;
	plan->plain_per_token[0] = plan->model->graph.value[plan->cut.head_value].lead == SL_PER_TOKEN;
	plan->plain_per_token[1] = plan->model->graph.value[plan->cut.tail_value].lead != SL_PER_ROW;
	for (int k = 0; k < plan->cut.n_up; k++)
		plan->plain[0] += sl_shape_row(&plan->model->graph.value[plan->cut.up[k]].shape);
	for (int k = 0; k < plan->cut.n_down; k++)
		plan->plain[1] += sl_shape_row(&plan->model->graph.value[plan->cut.down[k]].shape);
	if (parts->loss == SL_LOSS_RESTORE_HEAD)
		plan->plain[1] = plan->plain[0];
	for (int i = 0; i < SL_SEGMENT_COUNT && !err; i++)
		if (sl_party_has(spec->party, (enum sl_segment)i))
			err = sl_plan_add(plan, (enum sl_segment)i, &parts->part[i], fail);
	if (!err && plan->segment[SL_HEAD].graph.n_in > 1 && note_inputs(&plan->segment[SL_HEAD]))
		err = sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the plan");
	if (!err)
		err = sl_plan_seal(plan, fail);
	if (err) {
		sl_plan_close(plan);
		return err;
	}
	*out = plan;
	return SL_OK;
}
