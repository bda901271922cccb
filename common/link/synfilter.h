/* The room's own: keeps addresses from connecting to a listening TCP socket. The kernel drops their SYNs before there
 * is a connection, by a filter of classic BPF on the socket, for which no privilege is needed. Those who are kept out
 * try again, a second later at first; nobody else notices. */
#ifndef SL_LINK_SYNFILTER_H
#define SL_LINK_SYNFILTER_H

#include "common/link/arrivals.h"

/* Replaces the filter of `fd` by one for these; with nobody to keep out there is none. False: this socket takes no
 * filter (another kind of socket, another kernel). */
bool sl_synfilter_set(int fd, const struct sl_shut *shut);

#endif
