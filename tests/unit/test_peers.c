/* The server's table of peers: strangers are bounded, peers that the server knows stay, and flags
 * are reported once and in order. */

#include "common/link/peers.h"
#include "common/link/transport.h"
#include "tests/support/unit.h"

static sl_peer seen(struct sl_peers *peers, uint32_t n)
{
	uint8_t id[SL_PEER_ID_BYTES] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

	return sl_peers_seen(peers, id, sizeof id, -1);
}

static void strangers_are_bounded_and_acquaintances_stay(void **state)
{
	struct sl_peers *peers;
	sl_peer known, quiet, talker, other;

	assert_int_equal(sl_peers_open(&peers, NULL, NULL), SL_OK);
	known = seen(peers, 1);
	quiet = seen(peers, 2);
	talker = seen(peers, 3);
	assert_non_null(sl_peers_address(peers, known));
	for (uint32_t n = 0; n < 100000; n++) {
		other = seen(peers, 1000 + n);
		assert_true(other && other != known && other != talker);
		if (n % 100 == 0)
			assert_true(seen(peers, 3) == talker);
	}
	assert_true(seen(peers, 1) == known);
	assert_null(sl_peers_address(peers, quiet)); /* removed: silent for the longest time */
	assert_true(seen(peers, 2) != quiet);
	sl_peers_close(peers);
}

static void a_full_table_ignores_newcomers(void **state)
{
	struct sl_peers *peers;
	sl_peer first = 0;

	assert_int_equal(sl_peers_open(&peers, NULL, NULL), SL_OK);
	for (uint32_t n = 0; n < SL_TRANSPORT_PEERS; n++) {
		sl_peer p = seen(peers, n);

		first = first ? first : p;
		assert_non_null(sl_peers_address(peers, p));
	}
	assert_true(seen(peers, 99999) == 0);
	sl_peers_forget(peers, first);
	assert_true(seen(peers, 99999) != 0);
	assert_true(seen(peers, 5) != 0);
	sl_peers_close(peers);
}

static void flagged_peers_are_listed_once_in_order(void **state)
{
	struct sl_peers *peers;
	sl_peer a, b, c;
	bool gone;

	assert_int_equal(sl_peers_open(&peers, NULL, NULL), SL_OK);
	a = seen(peers, 1), b = seen(peers, 2), c = seen(peers, 3);
	sl_peers_flag(peers, b, false);
	sl_peers_flag(peers, a, false);
	sl_peers_flag(peers, c, false);
	sl_peers_flag(peers, b, true);
	sl_peers_forget(peers, c);
	assert_int_equal(sl_peers_flagged(peers), 2);
	assert_true(sl_peers_take_flagged(peers, &gone) == b && gone);
	assert_true(sl_peers_take_flagged(peers, &gone) == a && !gone);
	assert_true(sl_peers_take_flagged(peers, &gone) == 0);
	sl_peers_flag(peers, b, false); /* its "gone" was reported before */
	assert_true(sl_peers_take_flagged(peers, &gone) == b && !gone);
	sl_peers_close(peers);
}

/* A connection is bound to one key. Peer ids that peers chose for themselves are ignored. */
static void a_peer_has_one_key(void **state)
{
	const struct sl_key one = {{1}}, two = {{2}};
	const uint8_t own[SL_PEER_ID_BYTES] = {1, 0, 0, 0, 1};
	struct sl_peers *peers;
	sl_peer a, b;

	assert_int_equal(sl_peers_open(&peers, NULL, NULL), SL_OK);
	a = seen(peers, 1), b = seen(peers, 2);
	assert_null(sl_peers_key(peers, a));
	assert_true(sl_peers_claim(peers, a, &one));
	assert_true(sl_peers_claim(peers, a, &one));
	assert_false(sl_peers_claim(peers, a, &two));
	assert_true(sl_key_equal(sl_peers_key(peers, a), &one));
	assert_true(sl_peers_claim(peers, b, &two));
	sl_peers_forget(peers, a);
	assert_null(sl_peers_key(peers, a));
	assert_false(sl_peers_claim(peers, a, &one));
	assert_true(sl_peers_seen(peers, own, sizeof own, -1) == 0);
	assert_true(sl_peers_seen(peers, own, sizeof own - 1, -1) == 0);
	sl_peers_close(peers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strangers_are_bounded_and_acquaintances_stay),
		cmocka_unit_test(a_full_table_ignores_newcomers),
		cmocka_unit_test(flagged_peers_are_listed_once_in_order),
		cmocka_unit_test(a_peer_has_one_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
