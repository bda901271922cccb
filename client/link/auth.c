#include "client/link/auth.h"

#include "common/base/log.h"

enum sl_err sl_client_auth_open(struct sl_client_auth *auth, const struct sl_conf_client *conf, struct sl_fail *fail)
{
	char own[SL_FINGERPRINT], server[SL_FINGERPRINT];
	enum sl_err err;

	*auth = (struct sl_client_auth){0};
	if (!conf->auth.secret_key[0])
		return SL_OK;
	err = sl_conf_client_blame(conf, "auth.secret_key", sl_keypair_load(&auth->own, conf->auth.secret_key, fail),
				   fail);
	if (!err)
		err = sl_conf_client_blame(conf, "auth.server_key",
					   sl_key_load_public(&auth->server, conf->auth.server_key, fail), fail);
	if (!err && sl_key_equal(&auth->own.public_key, &auth->server))
		err = sl_conf_client_fail(conf, "auth.server_key", fail,
					  "is the public key of this client's own auth.secret_key: give the server's");
	if (err)
		return err;
	auth->transport = (struct sl_transport_auth){.own = &auth->own, .server = &auth->server, .met = &auth->met};
	sl_key_fingerprint(&auth->own.public_key, own);
	sl_key_fingerprint(&auth->server, server);
	sl_log(SL_LOG_INFO, "auth", "this client's key is %s, the server's must be %s", own, server);
	return SL_OK;
}

void sl_client_auth_close(struct sl_client_auth *auth)
{
	sl_keypair_wipe(&auth->own);
}
