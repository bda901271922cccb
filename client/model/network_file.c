/* Networks in safetensors files. A file's graph is copied into a model, whose loss is that of the config's task. */
#include "client/model/network_file.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/graph/graph_text.h"
#include "common/graph/model_impl.h"

static const char key[] = "model.network", graph_key[] = "split.graph", about_key[] = "split.network";
/* The note's words for layouts; of HWC_FROM_CHW it has the number of channels. */
static const char *const layout_word[] = {
	[SL_LAYOUT_OHWI_FROM_OIHW] = "oihw", [SL_LAYOUT_HWC_FROM_C1HW] = "chw", [SL_LAYOUT_OHWI_FROM_OIDHW] = "oidhw"};
enum { LAYOUT_WORDS = sizeof layout_word / sizeof layout_word[0] };

/* The parts of an open file. The last node of the graph is its loss. */
struct network {
	const struct sl_st_file *file;
	struct sl_graph graph;
	json_t *about;
	struct sl_model_sizes sizes;
};

/* Whether the input is of a known form. Of several, each has a name of its own, and none is tokens. */
static bool is_input(const struct sl_graph *g, int k)
{
	static const struct {
		const char *name;
		enum sl_dtype dtype;
		enum sl_lead lead;
		int ndim;
	} form[] = {
		{"image", SL_F32, SL_PER_ROW, 4}, {"row", SL_F32, SL_PER_ROW, 2}, {"tokens", SL_I32, SL_PER_TOKEN, 1}};
	bool known = false;

	for (size_t i = 0; i < (g->n_in > 2 ? 2 : sizeof form / sizeof form[0]); i++)
		known = known || ((g->n_in > 2 || strcmp(g->in[k].name, form[i].name) == 0) &&
				  g->value[k].dtype == form[i].dtype && g->value[k].lead == form[i].lead &&
				  g->value[k].shape.ndim == form[i].ndim);
	for (int i = 0; i < k; i++)
		known = known && strcmp(g->in[i].name, g->in[k].name) != 0;
	return known;
}

/* Checks the form of the graph: inputs, of which the second is the labels, and one loss behind all other nodes. */
static bool is_network(const struct sl_graph *g)
{
	bool fits = true, known = true;

	if (g->n_in < 2 || g->n_in > SL_CUT_VALUES + 1 || g->n_out != 1 || g->n_node < 2)
		return false;
	for (int i = 0; i < g->n_in; i++) /* what only the graphs of a split network have */
		fits = fits && !g->in[i].still && !g->in[i].decay.full;
	fits = fits && !g->out[0].decay.full;
	for (int i = 0; i < g->n_in; i++)
		known = known && (i == SL_BUILD_LABEL || is_input(g, i));
	for (int i = 0; i < g->n_node; i++)
		fits = fits && (g->node[i].kind == SL_OP_XENT || g->node[i].kind == SL_OP_MSE) == (i == g->n_node - 1);
	for (int i = 0; i < g->n_param; i++)
		fits = fits && g->param[i].role != SL_TIED && !g->param[i].group && !g->param[i].held;
	return fits && known && g->link[g->node[g->n_node - 1].in] >= g->n_in;
}

static const struct sl_graph_value *logits_of(const struct sl_graph *g)
{
	return &g->value[g->link[g->node[g->n_node - 1].in]];
}

/* The token of the note; -1: there is none that the network knows. */
static int32_t token_of(const json_t *value, int vocab)
{
	const json_int_t token = json_is_integer(value) ? json_integer_value(value) : -1;

	return token >= 0 && token < vocab ? (int32_t)token : -1;
}

/* Token ids are below the rows of the smallest table that they choose from. */
static void read_tokens(struct network *n)
{
	const struct sl_graph *g = &n->graph;
	const json_t *about = json_object_get(n->about, "tokens"), *end = json_object_get(about, "end");
	struct sl_model_takes *t = &n->sizes.takes;

	t->vocab = SL_MODEL_MAX_VOCAB + 1;
	for (int i = 0; i < g->n_node; i++) {
		const struct sl_embedding_attr *e = &g->node[i].u.embedding;

		if (g->node[i].kind == SL_OP_EMBEDDING && !e->position && !e->segment && e->rows < t->vocab)
			t->vocab = (int)e->rows;
	}
	t->tokens = n->sizes.tokens = g->in[0].most;
	n->sizes.vocab = t->vocab;
	t->decoder = n->sizes.task == &sl_learn_tasks[SL_LEARN_NEXT];
	t->mark = token_of(json_object_get(about, "mark"), t->vocab);
	t->types = t->mark >= 0;
	t->learned_end = token_of(json_object_get(about, "learned_end"), t->vocab);
	for (size_t i = 0; i < json_array_size(end) && i < sizeof t->end / sizeof t->end[0]; i++)
		t->end[t->n_end++] = token_of(json_array_get(end, i), t->vocab);
}

/* Slices of the input, or with `which` 1 of the output, which the note has of volumes. */
static int depth_of(const struct network *n, size_t which)
{
	const json_int_t d = json_integer_value(json_array_get(json_object_get(n->about, "depth"), which));

	return d > 0 && d <= INT_MAX ? (int)d : 0;
}

static bool read_sizes(struct network *n, int input)
{
	const struct sl_shape *in = &n->graph.value[input].shape, *to = &logits_of(&n->graph)->shape;
	const char *task = json_string_value(json_object_get(n->about, "task"));
	struct sl_model_sizes *s = &n->sizes;

	*s = (struct sl_model_sizes){0};
	for (int i = 0; task && i < SL_LEARN_COUNT; i++)
		if (strcmp(sl_learn_tasks[i].name, task) == 0)
			s->task = &sl_learn_tasks[i];
	if (to->dim[to->ndim - 1] > SL_MODEL_MAX_VOCAB || (in->ndim == 2 && in->dim[1] > SL_MODEL_MAX_FEATURES))
		return false;
	s->classes = (int)to->dim[to->ndim - 1];
	if (in->ndim == 1)
		read_tokens(n);
	else if (in->ndim == 2)
		s->features = s->channels = (int)in->dim[1];
	else
		s->height = (int)in->dim[1], s->width = (int)in->dim[2], s->channels = (int)in->dim[3],
		s->depth = depth_of(n, 0);
	return s->vocab <= SL_MODEL_MAX_VOCAB;
}

/* Whether the note says of each input what it looks up, if there are lookups. */
static bool says_ids(const struct network *n)
{
	const json_t *ids = json_object_get(n->about, "ids"), *rows, *row;
	const char *name;
	bool looks_up = false, fits = true;
	size_t i;

	for (int k = 0; k < n->graph.n_node; k++)
		looks_up = looks_up || n->graph.node[k].kind == SL_OP_LOOKUP;
	json_object_foreach((json_t *)ids, name, rows)
	{
		const int k = sl_model_input(&n->graph, name);

		fits = fits && k >= 0 && n->graph.value[k].shape.ndim == 2 &&
		       (int64_t)json_array_size(rows) == n->graph.value[k].shape.dim[1];
		json_array_foreach(rows, i, row) fits = fits && json_is_integer(row) && json_integer_value(row) >= 0 &&
							json_integer_value(row) <= SL_LOOKUP_MOST;
	}
	return fits && looks_up == (json_object_size(ids) > 0);
}

static void network_close(struct network *n)
{
	sl_graph_close(&n->graph);
	json_decref(n->about);
}

static enum sl_err network_open(struct network *n, const struct sl_st_file *file, struct sl_fail *fail)
{
	const char *text = sl_st_metadata(file, graph_key), *about = sl_st_metadata(file, about_key);
	struct sl_fail why = {0};
	enum sl_err err;

	*n = (struct network){.file = file};
	if (!text)
		return sl_fail_set(fail, SL_ERR_DATA,
				   "it has weights and no network: `splitc export` and split.write_network write files "
				   "with both; weights alone are named by model.weights");
	err = sl_graph_read(&n->graph, text, strlen(text), &why);
	if (err)
		return sl_fail_set(fail, err == SL_ERR_NOMEM ? err : SL_ERR_DATA, "its graph: %s", why.text);
	n->about = about ? json_loads(about, JSON_REJECT_DUPLICATES, NULL) : json_object();
	if (json_is_object(n->about) && is_network(&n->graph) && read_sizes(n, SL_BUILD_INPUT) && says_ids(n))
		return SL_OK;
	err = sl_fail_set(fail, SL_ERR_DATA,
			  json_is_object(n->about) && !says_ids(n)
				  ? "its note split.network does not say which numbers of a row are ids, as its graph "
				    "has lookups"
			  : json_is_object(n->about)
				  ? "its graph does not lead from an image, a row or tokens of known sizes to a loss"
				  : "its note split.network is no JSON object");
	network_close(n);
	return err;
}

/* Sets n->sizes by the input of that name. */
static enum sl_err choose_input(struct network *n, const char *input, struct sl_fail *fail)
{
	const int k = input ? sl_model_input(&n->graph, input) : SL_BUILD_INPUT;

	if (input && k < 0)
		return sl_fail_at(fail, "share.inputs", SL_ERR_CONFIG, "the network has no input %.64s", input);
	return read_sizes(n, k) ? SL_OK
				: sl_fail_set(fail, SL_ERR_DATA, "input %s has too many features", n->graph.in[k].name);
}

enum sl_err sl_network_file_sizes(struct sl_model_sizes *out, const char *path, const char *input, struct sl_fail *fail)
{
	struct sl_fail why = {0};
	struct sl_st_file *file;
	struct network n;
	enum sl_err err = sl_st_open(&file, path, fail);

	if (err)
		return err;
	err = network_open(&n, file, &why);
	sl_st_close(file);
	if (err)
		return sl_fail_set(fail, err, "%s: %s", path, why.text);
	err = choose_input(&n, input, fail);
	*out = n.sizes;
	network_close(&n);
	return err;
}

enum sl_err sl_network_file_rooms(int **out, int *n, const char *path, const char *input, struct sl_fail *fail)
{
	struct sl_fail why = {0};
	struct sl_st_file *file;
	struct network of;
	const json_t *rows;
	enum sl_err err = sl_st_open(&file, path, fail);

	if (err)
		return err;
	err = network_open(&of, file, &why);
	sl_st_close(file);
	if (err)
		return sl_fail_set(fail, err, "%s: %s", path, why.text);
	rows = json_object_get(json_object_get(of.about, "ids"), input ? input : of.graph.in[0].name);
	*n = (int)json_array_size(rows);
	*out = *n ? malloc((size_t)*n * sizeof **out) : NULL;
	for (int i = 0; i < *n && *out; i++)
		(*out)[i] = (int)json_integer_value(json_array_get(rows, (size_t)i));
	network_close(&of);
	return *n && !*out ? sl_fail_set(fail, SL_ERR_NOMEM, "no memory for ids of columns") : SL_OK;
}

/* ---- the graph */

static void refuse(struct sl_build *b, const char *name, const char *why)
{
	if (!b->err)
		b->err = sl_fail_set(b->fail, SL_ERR_DATA, "tensor \"%.96s\" %s", name, why);
}

/* The order of a parameter in the file, which the note names. */
static bool read_layout(const struct network *n, const struct sl_param *p, struct sl_made_param *made)
{
	const json_t *said = json_object_get(json_object_get(n->about, "layout"), p->name);
	const int64_t last = p->shape.dim[p->shape.ndim - 1];
	const char *word = json_string_value(said);

	if (json_is_integer(said)) {
		made->layout = SL_LAYOUT_HWC_FROM_CHW;
		made->channels = json_integer_value(said);
		return made->channels > 0 && made->file.ndim == 2 && made->file.dim[1] % made->channels == 0;
	}
	for (int i = 0; word && i < LAYOUT_WORDS; i++)
		if (layout_word[i] && strcmp(word, layout_word[i]) == 0)
			made->layout = (enum sl_param_layout)i;
	if (made->layout == SL_LAYOUT_OHWI_FROM_OIDHW || made->channels) {
		const int64_t *file = made->file.dim, *memory = p->shape.dim;

		return made->layout == SL_LAYOUT_OHWI_FROM_OIDHW && made->channels && p->shape.ndim == 4 &&
		       file[0] == memory[0] && file[3] == memory[1] * memory[2] && made->channels == memory[2];
	}
	return made->layout == SL_LAYOUT_SAME ? !said
					      : made->file.dim[made->layout == SL_LAYOUT_OHWI_FROM_OIHW] == last;
}

static void copy_param(struct sl_build *b, const struct network *n, struct sl_draft *d, const struct sl_param *p)
{
	const struct sl_st_tensor *t = sl_st_find(n->file, p->name);
	struct sl_made_param made = {.suffix = "", .shape = p->shape, .init = p->init, .role = p->role};

	if (!t || t->ndim < 1 || t->ndim > SL_MAX_DIMS + 1 || t->count != sl_shape_count(&p->shape)) {
		refuse(b, p->name, t ? "does not have the parameter's size" : "is missing");
		return;
	}
	made.file = (struct sl_shape){t->ndim, {1, 1, 1, 1}};
	if (t->ndim > SL_MAX_DIMS) { /* of volumes: the plane of the kernel is one dimension here */
		made.file.ndim = SL_MAX_DIMS;
		made.channels = t->dim[SL_MAX_DIMS];
	}
	memcpy(made.file.dim, t->dim, (size_t)made.file.ndim * sizeof t->dim[0]);
	if (t->ndim > SL_MAX_DIMS)
		made.file.dim[SL_MAX_DIMS - 1] *= made.channels;
	if (!read_layout(n, p, &made))
		refuse(b, p->name, "does not have the layout that its note split.network names");
	sl_draft_param(b, d, &made);
}

/* The names of several inputs, and those behind the labels. */
static void add_inputs(struct sl_build *b, const struct sl_graph *g)
{
	snprintf(b->graph->in[0].name, sizeof b->graph->in[0].name, "%s", g->in[0].name);
	for (int k = SL_BUILD_LABEL + 1; k < g->n_in && !b->err; k++)
		b->err = sl_graph_add_input(b->graph, g->in[k].name, SL_F32, SL_PER_ROW, g->value[k].shape, 1, NULL,
					    b->fail);
}

static void copy_node(struct sl_build *b, const struct network *n, const struct sl_node *node)
{
	const struct sl_graph *g = &n->graph;
	struct sl_draft d = sl_draft_like(b, node, node->name, g->link[node->in]);
	const char *name[SL_OP_MAX_PARAM];

	for (int i = 1; i < node->n_in; i++)
		d.in[d.node.n_in++] = g->link[node->in + i];
	for (int i = 0; i < node->n_param; i++)
		name[i] = g->param[g->link[node->param + i]].name;
	b->param_name = name;
	for (int i = 0; i < node->n_param; i++)
		copy_param(b, n, &d, &g->param[g->link[node->param + i]]);
	b->param_name = NULL;
	(void)sl_draft_finish(b, &d);
}

/* The units that the note lists, [[name, first node], …], or else one for each layer. */
static void set_units(struct sl_build *b, const struct network *n)
{
	const json_t *list = json_object_get(n->about, "units"), *unit;
	size_t i;

	if (!list)
		sl_model_units(b);
	json_array_foreach(list, i, unit)
	{
		const char *name = json_string_value(json_array_get(unit, 0));
		const json_t *first = json_array_get(unit, 1);
		const json_int_t at = json_is_integer(first) ? json_integer_value(first) : -1;

		if (b->err)
			return;
		if (!name || at < (i ? b->model->unit[i - 1].first_node + 1 : 0) || at >= b->graph->n_node ||
		    (!i && at))
			b->err = sl_fail_set(b->fail, SL_ERR_DATA, "unit %zu is out of order", i + 1);
		else
			sl_build_unit_at(b, name, (int)at);
	}
}

/* Refuses rows of another length where the network mixes the tokens of a row, another padding than the one that it was
 * converted with, and probabilities as logits. */
static enum sl_err check_use(const struct network *n, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const struct sl_graph *g = &n->graph;
	const json_t *pad = json_object_get(n->about, "pad");
	const struct sl_node *last = &g->node[logits_of(g)->maker];

	if (last->kind == SL_OP_SIGMOID && sl_model_task(spec)->kind != SL_LEARN_NUMBER)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "it ends with a sigmoid: leave that out, the loss of model.task has it");
	if (logits_of(g)->shape.ndim == 4 && sl_model_task(spec)->kind != SL_LEARN_PIXELS)
		return sl_fail_set(fail, SL_ERR_CONFIG, "it has a class for each pixel: give model.task: pixels");
	if (json_is_integer(pad) && spec->pad >= 0 && json_integer_value(pad) != spec->pad)
		return sl_fail_set(
			fail, SL_ERR_CONFIG,
			"it tells token %lld from others, as padding, and data.tokenizer pads with %d: export it "
			"with a mask as the second input",
			(long long)json_integer_value(pad), (int)spec->pad);
	for (int i = 0; i < g->n_node; i++)
		if (g->node[i].kind == SL_OP_TRANSPOSE && g->node[i].u.transpose.tokens &&
		    spec->whole_rows != g->node[i].u.transpose.tokens)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "it mixes the tokens of a row, so all rows need %d: give data.pad: max, and "
					   "leave model.tokens and data.max_length out, or make them %d",
					   g->node[i].u.transpose.tokens, g->node[i].u.transpose.tokens);
	return SL_OK;
}

enum sl_err sl_network_file_build(struct sl_model **out, const struct sl_st_file *file, const char *name,
				  const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const char *prefix;
	struct sl_build b;
	struct network n;
	enum sl_err err = network_open(&n, file, fail);

	if (err)
		return err;
	err = choose_input(&n, spec->input, fail);
	if (!err)
		err = sl_model_settle_sizes(&n.sizes, name, spec, fail);
	if (!err)
		err = check_use(&n, spec, fail);
	if (!err && spec->input)
		err = choose_input(&n, NULL,
				   fail); /* the network begins with its first input, whichever the data give */
	if (!err)
		err = sl_build_open_sized(&b, &n.sizes, name, spec, fail);
	if (!err) {
		add_inputs(&b, &n.graph);
		for (int i = 0; i < n.graph.n_node - 1 && !b.err; i++)
			copy_node(&b, &n, &n.graph.node[i]);
		prefix = json_string_value(json_object_get(n.about, "prefix"));
		for (int i = 0; i < 2 && !b.err; i++)
			b.model->depth[i] = depth_of(&n, i);
		if (!b.err && json_object_get(n.about, "ids"))
			b.model->ids = json_dumps(json_object_get(n.about, "ids"), JSON_COMPACT);
		if (!b.err && prefix)
			sl_build_name(&b, b.model->prefix, prefix, "");
		if (!b.err)
			set_units(&b, &n);
		sl_build_loss(&b, n.graph.node[n.graph.n_node - 1].name, (int)(logits_of(&n.graph) - n.graph.value));
		err = sl_build_finish(&b, out);
	}
	network_close(&n);
	return err;
}

enum sl_err sl_network_file_open(struct sl_model **out, const struct sl_model_spec *spec, struct sl_fail *fail)
{
	const char *slash = strrchr(spec->network, '/');
	char name[SL_NAME_MAX];
	struct sl_fail why = {0};
	struct sl_st_file *file;
	enum sl_err err = sl_st_open(&file, spec->network, &why);

	if (err)
		return sl_fail_at(fail, key, err, "%s", why.text);
	snprintf(name, sizeof name, "%.*s", SL_NAME_MAX - 1, slash ? slash + 1 : spec->network);
	err = sl_network_file_build(out, file, name, spec, &why);
	sl_st_close(file);
	if (!err)
		return SL_OK;
	return why.key[0] && strncmp(why.key, "node ", 5) != 0
		       ? sl_fail_at(fail, why.key, err, "%s", sl_fail_sentence(&why))
		       : sl_fail_at(fail, key, err, "%s: %s", spec->network, why.text);
}

/* ---- the notes */

static void append(void *arg, const char *text, size_t len)
{
	fwrite(text, 1, len, arg);
}

/* The graph's text, of parameters in fp32; NULL: no memory. */
static char *text_of(const struct sl_graph *from)
{
	struct sl_graph g = *from;
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	g.param = calloc((size_t)g.n_param + 1, sizeof *g.param);
	for (int i = 0; g.param && i < g.n_param; i++) {
		g.param[i] = from->param[i];
		if (g.param[i].held)
			g.param[i] = (struct sl_param){.shape = from->param[i].shape};
		memcpy(g.param[i].name, from->param[i].name, SL_NAME_MAX);
	}
	if (g.param && file)
		sl_graph_write(&g, append, file);
	free(g.param);
	return file && fclose(file) == 0 ? text : NULL;
}

static json_t *tokens_of(const struct sl_model_takes *takes)
{
	json_t *tokens = json_object(), *end = json_array();

	if (takes->types)
		json_object_set_new(tokens, "mark", json_integer(takes->mark));
	if (takes->decoder && takes->learned_end >= 0)
		json_object_set_new(tokens, "learned_end", json_integer(takes->learned_end));
	for (int i = 0; i < takes->n_end; i++)
		json_array_append_new(end, json_integer(takes->end[i]));
	json_object_set_new(tokens, "end", end);
	return tokens;
}

enum sl_err sl_network_notes_make(struct sl_st_note note[SL_NETWORK_NOTES], const struct sl_model *m,
				  const struct sl_model_takes *takes, struct sl_fail *fail)
{
	struct sl_graph plain = m->graph;
	json_t *about = json_object(), *units = json_array(), *layout = json_object();

	plain.n_param = m->n_plain;
	for (int i = 0; i < m->n_unit; i++)
		json_array_append_new(units, json_pack("[s, i]", m->unit[i].name, m->unit[i].first_node));
	for (int i = 0; i < m->n_plain; i++)
		if (m->file[i].layout == SL_LAYOUT_HWC_FROM_CHW)
			json_object_set_new(layout, m->graph.param[i].name, json_integer(m->file[i].channels));
		else if (m->file[i].layout != SL_LAYOUT_SAME)
			json_object_set_new(layout, m->graph.param[i].name,
					    json_string(layout_word[m->file[i].layout]));
	json_object_set_new(about, "task", json_string(m->task->name));
	json_object_set_new(about, "units", units);
	json_object_set_new(about, "layout", layout);
	if (m->depth[0] || m->depth[1])
		json_object_set_new(about, "depth", json_pack("[i, i]", m->depth[0], m->depth[1]));
	if (m->ids)
		json_object_set_new(about, "ids", json_loads(m->ids, 0, NULL));
	if (m->prefix[0])
		json_object_set_new(about, "prefix", json_string(m->prefix));
	if (m->vocab)
		json_object_set_new(about, "tokens", tokens_of(takes));
	note[0] = (struct sl_st_note){graph_key, text_of(&plain)};
	note[1] = (struct sl_st_note){about_key, json_dumps(about, JSON_COMPACT)};
	json_decref(about);
	if (note[0].value && note[1].value)
		return SL_OK;
	sl_network_notes_free(note);
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a graph");
}

void sl_network_notes_free(struct sl_st_note note[SL_NETWORK_NOTES])
{
	for (int i = 0; i < SL_NETWORK_NOTES; i++) {
		free((char *)note[i].value);
		note[i].value = NULL;
	}
}
