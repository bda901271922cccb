/* The client's config. Order here is the order of --print-config; keys of one section stand together. */
#include "common/conf/check.h"
#include "common/conf/check_keys.h"
#include "common/conf/row.h"

typedef struct sl_conf_client T;

#define AGREED(type, path, field, class, ...) type(T, path, agreed.field, __VA_ARGS__),

#define NETWORK(name, has) #name ", "
#define METRIC(name)       name ", "

/* The key is empty, or its sentence is the command that converts the file. */
static const char *check_onnx(const void *value, char why[SL_CONF_WHY])
{
	const char *file = value;

	return file[0] ? sl_conf_say(why, why, SL_CONF_ONNX_HOW, 150, file) : NULL;
}

/* clang-format off */
#define WORD(id, name, word) word,
const char *const sl_conf_data_kinds[] = {SL_DATA_KINDS(WORD) "glue", NULL};
#undef WORD

static const struct sl_conf_key keys[] = {
	SL_STRING(T, "server", server, sl_conf_check_server, "tcp://127.0.0.1:5570", "where splits listens, tcp://host:port"),

	{SL_STRING_ROW(T, "model.name", model.name, sl_conf_check_word, NULL, "network: " SL_BUILT_IN_NETWORKS(NETWORK) "or one of model.huggingface and model.network"), .instead = {"model.huggingface", "model.network"}},
	SL_STRING(T, "model.huggingface", model.huggingface, NULL, "", "folder of Hugging Face's transformers; it has config.json and, unless weights are to be random, model.safetensors; families: roberta, bert, distilbert, electra, and the decoders llama, mistral, qwen2, qwen3, phi3, gemma, gemma3_text, gpt2"),
	SL_STRING(T, "model.network", model.network, NULL, "", "safetensors file of a network and its weights, by split.write_network or splitc export; it defines model.classes, model.task and the input's size"),
	SL_STRING(T, "model.onnx", model.onnx, check_onnx, "", "an ONNX file is converted first, to a file for model.network"),
	SL_CHOICE(T, "model.head", model.head, SL_WORDS("classifier", "masked_lm", "causal_lm"), "classifier",
		"what model.huggingface does; of encoders: classifier, or masked_lm, which guesses hidden tokens; of decoders: causal_lm, which guesses the next token"),
	SL_CHOICE(T, "model.task", model.task, SL_WORDS("classes", "numbers", "labels", "pixels"), "classes",
		"what the network predicts: one of several classes; numbers; any of several labels; or a class for each pixel"),
	SL_DOUBLE(T, "model.width", model.width, 0.05, 8, "1", NULL, "multiplies the number of channels of each layer"),
	SL_INT(T, "model.classes", model.classes, 1, 100000, "10", "classes", "outputs of the network: classes, at least 2, or as many numbers or labels as data.label names; with texts 1 means a number"),
	SL_SIZE(T, "model.image", model.image, SL_CONF_MIN_IMAGE, SL_CONF_MAX_IMAGE, "32", "pixels", "size of the input"),
	SL_CHOICE(T, "model.form", model.form, SL_WORDS("cifar", "imagenet"), "cifar",
		"of mobilenet_v2, resnet18 to 50 and resnext50_32x4d: first strides: cifar for small images, imagenet is torchvision's"),
	SL_BOOL(T, "model.init_bn0", model.init_bn0, "false", "of resnet18 to 50 and resnext50_32x4d: the weight of each residual block's last batch norm starts at 0, as torchvision's zero_init_residual"),
	SL_DOUBLE(T, "model.dropout", model.dropout, 0, 0.95, "0.2", NULL, "of mobilenet_v2, mobilenet_v2_pool4, alexnet1 and vgg16: dropout in the classifier; of token_mlp: after its first layer; of mlp: before its last"),
	SL_INT(T, "model.features", model.features, 1, 65536, "1", "numbers", "of mlp: numbers of a row; an error names the right one"),
	SL_INT(T, "model.vocab", model.vocab, 1, 1 << 22, "1000", NULL, "of token_mlp: tokens are numbers below this"),
	SL_INT(T, "model.tokens", model.tokens, 1, 65535, "128", "tokens", "of networks of tokens: longest row; longer ones are cut"),
	SL_STRING(T, "model.weights", model.weights, NULL, "", "safetensors file with the weights to start from; empty: random weights from train.seed"),
	SL_BOOL(T, "model.partial", model.partial, "false", "the last unit, such as the classifier, may be missing in model.weights or have other shapes; it then starts from train.seed"),
	SL_NAMES(T, "model.insert_weights", model.insert_weights, sl_conf_check_word, "",
		"safetensors files that together hold the weights of all inserts; empty: from model.weights, else from train.seed"),

	SL_INT(T, "lora.rank", lora.rank, 0, 4096, "0", "0: no adapters", "of model.huggingface: rank of low-rank adapters (LoRA), which learn with the classifier; all else is frozen"),
	SL_DOUBLE(T, "lora.alpha", lora.alpha, 1e-6, 1e6, "16", NULL, "an adapter's output is multiplied by alpha / rank"),
	SL_NAMES(T, "lora.target", lora.target, sl_conf_check_word, "", "linear layers that get an adapter, by the last words of their names; empty: PEFT's usual ones, such as query and value of BERT, q_proj and v_proj of Llama"),
	SL_DOUBLE(T, "lora.dropout", lora.dropout, 0, 0.95, "0", NULL, "dropout of what an adapter takes"),
	SL_STRING(T, "lora.adapter", lora.adapter, NULL, "", "folder with PEFT's adapter_config.json and adapter_model.safetensors to start from; empty: adapters that change nothing at first"),

	SL_STRING(T, "partition", partition, sl_conf_check_partition, "1:-1",
		"units of the head : minus units of the tail; those between are the middle"),
	SL_STRING(T, "head_end", head_end, NULL, "", "last layer of the head by name, such as features.0.1, instead of partition's first number"),
	SL_STRING(T, "tail_begin", tail_begin, NULL, "", "first layer of the tail by name, such as classifier, instead of partition's second number"),
	SL_INT(T, "cut_values", cut_values, 1, 8, "1", "values", "values that may cross at the head's end, and at the tail's start"),
	SL_CHOICE(T, "tail_tokens", tail_tokens, SL_WORDS("all", "loss"), "all",
		"of model.head: causal_lm: which tokens cross between middle and tail; loss: those with a loss, which the server then knows; the tail begins at norm"),
	SL_STRING(T, "insert.head", insert.head, sl_conf_check_insert, "",
		"learned layers that compress the head's activations: conv:20,k=3,s=3, linear:16, several joined with +, decaylinear:…, or a preset: bottleneck:58, bottleneck:83 or bottleneck:153; empty: none"),
	SL_STRING(T, "insert.tail", insert.tail, sl_conf_check_insert, "", "learned layers that compress the middle's activations, spelled as insert.head"),

	SL_CHOICE(T, "data.kind", data.kind, sl_conf_data_kinds, "cifar10",
		"format of the files; images: a folder for each class; webdataset: tar files of pictures; made_tokens: random tokens; csv: tables; cola to wnli: a task of GLUE, also as glue with data.task; text: own texts"),
	SL_STRING(T, "data.task", data.task, NULL, "", "of glue: cola, sst2, mrpc, qqp, mnli, mnli-mm, qnli, rte, stsb or wnli"),
	SL_STRING(T, "data.dir", data.dir, sl_conf_check_word, NULL, "folder of the data, or the one file of a table or of texts; in a group %m in it stands for share.member"),
	SL_NAMES(T, "data.train_files", data.train_files, sl_conf_check_file_name, "", "files to train on (with --set: one,two), of webdataset also as train-{000..146}.tar; empty: the usual names of data.kind"),
	SL_NAMES(T, "data.test_files", data.test_files, sl_conf_check_file_name, "", "of webdataset and text: files to evaluate on; empty: the usual names, such as val*.tar or dev.tsv"),
	SL_INT(T, "data.train_limit", data.train_limit, 0, 1e9, "0", "samples; 0: all", "use at most this many training samples, spread evenly over all (cifar without data.split: the first)"),
	SL_INT(T, "data.test_limit", data.test_limit, 0, 1e9, "0", "samples; 0: all", "the same for evaluation"),
	SL_STRING(T, "data.partition", data.partition, sl_conf_check_parts, "files",
		"training samples of a group's member: files, all that are here; or its part of one set: iid, at random; by_label, sorted by label; dirichlet:ALPHA, labels in unequal shares; batch, part of every batch"),
	SL_DOUBLE(T, "data.split.train", data.split.train, 0, 1, "0", "share; 0: no split", "share of the training files that trains; a sample stays in its part when the data grow"),
	SL_DOUBLE(T, "data.split.val", data.split.val, 0, 1, "0", "share", "part that evaluations during training use"),
	SL_DOUBLE(T, "data.split.test", data.split.test, 0, 1, "0", "share", "part that splitc eval and predict use, and nothing else; 0: they use val"),
	SL_STRING(T, "data.split.by", data.split.by, NULL, "", "what stays in one part: a column, such as patient, which is then no feature; of pictures the first group of a regular expression over their paths, such as (p[0-9]+)_"),
	SL_INT64(T, "data.split.seed", data.split.seed, 0, 0x1p53, "0", NULL, "another seed makes another split"),
	SL_INT(T, "data.split.folds", data.split.folds, 0, 100, "0", "0: none", "cross-validation, in place of train and val: so many folds of what test leaves; splitc sweep trains once for each"),
	SL_INT(T, "data.split.fold", data.split.fold, 0, 99, "0", NULL, "of data.split.folds: the fold that validates, from 0; the others train"),
	SL_INT(T, "data.crop_padding", data.crop_padding, 0, 16, "4", "pixels; 0: no crop", "of cifar: random crop after zero padding"),
	SL_BOOL(T, "data.flip", data.flip, "true", "of cifar: flip half of the training images left to right"),
	SL_CHOICE_BESIDE(T, "data.normalize", data.normalize, SL_WORDS("imagenet", "cifar10", "cifar100", "none"), "cifar10",
		"own numbers are Normalize((MEAN), (DEVIATION)) in data.transforms and data.test_transforms",
		"data set whose mean and standard deviation normalise the images"),
	SL_NAMES(T, "data.transforms", data.transforms, sl_conf_check_word, "",
		"torchvision's steps from a picture to the input in training, such as [RandomResizedCrop(224), RandomHorizontalFlip()]; empty: the usual ones"),
	SL_NAMES(T, "data.test_transforms", data.test_transforms, sl_conf_check_word, "",
		"the same for evaluation, such as [Resize(256), CenterCrop(224)]"),
	SL_NAME_OR_NAMES(T, "data.label", data.label, sl_conf_check_word, "label", "of csv and text: the label's column, or with model.task: numbers or labels several, such as [height, weight]; of pixels the names of all classes, such as [background, tumour]"),
	SL_CHOICE(T, "data.scale_label", data.scale_label, SL_WORDS("false", "true"), "false",
		"of model.task: numbers: learn each number less its mean, divided by its deviation; predictions and figures except the loss are in the numbers' own units"),
	SL_STRING(T, "data.masks", data.masks, NULL, "masks", "of model.task: pixels: folder in data.dir with a mask for each picture, a PNG at the same path"),
	SL_NAMES(T, "data.ignore", data.ignore, sl_conf_check_word, "", "of csv: columns that are left out, such as [id]; id_* leaves out all whose names begin so"),
	SL_STRING(T, "data.like", data.like, NULL, "", "of csv: about.json of another run, or a model's file, which gives classes, columns, texts, means and deviations"),
	SL_STRING(T, "data.id", data.id, NULL, "", "share.mode: vertical, and data.also: what names a row: of csv a column, which is then no feature; of images stem, the file's name without its ending; vertical needs share.secret or data.aligned, too"),
	SL_STRING(T, "data.aligned", data.aligned, NULL, "", "share.mode: vertical: file of splitc align with the rows that both members have; others are left out; needs data.id"),
	SL_SECTIONS(T, "data.also", data.also, NULL, "", "further sources of a network with several inputs: a map with the keys of one, such as {kind: images, dir: scans, id: stem, inputs: [image]}, or a list of up to 8; their rows are joined by id, and labels come from data"),
	SL_NAME_OR_NAMES(T, "data.inputs", inputs, sl_conf_check_word, "", "of data.also: the network's input that takes these data, such as [row]; empty: none, they have labels alone"),
	SL_CHOICE(T, "data.missing", data.missing, SL_WORDS("refuse", "mean"), "refuse",
		"of csv: cells that are empty, NA, NaN, null, None or ?: refuse stops at an empty one and reads others as words; mean takes the column's mean, or none of its texts"),
	SL_CHOICE(T, "data.separator", data.separator, SL_WORDS("comma", "semicolon", "tab"), "comma", "of csv: what separates the cells of a row"),
	SL_CHOICE(T, "data.decimal", data.decimal, SL_WORDS("point", "comma"), "point", "of csv: how numbers are written, 3.14 or 3,14"),
	SL_STRING(T, "data.tokenizer", data.tokenizer, NULL, "", "of texts: folder or file of the tokenizer, as splitc tokens takes it"),
	SL_INT(T, "data.max_length", data.max_length, 0, 65535, "0", "tokens; 0: as many as the network takes", "of texts: longer rows are cut, special tokens included"),
	SL_CHOICE(T, "data.pad", data.pad, SL_WORDS("none", "longest", "max"), "none", "of rows of tokens: fill them up to the longest of the batch, or to data.max_length; padding crosses and is computed"),
	SL_CHOICE(T, "data.sampling", data.sampling, SL_WORDS("shuffled", "balanced"), "shuffled",
		"how training draws samples: shuffled, each once in an epoch; balanced, equally many of each class"),
	SL_BOOL(T, "data.group_by_length", data.group_by_length, "false", "of rows of tokens: training batches of rows of like length"),
	SL_DOUBLE(T, "data.mask_rate", data.mask_rate, 0.01, 0.9, "0.15", NULL, "of model.head: masked_lm: share of a row's tokens that are to be guessed"),
	SL_NAMES(T, "data.columns", data.columns, sl_conf_check_word, "text", "of text: the text's column, or two of pairs; with model.head: causal_lm a prompt and its completion"),
	SL_CHOICE(T, "data.pack", data.pack, SL_WORDS("none", "split", "join"), "none",
		"of model.head: causal_lm: none, a row for each text, cut at data.max_length; split, longer texts go on in further rows; join, all texts one after the other"),
	SL_CHOICE(T, "data.loss_on", data.loss_on, SL_WORDS("completion", "all"), "completion", "of model.head: causal_lm and two columns: which tokens have a loss"),
	SL_BOOL(T, "data.end", data.end, "true", "of model.head: causal_lm: the end token, eos_token_id of config.json, follows each text and is learned"),
	SL_BOOL(T, "data.token_cache", data.token_cache, "true", "of texts: keep the tokens of each FILE in FILE.tokens"),
	SL_CHOICE(T, "data.on_bad_sample", data.on_bad_sample, SL_WORDS("stop", "skip"), "stop",
		"a broken picture: stop with status 65, or name it in the log and take the next one"),
	SL_INT64(T, "data.max_pixels", data.max_pixels, 1024, 1 << 30, "100000000", "pixels", "a picture with more is refused before it is decoded"),
	SL_CHOICE(T, "data.channels", data.channels, SL_WORDS("network", "1", "3"), "network",
		"numbers of a pixel: 1, grey; 3, RGB; network: as many as it takes"),
	SL_CHOICE(T, "data.bits", data.bits, SL_WORDS("8", "16"), "8",
		"of each channel: 16 keeps 16 of PNG, TIFF and PNM; 8 takes the upper eight, of PNM rounded"),
	SL_CHOICE(T, "data.jpeg", data.jpeg, SL_WORDS("fast", "exact"), "fast",
		"a JPEG more than twice as large as needed: fast shrinks it while decoding, exact resizes it as Pillow does, byte for byte"),
	SL_BOOL(T, "data.exif", data.exif, "false", "turn pictures by the EXIF of JPEG, PNG and WebP, or a PNG's XMP"),
	SL_NAMES(T, "data.window", data.window, sl_conf_check_word, "", "of DICOM: [centre, width] of the values from black to white, after rescaling, such as [40, 400]; empty: the file's own window"),
	SL_INT(T, "data.threads", data.threads, 0, 256, "0", "0: as many as compute for images, else 1", "threads that read and decode samples"),
	SL_INT(T, "data.prefetch", data.prefetch, 1, 64, "4", "batches", "batches that are loaded ahead of the step"),

	SL_AGREED_TRAIN(AGREED)
	SL_DOUBLE(T, "train.optimizer.lr", train.lr, 1e-12, 1000, "0.1", NULL, "learning rate; the schedule's highest value"),
	SL_INT(T, "train.epochs", train.epochs, 1, 1e6, "1", NULL, "passes over the training data"),
	SL_INT64(T, "train.keep_head_bytes", train.keep_head_bytes, 0, INT64_C(1) << 40, "0", "bytes; 0: off", "of networks of tokens: memory for the activations of a frozen head without dropout; the log says how many bytes they take; more is refused"),
	SL_INT64(T, "train.keep_sent_bytes", train.keep_sent_bytes, 0, INT64_C(1) << 40, "0", "bytes; 0: off", "of networks of tokens: the server's memory for activations of a frozen head without dropout, so that each crosses once; codec.head_act must code each token by itself"),
	SL_INT64(T, "train.max_steps", train.max_steps, 0, 0x1p53, "0", "0: no limit", "stop after this many steps; cosine, polynomial and exponential schedules end there, too"),
	SL_CHOICE(T, "train.schedule.kind", train.schedule.kind, SL_WORDS("constant", "cosine", "polynomial", "step", "points", "exponential"), "constant",
		"how the learning rate changes: step multiplies it by gamma now and then, points follows straight lines, exponential goes from lr to end_lr by one factor"),
	SL_DOUBLE(T, "train.schedule.warmup_epochs", train.schedule.warmup_epochs, 0, 1e6, "0", "epochs", "the learning rate rises linearly from 0 over this time"),
	SL_CHOICE(T, "train.schedule.warmup", train.schedule.warmup, SL_WORDS("above_zero", "from_zero"), "above_zero",
		"first step of a warm-up: above_zero takes it at lr / steps, from_zero at 0, as Hugging Face's Trainer"),
	SL_CHOICE(T, "train.schedule.by", train.schedule.by, SL_WORDS("step", "epoch"), "step",
		"when the learning rate changes: with each step, or between epochs alone, as with one scheduler.step() an epoch in torch"),
	SL_DOUBLE(T, "train.schedule.power", train.schedule.power, 0.01, 100, "1", NULL, "exponent of polynomial"),
	SL_DOUBLE(T, "train.schedule.end_lr", train.schedule.end_lr, 0, 1000, "0", NULL, "learning rate at the end of cosine, polynomial and exponential"),
	SL_DOUBLE(T, "train.schedule.every_epochs", train.schedule.every_epochs, 0, 1e6, "0", "epochs; 0: at the milestones", "step: multiply the learning rate by gamma every so many epochs, as torch's StepLR does"),
	SL_NAMES(T, "train.schedule.milestones", train.schedule.milestones, sl_conf_check_epoch, "", "step: multiply the learning rate by gamma after each of these epochs, as torch's MultiStepLR does, such as [16, 27]"),
	SL_DOUBLE(T, "train.schedule.gamma", train.schedule.gamma, 1e-6, 1, "0.1", NULL, "step: factor of each drop"),
	SL_NAMES(T, "train.schedule.points", train.schedule.points, sl_conf_check_point, "", "points: EPOCH:LR pairs, such as [0:0, 5:0.4, 24:0]; linear between two of them"),
	SL_CHOICE(T, "train.loss", train.loss, SL_WORDS("labels", "restore_head", "restore_tail", "mse", "l1", "huber", "dice", "dice_ce"), "labels",
		"what training minimises; labels: cross-entropy, of numbers mse; mse, l1, huber: of numbers; dice, dice_ce (with cross-entropy): of pixels; restore_head, restore_tail: the mean squared error of the activation after that insert, which learns alone"),
	SL_DOUBLE(T, "train.label_smoothing", train.label_smoothing, 0, 1, "0", NULL,
		"share of each training label that is spread over all classes, as in torch.nn.CrossEntropyLoss"),
	SL_NAME_OR_NAMES(T, "train.class_weights", train.class_weights, sl_conf_check_weight, "none",
		"what a training label counts in the loss, as torch's weight: none: all 1; balanced: each class alike; or a number for each class, such as [1, 5]; of several labels as torch's pos_weight"),
	SL_DOUBLE(T, "train.mixup", train.mixup, 0, 100, "0", "0: off",
		"MixUp of training rows and labels, by a share from Beta(mixup, mixup) for each, as timm's mode elem; 0.2 is usual"),
	SL_CHOICE(T, "train.chunk_loss", train.chunk_loss, SL_WORDS("mean", "sum"), "mean",
		"mean averages the gradient over the batch; sum adds the means of the chunks"),
	SL_INT(T, "train.eval_every", train.eval_every, 0, 1e6, "1", "epochs; 0: after the last only", "epochs from one evaluation to the next, on the test data or the part data.split.val"),
	SL_NAMES(T, "train.metrics", train.metrics, sl_conf_check_metric, "",
		"what evaluations compute beside loss and accuracy (with --set: one,two): of classes " SL_CLASS_METRICS(METRIC) "of labels also " SL_LABEL_METRICS(METRIC) "of pixels accuracy, balanced_accuracy, " SL_PIXEL_METRICS(METRIC) "of numbers " SL_NUMBER_METRICS(METRIC, METRIC) "always: top5 of more than 5 classes, and a GLUE task's own"),
	SL_INT(T, "train.checkpoint_every", train.checkpoint_every, 0, 1e9, "200", "steps; 0: never",
		"both sides write their state to disk, for train --resume and for a restarted server"),
	SL_CHOICE(T, "train.on_checkpoint_error", train.on_checkpoint_error, SL_WORDS("continue", "exit"), "continue",
		"when a side cannot write a checkpoint: continue, or exit with status 74"),
	SL_INT64(T, "train.audit.every", train.audit_every, 0, 0x1p53, "0", "steps; 0: never",
		"about once in so many steps this host repeats steps of the server and compares bits; a difference is status 79"),
	SL_BOOL(T, "train.keep_best", train.keep_best, "false",
		"write best.safetensors in log.dir after each evaluation with the best train.best_metric so far"),
	SL_STRING(T, "train.best_metric", train.best_metric, sl_conf_check_best, "", "what train.keep_best goes by, a name of train.metrics, accuracy or loss; empty: a GLUE task's metric, else accuracy, of numbers loss"),
	SL_INT(T, "train.stop.patience", train.stop.patience, 0, 1e6, "0", "evaluations; 0: off", "early stopping: the run ends after so many evaluations in a row without a better one"),
	SL_STRING(T, "train.stop.metric", train.stop.metric, sl_conf_check_best, "", "what train.stop goes by, a name of train.metrics, accuracy or loss; empty: what train.keep_best goes by"),
	SL_DOUBLE(T, "train.stop.min_delta", train.stop.min_delta, 0, 1e6, "0", NULL, "by how much an evaluation must be better to count"),
	SL_BOOL(T, "train.drop_last", train.drop_last, "false", "leave out the last batch of an epoch if it is not full"),
	SL_NAMES(T, "train.freeze", train.freeze, sl_conf_check_word, "", "parameters that do not learn, as patterns over their names: features.* (with --set: one,two)"),
	SL_RECORDS(T, "train.groups", train.groups, sl_conf_check_group, "",
		"at most 8 groups of parameters with rules of their own: {match: [PATTERN, …], lr: FACTOR, weight_decay: NUMBER} each, or in one line \"*.bias weight_decay=0\"; the first group that matches a parameter takes it"),
	SL_RECORDS(T, "train.phases", train.phases, sl_conf_check_phase, "",
		"parts of the run, in place of train.epochs: {epochs: N, image: PIXELS, batch: N, chunks: N, lr: FACTOR} each; lr is a factor of the schedule's"),
	SL_CHOICE(T, "train.ends_precision", train.ends_precision, SL_WORDS("fp32", "bf16_factors"), "fp32",
		"precision of head and tail; bf16_factors as in train.precision, if this CPU supports it (AVX512_BF16)"),
	SL_CHOICE(T, "train.on_nan", train.on_nan, SL_WORDS("stop", "skip"), "stop",
		"a step with NaN or Inf is not applied: stop with status 65, or skip it"),

	SL_INT(T, "generate.max_tokens", generate.max_tokens, 1, 65535, "64", "tokens", "most tokens of a text after its prompt; model.tokens bounds both together"),
	SL_DOUBLE(T, "generate.temperature", generate.temperature, 0, 100, "0", "0: the likeliest token", "logits are divided by it before a token is drawn"),
	SL_INT(T, "generate.top_k", generate.top_k, 0, 1 << 22, "0", "tokens; 0: all", "draw among so many of the likeliest tokens"),
	SL_DOUBLE(T, "generate.top_p", generate.top_p, 1e-6, 1, "1", NULL, "of these, draw among the fewest whose probabilities come to so much"),
	SL_DOUBLE(T, "generate.repetition_penalty", generate.penalty, 0.01, 100, "1", "1: none", "logits of tokens that prompt and text have are divided by it where above 0, else multiplied"),
	SL_INT64(T, "generate.seed", generate.seed, 0, 0x1p53, "0", NULL, "the same seed draws the same texts"),
	SL_BOOL(T, "generate.cache", generate.cache, "true", "both sides keep keys and values, so that a new token crosses alone; false: each pass has the complete text"),

	SL_DOUBLE(T, "noise.head_act", noise.head_act, 0, 1e6, "0", "0: none", "deviation of normal noise on the head's activations, as a multiple of each sample's root mean square"),
	SL_DOUBLE(T, "noise.mid_grad", noise.mid_grad, 0, 1e6, "0", "0: none", "the same on mid_grad; not on gradients of shared heads and tails"),
	SL_STRING(T, "noise.key", noise.key, NULL, "", "key file of splitc keygen that the noise is drawn from; the server must not know it"),

	SL_AGREED_CODEC(AGREED)
	SL_AGREED_END_CODEC(AGREED)

	SL_AGREED_SHARE(AGREED)
	SL_AGREED_ROUNDS(AGREED)
	SL_AGREED_ROLE(AGREED)
	SL_AGREED_EPOCH(AGREED)
	SL_STRING(T, "share.secret", share_secret, NULL, "", "key file of splitc keygen, the same at all members and not at the server: with it a member seals the head and tail that the server stores; vertical: with it names of rows are hashed"),
	SL_NAMES(T, "share.inputs", inputs, sl_conf_check_word, "", "vertical, where the network has several inputs: the name of the one that this member has, such as [image]; empty: none, of a member with labels"),
	SL_NAMES(T, "share.peers", peers, sl_conf_check_word, "", "vertical, for splitc align: the public keys of both members in their order, as files or as text: [a.pub, b.pub]; this member's own is that of auth.secret_key"),
	SL_NAMES(T, "share.batches", batches, sl_conf_check_batches, "",
		"serial, with data.partition: files: batches of an epoch of each member, such as [100, 30, 70]; empty: all have as many as this one"),

	SL_CHOICE(T, "align.pad", align.pad, SL_WORDS("false", "true"), "false", "splitc align: fill the list of rows up to a power of two, which hides how many there are from the other member and the server"),

	SL_BYTES(T, "link.part_bytes", link.part_bytes, 4096, 1 << 20, "1 MiB", "largest payload of one message"),
	SL_BYTES(T, "link.window_bytes", link.window_bytes, 4096, 0x1p34, "64 MiB", "credit: the most bytes in flight in one direction"),
	SL_INT(T, "link.heartbeat_ms", link.heartbeat_ms, 50, 60000, "1000", "ms", "interval of heartbeats, of this side's and of the server's"),
	SL_INT(T, "link.timeout_ms", link.timeout_ms, 100, 600000, "10000", "ms", "silence after which the server counts as lost"),
	SL_INT(T, "link.connect_timeout_ms", link.connect_timeout_ms, 100, 600000, "10000", "ms", "how long the client waits for the server at the start"),
	SL_INT(T, "link.stall_s", link.stall_s, 0, 604800, "1800", "s; 0: no limit", "how long the client waits for a server that answers but does not go on; a group's member then makes its link anew"),
	SL_CHOICE(T, "link.on_server_lost", link.on_server_lost, SL_WORDS("exit", "wait"), "exit",
		"when the server is lost: exit with status 69, or wait for it, which is the default of a group's member"),
	SL_INT(T, "link.retry_ms", link.retry_ms, 10, 32000, "1000", "ms", "pause before the first attempt to reconnect; it doubles up to 32 s"),

	SL_STRING(T, "auth.secret_key", auth.secret_key, NULL, "", "key file of this client, made by splitc keygen; empty: no encryption"),
	SL_STRING(T, "auth.server_key", auth.server_key, NULL, "", "the server's public key, or a file that holds it"),

	SL_INT(T, "threads", threads, 0, 256, "0", "0: all CPUs", "threads that compute"),
	SL_CHOICE(T, "recompute", recompute, SL_WORDS("auto", "on", "off"), "auto", "compute activations again before backward, on a CPU, to save memory; no bit changes; auto: where memory would not suffice"),
	SL_STRING(T, "device", device, sl_conf_check_client_device, "cpu", "where head and tail run: cpu"),
	SL_STRING(T, "log.dir", log.dir, NULL, "runs", "folder of the log, checkpoints and the trained model; empty: none of them is kept"),
	SL_CHOICE(T, "log.level", log.level, SL_WORDS("error", "warn", "info", "debug"), "info", "least severe lines that are logged to stderr"),
	SL_BOOL(T, "log.tensorboard", log.tensorboard, "false", "also write event files for TensorBoard to log.dir (tensorboard --logdir DIR)"),
	SL_INT(T, "watchdog_s", watchdog_s, 0, 86400, "300", "seconds; 0: never", "a task (a kernel, a file) that takes longer counts as hung: the client ends with status 75"),
	SL_INT(T, "drain_s", drain_s, 0, 3600, "10", "seconds", "time to end in good order after SIGTERM; a second SIGTERM ends the run at once"),
	SL_STRING(T, "control", control, NULL, "", "Unix socket for splitc status; empty: one named after log.dir, in $XDG_RUNTIME_DIR, /run/split, /run/user/UID or a folder split-UID of mode 0700"),
	SL_STRING(T, "metrics", metrics, sl_conf_check_metrics, "", "address of /metrics for Prometheus, such as 127.0.0.1:9570; whoever reaches it can read it; empty: none"),
	SL_NAMES(T, "metrics_hosts", metrics_hosts, sl_conf_check_word, "", "host names under which /metrics may be asked, besides localhost and addresses, such as [split.example.org]"),
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
			     "limits"),
	.spread = {"codec", "insert"},
	.not_spread = "codec.end_",
	.idle = sl_conf_client_idle,
	.finish = sl_conf_client_finish,
};
