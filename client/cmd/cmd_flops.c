#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "client/cmd/command.h"
#include "client/cmd/memory.h"
#include "client/setup/setup.h"
#include "common/base/wrap.h"
#include "common/exec/narrow.h"

static const char *const usage[] = {
	"splitc flops [CONFIG] [--set KEY=VALUE]… [--json]",
	"Prints multiply-accumulates (MACs; forward pass of one batch), parameters and the tensors at the cut.",
	"A convolution or linear layer counts one MAC per product, a batch norm two per element. A transposed "
	"convolution counts as if it read a complete window per output, which is more than it computes. The "
	"compress rate is that of the inserts: elements of both activations with inserts, divided by those without. "
	"For networks of tokens it also prints what a token costs, without padding: attention takes a product with "
	"each token of the row. In the batch's figures rows are as long as model.tokens, or with data.pad: max as "
	"data.max_length.",
	"Then it prints how much memory client and server take at most for the config, the server on a CPU. It does "
	"not count some 10 MB of each process, the client's samples, and ZeroMQ's queues.",
	"Where an insert decays, MACs are those of the first step; the final rate and all widths follow.",
	NULL,
};

static int64_t parameters(const struct sl_plan_segment *s)
{
	int64_t n = 0;

	for (int i = 0; i < s->n_param; i++)
		if (s->graph.param[s->param[i].graph_param].role != SL_STATISTIC)
			n += s->param[i].count;
	return n;
}

/* The compress rate of the inserts, by elements as in published tables, for the pass after `done` steps. Rows of
 * tokens have the most tokens. */
static double compress_rate(const struct sl_plan *plan, uint64_t done)
{
	double crosses = 0, plain = 0;

	for (int mid = 0; mid < 2; mid++) {
		const struct sl_shape shape = sl_plan_cut_shape_after(plan, mid, 1, done);
		const int64_t tokens = plan->spec.row_tokens;

		crosses += (double)sl_shape_count(&shape) * (double)sl_plan_cut_most_of_row(plan, mid);
		plain += (double)sl_plan_plain_count(plan, mid) * (double)(plan->plain_per_token[mid] ? tokens : 1);
	}
	return crosses / plain;
}

/* The shape that crosses a cut for a batch. Rows of tokens have the most tokens. */
static struct sl_shape crossing(const struct sl_plan *plan, bool mid)
{
	return sl_plan_cut_shape(plan, mid, plan->spec.batch * sl_plan_cut_most_of_row(plan, mid));
}

static bool decays(const struct sl_plan *plan)
{
	return plan->decay[0].full || plan->decay[1].full;
}

/* Multiply-accumulates of a segment once every decaying insert has fallen to its last width. */
static int64_t last_macs(const struct sl_plan *plan, const struct sl_plan_segment *s)
{
	int64_t macs = s->macs;

	for (int i = 0; i < s->n_op; i++) {
		const struct sl_segment_op *so = &s->op[i];
		const int64_t of_row = s->graph.value[so->op.out].lead == SL_PER_TOKEN ? plan->spec.row_tokens : 1;
		struct sl_op last;

		if (!so->narrows)
			continue;
		last = sl_narrowed(so, sl_narrow_decay(s, so), sl_narrow_decay(s, so)->times);
		macs -= (sl_op_macs(&so->op, 1) - sl_op_macs(&last, 1)) * of_row;
	}
	return macs;
}

/* Prints the rate at the end, and every width that decaying inserts have on the way. */
static void print_decay(const struct sl_plan *plan)
{
	static const char *const key[2] = {"insert.head", "insert.tail"};

	printf("falls to             %.4f\n\n", compress_rate(plan, UINT64_MAX));
	for (int cut = 0; cut < 2; cut++) {
		const struct sl_decay *d = &plan->decay[cut];
		int width[SL_DECAY_MAX_TIMES + 1], n = sl_decay_widths(d, width), at;
		int tokens[SL_DECAY_MAX_TIMES + 1];
		char text[64 + 24 * (SL_DECAY_MAX_TIMES + 1)];

		if (!d->full)
			continue;
		sl_decay_tokens(d, tokens);
		at = snprintf(text, sizeof text,
			      "features%s that cross, every %" PRId64 " step%s:", d->tokens ? " × tokens of a row" : "",
			      d->every, sl_plural(d->every));
		for (int i = sl_decay_falls(d, 0); i < n; i++) {
			at += snprintf(text + at, sizeof text - (size_t)at, " %d", width[i]);
			if (d->tokens)
				at += snprintf(text + at, sizeof text - (size_t)at, "×%d", tokens[i]);
		}
		sl_print_wrapped(stdout, text, printf("%s  ", key[cut]), SL_WRAP_WIDTH);
	}
}

/* MACs of a network of tokens: of each token, of each pair of tokens in attention, and once for each row. */
struct token_macs {
	int64_t token, pair, row;
	int64_t chosen; /* of a masked language model: of each masked token */
	float share;    /* the share of a row's tokens that is masked */
};

static struct token_macs of_tokens(const struct sl_plan *plan)
{
	struct token_macs macs = {0};

	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		const struct sl_graph *g = &plan->segment[i].graph;

		for (int k = 0; k < g->n_node; k++) {
			struct sl_op op = sl_graph_op(g, k);

			op.most = 1;
			if (op.kind == SL_OP_GATHER)
				macs.share = op.u.gather.share;
			if (g->value[g->link[g->node[k].in]].lead == SL_PER_CHOSEN)
				macs.chosen += sl_op_macs(&op, 1);
			else if (g->value[g->link[g->node[k].in]].lead != SL_PER_TOKEN)
				macs.row += sl_op_macs(&op, 1);
			else if (op.kind == SL_OP_ATTENTION)
				macs.pair += sl_op_macs(&op, 1);
			else
				macs.token += sl_op_macs(&op, 1);
		}
	}
	return macs;
}

/* MACs of a row of so many tokens. */
static int64_t row_macs(const struct token_macs *macs, int64_t tokens)
{
	const int64_t chosen = macs->share > 0 ? sl_plan_chosen_of((double)macs->share, tokens) : 0;

	return macs->row + chosen * macs->chosen + tokens * (macs->token + tokens * macs->pair);
}

static void print_tokens(const struct sl_plan *plan)
{
	const struct token_macs macs = of_tokens(plan);

	printf("a token              %.4e MACs, and %.4e for each token of its row\n", (double)macs.token,
	       (double)macs.pair);
	if (macs.chosen)
		printf("a masked token       %.4e more\n", (double)macs.chosen);
	printf("a row                %.4e beside its tokens; of %" PRId64 " tokens %.4e\n", (double)macs.row,
	       plan->spec.row_tokens, (double)row_macs(&macs, plan->spec.row_tokens));
}

static enum sl_err print_table(const struct sl_setup *setup, struct sl_fail *fail)
{
	const struct sl_plan *plan = setup->plan;
	struct sl_shape head = crossing(plan, false), tail = crossing(plan, true);
	struct sl_memory_need need;
	char text[SL_SHAPE_TEXT];
	enum sl_err err;
	int64_t macs = 0, params = 0;

	printf("%s, batch %" PRId64 ", %s\n\n", plan->model->name, plan->spec.batch, plan->cut.text);
	printf("%-8s %12s %14s\n", "part", "MACs", "parameters");
	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		const struct sl_plan_segment *s = &plan->segment[i];

		printf("%-8s %12.3e %14" PRId64 "\n", sl_segment_name((enum sl_segment)i),
		       (double)(s->macs * plan->spec.batch), parameters(s));
		macs += s->macs * plan->spec.batch;
		params += parameters(s);
	}
	printf("%-8s %12.3e %14" PRId64 "\n\n", "whole", (double)macs, params);
	printf("head_act, head_grad  %s  %.2f MB in fp32\n", sl_shape_text(&head, text),
	       (double)sl_shape_count(&head) * sizeof(float) / 1e6);
	printf("mid_act, mid_grad    %s  %.2f MB in fp32\n", sl_shape_text(&tail, text),
	       (double)sl_shape_count(&tail) * sizeof(float) / 1e6);
	if (plan->spec.row_tokens)
		print_tokens(plan);
	printf("compress rate        %.4f, of inserts alone: codecs come on top\n", compress_rate(plan, 0));
	if (decays(plan))
		print_decay(plan);
	putchar('\n');
	err = sl_memory_find(&need, setup, false, fail);
	if (!err)
		sl_memory_print(&need);
	return err;
}

static json_t *tokens_json(const struct sl_plan *plan)
{
	const struct token_macs macs = of_tokens(plan);

	if (!plan->spec.row_tokens)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "macs", (json_int_t)macs.token, "macs_per_pair",
			 (json_int_t)macs.pair, "masked_macs", (json_int_t)macs.chosen, "row_macs",
			 (json_int_t)macs.row, "row_tokens", (json_int_t)plan->spec.row_tokens, "padded_row_macs",
			 (json_int_t)row_macs(&macs, plan->spec.row_tokens));
}

static enum sl_err print_json(const struct sl_setup *setup, struct sl_fail *fail)
{
	const struct sl_plan *plan = setup->plan;
	struct sl_shape head = crossing(plan, false), tail = crossing(plan, true);
	struct sl_memory_need need;
	enum sl_err err = sl_memory_find(&need, setup, false, fail);
	json_t *root;

	if (err)
		return err;
	root = json_pack("{s:i, s:s, s:s, s:I}", "schema", 1, "model", plan->model->name, "cut", plan->cut.text,
			 "batch", (json_int_t)plan->spec.batch);
	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		const struct sl_plan_segment *s = &plan->segment[i];

		json_object_set_new(root, sl_segment_name((enum sl_segment)i),
				    json_pack("{s:I, s:I, s:I}", "macs", (json_int_t)(s->macs * plan->spec.batch),
					      "macs_end", (json_int_t)(last_macs(plan, s) * plan->spec.batch),
					      "parameters", (json_int_t)parameters(s)));
	}
	json_object_set_new(root, "head_act_elements", json_integer(sl_shape_count(&head)));
	json_object_set_new(root, "mid_act_elements", json_integer(sl_shape_count(&tail)));
	json_object_set_new(root, "tokens", tokens_json(plan));
	json_object_set_new(root, "compress_rate", json_real(compress_rate(plan, 0)));
	json_object_set_new(root, "compress_rate_end", json_real(compress_rate(plan, UINT64_MAX)));
	json_object_set_new(root, "memory", sl_memory_json(&need));
	sl_command_print_json(root, JSON_INDENT(2));
	return SL_OK;
}

int splitc_flops(int argc, char **argv)
{
	struct sl_options o = {.command = "flops", .usage = usage, .keys = &sl_conf_client_schema};
	struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	enum sl_err err;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_JSON, 1);

	if (status < 0)
		status = sl_options_load(&o, SL_USES_DEMO, &conf);
	if (status >= 0)
		return status;
	err = sl_setup_plan(&setup, &conf, &fail);
	if (!err)
		err = o.json ? print_json(&setup, &fail) : print_table(&setup, &fail);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
