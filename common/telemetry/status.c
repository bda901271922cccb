/* Two tables of members say what is in the document. Rendering, parsing and the metrics (prometheus.c) walk them, so
 * metrics are in the order of the members. */
#include "common/telemetry/status.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "common/telemetry/json.h"
#include "common/telemetry/status_members.h"

#define MEMBER(st, member, is, ...)                                                               \
	{                                                                                         \
		.name = #member, .type = is, .offset = offsetof(struct st, member), ##__VA_ARGS__ \
	}
#define DAEMON(...)              MEMBER(sl_status, __VA_ARGS__)
#define SESSION(...)             MEMBER(sl_status_session, __VA_ARGS__)
#define YOUNGER                  .younger = true
#define SERVER                   .of_server = true
#define GAUGE(...)               METRIC("gauge", __VA_ARGS__)
#define COUNTER(...)             METRIC("counter", __VA_ARGS__)
#define METRIC(is, called, says) .metric = "split_" called, .kind = is, .help = says

const struct sl_status_member sl_status_of_daemon[] = {
	DAEMON(role, TEXT),
	DAEMON(version, TEXT),
	DAEMON(address, TEXT),
	DAEMON(device, TEXT),
	DAEMON(pid, WHOLE),
	DAEMON(threads, WHOLE, GAUGE("threads", "Threads of the compute pool.")),
	DAEMON(uptime_s, REAL, GAUGE("uptime_seconds", "Time since the daemon started.")),
	DAEMON(malformed, WHOLE, SERVER, COUNTER("messages_malformed_total", "Messages that could not be decoded.")),
	DAEMON(turned_away, WHOLE, SERVER, COUNTER("peers_turned_away_total", "Peers that were refused a session.")),
	DAEMON(links, WHOLE, COUNTER("links_total", "Links that were established.")),
	DAEMON(lost, WHOLE, COUNTER("links_lost_total", "Links that ended without a Bye.")),
	DAEMON(frames, WHOLE, COUNTER("frames_received_total", "Well-formed messages received.")),
	DAEMON(bytes, WHOLE, COUNTER("received_bytes_total", "Bytes of these messages, headers included.")),
	DAEMON(rejected, WHOLE, COUNTER("frames_rejected_total", "Frames that were refused and ended a session.")),
	DAEMON(stale, WHOLE, COUNTER("frames_stale_total", "Frames of older links that were dropped.")),
	DAEMON(task_s, REAL, GAUGE("task_seconds", "Running time of the current task.")),
	DAEMON(store_files, WHOLE, SERVER, GAUGE("store_files", "Files in the store.")),
	DAEMON(store_bytes, WHOLE, SERVER, GAUGE("store_bytes", "Bytes of the files in the store.")),
	DAEMON(store_oldest_s, REAL),
	DAEMON(heap_bytes, WHOLE, GAUGE("heap_bytes", "Bytes allocated with malloc, without tensors.")),
	DAEMON(memory_bytes, WHOLE, SERVER, YOUNGER,
	       GAUGE("memory_bytes", "Memory reserved for sessions, on host and device.")),
	DAEMON(memory_limit_bytes, WHOLE, SERVER, YOUNGER,
	       GAUGE("memory_limit_bytes", "Most memory that may be reserved; 0: no limit.")),
	DAEMON(log_left_out, WHOLE, SERVER, YOUNGER,
	       COUNTER("log_lines_left_out_total", "Log lines that were left out by the log's limits.")),
	DAEMON(store_limit_bytes, WHOLE, SERVER, YOUNGER,
	       GAUGE("store_limit_bytes", "Most bytes that the store may hold; 0: no limit.")),
	DAEMON(not_stored, WHOLE, SERVER, YOUNGER,
	       COUNTER("store_refused_total", "Uploads and checkpoints that found no room.")),
	DAEMON(ready, WHOLE, YOUNGER, GAUGE("ready", "1: the server takes sessions; the client is linked or done.")),
	DAEMON(sessions_limit, WHOLE, SERVER, YOUNGER,
	       GAUGE("sessions_limit", "Sessions that a server may have; 0 for a client.")),
	DAEMON(started_s, WHOLE, YOUNGER,
	       GAUGE("start_time_seconds", "When the daemon started, in seconds since 1970.")),
	DAEMON(disk_free_bytes, WHOLE, YOUNGER,
	       GAUGE("disk_free_bytes", "Free bytes of the disk with the store or log.dir.")),
	DAEMON(disk_bytes, WHOLE, YOUNGER, GAUGE("disk_bytes", "Size of that disk; 0: nothing is written.")),
	{0},
};

const struct sl_status_member sl_status_of_session[] = {
	SESSION(id, TEXT),
	SESSION(peer, TEXT),
	SESSION(model, TEXT),
	SESSION(partition, TEXT),
	SESSION(phase, TEXT),
	SESSION(epoch, WHOLE),
	SESSION(step, WHOLE, GAUGE("session_step", "Steps of the run that are done.")),
	SESSION(skipped, WHOLE,
		GAUGE("session_steps_skipped",
		      "Steps left out: NaN or Inf; in a group also late, or above share.member_norm.")),
	SESSION(loss, REAL, GAUGE("session_loss", "Loss of the last batch.")),
	SESSION(acc, REAL, GAUGE("session_accuracy_ratio", "Accuracy on the last batch, 0 to 1.")),
	SESSION(samples_per_s, REAL, GAUGE("session_samples_per_second", "Over the last ten steps or so.")),
	SESSION(tx_mb_s, REAL),
	SESSION(rx_mb_s, REAL),
	SESSION(tx_bytes, WHOLE, COUNTER("session_sent_bytes_total", "Bytes sent on this link.")),
	SESSION(rx_bytes, WHOLE, COUNTER("session_received_bytes_total", "Bytes received on this link.")),
	SESSION(age_s, REAL, GAUGE("session_age_seconds", "Time since the session began.")),
	SESSION(idle_s, REAL,
		GAUGE("session_idle_seconds", "Time since the last batch (client) or the last task (server).")),
	SESSION(stale_frames, WHOLE),
	SESSION(checkpoint_step, WHOLE, GAUGE("session_checkpoint_step", "Step of the newest checkpoint.")),
	SESSION(checkpoint_missed, WHOLE,
		GAUGE("session_checkpoint_missed_step",
		      "Step of a later checkpoint that could not be written; 0: none.")),
	SESSION(checkpoint_error, TEXT),
	SESSION(epochs, WHOLE, YOUNGER),
	SESSION(steps, WHOLE, YOUNGER, GAUGE("session_steps", "Steps of the whole run; 0: not known.")),
	SESSION(left_s, REAL, YOUNGER, GAUGE("session_left_seconds", "Expected time until the run is done.")),
	SESSION(link_epoch, WHOLE, YOUNGER),
	SESSION(best_step, WHOLE, YOUNGER),
	SESSION(best_acc, REAL, YOUNGER,
		GAUGE("session_best_score",
		      "What train.best_metric was in the best evaluation, whose weights are kept.")),
	SESSION(best_metric, TEXT, YOUNGER),
	SESSION(evaluated_step, WHOLE, YOUNGER,
		GAUGE("session_evaluated_step", "Step of the last evaluation; 0: none.")),
	SESSION(test_loss, REAL, YOUNGER, GAUGE("session_test_loss", "Loss of the last evaluation.")),
	SESSION(test_acc, REAL, YOUNGER,
		GAUGE("session_test_accuracy_ratio", "Accuracy of the last evaluation, 0 to 1.")),
	SESSION(dcor_squared, REAL, YOUNGER,
		GAUGE("session_distance_correlation_squared",
		      "Of inputs and head_act in the last evaluation, without bias: what crosses tells of the data.")),
	SESSION(epsilon, REAL, YOUNGER,
		GAUGE("session_epsilon", "Differential privacy of a training sample so far, at privacy.delta.")),
	SESSION(memory_bytes, WHOLE, SERVER, YOUNGER,
		GAUGE("session_memory_bytes", "Most memory that the session needs.")),
	SESSION(memory_device_bytes, WHOLE, SERVER, YOUNGER,
		GAUGE("session_memory_device_bytes", "Part of that on the device.")),
	SESSION(weights_bytes, WHOLE, SERVER, YOUNGER,
		GAUGE("session_weights_bytes", "Weights, gradients and optimizer state.")),
	SESSION(activations_bytes, WHOLE, SERVER, YOUNGER,
		GAUGE("session_activations_bytes", "Activations of all chunks.")),
	SESSION(codecs_bytes, WHOLE, SERVER, YOUNGER,
		GAUGE("session_codecs_bytes", "State and scratch of the codecs.")),
	SESSION(payloads_bytes, WHOLE, SERVER, YOUNGER,
		GAUGE("session_payloads_bytes", "Payload buffers of the link.")),
	SESSION(group, TEXT, YOUNGER),
	SESSION(missing, TEXT, YOUNGER),
	SESSION(member, WHOLE, YOUNGER),
	SESSION(members, WHOLE, YOUNGER),
	SESSION(members_least, WHOLE, YOUNGER),
	SESSION(members_here, WHOLE, SERVER, YOUNGER,
		GAUGE("session_group_members", "Members of the session's group that are connected; 0: it is in none.")),
	SESSION(group_step, WHOLE, SERVER, YOUNGER,
		GAUGE("session_group_step", "Steps that the session's group has done; 0: it is in none.")),
	SESSION(late, WHOLE, SERVER, YOUNGER,
		COUNTER("session_late_steps_total", "Steps that the group did without this member.")),
	SESSION(awaited, WHOLE, SERVER, YOUNGER,
		GAUGE("session_awaited", "1: the group's step waits for this member.")),
	SESSION(end_grad_bytes, WHOLE, YOUNGER,
		COUNTER("session_end_grad_bytes_total",
			"Bytes that the client told of its head and tail, which its group shares.")),
	SESSION(end_mean_bytes, WHOLE, YOUNGER,
		COUNTER("session_end_mean_bytes_total", "Bytes that it heard of the means of heads and tails.")),
	SESSION(wire_tx_bytes, WHOLE, YOUNGER,
		COUNTER("session_wire_sent_bytes_total",
			"Bytes that the connections of a client's whole run carried, sent.")),
	SESSION(wire_rx_bytes, WHOLE, YOUNGER,
		COUNTER("session_wire_received_bytes_total",
			"Bytes that the connections of a client's whole run carried, received.")),
	SESSION(weights_tx_bytes, WHOLE, YOUNGER,
		COUNTER("session_weights_sent_bytes_total", "Of these, the middle's weights, sent.")),
	SESSION(weights_rx_bytes, WHOLE, YOUNGER,
		COUNTER("session_weights_received_bytes_total", "Of these, the middle's weights, received.")),
	SESSION(framing_tx_bytes, WHOLE, YOUNGER,
		COUNTER("session_framing_sent_bytes_total", "Of these, framing and handshakes of ZeroMQ, sent.")),
	SESSION(framing_rx_bytes, WHOLE, YOUNGER,
		COUNTER("session_framing_received_bytes_total",
			"Of these, framing and handshakes of ZeroMQ, received.")),
	SESSION(curve_tx_bytes, WHOLE, YOUNGER,
		COUNTER("session_curve_sent_bytes_total", "Of these, what encryption added, sent.")),
	SESSION(curve_rx_bytes, WHOLE, YOUNGER,
		COUNTER("session_curve_received_bytes_total", "Of these, what encryption added, received.")),
	{0},
};

static const struct sl_status_member codec_members[] = {
	{.name = "head_act", .offset = offsetof(struct sl_status_session, codec[0])},
	{.name = "mid_act", .offset = offsetof(struct sl_status_session, codec[1])},
	{.name = "mid_grad", .offset = offsetof(struct sl_status_session, codec[2])},
	{.name = "head_grad", .offset = offsetof(struct sl_status_session, codec[3])},
	{0},
};

static json_t *members_to_json(const struct sl_status_member *m, const void *from)
{
	json_t *object = json_object();

	for (; m->name; m++) {
		const char *at = (const char *)from + m->offset;
		json_t *value;

		if (m->type == TEXT)
			value = sl_json_text(at);
		else if (m->type == WHOLE)
			value = json_integer(*(const int64_t *)at);
		else
			value = sl_json_real(*(const double *)at);
		json_object_set_new(object, m->name, value);
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

/* Daemons of earlier versions send none. */
static void json_to_scores(json_t *object, struct sl_status_session *s)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		if (s->n_score == SL_STATUS_SCORES)
			return;
		snprintf(s->score[s->n_score].name, sizeof s->score[0].name, "%s", name);
		sl_text_make_safe(s->score[s->n_score].name, '?');
		s->score[s->n_score++].value = json_is_number(value) ? json_number_value(value) : NAN;
	}
}

char *sl_status_json(const struct sl_status *status, int indent)
{
	json_t *sessions = json_array(), *daemon = members_to_json(sl_status_of_daemon, status);
	json_t *root = json_pack("{si}", "schema", SL_STATUS_SCHEMA);
	char *text = NULL;

	for (int i = 0; i < status->n_session; i++) {
		const struct sl_status_session *s = &status->session[i];
		json_t *one = members_to_json(sl_status_of_session, s);

		json_object_set_new(one, "codec", members_to_json(codec_members, s));
		json_object_set_new(one, "test_metrics", scores_to_json(s));
		json_array_append_new(sessions, one);
	}
	json_object_set_new(daemon, "sessions", sessions);
	json_object_set_new(daemon, "groups", status->groups ? json_incref(status->groups) : json_object());
	if (root && json_object_update(root, daemon) == 0)
		text = sl_json_dump(root, indent > 0 ? JSON_INDENT(indent) : 0);
	json_decref(daemon);
	json_decref(root);
	return text;
}

static enum sl_err json_to_members(const struct sl_status_member *m, const json_t *object, void *to,
				   struct sl_fail *fail)
{
	for (; m->name; m++) {
		const json_t *value = json_object_get(object, m->name);
		char *at = (char *)to + m->offset;

		if (m->type == TEXT && json_is_string(value)) {
			snprintf(at, SL_STATUS_TEXT, "%s", json_string_value(value));
			sl_text_make_safe(at, '?'); /* \u001b in JSON */
		} else if (m->type == WHOLE && json_is_integer(value))
			*(int64_t *)at = json_integer_value(value);
		else if (m->type == REAL && (json_is_number(value) || json_is_null(value)))
			*(double *)at = json_is_null(value) ? NAN : json_number_value(value);
		else if (!value && m->younger && m->type == REAL)
			*(double *)at = NAN;
		else if (value || !m->younger)
			return sl_fail_set(fail, SL_ERR_DATA, "the status has no usable \"%s\"", m->name);
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

		err = json_to_members(sl_status_of_session, one, &out->session[i], fail);
		if (!err)
			err = json_to_members(codec_members, json_object_get(one, "codec"), &out->session[i], fail);
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
	err = json_to_members(sl_status_of_daemon, root, &status, fail);
	if (!err)
		err = parse_sessions(json_object_get(root, "sessions"), &status, fail);
	if (!err && json_is_object(json_object_get(root, "groups")))
		status.groups = json_incref(json_object_get(root, "groups"));
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
	json_decref(status->groups);
	status->session = NULL;
	status->groups = NULL;
	status->n_session = 0;
}
