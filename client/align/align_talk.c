#include "client/align/align_talk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { VERSION = 1, SECRET = sizeof(struct sl_key), POINTS_MOST = SL_SPLIT_COUNT * SL_SET_MAX_SAMPLES * 2 };

/* One of this party's points times both scalars. */
struct answer {
	uint8_t point[SL_PSI_POINT];
	int64_t place; /* among this party's points; -1: it was found */
};

struct sl_talk {
	struct sl_talk_spec spec;
	struct sl_psi *psi;
	int64_t all;                    /* own points */
	int64_t block, bits;            /* points and bits that fit in a letter */
	int64_t rounds, last;           /* letters with points; the last letter's number */
	int64_t said, heard;            /* letters */
	struct answer *answer;          /* labels: [all] */
	uint8_t (*point)[SL_PSI_POINT]; /* times own scalar; labels: [theirs], features: [block] of the letter before */
	int64_t *common;                /* [points of features]: the number of own name; -1: that row is not common */
	struct sl_talk_result result;
};

static enum sl_err no_memory(struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for an alignment");
}

static int64_t blocks(int64_t all, int64_t size)
{
	return (all + size - 1) / size;
}

/* How many of `all` are in a block; before the first and behind the last one there are none. */
static int64_t in_block(int64_t all, int64_t size, int64_t block)
{
	const int64_t left = all - block * size;

	return block < 0 || left < 0 ? 0 : left < size ? left : size;
}

enum sl_err sl_talk_open(struct sl_talk **out, const struct sl_talk_spec *spec, struct sl_fail *fail)
{
	struct sl_talk *t = calloc(1, sizeof *t);
	enum sl_err err;

	if (!t)
		return no_memory(fail);
	t->spec = *spec;
	t->block = (int64_t)spec->bytes / (2 * SL_PSI_POINT);
	t->bits = ((int64_t)spec->bytes - SECRET) * 8;
	for (t->all = spec->pad ? 1 : spec->n; t->all < spec->n;)
		t->all *= 2;
	err = sl_psi_open(&t->psi, spec->name, spec->n, t->all, spec->pool, fail);
	if (err)
		sl_talk_close(t);
	else
		*out = t;
	return err;
}

void sl_talk_close(struct sl_talk *t)
{
	if (!t)
		return;
	sl_psi_close(t->psi);
	free(t->answer);
	free(t->point);
	free(t->common);
	free(t->result.row);
	explicit_bzero(t, sizeof *t);
	free(t);
}

static bool knows_last(const struct sl_talk *t)
{
	return t->result.theirs > 0;
}

bool sl_talk_over(const struct sl_talk *t)
{
	return knows_last(t) && (t->spec.labels ? t->said : t->heard) > t->last;
}

int sl_talk_percent(const struct sl_talk *t)
{
	return knows_last(t) ? (int)(t->said * 100 / (t->last + 1)) : 0;
}

const struct sl_talk_result *sl_talk_result(const struct sl_talk *t)
{
	return &t->result;
}

/* ---- saying */

static void say_counts(const struct sl_talk *t, uint8_t *content)
{
	const uint32_t count = (uint32_t)t->all;

	content[0] = VERSION;
	content[1] = t->spec.labels;
	content[2] = (uint8_t)t->spec.lists;
	memcpy(content + 4, &count, sizeof count);
}

static void say_points(const struct sl_talk *t, int64_t round, uint8_t *content)
{
	const int64_t answers = t->spec.labels ? 0 : in_block(t->result.theirs, t->block, round - 1);

	sl_psi_blind(t->psi, round * t->block, in_block(t->all, t->block, round), content);
	if (answers)
		memcpy(content + t->block * SL_PSI_POINT, t->point, (size_t)answers * SL_PSI_POINT);
}

static void say_bits(const struct sl_talk *t, int64_t letter, uint8_t *content)
{
	const int64_t *common = t->common + letter * t->bits;

	memcpy(content, &t->result.secret, SECRET);
	for (int64_t i = 0; i < in_block(t->result.theirs, t->bits, letter); i++)
		content[SECRET + i / 8] |= (uint8_t)((common[i] >= 0) << i % 8);
}

bool sl_talk_say(struct sl_talk *t, uint8_t *content)
{
	const int64_t k = t->said;

	if (k > t->heard || (k && k + !t->spec.labels > t->last))
		return false;
	memset(content, 0, t->spec.bytes);
	if (!k)
		say_counts(t, content);
	else if (k <= t->rounds + 1)
		say_points(t, k - 1, content);
	else if (t->spec.labels && k < t->last - 1)
		say_bits(t, k - t->rounds - 2, content);
	t->said++;
	return true;
}

/* ---- hearing */

static enum sl_err lies(const struct sl_talk *t, const char *what, struct sl_fail *fail)
{
	return sl_fail_set(fail, SL_ERR_PROTOCOL, "member %d sent %s", t->spec.other, what);
}

/* From both counts follows what each letter is. */
static enum sl_err make_room(struct sl_talk *t, struct sl_fail *fail)
{
	const int64_t theirs = t->result.theirs, most = theirs > t->all ? theirs : t->all;
	const int64_t places = t->spec.labels ? theirs : t->all;

	t->rounds = blocks(most, t->block);
	t->last = t->rounds + 3 + blocks(places, t->bits);
	t->answer = malloc(t->spec.labels ? (size_t)t->all * sizeof *t->answer : 1);
	t->point = malloc((size_t)(t->spec.labels ? theirs : t->block) * sizeof *t->point);
	t->common = malloc((size_t)places * sizeof *t->common);
	t->result.row = malloc((size_t)places * sizeof *t->result.row);
	return t->answer && t->point && t->common && t->result.row ? SL_OK : no_memory(fail);
}

static enum sl_err hear_counts(struct sl_talk *t, const uint8_t *content, struct sl_fail *fail)
{
	uint32_t count;

	memcpy(&count, content + 4, sizeof count);
	if (content[0] != VERSION)
		return sl_fail_set(fail, SL_ERR_VERSION, "member %d aligns by version %u, this client by version %d",
				   t->spec.other, content[0], VERSION);
	if (count < 1 || count > POINTS_MOST)
		return lies(t, "a count of points that is none", fail);
	if (content[1] == t->spec.labels)
		return sl_fail_at(fail, "share.role", SL_ERR_MISMATCH, "member %d has the same role", t->spec.other);
	if (content[2] != t->spec.lists)
		return sl_fail_at(fail, "data.split", SL_ERR_MISMATCH,
				  "one member divides one set of rows, and the other has two sets: both need the same");
	t->result.theirs = count;
	return make_room(t, fail);
}

/* The numbers of common rows, list by list. */
static void gather(struct sl_talk *t)
{
	uint32_t *row = t->result.row;

	for (int list = 0; list < t->spec.lists; list++)
		for (int64_t i = 0; i < (t->spec.labels ? t->result.theirs : t->all); i++)
			if (t->common[i] >= 0 && t->spec.name[t->common[i]].list == list) {
				*row++ = (uint32_t)t->common[i];
				t->result.n[list]++;
			}
}

static int by_point(const void *a, const void *b)
{
	return memcmp(a, b, SL_PSI_POINT);
}

/* Labels has everything: the common order is that of the points of features, which only features could explain. */
static enum sl_err find_common(struct sl_talk *t, struct sl_fail *fail)
{
	qsort(t->answer, (size_t)t->all, sizeof *t->answer, by_point);
	for (int64_t i = 0; i < t->result.theirs; i++) {
		struct answer *found = bsearch(t->point[i], t->answer, (size_t)t->all, sizeof *t->answer, by_point);

		if (found && found->place < 0)
			return lies(t, "a point twice", fail);
		t->common[i] = found ? sl_psi_name_at(t->psi, found->place) : -1;
		if (found)
			found->place = -1;
	}
	if (getrandom(&t->result.secret, SECRET, 0) != SECRET)
		return sl_fail_set(fail, SL_ERR_OS, "no random bytes for a secret");
	gather(t);
	return SL_OK;
}

static enum sl_err hear_points(struct sl_talk *t, int64_t round, const uint8_t *content, struct sl_fail *fail)
{
	const int64_t points = in_block(t->result.theirs, t->block, round);
	const int64_t first = (round - 1) * t->block;
	const int64_t answers = t->spec.labels ? in_block(t->all, t->block, round - 1) : 0;
	const uint8_t *at = content + t->block * SL_PSI_POINT;
	struct sl_fail why;
	enum sl_err err = SL_OK;

	if (points)
		err = sl_psi_multiply(t->psi, content, points, t->point[t->spec.labels ? round * t->block : 0], &why);
	if (err)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "member %d: %s", t->spec.other, why.text);
	for (int64_t i = 0; i < answers; i++, at += SL_PSI_POINT) {
		memcpy(t->answer[first + i].point, at, SL_PSI_POINT);
		t->answer[first + i].place = first + i;
	}
	return t->spec.labels && round == t->rounds ? find_common(t, fail) : SL_OK;
}

/* If a list has no common row, there is nothing to write. */
static enum sl_err write_result(const struct sl_talk *t, struct sl_fail *fail)
{
	const bool empty = !t->result.n[0] || (t->spec.lists > 1 && !t->result.n[1]);

	return empty ? SL_OK : t->spec.write(t->spec.arg, &t->result, fail);
}

static enum sl_err hear_bits(struct sl_talk *t, int64_t letter, const uint8_t *content, struct sl_fail *fail)
{
	const int64_t first = letter * t->bits, n = in_block(t->all, t->bits, letter);

	memcpy(&t->result.secret, content, SECRET);
	for (int64_t i = 0; i < n; i++) {
		const bool is = content[SECRET + i / 8] >> i % 8 & 1;

		t->common[first + i] = is ? sl_psi_name_at(t->psi, first + i) : -1;
		if (is && t->common[first + i] < 0)
			return lies(t, "word of a common row that is none", fail);
	}
	if (first + n < t->all)
		return SL_OK;
	gather(t);
	return write_result(t, fail);
}

enum sl_err sl_talk_hear(struct sl_talk *t, const uint8_t *content, struct sl_fail *fail)
{
	const int64_t k = t->heard++;

	if (!k)
		return hear_counts(t, content, fail);
	if (k <= t->rounds + 1)
		return hear_points(t, k - 1, content, fail);
	if (!t->spec.labels && k < t->last - 1)
		return hear_bits(t, k - t->rounds - 2, content, fail);
	return t->spec.labels && k == t->last - 1 ? write_result(t, fail) : SL_OK;
}
