/* The client's config. Order here is the order of --print-config; keys of one section stand together. */
#include <string.h>

#include "common/conf/check.h"
#include "common/conf/row.h"

typedef struct sl_conf_client T;

#define AGREED(type, path, field, class, ...) type(T, path, agreed.field, __VA_ARGS__),

/* clang-format off */
static const struct sl_conf_key keys[] = {
	SL_STRING(T, "server", server, sl_conf_check_server, "tcp://127.0.0.1:5570", "where splits listens, tcp://host:port"),

	{SL_STRING_ROW(T, "model.name", model.name, sl_conf_check_word, NULL, "network: mobilenet_v2, mobilenet_v2_pool4, mobilenet_v2_relu, resnet9, resnet18, resnet34, resnet50, resnext50_32x4d, alexnet, alexnet1, vgg16, token_mlp or mlp; or model.huggingface, or model.onnx"), .instead = {"model.huggingface", "model.onnx"}},
	SL_STRING(T, "model.huggingface", model.huggingface, NULL, "", "folder of a network as Hugging Face's transformers keeps it, instead of model.name: config.json and, unless all weights are to be random, model.safetensors; families: roberta, bert, distilbert, electra"),
	SL_STRING(T, "model.onnx", model.onnx, NULL, "", "ONNX file of a network of images, as torch.onnx.export writes it in training, instead of model.name; its weights are those to start from, and it says what model.classes and model.image are"),
	SL_CHOICE(T, "model.head", model.head, SL_WORDS("classifier", "masked_lm"), "classifier",
		"of model.huggingface: a classifier, or a masked language model, whose labels are tokens of the text itself"),
	SL_DOUBLE(T, "model.width", model.width, 0.05, 8, "1", NULL, "multiplies the number of channels of each layer"),
	SL_INT(T, "model.classes", model.classes, 1, 100000, "10", "classes", "outputs of the classifier; of networks of tokens, 1: a number is predicted, with the mean of squares as the loss"),
	SL_SIZE(T, "model.image", model.image, SL_CONF_MIN_IMAGE, SL_CONF_MAX_IMAGE, "32", "pixels", "size of the input"),
	SL_CHOICE(T, "model.form", model.form, SL_WORDS("cifar", "imagenet"), "cifar",
		"of mobilenet_v2, resnet18 to 50 and resnext50_32x4d: strides of the first layers: cifar keeps small images large, imagenet is torchvision's"),
	SL_BOOL(T, "model.init_bn0", model.init_bn0, "false", "of resnet18 to 50 and resnext50_32x4d: the weight of each residual block's last batch norm starts at 0, so that a block changes nothing at first; torchvision's zero_init_residual"),
	SL_DOUBLE(T, "model.dropout", model.dropout, 0, 0.95, "0.2", NULL, "of mobilenet_v2, mobilenet_v2_pool4, alexnet1 and vgg16: dropout in the classifier; of token_mlp: behind its first layer; of mlp: before its last"),
	SL_INT(T, "model.features", model.features, 1, 65536, "1", "numbers", "of mlp: what a row of data.kind: csv comes to; an error says the right number"),
	SL_INT(T, "model.vocab", model.vocab, 1, 1 << 22, "1000", NULL, "of token_mlp: tokens are numbers below this"),
	SL_INT(T, "model.tokens", model.tokens, 1, 65535, "128", "tokens", "of token_mlp and networks of model.huggingface: longest row; longer ones are cut"),
	SL_STRING(T, "model.weights", model.weights, NULL, "", "safetensors file with the weights to start from; empty: random weights from train.seed"),
	SL_BOOL(T, "model.partial", model.partial, "false", "accept a model.weights file that lacks parameters; these start from train.seed"),
	SL_NAMES(T, "model.insert_weights", model.insert_weights, sl_conf_check_word, "",
		"safetensors files that together hold the weights of all inserts, as splitc export writes them; their other tensors are passed over; empty: from model.weights, else from train.seed"),

	SL_INT(T, "lora.rank", lora.rank, 0, 4096, "0", "0: no adapters", "of model.huggingface: rank of low-rank adapters (LoRA), which learn with the classifier, while all else stays as it is"),
	SL_DOUBLE(T, "lora.alpha", lora.alpha, 1e-6, 1e6, "16", NULL, "an adapter's output is multiplied by alpha / rank"),
	SL_NAMES(T, "lora.target", lora.target, sl_conf_check_word, "query,value", "linear layers that get an adapter, by the last words of their names (with --set: one,two)"),
	SL_DOUBLE(T, "lora.dropout", lora.dropout, 0, 0.95, "0", NULL, "dropout of what an adapter takes"),
	SL_STRING(T, "lora.adapter", lora.adapter, NULL, "", "folder with PEFT's adapter_config.json and adapter_model.safetensors to start from; empty: adapters that change nothing at first"),

	SL_STRING(T, "partition", partition, sl_conf_check_partition, "1:-1",
		"number of the head's units : minus the number of the tail's; the units between are the middle"),
	SL_STRING(T, "head_end", head_end, NULL, "", "last layer of the head by name, such as features.0.1, instead of partition's first number"),
	SL_STRING(T, "tail_begin", tail_begin, NULL, "", "first layer of the tail by name, such as classifier, instead of partition's second number"),
	SL_STRING(T, "insert.head", insert.head, sl_conf_check_insert, "",
		"learned layers that compress the head's activations: conv:20,k=3,s=3, linear:16, several joined with +, decaylinear:…, or a preset: bottleneck:58, bottleneck:83 or bottleneck:153; empty: none"),
	SL_STRING(T, "insert.tail", insert.tail, sl_conf_check_insert, "", "learned layers that compress the middle's activations, spelled as insert.head"),

	SL_CHOICE(T, "data.kind", data.kind, SL_WORDS("cifar10", "cifar100", "images", "webdataset", "made_tokens", "csv", "cola", "sst2", "mrpc", "qqp", "mnli", "mnli-mm", "qnli", "rte", "stsb", "wnli", "text"), "cifar10",
		"format of the files; images: folders train and val (or test) with a folder of pictures for each class; webdataset: tar files of pictures; made_tokens: random rows of tokens, without files; csv: tables train.csv and val.csv (or test.csv); cola to wnli: a task of GLUE; text: own files of texts, TSV, CSV or JSON Lines"),
	SL_STRING(T, "data.dir", data.dir, sl_conf_check_word, NULL, "folder of the data; in a group %m in it stands for share.member"),
	SL_NAMES(T, "data.train_files", data.train_files, sl_conf_check_file_name, "", "files to train on (with --set: one,two), of webdataset also as train-{000..146}.tar; empty: all training files of data.kind, of text train.tsv, .csv or .jsonl"),
	SL_NAMES(T, "data.test_files", data.test_files, sl_conf_check_file_name, "", "of webdataset and text: files to evaluate on; empty: val*.tar and test*.tar, of text dev, val, validation or test with the end .tsv, .csv or .jsonl"),
	SL_INT(T, "data.train_limit", data.train_limit, 0, 1e9, "0", "samples; 0: all", "train on so many samples only: the first ones, of images and webdataset spread evenly over all"),
	SL_INT(T, "data.test_limit", data.test_limit, 0, 1e9, "0", "samples; 0: all", "the same for evaluation"),
	SL_STRING(T, "data.partition", data.partition, sl_conf_check_parts, "files",
		"which training samples a member of a group has: files: all that it has here; of one set that all members have: iid, an equal part at random; by_label, one label behind the other; dirichlet:ALPHA, labels in unequal shares; batch, its part of every batch"),
	SL_INT(T, "data.crop_padding", data.crop_padding, 0, 16, "4", "pixels; 0: no crop", "random crop after zero padding"),
	SL_BOOL(T, "data.flip", data.flip, "true", "flip half of the training images left to right"),
	SL_CHOICE(T, "data.normalize", data.normalize, SL_WORDS("imagenet", "cifar10", "cifar100", "none"), "cifar10",
		"data set whose mean and standard deviation normalise the images"),
	SL_NAMES(T, "data.transforms", data.transforms, sl_conf_check_word, "",
		"steps from a picture to the network's input in training, as torchvision names them, such as [RandomResizedCrop(224), RandomHorizontalFlip()]; empty: the usual ones of data.kind"),
	SL_NAMES(T, "data.test_transforms", data.test_transforms, sl_conf_check_word, "",
		"the same for evaluation, such as [Resize(256), CenterCrop(224)]"),
	SL_STRING(T, "data.label", data.label, sl_conf_check_word, "label", "of csv and text: the column that holds the label"),
	SL_NAMES(T, "data.ignore", data.ignore, sl_conf_check_word, "", "of csv: columns that are left out, such as [id]"),
	SL_STRING(T, "data.tokenizer", data.tokenizer, NULL, "", "of texts: folder or file of the tokenizer, as splitc tokens takes it"),
	SL_INT(T, "data.max_length", data.max_length, 0, 65535, "0", "tokens; 0: as many as the network takes", "of texts: longer rows are cut, special tokens included"),
	SL_CHOICE(T, "data.pad", data.pad, SL_WORDS("none", "longest", "max"), "none", "of rows of tokens: fill them up to the longest of the batch, or to data.max_length; padding crosses and is computed, and changes nothing else"),
	SL_BOOL(T, "data.group_by_length", data.group_by_length, "false", "of rows of tokens: make training batches of rows that are about as long as each other"),
	SL_DOUBLE(T, "data.mask_rate", data.mask_rate, 0.01, 0.9, "0.15", NULL, "of model.head: masked_lm: share of a row's tokens that are to be guessed; of them 80 % become the mask token, 10 % another token, and 10 % stay"),
	SL_NAMES(T, "data.columns", data.columns, sl_conf_check_word, "text", "of text: the column that holds the text, or two columns of pairs"),
	SL_BOOL(T, "data.token_cache", data.token_cache, "true", "of texts: keep the tokens in FILE.tokens beside each FILE of text, to read them next time"),
	SL_CHOICE(T, "data.on_bad_sample", data.on_bad_sample, SL_WORDS("stop", "skip"), "stop",
		"a picture that cannot be read: stop with status 65, or name it in the log and take the next one in its place"),
	SL_INT64(T, "data.max_pixels", data.max_pixels, 1024, 1 << 30, "100000000", "pixels", "a picture with more is refused before it is decoded"),
	SL_INT(T, "data.threads", data.threads, 0, 256, "0", "0: as many as compute for images, else 1", "threads that read and decode samples"),
	SL_INT(T, "data.prefetch", data.prefetch, 1, 64, "4", "batches", "batches that are loaded ahead of the step"),

	SL_AGREED_TRAIN(AGREED)
	SL_DOUBLE(T, "train.optimizer.lr", train.lr, 1e-12, 1000, "0.1", NULL, "learning rate; the schedule's highest value"),
	SL_INT(T, "train.epochs", train.epochs, 1, 1e6, "1", NULL, "passes over the training data"),
	SL_INT64(T, "train.max_steps", train.max_steps, 0, 0x1p53, "0", "0: no limit", "stop after this many steps"),
	SL_CHOICE(T, "train.schedule.kind", train.schedule.kind, SL_WORDS("constant", "cosine", "polynomial", "step", "points"), "constant",
		"how the learning rate changes: step multiplies it by gamma now and then, points follows straight lines between points"),
	SL_DOUBLE(T, "train.schedule.warmup_epochs", train.schedule.warmup_epochs, 0, 1e6, "0", "epochs", "the learning rate rises linearly from 0 over this time"),
	SL_CHOICE(T, "train.schedule.warmup", train.schedule.warmup, SL_WORDS("above_zero", "from_zero"), "above_zero",
		"the first step of a warm-up: above_zero takes it at lr / steps, from_zero at 0, as Hugging Face's Trainer does"),
	SL_CHOICE(T, "train.schedule.by", train.schedule.by, SL_WORDS("step", "epoch"), "step",
		"when the learning rate changes: with each step, or epoch: between epochs alone, as torch's schedulers do where step() is called after each epoch"),
	SL_DOUBLE(T, "train.schedule.power", train.schedule.power, 0.01, 100, "1", NULL, "exponent of polynomial"),
	SL_DOUBLE(T, "train.schedule.end_lr", train.schedule.end_lr, 0, 1000, "0", NULL, "learning rate at the end of cosine and polynomial"),
	SL_DOUBLE(T, "train.schedule.every_epochs", train.schedule.every_epochs, 0, 1e6, "0", "epochs; 0: at the milestones", "step: multiply the learning rate by gamma every so many epochs, as torch's StepLR does"),
	SL_NAMES(T, "train.schedule.milestones", train.schedule.milestones, sl_conf_check_epoch, "", "step: multiply the learning rate by gamma after each of these epochs, as torch's MultiStepLR does, such as [16, 27]"),
	SL_DOUBLE(T, "train.schedule.gamma", train.schedule.gamma, 1e-6, 1, "0.1", NULL, "step: factor of each drop"),
	SL_NAMES(T, "train.schedule.points", train.schedule.points, sl_conf_check_point, "", "points: EPOCH:LR pairs, such as [0:0, 5:0.4, 24:0]; between two of them the learning rate changes linearly from step to step"),
	SL_CHOICE(T, "train.loss", train.loss, SL_WORDS("labels", "restore_head", "restore_tail"), "labels",
		"what training minimises: labels is the network's own loss; restore_head and restore_tail train that insert alone, to give back the activation at its cut (mean squared error), with everything else frozen"),
	SL_DOUBLE(T, "train.label_smoothing", train.label_smoothing, 0, 1, "0", NULL,
		"share of each training label that is spread over all classes alike, as in torch.nn.CrossEntropyLoss; the loss of an evaluation has none"),
	SL_DOUBLE(T, "train.mixup", train.mixup, 0, 100, "0", "0: off",
		"MixUp: each training row is mixed with another one of its batch, and so are their labels; how much of each is drawn from Beta(mixup, mixup) for each sample, as timm's mode elem does; 0.2 is usual"),
	SL_CHOICE(T, "train.chunk_loss", train.chunk_loss, SL_WORDS("mean", "sum"), "mean",
		"mean averages the gradient over the batch; sum adds the means of the chunks"),
	SL_INT(T, "train.eval_every", train.eval_every, 0, 1e6, "1", "epochs; 0: after the last only", "evaluate on the test data"),
	SL_NAMES(T, "train.metrics", train.metrics, sl_conf_check_metric, "",
		"what evaluations compute beside loss and accuracy: matthews, f1, of numbers pearson, spearman (with --set: one,two); top5 always, where there are more than 5 classes, and what a task of GLUE is measured by"),
	SL_INT(T, "train.checkpoint_every", train.checkpoint_every, 0, 1e9, "200", "steps; 0: never",
		"both sides write their state to disk, for train --resume and for a restarted server"),
	SL_CHOICE(T, "train.on_checkpoint_error", train.on_checkpoint_error, SL_WORDS("continue", "exit"), "continue",
		"when either side cannot write a checkpoint: continue training, with the last good checkpoint kept, or exit with status 74"),
	SL_BOOL(T, "train.keep_best", train.keep_best, "false",
		"write the weights to best.safetensors in log.dir after each evaluation with a higher train.best_metric than all before"),
	SL_STRING(T, "train.best_metric", train.best_metric, sl_conf_check_best, "", "what train.keep_best goes by, a name of train.metrics or accuracy; empty: what a task of GLUE is measured by, else accuracy"),
	SL_BOOL(T, "train.drop_last", train.drop_last, "false", "leave out the last batch of an epoch if it is not full"),
	SL_NAMES(T, "train.freeze", train.freeze, sl_conf_check_word, "", "parameters that do not learn, as patterns over their names: features.* (with --set: one,two)"),
	SL_RECORDS(T, "train.groups", train.groups, sl_conf_check_group, "",
		"parameters with another learning rate or weight decay, at most 8 groups: {match: [PATTERN, …], lr: FACTOR, weight_decay: NUMBER} each, or in one line \"*.bias weight_decay=0\"; the first group that matches a parameter takes it"),
	SL_RECORDS(T, "train.phases", train.phases, sl_conf_check_phase, "",
		"parts of the run with sizes of their own, one behind the other: {epochs: N, image: PIXELS, batch: N, chunks: N, lr: FACTOR} each; lr is a factor of the schedule's; what a phase leaves out is as the other keys say; in place of train.epochs"),
	SL_CHOICE(T, "train.on_nan", train.on_nan, SL_WORDS("stop", "skip"), "stop",
		"a step with NaN or Inf is never applied: stop with status 65, or skip the step and go on"),

	SL_AGREED_CODEC(AGREED)
	SL_AGREED_END_CODEC(AGREED)

	SL_AGREED_SHARE(AGREED)
	SL_AGREED_ROUNDS(AGREED)
	SL_AGREED_EPOCH(AGREED)
	SL_NAMES(T, "share.batches", batches, sl_conf_check_batches, "",
		"serial, with data.partition: files: how many batches of an epoch each member has, in order of their numbers, such as [100, 30, 70]; empty: all have as many as this one"),

	SL_BYTES(T, "link.part_bytes", link.part_bytes, 4096, 1 << 20, "1 MiB", "largest payload of one message"),
	SL_BYTES(T, "link.window_bytes", link.window_bytes, 4096, 0x1p34, "64 MiB", "credit: the most bytes in flight in one direction"),
	SL_INT(T, "link.heartbeat_ms", link.heartbeat_ms, 50, 60000, "1000", "ms", "interval of heartbeats while there is nothing else to send"),
	SL_INT(T, "link.timeout_ms", link.timeout_ms, 100, 600000, "10000", "ms", "silence after which the server counts as lost"),
	SL_INT(T, "link.connect_timeout_ms", link.connect_timeout_ms, 100, 600000, "10000", "ms", "how long the client waits for the server at the start"),
	SL_CHOICE(T, "link.on_server_lost", link.on_server_lost, SL_WORDS("exit", "wait"), "exit",
		"when the server is lost: exit with status 69, or wait for it and go on from the newest step that both sides hold"),
	SL_INT(T, "link.retry_ms", link.retry_ms, 10, 32000, "1000", "ms", "pause before the first attempt to reconnect; it doubles up to 32 s"),

	SL_STRING(T, "auth.secret_key", auth.secret_key, NULL, "", "key file of this client, made by splitc keygen; empty: no encryption"),
	SL_STRING(T, "auth.server_key", auth.server_key, NULL, "", "the server's public key, or a file that holds it"),

	SL_INT(T, "threads", threads, 0, 256, "0", "0: all CPUs", "threads that compute"),
	SL_STRING(T, "device", device, sl_conf_check_client_device, "cpu", "where head and tail run: cpu"),
	SL_STRING(T, "log.dir", log.dir, NULL, "runs", "folder of log.jsonl; empty: no log"),
	SL_CHOICE(T, "log.level", log.level, SL_WORDS("error", "warn", "info", "debug"), "info", "least severe lines that are logged to stderr"),
	SL_BOOL(T, "log.tensorboard", log.tensorboard, "false", "also write event files for TensorBoard to log.dir (tensorboard --logdir DIR)"),
	SL_INT(T, "watchdog_s", watchdog_s, 0, 86400, "300", "seconds; 0: never", "a task (a kernel, a file) that takes longer counts as hung: the client ends with status 75"),
	SL_INT(T, "drain_s", drain_s, 0, 3600, "10", "seconds", "time to end in good order after SIGTERM; a second SIGTERM ends the run at once"),
	SL_STRING(T, "control", control, NULL, "", "Unix socket for splitc status; empty: one named after log.dir, in $XDG_RUNTIME_DIR, /run/split or /tmp"),
	SL_STRING(T, "metrics", metrics, sl_conf_check_metrics, "", "address of /metrics for Prometheus, such as 127.0.0.1:9570; anyone who reaches an address other than loopback can read it; empty: none"),
};
/* clang-format on */

/* Where it was set: a line of the file, -1: by --set, 0: nowhere. */
static int line_of(const struct sl_conf_client *c, const char *path)
{
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
		if (strcmp(keys[i].path, path) == 0)
			return c->origin.mark[i].line;
	return 0;
}

/* Keys of one schedule alone. */
static const struct {
	const char *path;
	enum sl_conf_schedule kind;
} of_schedule[] = {{"train.schedule.every_epochs", SL_CONF_STEP},
		   {"train.schedule.milestones", SL_CONF_STEP},
		   {"train.schedule.gamma", SL_CONF_STEP},
		   {"train.schedule.points", SL_CONF_POINTS}};
/* … and those for which its points stand. */
static const char *const not_of_points[] = {"train.optimizer.lr", "train.schedule.warmup_epochs",
					    "train.schedule.warmup", "train.schedule.end_lr", NULL};

/* Keys of CIFAR's augmentation alone, for which data.transforms stand. */
static const char *const of_cifar[] = {"data.crop_padding", "data.flip", NULL};
/* … of tables … */
static const char *const of_csv[] = {"data.ignore", NULL};
/* … of texts, and of own ones alone … */
static const char *const of_texts[] = {"data.tokenizer", "data.max_length", "data.token_cache", NULL};
static const char *const of_own_texts[] = {"data.columns", NULL};
/* … and of pictures in files. */
static const char *const of_images[] = {"data.on_bad_sample", "data.max_pixels", NULL};

/* Keys that only some networks have. */
#define RESNETS         "resnet18, resnet34, resnet50, resnext50_32x4d"
#define WITH_FORM       "mobilenet_v2, mobilenet_v2_pool4, " RESNETS
#define OF_IMAGES       BUILT_IN_IMAGES ", " SL_CONF_ONNX
#define BUILT_IN_IMAGES WITH_FORM ", mobilenet_v2_relu, resnet9, alexnet, alexnet1, vgg16"
#define OF_TOKENS       "token_mlp, " SL_CONF_HUGGINGFACE
static const struct {
	const char *key, *models;
} of_models[] = {{"model.form", WITH_FORM},
		 {"model.init_bn0", RESNETS},
		 {"model.dropout", "mobilenet_v2, mobilenet_v2_pool4, alexnet1, vgg16, token_mlp, mlp"},
		 {"model.image", OF_IMAGES},
		 {"data.normalize", OF_IMAGES},
		 {"data.transforms", OF_IMAGES},
		 {"data.test_transforms", OF_IMAGES},
		 {"model.vocab", "token_mlp"},
		 {"model.tokens", OF_TOKENS},
		 {"model.head", SL_CONF_HUGGINGFACE},
		 {"data.pad", OF_TOKENS},
		 {"data.group_by_length", OF_TOKENS},
		 {"train.mixup", OF_IMAGES ", mlp"},
		 {"model.features", "mlp"},
		 {"model.width", BUILT_IN_IMAGES ", token_mlp, mlp"}};
enum { N_OF_MODELS = sizeof of_models / sizeof of_models[0] };

static bool among(const char *const *list, const char *path)
{
	for (; *list; list++)
		if (strcmp(*list, path) == 0)
			return true;
	return false;
}

static bool idle_in_schedule(const struct sl_conf_client *c, const char *path)
{
	for (size_t i = 0; i < sizeof of_schedule / sizeof of_schedule[0]; i++)
		if (strcmp(of_schedule[i].path, path) == 0)
			return c->train.schedule.kind != of_schedule[i].kind;
	return c->train.schedule.kind == SL_CONF_POINTS && among(not_of_points, path);
}

static bool idle_in_data(const struct sl_conf_client *c, const char *path)
{
	const bool shards = c->data.kind == SL_DATA_WEBDATASET, folders = c->data.kind == SL_DATA_IMAGES;
	const bool images = shards || folders, table = c->data.kind == SL_DATA_CSV;
	const bool tokens = c->data.kind == SL_DATA_MADE_TOKENS, own = c->data.kind == SL_DATA_TEXT;
	const bool texts = c->data.kind >= SL_DATA_COLA, glue = texts && !own;

	return ((images || tokens || table || texts || c->data.transforms.n) && among(of_cifar, path)) ||
	       (!images && among(of_images, path)) || (!texts && among(of_texts, path)) ||
	       (!own && among(of_own_texts, path)) || (!table && among(of_csv, path)) ||
	       (!table && !own && strcmp(path, "data.label") == 0) ||
	       ((folders || table || glue) && strcmp(path, "data.train_files") == 0) ||
	       (!shards && !own && strcmp(path, "data.test_files") == 0);
}

/* `list`: names with commas between them */
static bool lists(const char *list, const char *name)
{
	const size_t len = strlen(name);

	for (const char *at = strstr(list, name); len && at; at = strstr(at + len, name))
		if ((at == list || at[-1] == ' ') && (at[len] == ',' || !at[len]))
			return true;
	return false;
}

static bool idle_in_model(const struct sl_conf_client *c, const char *path)
{
	if (!lists(OF_IMAGES ", " OF_TOKENS, c->model.name)) /* the name is what is wrong */
		return false;
	for (int i = 0; i < N_OF_MODELS; i++)
		if (strcmp(of_models[i].key, path) == 0)
			return !lists(of_models[i].models, c->model.name);
	return false;
}

static bool idle_in_lora(const struct sl_conf_client *c, const char *path)
{
	return !c->lora.rank && strncmp(path, "lora.", 5) == 0 && strcmp(path, "lora.rank") != 0;
}

/* Labels and classes are those of a classifier. */
static bool idle_in_head(const struct sl_conf_client *c, const char *path)
{
	static const char *const of_classifiers[] = {"model.classes", "data.label", "train.metrics",
						     "train.best_metric", NULL};

	return c->model.head == SL_CONF_MASKED_LM ? among(of_classifiers, path) : strcmp(path, "data.mask_rate") == 0;
}

static bool idle(const void *conf, const char *path)
{
	const struct sl_conf_client *c = conf;

	return (c->train.phases.n && strcmp(path, "train.epochs") == 0) || idle_in_lora(c, path) ||
	       idle_in_head(c, path) || idle_in_schedule(c, path) || idle_in_data(c, path) ||
	       sl_agreed_is_idle(&c->agreed, path) || idle_in_model(c, path);
}

bool sl_conf_client_is_idle(const struct sl_conf_client *c, const char *path)
{
	return idle(c, path);
}

/* Of a network that a file or folder describes: `path` and the name `word` stand together. Returns the path, or the
 * name's "", where they do not; NULL: they do. */
static const char *check_source(const char *path, char name[SL_CONF_TEXT], const char *word, const char *what,
				char why[SL_CONF_WHY])
{
	if (path[0] && !name[0])
		snprintf(name, SL_CONF_TEXT, "%s", word);
	if (!path[0] == (strcmp(name, word) != 0))
		return NULL;
	if (path[0])
		snprintf(why, SL_CONF_WHY, "stands instead of model.name: give one of them");
	else
		snprintf(why, SL_CONF_WHY, "needs the %s in model.%s", what, word);
	return path;
}

/* What the file has for another network than --set has chosen is put aside. */
static const char *check_model(struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const bool by_set = line_of(c, "model.name") < 0;

	const char *blame = check_source(c->model.huggingface, c->model.name, SL_CONF_HUGGINGFACE, "folder", why);

	if (blame)
		return blame[0] ? "model.huggingface" : "model.name";
	blame = check_source(c->model.onnx, c->model.name, SL_CONF_ONNX, "file", why);
	if (blame)
		return blame[0] ? "model.onnx" : "model.name";
	for (int i = 0; i < N_OF_MODELS; i++) {
		const int line = line_of(c, of_models[i].key);

		if (!line || (line > 0 && by_set) || !idle_in_model(c, of_models[i].key))
			continue;
		snprintf(why, SL_CONF_WHY, "%.64s has none: it is of %s; leave this key out", c->model.name,
			 of_models[i].models);
		return of_models[i].key;
	}
	return NULL;
}

/* What the file has of adapters that --set has turned off is put aside. */
static const char *check_lora(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const bool by_set = line_of(c, "lora.rank") < 0;

	if (c->lora.rank && !c->model.huggingface[0]) {
		snprintf(why, SL_CONF_WHY, "adapters belong to networks of model.huggingface");
		return "lora.rank";
	}
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const int line = idle_in_lora(c, keys[i].path) ? c->origin.mark[i].line : 0;

		if (!line || (line > 0 && by_set))
			continue;
		snprintf(why, SL_CONF_WHY, "needs lora.rank");
		return keys[i].path;
	}
	return NULL;
}

/* What the file has for another kind of data than --set has chosen is put aside. */
static const char *check_data(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	static const char *const some[] = {"data.crop_padding", "data.flip",        "data.on_bad_sample",
					   "data.max_pixels",   "data.train_files", "data.test_files",
					   "data.label",        "data.ignore",      "data.tokenizer",
					   "data.max_length",   "data.columns",     "data.token_cache"};
	const bool by_set = line_of(c, "data.kind") < 0 || line_of(c, "data.transforms") < 0;

	for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
		const int line = line_of(c, some[i]);

		if (!line || !idle_in_data(c, some[i]) || (line > 0 && by_set))
			continue;
		snprintf(
			why, SL_CONF_WHY, "%s",
			among(of_images, some[i]) ? "belongs to data.kind: images and webdataset; leave this key out"
			: among(of_csv, some[i])  ? "belongs to data.kind: csv; leave this key out"
			: among(of_texts, some[i])
				? "belongs to texts (data.kind: text, or a task of GLUE); leave this key out"
			: among(of_own_texts, some[i])       ? "belongs to data.kind: text; leave this key out"
			: strcmp(some[i], "data.label") == 0 ? "belongs to data.kind: csv and text; leave this key out"
			: strcmp(some[i], "data.test_files") == 0
				? "belongs to data.kind: webdataset and text; leave this key out"
			: among(of_cifar, some[i]) && c->data.kind >= SL_DATA_MADE_TOKENS
				? "is of pictures, and this data.kind has none; leave this key out"
			: among(of_cifar, some[i])
				? "data.transforms say what is done with pictures, and data.kind: images has its usual "
				  "ones; leave this key out"
				: "this data.kind has files of fixed names; leave this key out");
		return some[i];
	}
	if (c->data.kind < SL_DATA_IMAGES && !c->data.transforms.n != !c->data.test_transforms.n) {
		snprintf(why, SL_CONF_WHY, "data.transforms and data.test_transforms: both, or none of them");
		return c->data.transforms.n ? "data.transforms" : "data.test_transforms";
	}
	if (c->data.kind >= SL_DATA_COLA && !c->data.tokenizer[0]) {
		snprintf(why, SL_CONF_WHY,
			 "texts need a tokenizer: a folder with tokenizer.json, vocab.json and "
			 "merges.txt, or vocab.txt");
		return "data.tokenizer";
	}
	if (c->data.columns.n < 1 || c->data.columns.n > 2) {
		snprintf(why, SL_CONF_WHY, "one column of text, or two of pairs");
		return "data.columns";
	}
	return NULL;
}

/* `by_set`: it was --set that chose the kind. What the file has of the other kind was meant for that, with its lr. */
static const char *check_kind(const struct sl_conf_client *c, bool by_set, char why[SL_CONF_WHY])
{
	const char *kind = sl_agreed_optimizers[c->agreed.optimizer.kind];
	const bool sgd = c->agreed.optimizer.kind == SL_CONF_SGD;
	const char *lr_is = line_of(c, "train.optimizer.lr") ? NULL : "the default of";

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const bool idle_here = sl_agreed_is_idle(&c->agreed, keys[i].path) && !sl_agreed_is_share(keys[i].path);
		const int line = idle_here ? c->origin.mark[i].line : 0;

		if (line > 0 && by_set) {
			if (line_of(c, "train.optimizer.lr") > 0)
				lr_is = "the file's";
		} else if (line) {
			snprintf(why, SL_CONF_WHY, "%s does not have this key: it belongs to %s", kind,
				 sgd ? "adam and adamw" : "sgd");
			return keys[i].path;
		}
	}
	if (sgd || !lr_is || c->train.schedule.kind == SL_CONF_POINTS)
		return NULL;
	snprintf(why, SL_CONF_WHY,
		 "%s needs a train.optimizer.lr%s: %s %g is meant for sgd; PyTorch's default for %s is 0.001", kind,
		 by_set ? " by --set, too" : "", lr_is, c->train.lr, kind);
	return "train.optimizer.kind";
}

/* A key that another kind of schedule has. What the file has for another kind than --set has chosen is put aside. */
static const char *check_schedule_keys(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const bool by_set = line_of(c, "train.schedule.kind") < 0;

	for (size_t i = 0; i < sizeof of_schedule / sizeof of_schedule[0]; i++) {
		const int line = line_of(c, of_schedule[i].path);

		if (!line || !idle(c, of_schedule[i].path) || (line > 0 && by_set))
			continue;
		snprintf(why, SL_CONF_WHY, "belongs to train.schedule.kind: %s; leave this key out",
			 of_schedule[i].kind == SL_CONF_STEP ? "step" : "points");
		return of_schedule[i].path;
	}
	for (const char *const *key = not_of_points; *key; key++) {
		const int line = line_of(c, *key);

		if (!line || !idle(c, *key) || (line > 0 && by_set))
			continue;
		snprintf(why, SL_CONF_WHY,
			 "train.schedule.points sets the learning rate of every step; leave this key out");
		return *key;
	}
	return NULL;
}

static const char *check_schedule(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const char *blame = check_schedule_keys(c, why);

	if (blame)
		return blame;
	if (c->train.schedule.kind == SL_CONF_POINTS)
		return sl_conf_check_points(&c->train.schedule.points, why) ? "train.schedule.points" : NULL;
	if (c->train.schedule.kind == SL_CONF_STEP) {
		if (!c->train.schedule.milestones.n == !c->train.schedule.every_epochs) {
			snprintf(why, SL_CONF_WHY,
				 "step needs train.schedule.every_epochs or train.schedule.milestones, and not both");
			return "train.schedule.kind";
		}
		if (sl_conf_check_epochs(&c->train.schedule.milestones, why))
			return "train.schedule.milestones";
	}
	if (c->train.schedule.end_lr > c->train.lr) {
		snprintf(why, SL_CONF_WHY, "must be at most train.optimizer.lr (%g), got %g", c->train.lr,
			 c->train.schedule.end_lr);
		return "train.schedule.end_lr";
	}
	return NULL;
}

/* Keys of a group alone. */
static const char *check_share(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
		if (!c->agreed.share.group[0] && sl_agreed_is_share(keys[i].path) && c->origin.mark[i].line) {
			snprintf(why, SL_CONF_WHY, "needs the name of a group in share.group");
			return keys[i].path;
		}
	if (!c->agreed.share.group[0] && strcmp(c->data.partition, "files") != 0) {
		snprintf(why, SL_CONF_WHY, "belongs to a group: it needs a name in share.group");
		return "data.partition";
	}
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const char *mode = sl_agreed_other_mode(&c->agreed, keys[i].path);

		if (!c->agreed.share.group[0] || !mode || !c->origin.mark[i].line)
			continue;
		snprintf(why, SL_CONF_WHY, "belongs to share.mode: %s; this group's is %s: leave this key out", mode,
			 sl_agreed_modes[c->agreed.share.mode]);
		return keys[i].path;
	}
	if (!sl_agreed_shares_ends(&c->agreed)) {
		static const char *const of_ends[] = {"codec.end_grad", "codec.end_mean", "share.layers"};

		for (size_t i = 0; i < sizeof of_ends / sizeof of_ends[0]; i++)
			if (line_of(c, of_ends[i])) {
				snprintf(why, SL_CONF_WHY,
					 "belongs to shared heads and tails: it needs share.ends: step or round");
				return of_ends[i];
			}
	}
	if (c->batches.n && c->batches.n != c->agreed.share.clients) {
		snprintf(why, SL_CONF_WHY, "needs a number for each of the %d members (share.clients), got %d",
			 c->agreed.share.clients, c->batches.n);
		return "share.batches";
	}
	if (c->agreed.share.epoch_steps && c->agreed.share.mode == SL_SHARE_SERIAL) {
		snprintf(why, SL_CONF_WHY,
			 "belongs to share.mode: sync and rounds; in serial an epoch has all batches: share.batches");
		return "share.epoch_steps";
	}
	if ((c->batches.n || c->agreed.share.epoch_steps) && strcmp(c->data.partition, "files") != 0) {
		snprintf(why, SL_CONF_WHY,
			 "belongs to data.partition: files; all members know how others are dealt out");
		return c->batches.n ? "share.batches" : "share.epoch_steps";
	}
	if (c->agreed.share.group[0] && c->train.chunk_loss == SL_CHUNK_LOSS_SUM) {
		snprintf(why, SL_CONF_WHY, "sum is not possible in a group (share.group): the loss is a mean");
		return "train.chunk_loss";
	}
	return NULL;
}

/* What phases need, and what they cannot have. */
static const char *check_phases(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const int epochs = line_of(c, "train.epochs");

	if (!c->train.phases.n)
		return NULL;
	if (epochs > 0 ? line_of(c, "train.phases") > 0 : epochs < 0) {
		snprintf(why, SL_CONF_WHY, "train.phases say how many epochs each of them has; leave this key out");
		return "train.epochs";
	}
	if (c->train.max_steps) {
		snprintf(why, SL_CONF_WHY, "belongs to a run without train.phases; leave this key out");
		return "train.max_steps";
	}
	if (!c->train.checkpoint_every) {
		snprintf(why, SL_CONF_WHY, "train.phases need checkpoints: a phase goes on from the last one's");
		return "train.checkpoint_every";
	}
	if (c->agreed.share.group[0]) {
		snprintf(why, SL_CONF_WHY, "is not possible in a group (share.group)");
		return "train.phases";
	}
	if (c->train.loss != SL_CONF_LABELS) {
		snprintf(why, SL_CONF_WHY, "belongs to train.loss: labels; leave this key out");
		return "train.phases";
	}
	for (int i = 0; i < c->train.phases.n; i++) {
		struct sl_conf_phase p;

		if (!sl_conf_phase_read(c->train.phases.item[i], &p))
			return "train.phases";
		if ((p.chunks ? p.chunks : c->agreed.chunks) > (p.batch ? p.batch : c->agreed.batch)) {
			snprintf(why, SL_CONF_WHY, "phase %d has more chunks than its batch has samples", i + 1);
			return "train.phases";
		}
	}
	return NULL;
}

/* Keys that say something of labels. */
static const char *check_loss(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	static const char *const of_labels[] = {"train.label_smoothing", "train.keep_best", "train.metrics"};
	const bool by_set = line_of(c, "train.loss") < 0;

	for (size_t i = 0; i < sizeof of_labels / sizeof of_labels[0]; i++) {
		const int line = line_of(c, of_labels[i]);

		if (c->train.loss == SL_CONF_LABELS || !line || (line > 0 && by_set))
			continue;
		snprintf(why, SL_CONF_WHY, "belongs to train.loss: labels; leave this key out");
		return of_labels[i];
	}
	return NULL;
}

/* What the file has for another head than --set has chosen is put aside. */
static const char *check_head(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	static const char *const some[] = {"model.classes", "data.label", "train.metrics", "train.best_metric",
					   "data.mask_rate"};
	const bool masked = c->model.head == SL_CONF_MASKED_LM, by_set = line_of(c, "model.head") < 0;

	for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
		const int line = line_of(c, some[i]);

		if (!line || !idle_in_head(c, some[i]) || (line > 0 && by_set))
			continue;
		snprintf(why, SL_CONF_WHY, "%s; leave this key out",
			 masked ? "belongs to classifiers, and model.head is masked_lm"
				: "belongs to model.head: masked_lm");
		return some[i];
	}
	if (masked && c->train.loss != SL_CONF_LABELS) {
		snprintf(why, SL_CONF_WHY, "a masked language model has the loss of its labels alone");
		return "train.loss";
	}
	if (masked && c->agreed.share.group[0]) {
		snprintf(why, SL_CONF_WHY, "a group cannot train a masked language model");
		return "share.group";
	}
	return NULL;
}

static const char *finish(void *conf, char why[SL_CONF_WHY])
{
	struct sl_conf_client *c = conf;
	const char *blame = check_model(c, why);

	if (!blame)
		blame = check_lora(c, why);
	if (!blame)
		blame = check_head(c, why);
	if (!blame)
		blame = check_data(c, why);
	if (!blame)
		blame = check_kind(c, line_of(c, "train.optimizer.kind") < 0, why);
	if (!blame)
		blame = sl_agreed_check(&c->agreed, why, SL_CONF_WHY);
	if (!blame)
		blame = check_share(c, why);
	if (!blame)
		blame = check_schedule(c, why);
	if (!blame)
		blame = check_loss(c, why);
	if (!blame)
		blame = check_phases(c, why);
	if (blame)
		return blame;
	if (c->agreed.precision == SL_CONF_FP16 && c->train.on_nan != SL_NAN_SKIP) {
		snprintf(why, SL_CONF_WHY,
			 "fp16 needs train.on_nan: skip, since steps whose scaled gradients overflow are left out; "
			 "bf16 does not");
		return "train.precision";
	}
	if (c->model.partial && !c->model.weights[0] && !c->model.huggingface[0]) {
		snprintf(why, SL_CONF_WHY, "needs a file in model.weights");
		return "model.partial";
	}
	if (c->log.tensorboard && !c->log.dir[0]) {
		snprintf(why, SL_CONF_WHY, "needs a folder in log.dir");
		return "log.tensorboard";
	}
	if (!c->auth.secret_key[0] != !c->auth.server_key[0]) {
		snprintf(why, SL_CONF_WHY, "auth needs both secret_key and server_key, or neither");
		return c->auth.secret_key[0] ? "auth.secret_key" : "auth.server_key";
	}
	if (!sl_conf_default_control(c->control, "splitc", c->log.dir)) {
		snprintf(why, SL_CONF_WHY, "$XDG_RUNTIME_DIR is too long for a socket: give a path of at most %d bytes",
			 SL_CONF_SOCKET_PATH - 1);
		return "control";
	}
	return sl_conf_check_link(&c->link, why);
}

_Static_assert(sizeof keys / sizeof keys[0] <= SL_CONF_MAX_KEYS, "struct sl_conf_origin has too few marks");

const struct sl_conf_schema sl_conf_client_schema = {
	.key = keys,
	.n_key = sizeof keys / sizeof keys[0],
	.size = sizeof(T),
	.origin_offset = offsetof(T, origin),
	.other = "splits",
	.of_other = SL_WORDS("listen", "store", "store_ttl_s", "store_bytes", "store_bytes_per_key", "deterministic",
			     "graphs", "overlap", "limits"),
	.spread = {"codec", "insert"},
	.not_spread = "codec.end_",
	.idle = idle,
	.finish = finish,
};
