/* A handle: opening, closing, and what it reports about itself. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/real.h"
#include "kernels/cpu/cpu.h"
#include "lib/token.h"

enum { EPOCH_BITS = 20 };

uint32_t split_api(void)
{
	return SPLIT_API;
}

static bool is_up(const struct split_middle *m)
{
	return m->did.up;
}

static enum sl_err begin_session(struct split_middle *m, const split_conf *conf, struct sl_fail *fail)
{
	const uint64_t now = sl_wall_ns(), in_s = now % 1000000000u;
	struct sl_token t;
	enum sl_err err;

	m->epoch = now / 1000000000u << EPOCH_BITS | in_s >> (30 - EPOCH_BITS + 1);
	if (!conf->token)
		return sl_secret_make(&m->secret, fail);
	err = sl_token_read(&t, conf->token, conf->token_bytes, fail);
	return err ? err : sl_lib_set_state(m, &t, fail);
}

/* m->fetched begins with the initial weights. A Fetch overwrites only those that can change, so frozen ones stay as
 * given. */
static enum sl_err keep_frozen(struct split_middle *m, struct sl_fail *fail)
{
	const struct sl_plan_segment *segment = &m->plan->segment[SL_MIDDLE];
	const int64_t learn = sl_plan_fetch_count(segment), all = segment->weight_count;

	m->fetched = calloc((size_t)all + 1, sizeof *m->fetched);
	if (!m->fetched)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a middle's weights");
	sl_weights_pack(&m->weights, segment, m->fetched);
	m->frozen = sl_wire_hash(
		(struct sl_bytes){(const uint8_t *)(m->fetched + learn), (size_t)(all - learn) * sizeof *m->fetched});
	m->first = sl_wire_hash((struct sl_bytes){(const uint8_t *)m->fetched, (size_t)all * sizeof *m->fetched});
	return SL_OK;
}

static enum sl_err prepare(struct split_middle *m, const split_conf *conf, struct sl_fail *fail)
{
	enum sl_err err = sl_lib_settle(m, conf, fail);

	if (err)
		return err;
	sl_cpu_codec_backend_open(&m->be);
	if (conf->local)
		err = sl_lib_local_open(m, conf->local, fail);
	if (!err)
		err = sl_lib_slots_open(m, fail);
	if (!err)
		err = keep_frozen(m, fail);
	if (!err)
		err = begin_session(m, conf, fail);
	if (!err)
		err = sl_lib_loop_open(m, fail);
	if (err)
		return err;
	m->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->event_fd < 0)
		return sl_fail_set(fail, SL_ERR_OS, "no descriptor for a middle");
	return SL_OK;
}

/* Starts the thread with all signals blocked: signals belong to the program. */
static enum sl_err start(struct split_middle *m, struct sl_fail *fail)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	rc = pthread_create(&m->thread, NULL, sl_lib_thread, m);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return sl_fail_set(fail, SL_ERR_OS, "no thread for a middle: %s", strerror(rc));
	m->threaded = true;
	return SL_OK;
}

static void free_middle(struct split_middle *m)
{
	sl_lib_loop_close(m);
	if (m->local)
		m->local_close(m->local);
	sl_lib_slots_close(m);
	free(m->pending);
	sl_codecs_state_close(&m->live.codecs);
	sl_codecs_state_close(&m->ahead.codecs);
	sl_weights_close(&m->weights);
	sl_plan_close(m->plan);
	sl_client_auth_close(&m->auth);
	sl_secret_wipe(&m->secret);
	free(m->fetched);
	if (m->event_fd >= 0)
		close(m->event_fd);
	pthread_cond_destroy(&m->news);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static struct split_middle *new_middle(void)
{
	struct split_middle *m = calloc(1, sizeof *m);
	pthread_condattr_t attr;

	if (!m)
		return NULL;
	m->pid = getpid();
	m->event_fd = -1;
	pthread_mutex_init(&m->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->news, &attr);
	pthread_condattr_destroy(&attr);
	return m;
}

static int make(split_middle **out, const split_conf *conf, split_error *e)
{
	struct split_middle *m = new_middle();
	locale_t programs;
	struct sl_fail fail;
	enum sl_err err;

	if (!m)
		return sl_lib_tell(e, 0, SL_ERR_NOMEM, "no memory for a middle");
	programs = uselocale(sl_real_locale());
	err = prepare(m, conf, &fail);
	uselocale(programs);
	if (!err)
		err = start(m, &fail);
	if (err) {
		free_middle(m);
		return sl_lib_error(e, &fail, 0);
	}
	*out = m;
	return SPLIT_OK;
}

int split_open(split_middle **out, const split_conf *conf, int timeout_ms, split_error *e)
{
	bool closed;
	int code;

	if (!out || (!*out && !conf))
		return sl_lib_null(e, "out and conf");
	code = *out ? SPLIT_OK : make(out, conf, e);
	if (!code)
		code = sl_lib_enter(*out, e);
	if (code)
		return code;
	code = sl_lib_await(*out, is_up, timeout_ms, e);
	closed = (*out)->ask.close;
	sl_lib_leave(*out, code);
	if (code != SPLIT_OK && code != SPLIT_AGAIN) {
		if (!closed)
			split_close(*out, 0);
		*out = NULL;
	}
	return code;
}

void split_close(split_middle *m, int goodbye)
{
	if (!m || m->pid != getpid())
		return;
	pthread_mutex_lock(&m->lock);
	m->ask.close = true;
	m->ask.goodbye = goodbye;
	pthread_cond_broadcast(&m->news);
	while (m->in_call)
		pthread_cond_wait(&m->news, &m->lock);
	pthread_mutex_unlock(&m->lock);
	if (m->threaded) {
		sl_lib_wake(m);
		pthread_join(m->thread, NULL);
	}
	free_middle(m);
}

int split_fd(const split_middle *m)
{
	return m ? m->event_fd : -1;
}

int split_fields(const split_middle *m, int output)
{
	return sl_plan_cut_values(m->plan, output);
}

int split_shape_of(const split_middle *m, int output, int field, int *per_token, int64_t dim[4])
{
	struct sl_shape shape;

	if (field < 0 || field >= split_fields(m, output))
		return 0;
	shape = sl_plan_value_shape(m->plan, output, field, m->rows);
	*per_token = sl_plan_cut_per_token(m->plan, output);
	for (int i = 0; i < shape.ndim; i++)
		dim[i] = shape.dim[i];
	if (*per_token)
		dim[0] = m->rows * m->plan->spec.row_tokens;
	return shape.ndim;
}

int split_shape(const split_middle *m, int output, int *per_token, int64_t dim[4])
{
	return split_shape_of(m, output, 0, per_token, dim);
}

uint64_t split_step_number(const split_middle *m)
{
	return m ? m->step : 0;
}

int split_statistics(split_middle *m, struct split_stats *out)
{
	const size_t size = out->size;
	int code = sl_lib_enter(m, NULL);

	if (code || size < sizeof *out)
		return code ? code : sl_lib_leave(m, SPLIT_USAGE);
	*out = (struct split_stats){.size = size,
				    .step = m->step,
				    .tx_bytes = m->past.tx_bytes + m->now.tx_bytes,
				    .rx_bytes = m->past.rx_bytes + m->now.rx_bytes,
				    .links = m->links,
				    .codec_s = m->past.codec_s + m->now.codec_s,
				    .server_s = m->server_s};
	return sl_lib_leave(m, SPLIT_OK);
}
