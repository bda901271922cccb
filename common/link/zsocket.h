/* The room's own: what a transport asks of a bare ZeroMQ socket while it is opened and closed. */
#ifndef SL_LINK_ZSOCKET_H
#define SL_LINK_ZSOCKET_H

#include "common/link/transport.h"

/* Limits, time-outs, keep-alive; before the socket is bound or connected. */
enum sl_err sl_zsocket_options(void *socket, bool bound, const struct sl_transport_conf *conf,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* `events` of `socket` can be read from *out, without waiting; any number of them waits there. One monitor a context at
 * a time. *out may be set on failure too: sl_zsocket_unmonitor takes it, and NULL. */
enum sl_err sl_zsocket_monitor(void *context, void *socket, int events, void **out, struct sl_fail *fail) SL_MUST_CHECK;
/* The next event, without waiting for one longer than the monitor's ZMQ_RCVTIMEO says; false: none. */
bool sl_zsocket_read(void *monitor, int *event, int *value);
void sl_zsocket_unmonitor(void *socket, void **monitor);

/* A TCP socket's send buffer grows to megabytes, and a gradient would stand behind them however empty the queues before
 * it are. So TCP takes little beyond what is on its way; parts then also come back when they have left, which is what
 * rates are measured by. What a listening socket accepts later has it too. Without consequence where it fails: other
 * transports do not know it. */
void sl_zsocket_keep_unsent_short(int fd);

/* Where it is bound or connected to, as users write it. */
enum sl_err sl_zsocket_endpoint(void *socket, char *out, size_t cap, struct sl_fail *fail) SL_MUST_CHECK;

#endif
