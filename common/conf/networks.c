#include "common/conf/networks.h"

#include <string.h>

#define ROW(name, has) {#name, (has) | SL_NETWORK_WIDTH},

const struct sl_network sl_networks[] = {
	SL_BUILT_IN_NETWORKS(ROW){SL_CONF_HUGGINGFACE, SL_NETWORK_TOKENS | SL_NETWORK_HEAD},
	{SL_CONF_NETWORK, SL_NETWORK_IMAGES},
	{SL_CONF_NETWORK_ROWS, SL_NETWORK_ROWS},
	{SL_CONF_NETWORK_TEXTS, SL_NETWORK_TOKENS | SL_NETWORK_HEAD},
	{NULL, 0},
};

unsigned sl_network_has(const char *name)
{
	const struct sl_network *n = sl_networks;

	while (n->name && strcmp(n->name, name) != 0)
		n++;
	return n->has;
}
