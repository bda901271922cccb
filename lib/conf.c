#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/real.h"
#include "common/graph/graph_text.h"
#include "lib/token.h"

/* ---- errors ---- */

_Static_assert((int)SPLIT_USAGE == (int)SL_ERR_USAGE && (int)SPLIT_NONFINITE == (int)SL_ERR_NONFINITE &&
		       (int)SPLIT_BUG == (int)SL_ERR_BUG && (int)SPLIT_IO == (int)SL_ERR_IO &&
		       (int)SPLIT_LIMIT == (int)SL_ERR_LIMIT && (int)SPLIT_MISMATCH == (int)SL_ERR_MISMATCH &&
		       (int)SPLIT_AUDIT == (int)SL_ERR_AUDIT && (int)SPLIT_ROLLED_BACK > (int)SL_ERR_COUNT,
	       "codes are numbered as errors are");

int sl_lib_error(split_error *e, const struct sl_fail *fail, uint64_t step)
{
	if (!e || e->size < sizeof *e)
		return (int)fail->code;
	e->code = (int)fail->code;
	e->status = sl_err_exit_status(fail->code);
	e->step = step;
	snprintf(e->name, sizeof e->name, "%s", sl_err_name(fail->code));
	snprintf(e->key, sizeof e->key, "%s", fail->key);
	snprintf(e->text, sizeof e->text, "%s", fail->text);
	return e->code;
}

int sl_lib_tell(split_error *e, uint64_t step, enum sl_err code, const char *fmt, ...)
{
	struct sl_fail fail = {.code = code};
	va_list args;

	va_start(args, fmt);
	vsnprintf(fail.text, sizeof fail.text, fmt, args);
	va_end(args);
	return sl_lib_error(e, &fail, step);
}

/* ---- keys ---- */

split_conf *split_conf_new(void)
{
	split_conf *c = calloc(1, sizeof *c);

	sl_lib_log_begin();
	if (c)
		c->wait_s = 600;
	return c;
}

static int set_number(int64_t *out, int64_t most, const char *key, const char *value, split_error *e)
{
	char *end;
	const long long n = strtoll(value, &end, 10);

	if (!*value || *end || n < 0 || n > most)
		return sl_lib_tell(e, 0, SL_ERR_CONFIG,
				   "%s: must be a whole number from 0 to %" PRId64 ", got \"%.60s\"", key, most, value);
	*out = n;
	return SPLIT_OK;
}

static int set_level(const char *value, split_error *e)
{
	static const char *const name[SL_LOG_COUNT] = {"error", "warn", "info", "debug"};

	for (int i = 0; i < SL_LOG_COUNT; i++)
		if (strcmp(value, name[i]) == 0) {
			sl_log_set_level((enum sl_log_level)i);
			return SPLIT_OK;
		}
	return sl_lib_tell(e, 0, SL_ERR_CONFIG, "log: must be error, warn, info or debug, got \"%.60s\"", value);
}

static int set_flag(bool *no, const char *key, const char *value, split_error *e)
{
	if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
		return sl_lib_tell(e, 0, SL_ERR_CONFIG, "%s: must be true or false, got \"%.60s\"", key, value);
	*no = value[0] == 'f';
	return SPLIT_OK;
}

static int set_group(split_conf *c, const char *key, const char *value, split_error *e)
{
	const int i = key[6] - '1';
	struct sl_conf_group group;
	const locale_t programs = uselocale(sl_real_locale());
	const bool fits =
		i >= 0 && i < SL_CONF_GROUPS && !key[7] && sl_conf_group_read(value, &group) && !group.n_match;

	if (fits)
		sl_conf_group_rule(&group, c->group[i]);
	uselocale(programs);
	return fits ? SPLIT_OK
		    : sl_lib_tell(e, 0, SL_ERR_CONFIG,
				  "%s: groups are group.1 to group.%d, and a rule is \"lr=0.1 weight_decay=0\"", key,
				  SL_CONF_GROUPS);
}

/* Keys of a config that a middle has; one that ends with a dot stands for all keys with that prefix. */
static const char *const keys[] = {"server",       "auth.",      "link.",           "codec.",          "train.batch",
				   "train.chunks", "train.seed", "train.precision", "train.optimizer."};

static bool is_key(const char *key)
{
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const size_t n = strlen(keys[i]);

		if (strcmp(key, keys[i]) == 0 || (keys[i][n - 1] == '.' && strncmp(key, keys[i], n) == 0))
			return strcmp(key, "train.optimizer.lr") != 0;
	}
	return false;
}

static int set_text(split_conf *c, const char *key, const char *value, split_error *e)
{
	if (!is_key(key))
		return sl_lib_tell(e, 0, SL_ERR_CONFIG,
				   "%.60s: a middle has no such key: server, auth.*, link.*, codec.*, train.batch, "
				   "train.chunks, train.seed, train.precision, train.optimizer.*, calls, tokens.row, "
				   "tokens.chunk, group.1, input_grad, keep_every, wait_s and log are there; the rate "
				   "comes with each step",
				   key);
	if (strcmp(key, "train.precision") == 0 && strcmp(value, "fp16") == 0)
		return sl_lib_tell(e, 0, SL_ERR_CONFIG,
				   "train.precision: fp16 is not possible for a middle alone: take bf16 or fp32");
	if (c->n_set == SL_LIB_SETTINGS)
		return sl_lib_tell(e, 0, SL_ERR_LIMIT, "more than %d settings", SL_LIB_SETTINGS);
	if (asprintf(&c->set[c->n_set], "%s=%s", key, value) < 0)
		return sl_lib_tell(e, 0, SL_ERR_NOMEM, "no memory for a setting");
	c->n_set++;
	return SPLIT_OK;
}

static const char local_name[] = "local:";

/* The last server that was set counts. A local server's endpoint is known only once it runs: until then this is a
 * stand-in. */
static int set_server(split_conf *c, const char *server, split_error *e)
{
	const size_t n = sizeof local_name - 1;
	char *store = NULL;

	if (strncmp(server, local_name, n) == 0) {
		store = strdup(server + n);
		if (!store)
			return sl_lib_tell(e, 0, SL_ERR_NOMEM, "no memory for a setting");
		server = "tcp://127.0.0.1:1";
	}
	free(c->local);
	c->local = store;
	return set_text(c, "server", server, e);
}

int split_conf_set(split_conf *c, const char *key, const char *value, split_error *e)
{
	static const struct {
		const char *key;
		size_t at;
		int64_t most;
	} numbers[] = {{"tokens.row", offsetof(split_conf, row_tokens), 65535},
		       {"tokens.chunk", offsetof(split_conf, chunk_tokens), INT32_MAX},
		       {"calls", offsetof(split_conf, calls), SL_PLAN_MAX_CHUNKS},
		       {"keep_every", offsetof(split_conf, keep_every), 1000000000},
		       {"wait_s", offsetof(split_conf, wait_s), 31536000}};

	if (!c || !key || !value)
		return sl_lib_null(e, "conf, key and value");
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		if (strcmp(key, numbers[i].key) == 0)
			return set_number((int64_t *)(void *)((char *)c + numbers[i].at), numbers[i].most, key, value,
					  e);
	if (strcmp(key, "server") == 0)
		return set_server(c, value, e);
	if (strcmp(key, "log") == 0)
		return set_level(value, e);
	if (strcmp(key, "input_grad") == 0)
		return set_flag(&c->no_input_grad, key, value, e);
	if (strncmp(key, "group.", 6) == 0)
		return set_group(c, key, value, e);
	return set_text(c, key, value, e);
}

int split_conf_graph(split_conf *c, const char *text, split_error *e)
{
	char *copy;

	if (!c || !text)
		return sl_lib_null(e, "conf and text");
	copy = strdup(text);
	if (!copy)
		return sl_lib_tell(e, 0, SL_ERR_NOMEM, "no memory for the graph");
	free(c->graph);
	c->graph = copy;
	return SPLIT_OK;
}

int split_conf_weight(split_conf *c, const char *param, const float *values, size_t n, split_error *e)
{
	void *all;
	float *copy;
	char *name;

	if (!c || !param || (n && !values))
		return sl_lib_null(e, "conf, param and values");
	all = realloc(c->weight, ((size_t)c->n_weight + 1) * sizeof *c->weight);
	copy = n < SIZE_MAX / sizeof *copy ? malloc(n * sizeof *copy + 1) : NULL;
	name = strdup(param);
	if (all)
		c->weight = all;
	if (!all || !copy || !name) {
		free(copy);
		free(name);
		return sl_lib_tell(e, 0, SL_ERR_NOMEM, "no memory for %.100s", param);
	}
	if (n)
		memcpy(copy, values, n * sizeof *copy);
	c->weight[c->n_weight].name = name;
	c->weight[c->n_weight].value = copy;
	c->weight[c->n_weight++].n = n;
	return SPLIT_OK;
}

int split_conf_resume(split_conf *c, const void *token, size_t n, split_error *e)
{
	struct sl_token read;
	struct sl_fail fail;
	uint8_t *copy;

	if (!c || (n && !token))
		return sl_lib_null(e, "conf and token");
	if (sl_token_read(&read, token, n, &fail))
		return sl_lib_error(e, &fail, 0);
	copy = malloc(n);
	if (!copy)
		return sl_lib_tell(e, 0, SL_ERR_NOMEM, "no memory for a token");
	memcpy(copy, token, n);
	free(c->token);
	c->token = copy;
	c->token_bytes = n;
	c->train_seed = (int64_t)read.train_seed;
	return SPLIT_OK;
}

void split_conf_free(split_conf *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->n_set; i++)
		free(c->set[i]);
	for (int i = 0; i < c->n_weight; i++) {
		free(c->weight[i].name);
		free(c->weight[i].value);
	}
	free(c->weight);
	free(c->graph);
	free(c->local);
	free(c->token);
	free(c);
}

/* ---- the plan and weights of a conf ---- */

/* Random numbers go on as before the token: it has the seed, if the program sets none. */
static void take_seed(struct split_middle *m, const split_conf *c)
{
	static const char key[] = "train.seed=";

	for (int i = 0; i < c->n_set; i++)
		if (strncmp(c->set[i], key, sizeof key - 1) == 0)
			return;
	m->conf.agreed.seed = c->train_seed;
}

static enum sl_err read_conf(struct split_middle *m, const split_conf *c, struct sl_fail *fail)
{
	/* keys that a config must have, and that do not matter to a middle */
	static const char text[] = "model: {name: mlp}\ndata: {kind: made_tokens, dir: .}\n";
	const char *set[SL_LIB_SETTINGS + 1] = {"train.optimizer.lr=1"};
	enum sl_err err;

	for (int i = 0; i < c->n_set; i++)
		set[i + 1] = c->set[i];
	err = sl_conf_parse(&sl_conf_client_schema, &m->conf, "libsplit", text, sizeof text - 1, set, c->n_set + 1,
			    fail);
	if (!err && c->token)
		take_seed(m, c);
	m->keep_every = (uint64_t)c->keep_every;
	m->wait_ms = (uint64_t)c->wait_s * 1000;
	return err;
}

/* Makes room in the plan for a step of `calls` calls: each has as many chunks as the largest one. */
static enum sl_err make_room(struct split_middle *m, int calls, struct sl_fail *fail)
{
	struct sl_agreed *a = &m->agreement.agreed;
	const int rows = (a->batch + a->chunks - 1) / a->chunks, chunks = (a->batch + rows - 1) / rows * calls;
	const int64_t batch = (int64_t)rows * chunks;

	if (chunks > SL_CONF_MAX_CHUNKS || batch > SL_CONF_MAX_BATCH)
		return sl_fail_at(
			fail, "calls", SL_ERR_CONFIG,
			"calls: %d calls have %d chunks and %" PRId64
			" rows, where a step has at most %d and %d: take fewer train.chunks, or a smaller train.batch",
			calls, chunks, batch, SL_CONF_MAX_CHUNKS, SL_CONF_MAX_BATCH);
	m->rows = a->batch;
	a->chunks = chunks;
	a->batch = (int)batch;
	return SL_OK;
}

static enum sl_err make_plan(struct split_middle *m, const split_conf *c, struct sl_fail *fail)
{
	struct sl_agreed *a = &m->agreement.agreed;
	struct sl_graph graph = {0};
	enum sl_err err;

	if (!c->graph)
		return sl_fail_set(fail, SL_ERR_CONFIG, "there is no graph: call split_conf_graph");
	*a = m->conf.agreed;
	a->free_calls = true;
	a->row_tokens = c->row_tokens;
	a->chunk_tokens = c->chunk_tokens;
	a->cross.mid_grad = true;
	a->cross.head_grad = !c->no_input_grad;
	memcpy(a->group, c->group, sizeof a->group);
	err = make_room(m, c->calls ? (int)c->calls : 1, fail);
	if (!err)
		err = sl_agreement_settle(&m->agreement, fail);
	if (!err)
		err = sl_graph_read(&graph, c->graph, strlen(c->graph), fail);
	if (!err)
		err = sl_plan_open_part(&m->plan, &m->agreement.plan, SL_MIDDLE, &graph, fail);
	if (!err && sl_plan_cut_chosen(m->plan))
		return sl_fail_set(fail, SL_ERR_CONFIG, "a program's middle cannot end with a gather: it takes tokens");
	if (err)
		sl_graph_close(&graph);
	return err;
}

static int param_of(const struct sl_plan_segment *segment, const char *name)
{
	for (int i = 0; i < segment->n_param; i++)
		if (strcmp(segment->graph.param[segment->param[i].graph_param].name, name) == 0)
			return i;
	return -1;
}

static enum sl_err take_weight(struct split_middle *m, const split_conf *c, int i, struct sl_fail *fail)
{
	const struct sl_plan_segment *segment = &m->plan->segment[SL_MIDDLE];
	const int at = param_of(segment, c->weight[i].name);

	if (at < 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%.100s: the graph has no such parameter", c->weight[i].name);
	if (c->weight[i].n != (size_t)segment->param[at].count)
		return sl_fail_set(fail, SL_ERR_CONFIG, "%.100s: %zu values, the graph has %" PRId64, c->weight[i].name,
				   c->weight[i].n, segment->param[at].count);
	memcpy(m->weights.value[segment->param[at].model_param], c->weight[i].value,
	       c->weight[i].n * sizeof *c->weight[i].value);
	return SL_OK;
}

/* Weights of the middle alone, laid out as those of a client with a whole network. */
static enum sl_err take_weights(struct split_middle *m, const split_conf *c, struct sl_fail *fail)
{
	const struct sl_plan_segment *segment = &m->plan->segment[SL_MIDDLE];
	struct sl_weights *w = &m->weights;
	int64_t count = 0, at = 0;
	enum sl_err err = SL_OK;

	for (int i = 0; i < segment->n_param; i++) {
		if (segment->param[i].held)
			return sl_fail_set(fail, SL_ERR_CONFIG, "%s: a program gives its weights in 32 bits",
					   segment->graph.param[segment->param[i].graph_param].name);
		m->plan->segment[SL_MIDDLE].param[i].model_param = i;
		count += segment->param[i].count;
	}
	*w = (struct sl_weights){.n_param = segment->n_param,
				 .value = calloc((size_t)segment->n_param + 1, sizeof *w->value),
				 .storage = calloc((size_t)count + 1, sizeof *w->storage)};
	if (!w->value || !w->storage)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the weights");
	for (int i = 0; i < segment->n_param; at += segment->param[i++].count) {
		w->value[i] = w->storage + at;
		sl_param_init(&segment->graph.param[segment->param[i].graph_param], m->plan->spec.seed, w->value[i]);
	}
	for (int i = 0; i < c->n_weight && !err; i++)
		err = take_weight(m, c, i, fail);
	return err;
}

enum sl_err sl_lib_settle(struct split_middle *m, const split_conf *c, struct sl_fail *fail)
{
	static const char origin[] = "--set ";
	const size_t n = sizeof origin - 1;
	enum sl_err err = read_conf(m, c, fail);

	if (!err)
		err = make_plan(m, c, fail);
	if (!err)
		err = take_weights(m, c, fail);
	if (!err)
		err = sl_client_auth_open(&m->auth, &m->conf, fail);
	if (err && strncmp(fail->text, origin, n) == 0) /* a program has written no such option */
		memmove(fail->text, fail->text + n, strlen(fail->text + n) + 1);
	return err;
}
