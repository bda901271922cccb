/* What a Hello says of model, cut, layers, codecs and optimizer: it comes back as it was said, and a value that is none
 * is refused in words before any plan is made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/session/agree.h"

static struct sl_hello good(void)
{
	return (struct sl_hello){.model = "mobilenet_v2",
				 .width = 0.25,
				 .dropout = 0.2,
				 .classes = 10,
				 .image = 32,
				 .cifar_stem = true,
				 .cut = "head_end=features.0.1 tail_begin=classifier",
				 .batch = 8,
				 .chunks = 2,
				 .insert = {"conv:8", ""},
				 .codec = {"none", "quant:8", "topk:0.1", "f16"},
				 .seed = 11,
				 .precision = SL_PRECISION_BF16,
				 .momentum = 0.9,
				 .nesterov = true,
				 .weight_decay = 1e-4};
}

static void what_is_said_is_read(void **state)
{
	struct sl_hello h = good(), again = {0};
	struct sl_agreement a;
	struct sl_plan *plan;
	struct sl_fail fail;

	(void)state;
	if (sl_agreement_from_hello(&a, &h, &fail) != SL_OK || sl_plan_open(&plan, &a.split, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	sl_agreement_to_hello(&a, plan, &again);
	memcpy(h.plan_hash, plan->hash, sizeof h.plan_hash);
	assert_memory_equal(&h, &again, sizeof h);
	sl_plan_close(plan);
}

static void refused(const struct sl_hello *h, enum sl_err code, const char *phrase)
{
	struct sl_agreement a = {.split.plan.batch = -77};
	struct sl_fail fail;

	assert_int_equal(sl_agreement_from_hello(&a, h, &fail), code);
	if (!strstr(fail.text, phrase))
		fail_msg("\"%s\" has no \"%s\"", fail.text, phrase);
	assert_int_equal(a.split.plan.batch, -77);
}

static void what_cannot_be_is_refused(void **state)
{
	struct sl_hello h;

	(void)state;
	h = good(), h.width = 0.009;
	refused(&h, SL_ERR_LIMIT, "width 0.009");
	h = good(), h.width = 16.1;
	refused(&h, SL_ERR_LIMIT, "width 16.1");
	h = good(), h.width = (double)__builtin_nanf("");
	refused(&h, SL_ERR_LIMIT, "width nan");
	h = good(), h.dropout = 1;
	refused(&h, SL_ERR_LIMIT, "dropout 1");
	h = good(), h.classes = 1;
	refused(&h, SL_ERR_LIMIT, "1 classes");
	h = good(), h.classes = 1000001;
	refused(&h, SL_ERR_LIMIT, "1000001 classes");
	h = good(), h.image = 7;
	refused(&h, SL_ERR_LIMIT, "image 7x7 (8 to 4096)");
	h = good(), h.image = 4097;
	refused(&h, SL_ERR_LIMIT, "image 4097x4097");
	h = good(), h.image = 32 | 4097 << 16;
	refused(&h, SL_ERR_LIMIT, "image 32x4097");
	h = good(), h.batch = 0;
	refused(&h, SL_ERR_LIMIT, "0 rows");
	h = good(), h.batch = SL_PLAN_MAX_BATCH + 1;
	refused(&h, SL_ERR_LIMIT, "1048577 rows");
	h = good(), h.chunks = 0;
	refused(&h, SL_ERR_LIMIT, "0 chunks");
	h = good(), h.chunks = SL_PLAN_MAX_CHUNKS + 1;
	refused(&h, SL_ERR_LIMIT, "257 chunks");
	h = good(), strcat(h.cut, " and");
	refused(&h, SL_ERR_CONFIG, "is not 'head_end=NAME tail_begin=NAME'");
	h = good(), strcpy(h.cut, "head_end=features.0.1");
	refused(&h, SL_ERR_CONFIG, "is not 'head_end=NAME tail_begin=NAME'");
	h = good(), strcpy(h.insert[0], "conv:08");
	refused(&h, SL_ERR_CONFIG, "insert");
	h = good(), strcpy(h.insert[1], "nothing:8");
	refused(&h, SL_ERR_CONFIG, "insert");
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		h = good(), strcpy(h.codec[dir], "gzip");
		refused(&h, SL_ERR_CONFIG, "gzip");
	}
	h = good(), h.momentum = 1.1;
	refused(&h, SL_ERR_LIMIT, "momentum 1.1");
	h = good(), h.optimizer = SL_OPTIMIZER_ADAM;
	refused(&h, SL_ERR_CONFIG, "no momentum");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said_is_read),
		cmocka_unit_test(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
