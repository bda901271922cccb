/* Codecs of a device whose work is queued: calls of several slots are under way at once and are
 * collected in any order; the portable codecs do one call at a time. A call's memory is overwritten as
 * soon as it has been collected. On a CPU, where work is done at once, the test also checks that no call
 * waited. On a simulated device or a GPU, through the module, it checks that none should have. */
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/codec/frame.h"
#include "common/codec/stage.h"
#include "kernels/cuda/codec_stage.h"
#include "tests/support/gpu_codecs/beside.h"
#include "tests/support/op_case.h"
#include "tests/support/unit.h"

enum { ROUNDS = 4 };

static const struct spec specs[] = {
#define CODEC_IF_X(chain) {chain, false},
#define CODEC_IF_W(chain) {chain, true},
#define CODEC_IF__(chain)
#define CODEC_CHAIN(methods, levels, memory, ragged, gpu, ahead, chain) CODEC_IF_##ahead(chain)
#include "tests/support/codec_list.def"
};
enum { SPECS = sizeof specs / sizeof specs[0] };

static const struct sl_shape small = {4, {3, 6, 7, 10}}, large = {4, {2, 33, 65, 17}};

static void calls_of_several_slots_are_collected_in_any_order(void **state)
{
	struct sl_backend *be = rig_backend(state);
	struct beside b;

	for (int p = 0; p < SPECS; p++) {
		beside_open(&b, be, &specs[p], rig_brief(be) && p % 3 ? small : large, SL_DIR_HEAD_ACT, NULL);
		for (int round = 0; round < ROUNDS; round++) {
			beside_encode(&b, round);
			beside_decode(&b, round);
			beside_commit(&b);
		}
		beside_close(&b);
	}
}

/* As on a server, which decodes activations and encodes gradients at their places; and as on a client. */
static void gradients_of_several_slots_use_their_places(void **state)
{
	static const struct spec pairs[] = {
		{"topk:0.2|quant:8", false}, {"threshold:0.7", false}, {"topk:0.1,ef=true|qsgd:10", false}};
	struct sl_backend *be = rig_backend(state);

	for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
		/* the places are known, so the host need not wait for their number */
		const struct spec quiet = {pairs[p].text, false};
		struct beside act, grad;

		beside_open(&act, be, &pairs[p], large, SL_DIR_MID_ACT, NULL);
		beside_open(&grad, be, &quiet, large, SL_DIR_MID_GRAD, &act);
		for (int round = 0; round < ROUNDS; round++) {
			beside_encode(&act, round);
			if (round % 2)
				beside_decode(&act, round);
			beside_encode(&grad, round);
			beside_decode(&grad, round);
			beside_commit(&act);
			beside_commit(&grad);
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
				beside_fill(&b, round, s);
				if (s == bad)
					b.x[b.lane[s].n - 3] = p % 2 ? NAN : -INFINITY;
				beside_begin_encode(&b, &b.lane[s]);
			}
			for (int i = 0; i < SLOTS; i++) {
				int s = beside_drawn(p, i);

				beside_end_encode(&b, &b.lane[s], s == bad ? SL_ERR_NONFINITE : SL_OK);
			}
			/* A refused call leaves nothing that a commit would take. "none" refuses
			 * nothing when its call is made. */
			if (round == 0 && strncmp(specs[p].text, "none", 4) != 0)
				beside_commit(&b);
			sl_codec_rollback(b.host);
			sl_codec_rollback(b.device);
			beside_encode(&b, round);
			beside_commit(&b);
		}
		beside_close(&b);
	}
}

/* Flipped bits, or mostly set ones, in one slot's payload: the verdict is the portable codec's, at
 * once or when collected, and the other slots are not affected. */
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
		beside_encode(&b, 0);
		beside_make_idle(&b);
		len = b.lane[1].right_len;
		bytes = op_xalloc(len);
		for (uint32_t t = 0; t < (rig_brief(be) ? 12 : 60); t++) {
			uint32_t w = sl_rng_u32(&key, (uint64_t)p * 1000 + t);
			size_t from = t % 2 ? len - (len < 300 ? len : 300) : 0;
			struct sl_fail fail;
			enum sl_err want, got;

			memcpy(bytes, b.lane[1].right, len);
			bytes[from + w % (len - from)] ^= (uint8_t)(1u << (w >> 24) % 8);
			if (t % 6 == 5) /* a bitmap with more marks than values */
				memset(bytes + len - len / 10, 0x7f, len / 10);
			assert_int_equal(beside_begin_decode(&b, &b.lane[0], b.lane[0].right, b.lane[0].right_len),
					 SL_OK);
			got = beside_begin_decode(&b, &b.lane[1], bytes, len);
			memset(got ? b.lane[1].of.data : bytes, got ? 0x5a : bytes[0], got ? len : 1);
			assert_int_equal(beside_begin_decode(&b, &b.lane[2], b.lane[2].right, b.lane[2].right_len),
					 SL_OK);
			beside_end_decode(&b, &b.lane[2]);
			if (!got)
				got = sl_codec_collect(b.device, &b.lane[1].call, NULL, &fail);
			want = codec_decode(b.host, &b.lane[1].call, bytes, len, b.shape, b.want);
			beside_end_decode(&b, &b.lane[0]);
			if (got != want)
				fail_msg("%s: %s, the portable codec says %s", specs[p].text, sl_err_name(got),
					 sl_err_name(want));
			*(got ? &refused : &taken) += 1;
			if (!got) {
				assert_int_equal(be->ops->download(be, b.got, b.lane[1].there, (size_t)b.n * 4), SL_OK);
				rig_unify_nans(specs[p].text, b.got, b.n);
				rig_unify_nans(specs[p].text, b.want, b.n);
				assert_memory_equal(b.got, b.want, (size_t)b.n * 4);
			}
			beside_check(&b, &b.lane[0]);
			beside_check(&b, &b.lane[2]);
		}
		free(bytes);
		beside_close(&b);
	}
	assert_true(refused > 50 && taken > 50);
}

/* A payload on pages of its own, so that late reads of it can be detected. */
struct paged {
	void *memory;
	uint8_t *at;
	size_t cap;
};

static struct paged paged_open(struct sl_backend *be, size_t len)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), cap = (len + page - 1) / page * page;
	struct paged p = {.cap = cap};
	struct sl_fail fail;

	assert_int_equal(be->ops->host_alloc(be, cap + page, &p.memory, &fail), SL_OK);
	p.at = (uint8_t *)(((uintptr_t)p.memory + page - 1) / page * page);
	return p;
}

/* Makes the payload inaccessible. False: a driver's pages cannot be protected; they are overwritten
 * instead, which a late reader would find. */
static bool lock(const struct paged *p)
{
	if (mprotect(p->at, p->cap, PROT_NONE) == 0)
		return true;
	memset(p->at, 0x5a, p->cap);
	return false;
}

/* Lane 1 was refused, and its payload must not be read any more; the other lanes must be right. */
static void nobody_reads(struct beside *b, const struct paged *p, unsigned waits_before)
{
	bool locked;

	assert_false(b->lane[1].later);
	/* where work is done at once: that the refused call would have waited */
	assert_true(sim_waits != waits_before || strcmp(b->be->ops->name, "cuda-sim") != 0);
	locked = lock(p);
	assert_true(locked || strcmp(b->be->ops->name, "cuda-sim") != 0); /* host memory can be protected */
	for (int s = 0; s < SLOTS; s += 2)
		assert_int_equal(beside_begin_decode(b, &b->lane[s], b->lane[s].right, b->lane[s].right_len), SL_OK);
	for (int s = 0; s < SLOTS; s += 2)
		beside_end_decode(b, &b->lane[s]);
	for (int s = 0; s < SLOTS; s += 2)
		beside_check(b, &b->lane[s]);
	if (locked)
		assert_int_equal(mprotect(p->at, p->cap, PROT_READ | PROT_WRITE), 0);
}

static enum sl_err decode_paged(struct beside *b, const struct paged *p, size_t len)
{
	struct lane *l = &b->lane[1];
	struct sl_tensor there = {.dtype = SL_F32, .shape = l->shape, .data = l->there};
	struct sl_fail fail;

	return sl_codec_queue_decode(b->device, &l->call, (struct sl_bytes){p->at, len}, &there, &l->later, &fail);
}

/* A quantizer refuses a payload that transforms have begun to upload: its memory must not be read any more. */
static void what_is_refused_is_not_read_later(void **state)
{
	static const struct spec chains[] = {{"topk:0.2|quant:8", false},
					     {"topk:0.6|f16", false},
					     {"topk:0.6|topk:0.5|sortquant:3+1", false},
					     {"threshold:0.5,ef=true|qsgd:10", false}};
	struct sl_backend *be = rig_backend(state);

	for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
		struct beside b;
		struct paged p;
		size_t len, values;

		beside_open(&b, be, &chains[i], small, SL_DIR_HEAD_ACT, NULL);
		beside_encode(&b, 0);
		beside_make_idle(&b);
		/* values come after the header and the table of parts, side bytes last */
		values = SL_FRAME_BYTES +
			 (strncmp(chains[i].text, "topk:0.6|topk", 13) ? 1 : 2) * SL_FRAME_TRANSFORM_BYTES;
		len = b.lane[1].right_len - 1;
		p = paged_open(be, len);
		for (int round = 0; round < 4; round++) {
			unsigned before = sim_waits;

			memcpy(p.at, b.lane[1].right, values);
			memcpy(p.at + values, b.lane[1].right + values + 1, len - values);
			assert_int_equal(decode_paged(&b, &p, len), SL_ERR_PAYLOAD);
			nobody_reads(&b, &p, before);
		}
		be->ops->host_free(be, p.memory);
		beside_close(&b);
	}
}

/* The first launch after an upload fails for lack of memory, which only a simulated device can be told to do. */
static void what_there_was_no_room_for_is_not_read_later(void **state)
{
	struct sl_backend *be = rig_backend(state);

	for (int i = 0; i < SPECS; i++) {
		struct beside b;
		struct paged p;

		/* "none" launches nothing; what zstd unpacks is the codec's own memory */
		if (!strcmp(specs[i].text, "none") || strstr(specs[i].text, "zstd"))
			continue;
		beside_open(&b, be, &specs[i], small, SL_DIR_HEAD_ACT, NULL);
		beside_encode(&b, 0);
		beside_make_idle(&b);
		p = paged_open(be, b.lane[1].right_len);
		for (int round = 0; round < 2; round++) {
			unsigned before = sim_waits;
			enum sl_err err;

			memcpy(p.at, b.lane[1].right, b.lane[1].right_len);
			setenv("SPLIT_SIM_NO_ROOM", "1", 1);
			err = decode_paged(&b, &p, b.lane[1].right_len);
			unsetenv("SPLIT_SIM_NO_ROOM");
			if (err == SL_OK) { /* a GPU */
				beside_end_decode(&b, &b.lane[1]);
				continue;
			}
			assert_int_equal(err, SL_ERR_NOMEM);
			nobody_reads(&b, &p, before);
		}
		be->ops->host_free(be, p.memory);
		beside_close(&b);
	}
}

/* A gradient is queued at the places of an activation whose bitmap is not yet known to be invalid.
 * It must use no more places than there are values. */
static void a_gradient_at_places_that_are_refused(void **state)
{
	static const struct spec spec = {"topk:0.6|quant:8", false};
	struct sl_backend *be = rig_backend(state);
	struct beside act, grad;
	struct sl_fail fail;

	beside_open(&act, be, &spec, small, SL_DIR_MID_ACT, NULL);
	beside_open(&grad, be, &spec, small, SL_DIR_MID_GRAD, &act);
	beside_encode(&act, 0);
	beside_make_idle(&act);
	for (int s = 0; s < SLOTS; s++) {
		struct lane *a = &act.lane[s], *g = &grad.lane[s];
		size_t bitmap = (size_t)(a->n + 7) / 8;
		struct sl_tensor there = {.dtype = SL_F32, .shape = g->shape, .data = g->there};
		uint8_t *bytes = op_xalloc(a->right_len);

		memcpy(bytes, a->right, a->right_len);
		memset(bytes + a->right_len - bitmap, 0xff, bitmap - 1);
		assert_int_equal(beside_begin_decode(&act, a, bytes, a->right_len), SL_OK);
		g->of.len = 0;
		assert_int_equal(sl_codec_queue_encode(grad.device, &g->call, &there, &g->of, &g->later), SL_OK);
		assert_int_equal(sl_codec_collect(act.device, &a->call, NULL, &fail), SL_ERR_PAYLOAD);
		assert_int_equal(sl_codec_collect(grad.device, &g->call, &g->of, &fail), SL_OK);
		/* after the refusal is known, it is refused at once */
		g->of.len = 0;
		assert_int_equal(sl_codec_queue_encode(grad.device, &g->call, &there, &g->of, &g->later), SL_ERR_BUG);
		free(bytes);
	}
	beside_encode(&act, 1);
	beside_encode(&grad, 1);
	beside_close(&grad);
	beside_close(&act);
}

/* Every stage of the device queues its work, and is among the specs above. */
static void every_stage_is_queued(void **state)
{
	for (int i = 0; cu_codec_stages[i]; i++) {
		const struct sl_codec_stage *s = cu_codec_stages[i];
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

/* usage: test_gpu_codec_ahead [TEST], such as '*GPU*' */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		RIG_AHEAD(calls_of_several_slots_are_collected_in_any_order),
		RIG_AHEAD(gradients_of_several_slots_use_their_places),
		RIG_AHEAD(values_that_cannot_be_carried_are_found_when_collected),
		RIG_AHEAD(one_hostile_payload_among_others),
		RIG_AHEAD(what_is_refused_is_not_read_later),
		RIG_AHEAD(what_there_was_no_room_for_is_not_read_later),
		RIG_AHEAD(a_gradient_at_places_that_are_refused),
		cmocka_unit_test(every_stage_is_queued),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("gpu codecs, queued", tests, NULL, rig_close_gpu);
}
