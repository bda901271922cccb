#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "client/align/align.h"
#include "client/cmd/command.h"

static const char *const usage[] = {
	"splitc align CONFIG [--set KEY=VALUE]… [--json]",
	"Run it at both members of a vertical group at the same time. It finds the rows that both have, by data.id, "
	"and writes them to the file data.aligned, which train of both reads. Neither member learns what else the "
	"other one has, and the server learns no names.",
	"It needs the public keys of both members (share.peers), and auth.secret_key. If a member or the server is "
	"lost, run it again at both.",
	NULL,
};

static enum sl_err suits(const struct sl_options *o, const struct sl_conf_client *c, struct sl_fail *fail)
{
	const struct {
		bool lacks;
		const char *key;
	} needs[] = {{!sl_agreed_is_vertical(&c->agreed), "share.mode"},
		     {!c->data.aligned[0], "data.aligned"},
		     {!c->peers.n, "share.peers"},
		     {!c->auth.secret_key[0], "auth.secret_key"}};

	for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
		if (needs[i].lacks)
			return sl_conf_client_fail(c, needs[i].key, fail, "splitc align needs it%s",
						   i ? "" : ": vertical");
	return SL_OK;
}

static json_t *list(const int64_t *n, int lists)
{
	json_t *out = json_array();

	for (int i = 0; i < lists; i++)
		json_array_append_new(out, json_integer(n[i]));
	return out;
}

static void print(const struct sl_conf_client *c, const struct sl_align_report *r, bool json)
{
	static const char *const what[SL_SPLIT_COUNT] = {"to train on", "to evaluate on"};

	if (json) {
		sl_command_print_json(json_pack("{s:i, s:s, s:i, s:o, s:I, s:o, s:s, s:f}", "schema", 1, "group",
						c->agreed.share.group, "member", c->agreed.share.member, "rows",
						list(r->rows, r->lists), "other_points", (json_int_t)r->other, "common",
						list(r->common, r->lists), "file", c->data.aligned, "t_s", r->seconds),
				      JSON_INDENT(2));
		return;
	}
	for (int i = 0; i < r->lists; i++)
		printf("%" PRId64 " of %" PRId64 " rows%s%s are at both members\n", r->common[i], r->rows[i],
		       r->lists > 1 ? " " : "", r->lists > 1 ? what[i] : "");
	printf("%s has their names in the common order, and a secret of both: keep it to yourself\n", c->data.aligned);
}

int splitc_align(int argc, char **argv)
{
	static struct sl_conf_client conf;
	struct sl_options o = {.command = "align", .usage = usage, .keys = &sl_conf_client_schema, .suits = suits};
	struct sl_align_report report;
	struct sl_fail fail;
	int status = sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_JSON, 1);

	if (status < 0)
		status = sl_options_load(&o, SL_USES_LINK, &conf);
	if (status >= 0)
		return status;
	if (sl_align(&conf, &report, &fail))
		return sl_command_failed(&fail);
	print(&conf, &report, o.json);
	return 0;
}
