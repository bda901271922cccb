/* The server's key pair and the list of clients that may connect, from the files that its config names. Loop thread. */
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

/* Reads both files; without auth in the config, *auth is empty. Messages of errors begin with the place in the config.
 * `transport` points into *auth, which must not move. Close *auth after an error, too. */
enum sl_err sl_server_auth_open(struct sl_server_auth *auth, const struct sl_conf_server *conf,
				struct sl_fail *fail) SL_MUST_CHECK;
/* Reads the list of clients again; after a failure the old one stays in force. */
enum sl_err sl_server_auth_reload(struct sl_server_auth *auth, const struct sl_conf_server *conf,
				  struct sl_fail *fail) SL_MUST_CHECK;
/* Wipes the key. Close the transport first. */
void sl_server_auth_close(struct sl_server_auth *auth);

#endif
