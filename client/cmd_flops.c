#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "client/command.h"
#include "client/setup.h"

static const char *const usage[] = {
	"splitc flops CONFIG [--set key=value]… [--json]",
	"Multiply-accumulates (forward, of one batch), parameters and tensors at the cut.",
	"Counted as seed 002 does: one per product of a convolution or linear layer, two per element of a",
	"batch norm; a transposed convolution as one that reads a whole window per output, which is more than it",
	"computes. The compress rate is that of the inserts: elements of both activations over what they were.",
	NULL,
};

static int64_t parameters(const struct sl_plan *plan, const struct sl_plan_segment *s)
{
	int64_t n = 0;

	for (int i = 0; i < s->n_param; i++)
		if (plan->model->param[s->param[i].model_param].trainable)
			n += s->param[i].count;
	return n;
}

/* Of the inserts: by elements, as seeds 002 and 003 have it. */
static double compress_rate(const struct sl_plan *plan)
{
	return (double)(sl_plan_cut_count(plan, false) + sl_plan_cut_count(plan, true)) /
	       (double)(sl_plan_plain_count(plan, false) + sl_plan_plain_count(plan, true));
}

static void print_table(const struct sl_plan *plan)
{
	struct sl_shape head = sl_plan_cut_shape(plan, false, plan->spec.batch);
	struct sl_shape tail = sl_plan_cut_shape(plan, true, plan->spec.batch);
	char text[SL_SHAPE_TEXT];
	int64_t macs = 0, params = 0;

	printf("%s, batch %" PRId64 ", %s\n\n", plan->model->name, plan->spec.batch, plan->cut.text);
	printf("%-8s %12s %14s\n", "part", "MACs", "parameters");
	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		const struct sl_plan_segment *s = &plan->segment[i];

		printf("%-8s %12.3e %14" PRId64 "\n", sl_segment_name((enum sl_segment)i),
		       (double)(s->macs * plan->spec.batch), parameters(plan, s));
		macs += s->macs * plan->spec.batch;
		params += parameters(plan, s);
	}
	printf("%-8s %12.3e %14" PRId64 "\n\n", "whole", (double)macs, params);
	printf("head_act, head_grad  %s  %.2f MiB\n", sl_shape_text(&head, text),
	       (double)sl_shape_count(&head) * sizeof(float) / 0x1p20);
	printf("mid_act, mid_grad    %s  %.2f MiB\n", sl_shape_text(&tail, text),
	       (double)sl_shape_count(&tail) * sizeof(float) / 0x1p20);
	printf("compress rate        %.4f\n", compress_rate(plan));
}

static int print_json(const struct sl_plan *plan)
{
	json_t *root = json_pack("{s:i, s:s, s:s, s:I}", "schema", 1, "model", plan->model->name, "cut", plan->cut.text,
				 "batch", (json_int_t)plan->spec.batch);
	struct sl_shape head = sl_plan_cut_shape(plan, false, plan->spec.batch);
	struct sl_shape tail = sl_plan_cut_shape(plan, true, plan->spec.batch);

	for (int i = 0; i < SL_SEGMENT_COUNT; i++) {
		const struct sl_plan_segment *s = &plan->segment[i];

		json_object_set_new(root, sl_segment_name((enum sl_segment)i),
				    json_pack("{s:I, s:I}", "macs", (json_int_t)(s->macs * plan->spec.batch),
					      "parameters", (json_int_t)parameters(plan, s)));
	}
	json_object_set_new(root, "head_act_elements", json_integer(sl_shape_count(&head)));
	json_object_set_new(root, "mid_act_elements", json_integer(sl_shape_count(&tail)));
	json_object_set_new(root, "compress_rate", json_real(compress_rate(plan)));
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
	return 0;
}

int splitc_flops(int argc, char **argv)
{
	struct sl_options o = {.command = "flops", .usage = usage};
	struct sl_conf_client conf;
	struct sl_setup setup = {0};
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_JSON, 1);

	if (status < 0)
		status = sl_options_load(&o, &conf);
	if (status >= 0)
		return status;
	if (sl_setup_plan(&setup, &conf, &fail) != SL_OK)
		status = sl_command_failed(&fail);
	else if (o.json)
		status = print_json(setup.plan);
	else
		print_table(setup.plan);
	sl_setup_close(&setup);
	return status < 0 ? 0 : status;
}
