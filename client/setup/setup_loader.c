/* Makes the loader of a split (loader.h): which batches, from which sources, by how many threads. */
#include <string.h>

#include "client/setup/setup_pictures.h"
#include "common/base/rng.h"

int sl_setup_loader_threads(const struct sl_conf_client *c)
{
	if (c->data.threads)
		return c->data.threads;
	return sl_setup_decodes(c) ? c->threads : 1;
}

/* The seed for the order and augmentation of samples: each member has its own, the first one the run's. */
static uint64_t seed_of(const struct sl_setup *s)
{
	const uint64_t seed = (uint64_t)s->conf->agreed.seed;
	const bool apart = s->epoch_steps && !sl_agreed_is_vertical(&s->conf->agreed);
	const int member = apart ? s->conf->agreed.share.member : 0;
	const struct sl_rng_key key = {.seed = seed, .step = (uint64_t)member, .tensor = SL_RNG_MEMBER};
	uint32_t w[4];

	sl_rng_quad(&key, 0, w);
	return member ? (uint64_t)w[0] << 32 | w[1] : seed;
}

int sl_setup_place(const struct sl_setup *s, const struct sl_conf_client *c)
{
	const struct sl_graph *head = s->plan ? &s->plan->segment[SL_HEAD].graph : NULL;
	int place = 0;

	for (int k = 0; head && sl_conf_input(c) && k < head->n_in; k++)
		place = strcmp(head->in[k].name, sl_conf_input(c)) == 0 ? k : place;
	return place;
}

enum sl_err sl_setup_loader(const struct sl_setup *s, enum sl_split split, void (*wake)(void *arg), void *arg,
			    struct sl_loader **out, struct sl_fail *fail)
{
	bool train = split == SL_SPLIT_TRAIN;
	/* Members divide each batch of one set: all need the same order, and so the run's seed. */
	const bool joint = train && s->epoch_steps && strcmp(s->conf->data.partition, "batch") == 0;
	const struct sl_conf_client *busiest =
		s->conf; /* its keys set the number of threads: a source that decodes pictures, if there is one */
	struct sl_loader_spec spec = {
		.set = &s->set[split],
		.augment = s->augment,
		.transform = s->transform[split],
		.batch = s->conf->agreed.batch,
		.drop_last = train && s->conf->train.drop_last,
		.train = train,
		.predict = s->given != NULL,
		.members = joint ? s->conf->agreed.share.clients : 0,
		.member = joint ? s->conf->agreed.share.member : 0,
		.balanced = train && s->conf->data.sampling == SL_SAMPLING_BALANCED,
		.by_length = train && s->set[split].source->extent && s->conf->data.group_by_length,
		.pad = s->set[split].source->extent ? (enum sl_pad)s->conf->data.pad : SL_PAD_NONE,
		.pad_to = s->agreement.agreed.row_tokens,
		.masked = s->conf->model.head == SL_CONF_MASKED_LM ? (float)s->conf->data.mask_rate : 0,
		.next = s->conf->model.head == SL_CONF_CAUSAL_LM,
		.mixup = s->conf->train.mixup,
		.seed = joint ? (uint64_t)s->conf->agreed.seed : seed_of(s),
		.prefetch = s->streams ? 0 : s->conf->data.prefetch,
		.apart = s->streams || s->cases == SL_CASES_EACH,
		.wake = wake,
		.wake_arg = arg,
		.place = sl_setup_place(s, s->conf),
		.n_more = s->n_features,
	};

	for (int k = -1; k < s->n_features; k++) {
		const struct sl_setup *from = k < 0 ? s : &s->features[k];
		const bool decodes = sl_setup_decodes(from->conf);
		const bool skips = decodes && !s->streams && from->conf->data.on_bad_sample == SL_BAD_SAMPLE_SKIP;

		if (k < 0)
			spec.skip_bad = skips;
		else
			spec.more[k] =
				(struct sl_loader_input){&from->set[split], from->augment, from->transform[split],
							 sl_setup_place(s, from->conf), skips};
		busiest = decodes ? from->conf : busiest;
	}
	spec.threads = sl_setup_loader_threads(busiest);
	return sl_loader_open(out, &spec, fail);
}
