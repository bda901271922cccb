/* Alignment of two parties' rows, both in this process: the result beside a plain join; points that are none; letters
 * that a server changes, repeats, swaps, drops, replays or sends back; the file of the result. */
#include <unistd.h>

#include "client/align/align_talk.h"
#include "client/data/aligned.h"
#include "common/base/log.h"
#include "common/link/seal.h"
#include "tests/support/unit.h"

enum { MOST = 400, LETTER = 700, CONTENT = LETTER - SL_SEAL_EXTRA, KEPT = 64 };

struct party {
	struct sl_keypair pair;
	struct sl_seal *seal;
	struct sl_talk *talk;
	struct sl_psi_name name[MOST];
	char text[MOST][16];
	int64_t n;
	int writes;
	struct sl_talk_result written;
	uint32_t row[MOST];
};

static struct party features, labels;

static uint64_t state = 7;

static uint32_t draw(uint32_t end)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % end;
}

static enum sl_err store(void *arg, const struct sl_talk_result *result, struct sl_fail *fail)
{
	struct party *p = arg;
	const int64_t n = result->n[0] + result->n[1];

	p->writes++;
	p->written = *result;
	memcpy(p->row, result->row, (size_t)n * sizeof *p->row);
	return SL_OK;
}

static void name_row(struct party *p, int number, int list)
{
	snprintf(p->text[p->n], sizeof p->text[0], "id-%d", number);
	p->name[p->n] = (struct sl_psi_name){p->text[p->n], list};
	p->n++;
}

static void begin(int lists, bool pad)
{
	struct sl_fail fail;

	for (int k = 0; k < 2; k++) {
		struct party *p = k ? &labels : &features, *other = k ? &features : &labels;
		const struct sl_talk_spec spec = {.labels = k,
						  .other = !k,
						  .name = p->name,
						  .n = p->n,
						  .lists = lists,
						  .pad = pad,
						  .bytes = CONTENT,
						  .write = store,
						  .arg = p};

		if (!k) {
			assert_int_equal(sl_keypair_make(&features.pair, &fail), SL_OK);
			assert_int_equal(sl_keypair_make(&labels.pair, &fail), SL_OK);
		}
		p->writes = 0;
		assert_int_equal(sl_talk_open(&p->talk, &spec, &fail), SL_OK);
		assert_int_equal(sl_seal_open(&p->seal, &p->pair, &other->pair.public_key, !k, "group", &fail), SL_OK);
	}
}

static void end(void)
{
	for (int k = 0; k < 2; k++) {
		struct party *p = k ? &labels : &features;

		sl_talk_close(p->talk);
		sl_seal_close(p->seal);
		*p = (struct party){.n = 0};
	}
}

static void meet(void)
{
	uint8_t fresh[SL_KEY_BYTES];
	struct sl_fail fail;

	sl_seal_fresh(features.seal, fresh);
	assert_int_equal(sl_seal_meet(labels.seal, fresh, &fail), SL_OK);
	sl_seal_fresh(labels.seal, fresh);
	assert_int_equal(sl_seal_meet(features.seal, fresh, &fail), SL_OK);
}

/* What a party puts in its n-th letter, before it is sealed; len 0: its first point also as its second. And how that is
 * refused. */
struct forgery {
	const char *words;
	enum sl_err err;
	bool up, pad; /* up: by features */
	int n, at, to, len;
};

static void forge(const struct forgery *f, uint8_t *content)
{
	if (f->len)
		memset(content + f->at, f->to, (size_t)f->len);
	else
		memcpy(content + SL_PSI_POINT, content, SL_PSI_POINT);
}

/* A server between the two. `lie` may change the n-th letter of a direction, or say how often it is delivered. */
struct server {
	int (*lie)(struct server *s, int n, bool up, uint8_t *letter);
	uint8_t kept[2][KEPT][LETTER]; /* [up]: by features */
	int n[2];
	const struct forgery *forgery;
};

/* One letter from a party to the other. False: it says nothing. */
static bool carry(struct server *s, struct party *from, struct party *to, enum sl_err *err, struct sl_fail *fail)
{
	const bool up = from == &features;
	uint8_t content[CONTENT], letter[LETTER];
	const int n = s->n[up];
	int times = 1;

	if (!sl_talk_say(from->talk, content))
		return false;
	if (s->forgery && s->forgery->up == up && s->forgery->n == n)
		forge(s->forgery, content);
	sl_seal_write(from->seal, content, CONTENT, letter);
	if (n < KEPT)
		memcpy(s->kept[up][n], letter, LETTER);
	s->n[up]++;
	if (s->lie)
		times = s->lie(s, n, up, letter);
	for (int i = 0; i < times && !*err; i++) {
		*err = sl_seal_read(to->seal, (struct sl_bytes){letter, LETTER}, content, fail);
		if (!*err)
			*err = sl_talk_hear(to->talk, content, fail);
	}
	return true;
}

/* Until both have the result, one is refused, or both wait. */
static enum sl_err talk(struct server *s, struct sl_fail *fail)
{
	enum sl_err err = SL_OK;
	bool said = true;

	s->n[0] = s->n[1] = 0;
	while (said && !err && !(sl_talk_over(features.talk) && sl_talk_over(labels.talk))) {
		said = carry(s, &features, &labels, &err, fail);
		if (!err)
			said |= carry(s, &labels, &features, &err, fail);
	}
	return err || (sl_talk_over(features.talk) && sl_talk_over(labels.talk)) ? err : SL_ERR_TIMEOUT;
}

static int count_of(const struct party *p, const struct sl_psi_name *name)
{
	int n = 0;

	for (int64_t i = 0; i < p->n; i++)
		n += p->name[i].list == name->list && strcmp(p->name[i].text, name->text) == 0;
	return n;
}

/* The results are the plain join of the two lists, in one order. */
static void check_join(int lists)
{
	int64_t common[2] = {0}, at = 0;

	for (int64_t i = 0; i < labels.n; i++)
		common[labels.name[i].list] += count_of(&features, &labels.name[i]);
	if (!common[0] || (lists > 1 && !common[1])) {
		assert_int_equal(features.writes + labels.writes, 0);
		assert_int_equal(sl_talk_result(features.talk)->n[0], common[0]);
		assert_int_equal(sl_talk_result(labels.talk)->n[0], common[0]);
		return;
	}
	assert_int_equal(features.writes, 1);
	assert_int_equal(labels.writes, 1);
	assert_memory_equal(&features.written.secret, &labels.written.secret, sizeof(struct sl_key));
	for (int list = 0; list < lists; list++) {
		assert_int_equal(features.written.n[list], common[list]);
		assert_int_equal(labels.written.n[list], common[list]);
		for (int64_t i = 0; i < common[list]; i++, at++) {
			const struct sl_psi_name *a = &features.name[features.row[at]],
						 *b = &labels.name[labels.row[at]];

			assert_string_equal(a->text, b->text);
			assert_int_equal(a->list, list);
			assert_int_equal(b->list, list);
			for (int64_t before = 0; before < at; before++)
				assert_int_not_equal(labels.row[before], labels.row[at]);
		}
	}
}

/* Each party gets some of the numbers below `all`, in an order of its own. */
static void draw_rows(int all, int lists, uint32_t percent)
{
	for (int k = 0; k < 2; k++) {
		struct party *p = k ? &labels : &features;
		const int step = k ? 1 : 7; /* 7 and `all` have no common factor */

		for (int i = 0; i < all && p->n < MOST; i++)
			if (draw(100) < percent)
				name_row(p, i * step % all, lists > 1 ? (i * step + (k && !draw(4))) % all % 2 : 0);
		if (!p->n)
			name_row(p, 1000 + k, 0);
	}
}

static void equals_a_plain_join(void **unused)
{
	static struct server honest;
	struct sl_fail fail;

	for (int trial = 0; trial < 24; trial++) {
		const int lists = 1 + trial % 2;

		draw_rows((int[]){1, 2, 40, 150}[trial / 2 % 4], lists, (uint32_t[]){100, 60, 5}[trial % 3]);
		begin(lists, trial % 5 == 0);
		meet();
		assert_int_equal(talk(&honest, &fail), SL_OK);
		check_join(lists);
		end();
	}
}

static void padding_hides_the_count(void **unused)
{
	static struct server honest;
	struct sl_fail fail;

	draw_rows(150, 1, 60);
	begin(1, true);
	meet();
	assert_int_equal(talk(&honest, &fail), SL_OK);
	assert_int_equal(sl_talk_result(labels.talk)->theirs, 128);
	check_join(1);
	end();
}

/* Roles and lists that do not fit. */
static void parties_must_fit(void **unused)
{
	static struct server honest;
	struct sl_talk_spec spec = {.labels = false, .name = labels.name, .n = 1, .lists = 1, .bytes = CONTENT};
	struct sl_fail fail;

	for (int lists = 1; lists <= 2; lists++) {
		draw_rows(40, 1, 60);
		begin(1, false);
		meet();
		sl_talk_close(labels.talk);
		spec.lists = lists;
		spec.labels = lists == 2;
		assert_int_equal(sl_talk_open(&labels.talk, &spec, &fail), SL_OK);
		assert_int_equal(talk(&honest, &fail), SL_ERR_MISMATCH);
		assert_string_equal(fail.key, lists == 1 ? "share.role" : "data.split");
		end();
	}
}

/* ---- a party that lies */

/* Both have counted; each has said its first points, which the other has not heard. */
static void first_points(uint8_t up[CONTENT], uint8_t down[CONTENT])
{
	uint8_t counts[CONTENT];
	struct sl_fail fail;

	assert_true(sl_talk_say(features.talk, counts));
	assert_false(sl_talk_say(features.talk, up)); /* it is the other one's turn */
	assert_int_equal(sl_talk_hear(labels.talk, counts, &fail), SL_OK);
	assert_true(sl_talk_say(labels.talk, counts));
	assert_int_equal(sl_talk_hear(features.talk, counts, &fail), SL_OK);
	assert_true(sl_talk_say(features.talk, up));
	assert_true(sl_talk_say(labels.talk, down));
}

/* What each party hears in place of the other one's points. */
static void bad_points_are_refused(void **unused)
{
	uint8_t content[2][CONTENT];
	struct sl_fail fail;

	for (int bad = 0; bad < 3; bad++) {
		draw_rows(40, 1, 100);
		begin(1, false);
		first_points(content[0], content[1]);
		for (int k = 0; k < 2; k++) {
			if (bad == 0)
				memset(content[k], 0, SL_PSI_POINT); /* zero */
			if (bad == 1)
				memset(content[k] + SL_PSI_POINT, 0xff, SL_PSI_POINT); /* no element */
			if (bad == 2)
				content[k][0] ^= 1; /* a negative one is no canonical encoding */
			assert_int_equal(sl_talk_hear(k ? features.talk : labels.talk, content[k], &fail),
					 SL_ERR_PROTOCOL);
			assert_non_null(strstr(fail.text, k ? "member 1" : "member 0"));
		}
		end();
	}
}

static void lies_are_refused(void **unused)
{
	static const struct forgery lie[] = {
		{"aligns by version 1", SL_ERR_VERSION, .up = true, .at = 0, .to = 1, .len = 1},
		{"a count of points", SL_ERR_PROTOCOL, .up = true, .at = 4, .to = 0, .len = 4},
		{"a count of points", SL_ERR_PROTOCOL, .at = 4, .to = 200, .len = 4},
		{"the same role", SL_ERR_MISMATCH, .up = true, .at = 1, .to = 1, .len = 1},
		{"a point twice", SL_ERR_PROTOCOL, .up = true, .n = 1, .len = 0},
		/* 40 names of 64 points: the others are random */
		{"a common row that is none", SL_ERR_PROTOCOL, .n = 9, .at = 128, .to = 0xff, .len = 8, .pad = true},
		{"a proof of common rows", SL_ERR_PROTOCOL, .n = 12, .at = 40, .to = 1, .len = 8, .pad = true},
		{"a proof of common rows", SL_ERR_PROTOCOL, .up = true, .n = 13, .at = 70, .to = 1, .len = 8,
		 .pad = true},
	};
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof lie / sizeof lie[0]; i++) {
		struct server server = {.forgery = &lie[i]};

		draw_rows(40, 1, 100);
		begin(1, lie[i].pad);
		meet();
		assert_int_equal(talk(&server, &fail), lie[i].err);
		if (!strstr(fail.text, lie[i].words))
			fail_msg("%zu: %s", i, fail.text);
		/* the party that lies may write what it likes */
		assert_int_equal((lie[i].up ? &labels : &features)->writes, 0);
		end();
	}
}

/* What features multiplied for labels, labels could send back as marks of any rows: each is a point times both scalars.
 * Here it marks the first row that is not common, so this mark fits no point that it got from features. */
static void an_answer_marks_no_other_row(void **unused)
{
	enum { ROWS = 6, MARKS = 32 + SL_PSI_PROOF, ANSWERS = CONTENT / (2 * SL_PSI_POINT) * SL_PSI_POINT };
	static const uint8_t none[SL_PSI_POINT];
	uint8_t content[2][CONTENT], answers[CONTENT] = {0};
	struct sl_fail fail = {.text = ""};
	enum sl_err err = SL_OK;
	bool marked = false;

	for (int i = 0; i < ROWS; i++) {
		name_row(&features, i, 0);
		name_row(&labels, i < ROWS / 2 ? i : 100 + i, 0);
	}
	begin(1, false);
	for (int k = 0; k < 5 && !err; k++) { /* counts, points, answers, marks, the results */
		const bool says = sl_talk_say(features.talk, content[0]);

		assert_true(sl_talk_say(labels.talk, content[1]));
		assert_int_equal(says, true);
		if (k == 2)
			memcpy(answers, content[0], CONTENT);
		for (int i = 0; k == 3 && i < ROWS; i++) {
			uint8_t *mark = content[1] + MARKS + i * SL_PSI_POINT;
			int unused = 0;

			if (memcmp(mark, none, SL_PSI_POINT) != 0 || marked)
				continue;
			while (memmem(content[1] + MARKS, ROWS * SL_PSI_POINT,
				      answers + ANSWERS + unused * SL_PSI_POINT, SL_PSI_POINT))
				unused++;
			memcpy(mark, answers + ANSWERS + unused * SL_PSI_POINT, SL_PSI_POINT);
			marked = true;
		}
		assert_int_equal(sl_talk_hear(labels.talk, content[0], &fail), SL_OK);
		err = sl_talk_hear(features.talk, content[1], &fail);
	}
	assert_true(marked);
	assert_int_equal(err, SL_ERR_PROTOCOL);
	assert_non_null(strstr(fail.text, "a proof of common rows that does not hold"));
	assert_int_equal(features.writes, 0);
	end();
}

/* Any content, at any time: an error, or nothing worse. */
static void any_content(void **unused)
{
	uint8_t content[CONTENT];
	struct sl_fail fail;

	for (int trial = 0; trial < 300; trial++) {
		draw_rows(20, 1, 60);
		begin(1, false);
		for (int k = 0; k < 2; k++) {
			struct party *p = k ? &labels : &features, *other = k ? &features : &labels;
			enum sl_err err = SL_OK;

			for (int i = 0; i < 12 && !err; i++) {
				if (!draw(3) || !sl_talk_say(other->talk, content))
					for (int at = 0; at < CONTENT; at++)
						content[at] = draw(2) ? (uint8_t)draw(256) : 0;
				err = sl_talk_hear(p->talk, content, &fail);
				(void)sl_talk_say(p->talk, content);
			}
		}
		end();
	}
}

/* ---- a server that lies */

static int which, victim;

static int lies(struct server *s, int n, bool up, uint8_t *letter)
{
	if (up != (victim % 2 == 0) || n != victim / 2)
		return 1;
	switch (which) {
	case 0: /* one bit */
		letter[draw(LETTER)] ^= (uint8_t)(1 << draw(8));
		return 1;
	case 1: /* twice */
		return 2;
	case 2: /* one before, or one that never was */
		memcpy(letter, n ? s->kept[up][n - 1] : s->kept[!up][0], LETTER);
		return 1;
	case 3: /* the other party's own, sent back */
		memcpy(letter, s->kept[!up][s->n[!up] ? s->n[!up] - 1 : 0], LETTER);
		return 1;
	case 4: /* dropped; a later one arrives in its place */
		return 0;
	default: /* cut short, with zeros behind */
		memset(letter + LETTER / 2, 0, LETTER / 2);
		return 1;
	}
}

static void a_lying_server_is_found(void **unused)
{
	static struct server server;
	struct sl_fail fail = {.text = ""};

	for (which = 0; which < 6; which++)
		for (victim = 0; victim < 6; victim++) {
			draw_rows(40, 1, 100);
			begin(1, false);
			meet();
			server.lie = lies;
			assert_int_equal(talk(&server, &fail), SL_ERR_AUTH);
			assert_non_null(strstr(fail.text, "does not open"));
			assert_int_equal(features.writes + labels.writes, 0);
			end();
		}
}

/* All letters of an earlier alignment of the same two, in their order. */
static void replays_do_not_open(void **unused)
{
	static struct server honest;
	struct sl_keypair a, b;
	uint8_t content[CONTENT];
	struct sl_seal *seal;
	struct sl_fail fail;

	draw_rows(40, 1, 100);
	begin(1, false);
	meet();
	a = features.pair;
	b = labels.pair;
	assert_int_equal(talk(&honest, &fail), SL_OK);
	end();
	/* labels begins anew, and the server answers with what features once sent, its fresh key included */
	assert_int_equal(sl_seal_open(&seal, &b, &a.public_key, false, "group", &fail), SL_OK);
	sl_seal_fresh(seal, content);
	assert_int_equal(sl_seal_meet(seal, content, &fail), SL_OK);
	assert_int_equal(sl_seal_read(seal, (struct sl_bytes){honest.kept[1][0], LETTER}, content, &fail), SL_ERR_AUTH);
	sl_seal_close(seal);
}

static void another_key_or_group_does_not_open(void **unused)
{
	static struct server honest;
	struct sl_keypair third;
	struct sl_fail fail;

	for (int way = 0; way < 3; way++) {
		draw_rows(40, 1, 100);
		begin(1, false);
		assert_int_equal(sl_keypair_make(&third, &fail), SL_OK);
		sl_seal_close(labels.seal);
		assert_int_equal(sl_seal_open(&labels.seal, way == 0 ? &third : &labels.pair,
					      way == 1 ? &third.public_key : &features.pair.public_key, false,
					      way == 2 ? "other" : "group", &fail),
				 SL_OK);
		meet();
		assert_int_equal(talk(&honest, &fail), SL_ERR_AUTH);
		end();
	}
	memset(&third, 0, sizeof third); /* a point of low order */
	draw_rows(2, 1, 100);
	begin(1, false);
	assert_int_equal(sl_seal_meet(labels.seal, third.public_key.byte, &fail), SL_ERR_AUTH);
	end();
}

/* ---- the file */

static char heard[400];

static void hear(void *arg, const char *line, size_t len)
{
	snprintf(heard, sizeof heard, "%.*s", (int)len, line);
}

static void blanks_of_all_kinds_are_told_of(void **unused)
{
	static const char *const name[] = {" a",      "a ",      "\u00a0a", "a\u00a0",
					   "\u3000a", "a\u2009", "é\u202f", "a\u2003"};
	static const char *const plain[] = {"a", "é", "a\u3000b", "\u4e00"};
	struct sl_names own = {0};
	struct sl_fail fail;

	sl_log_set_sink(hear, NULL);
	for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
		heard[0] = 0;
		assert_true(sl_names_add(&own, name[i]));
		assert_int_equal(sl_aligned_check(&own, &fail), SL_OK);
		assert_non_null(strstr(heard, "ids-with-blanks: data.id: 1 of 1 names begin or end with a blank"));
		sl_names_close(&own);
	}
	heard[0] = 0;
	for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
		assert_true(sl_names_add(&own, plain[i]));
	assert_int_equal(sl_aligned_check(&own, &fail), SL_OK);
	assert_string_equal(heard, "");
	sl_names_close(&own);
	sl_log_set_sink(NULL, NULL);
}

static void the_file_is_whole_or_refused(void **unused)
{
	char path[] = "/tmp/test_align.XXXXXX", text[400];
	struct sl_aligned out = {.secret = {{1, 2, 3}}}, in = {.path = ""};
	struct sl_names own = {0};
	int32_t *place;
	struct sl_fail fail;
	size_t len;
	FILE *file;

	close(mkstemp(path));
	snprintf(out.path, sizeof out.path, "%s", path);
	for (int i = 0; i < 3; i++)
		assert_true(sl_names_add(&out.row[0], (const char *[]){"b", "c c", "ä,\""}[i]));
	assert_int_equal(sl_aligned_write(&out, "g", &fail), SL_OK);
	assert_int_equal(sl_aligned_read(&in, path, &fail), SL_OK);
	assert_memory_equal(&in.secret, &out.secret, sizeof in.secret);
	assert_int_equal(in.row[0].n, 3);
	assert_int_equal(in.row[1].n, 0);
	assert_string_equal(sl_name(&in.row[0], 2), "ä,\"");

	for (int i = 0; i < 5; i++)
		assert_true(sl_names_add(&own, (const char *[]){"x", "ä,\"", "a", "b", "c c"}[i]));
	assert_int_equal(sl_aligned_check(&own, &fail), SL_OK);
	assert_int_equal(sl_aligned_places(&in, SL_SPLIT_TRAIN, &own, &place, &fail), SL_OK);
	assert_memory_equal(place, ((int32_t[]){3, 4, 1}), 3 * sizeof *place);
	free(place);
	assert_int_equal(sl_aligned_places(&in, SL_SPLIT_TEST, &own, &place, &fail), SL_ERR_DATA);
	assert_true(sl_names_add(&own, "b"));
	assert_int_equal(sl_aligned_places(&in, SL_SPLIT_TRAIN, &own, &place, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "rows 4 and 6 are both called \"b\""));
	assert_int_equal(sl_aligned_check(&own, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "rows 4 and 6 are both called \"b\""));
	sl_names_close(&own);
	for (int i = 0; i < 2; i++) {
		assert_true(sl_names_add(&own, i ? "a\nb" : ""));
		assert_int_equal(sl_aligned_check(&own, &fail), SL_ERR_DATA);
		assert_int_equal(sl_aligned_places(&in, SL_SPLIT_TRAIN, &own, &place, &fail), SL_ERR_DATA);
		assert_non_null(strstr(fail.text, "no row \"b\""));
		sl_names_close(&own);
	}
	sl_aligned_close(&in);

	file = fopen(path, "r");
	len = fread(text, 1, sizeof text, file);
	fclose(file);
	for (size_t cut = 0; cut <= len; cut++) { /* cut short; at `len` a line too many */
		file = fopen(path, "w");
		fwrite(text, 1, cut, file);
		if (cut == len)
			fputs("more\n", file);
		fclose(file);
		in = (struct sl_aligned){.path = ""};
		assert_int_equal(sl_aligned_read(&in, path, &fail), SL_ERR_DATA);
		sl_aligned_close(&in);
	}
	unlink(path);
	assert_int_equal(sl_aligned_read(&in, path, &fail), SL_ERR_NOINPUT);
	assert_non_null(strstr(fail.text, "splitc align writes it"));
	sl_aligned_close(&in);
	sl_aligned_close(&out);
}

static void several_sources_are_joined(void **unused)
{
	static const char *const name[3][6] = {
		{"d", "c", "b", "a", "e"}, {"a", "x", "c", "b", "d"}, {"b", "d", "y", "z", "a", "A"}};
	static const char *const common[] = {"d", "b", "a"};
	static const int count[3] = {5, 5, 6};
	struct sl_names names[3] = {0};
	struct sl_aligned joined = {.path = ""};
	struct sl_fail fail;

	for (int k = 0; k < 3; k++)
		for (int i = 0; i < count[k]; i++)
			assert_true(sl_names_add(&names[k], name[k][i]));
	assert_int_equal(sl_aligned_join(&joined, SL_SPLIT_TEST, names, 3, &fail), SL_OK);
	assert_int_equal(joined.row[SL_SPLIT_TRAIN].n, 0);
	assert_int_equal(joined.row[SL_SPLIT_TEST].n, 3);
	for (int i = 0; i < 3; i++) /* in the order of the first */
		assert_string_equal(sl_name(&joined.row[SL_SPLIT_TEST], i), common[i]);
	sl_names_close(&names[1]);
	assert_int_equal(sl_aligned_join(&joined, SL_SPLIT_TRAIN, names, 2, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "no common row"));
	assert_true(sl_names_add(&names[1], "f"));
	assert_int_equal(sl_aligned_join(&joined, SL_SPLIT_TRAIN, names, 2, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "\"d\" here, and \"f\" there"));
	for (int k = 0; k < 3; k++)
		sl_names_close(&names[k]);
	sl_aligned_close(&joined);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_a_plain_join),
		cmocka_unit_test(padding_hides_the_count),
		cmocka_unit_test(parties_must_fit),
		cmocka_unit_test(bad_points_are_refused),
		cmocka_unit_test(lies_are_refused),
		cmocka_unit_test(an_answer_marks_no_other_row),
		cmocka_unit_test(any_content),
		cmocka_unit_test(a_lying_server_is_found),
		cmocka_unit_test(replays_do_not_open),
		cmocka_unit_test(another_key_or_group_does_not_open),
		cmocka_unit_test(blanks_of_all_kinds_are_told_of),
		cmocka_unit_test(the_file_is_whole_or_refused),
		cmocka_unit_test(several_sources_are_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
