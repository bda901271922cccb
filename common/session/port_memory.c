/* Decides where a session's tensors are coded, and counts what its port takes before it is taken. port_equip.c opens
 * exactly what is counted here; tests/suite/test_port_memory.c compares the two. */
#include "common/codec/frame.h"
#include "common/codec/lengths.h"
#include "common/session/port_keep.h"

static struct sl_codec_env env_of(const struct coders *c, enum sl_dir dir, struct sl_shape shape, bool on_host)
{
	const bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;

	return (struct sl_codec_env){
		.be = on_host ? c->host_be : c->be,
		.shape = shape,
		.row_tokens = sl_plan_cut_per_token(c->plan, mid) ? c->plan->spec.row_tokens : 0,
		.rows = c->plan->rows,
		.slots = sl_plan_chunks_of(c->plan, c->plan->spec.batch),
		.seed = c->plan->spec.seed,
		.keep_tokens = dir == SL_DIR_MID_ACT ? sl_port_keeps(c->plan) : 0,
		.dir = dir,
	};
}

static enum sl_err place(const struct coders *c, struct coding *to, struct sl_shape shape, bool on_host,
			 struct sl_fail *fail)
{
	to->on_host = on_host;
	to->env = env_of(c, to->dir, shape, on_host);
	sl_port_env_values(c->plan, &to->env, to->next);
	to->lengths = sl_port_lengths(c->plan, (int)to->dir, c->plan->rows, c->plan->spec.chunk_tokens);
	return sl_codec_need(&c->spec[to->dir], &to->env, to->pairing, &to->need, fail);
}

/* If one codec of a pair must run on the host, both do, since they share places. */
enum sl_err sl_port_place(const struct coders *c, bool mid, uint64_t done, struct coding out[2], struct sl_fail *fail)
{
	struct sl_shape shape = sl_plan_cut_shape_after(c->plan, mid, sl_plan_cut_most(c->plan, mid), done);
	enum sl_dir dir[2] = {mid ? SL_DIR_MID_ACT : SL_DIR_HEAD_ACT, mid ? SL_DIR_MID_GRAD : SL_DIR_HEAD_GRAD};
	const int n = sl_port_crosses(c->plan, (int)dir[0]) + sl_port_crosses(c->plan, (int)dir[1]);
	bool paired = n == 2 && sl_codec_spec_pairs(&c->spec[dir[0]], &c->spec[dir[1]]);
	bool device = !c->be->host_memory && c->be->ops->codec_stages, all_on_host = !c->be->host_memory && !device;
	enum sl_err err = SL_OK;

	out[0] = (struct coding){.dir = dir[0]};
	out[1] = (struct coding){.dir = dir[1]};
	for (int i = 0; i < n && !err; i++) {
		bool on_host = all_on_host || (i == 1 && paired && out[0].on_host);

		out[i] = (struct coding){.dir = dir[i]};
		if (paired)
			out[i].pairing = i == 0 ? SL_CODEC_KEEPS : SL_CODEC_PAIRED;
		err = place(c, &out[i], shape, on_host, fail);
		if (err != SL_ERR_UNAVAILABLE || !device || on_host)
			continue;
		out[i].lacks = *fail;
		err = place(c, &out[i], shape, true, fail);
		if (!err && i == 1 && paired)
			err = place(c, &out[0], shape, true, fail);
	}
	return err;
}

/* ---- sums */

/* Adds the codecs that sl_port_set_done opens for a narrower tensor before it closes those of the wider one. */
static enum sl_err add_narrower(const struct coders *c, bool mid, struct sl_memory *codecs, struct sl_fail *fail)
{
	const struct sl_decay *d = &c->plan->decay[mid];
	struct sl_memory most = {0};
	struct coding pair[2];

	if (d->full == 0)
		return SL_OK;
	for (int falls = sl_decay_falls(d, 0) + 1; falls <= d->times; falls++) {
		struct sl_memory sum = {0};
		enum sl_err err = sl_port_place(c, mid, (uint64_t)(d->every * falls - d->from), pair, fail);

		if (err)
			return err;
		sl_memory_add(&sum, pair[0].need.memory);
		sl_memory_add(&sum, pair[1].need.memory);
		most.host = sum.host > most.host ? sum.host : most.host;
		most.device = sum.device > most.device ? sum.device : most.device;
	}
	sl_memory_add(codecs, most);
	return SL_OK;
}

size_t sl_port_lengths(const struct sl_plan *plan, int what, int64_t rows, int64_t tokens)
{
	if (what != SL_PART_HEAD_ACT || !sl_plan_lengths_cross(plan))
		return 0;
	return sl_lengths_bytes(rows, plan->spec.cached) + (sl_plan_cut_chosen(plan) ? sl_choice_bytes(tokens) : 0) +
	       (sl_port_keeps(plan) ? sl_homes_bytes(rows) : 0);
}

/* Numbers of a slot of `begin`: row offsets, then the choice; begin_numbers counts the homes after these, too. */
static size_t choice_numbers(const struct sl_plan *plan)
{
	return sl_dims_numbers(plan->rows, sl_plan_pairs(&plan->spec)) +
	       (sl_plan_cut_chosen(plan) ? 1 + (size_t)sl_plan_cut_most(plan, true) : 0);
}

static size_t begin_numbers(const struct sl_plan *plan)
{
	return choice_numbers(plan) + (sl_port_keeps(plan) ? (size_t)plan->rows : 0);
}

size_t sl_port_begin_bytes(const struct sl_plan *plan)
{
	return sl_plan_lengths_cross(plan)
		       ? (size_t)sl_plan_chunks_of(plan, plan->spec.batch) * begin_numbers(plan) * sizeof(uint32_t)
		       : 0;
}

/* A plain payload's first part is at most a full one, after lengths and header, which must not straddle two parts. */
size_t sl_port_buffer_bytes(const struct sl_backend *be, const struct sl_codec_need *need, size_t lengths,
			    bool receives)
{
	const size_t front = lengths + SL_FRAME_BYTES, most = SL_WIRE_PART_MAX + (lengths ? front : 0);

	if (!be->host_memory || !need->plain)
		return lengths + need->bound;
	if (receives)
		return front;
	return lengths + need->bound < most ? lengths + need->bound : most;
}

size_t sl_port_weights_bytes(const struct sl_plan *plan, bool upload)
{
	const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];

	return (size_t)(upload ? s->weight_count : sl_plan_fetch_count(s)) * sizeof(float);
}

static void add_runs(const struct coders *c, const struct coding *k, bool receives, uint64_t *host)
{
	const uint64_t buffer = sl_align(sl_port_buffer_bytes(c->be, &k->need, k->lengths, receives));

	if (!sl_port_crosses(c->plan, (int)k->dir))
		return;
	sl_need(host, k->env.slots, sizeof(struct run_slot) + buffer);
}

static void add_tensor(const struct coding *k, uint64_t *host_tensor)
{
	uint64_t bytes = 0;

	for (const struct sl_codec_env *env = &k->env; env; env = env->next)
		bytes += (uint64_t)sl_shape_count(&env->shape) * sizeof(float);
	if (k->on_host && bytes > *host_tensor)
		*host_tensor = bytes;
}

/* Bytes of the jobs that each chunk has. */
static size_t jobs_bytes(int slots)
{
	size_t bytes = 0;

	for (int task = 0; task < SL_TASK_COUNT; task++)
		bytes += sl_port_per_chunk((enum sl_task)task) ? (size_t)slots * sizeof(struct task_job) : 0;
	return bytes;
}

enum sl_err sl_port_memory(const struct sl_plan *plan, struct sl_backend *be, struct sl_backend *host_be,
			   const struct sl_codec_spec spec[SL_DIR_COUNT], enum sl_session_role role,
			   struct sl_port_memory *out, struct sl_fail *fail)
{
	const struct coders c = {.plan = plan, .be = be, .host_be = host_be, .spec = spec};
	struct sl_port_memory m = {0};
	uint64_t host_tensor = 0;

	sl_need(&m.weights.host, 1, sl_align(sl_port_weights_room(plan, be, role)));
	for (int mid = 0; mid < 2; mid++) {
		struct coding pair[2];
		enum sl_err err = sl_port_place(&c, mid, 0, pair, fail);

		if (!err)
			err = add_narrower(&c, mid, &m.codecs, fail);
		if (err)
			return err;
		for (int i = 0; i < 2; i++) {
			sl_memory_add(&m.codecs, pair[i].need.memory);
			m.state += pair[i].need.state;
			add_runs(&c, &pair[i], sl_port_receives(role, pair[i].dir), &m.payloads.host);
			add_tensor(&pair[i], &host_tensor);
		}
	}
	if (plan->spec.fetch_state) {
		const struct sl_plan_segment *s = &plan->segment[SL_MIDDLE];

		sl_need(&m.weights.host, s->moments, (uint64_t)s->trainable_count * sizeof(float));
		sl_need(&m.weights.host, 1,
			m.codecs.host + m.codecs.device); /* codecs' state: at most the same again */
	}
	sl_port_keep_memory(plan, role, &m.payloads);
	sl_need(&m.payloads.host, 1, host_tensor);
	sl_need(&m.payloads.host, 1, sl_port_begin_bytes(plan));
	sl_need(&m.payloads.host, 1, sizeof(struct run_slot)); /* for the weights */
	if (plan->spec.party)
		sl_need(&m.payloads.host, 1, sizeof(struct run_slot) + sl_align(SL_WIRE_ORDER));
	sl_need(&m.payloads.host, 1, jobs_bytes(sl_plan_chunks_of(plan, plan->spec.batch)));
	*out = m;
	return SL_OK;
}

enum sl_err sl_port_run_bytes(const struct sl_plan *plan, struct sl_backend *be,
			      const struct sl_codec_spec spec[SL_DIR_COUNT], size_t bytes[SL_DIR_COUNT],
			      struct sl_fail *fail)
{
	const struct coders c = {.plan = plan, .be = be, .spec = spec};
	struct coding k[2];
	enum sl_err err = SL_OK;

	for (int mid = 0; mid < 2 && !err; mid++) {
		err = sl_port_place(&c, mid, 0, k, fail);
		for (int i = 0; i < 2 && !err; i++)
			bytes[k[i].dir] = sl_port_crosses(plan, (int)k[i].dir) ? k[i].lengths + k[i].need.bound : 0;
	}
	return err;
}

/* ---- where the tokens of a chunk's rows begin */

uint32_t *sl_port_begin(const struct sl_port *p, int chunk)
{
	return p->begin + (size_t)chunk * begin_numbers(p->plan);
}

uint32_t *sl_port_choice(const struct sl_port *p, int chunk)
{
	return p->begin && sl_plan_cut_chosen(p->plan)
		       ? sl_port_begin(p, chunk) + sl_dims_numbers(p->plan->rows, sl_plan_pairs(&p->plan->spec))
		       : NULL;
}

uint32_t *sl_port_homes(const struct sl_port *p, int chunk)
{
	return p->begin && sl_port_keeps(p->plan) ? sl_port_begin(p, chunk) + choice_numbers(p->plan) : NULL;
}

uint32_t *sl_port_pieces(const struct sl_port *p, int chunk)
{
	return p->begin && p->plan->spec.padded ? sl_dims_pairs(sl_port_begin(p, chunk), p->plan->rows) : NULL;
}

uint32_t *sl_port_cached(const struct sl_port *p, int chunk)
{
	return p->begin && p->plan->spec.cached ? sl_dims_pairs(sl_port_begin(p, chunk), p->plan->rows) : NULL;
}

struct sl_dims sl_port_dims(const struct sl_port *p, int chunk)
{
	const int64_t rows = (int64_t)sl_session_chunk_rows(&p->session, chunk);
	const uint32_t *choice = sl_port_choice(p, chunk);

	return (struct sl_dims){.rows = rows,
				.tokens = p->session.tokens[chunk] ? p->session.tokens[chunk] : rows,
				.begin = p->begin ? sl_port_begin(p, chunk) : NULL,
				.pieces = sl_port_pieces(p, chunk),
				.cached = sl_port_cached(p, chunk),
				.chosen = choice ? choice[0] : 0,
				.place = choice ? choice + 1 : NULL};
}

/* ---- runs of shared heads and tails */

static int end_part(enum sl_ends_run end)
{
	return SL_PART_END_GRAD + (int)end;
}

void sl_port_end_runs(struct sl_port *p, const size_t bytes[SL_END_RUNS])
{
	memcpy(p->end_bytes, bytes, sizeof p->end_bytes);
}

struct sl_bytes sl_port_end_run(const struct sl_port *p, enum sl_ends_run end)
{
	const struct run_slot *slot = p->run[end_part(end)];

	return (struct sl_bytes){slot->data, slot->len};
}

struct sl_buf sl_port_end_room(struct sl_port *p, enum sl_ends_run end)
{
	return (struct sl_buf){p->run[end_part(end)]->data, 0, p->end_bytes[end]};
}

void sl_port_end_filled(struct sl_port *p, enum sl_ends_run end, const struct sl_buf *buf, double nominal)
{
	p->run[end_part(end)]->len = buf->len;
	p->run[end_part(end)]->nominal = nominal;
}

void sl_port_end_heard(struct sl_port *p, enum sl_ends_run end, double nominal)
{
	_Atomic double *sum = &p->nominal_rx[SL_DIR_COUNT + end];

	atomic_store(sum, atomic_load(sum) + nominal);
}
