#include "client/text/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "client/text/marked.h"
#include "client/text/spec_parts.h"
#include "client/text/unicode.h"
#include "common/base/text.h"

enum sl_err sl_tok_json(json_t **root, const struct sl_tok_file *file, size_t flags, struct sl_fail *fail)
{
	json_error_t at;
	json_t *json = json_loadb((const char *)file->bytes.data, file->bytes.len, JSON_REJECT_DUPLICATES | flags, &at);

	if (!json)
		return sl_fail_set(fail, SL_ERR_DATA, "%s:%d:%d: %s", file->name, at.line, at.column, at.text);
	if (!json_is_object(json)) {
		json_decref(json);
		return sl_fail_set(fail, SL_ERR_DATA, "%s:1: no JSON object", file->name);
	}
	*root = json;
	return SL_OK;
}

/* Takes a line, without its end, off the front of *rest. False: there is none left. */
static bool take_line(struct sl_bytes *rest, const char **line, size_t *len)
{
	const uint8_t *end;

	if (rest->len == 0)
		return false;
	end = memchr(rest->data, '\n', rest->len);
	*line = (const char *)rest->data;
	*len = end ? (size_t)(end - rest->data) : rest->len;
	rest->data += *len + (end != NULL);
	rest->len -= *len + (end != NULL);
	if (*len > 0 && (*line)[*len - 1] == '\r')
		--*len;
	return true;
}

static enum sl_err at_line(const struct sl_tok_file *file, size_t number, const char *what, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_DATA, "%s:%zu: %s", file->name, number, what);
}

static enum sl_err read_merges(struct sl_tok_spec *spec, const struct sl_tok_file *file, struct sl_fail *fail)
{
	struct sl_bytes rest = file->bytes;
	const char *line;
	size_t len, most = 1;
	enum sl_err err = SL_OK;

	for (size_t i = 0; i < rest.len; i++)
		most += rest.data[i] == '\n';
	spec->merge = malloc((most + 1) * sizeof *spec->merge);
	if (!spec->merge)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for merges");
	for (size_t number = 1; take_line(&rest, &line, &len) && !err; number++) {
		const char *space = memchr(line, ' ', len);
		size_t left = space ? (size_t)(space - line) : 0;

		if (len == 0 || (number == 1 && len >= 8 && memcmp(line, "#version", 8) == 0))
			continue;
		if (sl_utf8_valid(line, len) != len)
			return at_line(file, number, "invalid UTF-8", fail);
		if (!space || left == 0 || left + 1 == len)
			return at_line(file, number, "no two tokens with a space between them", fail);
		err = sl_tok_merge_put(spec, line, left, space + 1, len - left - 1,
				       (struct sl_tok_where){file->name, ":", number}, fail);
	}
	return err;
}

static enum sl_err add_known(struct sl_tok_spec *spec, const char *text, bool lstrip, const char *file,
			     struct sl_fail *fail)
{
	int32_t id = sl_vocab_find(&spec->vocab, text, strlen(text));

	return id < 0 ? SL_OK : sl_tok_add(spec, text, strlen(text), id, lstrip, false, file, fail);
}

/* Reads vocab.json and merges.txt. Samples have RoBERTa's special tokens if the vocabulary has <s> and </s>; else none,
 * as in GPT-2. */
static enum sl_err read_pair(struct sl_tok_spec *spec, const struct sl_tok_files *files, struct sl_fail *fail)
{
	static const char *const known[] = {"<s>", "<pad>", "</s>", "<unk>"};
	const char *file = files->vocab.name;
	struct sl_tok_entries list = {0};
	json_t *root = NULL;
	int32_t first, last;
	enum sl_err err = sl_tok_json(&root, &files->vocab, 0, fail);

	if (!err)
		err = sl_tok_put_object(&list, root, file, fail);
	if (!err)
		err = sl_tok_take(spec, &list, file, fail);
	free(list.entry);
	json_decref(root);
	for (size_t i = 0; i < sizeof known / sizeof known[0] && !err; i++)
		err = add_known(spec, known[i], false, file, fail);
	if (!err)
		err = add_known(spec, "<mask>", true, file, fail);
	if (!err)
		err = read_merges(spec, &files->merges, fail);
	if (err)
		return err;
	spec->unk = sl_vocab_find(&spec->vocab, "<unk>", 5);
	first = sl_vocab_find(&spec->vocab, "<s>", 3);
	last = sl_vocab_find(&spec->vocab, "</s>", 4);
	if (first >= 0 && last >= 0) {
		sl_tok_forms_roberta(spec, first, last);
		return SL_OK;
	}
	sl_tok_forms_plain(spec);
	return add_known(spec, "<|endoftext|>", false, file, fail); /* RoBERTa's vocabulary has it, too, unused */
}

static enum sl_err read_word_list(struct sl_tok_entries *list, const struct sl_tok_file *file, struct sl_fail *fail)
{
	struct sl_bytes rest = file->bytes;
	const char *line;
	size_t len;
	enum sl_err err = SL_OK;

	if (sl_ends_with(file->name, ".model"))
		return sl_fail_set(fail, SL_ERR_DATA,
				   "%s is a model of SentencePiece, which is not read: scripts/tokenizer-json.py makes "
				   "tokenizer.json of it",
				   file->name);
	for (int32_t id = 0; take_line(&rest, &line, &len) && !err; id++) {
		if (len == 0)
			return at_line(file, (size_t)id + 1, "an empty line, where a token should be", fail);
		if (sl_utf8_valid(line, len) != len)
			return at_line(file, (size_t)id + 1, "invalid UTF-8", fail);
		if (memchr(line, '\0', len))
			return at_line(file, (size_t)id + 1, "a NUL in a token", fail);
		err = sl_tok_put(list, id, line, len, file->name, fail);
	}
	return err || list->n ? err : at_line(file, 1, "no tokens", fail);
}

/* Reads BERT's vocab.txt: a token's id is its line, counted from 0. */
static enum sl_err read_words(struct sl_tok_spec *spec, const struct sl_tok_file *file, struct sl_fail *fail)
{
	static const char *const known[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
	struct sl_tok_entries list = {0};
	int32_t twice[2] = {0, 0}, must[3];
	enum sl_err err = read_word_list(&list, file, fail);

	spec->kind = SL_TOK_WORDPIECE;
	if (!err) {
		err = sl_vocab_make(&spec->vocab, list.entry, list.n, twice);
		if (err == SL_ERR_DATA)
			sl_fail_set(fail, err, "%s:%d: the token repeats that of line %d", file->name, twice[1] + 1,
				    twice[0] + 1);
		else if (err)
			sl_fail_set(fail, err, "%s: the vocabulary is too large", file->name);
	}
	free(list.entry);
	for (int i = 0; i < 5 && !err; i++)
		err = add_known(spec, known[i], false, file->name, fail);
	for (int i = 0; i < 3 && !err; i++) {
		must[i] = sl_vocab_find(&spec->vocab, known[i], 5);
		if (must[i] < 0)
			err = sl_fail_set(fail, SL_ERR_DATA, "%s: the vocabulary lacks %s", file->name, known[i]);
	}
	if (err)
		return err;
	spec->unk = must[0];
	sl_tok_forms_bert(spec, must[1], must[2]);
	return SL_OK;
}

static bool given(const struct sl_tok_file *file)
{
	return file->bytes.data != NULL;
}

/* Refuses classes that read vocab.txt, or vocab.json, in another way than we do without a tokenizer.json. */
static enum sl_err check_class(const struct sl_tok_spec *spec, const struct sl_tok_files *files, const char *name,
			       struct sl_fail *fail)
{
	static const char *const bert[] = {"Bert", "DistilBert", "Electra", "MobileBert", NULL},
				 *const roberta[] = {"Roberta", "Bart", "Longformer", NULL},
				 *const gpt2[] = {"GPT2", NULL};
	const char *const *fit = spec->kind == SL_TOK_WORDPIECE ? bert : spec->single.n > 1 ? roberta : gpt2;

	if (!name || given(&files->json))
		return SL_OK;
	for (; *fit; fit++)
		if (strncmp(name, *fit, strlen(*fit)) == 0 && strncmp(name + strlen(*fit), "Tokenizer", 9) == 0)
			return SL_OK;
	return sl_fail_set(fail, SL_ERR_CONFIG,
			   "%s: a tokenizer_class of %.64s is read from a tokenizer.json alone: let transformers' "
			   "AutoTokenizer write one (save_pretrained)",
			   files->config.name, name);
}

/* Refuses added tokens that tokenizer.json lacks: transformers would find them in texts. `list` is {id: {content, …}}
 * of tokenizer_config.json, or {text: id} of added_tokens.json. */
static enum sl_err check_added(const struct sl_tok_spec *spec, const char *file, json_t *list, struct sl_fail *fail)
{
	const char *key;
	json_t *value;

	json_object_foreach(list, key, value)
	{
		const char *content = json_string_value(json_object_get(value, "content")),
			   *text = content ? content : key;
		const double id = content ? strtod(key, NULL) : json_number_value(value);
		int i = 0;

		while (i < spec->n_added && (spec->added[i].id != id || strcmp(spec->added[i].text, text) != 0))
			i++;
		if (i == spec->n_added)
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: no tokenizer.json adds its token \"%.64s\": let transformers' "
					   "AutoTokenizer write one (save_pretrained)",
					   file, text);
	}
	return SL_OK;
}

/* Llama's classes make the template of add_bos_token and add_eos_token, whatever tokenizer.json has. */
static enum sl_err check_ends(const struct sl_tok_spec *spec, const char *file, const json_t *root,
			      struct sl_fail *fail)
{
	const struct sl_tok_form *f = &spec->single;
	const json_t *said[] = {json_object_get(root, "add_bos_token"), json_object_get(root, "add_eos_token")};

	for (int i = 0; i < 2; i++)
		if (json_is_boolean(said[i]) &&
		    json_is_true(said[i]) != (f->piece[i ? f->n - 1 : 0].part == SL_TOK_PART_ID))
			return sl_fail_set(fail, SL_ERR_CONFIG,
					   "%s: add_%s_token is not what tokenizer.json does: let transformers' "
					   "save_pretrained write both files",
					   file, i ? "eos" : "bos");
	return SL_OK;
}

/* Reads tokenizer_config.json, which overrides the other files. Integers are parsed as reals, because model_max_length,
 * which is not used, may have 31 digits. */
static enum sl_err read_config(struct sl_tok_spec *spec, const struct sl_tok_files *files, struct sl_fail *fail)
{
	json_t *root = NULL, *lower, *strip, *han, *space;
	const char *side, *class;
	bool llama;
	enum sl_err err = sl_tok_json(&root, &files->config, JSON_DECODE_INT_AS_REAL, fail);

	if (err)
		return err;
	class = json_string_value(json_object_get(root, "tokenizer_class"));
	llama = class && strstr(class, "LlamaTokenizer");
	err = check_class(spec, files, class, fail);
	if (!err && llama)
		err = check_ends(spec, files->config.name, root, fail);
	if (!err)
		err = check_added(spec, files->config.name, json_object_get(root, "added_tokens_decoder"), fail);
	lower = json_object_get(root, "do_lower_case");
	strip = json_object_get(root, "strip_accents");
	han = json_object_get(root, "tokenize_chinese_chars");
	side = json_string_value(json_object_get(root, "truncation_side"));
	space = json_object_get(root, "add_prefix_space");
	spec->cut_front = side ? strcmp(side, "left") == 0 : spec->cut_front;
	if (json_is_boolean(lower))
		spec->lower = spec->strip = json_is_true(lower);
	if (json_is_boolean(strip))
		spec->strip = json_is_true(strip);
	if (json_is_boolean(han))
		spec->han = json_is_true(han);
	if (json_is_boolean(space) && spec->words == SL_TOK_WORDS_GPT2) /* others follow tokenizer.json */
		spec->prefix_space = json_is_true(space);
	if (json_is_false(space) && llama)
		spec->lead = SL_TOK_LEAD_NONE;
	json_decref(root);
	return err;
}

/* In marked text every byte needs a token. */
static enum sl_err find_fallbacks(struct sl_tok_spec *spec, const char *file, struct sl_fail *fail)
{
	for (int b = 0; b < 256; b++) {
		spec->byte_id[b] = sl_marked_byte(&spec->vocab, b);
		if (spec->byte_id[b] < 0)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: no token <0x%02X>, which byte_fallback needs", file,
					   b);
	}
	return SL_OK;
}

/* Every byte that UTF-8 can contain needs a token, or there must be an unk_token. */
static enum sl_err find_bytes(struct sl_tok_spec *spec, const char *file, struct sl_fail *fail)
{
	if (spec->kind == SL_TOK_MARKED)
		return find_fallbacks(spec, file, fail);
	for (int b = 0; b < 256; b++) {
		char text[SL_UTF8_MOST];
		int len = sl_utf8_put(sl_tok_char_of(b), text);
		int32_t id = sl_vocab_find(&spec->vocab, text, (size_t)len);

		spec->byte_id[b] = id < 0 ? spec->unk : id;
		if (spec->byte_id[b] < 0 && b != 0xc0 && b != 0xc1 && b < 0xf5)
			return sl_fail_set(fail, SL_ERR_DATA, "%s: no token for the byte 0x%02x, and no unk_token",
					   file, b);
	}
	return SL_OK;
}

static enum sl_err parse(struct sl_tok_spec *spec, const struct sl_tok_files *files, struct sl_fail *fail)
{
	const struct sl_tok_file *main = given(&files->json) ? &files->json : &files->vocab;
	json_t *added = NULL;
	enum sl_err err;

	if (given(&files->json))
		err = sl_tok_read_json(spec, &files->json, fail);
	else if (given(&files->vocab) && given(&files->merges))
		err = read_pair(spec, files, fail);
	else if (given(&files->words))
		err = read_words(spec, &files->words, fail);
	else
		err = sl_fail_set(fail, SL_ERR_NOINPUT,
				  "no tokenizer: no tokenizer.json, no vocab.json with "
				  "merges.txt, no vocab.txt");
	if (!err && given(&files->config))
		err = read_config(spec, files, fail);
	if (!err && given(&files->added))
		err = sl_tok_json(&added, &files->added, 0, fail);
	if (!err)
		err = check_added(spec, files->added.name, added, fail);
	json_decref(added);
	if (!err && (spec->kind == SL_TOK_BPE || spec->kind == SL_TOK_MARKED))
		err = find_bytes(spec, main->name, fail);
	if (!err && spec->kind == SL_TOK_WORDPIECE && spec->unk < 0)
		err = sl_fail_set(fail, SL_ERR_DATA, "%s: a WordPiece model without unk_token", main->name);
	return err;
}

enum sl_err sl_tok_spec_parse(struct sl_tok_spec *out, const struct sl_tok_files *files, struct sl_fail *fail)
{
	struct sl_tok_spec spec = {.unk = -1, .prefix = "##", .word_chars = 100};
	enum sl_err err;

	spec.clean = spec.han = spec.lower = spec.strip = true;
	err = parse(&spec, files, fail);
	if (err)
		sl_tok_spec_free(&spec);
	else
		*out = spec;
	return err;
}

void sl_tok_spec_free(struct sl_tok_spec *spec)
{
	sl_vocab_free(&spec->vocab);
	sl_unigram_free(&spec->unigram);
	for (int i = 0; i < spec->n_added; i++)
		free(spec->added[i].text);
	free(spec->added);
	free(spec->merge);
	*spec = (struct sl_tok_spec){0};
}

enum { FILES = 6 };

/* Reads a file, if it exists, into *file and into the hash. */
static enum sl_err read_one(const char *path, struct sl_tok_file *file, XXH3_state_t *hash, struct sl_fail *fail)
{
	uint8_t *data = NULL;
	size_t len = 0;
	enum sl_err err;

	if (access(path, F_OK) != 0 && errno == ENOENT)
		return SL_OK;
	err = sl_file_read(path, SL_TOK_FILE_MOST, &data, &len, fail);
	if (err)
		return err;
	file->bytes = (struct sl_bytes){data, len};
	XXH3_64bits_update(hash, &len, sizeof len);
	XXH3_64bits_update(hash, data, len);
	return SL_OK;
}

static bool is_json(const struct sl_bytes *bytes)
{
	const size_t i = sl_text_begin(bytes->data, bytes->len);

	return i < bytes->len && bytes->data[i] == '{';
}

/* Reads the one file `path`, or those files of the folder `path` that belong to a tokenizer. */
static enum sl_err read_files(const char *path, struct sl_tok_files *files, char names[FILES][PATH_MAX],
			      XXH3_state_t *hash, struct sl_fail *fail)
{
	static const char *const name[FILES] = {"tokenizer.json",        "vocab.json",       "merges.txt", "vocab.txt",
						"tokenizer_config.json", "added_tokens.json"};
	struct sl_tok_file *file[FILES] = {&files->json,  &files->vocab,  &files->merges,
					   &files->words, &files->config, &files->added};
	enum sl_err err = SL_OK;
	struct stat st;

	if (stat(path, &st) != 0)
		return sl_fail_set(fail, SL_ERR_NOINPUT, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		files->words.name = files->json.name = path;
		err = read_one(path, &files->words, hash, fail);
		if (!err && is_json(&files->words.bytes)) {
			files->json.bytes = files->words.bytes;
			files->words.bytes = (struct sl_bytes){NULL, 0};
		}
		return err;
	}
	for (int i = 0; i < FILES && !err; i++) {
		if (snprintf(names[i], PATH_MAX, "%s/%s", path, name[i]) >= PATH_MAX)
			return sl_fail_set(fail, SL_ERR_NOINPUT, "the path of a tokenizer is too long");
		file[i]->name = names[i];
		err = read_one(names[i], file[i], hash, fail);
	}
	if (!err && !given(&files->json) && !given(&files->words) && !(given(&files->vocab) && given(&files->merges)))
		err = sl_fail_set(fail, SL_ERR_NOINPUT,
				  "%s: no tokenizer: it holds no tokenizer.json, no vocab.json with merges.txt, and "
				  "no vocab.txt; scripts/tokenizer-json.py makes tokenizer.json of a tokenizer.model",
				  path);
	return err;
}

enum sl_err sl_tok_spec_read(struct sl_tok_spec *spec, const char *path, uint64_t *hash, struct sl_fail *fail)
{
	struct sl_tok_files files = {0};
	XXH3_state_t *state = XXH3_createState();
	char(*names)[PATH_MAX] = malloc(FILES * sizeof *names);
	enum sl_err err = state && names ? SL_OK : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for a tokenizer");

	if (!err) {
		XXH3_64bits_reset(state);
		err = read_files(path, &files, names, state, fail);
	}
	if (!err)
		err = sl_tok_spec_parse(spec, &files, fail);
	if (!err)
		*hash = XXH3_64bits_digest(state);
	free((void *)files.json.bytes.data);
	free((void *)files.vocab.bytes.data);
	free((void *)files.merges.bytes.data);
	free((void *)files.words.bytes.data);
	free((void *)files.config.bytes.data);
	free((void *)files.added.bytes.data);
	free(names);
	XXH3_freeState(state);
	return err;
}
