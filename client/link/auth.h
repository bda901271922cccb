/* Loads the client's key pair and the server's public key, which the config names. */
#ifndef SL_CLIENT_LINK_AUTH_H
#define SL_CLIENT_LINK_AUTH_H

#include "common/conf/conf.h"
#include "common/link/transport.h"

struct sl_client_auth {
	struct sl_keypair own;
	struct sl_key server;
	int met;                            /* struct sl_transport_auth.met */
	struct sl_transport_auth transport; /* for struct sl_link_conf; own NULL: no auth in the config */
};

/* Messages of errors begin with the file and line of the config. `transport` points into *auth: it must not move. */
enum sl_err sl_client_auth_open(struct sl_client_auth *auth, const struct sl_conf_client *conf,
				struct sl_fail *fail) SL_MUST_CHECK;
void sl_client_auth_close(struct sl_client_auth *auth); /* wipes the key */

#endif
