/* Codecs of a device whose work is queued: calls of several slots under way at once, collected in any order, beside
 * the portable codecs, one call at a time. The memory of a call is written over as soon as it has been collected. On a
 * CPU, where all is done at once, it is seen too that nothing was waited for; by the module, on a simulated device or a
 * GPU, that nothing should have been. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/codec/frame.h"
#include "common/codec/stage.h"
#include "kernels/cuda/codec_stage.h"
#include "tests/support/gpu_codecs/rig.h"

enum { SLOTS = 3, ROUNDS = 4 };

/* waits: the host has to know how many values there are before it can queue the rest. */
static const struct spec {
	const char *text;
	bool waits;
} specs[] = {
	{"none", false},
	{"f16", false},
	{"bf16", false},
	{"quant:8", false},
	{"quant:4,per=channel", false},
	{"qsgd:10", false},
	{"qsgd:10,bucket=64", false},
	{"terngrad", false},
	{"terngrad,bucket=100", false},
	{"sortquant:6+2", false},
	{"topk:0.2", false},
	{"topk:0.2|quant:8", false},
	{"topk:0.6|quant:8", false}, /* places as a bitmap */
	{"topk:0.3|topk:0.5|qsgd:10", false},
	{"topk:0.2|sortquant:3+1", false},
	{"threshold:0.5", false},
	{"threshold:0.9|quant:4", false},
	{"threshold:1|quant:3,block=60,round=stochastic", false},
	{"threshold:0.7|qsgd:10", false},
	{"threshold:0.7|qsgd:10,bucket=64", false},
	{"threshold:1.5|terngrad", false},
	{"threshold:1.5|terngrad,bucket=5000|zstd:1", false},
	{"threshold:0.3|bf16|zstd:1", false},
	{"threshold:0.1|sortquant:3+4", false},
	{"threshold:1e9|sortquant:3+1", false}, /* of no values */
	{"threshold:1e9|quant:8", false},
	{"threshold:1e9|qsgd:6,bucket=10", false},
	{"threshold:1e9", false},
	{"cells:3|threshold:0.4|quant:6", false},
	{"threshold:0.5|topk:0.5|quant:4", true},
	{"randomk:0.1|f16", false},
	{"lowrank:2", false},
	{"lowrank:2,warm=true|quant:6", false},
	{"downsample:2|bf16", false},
	{"cells:3", false},
	{"cells:3|topk:0.2|quant:8", false},
	{"quant:8|zstd:1", false},
	{"none|zstd:1", false},
	{"cells:2|topk:0.3|quant:4|zstd:1", false},
	{"none,ef=true", false},
	{"quant:3,ef=true", false},
	{"quant:3,per=sample,ef=true", false},
	{"f16,ef=true", false},
	{"topk:0.1,ef=true", false},
	{"topk:0.1,ef=true|terngrad", false},
	{"topk:0.2,ef=true|sortquant:3+1", false},
	{"cells:3,ef=true|topk:0.1|quant:4|zstd:1", false},
	{"lowrank:2,warm=true,ef=true|quant:8", false},
	{"randomk:0.3,ef=true|qsgd:10,bucket=64", false},
	{"downsample:2,ef=true", false},
	{"threshold:0.5,ef=true|f16", false},
	{"threshold:0.5,ef=true", false},
	{"threshold:0.8,ef=true|quant:4,block=100", false},
};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* One codec on both sides, and a tensor and a payload of every slot. */
struct beside {
	struct sl_backend *be;
	const struct spec *spec;
	struct sl_codec *host, *device;
	struct sl_shape shape;
	int64_t n;
	size_t bound;
	float *x, *want, *got;
	struct lane {
		struct sl_codec_call call;
		struct sl_shape shape; /* the last one is short of a row */
		int64_t n;
		float *there;     /* on the device */
		struct sl_buf of; /* its payload, in the backend's host memory */
		uint8_t *right;   /* the portable codec's */
		size_t right_len;
		enum sl_err err; /* what that said */
		bool later;
	} lane[SLOTS];
};

static void *xalloc(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	assert_non_null(p);
	return p;
}

static struct sl_codec *open_one(const struct beside *b, struct sl_backend *be, enum sl_dir dir, struct sl_codec *pair)
{
	const struct sl_codec_env env = {
		.be = be, .shape = b->shape, .slots = SLOTS, .seed = 11, .dir = dir, .pair = pair};
	struct sl_codec_spec spec;
	struct sl_codec *codec;
	struct sl_fail fail = {0};

	if (sl_codec_parse(b->spec->text, &spec, &fail) || sl_codec_open(&codec, &spec, &env, &fail))
		fail_msg("%s: %s", b->spec->text, fail.text);
	return codec;
}

static void beside_open(struct beside *b, struct sl_backend *be, const struct spec *spec, struct sl_shape shape,
			enum sl_dir dir, const struct beside *pair)
{
	size_t bytes = (size_t)sl_shape_count(&shape) * sizeof(float);
	struct sl_fail fail;

	*b = (struct beside){.be = be, .spec = spec, .shape = shape, .n = sl_shape_count(&shape)};
	b->host = open_one(b, NULL, dir, pair ? pair->host : NULL);
	b->device = open_one(b, be, dir, pair ? pair->device : NULL);
	b->bound = sl_codec_bound(b->host, shape.dim[0]);
	b->x = xalloc(bytes);
	b->want = xalloc(bytes);
	b->got = xalloc(bytes);
	for (int s = 0; s < SLOTS; s++) {
		struct lane *l = &b->lane[s];

		l->call = (struct sl_codec_call){.slot = s, .chunk = (uint16_t)s, .training = true};
		l->shape = sl_shape_rows(shape, shape.dim[0] - (s == SLOTS - 1));
		l->n = sl_shape_count(&l->shape);
		assert_int_equal(be->ops->alloc(be, bytes, (void **)&l->there, &fail), SL_OK);
		assert_int_equal(be->ops->host_alloc(be, b->bound, (void **)&l->of.data, &fail), SL_OK);
		l->of.cap = b->bound;
	}
}

static void beside_close(struct beside *b)
{
	sl_codec_close(b->host);
	sl_codec_close(b->device);
	for (int s = 0; s < SLOTS; s++) {
		b->be->ops->free(b->be, b->lane[s].there);
		b->be->ops->host_free(b->be, b->lane[s].of.data);
		free(b->lane[s].right);
	}
	free(b->x);
	free(b->want);
	free(b->got);
}

/* ---- calls */

/* Where it can be seen, that a call which need not wait does not. */
static void check_waits(const struct beside *b, const struct lane *l, unsigned before)
{
	if (!l->later)
		fail_msg("%s: a call was not queued", b->spec->text);
	if (!b->spec->waits && sim_waits != before)
		fail_msg("%s: a call that is queued waits", b->spec->text);
}

/* b->x of this lane, which the portable codec encodes at once. */
static void begin_encode(struct beside *b, struct lane *l)
{
	struct sl_tensor there = {.dtype = SL_F32, .shape = l->shape, .data = l->there};
	unsigned before = sim_waits;
	enum sl_err err;

	assert_int_equal(b->be->ops->upload(b->be, l->there, b->x, (size_t)b->n * sizeof(float)), SL_OK);
	free(l->right);
	l->err = codec_encode(b->host, &l->call, b->x, l->shape, &l->right, &l->right_len);
	before = sim_waits;
	l->of.len = 0;
	err = sl_codec_queue_encode(b->device, &l->call, &there, &l->of, &l->later);
	if (!b->spec->waits || err == SL_OK)
		assert_int_equal(err, SL_OK);
	if (err == SL_OK)
		check_waits(b, l, before);
	else
		assert_int_equal(err, l->err);
}

static void scribble(struct beside *b, struct lane *l)
{
	memset(l->of.data, 0x5a, l->of.cap);
	assert_int_equal(b->be->ops->zero(b->be, l->there, (size_t)b->n * sizeof(float)), SL_OK);
}

static void end_encode(struct beside *b, struct lane *l, enum sl_err expect)
{
	struct sl_fail fail = {0};
	enum sl_err err = l->later ? sl_codec_collect(b->device, &l->call, &l->of, &fail) : expect;

	if (err != expect)
		fail_msg("%s, slot %d: %s, expected %s", b->spec->text, l->call.slot, sl_err_name(err),
			 sl_err_name(expect));
	if (err == SL_OK && (l->of.len != l->right_len || memcmp(l->of.data, l->right, l->right_len) != 0))
		fail_msg("%s, slot %d: a payload of %zu bytes is not that of %zu", b->spec->text, l->call.slot,
			 l->of.len, l->right_len);
	scribble(b, l);
}

static enum sl_err begin_decode(struct beside *b, struct lane *l, const uint8_t *bytes, size_t len)
{
	struct sl_tensor there = {.dtype = SL_F32, .shape = l->shape, .data = l->there};
	unsigned before = sim_waits;
	struct sl_fail fail;
	enum sl_err err;

	assert_true(len <= l->of.cap);
	memcpy(l->of.data, bytes, len);
	err = sl_codec_queue_decode(b->device, &l->call, (struct sl_bytes){l->of.data, len}, &there, &l->later, &fail);
	if (err == SL_OK) {
		const struct spec quiet = {b->spec->text, false}, *spec = b->spec;

		b->spec = &quiet;
		check_waits(b, l, before);
		b->spec = spec;
	}
	return err;
}

static void check_values(struct beside *b, const struct lane *l)
{
	size_t bytes = (size_t)l->n * sizeof(float);

	assert_int_equal(codec_decode(b->host, &l->call, l->right, l->right_len, l->shape, b->want), SL_OK);
	assert_int_equal(b->be->ops->download(b->be, b->got, l->there, bytes), SL_OK);
	if (memcmp(b->got, b->want, bytes) != 0)
		fail_msg("%s, slot %d: values differ", b->spec->text, l->call.slot);
}

static void end_decode(struct beside *b, struct lane *l)
{
	struct sl_fail fail = {0};

	if (l->later && sl_codec_collect(b->device, &l->call, NULL, &fail))
		fail_msg("%s, slot %d: %s", b->spec->text, l->call.slot, fail.text);
	memset(l->of.data, 0x5a, l->of.cap);
}

/* The slots in an order of their own for every round. */
static int drawn(int round, int i)
{
	static const int order[6][SLOTS] = {{2, 0, 1}, {0, 1, 2}, {1, 2, 0}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};

	return order[round % 6][i];
}

static void fill(struct beside *b, int round, int slot)
{
	codec_fill(b->x, b->n, (round + slot) % 2 ? RELU : RANDOM);
	for (int64_t i = 0; i < b->n; i++)
		b->x[i] *= (float)(1 + slot + round);
}

static void encode_all(struct beside *b, int round)
{
	for (int s = 0; s < SLOTS; s++) {
		b->lane[s].call.step = (uint64_t)round;
		b->lane[s].call.training = round != 2;
		fill(b, round, s);
		begin_encode(b, &b->lane[s]);
	}
	for (int i = 0; i < SLOTS; i++)
		end_encode(b, &b->lane[drawn(round, i)], SL_OK);
}

/* Nothing that is queued uses the tensors: a decoder may write them. */
static void make_idle(struct beside *b)
{
	for (int s = 0; s < SLOTS; s++)
		assert_int_equal(b->be->ops->upload(b->be, b->lane[s].there, b->x, (size_t)b->n * sizeof(float)),
				 SL_OK);
}

static void decode_all(struct beside *b, int round)
{
	make_idle(b);
	for (int s = 0; s < SLOTS; s++)
		assert_int_equal(begin_decode(b, &b->lane[s], b->lane[s].right, b->lane[s].right_len), SL_OK);
	for (int i = 0; i < SLOTS; i++)
		end_decode(b, &b->lane[drawn(round + 1, i)]);
	for (int s = 0; s < SLOTS; s++)
		check_values(b, &b->lane[s]);
}

static void commit(struct beside *b)
{
	sl_codec_commit(b->host);
	sl_codec_commit(b->device);
}

static const struct sl_shape small = {4, {3, 6, 7, 10}}, large = {4, {2, 33, 65, 17}};

/* ---- tests */

static void calls_of_several_slots_are_collected_in_any_order(void **state)
{
	struct sl_backend *be = rig_backend(state);
	struct beside b;

	for (int p = 0; p < SPECS; p++) {
		beside_open(&b, be, &specs[p], rig_brief(be) && p % 3 ? small : large, SL_DIR_HEAD_ACT, NULL);
		for (int round = 0; round < ROUNDS; round++) {
			encode_all(&b, round);
			decode_all(&b, round);
			commit(&b);
		}
		beside_close(&b);
	}
}

/* A server's: activations are decoded, gradients encoded at their places. And a client's. */
static void gradients_of_several_slots_use_their_places(void **state)
{
	static const struct spec pairs[] = {{"topk:0.2|quant:8", false}, {"threshold:0.7", false},
					    {"randomk:0.3", false},      {"downsample:2", false},
					    {"cells:3|topk:0.2", false}, {"topk:0.1,ef=true|qsgd:10", false}};
	struct sl_backend *be = rig_backend(state);

	for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
		/* places are known: nothing has to be looked at */
		const struct spec quiet = {pairs[p].text, false};
		struct beside act, grad;

		beside_open(&act, be, &pairs[p], large, SL_DIR_MID_ACT, NULL);
		beside_open(&grad, be, &quiet, large, SL_DIR_MID_GRAD, &act);
		for (int round = 0; round < ROUNDS; round++) {
			encode_all(&act, round);
			if (round % 2)
				decode_all(&act, round);
			encode_all(&grad, round);
			decode_all(&grad, round);
			commit(&act);
			commit(&grad);
		}
		beside_close(&grad);
		beside_close(&act);
	}
}

static void values_that_cannot_be_carried_are_found_when_collected(void **state)
{
	struct sl_backend *be = rig_backend(state);
	struct beside b;

	for (int p = 0; p < SPECS; p++) {
		beside_open(&b, be, &specs[p], small, SL_DIR_HEAD_ACT, NULL);
		for (int round = 0; round < 2; round++) {
			int bad = (p + round) % SLOTS;

			for (int s = 0; s < SLOTS; s++) {
				fill(&b, round, s);
				if (s == bad)
					b.x[b.lane[s].n - 3] = p % 2 ? NAN : -INFINITY;
				begin_encode(&b, &b.lane[s]);
			}
			for (int i = 0; i < SLOTS; i++) {
				int s = drawn(p, i);

				end_encode(&b, &b.lane[s], s == bad ? SL_ERR_NONFINITE : SL_OK);
			}
			/* what was refused has left nothing behind that a commit would take; none, at once, refuses
			 * nothing */
			if (round == 0 && strncmp(specs[p].text, "none", 4) != 0)
				commit(&b);
			sl_codec_rollback(b.host);
			sl_codec_rollback(b.device);
			encode_all(&b, round);
			commit(&b);
		}
		beside_close(&b);
	}
}

/* Bits turned over, or most of them set, in one slot's payload: the verdict is the portable codec's, be it at once or
 * when collected, and the other slots are as they should be. */
static void one_hostile_payload_among_others(void **state)
{
	struct sl_backend *be = rig_backend(state);
	const struct sl_rng_key key = {.seed = 99, .tensor = SL_RNG_TEST};
	int refused = 0, taken = 0;

	for (int p = 0; p < SPECS; p++) {
		struct beside b;
		uint8_t *bytes;
		size_t len;

		beside_open(&b, be, &specs[p], small, SL_DIR_HEAD_ACT, NULL);
		encode_all(&b, 0);
		make_idle(&b);
		len = b.lane[1].right_len;
		bytes = xalloc(len);
		for (uint32_t t = 0; t < (rig_brief(be) ? 12 : 60); t++) {
			uint32_t w = sl_rng_u32(&key, (uint64_t)p * 1000 + t);
			size_t from = t % 2 ? len - (len < 300 ? len : 300) : 0;
			struct sl_fail fail;
			enum sl_err want, got;

			memcpy(bytes, b.lane[1].right, len);
			bytes[from + w % (len - from)] ^= (uint8_t)(1u << (w >> 24) % 8);
			if (t % 6 == 5) /* a bitmap with more marks than values */
				memset(bytes + len - len / 10, 0x7f, len / 10);
			assert_int_equal(begin_decode(&b, &b.lane[0], b.lane[0].right, b.lane[0].right_len), SL_OK);
			got = begin_decode(&b, &b.lane[1], bytes, len);
			memset(got ? b.lane[1].of.data : bytes, got ? 0x5a : bytes[0], got ? len : 1);
			assert_int_equal(begin_decode(&b, &b.lane[2], b.lane[2].right, b.lane[2].right_len), SL_OK);
			end_decode(&b, &b.lane[2]);
			if (!got)
				got = sl_codec_collect(b.device, &b.lane[1].call, NULL, &fail);
			want = codec_decode(b.host, &b.lane[1].call, bytes, len, b.shape, b.want);
			end_decode(&b, &b.lane[0]);
			if (got != want)
				fail_msg("%s: %s, the portable codec says %s", specs[p].text, sl_err_name(got),
					 sl_err_name(want));
			*(got ? &refused : &taken) += 1;
			if (!got) {
				assert_int_equal(be->ops->download(be, b.got, b.lane[1].there, (size_t)b.n * 4), SL_OK);
				assert_memory_equal(b.got, b.want, (size_t)b.n * 4);
			}
			check_values(&b, &b.lane[0]);
			check_values(&b, &b.lane[2]);
		}
		free(bytes);
		beside_close(&b);
	}
	assert_true(refused > 50 && taken > 50);
}

/* A quantizer refuses what transforms have begun to bring to the device: its memory is not read any more. */
static void what_is_refused_is_not_read_later(void **state)
{
	static const struct spec chains[] = {{"cells:3|quant:8", false},
					     {"topk:0.2|quant:8", false},
					     {"topk:0.6|f16", false},
					     {"cells:3|topk:0.2|sortquant:3+1", false},
					     {"threshold:0.5,ef=true|qsgd:10", false}};
	struct sl_backend *be = rig_backend(state);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t p = 0; p < sizeof chains / sizeof chains[0]; p++) {
		size_t len, values, cap;
		struct beside b;
		void *memory;
		uint8_t *at;
		struct sl_fail fail;

		beside_open(&b, be, &chains[p], small, SL_DIR_HEAD_ACT, NULL);
		encode_all(&b, 0);
		make_idle(&b);
		/* values come behind the header and the table of parts, side bytes last */
		values = SL_FRAME_BYTES + (strncmp(chains[p].text, "cells:3|topk", 12) ? 1 : 2) * SL_FRAME_PART_BYTES;
		len = b.lane[1].right_len - 1;
		cap = (len + page - 1) / page * page;
		assert_int_equal(be->ops->host_alloc(be, cap + page, &memory, &fail), SL_OK);
		at = (uint8_t *)(((uintptr_t)memory + page - 1) / page * page);
		for (int round = 0; round < 4; round++) {
			struct sl_tensor there = {.dtype = SL_F32, .shape = b.lane[1].shape, .data = b.lane[1].there};

			unsigned before = sim_waits;

			memcpy(at, b.lane[1].right, values);
			memcpy(at + values, b.lane[1].right + values + 1, len - values);
			assert_int_equal(sl_codec_queue_decode(b.device, &b.lane[1].call, (struct sl_bytes){at, len},
							       &there, &b.lane[1].later, &fail),
					 SL_ERR_PAYLOAD);
			assert_false(b.lane[1].later);
			/* where all is done at once, that it would have waited */
			assert_true(sim_waits != before || strcmp(be->ops->name, "cuda-sim") != 0);
			assert_int_equal(mprotect(at, cap, PROT_NONE), 0);
			for (int s = 0; s < SLOTS; s += 2)
				assert_int_equal(begin_decode(&b, &b.lane[s], b.lane[s].right, b.lane[s].right_len),
						 SL_OK);
			for (int s = 0; s < SLOTS; s += 2)
				end_decode(&b, &b.lane[s]);
			for (int s = 0; s < SLOTS; s += 2)
				check_values(&b, &b.lane[s]);
			assert_int_equal(mprotect(at, cap, PROT_READ | PROT_WRITE), 0);
		}
		be->ops->host_free(be, memory);
		beside_close(&b);
	}
}

/* A gradient is queued at the places of an activation of which nobody knows yet that its bitmap is none: it follows no
 * more of them than there are values. */
static void a_gradient_at_places_that_are_refused(void **state)
{
	static const struct spec spec = {"topk:0.6|quant:8", false};
	struct sl_backend *be = rig_backend(state);
	struct beside act, grad;
	struct sl_fail fail;

	beside_open(&act, be, &spec, small, SL_DIR_MID_ACT, NULL);
	beside_open(&grad, be, &spec, small, SL_DIR_MID_GRAD, &act);
	encode_all(&act, 0);
	make_idle(&act);
	for (int s = 0; s < SLOTS; s++) {
		struct lane *a = &act.lane[s], *g = &grad.lane[s];
		size_t bitmap = (size_t)(a->n + 7) / 8;
		struct sl_tensor there = {.dtype = SL_F32, .shape = g->shape, .data = g->there};
		uint8_t *bytes = xalloc(a->right_len);

		memcpy(bytes, a->right, a->right_len);
		memset(bytes + a->right_len - bitmap, 0xff, bitmap - 1);
		assert_int_equal(begin_decode(&act, a, bytes, a->right_len), SL_OK);
		g->of.len = 0;
		assert_int_equal(sl_codec_queue_encode(grad.device, &g->call, &there, &g->of, &g->later), SL_OK);
		assert_int_equal(sl_codec_collect(act.device, &a->call, NULL, &fail), SL_ERR_PAYLOAD);
		assert_int_equal(sl_codec_collect(grad.device, &g->call, &g->of, &fail), SL_OK);
		/* and now that it is known, not at all */
		g->of.len = 0;
		assert_int_equal(sl_codec_queue_encode(grad.device, &g->call, &there, &g->of, &g->later), SL_ERR_BUG);
		free(bytes);
	}
	encode_all(&act, 1);
	encode_all(&grad, 1);
	beside_close(&grad);
	beside_close(&act);
}

/* Every stage of the device queues, and is among the specifications above. */
static void every_stage_is_queued(void **state)
{
	(void)state;
	for (int i = 0; cu_codec_stages_all[i]; i++) {
		const struct sl_codec_stage *s = cu_codec_stages_all[i];
		bool found = false;

		assert_non_null(s->collect);
		for (int p = 0; p < SPECS; p++) {
			struct sl_codec_spec spec;
			struct sl_fail fail;

			assert_int_equal(sl_codec_parse(specs[p].text, &spec, &fail), SL_OK);
			for (int j = 0; j < spec.n_stage; j++)
				found = found || spec.stage[j].stage->id == s->id;
		}
		assert_true(found);
	}
}

/* An argument chooses tests by name: '*GPU*'. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RIG_AHEAD(calls_of_several_slots_are_collected_in_any_order),
		RIG_AHEAD(gradients_of_several_slots_use_their_places),
		RIG_AHEAD(values_that_cannot_be_carried_are_found_when_collected),
		RIG_AHEAD(one_hostile_payload_among_others),
		RIG_AHEAD(what_is_refused_is_not_read_later),
		RIG_AHEAD(a_gradient_at_places_that_are_refused),
		cmocka_unit_test(every_stage_is_queued),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("gpu codecs, queued", tests, NULL, rig_close_gpu);
}
