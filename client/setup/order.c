#include "client/setup/order.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/parts.h"
#include "client/setup/setup.h"

enum { PREFIX = 2 }; /* numbers before those of the rows: the pass, and whether it trains */

enum sl_err sl_order_secret(const struct sl_conf_client *c, struct sl_key *secret, struct sl_fail *fail)
{
	struct sl_keypair pair;
	const enum sl_err err = sl_keypair_load(&pair, c->share_secret, fail);

	if (err)
		return sl_conf_client_blame(c, "share.secret", err, fail);
	*secret = pair.secret_key;
	sl_keypair_wipe(&pair);
	return SL_OK;
}

static enum sl_err read_key(struct sl_order *o, const struct sl_setup *s, struct sl_fail *fail)
{
	if (s->aligned)
		o->key = s->aligned->secret;
	return s->conf->share_secret[0] ? sl_order_secret(s->conf, &o->key, fail) : SL_OK;
}

enum sl_err sl_order_open(struct sl_order *o, const struct sl_setup *s, struct sl_fail *fail)
{
	const struct sl_conf_client *c = s->conf;
	bool fits;

	*o = (struct sl_order){.room = calloc((size_t)c->agreed.batch + PREFIX, sizeof *o->room)};
	fits = o->room != NULL;
	for (int split = 0; split < SL_SPLIT_COUNT && c->data.id[0] && fits; split++) {
		const struct sl_set *set = &s->set[split];

		o->id[split] = calloc((size_t)set->count + 1, sizeof *o->id[split]);
		fits = o->id[split] != NULL;
		for (int64_t i = 0; i < set->count && fits; i++) {
			char room[NAME_MAX + 1];
			const char *name = set->source->id(set, i, room, sizeof room);

			o->id[split][i] = sl_parts_key(name, strlen(name));
		}
	}
	return fits ? read_key(o, s, fail) : sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the names of rows");
}

void sl_order_close(struct sl_order *o)
{
	for (int split = 0; split < SL_SPLIT_COUNT; split++)
		free(o->id[split]);
	free(o->room);
	explicit_bzero(o, sizeof *o);
}

void sl_order_tag(const struct sl_order *o, const struct sl_feed *feed, uint64_t number, bool training,
		  uint8_t tag[SL_WIRE_ORDER])
{
	const uint64_t *id = o->id[training ? SL_SPLIT_TRAIN : SL_SPLIT_TEST];

	o->room[0] = number;
	o->room[1] = training;
	for (int64_t i = 0; i < feed->rows; i++) {
		const int32_t sample = feed->samples[i];

		o->room[PREFIX + i] = id ? id[sample] : (uint64_t)sample;
	}
	sl_key_stream(&o->key, o->room, (size_t)(PREFIX + feed->rows) * sizeof *o->room, tag, SL_WIRE_ORDER);
}
