/* The server's key and the list of clients that may come in, as its config names them. Loop thread. */
#ifndef SL_SERVER_HOST_AUTH_H
#define SL_SERVER_HOST_AUTH_H

#include "common/conf/conf.h"
#include "common/link/gate.h"
#include "common/link/transport.h"

struct sl_server_auth {
	struct sl_keypair own;
	struct sl_gate *gate; /* NULL: no auth in the config */
	struct sl_transport_auth transport;
};

/* Reads both files; where the config has no auth, *auth is empty. Errors begin with the place in the config. `auth`
 * stays where it is, and is closed in any case. */
enum sl_err sl_server_auth_open(struct sl_server_auth *auth, const struct sl_conf_server *conf,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Reads the list of clients again; on failure the old one still counts. */
enum sl_err sl_server_auth_reload(struct sl_server_auth *auth, const struct sl_conf_server *conf,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* After the transport. Wipes the key. */
void sl_server_auth_close(struct sl_server_auth *auth);

#endif
