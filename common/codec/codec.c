/* The codec object: its stages, memory, and what a step does to its state. */
#include "common/codec/codec.h"

#include <stdlib.h>

#include "common/base/arena.h"
#include "common/base/assert.h"
#include "common/base/pool.h"
#include "common/codec/frame.h"
#include "common/codec/impl.h"
#include "common/codec/stage.h"
#include "common/exec/backend.h"

/* 2 GiB of fp32: body lengths fit in 32 bits. */
static const int64_t max_elements = (int64_t)1 << 29;

/* The largest extent of a tensor with `dim0` in dimension 0, for rows of any lengths. */
static struct sl_extent most_of(const struct sl_codec *c, int64_t dim0)
{
	struct sl_extent e = sl_extent_of(sl_shape_rows(c->env.shape, dim0));

	if (c->env.row_tokens != 0) {
		e.rows = dim0 < c->env.rows ? dim0 : c->env.rows;
		e.longest = c->env.row_tokens;
	}
	return e;
}

void sl_codec_extents(const struct sl_codec *c, struct sl_extent *s)
{
	for (int i = 0; i < c->n_transform; i++) {
		uint32_t *begin = s[0].begin != NULL ? c->begin[i] : NULL;

		c->transform[i].stage->shape(c->transform[i].arg, &s[i], &s[i + 1], begin);
	}
}

struct sl_extent sl_codec_most_after(const struct sl_codec *c, int transforms, int64_t dim0)
{
	struct sl_extent s[MAX_TRANSFORMS + 1] = {most_of(c, dim0)};

	sl_codec_extents(c, s);
	return s[transforms];
}

size_t sl_codec_body_bound(const struct sl_codec *c, const struct sl_extent *s)
{
	size_t bytes = c->quantizer.stage->bound(c->quantizer.arg, false, &s[c->n_transform]);

	for (int i = 0; i < c->n_transform; i++) {
		bytes += SL_FRAME_TRANSFORM_BYTES;
		bytes += c->transform[i].stage->bound(c->transform[i].arg, c->transform[i].paired, &s[i]);
	}
	return bytes;
}

size_t sl_codec_bound_of(const struct sl_codec *c, const struct sl_extent *s)
{
	size_t body = sl_codec_body_bound(c, s);
	struct sl_extent flat = sl_extent_flat((int64_t)body);

	if (c->bytes.stage == NULL)
		return SL_FRAME_BYTES + body;
	return SL_FRAME_BYTES + 4 + c->bytes.stage->bound(c->bytes.arg, false, &flat);
}

int sl_codec_values(const struct sl_codec *codec)
{
	int n = 0;

	for (; codec != NULL; codec = codec->next)
		n++;
	return n;
}

size_t sl_codec_value_bound(const struct sl_codec *codec, int64_t dim0)
{
	struct sl_extent s[MAX_TRANSFORMS + 1] = {most_of(codec, dim0)};

	sl_codec_extents(codec, s);
	return sl_codec_bound_of(codec, s);
}

size_t sl_codec_bound(const struct sl_codec *codec, int64_t dim0)
{
	size_t bytes = sl_codec_value_bound(codec, dim0);

	if (codec->next != NULL)
		bytes += (size_t)sl_codec_values(codec) * SL_CODEC_VALUE_BYTES;
	for (const struct sl_codec *c = codec->next; c != NULL; c = c->next)
		bytes += sl_codec_value_bound(c, c->env.shape.dim[0]);
	for (int v = 0; v < SL_CODEC_VARIANTS; v++) {
		const size_t more = codec->variant[v] != NULL ? sl_codec_bound(codec->variant[v], dim0) : 0;

		bytes = more > bytes ? more : bytes;
	}
	return bytes;
}

double sl_codec_nominal_bytes(const struct sl_codec *c, int64_t dim0)
{
	const struct sl_codec *codec = c->last != NULL ? c->last : c;
	struct sl_extent s = sl_codec_most_after(codec, codec->n_transform, dim0);
	double bytes = codec->quantizer.stage->nominal(codec->quantizer.arg, &s) * codec->share;

	for (int i = 0; i < codec->n_transform; i++)
		bytes *= codec->kept[i];
	bytes = dim0 != 0 ? bytes : 0; /* a gradient that was left out */
	if (codec->next != NULL)
		bytes += sl_codec_nominal_bytes(codec->next, codec->next->dim0);
	return bytes;
}

/* ---- opening */

/* A copy of the portable stage with the functions of the backend's stage. */
static struct sl_codec_stage join(const struct sl_codec_stage *plain, const struct sl_codec_stage *device)
{
	struct sl_codec_stage s = *plain;

	s.size = device->size;
	s.memory = device->memory;
	s.open = device->open;
	s.close = device->close;
	s.keep = device->keep;
	s.commit = device->commit;
	s.rollback = device->rollback;
	s.state_bytes = device->state_bytes;
	s.save = device->save;
	s.load = device->load;
	s.forward = device->forward;
	s.parse = device->parse;
	s.inverse = device->inverse;
	s.restore_run = device->restore_run;
	s.encode = device->encode;
	s.decode = device->decode;
	s.queue_encode = device->queue_encode;
	s.queue_decode = device->queue_decode;
	s.collect = device->collect;
	s.count = device->count;
	s.counted = device->counted;
	s.echo = device->echo;
	return s;
}

/* The backend's version of a stage, or the portable one. */
static enum sl_err resolve(const struct sl_codec *c, const struct sl_codec_stage *stage, struct link *link,
			   struct sl_fail *fail)
{
	link->stage = stage;
	if (!c->device || stage->kind == SL_STAGE_BYTES)
		return SL_OK;
	if (c->env.row_tokens != 0 && stage->by_sample != NULL && stage->by_sample(link->arg)) {
		link->stage = NULL;
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "codec %s: %s has no %s for samples of different lengths",
				   c->spec.text, c->env.be->ops->name, stage->name);
	}
	for (const struct sl_codec_stage *const *s = c->env.be->ops->codec_stages; *s != NULL; s++) {
		if ((*s)->id == stage->id) {
			link->joined = join(stage, *s);
			link->stage = &link->joined;
			return SL_OK;
		}
	}
	link->stage = NULL;
	return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "codec %s: %s has no %s", c->spec.text, c->env.be->ops->name,
			   stage->name);
}

static enum sl_err find_link(struct sl_codec *c, struct link *link, const struct sl_codec_stage *stage,
			     const double *arg, struct sl_fail *fail)
{
	enum sl_err err;

	link->arg = arg;
	err = resolve(c, stage, link, fail);
	if (err)
		return err;
	link->finishes = link->stage->finishes && c->n_transform > 0 &&
			 c->transform[c->n_transform - 1].stage->restore_run != NULL;
	link->paired = c->paired && stage->pairs && !c->pair_found;
	c->pair_found = c->pair_found || link->paired;
	return SL_OK;
}

static enum sl_err find_links(struct sl_codec *c, struct sl_fail *fail)
{
	static const double no_arg[SL_CODEC_MAX_ARGS];
	enum sl_err err;

	for (int s = 0; s < c->spec.n_stage; s++) {
		const struct sl_codec_stage *stage = c->spec.stage[s].stage;
		struct link *link = stage->kind == SL_STAGE_TRANSFORM   ? &c->transform[c->n_transform]
				    : stage->kind == SL_STAGE_QUANTIZER ? &c->quantizer
									: &c->bytes;

		err = find_link(c, link, stage, c->spec.stage[s].arg, fail);
		if (err)
			return err;
		if (stage->kind == SL_STAGE_TRANSFORM)
			c->kept[c->n_transform++] = 1;
	}
	if (c->quantizer.stage != NULL)
		return SL_OK;
	return find_link(c, &c->quantizer, sl_codec_stage_find("none", 4), no_arg, fail);
}

/* The direction by which stages draw random numbers: further values have streams of their own (SL_RNG_VALUES). */
static enum sl_dir stream_dir(const struct sl_codec *c)
{
	const int further = c->env.value ? SL_RNG_VALUES - SL_RNG_CODEC + 2 * SL_DIR_COUNT * (c->env.value - 1) : 0;

	return (enum sl_dir)(further + (int)c->env.dir);
}

struct sl_stage_env sl_codec_stage_env(const struct sl_codec *c, const struct link *link)
{
	bool transform = link >= c->transform && link < c->transform + c->n_transform;
	int before = transform ? (int)(link - c->transform) : c->n_transform;

	return (struct sl_stage_env){.be = c->env.be,
				     .loops = c->loops,
				     .pool = c->pool,
				     .most = sl_codec_most_after(c, before, c->env.shape.dim[0]),
				     .slots = c->env.slots,
				     .seed = c->env.seed,
				     .dir = stream_dir(c),
				     .pair_dir = stream_dir(c),
				     .arg = link->arg,
				     .scratch = c->n_transform > 0 || c->spec.error_feedback};
}

static enum sl_err open_link(struct sl_codec *c, struct link *link, struct sl_fail *fail)
{
	struct sl_stage_env env = sl_codec_stage_env(c, link);
	int at = (int)(link - c->transform);

	if (link->finishes) {
		env.front = c->transform[at - 1].stage;
		env.front_state = c->transform[at - 1].state;
	}
	if (link->paired) {
		env.pair = c->env.pair->transform[at].state;
		env.pair_dir = stream_dir(c->env.pair);
		if (link->stage->keep != NULL) {
			enum sl_err err = link->stage->keep(env.pair, fail);

			if (err)
				return err;
		}
	}
	if (link->stage->size != 0) {
		link->state = calloc(1, link->stage->size);
		if (link->state == NULL)
			return sl_fail_set(fail, SL_ERR_NOMEM, "%s: no memory", link->stage->name);
	}
	return link->stage->open == NULL ? SL_OK : link->stage->open(&link->state, &env, fail);
}

static enum sl_err open_links(struct sl_codec *c, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;

	for (int i = 0; i < c->n_transform && !err; i++)
		err = open_link(c, &c->transform[i], fail);
	if (!err)
		err = open_link(c, &c->quantizer, fail);
	if (!err && c->bytes.stage != NULL)
		err = open_link(c, &c->bytes, fail);
	return err;
}

bool sl_codec_direct(const struct sl_codec *c)
{
	return !c->device && c->n_transform > 0 && c->quantizer.stage->id == SL_STAGE_ID_NONE;
}

size_t sl_codec_values_bytes(const struct sl_extent *e)
{
	return sl_align((size_t)sl_shape_count(&e->shape) * sizeof(float));
}

/* Takes memory for where samples begin after each transform. */
static size_t lay_out_begins(struct sl_codec *c, bool take)
{
	size_t bytes = ((size_t)c->env.rows + 1) * sizeof(uint32_t);

	for (int i = 0; take && i < c->n_transform; i++)
		c->begin[i] = sl_arena_take(&c->arena, bytes);
	return (size_t)c->n_transform * sl_align(bytes);
}

size_t sl_codec_lay_out(struct sl_codec *c, bool take)
{
	struct sl_extent s[MAX_TRANSFORMS + 1] = {most_of(c, c->env.shape.dim[0])};
	size_t total = c->env.row_tokens != 0 ? lay_out_begins(c, take) : 0;

	sl_codec_extents(c, s);
	for (int i = 0; i < c->n_transform; i++) {
		bool values = !c->device && !(i == c->n_transform - 1 && sl_codec_direct(c));
		size_t cap = c->transform[i].stage->bound(c->transform[i].arg, c->transform[i].paired, &s[i]);

		total += (size_t)c->flights * sl_align(cap) + (values ? sl_codec_values_bytes(&s[i + 1]) : 0);
		for (int f = 0; take && f < c->flights; f++)
			c->flight[f].side[i] = (struct sl_buf){sl_arena_take(&c->arena, cap), 0, cap};
		if (take && values)
			c->values[i] = sl_arena_take(&c->arena, sl_codec_values_bytes(&s[i + 1]));
	}
	if (c->bytes.stage != NULL) {
		size_t cap = sl_codec_body_bound(c, s);

		total += (size_t)c->flights * sl_align(cap);
		for (int f = 0; take && f < c->flights; f++)
			c->flight[f].body = (struct sl_buf){sl_arena_take(&c->arena, cap), 0, cap};
	}
	return total;
}

static enum sl_err open_memory(struct sl_codec *c, struct sl_fail *fail)
{
	enum sl_err err;

	c->flight = calloc((size_t)c->flights, sizeof *c->flight);
	if (c->flight == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory for %d slots", c->flights);
	if (c->spec.error_feedback) {
		err = sl_feedback_open(c, fail);
		if (err)
			return err;
	}
	if (c->device && c->env.be->ops->host_alloc != NULL) {
		size_t bytes = sl_codec_lay_out(c, false);

		err = c->env.be->ops->host_alloc(c->env.be, bytes, &c->pinned, fail);
		c->arena = (struct sl_arena){.base = c->pinned, .cap = bytes};
	} else {
		err = sl_arena_open(&c->arena, sl_codec_lay_out(c, false), fail);
	}
	if (err)
		return err;
	sl_codec_lay_out(c, true);
	for (int i = 0; c->device && i < c->n_transform; i++) {
		struct sl_extent out = sl_codec_most_after(c, i + 1, c->env.shape.dim[0]);

		err = c->env.be->ops->alloc(c->env.be, sl_codec_values_bytes(&out), (void **)&c->values[i], fail);
		if (err)
			return err;
	}
	return SL_OK;
}

/* `features`: elements of a token. */
static enum sl_err check_tokens(const struct sl_codec_spec *spec, const struct sl_codec_env *env, int64_t features,
				struct sl_fail *fail)
{
	int64_t tokens = env->shape.dim[0];

	if (env->row_tokens < 1 || env->row_tokens > UINT16_MAX || env->rows < 1 || env->rows > tokens ||
	    tokens > env->rows * env->row_tokens)
		return sl_fail_set(fail, SL_ERR_LIMIT,
				   "codec %s: %lld tokens are not those of %lld rows of 1 to %lld, or these are above "
				   "%d",
				   spec->text, (long long)tokens, (long long)env->rows, (long long)env->row_tokens,
				   UINT16_MAX);
	if (spec->error_feedback && env->rows * env->row_tokens > max_elements / features)
		return sl_fail_set(
			fail, SL_ERR_LIMIT, "codec %s: residuals of %lld rows of %lld tokens are above %lld elements",
			spec->text, (long long)env->rows, (long long)env->row_tokens, (long long)max_elements);
	return SL_OK;
}

static enum sl_err check_env(const struct sl_codec_spec *spec, const struct sl_codec_env *env, struct sl_fail *fail)
{
	struct sl_codec_spec change;
	char text[SL_SHAPE_TEXT];
	int64_t count;

	if (env->slots < 1 || (unsigned)env->dir >= SL_DIR_COUNT)
		return sl_fail_set(fail, SL_ERR_BUG, "codec %s: %d slots, direction %d", spec->text, env->slots,
				   env->dir);
	if (env->shape.ndim < 1 || env->shape.ndim > SL_MAX_DIMS ||
	    !sl_shape_count_checked(&env->shape, max_elements, &count))
		return sl_fail_set(fail, SL_ERR_LIMIT, "codec %s: tensor %s is not within 1 to %lld elements",
				   spec->text, sl_shape_text(&env->shape, text), (long long)max_elements);
	if (env->dir != SL_DIR_MID_ACT && sl_codec_spec_variant(spec, SL_CODEC_CHANGE, &change))
		return sl_fail_set(fail, SL_ERR_CONFIG, "codec %s: change=b is for mid_act alone", spec->text);
	if (env->row_tokens != 0) {
		enum sl_err err = check_tokens(spec, env, count / env->shape.dim[0], fail);

		if (err)
			return err;
	}
	if (env->pair != NULL &&
	    (!sl_codec_spec_pairs(&env->pair->spec, spec) || !sl_shape_equal(&env->pair->env.shape, &env->shape) ||
	     env->pair->env.row_tokens != env->row_tokens || env->pair->env.rows != env->rows))
		return sl_fail_set(fail, SL_ERR_BUG, "codec %s does not pair with %s", spec->text,
				   env->pair->spec.text);
	return SL_OK;
}

enum sl_err sl_codec_find(struct sl_codec *c, const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  bool paired, struct sl_fail *fail)
{
	const struct sl_backend_ops *ops = env->be == NULL ? NULL : env->be->ops;
	enum sl_err err = check_env(spec, env, fail);
	struct sl_codec_spec change;

	if (err)
		return err;
	*c = (struct sl_codec){.spec = *spec, .env = *env, .paired = paired, .share = 1};
	c->pool = env->be == NULL ? NULL : env->be->pool;
	c->device = ops != NULL && ops->codec_stages != NULL;
	c->flights = c->device && ops->ahead ? env->slots : 1;
	c->loops = ops != NULL && ops->codec_loops != NULL ? ops->codec_loops() : &sl_codec_loops_c;
	if (c->loops->streaming != NULL &&
	    sl_shape_count(&env->shape) * (int64_t)sizeof(float) >= SL_CODEC_STREAM_BYTES)
		c->loops = c->loops->streaming;
	if (c->device && c->spec.error_feedback && ops->combine == NULL)
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "codec %s: no error feedback on %s", c->spec.text,
				   ops->name);
	if (c->device && (spec->of_change || sl_codec_spec_variant(spec, SL_CODEC_CHANGE, &change)))
		return sl_fail_set(fail, SL_ERR_UNAVAILABLE, "codec %s: %s codes no changes", c->spec.text, ops->name);
	return find_links(c, fail);
}

/* `env` has all values of the run. */
static enum sl_err open_variants(struct sl_codec *c, const struct sl_codec_env *env, struct sl_fail *fail)
{
	struct sl_codec_env alone = *env;
	struct sl_codec_spec spec;
	enum sl_err err = SL_OK;

	alone.pair = NULL;
	for (int v = 0; v < SL_CODEC_VARIANTS && !err; v++)
		if (sl_codec_has_variant(&c->spec, env, (enum sl_codec_variant)v, &spec))
			err = sl_codec_open(&c->variant[v], &spec, &alone, fail);
	if (err || c->variant[SL_CODEC_CHANGE] == NULL)
		return err;
	err = sl_change_open(&c->change, env);
	return err ? sl_fail_set(fail, err, "codec %s: no memory for what is kept", c->spec.text) : SL_OK;
}

enum sl_err sl_codec_open(struct sl_codec **out, const struct sl_codec_spec *spec, const struct sl_codec_env *env,
			  struct sl_fail *fail)
{
	struct sl_codec *c = calloc(1, sizeof *c);
	enum sl_err err;

	if (c == NULL)
		return sl_fail_set(fail, SL_ERR_NOMEM, "codec: no memory");
	err = sl_codec_find(c, spec, env, env->pair != NULL, fail);
	if (!err)
		err = open_links(c, fail);
	if (!err)
		err = open_memory(c, fail);
	if (!err)
		err = open_variants(c, env, fail);
	c->env.next = NULL;
	if (!err && env->next != NULL) {
		struct sl_codec_env next = *env->next;

		next.pair = env->pair != NULL ? env->pair->next : NULL;
		err = sl_codec_open(&c->next, spec, &next, fail);
	}
	if (err) {
		sl_codec_close(c);
		return err;
	}
	*out = c;
	return SL_OK;
}

static void close_link(struct link *link)
{
	if (link->stage == NULL || link->state == NULL)
		return;
	if (link->stage->close != NULL)
		link->stage->close(link->state);
	if (link->stage->size != 0)
		free(link->state);
}

void sl_codec_close(struct sl_codec *c)
{
	if (c == NULL)
		return;
	sl_codec_close(c->next);
	for (int i = 0; i < MAX_TRANSFORMS; i++) {
		close_link(&c->transform[i]);
		if (c->device && c->values[i] != NULL)
			c->env.be->ops->free(c->env.be, c->values[i]);
	}
	close_link(&c->quantizer);
	close_link(&c->bytes);
	if (c->pinned != NULL)
		c->env.be->ops->host_free(c->env.be, c->pinned);
	else
		sl_arena_close(&c->arena);
	sl_feedback_close(c);
	sl_change_close(c->change);
	for (int v = 0; v < SL_CODEC_VARIANTS; v++)
		sl_codec_close(c->variant[v]);
	free(c->flight);
	free(c);
}

/* ---- the step */

static void each_link(struct sl_codec *c, bool commit)
{
	const struct link *l;

	for (int i = 0; (l = sl_codec_link(c, i)) != NULL; i++) {
		void (*fn)(void *) = commit ? l->stage->commit : l->stage->rollback;

		if (fn != NULL)
			fn(l->state);
	}
}

void sl_codec_commit(struct sl_codec *c)
{
	if (c == NULL)
		return;
	sl_codec_commit(c->next);
	each_link(c, true);
	sl_change_end(c->change, true);
	for (int s = 0; c->residual != NULL && s < c->env.slots; s++) {
		struct residual *r = &c->residual[s];
		float *old = r->current;

		if (!r->has_pending)
			continue;
		sl_assert(r->pending != old);
		r->current = r->pending;
		r->pending = old;
		r->has_current = true;
		r->has_pending = false;
	}
}

void sl_codec_rollback(struct sl_codec *c)
{
	if (c == NULL)
		return;
	sl_codec_rollback(c->next);
	each_link(c, false);
	sl_change_end(c->change, false);
	for (int s = 0; c->residual != NULL && s < c->env.slots; s++)
		c->residual[s].has_pending = false;
}
