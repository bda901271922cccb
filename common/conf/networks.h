/* The networks that have a name, and the inputs and keys of each. A new one is a row here, and a file in
 * client/model that defines sl_source_NAME. */
#ifndef SL_CONF_NETWORKS_H
#define SL_CONF_NETWORKS_H

/* The kind of a network's input, and the keys that it has. */
enum {
	SL_NETWORK_IMAGES = 1 << 0,
	SL_NETWORK_TOKENS = 1 << 1,
	SL_NETWORK_ROWS = 1 << 2,
	SL_NETWORK_WIDTH = 1 << 3,
	SL_NETWORK_FORM = 1 << 4,
	SL_NETWORK_BN0 = 1 << 5,
	SL_NETWORK_DROPOUT = 1 << 6,
	SL_NETWORK_VOCAB = 1 << 7,
	SL_NETWORK_HEAD = 1 << 8
};

/* clang-format off */
#define SL_BUILT_IN_NETWORKS(X) \
	X(mobilenet_v2,       SL_NETWORK_IMAGES | SL_NETWORK_FORM | SL_NETWORK_DROPOUT) \
	X(mobilenet_v2_pool4, SL_NETWORK_IMAGES | SL_NETWORK_FORM | SL_NETWORK_DROPOUT) \
	X(mobilenet_v2_relu,  SL_NETWORK_IMAGES) \
	X(resnet9,            SL_NETWORK_IMAGES) \
	X(resnet18,           SL_NETWORK_IMAGES | SL_NETWORK_FORM | SL_NETWORK_BN0) \
	X(resnet34,           SL_NETWORK_IMAGES | SL_NETWORK_FORM | SL_NETWORK_BN0) \
	X(resnet50,           SL_NETWORK_IMAGES | SL_NETWORK_FORM | SL_NETWORK_BN0) \
	X(resnext50_32x4d,    SL_NETWORK_IMAGES | SL_NETWORK_FORM | SL_NETWORK_BN0) \
	X(alexnet,            SL_NETWORK_IMAGES) \
	X(alexnet1,           SL_NETWORK_IMAGES | SL_NETWORK_DROPOUT) \
	X(vgg16,              SL_NETWORK_IMAGES | SL_NETWORK_DROPOUT) \
	X(token_mlp,          SL_NETWORK_TOKENS | SL_NETWORK_VOCAB | SL_NETWORK_DROPOUT) \
	X(mlp,                SL_NETWORK_ROWS | SL_NETWORK_DROPOUT)
/* clang-format on */

/* What converts an ONNX file; for printf, with the most characters of its path, and that. */
#define SL_CONF_ONNX_HOW                                                                                         \
	"convert the file once, by `python3 -m split.onnx %.*s net.safetensors` (docs/howto-onnx.md), and name " \
	"net.safetensors as model.network"

/* model.name of a network that model.huggingface or model.network describes. */
#define SL_CONF_HUGGINGFACE   "huggingface"
#define SL_CONF_NETWORK       "network"
#define SL_CONF_NETWORK_ROWS  "network_rows" /* if data.kind has rows of numbers */
#define SL_CONF_NETWORK_TEXTS "network_texts"

struct sl_network {
	const char *name;
	unsigned has;
};
extern const struct sl_network sl_networks[]; /* the built-in ones, then these; the last name is NULL */
unsigned sl_network_has(const char *name);    /* 0: there is no such network */

#endif
