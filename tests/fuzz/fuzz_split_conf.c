/* libsplit's conf from an unknown source, without a network. The first byte chooses the kind of input. A
 * token is read as it is, or with a valid checksum; an accepted token must be written as the same bytes. A
 * conf is lines "key=value", an empty line, then the graph: it makes a plan, or is refused with a message. */
#include <stdlib.h>
#include <string.h>

#include "common/link/wire.h"
#include "lib/token.h"

enum { TOKEN, TOKEN_THAT_FITS, CONF, KINDS, SUM = 8 };

static void must(bool good)
{
	if (!good)
		abort();
}

static void make_fit(uint8_t *bytes, size_t n)
{
	const uint64_t hash = n < SUM ? 0 : sl_wire_hash((struct sl_bytes){bytes, n - SUM});

	for (int i = 0; i < SUM && n >= SUM; i++)
		bytes[n - SUM + (size_t)i] = (uint8_t)(hash >> (8 * i));
}

static void read_token(const uint8_t *bytes, size_t n)
{
	split_conf *c = split_conf_new();
	split_error e = {.size = sizeof e};
	struct sl_token token;
	struct sl_fail fail;
	uint8_t *again;

	must(c != NULL);
	if (split_conf_resume(c, bytes, n, &e)) {
		must(e.code == SPLIT_DATA && e.text[0] && !c->token);
	} else {
		must(sl_token_read(&token, bytes, n, &fail) == SL_OK && sl_token_bytes(&token) == n);
		again = malloc(n);
		must(again != NULL);
		sl_token_write(&token, again);
		must(memcmp(again, bytes, n) == 0);
		free(again);
	}
	split_conf_free(c);
}

static void settle(const split_conf *c)
{
	struct split_middle *m = calloc(1, sizeof *m);
	struct sl_fail fail = {0};

	must(m != NULL);
	if (sl_lib_settle(m, c, &fail))
		must(fail.text[0] && fail.code);
	sl_weights_close(&m->weights);
	sl_plan_close(m->plan);
	sl_client_auth_close(&m->auth);
	free(m);
}

/* Returns the text after the empty line. */
static char *set_lines(split_conf *c, char *text)
{
	split_error e = {.size = sizeof e};
	char *end, *value;

	while ((end = strchr(text, '\n')) && end != text) {
		*end = '\0';
		value = strchr(text, '=');
		if (value) {
			*value++ = '\0';
			if (split_conf_set(c, text, value, &e))
				must((e.code == SPLIT_CONFIG || e.code == SPLIT_LIMIT) && e.text[0]);
		}
		text = end + 1;
	}
	return text;
}

static void read_conf(const uint8_t *bytes, size_t n)
{
	static const float ones[4] = {1, 1, 1, 1};
	char *text = strndup((const char *)bytes, n);
	split_conf *c = split_conf_new();
	split_error e = {.size = sizeof e};

	must(text && c);
	must(split_conf_graph(c, set_lines(c, text), &e) == SPLIT_OK);
	if (n % 2)
		must(split_conf_weight(c, "w", ones, n % 5, &e) == SPLIT_OK);
	settle(c);
	split_conf_free(c);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;

	if (!size)
		return 0;
	bytes = malloc(size);
	must(bytes != NULL);
	memcpy(bytes, data + 1, --size);
	if (data[0] % KINDS == TOKEN_THAT_FITS)
		make_fit(bytes, size);
	if (data[0] % KINDS == CONF)
		read_conf(bytes, size);
	else
		read_token(bytes, size);
	free(bytes);
	return 0;
}
