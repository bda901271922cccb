#define PCRE2_CODE_UNIT_WIDTH 8
#include "client/text/pattern.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* White_Space, as in the \s of Hugging Face's tokenizers; PCRE2's \s also matches U+180E. */
#define SPACE \
	"\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

#define NO_SPACE "[^" SPACE "]"
/* words such as HTTPServer's and camel|Case: capitals, then small letters, then an ending */
#define CASES                                                                                                \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" ENDS "|" \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" ENDS     \
	"|\\p{N}{1,3}"
#define ENDS    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define LINES   "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?!" NO_SPACE ")|[" SPACE "]+"
#define SPELLED(digits)                                                      \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits \
	"| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* `spelled`: the pattern as tokenizer.json spells it; NULL: the file selects it in another way. DIGITS is GPT-2's
 * pattern for a text in which each digit has been set apart before. */
static const struct {
	const char *code, *spelled;
} known[SL_TOK_WORDS_COUNT] = {
	[SL_TOK_WORDS_GPT2] = {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE
			       "]+(?!" NO_SPACE ")|[" SPACE "]+",
			       NULL},
	[SL_TOK_WORDS_LLAMA3] = {ENDINGS "\\p{N}{1,3}" LINES, SPELLED("\\p{N}{1,3}")},
	[SL_TOK_WORDS_QWEN2] = {ENDINGS "\\p{N}" LINES, SPELLED("\\p{N}")},
	[SL_TOK_WORDS_PHI4] = {CASES "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n/]*|[" SPACE "]*[\\r\\n]+|[" SPACE
				     "]+(?!" NO_SPACE ")|[" SPACE "]+",
			       CASES "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
	[SL_TOK_WORDS_DIGITS] = {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE
				 "]+(?![^" SPACE "\\p{N}])|[" SPACE "]+",
				 NULL},
};

enum sl_tok_words sl_pattern_find(const char *spelled)
{
	int i = 0;

	while (i < SL_TOK_WORDS_COUNT && !(known[i].spelled && strcmp(known[i].spelled, spelled) == 0))
		i++;
	return (enum sl_tok_words)i;
}

struct sl_pattern {
	pcre2_code *code;
	bool compiled; /* to machine code; if the system forbids that, it is interpreted */
};

struct sl_pattern_work {
	const struct sl_pattern *pattern;
	pcre2_match_data *match;
};

enum sl_err sl_pattern_open(struct sl_pattern **out, enum sl_tok_words words)
{
	struct sl_pattern *p = calloc(1, sizeof *p);
	size_t where;
	int error;

	if (!p)
		return SL_ERR_NOMEM;
	p->code = pcre2_compile((PCRE2_SPTR)known[words].code, PCRE2_ZERO_TERMINATED,
				PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &where, NULL);
	if (!p->code) {
		free(p);
		return SL_ERR_NOMEM;
	}
	p->compiled = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
	*out = p;
	return SL_OK;
}

void sl_pattern_close(struct sl_pattern *p)
{
	if (p)
		pcre2_code_free(p->code);
	free(p);
}

enum sl_err sl_pattern_work_open(struct sl_pattern_work **out, const struct sl_pattern *p)
{
	struct sl_pattern_work *w = calloc(1, sizeof *w);

	if (w)
		w->match = pcre2_match_data_create(1, NULL);
	if (!w || !w->match) {
		free(w);
		return SL_ERR_NOMEM;
	}
	w->pattern = p;
	*out = w;
	return SL_OK;
}

void sl_pattern_work_close(struct sl_pattern_work *w)
{
	if (w)
		pcre2_match_data_free(w->match);
	free(w);
}

enum sl_err sl_pattern_next(struct sl_pattern_work *w, const char *text, size_t len, size_t at, size_t *end)
{
	const pcre2_code *code = w->pattern->code;
	PCRE2_SPTR subject = (PCRE2_SPTR)text;
	int n = w->pattern->compiled ? pcre2_jit_match(code, subject, len, at, 0, w->match, NULL)
				     : pcre2_match(code, subject, len, at, PCRE2_NO_UTF_CHECK, w->match, NULL);

	if (n <= 0 || pcre2_get_ovector_pointer(w->match)[1] <= at)
		return SL_ERR_NOMEM; /* the pattern matches everywhere, so PCRE2 ran out of stack or heap */
	*end = pcre2_get_ovector_pointer(w->match)[1];
	return SL_OK;
}
