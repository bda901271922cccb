/* Events of a run: each carries out the rule that the run's table has for it in the run's state. */
#include "client/train/drive_parts.h"
#include "client/train/report.h"

static void move(struct drive *d, enum drive_state next)
{
	if (next == DRIVE_STAY)
		return;
	d->moves++;
	if (next == DRIVE_NEXT)
		sl_drive_next(d);
	else if (next == DRIVE_RESUME)
		sl_drive_resume(d);
	else
		d->state = next;
}

void sl_drive_event(struct drive *d, enum drive_event ev)
{
	const struct drive_rule *rule = &d->table[d->state][ev];
	const unsigned moves = d->moves;

	if (!rule->there)
		return;
	for (int i = 0; i < DRIVE_ACTS && rule->act[i]; i++)
		if (!rule->act[i](d))
			return;
	if (d->moves == moves)
		move(d, rule->next);
}

bool sl_drive_is_open(const struct drive *d)
{
	return d->state <= DRIVE_FETCH;
}

bool sl_drive_is_up(const struct drive *d)
{
	return d->state >= DRIVE_FEED && d->state <= DRIVE_FETCH;
}

void sl_drive_fault(struct drive *d, enum sl_err err)
{
	d->err = err;
	sl_drive_event(d, EV_FAULT);
}

void sl_drive_leave(struct drive *d, enum sl_err err)
{
	d->err = err;
	sl_drive_event(d, EV_LEAVE);
}

void sl_drive_hung(struct drive *d, uint64_t busy_ms)
{
	sl_drive_leave(d, sl_fail_set(d->fail, SL_ERR_DEVICE, "a task has run for %llu s (watchdog_s is %d)%s",
				      (unsigned long long)busy_ms / 1000, d->setup->conf->watchdog_s,
				      sl_recover_outlook(d->recover)));
}

bool sl_drive_handle_audit(struct drive *d, enum sl_err err)
{
	struct sl_jsonl_audit found;

	if (err == SL_ERR_AUDIT)
		(void)sl_audit_lost(d->audit, true, d->fail);
	if (sl_audit_found(d->audit, &found))
		sl_training_audited(d->run, &found);
	d->link.audits = d->audit != NULL;
	d->link.audited = sl_audit_share(d->audit);
	if (err)
		sl_drive_fault(d, err);
	return err;
}

void sl_drive_count(struct drive *d)
{
	if (sl_drive_is_open(d) && d->remote)
		sl_report_count(&d->link, d->remote);
	sl_training_carried(d->run, d->link.traffic);
}
