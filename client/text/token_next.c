#include "client/text/token_next.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/grow.h"

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for tokens");
}

static enum sl_err append(struct sl_token_packer *p, const int32_t *id, int32_t n, struct sl_fail *fail)
{
	if (n > SL_TEXT_MOST - p->n)
		return sl_fail_set(fail, SL_ERR_DATA, "a text of more than %d tokens", SL_TEXT_MOST);
	if (!sl_grow(&p->id, &p->cap, (size_t)(p->n + n), sizeof *p->id))
		return no_memory(fail);
	memcpy(p->id + p->n, id, (size_t)n * sizeof *id);
	p->n += n;
	return SL_OK;
}

/* *both: the two texts as one. */
static enum sl_err join(struct sl_token_packer *p, struct sl_bytes a, struct sl_bytes b, struct sl_bytes *both,
			struct sl_fail *fail)
{
	*both = a;
	if (!b.data)
		return SL_OK;
	free(p->text);
	p->text = malloc(a.len + b.len + 1);
	if (!p->text)
		return no_memory(fail);
	memcpy(p->text, a.data, a.len);
	memcpy(p->text + a.len, b.data, b.len);
	*both = (struct sl_bytes){(const uint8_t *)p->text, a.len + b.len};
	return SL_OK;
}

/* *border: how many tokens from `from` on, those of both texts together, are also those of the prompt alone. */
static enum sl_err find_border(struct sl_token_packer *p, struct sl_bytes prompt, int32_t from, int32_t *border,
			       struct sl_fail *fail)
{
	struct sl_tokens alone;
	enum sl_err err = sl_tokenizer_encode(p->work, prompt, (struct sl_bytes){NULL, 0}, 0, &alone, fail);
	int32_t n = 0;

	while (!err && n < alone.n && from + n < p->n && alone.id[n] == p->id[from + n])
		n++;
	*border = n;
	return err;
}

/* Hands over the tokens [from, to) as a row, whose first `border` tokens are no labels; or leaves it out. */
static enum sl_err put(struct sl_token_packer *p, int32_t from, int32_t to, int32_t border, struct sl_fail *fail)
{
	const int32_t n = to - from, first = border < n ? border : n;
	const struct sl_tokens row = {p->id + from, n, first, n};

	if (n < 2 || first == n) {
		p->left_out++;
		return SL_OK;
	}
	return p->put(p->arg, &row, fail);
}

/* Hands over the text at id[0 … n) as rows. */
static enum sl_err put_text(struct sl_token_packer *p, int32_t border, struct sl_fail *fail)
{
	const int32_t end = p->how->pack == SL_TOKEN_PACK_NONE && p->n > p->most ? p->most : p->n;
	enum sl_err err = SL_OK;

	for (int32_t at = 0; at < end && !err; at += p->most)
		err = put(p, at, end - at > p->most ? at + p->most : end, border > at ? border - at : 0, fail);
	p->n = 0;
	return err;
}

/* Hands over all full rows of joined texts; the rest stays. */
static enum sl_err put_joined(struct sl_token_packer *p, struct sl_fail *fail)
{
	int32_t at = 0;
	enum sl_err err = SL_OK;

	for (; p->n - at >= p->most && !err; at += p->most)
		err = put(p, at, at + p->most, 0, fail);
	memmove(p->id, p->id + at, (size_t)(p->n - at) * sizeof *p->id);
	p->n -= at;
	return err;
}

enum sl_err sl_token_packer_add(struct sl_token_packer *p, struct sl_bytes a, struct sl_bytes b, struct sl_fail *fail)
{
	const int32_t from = p->n;
	struct sl_tokens whole;
	struct sl_bytes both;
	int32_t border = 0;
	enum sl_err err;

	if (a.len + (b.data ? b.len : 0) == 0) {
		p->left_out++;
		return SL_OK;
	}
	err = join(p, a, b, &both, fail);
	if (!err)
		err = sl_tokenizer_encode(p->work, both, (struct sl_bytes){NULL, 0}, 0, &whole, fail);
	if (!err)
		err = append(p, whole.id, whole.n, fail);
	if (!err && p->how->end >= 0 && (p->n == from || p->id[p->n - 1] != p->how->end))
		err = append(p, &p->how->end, 1, fail);
	if (!err && b.data && !p->how->all)
		err = find_border(p, a, from, &border, fail);
	if (err)
		return err;
	return p->how->pack == SL_TOKEN_PACK_JOIN ? put_joined(p, fail) : put_text(p, border, fail);
}

enum sl_err sl_token_packer_end(struct sl_token_packer *p, struct sl_fail *fail)
{
	return p->n ? put_text(p, 0, fail) : SL_OK;
}

void sl_token_packer_close(struct sl_token_packer *p)
{
	free(p->id);
	free(p->text);
}
