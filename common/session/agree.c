#include "common/session/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/graph/graph_text.h"

_Static_assert((int)SL_CONF_MAX_CHUNKS == (int)SL_PLAN_MAX_CHUNKS && (int)SL_CONF_MAX_BATCH == (int)SL_PLAN_MAX_BATCH,
	       "what may be agreed on, a plan has");
_Static_assert((int)SL_CONF_GROUPS == (int)SL_PLAN_GROUPS, "a plan has as many groups as an agreement");
_Static_assert((int)SL_CONF_FP32 == (int)SL_PRECISION_FP32 && (int)SL_CONF_TF32 == (int)SL_PRECISION_TF32 &&
		       (int)SL_CONF_BF16 == (int)SL_PRECISION_BF16 && (int)SL_CONF_FP16 == (int)SL_PRECISION_FP16 &&
		       (int)SL_CONF_BF16_FACTORS == (int)SL_PRECISION_BF16_FACTORS,
	       "precisions are numbered alike");
_Static_assert((int)SL_CONF_SGD == (int)SL_OPTIMIZER_SGD && (int)SL_CONF_ADAM == (int)SL_OPTIMIZER_ADAM &&
		       (int)SL_CONF_ADAMW == (int)SL_OPTIMIZER_ADAMW,
	       "optimizers are numbered alike");
_Static_assert((int)SL_AGREED_TEXT <= (int)SL_PLAN_NOTE_MAX, "a plan's note is an agreement");
_Static_assert((int)SL_CONF_CODEC_TEXT >= (int)SL_CODEC_SPEC_MAX, "an agreement holds any codec");

static struct sl_optimizer optimizer_of(const struct sl_agreed *a)
{
	struct sl_optimizer o = {.kind = (enum sl_optimizer_kind)a->optimizer.kind,
				 .weight_decay = a->optimizer.weight_decay};

	if (o.kind == SL_OPTIMIZER_SGD) {
		o.momentum = a->optimizer.momentum;
		o.nesterov = a->optimizer.nesterov;
	} else {
		o.beta1 = a->optimizer.beta1;
		o.beta2 = a->optimizer.beta2;
		o.eps = a->optimizer.eps;
	}
	return o;
}

/* The rules' texts were checked when they were read. */
static void settle_groups(struct sl_plan_spec *plan, const struct sl_agreed *a)
{
	plan->n_group = 0;
	for (int i = 0; i < SL_PLAN_GROUPS; i++) {
		struct sl_conf_group g = {.lr = 1};

		if (a->group[i][0] && sl_conf_group_read(a->group[i], &g))
			plan->n_group = i + 1;
		plan->group[i] = (struct sl_group_rule){g.lr, g.decays ? g.weight_decay : a->optimizer.weight_decay};
	}
}

/* The plan's group_rows (plan.h). */
static int64_t group_rows_of(const struct sl_agreed *a)
{
	if (a->share.group[0])
		return a->share.mode == SL_SHARE_SYNC ? a->share.rows : 0;
	return a->chunk_sums && a->token_loss ? a->batch : 0;
}

/* Writes the agreement as the plan's note. Keys that do not change the run are left out, so that plans and checkpoints
 * are equal with and without them: what a Fetch carries, and what is kept. A run may also go on with another learning
 * rate. */
static void write_note(struct sl_agreement *a)
{
	struct sl_agreed same = a->agreed;

	same.fetch_state = false;
	same.keep_tokens = 0;
	same.share.rates = 0;
	same.share.fresh = false;
	sl_agreed_write(&same, a->plan.note);
}

struct sl_end_coder_env sl_agreement_coder(const struct sl_agreement *a, const struct sl_end_layout *layout,
					   enum sl_ends_run end, struct sl_backend *be)
{
	return (struct sl_end_coder_env){
		.layout = layout,
		.spec = &a->end_codec[end],
		.all = a->agreed.share.layers == SL_LAYERS_ALL,
		.be = be,
		.seed = (uint64_t)a->agreed.seed,
		.member = end == SL_END_MEAN ? -1 : a->agreed.share.member,
	};
}

enum sl_err sl_agreement_settle(struct sl_agreement *a, struct sl_fail *fail)
{
	const int codecs = SL_DIR_COUNT + (sl_agreed_shares_ends(&a->agreed) ? SL_END_COUNT : 0);

	for (int i = 0; i < codecs; i++) {
		const int end = i - SL_DIR_COUNT;
		char *text = end < 0 ? a->agreed.codec[i] : a->agreed.end_codec[end];
		struct sl_codec_spec *spec = end < 0 ? &a->codec[i] : &a->end_codec[end];
		char key[SL_FAIL_KEY];
		struct sl_fail why;

		snprintf(key, sizeof key, "codec.%s", end < 0 ? sl_dir_name((enum sl_dir)i) : sl_end_name(end));
		if (sl_codec_parse(text, spec, &why))
			return sl_fail_at(fail, key, why.code, "%s", why.text);
		memcpy(text, spec->text, sizeof spec->text);
	}
	a->plan.batch = a->agreed.batch;
	a->plan.chunks = a->agreed.chunks;
	a->plan.row_tokens = a->agreed.row_tokens;
	a->plan.chunk_tokens = a->agreed.chunk_tokens;
	a->plan.padded = a->agreed.padded;
	a->plan.cached = a->agreed.cached;
	a->plan.seed = (uint64_t)a->agreed.seed;
	a->plan.precision = (enum sl_precision)a->agreed.precision;
	a->plan.optimizer = optimizer_of(&a->agreed);
	settle_groups(&a->plan, &a->agreed);
	a->plan.clip_norm = a->agreed.clip_norm;
	a->plan.chunk_sums = a->agreed.chunk_sums;
	a->plan.accumulate = a->agreed.accumulate;
	a->plan.ema = a->agreed.ema;
	a->plan.phase_step = (uint64_t)a->agreed.phase_step;
	a->plan.sends = sl_agreed_is_vertical(&a->agreed) ? a->agreed.share.sends : 0;
	a->plan.party = !sl_agreed_is_vertical(&a->agreed)         ? SL_PARTY_BOTH
			: a->agreed.share.role == SL_ROLE_FEATURES ? SL_PARTY_FEATURES
			: a->plan.sends                            ? SL_PARTY_JOINED
								   : SL_PARTY_LABELS;
	/* parties compute one step together, so their chunks have the same numbers */
	a->plan.member = a->agreed.share.group[0] && !a->plan.party ? a->agreed.share.member : 0;
	a->plan.shared = a->agreed.share.group[0] != 0;
	a->plan.token_loss = a->agreed.token_loss;
	a->plan.group_rows = group_rows_of(&a->agreed);
	a->plan.shared_ends = !sl_agreed_shares_ends(&a->agreed)            ? SL_ENDS_OWN
			      : a->agreed.share.moments == SL_SHARE_AVERAGE ? SL_ENDS_MOMENTS
									    : SL_ENDS_COMMON;
	if (a->plan.shared_ends && a->agreed.share.mode == SL_SHARE_ROUNDS)
		a->plan.ends_round = a->agreed.share.round ? (uint64_t)a->agreed.share.round : 1;
	a->plan.no_grad[0] = !a->agreed.cross.head_grad;
	a->plan.no_grad[1] = !a->agreed.cross.mid_grad;
	a->plan.free_calls = a->agreed.free_calls;
	a->plan.fetch_state = a->agreed.fetch_state;
	a->plan.keep_tokens = a->agreed.keep_tokens;
	write_note(a);
	return SL_OK;
}

static void put(void *arg, const char *text, size_t len)
{
	struct sl_buf *buf = arg;

	if (sl_buf_put(buf, text, len))
		buf->cap = 0; /* from now on nothing fits */
}

enum sl_err sl_agreement_say(const struct sl_agreement *a, const struct sl_plan *plan, struct sl_bytes *text,
			     struct sl_hello *hello, struct sl_fail *fail)
{
	struct sl_buf buf = {.data = malloc(SL_WIRE_HELLO_MAX), .cap = SL_WIRE_HELLO_MAX};
	char said[SL_AGREED_TEXT];
	struct sl_end_layout layout;
	enum sl_err err;

	if (!buf.data)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a Hello");
	put(&buf, said, sl_agreed_write(&a->agreed, said));
	put(&buf, "\n", 1);
	sl_graph_write(&plan->segment[SL_MIDDLE].graph, put, &buf);
	if (plan->spec.shared_ends) {
		err = sl_end_layout_of(&layout, plan, fail);
		if (err) {
			free(buf.data);
			return err;
		}
		put(&buf, "\n", 1);
		sl_end_layout_write(&layout, put, &buf);
		sl_end_layout_close(&layout);
	}
	if (!buf.cap) {
		free(buf.data);
		return sl_fail_set(fail, SL_ERR_LIMIT,
				   "the middle has more layers than %d bytes can say: take another cut",
				   SL_WIRE_HELLO_MAX);
	}
	*text = (struct sl_bytes){buf.data, buf.len};
	memcpy(hello->plan_hash, plan->middle_hash, sizeof hello->plan_hash);
	hello->payload_xxh3 = sl_wire_hash(*text);
	return SL_OK;
}

static enum sl_err hear_agreement(struct sl_agreement *a, const char *text, size_t len, struct sl_fail *fail)
{
	struct sl_agreed as_said;
	enum sl_err err = sl_agreed_read(&a->agreed, text, len, fail);

	as_said = a->agreed;
	if (!err)
		err = sl_agreement_settle(a, fail);
	for (int dir = 0; dir < SL_DIR_COUNT && !err; dir++)
		if (strcmp(as_said.codec[dir], a->agreed.codec[dir]) != 0)
			err = sl_fail_set(fail, SL_ERR_PROTOCOL, "codec '%s' is written '%s'", as_said.codec[dir],
					  a->agreed.codec[dir]);
	for (int end = 0; end < SL_END_COUNT && !err && a->plan.shared_ends; end++)
		if (strcmp(as_said.end_codec[end], a->agreed.end_codec[end]) != 0)
			err = sl_fail_set(fail, SL_ERR_PROTOCOL, "codec '%s' is written '%s'", as_said.end_codec[end],
					  a->agreed.end_codec[end]);
	return err;
}

/* The texts of a payload; empty lines separate them. */
struct texts {
	struct sl_bytes agreement, graph, ends; /* ends.data NULL: none */
};

static bool cut_off(struct sl_bytes *text, struct sl_bytes *front)
{
	const uint8_t *gap = memmem(text->data, text->len, "\n\n", 2);

	if (!gap)
		return false;
	*front = (struct sl_bytes){text->data, (size_t)(gap + 1 - text->data)};
	text->len -= front->len + 1;
	text->data += front->len + 1;
	return true;
}

static enum sl_err part_texts(struct texts *out, struct sl_bytes text, struct sl_fail *fail)
{
	*out = (struct texts){0};
	if (!cut_off(&text, &out->agreement))
		return sl_fail_set(fail, SL_ERR_PROTOCOL,
				   "a Hello's payload has an agreement, an empty line and a graph");
	if (cut_off(&text, &out->graph))
		out->ends = text;
	else
		out->graph = text;
	return SL_OK;
}

static enum sl_err read_graph(struct sl_graph *out, const struct texts *t, struct sl_fail *fail)
{
	return sl_graph_read(out, (const char *)t->graph.data, t->graph.len, fail);
}

enum sl_err sl_agreement_hear(struct sl_agreement *a, struct sl_plan **plan, struct sl_bytes text, struct sl_fail *fail)
{
	struct sl_agreement heard = {0};
	struct sl_graph middle = {0};
	struct texts t;
	enum sl_err err = part_texts(&t, text, fail);

	if (!err)
		err = read_graph(&middle, &t, fail);
	if (!err)
		err = hear_agreement(&heard, (const char *)t.agreement.data, t.agreement.len, fail);
	if (!err && heard.agreed.share.align)
		err = sl_fail_at(fail, "share.align", SL_ERR_PROTOCOL, "an alignment has no graph");
	if (!err && !heard.plan.shared_ends != !t.ends.data)
		err = sl_fail_at(
			fail, "share.ends", SL_ERR_PROTOCOL,
			"a Hello lists the parameters of head and tail where these are shared, and nowhere else");
	if (!err)
		err = sl_plan_open_part(plan, &heard.plan, SL_MIDDLE, &middle, fail);
	if (err)
		sl_graph_close(&middle);
	else
		*a = heard;
	return err;
}

enum sl_err sl_agreement_ends(struct sl_end_layout *out, struct sl_bytes text, struct sl_fail *fail)
{
	struct texts t;
	enum sl_err err = part_texts(&t, text, fail);

	return err ? err : sl_end_layout_read(out, t.ends, fail);
}

enum sl_err sl_agreement_trunk(const struct sl_agreement *member, struct sl_plan **plan, struct sl_bytes text,
			       struct sl_fail *fail)
{
	const struct sl_agreed usual = sl_agreed_default();
	const bool apart = !sl_agreed_is_vertical(&member->agreed); /* otherwise the trunk computes the step itself */
	struct sl_agreement trunk = {.agreed = member->agreed};
	struct sl_agreed *a = &trunk.agreed;
	struct sl_graph middle = {0};
	struct texts t;
	bool whole;
	enum sl_err err = part_texts(&t, text, fail);

	if (!err)
		err = read_graph(&middle, &t, fail);
	if (err)
		return err;
	whole = sl_graph_takes_whole_rows(&middle); /* then a row of the trunk has all tokens of a member's row */
	a->batch = apart ? a->chunks : a->batch;
	a->cross = apart ? usual.cross : a->cross;
	a->share.member = 0;
	a->share.turns = 0;
	a->share.role = usual.share.role;
	a->share.sends = 0;
	memcpy(a->codec, usual.codec, sizeof a->codec);
	a->row_tokens = whole || !a->row_tokens ? a->row_tokens : 1;
	a->chunk_tokens = a->row_tokens;
	a->padded = whole;
	a->cached = false;
	err = sl_agreement_settle(&trunk, fail);
	if (!err)
		err = sl_plan_open_part(plan, &trunk.plan, SL_MIDDLE, &middle, fail);
	if (err)
		sl_graph_close(&middle);
	return err;
}

struct sl_extent sl_cut_extent(const struct sl_plan *plan, bool mid)
{
	return (struct sl_extent){.shape = sl_plan_cut_shape(plan, mid, sl_plan_cut_most(plan, mid)),
				  .rows = plan->rows,
				  .longest = sl_plan_cut_per_token(plan, mid) ? plan->spec.row_tokens : 0};
}
