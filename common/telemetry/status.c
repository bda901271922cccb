/* Two tables of members say what is in the document; rendering and parsing both walk them. */
#include "common/telemetry/status.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/telemetry/json.h"

enum member_type { TEXT, WHOLE, REAL };

struct member {
	const char *name;
	enum member_type type;
	size_t offset;
	bool younger; /* than the first daemons of this schema: may be missing */
};

#define M(st, name, type)                                     \
	{                                                     \
#name, type, offsetof(struct st, name), false \
	}
#define YOUNGER(st, name, type)                              \
	{                                                    \
#name, type, offsetof(struct st, name), true \
	}

static const struct member daemon_members[] = {
	M(sl_status, role, TEXT),
	M(sl_status, version, TEXT),
	M(sl_status, address, TEXT),
	M(sl_status, device, TEXT),
	M(sl_status, pid, WHOLE),
	M(sl_status, threads, WHOLE),
	M(sl_status, uptime_s, REAL),
	M(sl_status, malformed, WHOLE),
	M(sl_status, turned_away, WHOLE),
	M(sl_status, links, WHOLE),
	M(sl_status, lost, WHOLE),
	M(sl_status, frames, WHOLE),
	M(sl_status, bytes, WHOLE),
	M(sl_status, rejected, WHOLE),
	M(sl_status, stale, WHOLE),
	M(sl_status, task_s, REAL),
	M(sl_status, store_files, WHOLE),
	M(sl_status, store_bytes, WHOLE),
	M(sl_status, store_oldest_s, REAL),
	M(sl_status, heap_bytes, WHOLE),
	YOUNGER(sl_status, memory_bytes, WHOLE),
	YOUNGER(sl_status, memory_limit_bytes, WHOLE),
	YOUNGER(sl_status, log_left_out, WHOLE),
	YOUNGER(sl_status, store_limit_bytes, WHOLE),
	YOUNGER(sl_status, not_stored, WHOLE),
	YOUNGER(sl_status, ready, WHOLE),
	YOUNGER(sl_status, sessions_limit, WHOLE),
	YOUNGER(sl_status, started_s, WHOLE),
	YOUNGER(sl_status, disk_free_bytes, WHOLE),
	YOUNGER(sl_status, disk_bytes, WHOLE),
};

static const struct member session_members[] = {
	M(sl_status_session, id, TEXT),
	M(sl_status_session, peer, TEXT),
	M(sl_status_session, model, TEXT),
	M(sl_status_session, partition, TEXT),
	M(sl_status_session, phase, TEXT),
	M(sl_status_session, epoch, WHOLE),
	M(sl_status_session, step, WHOLE),
	M(sl_status_session, skipped, WHOLE),
	M(sl_status_session, loss, REAL),
	M(sl_status_session, acc, REAL),
	M(sl_status_session, samples_per_s, REAL),
	M(sl_status_session, tx_mb_s, REAL),
	M(sl_status_session, rx_mb_s, REAL),
	M(sl_status_session, tx_bytes, WHOLE),
	M(sl_status_session, rx_bytes, WHOLE),
	M(sl_status_session, age_s, REAL),
	M(sl_status_session, idle_s, REAL),
	M(sl_status_session, stale_frames, WHOLE),
	M(sl_status_session, checkpoint_step, WHOLE),
	M(sl_status_session, checkpoint_missed, WHOLE),
	M(sl_status_session, checkpoint_error, TEXT),
	YOUNGER(sl_status_session, epochs, WHOLE),
	YOUNGER(sl_status_session, steps, WHOLE),
	YOUNGER(sl_status_session, left_s, REAL),
	YOUNGER(sl_status_session, link_epoch, WHOLE),
	YOUNGER(sl_status_session, best_step, WHOLE),
	YOUNGER(sl_status_session, best_acc, REAL),
	YOUNGER(sl_status_session, best_metric, TEXT),
	YOUNGER(sl_status_session, evaluated_step, WHOLE),
	YOUNGER(sl_status_session, test_loss, REAL),
	YOUNGER(sl_status_session, test_acc, REAL),
	YOUNGER(sl_status_session, dcor_squared, REAL),
	YOUNGER(sl_status_session, memory_bytes, WHOLE),
	YOUNGER(sl_status_session, memory_device_bytes, WHOLE),
	YOUNGER(sl_status_session, weights_bytes, WHOLE),
	YOUNGER(sl_status_session, activations_bytes, WHOLE),
	YOUNGER(sl_status_session, codecs_bytes, WHOLE),
	YOUNGER(sl_status_session, payloads_bytes, WHOLE),
	YOUNGER(sl_status_session, group, TEXT),
	YOUNGER(sl_status_session, missing, TEXT),
	YOUNGER(sl_status_session, member, WHOLE),
	YOUNGER(sl_status_session, members, WHOLE),
	YOUNGER(sl_status_session, members_least, WHOLE),
	YOUNGER(sl_status_session, members_here, WHOLE),
	YOUNGER(sl_status_session, group_step, WHOLE),
	YOUNGER(sl_status_session, late, WHOLE),
	YOUNGER(sl_status_session, awaited, WHOLE),
	YOUNGER(sl_status_session, end_grad_bytes, WHOLE),
	YOUNGER(sl_status_session, end_mean_bytes, WHOLE),
	YOUNGER(sl_status_session, wire_tx_bytes, WHOLE),
	YOUNGER(sl_status_session, wire_rx_bytes, WHOLE),
	YOUNGER(sl_status_session, weights_tx_bytes, WHOLE),
	YOUNGER(sl_status_session, weights_rx_bytes, WHOLE),
	YOUNGER(sl_status_session, framing_tx_bytes, WHOLE),
	YOUNGER(sl_status_session, framing_rx_bytes, WHOLE),
	YOUNGER(sl_status_session, curve_tx_bytes, WHOLE),
	YOUNGER(sl_status_session, curve_rx_bytes, WHOLE),
};

static const struct member codec_members[] = {
	{"head_act", TEXT, offsetof(struct sl_status_session, codec[0]), false},
	{"mid_act", TEXT, offsetof(struct sl_status_session, codec[1]), false},
	{"mid_grad", TEXT, offsetof(struct sl_status_session, codec[2]), false},
	{"head_grad", TEXT, offsetof(struct sl_status_session, codec[3]), false},
};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static json_t *members_to_json(const struct member *m, size_t n, const void *from)
{
	json_t *object = json_object();

	for (size_t i = 0; i < n; i++) {
		const char *at = (const char *)from + m[i].offset;
		json_t *value;

		if (m[i].type == TEXT)
			value = sl_json_text(at);
		else if (m[i].type == WHOLE)
			value = json_integer(*(const int64_t *)at);
		else
			value = sl_json_real(*(const double *)at);
		json_object_set_new(object, m[i].name, value);
	}
	return object;
}

static json_t *scores_to_json(const struct sl_status_session *s)
{
	json_t *object = json_object();

	for (int i = 0; i < s->n_score; i++)
		json_object_set_new(object, s->score[i].name, sl_json_real(s->score[i].value));
	return object;
}

/* A daemon of before has none. */
static void json_to_scores(json_t *object, struct sl_status_session *s)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		if (s->n_score == SL_STATUS_SCORES)
			return;
		snprintf(s->score[s->n_score].name, sizeof s->score[0].name, "%s", name);
		s->score[s->n_score++].value = json_is_number(value) ? json_number_value(value) : NAN;
	}
}

char *sl_status_json(const struct sl_status *status, int indent)
{
	json_t *sessions = json_array(), *daemon = members_to_json(daemon_members, COUNT(daemon_members), status);
	json_t *root = json_pack("{si}", "schema", SL_STATUS_SCHEMA);
	char *text = NULL;

	for (int i = 0; i < status->n_session; i++) {
		const struct sl_status_session *s = &status->session[i];
		json_t *one = members_to_json(session_members, COUNT(session_members), s);

		json_object_set_new(one, "codec", members_to_json(codec_members, COUNT(codec_members), s));
		json_object_set_new(one, "test_metrics", scores_to_json(s));
		json_array_append_new(sessions, one);
	}
	json_object_set_new(daemon, "sessions", sessions);
	if (root && json_object_update(root, daemon) == 0)
		text = json_dumps(root, JSON_REAL_PRECISION(10) | (indent > 0 ? JSON_INDENT(indent) : 0));
	json_decref(daemon);
	json_decref(root);
	return text;
}

static enum sl_err json_to_members(const struct member *m, size_t n, const json_t *object, void *to,
				   struct sl_fail *fail)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *value = json_object_get(object, m[i].name);
		char *at = (char *)to + m[i].offset;

		if (m[i].type == TEXT && json_is_string(value))
			snprintf(at, SL_STATUS_TEXT, "%s", json_string_value(value));
		else if (m[i].type == WHOLE && json_is_integer(value))
			*(int64_t *)at = json_integer_value(value);
		else if (m[i].type == REAL && (json_is_number(value) || json_is_null(value)))
			*(double *)at = json_is_null(value) ? NAN : json_number_value(value);
		else if (!value && m[i].younger && m[i].type == REAL)
			*(double *)at = NAN;
		else if (value || !m[i].younger)
			return sl_fail_set(fail, SL_ERR_DATA, "the status has no usable \"%s\"", m[i].name);
	}
	return SL_OK;
}

static enum sl_err parse_sessions(const json_t *list, struct sl_status *out, struct sl_fail *fail)
{
	size_t n = json_array_size(list);
	enum sl_err err = SL_OK;

	if (!json_is_array(list) || n > SL_STATUS_MAX_SESSIONS)
		return sl_fail_set(fail, SL_ERR_DATA, "the status has no usable \"sessions\"");
	out->session = calloc(n ? n : 1, sizeof *out->session);
	if (!out->session)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for %zu sessions", n);
	for (size_t i = 0; i < n && !err; i++) {
		const json_t *one = json_array_get(list, i);

		err = json_to_members(session_members, COUNT(session_members), one, &out->session[i], fail);
		if (!err)
			err = json_to_members(codec_members, COUNT(codec_members), json_object_get(one, "codec"),
					      &out->session[i], fail);
		json_to_scores(json_object_get(one, "test_metrics"), &out->session[i]);
	}
	out->n_session = (int)n;
	return err;
}

enum sl_err sl_status_parse(const char *text, struct sl_status *out, struct sl_fail *fail)
{
	struct sl_status status = {0};
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	const json_t *schema = json_object_get(root, "schema");
	enum sl_err err;

	if (!root)
		return sl_fail_set(fail, SL_ERR_DATA, "the status is not JSON: %s", error.text);
	if (!json_is_integer(schema) || json_integer_value(schema) != SL_STATUS_SCHEMA) {
		err = sl_fail_set(fail, SL_ERR_VERSION,
				  "the daemon answers with status schema %lld, this program reads %d",
				  (long long)json_integer_value(schema), SL_STATUS_SCHEMA);
		goto done;
	}
	err = json_to_members(daemon_members, COUNT(daemon_members), root, &status, fail);
	if (!err)
		err = parse_sessions(json_object_get(root, "sessions"), &status, fail);
done:
	json_decref(root);
	if (err)
		sl_status_free(&status);
	else
		*out = status;
	return err;
}

void sl_status_free(struct sl_status *status)
{
	free(status->session);
	status->session = NULL;
	status->n_session = 0;
}
