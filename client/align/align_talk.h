/* What two parties say to each other to find their common rows. No I/O, clock or thread: it turns letters that came
 * into letters to be sent, so tests run both parties in memory. All letters have one size. Each party sends letter k
 * once it has the other's letter k - 1, and both know from letter 0 what every further letter is:
 *
 *   letters            of      content
 *   0                  both    version, role, lists, and how many points follow
 *   1 … rounds         both    own names times own scalar, in an order that only the sender knows
 *   2 … rounds + 1     features, behind its points: the other's of the letter before, times own scalar
 *   … last - 2         labels  a secret; for each point of features a mark: the point times own scalar, or zeros if its
 *                              row is not common; and in the last of them a proof of all marks
 *   last - 1           features: it has written the result; its proof of the answers that labels found common
 *   last               labels: it has written the result, too
 *
 * A party that lies about a common row would need the other's scalar (link/psi.h), so neither writes rows that are not
 * common, whatever the other one says. So labels learns which of its rows both have, features the same of its own, and
 * nobody more than counts of others. */
#ifndef SL_CLIENT_ALIGN_ALIGN_TALK_H
#define SL_CLIENT_ALIGN_ALIGN_TALK_H

#include "client/data/source.h"
#include "common/link/key.h"
#include "common/link/psi.h"

/* The rows that both have. */
struct sl_talk_result {
	struct sl_key secret;      /* both parties have the same, and nobody else */
	int64_t n[SL_SPLIT_COUNT]; /* by list */
	uint32_t *row;             /* numbers of own names in the common order, list by list */
	int64_t theirs;            /* points that the other party counts; 0: not known yet */
};

struct sl_talk_spec {
	bool labels;                    /* this party has the labels */
	int other;                      /* number of the other member, for messages */
	const struct sl_psi_name *name; /* distinct in each list; borrowed */
	int64_t n;
	int lists;
	bool pad; /* random points hide how many names there are: up to a power of two */
	struct sl_pool *pool;
	size_t bytes; /* of each letter's content, 256 or more */
	/* Stores the result, for good. */
	enum sl_err (*write)(void *arg, const struct sl_talk_result *result, struct sl_fail *fail);
	void *arg;
};

struct sl_talk;

enum sl_err sl_talk_open(struct sl_talk **out, const struct sl_talk_spec *spec, struct sl_fail *fail) SL_MUST_CHECK;
void sl_talk_close(struct sl_talk *talk); /* NULL is fine */
/* Writes the next content [bytes]. False: it needs a letter of the other party first, or it was the last one. */
bool sl_talk_say(struct sl_talk *talk, uint8_t *content);
/* Takes the next content [bytes] of the other party. PROTOCOL, VERSION, MISMATCH: it breaks the rules, or does not fit;
 * NOMEM, OS; errors of `write`. */
enum sl_err sl_talk_hear(struct sl_talk *talk, const uint8_t *content, struct sl_fail *fail) SL_MUST_CHECK;
bool sl_talk_over(const struct sl_talk *talk);   /* both have the result */
int sl_talk_percent(const struct sl_talk *talk); /* of the letters that were said; 0 until their number is known */
const struct sl_talk_result *sl_talk_result(const struct sl_talk *talk);

#endif
