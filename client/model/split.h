/* A network cut in three: a graph for each part, and the client's plan of all of them. */
#ifndef SL_CLIENT_MODEL_SPLIT_H
#define SL_CLIENT_MODEL_SPLIT_H

#include "client/model/insert.h"
#include "client/model/source.h"
#include "common/conf/conf.h"
#include "common/exec/plan.h"

/* LABELS: the network's own loss. RESTORE_…: the mean squared difference between the activation at that cut and what
 * the insert there restores of it. Only that insert learns. Both its halves lie in the middle; the other insert is left
 * out, and the tail is only the loss. */
enum sl_split_loss { SL_LOSS_LABELS, SL_LOSS_RESTORE_HEAD, SL_LOSS_RESTORE_TAIL };

/* The part of a config that describes the network, its cuts and inserts (cut.h, insert.h; "": none), and what a plan
 * needs. */
struct sl_split_spec {
	struct sl_model_spec model;
	struct sl_cut_spec cut;
	bool tail_loss; /* from the middle to the tail only tokens with a loss cross (sl_cut_behind_gather) */
	char insert_head[SL_INSERT_TEXT], insert_tail[SL_INSERT_TEXT];
	enum sl_split_loss loss;
	const struct sl_conf_list *freeze; /* globs over names of parameters, which then do not learn; NULL: none */
	const struct sl_conf_list *groups; /* as sl_conf_group_read reads them; NULL: none. `plan` has their rules */
	double label_smoothing;            /* 0 … 1, of the loss (op.h) */
	enum sl_mse_fn numbers;            /* the loss of numbers */
	enum sl_xent_fn pixels;            /* the loss of a class for each pixel */
	struct sl_plan_spec plan;
};

/* A network in three parts, with the role of each parameter, before a plan is made of it. */
struct sl_parts {
	struct sl_model *model;
	struct sl_cut cut;
	enum sl_split_loss loss;
	struct sl_graph part[SL_SEGMENT_COUNT];
};

/* Builds the model, cuts it, and applies label_smoothing, freeze and groups. It does not read spec->plan. Errors name
 * keys. */
enum sl_err sl_parts_open(struct sl_parts *parts, const struct sl_split_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
void sl_parts_close(struct sl_parts *parts); /* idempotent; a zeroed one is fine */

/* Marks values of head_act below which nothing learns: their gradient does not cross. Something in the head learns. */
enum sl_err sl_parts_spare_gradients(struct sl_parts *parts, struct sl_fail *fail) SL_MUST_CHECK;
/* Reduces the head to what depends on the input of that name alone. *sends: which values of head_act it gives, a bit
 * each. CONFIG: a layer of the head joins it with another input. */
enum sl_err sl_parts_take_input(struct sl_parts *parts, const char *name, int *sends,
				struct sl_fail *fail) SL_MUST_CHECK;

/* Plans the three parts, and takes over the model and the graphs of *parts. */
enum sl_err sl_plan_open_parts(struct sl_plan **out, struct sl_parts *parts, const struct sl_plan_spec *spec,
			       struct sl_fail *fail) SL_MUST_CHECK;

#endif
