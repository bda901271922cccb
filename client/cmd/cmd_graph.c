#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/setup/setup.h"
#include "common/base/wrap.h"
#include "common/graph/graph_text.h"

static const char *const usage[] = {
	"splitc graph [CONFIG [head|middle|tail]] [--set KEY=VALUE]… [--json|--text|--cuts]",
	"Prints the graphs of head, middle and tail, or one of them. The line of a node has its operation, the shape "
	"of its output, its learned parameters, and its multiply-accumulates (MACs). Shapes and MACs are of one row, "
	"and MACs of the forward pass.",
	"If an insert decays, the graph has its first widths.",
	"With --text it prints what the server sees of the network. docs/WIRE.md has the grammar.",
	"With --cuts it lists the config's cut and others. A line has the bytes of a batch's activations and gradients "
	"in fp32, and the part of all MACs in head, middle and tail. From line to line the client computes more and "
	"less crosses. cut_values says how many values may cross. Cuts whose head or tail has no parameters are left "
	"out.",
	NULL,
};

enum { ATTR_TEXT = 160, SPEC_TEXT = ATTR_TEXT + 16 };

/* The kind of a node, and the attributes that differ from their defaults: "conv2d pad=1 groups=32". */
static const char *describe(const struct sl_node *node, char out[SPEC_TEXT])
{
	const struct sl_attr *attr;
	int n = snprintf(out, SPEC_TEXT, "%s", sl_op_kind_name(node->kind));

	for (int i = 0; (attr = sl_op_attr(node->kind, i)) && n < SPEC_TEXT; i++) {
		const bool pair = attr->type == SL_ATTR_PAIR;
		const double x = sl_attr_get(node, attr, 0), y = pair ? sl_attr_get(node, attr, 1) : 0;
		char *at = out + n;
		const size_t room = SPEC_TEXT - (size_t)n;

		if (pair && (x != attr->standard || y != attr->standard))
			n += snprintf(at, room, " %s=%g,%g", attr->key, x, y);
		else if (attr->type == SL_ATTR_ACT)
			n += snprintf(at, room, " %s=%s", attr->key, sl_act_name((enum sl_act)x));
		else if (!pair && x != attr->standard)
			n += snprintf(at, room, " %s=%.6g", attr->key, x);
	}
	return out;
}

static int64_t learned(const struct sl_param *p)
{
	return p->role == SL_LEARNS ? sl_shape_count(&p->shape) : 0;
}

static int64_t parameters(const struct sl_graph *g, const struct sl_node *node)
{
	int64_t n = 0;

	for (int i = 0; i < node->n_param; i++)
		n += learned(&g->param[g->link[node->param + i]]);
	return n;
}

/* Slices of a part's input, where it is volumes; else 0. */
static int depth_of(const struct sl_plan *plan, enum sl_segment which)
{
	const struct sl_graph *before = which == SL_HEAD ? NULL : &plan->segment[which - 1].graph;

	return before ? sl_model_slices(before, before->out[0].value, depth_of(plan, which - 1))
		      : plan->model->depth[0];
}

/* The shape of one row, without the dimension of the rows: "[32,32,3]"; of volumes with their depth, "[8×32×32,3]". */
static const char *row_text(const struct sl_graph *g, int value, int depth, char out[SL_SHAPE_TEXT])
{
	const struct sl_shape *shape = &g->value[value].shape;
	const int slices = sl_model_slices(g, value, depth);
	struct sl_shape row = {.ndim = shape->ndim - 1};

	if (slices) {
		snprintf(out, SL_SHAPE_TEXT, "[%d×%" PRId64 "×%" PRId64 ",%" PRId64 "]", slices, shape->dim[1] / slices,
			 shape->dim[2], shape->dim[3]);
		return out;
	}
	memcpy(row.dim, shape->dim + 1, (size_t)row.ndim * sizeof row.dim[0]);
	return sl_shape_text(&row, out);
}

static void print_fields(const char *what, const struct sl_graph *g, const struct sl_field *field, int n, int depth)
{
	char text[SL_SHAPE_TEXT];

	for (int i = 0; i < n; i++)
		printf("%-44s %-30s %s\n", field[i].name, what, row_text(g, field[i].value, depth, text));
}

static void print_part(const struct sl_plan_segment *s, int depth)
{
	const struct sl_graph *g = &s->graph;
	char spec[SPEC_TEXT], shape[SL_SHAPE_TEXT];
	int64_t params = 0;

	printf("%-44s %-30s %-16s %12s %14s\n", sl_segment_name(s->which), "operation", "shape", "parameters", "MACs");
	print_fields("input", g, g->in, g->n_in, depth);
	for (int i = 0; i < g->n_node; i++) {
		const struct sl_node *node = &g->node[i];
		const struct sl_op op = sl_graph_op(g, i);

		printf("%-44s %-30s ", node->name, describe(node, spec));
		sl_print_cell(stdout, row_text(g, node->out, depth, shape), 0, 16);
		printf(" %12" PRId64 " %14" PRId64 "\n", parameters(g, node), sl_op_macs(&op, 1));
	}
	print_fields("output", g, g->out, g->n_out, depth);
	for (int i = 0; i < g->n_param; i++) /* each once, though several nodes may share it */
		params += learned(&g->param[i]);
	printf("%-44s %-30s %-16s %12" PRId64 " %14" PRId64 "\n\n", "together", "", "", params, s->macs);
}

/* A value's shape, of volumes [D, H, W, C]. */
static json_t *shape_json(const struct sl_graph *g, int value, int depth)
{
	const int slices = sl_model_slices(g, value, depth);
	struct sl_shape s = g->value[value].shape;
	const struct sl_shape *shape = &s;
	json_t *list = json_array();

	if (slices) {
		json_array_append_new(list, json_integer(slices));
		s.dim[1] /= slices;
	}
	for (int i = 1; i < shape->ndim; i++)
		json_array_append_new(list, json_integer(shape->dim[i]));
	return list;
}

static json_t *fields_json(const struct sl_graph *g, const struct sl_field *field, int n, int depth)
{
	json_t *list = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:s, s:o}", "name", field[i].name, "shape",
						      shape_json(g, field[i].value, depth)));
	return list;
}

static json_t *part_json(const struct sl_plan_segment *s, int depth)
{
	const struct sl_graph *g = &s->graph;
	json_t *nodes = json_array();
	char spec[SPEC_TEXT];

	for (int i = 0; i < g->n_node; i++) {
		const struct sl_node *node = &g->node[i];
		const struct sl_op op = sl_graph_op(g, i);

		json_array_append_new(nodes, json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", node->name, "operation",
						       describe(node, spec), "shape", shape_json(g, node->out, depth),
						       "parameters", (json_int_t)parameters(g, node), "macs",
						       (json_int_t)sl_op_macs(&op, 1)));
	}
	return json_pack("{s:o, s:o, s:o}", "inputs", fields_json(g, g->in, g->n_in, depth), "nodes", nodes, "outputs",
			 fields_json(g, g->out, g->n_out, depth));
}

/* `only`: a part; SL_SEGMENT_COUNT: all. */
static void print_graphs(const struct sl_plan *plan, enum sl_segment only, bool as_json)
{
	json_t *root =
		as_json ? json_pack("{s:i, s:s, s:s}", "schema", 1, "model", plan->model->name, "cut", plan->cut.text)
			: NULL;

	if (!as_json)
		printf("%s, %s\n\n", plan->model->name, plan->cut.text);
	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		const enum sl_segment which = (enum sl_segment)i;

		if (only != SL_SEGMENT_COUNT && only != which)
			continue;
		if (as_json)
			json_object_set_new(root, sl_segment_name(which),
					    part_json(&plan->segment[i], depth_of(plan, which)));
		else
			print_part(&plan->segment[i], depth_of(plan, which));
	}
	if (as_json)
		sl_command_print_json(root, JSON_INDENT(2));
}

enum { MOST_CUTS = 64 };

static int percent(const struct sl_cut_price *p, enum sl_segment part)
{
	const double all = p->macs[SL_HEAD] + p->macs[SL_MIDDLE] + p->macs[SL_TAIL];

	return (int)lround(all > 0 ? 100 * p->macs[part] / all : 0);
}

/* Bytes of a batch: activations and gradients at both cuts. */
static double batch_bytes(const struct sl_plan *plan, const struct sl_cut_price *p)
{
	return 2 * sizeof(float) * p->floats * (double)plan->spec.batch;
}

static void print_cuts_json(const struct sl_plan *plan, const struct sl_cut_price *list, int n)
{
	json_t *cuts = json_array();

	for (int i = 0; i < n; i++)
		json_array_append_new(cuts,
				      json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:i, s:i}", "cut", list[i].cut.text,
						"bytes", (json_int_t)batch_bytes(plan, &list[i]), "head_macs",
						(json_int_t)list[i].macs[SL_HEAD], "middle_macs",
						(json_int_t)list[i].macs[SL_MIDDLE], "tail_macs",
						(json_int_t)list[i].macs[SL_TAIL], "up", list[i].cut.n_up, "down",
						list[i].cut.n_down, "home", list[i].cut.n_home));
	sl_command_print_json(json_pack("{s:i, s:s, s:i, s:o}", "schema", 1, "model", plan->model->name, "batch",
					(int)plan->spec.batch, "cuts", cuts),
			      JSON_INDENT(2));
}

/* The first line is the config's cut. */
static enum sl_err print_cuts(const struct sl_setup *setup, bool as_json, struct sl_fail *fail)
{
	const struct sl_plan *plan = setup->plan;
	const int64_t tokens = plan->spec.row_tokens ? plan->spec.row_tokens : 1;
	struct sl_cut_price list[MOST_CUTS];
	int n;

	if (sl_cut_list(&plan->cut, plan->model, setup->conf->cut_values, tokens, list, MOST_CUTS, &n))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory to look for cuts");
	if (as_json) {
		print_cuts_json(plan, list, n);
		return SL_OK;
	}
	printf("%s, batches of %" PRId64 ", %s\n\n%12s %6s %6s %6s %3s %5s %5s  %s\n", plan->model->name,
	       plan->spec.batch, plan->cut.text, "MB a batch", "head", "middle", "tail", "up", "down", "home", "cut");
	for (int i = 0; i < n; i++)
		printf("%12.3f %4d %% %4d %% %4d %% %3d %5d %5d  %s%s\n", batch_bytes(plan, &list[i]) / 1e6,
		       percent(&list[i], SL_HEAD), percent(&list[i], SL_MIDDLE), percent(&list[i], SL_TAIL),
		       list[i].cut.n_up, list[i].cut.n_down, list[i].cut.n_home, list[i].cut.text,
		       i ? "" : "  (this config)");
	return SL_OK;
}

static void put(void *file, const char *text, size_t len)
{
	fwrite(text, 1, len, file);
}

/* The part of this name; SL_SEGMENT_COUNT: no name was given; -1: there is no such part. */
static int named_part(const char *name)
{
	if (!name)
		return SL_SEGMENT_COUNT;
	for (int i = 0; i < SL_SEGMENT_COUNT; i++)
		if (strcmp(name, sl_segment_name((enum sl_segment)i)) == 0)
			return i;
	return -1;
}

int splitc_graph(int argc, char **argv)
{
	struct sl_options o = {.command = "graph", .usage = usage, .keys = &sl_conf_client_schema};
	struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_JSON | SL_OPT_GRAPH, 2), part;

	if (status >= 0)
		return status;
	part = named_part(o.operand);
	if (part < 0)
		return sl_command_refuse("graph: %.40s is not a part: name head, middle or tail", o.operand);
	if (o.json && o.text)
		return sl_command_refuse("graph: give --json or --text, not both");
	if (o.cuts && (o.text || o.operand))
		return sl_command_refuse("graph: --cuts goes with a CONFIG and --json alone");
	status = sl_options_load(&o, SL_USES_DEMO, &conf);
	if (status >= 0)
		return status;
	if (sl_setup_plan(&setup, &conf, &fail) != SL_OK)
		status = sl_command_failed(&fail);
	else if (o.cuts && print_cuts(&setup, o.json, &fail) != SL_OK)
		status = sl_command_failed(&fail);
	else if (o.cuts)
		status = 0;
	else if (o.text)
		sl_graph_write(&setup.plan->segment[part == SL_SEGMENT_COUNT ? SL_MIDDLE : part].graph, put, stdout);
	else
		print_graphs(setup.plan, (enum sl_segment)part, o.json);
	sl_setup_close(&setup);
	return status < 0 ? 0 : status;
}
