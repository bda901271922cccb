#include "server/trunk/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "common/base/wrap.h"

enum { NEED_TEXT = 240, NAME = 16 };
enum { OF_VALUE = 32, OF_OP = 96 }; /* bytes of an executor beside its tensors */

#define ADVICE    "take a smaller batch, another cut or other codecs"
#define COME_BACK "come back when others have ended, or "
#define RAISE     ", or raise limits.memory_bytes on the server"

/* Lists of the graph, its plan and its executor: 1 KiB a node, whatever it computes. */
static uint64_t plan_bytes(const struct sl_plan_segment *s)
{
	const struct sl_graph *g = &s->graph;
	const struct {
		int count;
		size_t bytes;
	} list[] = {
		{g->cap_value, sizeof *g->value + OF_VALUE},
		{g->cap_param, sizeof *g->param + sizeof *s->param + sizeof *s->tied},
		{g->cap_node, sizeof *g->node},
		{g->cap_in, sizeof *g->in},
		{g->cap_out, sizeof *g->out},
		{g->cap_link, sizeof *g->link},
		{s->n_op, sizeof *s->op + OF_OP},
	};
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
		sum += (uint64_t)list[i].count * list[i].bytes;
	return sum;
}

enum sl_err sl_session_memory(struct sl_session_memory *out, const struct sl_exec *exec, bool borrows,
			      struct sl_backend *be, struct sl_backend *host_be,
			      const struct sl_codec_spec codec[SL_DIR_COUNT], struct sl_fail *fail)
{
	const struct sl_exec_memory e = sl_exec_memory(exec);
	struct sl_session_memory m = {0};
	struct sl_port_memory port;
	enum sl_err err = sl_port_memory(sl_exec_plan(exec), be, host_be, codec, SL_SESSION_SERVER, &port, fail);

	if (err)
		return err;
	sl_need(be->host_memory ? &m.weights.host : &m.weights.device, 1, e.weights - (borrows ? e.lent : 0));
	sl_need(be->host_memory ? &m.activations.host : &m.activations.device, 1, e.slots);
	sl_need(be->host_memory ? &m.activations.host : &m.activations.device, 1, e.scratch);
	sl_need(&m.weights.host, 1, plan_bytes(sl_exec_segment(exec)));
	sl_memory_add(&m.weights, port.weights);
	m.codecs = port.codecs;
	m.payloads = port.payloads;
	*out = m;
	return SL_OK;
}

struct sl_memory sl_session_memory_sum(const struct sl_session_memory *m)
{
	struct sl_memory sum = m->weights;

	sl_memory_add(&sum, m->activations);
	sl_memory_add(&sum, m->codecs);
	sl_memory_add(&sum, m->payloads);
	return sum;
}

enum sl_err sl_memory_reserve(_Atomic uint64_t *used, uint64_t limit, uint64_t bytes, const char *what,
			      struct sl_fail *fail)
{
	const uint64_t taken = atomic_load(used), left = taken > limit ? 0 : limit - taken;
	char one[SL_BYTES_TEXT], two[SL_BYTES_TEXT];

	if (limit && bytes > left)
		return sl_fail_set(fail, bytes > limit ? SL_ERR_LIMIT : SL_ERR_BUSY,
				   "%s needs %" PRIu64 " bytes (%s); %" PRIu64 " of %" PRIu64 " are free (%s): %stake "
				   "another cut" RAISE,
				   what, bytes, sl_bytes_text(bytes, one), left, limit, sl_bytes_text(left, two),
				   bytes > limit ? "" : COME_BACK);
	atomic_fetch_add(used, bytes);
	return SL_OK;
}

/* "1234 bytes on cpu (1.2 kB: weights 1200, activations 20, codecs 10, payloads 4)" */
static void describe(char out[NEED_TEXT], const struct sl_session_memory *m, const struct sl_backend *be,
		     const char *device)
{
	struct sl_memory sum = sl_session_memory_sum(m);
	const char *end = strstr(device, ": "); /* "cuda:0": what follows says which hardware it is */
	int name = end ? (int)(end - device) : (int)strlen(device);
	char apart[32] = "", unit[SL_BYTES_TEXT];

	if (!be->host_memory)
		snprintf(apart, sizeof apart, ", %" PRIu64 " of them", sum.device);
	snprintf(out, NEED_TEXT,
		 "%" PRIu64 " bytes%s on %.*s (%s: weights %" PRIu64 ", activations %" PRIu64 ", codecs %" PRIu64
		 ", payloads %" PRIu64 ")",
		 sl_memory_total(sum), apart, name < NAME ? name : NAME, device,
		 sl_bytes_text(sl_memory_total(sum), unit), sl_memory_total(m->weights),
		 sl_memory_total(m->activations), sl_memory_total(m->codecs), sl_memory_total(m->payloads));
}

/* What this process could have if it were alone on its machine. */
static uint64_t host_bytes(void)
{
	static const int bound[] = {RLIMIT_AS, RLIMIT_DATA};
	struct sysinfo host;
	struct rlimit limit;
	uint64_t bytes = UINT64_MAX;

	if (sysinfo(&host) == 0)
		bytes = ((uint64_t)host.totalram + host.totalswap) * host.mem_unit;
	for (int i = 0; i < 2; i++)
		if (getrlimit(bound[i], &limit) == 0 &&
		    limit.rlim_cur < bytes) /* RLIM_INFINITY is the largest of all */
			bytes = limit.rlim_cur;
	return bytes;
}

enum sl_err sl_session_memory_check(const struct sl_session_memory *m, struct sl_backend *be, const char *device,
				    uint64_t limit, uint64_t used, struct sl_memory back, struct sl_fail *fail)
{
	struct sl_memory sum = sl_session_memory_sum(m);
	uint64_t returned = sl_memory_total(back), taken = used > returned ? used - returned : 0;
	uint64_t need = sl_memory_total(sum), left = taken > limit ? 0 : limit - taken, host = host_bytes(), all;
	char text[NEED_TEXT], one[SL_BYTES_TEXT], two[SL_BYTES_TEXT];

	describe(text, m, be, device);
	if (limit && need > left)
		return sl_fail_set(fail, need > limit ? SL_ERR_LIMIT : SL_ERR_BUSY,
				   "the session needs %s; %" PRIu64 " of %" PRIu64
				   " are free (%s of %s): %s" ADVICE RAISE,
				   text, left, limit, sl_bytes_text(left, one), sl_bytes_text(limit, two),
				   need > limit ? "" : COME_BACK);
	if (sum.host > host)
		return sl_fail_set(fail, SL_ERR_LIMIT, "the session needs %s; the host has %" PRIu64 " (%s): " ADVICE,
				   text, host, sl_bytes_text(host, one));
	if (!be->ops->free_bytes || be->ops->free_bytes(be, &left, &all) != SL_OK)
		return SL_OK;
	left = back.device < all - left ? left + back.device : all;
	if (sum.device <= left)
		return SL_OK;
	if (sum.device > all)
		return sl_fail_set(fail, SL_ERR_LIMIT, "the session needs %s; the device has %" PRIu64 " (%s): " ADVICE,
				   text, all, sl_bytes_text(all, one));
	return sl_fail_set(fail, SL_ERR_BUSY,
			   "the session needs %s; the device has %" PRIu64 " free of %" PRIu64
			   " (%s of %s): " COME_BACK ADVICE,
			   text, left, all, sl_bytes_text(left, one), sl_bytes_text(all, two));
}
