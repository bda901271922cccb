/* How a run over the link ends: at its end, after an error, by a signal within drain_s, or because a task hangs. */
#include "client/run/drive_parts.h"
#include "client/run/report.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

enum { DRAIN_LOOK_MS = 5 };

void sl_drive_close_link(struct drive *d)
{
	d->linked = false;
	d->closing = true;
	sl_report_add(&d->link, d->remote);
	/* a goodbye would have the server forget what a run that failed can go on from */
	if (d->err && !d->options->eval_only)
		sl_remote_pause(d->remote);
	sl_remote_close(d->remote);
}

void sl_drive_end(struct drive *d)
{
	if (d->ending)
		return;
	d->ending = true;
	if (!d->remote)
		sl_loop_stop(d->loop);
	else if (!d->closing)
		sl_drive_close_link(d);
}

void sl_drive_give_up(struct drive *d, enum sl_err err)
{
	d->err = err;
	sl_drive_end(d);
}

/* Nothing is closed: with a task that does not end nothing can be. */
static void end_at_once(struct drive *d, enum sl_err err)
{
	d->err = err;
	d->at_once = d->setup->in_use = true;
	sl_loop_stop(d->loop);
}

void sl_drive_hung(struct drive *d, uint64_t busy_ms)
{
	end_at_once(d, sl_fail_set(d->fail, SL_ERR_DEVICE, "a task has run for %llu s (watchdog_s is %d)%s",
				   (unsigned long long)busy_ms / 1000, d->setup->conf->watchdog_s,
				   sl_recover_outlook(d->recover)));
}

void sl_drive_release_batch(struct drive *d)
{
	if (d->batch)
		sl_loader_release(d->from, d->batch);
	d->batch = NULL;
}

/* A run that was stopped can be resumed: both sides keep their state. */
void sl_drive_pause(struct drive *d)
{
	struct sl_fail fail;
	enum sl_err err = sl_recover_keep_last(d->recover, d->remote, d->run, &fail);

	if (err && !d->err) {
		d->err = err;
		*d->fail = fail;
	}
	SL_FAILPOINT(SL_FP_CLIENT_PAUSED);
	if (!err && d->setup->conf->log.dir[0] && !sl_remote_kept_there(d->remote, sl_training_state(d->run).step))
		sl_log(SL_LOG_WARN, "pause-unsure",
		       "the server has not said that its side is on its disk (drain_s was over, it has no `store`, or "
		       "see its log): --resume may go back, or begin anew");
	if (!err && d->setup->conf->log.dir[0])
		sl_log(SL_LOG_INFO, "paused", "`splitc train … --resume` goes on from here");
	d->paused = true;
	sl_remote_pause(d->remote);
}

/* The run's end, where nothing worse came on the way. */
void sl_drive_blame_nonfinite(struct drive *d)
{
	if (d->err || !d->nonfinite)
		return;
	*d->fail = d->why;
	d->err = d->why.code;
}

void sl_drive_on_watch(void *arg)
{
	struct drive *d = arg;
	uint64_t busy_ms = d->remote ? sl_remote_busy_ms(d->remote) : 0;
	uint64_t disk_ms = sl_recover_busy_ms(d->recover);
	int bound_s = d->setup->conf->watchdog_s;

	if (d->remote && !d->closing)
		sl_report_watch(&d->link, d->remote);
	busy_ms = busy_ms > disk_ms ? busy_ms : disk_ms;
	disk_ms = sl_publish_busy_ms(d->publish);
	busy_ms = busy_ms > disk_ms ? busy_ms : disk_ms;
	if (bound_s && busy_ms > (uint64_t)bound_s * 1000)
		sl_drive_hung(d, busy_ms);
}

/* A step that the worker has applied, and the run has not heard of, is behind the state that is kept. */
static void take_applied(struct drive *d)
{
	struct sl_step_result result;

	if (!sl_remote_applied(d->remote))
		return;
	result = sl_remote_result(d->remote);
	sl_drive_release_batch(d);
	sl_training_done(d->run, &result);
}

/* The step under way does not end in time: the run is paused before it, once no task runs any more; and where one runs
 * for too long, the process ends. Where the server may have applied the step, and has not said so, it is the last
 * checkpoint that counts. */
void sl_drive_on_drain_over(void *arg)
{
	struct drive *d = arg;
	int drain_s = d->setup->conf->drain_s;
	uint64_t hangs_ms = (uint64_t)(drain_s ? drain_s : 1) * 1000; /* a pause waits for a task that is shorter */

	if (d->remote && sl_remote_busy_ms(d->remote) >= hangs_ms) {
		end_at_once(d, sl_fail_set(d->fail, SL_ERR_BUSY, "a task did not end within %d s (drain_s)%s", drain_s,
					   sl_recover_outlook(d->recover)));
		return;
	}
	if (d->linked && !d->ending)
		sl_remote_pause(d->remote);
	if (d->remote && !sl_remote_idle(d->remote)) {
		sl_timer_start(d->drain, DRAIN_LOOK_MS, 0);
		return;
	}
	if (d->ending)
		return;
	if (d->linked && !sl_remote_in_doubt(d->remote)) {
		sl_log(SL_LOG_WARN, "stopping", "drain_s is over: the run %s",
		       d->options->eval_only ? "ends here" : "is paused before the step under way");
		take_applied(d);
		if (!d->options->eval_only)
			sl_drive_pause(d);
		sl_drive_blame_nonfinite(d);
		sl_drive_end(d);
		return;
	}
	sl_drive_give_up(d, sl_fail_set(d->fail, SL_ERR_UNAVAILABLE, "not stopped within %d s (drain_s)%s", drain_s,
					sl_recover_outlook(d->recover)));
}

void sl_drive_on_signal(void *arg, int signum)
{
	struct drive *d = arg;

	if (d->signalled) {
		end_at_once(d, sl_fail_set(d->fail, SL_ERR_UNAVAILABLE, "interrupted by signal %d%s", signum,
					   sl_recover_outlook(d->recover)));
		return;
	}
	d->signalled = true;
	sl_timer_start(d->drain, (uint64_t)d->setup->conf->drain_s * 1000 + 1, 0);
	if (d->ending) /* what it has come to stands: a run that is done stays done */
		return;
	d->stop = true;
	if (d->linked)
		sl_log(SL_LOG_INFO, "stopping", "after the %s under way; a second signal ends the run at once",
		       d->options->eval_only ? "batch" : "step");
	else
		sl_drive_give_up(d, sl_fail_set(d->fail, SL_ERR_UNAVAILABLE, "interrupted by signal %d%s", signum,
						sl_recover_outlook(d->recover)));
}
