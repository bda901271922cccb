/* Status: snapshot to JSON and back, other schemas and broken documents, and the table. */

#include <math.h>

#include "common/telemetry/status.h"
#include "tests/support/unit.h"

static struct sl_status_session sessions[2] = {
	{.id = "0123456789abcdef",
	 .peer = "127.0.0.1",
	 .model = "mobilenet_v2",
	 .partition = "1:-1",
	 .codec = {"quant:8", "quant:8", "quant:8", "quant:8"},
	 .phase = "train",
	 .epoch = 2,
	 .epochs = 3,
	 .step = 120,
	 .steps = 360,
	 .left_s = 3900,
	 .link_epoch = 1795177569188,
	 .loss = 1.25,
	 .acc = 0.5,
	 .samples_per_s = 812.25,
	 .tx_mb_s = 12.5,
	 .rx_mb_s = 3.25,
	 .tx_bytes = 1234567890123,
	 .rx_bytes = 999,
	 .age_s = 3725,
	 .idle_s = 0.25,
	 .stale_frames = 3,
	 .memory_bytes = 10200300,
	 .memory_device_bytes = 9000000,
	 .weights_bytes = 1000000,
	 .activations_bytes = 8000000,
	 .codecs_bytes = 1000000,
	 .payloads_bytes = 200300,
	 .end_grad_bytes = 70100,
	 .end_mean_bytes = 3200000000,
	 .checkpoint_step = 20,
	 .checkpoint_missed = 40,
	 .checkpoint_error = "No space left on \"\\\" device"},
	{.id = "f",
	 .codec = {"none", "f16", "none", "none"},
	 .phase = "connect",
	 .loss = NAN,
	 .acc = NAN,
	 .samples_per_s = NAN,
	 .left_s = NAN,
	 .skipped = 1},
};

static struct sl_status snapshot(int n)
{
	return (struct sl_status){.role = "server",
				  .version = "0.1",
				  .address = "tcp://127.0.0.1:5570",
				  .device = "cpu",
				  .pid = 77,
				  .threads = 2,
				  .uptime_s = 61,
				  .malformed = 4,
				  .turned_away = 12,
				  .log_left_out = 31,
				  .store_limit_bytes = 1ll << 41,
				  .not_stored = 17,
				  .links = 9,
				  .lost = 2,
				  .frames = 4000,
				  .bytes = 1ll << 40,
				  .heap_bytes = 180112,
				  .memory_bytes = 10200300,
				  .memory_limit_bytes = 1ll << 33,
				  .rejected = 1,
				  .stale = 3,
				  .n_session = n,
				  .session = sessions};
}

static void json_round_trip(void **state)
{
	struct sl_status in = snapshot(2), out;
	struct sl_fail fail;
	char *text;

	for (int indent = 0; indent <= 2; indent += 2) {
		text = sl_status_json(&in, indent);
		assert_non_null(text);
		assert_int_equal(strchr(text, '\n') != NULL, indent > 0);
		assert_non_null(strstr(text, "\"schema\": 2"));
		assert_int_equal(sl_status_parse(text, &out, &fail), SL_OK);
		free(text);
		assert_string_equal(out.role, "server");
		assert_int_equal(out.pid, 77);
		assert_true(out.uptime_s == 61);
		assert_int_equal(out.malformed, 4);
		assert_int_equal(out.turned_away, 12);
		assert_int_equal(out.log_left_out, 31);
		assert_int_equal(out.store_limit_bytes, 1ll << 41);
		assert_int_equal(out.not_stored, 17);
		assert_int_equal(out.links, 9);
		assert_int_equal(out.lost, 2);
		assert_int_equal(out.frames, 4000);
		assert_int_equal(out.bytes, 1ll << 40);
		assert_int_equal(out.heap_bytes, 180112);
		assert_int_equal(out.memory_bytes, 10200300);
		assert_int_equal(out.memory_limit_bytes, 1ll << 33);
		assert_int_equal(out.rejected, 1);
		assert_int_equal(out.stale, 3);
		assert_int_equal(out.n_session, 2);
		/* zeroed memory and equal values: equal byte for byte, except for the NaN */
		assert_memory_equal(&out.session[0], &sessions[0], sizeof sessions[0]);
		assert_true(isnan(out.session[1].loss));
		assert_string_equal(out.session[1].codec[1], "f16");
		sl_status_free(&out);
		sl_status_free(&out);
	}
	in.n_session = 0;
	text = sl_status_json(&in, 0);
	assert_int_equal(sl_status_parse(text, &out, &fail), SL_OK);
	assert_int_equal(out.n_session, 0);
	sl_status_free(&out);
	free(text);
}

static void bad_utf8_and_escapes_are_replaced(void **state)
{
	struct sl_status in = snapshot(0), out;
	struct sl_fail fail;
	char *text;

	strcpy(in.address, "a\xff"
			   "b\033]0;x");
	text = sl_status_json(&in, 0);
	assert_non_null(text);
	assert_int_equal(sl_status_parse(text, &out, &fail), SL_OK);
	assert_string_equal(out.address, "a?b?]0;x");
	sl_status_free(&out);
	free(text);
}

static void broken_documents_are_refused(void **state)
{
	static const struct {
		const char *text;
		enum sl_err err;
	} cases[] = {
		{"", SL_ERR_DATA},
		{"[]", SL_ERR_VERSION},
		{"{\"schema\": 1}", SL_ERR_VERSION},
		{"{\"schema\": \"1\"}", SL_ERR_VERSION},
		{"{\"schema\": 2}", SL_ERR_DATA},
		{"{\"schema\": 2, \"schema\": 2}", SL_ERR_DATA},
		{"{\"schema\": 2, \"role\": 3}", SL_ERR_DATA},
	};
	struct sl_status in = snapshot(1), out = {.pid = 5}, got;
	struct sl_fail fail;
	char *text, *at;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		fail.text[0] = 0;
		assert_int_equal(sl_status_parse(cases[i].text, &out, &fail), cases[i].err);
		assert_true(strlen(fail.text) > 10);
	}
	assert_int_equal(out.pid, 5);
	text = sl_status_json(&in, 0);
	at = strstr(text, "\"mid_act\"");
	assert_non_null(at);
	at[1] = 'x';
	assert_int_equal(sl_status_parse(text, &got, &fail), SL_ERR_DATA);
	assert_string_equal(fail.text, "the status has no usable \"mid_act\"");
	free(text);
}

static char *table(const struct sl_status *status, int columns)
{
	static char text[8192];
	FILE *file = fmemopen(text, sizeof text, "w");

	assert_non_null(file);
	sl_status_table(status, columns, file);
	fclose(file);
	return text;
}

static void table_is_aligned(void **state)
{
	struct sl_status in = snapshot(2);

	assert_string_equal(table(&in, 0),
			    "splits 0.1  pid 77  tcp://127.0.0.1:5570  up 1m01s  2 sessions\n"
			    "cpu, 2 threads, memory 10.2 MB of 8.6 GB\n"
			    "4 malformed messages, 12 peers turned away\n"
			    "2 of 9 links lost, 1 of 4000 frames rejected, 3 of older epochs\n"
			    "SESSION   PEER       PHASE    EPOCH     STEP    LOSS    ACC  SAMPLES/S  TX MB/S  RX MB/S  "
			    " LEFT  IDLE\n"
			    "01234567  127.0.0.1  train      2/3  120/360  1.2500  50.0%        812     12.5      3.2  "
			    "1h05m    0s\n"
			    "  mobilenet_v2, 1:-1\n"
			    "  codec quant:8\n"
			    "  sent 1.2 TB, received 999 B in 1h02m; checkpoint at step 20\n"
			    "  of shared heads and tails: end_grad 70.1 kB, end_mean 3.2 GB\n"
			    "  memory 10.2 MB, on the device 9.0 MB\n"
			    "    weights 1.0 MB, activations 8.0 MB, codecs 1.0 MB, payloads 200.3 kB\n"
			    "f         -          connect      -        -       -      -          -      0.0      0.0  "
			    "    -    0s\n"
			    "  -, -\n"
			    "  codec none f16 none none\n"
			    "  sent 0 B, received 0 B in 0s; steps skipped (NaN or Inf; in a group also late, or above "
			    "share.member_norm): 1\n"
			    "01234567 checkpoint: failed at step 40: No space left on \"\\\" device; last good 20\n");
	in.n_session = 0;
	strcpy(in.role, "client");
	in.malformed = in.turned_away = in.lost = in.rejected = in.stale = 0;
	in.threads = 1;
	in.memory_limit_bytes = 0;
	assert_string_equal(table(&in, 0), "splitc 0.1  pid 77  tcp://127.0.0.1:5570  up 1m01s  0 sessions\n"
					   "cpu, 1 thread\n");
}

/* A column that is empty for all sessions is left out, and so are columns that the terminal has no room for. */
static void table_fits_the_terminal(void **state)
{
	struct sl_status_session one = sessions[0];
	struct sl_status in = snapshot(1);

	in.store_files = 26;
	in.store_bytes = 853000000;
	in.store_limit_bytes = 36000000000;
	assert_non_null(strstr(table(&in, 80), "store: 26 files, 853.0 MB of at most 36.0 GB, the oldest unused for "));
	in.store_limit_bytes = 0;
	assert_non_null(strstr(table(&in, 80), "store: 26 files, 853.0 MB, the oldest unused for "));
	in.store_files = 0;
	in.session = &one;
	assert_null(strstr(table(&in, 80), "correlation"));
	one.evaluated_step = 80;
	one.dcor_squared = 0.5126;
	assert_non_null(
		strstr(table(&in, 80), "\n  step 80: squared distance correlation of inputs and head_act 0.513\n"));
	one.evaluated_step = 0;
	one.epoch = one.epochs = 0;
	one.loss = one.acc = one.left_s = NAN;
	assert_non_null(
		strstr(table(&in, 80), "SESSION   PEER       PHASE     STEP  SAMPLES/S  TX MB/S  RX MB/S  IDLE\n"));
	assert_non_null(
		strstr(table(&in, 70), "SESSION   PEER       PHASE     STEP  SAMPLES/S  TX MB/S  RX MB/S  IDLE\n"));
	assert_non_null(strstr(table(&in, 69), "SESSION   PEER       PHASE     STEP  SAMPLES/S  IDLE\n"));
	one.tx_mb_s = 0.0213;
	assert_non_null(strstr(table(&in, 80), "  812     0.02      3.2    0s\n"));
	/* a peer with a key; a name that is wider than the terminal */
	strcpy(one.peer, "edge-1 0123-4567-89ab-cdef");
	assert_non_null(
		strstr(table(&in, 80), "\n01234567  edge-1 0123-4567-89ab-cdef  train  120/360        812    0s\n"));
	memset(one.peer, 'n', 100);
	one.peer[100] = 0;
	for (int i = 0; i < 4; i++)
		strcpy(one.codec[i], "topk:0.2,ef=true|quant:8");
	strcpy(one.codec[3], "lowrank:3,warm=true");
	one.checkpoint_missed = one.memory_bytes = 0;
	for (int most = 62; most <= 80; most += 6)
		for (const char *line = strstr(table(&in, most), "SESSION"); *line; line += strcspn(line, "\n") + 1)
			assert_in_range(strcspn(line, "\n"), 1, most);
	assert_non_null(strstr(table(&in, 80), "\n  codec topk:0.2,ef=true|quant:8 topk:0.2,ef=true|quant:8\n"
					       "  topk:0.2,ef=true|quant:8 lowrank:3,warm=true\n"));
	strcpy(one.peer, "127.0.0.1");
	strcpy(in.role, "client");
	assert_non_null(strstr(table(&in, 65), "SESSION   PHASE     STEP  SAMPLES/S  TX MB/S  RX MB/S  IDLE\n"));
}

/* A document of an older daemon: members that were added later are unknown. */
static void younger_members_may_be_missing(void **state)
{
	struct sl_status in = snapshot(1), out;
	struct sl_fail fail;
	char *text = sl_status_json(&in, 0), *at;

	at = strstr(text, "\"left_s\"");
	assert_non_null(at);
	at[1] = 'x';
	at = strstr(text, "\"steps\"");
	assert_non_null(at);
	at[1] = 'x';
	assert_int_equal(sl_status_parse(text, &out, &fail), SL_OK);
	assert_true(isnan(out.session[0].left_s));
	assert_int_equal(out.session[0].steps, 0);
	assert_int_equal(out.session[0].epochs, 3);
	sl_status_free(&out);
	free(text);
}

static void table_shows_no_control_characters(void **state)
{
	struct sl_status in = snapshot(1);
	struct sl_status_session evil = sessions[0];

	memset(evil.peer, 'p', sizeof evil.peer - 1);
	memcpy(evil.peer, "\033[2J\n", 5);
	in.session = &evil;
	char *text = table(&in, 0);
	assert_null(strchr(text, '\033'));
	/* a newline in it does not start a new line */
	assert_non_null(strstr(text, "\n01234567  ?[2J?ppp"));
}

static int count(const char *text, const char *part)
{
	int n = 0;

	while ((text = strstr(text, part))) {
		text++;
		n++;
	}
	return n;
}

/* Every name has one HELP and one TYPE, before its samples, which are adjacent. Unknown values have no sample. */
static void prometheus_can_read_it(void **state)
{
	static char text[16384];
	struct sl_status in = snapshot(2);
	FILE *file = fmemopen(text, sizeof text, "w");
	char name[64] = "", type[16];

	strcpy(in.device, "a \"quoted\\ device");
	sl_status_prometheus(&in, file);
	fclose(file);
	assert_non_null(strstr(text, "split_info{role=\"server\",version=\"0.1\",address=\"tcp://127.0.0.1:5570\","
				     "device=\"a \\\"quoted\\\\ device\"} 1\n"));
	assert_non_null(
		strstr(text, "# TYPE split_received_bytes_total counter\nsplit_received_bytes_total 1099511627776\n"));
	assert_non_null(strstr(text, "\nsplit_uptime_seconds 61\n"));
	assert_non_null(strstr(text,
			       "\nsplit_session_sent_bytes_total{session=\"0123456789abcdef\",peer=\"127.0.0.1\"} "
			       "1234567890123\nsplit_session_sent_bytes_total{session=\"f\",peer=\"\"} 0\n"));
	assert_int_equal(count(text, "\nsplit_session_loss{"), 1);
	assert_int_equal(count(text, "nan"), 0);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (strncmp(line, "# HELP ", 7) == 0) {
			assert_int_equal(sscanf(line + 7, "%63s", name), 1);
		} else if (line[0] == '#') {
			assert_int_equal(strncmp(line + 7, name, strlen(name)), 0);
			assert_int_equal(sscanf(line + 7 + strlen(name), "%15s", type), 1);
			assert_int_equal(strcmp(type, "counter") == 0, strcmp(name + strlen(name) - 6, "_total") == 0);
		} else {
			assert_int_equal(strncmp(line, name, strlen(name)), 0);
			assert_int_equal(strcspn(line, "{ "), strlen(name));
		}
	}
}

/* Records of groups go through the document to the table and the metrics. */
static void groups_are_shown(void **state)
{
	static const char record[] = "{\"clinics\":{\"steps\":20,\"members\":[{\"steps\":20,\"rows\":75.0},"
				     "{\"steps\":5,\"rows\":25.0}]}}";
	static char text[16384];
	struct sl_status in = snapshot(0), out;
	FILE *file = fmemopen(text, sizeof text, "w");
	struct sl_fail fail;
	char *json;

	in.groups = json_loads(record, 0, NULL);
	json = sl_status_json(&in, 0);
	assert_int_equal(sl_status_parse(json, &out, &fail), SL_OK);
	sl_status_table(&out, 0, file);
	sl_status_prometheus(&out, file);
	fclose(file);
	assert_non_null(strstr(text, "group clinics, as of step 20:\n"));
	assert_non_null(strstr(text, "  member 1     25.0 % of the steps,  25.0 % of the rows\n"));
	assert_non_null(strstr(text, "\nsplit_group_member_steps_ratio{group=\"clinics\",member=\"1\"} 0.250\n"));
	assert_non_null(strstr(text, "\nsplit_group_member_rows_ratio{group=\"clinics\",member=\"0\"} 0.750\n"));
	sl_status_free(&out);
	json_decref(in.groups);
	free(json);
}

/* /metrics serves what the command prints. */
static void metrics_come_from_the_document(void **state)
{
	static char printed[16384];
	struct sl_status in = snapshot(2);
	FILE *file = fmemopen(printed, sizeof printed, "w");
	char *json = sl_status_json(&in, 0), *served = sl_status_metrics(json);

	sl_status_prometheus(&in, file);
	fclose(file);
	assert_non_null(served);
	assert_string_equal(served, printed);
	assert_null(sl_status_metrics("{\"schema\": 2}"));
	free(served);
	free(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_round_trip),
		cmocka_unit_test(bad_utf8_and_escapes_are_replaced),
		cmocka_unit_test(broken_documents_are_refused),
		cmocka_unit_test(table_is_aligned),
		cmocka_unit_test(table_fits_the_terminal),
		cmocka_unit_test(younger_members_may_be_missing),
		cmocka_unit_test(prometheus_can_read_it),
		cmocka_unit_test(groups_are_shown),
		cmocka_unit_test(metrics_come_from_the_document),
		cmocka_unit_test(table_shows_no_control_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
