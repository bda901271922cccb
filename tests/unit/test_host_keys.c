/* The server's host with keys: to whom sessions and checkpoints belong,
 * how many a key may have, and who is let in after a reload. */
#include <unistd.h>
#include <zmq.h>

#include "common/weights/weights.h"
#include "server/host/host_impl.h"
#include "server/store/keep.h"
#include "server/store/store.h"
#include "tests/support/asked.h"
#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

static struct host_auth_files files;

static struct sl_keypair server_pair, pair[3];

static void allow(unsigned which)
{
	char key[SL_KEY_TEXT];
	FILE *file = fopen(files.clients, "w");

	assert_non_null(file);
	for (int i = 0; i < 3; i++) {
		sl_key_print(&pair[i].public_key, key);
		if (which & 1u << i)
			fprintf(file, "%s edge-%d group=g%d\n", key, i, i);
	}
	assert_int_equal(fclose(file), 0);
}

static void open_secure_host(int sessions)
{
	const char *dir = getenv("TMPDIR");
	struct sl_fail fail;

	if (!zmq_has("curve"))
		skip();
	snprintf(files.secret_key, sizeof files.secret_key, "%s/host-%d.key", dir ? dir : "/tmp", (int)getpid());
	snprintf(files.clients, sizeof files.clients, "%s/host-%d.clients", dir ? dir : "/tmp", (int)getpid());
	unlink(files.secret_key);
	assert_int_equal(sl_keypair_make(&server_pair, NULL), SL_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(sl_keypair_make(&pair[i], NULL), SL_OK);
	assert_int_equal(sl_keypair_save(&server_pair, files.secret_key, &fail), SL_OK);
	allow(7);
	host_rig_open_with(&files, sessions, 1 << 30);
}

static void close_secure_host(void)
{
	host_rig_close();
	unlink(files.secret_key);
	unlink(files.clients);
}

static void connect_as(struct host_client *c, int i)
{
	static struct sl_transport_auth with[3];

	with[i] = (struct sl_transport_auth){.own = &pair[i], .server = &server_pair.public_key};
	host_rig_connect_with(c, &with[i]);
}

static const char *print_of(int i)
{
	static char print[SL_FINGERPRINT];

	sl_key_fingerprint(&pair[i].public_key, print);
	return print;
}

static void a_session_s_id_is_worth_nothing_without_its_key(void **state)
{
	struct sl_frame mine = host_rig_small_hello(1, 3), stolen = host_rig_small_hello(1, 4),
			beat = {.kind = SL_FRAME_HEARTBEAT};
	struct host_client owner, thief;
	char *status;
	int beats;

	open_secure_host(4);
	connect_as(&owner, 0);
	connect_as(&thief, 1);
	host_rig_say(&owner, &mine);
	host_rig_await(&owner.came[SL_FRAME_WELCOME], 1);
	host_rig_say(&thief, &stolen);
	assert_non_null(strstr(host_rig_refusal(&thief, SL_ERR_AUTH), print_of(1)));
	beats = owner.came[SL_FRAME_HEARTBEAT]; /* the owner's session goes on */
	beat.epoch = 3;
	host_rig_say(&owner, &beat);
	host_rig_await(&owner.came[SL_FRAME_HEARTBEAT], beats + 2);
	assert_int_equal(owner.came[SL_FRAME_REFUSE], 0);
	status = sl_host_status(host_rig.host);
	assert_non_null(strstr(status, "edge-0 "));
	assert_non_null(strstr(status, print_of(0)));
	free(status);
	host_rig_hang_up(&thief);
	connect_as(&thief, 0); /* the right key in a new connection is accepted */
	host_rig_say(&thief, &stolen);
	host_rig_await(&thief.came[SL_FRAME_WELCOME], 1);
	host_rig_refusal(&owner, SL_ERR_PEER_LOST);
	host_rig_hang_up(&owner);
	host_rig_hang_up(&thief);
	close_secure_host();
}

static void checkpoints_are_their_owner_s(void **state)
{
	static const uint8_t session[16] = {7};
	struct sl_key one = {{1}}, other = {{2}};
	struct sl_keep plain, mine, again, stolen;

	sl_keep_open(&plain, "store", NULL, session, NULL, NULL, "cpu");
	sl_keep_open(&mine, "store", NULL, session, &one, NULL, "cpu");
	sl_keep_open(&again, "store", NULL, session, &one, NULL, "cpu");
	sl_keep_open(&stolen, "store", NULL, session, &other, NULL, "cpu");
	assert_string_equal(plain.prefix, "session-07000000000000000000000000000000");
	assert_string_equal(mine.prefix, again.prefix);
	assert_int_equal(strlen(mine.prefix), strlen(plain.prefix) + SL_FINGERPRINT);
	assert_string_not_equal(mine.prefix, stolen.prefix);
}

/* Two values make XXH3 multiply by zero, so that it sees only
 * their neighbours' sum. In bits 1 + 1 equals 2 + 1/2. */
static void same_hash(float *one, float *other, int64_t count, uint8_t hash[16])
{
	static const uint32_t secret[2] = {0x396cfeb8, 0x2c81017c}; /* XXH3's, unseeded: bytes 0 to 3, 8 to 11 */
	uint8_t found[16];

	assert_in_range(count, 64, INT32_MAX);
	memset(one, 0, (size_t)count * sizeof *one);
	memcpy(one, &secret[0], sizeof *one);
	memcpy(one + 16, &secret[1], sizeof *one);
	memcpy(other, one, (size_t)count * sizeof *one);
	one[1] = one[17] = 1;
	other[1] = 2;
	other[17] = 0.5f;
	sl_weights_hash(one, count, hash);
	sl_weights_hash(other, count, found);
	assert_memory_equal(hash, found, sizeof found);
}

/* A client that found other weights with the hash of another
 * client's, and uploads them first, harms only itself. */
static void weights_are_their_owner_s(void **state)
{
	struct asked a = host_rig_agreement_of(10, 32, 2);
	struct sl_frame hello[2];
	struct host_client c[2];
	uint8_t hash[16];
	int64_t count;

	for (int i = 0; i < 2; i++) {
		hello[i] = host_rig_hello_of(&a, (uint8_t)(i + 1), 1, &count);
		hello[i].u.hello.weights_source = SL_WEIGHTS_HASH;
	}
	float *mine = malloc((size_t)count * sizeof(float)), *poison = malloc((size_t)count * sizeof(float));
	assert_true(mine && poison);
	same_hash(mine, poison, count, hash);
	host_rig_make_store();
	open_secure_host(2);
	sl_store_put(host_rig.store, NULL, &pair[0].public_key, hash, poison, count);
	for (int i = 0; i < 2; i++) {
		memcpy(hello[i].u.hello.weights_hash, hash, sizeof hash);
		connect_as(&c[i], i);
		host_rig_say(&c[i], &hello[i]);
		host_rig_await(&c[i].came[SL_FRAME_WELCOME], 1);
		assert_int_equal(c[i].last[SL_FRAME_WELCOME].u.welcome.need_weights, i == 1);
		host_rig_hang_up(&c[i]);
	}
	assert_false(sl_store_get(host_rig.store, &pair[1].public_key, hash, mine, count));
	assert_false(sl_store_get(host_rig.store, NULL, hash, mine, count));
	assert_true(sl_store_get(host_rig.store, &pair[0].public_key, hash, mine, count));
	assert_memory_equal(mine, poison, (size_t)count * sizeof(float));
	close_secure_host();
	host_rig_remove_store();
	free(mine);
	free(poison);
}

/* The Hello of a group of one member that begins with weights of this hash. */
static struct sl_frame group_hello(int group, uint8_t session, const uint8_t hash[16], int64_t *count)
{
	struct asked a = host_rig_agreement_of(10, 32, 2);
	struct sl_agreed *g = &a.agreement.agreed;
	struct sl_frame f;
	struct sl_fail fail;

	snprintf(g->share.group, sizeof g->share.group, "g%d", group);
	g->share.clients = 1;
	g->share.rows = 2;
	assert_int_equal(asked_settle(&a, &fail), SL_OK);
	f = host_rig_hello_of(&a, session, 1, count);
	f.u.hello.weights_source = SL_WEIGHTS_HASH;
	memcpy(f.u.hello.weights_hash, hash, sizeof f.u.hello.weights_hash);
	return f;
}

static void upload(struct host_client *c, const float *weights, int64_t count)
{
	const size_t total = (size_t)count * sizeof *weights;
	struct sl_frame f = {.kind = SL_FRAME_PART, .epoch = 1, .u.part = {.what = SL_PART_WEIGHTS, .total = total}};
	const struct sl_frame fetch = {.kind = SL_FRAME_FETCH, .epoch = 1};

	for (size_t at = 0; at < total; at += HOST_RIG_PART / 2) {
		const size_t left = total - at, n = left < HOST_RIG_PART / 2 ? left : HOST_RIG_PART / 2;

		f.u.part.offset = at;
		host_rig_say_part(c, &f, (struct sl_bytes){(const uint8_t *)weights + at, n});
	}
	host_rig_say(c, &fetch); /* answered only after the weights are in the store */
	host_rig_await(&c->came[SL_FRAME_PART], 1);
}

/* A client that found other weights with the hash of another group's
 * first weights, and uploads them first, harms only its own group. */
static void weights_are_their_group_s(void **state)
{
	static const int group[] = {0, 1, 0};
	struct host_client c;
	uint8_t hash[16] = {0};
	int64_t count;

	(void)group_hello(0, 1, hash, &count);
	float *one = malloc((size_t)count * sizeof(float)), *poison = malloc((size_t)count * sizeof(float));
	assert_true(one && poison);
	same_hash(one, poison, count, hash);
	host_rig_make_store();
	open_secure_host(4);
	for (int i = 0; i < 3; i++) {
		const struct sl_frame hello = group_hello(group[i], (uint8_t)(i + 1), hash, &count);

		connect_as(&c, group[i]);
		host_rig_say(&c, &hello);
		host_rig_await(&c.came[SL_FRAME_WELCOME], 1);
		assert_int_equal(c.last[SL_FRAME_WELCOME].u.welcome.need_weights, i < 2);
		if (i == 0)
			upload(&c, poison, count);
		host_rig_say(&c, &(struct sl_frame){.kind = SL_FRAME_BYE, .epoch = 1});
		for (int turn = 0; turn < 20; turn++)
			host_rig_turn();
		host_rig_hang_up(&c);
	}
	close_secure_host();
	host_rig_remove_store();
	free(one);
	free(poison);
}

static void a_key_has_so_many_sessions_and_no_more(void **state)
{
	struct sl_frame hello[4] = {host_rig_small_hello(1, 1), host_rig_small_hello(2, 1), host_rig_small_hello(3, 1),
				    host_rig_small_hello(4, 1)};
	struct sl_frame again = host_rig_small_hello(2, 2);
	struct host_client c[5];

	open_secure_host(4);
	for (int i = 0; i < 4; i++) {
		connect_as(&c[i], i == 3);
		host_rig_say(&c[i], &hello[i]);
		if (i != 2)
			host_rig_await(&c[i].came[SL_FRAME_WELCOME], 1);
		else
			assert_non_null(strstr(host_rig_refusal(&c[i], SL_ERR_BUSY), "has 2 sessions"));
	}
	connect_as(&c[4], 0); /* replaces a session that was counted */
	host_rig_say(&c[4], &again);
	host_rig_await(&c[4].came[SL_FRAME_WELCOME], 1);
	for (int i = 0; i < 5; i++)
		host_rig_hang_up(&c[i]);
	close_secure_host();
}

/* The bytes that the small session needs. */
static uint64_t small_need(void)
{
	const struct sl_frame hello = host_rig_small_hello(1, 1);
	unsigned long long need = 0;
	struct host_client c;

	host_rig.conf.limits.memory_bytes_per_key = 1;
	connect_as(&c, 0);
	host_rig_say(&c, &hello);
	assert_int_equal(sscanf(host_rig_refusal(&c, SL_ERR_LIMIT), "the session needs %llu bytes", &need), 1);
	assert_non_null(strstr(c.last[SL_FRAME_REFUSE].u.refuse.text, "; 1 of 1 are free for this client's key"));
	assert_non_null(strstr(c.last[SL_FRAME_REFUSE].u.refuse.text, "raise limits.memory_bytes_per_key on"));
	assert_int_equal(host_rig.taken, 0);
	host_rig_hang_up(&c);
	host_rig.conf.limits.memory_bytes_per_key = 0;
	return need;
}

/* One key's sessions, and the group that it opens, take half of the memory, or all of it where the list has no other
 * client. */
static void a_key_has_so_much_memory_and_no_more(void **state)
{
	const struct sl_frame hello[] = {host_rig_small_hello(1, 2), host_rig_small_hello(2, 1),
					 host_rig_small_hello(3, 1), host_rig_small_hello(4, 1),
					 host_rig_small_hello(6, 1), host_rig_small_hello(7, 1)};
	const uint8_t hash[16] = {1};
	const struct sl_frame grouped = group_hello(0, 5, hash, NULL);
	struct host_client c[5];
	uint64_t need;

	open_secure_host(8);
	host_rig.conf.limits.sessions_per_key = 8;
	need = small_need();
	atomic_store(&host_rig.host->memory.limit, 5 * need);
	for (int i = 0; i < 4; i++) {
		connect_as(&c[i], i == 3);
		host_rig_say(&c[i], &hello[i]);
		if (i == 2)
			assert_non_null(strstr(host_rig_refusal(&c[i], SL_ERR_BUSY), "other sessions of this key"));
		else
			host_rig_await(&c[i].came[SL_FRAME_WELCOME], 1);
	}
	for (int i = 0; i < 4; i++)
		host_rig_hang_up(&c[i]);
	while (atomic_load(&host_rig.host->memory.used))
		host_rig_turn();
	atomic_store(&host_rig.host->memory.limit, need);
	connect_as(&c[0], 2);
	host_rig_say(&c[0], &hello[4]);
	assert_non_null(strstr(host_rig_refusal(&c[0], SL_ERR_LIMIT), "limits.memory_bytes_per_key"));
	while (atomic_load(&host_rig.host->memory.used)) /* else the next one may find it taken: BUSY */
		host_rig_turn();
	allow(1 << 2);
	sl_host_reload(host_rig.host);
	connect_as(&c[1], 2);
	host_rig_say(&c[1], &hello[5]);
	host_rig_await(&c[1].came[SL_FRAME_WELCOME], 1);
	atomic_store(&host_rig.host->memory.limit, 1 << 30);
	allow(7);
	sl_host_reload(host_rig.host);
	connect_as(&c[4], 0);
	host_rig_say(&c[4], &grouped);
	host_rig_await(&c[4].came[SL_FRAME_WELCOME], 1);
	assert_int_equal(host_rig.host->key_budgets->budget.used + need, host_rig.host->memory.used);
	for (int i = 0; i < 5; i += i ? 3 : 1)
		host_rig_hang_up(&c[i]);
	close_secure_host();
}

static void a_revoked_key_is_out_at_once_and_a_new_one_in(void **state)
{
	struct sl_frame one = host_rig_small_hello(1, 1), two = host_rig_small_hello(2, 1),
			more = host_rig_small_hello(3, 1);
	struct host_client c[3];

	open_secure_host(4);
	connect_as(&c[0], 0);
	connect_as(&c[1], 1);
	host_rig_say(&c[0], &one);
	host_rig_say(&c[1], &two);
	host_rig_await(&c[0].came[SL_FRAME_WELCOME], 1);
	host_rig_await(&c[1].came[SL_FRAME_WELCOME], 1);
	allow(6);
	sl_host_reload(host_rig.host);
	assert_non_null(strstr(host_rig_refusal(&c[0], SL_ERR_AUTH), print_of(0)));
	c[0].came[SL_FRAME_REFUSE] = 0;
	for (int i = 0; i < 20; i++) /* until the session has left its place */
		host_rig_turn();
	host_rig_say(&c[0], &more); /* on its earlier connection */
	assert_non_null(strstr(host_rig_refusal(&c[0], SL_ERR_AUTH), print_of(0)));
	connect_as(&c[2], 2);
	host_rig_say(&c[2], &more);
	host_rig_await(&c[2].came[SL_FRAME_WELCOME], 1);
	assert_int_equal(c[1].came[SL_FRAME_REFUSE], 0);
	unlink(files.clients); /* a list that cannot be read changes nothing */
	sl_host_reload(host_rig.host);
	host_rig_turn();
	assert_int_equal(c[1].came[SL_FRAME_REFUSE] + c[2].came[SL_FRAME_REFUSE], 0);
	for (int i = 0; i < 3; i++)
		host_rig_hang_up(&c[i]);
	close_secure_host();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_s_id_is_worth_nothing_without_its_key),
		cmocka_unit_test(checkpoints_are_their_owner_s),
		cmocka_unit_test(weights_are_their_owner_s),
		cmocka_unit_test(weights_are_their_group_s),
		cmocka_unit_test(a_key_has_so_many_sessions_and_no_more),
		cmocka_unit_test(a_key_has_so_much_memory_and_no_more),
		cmocka_unit_test(a_revoked_key_is_out_at_once_and_a_new_one_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
