/* The server's side of an alignment: what it hands on, and members that break the rules. Their own link ends, and the
 * other member hears why. */

#include "common/link/transport_impl.h"
#include "server/host/host_impl.h"
#include "tests/support/host_rig.h"
#include "tests/support/unit.h"

enum { LETTER = HOST_RIG_PART };

static uint8_t bytes[LETTER];
static uint32_t timeout_ms = 60000;

static struct sl_frame hello(uint8_t session, const char *group, int member, int role)
{
	static char text[64][SL_AGREED_TEXT];
	static int next;
	struct sl_agreed a = sl_agreed_default();
	struct sl_frame f = {.kind = SL_FRAME_HELLO, .epoch = 1};
	char *room = text[next++ % 64];

	snprintf(a.share.group, sizeof a.share.group, "%s", group);
	a.share.mode = SL_SHARE_VERTICAL;
	a.share.clients = member < 2 ? 2 : SL_CONF_PARTIES;
	a.share.member = member;
	a.share.role = role;
	a.share.align = SL_SHARE_ALIGNS;
	f.payload = (struct sl_bytes){(uint8_t *)room, sl_agreed_write(&a, room)};
	f.u.hello = (struct sl_hello){.version = SL_WIRE_VERSION,
				      .n_held = 1,
				      .epoch = 1,
				      .software = "test",
				      .part_bytes = HOST_RIG_PART,
				      .window_bytes = 1 << 24,
				      .heartbeat_ms = 50,
				      .timeout_ms = timeout_ms,
				      .payload_xxh3 = sl_wire_hash(f.payload)};
	memcpy(f.u.hello.session, host_rig_secret(session)->session, SL_SESSION_BYTES);
	return f;
}

static void come(struct host_client *c, uint8_t session, const char *group, int member, int role)
{
	const struct sl_frame f = hello(session, group, member, role);

	host_rig_connect_raw(c);
	host_rig_say(c, &f);
}

static void both_come(struct host_client c[2])
{
	static uint8_t session;

	for (int k = 0; k < 2; k++)
		come(&c[k], ++session, "g", k, k);
	for (int k = 0; k < 2; k++) {
		host_rig_await(&c[k].came[SL_FRAME_WELCOME], 1);
		assert_int_equal(c[k].last[SL_FRAME_WELCOME].u.welcome.part_bytes, LETTER);
		assert_int_equal(c[k].last[SL_FRAME_WELCOME].u.welcome.window_bytes, 2 * LETTER);
	}
}

static const struct sl_frame letter = {
	.kind = SL_FRAME_PART, .epoch = 1, .u.part = {.what = SL_PART_LETTER, .total = LETTER}};

static void post(struct host_client *c)
{
	struct sl_frame f = letter;

	host_rig_say_part(c, &f, (struct sl_bytes){bytes, LETTER});
}

static void letters_are_handed_on(void **unused)
{
	const struct sl_frame bye = {.kind = SL_FRAME_BYE, .epoch = 1},
			      refuse = {.kind = SL_FRAME_REFUSE,
					.epoch = 1,
					.u.refuse = {.code = SL_ERR_AUTH, .text = "it does not open"}};
	struct host_client c[2];

	host_rig_open(4, 1 << 20);
	both_come(c);
	post(&c[0]);
	host_rig_await(&c[1].came[SL_FRAME_PART], 1);
	post(&c[1]); /* it may be one ahead */
	host_rig_await(&c[0].came[SL_FRAME_PART], 1);
	post(&c[1]);
	host_rig_await(&c[0].came[SL_FRAME_PART], 2);
	post(&c[0]);
	host_rig_await(&c[1].came[SL_FRAME_PART], 2);
	host_rig_await(&c[0].came[SL_FRAME_HEARTBEAT], 2);
	host_rig_say(&c[1], &bye);
	assert_non_null(strstr(host_rig_refusal(&c[0], SL_ERR_PEER_LOST), "member 1 of group g has left"));
	for (int k = 0; k < 2; k++)
		host_rig_hang_up(&c[k]);
	both_come(c);
	host_rig_say(&c[0], &refuse);
	assert_string_equal(host_rig_refusal(&c[1], SL_ERR_AUTH), "member 0 of group g ended it: it does not open");
	for (int k = 0; k < 2; k++)
		host_rig_hang_up(&c[k]);
	host_rig_close();
}

/* What member 0 does, its error, and words of it that member 1 hears. */
static const struct rogue {
	const char *words;
	enum sl_err code;
	enum sl_frame_kind kind; /* no Part: this frame */
	struct sl_part part;
	size_t len, times; /* 0: LETTER, once */
} rogues[] = {
	{"that is no letter", SL_ERR_PROTOCOL, .part = {.what = SL_PART_LETTER, .chunk = 1}, .kind = SL_FRAME_PART},
	{"that is no letter", SL_ERR_PROTOCOL, .part = {.what = SL_PART_HEAD_ACT}, .kind = SL_FRAME_PART},
	{"that is no letter", SL_ERR_PROTOCOL, .part = {.what = SL_PART_LETTER, .training = true},
	 .kind = SL_FRAME_PART},
	{"a letter of 100 bytes, where all have 65536", SL_ERR_LIMIT, .kind = SL_FRAME_PART,
	 .part = {.what = SL_PART_LETTER}, .len = 100},
	{"a letter before its turn", SL_ERR_LIMIT, .kind = SL_FRAME_PART, .part = {.what = SL_PART_LETTER}, .times = 2},
	{"a frame that an alignment does not have", SL_ERR_PROTOCOL, .kind = SL_FRAME_CREDIT},
	{"a frame that an alignment does not have", SL_ERR_PROTOCOL, .kind = SL_FRAME_COMMIT},
	{"a frame that an alignment does not have", SL_ERR_PROTOCOL, .kind = SL_FRAME_FETCH},
};

static void misbehave(struct host_client *c, const struct rogue *r)
{
	struct sl_frame f = {.kind = r->kind, .epoch = 1};

	for (size_t i = 0; i < (r->times ? r->times : 1); i++) {
		if (r->kind == SL_FRAME_PART) {
			f.u.part = r->part;
			f.u.part.total = r->len ? r->len : LETTER;
			host_rig_say_part(c, &f, (struct sl_bytes){bytes, f.u.part.total});
		} else {
			host_rig_say(c, &f);
		}
	}
}

static void a_rogue_ends_its_own_alignment(void **unused)
{
	struct host_client c[2], others[2];

	host_rig_open(4, 1 << 20);
	come(&others[0], 200, "h", 0, 0);
	come(&others[1], 201, "h", 1, 1);
	for (size_t i = 0; i < sizeof rogues / sizeof rogues[0]; i++) {
		both_come(c);
		misbehave(&c[0], &rogues[i]);
		assert_non_null(strstr(host_rig_refusal(&c[0], rogues[i].code), rogues[i].words));
		assert_non_null(strstr(host_rig_refusal(&c[1], rogues[i].code), "member 0 of group g ended it: "));
		assert_non_null(strstr(c[1].last[SL_FRAME_REFUSE].u.refuse.text, rogues[i].words));
		for (int k = 0; k < 2; k++)
			host_rig_hang_up(&c[k]);
	}
	post(&others[0]);
	host_rig_await(&others[1].came[SL_FRAME_PART], 1);
	for (int k = 0; k < 2; k++)
		host_rig_hang_up(&others[k]);
	host_rig_close();
}

static void seats(void **unused)
{
	struct host_client c[2], again, many[17];
	struct sl_frame f;

	host_rig_open(4, 1 << 20);
	/* alone: a letter has nobody to go to */
	come(&c[0], 1, "g", 0, 0);
	host_rig_await(&c[0].came[SL_FRAME_HEARTBEAT], 1);
	post(&c[0]);
	(void)host_rig_refusal(&c[0], SL_ERR_LIMIT);
	host_rig_hang_up(&c[0]);
	/* a third member, which a vertical group may have */
	come(&c[0], 6, "g", 2, 0);
	assert_non_null(strstr(host_rig_refusal(&c[0], SL_ERR_LIMIT), "must be below share.clients"));
	host_rig_hang_up(&c[0]);
	/* two with one role */
	come(&c[0], 2, "g", 0, 0);
	host_rig_await(&c[0].came[SL_FRAME_HEARTBEAT], 1);
	come(&c[1], 3, "g", 1, 0);
	assert_non_null(strstr(host_rig_refusal(&c[1], SL_ERR_MISMATCH), "no member with share.role: labels"));
	host_rig_hang_up(&c[1]);
	come(&c[1], 7, "g", 1, 1); /* the first one waited on */
	for (int k = 0; k < 2; k++)
		host_rig_await(&c[k].came[SL_FRAME_WELCOME], 1);
	assert_int_equal(c[0].came[SL_FRAME_REFUSE], 0);
	host_rig_hang_up(&c[0]);
	host_rig_hang_up(&c[1]);
	/* one comes again, since it was lost */
	both_come(c);
	come(&again, 4, "g", 1, 1);
	assert_non_null(strstr(host_rig_refusal(&c[0], SL_ERR_PEER_LOST), "member 1 of group g began again"));
	(void)host_rig_refusal(&c[1], SL_ERR_MISMATCH);
	host_rig_hang_up(&c[0]);
	come(&c[0], 5, "g", 0, 0);
	host_rig_await(&again.came[SL_FRAME_WELCOME], 1);
	/* more groups than there is room for */
	for (int i = 0; i < 16; i++) {
		char name[8];

		snprintf(name, sizeof name, "n%d", i);
		come(&many[i], (uint8_t)(100 + i), name, 0, 0);
		if (i < 15)
			host_rig_await(&many[i].came[SL_FRAME_HEARTBEAT], 1);
	}
	(void)host_rig_refusal(&many[15], SL_ERR_BUSY);
	/* an agreement that says more than it may */
	host_rig_connect_raw(&many[16]);
	f = hello(150, "g", 1, 1);
	host_rig_reword(&f, "share.align = true\n", "share.align = true\nshare.course = 0\n");
	host_rig_say(&many[16], &f);
	(void)host_rig_refusal(&many[16], SL_ERR_PROTOCOL);
	for (int i = 0; i < 17; i++)
		host_rig_hang_up(&many[i]);
	host_rig_hang_up(&again);
	host_rig_hang_up(&c[0]);
	host_rig_hang_up(&c[1]);
	host_rig_close();
}

static bool trickles;

static uint64_t arrived(const struct sl_transport *transport, sl_peer peer)
{
	static uint64_t n;

	(void)transport, (void)peer;
	return trickles ? ++n : n;
}

/* A link on which a letter takes longer than the members' patience is not silent. */
static void a_long_letter_is_not_silence(void **unused)
{
	struct host_client c[2];
	struct sl_transport_ops ops;

	host_rig_open(4, 1 << 20);
	ops = *host_rig.host->transport->ops;
	ops.arrived = arrived;
	host_rig.host->transport->ops = &ops;
	trickles = true;
	timeout_ms = 200;
	both_come(c);
	for (int k = 0; k < 2; k++) /* a heartbeat goes out every 50 ms */
		host_rig_await(&c[k].came[SL_FRAME_HEARTBEAT], 12);
	for (int k = 0; k < 2; k++)
		assert_int_equal(c[k].came[SL_FRAME_REFUSE], 0);
	trickles = false;
	(void)host_rig_refusal(&c[0], SL_ERR_PEER_LOST);
	for (int k = 0; k < 2; k++)
		host_rig_hang_up(&c[k]);
	timeout_ms = 60000;
	host_rig_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(letters_are_handed_on),
		cmocka_unit_test(a_rogue_ends_its_own_alignment),
		cmocka_unit_test(seats),
		cmocka_unit_test(a_long_letter_is_not_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
