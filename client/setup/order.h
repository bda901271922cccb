/* In a vertical group: the hash of a pass's rows, by which the server finds that the parties do not have the same rows
 * (SL_PART_ORDER). It is keyed, so the server cannot try names of rows. Worker or loop, one at a time. */
#ifndef SL_CLIENT_SETUP_ORDER_H
#define SL_CLIENT_SETUP_ORDER_H

#include "client/step/feed.h"
#include "common/link/key.h"
#include "common/link/wire.h"

struct sl_conf_client;
struct sl_setup;

/* A zeroed one is none. */
struct sl_order {
	struct sl_key key;            /* of share.secret; zeros without */
	uint64_t *id[SL_SPLIT_COUNT]; /* by sample, a hash of its name; NULL: its number counts */
	uint64_t *room;               /* [2 + batch] */
};

/* The key in the file share.secret: of a vertical group for this hash, of others for seals (sealed.h). Wipe it. Errors
 * of sl_keypair_load. */
enum sl_err sl_order_secret(const struct sl_conf_client *conf, struct sl_key *secret,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* The data are open. Errors of share.secret and data.id; NOMEM. */
enum sl_err sl_order_open(struct sl_order *o, const struct sl_setup *setup, struct sl_fail *fail) SL_MUST_CHECK;
void sl_order_close(struct sl_order *o);
void sl_order_tag(const struct sl_order *o, const struct sl_feed *feed, uint64_t number, bool training,
		  uint8_t tag[SL_WIRE_ORDER]);

#endif
