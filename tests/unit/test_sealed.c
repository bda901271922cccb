/* Runs that members of a group seal: they open with the same secret, as what they are, and not otherwise. */
#include "common/link/sealed.h"
#include "tests/support/unit.h"

enum { BYTES = 100 };

static const struct sl_key secret = {{1, 2, 3}}, other = {{1, 2, 4}};
static const struct sl_sealed as = {&secret, "clinics", 7, 99};

static void seal(uint8_t run[SL_SEALED_BYTES + BYTES], uint8_t first)
{
	for (int i = 0; i < BYTES; i++)
		run[SL_SEALED_BYTES + i] = (uint8_t)(first + i);
	sl_sealed_close(&as, run, BYTES);
}

static void opens(const struct sl_sealed *how, const uint8_t run[SL_SEALED_BYTES + BYTES], enum sl_err is)
{
	uint8_t copy[SL_SEALED_BYTES + BYTES];

	memcpy(copy, run, sizeof copy);
	assert_int_equal(sl_sealed_open(how, copy, BYTES), is);
	for (int i = 0; i < BYTES && !is; i++)
		assert_int_equal(copy[SL_SEALED_BYTES + i], i);
}

static void a_run_opens_as_what_it_is(void **state)
{
	const struct sl_sealed wrong[] = {{&other, "clinics", 7, 99},
					  {&secret, "clinic", 7, 99},
					  {&secret, "clinics", 8, 99},
					  {&secret, "clinics", 7, 98}};
	uint8_t run[SL_SEALED_BYTES + BYTES];

	seal(run, 0);
	opens(&as, run, SL_OK);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		opens(&wrong[i], run, SL_ERR_PAYLOAD);
}

static void a_changed_byte_opens_nothing(void **state)
{
	uint8_t run[SL_SEALED_BYTES + BYTES];

	seal(run, 0);
	for (size_t i = 0; i < sizeof run; i++) {
		run[i] ^= 0x10;
		opens(&as, run, SL_ERR_PAYLOAD);
		run[i] ^= 0x10;
	}
	opens(&as, run, SL_OK);
}

/* What the server compares: equal for equal runs alone, and of no use for a guess without the secret. */
static void the_hash_is_that_of_the_nonce(void **state)
{
	uint8_t run[SL_SEALED_BYTES + BYTES], again[SL_SEALED_BYTES + BYTES], plain[BYTES], hash[SL_SEALED_NONCE];
	const struct sl_sealed guess = {&other, as.group, as.step, as.branch};

	for (int i = 0; i < BYTES; i++)
		plain[i] = (uint8_t)i;
	seal(run, 0);
	seal(again, 0);
	assert_memory_equal(run, again, sizeof run);
	sl_sealed_hash(&as, (struct sl_bytes){plain, BYTES}, hash, sizeof hash);
	assert_memory_equal(run, hash, sizeof hash);
	sl_sealed_hash(&guess, (struct sl_bytes){plain, BYTES}, hash, sizeof hash);
	assert_memory_not_equal(run, hash, sizeof hash);
	seal(again, 1);
	assert_memory_not_equal(run, again, SL_SEALED_NONCE);
}

/* A member that seals one run with the nonce of another one: the others' hashes confirm the other one. */
static void a_nonce_of_another_run_is_refused(void **state)
{
	uint8_t run[SL_SEALED_BYTES + BYTES], honest[SL_SEALED_BYTES + BYTES];

	seal(run, 5);
	seal(honest, 0);
	memcpy(run, honest, SL_SEALED_NONCE);
	opens(&as, run, SL_ERR_PAYLOAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_opens_as_what_it_is),
		cmocka_unit_test(a_changed_byte_opens_nothing),
		cmocka_unit_test(the_hash_is_that_of_the_nonce),
		cmocka_unit_test(a_nonce_of_another_run_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
