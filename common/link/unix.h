/* Unix sockets of this process. For files of this room. */
#ifndef SL_LINK_UNIX_H
#define SL_LINK_UNIX_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "common/base/err.h"

struct sl_unix {
	struct sockaddr_un address;
	dev_t dev; /* dev and ino: our socket file; a file that has replaced it must not be removed */
	ino_t ino;
};

/* Fills in the address, and checks the folder if it is the user's own (sl_guard_own_folder), which others could have
 * made before. `make`: for a new socket. `what` begins messages: "control socket". CONFIG: the path is empty or too
 * long; CANTCREATE or AUTH: the folder is another user's. */
enum sl_err sl_unix_address(struct sockaddr_un *out, const char *what, const char *path, bool make,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Binds a non-blocking stream socket, *fd, to a file of `mode` less the umask. Replaces a socket file at which nobody
 * answers: a killed process has left it. UNAVAILABLE: another process answers there; OS, and as above. */
enum sl_err sl_unix_bind(int *fd, struct sl_unix *out, const char *what, const char *path, mode_t mode,
			 struct sl_fail *fail) SL_MUST_CHECK;
void sl_unix_remove(const struct sl_unix *socket); /* removes the file, if it is still this socket's */

#endif
