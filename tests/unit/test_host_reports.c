/* Reports of members of a group to a server: what is taken is in the store with its signature; what is not has an
 * answer that says why, and costs its member nothing else. */
#include <jansson.h>
#include <unistd.h>

#include "tests/support/host_member.h"
#include "tests/support/unit.h"

enum { MEMBERS = 2 };

static struct host_member member[MEMBERS];
static int refused;

static const char good[] = "{\"step\":1,\"samples\":20,\"loss\":0.5,\"correct\":19,\"scores\":{\"auc\":0.75}}";

/* As splitc says it, signed as that of member `as` by the session of member `by`. */
static void say(int k, const char *text, int by, int as)
{
	struct sl_frame f = {.kind = SL_FRAME_REPORT, .epoch = 1};

	snprintf(f.u.report.text, sizeof f.u.report.text, "%s", text);
	sl_report_sign(&f.u.report, host_rig_secret((uint8_t)(1 + by)), host_group.name, as);
	host_rig_say(&member[k].c, &f);
}

static void is_refused(int k, const char *phrase)
{
	const struct sl_wire_report *r = &member[k].c.last[SL_FRAME_REPORT].u.report;

	host_rig_await(&member[k].c.came[SL_FRAME_REPORT], ++refused);
	if (!strstr(r->text, phrase))
		fail_msg("'%s', not '%s'", r->text, phrase);
}

static void step(uint64_t number)
{
	for (int k = 0; k < MEMBERS; k++) {
		host_member_compute(&member[k], number, HOST_GRAD, 1, 1e-3f);
		host_member_commit(&member[k], number, false);
	}
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_COMMITTED], (int)number + 1);
}

/* The lines in the store; the last one is `last`'s. */
static int lines(json_t **last)
{
	char path[200], line[4096];
	int n = 0;
	FILE *f;

	*last = NULL;
	snprintf(path, sizeof path, "%s/%s.reports.jsonl", host_rig.store, host_group.name);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		json_decref(*last);
		*last = json_loads(line, 0, NULL);
		n++;
	}
	if (f)
		fclose(f);
	return n;
}

#define FIGURES(step, samples, loss, correct, scores)                                                                  \
	"{\"step\":" step ",\"samples\":" samples ",\"loss\":" loss ",\"correct\":" correct ",\"scores\":{" scores "}" \
	"}"
static char too_long[1100];

/* What member 1 says, signed by the session of `by` as that of `as`, and the answer. */
static const struct {
	const char *text, *answer;
	int by, as;
} refusals[] = {
	{good, "not signed by the key of member 1", .by = 0, .as = 1},
	{good, "not signed by the key of member 1", .by = 1, .as = 0},
	{FIGURES("1", "3", "0.5", "3", ""), "an evaluation of 3 samples, and limits.report_samples is 20", 1, 1},
	{too_long, "at most 1024 bytes", 1, 1},
	{FIGURES("1", "30", "NaN", "3", ""), "a report is JSON with", 1, 1},
	{FIGURES("1", "30", "1e999", "3", ""), "a report is JSON with", 1, 1},
	{FIGURES("1", "30", "1", "3", "\"auc\":\"high\""), "a report is JSON with", 1, 1},
	{"{\"step\":1,\"samples\":30,\"loss\":1,\"correct\":3,\"scores\":{},\"more\":1}", "a report is JSON with", 1,
	 1},
	{"[]", "a report is JSON with", 1, 1},
	{FIGURES("1", "30", "1", "31", ""), "31 of 30 samples are correct", 1, 1},
	{FIGURES("9", "30", "1", "3", ""), "in step 9, and the group has done 1 steps", 1, 1},
	{FIGURES("-1", "30", "1", "3", ""), "in step -1", 1, 1},
};

static void a_lying_member_is_told_why(void **state)
{
	json_t *line;

	memset(too_long, ' ', sizeof too_long - 1);
	memcpy(too_long, good, sizeof good - 1);
	for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
		say(1, refusals[i].text, refusals[i].by, refusals[i].as);
		is_refused(1, refusals[i].answer);
	}
	assert_int_equal(lines(&line), 0);
	step(1);
	assert_int_equal(member[1].c.came[SL_FRAME_REFUSE], 0);
}

static void a_report_is_stored_with_its_signature(void **state)
{
	struct sl_wire_report r = {.text = ""};
	const char *text;
	json_t *line;
	unsigned byte;

	say(0, good, 0, 0);
	say(0, good, 0, 0);
	refused = 0;
	is_refused(0, "step 1 was reported before");
	assert_int_equal(lines(&line), 1);
	assert_int_equal(json_integer_value(json_object_get(line, "member")), 0);
	snprintf(r.text, sizeof r.text, "%s", json_string_value(json_object_get(line, "report")));
	assert_string_equal(r.text, good);
	text = json_string_value(json_object_get(line, "signature"));
	for (int i = 0; i < SL_PROOF_BYTES; i++) {
		assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
		r.signature[i] = (uint8_t)byte;
	}
	assert_true(sl_report_holds(&r, host_rig_secret(1)->session, host_group.name, 0));
	json_decref(line);
}

/* A power cut left half a line: it spoils no other. */
static void half_a_line_is_left_alone(void **state)
{
	char path[200];
	json_t *line;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s.reports.jsonl", host_rig.store, host_group.name);
	f = fopen(path, "a");
	assert_true(f && fputs("{\"member\":1,\"rep", f) > 0 && fclose(f) == 0);
	say(1, good, 1, 1);
	step(2);
	assert_int_equal(lines(&line), 3);
	assert_int_equal(json_integer_value(json_object_get(line, "member")), 1);
	json_decref(line);
}

/* The file of reports is a link to another one: nothing is written there. */
static void a_link_is_not_followed(void **state)
{
	char path[200];

	snprintf(path, sizeof path, "%s/%s.reports.jsonl", host_rig.store, host_group.name);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("elsewhere", path), 0);
	say(0, "{\"step\":2,\"samples\":20,\"loss\":0.5,\"correct\":null,\"scores\":{}}", 0, 0);
	is_refused(0, "link");
	snprintf(path, sizeof path, "%s/elsewhere", host_rig.store);
	assert_int_not_equal(access(path, F_OK), 0);
}

static int begin(void **state)
{
	host_group = (struct host_group){.name = "clinics",
					 .clients = MEMBERS,
					 .epoch_steps = 100,
					 .patience_s = 60,
					 .least = 0.5,
					 .lr = 0.05,
					 .plain = true};
	host_rig_make_store();
	host_rig_open(2 * MEMBERS, 0);
	for (int k = 0; k < MEMBERS; k++)
		host_member_call(&member[k], k, (uint8_t)(1 + k), 1);
	for (int k = 0; k < MEMBERS; k++)
		host_rig_await(&member[k].c.came[SL_FRAME_WELCOME], 1);
	step(0);
	return 0;
}

static int end(void **state)
{
	for (int k = 0; k < MEMBERS; k++)
		host_member_hang_up(&member[k]);
	host_rig_close();
	host_rig_remove_store();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lying_member_is_told_why),
		cmocka_unit_test(a_report_is_stored_with_its_signature),
		cmocka_unit_test(half_a_line_is_left_alone),
		cmocka_unit_test(a_link_is_not_followed),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
