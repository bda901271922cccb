#include "client/setup/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "client/model/roles.h"
#include "client/model/split.h"
#include "client/setup/about.h"
#include "common/base/log.h"
#include "common/codec/extent.h"
#include "common/conf/key.h"
#include "kernels/cpu/cpu.h"

static void put(char *to, size_t cap, const char *text)
{
	snprintf(to, cap, "%.*s", (int)cap - 1, text);
}

/* A plan's error, with the place of the key that it blames. */
static enum sl_err plan_fail(const struct sl_conf_client *c, const struct sl_fail *why, struct sl_fail *fail)
{
	return sl_conf_client_fail(c, why->key[0] ? why->key : "model.name", fail, "%s", sl_fail_sentence(why));
}

/* Passes on an error's sentence, without its key. */
static struct sl_fail *pass_on(struct sl_fail *fail, const struct sl_fail *why)
{
	(void)!sl_fail_set(fail, why->code, "%s", sl_fail_sentence(why));
	return fail;
}

static enum sl_err read_insert(const struct sl_setup *s, const char *key, const char *text, char *out,
			       struct sl_fail *fail)
{
	struct sl_fail why;

	if (sl_insert_advance(text, strcmp(key, "insert.tail") == 0, s->trained, out, &why) != SL_OK)
		return sl_conf_client_fail(s->conf, key, fail, "%s", why.text);
	return SL_OK;
}

/* Opens every codec for one row of its tensor, the longest: as it is at first, and as decaying inserts leave it. */
static enum sl_err try_codecs(const struct sl_setup *s, struct sl_fail *fail)
{
	for (int i = 0; i < 2 * SL_DIR_COUNT; i++) {
		enum sl_dir dir = (enum sl_dir)(i % SL_DIR_COUNT);
		bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
		uint64_t done = i < SL_DIR_COUNT ? 0 : UINT64_MAX;
		const int64_t longest = sl_plan_cut_per_token(s->plan, mid) ? s->plan->spec.row_tokens : 0;
		const struct sl_codec_env env = {
			.shape = sl_plan_cut_shape_after(s->plan, mid, longest ? longest : 1, done),
			.row_tokens = longest,
			.rows = 1,
			.slots = 1,
			.dir = dir,
		};
		struct sl_codec_spec change;
		struct sl_codec *codec;
		struct sl_fail why;
		char key[32];

		snprintf(key, sizeof key, "codec.%s", sl_dir_name(dir));
		if (sl_codec_open(&codec, &s->agreement.codec[dir], &env, &why) != SL_OK)
			return sl_conf_client_fail(s->conf, key, fail, "%s%s", why.text,
						   done ? ", to which the decaying insert narrows" : "");
		sl_codec_close(codec);
		if (sl_codec_spec_variant(&s->agreement.codec[dir], SL_CODEC_CHANGE, &change) &&
		    !s->conf->train.keep_sent_bytes)
			return sl_conf_client_fail(s->conf, key, fail,
						   "change=b needs train.keep_sent_bytes, by which both sides know a "
						   "sample again");
		if (sl_setup_check_slices(s, dir, mid, &why) != SL_OK ||
		    (s->reads == SL_READS_ALL && sl_setup_try_feedback(s, dir, mid, &why) != SL_OK))
			return sl_conf_client_fail(s->conf, key, fail, "%s", why.text);
	}
	return SL_OK;
}

/* Checks error feedback on the largest vector of shared heads and tails. */
static enum sl_err try_end_feedback(const struct sl_setup *s, const struct sl_end_layout *layout, int end,
				    struct sl_fail *fail)
{
	int64_t n = s->agreement.agreed.share.layers == SL_LAYERS_ALL ? layout->grads : 0;
	struct sl_extent most;

	for (int i = 0; i < layout->n; i++)
		n = layout->count[i] > n ? layout->count[i] : n;
	most = sl_extent_of(sl_shape2(1, n));
	return sl_codec_feeds_back(&s->agreement.end_codec[end], &most, fail);
}

/* Opens the codecs of shared heads and tails for a vector. */
static enum sl_err try_end_codecs(const struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_codec_env env = {.shape = sl_shape2(1, 16), .slots = 1, .dir = SL_DIR_HEAD_GRAD};
	struct sl_end_layout layout;
	struct sl_fail why;
	enum sl_err err;

	if (!s->plan->spec.shared_ends)
		return SL_OK;
	err = sl_end_layout_of(&layout, s->plan, &why);
	if (err)
		return sl_conf_client_blame(s->conf, why.key, err, pass_on(fail, &why));
	for (int end = 0; end < SL_END_COUNT && !err; end++) {
		struct sl_codec *codec = NULL;
		char key[32];

		snprintf(key, sizeof key, "codec.%s", sl_end_name((enum sl_ends_run)end));
		err = sl_codec_open(&codec, &s->agreement.end_codec[end], &env, &why);
		if (!err)
			err = try_end_feedback(s, &layout, end, &why);
		if (err)
			err = sl_conf_client_fail(s->conf, key, fail, "%s", why.text);
		sl_codec_close(codec);
	}
	sl_end_layout_close(&layout);
	return err;
}

/* Whether, in a language model, sums over batches or chunks with unequal numbers of tokens become one mean. */
static bool counts_tokens(const struct sl_setup *s)
{
	const struct sl_agreed *a = &s->agreement.agreed;

	return s->conf->model.head != SL_CONF_CLASSIFIER &&
	       (a->share.group[0] ||
		(a->chunk_sums && a->accumulate == 1 && s->conf->train.chunk_loss == SL_CHUNK_LOSS_MEAN));
}

/* What learns decides which gradients cross. */
static enum sl_err agree_and_plan(struct sl_setup *s, struct sl_parts *parts, struct sl_fail *fail)
{
	const bool head = sl_roles_learn(&parts->part[SL_HEAD]);
	enum sl_err err;

	for (int i = 0; i < s->conf->train.groups.n && i < SL_CONF_GROUPS; i++) {
		struct sl_conf_group g;

		if (sl_conf_group_read(s->conf->train.groups.item[i], &g))
			sl_conf_group_rule(&g, s->agreement.agreed.group[i]);
	}
	s->agreement.agreed.token_loss = counts_tokens(s);
	s->agreement.agreed.fetch_state = s->conf->train.audit_every || s->audits;
	s->agreement.agreed.cross.head_grad = head;
	s->agreement.agreed.cross.mid_grad = head || sl_roles_learn(&parts->part[SL_MIDDLE]);
	err = sl_setup_take_input(s, parts, head, fail);
	if (!err)
		err = sl_agreement_settle(&s->agreement, fail);
	s->agreement.plan.ends =
		s->conf->train.ends_precision == SL_ENDS_FP32 ? SL_PRECISION_FP32 : SL_PRECISION_BF16_FACTORS;
	return err ? err : sl_plan_open_parts(&s->plan, parts, &s->agreement.plan, fail);
}

/* Whether all members need the same value: of learning rates, for the middle; of the loss, for shared ends; and of what
 * divides one set of data among them, so that no sample is in two parts or left out. */
static bool counts_for_all(const struct sl_conf_client *c, const char *path)
{
	static const char *const loss[] = {"train.loss", "train.class_weights", "train.label_smoothing"};

	for (size_t i = 0; i < sizeof loss / sizeof *loss && c->agreed.share.ends != SL_ENDS_PRIVATE; i++)
		if (strcmp(path, loss[i]) == 0)
			return true;
	if (strcmp(path, "data.partition") == 0 || strcmp(path, "data.train_limit") == 0 ||
	    strncmp(path, "data.split.", 11) == 0)
		return strcmp(c->data.partition, "files") != 0;
	return strcmp(path, "train.optimizer.lr") == 0 || strncmp(path, "train.schedule.", 15) == 0;
}

/* Whether both parties of a vertical group need the same value, to do the same passes over the same rows. */
static bool sets_course(const struct sl_conf_client *c, const char *path)
{
	static const char *const same[] = {"train.epochs", "train.max_steps",  "train.eval_every", "train.drop_last",
					   "train.on_nan", "data.train_limit", "data.test_limit"};

	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		if (strcmp(path, same[i]) == 0)
			return true;
	return strncmp(path, "data.split.", 11) == 0;
}

/* A hash, 1 … 0xffff, of the keys that `counts`, from `hash` on. */
static int hash_keys(const struct sl_conf_client *c, bool (*counts)(const struct sl_conf_client *c, const char *path),
		     uint64_t hash)
{
	const struct sl_conf_schema *schema = &sl_conf_client_schema;
	char text[1024];

	for (int i = 0; i < schema->n_key; i++) {
		const char *path = schema->key[i].path;
		int n;

		if (!counts(c, path) || sl_conf_client_is_idle(c, path))
			continue;
		n = snprintf(text, sizeof text, "%s ", path);
		if (sl_conf_value_text(schema, c, path, text + n, sizeof text - (size_t)n) == SL_OK)
			hash = XXH3_64bits_withSeed(text, strlen(text), hash);
	}
	return (int)(hash % 0xffff) + 1;
}

/* Sets what all members must have in common, beside the config's keys. A run that does not train is no member. */
static enum sl_err settle_share(struct sl_setup *s, struct sl_fail *fail)
{
	static const char of[] = "split seal";
	struct sl_agreed *a = &s->agreement.agreed;
	enum sl_err err = SL_OK;

	if (!s->epoch_steps) {
		a->share = sl_agreed_default().share;
		return SL_OK;
	}
	if (s->conf->share_secret[0] && sl_agreed_shares_ends(a)) {
		err = sl_order_secret(s->conf, &s->seal, fail);
		a->share.seal = err ? 0 : (int)(sl_key_hash(&s->seal, of, sizeof of) % 0xffff) + 1;
	}
	if (a->share.mode == SL_SHARE_SERIAL || a->share.mode == SL_SHARE_ROUNDS)
		a->share.turns = (int64_t)s->turns.count[a->share.member];
	if (a->share.mode == SL_SHARE_ROUNDS && !a->share.round)
		a->share.round = s->epoch_steps;
	if (a->share.mode == SL_SHARE_SYNC && !a->share.rows)
		a->share.rows = (int64_t)a->share.clients * a->batch;
	a->share.epoch_steps = s->epoch_steps;
	a->share.dealt = s->dealt;
	a->share.labels = a->share.ends == SL_ENDS_PRIVATE ? 0 : (int)sl_about_agreed(s);
	/* not the run's length, which may be increased later */
	a->share.rates = hash_keys(s->conf, counts_for_all,
				   sl_setup_stratifies(s) && strcmp(s->conf->data.partition, "files") != 0);
	a->share.course = a->share.mode == SL_SHARE_VERTICAL ? hash_keys(s->conf, sets_course,
									 (uint64_t)s->set[SL_SPLIT_TRAIN].count << 32 |
										 (uint64_t)s->set[SL_SPLIT_TEST].count)
							     : 0;
	a->share.checkpoint_every = s->conf->train.checkpoint_every;
	return err;
}

static void choose_loss(struct sl_split_spec *spec, enum sl_conf_loss loss)
{
	spec->loss = loss < SL_CONF_MSE ? (enum sl_split_loss)loss : SL_LOSS_LABELS;
	spec->numbers = loss == SL_CONF_L1 ? SL_MSE_L1 : loss == SL_CONF_HUBER ? SL_MSE_HUBER : SL_MSE_SQUARE;
	spec->pixels = loss < SL_CONF_DICE ? SL_XENT_ENTROPY : SL_XENT_DICE + (int)(loss - SL_CONF_DICE);
}

/* Layers that get adapters: those of the config, or else the usual ones. */
static void choose_targets(struct sl_setup *s)
{
	const char *usual = s->takes.adapted;
	struct sl_conf_list *to = &s->adapted;

	*to = s->conf->lora.target;
	for (size_t n; !s->conf->lora.target.n && usual && *usual; usual += n + (usual[n] == ',')) {
		n = strcspn(usual, ",");
		snprintf(to->item[to->n++], sizeof to->item[0], "%.*s", (int)n, usual);
	}
}

static void describe_model(struct sl_model_spec *out, const struct sl_conf_client *conf)
{
	put(out->name, sizeof out->name, conf->model.name);
	out->width = conf->model.width;
	out->task = sl_setup_task(conf)->kind;
	out->classes = conf->model.classes;
	out->masked = conf->model.head == SL_CONF_MASKED_LM ? conf->data.mask_rate : 0;
	out->image = conf->model.image.h;
	out->image_w = conf->model.image.w;
	out->cifar_stem = conf->model.form == SL_FORM_CIFAR;
	out->dropout = conf->model.dropout;
	out->init_bn0 = conf->model.init_bn0;
	out->features = conf->model.features;
	out->vocab = conf->model.vocab;
	out->tokens = conf->model.tokens;
	out->huggingface = conf->model.huggingface[0] ? conf->model.huggingface : NULL;
	out->network = conf->model.network[0] ? conf->model.network : NULL;
	out->input = sl_conf_input(conf);
}

enum sl_err sl_setup_plan(struct sl_setup *s, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	struct sl_split_spec spec = {0};
	struct sl_parts parts;
	int64_t row_tokens, chunk_tokens;
	struct sl_fail why;
	enum sl_err err;

	s->conf = conf;
	describe_model(&spec.model, conf);
	err = sl_model_takes_of(&s->takes, &spec.model, &why);
	if (err)
		return sl_conf_client_blame(conf, why.key, err, pass_on(fail, &why));
	choose_targets(s);
	s->lora = (struct sl_lora){conf->lora.rank, conf->lora.alpha, conf->lora.dropout, &s->adapted};
	spec.model.lora = conf->lora.rank ? &s->lora : NULL;
	choose_loss(&spec, conf->train.loss);
	spec.label_smoothing = conf->train.label_smoothing;
	put(spec.cut.partition, sizeof spec.cut.partition, conf->partition);
	put(spec.cut.head_end, sizeof spec.cut.head_end, conf->head_end);
	put(spec.cut.tail_begin, sizeof spec.cut.tail_begin, conf->tail_begin);
	spec.cut.values = conf->cut_values;
	spec.tail_loss = conf->tail_tokens == SL_CONF_TAIL_LOSS;
	err = read_insert(s, "insert.head", conf->insert.head, spec.insert_head, fail);
	if (!err)
		err = read_insert(s, "insert.tail", conf->insert.tail, spec.insert_tail, fail);
	if (err)
		return err;
	spec.freeze = &conf->train.freeze;
	spec.groups = &conf->train.groups;
	err = sl_setup_share(s, fail);
	if (!err)
		err = sl_setup_further(s, fail);
	if (!err)
		err = sl_setup_tokens(s, &row_tokens, &chunk_tokens, fail);
	if (err)
		return err;
	spec.model.pad = s->reads != SL_READS_NONE && row_tokens ? s->set[SL_SPLIT_TEST].pad : -1;
	spec.model.whole_rows = conf->data.pad == SL_CONF_PAD_MAX ? row_tokens : 0;
	s->agreement.agreed = conf->agreed;
	err = settle_share(s, fail);
	if (err)
		return err;
	s->agreement.agreed.row_tokens = row_tokens;
	s->agreement.agreed.chunk_tokens = chunk_tokens;
	s->agreement.agreed.phase_step = (int64_t)s->phase.step;
	s->agreement.agreed.padded = row_tokens && conf->data.pad;
	err = sl_parts_open(&parts, &spec, &why);
	if (!err)
		err = sl_setup_check_parties(s, &parts, &why);
	if (!err)
		err = sl_setup_take_roles(s, &parts, &why);
	if (!err)
		sl_setup_choose_held(s, &parts);
	if (!err)
		err = agree_and_plan(s, &parts, &why);
	sl_parts_close(&parts);
	if (err == SL_ERR_CONFIG)
		return plan_fail(conf, &why, fail);
	if (err && why.key[0])
		return sl_conf_client_blame(conf, why.key, err, pass_on(fail, &why));
	if (err)
		return sl_fail_set(fail, err, "%s", why.text);
	for (int i = 0; i < 2 && s->epoch_steps; i++)
		if (sl_decay_falls(&s->plan->decay[i], UINT64_MAX))
			return sl_conf_client_fail(conf, i ? "insert.tail" : "insert.head", fail,
						   "inserts that decay cannot be shared by a group");
	err = try_codecs(s, fail);
	return err ? err : try_end_codecs(s, fail);
}

struct sl_ends_use sl_setup_use(const struct sl_setup *s)
{
	return (struct sl_ends_use){
		.chunk_loss_sum = s->conf->train.chunk_loss == SL_CHUNK_LOSS_SUM,
		.restores = !sl_conf_learns_labels(s->conf),
		.class_weight = s->class_weight,
		.scale = s->scale,
		.noise = &s->noise,
		.home = s->home,
	};
}

struct sl_link_conf sl_setup_link(struct sl_setup *s, const struct sl_transport_auth *auth)
{
	struct sl_link_conf link = sl_link_conf_of(s->conf, auth);

	link.plan = s->plan;
	link.agreement = &s->agreement;
	link.be = &s->be;
	link.weights = &s->weights;
	link.weights_from_seed = s->weights_from_seed;
	return link;
}

void sl_setup_blame(const struct sl_setup *s, struct sl_fail *fail)
{
	sl_conf_client_blame(s->conf, fail->key, fail->code, fail);
}

enum sl_err sl_setup_backend(struct sl_setup *s, struct sl_fail *fail)
{
	const char *reason;
	enum sl_err err = sl_pool_open(&s->pool, s->conf->threads, fail);

	if (!err)
		err = sl_cpu_backend_open(&s->be, s->pool, fail);
	s->be_open = !err;
	if (!err)
		s->be.recompute = sl_setup_recomputes(s, &s->be);
	if (!err)
		err = sl_noise_read(&s->noise, sl_setup_input(s)->conf, s->conf, fail);
	s->noise.count = &s->noise_count;
	if (!err && sl_cpu_core_is_older(&reason))
		sl_log(SL_LOG_WARN, "slow-blas", "%s", reason);
	return err;
}

void sl_setup_close(struct sl_setup *s)
{
	sl_releases_close(&s->noise_count.releases);
	if (s->in_use)
		return;
	if (s->be_open)
		s->be.ops->close(&s->be);
	sl_pool_close(s->pool);
	free(s->class_weight);
	free(s->room);
	free(s->scale);
	sl_augment_close(s->augment);
	for (int split = 0; split < SL_SPLIT_COUNT; split++) {
		sl_transform_close(s->transform[split]);
		sl_set_close(&s->set[split]);
	}
	sl_about_forget(s);
	if (s->head_cache) {
		int64_t taken, put;

		sl_head_cache_count(s->head_cache, &taken, &put);
		if (put)
			sl_log(SL_LOG_INFO, "head-kept",
			       "the head computed %lld samples, and %lld were kept from before", (long long)put,
			       (long long)taken);
		sl_head_cache_close(s->head_cache);
	}
	for (int k = 0; k < s->n_features && s->further; k++)
		sl_setup_close(&s->further[k]);
	free(s->further);
	free(s->further_conf);
	sl_dcor_close(s->dcor);
	sl_order_close(&s->order);
	explicit_bzero(&s->seal, sizeof s->seal);
	if (s->aligned && !s->conf->also) {
		sl_aligned_close(s->aligned);
		free(s->aligned);
	}
	free(s->home);
	free(s->weights_file);
	free(s->about);
	free(s->kept);
	free(s->threshold);
	sl_weights_close(&s->weights);
	sl_plan_close(s->plan);
	*s = (struct sl_setup){0};
}
