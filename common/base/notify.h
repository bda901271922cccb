/* Tells systemd the state of a service (sd_notify(3)): one datagram to $NOTIFY_SOCKET, or nothing if that is not
 * set. */
#ifndef SL_BASE_NOTIFY_H
#define SL_BASE_NOTIFY_H

#include <stdint.h>

/* `state`: "READY=1", "STOPPING=1", "WATCHDOG=1"; several lines are one message. */
void sl_notify(const char *state);
/* Half of WatchdogSec: the time after which the next WATCHDOG=1 is due. 0: systemd expects none. */
uint64_t sl_notify_watchdog_ms(void);

#endif
