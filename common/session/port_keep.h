/* The rows of head_act that the server keeps for a client that sends only what it lacks (train.keep_sent_bytes). */
#ifndef SL_SESSION_PORT_KEEP_H
#define SL_SESSION_PORT_KEEP_H

#include "common/session/port_impl.h"

/* How many tokens of head_act the server keeps, and the memory for that. */
int64_t sl_port_keeps(const struct sl_plan *plan);
void sl_port_keep_memory(const struct sl_plan *plan, enum sl_session_role role, struct sl_memory *need);
enum sl_err sl_port_keep_open(struct sl_port *port, struct sl_fail *fail) SL_MUST_CHECK;
void sl_port_keep_close(struct sl_port *port);
/* (worker) Whether the server has every row of the chunk; else *missing is the first that it has not. */
bool sl_port_keep_has(const struct sl_port *port, int chunk, int64_t *missing);
void sl_port_keep_note(struct sl_port *port, int chunk); /* from now on it has them */
void sl_port_keep_write(const struct sl_port *port, int chunk, uint8_t *at);
/* (worker) Server. _take: takes the homes off the front of *in; PAYLOAD if one is out of bounds. _store: copies rows of
 * `x` to the store. _restore: copies them back; PAYLOAD if one is not there. */
enum sl_err sl_port_keep_take(struct sl_port *port, int chunk, struct sl_bytes *in, struct sl_fail *fail) SL_MUST_CHECK;
enum sl_err sl_port_keep_store(struct sl_port *port, int chunk, const struct sl_tensor *x) SL_MUST_CHECK;
enum sl_err sl_port_keep_restore(struct sl_port *port, int chunk, const struct sl_tensor *x,
				 struct sl_fail *fail) SL_MUST_CHECK;

#endif
