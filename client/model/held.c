#include "client/model/held.h"

#include <string.h>

#include "client/model/weights_file.h"

/* The 16-bit type of the parameter's tensor, if the file's bytes can be used as they are; else F32. */
static enum sl_dtype type_in(const struct sl_model *m, const struct sl_st_file *file, int i,
			     const struct sl_st_tensor **tensor)
{
	const struct sl_st_tensor *t = sl_weights_find(m, file, m->graph.param[i].name);
	struct sl_fail fail;

	*tensor = t;
	if (!t || m->file[i].layout != SL_LAYOUT_SAME || m->file[i].head || sl_st_place(file, t) % sizeof(uint16_t) ||
	    sl_weights_check_tensor(t, m->graph.param[i].name, &m->file[i], &fail) != SL_OK)
		return SL_F32;
	return strcmp(t->dtype, "BF16") == 0 ? SL_BF16 : strcmp(t->dtype, "F16") == 0 ? SL_F16 : SL_F32;
}

/* Whether the parameter is only a weight of linear layers and embeddings, whose kernels read 16 bits. */
static bool is_matrix(const struct sl_parts *parts, uint32_t stream)
{
	for (int which = 0; which < SL_SEGMENT_COUNT; which++) {
		const struct sl_graph *g = &parts->part[which];

		for (int i = 0; i < g->n_node; i++) {
			const struct sl_node *n = &g->node[i];
			const bool takes = n->kind == SL_OP_LINEAR || n->kind == SL_OP_EMBEDDING;

			for (int k = takes; k < n->n_param; k++)
				if (g->param[g->link[n->param + k]].stream == stream)
					return false;
		}
	}
	return true;
}

void sl_held_choose(struct sl_parts *parts, const char *path)
{
	struct sl_model *m = parts->model;
	const struct sl_st_tensor *t;
	struct sl_st_file *file;
	struct sl_fail fail;

	if (sl_weights_open_file(&file, path, &fail) != SL_OK)
		return;
	for (int which = 0; which < SL_SEGMENT_COUNT; which++)
		for (int i = 0; i < parts->part[which].n_param; i++) {
			struct sl_param *p = &parts->part[which].param[i];
			const int at = (int)p->stream;

			if (p->role != SL_FROZEN || at >= m->n_plain || !is_matrix(parts, p->stream))
				continue;
			m->graph.param[at].held = p->held = type_in(m, file, at, &t);
			if (p->held)
				p->init = (struct sl_init){SL_INIT_FILE, 0};
		}
	sl_st_close(file);
}

enum sl_err sl_held_map(struct sl_weights *w, const struct sl_model *model, const char *path, struct sl_fail *fail)
{
	const struct sl_st_tensor *t;
	struct sl_fail why;
	enum sl_err err = SL_OK;

	for (int i = 0; i < model->graph.n_param && !err; i++) {
		const struct sl_param *p = &model->graph.param[i];
		const void *at = NULL;

		if (!p->held)
			continue;
		if (!w->file)
			err = sl_weights_open_file(&w->file, path, fail);
		if (err)
			return err;
		if (type_in(model, w->file, i, &t) == p->held)
			err = sl_st_map(w->file, t, &at, &why);
		else
			err = sl_fail_set(&why, SL_ERR_DATA,
					  "tensor \"%s\" no longer has 16 bits, as it had when the run was planned",
					  p->name);
		w->held[i] = at;
	}
	return err ? sl_fail_set(fail, err, "%s: %s", path, why.text) : SL_OK;
}
