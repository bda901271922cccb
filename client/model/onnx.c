/* Turns an ONNX graph into one of ours. It lists the file's named values and finds the nodes that the output needs.
 * Then it calls the reader of each node's kind (onnx_nodes.c), and checks the output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/model/onnx_nodes.h"
#include "client/model/onnx_recurrent.h"
#include "client/model/onnx_tokens.h"
#include "client/model/weights_file.h"

static const char key[] = "model.onnx";

/* ---- named values */

static void add_value(struct sl_onnx_import *im, const char *name, int maker, const Onnx__Tensor *constant)
{
	struct sl_onnx_value *v = &im->value[im->n_value++];

	*v = (struct sl_onnx_value){.name = name, .value = -1, .constant = constant, .known = constant, .maker = maker};
	if (constant && constant->n_dims) {
		v->n_dim = (int)constant->n_dims;
		memcpy(v->dim, constant->dims, constant->n_dims * sizeof *constant->dims);
	}
}

/* The input is token ids, [batch, tokens]. A second input is a mask that says which of them are real. */
static void add_ids(struct sl_onnx_import *im, struct sl_onnx_value *v)
{
	im->tokens = sl_onnx_dim(im->onnx->in, 1);
	if (im->tokens < 2 || im->tokens > SL_ONNX_MOST)
		im->tokens = im->whole ? im->whole : SL_ONNX_ANY_TOKENS;
	v->view = (struct sl_onnx_view){
		.n_atom = 2, .n_axis = 2, .size = {im->batch, im->tokens}, .axis = {{1, {0}}, {1, {1}}}};
	im->masked = im->onnx->mask;
	if (!im->masked)
		return;
	v = &im->value[im->n_value];
	add_value(im, im->onnx->mask->name, -1, NULL);
	v->is_mask = v->known = true;
	for (int z = 0; z < SL_ONNX_ZONES; z++)
		v->mask.at[1][z] = 1;
	v->n_dim = 2;
	v->dim[0] = im->batch;
	v->dim[1] = im->tokens;
}

static void add_input(struct sl_onnx_import *im)
{
	const struct sl_shape s = sl_build_shape(im->b, SL_BUILD_INPUT);
	struct sl_onnx_value *v = &im->value[im->n_value];

	add_value(im, im->onnx->in->name, -1, NULL);
	v->value = SL_BUILD_INPUT;
	v->known = true;
	im->batch = sl_onnx_dim(im->onnx->in, 0);
	if (im->batch < 1 || im->batch > SL_ONNX_MOST)
		im->batch = SL_ONNX_ANY_BATCH;
	if (im->b->model->vocab) {
		add_ids(im, v);
		return;
	}
	v->view = sl_onnx_view_of(im, &s);
	if (sl_onnx_n_dim(im->onnx->in) == 3) /* a signal, which is a row in our graph */
		(void)!sl_onnx_reshape_view(
			&v->view, (int64_t[]){im->batch, sl_onnx_dim(im->onnx->in, 1), sl_onnx_dim(im->onnx->in, 2)},
			3);
}

static enum sl_err check_node(const Onnx__Node *n, size_t i, struct sl_fail *fail)
{
	if (!n->op_type || !n->op_type[0] || !n->n_output)
		return sl_fail_set(fail, SL_ERR_DATA, "node %zu has no kind, or no output", i);
	for (size_t a = 0; a < n->n_attribute; a++)
		if (!n->attribute[a]->name)
			return sl_fail_set(fail, SL_ERR_DATA, "node %zu has an attribute without a name", i);
	return SL_OK;
}

/* Lists every named value, sorted by name: inputs, initializers and outputs of nodes. */
static enum sl_err list_values(struct sl_onnx_import *im, struct sl_fail *fail)
{
	const Onnx__Graph *g = im->onnx->graph;
	size_t n = (size_t)im->onnx->n_init + 2, uses = 0;

	for (size_t i = 0; i < g->n_node; i++) {
		n += g->node[i]->n_output;
		uses += g->node[i]->n_input;
	}
	im->value = n < INT32_MAX ? calloc(n, sizeof *im->value) : NULL;
	im->param = uses < INT32_MAX ? calloc(uses + 1, sizeof *im->param) : NULL;
	im->cap_param = (int)uses;
	if (!im->value || !im->param)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a network");
	add_input(im);
	for (int i = 0; i < im->onnx->n_init; i++)
		add_value(im, im->onnx->init[i]->name, -1, im->onnx->init[i]);
	for (size_t i = 0; i < g->n_node; i++) {
		enum sl_err err = check_node(g->node[i], i, fail);

		if (err)
			return err;
		for (size_t o = 0; o < g->node[i]->n_output; o++)
			if (g->node[i]->output[o][0])
				add_value(im, g->node[i]->output[o], (int)i, NULL);
	}
	qsort(im->value, (size_t)im->n_value, sizeof *im->value, sl_onnx_by_name);
	for (int i = 1; i < im->n_value; i++)
		if (strcmp(im->value[i - 1].name, im->value[i].name) == 0)
			return sl_fail_set(fail, SL_ERR_DATA, "two values are called '%.96s'", im->value[i].name);
	return SL_OK;
}

/* Sets live[i]: the file's output depends on node i. A file's nodes are in topological order. */
static void find_live(struct sl_onnx_import *im, bool *live)
{
	const Onnx__Graph *g = im->onnx->graph;
	struct sl_onnx_value *v = sl_onnx_find(im, im->onnx->out->name);

	if (v) {
		v->needed = true;
		v->n_readers = INT16_MAX; /* so that it is never joined with a next node */
	}
	for (size_t i = g->n_node; i-- > 0;) {
		const Onnx__Node *n = g->node[i];

		for (size_t o = 0; o < n->n_output && !live[i]; o++)
			live[i] = n->output[o][0] && (v = sl_onnx_find(im, n->output[o])) && v->needed;
		for (size_t j = 0; j < n->n_input && live[i]; j++)
			if (n->input[j][0] && (v = sl_onnx_find(im, n->input[j]))) {
				v->needed = true;
				if (v->n_readers < 2)
					v->reader[v->n_readers] = (int)i;
				v->n_readers += v->n_readers < INT16_MAX;
			}
	}
}

/* ---- nodes */

/* Whether other nodes belong to the module of the node `name`, or to modules below it. `last`: the name's last word. */
static bool is_shared(const struct sl_onnx_import *im, const char *name, const char *last)
{
	const Onnx__Graph *g = im->onnx->graph;

	for (size_t i = 0; i < g->n_node; i++)
		if (g->node[i] != im->node && g->node[i]->name && strcmp(g->node[i]->op_type, "Constant") != 0 &&
		    strncmp(g->node[i]->name, name, (size_t)(last - name)) == 0)
			return true;
	return false;
}

/* Names the node after its first parameter, without the last word; else after its module in PyTorch; else by its own
 * name. A module's name gets the node's last word if the module has other nodes. */
static void name_node(struct sl_onnx_import *im, size_t index)
{
	const Onnx__Node *n = im->node;
	const char *last, *part = n->name ? strstr(n->name, SL_ONNX_PART) : NULL;
	const size_t len = part ? (size_t)(part - n->name) : n->name ? strlen(n->name) : 0;

	for (size_t i = 1; i < n->n_input; i++)
		if (sl_onnx_find_init(im->onnx, n->input[i]) && sl_onnx_name_by(im, n->input[i]))
			return;
	if (n->name && sl_onnx_scope(n->name, im->name, &last)) {
		const size_t used = strlen(im->name);

		if (!used || is_shared(im, n->name, last))
			snprintf(im->name + used, sizeof im->name - used, "%s%s", used ? "." : "", last);
		return;
	}
	if (len && len < SL_NAME_MAX)
		snprintf(im->name, sizeof im->name, "%.*s", (int)len, n->name);
	else
		snprintf(im->name, sizeof im->name, "%.60s_%zu", n->op_type, index);
}

static bool reads_attr(const struct sl_onnx_kind *kind, const char *name)
{
	const size_t len = strlen(name);
	const char *at = len ? kind->attrs : NULL;

	while (at && (at = strstr(at, name)) && ((at > kind->attrs && at[-1] != ' ') || (at[len] && at[len] != ' ')))
		at += len;
	return at;
}

static bool reads_unread(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v;

	for (size_t i = 0; i < im->node->n_input; i++)
		if (im->node->input[i][0] && (v = sl_onnx_find(im, im->node->input[i])) && v->unread)
			return true;
	return false;
}

/* Reads the node. False: it is refused, or one of its inputs is unread. */
static bool read_node(struct sl_onnx_import *im)
{
	const Onnx__Node *n = im->node;
	const bool standard = !n->domain || !n->domain[0] || strcmp(n->domain, "ai.onnx") == 0;
	const struct sl_onnx_kind *kind = standard ? sl_onnx_find_kind(n->op_type) : NULL;

	if (!kind) {
		sl_onnx_refuse_kind(im);
		return false;
	}
	if (reads_unread(im))
		return false;
	if (n->n_input < (size_t)kind->least_in || n->n_input > (size_t)kind->most_in)
		sl_onnx_refuse(im, "it has %zu inputs, where %d to %d are right", n->n_input, kind->least_in,
			       kind->most_in);
	for (size_t i = 0; i < n->n_attribute; i++) {
		const char *name = n->attribute[i]->name;

		if (!reads_attr(kind, name))
			sl_onnx_refuse(im, "its attribute %.60s is not read", name);
		for (size_t j = 0; j < i && !im->b->err; j++)
			if (strcmp(name, n->attribute[j]->name) == 0)
				sl_onnx_refuse(im, "its attribute %.60s is there twice", name);
	}
	im->op = kind->op;
	if (!im->b->err && !sl_onnx_read_recurrent(im) && !sl_onnx_read_mask(im))
		kind->read(im);
	im->b->param_name = NULL;
	return !im->b->err;
}

/* Marks outputs that the node did not make as unread. */
static void leave_unread(struct sl_onnx_import *im)
{
	const Onnx__Node *ends[] = {im->node, im->onnx->graph->node[im->end]};

	for (int e = 0; e < 2; e++)
		for (size_t i = 0; i < ends[e]->n_output; i++) {
			struct sl_onnx_value *v = ends[e]->output[i][0] ? sl_onnx_find(im, ends[e]->output[i]) : NULL;

			if (v && !v->known)
				v->known = v->unread = true;
		}
}

/* Whether the node makes a constant, or gives a parameter other dimensions. Such nodes are read first, because patterns
 * (onnx_patterns.c) look ahead for their outputs. */
static bool is_constant(struct sl_onnx_import *im, const Onnx__Node *n)
{
	static const char *const kinds[] = {"Constant", "Unsqueeze", "Transpose", "Cast", "Identity"};
	bool is = false;

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		is |= strcmp(kinds[i], n->op_type) == 0;
	for (size_t i = 0; i < n->n_input && is; i++) {
		const struct sl_onnx_value *v = sl_onnx_find(im, n->input[i]);

		is = v && v->known && v->value < 0 && !v->unread;
	}
	return is;
}

static void read_nodes(struct sl_onnx_import *im, const bool *live, bool constants)
{
	const Onnx__Graph *g = im->onnx->graph;
	struct sl_build *b = im->b;

	for (size_t i = 0; i < g->n_node && !b->err; i++) {
		if (!live[i] || im->done[i] || (constants && !is_constant(im, g->node[i])))
			continue;
		im->done[i] = constants;
		im->index = im->end = (int)i;
		im->flat = false;
		im->node = g->node[i];
		name_node(im, i);
		for (char *c = im->name; *c; c++) /* characters that names in our graph may have */
			*c = *c > ' ' && *c < 0x7f ? *c : '_';
		if (read_node(im))
			continue;
		if (b->err == SL_ERR_CONFIG) {
			sl_onnx_note_refusal(im);
			b->err = SL_OK;
		}
		leave_unread(im);
	}
}

/* The output as logits for each pixel: [batch, K, H, W] in the file, [H,W,K] with the input's H and W in our graph. */
static int pixels_of(struct sl_onnx_import *im, struct sl_onnx_value *v)
{
	const struct sl_shape in = sl_build_shape(im->b, SL_BUILD_INPUT);
	struct sl_shape out = sl_build_shape(im->b, v->value);
	int value = v->value;

	if (out.dim[out.ndim - 1] > SL_LEARN_IGNORED)
		sl_build_refuse(im->b, "a mask has at most %d classes, the network has %lld", SL_LEARN_IGNORED,
				(long long)out.dim[out.ndim - 1]);
	else if (v->view.n_axis == 4)
		value = sl_onnx_arrange_axes(im, v, (int[]){2, 3, 1}, 3, 1);
	if (!im->b->err)
		out = sl_build_shape(im->b, value);
	if (!im->b->err && (out.ndim != 4 || out.dim[1] != in.dim[1] || out.dim[2] != in.dim[2]))
		sl_build_refuse(im->b,
				"its output '%.96s' is not [batch, classes, height, width] of the input's height and "
				"width, as model.task: pixels needs it",
				im->onnx->out->name);
	return value;
}

/* Whether the file's output is a sigmoid's: probabilities, where the loss takes logits. */
static bool gives_probabilities(const struct sl_onnx_import *im)
{
	const Onnx__Graph *g = im->onnx->graph;

	for (size_t i = 0; i < g->n_node; i++)
		if (strcmp(g->node[i]->output[0], im->onnx->out->name) == 0)
			return strcmp(g->node[i]->op_type, "Sigmoid") == 0;
	return false;
}

static void read_output(struct sl_onnx_import *im)
{
	const struct sl_onnx_value *v = sl_onnx_find(im, im->onnx->out->name);
	int logits = v ? v->value : 0;

	if (im->b->err)
		return;
	if (!v || !v->known || v->value <= SL_BUILD_LABEL) {
		sl_build_refuse(im->b, "no node makes its output '%.96s'", im->onnx->out->name);
		return;
	}
	if (im->b->model->task->kind != SL_LEARN_NUMBER && gives_probabilities(im)) {
		sl_build_refuse(im->b,
				"its output '%.96s' is a sigmoid's: leave the sigmoid out at the end, the loss of "
				"model.task has it",
				im->onnx->out->name);
		return;
	}
	if (im->b->model->task->kind == SL_LEARN_PIXELS) {
		logits = pixels_of(im, sl_onnx_find(im, im->onnx->out->name));
	} else if (sl_onnx_per_token(im, v)) {
		sl_build_refuse(im->b,
				"its output '%.96s' is of every token: of a text's first token take x[:, 0], of all "
				"x.mean(1)",
				im->onnx->out->name);
	} else if (sl_build_shape(im->b, v->value).ndim != 2 || v->permuted || v->summed) {
		sl_build_refuse(
			im->b,
			"its output '%.96s' is not [batch, classes], as a linear layer makes it (of a class for "
			"each pixel give model.task: pixels)",
			im->onnx->out->name);
	}
	if (im->b->err)
		return;
	sl_onnx_units(im->b);
	sl_build_loss(im->b, "loss", logits);
}

/* Refuses folded weights, such as a convolution with its batch norm in evaluation: torch calls the folded tensor
 * "onnx::" and so on, a name that no module has. */
static void check_training(struct sl_onnx_import *im)
{
	for (int i = 0; i < im->onnx->n_init; i++) {
		const Onnx__Tensor *t = im->onnx->init[i];

		if (t->data_type == SL_ONNX_FLOAT && t->n_dims && strncmp(t->name, "onnx::", 6) == 0) {
			sl_build_refuse(im->b,
					"its tensor '%.96s' is no module's: the file is of a network in evaluation, or "
					"with folded constants, which would train another network; export with %s",
					t->name, sl_onnx_how);
			return;
		}
	}
}

/* Refuses rows that have not the number of tokens that the network mixes. */
static void check_whole(struct sl_onnx_import *im, int64_t whole_rows)
{
	if (!im->b->err && im->whole && im->tokens != whole_rows)
		sl_build_refuse(im->b,
				"it mixes the tokens of a row, so all rows need %lld: give data.pad: max, and leave "
				"model.tokens and data.max_length out, or make them %lld",
				(long long)im->tokens, (long long)im->tokens);
}

/* Reads the file, of a network of texts with im->whole = `whole`. True: it is to be read once more, with such rows. */
static bool import(struct sl_build *b, const struct sl_onnx *onnx, const struct sl_model_spec *spec, int64_t whole)
{
	struct sl_onnx_import im = {.onnx = onnx, .b = b, .pad = spec->pad, .world = -1, .whole = whole};
	bool again = false;
	bool *live = calloc(onnx->graph->n_node + 1, sizeof *live);

	im.refused = calloc(SL_ONNX_MOST_REFUSED, sizeof *im.refused);
	im.done = calloc(onnx->graph->n_node + 1, sizeof *im.done);
	b->err = live && im.refused && im.done ? list_values(&im, b->fail)
					       : sl_fail_set(b->fail, SL_ERR_NOMEM, "no memory for a network");
	if (!b->err)
		check_training(&im);
	if (!b->err) {
		if (im.tokens > whole) /* then no embedding could be read */
			check_whole(&im, spec->whole_rows);
		find_live(&im, live);
		sl_onnx_skip_weights(&im, live);
		read_nodes(&im, live, true);
		read_nodes(&im, live, false);
		again = !b->err && im.n_refused && im.tokens && !im.masked && !whole;
		if (!b->err && !again)
			sl_onnx_report_refusals(&im);
		if (!again)
			read_output(&im);
		check_whole(&im, spec->whole_rows);
	}
	free(live);
	free(im.value);
	free(im.param);
	free(im.refused);
	free(im.done);
	return again;
}

/* ---- the whole network */

enum sl_err sl_onnx_build(struct sl_model **out, const struct sl_onnx *onnx, const struct sl_model_spec *spec,
			  struct sl_fail *fail)
{
	struct sl_model_sizes s;
	struct sl_build b;
	enum sl_err err = sl_onnx_read_sizes(&s, onnx, fail);

	if (!err)
		err = sl_model_settle_sizes(&s, onnx->name, spec, fail);
	if (!err)
		err = sl_build_open_sized(&b, &s, onnx->name, spec, fail);
	if (err)
		return err;
	if (import(&b, onnx, spec, 0)) {
		sl_model_close(b.model);
		err = sl_build_open_sized(&b, &s, onnx->name, spec, fail);
		if (err)
			return err;
		(void)import(&b, onnx, spec, spec->whole_rows ? spec->whole_rows : spec->tokens);
	}
	return sl_build_finish(&b, out);
}

enum sl_err sl_onnx_open_model(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	struct sl_fail why = {0};
	struct sl_onnx *onnx;
	enum sl_err err = sl_onnx_open(&onnx, spec->onnx, &why);

	if (err)
		return sl_fail_at(fail, key, err, "%s", why.text);
	err = sl_onnx_build(out, onnx, spec, &why);
	sl_onnx_close(onnx);
	if (!err)
		return SL_OK;
	return why.key[0] ? sl_fail_at(fail, why.key, err, "%s", sl_fail_sentence(&why))
			  : sl_fail_at(fail, key, err, "%s: %s", spec->onnx, why.text);
}

/* ---- weights */

static enum sl_err read_weight(const struct sl_onnx *onnx, const char *name, const struct sl_file_param *p, float *out,
			       struct sl_fail *fail)
{
	const Onnx__Tensor *t = sl_onnx_find_init(onnx, name);
	char theirs[SL_ONNX_DIMS_TEXT], ours[SL_SHAPE_TEXT];
	bool same = t && t->data_type == SL_ONNX_FLOAT && (int)t->n_dims == p->shape.ndim;
	float *file_order;

	for (int i = 0; same && i < p->shape.ndim; i++)
		same = t->dims[i] == p->shape.dim[i];
	if (!same)
		return sl_fail_set(fail, SL_ERR_DATA, "tensor \"%s\" is %s in the file and %s in the model", name,
				   t ? sl_onnx_dims_text(t, theirs) : "not", sl_shape_text(&p->shape, ours));
	if (!out)
		return SL_OK;
	if (p->layout == SL_LAYOUT_SAME) {
		sl_onnx_read_f32(t, out);
		return SL_OK;
	}
	file_order = malloc((size_t)sl_onnx_count(t) * sizeof *file_order);
	if (!file_order)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to read \"%s\"", name);
	sl_onnx_read_f32(t, file_order);
	sl_param_from_file_order(p, file_order, out);
	free(file_order);
	return SL_OK;
}

enum sl_err sl_onnx_weights(const struct sl_model *model, const char *path, float *const *param, struct sl_fail *fail)
{
	struct sl_fail why = {0};
	struct sl_onnx *onnx;
	enum sl_err err = sl_onnx_open(&onnx, path, fail);

	if (err)
		return err;
	for (int i = 0; i < model->n_plain && !err; i++)
		err = read_weight(onnx, model->graph.param[i].name, &model->file[i], param ? param[i] : NULL, &why);
	sl_onnx_close(onnx);
	return err ? sl_fail_set(fail, err, "%s: %s", path, why.text) : SL_OK;
}
