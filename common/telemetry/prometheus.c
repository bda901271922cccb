/* A status as Prometheus reads it (text format 0.0.4): base units, one HELP and TYPE a name, its samples together. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "common/telemetry/status.h"

struct metric {
	const char *name, *type, *help;
	size_t at;
	bool real; /* a double, left out where it is NaN; else an int64_t */
};

#define WHOLE(st, member, name, type, help)                                   \
	{                                                                     \
		"split_" name, type, help, offsetof(struct st, member), false \
	}
#define REAL(st, member, name, type, help)                                   \
	{                                                                    \
		"split_" name, type, help, offsetof(struct st, member), true \
	}

static const struct metric daemon_metrics[] = {
	REAL(sl_status, uptime_s, "uptime_seconds", "gauge", "Time since the daemon started."),
	WHOLE(sl_status, started_s, "start_time_seconds", "gauge", "When the daemon started, in seconds since 1970."),
	WHOLE(sl_status, ready, "ready", "gauge", "1: the server takes sessions; the client is linked or done."),
	WHOLE(sl_status, sessions_limit, "sessions_limit", "gauge", "Sessions that a server may have; 0 for a client."),
	WHOLE(sl_status, disk_free_bytes, "disk_free_bytes", "gauge",
	      "Free bytes of the disk with the store or log.dir."),
	WHOLE(sl_status, disk_bytes, "disk_bytes", "gauge", "Size of that disk; 0: nothing is written."),
	WHOLE(sl_status, threads, "threads", "gauge", "Threads of the compute pool."),
	REAL(sl_status, task_s, "task_seconds", "gauge", "Running time of the current task."),
	WHOLE(sl_status, links, "links_total", "counter", "Links that were established."),
	WHOLE(sl_status, lost, "links_lost_total", "counter", "Links that ended without a Bye."),
	WHOLE(sl_status, frames, "frames_received_total", "counter", "Well-formed messages received."),
	WHOLE(sl_status, bytes, "received_bytes_total", "counter", "Bytes of these messages, headers included."),
	WHOLE(sl_status, rejected, "frames_rejected_total", "counter", "Frames that were refused and ended a session."),
	WHOLE(sl_status, stale, "frames_stale_total", "counter", "Frames of older links that were dropped."),
	WHOLE(sl_status, malformed, "messages_malformed_total", "counter", "Messages that could not be decoded."),
	WHOLE(sl_status, turned_away, "peers_turned_away_total", "counter", "Peers that were refused a session."),
	WHOLE(sl_status, log_left_out, "log_lines_left_out_total", "counter",
	      "Log lines that were left out by the log's limits."),
	WHOLE(sl_status, store_files, "store_files", "gauge", "Files in the store."),
	WHOLE(sl_status, store_bytes, "store_bytes", "gauge", "Bytes of the files in the store."),
	WHOLE(sl_status, store_limit_bytes, "store_limit_bytes", "gauge",
	      "Most bytes that the store may hold; 0: no limit."),
	WHOLE(sl_status, not_stored, "store_refused_total", "counter", "Uploads and checkpoints that found no room."),
	WHOLE(sl_status, heap_bytes, "heap_bytes", "gauge", "Bytes allocated with malloc, without tensors."),
	WHOLE(sl_status, memory_bytes, "memory_bytes", "gauge", "Memory reserved for sessions, on host and device."),
	WHOLE(sl_status, memory_limit_bytes, "memory_limit_bytes", "gauge",
	      "Most memory that may be reserved; 0: no limit."),
};

static const struct metric session_metrics[] = {
	WHOLE(sl_status_session, step, "session_step", "gauge", "Steps of the run that are done."),
	WHOLE(sl_status_session, steps, "session_steps", "gauge", "Steps of the whole run; 0: not known."),
	WHOLE(sl_status_session, skipped, "session_steps_skipped", "gauge",
	      "Steps left out: NaN or Inf, or late in a group."),
	REAL(sl_status_session, loss, "session_loss", "gauge", "Loss of the last batch."),
	REAL(sl_status_session, acc, "session_accuracy_ratio", "gauge", "Accuracy on the last batch, 0 to 1."),
	WHOLE(sl_status_session, evaluated_step, "session_evaluated_step", "gauge",
	      "Step of the last evaluation; 0: none."),
	REAL(sl_status_session, test_loss, "session_test_loss", "gauge", "Loss of the last evaluation."),
	REAL(sl_status_session, test_acc, "session_test_accuracy_ratio", "gauge",
	     "Accuracy of the last evaluation, 0 to 1."),
	REAL(sl_status_session, dcor_squared, "session_distance_correlation_squared", "gauge",
	     "Of inputs and head_act in the last evaluation, without bias: what crosses tells of the data."),
	REAL(sl_status_session, best_acc, "session_best_score", "gauge",
	     "What train.best_metric was in the best evaluation, whose weights are kept."),
	REAL(sl_status_session, samples_per_s, "session_samples_per_second", "gauge", "Over the last ten steps or so."),
	REAL(sl_status_session, left_s, "session_left_seconds", "gauge", "Expected time until the run is done."),
	WHOLE(sl_status_session, tx_bytes, "session_sent_bytes_total", "counter", "Bytes sent on this link."),
	WHOLE(sl_status_session, rx_bytes, "session_received_bytes_total", "counter", "Bytes received on this link."),
	REAL(sl_status_session, age_s, "session_age_seconds", "gauge", "Time since the session began."),
	REAL(sl_status_session, idle_s, "session_idle_seconds", "gauge",
	     "Time since the last batch (client) or the last task (server)."),
	WHOLE(sl_status_session, memory_bytes, "session_memory_bytes", "gauge", "Most memory that the session needs."),
	WHOLE(sl_status_session, memory_device_bytes, "session_memory_device_bytes", "gauge",
	      "Part of that on the device."),
	WHOLE(sl_status_session, weights_bytes, "session_weights_bytes", "gauge",
	      "Weights, gradients and optimizer state."),
	WHOLE(sl_status_session, activations_bytes, "session_activations_bytes", "gauge", "Activations of all chunks."),
	WHOLE(sl_status_session, codecs_bytes, "session_codecs_bytes", "gauge", "State and scratch of the codecs."),
	WHOLE(sl_status_session, payloads_bytes, "session_payloads_bytes", "gauge", "Payload buffers of the link."),
	WHOLE(sl_status_session, members_here, "session_group_members", "gauge",
	      "Members of the session's group that are connected; 0: it is in none."),
	WHOLE(sl_status_session, group_step, "session_group_step", "gauge",
	      "Steps that the session's group has done; 0: it is in none."),
	WHOLE(sl_status_session, late, "session_late_steps_total", "counter",
	      "Steps that the group did without this member."),
	WHOLE(sl_status_session, awaited, "session_awaited", "gauge", "1: the group's step waits for this member."),
	WHOLE(sl_status_session, end_grad_bytes, "session_end_grad_bytes_total", "counter",
	      "Bytes that the client told of its head and tail, which its group shares."),
	WHOLE(sl_status_session, end_mean_bytes, "session_end_mean_bytes_total", "counter",
	      "Bytes that it heard of the means of heads and tails."),
	WHOLE(sl_status_session, wire_tx_bytes, "session_wire_sent_bytes_total", "counter",
	      "Bytes that the connections of a client's whole run carried, sent."),
	WHOLE(sl_status_session, wire_rx_bytes, "session_wire_received_bytes_total", "counter",
	      "Bytes that the connections of a client's whole run carried, received."),
	WHOLE(sl_status_session, weights_tx_bytes, "session_weights_sent_bytes_total", "counter",
	      "Of these, the middle's weights, sent."),
	WHOLE(sl_status_session, weights_rx_bytes, "session_weights_received_bytes_total", "counter",
	      "Of these, the middle's weights, received."),
	WHOLE(sl_status_session, framing_tx_bytes, "session_framing_sent_bytes_total", "counter",
	      "Of these, framing and handshakes of ZeroMQ, sent."),
	WHOLE(sl_status_session, framing_rx_bytes, "session_framing_received_bytes_total", "counter",
	      "Of these, framing and handshakes of ZeroMQ, received."),
	WHOLE(sl_status_session, curve_tx_bytes, "session_curve_sent_bytes_total", "counter",
	      "Of these, what encryption added, sent."),
	WHOLE(sl_status_session, curve_rx_bytes, "session_curve_received_bytes_total", "counter",
	      "Of these, what encryption added, received."),
	WHOLE(sl_status_session, checkpoint_step, "session_checkpoint_step", "gauge", "Step of the newest checkpoint."),
	WHOLE(sl_status_session, checkpoint_missed, "session_checkpoint_missed_step", "gauge",
	      "Step of a later checkpoint that could not be written; 0: none."),
};

enum {
	DAEMON_METRICS = sizeof daemon_metrics / sizeof daemon_metrics[0],
	SESSION_METRICS = sizeof session_metrics / sizeof session_metrics[0],
};

static void print_label(FILE *file, const char *before, const char *name, const char *text)
{
	fprintf(file, "%s%s=\"", before, name);
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			fputc('\\', file);
		fputc(*text == '\n' ? ' ' : *text, file);
	}
	fputc('"', file);
}

static void print_head(FILE *file, const struct metric *m)
{
	fprintf(file, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
}

static bool known(const struct metric *m, const void *from)
{
	return !m->real || isfinite(*(const double *)(const void *)((const char *)from + m->at));
}

static void print_value(FILE *file, const struct metric *m, const void *from)
{
	const char *at = (const char *)from + m->at;

	if (m->real)
		fprintf(file, " %.10g\n", *(const double *)(const void *)at);
	else
		fprintf(file, " %" PRId64 "\n", *(const int64_t *)(const void *)at);
}

/* The metrics of the last evaluations, by their names. */
static void print_scores(FILE *file, const struct sl_status *status)
{
	static const struct metric m = {"split_session_test_metric", "gauge",
					"A metric of the last evaluation, by its name.", 0, true};
	bool head = false;

	for (int i = 0; i < status->n_session; i++)
		for (int k = 0; k < status->session[i].n_score; k++) {
			const struct sl_status_session *s = &status->session[i];

			if (!known(&m, &s->score[k].value))
				continue;
			if (!head)
				print_head(file, &m);
			head = true;
			fputs(m.name, file);
			print_label(file, "{", "session", s->id);
			print_label(file, ",", "peer", s->peer);
			print_label(file, ",", "metric", s->score[k].name);
			fputc('}', file);
			print_value(file, &m, &s->score[k].value);
		}
}

static void print_sessions(FILE *file, const struct metric *m, const struct sl_status *status)
{
	bool head = false;

	for (int i = 0; i < status->n_session; i++) {
		const struct sl_status_session *s = &status->session[i];

		if (!known(m, s))
			continue;
		if (!head)
			print_head(file, m);
		head = true;
		fputs(m->name, file);
		print_label(file, "{", "session", s->id);
		print_label(file, ",", "peer", s->peer);
		fputc('}', file);
		print_value(file, m, s);
	}
}

void sl_status_prometheus(const struct sl_status *status, FILE *file)
{
	fputs("# HELP split_info Version, role, address and device of the daemon.\n# TYPE split_info gauge\nsplit_info",
	      file);
	print_label(file, "{", "role", status->role);
	print_label(file, ",", "version", status->version);
	print_label(file, ",", "address", status->address);
	print_label(file, ",", "device", status->device);
	fputs("} 1\n", file);
	fprintf(file, "# HELP split_sessions Current sessions.\n# TYPE split_sessions gauge\nsplit_sessions %d\n",
		status->n_session);
	for (int i = 0; i < DAEMON_METRICS; i++) {
		if (!known(&daemon_metrics[i], status))
			continue;
		print_head(file, &daemon_metrics[i]);
		fputs(daemon_metrics[i].name, file);
		print_value(file, &daemon_metrics[i], status);
	}
	for (int i = 0; i < SESSION_METRICS; i++)
		print_sessions(file, &session_metrics[i], status);
	print_scores(file, status);
}

char *sl_status_metrics(const char *json)
{
	struct sl_status status;
	struct sl_fail fail;
	char *text = NULL;
	size_t len;
	FILE *file;

	if (sl_status_parse(json, &status, &fail) != SL_OK)
		return NULL;
	file = open_memstream(&text, &len);
	if (file) {
		bool failed;

		sl_status_prometheus(&status, file);
		failed = ferror(file);
		if (fclose(file) != 0 || failed) {
			free(text);
			text = NULL;
		}
	}
	sl_status_free(&status);
	return text;
}
