#include "client/align/align.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/align/align_talk.h"
#include "client/link/auth.h"
#include "client/link/letters.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/link/seal.h"

enum {
	INBOX = 2,         /* letters that have come and are not dealt with: the other member may be one ahead */
	TOLD_LEAST = 20000 /* rows: fewer need no word of progress */
};

struct align {
	struct sl_conf_client conf; /* without data.aligned, data.split and limits: of all rows */
	struct sl_setup setup;
	struct sl_names text[SL_SPLIT_COUNT];
	struct sl_psi_name *name;
	int64_t n;
	struct sl_client_auth auth;
	struct sl_key other;
	const char *path;
	struct sl_align_report *report;
	struct sl_loop *loop;
	struct sl_worker *worker;
	struct sl_async *jobs_done;
	struct sl_letters *letters;
	struct sl_seal *seal;
	struct sl_talk *talk;
	size_t bytes;                   /* of a letter */
	uint8_t *inbox, *out, *content; /* one block */
	int first, waiting;             /* letters in the inbox, in their order */
	struct sl_job job;
	bool busy, met, says; /* a job is under way; the first letter has come; the job has written a letter */
	bool lost, over;      /* lost: the connection has ended */
	int tenths;           /* of the work, that the log knows of */
	enum sl_err err;      /* of the job, then of the alignment */
	struct sl_fail fail, why_lost;
};

/* ---- rows */

static enum sl_err read_rows(struct align *a, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	a->setup.conf = &a->conf;
	for (int split = 0; split < a->report->lists && !err; split++) {
		err = sl_setup_split(&a->setup, (enum sl_split)split, fail);
		if (!err)
			err = sl_aligned_names(&a->setup.set[split], &a->text[split], fail);
		if (!err)
			err = sl_conf_client_blame(&a->conf, "data.id", sl_aligned_check(&a->text[split], fail), fail);
		a->report->rows[split] = a->text[split].n;
	}
	if (err)
		return err;
	a->name = malloc((size_t)(a->text[0].n + a->text[1].n) * sizeof *a->name + 1);
	if (!a->name)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the names of rows");
	for (int split = 0; split < a->report->lists; split++)
		for (int64_t i = 0; i < a->text[split].n; i++)
			a->name[a->n++] = (struct sl_psi_name){sl_name(&a->text[split], i), split};
	return SL_OK;
}

static enum sl_err read_peers(struct align *a, struct sl_fail *fail)
{
	const struct sl_conf_client *c = &a->conf;
	const int own = c->agreed.share.member;
	struct sl_key key[2];
	enum sl_err err = sl_client_auth_open(&a->auth, c, fail);

	for (int k = 0; k < 2 && !err; k++)
		err = sl_conf_client_blame(c, "share.peers", sl_key_load_public(&key[k], c->peers.item[k], fail), fail);
	if (err)
		return err;
	if (!sl_key_equal(&key[own], &a->auth.own.public_key))
		return sl_conf_client_fail(c, "share.peers", fail,
					   "the key of member %d, this client, is not that of auth.secret_key", own);
	if (sl_key_equal(&key[0], &key[1]))
		return sl_conf_client_fail(c, "share.peers", fail, "both members have one key: each needs its own");
	a->other = key[!own];
	return SL_OK;
}

/* Called by the talk, on the worker. */
static enum sl_err write_result(void *arg, const struct sl_talk_result *result, struct sl_fail *fail)
{
	const struct align *a = arg;
	struct sl_aligned out = {.secret = result->secret};
	const uint32_t *row = result->row;
	bool fits = snprintf(out.path, sizeof out.path, "%s", a->path) < (int)sizeof out.path;
	enum sl_err err;

	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		for (int64_t i = 0; i < result->n[split] && fits; i++)
			fits = sl_names_add(&out.row[split], a->name[*row++].text);
	err = fits ? sl_aligned_write(&out, a->conf.agreed.share.group, fail)
		   : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the names of rows");
	sl_aligned_close(&out);
	return err;
}

/* ---- letters */

static void finish(struct align *a, enum sl_err err)
{
	if (a->over)
		return;
	a->over = true;
	a->err = err;
	sl_letters_end(a->letters, err ? &a->fail : NULL);
	sl_loop_stop(a->loop);
}

static struct align *of(struct sl_job *job)
{
	return (struct align *)(void *)((char *)job - offsetof(struct align, job));
}

/* Takes the letter that came first, and writes the next one. The first letter has the other member's fresh key. */
static void run_job(struct sl_job *job)
{
	struct align *a = of(job);
	const struct sl_bytes letter = {a->inbox + (size_t)a->first * a->bytes, a->bytes};

	a->err = a->met ? sl_seal_read(a->seal, letter, a->content, &a->fail)
			: sl_seal_meet(a->seal, letter.data, &a->fail);
	if (!a->err && a->met)
		a->err = sl_talk_hear(a->talk, a->content, &a->fail);
	a->met = true;
	a->says = !a->err && sl_talk_say(a->talk, a->content);
	if (a->says)
		sl_seal_write(a->seal, a->content, a->bytes - SL_SEAL_EXTRA, a->out);
}

static void tell_progress(struct align *a)
{
	const int percent = sl_talk_percent(a->talk);

	if (a->n >= TOLD_LEAST && percent / 10 > a->tenths)
		sl_log(SL_LOG_INFO, "align", "%d %% of the letters are sent", percent);
	a->tenths = percent / 10;
}

static void go_on(struct align *a)
{
	if (a->busy || a->over)
		return;
	if (a->talk && sl_talk_over(a->talk)) {
		finish(a, SL_OK);
	} else if (a->waiting) {
		a->busy = true;
		sl_worker_post(a->worker, &a->job);
	} else if (a->lost) {
		a->fail = a->why_lost;
		finish(a, a->fail.code);
	}
}

static void job_done(struct sl_job *job)
{
	struct align *a = of(job);

	a->busy = false;
	a->first = (a->first + 1) % INBOX;
	a->waiting--;
	if (a->says)
		sl_letters_post(a->letters, a->out);
	tell_progress(a);
	if (a->err)
		finish(a, a->err);
	else
		go_on(a);
}

static void on_open(void *arg, size_t bytes)
{
	struct align *a = arg;
	const struct sl_talk_spec spec = {
		.labels = a->conf.agreed.share.role == SL_ROLE_LABELS,
		.other = !a->conf.agreed.share.member,
		.name = a->name,
		.n = a->n,
		.lists = a->report->lists,
		.pad = a->conf.align.pad == SL_ALIGN_PADDED,
		.pool = a->setup.pool,
		.bytes = bytes - SL_SEAL_EXTRA,
		.write = write_result,
		.arg = a,
	};
	enum sl_err err;

	sl_log(SL_LOG_INFO, "align", "member %d of group %s is there, too", spec.other, a->conf.agreed.share.group);
	a->bytes = bytes;
	a->inbox = calloc(INBOX + 2, bytes);
	a->out = a->inbox + INBOX * bytes;
	a->content = a->out + bytes;
	err = a->inbox ? sl_talk_open(&a->talk, &spec, &a->fail)
		       : sl_fail_set(&a->fail, SL_ERR_NOMEM, "no memory for letters");
	if (err) {
		finish(a, err);
		return;
	}
	sl_seal_fresh(a->seal, a->out);
	sl_letters_post(a->letters, a->out);
}

static void on_came(void *arg, struct sl_bytes letter)
{
	struct align *a = arg;

	if (a->waiting == INBOX) {
		a->lost = true;
		(void)!sl_fail_set(&a->why_lost, SL_ERR_PROTOCOL, "the server sent a letter before its turn");
		return;
	}
	memcpy(a->inbox + (size_t)((a->first + a->waiting++) % INBOX) * a->bytes, letter.data, letter.len);
	go_on(a);
}

/* What has come is still heard: the other member leaves once it has said its last word. */
static void on_failed(void *arg, const struct sl_fail *why)
{
	struct align *a = arg;

	a->lost = true;
	a->why_lost = *why;
	go_on(a);
}

static void on_jobs_done(void *arg)
{
	struct align *a = arg;

	if (a->worker)
		sl_worker_drain(a->worker);
}

/* ---- the alignment */

static enum sl_err open_link(struct align *a, struct sl_fail *fail)
{
	static const struct sl_letters_events events = {on_open, on_came, on_failed, NULL};
	const struct sl_conf_client *c = &a->conf;
	enum sl_err err = sl_loop_open(&a->loop, fail);

	a->job = (struct sl_job){.run = run_job, .done = job_done};
	if (!err)
		err = sl_seal_open(&a->seal, &a->auth.own, &a->other, !c->agreed.share.member, c->agreed.share.group,
				   fail);
	if (!err)
		err = sl_async_open(&a->jobs_done, a->loop, on_jobs_done, a, fail);
	if (!err)
		err = sl_worker_open(&a->worker, "split-align", sl_async_wake, a->jobs_done, fail);
	if (!err)
		err = sl_letters_open(&a->letters, a->loop, c, &a->auth.transport, &events, a, fail);
	return err;
}

/* Both have the result, and know it. */
static enum sl_err take_result(const struct align *a, struct sl_fail *fail)
{
	struct sl_align_report *report = a->report;
	const struct sl_talk_result *result = sl_talk_result(a->talk);

	memcpy(report->common, result->n, sizeof report->common);
	report->other = result->theirs;
	for (int split = 0; split < report->lists; split++)
		if (!report->common[split])
			return sl_conf_client_fail(&a->conf, "data.id", fail,
						   "no row to %s is at both members, so nothing is written: does "
						   "data.id mean the same at both?",
						   split ? "evaluate on" : "train on");
	return SL_OK;
}

static enum sl_err run(struct align *a, struct sl_fail *fail)
{
	enum sl_err err = read_peers(a, fail);

	if (!err)
		err = read_rows(a, fail);
	if (!err)
		err = sl_pool_open(&a->setup.pool, a->conf.threads, fail);
	if (!err)
		err = open_link(a, fail);
	if (err)
		return err;
	sl_loop_run(a->loop);
	if (!a->err)
		return take_result(a, fail);
	*fail = a->fail;
	return a->err != SL_ERR_PEER_LOST
		       ? a->err
		       : sl_fail_set(fail, a->err, "%s: run splitc align again at both members", a->fail.text);
}

static void align_close(struct align *a)
{
	sl_worker_close(a->worker);
	sl_letters_close(a->letters);
	sl_async_close(a->jobs_done);
	sl_loop_close(a->loop);
	sl_talk_close(a->talk);
	sl_seal_close(a->seal);
	sl_setup_close(&a->setup);
	sl_client_auth_close(&a->auth);
	sl_names_close(&a->text[0]);
	sl_names_close(&a->text[1]);
	free(a->name);
	free(a->inbox);
	free(a);
}

/* Reads all rows, whatever the config has of them for training. */
static void take_all_rows(struct sl_conf_client *c)
{
	c->data.aligned[0] = 0;
	c->data.train_limit = c->data.test_limit = 0;
	if (!sl_conf_splits(c))
		return;
	c->data.split.train = 1;
	c->data.split.val = c->data.split.test = 0;
	c->data.split.folds = 0;
}

enum sl_err sl_align(const struct sl_conf_client *conf, struct sl_align_report *report, struct sl_fail *fail)
{
	const uint64_t began_ns = sl_now_ns();
	struct align *a = calloc(1, sizeof *a);
	enum sl_err err;

	if (!a)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for an alignment");
	*report = (struct sl_align_report){.lists = sl_conf_splits(conf) ? 1 : SL_SPLIT_COUNT};
	a->conf = *conf;
	take_all_rows(&a->conf);
	a->path = conf->data.aligned;
	a->report = report;
	err = run(a, fail);
	report->seconds = sl_seconds_since(began_ns);
	align_close(a);
	return err;
}
