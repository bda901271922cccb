/* For files of this room: options, monitor and address of a ZeroMQ socket. */
#ifndef SL_LINK_ZSOCKET_H
#define SL_LINK_ZSOCKET_H

#include "common/link/transport.h"

/* Sets limits, time-outs and keep-alive. Call it before the socket is bound or connected. */
enum sl_err sl_zsocket_options(void *socket, bool bound, const struct sl_transport_conf *conf,
			       struct sl_fail *fail) SL_MUST_CHECK;

/* Opens a monitor, from which `events` of `socket` can be read without blocking; it queues any number of them. One per
 * context at a time. *out may be set on failure, too; pass it to sl_zsocket_unmonitor, which accepts NULL. */
enum sl_err sl_zsocket_monitor(void *context, void *socket, int events, void **out, struct sl_fail *fail) SL_MUST_CHECK;
/* Reads the next event; waits for it at most for the monitor's ZMQ_RCVTIMEO, which is 0 at first. False: none. */
bool sl_zsocket_read(void *monitor, int *event, int *value);
void sl_zsocket_unmonitor(void *socket, void **monitor);

/* Limits the unsent bytes in a TCP socket's send buffer. It can grow to megabytes, behind which an urgent gradient
 * would wait. With the limit ZeroMQ also releases parts when they leave, from which outq.c measures the link's rate.
 * Sockets that a listening socket accepts inherit it. Failure is ignored: other kinds of sockets do not have the
 * option. */
void sl_zsocket_keep_unsent_short(int fd);
/* Bytes that the kernel has received on a TCP connection, whether or not as whole messages; 0: another kind of socket.
 */
uint64_t sl_zsocket_arrived(int fd);

/* Lets a socket that has not reached `endpoint` begin anew, with the host's IPv4 addresses alone or, if it has any, its
 * IPv6 addresses. */
void sl_zsocket_redial(void *socket, const char *endpoint, bool ipv4);

/* Listens at `endpoint`. CONFIG, also for the name of an interface; UNAVAILABLE. */
enum sl_err sl_zsocket_bind(void *socket, const char *endpoint, struct sl_fail *fail) SL_MUST_CHECK;

/* The endpoint to which the socket is bound or connected, as users write it. */
enum sl_err sl_zsocket_endpoint(void *socket, char *out, size_t cap, struct sl_fail *fail) SL_MUST_CHECK;

/* CONFIG unless this process may open as many more files as the sockets of one transport need: ZeroMQ aborts where it
 * finds none. */
enum sl_err sl_zsocket_room(struct sl_fail *fail) SL_MUST_CHECK;

#endif
