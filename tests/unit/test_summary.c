/* The figures at the end of a run. */

#include "client/train/group_record.h"
#include "client/train/summary.h"
#include "tests/support/printed.h"
#include "tests/support/small_plan.h"
#include "tests/support/unit.h"

static bool has_word(const struct sl_jsonl_summary *s, const char *word)
{
	bool has = false;

	for (int i = 0; i < SL_JSONL_WORDS && s->word[i]; i++)
		has = has || strcmp(s->word[i], word) == 0;
	return has;
}

/* Audits cover this process alone, and neither the state that a later phase begins with. */
static void what_was_not_audited_is_listed(void **state)
{
	const struct sl_training_link link = {.audits = true, .audited = {.steps = 5, .all_steps = 5}};
	struct sl_training_totals t = {.mode = "remote", .steps = 5};
	struct sl_setup setup = {.phase = {.count = 2}};
	struct sl_jsonl_summary s;

	sl_summary_fill(&s, &setup, &t, &link, "finished");
	assert_false(has_word(&s, "steps") || has_word(&s, "earlier") || has_word(&s, "phase-start"));
	setup.phase.index = 1;
	t.linked_from = 3;
	sl_summary_fill(&s, &setup, &t, &link, "finished");
	assert_true(has_word(&s, "earlier") && has_word(&s, "phase-start") && has_word(&s, "checkpoints"));
}

/* Both times are per step of this client, whatever other members did in between. A step whose
 * answer was lost does not count for the server's time. */
static void times_are_those_of_a_batch(void **state)
{
	const struct sl_training_totals t = {
		.mode = "remote",
		.steps = 1440,
		.own_steps = 480,
		.linked_from = 360,
		.train_s = 240,
		.compute_s = 48,
		.server_s = 143.7,
		.server_steps = 479,
		.train_tx_bytes = 480ull * 2000000,
	};
	const struct sl_training_link link = {.links = 1};
	struct sl_jsonl_summary s;

	sl_summary_fill(&s, NULL, &t, &link, "finished");
	assert_true(has_word(&s, "earlier")); /* steps before 360 are another process's */
	assert_true(s.t_per_batch_s == 0.5);
	assert_float_equal(s.t_compute_per_batch_s, 0.1 + 0.3, 1e-12);
	assert_float_equal(s.avg_mb_s, 2 / 0.4, 1e-9);
}

/* MB are 10^6 bytes, ratios are relative to fp32, and evaluations have no gradients. */
static void bytes_are_those_of_the_tensors(void **state)
{
	struct sl_agreement a = {.codec = {{.text = "none"}, {.text = "f16"}, {.text = "none"}, {.text = "none"}}};
	struct sl_setup setup = {.agreement = a, .plan = small_plan_open("1:-1", 1)};
	const struct sl_training_totals t = {.mode = "remote", .linked_train_samples = 30, .linked_eval_samples = 4};
	const struct sl_training_link link = {.peak_tx = 3e6,
					      .peak_rx = 5e6,
					      .wire = {10, 20, 30, 40},
					      .payload = {1, 2, 3, 4},
					      .nominal = {0.5, 1, 1.5, 2}};
	struct sl_jsonl_summary s;

	sl_summary_fill(&s, &setup, &t, &link, "finished");
	assert_float_equal(s.peak_client_mb_s, 3, 1e-9);
	assert_float_equal(s.peak_server_mb_s, 5, 1e-9);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++) {
		bool grad = dir == SL_DIR_MID_GRAD || dir == SL_DIR_HEAD_GRAD;
		bool mid = dir == SL_DIR_MID_ACT || dir == SL_DIR_MID_GRAD;
		uint64_t one = (uint64_t)sl_plan_plain_count(setup.plan, mid) * 4;

		assert_string_equal(s.direction[dir].name, sl_dir_name((enum sl_dir)dir));
		assert_string_equal(s.direction[dir].codec, a.codec[dir].text);
		assert_int_equal(s.direction[dir].wire_bytes, link.wire[dir]);
		assert_int_equal(s.direction[dir].payload_bytes, link.payload[dir]);
		assert_true(s.direction[dir].nominal_bytes == link.nominal[dir]);
		assert_int_equal(s.direction[dir].raw_bytes, one * (grad ? 30 : 34));
	}
	sl_plan_close(setup.plan);
}

/* Whether `file` has the text; closes it. */
static bool has_text(FILE *file, const char *text)
{
	char all[4096];

	all[fread(all, 1, sizeof all - 1, file)] = '\0';
	fclose(file);
	return strstr(all, text);
}

/* Four absences are named, and what is more is counted. */
static void four_absences_of_a_member_are_named(void **state)
{
	static const struct {
		const char *absent, *row;
	} all[] = {
		{"1:1,1:3-4,0:9,1:6-5,1:8",
		 "away in steps 1, away in steps 3-4, came back before step 6, away in steps 8\n"},
		{"1:1,1:3-4,1:6-5,1:8,1:10", "away in steps 8 and 1 time more\n"},
		{"1:1,1:3,1:5,1:7,1:9,1:11", "away in steps 7 and 2 times more\n"},
	};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		json_t *record =
			json_pack("{s:[{s:i, s:i}, {s:i, s:i}], s:i, s:f, s:s}", "members", "steps", 12, "rows", 50,
				  "steps", 6, "rows", 50, "steps", 12, "least", 0.5, "absent", all[i].absent);
		const struct printed printed = printed_begin();

		sl_group_record_print(record);
		json_decref(record);
		assert_true(has_text(printed_end(&printed), all[i].row));
	}
}

/* An area has its interval where that is known, and no other figure has it. */
static void only_a_known_area_has_its_interval(void **state)
{
	const struct sl_training_link link = {.links = 1};
	struct sl_training_totals t = {
		.mode = "local", .part = "test", .test_loss = 0.5, .acc_interval = {NAN, NAN}, .spread = NAN};
	struct sl_jsonl_summary s;

	for (int i = 0; i < 2; i++)
		for (int k = 0; k < sl_metric_count; k++)
			if (strcmp(sl_metrics[k].name, i ? "matthews" : "auc") == 0)
				t.score[i] = (struct sl_score){&sl_metrics[k], 0.75};
	for (int known = 0; known < 2; known++) {
		struct printed printed;

		t.auc_interval = (struct sl_interval){known ? 0.625 : NAN, known ? 0.875 : NAN};
		sl_summary_fill(&s, NULL, &t, &link, "finished");
		printed = printed_begin();
		sl_summary_print(&s, &t, &link, false);
		assert_true(
			has_text(printed_end(&printed), known ? "test auc 0.7500 (0.6250 to 0.8750), matthews 0.7500\n"
							      : "test auc 0.7500, matthews 0.7500\n"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_not_audited_is_listed),
		cmocka_unit_test(times_are_those_of_a_batch),
		cmocka_unit_test(bytes_are_those_of_the_tensors),
		cmocka_unit_test(four_absences_of_a_member_are_named),
		cmocka_unit_test(only_a_known_area_has_its_interval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
