/* What libsplit_local.so has, and libsplit opens where the server is "local:": a server of this process, behind a
 * socket in a folder of its own. It is a module because it brings OpenBLAS, and sets that to one thread in the whole
 * process. */
#ifndef SL_LIB_LOCAL_LOCAL_H
#define SL_LIB_LOCAL_LOCAL_H

#include <stddef.h>

enum { SL_LOCAL_ENDPOINT = 128, SL_LOCAL_TEXT = 512 };

struct sl_local_conf {
	const char *store; /* folder for what the server keeps; "": it keeps nothing */
	int level;         /* of the log */
	void (*line)(void *arg, const char *line, size_t len); /* of the log; from any thread */
};

/* Fills `endpoint`. Else an enum sl_err, with a sentence in `why`. None of its threads takes a signal. */
int sl_local_open(void **out, const struct sl_local_conf *conf, char endpoint[SL_LOCAL_ENDPOINT],
		  char why[SL_LOCAL_TEXT]);
/* Waits until the server has kept what is to be kept. */
void sl_local_close(void *local);

#endif
