/* An alignment of two parties through a server, one of which lies, or the server. Bytes 0 to 4 of the input choose the
 * lists and who lies; each further five change a byte or a point: of which letter, where, and how. What a party writes
 * must be rows that it has, each once, however the other one lies. A letter that the server changes must be refused.
 * Without changes both parties find what a plain join finds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/align/align_talk.h"
#include "common/link/seal.h"

enum { MOST = 24, LETTER = 320, CONTENT = LETTER - SL_SEAL_EXTRA, EDIT = 5, HEAD = 5, POINTS = CONTENT / SL_PSI_POINT };

struct party {
	struct sl_talk *talk;
	struct sl_seal *seal;
	struct sl_psi_name name[MOST];
	char text[MOST][8];
	int64_t n, found;
	int number[MOST]; /* of each row's name, which both parties would have */
	int common[MOST]; /* the names that it wrote, in order */
	bool wrote;
};

static struct party party[2];
static const uint8_t *input;
static size_t input_len;

static void must(bool good)
{
	if (!good)
		abort();
}

static enum sl_err store(void *arg, const struct sl_talk_result *r, struct sl_fail *fail)
{
	struct party *p = arg;
	bool seen[MOST] = {false};

	must(!p->wrote && r->n[0] >= 0 && r->n[1] >= 0);
	p->wrote = true;
	p->found = r->n[0] + r->n[1];
	must(p->found <= p->n);
	for (int64_t i = 0; i < p->found; i++) {
		must(r->row[i] < p->n && !seen[r->row[i]] && p->name[r->row[i]].list == (i >= r->n[0]));
		seen[r->row[i]] = true;
		p->common[i] = p->number[r->row[i]] * 2 + p->name[r->row[i]].list;
	}
	return SL_OK;
}

/* Rows with every `step`-th name from `from` on. */
static void name_rows(struct party *p, int n, int from, int step, int lists)
{
	for (p->n = 0; p->n < n; p->n++) {
		p->number[p->n] = from + (int)p->n * step;
		snprintf(p->text[p->n], sizeof p->text[0], "%d", p->number[p->n]);
		p->name[p->n] = (struct sl_psi_name){p->text[p->n], lists > 1 && p->number[p->n] % 3 == 0};
	}
}

static int64_t joined(void)
{
	int64_t n = 0;

	for (int64_t i = 0; i < party[0].n; i++)
		for (int64_t k = 0; k < party[1].n; k++)
			n += party[0].number[i] == party[1].number[k];
	return n;
}

/* Applies the input's changes of letter `k` by `who`. Returns whether it is another one then. */
static bool change(int who, int64_t k, uint8_t *letter, size_t len)
{
	uint8_t was[LETTER];

	memcpy(was, letter, len);
	for (const uint8_t *e = input + HEAD; e + EDIT <= input + input_len; e += EDIT) {
		if ((e[0] & 1) != who || e[1] != k)
			continue;
		if (e[0] & 2) /* a point comes twice */
			memcpy(letter + e[2] % POINTS * SL_PSI_POINT, was + e[3] % POINTS * SL_PSI_POINT, SL_PSI_POINT);
		else
			letter[(size_t)(e[2] | e[3] << 8) % len] ^= e[4];
	}
	return memcmp(was, letter, len) != 0;
}

/* Hands on the next letter of `who`. False: there is none; *refused: the other party ends the alignment. */
static bool hand_on(int who, int64_t k, bool server, bool *lied, bool *refused)
{
	struct party *from = &party[who], *to = &party[!who];
	uint8_t content[CONTENT], letter[LETTER];
	struct sl_fail fail;
	bool changed;

	if (*refused || !sl_talk_say(from->talk, content))
		return false;
	if (!server && change(who, k, content, sizeof content))
		*lied = true;
	sl_seal_write(from->seal, content, sizeof content, letter);
	changed = server && change(who, k, letter, sizeof letter);
	*refused = sl_seal_read(to->seal, (struct sl_bytes){letter, sizeof letter}, content, &fail) != SL_OK;
	must(changed == *refused);
	if (!*refused)
		*refused = sl_talk_hear(to->talk, content, &fail) != SL_OK;
	must(!*refused || *lied || changed);
	return true;
}

static void open_both(int lists, bool pad)
{
	struct sl_keypair pair[2];
	uint8_t fresh[2][SL_KEY_BYTES];
	struct sl_fail fail;

	for (int k = 0; k < 2; k++)
		must(!sl_keypair_make(&pair[k], &fail));
	for (int k = 0; k < 2; k++) {
		const struct sl_talk_spec spec = {.labels = k,
						  .other = !k,
						  .name = party[k].name,
						  .n = party[k].n,
						  .lists = lists,
						  .pad = pad,
						  .bytes = CONTENT,
						  .write = store,
						  .arg = &party[k]};

		party[k].wrote = false;
		party[k].found = 0;
		must(!sl_talk_open(&party[k].talk, &spec, &fail));
		must(!sl_seal_open(&party[k].seal, &pair[k], &pair[!k].public_key, k == 0, "group", &fail));
		sl_seal_fresh(party[k].seal, fresh[k]);
	}
	for (int k = 0; k < 2; k++)
		must(!sl_seal_meet(party[k].seal, fresh[!k], &fail));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	bool lied = false, refused = false, more = true;

	if (len < HEAD)
		return 0;
	input = data;
	input_len = len;
	name_rows(&party[0], 1 + data[0] % MOST, 0, 1 + data[1] % 3, 1 + data[4] % 2);
	name_rows(&party[1], 1 + data[2] % MOST, data[3] % 32, 1 + data[3] / 32 % 3, 1 + data[4] % 2);
	open_both(1 + data[4] % 2, data[4] & 2);
	for (int64_t k = 0; more; k++) {
		more = hand_on(0, k, data[4] & 4, &lied, &refused);
		more = hand_on(1, k, data[4] & 4, &lied, &refused) || more;
	}
	if (!lied && !refused) {
		must(sl_talk_over(party[0].talk) && sl_talk_over(party[1].talk) && party[0].wrote == party[1].wrote);
		for (int k = 0; k < 2; k++)
			must(!party[k].wrote || party[k].found == joined());
		must(memcmp(party[0].common, party[1].common, (size_t)party[0].found * sizeof(int)) == 0);
	}
	for (int k = 0; k < 2; k++) {
		sl_talk_close(party[k].talk);
		sl_seal_close(party[k].seal);
	}
	return 0;
}
