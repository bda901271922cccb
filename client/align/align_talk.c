#include "client/align/align_talk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { VERSION = 2, SECRET = sizeof(struct sl_key), POINTS_MOST = SL_SPLIT_COUNT * SL_SET_MAX_SAMPLES * 2 };

/* One of the points of labels times both scalars. */
struct answer {
	uint8_t point[SL_PSI_POINT];
	int64_t place; /* among the points of labels; -1: it was found */
};

typedef uint8_t point[SL_PSI_POINT];

/* A common row, as points: the row of features, that of labels, and both scalars' product. */
enum { F, L, Q, COLUMNS };

struct sl_talk {
	struct sl_talk_spec spec;
	struct sl_psi *psi;
	int64_t all;                   /* own points */
	int64_t block, marks;          /* points of each party, and marks, that fit in a letter */
	int64_t rounds, last;          /* letters with points; the last letter's number */
	int64_t said, heard;           /* letters */
	struct answer *answer;         /* [points of labels] */
	int64_t answers;               /* that are known */
	point *own, *theirs, *product; /* [all] own points, [theirs] the other's, and these times own scalar */
	point *column[COLUMNS];        /* [n_common] */
	int64_t n_common;
	point sum[2];    /* of F and L */
	uint8_t *mark;   /* labels: [theirs] points of Q, or zeros: the row is not common */
	int64_t *common; /* [points of features]: the number of own name; -1: that row is not common */
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
	t->marks = ((int64_t)spec->bytes - SECRET - SL_PSI_PROOF) / SL_PSI_POINT;
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
	free(t->own);
	free(t->theirs);
	free(t->product);
	for (int c = 0; c < COLUMNS; c++)
		free(t->column[c]);
	free(t->mark);
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
	const int64_t points = in_block(t->all, t->block, round);

	if (points) {
		sl_psi_blind(t->psi, round * t->block, points, content);
		memcpy(t->own[round * t->block], content, (size_t)points * SL_PSI_POINT);
	}
	if (answers)
		memcpy(content + t->block * SL_PSI_POINT, t->product[(round - 1) * t->block],
		       (size_t)answers * SL_PSI_POINT);
}

static void say_marks(const struct sl_talk *t, int64_t letter, uint8_t *content)
{
	memcpy(content, &t->result.secret, SECRET);
	if (t->n_common)
		sl_psi_prove(t->psi, t->sum[F], content + SECRET);
	memcpy(content + SECRET + SL_PSI_PROOF, t->mark + letter * t->marks * SL_PSI_POINT,
	       (size_t)in_block(t->result.theirs, t->marks, letter) * SL_PSI_POINT);
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
		say_marks(t, k - t->rounds - 2, content);
	else if (!t->spec.labels && k == t->last - 1 && t->n_common)
		sl_psi_prove(t->psi, t->sum[L], content);
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
	const int64_t places = t->spec.labels ? theirs : t->all, labels = t->spec.labels ? t->all : theirs;
	bool room = true;

	t->rounds = blocks(most, t->block);
	t->last = t->rounds + 3 + blocks(places, t->marks);
	t->answer = malloc((size_t)labels * sizeof *t->answer);
	t->own = malloc((size_t)t->all * sizeof *t->own);
	t->theirs = malloc((size_t)theirs * sizeof *t->theirs);
	t->product = malloc((size_t)theirs * sizeof *t->product);
	t->mark = calloc((size_t)places, SL_PSI_POINT);
	for (int c = 0; c < COLUMNS; c++) {
		t->column[c] = malloc((size_t)(places < labels ? places : labels) * sizeof *t->column[c]);
		room = room && t->column[c];
	}
	t->common = malloc((size_t)places * sizeof *t->common);
	t->result.row = malloc((size_t)places * sizeof *t->result.row);
	room = room && t->answer && t->own && t->theirs && t->product && t->mark && t->common && t->result.row;
	return room ? SL_OK : no_memory(fail);
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

/* The answer with this point; NULL: there is none. */
static struct answer *find_answer(const struct sl_talk *t, const uint8_t *wanted)
{
	return bsearch(wanted, t->answer, (size_t)t->answers, sizeof *t->answer, by_point);
}

/* Notes a common row as points. */
static void note_common(struct sl_talk *t, const uint8_t *f, const uint8_t *l, const uint8_t *q)
{
	memcpy(t->column[F][t->n_common], f, SL_PSI_POINT);
	memcpy(t->column[L][t->n_common], l, SL_PSI_POINT);
	memcpy(t->column[Q][t->n_common++], q, SL_PSI_POINT);
}

static enum sl_err sum_common(struct sl_talk *t, struct sl_fail *fail)
{
	return !t->n_common ? SL_OK
			    : sl_psi_sums(t->psi, t->column[F][0], t->column[L][0], t->column[Q][0], t->n_common,
					  t->sum, fail);
}

/* Labels has everything: the common order is that of the points of features, which only features could explain. */
static enum sl_err find_common(struct sl_talk *t, struct sl_fail *fail)
{
	qsort(t->answer, (size_t)t->answers, sizeof *t->answer, by_point);
	for (int64_t i = 0; i < t->result.theirs; i++) {
		struct answer *found = find_answer(t, t->product[i]);

		if (found && found->place < 0)
			return lies(t, "a point twice", fail);
		t->common[i] = found ? sl_psi_name_at(t->psi, found->place) : -1;
		if (found && t->common[i] >= 0) {
			memcpy(t->mark + i * SL_PSI_POINT, t->product[i], SL_PSI_POINT);
			note_common(t, t->theirs[i], t->own[found->place], t->product[i]);
		}
		if (found)
			found->place = -1;
	}
	if (getrandom(&t->result.secret, SECRET, 0) != SECRET)
		return sl_fail_set(fail, SL_ERR_OS, "no random bytes for a secret");
	gather(t);
	return sum_common(t, fail);
}

static void note_answer(struct sl_talk *t, const uint8_t *at)
{
	memcpy(t->answer[t->answers].point, at, SL_PSI_POINT);
	t->answer[t->answers].place = t->answers;
	t->answers++;
}

static enum sl_err hear_points(struct sl_talk *t, int64_t round, const uint8_t *content, struct sl_fail *fail)
{
	const int64_t points = in_block(t->result.theirs, t->block, round), first = round * t->block;
	const int64_t answers = t->spec.labels ? in_block(t->all, t->block, round - 1) : 0;
	const uint8_t *at = content + t->block * SL_PSI_POINT;
	struct sl_fail why;
	enum sl_err err = SL_OK;

	if (points) {
		memcpy(t->theirs[first], content, (size_t)points * SL_PSI_POINT);
		err = sl_psi_multiply(t->psi, content, points, t->product[first], &why);
	}
	if (err)
		return sl_fail_set(fail, SL_ERR_PROTOCOL, "member %d: %s", t->spec.other, why.text);
	for (int64_t i = 0; i < answers; i++, at += SL_PSI_POINT)
		note_answer(t, at);
	for (int64_t i = first; i < first + points && !t->spec.labels; i++)
		note_answer(t, t->product[i]);
	return t->spec.labels && round == t->rounds ? find_common(t, fail) : SL_OK;
}

/* If a list has no common row, there is nothing to write. */
static enum sl_err write_result(const struct sl_talk *t, struct sl_fail *fail)
{
	const bool empty = !t->result.n[0] || (t->spec.lists > 1 && !t->result.n[1]);

	return empty ? SL_OK : t->spec.write(t->spec.arg, &t->result, fail);
}

/* The other party's word for the common rows: it must have multiplied this party's points by its scalar, the one by
 * which it multiplied its names. */
static enum sl_err check_proof(const struct sl_talk *t, const uint8_t *proof, struct sl_fail *fail)
{
	return !t->n_common || sl_psi_proven(t->psi, (const point *)t->sum, t->spec.labels ? L : F, proof)
		       ? SL_OK
		       : lies(t, "a proof of common rows that does not hold", fail);
}

/* A mark must be one of the points of labels times both scalars, and can stand for one row. */
static enum sl_err hear_mark(struct sl_talk *t, int64_t i, const uint8_t *mark, struct sl_fail *fail)
{
	static const point none;
	struct answer *found;

	t->common[i] = -1;
	if (memcmp(mark, none, SL_PSI_POINT) == 0)
		return SL_OK;
	found = find_answer(t, mark);
	t->common[i] = sl_psi_name_at(t->psi, i);
	if (!found || found->place < 0 || t->common[i] < 0)
		return lies(t, "word of a common row that is none", fail);
	note_common(t, t->own[i], t->theirs[found->place], mark);
	found->place = -1;
	return SL_OK;
}

static enum sl_err hear_marks(struct sl_talk *t, int64_t letter, const uint8_t *content, struct sl_fail *fail)
{
	const int64_t first = letter * t->marks, n = in_block(t->all, t->marks, letter);
	const uint8_t *mark = content + SECRET + SL_PSI_PROOF;
	enum sl_err err = SL_OK;

	memcpy(&t->result.secret, content, SECRET);
	if (!letter)
		qsort(t->answer, (size_t)t->answers, sizeof *t->answer, by_point);
	for (int64_t i = 0; i < n && !err; i++)
		err = hear_mark(t, first + i, mark + i * SL_PSI_POINT, fail);
	if (err || first + n < t->all)
		return err;
	gather(t);
	err = sum_common(t, fail);
	if (!err)
		err = check_proof(t, content + SECRET, fail);
	return err ? err : write_result(t, fail);
}

enum sl_err sl_talk_hear(struct sl_talk *t, const uint8_t *content, struct sl_fail *fail)
{
	const int64_t k = t->heard++;
	enum sl_err err;

	if (!k)
		return hear_counts(t, content, fail);
	if (k <= t->rounds + 1)
		return hear_points(t, k - 1, content, fail);
	if (!t->spec.labels && k < t->last - 1)
		return hear_marks(t, k - t->rounds - 2, content, fail);
	if (!t->spec.labels || k != t->last - 1)
		return SL_OK;
	err = check_proof(t, content, fail);
	return err ? err : write_result(t, fail);
}
