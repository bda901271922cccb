/* The log of a group: for each step the set of members whose parts are in it, and which members came back, and how. All
 * that is said about who took part follows from it: how many steps a member has missed, and the list with which
 * `--local --absent` repeats the run. Pure: no I/O, no clock, no thread. The group's checkpoints hold it. */
#ifndef SL_SERVER_GROUP_GROUP_LOG_H
#define SL_SERVER_GROUP_GROUP_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/conf/agreed.h"

struct sl_group_set {
	uint8_t bit[SL_CONF_SHARE_CLIENTS / 8];
};
static inline bool sl_group_set_has(const struct sl_group_set *s, int k)
{
	return s->bit[k / 8] >> k % 8 & 1;
}
static inline void sl_group_set_add(struct sl_group_set *s, int k)
{
	s->bit[k / 8] |= (uint8_t)(1 << k % 8);
}

/* Steps from `from` on, up to the next range, were done by these members. */
struct sl_group_range {
	uint64_t from;
	struct sl_group_set with;
};
/* A member came before `step`, and its codecs began anew. own: the step of its own head and tail, with which it went
 * on; SL_GROUP_GIVEN: it got those of the group. Or, in rounds, SL_GROUP_ALONE: before `step` it did `did` steps of a
 * round that ended without it. They are not in the model, but in what it keeps: moments, codecs, a private head. */
#define SL_GROUP_GIVEN UINT64_MAX
#define SL_GROUP_ALONE (UINT64_MAX - 1)
struct sl_group_return {
	uint64_t step, own;
	int32_t member, did;
};

/* Zeros are an empty log. */
struct sl_group_log {
	struct sl_group_range *range;
	struct sl_group_return *back;
	size_t n_range, cap_range, n_back, cap_back;
	uint64_t end; /* steps that it tells of */
};

void sl_group_log_close(struct sl_group_log *log);
/* The next `steps` steps were done by the members in `with`. NOMEM. */
enum sl_err sl_group_log_step(struct sl_group_log *log, uint64_t steps, const struct sl_group_set *with) SL_MUST_CHECK;
enum sl_err sl_group_log_return(struct sl_group_log *log, int member, uint64_t own) SL_MUST_CHECK; /* before log->end */
/* The last `steps` steps were a round, which ended without the member, and it had done the first `did` of them. NOMEM.
 */
enum sl_err sl_group_log_alone(struct sl_group_log *log, int member, uint64_t steps, uint64_t did) SL_MUST_CHECK;
void sl_group_log_cut(struct sl_group_log *log, uint64_t step); /* forgets the steps from `step` on */
uint64_t sl_group_log_last(const struct sl_group_log *log,
			   int member); /* the step behind the member's last one; 0: none */
uint64_t sl_group_log_missed(const struct sl_group_log *log, int member);

/* Appends the list for --absent, of n members: "1:300,2:703-1890". The caller frees out->data. NOMEM. */
enum sl_err sl_group_log_text(const struct sl_group_log *log, int n, struct sl_buf *out) SL_MUST_CHECK;

/* For checkpoints. size: bytes that write appends. read: DATA, what is there is no log; *used: bytes of it. */
size_t sl_group_log_size(const struct sl_group_log *log);
enum sl_err sl_group_log_write(const struct sl_group_log *log, struct sl_buf *out) SL_MUST_CHECK;
enum sl_err sl_group_log_read(struct sl_group_log *log, struct sl_bytes in, size_t *used) SL_MUST_CHECK;

#endif
