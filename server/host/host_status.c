#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/telemetry/status.h"
#include "server/host/host_impl.h"

#define PUT(to, ...) snprintf((to), sizeof(to), __VA_ARGS__)

static const char *phase(enum sl_session_state state)
{
	switch (state) {
	case SL_SESSION_STEP:
	case SL_SESSION_COMMIT:
		return "train";
	case SL_SESSION_EVAL:
		return "eval";
	case SL_SESSION_FETCH:
		return "fetch";
	case SL_SESSION_READY:
		return "ready";
	case SL_SESSION_CLOSED:
		return "closed";
	default:
		return "open";
	}
}

/* With auth the client's name and its key's fingerprint; otherwise the connection's number. */
static void put_peer(char out[SL_STATUS_TEXT], const struct sl_host *h, int place)
{
	const struct sl_key *key = &h->key[place];
	char print[SL_FINGERPRINT];
	const char *name;

	if (!h->auth) {
		snprintf(out, SL_STATUS_TEXT, "%llu", (unsigned long long)sl_middle_peer(h->session[place]));
		return;
	}
	name = sl_allow_name(sl_gate_list(h->auth->gate), key);
	sl_key_fingerprint(key, print);
	snprintf(out, SL_STATUS_TEXT, "%s %s", name ? name : "-", print);
}

static void put_memory(struct sl_status_session *out, const struct sl_session_memory *m)
{
	struct sl_memory sum = sl_session_memory_sum(m);

	out->memory_bytes = (int64_t)sl_memory_total(sum);
	out->memory_device_bytes = (int64_t)sum.device;
	out->weights_bytes = (int64_t)sl_memory_total(m->weights);
	out->activations_bytes = (int64_t)sl_memory_total(m->activations);
	out->codecs_bytes = (int64_t)sl_memory_total(m->codecs);
	out->payloads_bytes = (int64_t)sl_memory_total(m->payloads);
}

static void fill(struct sl_status_session *out, const struct sl_host *h, int place, uint64_t now_ms)
{
	const struct sl_middle *m = h->session[place];
	const struct sl_session *s = sl_middle_session(m);
	struct sl_middle_status st = sl_middle_status(m);
	const struct sl_rate_sample now = {now_ms, {st.stats.tx_bytes, st.stats.rx_bytes}};
	uint8_t name[16];

	*out = (struct sl_status_session){
		.step = (int64_t)st.steps,
		.skipped = (int64_t)st.skipped,
		.link_epoch = (int64_t)s->epoch,
		.checkpoint_step = (int64_t)st.checkpoint.good,
		.checkpoint_missed = (int64_t)st.checkpoint.missed,
		.loss = NAN, /* only the client knows the loss */
		.acc = NAN,
		.test_loss = NAN,
		.test_acc = NAN,
		.dcor_squared = NAN,
		.epsilon = NAN,
		.best_acc = NAN,
		.left_s = NAN,
		.samples_per_s = st.step_s > 0 ? (double)s->batch_rows / st.step_s : NAN,
		.tx_bytes = (int64_t)st.stats.tx_bytes,
		.rx_bytes = (int64_t)st.stats.rx_bytes,
		.end_grad_bytes = (int64_t)st.stats.wire[SL_DIR_COUNT + SL_END_GRAD],
		.end_mean_bytes = (int64_t)st.stats.wire[SL_DIR_COUNT + SL_END_MEAN],
		.tx_mb_s = sl_rate_per_s(&h->rate[place], &now, 0) / 1e6,
		.rx_mb_s = sl_rate_per_s(&h->rate[place], &now, 1) / 1e6,
		.age_s = (double)(now_ms - st.opened_ms) / 1000,
		.idle_s = (double)(now_ms - st.worked_ms) / 1000,
		.stale_frames = (int64_t)s->counts.stale_frames,
	};
	put_memory(out, &st.memory);
	if (sl_middle_group(m))
		sl_group_status(sl_middle_group(m), m, out);
	sl_session_name(s->hello.session, name);
	sl_hex16(name, out->id);
	put_peer(out->peer, h, place);
	PUT(out->checkpoint_error, "%s", st.checkpoint.why);
	PUT(out->model, "%s", st.network);
	PUT(out->partition, "%.120s", st.part);
	PUT(out->phase, "%s", phase(s->state));
	for (int dir = 0; dir < SL_DIR_COUNT && st.agreed; dir++)
		PUT(out->codec[dir], "%.120s", st.agreed->codec[dir]);
}

char *sl_host_status(const struct sl_host *h)
{
	const struct sl_host_counts counts = sl_host_counts(h);
	const struct sl_retention_result *store = &h->keeping.result;
	const uint64_t now_ms = sl_loop_now_ms(h->loop);
	struct sl_status status = {.pid = getpid(),
				   .started_s = sl_started_s(),
				   .sessions_limit = h->conf->limits.sessions,
				   .threads = h->threads,
				   .uptime_s = (double)(now_ms - h->opened_ms) / 1000,
				   .malformed = (int64_t)h->malformed,
				   .turned_away = (int64_t)h->turned_away,
				   .log_left_out = (int64_t)sl_log_left_out(),
				   .task_s = (double)sl_worker_busy_ms(h->worker) / 1000,
				   .heap_bytes = (int64_t)mallinfo2().uordblks,
				   .memory_bytes = (int64_t)atomic_load(&h->memory.used),
				   .memory_limit_bytes = (int64_t)atomic_load(&h->memory.limit),
				   .store_files = store->files,
				   .store_bytes = store->bytes,
				   .store_limit_bytes = h->keeping.what.bytes,
				   .not_stored = atomic_load(&h->keeping.what.not_stored),
				   .store_oldest_s = (double)store->oldest_s,
				   .disk_free_bytes = store->space.free,
				   .disk_bytes = store->space.all,
				   .links = (int64_t)counts.links,
				   .lost = (int64_t)counts.lost,
				   .frames = (int64_t)counts.frames,
				   .bytes = (int64_t)counts.bytes,
				   .rejected = (int64_t)counts.rejected,
				   .stale = (int64_t)counts.stale};
	char *text;

	status.session = calloc((size_t)h->n_place + 1, sizeof *status.session);
	if (!status.session)
		return NULL;
	PUT(status.role, "server");
	PUT(status.version, "%s", SL_VERSION);
	PUT(status.address, "%.120s", sl_host_endpoint(h));
	PUT(status.device, "%.120s", h->env.device);
	for (int i = 0; i < h->n_place; i++)
		if (h->session[i] && !h->second[i])
			fill(&status.session[status.n_session++], h, i, now_ms);
	status.groups = sl_group_list_records(h->groups);
	status.ready = !h->shut && status.n_session < status.sessions_limit;
	text = sl_status_json(&status, 0);
	free(status.session);
	json_decref(status.groups);
	return text;
}
