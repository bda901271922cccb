/* What holds of a port's runs and tasks, as assertions. A peer cannot break them: the session refuses parts that do not
 * fit before they get here. */
#ifndef SL_SESSION_PORT_CHECK_H
#define SL_SESSION_PORT_CHECK_H

#include "common/session/port_impl.h"

/* Each before what it names: a task waits in `lane`; a run is posted; `len` bytes of a run are stored; a task is
 * posted. */
void sl_port_check_waiting(const struct lane_out *lane, enum sl_task task);
void sl_port_check_post(const struct sl_port *port, enum sl_part_what what, int chunk);
void sl_port_check_store(const struct sl_port *port, const struct sl_action *action, size_t len);
void sl_port_check_dispatch(const struct sl_port *port, enum sl_task task, int chunk);

#endif
