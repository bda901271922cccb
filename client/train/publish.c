#include "client/train/publish.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/persist/model_file.h"
#include "client/setup/about.h"
#include "common/base/log.h"
#include "common/base/worker.h"
#include "common/link/loop.h"

static const char lost[] =
	"the link to the server was lost: nothing can be fetched until the client is connected again";

struct sl_publish {
	const struct sl_setup *setup;
	struct sl_training *run;
	void (*written)(void *arg);
	void *arg;
	char dir[PATH_MAX]; /* log.dir for answers, symbolic links resolved */
	/* writing */
	struct sl_worker *disk;
	struct sl_async *done;
	struct sl_job job;
	struct sl_weights weights; /* allocated when first taken */
	char *about[2];            /* sl_about_text when they were taken, of the best weights and of those asked for */
	char score[SL_TRAINING_SCORE]; /* of the best weights */
	bool busy, best;
	uint64_t step, number; /* of the weights; of the newest request that they answer, 0: none */
	enum sl_err best_err, asked_err;
	struct sl_fail best_fail, asked_fail;
	/* requests, by number */
	uint64_t asked, answered, answered_step; /* the newest of each; answered_step: 0 where that one failed */
	char why[SL_FAIL_TEXT];                  /* why it failed */
	bool failed;
};

static void run_write(struct sl_job *job)
{
	struct sl_publish *p = (struct sl_publish *)(void *)((char *)job - offsetof(struct sl_publish, job));

	p->best_err = p->asked_err = SL_OK;
	if (p->best)
		p->best_err = sl_model_file_write(p->setup->conf, p->setup->plan, &p->weights, p->about[0], p->score,
						  SL_MODEL_BEST, p->step, &p->best_fail);
	if (p->number)
		p->asked_err = sl_model_file_write(p->setup->conf, p->setup->plan, &p->weights, p->about[1], NULL,
						   SL_MODEL_ASKED, p->step, &p->asked_fail);
}

static void answer_asked(struct sl_publish *p, uint64_t number, uint64_t step, const char *why)
{
	p->answered = number;
	p->answered_step = step;
	p->failed = why != NULL;
	snprintf(p->why, sizeof p->why, "%s", why ? why : "");
}

static void end_best(struct sl_publish *p)
{
	if (p->best_err)
		sl_log(SL_LOG_WARN, "best-missed",
		       "step %" PRIu64 ": %s; the run goes on, and best.safetensors keeps earlier weights", p->step,
		       p->best_fail.text);
	sl_training_best_kept(p->run, !p->best_err);
	p->best = false;
}

static void write_done(struct sl_job *job)
{
	struct sl_publish *p = (struct sl_publish *)(void *)((char *)job - offsetof(struct sl_publish, job));

	p->busy = false;
	if (p->best)
		end_best(p);
	if (p->number)
		answer_asked(p, p->number, p->step, p->asked_err ? p->asked_fail.text : NULL);
	p->number = 0;
	p->written(p->arg);
}

static void on_done(void *arg)
{
	struct sl_publish *p = arg;

	sl_worker_drain(p->disk);
}

enum sl_err sl_publish_open(struct sl_publish **out, struct sl_loop *loop, const struct sl_setup *setup,
			    struct sl_training *run, void (*written)(void *arg), void *arg, struct sl_fail *fail)
{
	struct sl_publish *p = calloc(1, sizeof *p);
	enum sl_err err;

	if (!p)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the run");
	p->setup = setup;
	p->run = run;
	p->written = written;
	p->arg = arg;
	if (!realpath(setup->conf->log.dir, p->dir))
		p->dir[0] = 0;
	sl_model_file_remove(setup->conf, SL_MODEL_ASKED);
	err = sl_async_open(&p->done, loop, on_done, p, fail);
	if (!err)
		err = sl_worker_open(&p->disk, "split-model", sl_async_wake, p->done, fail);
	if (err) {
		sl_publish_close(p);
		return err;
	}
	*out = p;
	return SL_OK;
}

void sl_publish_close(struct sl_publish *p)
{
	if (!p)
		return;
	sl_worker_close(p->disk);
	sl_async_close(p->done);
	sl_model_file_remove(p->setup->conf, SL_MODEL_ASKED);
	sl_weights_close(&p->weights);
	for (int i = 0; i < 2; i++)
		free(p->about[i]);
	free(p);
}

bool sl_publish_wants(const struct sl_publish *p)
{
	return p && !p->busy && (sl_training_best_due(p->run) || p->asked > p->answered);
}

bool sl_publish_busy(const struct sl_publish *p)
{
	return p && p->busy;
}

uint64_t sl_publish_busy_ms(const struct sl_publish *p)
{
	return p ? sl_worker_busy_ms(p->disk) : 0;
}

bool sl_publish_settle(struct sl_publish *p)
{
	return !p || sl_worker_settle(p->disk, &p->busy, p->setup->conf->watchdog_s);
}

static enum sl_err take(struct sl_publish *p, struct sl_remote *remote, struct sl_fail *fail)
{
	enum sl_err err = p->weights.value ? SL_OK : sl_weights_open(&p->weights, p->setup->plan->model, fail);

	if (err)
		return err;
	sl_weights_share(&p->weights, &p->setup->weights);
	return sl_remote_get_weights(remote, &p->weights, fail);
}

void sl_publish_take(struct sl_publish *p, struct sl_remote *remote)
{
	struct sl_fail fail;

	p->step = sl_training_state(p->run).step;
	p->best = sl_training_best_due(p->run);
	if (p->best)
		sl_training_best_score(p->run, p->score);
	p->number = p->asked > p->answered ? p->asked : 0;
	p->busy = true;
	for (int i = 0; i < 2; i++) {
		const struct sl_about_reached at = sl_training_reached(p->run, i == 0, sl_remote_made(remote));

		free(p->about[i]);
		p->about[i] = sl_about_text(p->setup, &at);
	}
	if (take(p, remote, &fail) != SL_OK) {
		p->best_err = p->asked_err = fail.code;
		p->best_fail = p->asked_fail = fail;
		write_done(&p->job);
		return;
	}
	p->job = (struct sl_job){.run = run_write, .done = write_done};
	sl_worker_post(p->disk, &p->job);
}

void sl_publish_lost(struct sl_publish *p)
{
	if (p && !p->busy && p->asked > p->answered)
		answer_asked(p, p->asked, 0, lost);
}

static char *answer_json(const struct sl_publish *p, uint64_t number)
{
	bool waits = number > p->answered;
	bool failed = !waits && p->failed;
	json_t *root = json_pack(
		"{s:i, s:s, s:I, s:s, s:I, s:s}", "schema", 1, "dir", p->dir, "number", (json_int_t)number, "state",
		waits    ? "waiting"
		: failed ? "failed"
			 : "done",
		"step", (json_int_t)(waits || failed ? 0 : p->answered_step), "why", failed ? p->why : "");
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

	json_decref(root);
	return text;
}

char *sl_publish_answer(struct sl_publish *p, const char *request, bool linked)
{
	uint64_t number;
	char rest;

	if (!p)
		return NULL;
	if (strcmp(request, "export") != 0)
		return sscanf(request, "export %" SCNu64 "%c", &number, &rest) == 1 ? answer_json(p, number) : NULL;
	/* a new number: the model that is being fetched or written may be older than this request */
	p->asked++;
	if (!linked)
		answer_asked(p, p->asked, 0, lost);
	return answer_json(p, p->asked);
}
