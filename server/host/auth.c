#include "server/host/auth.h"

#include "common/base/log.h"

enum sl_err sl_server_auth_open(struct sl_server_auth *auth, const struct sl_conf_server *conf, struct sl_fail *fail)
{
	char print[SL_FINGERPRINT];
	struct sl_allow *allow = NULL;
	enum sl_err err;

	*auth = (struct sl_server_auth){0};
	if (!conf->auth.secret_key[0])
		return SL_OK;
	err = sl_conf_server_blame(conf, "auth.secret_key", sl_keypair_load(&auth->own, conf->auth.secret_key, fail),
				   fail);
	if (!err)
		err = sl_conf_server_blame(conf, "auth.clients", sl_allow_load(&allow, conf->auth.clients, fail), fail);
	if (!err)
		err = sl_gate_open(&auth->gate, allow, fail);
	if (err) {
		sl_allow_free(allow);
		return err;
	}
	auth->transport = (struct sl_transport_auth){.own = &auth->own, .gate = auth->gate};
	sl_key_fingerprint(&auth->own.public_key, print);
	sl_log(SL_LOG_INFO, "auth", "this server's key is %s; %d client%s may come in", print, sl_allow_count(allow),
	       sl_plural(sl_allow_count(allow)));
	return SL_OK;
}

enum sl_err sl_server_auth_reload(struct sl_server_auth *auth, const struct sl_conf_server *conf, struct sl_fail *fail)
{
	struct sl_allow *allow;
	enum sl_err err =
		sl_conf_server_blame(conf, "auth.clients", sl_allow_load(&allow, conf->auth.clients, fail), fail);

	if (!err)
		sl_allow_free(sl_gate_swap(auth->gate, allow));
	return err;
}

void sl_server_auth_close(struct sl_server_auth *auth)
{
	sl_gate_close(auth->gate);
	auth->gate = NULL;
	sl_keypair_wipe(&auth->own);
}
