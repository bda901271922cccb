/* The client's config. Order here is the order of --print-config; keys of one section stand together. */
#include "common/conf/check.h"
#include "common/conf/row.h"

typedef struct sl_conf_client T;

#define AGREED(type, path, field, class, ...) type(T, path, agreed.field, __VA_ARGS__),

#define NETWORK(name, has) #name ", "
#define METRIC(name)       name ", "

/* clang-format off */
const char *const sl_conf_data_kinds[] = {SL_DATA_KINDS(SL_DATA_WORD) NULL};

static const struct sl_conf_key keys[] = {
	SL_STRING(T, "server", server, sl_conf_check_server, "tcp://127.0.0.1:5570", "where splits listens, tcp://host:port"),

	{SL_STRING_ROW(T, "model.name", model.name, sl_conf_check_word, NULL, "network: " SL_BUILT_IN_NETWORKS(NETWORK) "or one of model.huggingface or model.onnx"), .instead = {"model.huggingface", "model.onnx"}},
	SL_STRING(T, "model.huggingface", model.huggingface, NULL, "", "folder of a network as Hugging Face's transformers keeps it, instead of model.name: config.json and, unless all weights are to be random, model.safetensors; families: roberta, bert, distilbert, electra"),
	SL_STRING(T, "model.onnx", model.onnx, NULL, "", "ONNX file of a network of images, as torch.onnx.export writes it in training, instead of model.name; its weights are those to start from, and it says what model.classes and model.image are"),
	SL_CHOICE(T, "model.head", model.head, SL_WORDS("classifier", "masked_lm"), "classifier",
		"of model.huggingface: a classifier, or a masked language model, whose labels are tokens of the text itself"),
	SL_DOUBLE(T, "model.width", model.width, 0.05, 8, "1", NULL, "multiplies the number of channels of each layer"),
	SL_INT(T, "model.classes", model.classes, 1, 100000, "10", "classes", "outputs of the classifier, at least 2; of networks of tokens also 1: a number is predicted, with the mean of squares as the loss"),
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

	SL_CHOICE(T, "data.kind", data.kind, sl_conf_data_kinds, "cifar10",
		"format of the files; images: folders train and val (or test) with a folder of pictures for each class; webdataset: tar files of pictures; made_tokens: random rows of tokens, without files; csv: tables train.csv and val.csv (or test.csv); cola to wnli: a task of GLUE, also as glue with data.task; text: own files of texts, TSV, CSV or JSON Lines"),
	SL_STRING(T, "data.task", data.task, NULL, "", "of glue: cola, sst2, mrpc, qqp, mnli, mnli-mm, qnli, rte, stsb or wnli"),
	SL_STRING(T, "data.dir", data.dir, sl_conf_check_word, NULL, "folder of the data; in a group %m in it stands for share.member"),
	SL_NAMES(T, "data.train_files", data.train_files, sl_conf_check_file_name, "", "files to train on (with --set: one,two), of webdataset also as train-{000..146}.tar; empty: all training files of data.kind, of text train.tsv, .csv or .jsonl"),
	SL_NAMES(T, "data.test_files", data.test_files, sl_conf_check_file_name, "", "of webdataset and text: files to evaluate on; empty: val*.tar and test*.tar, of text dev, val, validation or test with the end .tsv, .csv or .jsonl"),
	SL_INT(T, "data.train_limit", data.train_limit, 0, 1e9, "0", "samples; 0: all", "train on so many samples only: the first ones, of images and webdataset spread evenly over all"),
	SL_INT(T, "data.test_limit", data.test_limit, 0, 1e9, "0", "samples; 0: all", "the same for evaluation"),
	SL_STRING(T, "data.partition", data.partition, sl_conf_check_parts, "files",
		"which training samples a member of a group has: files: all that it has here; of one set that all members have: iid, an equal part at random; by_label, one label behind the other; dirichlet:ALPHA, labels in unequal shares; batch, its part of every batch"),
	SL_INT(T, "data.crop_padding", data.crop_padding, 0, 16, "4", "pixels; 0: no crop", "random crop after zero padding"),
	SL_BOOL(T, "data.flip", data.flip, "true", "flip half of the training images left to right"),
	SL_CHOICE_BESIDE(T, "data.normalize", data.normalize, SL_WORDS("imagenet", "cifar10", "cifar100", "none"), "cifar10",
		"own numbers are Normalize((MEAN), (DEVIATION)) in data.transforms and data.test_transforms",
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
	SL_CHOICE(T, "data.sampling", data.sampling, SL_WORDS("shuffled", "balanced"), "shuffled",
		"how training draws samples: shuffled, each once in an epoch; balanced, as many of each class: those of small classes come several times in an epoch, and not all of large ones"),
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
	SL_INT64(T, "train.keep_head_bytes", train.keep_head_bytes, 0, INT64_C(1) << 40, "0", "bytes; 0: off", "memory for the activations of a frozen head without dropout: they are computed in the first epoch, and kept for the others; a log line says how many bytes it takes, and more than this is refused"),
	SL_INT64(T, "train.max_steps", train.max_steps, 0, 0x1p53, "0", "0: no limit", "stop after this many steps; cosine and polynomial schedules end there, too"),
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
		"what evaluations compute beside loss and accuracy (with --set: one,two): of classes " SL_CLASS_METRICS(METRIC) "of numbers " SL_NUMBER_METRICS(METRIC, METRIC) "always top5, where there are more than 5 classes, and what a task of GLUE is measured by"),
	SL_INT(T, "train.checkpoint_every", train.checkpoint_every, 0, 1e9, "200", "steps; 0: never",
		"both sides write their state to disk, for train --resume and for a restarted server"),
	SL_CHOICE(T, "train.on_checkpoint_error", train.on_checkpoint_error, SL_WORDS("continue", "exit"), "continue",
		"when either side cannot write a checkpoint: continue training, with the last good checkpoint kept, or exit with status 74"),
	SL_BOOL(T, "train.keep_best", train.keep_best, "false",
		"write the weights to best.safetensors in log.dir after each evaluation with a better train.best_metric than all before"),
	SL_STRING(T, "train.best_metric", train.best_metric, sl_conf_check_best, "", "what train.keep_best goes by, a name of train.metrics, accuracy or loss; empty: what a task of GLUE is measured by, else accuracy, of numbers loss"),
	SL_INT(T, "train.stop.patience", train.stop.patience, 0, 1e6, "0", "evaluations; 0: off", "early stopping: the run ends once so many evaluations, one after the other, were not better than the best before them"),
	SL_STRING(T, "train.stop.metric", train.stop.metric, sl_conf_check_best, "", "what train.stop goes by, a name of train.metrics, accuracy or loss; empty: what train.keep_best goes by"),
	SL_DOUBLE(T, "train.stop.min_delta", train.stop.min_delta, 0, 1e6, "0", NULL, "an evaluation counts as better where it is so by more than this"),
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
	SL_INT(T, "link.stall_s", link.stall_s, 0, 604800, "1800", "s; 0: no limit", "how long the client waits for a server with which the step does not go on; in a group it waits for the other members, as long as they take"),
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
	.idle = sl_conf_client_idle,
	.finish = sl_conf_client_finish,
};
