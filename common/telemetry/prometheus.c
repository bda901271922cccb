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
	REAL(sl_status, uptime_s, "uptime_seconds", "gauge", "Since the daemon began."),
	WHOLE(sl_status, started_s, "start_time_seconds", "gauge", "When it began, since 1970."),
	WHOLE(sl_status, ready, "ready", "gauge", "1: takes a session (server), is linked or done (client)."),
	WHOLE(sl_status, sessions_limit, "sessions_limit", "gauge", "Places of a server; 0: of a client."),
	WHOLE(sl_status, disk_free_bytes, "disk_free_bytes", "gauge", "Free where store or log.dir lies."),
	WHOLE(sl_status, disk_bytes, "disk_bytes", "gauge", "In all there; 0: nothing is written."),
	WHOLE(sl_status, threads, "threads", "gauge", "Threads that compute."),
	REAL(sl_status, task_s, "task_seconds", "gauge", "How long the task under way has run."),
	WHOLE(sl_status, links, "links_total", "counter", "Handshakes done."),
	WHOLE(sl_status, lost, "links_lost_total", "counter", "Links that ended without a goodbye."),
	WHOLE(sl_status, frames, "frames_received_total", "counter", "Messages of the right form."),
	WHOLE(sl_status, bytes, "received_bytes_total", "counter", "Headers and payloads of these."),
	WHOLE(sl_status, rejected, "frames_rejected_total", "counter", "Frames that ended a session."),
	WHOLE(sl_status, stale, "frames_stale_total", "counter", "Frames of older links, dropped."),
	WHOLE(sl_status, malformed, "messages_malformed_total", "counter", "Messages that are no frame."),
	WHOLE(sl_status, turned_away, "peers_turned_away_total", "counter", "Peers that got no session."),
	WHOLE(sl_status, log_left_out, "log_lines_left_out_total", "counter", "Lines beyond the limits of the log."),
	WHOLE(sl_status, store_files, "store_files", "gauge", "Files in the store."),
	WHOLE(sl_status, store_bytes, "store_bytes", "gauge", "Bytes of these."),
	WHOLE(sl_status, store_limit_bytes, "store_limit_bytes", "gauge", "What these may be; 0: no limit."),
	WHOLE(sl_status, not_stored, "store_refused_total", "counter", "Uploads and checkpoints without room."),
	WHOLE(sl_status, heap_bytes, "heap_bytes", "gauge", "What malloc has given out, tensors not counted."),
	WHOLE(sl_status, memory_bytes, "memory_bytes", "gauge", "Promised to sessions, on host and device."),
	WHOLE(sl_status, memory_limit_bytes, "memory_limit_bytes", "gauge", "What may be; 0: no limit."),
};

static const struct metric session_metrics[] = {
	WHOLE(sl_status_session, step, "session_step", "gauge", "Steps of the run that are done."),
	WHOLE(sl_status_session, steps, "session_steps", "gauge", "Steps of the run in all; 0: not known."),
	WHOLE(sl_status_session, skipped, "session_steps_skipped", "gauge", "Of those done, for NaN or Inf."),
	REAL(sl_status_session, loss, "session_loss", "gauge", "Of the last batch."),
	REAL(sl_status_session, acc, "session_accuracy_ratio", "gauge", "Of the last batch."),
	REAL(sl_status_session, images_per_s, "session_images_per_second", "gauge", "Over the last ten steps or so."),
	REAL(sl_status_session, left_s, "session_left_seconds", "gauge", "Until the run is done, at this rate."),
	WHOLE(sl_status_session, tx_bytes, "session_sent_bytes_total", "counter",
	      "On this link; rate() of it is its speed."),
	WHOLE(sl_status_session, rx_bytes, "session_received_bytes_total", "counter", "On this link."),
	REAL(sl_status_session, age_s, "session_age_seconds", "gauge", "Since it began."),
	REAL(sl_status_session, idle_s, "session_idle_seconds", "gauge",
	     "Since its last batch (client), or the last task done for it (server)."),
	WHOLE(sl_status_session, memory_bytes, "session_memory_bytes", "gauge", "What it takes at most."),
	WHOLE(sl_status_session, memory_device_bytes, "session_memory_device_bytes", "gauge",
	      "Of that, on the device."),
	WHOLE(sl_status_session, weights_bytes, "session_weights_bytes", "gauge", "Weights, gradients, optimizer."),
	WHOLE(sl_status_session, activations_bytes, "session_activations_bytes", "gauge", "Of all chunks."),
	WHOLE(sl_status_session, codecs_bytes, "session_codecs_bytes", "gauge", "What codecs keep and work with."),
	WHOLE(sl_status_session, payloads_bytes, "session_payloads_bytes", "gauge", "Buffers of the link."),
	WHOLE(sl_status_session, checkpoint_step, "session_checkpoint_step", "gauge", "Of the newest checkpoint."),
	WHOLE(sl_status_session, checkpoint_missed, "session_checkpoint_missed_step", "gauge",
	      "Of the one that could not be written behind it; 0: all is well."),
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
	fputs("# HELP split_info What it is.\n# TYPE split_info gauge\nsplit_info", file);
	print_label(file, "{", "role", status->role);
	print_label(file, ",", "version", status->version);
	print_label(file, ",", "address", status->address);
	print_label(file, ",", "device", status->device);
	fputs("} 1\n", file);
	fprintf(file, "# HELP split_sessions Sessions now.\n# TYPE split_sessions gauge\nsplit_sessions %d\n",
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
