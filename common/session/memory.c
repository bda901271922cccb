#include "common/session/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

enum { OF_VALUE = 48, OF_OP = 96 }; /* bytes of an executor for each value and op, without tensors */

/* Bytes of lists of the graph, its plan and its executor: about 1 KiB a node, whatever it computes. */
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

static void add_exec(struct sl_session_memory *m, const struct sl_exec *exec, bool borrows, const struct sl_backend *be)
{
	const struct sl_exec_memory e = sl_exec_memory(exec);

	sl_need(be->host_memory ? &m->weights.host : &m->weights.device, 1, e.weights - (borrows ? e.lent : 0));
	sl_need(&m->gradients, 1, e.gradients);
	sl_need(&m->moments, 1, borrows ? 0 : e.moments);
	sl_need(be->host_memory ? &m->activations.host : &m->activations.device, 1, e.slots);
	sl_need(be->host_memory ? &m->activations.host : &m->activations.device, 1, e.scratch);
	sl_need(&m->weights.host, 1, plan_bytes(sl_exec_segment(exec)));
}

enum sl_err sl_session_memory(struct sl_session_memory *out, const struct sl_exec *const *exec,
			      enum sl_session_role role, bool borrows, struct sl_backend *be,
			      struct sl_backend *host_be, const struct sl_codec_spec codec[SL_DIR_COUNT],
			      struct sl_fail *fail)
{
	struct sl_session_memory m = {0};
	struct sl_port_memory port;
	enum sl_err err = sl_port_memory(sl_exec_plan(exec[0]), be, host_be, codec, role, &port, fail);

	if (err)
		return err;
	for (int i = 0; i < (role == SL_SESSION_CLIENT ? 2 : 1) && exec[i]; i++)
		add_exec(&m, exec[i], borrows, be);
	sl_memory_add(&m.weights, port.weights);
	m.codecs = port.codecs;
	m.state = port.state;
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

/* UINT64_MAX: there is no such file, or it says "max". */
static uint64_t cgroup_max(const char *mount, const char *group)
{
	char path[2 * PATH_MAX];
	uint64_t bytes = UINT64_MAX;
	FILE *file;

	snprintf(path, sizeof path, "%s%s/memory.max", mount, group);
	file = fopen(path, "re");
	if (file && fscanf(file, "%" SCNu64, &bytes) != 1)
		bytes = UINT64_MAX;
	if (file)
		fclose(file);
	return bytes;
}

uint64_t sl_cgroup_bytes(const char *list, const char *mount)
{
	static const char version_2[] = "0::";
	char line[PATH_MAX] = "", *group = line + sizeof version_2 - 1;
	uint64_t least = UINT64_MAX, bytes;
	FILE *file = fopen(list, "re");

	while (file && fgets(line, sizeof line, file) && strncmp(line, version_2, sizeof version_2 - 1) != 0)
		line[0] = '\0';
	if (file)
		fclose(file);
	if (!line[0])
		return UINT64_MAX;
	for (char *end = group + strcspn(group, "\n"); end; end = strrchr(group, '/')) {
		*end = '\0';
		bytes = cgroup_max(mount, group);
		least = bytes < least ? bytes : least;
	}
	return least;
}

uint64_t sl_host_bytes(void)
{
	static const int bound[] = {RLIMIT_AS, RLIMIT_DATA};
	struct sysinfo host;
	struct rlimit limit;
	uint64_t bytes = sl_cgroup_bytes("/proc/self/cgroup", "/sys/fs/cgroup");

	if (sysinfo(&host) == 0 && ((uint64_t)host.totalram + host.totalswap) * host.mem_unit < bytes)
		bytes = ((uint64_t)host.totalram + host.totalswap) * host.mem_unit;
	for (int i = 0; i < 2; i++)
		if (getrlimit(bound[i], &limit) == 0 && limit.rlim_cur < bytes) /* RLIM_INFINITY is the largest value */
			bytes = limit.rlim_cur;
	return bytes;
}
