#include "client/cmd/memory.h"

#include <jansson.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/base/wrap.h"
#include "common/session/memory.h"
#include "common/session/state.h"
#include "kernels/cpu/cpu.h"

enum part {
	WEIGHTS,
	GRADIENTS,
	MOMENTS,
	ACTIVATIONS,
	CODECS,
	BUFFERS,
	SUM,
	CHECKPOINT,
	MAPPED,
	PARTS = SL_MEMORY_PARTS
};

static const char *const part_name[PARTS] = {
	"weights", "gradients", "optimizer", "activations", "codecs", "buffers", "sum", "checkpoint", "mapped",
};

static const char *const part_note[PARTS] = {
	[CHECKPOINT] = "more, while one is written",
	[MAPPED] = "of weight files, which the system may drop",
};

static uint64_t state_bytes(const struct sl_plan_segment *s)
{
	return (uint64_t)sl_exec_state_floats(s) * sizeof(float);
}

static uint64_t mapped_bytes(const struct sl_model *model)
{
	uint64_t sum = 0;

	for (int i = 0; i < model->graph.n_param; i++)
		if (model->graph.param[i].held)
			sl_need(&sum, sl_shape_count(&model->graph.param[i].shape), sizeof(uint16_t));
	return sum;
}

/* `own`: bytes of weights that the session's memory does not count. */
static void take(uint64_t out[PARTS], const struct sl_session_memory *m, uint64_t own)
{
	const uint64_t weights = sl_memory_total(m->weights) + own;

	out[WEIGHTS] = weights - m->gradients - m->moments;
	out[GRADIENTS] = m->gradients;
	out[MOMENTS] = m->moments;
	out[ACTIVATIONS] = sl_memory_total(m->activations);
	out[CODECS] = sl_memory_total(m->codecs);
	out[BUFFERS] = sl_memory_total(m->payloads);
	out[SUM] = sl_memory_total(sl_session_memory_sum(m)) + own;
}

static enum sl_err count(struct sl_memory_need *out, const struct sl_setup *setup, struct sl_backend *be, bool here,
			 struct sl_fail *fail)
{
	const struct sl_plan_segment *part = setup->plan->segment;
	struct sl_session_memory client, server;
	struct sl_fail why;
	enum sl_err err = sl_setup_memory(setup, SL_SESSION_CLIENT, be, &client, fail);

	*out = (struct sl_memory_need){.unknown = ""};
	if (err)
		return err;
	take(out->bytes[SL_SESSION_CLIENT], &client, (uint64_t)sl_weights_floats(setup->plan->model) * sizeof(float));
	out->bytes[SL_SESSION_CLIENT][CHECKPOINT] =
		state_bytes(&part[SL_HEAD]) + state_bytes(&part[SL_TAIL]) + client.state;
	out->bytes[SL_SESSION_CLIENT][MAPPED] = mapped_bytes(setup->plan->model);
	err = sl_setup_memory(setup, SL_SESSION_SERVER, be, &server, &why);
	if (err == SL_ERR_CONFIG && !here)
		snprintf(out->unknown, sizeof out->unknown, "%s", sl_fail_sentence(&why));
	else if (err)
		*fail = why;
	if (err)
		return out->unknown[0] ? SL_OK : err;
	take(out->bytes[SL_SESSION_SERVER], &server, 0);
	/* a checkpoint makes no copy of the middle's weights */
	out->bytes[SL_SESSION_SERVER][CHECKPOINT] =
		state_bytes(&part[SL_MIDDLE]) - (uint64_t)part[SL_MIDDLE].weight_count * sizeof(float) + server.state;
	return SL_OK;
}

enum sl_err sl_memory_find(struct sl_memory_need *out, const struct sl_setup *setup, bool here, struct sl_fail *fail)
{
	struct sl_pool *own = NULL; /* where memory is short, the threads that run already suffice */
	struct sl_backend be;
	enum sl_err err = setup->pool ? SL_OK : sl_pool_open(&own, setup->conf->threads, fail);

	if (err)
		return err;
	err = sl_cpu_backend_open_idle(&be, own ? own : setup->pool, fail);
	if (!err) {
		be.evaluates = setup->be.evaluates;
		be.recompute = sl_setup_recomputes(setup, &be);
		err = count(out, setup, &be, here, fail);
		be.ops->close(&be);
	}
	sl_pool_close(own);
	return err;
}

void sl_memory_explain(const struct sl_setup *setup, bool local, struct sl_fail *fail)
{
	char need_text[SL_BYTES_TEXT], have_text[SL_BYTES_TEXT];
	const struct sl_fail first = *fail;
	struct sl_memory_need need;
	struct sl_fail why;

	if (first.code != SL_ERR_NOMEM || !setup->plan || sl_memory_find(&need, setup, local, &why))
		return;
	sl_bytes_text(need.bytes[SL_SESSION_CLIENT][SUM] + (local ? need.bytes[SL_SESSION_SERVER][SUM] : 0), need_text);
	sl_bytes_text(sl_host_bytes(), have_text);
	(void)!sl_fail_set(fail, SL_ERR_NOMEM,
			   "%.300s; the run needs %s here, and this process may have %s: `splitc flops` lists the need",
			   first.text, need_text, have_text);
}

void sl_memory_warn(const struct sl_memory_need *need, bool local)
{
	const uint64_t sum = need->bytes[SL_SESSION_CLIENT][SUM] + (local ? need->bytes[SL_SESSION_SERVER][SUM] : 0);
	char need_text[SL_BYTES_TEXT], have_text[SL_BYTES_TEXT];

	if (sum > sl_host_bytes())
		sl_log(SL_LOG_WARN, "memory",
		       "the run needs %s on this host, and this process may have %s: the system may kill it. Take a "
		       "smaller train.batch, more in the middle, or recompute: true",
		       sl_bytes_text(sum, need_text), sl_bytes_text(sl_host_bytes(), have_text));
}

void sl_memory_print(const struct sl_memory_need *need)
{
	char host[SL_BYTES_TEXT];

	printf("%-12s %10s %10s\n", "memory", "client", "server");
	for (int i = 0; i < PARTS; i++) {
		char client[SL_BYTES_TEXT], server[SL_BYTES_TEXT];

		if (i == MAPPED && !need->bytes[SL_SESSION_CLIENT][i])
			continue;
		sl_bytes_text(need->bytes[SL_SESSION_CLIENT][i], client);
		sl_bytes_text(need->bytes[SL_SESSION_SERVER][i], server);
		printf("%-12s %10s %10s%s%s\n", part_name[i], client, need->unknown[0] ? "-" : server,
		       part_note[i] ? "  " : "", part_note[i] ? part_note[i] : "");
	}
	printf("%-12s %10s\n", "this host", sl_bytes_text(sl_host_bytes(), host));
	if (need->unknown[0])
		sl_print_wrapped(stdout, need->unknown, printf("the server: "), SL_WRAP_WIDTH);
}

static json_t *side_json(const uint64_t bytes[PARTS])
{
	json_t *side = json_object();

	for (int i = 0; i < PARTS; i++)
		json_object_set_new(side, part_name[i], json_integer((json_int_t)bytes[i]));
	return side;
}

json_t *sl_memory_json(const struct sl_memory_need *need)
{
	return json_pack("{s:o, s:o, s:I}", "client", side_json(need->bytes[SL_SESSION_CLIENT]), "server",
			 need->unknown[0] ? json_null() : side_json(need->bytes[SL_SESSION_SERVER]), "host",
			 (json_int_t)sl_host_bytes());
}
