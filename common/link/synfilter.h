/* For files of this room: blocks addresses at a listening TCP socket. A classic BPF filter on the socket, which needs
 * no privilege, makes the kernel drop their SYNs before there is a connection. A blocked peer's TCP sends its SYN
 * again, at first after a second. Others are not affected. */
#ifndef SL_LINK_SYNFILTER_H
#define SL_LINK_SYNFILTER_H

#include "common/link/arrivals.h"

/* Replaces the filter of `fd` with one that blocks these addresses; without any, removes it. False: this socket accepts
 * no filter (another kind of socket, another kernel). */
bool sl_synfilter_set(int fd, const struct sl_shut *shut);

#endif
