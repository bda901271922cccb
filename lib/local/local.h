/* The interface of libsplit_local.so, which libsplit opens for the server "local:". It runs a server in this process,
 * which listens on a socket in a folder of its own. It is a module of its own because it brings OpenBLAS, and sets that
 * to one thread in the whole process. */
#ifndef SL_LIB_LOCAL_LOCAL_H
#define SL_LIB_LOCAL_LOCAL_H

#include <stddef.h>

enum { SL_LOCAL_ENDPOINT = 128, SL_LOCAL_TEXT = 512 };

struct sl_local_conf {
	const char *store;                                     /* folder of the server's store; "": it has none */
	int level;                                             /* log level */
	void (*line)(void *arg, const char *line, size_t len); /* receives a log line; any thread */
};

/* Starts a server, fills `endpoint`, and returns 0; else an enum sl_err, with a sentence in `why`. Its threads block
 * all signals. */
int sl_local_open(void **out, const struct sl_local_conf *conf, char endpoint[SL_LOCAL_ENDPOINT],
		  char why[SL_LOCAL_TEXT]);
/* Ends the server, after it has stored what it must. */
void sl_local_close(void *local);

#endif
