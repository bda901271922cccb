/* Why nobody answers at an endpoint: what plain TCP has to say of it, for a sentence at a process's end. */
#ifndef SL_LINK_PROBE_H
#define SL_LINK_PROBE_H

enum { SL_PROBE_TEXT = 128 };

/* `endpoint`: tcp://host:port. Looks the host up, and tries to connect for `timeout_ms` at most (the lookup takes as
 * long as the system's resolver does): blocks. Returns `out`, such as "Connection refused". */
const char *sl_probe(const char *endpoint, int timeout_ms, char out[SL_PROBE_TEXT]);

#endif
