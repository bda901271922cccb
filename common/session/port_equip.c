#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/codec/frame.h"
#include "common/codec/lengths.h"
#include "common/session/port_keep.h"

/* ---- codecs at work ---- */

static bool receives(const struct sl_port *p, int what)
{
	return sl_port_receives(p->session.role, what);
}

/* The tensors on which the codec works: host copies if it runs on the host, and the backend has memory of its own. */
static void codec_view(struct sl_port *p, enum sl_dir dir, const struct sl_tensor *x,
		       struct sl_tensor view[SL_CUT_VALUES])
{
	float *at = p->host_tensor;

	for (int v = 0; v < sl_codec_values(p->codec[dir]); v++) {
		view[v] = x[v];
		if (p->host_codec[dir] && x[v].data) {
			view[v].data = at;
			at += sl_shape_count(&x[v].shape);
		}
	}
}

/* Copies between the tensors and their host copies, if there are any. */
static enum sl_err copy_values(struct sl_port *p, enum sl_dir dir, const struct sl_tensor *x,
			       const struct sl_tensor *view, bool up)
{
	const struct sl_backend_ops *ops = p->be->ops;
	enum sl_err err = SL_OK;

	for (int v = 0; v < sl_codec_values(p->codec[dir]) && !err; v++) {
		const size_t bytes = (size_t)sl_shape_count(&x[v].shape) * sizeof(float);

		if (view[v].data != x[v].data)
			err = up ? ops->upload(p->be, x[v].data, view[v].data, bytes)
				 : ops->download(p->be, view[v].data, x[v].data, bytes);
	}
	return err;
}

static struct sl_codec_call codec_call(const struct sl_port *p, int chunk)
{
	const struct sl_session *s = &p->session;

	/* evaluations draw random numbers of steps that training never reaches */
	return (struct sl_codec_call){.slot = chunk,
				      .step = s->training ? s->number : s->number | 1ull << 63,
				      .chunk = (uint16_t)sl_plan_chunk_number(p->plan, chunk),
				      .training = s->training,
				      .dims = sl_port_dims(p, chunk),
				      .home = sl_port_homes(p, chunk)};
}

/* Whether coding only queues work, and sl_port_collect ends it at the task's end. */
static bool ahead(const struct sl_port *p, enum sl_dir dir)
{
	return p->be->ops->ahead && !p->host_codec[dir];
}

/* Reads the lengths, choice and homes in front of a payload. */
static enum sl_err take_front(struct sl_port *p, enum sl_dir dir, int chunk, const struct sl_dims *dims,
			      struct sl_bytes *in, struct sl_fail *fail)
{
	uint32_t *choice = sl_port_choice(p, chunk);
	enum sl_err err;

	if (!sl_port_lengths(p->plan, (int)dir, dims->rows, dims->tokens))
		return SL_OK;
	err = sl_lengths_take(in, dims->rows, dims->tokens, p->plan->spec.row_tokens, sl_port_begin(p, chunk),
			      sl_port_pieces(p, chunk), sl_port_cached(p, chunk), fail);
	if (!err && choice)
		err = sl_choice_take(in, dims->tokens, sl_plan_cut_most(p->plan, true), choice + 1, choice, fail);
	return err || !p->kept ? err : sl_port_keep_take(p, chunk, in, fail);
}

/* `in` is the codec's payload, after lengths, choice and homes. */
static enum sl_err decode_tensor(struct sl_port *p, enum sl_dir dir, int chunk, struct sl_bytes in, struct sl_tensor *x,
				 struct sl_fail *fail)
{
	struct run_slot *slot = &p->run[dir][chunk];
	struct sl_codec_call call = codec_call(p, chunk);
	struct sl_tensor view[SL_CUT_VALUES];
	enum sl_err err;

	codec_view(p, dir, x, view);
	if (slot->tensor)
		return sl_codec_plain_check(p->codec[dir], in.data, in.len, x, fail);
	if (ahead(p, dir) && !(p->kept && dir == SL_DIR_HEAD_ACT)) /* rows to be kept are read back at once */
		return sl_codec_queue_decode(p->codec[dir], &call, in, x, &slot->queued, fail);
	err = sl_codec_decode(p->codec[dir], &call, in, view, fail);
	return err ? err : copy_values(p, dir, x, view, true);
}

static enum sl_err decode(struct sl_port *p, enum sl_dir dir, int chunk, struct sl_tensor *x, struct sl_fail *fail)
{
	struct run_slot *slot = &p->run[dir][chunk];
	const struct sl_dims dims = sl_port_dims(p, chunk);
	struct sl_bytes in = {slot->data, slot->len};
	enum sl_err err;

	if (slot->tensor && slot->tensor != x->data)
		return sl_fail_set(fail, SL_ERR_BUG, "%s of chunk %d was received for another tensor", sl_dir_name(dir),
				   chunk);
	err = take_front(p, dir, chunk, &dims, &in, fail);
	if (!err && p->kept && dir == SL_DIR_HEAD_ACT && !in.len)
		return sl_port_keep_restore(p, chunk, x, fail);
	if (!err)
		err = decode_tensor(p, dir, chunk, in, x, fail);
	if (!err && p->kept && p->session.training && dir == SL_DIR_HEAD_ACT)
		err = sl_port_keep_store(p, chunk, x);
	if (!err && p->kept && p->session.training && dir == SL_DIR_MID_ACT)
		sl_port_keep_note(p, chunk); /* mid_act has come, so the server has stored the rows */
	return err;
}

enum sl_err sl_port_decode(struct sl_port *p, enum sl_dir dir, int chunk, struct sl_tensor *x, struct sl_fail *fail)
{
	bool marked = sl_port_mark(p, MARK_BEGUN);
	uint64_t start = sl_now_ns();
	enum sl_err err = decode(p, dir, chunk, x, fail);

	if (!err)
		atomic_store(&p->nominal_rx[dir],
			     atomic_load(&p->nominal_rx[dir]) +
				     sl_codec_nominal_bytes(p->codec[dir], x->data ? x->shape.dim[0] : 0));
	if (!marked)
		atomic_fetch_add(&p->codec_ns, sl_now_ns() - start);
	return err;
}

/* Sends a plain payload from the tensor. Only the first part is a copy, after `lengths` bytes and the codec's header.
 * It is the run's shorter part: that copies less, and makes no more parts than usual. */
static void encode_plain(struct sl_port *p, enum sl_dir dir, struct run_slot *slot, size_t lengths,
			 const struct sl_tensor *x)
{
	size_t bytes = (size_t)sl_shape_count(&x->shape) * sizeof(float), part = p->session.hello.part_bytes;
	size_t front = lengths + SL_FRAME_BYTES, first;

	slot->len = front + bytes;
	first = slot->len % part;
	if (first < front)
		first = (front + part - 1) / part * part;
	if (first > slot->len)
		first = slot->len;
	sl_codec_plain_head(p->codec[dir], x->shape.dim[0], slot->data + lengths);
	memcpy(slot->data + front, x->data, first - front);
	slot->rest = (const uint8_t *)x->data + (first - front);
	slot->rest_at = first;
}

/* Whether the server has all rows of the tensor, so that only lengths, choice and homes cross. */
static bool is_kept(const struct sl_port *p, enum sl_dir dir, int chunk)
{
	int64_t missing;

	return p->kept && p->session.training && dir == SL_DIR_HEAD_ACT && sl_port_keep_has(p, chunk, &missing);
}

static enum sl_err encode(struct sl_port *p, enum sl_dir dir, int chunk, const struct sl_tensor *x)
{
	struct run_slot *slot = &p->run[dir][chunk];
	struct sl_codec_call call = codec_call(p, chunk);
	struct sl_tensor view[SL_CUT_VALUES];
	const size_t lengths = sl_port_lengths(p->plan, (int)dir, call.dims.rows, call.dims.tokens);
	struct sl_buf out = {slot->data, lengths, slot->cap};
	enum sl_err err;

	codec_view(p, dir, x, view);
	if (lengths)
		sl_lengths_write(&call.dims, slot->data);
	if (lengths && sl_port_choice(p, chunk))
		sl_choice_write(&call.dims, slot->data + sl_lengths_bytes(call.dims.rows, call.dims.cached));
	if (lengths && p->kept)
		sl_port_keep_write(p, chunk, slot->data + lengths - sl_homes_bytes(call.dims.rows));
	if (is_kept(p, dir, chunk)) {
		slot->len = lengths;
		slot->rest = NULL;
		slot->rest_at = 0;
		return SL_OK;
	}
	if (p->plain[dir]) {
		encode_plain(p, dir, slot, lengths, x);
		return SL_OK;
	}
	if (ahead(p, dir)) {
		err = sl_codec_queue_encode(p->codec[dir], &call, x, &out, &slot->queued);
		slot->len = out.len;
		return err;
	}
	err = copy_values(p, dir, x, view, false);
	if (!err)
		err = sl_codec_encode(p->codec[dir], &call, view, &out);
	slot->len = out.len;
	return err;
}

static enum sl_err encode_failed(enum sl_dir dir, int chunk, enum sl_err err, struct sl_fail *fail)
{
	if (err == SL_ERR_NONFINITE)
		return sl_fail_set(fail, err, "NaN or Inf in %s of chunk %d", sl_dir_name(dir), chunk);
	return sl_fail_set(fail, err, "%s of chunk %d: %s", sl_dir_name(dir), chunk, sl_err_text(err));
}

enum sl_err sl_port_encode(struct sl_port *p, enum sl_dir dir, int chunk, const struct sl_tensor *x,
			   struct sl_fail *fail)
{
	uint64_t start = sl_now_ns();
	enum sl_err err = SL_OK;

	if (p->session.training && !(ahead(p, dir) && sl_codec_queues(p->codec[dir])))
		err = sl_port_finite(x, sl_codec_values(p->codec[dir]), dir, chunk, fail);
	if (err)
		return err;
	err = encode(p, dir, chunk, x);
	if (err)
		return encode_failed(dir, chunk, err, fail);
	p->run[dir][chunk].rows = x->shape.dim[0];
	p->run[dir][chunk].nominal =
		is_kept(p, dir, chunk) ? 0 : sl_codec_nominal_bytes(p->codec[dir], x->data ? x->shape.dim[0] : 0);
	if (!sl_port_mark(p, MARK_ENCODED))
		atomic_fetch_add(&p->codec_ns, sl_now_ns() - start);
	return SL_OK;
}

static bool queued(const struct sl_port *p, int dir, int chunk)
{
	return p->run[dir] && p->run[dir][chunk].queued;
}

bool sl_port_queued(const struct sl_port *p, int chunk)
{
	bool any = false;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		any = any || queued(p, dir, chunk);
	return any;
}

enum sl_err sl_port_collect(struct sl_port *p, int chunk, struct sl_fail *fail)
{
	const struct sl_codec_call call = codec_call(p, chunk);
	enum sl_err first = SL_OK;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		struct run_slot *slot;
		struct sl_fail why;
		struct sl_buf out;
		enum sl_err err;

		if (!queued(p, dir, chunk))
			continue;
		slot = &p->run[dir][chunk];
		slot->queued = false;
		out = (struct sl_buf){slot->data, slot->len, slot->cap};
		err = sl_codec_collect(p->codec[dir], &call, receives(p, dir) ? NULL : &out, &why);
		slot->len = out.len;
		/* the number of values that were sent may be known only now */
		if (!err && !receives(p, dir))
			slot->nominal = sl_codec_nominal_bytes(p->codec[dir], slot->rows);
		if (err && !receives(p, dir))
			err = encode_failed((enum sl_dir)dir, chunk, err, &why);
		if (err && !first) {
			first = err;
			*fail = why;
		}
	}
	return first;
}

struct sl_codec *const *sl_port_codecs(struct sl_port *p)
{
	return p->codec;
}

void sl_port_commit_codecs(struct sl_port *p)
{
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		sl_codec_commit(p->codec[dir]);
}

/* ---- opening them ---- */

static struct coders coders_of(const struct sl_port *p)
{
	return (struct coders){.plan = p->plan, .be = p->be, .host_be = p->host_be, .spec = p->spec};
}

static void say_on_host(const struct sl_port *p, const struct coding *k)
{
	if (k->lacks.code && !p->equipped)
		sl_log(SL_LOG_INFO, "codec-on-host", "%s%s: %s", sl_dir_name(k->dir),
		       k->pairing == SL_CODEC_PAIRED ? " and its activation" : "", k->lacks.text);
}

/* Opens the codecs of one cut's activation and gradient. */
static enum sl_err open_pair(struct sl_port *p, bool mid, struct sl_fail *fail)
{
	const struct coders coders = coders_of(p);
	struct coding pair[2];
	enum sl_err err = sl_port_place(&coders, mid, p->done, pair, fail);

	for (int i = 0; i < 2 && !err; i++) {
		struct coding *k = &pair[i];

		if (!sl_port_crosses(p->plan, (int)k->dir))
			continue;
		say_on_host(p, k);
		p->host_codec[k->dir] = k->on_host;
		k->env.pair = k->pairing == SL_CODEC_PAIRED ? p->codec[pair[0].dir] : NULL;
		err = sl_codec_open(&p->codec[k->dir], &p->spec[k->dir], &k->env, fail);
	}
	return err;
}

static enum sl_err open_codecs(struct sl_port *p, struct sl_fail *fail)
{
	enum sl_err err = open_pair(p, false, fail);

	return err ? err : open_pair(p, true, fail);
}

/* In reverse order: a gradient's codec uses the places of its activation's. */
static void close_codecs(struct sl_codec *codec[SL_DIR_COUNT])
{
	for (int dir = SL_DIR_COUNT - 1; dir >= 0; dir--)
		sl_codec_close(codec[dir]);
}

enum sl_err sl_port_set_done(struct sl_port *p, uint64_t done, struct sl_fail *fail)
{
	static const enum sl_dir act[2] = {SL_DIR_HEAD_ACT, SL_DIR_MID_ACT},
				 grad[2] = {SL_DIR_HEAD_GRAD, SL_DIR_MID_GRAD};
	struct sl_codec *before[SL_DIR_COUNT], *spent[SL_DIR_COUNT] = {NULL};
	bool on_host[SL_DIR_COUNT];
	uint64_t was = p->done;
	enum sl_err err = SL_OK;

	memcpy(before, p->codec, sizeof before);
	memcpy(on_host, p->host_codec, sizeof on_host);
	p->done = done;
	for (int mid = 0; mid < 2 && !err; mid++) {
		if (sl_decay_same(&p->plan->decay[mid], was, done))
			continue;
		spent[act[mid]] = p->codec[act[mid]];
		spent[grad[mid]] = p->codec[grad[mid]];
		p->codec[act[mid]] = p->codec[grad[mid]] = NULL;
		err = open_pair(p, mid, fail);
	}
	for (int dir = 0; dir < SL_DIR_COUNT && err; dir++)
		spent[dir] = p->codec[dir] == before[dir] ? NULL : p->codec[dir];
	close_codecs(spent);
	if (err) {
		memcpy(p->codec, before, sizeof before);
		memcpy(p->host_codec, on_host, sizeof on_host);
		p->done = was;
	}
	return err;
}

/* Host memory that the backend copies to and from, locked if the backend offers that. */
static enum sl_err host_memory(struct sl_port *p, size_t bytes, void **out, struct sl_fail *fail)
{
	if (p->be->ops->host_alloc)
		return p->be->ops->host_alloc(p->be, bytes, out, fail);
	*out = malloc(bytes);
	return *out ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a copy of a tensor at the cut");
}

static enum sl_err open_host_tensor(struct sl_port *p, struct sl_fail *fail)
{
	size_t bytes = 0;

	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		const bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
		const size_t tensor =
			(size_t)sl_plan_cut_floats(p->plan, mid, sl_plan_cut_most(p->plan, mid)) * sizeof(float);

		if (p->host_codec[dir] && tensor > bytes)
			bytes = tensor;
	}
	return bytes ? host_memory(p, bytes, (void **)&p->host_tensor, fail) : SL_OK;
}

/* ---- buffers ---- */

static int runs_of(const struct sl_port *p, int what)
{
	if (what > SL_PART_WEIGHTS) /* a port has no alignment's letters */
		return what == SL_PART_ORDER ? p->plan->spec.party != SL_PARTY_BOTH
					     : what < SL_PART_ORDER && p->end_bytes[what - SL_PART_END_GRAD] > 0;
	return what != SL_PART_WEIGHTS && sl_port_crosses(p->plan, what) ? p->slots : 0; /* weights: see open_weights */
}

/* Most bytes of a run, without lengths in front. */
static size_t run_cap(const struct sl_port *p, int what)
{
	const bool mid = what == SL_PART_MID_ACT || what == SL_PART_MID_GRAD;

	if (what == SL_PART_ORDER)
		return SL_WIRE_ORDER;
	if (what > SL_PART_WEIGHTS)
		return p->end_bytes[what - SL_PART_END_GRAD];
	return sl_codec_bound(p->codec[what], sl_plan_cut_most(p->plan, mid));
}

static size_t buffer_bytes(const struct sl_port *p, int what)
{
	const struct sl_codec_need need = {.bound = run_cap(p, what),
					   .plain = what < SL_PART_WEIGHTS && p->plain[what]};

	return sl_port_buffer_bytes(p->be, &need,
				    sl_port_lengths(p->plan, what, p->plan->rows, p->plan->spec.chunk_tokens),
				    receives(p, what));
}

static enum sl_err open_runs(struct sl_port *p, struct sl_fail *fail)
{
	size_t bytes = 0;
	enum sl_err err;

	for (int what = 0; what < SL_PART_WHAT_COUNT; what++) {
		const int n = runs_of(p, what);

		if (!n)
			continue;
		p->run[what] = calloc((size_t)n, sizeof *p->run[what]);
		if (!p->run[what])
			return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the link's buffers");
		bytes += (size_t)n * sl_align(buffer_bytes(p, what));
	}
	if (p->be->ops->host_alloc) {
		err = p->be->ops->host_alloc(p->be, bytes, &p->pinned, fail);
		p->arena = (struct sl_arena){.base = p->pinned, .cap = bytes};
	} else {
		err = sl_arena_open(&p->arena, bytes, fail);
	}
	for (int what = 0; what < SL_PART_WHAT_COUNT && !err; what++)
		for (int i = 0; i < runs_of(p, what); i++) {
			size_t cap = buffer_bytes(p, what);
			bool placed = what < SL_DIR_COUNT && p->plain[what] && receives(p, what);

			p->run[what][i] = (struct run_slot){
				.port = p,
				.cap = cap,
				.data = sl_arena_take(&p->arena, cap),
				.tensor = placed ? (uint8_t *)p->events.place(p->arg, (enum sl_dir)what, i) : NULL,
			};
		}
	return err;
}

/* Ordinary memory, whose pages are allocated when they are first written: most sessions rarely upload or fetch. */
static enum sl_err open_weights(struct sl_port *p, struct sl_fail *fail)
{
	const size_t room = sl_port_weights_room(p->plan, p->be, p->session.role);
	const bool ranged = p->session.role == SL_SESSION_SERVER && sl_port_has_range(p->plan, p->be);
	struct run_slot *slot = calloc(1, sizeof *slot);

	p->run[SL_PART_WEIGHTS] = slot;
	p->weights_room = malloc(room);
	if (!slot || !p->weights_room)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the middle's weights");
	*slot = (struct run_slot){.port = p,
				  .data = p->weights_room,
				  .cap = room,
				  .tensor = ranged ? (uint8_t *)p->events.range(p->arg) : NULL};
	return SL_OK;
}

float *sl_port_uploaded(struct sl_port *p)
{
	const struct run_slot *slot = p->run[SL_PART_WEIGHTS];

	return (float *)(void *)(slot->tensor ? slot->tensor : slot->data);
}

void sl_port_spent(struct sl_port *p)
{
	const struct run_slot *slot = p->run[SL_PART_WEIGHTS];

	if (!slot->tensor)
		sl_pages_drop(slot->data, slot->cap);
}

/* Opens the room for the state behind fetched weights. */
static enum sl_err open_carried(struct sl_port *p, struct sl_fail *fail)
{
	if (!p->plan->spec.fetch_state)
		return SL_OK;
	p->carried = sl_carried_of(&p->plan->segment[SL_MIDDLE], p->codec);
	p->carried_room = calloc(1, p->carried.bytes);
	if (!p->carried_room)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the state that a Fetch carries");
	if (p->session.role == SL_SESSION_CLIENT)
		p->run[SL_PART_WEIGHTS][0].tensor = p->carried_room;
	return SL_OK;
}

static void set_limits(struct sl_port *p)
{
	const struct sl_plan_spec *spec = &p->plan->spec;
	struct sl_session_limits l = {.party = spec->party,
				      .shared = spec->shared,
				      .ends = spec->shared_ends,
				      .ends_round = spec->ends_round,
				      .batch = (uint64_t)spec->batch,
				      .rows = (uint64_t)p->plan->rows,
				      .row_tokens = (uint64_t)spec->row_tokens,
				      .chunk_tokens = (uint64_t)spec->chunk_tokens,
				      .fronts = (sl_plan_lengths_cross(p->plan) ? SL_FRONT_LENGTHS : 0) |
						(sl_plan_cut_chosen(p->plan) ? SL_FRONT_CHOICE : 0) |
						(sl_port_keeps(p->plan) > 0 ? SL_FRONT_HOMES : 0),
				      .cached = spec->cached,
				      .token_loss = spec->token_loss,
				      .whole_rows = p->plan->whole_rows,
				      .clip_norm = sl_plan_clip_own(spec),
				      .accumulate = spec->accumulate,
				      .chunks = p->slots, /* maybe below spec->chunks: all but the last are full */
				      .free_calls = spec->free_calls,
				      .no_mid_grad = spec->no_grad[1],
				      .no_head_grad = spec->no_grad[0]};

	for (int what = 0; what < SL_PART_WEIGHTS; what++)
		if (receives(p, what) && sl_port_crosses(p->plan, what))
			l.run_bytes[what] = run_cap(p, what);
	for (int what = SL_PART_END_GRAD; what < SL_PART_WHAT_COUNT; what++)
		if (receives(p, what) && runs_of(p, what))
			l.run_bytes[what] = run_cap(p, what);
	l.run_bytes[SL_PART_WEIGHTS] = sl_port_weights_bytes(p->plan, p->session.role == SL_SESSION_SERVER);
	if (p->session.role == SL_SESSION_CLIENT)
		l.run_bytes[SL_PART_WEIGHTS] += p->carried.bytes;
	sl_session_set_limits(&p->session, &l);
}

enum sl_err sl_port_equip(struct sl_port *p, const struct sl_plan *plan, struct sl_backend *be,
			  struct sl_backend *host_be, const struct sl_codec_spec spec[SL_DIR_COUNT],
			  struct sl_fail *fail)
{
	enum sl_err err;

	/* otherwise codecs would run on copies, single-threaded and with portable loops, and nobody would notice */
	if (!be->host_memory && !host_be)
		return sl_fail_set(fail, SL_ERR_BUG, "%s keeps its memory to itself, and no other backend may code",
				   be->ops->name);
	p->plan = plan;
	p->be = be;
	p->host_be = host_be;
	p->slots = sl_plan_chunks_of(plan, plan->spec.batch);
	if (sl_port_open_jobs(p, true, p->slots))
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the session's tasks");
	memcpy(p->spec, spec, sizeof p->spec);
	err = open_codecs(p, fail);
	for (int dir = 0; dir < SL_DIR_COUNT && !err; dir++)
		p->plain[dir] = be->host_memory && p->codec[dir] && sl_codec_is_plain(p->codec[dir]);
	if (!err)
		err = open_host_tensor(p, fail);
	if (!err && sl_port_begin_bytes(plan)) {
		p->begin = calloc(1, sl_port_begin_bytes(plan));
		err = p->begin ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the lengths of rows");
	}
	if (!err)
		err = sl_port_keep_open(p, fail);
	if (!err)
		err = open_runs(p, fail);
	if (!err)
		err = open_weights(p, fail);
	if (!err)
		err = open_carried(p, fail);
	if (!err)
		set_limits(p);
	p->equipped = !err;
	return err;
}

void sl_port_unequip(struct sl_port *p)
{
	close_codecs(p->codec);
	sl_port_keep_close(p);
	free(p->begin);
	free(p->carried_room);
	free(p->weights_room);
	for (int what = 0; what < SL_PART_WHAT_COUNT; what++)
		free(p->run[what]);
	if (p->be && p->be->ops->host_free) {
		p->be->ops->host_free(p->be, p->pinned);
		p->be->ops->host_free(p->be, p->host_tensor);
	} else {
		sl_arena_close(&p->arena);
		free(p->host_tensor);
	}
}
