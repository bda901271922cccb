/* How the keys of the client's config go together: which of them say nothing beside others, and what is refused. */
#include <string.h>

#include "common/conf/check.h"
#include "common/conf/row.h"

static const char *key_at(int i)
{
	return sl_conf_client_schema.key[i].path;
}

/* Where it was set: a line of the file, -1: by --set, 0: nowhere. */
static int line_of(const struct sl_conf_client *c, const char *path)
{
	for (int i = 0; i < sl_conf_client_schema.n_key; i++)
		if (strcmp(key_at(i), path) == 0)
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

bool sl_conf_client_idle(const void *conf, const char *path)
{
	const struct sl_conf_client *c = conf;

	return (c->train.phases.n && strcmp(path, "train.epochs") == 0) || idle_in_lora(c, path) ||
	       idle_in_head(c, path) || idle_in_schedule(c, path) || idle_in_data(c, path) ||
	       sl_agreed_is_idle(&c->agreed, path) || idle_in_model(c, path);
}

bool sl_conf_client_is_idle(const struct sl_conf_client *c, const char *path)
{
	return sl_conf_client_idle(c, path);
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
	for (int i = 0; i < sl_conf_client_schema.n_key; i++) {
		const int line = idle_in_lora(c, key_at(i)) ? c->origin.mark[i].line : 0;

		if (!line || (line > 0 && by_set))
			continue;
		snprintf(why, SL_CONF_WHY, "needs lora.rank");
		return key_at(i);
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

	for (int i = 0; i < sl_conf_client_schema.n_key; i++) {
		const bool idle_here = sl_agreed_is_idle(&c->agreed, key_at(i)) && !sl_agreed_is_share(key_at(i));
		const int line = idle_here ? c->origin.mark[i].line : 0;

		if (line > 0 && by_set) {
			if (line_of(c, "train.optimizer.lr") > 0)
				lr_is = "the file's";
		} else if (line) {
			snprintf(why, SL_CONF_WHY, "%s does not have this key: it belongs to %s", kind,
				 sgd ? "adam and adamw" : "sgd");
			return key_at(i);
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

		if (!line || !sl_conf_client_idle(c, of_schedule[i].path) || (line > 0 && by_set))
			continue;
		snprintf(why, SL_CONF_WHY, "belongs to train.schedule.kind: %s; leave this key out",
			 of_schedule[i].kind == SL_CONF_STEP ? "step" : "points");
		return of_schedule[i].path;
	}
	for (const char *const *key = not_of_points; *key; key++) {
		const int line = line_of(c, *key);

		if (!line || !sl_conf_client_idle(c, *key) || (line > 0 && by_set))
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
	for (int i = 0; i < sl_conf_client_schema.n_key; i++)
		if (!c->agreed.share.group[0] && sl_agreed_is_share(key_at(i)) && c->origin.mark[i].line) {
			snprintf(why, SL_CONF_WHY, "needs the name of a group in share.group");
			return key_at(i);
		}
	if (!c->agreed.share.group[0] && strcmp(c->data.partition, "files") != 0) {
		snprintf(why, SL_CONF_WHY, "belongs to a group: it needs a name in share.group");
		return "data.partition";
	}
	for (int i = 0; i < sl_conf_client_schema.n_key; i++) {
		const char *mode = sl_agreed_other_mode(&c->agreed, key_at(i));

		if (!c->agreed.share.group[0] || !mode || !c->origin.mark[i].line)
			continue;
		snprintf(why, SL_CONF_WHY, "belongs to share.mode: %s; this group's is %s: leave this key out", mode,
			 sl_agreed_modes[c->agreed.share.mode]);
		return key_at(i);
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
	if (masked && c->agreed.chunk_sums) {
		snprintf(
			why, SL_CONF_WHY,
			"does not hold for a masked language model, whose table of tokens has a gradient from head and "
			"tail: leave it at false");
		return "train.chunk_sums";
	}
	if (masked && c->agreed.share.group[0]) {
		snprintf(why, SL_CONF_WHY, "a group cannot train a masked language model");
		return "share.group";
	}
	return NULL;
}

const char *sl_conf_client_finish(void *conf, char why[SL_CONF_WHY])
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
