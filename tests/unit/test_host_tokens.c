/* Impossible rows of tokens: lengths and homes in the payload of head_act, and numbers
 * of tokens of parts. The server ends that session with a message, and nothing else. */

#include "common/codec/frame.h"
#include "common/codec/lengths.h"
#include "tests/support/asked.h"
#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

enum { ROWS = 3, LONGEST = 9, CHUNK = 12, F = 16, LENGTHS = 32 /* at most */ };

/* How rows are sent, as agreed: packed; padded to one length; all padded to EACH tokens, of which an insert of two
 * pairs of layers makes rows [F, LESS]; cached; or packed, and the server keeps up to KEEPS tokens of head_act. */
enum form { PACKED, PADDED, PAIRED, CACHED, KEPT };
enum { EACH = 4, LESS = 3, KEEPS = 20, HOMES = 16 };

static struct asked asked_of(const char *codec, enum form form)
{
	struct asked a = {.agreement.agreed = sl_agreed_default(),
			  .split = {.model = {.name = "token_mlp",
					      .width = 0.25,
					      .classes = 2,
					      .dropout = 0.2,
					      .vocab = 20,
					      .tokens = LONGEST},
				    .cut = {.head_end = "embedding", .tail_begin = "dense"}}};
	struct sl_fail fail;

	a.agreement.agreed.batch = ROWS;
	a.agreement.agreed.chunks = 1;
	a.agreement.agreed.row_tokens = form == PAIRED ? EACH : LONGEST;
	a.agreement.agreed.chunk_tokens = CHUNK;
	a.agreement.agreed.padded = form == PADDED || form == PAIRED;
	a.agreement.agreed.cached = form == CACHED;
	a.agreement.agreed.keep_tokens = form == KEPT ? KEEPS : 0;
	if (form == PAIRED) {
		a.split.model.whole_rows = EACH;
		snprintf(a.split.insert_head, sizeof a.split.insert_head, "linear:%d,tokens=%d", F, LESS);
	}
	strcpy(a.agreement.agreed.codec[SL_DIR_HEAD_ACT], codec);
	strcpy(a.agreement.agreed.codec[SL_DIR_MID_ACT], "quant:8"); /* of rows: the middle selects one token of each */
	if (asked_settle(&a, &fail) != SL_OK)
		fail_msg("%s", fail.text);
	return a;
}

/* A case: the lengths of rows, the number of tokens that the part states, and what is changed. */
struct wrong {
	int length[ROWS];
	int tokens;
	int padding; /* value of the last byte behind the lengths */
	int cut;     /* missing bytes at the end of the payload */
	enum sl_err code;
	const char *why;
	enum form form;
};

enum { NO_TENSOR = SL_FRAME_BYTES + 8 * F * 4 };

static const struct wrong wrong[] = {
	{{4, 1, 3}, 8, 0, 0, SL_OK, NULL, PACKED},
	{{9, 2, 1}, 12, 0, 0, SL_OK, NULL, PACKED},
	{{4, 0, 4}, 8, 0, 0, SL_ERR_PAYLOAD, "row 1 has 0 tokens, expected 1 to 9", PACKED},
	{{10, 1, 1}, 12, 0, 0, SL_ERR_PAYLOAD, "row 0 has 10 tokens", PACKED},
	{{65535, 1, 1}, 3, 0, 0, SL_ERR_PAYLOAD, "row 0 has 65535 tokens", PACKED},
	{{4, 1, 4}, 8, 0, 0, SL_ERR_PAYLOAD, "rows have 9 tokens together, expected 8", PACKED},
	{{1, 1, 1}, 12, 0, 0, SL_ERR_PAYLOAD, "rows have 3 tokens together, expected 12", PACKED},
	{{4, 1, 3}, 8, 1, 0, SL_ERR_PAYLOAD, "bytes are set behind the lengths", PACKED},
	{{4, 1, 3}, 8, 0, 4, SL_ERR_PAYLOAD, "", PACKED},
	{{4, 1, 3}, 8, 0, SL_FRAME_BYTES + 8 * F * 4, SL_ERR_PAYLOAD, "", PACKED},
	{{4, 1, 3}, 8, 0, SL_FRAME_BYTES + 8 * F * 4 + 1, SL_ERR_PAYLOAD, "shorter than the lengths of 3 rows", PACKED},
	{{1, 1, 1}, 2, 0, 0, SL_ERR_LIMIT, "3 rows with 2 tokens", PACKED},
	{{9, 3, 1},
	 13,
	 0,
	 0,
	 SL_ERR_LIMIT,
	 "3 rows with 13 tokens, where rows have up to 9 and a chunk up to 12",
	 PACKED},
	{{1, 1, 1}, 0, 0, 0, SL_ERR_LIMIT, "3 rows with 0 tokens", PACKED},
	{{4, 1, 3}, 12, 0, 0, SL_OK, NULL, PADDED},
	{{4, 4, 4}, 12, 0, 0, SL_OK, NULL, PADDED},
	{{5, 1, 3}, 12, 0, 0, SL_ERR_PAYLOAD, "row 0 has 5 tokens, expected 1 to 4", PADDED},
	{{4, 0, 3}, 12, 0, 0, SL_ERR_PAYLOAD, "row 1 has 0 tokens, expected 1 to 4", PADDED},
	{{4, 1, 3}, 11, 0, 0, SL_ERR_PAYLOAD, "3 rows are padded to 11 tokens together", PADDED},
	{{4, 1, 3}, 12, 1, 0, SL_ERR_PAYLOAD, "bytes are set behind the lengths", PADDED},
	{{4, 1, 3}, 12, 0, 0, SL_OK, NULL, PAIRED},
	{{4, 1, 3}, 9, 0, 0, SL_ERR_LIMIT, "3 rows with 9 tokens, where each row has 4", PAIRED},
	{{4, 1, 3}, 11, 0, 0, SL_ERR_LIMIT, "3 rows with 11 tokens, where each row has 4", PAIRED},
	{{5, 1, 3}, 12, 0, 0, SL_ERR_PAYLOAD, "row 0 has 5 tokens, expected 1 to 4", PAIRED},
	{{4, 1, 3}, 12, 0, 4, SL_ERR_PAYLOAD, "", PAIRED},
	{{4, 1, 3}, 12, 1, 0, SL_ERR_PAYLOAD, "bytes are set behind the lengths", PAIRED},
};

/* Rows of 4, 1 and 3 tokens. `cached` has for each its row of
 * the cache, and how many tokens it says are cached there. */
struct gone {
	uint32_t cached[2 * ROWS];
	enum sl_err code;
	const char *why;
	int padding;
	bool training;
};

static const struct gone gone[] = {
	{{0, 0, 1, 0, 2, 0}, SL_OK, NULL, 0, false},
	{{0, 0, 1, 0, 2, 0}, SL_ERR_PAYLOAD, "bytes are set behind the lengths", 1, false},
	{{0, 0, 0, 0, 2, 0}, SL_ERR_PAYLOAD, "row 1 is row 0 of the cache, behind row 0", 0, false},
	{{0, 0, 2, 0, 1, 0}, SL_ERR_PAYLOAD, "is row 1 of the cache, behind row 2", 0, false},
	{{0, 0, 1, 0, 3, 0}, SL_ERR_PAYLOAD, "row 3 of a cache that has 3", 0, false},
	{{0, 0, 1, 1, 2, 0}, SL_ERR_PAYLOAD, "row 1 goes on behind 1 tokens, of which the cache has 0", 0, false},
	{{0, 6, 1, 0, 2, 0}, SL_ERR_PAYLOAD, "row 0 has 4 tokens behind 6 that are cached", 0, false},
	{{0, 0, 1, UINT32_MAX, 2, 0}, SL_ERR_PAYLOAD, "behind 4294967295 that are cached", 0, false},
	{{0, 0, 1, 0, 2, 0}, SL_ERR_PROTOCOL, "only evaluations may use them", 0, true},
};

/* The homes of rows, and what pads them. */
static const struct kept {
	struct wrong w;
	uint32_t home[ROWS + 1];
} kept[] = {
	{{{4, 1, 3}, 8, 0, 0, SL_OK, NULL, KEPT}, {1, 17, 18}},
	{{{4, 1, 3}, 8, 0, 0, SL_OK, NULL, KEPT}, {0, 0, 0}},
	{{{4, 1, 3}, 8, 0, 0, SL_ERR_PAYLOAD, "row 2 is to be kept at token 18, of 20", KEPT}, {1, 5, 19}},
	{{{4, 1, 3}, 8, 0, 0, SL_ERR_PAYLOAD, "row 0 is to be kept at token 4294967294, of 20", KEPT}, {UINT32_MAX}},
	{{{4, 1, 3}, 8, 0, 0, SL_ERR_PAYLOAD, "row 3 is to be kept", KEPT}, {1, 5, 6, 1}},
	{{{4, 1, 3}, 8, 0, NO_TENSOR, SL_ERR_PAYLOAD, "has no tensor, and row 0 of it is not kept", KEPT}, {1, 5, 6}},
	{{{4, 1, 3}, 8, 0, NO_TENSOR - 1, SL_ERR_PAYLOAD, "", KEPT}, {1, 5, 6}},
	{{{4, 1, 3}, 8, 0, NO_TENSOR + 1, SL_ERR_PAYLOAD, "shorter than the homes of 3 rows", KEPT}, {1, 5, 6}},
};

static uint64_t payload_of(const struct wrong *w, const struct gone *gone_on, const uint32_t *home,
			   const struct asked *a, uint8_t *out)
{
	const bool paired = w->form == PAIRED;
	const size_t lengths = sl_lengths_bytes(ROWS, gone_on), front = lengths + (home ? HOMES : 0);

	memset(out, 0, lengths);
	if (home)
		memcpy(out + lengths, home, HOMES);
	for (int i = 0; i < 2 * ROWS && gone_on; i++)
		for (int byte = 0; byte < 4; byte++)
			out[2 * ROWS + 4 * i + byte] = (uint8_t)(gone_on->cached[i] >> 8 * byte);
	for (int i = 0; i < ROWS; i++) {
		out[2 * i] = (uint8_t)w->length[i];
		out[2 * i + 1] = (uint8_t)(w->length[i] >> 8);
	}
	out[lengths - 1] = (uint8_t)w->padding;
	sl_frame_write(out + front, &a->agreement.codec[SL_DIR_HEAD_ACT], false, paired ? ROWS : w->tokens);
	memset(out + front + SL_FRAME_BYTES, 0, (size_t)(CHUNK + 1) * F * sizeof(float));
	return front + SL_FRAME_BYTES + (uint64_t)(paired ? ROWS * LESS : w->tokens) * F * sizeof(float) -
	       (uint64_t)w->cut;
}

static void try(const struct wrong *w, const struct gone *gone_on, const uint32_t *home)
{
	static uint8_t payload[LENGTHS + HOMES + SL_FRAME_BYTES + (CHUNK + 1) * F * sizeof(float)];
	const struct asked a = asked_of("none", w->form);
	struct sl_frame hello = host_rig_hello_of(&a, 1, 1, NULL);
	const uint64_t len = payload_of(w, gone_on, home, &a, payload);
	struct sl_frame part = {.kind = SL_FRAME_PART,
				.epoch = 1,
				.u.part = {.what = SL_PART_HEAD_ACT,
					   .training = home || (gone_on && gone_on->training),
					   .rows = ROWS,
					   .batch_rows = ROWS,
					   .total = len,
					   .tokens = (uint32_t)w->tokens}};
	struct host_client c;
	const char *said;

	host_rig_open(1, 256 << 20);
	host_rig_connect_raw(&c);
	host_rig_say(&c, &hello);
	host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
	host_rig_say_part(&c, &part, (struct sl_bytes){payload, len});
	if (w->code == SL_OK) {
		host_rig_await(&c.came[SL_FRAME_PART], 1);
		assert_int_equal(c.last[SL_FRAME_PART].u.part.tokens, w->tokens);
	} else {
		said = host_rig_refusal(&c, w->code);
		if (!strstr(said, w->why))
			fail_msg("'%s' is said, not '%s'", said, w->why);
	}
	host_rig_hang_up(&c);
	host_rig_close();
}

static void lengths_that_cannot_be_end_the_session(void **state)
{
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		try(&wrong[i], NULL, NULL);
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
		try(&kept[i].w, NULL, kept[i].home);
}

static void what_the_cache_lacks_ends_the_session(void **state)
{
	for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
		const struct gone *g = &gone[i];
		const struct wrong w = {{4, 1, 3}, 8, g->padding, 0, g->code, g->why, CACHED};

		try(&w, g, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_that_cannot_be_end_the_session),
		cmocka_unit_test(what_the_cache_lacks_ends_the_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
