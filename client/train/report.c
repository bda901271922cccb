#include "client/train/report.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/figures/metric.h"
#include "common/base/clock.h"
#include "common/base/diskspace.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/telemetry/json.h"
#include "common/telemetry/status.h"

#define PUT(to, ...) snprintf((to), sizeof(to), __VA_ARGS__)

static const char *phase(const struct sl_session *s)
{
	switch (s->state) {
	case SL_SESSION_NEW:
	case SL_SESSION_HELLO:
		return "connect";
	case SL_SESSION_EVAL:
		return "eval";
	case SL_SESSION_FETCH:
		return "fetch";
	case SL_SESSION_CLOSED:
		return "closed";
	default:
		return "train";
	}
}

/* Adds what has come in on a link. */
static void count(struct sl_training_link *link, const struct sl_remote *remote)
{
	const struct sl_session_counts *c = &sl_remote_session(remote)->counts;

	link->frames += c->frames;
	link->bytes += sl_remote_stats(remote).rx_bytes;
	link->rejected += c->refused_frames;
	link->stale += c->stale_frames;
}

void sl_report_add(struct sl_training_link *link, const struct sl_remote *remote)
{
	struct sl_port_stats stats = sl_remote_stats(remote);

	link->peak_tx = stats.peak_tx > link->peak_tx ? stats.peak_tx : link->peak_tx;
	link->peak_rx = stats.peak_rx > link->peak_rx ? stats.peak_rx : link->peak_rx;
	link->rate.n = 0; /* the next link counts from 0 */
	for (int way = 0; way < SL_WAYS; way++)
		link->traffic[way].weights = link->weights[way] += stats.weights[way];
	count(link, remote);
	for (int dir = 0; dir < SL_CROSS_COUNT; dir++) {
		link->wire[dir] += stats.wire[dir];
		link->payload[dir] += stats.payload[dir];
		link->nominal[dir] += stats.nominal[dir];
	}
}

static void take_record(struct sl_training_link *link, const char *now)
{
	char *copy = now && (!link->record || strcmp(now, link->record) != 0) ? strdup(now) : NULL;
	const struct sl_group_says was = link->says;
	const bool first = !link->record;

	if (!copy)
		return;
	free(link->record);
	link->record = copy;
	link->says = sl_group_record_says(copy);
	if (first && link->says.unkept)
		sl_log(SL_LOG_WARN, "group-unkept",
		       "the server keeps no checkpoint of the group: it begins anew if the server dies or all members "
		       "leave. The server needs a store, and members train.checkpoint_every above 0");
	if (link->says.away[0] && strcmp(link->says.away, was.away) != 0 && !link->says.waits[0])
		sl_log_limited(SL_LOG_WARN, "group-away", "the group goes on without member %s", link->says.away);
	else if (was.away[0] && !link->says.away[0])
		sl_log_limited(SL_LOG_INFO, "group-away", "all members are there");
	if (link->says.waits[0])
		sl_log_limited(SL_LOG_WARN, "group-waits", "the group waits for member %s", link->says.waits);
}

void sl_report_count(struct sl_training_link *link, struct sl_remote *remote)
{
	const struct sl_port_stats stats = sl_remote_stats(remote);

	sl_link_count(sl_remote_link(remote));
	take_record(link, sl_remote_record(remote));
	for (int way = 0; way < SL_WAYS; way++)
		link->traffic[way].weights = link->weights[way] + stats.weights[way];
}

static struct sl_rate_sample sample(const struct sl_port_stats *stats)
{
	return (struct sl_rate_sample){sl_now_ms(), {stats->tx_bytes, stats->rx_bytes}};
}

void sl_report_watch(struct sl_training_link *link, const struct sl_remote *remote)
{
	const struct sl_port_stats stats = sl_remote_stats(remote);
	const struct sl_rate_sample now = sample(&stats);

	sl_rate_keep(&link->rate, &now);
}

static void put_link(struct sl_status_session *out, const struct sl_training_link *link, const struct sl_remote *remote)
{
	const struct sl_port_stats stats = sl_remote_stats(remote);
	const struct sl_rate_sample now = sample(&stats);
	const struct sl_session *s = sl_remote_session(remote);
	uint8_t name[16];

	sl_session_name(s->hello.session, name);
	sl_hex16(name, out->id);
	if (!sl_link_is_lost(sl_remote_link(remote))) { /* else the phase is "connect", as before the first link */
		PUT(out->phase, "%s", phase(s));
		PUT(out->missing, "%s", link->says.waits[0] ? link->says.waits : link->says.away);
		out->tx_mb_s = sl_rate_per_s(&link->rate, &now, 0) / 1e6;
		out->rx_mb_s = sl_rate_per_s(&link->rate, &now, 1) / 1e6;
	}
	out->tx_bytes = (int64_t)stats.tx_bytes;
	out->end_grad_bytes = (int64_t)stats.wire[SL_DIR_COUNT + SL_END_GRAD];
	out->end_mean_bytes = (int64_t)stats.wire[SL_DIR_COUNT + SL_END_MEAN];
	out->rx_bytes = (int64_t)stats.rx_bytes;
	out->link_epoch = (int64_t)s->epoch;
	out->stale_frames = (int64_t)s->counts.stale_frames;
}

static void put_totals(struct sl_status *out, const struct sl_training_link *link, const struct sl_remote *remote)
{
	struct sl_training_link all = *link;

	if (remote)
		count(&all, remote);
	out->links = (int64_t)all.links;
	out->lost = (int64_t)all.lost;
	out->frames = (int64_t)all.frames;
	out->bytes = (int64_t)all.bytes;
	out->rejected = (int64_t)all.rejected;
	out->stale = (int64_t)all.stale;
}

/* The process' disk and start time. */
static void put_place(struct sl_status *out, const char *dir)
{
	const struct sl_diskspace disk = sl_diskspace_of(dir);

	out->disk_free_bytes = disk.free;
	out->disk_bytes = disk.all;
	out->started_s = sl_started_s();
}

/* The end of log.jsonl, from the begin of a line on. */
static char *log_end(const char *dir)
{
	enum { MOST = 8 << 20 };
	char path[PATH_MAX], *text = malloc(MOST + 1), *begin;
	const int fd = dir[0] && snprintf(path, sizeof path, "%s/log.jsonl", dir) < PATH_MAX
			       ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
			       : -1;
	const off_t all = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	const ssize_t len = text && fd >= 0 ? pread(fd, text, MOST, all > MOST ? all - MOST : 0) : 0;

	if (fd >= 0)
		close(fd);
	if (!text)
		return NULL;
	text[len > 0 ? len : 0] = 0;
	begin = all > MOST ? strchr(text, '\n') : NULL;
	if (begin)
		memmove(text, begin + 1, strlen(begin));
	return text;
}

/* A status with what a page shows besides; drops `status`. */
static char *with_rest(char *status, const struct sl_setup *setup, const struct sl_remote *remote,
		       const struct sl_training_link *link)
{
	static const char *const ends[SL_END_COUNT] = {[SL_END_GRAD] = "end_grad", [SL_END_MEAN] = "end_mean"};
	const struct sl_port_stats now = remote ? sl_remote_stats(remote) : (struct sl_port_stats){0};
	const struct sl_agreed *a = &setup->agreement.agreed;
	json_t *root = status ? json_loads(status, 0, NULL) : NULL, *list = json_array();
	json_t *record = json_object_get(json_object_get(root, "groups"), a->share.group);
	char *text;

	for (int i = 0; i < SL_CROSS_COUNT; i++) {
		const bool end = i >= SL_DIR_COUNT,
			   up = end ? i == SL_DIR_COUNT + SL_END_GRAD : i == SL_DIR_HEAD_ACT || i == SL_DIR_MID_GRAD;

		if (!end || link->wire[i] + now.wire[i])
			json_array_append_new(list,
					      json_pack("{s:s, s:s, s:b, s:I}", "name",
							end ? ends[i - SL_DIR_COUNT] : sl_dir_name((enum sl_dir)i),
							"codec", end ? "" : setup->agreement.codec[i].text, "up", up,
							"bytes", (json_int_t)(link->wire[i] + now.wire[i])));
	}
	json_object_set_new(root, "tensors", list);
	json_object_set_new(root, "warnings", sl_jsonl_warnings());
	json_object_set_new(root, "group",
			    a->share.group[0] ? json_pack("{s:o, s:i, s:O?}", "name", sl_json_text(a->share.group),
							  "member", a->share.member, "record", record)
					      : json_null());
	text = root ? sl_json_dump(root, JSON_COMPACT) : NULL;
	json_decref(root);
	free(status);
	return text;
}

/* The record of the run's group by its name, a new reference; NULL: none has come. */
static json_t *group_of(const struct sl_setup *setup, const struct sl_remote *remote,
			const struct sl_training_link *link)
{
	json_t *record = sl_group_record_read(remote ? sl_remote_record(remote) : link->record);

	return record ? json_pack("{s:o}", setup->agreement.agreed.share.group, record) : NULL;
}

char *sl_report_status(const struct sl_setup *setup, const struct sl_training *training, const struct sl_remote *remote,
		       const struct sl_training_link *link, const struct sl_checkpoint_state *checkpoint,
		       const char *request)
{
	struct sl_status status = {.pid = getpid(),
				   .threads = sl_pool_threads(setup->pool),
				   .task_s = NAN,
				   .heap_bytes = (int64_t)mallinfo2().uordblks};
	struct sl_status_session session;
	const bool page = strcmp(request, "run.json") == 0;
	char *text;

	if (strcmp(request, "log.jsonl") == 0)
		return log_end(setup->conf->log.dir);
	if (!page && strcmp(request, "status") != 0)
		return NULL;
	sl_training_report(training, &session);
	status.uptime_s = session.age_s;
	session.checkpoint_step = (int64_t)checkpoint->good;
	session.checkpoint_missed = (int64_t)checkpoint->missed;
	session.tx_mb_s = session.rx_mb_s = NAN;
	put_totals(&status, link, remote);
	put_place(&status, setup->conf->log.dir);
	PUT(status.role, "client");
	PUT(status.version, "%s", SL_VERSION);
	PUT(status.address, "%.120s", setup->conf->server);
	PUT(status.device, "%s", setup->be.ops->name);
	PUT(session.peer, "%.120s", setup->conf->server);
	PUT(session.checkpoint_error, "%s", checkpoint->why);
	PUT(session.model, "%s", setup->plan->model->name);
	PUT(session.partition, "%.120s", setup->plan->cut.text);
	for (int dir = 0; dir < SL_DIR_COUNT; dir++)
		PUT(session.codec[dir], "%.120s", setup->agreement.codec[dir].text);
	PUT(session.phase, "connect");
	if (remote)
		put_link(&session, link, remote);
	status.ready = strcmp(session.phase, "connect") != 0 && strcmp(session.phase, "closed") != 0;
	if (!status.ready)
		session.samples_per_s = session.left_s = NAN; /* nothing is being trained now */
	status.ready = status.ready || (session.steps && session.step == session.steps);
	status.session = &session;
	status.n_session = 1;
	status.groups = group_of(setup, remote, link);
	text = sl_status_json(&status, 0);
	json_decref(status.groups);
	return page ? with_rest(text, setup, remote, link) : text;
}
