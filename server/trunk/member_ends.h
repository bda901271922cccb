/* A member's session and its shared head and tail: their layout and what they cost. The group's part is in
 * server/group/group_ends.c. On the worker. */
#ifndef SL_SERVER_TRUNK_MEMBER_ENDS_H
#define SL_SERVER_TRUNK_MEMBER_ENDS_H

#include "server/trunk/middle_task.h"

/* Reads the layout from the payload of a Hello, and adds the memory that it needs to m->memory. */
enum sl_err sl_member_ends_hear(struct sl_middle *m, struct sl_bytes text, struct sl_fail *fail) SL_MUST_CHECK;
void sl_member_ends_close(struct sl_middle *m); /* frees the session's part */
/* The size of a head and tail with their moments, for a member that comes and for the store; with a seal, of that. */
size_t sl_member_ends_state_bytes(const struct sl_middle *m);
struct sl_backend *sl_member_ends_host(const struct sl_middle *m); /* where its codecs compute */

#endif
