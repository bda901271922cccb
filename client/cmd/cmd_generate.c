#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/predict/doubt.h"
#include "client/predict/generate.h"
#include "client/setup/about.h"
#include "client/text/lines.h"
#include "client/text/records.h"
#include "client/text/tokenizer.h"
#include "client/text/unicode.h"

static const char *const usage[] = {
	"splitc generate CONFIG [--prompt TEXT | --prompts FILE] [--weights FILE] [--local] [--set KEY=VALUE]… "
	"[--json | --ids]",
	"Continues prompts with the text of a decoder (model.head: causal_lm), or one empty prompt where none is "
	"given. The server computes the middle, unless --local is given. The weights are those of the last `train` of "
	"this run (log.dir/model.safetensors), or FILE.",
	"The keys of `generate` say how long texts are and how tokens are drawn. Both sides cache the keys and values "
	"of attention, so only a new token crosses. If the link is lost, the client connects again and goes on with "
	"the text.",
	NULL,
};

/* Prompts and their tokens. */
struct texts {
	const struct sl_options *o;
	struct sl_tokenizer *tokenizer;
	struct sl_tokenizer_work *work;
	const struct sl_setup *setup;
	char **prompt;
	int n;
	int32_t *id; /* tokens of all prompts; those of prompt i begin at begin[i] */
	int64_t *begin, tokens;
	json_t *doubt; /* doubt.h */
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for prompts");
}

static enum sl_err add_prompt(struct texts *t, const char *text, size_t len, struct sl_fail *fail)
{
	char **grown = realloc(t->prompt, ((size_t)t->n + 1) * sizeof *grown);

	if (!grown)
		return no_memory(fail);
	t->prompt = grown;
	t->prompt[t->n] = strndup(text, len);
	return t->prompt[t->n++] ? SL_OK : no_memory(fail);
}

static enum sl_err check_prompt(const struct texts *t, size_t number, const struct sl_bytes *line, struct sl_fail *fail)
{
	const size_t good = sl_utf8_valid((const char *)line->data, line->len);

	if (good < line->len)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: invalid UTF-8 at byte %zu of the prompt", t->o->prompts,
				   number, good);
	return memchr(line->data, 0, line->len)
		       ? sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: a NUL character", t->o->prompts, number)
		       : SL_OK;
}

static enum sl_err read_prompts(struct texts *t, struct sl_fail *fail)
{
	static const char *const ends[] = {".jsonl", ".ndjson", ".json", ".csv", ".tsv"};
	const char *given = t->o->prompt ? t->o->prompt : "";
	struct sl_lines lines = {.from = NULL};
	struct sl_bytes line;
	enum sl_err err;

	if (!t->o->prompts)
		return add_prompt(t, given, strlen(given), fail);
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		if (sl_records_ends(t->o->prompts, ends[i]))
			return sl_fail_set(fail, SL_ERR_USAGE,
					   "generate: %s: prompts are lines of text, not %s: write each on a line of a "
					   "file that ends otherwise, such as .txt",
					   t->o->prompts, ends[i]);
	err = sl_lines_open(&lines, t->o->prompts, fail);
	while (!err) {
		err = sl_lines_next(&lines, &line, fail);
		if (err || !line.data)
			break;
		err = check_prompt(t, lines.number, &line, fail);
		if (!err)
			err = add_prompt(t, (const char *)line.data, line.len, fail);
	}
	sl_lines_close(&lines);
	return err || t->n ? err : sl_fail_set(fail, SL_ERR_DATA, "%s: no prompts", t->o->prompts);
}

static bool is_end(const struct sl_model_takes *takes, int32_t token)
{
	int i = 0;

	while (i < takes->n_end && takes->end[i] != token)
		i++;
	return i < takes->n_end || token == takes->learned_end;
}

/* The number of tokens without the end that the tokenizer's template adds, since the text goes on. An end that the
 * prompt spells stays. */
static int32_t without_end(const struct texts *t, const struct sl_tokens *tokens)
{
	int32_t n = tokens->n;

	for (int i = sl_tokenizer_ending(t->tokenizer); i > 0 && n > 1 && is_end(&t->setup->takes, tokens->id[n - 1]);
	     i--)
		n--;
	return n;
}

static enum sl_err encode_prompts(struct texts *t, struct sl_fail *fail)
{
	enum sl_err err = sl_tokenizer_work_open(&t->work, t->tokenizer, fail);

	t->begin = calloc((size_t)t->n + 1, sizeof *t->begin);
	if (!err && !t->begin)
		err = no_memory(fail);
	for (int i = 0; i < t->n && !err; i++) {
		const struct sl_bytes text = {(const uint8_t *)t->prompt[i], strlen(t->prompt[i])};
		struct sl_tokens tokens;
		int32_t n, *grown;

		err = sl_tokenizer_encode(t->work, text, (struct sl_bytes){NULL, 0}, 0, &tokens, fail);
		if (err)
			return err;
		n = without_end(t, &tokens);
		grown = realloc(t->id, (size_t)(t->begin[i] + n + 1) * sizeof *grown);
		if (!grown)
			return no_memory(fail);
		t->id = grown;
		memcpy(t->id + t->begin[i], tokens.id, (size_t)n * sizeof *grown);
		t->begin[i + 1] = t->begin[i] + n;
	}
	return err;
}

/* The text behind a prompt. Invalid UTF-8 and NUL become U+FFFD. NULL: no memory. */
static char *text_of(const struct texts *t, const struct sl_generate_row *row)
{
	const int32_t n = row->n - row->prompt;
	const size_t most = sl_tokenizer_decoded(t->tokenizer, n);
	char *bytes = malloc(most), *out = bytes ? malloc(3 * most + 1) : NULL;
	size_t len = bytes ? sl_tokenizer_decode(t->tokenizer, row->id + row->prompt, n, bytes) : 0, to = 0;

	for (size_t at = 0; out && at < len;) {
		const size_t good = strnlen(bytes + at, sl_utf8_valid(bytes + at, len - at));

		memcpy(out + to, bytes + at, good);
		to += good;
		at += good;
		if (at < len) {
			to += (size_t)sl_utf8_put(0xfffd, out + to);
			at++;
		}
	}
	if (out)
		out[to] = '\0';
	free(bytes);
	return out;
}

static void print_ids(const struct sl_generate_row *row)
{
	for (int i = row->prompt; i < row->n; i++)
		printf("%s%" PRId32, i > row->prompt ? " " : "", row->id[i]);
	putchar('\n');
}

static void print_json(const struct texts *t, int number, const struct sl_generate_row *row, const char *text)
{
	static const char *const reason[] = {[SL_GENERATE_END] = "end", [SL_GENERATE_LENGTH] = "length"};
	json_t *ids = json_array(), *root;

	for (int i = row->prompt; i < row->n; i++)
		json_array_append_new(ids, json_integer(row->id[i]));
	root = json_pack("{s:s, s:s, s:o, s:s}", "prompt", t->prompt[number], "text", text, "ids", ids, "reason",
			 reason[row->end]);
	json_object_update_missing(root, t->doubt);
	sl_command_print_json(root, JSON_COMPACT);
}

static void on_done(void *arg, int number, const struct sl_generate_row *row)
{
	const struct texts *t = arg;
	char *text = text_of(t, row);

	if (t->o->ids) {
		print_ids(row);
	} else if (t->o->json) {
		print_json(t, number, row, text ? text : "");
	} else {
		sl_command_print_text(t->prompt[number], "\n\t");
		sl_command_print_text(text ? text : "", "\n\t");
		putchar('\n');
	}
	fflush(stdout);
	free(text);
}

static enum sl_err generate(struct texts *t, struct sl_setup *setup, struct sl_fail *fail)
{
	const struct sl_conf_client *c = setup->conf;
	const struct sl_generate_spec spec = {
		.how = {c->generate.penalty, c->generate.temperature, c->generate.top_k, c->generate.top_p,
			(uint64_t)c->generate.seed},
		.max_tokens = c->generate.max_tokens,
		.end = setup->takes.end,
		.n_end = setup->takes.n_end,
		.vocab = setup->plan->model->classes,
		.batch = c->agreed.batch,
		.row_tokens = c->model.tokens,
		.caches = c->generate.cache,
		.done = on_done,
		.arg = t,
	};
	struct sl_generate *g = NULL;
	enum sl_err err;

	t->doubt = sl_doubt(t->o->local);
	err = sl_generate_open(&g, &spec, t->id, t->begin, t->n, fail);

	if (!err)
		err = sl_generate_run(setup, g, t->o->local, fail);
	if (!setup->in_use)
		sl_generate_close(g);
	return err;
}

static enum sl_err open_tokenizer(struct texts *t, const struct sl_conf_client *c, struct sl_fail *fail)
{
	struct sl_fail why;
	enum sl_err err =
		sl_tokenizer_open(&t->tokenizer, c->data.tokenizer[0] ? c->data.tokenizer : c->model.huggingface, &why);

	return err ? sl_conf_client_fail(c, "data.tokenizer", fail, "%s", why.text) : SL_OK;
}

static enum sl_err suits(const struct sl_options *o, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	if (conf->model.head != SL_CONF_CAUSAL_LM)
		return sl_conf_client_fail(conf, "model.head", fail, "generate needs a decoder: causal_lm");
	return SL_OK;
}

static enum sl_err prepare(struct texts *t, struct sl_conf_client *conf, struct sl_setup *setup, struct sl_fail *fail)
{
	enum sl_err err;

	t->setup = setup;
	err = read_prompts(t, fail);
	if (err)
		return err;
	/* one pass has one token of each prompt, so no more rows than prompts */
	conf->agreed.batch = t->n < conf->agreed.batch ? t->n : conf->agreed.batch;
	conf->agreed.chunks = conf->agreed.chunks < conf->agreed.batch ? conf->agreed.chunks : conf->agreed.batch;
	conf->agreed.cached = conf->generate.cache;
	conf->data.pad = SL_CONF_PAD_NONE;
	setup->reads = SL_READS_NONE;
	err = sl_options_trained(t->o, conf, setup, false, fail);
	if (!err)
		err = open_tokenizer(t, conf, fail);
	if (!err)
		sl_about_check_tokenizer(setup, sl_tokenizer_hash(t->tokenizer));
	if (!err)
		err = encode_prompts(t, fail);
	return err ? err : sl_setup_backend(setup, fail);
}

static void close_texts(struct texts *t)
{
	for (int i = 0; i < t->n; i++)
		free(t->prompt[i]);
	free(t->prompt);
	free(t->id);
	free(t->begin);
	json_decref(t->doubt);
	sl_tokenizer_work_close(t->work);
	sl_tokenizer_close(t->tokenizer);
}

int splitc_generate(int argc, char **argv)
{
	struct sl_options o = {.command = "generate", .usage = usage, .keys = &sl_conf_client_schema, .suits = suits};
	static struct sl_conf_client conf;
	static struct sl_setup setup;
	struct texts t = {.o = &o};
	struct sl_fail fail;
	enum sl_err err;
	int status =
		sl_options_parse(&o, argc, argv, SL_OPT_CONFIG | SL_OPT_LOCAL | SL_OPT_WEIGHTS | SL_OPT_GENERATE, 1);

	if (status < 0 && ((o.prompt && o.prompts) || (o.ids && o.json)))
		return sl_command_refuse("generate: give %s, not both",
					 o.ids && o.json ? "--ids or --json" : "--prompt or --prompts");
	if (status < 0)
		status = sl_options_load(&o, SL_USES_TRAINED | SL_USES_LINK, &conf);
	if (status >= 0)
		return status;
	err = prepare(&t, &conf, &setup, &fail);
	if (!err)
		err = generate(&t, &setup, &fail);
	if (!setup.in_use)
		close_texts(&t);
	sl_setup_close(&setup);
	return err ? sl_command_failed(&fail) : 0;
}
