/* The passes of a generation. The client holds all tokens. If a link is lost, the next one repeats the pass under way,
 * with the tokens of each row that were cached. */
#include "client/predict/generate.h"
#include "client/predict/passes.h"

struct generation {
	struct sl_passes *passes;
	struct sl_generate *g;
};

static void next(struct generation *n)
{
	struct sl_feed feed;

	if (sl_generate_feed(n->g, &feed))
		sl_passes_begin(n->passes, &feed);
	else
		sl_passes_end(n->passes, SL_OK, NULL);
}

static void on_ready(void *arg)
{
	struct generation *n = arg;

	sl_generate_forget(n->g);
	next(n);
}

static void on_done(void *arg)
{
	struct generation *n = arg;
	struct sl_fail why;
	enum sl_err err = sl_generate_take(n->g, &why);

	if (err)
		sl_passes_end(n->passes, err, &why);
	else
		next(n);
}

static void on_signal(void *arg, int signum)
{
	struct generation *n = arg;
	struct sl_fail why;

	sl_passes_end(n->passes, sl_fail_set(&why, SL_ERR_BUSY, "interrupted by signal %d", signum), &why);
}

enum sl_err sl_generate_run(struct sl_setup *setup, struct sl_generate *g, bool local, struct sl_fail *fail)
{
	struct generation n = {.g = g};
	const struct sl_passes_spec spec = {.setup = setup,
					    .logits = sl_generate_logits(g),
					    .local = local,
					    .waits = setup->conf->link.on_server_lost == SL_LOST_WAIT,
					    .ready = on_ready,
					    .done = on_done,
					    .signal = on_signal,
					    .arg = &n};
	enum sl_err err = sl_passes_open(&n.passes, &spec, fail);

	if (err)
		return err;
	err = sl_passes_run(n.passes, fail);
	sl_passes_close(n.passes);
	return err;
}
