/* Runs of several values: what their codecs are opened from, and whether they are finite. And the record of a group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/grow.h"
#include "common/exec/finite.h"
#include "common/session/port_impl.h"

void sl_port_env_values(const struct sl_plan *plan, struct sl_codec_env *env, struct sl_codec_env *next)
{
	const bool mid = env->dir == SL_DIR_MID_ACT || env->dir == SL_DIR_MID_GRAD;

	env->value = sl_plan_cut_field(plan, mid, 0);
	for (int v = 1; v < sl_plan_cut_values(plan, mid); v++) {
		next[v] = *env;
		next[v].pair = NULL;
		next[v].next = NULL;
		next[v].value = sl_plan_cut_field(plan, mid, v);
		next[v].shape = sl_plan_value_shape(plan, mid, v, env->shape.dim[0]);
		*(v == 1 ? &env->next : &next[v - 1].next) = &next[v];
	}
}

enum sl_err sl_port_finite(const struct sl_tensor *x, int n, enum sl_dir dir, int chunk, struct sl_fail *fail)
{
	enum sl_err err = x->data ? sl_finite_tensor(x, sl_dir_name(dir), chunk, fail) : SL_OK;
	char name[32];

	for (int v = 1; v < n && !err; v++) {
		snprintf(name, sizeof name, "%s.%d", sl_dir_name(dir), v);
		err = x[v].data ? sl_finite_tensor(&x[v], name, chunk, fail) : SL_OK;
	}
	return err;
}

/* ---- the group's record ---- */

void sl_port_keep_record(struct sl_port *p, const struct sl_wire_record *r)
{
	const size_t len = strlen(r->text);

	if (!sl_grow(&p->record.next, &p->record.cap, p->record.len + len + 1, 1)) /* the earlier one stays */
		return;
	memcpy(p->record.next + p->record.len, r->text, len + 1);
	p->record.len += len;
	if (r->more)
		return;
	free(p->record.text);
	p->record.text = p->record.next;
	p->record.next = NULL;
	p->record.len = p->record.cap = 0;
}

const char *sl_port_record(const struct sl_port *p)
{
	return p->record.text;
}

const struct sl_wire_report *sl_port_report(const struct sl_port *p)
{
	return p->report;
}
