/* Rows of a seed's story. */
#ifndef SL_TESTS_SIM_TRACE_H
#define SL_TESTS_SIM_TRACE_H

#include "common/session/session.h"
#include "server/trunk/trunk_table.h"
#include "tests/sim/sim.h"

/* Nothing is printed of an event that leaves the session as it was. */
void sim_trace_session(const struct sl_session *s, const struct sl_session *before, const char *event);
/* What a group does next, and its seats. */
void sim_trace_table(const struct sl_trunk_table *t, const char *act, int seat);

#endif
