/* Why no server answers. */
#ifndef SL_CLIENT_LINK_EXPLAIN_H
#define SL_CLIENT_LINK_EXPLAIN_H

#include "common/conf/conf.h"

/* After *fail, which says that no server answered in time: probes the network, and adds what it finds to the text. If
 * the server is too slow for link.connect_timeout_ms, the text names a sufficient value. Returns TIMEOUT, or AUTH if
 * the keys are wrong. Blocks for 2 s or half of link.connect_timeout_ms, at most 10 s, or until a signal. */
enum sl_err sl_link_explain(const struct sl_conf_client *conf, struct sl_fail *fail) SL_MUST_CHECK;

#endif
