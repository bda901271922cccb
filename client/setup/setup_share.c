/* From a config to a member's part of a group's data, to its turns, and to a party's input. */
#include "client/setup/setup.h"

#include <stdlib.h>

#include "client/data/subset.h"
#include "client/model/roles.h"
#include "client/model/split.h"
#include "common/base/log.h"
#include "common/base/rng.h"

static int64_t batches(const struct sl_conf_client *c, int64_t samples)
{
	const int64_t batch = c->agreed.batch;

	return c->train.drop_last ? samples / batch : (samples + batch - 1) / batch;
}

/* Reduces the training set, which all members have, to this member's part. */
static enum sl_err take_part(struct sl_setup *s, const struct sl_conf_parts *parts,
			     int64_t count[SL_CONF_SHARE_CLIENTS], struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const struct sl_subset_spec spec = {*parts, c->agreed.share.member, c->agreed.share.clients,
					    (uint64_t)c->agreed.seed};
	const int64_t all = s->set[SL_SPLIT_TRAIN].count;
	struct sl_fail why;

	if (sl_subset_open(&s->set[SL_SPLIT_TRAIN], &spec, count, &why))
		return sl_conf_client_fail(c, "data.partition", fail, "%s", why.text);
	sl_log(SL_LOG_INFO, "data-part", "member %d of %d has %lld of %lld training samples (data.partition: %s)",
	       spec.member, spec.members, (long long)count[spec.member], (long long)all, c->data.partition);
	return SL_OK;
}

/* In serial mode with files of their own, share.batches lists how many batches each member has. */
static enum sl_err take_list(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	struct sl_turns *t = &s->turns;
	const int own = c->agreed.share.member;
	struct sl_rng_key key = {.seed = 1, .tensor = SL_RNG_TURNS};
	uint32_t w[4];

	for (int m = 0; m < c->batches.n; m++) {
		const uint64_t count = strtoull(c->batches.item[m], NULL, 10);

		if (m == own && count != t->count[m])
			return sl_conf_client_fail(c, "share.batches", fail,
						   "this client is member %d, and its data make %llu batches of "
						   "train.batch, not %llu",
						   m, (unsigned long long)t->count[m], (unsigned long long)count);
		t->count[m] = count;
		key.step = count;
		sl_rng_quad(&key, 0, w);
		key.seed = (uint64_t)w[0] << 32 | w[1];
		s->dealt = (int64_t)(key.seed >> 12) + 1;
	}
	return SL_OK;
}

/* Decides which steps are whose, from how many samples the members have. */
static enum sl_err deal_turns(struct sl_setup *s, const struct sl_conf_parts *parts, const int64_t *samples,
			      struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const uint64_t given = (uint64_t)c->agreed.share.epoch_steps;
	struct sl_turns *t = &s->turns;
	uint64_t most = 0, sum = 0;
	enum sl_err err;

	*t = (struct sl_turns){
		.mode = c->agreed.share.mode, .seed = (uint64_t)c->agreed.seed, .members = c->agreed.share.clients};
	for (int m = 0; m < t->members; m++)
		t->count[m] =
			(uint64_t)(parts->kind == SL_PARTS_BATCH ? samples[m] / ((int64_t)c->agreed.batch * t->members)
								 : batches(c, samples[m]));
	err = take_list(s, fail);
	if (err)
		return err;
	for (int m = 0; m < t->members; m++) {
		if (given && t->count[m] > given)
			t->count[m] = given; /* the others come in the next epoch */
		most = t->count[m] > most ? t->count[m] : most;
		sum += t->count[m];
	}
	t->epoch_steps = given ? given : t->mode == SL_SHARE_SERIAL ? sum : most;
	s->epoch_steps = (int64_t)t->epoch_steps;
	return SL_OK;
}

enum sl_err sl_setup_share(struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	const int member = c->agreed.share.member;
	int64_t samples[SL_CONF_SHARE_CLIENTS];
	struct sl_conf_parts parts;
	enum sl_err err;

	if (!c->agreed.share.group[0] || s->reads != SL_READS_ALL || s->epoch_steps)
		return SL_OK;
	err = sl_setup_split(s, SL_SPLIT_TRAIN, fail);
	if (!err && sl_agreed_is_vertical(&c->agreed)) /* both parties have as many rows */
		err = sl_setup_split(s, SL_SPLIT_TEST, fail);
	for (int m = 0; m < c->agreed.share.clients; m++)
		samples[m] = s->set[SL_SPLIT_TRAIN].count;
	if (!err && !sl_conf_parts_read(c->data.partition, &parts))
		return SL_ERR_BUG;
	if (!err && parts.kind != SL_PARTS_FILES && parts.kind != SL_PARTS_BATCH)
		err = take_part(s, &parts, samples, fail);
	if (!err && s->alone && parts.kind == SL_PARTS_BATCH)
		err = sl_conf_client_fail(c, "data.partition", fail,
					  "batch shares out the batches of a group: a member alone has no part of one");
	if (err || s->alone)
		return err;
	err = deal_turns(s, &parts, samples, fail);
	if (err)
		return err;
	if (s->epoch_steps < 1 || !s->turns.count[member])
		return sl_conf_client_fail(c, "train.batch", fail, "%lld samples make no batch of %d for each member",
					   (long long)samples[member], c->agreed.batch);
	return SL_OK;
}

/* Each input of the network must be one that `data` or a source of data.also gives, and no two may give the same. */
static enum sl_err check_sources(const struct sl_setup *s, const struct sl_graph *g, struct sl_fail *fail)
{
	unsigned given = 1U << SL_BUILD_LABEL;
	enum sl_err err = SL_OK;

	for (int k = -1; k < s->n_features; k++) {
		const char *name = sl_conf_input(k < 0 ? s->conf : s->further[k].conf);
		const int input = name ? sl_model_input(g, name) : SL_BUILD_LABEL;

		if (input < 0)
			return sl_fail_at(fail, k < 0 ? "data.inputs" : "data.also", SL_ERR_CONFIG,
					  "the network has no input %.64s: its first is %s", name, g->in[0].name);
		if (name && (given >> input & 1))
			return sl_fail_at(fail, "data.also", SL_ERR_CONFIG, "source %d: another source gives %s, too",
					  k + 1, name);
		given |= 1U << input;
	}
	for (int k = 0; k < g->n_in && !err; k++)
		if (!(given >> k & 1))
			err = sl_fail_at(fail, "data.also", SL_ERR_CONFIG, "no source gives %s: one needs inputs: [%s]",
					 g->in[k].name, g->in[k].name);
	return err;
}

enum sl_err sl_setup_check_parties(const struct sl_setup *s, const struct sl_parts *parts, struct sl_fail *fail)
{
	const struct sl_cut *cut = &parts->cut;
	const struct sl_graph *g = &parts->model->graph;

	if (s->conf->data.also.n)
		return check_sources(s, g, fail);
	if (!sl_agreed_is_vertical(&s->conf->agreed))
		return g->n_in < 3 ? SL_OK
				   : sl_fail_at(fail, "model.network", SL_ERR_CONFIG,
						"it has the inputs %s and %s: name a source for each in data.also, or "
						"each belongs to a member of a group with share.mode: vertical",
						g->in[0].name, g->in[2].name);
	if (g->n_in > 2 && !sl_conf_input(s->conf) && s->conf->agreed.share.role == SL_ROLE_FEATURES)
		return sl_fail_at(fail, "share.inputs", SL_ERR_CONFIG,
				  "must name this member's input: the network has %s and %s%s", g->in[0].name,
				  g->in[2].name, g->n_in > 3 ? " and others" : "");
	if (sl_conf_input(s->conf) && sl_model_input(g, sl_conf_input(s->conf)) < 0)
		return sl_fail_at(fail, "share.inputs", SL_ERR_CONFIG, "the network has no input %s",
				  sl_conf_input(s->conf));
	if (g->n_in < 3 && sl_conf_input(s->conf) && s->conf->agreed.share.role == SL_ROLE_LABELS)
		return sl_fail_at(fail, "share.inputs", SL_ERR_CONFIG,
				  "the network has one input, which is the other member's: leave this key out");
	if (parts->model->vocab)
		return sl_fail_at(fail, "share.mode", SL_ERR_CONFIG, "vertical is not for networks of tokens");
	if (!cut->n_home)
		return SL_OK;
	return sl_fail_at(
		fail, "tail_begin", SL_ERR_CONFIG,
		"%s goes from the head of one member to the tail of the other: begin the tail after its last reader",
		cut->home[0] == SL_BUILD_INPUT ? "the input" : g->node[g->value[cut->home[0]].maker].name);
}

enum sl_err sl_setup_take_roles(const struct sl_setup *s, struct sl_parts *parts, struct sl_fail *fail)
{
	const bool learns = sl_roles_learn(&parts->part[SL_HEAD]);
	bool alike = true;

	for (int k = 0; k < s->n_features && !s->further && s->reads == SL_READS_ALL; k++) {
		const struct sl_setup *f = &s->features[k];
		const struct sl_plan_segment *head = &f->plan->segment[SL_HEAD], *middle = &f->plan->segment[SL_MIDDLE];
		const int own = parts->model->graph.n_in < 3 ? -1 : sl_setup_place(f, f->conf);

		alike = alike && head->graph.n_param == parts->part[SL_HEAD].n_param &&
			middle->graph.n_param == parts->part[SL_MIDDLE].n_param &&
			sl_roles_learn(&head->graph) == learns;
		for (int i = 0; i < middle->graph.n_param && alike; i++)
			alike = middle->graph.param[i].role == parts->part[SL_MIDDLE].param[i].role &&
				middle->graph.param[i].group == parts->part[SL_MIDDLE].param[i].group;
		for (int i = 0; i < head->n_param && alike; i++) {
			const struct sl_param *from = &head->graph.param[head->param[i].graph_param];
			struct sl_param *to = &parts->part[SL_HEAD].param[head->param[i].graph_param];

			if (own < 0 || head->param[i].input == own) {
				to->role = from->role;
				to->group = from->group;
			}
		}
	}
	return alike ? SL_OK
		     : sl_fail_at(
			       fail, "train.freeze", SL_ERR_CONFIG,
			       "all members need the same network, with the same train.freeze and train.groups of the "
			       "middle, and a head that learns at all or at none");
}

enum sl_err sl_setup_take_input(struct sl_setup *s, struct sl_parts *parts, bool learns, struct sl_fail *fail)
{
	const char *own = sl_conf_input(s->conf);
	enum sl_err err = SL_OK;

	if (parts->model->graph.n_in < 3 || !sl_agreed_is_vertical(&s->agreement.agreed))
		return SL_OK;
	if (learns)
		err = sl_parts_spare_gradients(parts, fail);
	return err || !own ? err : sl_parts_take_input(parts, own, &s->agreement.agreed.share.sends, fail);
}
