/* The proof of a session: a signature over the nonce and the whole Hello, by a secret key that only its client has. */

#include "common/link/proof.h"
#include "server/host/challenge.h"
#include "server/host/epochs.h"
#include "tests/support/unit.h"

static const uint8_t nonce[SL_NONCE_BYTES] = {1, 2, 3};
static struct sl_secret secret, other;

static int open_secrets(void **state)
{
	const uint8_t seed[SL_SECRET_BYTES] = {4, 5, 6};
	struct sl_fail fail;

	sl_secret_from(&secret, seed);
	return sl_secret_make(&other, &fail) != SL_OK;
}

static struct sl_hello proven(void)
{
	struct sl_hello h = {.version = SL_WIRE_VERSION, .epoch = 9, .part_bytes = 4096, .n_held = 1};

	memcpy(h.session, secret.session, sizeof h.session);
	assert_true(sl_proof_lacks(&h));
	assert_int_equal(sl_proof_make(&h, &secret, nonce), SL_OK);
	assert_false(sl_proof_lacks(&h));
	return h;
}

static void a_proof_holds_for_its_hello_and_nonce_alone(void **state)
{
	struct sl_hello h = proven(), changed;
	uint8_t later[SL_NONCE_BYTES] = {1, 2, 4};

	assert_true(sl_proof_holds(&h, nonce));
	assert_false(sl_proof_holds(&h, later));
	changed = h, changed.epoch++;
	assert_false(sl_proof_holds(&changed, nonce));
	changed = h, changed.held[0] = 5;
	assert_false(sl_proof_holds(&changed, nonce));
	changed = h, changed.plan_hash[3] ^= 1;
	assert_false(sl_proof_holds(&changed, nonce));
	changed = h, changed.proof[SL_PROOF_BYTES - 1] ^= 1;
	assert_false(sl_proof_holds(&changed, nonce));
	memset(changed.proof, 0, sizeof changed.proof);
	assert_false(sl_proof_holds(&changed, nonce));
}

/* An attacker who knows the id of a session, but has another secret. */
static void another_secret_proves_nothing(void **state)
{
	struct sl_hello h = proven();

	assert_int_equal(sl_proof_make(&h, &other, nonce), SL_OK);
	assert_false(sl_proof_holds(&h, nonce));
	memcpy(h.session, other.session, sizeof h.session);
	assert_false(sl_proof_holds(&h, nonce)); /* the signature is over the other id */
	assert_memory_not_equal(secret.session, other.session, sizeof other.session);
}

static void a_name_is_one_session_s_and_does_not_tell_it(void **state)
{
	uint8_t one[16], two[16];

	sl_session_name(secret.session, one);
	sl_session_name(other.session, two);
	assert_memory_not_equal(one, two, sizeof one);
	for (size_t i = 0; i + 4 <= SL_SESSION_BYTES; i++)
		assert_memory_not_equal(one, secret.session + i, 4);
}

static void a_connection_has_one_nonce_for_some_time(void **state)
{
	static struct sl_challenges table;
	struct sl_challenges *c = &table;
	uint8_t first[SL_NONCE_BYTES];
	sl_peer gone;

	assert_null(sl_challenges_find(c, 1));
	memcpy(first, sl_challenges_make(c, 1, 1000, &gone), sizeof first);
	assert_memory_equal(sl_challenges_make(c, 1, 1500, &gone), first, sizeof first);
	assert_memory_equal(sl_challenges_find(c, 1), first, sizeof first);
	assert_memory_not_equal(sl_challenges_make(c, 2, 2000, &gone), first, sizeof first);
	assert_int_equal(sl_challenges_late(c, 1000 + SL_CHALLENGE_MS), 0);
	assert_int_equal(sl_challenges_late(c, 1001 + SL_CHALLENGE_MS), 1);
	assert_int_equal(sl_challenges_late(c, 1001 + SL_CHALLENGE_MS), 0);
	assert_null(sl_challenges_find(c, 1));
	sl_challenges_end(c, 2);
	sl_challenges_end(c, 2);
	assert_int_equal(sl_challenges_late(c, UINT64_MAX), 0);
	for (sl_peer p = 10; p < 10 + SL_CHALLENGES; p++) {
		assert_non_null(sl_challenges_make(c, p, p, &gone));
		assert_int_equal(gone, 0);
	}
	assert_non_null(sl_challenges_make(c, 5, 100000, &gone)); /* the oldest challenge makes room */
	assert_int_equal(gone, 10);
}

static void so_many_epochs_are_remembered(void **state)
{
	static struct sl_epochs e;
	uint8_t session[SL_SESSION_BYTES] = {0};

	assert_int_equal(sl_epochs_find(&e, session), 0);
	sl_epochs_remember(&e, session, 7);
	sl_epochs_remember(&e, session, 5);
	assert_int_equal(sl_epochs_find(&e, session), 7);
	for (int i = 1; i < SL_EPOCHS; i++) {
		session[0] = (uint8_t)i, session[1] = (uint8_t)(i >> 8);
		sl_epochs_remember(&e, session, 1);
	}
	memset(session, 0, sizeof session);
	assert_int_equal(sl_epochs_find(&e, session), 7);
	session[2] = 1;
	sl_epochs_remember(&e, session, 3);
	assert_int_equal(sl_epochs_find(&e, session), 3);
	session[2] = 0;
	assert_int_equal(sl_epochs_find(&e, session), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_proof_holds_for_its_hello_and_nonce_alone),
		cmocka_unit_test(another_secret_proves_nothing),
		cmocka_unit_test(a_name_is_one_session_s_and_does_not_tell_it),
		cmocka_unit_test(a_connection_has_one_nonce_for_some_time),
		cmocka_unit_test(so_many_epochs_are_remembered),
	};

	return cmocka_run_group_tests(tests, open_secrets, NULL);
}
